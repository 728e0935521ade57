//! Hosts that are lost, leave or are deleted, and what goes with them.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use towpath_proto::Rng;
use towpath_vm::message::Parted;
use towpath_vm::talk::{Fault, Question, RegistryOp, Subject, ToDaemon, ToTask, WatchEvent};
use towpath_vm::{Action, Ending, HostState, Message, RequestEvent};
use towpath_wire::{HostId, TaskId};

use super::net::{Net, VM_KEY, config, program};
use super::standin::StandIn;
use crate::restore::Saved;
use crate::{DeleteError, Node, NodeEvent, SpawnError};

fn watched(hosts: usize) -> Net {
    let mut net = Net::new(hosts);
    net.call(0, |node, now, memory| node.watch_hosts(now, true, memory));
    net.run(100);
    net
}

fn hosts_events(events: &[NodeEvent]) -> Vec<&NodeEvent> {
    let about = |e: &&NodeEvent| {
        matches!(
            e,
            NodeEvent::HostLost(_)
                | NodeEvent::HostLeft(_)
                | NodeEvent::HostAdded(_)
                | NodeEvent::Joined { .. }
                | NodeEvent::Deleted
                | NodeEvent::LeaderLost(_)
        )
    };
    events.iter().filter(about).collect()
}

#[test]
fn a_host_that_dies_is_lost_for_all_and_what_depended_on_it_ends() {
    let mut net = watched(3);
    let (one, two, three) = (net.id(0), net.id(1), net.id(2));
    let request = net.spawn(1, three, program(&[]));
    let theirs = net.call(2, |node, now, m| node.spawn(now, two, program(&[]), m)).expect("asked");
    net.run(50);
    let there = net.started(2);
    net.enrol_by(2, Some(there)).expect("it enrols");
    let here = net.started(1);
    let (a, b) = (net.enrol(1), net.enrol(0));
    assert!(net.send(1, a, there.task, 0, 10));
    net.says(0, b, ToDaemon::Watch { watch: 4, subject: Subject::Task(there.task) });
    net.says(0, b, ToDaemon::Watch { watch: 5, subject: Subject::Host(three) });
    net.says(1, a, ToDaemon::Watch { watch: 6, subject: Subject::Host(three) });
    net.run(100);
    let query = net.call(1, |node, now, memory| node.list(now, three, memory));
    for host in 0..2 {
        net.events(host);
    }
    net.told(1, a);
    net.crash(2);
    let _ = theirs;
    net.run(1_500);
    assert!(net.node(0).hosts().all(|h| h.state == HostState::Up), "not before two seconds");
    net.run(4_000);
    for host in 0..2 {
        let states: Vec<_> = net.node(host).hosts().map(|h| (h.id, h.state)).collect();
        let lost = [(one, HostState::Up), (two, HostState::Up), (three, HostState::Lost)];
        assert_eq!(states, lost, "host {host}");
        assert_eq!(net.node(host).association_to(three), None);
        assert!(!net.node(host).is_frozen());
    }
    let ended = net.news(1, request);
    assert!(
        matches!(&ended[..], [RequestEvent::Ended(exit)] if exit.ending == Ending::HostLost),
        "{ended:?}"
    );
    let events = net.events(1);
    let about = hosts_events(&events);
    assert_eq!(about, [&NodeEvent::HostLost(three)]);
    assert!(
        events.iter().any(|e| matches!(e, NodeEvent::ContactOver { host, .. } if *host == three))
    );
    // What it had asked for ends politely; nobody is left to be told.
    let term = NodeEvent::Action(Action::Signal { task: here.task, signal: 15 });
    assert!(events.contains(&term), "{events:?}");
    let failed = |e: &NodeEvent| match e {
        NodeEvent::Tasks { query: q, host, tasks: Err(_) } => (*q, *host) == (query, three),
        _ => false,
    };
    let answered =
        |e: &NodeEvent| matches!(e, NodeEvent::Tasks { query: q, tasks: Ok(_), .. } if *q == query);
    assert!(events.iter().any(|e| failed(e) || answered(e)), "{events:?}");
    let gone = WatchEvent::HostGone { host: three, lost: true };
    let over = WatchEvent::TaskEnded { task: there.task, ending: Some(Ending::HostLost) };
    assert_eq!(
        net.told(1, a),
        [ToTask::Gone { peer: there.task }, ToTask::Notice { watch: 6, event: gone.clone() },]
    );
    let told = net.told(0, b);
    assert!(told.contains(&ToTask::Notice { watch: 4, event: over }), "{told:?}");
    assert!(told.contains(&ToTask::Notice { watch: 5, event: gone.clone() }), "{told:?}");
    assert_eq!(told.len(), 2);
    // Afterwards.
    let refused = net.call(1, |node, now, m| node.spawn(now, three, program(&[]), m));
    assert_eq!(refused, Err(SpawnError::HostLost(three)));
    net.says(1, a, ToDaemon::Watch { watch: 7, subject: Subject::Host(three) });
    assert_eq!(net.told(1, a), [ToTask::Notice { watch: 7, event: gone }]);
    assert_eq!(net.ask(1, a, Question::Clock(three)), Err(Fault::NoHost));
    assert_eq!(net.ask(1, a, Question::Task(there.task)), Err(Fault::NoTask));
}

