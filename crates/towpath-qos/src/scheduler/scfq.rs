//! Self-clocked fair queuing.
//!
//! Virtual time is the finish time of the packet in service; a packet's finish time is
//! max(virtual time, the queue's last finish) + S/r; the least goes first. Over any interval in
//! which both are backlogged, |Wᵢ/rᵢ − Wⱼ/rⱼ| ≤ Lᵢ/rᵢ + Lⱼ/rⱼ. Latency Lᵢ/rᵢ + (V−1)·L/C, so
//! bound b/r + that for Σr ≤ C: it grows with the number of queues. Cost: O(log V). Source:
//! Golestani, "A self-clocked fair queueing scheme for broadband applications" (1994). Reads
//! `rate`.

use towpath_wire::Instant;

use super::contract::{ConfigError, Packet, PortConfig, QueueConfig};
use super::fixed::{Fine, cost_per_byte};
use super::heap::Heap;
use super::port::Policy;
use super::store::Table;
use super::virtual_clock::{Clock, take_first};

/// Self-clocked fair queuing. Invariants: exactly the queues with packets are in `order`, by the
/// finish time at their head; none precedes `time`.
#[derive(Clone, Debug)]
pub struct Scfq {
    order: Heap,
    /// Virtual time. It need not start again when the port runs empty: then no queue's last
    /// finish is beyond it.
    time: Fine,
}

impl Policy for Scfq {
    type State = Clock;

    fn new(_: &PortConfig) -> Result<Self, ConfigError> {
        Ok(Self { order: Heap::default(), time: Fine::default() })
    }

    fn configure(
        &mut self,
        table: &mut Table<Clock>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        table.state(queue).cost = cost_per_byte(config.rate)?;
        self.order.reserve(table.queues_len());
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<Clock>, _: Instant, packet: &Packet) {
        let queue = packet.queue.0;
        let key = table.state(queue).run(self.time, packet.bytes);
        if table.push(packet, key) {
            self.order.push(key, queue);
        }
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<Clock>, _: Instant) -> Option<Packet> {
        let (finish, packet) = take_first(&mut self.order, table)?;
        self.time = self.time.at_key(finish);
        Some(packet)
    }
}
