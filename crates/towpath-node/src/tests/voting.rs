//! Several hosts that keep the log, and what becomes of a virtual machine whose leader is gone.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::Rng;
use towpath_proto::config::Liveness;
use towpath_vm::HostState;
use towpath_vm::talk::{
    Answer, Fault, MailRules, Question, RegistryAnswer, RegistryOp, ToDaemon, ToTask,
};
use towpath_wire::{HostId, TaskId};

use super::disk::Disk;
use super::net::{Net, VM_KEY, config, program};
use super::standin::StandIn;
use crate::{Node, NodeConfig, NodeEvent};

pub(super) fn sharing(index: usize) -> NodeConfig {
    NodeConfig { voters: 3, ..config(index, &alloc::format!("h{index}")) }
}

/// A virtual machine of so many hosts whose log three keep.
pub(super) fn net(hosts: usize) -> Net {
    net_of(hosts, sharing(0))
}

pub(super) fn net_of(hosts: usize, founder: NodeConfig) -> Net {
    let mut net = Net::founded(founder);
    for index in 1..hosts {
        net.add(sharing(index));
        net.run(100);
    }
    net.run(1000);
    for index in 0..hosts {
        net.events(index);
    }
    net
}

pub(super) fn leaders(net: &Net) -> Vec<usize> {
    let leads = |host: &usize| net.seats[*host].node.as_ref().is_some_and(Node::leads);
    (0..net.seats.len()).filter(leads).collect()
}

/// The one that leads, whom all that live follow.
pub(super) fn leader(net: &mut Net) -> usize {
    let leaders = leaders(net);
    let [leader] = leaders[..] else { panic!("{leaders:?} lead") };
    let id = net.id(leader);
    for host in 0..net.seats.len() {
        if let Some(node) = &net.seats[host].node {
            assert_eq!((node.leader(), node.is_frozen()), (Some(id), false), "host {host}");
            assert_eq!(node.malformed(), 0, "host {host}");
        }
    }
    leader
}

fn state(net: &mut Net, seen_by: usize, host: HostId) -> Option<HostState> {
    let node = net.node(seen_by);
    node.hosts().find(|h| h.id == host).map(|h| h.state)
}

fn join(net: &mut Net, host: usize, task: TaskId, group: &str) -> Answer {
    net.ask(host, task, Question::Registry(RegistryOp::Join(group.into()))).expect("it joins")
}

#[test]
fn as_many_keep_the_log_as_there_are_hosts_for() {
    for (hosts, voters, learners) in [(1, 1, 0), (2, 1, 1), (3, 3, 0), (5, 3, 0)] {
        let mut net = net(hosts);
        let (voting, learning) = net.node(0).voters();
        assert_eq!((voting.len(), learning.len()), (voters, learners), "{hosts} hosts");
        let named = net.node(hosts - 1).log.as_ref().expect("a log").snapshot().voters.clone();
        assert_eq!(named, voting, "all know them");
        assert_eq!(leader(&mut net), 0);
    }
}

#[test]
fn another_one_leads_when_the_leader_is_gone_and_what_runs_elsewhere_does_not_notice() {
    let mut net = net(4);
    let (two, three) = (net.enrol(2), net.enrol(3));
    join(&mut net, 2, two, "g");
    join(&mut net, 3, three, "g");
    let founder = net.id(0);
    net.crash(0);
    net.run(6000);
    let leader = leader(&mut net);
    assert!(leader > 0);
    // The group is there, with who was in it; a new one comes in behind them.
    let size = net.ask(2, two, Question::Registry(RegistryOp::Members("g".into())));
    let Ok(Answer::Registry(RegistryAnswer::Members { members, .. })) = size else {
        panic!("{size:?}")
    };
    assert_eq!(members, [Some(two), Some(three)]);
    net.run(10_000);
    assert_eq!(state(&mut net, 3, founder), Some(HostState::Lost));
    for host in 1..4 {
        let lost = |e: &&NodeEvent| matches!(e, NodeEvent::HostLost(id) if *id != founder);
        assert_eq!(net.events(host).iter().find(lost), None, "nobody else is lost");
    }
    // Who is lost is replaced: all three that are left keep the log.
    let (voters, learners) = net.node(leader).voters();
    assert_eq!((voters.len(), learners.len()), (3, 0), "{voters:?}");
    // A host joins, and a task starts there.
    let target = net.target_of(leader, 60);
    net.add_by(sharing(4), target);
    net.run(1000);
    let new = net.id(4);
    let request = net.spawn(3, new, program(&[]));
    net.run(100);
    net.started(4);
    net.run(100);
    assert!(!net.news(3, request).is_empty());
}

