//! One host that keeps the log with others, by hand: what it says, whom it believes, when it wakes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::AssociationId;
use towpath_vm::consensus::{self, Payload, ReplicaId};
use towpath_vm::control::Command;
use towpath_vm::message::{Consensus, Keep};
use towpath_vm::{Change, HostState, Message};
use towpath_wire::{HostId, Instant};

use super::contact::four;
use super::standing::following;
use super::voters::Voters;
use super::{NOW, append, events, voting};
use crate::suspects::Suspect;
use crate::voters::replica_of;
use crate::voters::tests::id;
use crate::{Node, NodeConfig, NodeEvent};

/// Something happens to a host.
type Prepare<'a> = dyn Fn(&mut Node, Instant) + 'a;

const TICK: Duration = Duration::from_millis(50);
const SECOND: Duration = Duration::from_secs(1);

/// The first of three that vote, with a fourth host, which is in contact with nobody.
fn keeper() -> (Node, Instant) {
    let (mut node, ..) = four();
    let voter = Voters::three(4).take(1);
    assert_eq!(node.me(), Some(id(1)));
    node.log = Some(voter.state().clone());
    let now = voter.next_tick();
    node.voting.voter = Some(Box::new(voter));
    events(&mut node);
    assert!(node.leads());
    (node, now)
}

/// One that would share the log, and has nobody to share it with in contact.
fn founder() -> Node {
    let (mut node, ..) = four();
    node.config.voters = 3;
    node.share_log(NOW);
    events(&mut node);
    node
}

/// Lets so many ticks go by.
fn tick(node: &mut Node, now: &mut Instant, ticks: u32) {
    for _ in 0..ticks {
        *now += TICK;
        node.settle_voting(*now);
    }
}

fn queued(node: &Node, host: HostId, is: impl Fn(&Message) -> bool) -> usize {
    node.queued(host).iter().filter(|m| is(m)).count()
}

#[test]
fn what_those_that_keep_the_log_say_is_taken_from_whom_it_is_of() {
    let (mut node, now) = keeper();
    let voter = node.voting.voter.as_ref().expect("it keeps it");
    let (own, generation) = (voter.name(), voter.name().generation);
    let of = |slot| voter.name_of(id(slot)).map_or(replica_of(id(slot), 9).0, |name| name.replica);
    let by = [2, 3, 4].map(|slot| (slot, ReplicaId(of(slot))));
    let beat = |from| {
        let (to, payload) = (ReplicaId(own.replica), Payload::BeatAnswer { round: 0 });
        let said = consensus::Message { generation, from, to, boot: 1, life: 9, term: 2, payload };
        Consensus { bytes: said.encode() }
    };
    for (host, says, is_bad) in
        [(2, 2, false), (2, 3, true), (3, 3, false), (4, 4, false), (4, 3, false), (4, 2, false)]
    {
        let replica = by.iter().find(|(slot, _)| *slot == says).expect("one of them").1;
        let before = node.malformed();
        node.handle_consensus(now, id(host), &beat(replica), false);
        assert_eq!(node.malformed() > before, is_bad, "{host} says to be {says}");
    }
    for host in [2, 4] {
        let before = node.malformed();
        node.handle_consensus(now, id(host), &Consensus { bytes: b"nothing".to_vec() }, false);
        assert_eq!(node.malformed(), before + 1);
    }
    // While it keeps quiet it hears nothing, and who keeps no log neither.
    let before = node.malformed();
    node.voting.over.silent_until = Some(now + SECOND);
    node.handle_consensus(now, id(2), &beat(by[1].1), false);
    node.voting.over.silent_until = Some(now);
    node.voting.voter = None;
    node.handle_consensus(now, id(2), &beat(by[1].1), false);
    assert_eq!(node.malformed(), before);
}