#[test]
fn a_host_that_was_cut_off_comes_back_as_another_and_its_tasks_end() {
    let mut net = watched(3);
    let three = net.id(2);
    let task = net.enrol(2);
    let request = net.spawn(0, three, program(&[]));
    net.run(50);
    let process = net.started(2);
    net.enrol_by(2, Some(process)).expect("it enrols");
    net.told(2, process.task);
    net.cut(2, 0);
    net.cut(2, 1);
    net.run(8_000);
    assert!(net.events(1).contains(&NodeEvent::HostLost(three)));
    assert!(matches!(&net.news(0, request)[..], [.., RequestEvent::Ended(_)]));
    let mut events = net.events(2);
    assert_eq!(hosts_events(&events), [&NodeEvent::LeaderLost(net.id(0))]);
    assert!(net.node(2).is_frozen());
    let leader = net.id(0);
    let refused = net.call(2, |node, now, m| node.spawn(now, leader, program(&[]), m));
    assert_eq!(refused, Err(SpawnError::HostLost(leader)));
    let join = Question::Registry(RegistryOp::Join("g".into()));
    assert_eq!(net.ask(2, task, join), Err(Fault::Frozen(Some("h0 at 10.0.0.1:7077".into()))));
    assert_eq!(net.ask(2, task, Question::Clock(leader)), Err(Fault::NoHost));
    net.mend();
    net.run(3_000);
    let again = net.id(2);
    assert_ne!(again, three);
    assert!(!net.node(2).is_frozen());
    events.extend(net.events(2));
    assert!(events.contains(&NodeEvent::Joined { me: again, again: true }), "{events:?}");
    assert!(events.contains(&NodeEvent::Action(Action::Signal { task: process.task, signal: 15 })));
    for (task, what) in [(task, "by itself"), (process.task, "started here")] {
        let told = net.told(2, task);
        assert!(matches!(&told[..], [.., ToTask::End(_)]), "{what}: {told:?}");
    }
    for host in 0..2 {
        let ids: Vec<HostId> = net.node(host).hosts().map(|h| h.id).collect();
        assert!(ids.contains(&again) && !ids.contains(&three), "{ids:?}");
        let added = |e: &NodeEvent| matches!(e, NodeEvent::HostAdded(h) if h.id == again);
        assert!(net.events(host).iter().any(added));
    }
    // The new life works: a task that enrols is one of it.
    net.call(2, |node, now, m| node.task_exited(now, process.task, Ending::Signalled(15), m));
    let new = net.enrol(2);
    assert_eq!(new.host(), again);
    let b = net.enrol(1);
    assert!(net.send(2, new, b, 0, 100));
    net.run(1_000);
    assert_eq!(net.got(1, b), [0]);
    for (host, task) in [(2, new), (1, b)] {
        net.left(host, task);
    }
    net.run(1_000);
    net.nothing_is_left();
}