#[test]
fn a_leader_that_was_cut_off_decides_nothing_and_follows_when_it_is_back() {
    let mut founder = sharing(0);
    // Nobody is lost meanwhile.
    founder.proto.liveness = Liveness::after(Duration::from_secs(20));
    let mut net = net_of(4, founder);
    let task = net.enrol(0);
    for other in 1..4 {
        net.cut(0, other);
    }
    net.run(4000);
    assert!(net.node(0).is_frozen(), "it can have nothing decided");
    let question = Question::Registry(RegistryOp::Join("g".into()));
    net.says(0, task, ToDaemon::Ask { number: 1000, question });
    net.run(100);
    assert_eq!(answers(&mut net, 0, task), []);
    let [leader] = leaders(&net)[..] else { panic!("one leads") };
    assert!(leader > 0 && net.node(0).hosts().all(|h| h.state == HostState::Up));
    net.mend();
    net.run(8000);
    assert_eq!(self::leader(&mut net), leader);
    let joined = Ok(Answer::Registry(RegistryAnswer::Instance(0)));
    assert_eq!(answers(&mut net, 0, task), [(1000, joined)]);
}

#[test]
fn a_leader_that_was_away_for_long_comes_back_as_another_host() {
    let mut net = net(4);
    let task = net.enrol(0);
    let before = net.id(0);
    for other in 1..4 {
        net.cut(0, other);
    }
    net.run(30_000);
    net.mend();
    net.run(10_000);
    let leader = leader(&mut net);
    assert!(leader > 0);
    assert_ne!(net.id(0), before, "it was lost");
    assert!(net.told(0, task).iter().any(|t| matches!(t, ToTask::End(_))));
    let now_is = net.id(0);
    assert_eq!(state(&mut net, leader, now_is), Some(HostState::Up));
}

#[test]
fn a_founder_that_starts_again_joins_whoever_leads() {
    for pause in [50, 700, 3000, 20_000] {
        let mut net = net(4);
        let saved = net.node(0).saved().expect("it leads");
        assert!(saved.is_shared());
        let before = net.id(0);
        net.crash(0);
        net.run(pause);
        let (crypto, rng) = (Box::new(StandIn::new(1)), Rng::new(77, 1));
        let now = net.now;
        let node = Node::found_again(now, sharing(0), crypto, rng, VM_KEY, saved);
        net.seats[0].node = Some(node.expect("it is its own"));
        net.run(8000);
        let leader = leader(&mut net);
        assert!(leader > 0, "after {pause} ms");
        assert_ne!(net.id(0), before, "it has nothing of what it was");
        net.run(3000);
        let (voters, _) = net.node(leader).voters();
        assert_eq!(voters.len(), 3, "{voters:?}");
        let up = net.node(leader).hosts().filter(|h| h.state == HostState::Up).count();
        assert_eq!(up, 4);
    }
}

#[test]
fn one_after_the_other_may_go_as_long_as_most_of_those_that_vote_live() {
    let mut net = net(6);
    for gone in 0..3 {
        let leader = leader(&mut net);
        net.crash(leader);
        net.run(30_000);
        let leader = self::leader(&mut net);
        let (voters, _) = net.node(leader).voters();
        let living = (0..6).filter(|h| net.seats[*h].node.is_some()).map(|h| net.id(h));
        let living: Vec<HostId> = living.collect();
        assert_eq!(voters.len(), 3);
        assert!(voters.iter().all(|v| living.contains(v)), "after {gone}: {voters:?}");
    }
}

