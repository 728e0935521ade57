//! Worst-case fair weighted fair queuing, WF²Q+.
//!
//! Of the queues whose head has started in the fluid system (S ≤ V), the one with the least
//! finish time goes first; V ← max(V + work, least S of the backlogged). A head starts at the
//! finish of the packet before it, or, into an empty queue, at max(V, that). Bound for (b, r),
//! Σr ≤ C: b/r + L/C; and worst-case fair: a queue is never ahead of its fluid share by more than
//! a packet either. Where the rates sum to more than C, they are weights. Cost: O(log V), two
//! heaps. Source: Bennett and Zhang, "Hierarchical packet fair queueing algorithms" (1997),
//! eqs. 27–29. Reads `rate`.

use towpath_wire::{Instant, Rate};

use super::contract::{ConfigError, Packet, PortConfig, QueueConfig, RATE_MAX};
use super::fixed::{Fine, Ratio, cost_per_byte, precedes};
use super::heap::Heap;
use super::port::Policy;
use super::store::Table;
use super::virtual_clock::Clock;

/// WF²Q+. Invariant: each queue with packets is in exactly one heap.
#[derive(Clone, Debug)]
pub struct Wf2q {
    /// By start time, not started when last looked.
    waiting: Heap,
    /// By finish time, started.
    started: Heap,
    /// Virtual time when the packet in service began.
    v: Fine,
    /// When it began, and the time and virtual time it takes.
    began: Fine,
    takes: Fine,
    work: Fine,
    link: Rate,
    rate_sum: u128,
    /// Link time per byte; virtual time per byte; their ratio.
    cost: u64,
    work_cost: u64,
    slope: Ratio,
}

impl Wf2q {
    fn set_sum(&mut self, rate_sum: u128) {
        self.rate_sum = rate_sum;
        let most = rate_sum.min(u128::from(RATE_MAX.as_bps())) as u64;
        let sum = most.max(self.link.as_bps());
        self.work_cost = cost_per_byte(Rate::from_bps(sum)).unwrap_or(self.cost);
        self.slope = Ratio::new(self.link.as_bps(), sum);
    }

    /// V now, within the packet in service.
    #[inline]
    fn now(&self, now: Instant) -> Fine {
        let passed = Fine(Fine::from_instant(now).0.saturating_sub(self.began.0));
        let work = if passed >= self.takes { self.work } else { self.slope.of(passed) };
        Fine(self.v.0 + work.0)
    }

    #[inline]
    fn file(&mut self, start: Fine, finish: u64, queue: u32) {
        if precedes(self.v.key(), start.key()) {
            self.waiting.push(start.key(), queue);
        } else {
            self.started.push(finish, queue);
        }
    }
}

impl Policy for Wf2q {
    type State = Clock;

    fn new(port: &PortConfig) -> Result<Self, ConfigError> {
        let cost = cost_per_byte(port.rate)?;
        Ok(Self {
            waiting: Heap::default(),
            started: Heap::default(),
            v: Fine::default(),
            began: Fine::default(),
            takes: Fine::default(),
            work: Fine::default(),
            link: port.rate,
            rate_sum: 0,
            cost,
            work_cost: cost,
            slope: Ratio::new(1, 1),
        })
    }

    fn configure(
        &mut self,
        table: &mut Table<Clock>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        let cost = cost_per_byte(config.rate)?;
        let state = table.state(queue);
        state.cost = cost;
        let old = core::mem::replace(&mut state.rate_bps, config.rate.as_bps());
        self.set_sum(self.rate_sum - u128::from(old) + u128::from(config.rate.as_bps()));
        self.waiting.reserve(table.queues_len());
        self.started.reserve(table.queues_len());
        Ok(())
    }

    fn remove(&mut self, table: &mut Table<Clock>, queue: u32) {
        self.set_sum(self.rate_sum - u128::from(table.peek_state(queue).rate_bps));
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<Clock>, now: Instant, packet: &Packet) {
        if table.push(packet, u64::from(packet.bytes)) {
            let v = self.now(now);
            let clock = table.state(packet.queue.0);
            let start = clock.at.max(v);
            let finish = clock.run(v, packet.bytes);
            self.file(start, finish, packet.queue.0);
        }
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<Clock>, now: Instant) -> Option<Packet> {
        self.v = self.now(now);
        self.work = Fine::default();
        self.takes = Fine::default();
        if self.started.is_empty() {
            let first = self.waiting.peek()?;
            if precedes(self.v.key(), first.key) {
                self.v = self.v.at_key(first.key);
            }
        }
        while let Some(first) = self.waiting.peek() {
            if precedes(self.v.key(), first.key) {
                break;
            }
            self.waiting.pop();
            self.started.push(table.peek_state(first.queue).at.key(), first.queue);
        }
        let queue = self.started.peek()?.queue;
        let popped = table.pop(queue)?;
        if let Some(bytes) = popped.next {
            let clock = table.state(queue);
            let start = clock.at;
            let finish = clock.run(start, bytes as u32);
            if precedes(self.v.key(), start.key()) {
                self.started.pop();
                self.waiting.push(start.key(), queue);
            } else {
                self.started.replace(finish, queue);
            }
        } else {
            self.started.pop();
        }
        self.began = Fine::from_instant(now);
        self.takes = Fine::default().after(popped.packet.bytes, self.cost);
        self.work = Fine::default().after(popped.packet.bytes, self.work_cost);
        Some(popped.packet)
    }
}
