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

    /// A queue has another level: its packets go to the end of that, so that those behind them do
    /// not pass them.
    pub(super) fn change<S: Copy + Default>(
        &mut self,
        table: &mut Table<S>,
        queue: u32,
        [from, to]: [u8; 2],
    ) {
        if from == to || table.queues[queue as usize].fifo.packets == 0 {
            return;
        }
        let mut left = self.lists[usize::from(from)];
        table.move_queue(queue, &mut left, &mut self.lists[usize::from(to)]);
        self.lists[usize::from(from)] = left;
        for level in [from, to] {
            let is_busy = !self.lists[usize::from(level)].is_empty();
            self.busy = self.busy & !(1 << level) | u64::from(is_busy) << level;
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
        let was = core::mem::replace(table.state(queue), config.priority);
        self.levels.change(table, queue, [was, config.priority]);
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

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    use crate::scheduler::{Discipline, Packet, PortConfig, QueueConfig, QueueId, Scheduler};
    use towpath_wire::{Instant, Rate};

    const ONE: QueueId = QueueId(1);
    const TWO: QueueId = QueueId(2);
    /// No packet is held.
    const LATER: Instant = Instant::from_nanos(1 << 40);

    fn with_priority(priority: u8) -> QueueConfig {
        QueueConfig { rate: Rate::from_mbps(10), priority, ..QueueConfig::default() }
    }

    fn enqueue(port: &mut Box<dyn Scheduler>, queue: QueueId, tag: u64) {
        port.enqueue(Instant::ZERO, Packet::new(queue, 100, tag)).unwrap();
    }

    /// Found by fuzzing: those behind passed those that were in the old level already.
    #[test]
    fn a_queue_that_becomes_more_urgent_keeps_the_order_of_its_packets() {
        for discipline in [Discipline::StaticPriority, Discipline::Rcsp] {
            let rate = Rate::from_mbps(1000);
            let mut port = discipline.build(&PortConfig { rate, ..PortConfig::default() }).unwrap();
            for queue in [ONE, TWO] {
                port.add_queue(queue, &with_priority(2)).unwrap();
            }
            for (queue, tag) in [(ONE, 0), (TWO, 10), (ONE, 1), (TWO, 11)] {
                enqueue(&mut port, queue, tag);
            }
            port.reconfigure(TWO, &with_priority(1)).unwrap();
            enqueue(&mut port, TWO, 12);
            let sent = core::iter::from_fn(|| port.dequeue(LATER).map(|packet| packet.tag));
            assert_eq!(sent.collect::<Vec<_>>(), [10, 11, 12, 0, 1], "{discipline:?}");
            assert_eq!(port.backlog().packets, 0);
        }
    }
}