#[test]
fn a_host_keeps_the_log_when_its_leader_asks_it_to_in_its_present_life() {
    let keep = |host, which| Keep {
        generation: 5,
        replica: replica_of(host, which).0,
        vm_key: [4; 32],
        voters: 5,
    };
    for is_shared in [true, false] {
        let (mut node, [leader, other, _]) = following(is_shared);
        let me = node.me().expect("it is one");
        node.voting.vm_key = None;
        node.handle_keep(NOW, other, &keep(me, 1));
        node.handle_keep(NOW, leader, &keep(other, 1));
        node.handle_keep(NOW, me, &keep(me, 1));
        assert!(node.log_name().is_none() && node.vm_key().is_none() && !node.keeps_log());
        assert_eq!(node.malformed(), if is_shared { 0 } else { 3 });
        node.handle_keep(NOW, leader, &keep(me, 1));
        assert_eq!(node.log_name(), Some((5, replica_of(me, 1))));
        assert_eq!(node.vm_key(), Some(&[4; 32]));
        assert!(node.keeps_log() && !node.is_one_of_several() && !node.leads());
        let voter = node.voting.voter.as_ref().expect("it keeps it");
        assert_eq!((voter.wanted, voter.next_tick()), (5, NOW + TICK));
        node.handle_keep(NOW + SECOND, leader, &keep(me, 1));
        let voter = node.voting.voter.as_ref().expect("it keeps it");
        assert_eq!(voter.next_tick(), NOW + TICK, "it is that already");
        node.handle_keep(NOW + SECOND, leader, &keep(me, 2));
        assert_eq!(node.log_name(), Some((5, replica_of(me, 2))), "it was taken out in between");
    }
}

#[test]
fn one_that_has_nothing_to_do_sleeps_for_several_ticks() {
    let sleeps = |prepare: &Prepare<'_>| {
        let mut node = founder();
        let mut now = NOW;
        tick(&mut node, &mut now, 40);
        prepare(&mut node, now);
        node.peers.dirty = <_>::default();
        // The tick of a beat, and what follows from it.
        while now < NOW + SECOND * 3 {
            now = node.next_vote().expect("there are others");
            node.settle_voting(now);
        }
        node.next_vote().expect("there are others").since(now)
    };
    let beat = sleeps(&|_, _| {});
    assert!(beat > TICK * 2, "{beat:?}");
    let [other, me] = [id(2), id(1)];
    let suspect = |now| Suspect { until: now + SECOND * 9, latest: now + SECOND * 9, asked: None };
    let busy: [&Prepare<'_>; 3] = [
        &|node, _| {
            node.peers.set_up(other, AssociationId(1));
            node.voting.untold.insert(other);
        },
        &|node, now| node.voting.leaving = Some((me, now + SECOND * 9)),
        &|node, now| _ = node.lead.suspects.by_host.insert(other, suspect(now)),
    ];
    for (n, busy) in busy.into_iter().enumerate() {
        assert_eq!(sleeps(busy), TICK, "{n}");
    }
    // One that is deleted, and does not keep the log, is nobody to wait for.
    assert_eq!(sleeps(&|node, now| node.voting.leaving = Some((other, now + SECOND * 9))), beat);
    let (mut alone, ..) = super::node();
    let other = alone.hosts().last().expect("another one").id;
    append(&mut alone, Change::Lost(other));
    alone.config.voters = 3;
    alone.share_log(NOW);
    assert_eq!(alone.next_vote(), None, "nobody is there to keep the log with");
}

#[test]
fn hosts_that_have_not_said_what_they_know_are_told_who_leads_once_a_second() {
    let mut node = founder();
    let (two, three, four) = (id(2), id(3), id(4));
    for (n, host) in [two, three].into_iter().enumerate() {
        node.peers.set_up(host, AssociationId(n as u32));
    }
    append(&mut node, Change::Lost(three));
    node.voting.untold = [two, three, four].into();
    let resumed = |m: &Message| matches!(m, Message::Resumed(r) if r.snapshot.is_some());
    let mut now = NOW;
    for (ticks, told) in [(19, 0), (1, 1), (19, 1), (1, 2), (40, 4)] {
        tick(&mut node, &mut now, ticks);
        assert_eq!(queued(&node, two, resumed), told);
        assert_eq!(queued(&node, four, resumed), 0, "it is out of contact");
    }
    assert_eq!(node.voting.untold, [two, four].into(), "one is not up any more");
    assert_eq!(queued(&node, three, resumed), 0);
}

