//! Those that keep a log, and what they say to each other, without their hosts.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::Rng;
use towpath_vm::control::{Command, Commits, ControlState, Drain, Outcome};
use towpath_vm::{Change, ControlLog, Host, consensus};
use towpath_wire::{HostId, Instant};

use crate::parting::Parting;
use crate::saying::Said;
use crate::voters::Step;
use crate::voters::tests::{But, host, id};
use crate::voting::{Voter, Voting};

const TICK: Duration = Duration::from_millis(50);

/// What is there when the first of so many hosts begins to share its log.
fn state(hosts: u16) -> ControlState {
    let mut log = ControlLog::found(host(1), 3000);
    for slot in 2..=hosts {
        log.append(Change::Added(host(slot)));
    }
    ControlState::new(log)
}

pub(super) struct Voters {
    now: Instant,
    all: Vec<(HostId, Voter)>,
    /// These say and hear nothing.
    gone: Vec<u16>,
}

impl Voters {
    fn founded(hosts: u16) -> Self {
        let now = Instant::ZERO;
        let first = Voter::found(now, id(1), 3, &state(hosts), Rng::new(1, 1));
        Self { now, all: [(id(1), first)].into(), gone: Vec::new() }
    }

    /// Three that vote.
    pub(super) fn three(hosts: u16) -> Self {
        let mut all = Self::founded(hosts);
        all.learn(2);
        all.learn(3);
        for slot in [2, 3] {
            assert!(all.of(1).change(&Step::Promote(id(slot))));
            all.run(2);
        }
        assert_eq!(all.of(1).members(), ([1, 2, 3].map(id).into(), BTreeSet::new()));
        all
    }

    fn of(&mut self, slot: u16) -> &mut Voter {
        &mut self.all.iter_mut().find(|(host, _)| host.slot() == slot).expect("it is there").1
    }

    fn learn(&mut self, slot: u16) {
        let name = self.of(1).name_for(id(slot));
        let new = Voter::newcomer(self.now, name, 3, Rng::new(slot.into(), 1));
        self.all.push((id(slot), new));
        assert!(self.of(1).change(&Step::Learn(id(slot))));
        assert_eq!(self.of(1).name_of(id(slot)), Some(name));
        self.run(2);
    }

    /// Lets seconds pass, and hands out what is said.
    fn run(&mut self, seconds: u64) {
        self.ticks(seconds * 20);
    }

    fn ticks(&mut self, ticks: u64) {
        for _ in 0..ticks {
            self.now += Duration::from_millis(50);
            let (now, mut said) = (self.now, Vec::new());
            for (host, voter) in self.all.iter_mut().filter(|(h, _)| !self.gone.contains(&h.slot()))
            {
                voter.tick(now);
                said.extend(voter.outgoing().into_iter().map(|said| (*host, said)));
            }
            while let Some((from, Said { to, bytes, .. })) = said.pop() {
                let message = consensus::Message::decode(&bytes).expect("it is well formed");
                let message = message.expect("its kind is known");
                assert!(Voter::is_from(&message, from) && !Voter::is_from(&message, to));
                let Some((_, voter)) = self.all.iter_mut().find(|(host, _)| *host == to) else {
                    continue;
                };
                if !self.gone.contains(&to.slot()) {
                    voter.step(now, message, false);
                    said.extend(voter.outgoing().into_iter().map(|said| (to, said)));
                }
            }
        }
    }

    /// One of them, for a host of its own.
    pub(super) fn take(mut self, slot: u16) -> Voter {
        let at = self.all.iter().position(|(host, _)| host.slot() == slot);
        self.all.remove(at.expect("it is there")).1
    }

    fn leaders(&self) -> Vec<u16> {
        self.all.iter().filter(|(_, voter)| voter.leads()).map(|(host, _)| host.slot()).collect()
    }
}

