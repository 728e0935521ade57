//! What ranks do, step by step, with collectives made of messages.

use std::collections::VecDeque;

use super::fault::ReplayError;
use super::network::Collectives;
use super::record::{Record, Step};

/// Keys of messages within collectives lie here; others are tags.
const COLLECTIVE: u64 = 1 << 63;
/// Bits of a key for the round within a collective.
const ROUND_BITS: u32 = 16;

/// What a processor does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Recorded nanoseconds.
    Work(u64),
    Send {
        to: usize,
        key: u64,
        bytes: u64,
    },
    Receive {
        from: usize,
        key: u64,
    },
}

/// The actions of all ranks, made as they are asked for.
pub(super) struct Program<'a> {
    record: &'a Record,
    style: Collectives,
    /// By rank: its next step.
    at: Vec<usize>,
    /// By rank: how many collectives it has begun.
    begun: Vec<usize>,
    /// By rank: places of its collectives among its steps.
    collectives: Vec<Vec<usize>>,
    /// By rank: what is left of its present collective.
    left: Vec<VecDeque<Action>>,
}

impl<'a> Program<'a> {
    /// Refuses ranks that do not take part in the same collectives.
    pub(super) fn new(record: &'a Record, style: Collectives) -> Result<Self, ReplayError> {
        let places = |steps: &Vec<Step>| -> Vec<usize> {
            let all = steps.iter().enumerate().filter(|(_, step)| step.is_collective());
            all.map(|(at, _)| at).collect()
        };
        let collectives: Vec<Vec<usize>> = record.ranks.iter().map(places).collect();
        let size = record.ranks.len();
        let program = Self {
            record,
            style,
            at: vec![0; size],
            begun: vec![0; size],
            collectives,
            left: vec![VecDeque::new(); size],
        };
        program.check()?;
        Ok(program)
    }

    fn check(&self) -> Result<(), ReplayError> {
        let first = &self.collectives[0];
        for (rank, places) in self.collectives.iter().enumerate() {
            let steps = &self.record.ranks[rank];
            let both = places.iter().zip(first);
            let unlike = both
                .clone()
                .position(|(own, root)| !is_same(&steps[*own], &self.record.ranks[0][*root]));
            let until = unlike.or((places.len() != first.len()).then_some(both.len()));
            if let Some(until) = until {
                let at = places.get(until).copied().unwrap_or(steps.len());
                return Err(ReplayError::Collective {
                    line: self.record.line(rank, at),
                    rank,
                    number: until + 1,
                });
            }
        }
        Ok(())
    }

    /// What a rank does next; none: it has done all.
    pub(super) fn next(&mut self, rank: usize) -> Option<Action> {
        loop {
            if let Some(action) = self.left[rank].pop_front() {
                return Some(action);
            }
            let step = self.record.ranks[rank].get(self.at[rank])?;
            self.at[rank] += 1;
            match *step {
                Step::Work(ns) => return Some(Action::Work(ns)),
                Step::Send { to, tag, bytes } => {
                    return Some(Action::Send { to, key: u64::from(tag as u32), bytes });
                }
                Step::Receive { from, tag, .. } => {
                    return Some(Action::Receive { from, key: u64::from(tag as u32) });
                }
                _ => self.expand(rank, step),
            }
        }
    }

    /// The line of what a rank does at present.
    pub(super) fn line(&self, rank: usize) -> usize {
        self.record.line(rank, self.at[rank].saturating_sub(1))
    }

    fn expand(&mut self, rank: usize, step: &Step) {
        let number = self.begun[rank];
        self.begun[rank] += 1;
        let shape = Shape {
            rank,
            size: self.record.ranks.len(),
            key: COLLECTIVE | (number as u64) << ROUND_BITS,
        };
        let of = |rank: usize| &self.record.ranks[rank][self.collectives[rank][number]];
        let own = |rank: usize| match of(rank) {
            Step::Broadcast { bytes, .. } | Step::Gather { bytes, .. } | Step::AllGather(bytes) => {
                *bytes
            }
            _ => 0,
        };
        let linear = self.style == Collectives::Linear;
        let actions = match step {
            Step::Broadcast { root, .. } => shape.broadcast(*root, own(*root), linear),
            Step::Gather { root, .. } if linear => shape.gather(*root, own(rank)),
            Step::Gather { root, .. } => shape.gather_by_tree(*root, own),
            Step::AllGather(bytes) if linear => shape.exchange(|_| *bytes),
            Step::AllGather(_) => shape.all_gather_in_rounds(own),
            Step::AllToAll(parts) if linear => shape.exchange(|to| parts[to]),
            Step::AllToAll(parts) => shape.exchange_in_rounds(parts),
            Step::Work(_) | Step::Send { .. } | Step::Receive { .. } => Vec::new(),
        };
        self.left[rank] = actions.into();
    }
}

