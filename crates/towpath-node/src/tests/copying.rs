//! A daemon that runs from a copy of a host's directory, and one that was started again.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use towpath_proto::{AssociationId, HostKey, Rng};
use towpath_vm::HostState;
use towpath_wire::Admission;

use super::disk::Disk;
use super::net::{Net, VM_KEY, addr, config};
use super::standin::StandIn;
use crate::config::refusal;
use crate::hello::Purpose;
use crate::{JoinFailure, Node, NodeConfig, NodeEvent, Saved};

/// The configuration of a host, in a daemon of this life.
fn living(index: usize, life: u64) -> NodeConfig {
    NodeConfig { life, keeps_table: true, ..config(index, &format!("h{index}")) }
}

/// So many hosts, of which so many vote, each in a life of its own.
fn net(hosts: usize, voters: u8) -> Net {
    let of = |index: usize| NodeConfig { voters, ..living(index, index as u64 + 1) };
    let mut net = Net::founded(of(0));
    net.seats[0].disk = Some(Disk::new());
    for index in 1..hosts {
        net.add(of(index));
        net.seats[index].disk = Some(Disk::new());
        net.run(100);
    }
    net.node(0).kept(u64::MAX);
    net.run(2000);
    for index in 0..hosts {
        net.events(index);
    }
    net
}

/// Whether a daemon is told that another one runs with its key.
fn is_refused(net: &mut Net, seat: usize) -> bool {
    let events = net.events(seat);
    events.iter().any(|event| {
        let NodeEvent::JoinFailed(failure) = event else { return false };
        let failure = match failure {
            JoinFailure::NoneOf { failure, .. } => failure,
            failure => failure,
        };
        matches!(failure, JoinFailure::Refused(r) if r.code == refusal::COPIED)
    })
}

/// All hosts are who they were, in contact, and led by the first.
fn is_as_before(net: &mut Net, hosts: usize) {
    let leader = net.id(0);
    for host in 0..hosts {
        let events = net.events(host);
        let lost = events.iter().find(|e| {
            matches!(
                e,
                NodeEvent::HostLost(_) | NodeEvent::ContactOver { .. } | NodeEvent::Joined { .. }
            )
        });
        assert!(lost.is_none(), "{host}: {lost:?}");
        let node = net.node(host);
        assert_eq!((node.leader(), node.is_frozen()), (Some(leader), false));
        assert!(node.hosts().all(|h| h.state == HostState::Up));
    }
}

#[test]
fn a_copy_of_a_host_is_not_let_in_and_the_host_does_not_notice() {
    let mut net = net(3, 1);
    let (task, other) = (net.enrol(1), net.enrol(2));
    let target = net.target(60);
    let (crypto, rng) = (Box::new(StandIn::new(2)), Rng::new(9, 9));
    net.sit(Node::join(net.now, living(3, 99), crypto, rng, target));
    net.run(90);
    assert!(!is_refused(&mut net, 3), "what it said before may still come");
    net.run(1500);
    assert!(!is_refused(&mut net, 3), "that may have been late: it asks again");
    net.run(2500);
    assert!(is_refused(&mut net, 3));
    let host = net.id(1);
    let told = net.events(0);
    let remote = addr(3);
    let twice = |e: &NodeEvent| match e {
        NodeEvent::Twice { host, remote } => Some((*host, *remote)),
        _ => None,
    };
    assert_eq!(told.iter().filter_map(twice).collect::<Vec<_>>(), [(host, remote)]);
    is_as_before(&mut net, 3);
    assert!(net.send(1, task, other, 0, 10));
    net.run(50);
    assert_eq!(net.got(2, other), [0]);
    assert!(net.node(0).peers.copies.doubts.is_empty());
}

#[test]
fn a_host_that_starts_again_is_let_in_once_its_old_daemon_does_not_answer() {
    let mut net = net(3, 1);
    let before = net.id(1);
    net.crash(1);
    let target = net.target(60);
    let (crypto, rng) = (Box::new(StandIn::new(2)), Rng::new(9, 9));
    net.seats[1].node = Some(Node::join(net.now, living(1, 99), crypto, rng, target));
    net.run(1000);
    assert_ne!(net.id(1), before);
    assert!(!is_refused(&mut net, 1) && net.node(0).peers.copies.doubts.is_empty());
}