#[test]
fn the_first_leads_alone_and_whoever_it_takes_in_has_everything() {
    let mut all = Voters::founded(3);
    let one = all.of(1);
    assert!(one.leads() && one.is_alone() && one.is_settled() && !one.is_out());
    assert!(one.has(id(1)) && !one.has(id(2)) && one.follows() == Some(id(1)));
    assert_eq!(one.members(), ([id(1)].into(), BTreeSet::new()));
    assert_eq!((one.name_of(id(2)), one.name().is_of(Some(id(1)))), (None, true));
    assert!(one.describe().contains("Leader of term 2, leads in Some(2)"), "{}", one.describe());
    let (term, commit, behind) = one.progress();
    assert_eq!((term, behind), (2, [(id(1), 0)].into()));
    assert_eq!(one.kept_to().last, (2, commit));
    assert!(!one.change(&Step::Name([id(1)].into())), "that is a command");
    assert!(!one.change(&Step::Promote(id(2))) && !one.change(&Step::Remove(id(2))));
    let told = one.state().snapshot().clone();
    assert_eq!(one.next_step(&told, &But(&[]), &Parting::default()), Some(Step::Learn(id(2))));
    assert_eq!(one.next_step(&told, &But(&[2]), &Parting::default()), Some(Step::Learn(id(3))));
    assert_eq!(one.next_step(&told, &But(&[2, 3]), &Parting::default()), None);
    all.learn(2);
    let two = all.of(2);
    assert!(!two.leads() && !two.is_alone() && !two.is_out() && two.is_settled());
    assert_eq!((two.follows(), two.state().leader()), (Some(id(1)), id(1)));
    assert_eq!(two.next_step(&told, &But(&[]), &Parting::default()), None, "it does not lead");
    assert!(two.describe().contains("Follower"));
    let one = all.of(1);
    assert_eq!(one.members(), ([id(1)].into(), [id(2)].into()));
    assert!(!one.is_alone() && one.taken().is_none());
    assert_eq!(one.progress().2, [(id(1), 0), (id(2), 0)].into());
}

#[test]
fn what_the_leader_proposes_is_decided_and_what_another_one_does_is_dropped() {
    let mut all = Voters::three(3);
    let drain = Command::Drain(Drain { host: id(3), on: true });
    let (first, second) = (all.of(1).propose(drain.clone()), all.of(1).propose(drain.clone()));
    assert!(first != second && all.of(1).poll().is_none(), "most of them have to have it");
    assert!(all.of(1).everything().table().get(id(3)).is_some_and(Host::drains));
    assert!(!all.of(1).state().table().get(id(3)).is_some_and(Host::drains));
    let dropped = all.of(2).propose(drain.clone());
    assert_eq!(all.of(2).poll(), Some(Outcome::Dropped(dropped)));
    all.run(2);
    let mut outcome = || match all.of(1).poll() {
        Some(Outcome::Committed(_, ticket, command)) => Some((ticket, command)),
        _ => None,
    };
    assert_eq!(outcome(), Some((first, drain.clone())));
    assert_eq!((outcome(), outcome()), (Some((second, drain)), None));
    for slot in [1, 2, 3] {
        assert!(all.of(slot).state().table().get(id(3)).is_some_and(Host::drains), "host {slot}");
    }
}

#[test]
fn the_lead_goes_to_one_that_is_heard_and_last_to_one_that_is_taken_out() {
    for (unheard, to) in [(&[][..], Some(3)), (&[3], Some(2)), (&[2, 3], None)] {
        let mut all = Voters::three(3);
        let ticket = all.of(1).propose(Command::Drain(Drain { host: id(2), on: true }));
        all.run(2);
        assert!(matches!(all.of(1).poll(), Some(Outcome::Committed(_, t, _)) if t == ticket));
        let now = all.now;
        assert!(!all.of(2).hand_over(now, &But(&[]), &BTreeMap::new()), "it does not lead");
        assert_eq!(all.of(1).hand_over(now, &But(unheard), &BTreeMap::new()), to.is_some());
        let pending = all.of(1).propose(Command::Drain(Drain { host: id(2), on: false }));
        all.run(2);
        assert_eq!(all.leaders(), [to.unwrap_or(1)]);
        let outcome = all.of(1).poll();
        let Some(to) = to else {
            assert!(matches!(outcome, Some(Outcome::Committed(_, t, _)) if t == pending));
            continue;
        };
        assert_eq!(outcome, Some(Outcome::Dropped(pending)), "it is not known here");
        let taken = all.of(to).taken().expect("it has come to lead");
        assert_eq!((taken.leader(), all.of(to).taken().is_none()), (id(to), true));
        assert!(all.of(1).taken().is_none());
    }
}

#[test]
fn one_that_is_lost_as_the_state_has_it_passes_the_lead_on() {
    // Whichever is elected first, by the draws of its generator.
    for lost in [2, 3] {
        let mut all = Voters::three(3);
        all.of(1).propose(Command::Lost(id(lost)));
        all.run(2);
        all.gone.push(1);
        for _ in 0..60 {
            all.run(1);
            assert!(!all.of(lost).leads(), "it is up no longer");
        }
        let other = 5 - lost;
        assert!(all.of(other).leads() && all.of(other).state().leader() == id(other));
    }
}

#[test]
fn one_that_is_removed_is_out_and_one_that_is_cut_off_is_not() {
    let mut all = Voters::three(4);
    all.gone.push(3);
    all.run(5);
    assert!(!all.of(3).is_out() && !all.of(3).leads());
    assert!(all.of(1).progress().2[&id(2)] == 0);
    all.gone.clear();
    assert!(all.of(1).change(&Step::Remove(id(3))));
    all.run(5);
    let one = all.of(1);
    assert_eq!(one.members(), ([1, 2].map(id).into(), BTreeSet::new()));
    assert!(!one.has(id(3)) && !one.is_out() && one.leads());
    assert!(!all.of(2).is_out());
}