/// One of two was told that the other is gone, who knows nothing of it.
#[test]
fn who_was_told_that_another_is_gone_hears_nothing_of_it_and_that_one_is_told_too() {
    let mut net = watched(3);
    let (a, b, c) = (net.enrol(1), net.enrol(2), net.enrol(2));
    let two = net.id(2);
    net.call(1, |node, now, memory| node.connect_to(now, two, memory));
    net.run(100);
    net.cut(1, 2);
    assert!(net.send(1, a, b, 0, 10), "it is taken, and does not arrive");
    net.run(3_500);
    assert_eq!((net.told(1, a), net.told(2, b)), ([ToTask::Gone { peer: b }].into(), Vec::new()));
    net.mend();
    net.run(3_000);
    assert!(net.events(0).iter().all(|e| !matches!(e, NodeEvent::HostLost(_))), "both live");
    // Its first message would begin a new life of it.
    assert!(net.send(2, b, a, 0, 10) && net.send(2, c, a, 0, 10));
    net.run(200);
    let parted = |net: &mut Net, host: usize| {
        let counters = net.node(host).counters();
        counters.into_iter().find(|(name, _)| *name == "pieces_parted").map(|(_, n)| n)
    };
    let from: Vec<TaskId> = net.seats[1].given.iter().map(|(header, _)| header.src).collect();
    assert_eq!((from, parted(&mut net, 1)), ([c].into(), Some(1)), "the other one is as before");
    net.got(1, a);
    assert_eq!(net.told(2, b), [ToTask::Gone { peer: a }]);
    // Nor does anything go the other way, or any more this one.
    net.send(1, a, b, 0, 10);
    net.send(2, b, a, 1, 10);
    net.run(200);
    assert_eq!((net.got(1, a), net.got(2, b)), (Vec::new(), Vec::new()));
    assert_eq!((net.told(1, a), net.told(2, b)), {
        ([ToTask::Gone { peer: b }].into(), [ToTask::Gone { peer: a }].into())
    });
    // A host that says it of tasks that never had to do with each other is not listened to.
    let d = net.enrol(2);
    let parted = Message::Parted(Parted { task: d, peer: a });
    net.call(1, |node, now, _| node.handle_message(now, two, parted));
    net.run(100);
    assert!(net.send(2, d, a, 0, 10), "it may begin");
    net.run(100);
    assert_eq!((net.told(1, a), net.got(1, a)), (Vec::new(), [0].into()));
    for (host, task) in [(1, a), (2, b), (2, c), (2, d)] {
        net.left(host, task);
    }
    net.run(1_000);
    net.nothing_is_left();
}

/// The leader itself was away. Who reaches it first is no reason to give those up who come later,
/// though their time to return would be over by then.
#[test]
fn a_leader_that_was_away_gives_all_of_the_others_time_to_come_back() {
    let mut net = watched(4);
    let before: Vec<HostId> = (0..4).map(|host| net.id(host)).collect();
    for host in 1..4 {
        net.cut(0, host);
    }
    net.run(5_500);
    for host in 1..4 {
        assert!(net.events(host).contains(&NodeEvent::LeaderLost(before[0])), "{host}");
    }
    net.mend();
    net.cut(0, 2);
    net.cut(0, 3);
    net.run(3_000);
    assert!(net.events(1).contains(&NodeEvent::LeaderBack(before[0])));
    net.mend();
    net.run(5_000);
    assert_eq!((0..4).map(|host| net.id(host)).collect::<Vec<_>>(), before);
    let lost = |e: &NodeEvent| matches!(e, NodeEvent::HostLost(_));
    assert!((0..4).all(|host| !net.events(host).iter().any(lost)));
}

/// The same, where the others come back one after the other while their silence is judged.
#[test]
fn who_is_not_back_yet_is_not_lost_for_what_the_leader_missed() {
    // One is silent for longer than the other when that one is back.
    for (later, away) in [(600, 1_700), (800, 1_600), (1_000, 1_500), (1_000, 1_800)] {
        let mut net = watched(3);
        let before: Vec<HostId> = (0..3).map(|host| net.id(host)).collect();
        net.cut(0, 1);
        net.run(later);
        net.cut(0, 2);
        net.run(away);
        net.mend();
        net.cut(0, 2);
        net.run(800);
        net.mend();
        net.run(5_000);
        let after: Vec<HostId> = (0..3).map(|host| net.id(host)).collect();
        assert_eq!(after, before, "cut off {later} ms later, for {away} ms");
    }
}

