//! The replay.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use towpath_wire::Instant;

use super::fault::ReplayError;
use super::network::JobNetwork;
use super::outcome::{Outcome, RankOutcome};
use super::program::{Action, Program};
use super::record::{RANKS_MAX, Record};
use super::wire::{FrameEvent, Message, Wire};
use crate::kernel::Kernel;

/// Frames of a replay at most; fewer than events can be pending.
pub const FRAMES_MAX: u64 = 8_000_000;
/// Bytes of all messages under way at most: what a link's queue holds.
const BYTES_MAX: u64 = 1 << 32;
/// Recorded work, on the processors of the network, takes at most so long: 30 years.
const WORK_NS_MAX: f64 = 1e18;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A rank's processor has done what it did.
    Done(usize),
    Frame(FrameEvent),
}

/// One rank and its processor.
#[derive(Default)]
struct Host {
    outcome: RankOutcome,
    /// What leaves once its overhead is spent.
    leaves: Option<Message>,
    /// What it waits for, and since when.
    waits: Option<(usize, u64, Instant)>,
    /// Lengths of messages that have arrived, by sender and key, in order.
    arrived: BTreeMap<(usize, u64), VecDeque<u64>>,
}

struct Replay<'a> {
    network: &'a JobNetwork,
    program: Program<'a>,
    kernel: Kernel<Event>,
    wire: Wire,
    hosts: Vec<Host>,
    bytes: u64,
}

/// Runs a record over a network, in virtual time: the same for the same two, always.
///
/// # Errors
/// Ranks that differ in collectives, a message that never comes, and more than a replay may hold.
pub fn replay(record: &Record, network: &JobNetwork) -> Result<Outcome, ReplayError> {
    let size = record.ranks.len();
    if size == 0 || size > RANKS_MAX {
        return Err(ReplayError::TooMuch { what: "ranks", limit: RANKS_MAX as u64 });
    }
    if record.work_ns() as f64 * network.slower() > WORK_NS_MAX {
        let limit = WORK_NS_MAX as u64;
        return Err(ReplayError::TooMuch { what: "nanoseconds of work", limit });
    }
    let mut replay = Replay {
        network,
        program: Program::new(record, network.collectives)?,
        kernel: Kernel::new(),
        wire: Wire::new(network, size),
        hosts: std::iter::repeat_with(Host::default).take(size).collect(),
        bytes: 0,
    };
    for rank in 0..size {
        replay.kernel.schedule(Instant::ZERO, Event::Done(rank));
    }
    replay.run()?;
    Ok(replay.outcome(&record.application))
}

impl Replay<'_> {
    fn run(&mut self) -> Result<(), ReplayError> {
        while let Some((now, event)) = self.kernel.pop() {
            match event {
                Event::Done(rank) => self.go_on(now, rank)?,
                Event::Frame(event) => {
                    let kernel = &mut self.kernel;
                    let schedule = |at, event| {
                        kernel.schedule(at, Event::Frame(event));
                    };
                    if let Some(message) = self.wire.handle(now, event, schedule) {
                        self.deliver(now, message);
                    }
                }
            }
            if self.wire.frames > FRAMES_MAX {
                return Err(ReplayError::TooMuch { what: "frames", limit: FRAMES_MAX });
            }
        }
        let waits = |(rank, host): (usize, &Host)| host.waits.map(|(from, ..)| (rank, from));
        match self.hosts.iter().enumerate().find_map(waits) {
            None => Ok(()),
            Some((rank, from)) => {
                Err(ReplayError::Never { line: self.program.line(rank), rank, from })
            }
        }
    }

    /// A rank's processor is free.
    fn go_on(&mut self, now: Instant, rank: usize) -> Result<(), ReplayError> {
        if let Some(message) = self.hosts[rank].leaves.take() {
            self.post(now, message)?;
        }
        let Some(action) = self.program.next(rank) else {
            self.hosts[rank].outcome.end_ns = now.as_nanos();
            return Ok(());
        };
        match action {
            Action::Work(ns) => {
                let ns = (ns as f64 * self.network.slower()).round() as u64;
                self.hosts[rank].outcome.busy_ns += ns;
                self.spend(now, rank, ns);
            }
            Action::Send { to, key, bytes } => {
                let host = &mut self.hosts[rank];
                host.leaves = Some(Message { from: rank, to, key, bytes });
                host.outcome.messages_sent += 1;
                host.outcome.bytes_sent += bytes;
                let ns = self.network.processor.send_ns(bytes);
                host.outcome.overhead_ns += ns;
                self.spend(now, rank, ns);
            }
            Action::Receive { from, key } => {
                self.hosts[rank].waits = Some((from, key, now));
                self.take(now, rank);
            }
        }
        Ok(())
    }

    fn spend(&mut self, now: Instant, rank: usize, ns: u64) {
        self.kernel.schedule(now + Duration::from_nanos(ns), Event::Done(rank));
    }

    fn post(&mut self, now: Instant, message: Message) -> Result<(), ReplayError> {
        self.bytes += message.bytes;
        if self.bytes > BYTES_MAX {
            return Err(ReplayError::TooMuch { what: "bytes of messages", limit: BYTES_MAX });
        }
        if message.to == message.from {
            self.deliver(now, message);
            return Ok(());
        }
        let kernel = &mut self.kernel;
        let schedule = |at, event| {
            kernel.schedule(at, Event::Frame(event));
        };
        self.wire.send(now, message, schedule);
        Ok(())
    }

    fn deliver(&mut self, now: Instant, message: Message) {
        let host = &mut self.hosts[message.to];
        let queue = host.arrived.entry((message.from, message.key)).or_default();
        queue.push_back(message.bytes);
        self.take(now, message.to);
    }

    /// Takes what a rank waits for, if it is there.
    fn take(&mut self, now: Instant, rank: usize) {
        let host = &mut self.hosts[rank];
        let Some((from, key, since)) = host.waits else { return };
        let Some(queue) = host.arrived.get_mut(&(from, key)) else { return };
        let Some(bytes) = queue.pop_front() else { return };
        if queue.is_empty() {
            host.arrived.remove(&(from, key));
        }
        host.waits = None;
        let ns = self.network.processor.receive_ns(bytes);
        host.outcome.waiting_ns += now.as_nanos() - since.as_nanos();
        host.outcome.overhead_ns += ns;
        host.outcome.messages_received += 1;
        host.outcome.bytes_received += bytes;
        self.spend(now, rank, ns);
    }

    fn outcome(self, application: &str) -> Outcome {
        let held = |host: &Host| host.arrived.values().map(|queue| queue.len() as u64).sum::<u64>();
        let ranks: Vec<RankOutcome> = self.hosts.iter().map(|host| host.outcome).collect();
        Outcome {
            application: application.to_owned(),
            makespan_ns: ranks.iter().map(|rank| rank.end_ns).max().unwrap_or(0),
            ranks,
            links: self.wire.outcomes(),
            unreceived: self.hosts.iter().map(held).sum(),
        }
    }
}