fn is_same(a: &Step, b: &Step) -> bool {
    match (a, b) {
        (Step::Broadcast { root: a, .. }, Step::Broadcast { root: b, .. })
        | (Step::Gather { root: a, .. }, Step::Gather { root: b, .. }) => a == b,
        (Step::AllGather(_), Step::AllGather(_)) | (Step::AllToAll(_), Step::AllToAll(_)) => true,
        _ => false,
    }
}

/// One rank's place in one collective.
#[derive(Clone, Copy)]
struct Shape {
    rank: usize,
    size: usize,
    key: u64,
}

impl Shape {
    const fn send(self, to: usize, round: usize, bytes: u64) -> Action {
        Action::Send { to, key: self.key | round as u64, bytes }
    }

    const fn receive(self, from: usize, round: usize) -> Action {
        Action::Receive { from, key: self.key | round as u64 }
    }

    /// The rank so many places after the own one.
    const fn after(self, away: usize) -> usize {
        (self.rank + away) % self.size
    }

    /// The own place where the root's is 0.
    const fn place(self, root: usize) -> usize {
        (self.rank + self.size - root) % self.size
    }

    fn others(self) -> impl Iterator<Item = usize> {
        (0..self.size).filter(move |rank| *rank != self.rank)
    }

    fn broadcast(self, root: usize, bytes: u64, linear: bool) -> Vec<Action> {
        if linear && self.rank == root {
            return self.others().map(|to| self.send(to, 0, bytes)).collect();
        }
        if linear {
            return vec![self.receive(root, 0)];
        }
        let (place, mut actions) = (self.place(root), Vec::new());
        let mut mask = 1;
        while mask < self.size && place & mask == 0 {
            mask <<= 1;
        }
        if mask < self.size {
            actions.push(self.receive((root + place - mask) % self.size, 0));
        }
        while mask > 1 {
            mask >>= 1;
            if place + mask < self.size {
                actions.push(self.send((root + place + mask) % self.size, 0, bytes));
            }
        }
        actions
    }

    fn gather(self, root: usize, own: u64) -> Vec<Action> {
        if self.rank == root {
            return self.others().map(|from| self.receive(from, 0)).collect();
        }
        vec![self.send(root, 0, own)]
    }

    fn gather_by_tree(self, root: usize, own: impl Fn(usize) -> u64) -> Vec<Action> {
        let (place, mut actions) = (self.place(root), Vec::new());
        let mut mask = 1;
        while mask < self.size {
            if place & mask != 0 {
                let held = place..(place + mask).min(self.size);
                let bytes = held.map(|place| own((root + place) % self.size)).sum();
                actions.push(self.send((root + place - mask) % self.size, 0, bytes));
                break;
            }
            if place + mask < self.size {
                actions.push(self.receive((root + place + mask) % self.size, 0));
            }
            mask <<= 1;
        }
        actions
    }

    /// To the next, to the one after it, …; then from all in the same order.
    fn exchange(self, bytes: impl Fn(usize) -> u64) -> Vec<Action> {
        let to = |away| self.send(self.after(away), 0, bytes(self.after(away)));
        let from = |away| self.receive(self.after(self.size - away), 0);
        (1..self.size).map(to).chain((1..self.size).map(from)).collect()
    }

    fn exchange_in_rounds(self, parts: &[u64]) -> Vec<Action> {
        let round = |away| {
            let to = self.after(away);
            [self.send(to, 0, parts[to]), self.receive(self.after(self.size - away), 0)]
        };
        (1..self.size).flat_map(round).collect()
    }

    /// J. Bruck et al., Efficient algorithms for all-to-all communications in multiport
    /// message-passing systems, 1997: before round k each holds the parts of 2^k ranks from its
    /// own on, and sends them 2^k places back.
    fn all_gather_in_rounds(self, own: impl Fn(usize) -> u64) -> Vec<Action> {
        let (mut actions, mut held, mut round) = (Vec::new(), 1, 0);
        while held < self.size {
            let given = held.min(self.size - held);
            let bytes = (0..given).map(|away| own(self.after(away))).sum();
            actions.push(self.send(self.after(self.size - held), round, bytes));
            actions.push(self.receive(self.after(held), round));
            held += given;
            round += 1;
        }
        actions
    }
}