/// A task ends on a host that is cut off, and the leader is to hear of it.
#[test]
fn what_a_host_had_to_tell_the_leader_is_given_up_when_it_joins_again() {
    let cuts = [&[(2, 0)][..], &[(0, 2)], &[(0, 2), (2, 0), (1, 2), (2, 1)]];
    for (cut, after) in cuts.into_iter().flat_map(|c| [0, 1_900, 2_300, 4_000].map(|ms| (c, ms))) {
        let mut net = watched(3);
        let three = net.id(2);
        let (a, b) = (net.enrol(2), net.enrol(0));
        assert!(net.send(2, a, b, 0, 10));
        net.run(100);
        assert_eq!(net.got(0, b), [0]);
        for (from, to) in cut {
            net.cut_way(*from, *to);
        }
        net.run(after);
        net.left(2, a);
        net.run(9_000 - after);
        net.mend();
        net.run(3_000);
        assert_ne!(net.id(2), three, "{cut:?}");
        net.left(0, b);
        net.run(1_000);
        net.nothing_is_left();
    }
}

#[test]
fn a_host_that_leaves_is_not_lost() {
    let mut net = watched(3);
    let (two, three) = (net.id(1), net.id(2));
    let a = net.enrol(1);
    net.says(1, a, ToDaemon::Watch { watch: 1, subject: Subject::Host(three) });
    let request = net.spawn(0, three, program(&[]));
    net.run(50);
    let process = net.started(2);
    net.run(10);
    net.call(2, |node, now, memory| node.leave(now, "it goes", memory));
    assert!(
        net.events(2)
            .contains(&NodeEvent::Action(Action::Signal { task: process.task, signal: 15 }))
    );
    net.run(100);
    assert!(
        matches!(&net.news(0, request)[..], [RequestEvent::Started { .. }, RequestEvent::Ended(e)]
        if e.ending == Ending::HostLost)
    );
    for host in 0..2 {
        let events = net.events(host);
        assert_eq!(hosts_events(&events), [&NodeEvent::HostLeft(three)], "host {host}");
        assert!(net.node(host).hosts().all(|h| h.id != three));
    }
    let event = WatchEvent::HostGone { host: three, lost: false };
    assert_eq!(net.told(1, a), [ToTask::Notice { watch: 1, event: event.clone() }]);
    net.says(1, a, ToDaemon::Watch { watch: 1, subject: Subject::Host(three) });
    assert_eq!(net.told(1, a), [ToTask::Notice { watch: 1, event }], "one that nobody knows");
    assert_eq!(net.id(1), two);
}

#[test]
fn the_leader_deletes_hosts_and_nobody_else() {
    let mut net = watched(3);
    let (one, two, three) = (net.id(0), net.id(1), net.id(2));
    let delete = |net: &mut Net, by: usize, host| {
        net.call(by, |node, now, memory| node.delete_host(now, 1, host, memory))
    };
    assert_eq!(delete(&mut net, 1, three), Err(DeleteError::NotLeader));
    assert_eq!(delete(&mut net, 0, one), Err(DeleteError::Leader(one)));
    let nobody = HostId::new(9, 9).expect("a host");
    assert_eq!(delete(&mut net, 0, nobody), Err(DeleteError::Unknown(nobody)));
    let old = HostId::new(3, 1).expect("a host");
    assert_eq!(delete(&mut net, 0, old), Err(DeleteError::Unknown(old)));
    let a = net.enrol(1);
    net.run(50);
    let each = net.ask(1, a, Question::DeleteHosts(vec![one, three, three]));
    let done = towpath_vm::talk::Answer::Each(vec![Err(Fault::Denied), Ok(()), Err(Fault::NoHost)]);
    assert_eq!(each, Ok(done));
    net.run(100);
    assert!(net.events(2).contains(&NodeEvent::Deleted));
    assert_eq!(hosts_events(&net.events(1)), [&NodeEvent::HostLeft(three)]);
    assert_eq!(net.node(0).hosts().map(|h| h.id).collect::<Vec<_>>(), [one, two]);
}