#[test]
fn a_leader_that_nobody_hears_gives_the_lead_up_and_loses_nobody() {
    let (mut node, mut now) = keeper();
    let four = id(4);
    node.lose(now, four);
    let until = node.lead.suspects.by_host[&four].until;
    assert_eq!(until, now + node.return_within().max(SECOND));
    assert!(node.lead.suspects.at.is_some_and(|at| at <= until));
    node.lead.suspects.by_host.get_mut(&four).expect("it is one").until = now;
    node.lose(now, four);
    assert_eq!(node.lead.suspects.by_host[&four].until, now + SECOND, "not at once");
    node.lead.telling.at = Some(now);
    tick(&mut node, &mut now, 60);
    assert_eq!(events(&mut node), [NodeEvent::LeadLost { me: id(1) }], "once");
    assert!(!node.leads() && node.is_frozen() && node.has_lost_most());
    assert!(!node.lead.suspects.any() && node.lead.telling.at.is_none());
    assert!(node.hosts().all(|h| h.state == HostState::Up));
    node.standing.frozen = false;
    assert!(!node.has_lost_most());
    let (mut node, ..) = following(true);
    node.standing.frozen = true;
    assert!(!node.has_lost_most(), "another one may lead it");
}

#[test]
fn those_that_vote_are_called_and_no_others() {
    let (mut node, mut now) = keeper();
    let called = |node: &Node| node.peers.hosts();
    let until = now + SECOND * 9;
    let suspect = Suspect { until, latest: until, asked: None };
    node.lead.suspects.by_host.insert(id(3), suspect);
    tick(&mut node, &mut now, 1);
    assert_eq!(called(&node), [id(2)]);
    node.lead.suspects.clear(id(3));
    tick(&mut node, &mut now, 1);
    assert_eq!(called(&node), [id(2), id(3)]);
}

#[test]
fn one_that_leads_sees_those_that_keep_the_log_and_how_far_they_are() {
    let (mut node, now) = keeper();
    let seen = node.voters_seen(now);
    let hosts: Vec<_> = seen.voters.iter().map(|v| (v.host, v.votes, v.heard, v.behind)).collect();
    let expected = [1, 2, 3].map(|slot| (id(slot), true, slot == 1, 0));
    assert_eq!((hosts, seen.term > 1, seen.entries > 1), (expected.into(), true, true));
    assert_eq!((node.voters(), node.may_lead()), {
        (([1, 2, 3].map(id).into(), [].into()), [1, 2, 3].map(id).into())
    });
    assert!(node.is_one_of_several() && node.keeps_log() && node.voting().contains("Leader"));
    node.propose(now, Command::Lost(id(4)));
    let behind: Vec<u64> = node.voters_seen(now).voters.iter().map(|v| v.behind).collect();
    assert_eq!(behind, [0, 1, 1]);
    node.standing.frozen = true;
    assert!(node.voters_seen(now).voters.is_empty());
    let (node, ..) = super::node();
    let seen = node.voters_seen(NOW);
    let place = node.log.as_ref().map(|log| log.snapshot().place());
    assert_eq!((Some((seen.term, seen.entries)), seen.voters.len()), (place, 1));
    assert!(seen.voters[0].votes && seen.voters[0].heard && seen.voters[0].host == id(1));
    assert_eq!((node.voters(), node.voting().as_str()), (<_>::default(), "none"));
    assert!(!node.is_one_of_several() && !node.keeps_log() && node.log_name().is_none());
    let (node, [leader, other, _]) = following(true);
    assert_eq!(node.may_lead(), [leader, other], "as it was told");
}

#[test]
fn a_host_that_another_voter_reaches_is_given_time_again() {
    let (mut node, now) = keeper();
    let (two, four) = (id(2), id(4));
    let until = now + SECOND;
    let suspect = |asked: bool, latest| {
        let asked = asked.then(|| [(id(3), true)].into());
        Suspect { until, latest, asked }
    };
    let reached = |node: &mut Node, from, suspect| {
        node.lead.suspects.by_host = [(four, suspect)].into();
        node.lead.suspects.arm();
        node.is_reached_by_another(now, from, four);
        let suspect = &node.lead.suspects.by_host[&four];
        (suspect.until, suspect.latest, suspect.asked.is_some(), node.lead.suspects.at)
    };
    let asked = || suspect(true, until);
    let as_before = (until, until, true, Some(until));
    assert_eq!(reached(&mut node, four, asked()), as_before, "it is that one itself");
    let unasked = suspect(false, until);
    assert_eq!(reached(&mut node, two, unasked), (until, until, false, Some(until)));
    let later = now + (SECOND * 10).max(node.lost_after() * 2);
    assert_eq!(reached(&mut node, two, asked()), (later, later, false, Some(later)));
    node.set_lost_after(8000);
    let later = now + SECOND * 16;
    assert_eq!(reached(&mut node, two, asked()), (later, later, false, Some(later)));
    let latest = now + SECOND * 60;
    assert_eq!(reached(&mut node, two, suspect(true, latest)), (later, latest, false, Some(later)));
}