#[test]
fn a_leader_that_is_removed_is_out_and_one_of_the_others_leads() {
    let mut all = Voters::three(3);
    assert!(all.of(1).change(&Step::Remove(id(1))));
    assert!(!all.of(1).is_out(), "it is not decided");
    all.run(10);
    assert!(all.of(1).is_out() && !all.of(1).leads());
    assert_eq!(all.leaders().len(), 1);
    for slot in [2, 3] {
        assert!(!all.of(slot).is_out() && !all.of(slot).has(id(1)));
    }
}

#[test]
fn one_comes_to_lead_once_whatever_is_decided_then() {
    let mut all = Voters::three(3);
    let now = all.now;
    assert!(all.of(1).hand_over(now, &But(&[]), &BTreeMap::new()));
    all.run(2);
    assert_eq!(all.leaders(), [2]);
    let taken = all.of(2).taken().expect("it has come to lead");
    assert_eq!(taken.leader(), id(2));
    for on in [true, false] {
        all.of(2).propose(Command::Drain(Drain { host: id(3), on }));
        all.run(1);
        assert!(all.of(2).taken().is_none() && all.of(2).leads());
    }
    assert!(all.of(1).taken().is_none() && all.of(3).taken().is_none());
}

#[test]
fn whoever_is_passed_the_lead_and_is_gone_is_not_waited_for() {
    // As long as the second one is lost as the state has it, and the third is gone, only the first
    // can lead, whichever is elected.
    for early in 0..12 {
        let mut all = Voters::three(3);
        let now = all.now;
        all.of(1).propose(Command::Lost(id(2)));
        all.run(1);
        assert!(all.of(1).hand_over(now, &But(&[2]), &BTreeMap::new()));
        all.run(2);
        assert_eq!(all.leaders(), [3]);
        for _ in 0..early {
            all.ticks(1);
        }
        all.gone.push(3);
        all.run(60);
        assert!(all.of(1).leads() && !all.of(2).leads(), "{early} ticks later");
    }
}

#[test]
fn one_with_nothing_to_do_sleeps_and_counts_what_went_by_when_it_is_woken() {
    let mut all = Voters::three(3);
    all.run(3);
    for slot in [1, 2] {
        let mut longest = Duration::ZERO;
        for _ in 0..7 {
            all.ticks(1);
            let now = all.now;
            all.of(slot).rest(true);
            assert_eq!(all.of(slot).next_tick(), now + TICK, "it is busy");
            all.of(slot).rest(false);
            longest = longest.max(all.of(slot).next_tick().since(now));
        }
        assert!(longest >= TICK * 7, "{slot}: {longest:?}");
    }
    while {
        all.of(1).rest(false);
        all.of(1).next_tick().since(all.now)
    } < TICK * 5
    {
        all.ticks(1);
    }
    let (now, one) = (all.now, all.of(1));
    let due = one.next_tick();
    assert!(!one.tick(now + TICK / 2), "none has gone by");
    one.catch_up(now + TICK * 2);
    assert!(one.tick(now + TICK * 2) && !one.tick(now + TICK * 2), "two have");
    assert_eq!(one.next_tick(), due);
    one.catch_up(now + TICK * 20);
    assert!(one.outgoing().is_empty(), "the beat is not sent before it is due");
    one.tick(now + TICK * 20);
    assert!(!one.outgoing().is_empty());
}

#[test]
fn an_elected_one_that_nobody_agrees_with_yet_does_not_pass_the_lead_on() {
    let mut all = Voters::three(3);
    all.gone.push(1);
    let elected = |all: &mut Voters| {
        [2, 3].into_iter().find(|slot| all.of(*slot).describe().contains(" Leader "))
    };
    while elected(&mut all).is_none() {
        all.ticks(1);
    }
    let elected = elected(&mut all).expect("one is");
    all.gone.push(5 - elected);
    // Before it gives up because nobody hears it.
    for _ in 0..15 {
        all.now += Duration::from_millis(50);
        let now = all.now;
        all.of(elected).tick(now);
        for said in all.of(elected).outgoing() {
            let said = consensus::Message::decode(&said.bytes).expect("it is well formed");
            let said = said.expect("its kind is known").payload;
            assert!(said != consensus::Payload::HandOver, "{said:?}");
        }
    }
}

#[test]
fn only_a_founder_keeps_the_key_when_it_keeps_the_log_no_longer() {
    for founded in [true, false] {
        let mut voting = Voting::new(Rng::new(1, 1));
        voting.founded = founded;
        voting.vm_key = Some([7; 32].into());
        voting.forget_key();
        assert_eq!(voting.vm_key.is_some(), founded);
    }
}