#[test]
fn two_that_do_not_reach_each_other_stay_and_what_they_had_is_over() {
    let mut net = watched(4);
    let (a, b) = (net.enrol(1), net.enrol(2));
    assert!(net.send(1, a, b, 0, 10));
    net.run(100);
    assert_eq!(net.got(2, b), [0]);
    net.cut(1, 2);
    net.cut(1, 3);
    net.run(9_000);
    assert_eq!(net.told(1, a), [ToTask::Gone { peer: b }], "the pair's contact broke");
    // Whoever asks for something new there hears that it cannot be, and soon.
    let (later, d) = (net.enrol(1), net.enrol(3));
    for (to, number) in [(b, 1), (d, 2)] {
        assert!(net.send(1, later, to, number, 10));
    }
    net.run(12_000);
    let told = net.told(1, later);
    assert_eq!(told, [b, d].map(|peer| ToTask::Gone { peer }));
    net.run(60_000);
    for host in 0..4 {
        assert!(net.node(host).hosts().all(|h| h.state == HostState::Up), "host {host}");
        let lost = |e: &&NodeEvent| matches!(e, NodeEvent::HostLost(_));
        assert_eq!(net.events(host).iter().find(lost), None, "host {host}");
    }
    let now = net.now;
    let apart = net.node(0).voters_seen(now).apart;
    assert_eq!(apart, [2, 3].map(|other| (net.id(1), net.id(other))));
    net.mend();
    net.run(15_000);
    let now = net.now;
    assert_eq!(net.node(0).voters_seen(now).apart, []);
    let fresh = net.enrol(1);
    assert!(net.send(1, fresh, b, 3, 10));
    net.run(1_000);
    assert_eq!(net.got(2, b), [3], "nothing of what was given up");
    assert!(!net.send(1, a, b, 4, 10) || net.got(2, b).is_empty(), "once gone, gone for good");
}

#[test]
fn new_hosts_are_told_to_those_who_wait_for_them() {
    let mut net = Net::new(2);
    let (a, b) = (net.enrol(0), net.enrol(1));
    for (host, task) in [(0, a), (1, b)] {
        net.says(host, task, ToDaemon::Watch { watch: 3, subject: Subject::NewHosts });
    }
    let c = net.enrol(1);
    net.says(1, c, ToDaemon::Watch { watch: 1, subject: Subject::NewHosts });
    net.says(1, c, ToDaemon::Unwatch { watch: 1 });
    net.add(super::net::config(2, "new"));
    net.run(200);
    for (host, task) in [(0, a), (1, b)] {
        let told = net.told(host, task);
        assert!(
            matches!(
                &told[..],
                [ToTask::Notice { watch: 3, event: WatchEvent::HostAdded(h) }] if h.name == "new"
            ),
            "{told:?}"
        );
    }
    assert_eq!(net.told(1, c), []);
}

#[test]
fn a_host_that_nothing_depends_on_is_not_watched() {
    let mut net = Net::new(3);
    let asked = |net: &mut Net, ms| {
        let before = net.passed.get(&(0, 1)).copied().unwrap_or(0);
        net.run(ms);
        net.passed[&(0, 1)] - before
    };
    net.run(60_000);
    let quiet = asked(&mut net, 60_000);
    net.call(0, |node, now, memory| node.watch_hosts(now, true, memory));
    let watched = asked(&mut net, 60_000);
    net.call(0, |node, now, memory| node.watch_hosts(now, false, memory));
    net.run(60_000);
    let again = asked(&mut net, 60_000);
    assert!(watched > 20 * quiet.max(1), "{quiet} quiet, {watched} watched");
    assert!(again < watched / 10, "{again} afterwards");
    // A task somewhere is enough: its host tells the leader that it waits.
    let task = net.enrol(2);
    net.run(1_000);
    let by_task = asked(&mut net, 60_000);
    assert!(by_task > 20 * quiet.max(1), "{by_task} for a task elsewhere");
    net.left(2, task);
    net.run(60_000);
    let again = asked(&mut net, 60_000);
    assert!(again < by_task / 10, "{again} afterwards");
    net.nothing_is_left();
}

