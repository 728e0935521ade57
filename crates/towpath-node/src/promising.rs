//! What this host asks of the network for its tasks' channels, and has of it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::AssociationId;
use towpath_vm::promises::{
    Again, Granted, HOLD, Holds, OWN_LATE, PROMISES_OF_HOST_MAX, PROMISES_OF_TASK_MAX, Promise,
    Terms,
};
use towpath_vm::talk::Fault;
use towpath_wire::{ChannelId, HostId, Instant};

use crate::channels::Wire;
use crate::egress::Reservation;

/// How long it waits for an answer: as long as a question whose leader is gone.
pub(crate) const ANSWERED_WITHIN: Duration = crate::question::KEPT_FOR;
/// What is given back waits so long beyond its bound, for machines that are late.
pub(crate) const LATE: Duration = Duration::from_millis(100);

/// A channel that waits for its promise.
#[derive(Debug)]
struct Asked {
    to: HostId,
    /// What its own host is to reserve then; its time is that of the whole way.
    own: Reservation,
    since: Instant,
}

/// One that has it.
#[derive(Debug)]
struct Held {
    wire: Wire,
    delay: Duration,
    again: Again,
}

/// To whom it was said what there is: which host this was, who leads in which term, on which
/// connection.
pub(crate) type Told = (HostId, HostId, u64, Option<AssociationId>);

/// What follows from what the leader says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing.
    Nothing,
    /// This host's own link is to be asked.
    Reserve(Reservation),
    /// The channel of this is refused.
    Refused(Wire, Fault),
    /// The leader is to take that up.
    Again(Again),
    /// What was promised is not: its channel goes on without.
    Gone(Wire),
}

/// Invariants: `numbers` has the number of each channel of `asked` and `held`, which no two share
/// with each other, with `ended` or with `draining`; none is above `last`, and none is given twice
/// to one host.
#[derive(Debug, Default)]
pub(crate) struct Promising {
    last: u64,
    numbers: BTreeMap<Wire, u64>,
    asked: BTreeMap<u64, Asked>,
    held: BTreeMap<u64, Held>,
    /// Ended: how long what it sent may be on its way; since when is not noted yet.
    ended: Vec<(u64, Duration)>,
    /// When nothing of it is on its way any more.
    draining: BTreeSet<(Instant, u64)>,
    /// Of these and those held, what the leader does not know of.
    unknown: BTreeSet<u64>,
    told: Option<Told>,
    /// The leader wants to hear what there is, even if that is nothing: from then on.
    wanted: Option<Instant>,
    /// Which host this was when it told somebody last.
    me: Option<HostId>,
    /// Since when nobody leads who could be told.
    alone: Option<Instant>,
}