#[test]
fn a_host_is_lost_when_most_of_those_that_vote_have_just_said_that_it_is_silent() {
    let (mut node, now) = keeper();
    let (two, three, four) = (id(2), id(3), id(4));
    let ask = |node: &mut Node, lost| {
        let due = Suspect { until: now, latest: now, asked: None };
        node.lead.suspects.by_host = [(lost, due)].into();
        node.handle_unheard(two, lost);
        assert_eq!(node.lead.suspects.by_host[&lost].asked, None, "it was not asked");
        node.ask_who_reaches(now, lost);
        let until = now + node.silent_after() * 5 / 4;
        let suspect = node.lead.suspects.by_host[&lost].clone();
        assert_eq!((suspect.until, suspect.latest), (until, until));
        assert_eq!(suspect.asked, Some([].into()), "nobody is heard");
        assert!(!node.is_silent_to_most(lost));
        until
    };
    for (lost, by) in [(four, two), (two, three)] {
        let until = ask(&mut node, lost);
        for other in [four, lost] {
            node.handle_unheard(other, lost);
            assert!(!node.is_silent_to_most(lost), "{other} has no say");
        }
        node.handle_unheard(by, lost);
        assert!(!node.is_silent_to_most(lost), "it was not heard, and so not asked");
        let asked = [(by, false), (id(9), false)].into();
        node.lead.suspects.by_host.get_mut(&lost).expect("it is one").asked = Some(asked);
        assert!(!node.is_silent_to_most(lost), "nobody has answered");
        node.handle_unheard(by, lost);
        assert!(node.is_silent_to_most(lost));
        assert_eq!(node.lead.suspects.by_host[&lost].until, until, "another one may reach it");
        let suspect = node.lead.suspects.by_host.get_mut(&lost).expect("it is one");
        suspect.asked = Some([(by, false)].into());
        node.handle_unheard(by, lost);
        assert!(node.is_silent_to_most(lost));
        let soon = Some(now + node.silent_after() / 4);
        assert_eq!(node.lead.suspects.at, soon, "others had the time to say that they reach it");
        node.handle_unheard(by, lost);
        assert_eq!(node.lead.suspects.at, soon, "once");
    }
    let (mut alone, ..) = super::node();
    assert!(alone.is_silent_to_most(four), "one that leads alone asks nobody");
    alone.handle_unheard(two, four);
    assert_eq!(alone.malformed(), 1, "it has asked nobody");
}

#[test]
fn one_that_comes_to_lead_gives_each_its_time_and_tells_those_in_contact() {
    let (mut node, [leader, left, third]) = following(true);
    let me = node.me().expect("it is one");
    for host in [leader, left] {
        node.peers.remove(host);
    }
    let ended = HostId::new(5, 5).expect("a host");
    let like = node.hosts().next().expect("itself").clone();
    let more = [ended, HostId::new(6, 6).expect("a host")];
    for host in more {
        let key = [host.slot() as u8; 32];
        append(&mut node, Change::Added(towpath_vm::Host { id: host, key, ..like.clone() }));
    }
    node.voting.ended.insert(ended);
    node.standing.left = Some(left);
    let mut state = node.log.clone().expect("a log");
    state.apply(state.snapshot().index + 1, Command::Lead(me));
    let snapshot = towpath_vm::Snapshot { lost_after_ms: 8000, ..state.snapshot().clone() };
    let state = towpath_vm::control::ControlState::from_snapshot(snapshot);
    assert_eq!(state.leader(), me);
    events(&mut node);
    node.take_lead(NOW, state);
    let told = events(&mut node);
    assert!(told.contains(&NodeEvent::LeaderBack(me)) && !node.is_frozen() && node.leads());
    let is_lead = |m: &Message| match m {
        Message::Entries(said) => said.entries.iter().any(|e| e.change == Change::Leads(me)),
        _ => false,
    };
    assert_eq!(queued(&node, third, is_lead), 1, "it is in contact");
    let states = |node: &Node, host| node.hosts().find(|h| h.id == host).map(|h| h.state);
    assert_eq!(states(&node, ended), Some(HostState::Lost), "its engine has ended");
    assert_eq!(states(&node, left), None, "it had said that it leaves");
    let until = |host| node.lead.suspects.by_host.get(&host).map(|suspect| suspect.until);
    assert_eq!(until(leader), Some(NOW + node.return_within()), "that was found out here");
    assert_eq!(until(more[1]), Some(NOW + SECOND * 16), "twice what silent hosts are given");
    assert_eq!(until(third), None);
    let untold: Vec<HostId> = node.voting.untold.iter().copied().collect();
    assert!(untold.contains(&third) && !untold.contains(&me));
}