#[test]
fn the_end_of_everything_is_told_to_all_before_the_leader_ends() {
    let mut net = Net::new(3);
    let a = net.enrol(1);
    let answer = net.ask(1, a, Question::Halt);
    assert_eq!(answer, Ok(towpath_vm::talk::Answer::Done));
    for host in 1..3 {
        assert!(net.events(host).contains(&NodeEvent::Halt), "host {host}");
    }
    assert!(!net.events(0).contains(&NodeEvent::Halt), "it waits for the others");
    net.call(1, |node, now, memory| node.leave(now, "halt", memory));
    net.run(100);
    assert!(!net.events(0).contains(&NodeEvent::Halt), "for each of them");
    net.call(2, |node, now, memory| node.leave(now, "halt", memory));
    net.run(100);
    // Once both are gone there is nobody to wait for; else a second is enough.
    net.run(1_000);
    let halts = net.events(0).into_iter().filter(|e| *e == NodeEvent::Halt).count();
    assert_eq!(halts, 1);
    net.run(3_000);
    assert!(!net.events(0).contains(&NodeEvent::Halt));
}

#[test]
fn the_leader_does_not_wait_long_for_others_to_end() {
    let mut net = Net::new(2);
    let a = net.enrol(0);
    net.ask(0, a, Question::Halt).expect("it is done");
    net.run(800);
    assert!(!net.events(0).contains(&NodeEvent::Halt));
    net.run(200);
    assert!(net.events(0).contains(&NodeEvent::Halt), "a second has passed");
    net.ask(0, a, Question::Halt).expect("it is done");
    net.run(2_000);
    assert!(!net.events(0).contains(&NodeEvent::Halt), "once");
}

/// The founder of `net`, which was ended, begins again with what it kept.
fn back(net: &mut Net, saved: Saved) {
    let (crypto, rng) = (Box::new(StandIn::new(1)), Rng::new(1, 2));
    let node = Node::found_again(net.now, config(0, "h0"), crypto, rng, VM_KEY, saved);
    net.seats[0].node = Some(node.expect("its own"));
}

#[test]
fn a_founder_that_is_back_leads_once_its_members_have_answered() {
    let mut net = Net::new(3);
    let before = net.id(0);
    let saved = net.node(0).saved().expect("it leads");
    net.crash(0);
    net.run(500);
    back(&mut net, saved);
    assert_eq!((net.node(0).me(), net.node(0).saved()), (None, None), "it asks them first");
    net.run(100);
    let me = net.id(0);
    assert!(me.slot() == before.slot() && me.incarnation() > before.incarnation(), "{me}");
    net.run(3000);
    for host in 0..3 {
        assert_eq!(net.node(host).leader(), Some(me));
        assert!(net.node(host).hosts().all(|h| h.state == HostState::Up), "seen by {host}");
    }
}

#[test]
fn a_founder_that_is_back_does_not_wait_for_one_that_knows_it_no_more() {
    let mut net = Net::new(3);
    let saved = net.node(0).saved().expect("it leads");
    net.crash(0);
    // The third has begun a virtual machine of its own.
    let (crypto, rng) = (Box::new(StandIn::new(3)), Rng::new(3, 2));
    net.seats[2].node = Some(Node::found(config(2, "h2"), crypto, rng, [9; 32]));
    net.run(500);
    back(&mut net, saved);
    net.run(200);
    assert!(net.node(0).me().is_some(), "within 200 ms");
    // One that does not answer at all is waited for, and no longer than that.
    let saved = net.node(0).saved().expect("it leads");
    net.crash(0);
    net.crash(1);
    back(&mut net, saved);
    net.run(1900);
    assert_eq!(net.node(0).me(), None);
    net.run(20_000);
    assert!(net.node(0).me().is_some());
}
