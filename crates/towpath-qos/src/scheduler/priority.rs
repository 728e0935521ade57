//! Static priority, non-preemptive.
//!
//! The most urgent priority that has a packet goes first; first come, first served within it, as
//! the queues of an 802.1p switch do. Bound for priority p, 0 most urgent:
//! D ≤ (Σ_{q≤p} b + L) / (C − Σ_{q<p} r); a less urgent priority starves behind a greedy one.
//! Cost: O(1), one find-first-set. Source: Cruz (1991), static priority multiplexer. Reads
//! `priority`.

use towpath_wire::Instant;

use super::contract::{ConfigError, PRIORITIES, Packet, PortConfig, QueueConfig};
use super::port::Policy;
use super::store::{List, Table};

/// Lists of packets by priority, with a bit for each that is not empty.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    busy: u64,
    lists: [List; PRIORITIES as usize],
}

impl Default for Levels {
    fn default() -> Self {
        Self { busy: 0, lists: [List::default(); PRIORITIES as usize] }
    }
}

impl Levels {
    /// Whether no level has a packet.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.busy == 0
    }

    /// Appends an arriving packet and counts it.
    #[inline]
    fn append<S: Copy + Default>(&mut self, table: &mut Table<S>, level: u8, packet: &Packet) {
        let list = &mut self.lists[usize::from(level)];
        if table.append(list, packet, u64::from(packet.queue.0)) {
            self.busy |= 1 << level;
        }
        table.count_in(packet);
    }

    /// Appends the first packet of a queue's own list.
    #[inline]
    pub(super) fn promote<S: Copy + Default>(
        &mut self,
        table: &mut Table<S>,
        level: u8,
        queue: u32,
    ) {
        if table.promote(queue, &mut self.lists[usize::from(level)]) {
            self.busy |= 1 << level;
        }
    }

    /// Takes the first packet of the most urgent level.
    #[inline]
    pub(super) fn take<S: Copy + Default>(&mut self, table: &mut Table<S>) -> Option<Packet> {
        let level = self.busy.trailing_zeros();
        let list = self.lists.get_mut(level as usize)?;
        let packet = table.take(list);
        if list.is_empty() {
            self.busy &= !(1 << level);
        }
        packet
    }
}

/// Static priority.
#[derive(Clone, Debug, Default)]
pub struct StaticPriority {
    levels: Levels,
}

impl Policy for StaticPriority {
    /// The queue's priority.
    type State = u8;

    fn new(_: &PortConfig) -> Result<Self, ConfigError> {
        Ok(Self::default())
    }

    fn configure(
        &mut self,
        table: &mut Table<u8>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        *table.state(queue) = config.priority;
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<u8>, _: Instant, packet: &Packet) {
        let level = *table.peek_state(packet.queue.0);
        self.levels.append(table, level, packet);
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<u8>, _: Instant) -> Option<Packet> {
        self.levels.take(table)
    }
}