#[test]
fn a_host_that_did_not_hear_who_votes_asks_those_it_knows() {
    let mut net = Net::founded(sharing(0));
    for index in 1..3 {
        net.add(sharing(index));
        net.run(100);
    }
    net.run(1000);
    // The last one knows neither that another one votes now, nor that one of them has come.
    net.add(sharing(3));
    net.run(1000);
    let stale = net.node(3).log.clone();
    net.crash(1);
    net.run(20_000);
    let (voters, _) = net.node(0).voters();
    assert!(voters.contains(&net.id(3)), "{voters:?}");
    net.add(sharing(4));
    net.run(1000);
    let known = net.node(4).log.as_ref().expect("a log").snapshot().voters.clone();
    assert_eq!(known.len(), 3);
    drop(stale);
    // It believes that only the founder and the second may lead.
    let second = net.id(2);
    let founder = net.id(0);
    let behind = &mut net.node(4).log;
    let mut snapshot = behind.as_ref().expect("a log").snapshot().clone();
    snapshot.voters = [founder, second].into();
    *behind = Some(towpath_vm::control::ControlState::from_snapshot(snapshot));
    net.crash(0);
    net.run(20_000);
    leader(&mut net);
}

#[test]
fn whoever_vote_are_believed_and_nobody_else() {
    let mut net = net(5);
    let liar = net.id(4);
    let (term, index) = net.node(3).log.as_ref().expect("a log").snapshot().place();
    let change = towpath_vm::Change::Leads(liar);
    let entries = [towpath_vm::Entry { term: term + 1, index: index + 1, change }].into();
    let says = towpath_vm::Message::Entries(towpath_vm::message::Entries { entries });
    net.call(4, |node, now, memory| {
        let to = node.hosts().map(|h| h.id).find(|h| h.slot() == 4).expect("a host");
        node.tell(now, to, says);
        node.pump(now, memory);
    });
    net.run(2000);
    let founder = net.id(0);
    assert_eq!(net.node(3).leader(), Some(founder));
    assert_eq!(net.node(3).log_index(), index);
}

fn answers(net: &mut Net, host: usize, task: TaskId) -> Vec<(u64, Result<Answer, Fault>)> {
    let answer = |t| match t {
        ToTask::Answer { number, answer } => Some((number, answer)),
        _ => None,
    };
    net.told(host, task).into_iter().filter_map(answer).collect()
}

#[test]
fn what_was_asked_of_a_leader_that_is_gone_is_answered_once_by_the_next() {
    // When the leader goes, in ms after the last one has come to the barrier.
    for gone_after in [0, 1, 2, 3, 4, 50] {
        let mut net = net(4);
        let tasks = [1, 2, 3].map(|host| (host, net.enrol(host)));
        for (host, task) in tasks {
            join(&mut net, host, task, "g");
        }
        let barrier = RegistryOp::Barrier { group: "g".into(), count: 3 };
        for (host, task) in tasks {
            let question = Question::Registry(barrier.clone());
            net.says(host, task, ToDaemon::Ask { number: 1000, question });
            net.run(10 * u64::from(host != 3));
        }
        net.run(gone_after);
        net.crash(0);
        // Whoever is through the barrier asks for something else, while nobody leads.
        net.run(50);
        let rules = MailRules::default();
        let put = RegistryOp::Put {
            name: "m".into(),
            index: None,
            rules: MailRules { many: true, ..rules },
            format: 0,
            content: vec![1; 100],
        };
        let question = Question::Registry(put);
        net.says(1, tasks[0].1, ToDaemon::Ask { number: 1001, question });
        net.run(8000);
        leader(&mut net);
        let done = Ok(Answer::Registry(RegistryAnswer::Done));
        for (host, task) in tasks {
            let answers = answers(&mut net, host, task);
            let first: Vec<_> = answers.iter().filter(|(number, _)| *number == 1000).collect();
            assert_eq!(first, [&(1000, done.clone())], "host {host}, {gone_after} ms");
            let more = answers.iter().filter(|(number, _)| *number == 1001);
            let index = Ok(Answer::Registry(RegistryAnswer::Index(0)));
            let more: Vec<_> = more.cloned().collect();
            let asked = if host == 1 { vec![(1001, index)] } else { Vec::new() };
            assert_eq!(more, asked);
        }
        let list = RegistryOp::Mailboxes { pattern: "m".into() };
        let boxes = net.ask(2, tasks[1].1, Question::Registry(list));
        let Ok(Answer::Registry(RegistryAnswer::Mailboxes(boxes))) = boxes else {
            panic!("{boxes:?}")
        };
        assert_eq!(boxes[0].entries.len(), 1, "it is there once");
    }
}