impl Promising {
    /// A channel needs a promise. What the leader is to be asked, unless it hears of it with all
    /// else that there is.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        to: HostId,
        own: Reservation,
    ) -> Result<Option<Promise>, Fault> {
        let of_task = self.asked.values().filter(|asked| asked.own.task == own.task).count();
        for (what, has, most) in [
            ("channels of one task that wait for a promise", of_task, PROMISES_OF_TASK_MAX),
            ("promises of one host", self.len(), PROMISES_OF_HOST_MAX),
        ] {
            if has >= most {
                return Err(Fault::Limit { what: what.into(), limit: most as u64 });
            }
        }
        self.last += 1;
        self.numbers.insert(own.of, self.last);
        self.asked.insert(self.last, Asked { to, own, since: now });
        Ok(self.told.and_then(|(me, ..)| self.promise(me, self.last)))
    }

    fn promise(&self, host: HostId, number: u64) -> Option<Promise> {
        let Asked { to, own, .. } = self.asked.get(&number)?;
        let Reservation { task, rate, burst, packet, within, .. } = *own;
        let terms = Terms { rate, burst, packet, within };
        Some(Promise { host, number, task, to: *to, terms })
    }

    /// What the leader says of a number. A promise that nobody waits for is given back.
    pub(crate) fn answered(&mut self, number: u64, outcome: Result<Granted, Fault>) -> Said {
        if self.asked.contains_key(&number) {
            return self.decided(number, outcome);
        }
        if let Some(held) = self.held.get(&number) {
            match outcome {
                Ok(_) => self.is_known(number),
                Err(Fault::NotFound) => {
                    self.unknown.insert(number);
                    return Said::Again(held.again.clone());
                }
                Err(_) => {
                    let wire = held.wire;
                    self.over(wire);
                    self.is_known(number);
                    return Said::Gone(wire);
                }
            }
            return Said::Nothing;
        }
        let drains = self.draining.iter().any(|(_, n)| *n == number)
            || self.ended.iter().any(|(n, _)| *n == number);
        match outcome {
            Ok(Granted { delay, .. }) if !drains => self.ended.push((number, delay)),
            // Whoever leads counts on nothing more before that is over, and it is told then.
            Err(Fault::NotFound) if drains => _ = self.unknown.insert(number),
            _ => {}
        }
        Said::Nothing
    }

    fn decided(&mut self, number: u64, outcome: Result<Granted, Fault>) -> Said {
        let promise = self.me.and_then(|me| self.promise(me, number));
        let Some(Asked { own, .. }) = self.asked.remove(&number) else { return Said::Nothing };
        match (outcome, promise) {
            (Ok(Granted { delay, first, rate, hops }), Some(promise)) => {
                let again = Again { promise, hops };
                self.held.insert(number, Held { wire: own.of, delay, again });
                let within = first.saturating_sub(OWN_LATE);
                Said::Reserve(Reservation { within, port: Some(rate), ..own })
            }
            (Ok(_), None) => Said::Nothing,
            (Err(fault), _) => {
                self.numbers.remove(&own.of);
                Said::Refused(own.of, fault)
            }
        }
    }

    /// The leader knows of it now, or has no need to: once it knows of all, it is told so.
    fn is_known(&mut self, number: u64) {
        if self.unknown.remove(&number) && self.unknown.is_empty() {
            self.wanted = Some(Instant::ZERO);
        }
    }

    /// A channel is over, or does without.
    pub(crate) fn over(&mut self, wire: Wire) {
        let Some(number) = self.numbers.remove(&wire) else { return };
        self.asked.remove(&number);
        if let Some(Held { delay, .. }) = self.held.remove(&number) {
            self.ended.push((number, delay));
        }
    }

    /// A connection is over, and its channels with it.
    pub(crate) fn cut(&mut self, id: AssociationId) {
        let all = (id, ChannelId(0))..=(id, ChannelId(u32::MAX));
        let wires: Vec<Wire> = self.numbers.range(all).map(|(wire, _)| *wire).collect();
        for wire in wires {
            self.over(wire);
        }
    }

    /// What the leader has promised for a channel.
    pub(crate) fn bound(&self, wire: Wire) -> Option<Duration> {
        self.held.get(self.numbers.get(&wire)?).map(|held| held.delay)
    }

    /// The leader wants to hear what there is.
    pub(crate) fn is_wanted(&mut self, at: Instant) {
        self.wanted = Some(at);
    }

    /// Whether this leader is to be told what there is.
    pub(crate) fn is_due(&mut self, now: Instant, leader: Told) -> bool {
        self.alone = None;
        if self.wanted.is_some_and(|at| at <= now) {
            (self.wanted, self.told) = (None, None);
            return true;
        }
        self.last > 0 && self.told != Some(leader)
    }

    /// Somebody leads who may not know what there is: what this host has, and what it asks for,
    /// under numbers of which nothing that was said before can be taken for an answer.
    pub(crate) fn tell(&mut self, leader: Told) -> (Holds, Vec<Promise>) {
        let (host, ..) = leader;
        if self.me.replace(host).is_some_and(|before| before != host) {
            // It was another host: whatever that one had is given back without it.
            self.held.clear();
            self.draining.clear();
            self.ended.clear();
            self.numbers.retain(|_, number| self.asked.contains_key(number));
        }
        self.unknown.clear();
        self.told = Some(leader);
        let ended = self.ended.iter().map(|(number, _)| number);
        let draining = self.draining.iter().map(|(_, number)| number);
        let numbers: BTreeSet<u64> =
            self.held.keys().chain(draining).chain(ended).copied().collect();
        let holds = Holds { host, last: self.last, numbers };
        let asked = core::mem::take(&mut self.asked);
        let again = asked.into_values().map(|asked| {
            self.last += 1;
            self.numbers.insert(asked.own.of, self.last);
            self.asked.insert(self.last, asked);
            self.last
        });
        let again: Vec<u64> = again.collect();
        (holds, again.into_iter().filter_map(|number| self.promise(host, number)).collect())
    }

    /// Nobody leads who could be told. For how long what was promised is kept then, others count
    /// on: the channels that have to do without from now on.
    pub(crate) fn has_no_leader(&mut self, now: Instant, since: Instant) -> Vec<Wire> {
        (self.told, self.wanted) = (None, None);
        if self.held.is_empty() {
            self.alone = None;
            return Vec::new();
        }
        let since = *self.alone.get_or_insert(since);
        if now < since + HOLD {
            return Vec::new();
        }
        self.held.values().map(|held| held.wire).collect()
    }

    /// Time passes: the numbers to be given back, if there is a leader that knows of them.
    pub(crate) fn given_back(&mut self, now: Instant) -> Vec<u64> {
        for (number, delay) in self.ended.drain(..) {
            self.draining.insert((now + delay + LATE, number));
        }
        let mut over = Vec::new();
        while let Some((at, number)) = self.draining.first().copied().filter(|(at, _)| *at <= now) {
            self.draining.remove(&(at, number));
            self.is_known(number);
            over.push(number);
        }
        // Whoever comes to lead hears of all else.
        if self.told.is_some() { over } else { Vec::new() }
    }

    /// Channels that have waited for too long.
    pub(crate) fn waited_in_vain(&self, now: Instant) -> Vec<Wire> {
        let vain = self.asked.values().take_while(|asked| asked.since + ANSWERED_WITHIN <= now);
        vain.map(|asked| asked.own.of).collect()
    }

    /// When something is to be done next.
    pub(crate) fn due(&self) -> Option<Instant> {
        // Whoever has waited for longest has the least number, however often it was asked.
        let asked = self.asked.first_key_value().map(|(_, a)| a.since + ANSWERED_WITHIN);
        let draining = self.draining.first().map(|(at, _)| *at);
        let alone = self.alone.map(|since| since + HOLD);
        [asked, draining, alone, self.wanted].into_iter().flatten().min()
    }

    /// To whom, and how much, of all that this host sends by promises.
    #[cfg(test)]
    pub(crate) fn sends(&self) -> impl Iterator<Item = &Promise> {
        self.held.values().map(|held| &held.again.promise)
    }

    /// How much is kept.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len() + self.ended.len() + self.draining.len()
    }
}