#[test]
fn what_a_voter_is_asked_about_is_noted_and_what_others_are_is_not() {
    let (mut node, [leader, other, third]) = following(true);
    node.peers.remove(third);
    node.handle_reach(NOW, leader, third);
    assert!(node.voting.asked_about.is_empty(), "it keeps no log");
    assert!(!node.peers.hosts().contains(&third), "and calls nobody for that");
    let me = node.me().expect("it is one");
    let keep = Keep { generation: 5, replica: replica_of(me, 1).0, vm_key: [4; 32], voters: 3 };
    node.handle_keep(NOW, leader, &keep);
    node.handle_reach(NOW, other, third);
    node.handle_reach(NOW, me, third);
    assert!(node.voting.asked_about.is_empty(), "it does not lead");
    let look = |node: &mut Node| {
        let now = node.voting.look_at.expect("something is asked about");
        node.tell_whom_we_reach(now);
        now
    };
    let unheard = |node: &Node| queued(node, leader, |m| matches!(m, Message::Unheard(_)));
    node.peers.remove(third);
    node.handle_reach(NOW, leader, third);
    assert!(node.peers.hosts().contains(&third), "it is called");
    node.peers.set_up(third, AssociationId(7));
    assert_eq!(node.voting.asked_about, [(third, NOW)].into());
    assert_eq!(node.malformed(), 0);
    // It gives no sign of life for as long as silent ones are waited for.
    let mut now = NOW;
    while now.since(NOW) + TICK <= node.silent_after() {
        now = look(&mut node);
        assert_eq!((node.voting.asked_about.len(), unheard(&node)), (1, 0));
    }
    now = look(&mut node);
    assert!(now > NOW && node.voting.asked_about.is_empty() && node.voting.look_at.is_none());
    assert_eq!(unheard(&node), 1);
    assert_eq!(queued(&node, leader, |m| matches!(m, Message::Reached(_))), 0);
    let (mut node, [leader, _, third]) = following(false);
    node.handle_reach(NOW, leader, third);
    node.handle_unheard(leader, third);
    assert_eq!(node.malformed(), 2);
}

#[test]
fn of_five_that_vote_two_can_be_done_without() {
    let founder = NodeConfig { voters: 5, ..super::net::config(0, "h0") };
    let mut net = voting::net_of(6, founder);
    let (voters, _) = net.node(0).voters();
    assert_eq!(voters.len(), 5);
    let (last, now) = (net.id(5), net.now);
    let heard = |net: &mut super::net::Net, host| {
        let now = net.now;
        net.node(0).can_do_without(now, host)
    };
    assert!(!voters.contains(&last) && net.node(0).can_do_without(now, last));
    let first = voters[1];
    net.crash(3);
    net.crash(4);
    net.run(1200);
    assert!(heard(&mut net, last), "three of five");
    assert!(!heard(&mut net, first), "it is one of them");
    net.crash(2);
    net.run(1200);
    assert!(!heard(&mut net, last));
}

#[test]
fn where_another_one_is_followed_those_that_are_watched_are_looked_at_again() {
    let (mut node, mut now) = keeper();
    for (n, host) in [2, 3].into_iter().enumerate() {
        node.peers.set_up(id(host), AssociationId(n as u32));
    }
    let mut looks = |node: &mut Node| {
        node.peers.dirty = <_>::default();
        node.settle_voting(now);
        let looks = node.peers.any_dirty();
        now += Duration::from_millis(1);
        looks
    };
    looks(&mut node);
    assert!(!looks(&mut node), "nothing has changed");
    node.voting.follows = None;
    assert!(looks(&mut node) && !looks(&mut node));
    assert_eq!(node.voting.follows, Some(id(1)));
}
