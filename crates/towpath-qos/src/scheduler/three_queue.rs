//! The three-queue form of EDF: deterministic before statistical before best effort.
//!
//! Deterministic and statistical packets each in order of deadline, best effort first come, first
//! served; a less demanding kind sends only when no more demanding packet waits. So the EDF test
//! of the deterministic queues needs to know of the others one largest packet (the last term
//! max s), and statistical queues have what those leave. A late statistical packet is sent all
//! the same, with a negative `slack_ns`: dropping it is its owner's decision. Bound: d for
//! deterministic queues under the test of [`Edf`](super::Edf); for the others none here. Cost:
//! O(log V). Source: Ferrari and Verma, "A scheme for real-time channel establishment in
//! wide-area networks" (1990); there a statistical packet may pass a deterministic one whose
//! deadline allows, which the test does not need. Reads `service`, `rate`, `burst`, `delay`.

use towpath_wire::Instant;
use towpath_wire::units::nanos;

use super::clock::TokenClock;
use super::contract::{ConfigError, DELAY_MAX, Packet, PortConfig, QueueConfig, Service, within};
use super::edf::slack;
use super::fixed::cost_per_byte;
use super::heap::Heap;
use super::port::Policy;
use super::store::{List, Table};

/// What a queue was promised.
#[derive(Clone, Copy, Debug, Default)]
pub struct Promise {
    delay_ns: u32,
    service: Service,
}

/// Deterministic, statistical and best effort.
#[derive(Clone, Debug)]
pub struct ThreeQueue {
    deterministic: Heap,
    statistical: Heap,
    best_effort: List,
    cost: u64,
}

impl Policy for ThreeQueue {
    type State = TokenClock<Promise>;

    fn new(port: &PortConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            deterministic: Heap::default(),
            statistical: Heap::default(),
            best_effort: List::default(),
            cost: cost_per_byte(port.rate)?,
        })
    }

    fn configure(
        &mut self,
        table: &mut Table<Self::State>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        within("delay_ns", nanos(config.delay), 1, nanos(DELAY_MAX))?;
        let waiting = table.queues[queue as usize].fifo.packets;
        let state = table.state(queue);
        if waiting > 0 && state.beside.service != config.service {
            return Err(ConfigError::Busy {
                queue: super::QueueId(queue),
                packets: waiting,
                children: 0,
            });
        }
        state.configure(config)?;
        state.beside = Promise { delay_ns: nanos(config.delay) as u32, service: config.service };
        self.deterministic.reserve(table.queues_len());
        self.statistical.reserve(table.queues_len());
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<Self::State>, now: Instant, packet: &Packet) {
        let state = table.state(packet.queue.0);
        let order = match state.beside.service {
            Service::Deterministic => &mut self.deterministic,
            Service::Statistical => &mut self.statistical,
            Service::BestEffort => {
                table.append(&mut self.best_effort, packet, u64::from(packet.queue.0));
                table.count_in(packet);
                return;
            }
        };
        let expected = state.conforming(now, packet.bytes).as_nanos();
        let deadline = expected.saturating_add(u64::from(state.beside.delay_ns));
        if table.push(packet, deadline) {
            order.push(deadline, packet.queue.0);
        }
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<Self::State>, now: Instant) -> Option<Packet> {
        let order = if !self.deterministic.is_empty() {
            &mut self.deterministic
        } else if !self.statistical.is_empty() {
            &mut self.statistical
        } else {
            return table.take(&mut self.best_effort);
        };
        let (deadline, packet) = super::virtual_clock::take_first(order, table)?;
        Some(Packet { slack_ns: slack(deadline, now, packet.bytes, self.cost), ..packet })
    }
}
