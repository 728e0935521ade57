//! Deficit round robin.
//!
//! A backlogged queue gets its quantum Q = weight · L when its turn comes, and sends while its
//! deficit covers the packet at its head. L is the port's largest packet, so that every turn
//! sends at least one packet. With F = ΣQ over the backlogged queues: rate Q/F · C, latency
//! (3F − 2Q)/C (Stiliadis and Varma) or [(F−Q)(1+Lᵢ/Q) + Σ_{j≠i} Lⱼ]/C (Boyer et al., 2012,
//! tighter). Over any backlogged interval two queues differ by at most
//! Qᵢ/Qⱼ-weighted service of one quantum and a packet each. Cost: O(1). Source: Shreedhar and
//! Varghese, "Efficient fair queuing using deficit round-robin" (1995). Reads `weight`.

use towpath_wire::Instant;

use super::contract::{ConfigError, Packet, PortConfig, QueueConfig, within};
use super::port::Policy;
use super::store::{NONE, Table};

/// A queue's turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    quantum: u32,
    deficit: u32,
    /// Behind it in the ring.
    next: u32,
}

/// Deficit round robin. Invariant: exactly the queues with packets are in the ring.
#[derive(Clone, Debug)]
pub struct Drr {
    /// Last of the ring; its `next` is first.
    tail: u32,
    /// The queue that left the ring with the last packet, and what was left of its turn.
    left: Option<(u32, u32)>,
}

impl Policy for Drr {
    type State = Turn;

    fn new(_: &PortConfig) -> Result<Self, ConfigError> {
        Ok(Self { tail: NONE, left: None })
    }

    fn configure(
        &mut self,
        table: &mut Table<Turn>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        let largest = u64::from(table.port().packet_bytes_max);
        let quantum = u64::from(config.weight) * largest;
        // A deficit stays below a quantum and a packet.
        within("quantum_bytes", quantum, 1, u64::from(u32::MAX) / 2)?;
        table.state(queue).quantum = quantum as u32;
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<Turn>, _: Instant, packet: &Packet) {
        if table.push_plain(packet) {
            let queue = packet.queue.0;
            let state = table.state(queue);
            state.deficit = 0;
            if self.tail == NONE {
                state.next = queue;
                state.deficit = state.quantum;
            } else {
                let tail = table.state(self.tail);
                let first = tail.next;
                tail.next = queue;
                table.state(queue).next = first;
            }
            self.tail = queue;
        }
    }

    /// The queue had not left: its turn goes on. The order is that of full queues.
    fn follow(&mut self, table: &mut Table<Turn>, (_, now): (Instant, Instant), packet: &Packet) {
        let queue = packet.queue.0;
        let Some((_, deficit)) = self.left.take().filter(|(left, _)| *left == queue) else {
            return self.enqueue(table, now, packet);
        };
        table.push_plain(packet);
        if self.tail == NONE {
            self.tail = queue;
            table.state(queue).next = queue;
        } else {
            let first = table.peek_state(self.tail).next;
            // Its turn has not begun.
            let turn = table.state(first);
            turn.deficit -= turn.quantum;
            table.state(queue).next = first;
            table.state(self.tail).next = queue;
        }
        table.state(queue).deficit = deficit;
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<Turn>, _: Instant) -> Option<Packet> {
        self.left = None;
        if self.tail == NONE {
            return None;
        }
        let mut queue = table.peek_state(self.tail).next;
        loop {
            let (_, bytes) = table.head(queue)?;
            let state = table.state(queue);
            if state.deficit >= bytes {
                state.deficit -= bytes;
                break;
            }
            // Its turn is over: what is left stays for the next one.
            self.tail = queue;
            queue = state.next;
            let first = table.state(queue);
            first.deficit += first.quantum;
        }
        let (packet, emptied) = table.pop_plain(queue)?;
        if emptied {
            self.left = Some((queue, table.peek_state(queue).deficit));
            self.leave(table, queue);
        }
        Some(packet)
    }
}

impl Drr {
    /// Takes the first of the ring out; the turn goes to the one behind it.
    #[inline]
    fn leave(&mut self, table: &mut Table<Turn>, queue: u32) {
        let next = table.peek_state(queue).next;
        if next == queue {
            self.tail = NONE;
            return;
        }
        table.state(self.tail).next = next;
        let first = table.state(next);
        first.deficit += first.quantum;
    }
}
