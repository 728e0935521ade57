//! Class-based queuing as the second source built it (Cui 1999, chapters II and IV).
//!
//! A queue per channel, whose limit comes from admission; priority classes served in round robin,
//! channels of a class in the order in which they became backlogged, each for a quota of link
//! time that follows from its percentage of the bandwidth; a full queue blocks its sender
//! ([`Refused::Full`](super::Refused::Full), then [`room`](super::Scheduler::room)). A round
//! serves every backlogged channel once. The source does not say how long a round is: here the
//! least reserved rate may send one largest packet L in it, so the quota is `L · r / r_min`; what a
//! quota leaves unused carries over while packets wait, an overdraft is not made, and the next
//! round begins when all quotas are spent, so that unused percentages go to whoever waits.
//!
//! Bound: none, as the source found; a channel may wait for a round, Σ quotas / C. Shares: each
//! gets its quota per round, less than a packet off. Cost: O(1). Reads `rate`, `priority`.

use towpath_wire::Instant;

use super::contract::{
    ConfigError, PRIORITIES, Packet, PortConfig, QueueConfig, RATE_MAX, RATE_MIN, within,
};
use super::port::Policy;
use super::store::{NONE, Table};

/// A channel's share and what it may still send in this round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quota {
    rate_bps: u64,
    credit_bytes: u64,
    /// Behind it in its class.
    next: u32,
    priority: u8,
}

/// Channels of each class in the order of their turns. Invariant: a bit is set iff its class has
/// one.
#[derive(Clone, Debug)]
struct Turns {
    busy: u64,
    /// First and last.
    ends: [(u32, u32); PRIORITIES as usize],
}

impl Turns {
    const fn new() -> Self {
        Self { busy: 0, ends: [(NONE, NONE); PRIORITIES as usize] }
    }

    #[inline]
    fn push(&mut self, table: &mut Table<Quota>, queue: u32) {
        let class = table.peek_state(queue).priority;
        let (first, last) = &mut self.ends[usize::from(class)];
        if self.busy >> class & 1 == 0 {
            self.busy |= 1 << class;
            *first = queue;
        } else {
            table.state(*last).next = queue;
        }
        *last = queue;
    }

    /// Takes the first of a class that has one.
    #[inline]
    fn pop(&mut self, table: &Table<Quota>, class: u8) {
        let (first, last) = &mut self.ends[usize::from(class)];
        if first == last {
            self.busy &= !(1 << class);
        } else {
            *first = table.peek_state(*first).next;
        }
    }
}

/// The source's class-based queuing. Invariant: exactly the channels with packets are in one of
/// the two, those in `later` have had their turn in this round.
#[derive(Clone, Debug)]
pub struct CbqSource {
    current: Turns,
    later: Turns,
    /// Least rate of any channel so far.
    rate_min_bps: u64,
}

impl CbqSource {
    /// Gives a channel its quota as its turn comes.
    #[inline]
    fn begin_turn(&self, table: &mut Table<Quota>, queue: u32) {
        let largest = u64::from(table.port().packet_bytes_max);
        let state = table.state(queue);
        state.credit_bytes += largest * state.rate_bps / self.rate_min_bps;
    }

    /// First of this round, or of the next one.
    #[inline]
    fn first(&mut self) -> Option<(u8, u32)> {
        if self.current.busy == 0 {
            core::mem::swap(&mut self.current, &mut self.later);
        }
        let class = self.current.busy.trailing_zeros() as u8;
        self.current.ends.get(usize::from(class)).map(|(first, _)| (class, *first))
    }
}

impl Policy for CbqSource {
    type State = Quota;

    fn new(_: &PortConfig) -> Result<Self, ConfigError> {
        Ok(Self { current: Turns::new(), later: Turns::new(), rate_min_bps: u64::MAX })
    }

    fn configure(
        &mut self,
        table: &mut Table<Quota>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        within("rate_bps", config.rate.as_bps(), RATE_MIN.as_bps(), RATE_MAX.as_bps())?;
        let state = table.state(queue);
        state.rate_bps = config.rate.as_bps();
        state.priority = config.priority;
        self.rate_min_bps = self.rate_min_bps.min(state.rate_bps);
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<Quota>, _: Instant, packet: &Packet) {
        if table.push_plain(packet) {
            let queue = packet.queue.0;
            let state = table.state(queue);
            state.credit_bytes = 0;
            self.begin_turn(table, queue);
            self.later.push(table, queue);
        }
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<Quota>, _: Instant) -> Option<Packet> {
        loop {
            let (class, queue) = self.first()?;
            let (_, bytes) = table.head(queue)?;
            let state = table.state(queue);
            if state.credit_bytes >= u64::from(bytes) {
                state.credit_bytes -= u64::from(bytes);
                let (packet, emptied) = table.pop_plain(queue)?;
                if emptied {
                    self.current.pop(table, class);
                }
                return Some(packet);
            }
            self.current.pop(table, class);
            self.begin_turn(table, queue);
            self.later.push(table, queue);
        }
    }
}