#[test]
fn one_that_asks_again_waits_in_the_stead_of_what_it_asked_before() {
    let mut net = net(3, 1);
    net.crash(1);
    for port in [3, 4] {
        let target = net.target(60);
        let (crypto, rng) = (Box::new(StandIn::new(2)), Rng::new(9, port as u64));
        net.sit(Node::join(net.now, living(port, 99 + port as u64), crypto, rng, target));
        net.run(20);
        assert_eq!(net.node(0).peers.copies.doubts.len(), 1);
    }
    let first = net.events(3);
    assert!(first.is_empty(), "it tries again: {first:?}");
    net.run(1000);
    assert!(net.node(4).me().is_some());
}

fn again(net: &Net, seat: usize, of: u64, life: u64, saved: Saved) -> Node {
    let (crypto, rng) = (Box::new(StandIn::new(of)), Rng::new(9, 9));
    let node = Node::found_again(net.now, living(seat, life), crypto, rng, VM_KEY, saved);
    node.expect("it is its own")
}

#[test]
fn a_copy_of_the_founder_does_not_lead_while_the_founder_does() {
    let mut net = net(3, 1);
    let saved = net.node(0).saved().expect("it leads");
    let copy = again(&net, 3, 1, 99, saved);
    net.sit(copy);
    net.run(5000);
    assert!(is_refused(&mut net, 3) && !net.node(3).leads() && net.node(3).me().is_none());
    is_as_before(&mut net, 3);
}

#[test]
fn a_copy_of_one_that_keeps_the_log_is_not_taken_back() {
    let mut net = net(4, 3);
    for (of, seat) in [(1, 4), (0, 5)] {
        let saved = net.node(of).saved().expect("it keeps it");
        let copy = again(&net, seat, of as u64 + 1, 99, saved);
        net.sit(copy);
        net.run(8000);
        assert!(is_refused(&mut net, seat), "the copy of {of}");
    }
    is_as_before(&mut net, 4);
}

#[test]
fn the_word_of_a_copys_guard_is_not_the_hosts() {
    let mut net = net(3, 1);
    let (id, other) = (net.id(1), net.id(2));
    let says = |net: &mut Net, life| {
        let mut hello = net.node(1).hello(Purpose::Ended(id));
        hello.life = life;
        let (key, hello, now) = (HostKey(key(net, 1)), hello.encode("test"), net.now);
        let node = net.node(2);
        let nobody = AssociationId(u32::MAX);
        node.handle_incoming(now, nobody, (key, addr(7)), Admission::Member, &hello);
        node.events.iter().filter(|e| matches!(e, NodeEvent::ContactOver { .. })).count()
    };
    net.call(1, |node, now, memory| node.connect_to(now, other, memory));
    net.run(100);
    assert_eq!([99, 2].map(|life| says(&mut net, life)), [0, 1]);
}

fn key(net: &mut Net, host: usize) -> [u8; 32] {
    net.node(host).endpoint().public_key().0
}

#[test]
fn those_that_do_not_say_which_daemon_they_are_are_judged_as_ever() {
    let mut net = Net::new(2);
    let target = net.target(60);
    let (crypto, rng) = (Box::new(StandIn::new(2)), Rng::new(9, 9));
    let before = net.id(1);
    net.crash(1);
    net.seats[1].node = Some(Node::join(net.now, config(1, "h1"), crypto, rng, target));
    net.run(30);
    assert_ne!(net.id(1), before, "nobody is asked");
}

/// Whoever recorded the first packet of a host's handshake can send it again, as often as it likes.
#[test]
fn recorded_handshakes_keep_no_host_out_that_starts_again() {
    let mut net = net(3, 1);
    let (host, before) = (net.id(1), key(&mut net, 1));
    let mut hello = net.node(1).hello(Purpose::Member(host));
    hello.life = 77;
    let hello = hello.encode("test");
    net.crash(1);
    let target = net.target(60);
    let (crypto, rng) = (Box::new(StandIn::new(2)), Rng::new(9, 9));
    net.seats[1].node = Some(Node::join(net.now, living(1, 99), crypto, rng, target));
    for again in 0..500 {
        let (now, id) = (net.now, AssociationId(u32::MAX - again));
        net.node(0).handle_incoming(now, id, (HostKey(before), addr(7)), Admission::Member, &hello);
        net.run(4);
    }
    assert!(net.node(1).me().is_some_and(|me| me != host), "it is let in within two seconds");
    // One that is there answers, and goes on answering, whatever was said while it was not.
    for _ in 0..50 {
        let (now, id) = (net.now, AssociationId(u32::MAX));
        net.node(0).handle_incoming(now, id, (HostKey(before), addr(7)), Admission::Member, &hello);
        net.run(20);
    }
    let events = net.events(1);
    assert!(!events.iter().any(|e| matches!(e, NodeEvent::ContactOver { .. })), "{events:?}");
}
