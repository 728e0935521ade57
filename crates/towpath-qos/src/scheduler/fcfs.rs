//! First come, first served.
//!
//! One queue for everything. Bound: D ≤ Σb / C for sources within (b, r), Σr ≤ C; a greedy
//! source hurts all. Cost: O(1). Source: folklore; bound by Cruz, "A calculus for network delay,
//! part I" (1991). Reads no field of a queue but its limits.

use towpath_wire::Instant;

use super::contract::{ConfigError, Packet, PortConfig, QueueConfig};
use super::port::Policy;
use super::store::{List, Table};

/// First come, first served.
#[derive(Clone, Debug, Default)]
pub struct Fcfs {
    waiting: List,
}

impl Policy for Fcfs {
    type State = ();

    fn new(_: &PortConfig) -> Result<Self, ConfigError> {
        Ok(Self::default())
    }

    fn configure(&mut self, _: &mut Table<()>, _: u32, _: &QueueConfig) -> Result<(), ConfigError> {
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<()>, _: Instant, packet: &Packet) {
        table.append(&mut self.waiting, packet, u64::from(packet.queue.0));
        table.count_in(packet);
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<()>, _: Instant) -> Option<Packet> {
        table.take(&mut self.waiting)
    }
}