#[test]
fn a_question_that_nobody_can_answer_ends_after_a_while() {
    let mut net = net(3);
    let task = net.enrol(2);
    join(&mut net, 2, task, "g");
    net.crash(0);
    net.crash(1);
    net.run(3000);
    let question = Question::Registry(RegistryOp::Members("g".into()));
    net.says(2, task, ToDaemon::Ask { number: 1000, question });
    net.run(29_000);
    assert_eq!(answers(&mut net, 2, task), []);
    net.run(2000);
    let answers = answers(&mut net, 2, task);
    assert!(matches!(answers[..], [(1000, Err(Fault::Frozen(_)))]), "{answers:?}");
}

#[test]
fn a_host_that_another_voter_reaches_is_not_lost_and_one_that_nobody_reaches_is() {
    let mut net = net(5);
    net.crash(0);
    net.run(8000);
    let leader = leader(&mut net);
    let (voters, _) = net.node(leader).voters();
    // Host 4 joined last: if it votes, it is not the one that is cut off.
    let cut = (1..5).rev().find(|h| *h != leader && !voters.contains(&net.id(*h)));
    let cut = cut.expect("one of four does not vote");
    let id = net.id(cut);
    let other = (1..5).find(|h| *h != leader && voters.contains(&net.id(*h))).expect("a voter");
    net.call(other, |node, now, memory| node.connect_to(now, id, memory));
    net.run(100);
    net.cut(leader, cut);
    net.run(40_000);
    assert_eq!(state(&mut net, leader, id), Some(HostState::Up));
    for host in 0..5 {
        net.cut(host, cut);
    }
    net.run(20_000);
    assert_eq!(state(&mut net, leader, id), Some(HostState::Lost));
}

#[test]
fn a_leader_that_leaves_is_gone_and_not_lost() {
    let mut net = net(4);
    let founder = net.id(0);
    net.call(0, |node, now, memory| node.leave(now, "left", memory));
    net.crash(0);
    net.run(4000);
    let leader = leader(&mut net);
    assert_eq!(state(&mut net, leader, founder), None);
    let (voters, _) = net.node(leader).voters();
    assert_eq!(voters.len(), 3, "{voters:?}");
}

#[test]
fn a_founder_that_followed_starts_again_from_what_it_kept_as_such() {
    let keeping = || NodeConfig { keeps_table: true, ..sharing(0) };
    let mut net = Net::founded(keeping());
    net.seats[0].disk = Some(Disk::new());
    for index in 1..4 {
        net.add(sharing(index));
        net.run(100);
    }
    net.run(500);
    assert_eq!(net.node(0).voters().0.len(), 1, "its table is on no disk yet");
    net.node(0).kept(u64::MAX);
    net.run(500);
    assert_eq!(net.node(0).voters().0.len(), 3);
    let again = |net: &mut Net, saved| {
        let (crypto, rng) = (Box::new(StandIn::new(1)), Rng::new(77, 1));
        Node::found_again(net.now, keeping(), crypto, rng, VM_KEY, saved)
    };
    for _ in 0..2 {
        let saved = net.node(0).saved().expect("it keeps it, whoever leads");
        net.crash(0);
        net.run(4000);
        let node = again(&mut net, saved).expect("it is its own");
        (net.seats[0].node, net.seats[0].disk) = (Some(node), Some(Disk::new()));
        net.run(6000);
        assert!(leader(&mut net) > 0);
    }
    let saved = net.node(0).saved().expect("it keeps it, whoever leads");
    assert_ne!(
        saved.addr(&towpath_proto::HostKey([9; 32])),
        saved.addr(&{
            let node = net.node(0);
            node.endpoint().public_key()
        })
    );
    // Most of those that vote are gone: it leads from there when told to, in a later term.
    for host in 0..4 {
        net.crash(host);
    }
    let term = saved.snapshot.term;
    let node = again(&mut net, saved.clone().alone()).expect("it is its own");
    net.seats[0].node = Some(node);
    net.run(4000);
    assert!(net.node(0).leads());
    assert!(net.node(0).saved().expect("it leads").snapshot.term > term + (1 << 31));
    let crypto = Box::new(StandIn::new(5));
    let other =
        Node::found_again(net.now, keeping(), crypto, Rng::new(7, 1), VM_KEY, saved.alone());
    assert!(other.is_err(), "that is another host's");
}
