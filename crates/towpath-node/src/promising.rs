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

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_qos::spec::wire::Ip;
    use towpath_wire::{ByteSize, LinkId, Rate, TaskId};

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn host(slot: u16) -> HostId {
        HostId::new(slot, 1).expect("a host")
    }

    fn task(n: u32) -> TaskId {
        host(1).task(n).expect("a task")
    }

    const fn wire(association: u32, channel: u32) -> Wire {
        (AssociationId(association), ChannelId(channel))
    }

    fn own(of: Wire, task: TaskId) -> Reservation {
        Reservation {
            link: LinkId(0),
            of,
            task,
            ip: Ip::V4,
            rate: Rate::from_bps(1_000_000),
            burst: ByteSize::from_bytes(3000),
            packet: ByteSize::from_bytes(1500),
            within: Duration::from_millis(10),
            port: None,
        }
    }

    fn granted() -> Granted {
        let (delay, first) = (Duration::from_millis(9), Duration::from_millis(4));
        Granted { delay, first, rate: Rate::from_bps(100_000_000), hops: Vec::new() }
    }

    fn told(term: u64) -> Told {
        (host(1), host(2), term, None)
    }

    /// Its leader knows all; channel `n` of connection 1, of task `n`, asked for number `n`.
    fn asking(numbers: u32) -> Promising {
        let mut all = Promising::default();
        all.tell(told(1));
        for n in 1..=numbers {
            let asked = all.ask(at(0), host(3), own(wire(1, n), task(n))).expect("there is room");
            let promise = asked.expect("the leader is asked");
            assert_eq!((promise.number, promise.host), (u64::from(n), host(1)));
            assert_eq!((promise.to, promise.task), (host(3), task(n)));
            assert_eq!(promise.terms.within, Duration::from_millis(10));
        }
        all
    }

    fn holding(numbers: u32) -> Promising {
        let mut all = asking(numbers);
        for n in 1..=numbers {
            let reserve = all.answered(n.into(), Ok(granted()));
            let within = Duration::from_millis(4).checked_sub(OWN_LATE).expect("it is longer");
            let port = Some(Rate::from_bps(100_000_000));
            let own = Reservation { within, port, ..own(wire(1, n), task(n)) };
            assert_eq!(reserve, Said::Reserve(own));
            assert_eq!(all.bound(wire(1, n)), Some(Duration::from_millis(9)));
        }
        all
    }

    #[test]
    fn a_task_and_a_host_have_only_so_many() {
        let mut all = Promising::default();
        let limit = |what: &str, limit| Err(Fault::Limit { what: what.into(), limit });
        for n in 0..1024 {
            let of = own(wire(1, n), task(1 + n / 256));
            assert_eq!(all.ask(at(0), host(3), of), Ok(None), "nobody leads yet");
            if n == 255 {
                let beyond = all.ask(at(0), host(3), own(wire(2, 0), task(1)));
                let what = "channels of one task that wait for a promise";
                assert_eq!(beyond, limit(what, 256));
            }
        }
        let beyond = all.ask(at(0), host(3), own(wire(2, 0), task(9)));
        assert_eq!(beyond, limit("promises of one host", 1024));
        assert_eq!(all.len(), 1024);
        all.cut(AssociationId(2));
        assert_eq!(all.len(), 1024, "another connection");
        all.cut(AssociationId(1));
        assert_eq!((all.len(), all.due()), (0, None));
    }

    #[test]
    fn a_refusal_ends_the_channel_and_a_promise_that_nobody_waits_for_is_given_back() {
        let mut all = asking(2);
        let refused = all.answered(1, Err(Fault::NoHost));
        assert_eq!(refused, Said::Refused(wire(1, 1), Fault::NoHost));
        assert_eq!((all.len(), all.bound(wire(1, 1))), (1, None));
        all.over(wire(1, 2));
        assert_eq!(all.len(), 0);
        assert_eq!(all.answered(2, Ok(granted())), Said::Nothing);
        assert_eq!(all.answered(2, Ok(granted())), Said::Nothing, "it is known by now");
        assert_eq!((all.len(), all.given_back(at(1000))), (1, Vec::new()));
        assert_eq!(all.answered(2, Ok(granted())), Said::Nothing);
        // Its bound, and what machines may be late by, after it was noted.
        assert_eq!(all.due(), Some(at(1109)));
        assert_eq!(all.given_back(at(1108)), []);
        assert_eq!(all.given_back(at(1109)), [2]);
        assert_eq!((all.len(), all.due()), (0, None));
        assert_eq!(all.answered(2, Err(Fault::NotFound)), Said::Nothing);
        assert_eq!(all.len(), 0);
    }

    #[test]
    fn a_leader_that_lost_a_promise_takes_it_up_again_and_is_told_once_it_has_all() {
        let mut all = holding(2);
        for n in [1, 2] {
            let Said::Again(again) = all.answered(n, Err(Fault::NotFound)) else {
                panic!("it is to be taken up")
            };
            assert_eq!(again.promise.number, n);
        }
        assert!(!all.is_due(at(5), told(1)));
        assert_eq!(all.answered(1, Ok(granted())), Said::Nothing);
        assert_eq!(all.due(), None);
        assert_eq!(all.answered(2, Err(Fault::NoHost)), Said::Gone(wire(1, 2)));
        assert_eq!((all.bound(wire(1, 1)).is_some(), all.bound(wire(1, 2))), (true, None));
        assert_eq!(all.due(), Some(Instant::ZERO), "now it knows of all");
        assert!(all.is_due(at(5), told(1)));
        let (holds, asked) = all.tell(told(1));
        assert_eq!((holds.last, holds.numbers, asked), (2, [1, 2].into(), Vec::new()));
        assert!(!all.is_due(at(5), told(1)) && all.is_due(at(5), told(2)));
    }

    #[test]
    fn whoever_leads_next_hears_what_there_is_and_is_asked_under_new_numbers() {
        let mut all = holding(2);
        all.ask(at(100), host(4), own(wire(1, 3), task(3))).expect("there is room");
        all.over(wire(1, 2));
        assert_eq!(all.has_no_leader(at(50), at(40)), []);
        assert_eq!(all.due(), Some(at(100) + ANSWERED_WITHIN));
        let (holds, asked) = all.tell(told(2));
        assert_eq!((holds.host, holds.last, holds.numbers), (host(1), 3, [1, 2].into()));
        let asked: Vec<_> = asked.iter().map(|promise| (promise.number, promise.to)).collect();
        assert_eq!(asked, [(4, host(4))]);
        assert_eq!(all.answered(3, Err(Fault::NoHost)), Said::Nothing, "it is asked no more");
        assert!(all.waited_in_vain(at(99) + ANSWERED_WITHIN).is_empty());
        assert_eq!(all.waited_in_vain(at(100) + ANSWERED_WITHIN), [wire(1, 3)]);
        assert!(matches!(all.answered(4, Ok(granted())), Said::Reserve(_)));
        // As another host it has nothing of what it had, but for what it asks for.
        all.ask(at(200), host(4), own(wire(1, 5), task(3))).expect("there is room");
        let (holds, asked) = all.tell((host(5), host(2), 3, None));
        assert_eq!((holds.numbers.len(), asked.len(), all.len()), (0, 1, 1));
        assert_eq!(asked[0].host, host(5));
        assert_eq!(all.bound(wire(1, 1)), None);
    }

    #[test]
    fn without_a_leader_promises_are_kept_for_a_while_from_when_there_was_none() {
        let mut all = asking(1);
        assert_eq!(all.has_no_leader(at(9), at(3)), []);
        assert_eq!(all.due(), Some(at(0) + ANSWERED_WITHIN), "there is none to keep");
        let mut all = holding(2);
        assert_eq!(all.has_no_leader(at(9), at(3)), []);
        assert_eq!(all.has_no_leader(at(10), at(10)), []);
        assert_eq!(all.due(), Some(at(3) + HOLD));
        assert_eq!(all.has_no_leader(at(2) + HOLD, at(10)), []);
        assert_eq!(all.has_no_leader(at(3) + HOLD, at(10)), [wire(1, 1), wire(1, 2)]);
        all.over(wire(1, 2));
        all.given_back(at(20));
        assert_eq!(all.given_back(at(200)), [], "nobody is there to be told");
        assert!(all.is_due(at(9), told(1)), "the same one again may have lost it");
        assert_eq!(all.due(), None);
        all.is_wanted(at(70));
        assert_eq!(all.due(), Some(at(70)));
        all.tell(told(1));
        assert!(!all.is_due(at(69), told(1)));
        assert!(all.is_due(at(70), told(1)));
    }
}
