//! Two hosts that lost each other: what the leader hears of it, and that both stay.

use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::message::Unreachable;
use towpath_vm::{Change, HostState, Message};
use towpath_wire::HostId;

use super::contact::four;
use super::standing::following;
use super::{NOW, append, voting};
use crate::Node;

const SECOND: Duration = Duration::from_secs(1);

/// What the leader is told of other hosts, in order: whether it is reached.
fn told(node: &Node, leader: HostId) -> Vec<(HostId, bool)> {
    let say = |message| match message {
        Message::Unreachable(Unreachable { host }) => Some((host, false)),
        Message::Reached(Unreachable { host }) => Some((host, true)),
        _ => None,
    };
    node.queued(leader).into_iter().filter_map(say).collect()
}

#[test]
fn the_leader_hears_whom_a_host_lost_and_that_it_reaches_it_again() {
    let (mut node, [leader, other, third]) = following(false);
    node.tell_reached(NOW, other);
    assert_eq!(told(&node, leader), [], "it heard nothing else");
    node.peers.remove(other);
    assert!(node.takes_new(other) && node.silent().next().is_none());
    node.tell_unreachable(NOW, other);
    assert_eq!((told(&node, leader), node.next_retry()), ([(other, false)].into(), Some(NOW)));
    assert!(!node.takes_new(other) && node.silent().eq([other]), "it is given nothing new");
    node.peers.remove(other);
    node.tell_unreachable(NOW, other);
    assert_eq!(node.next_retry(), Some(NOW + SECOND), "it was called at once already");
    node.peers.remove(third);
    node.tell_unreachable(NOW, third);
    let before = told(&node, leader).len();
    node.tell_unreachable_again(NOW);
    assert_eq!(told(&node, leader)[before..], [(other, false), (third, false)]);
    node.lead.broken.forget(third);
    node.tell_reached(NOW, third);
    node.tell_reached(NOW, other);
    node.tell_reached(NOW, other);
    assert_eq!(told(&node, leader)[before + 2..], [(other, true)], "once, and of who is there");
    assert!(node.takes_new(other) && node.silent().eq([third]), "that one was not reached");
}

#[test]
fn the_leader_hears_nothing_while_it_is_out_of_contact_or_of_a_host_that_is_gone() {
    let (mut node, [leader, other, third]) = following(false);
    append(&mut node, Change::Lost(third));
    node.tell_unreachable(NOW, third);
    node.standing.frozen = true;
    node.tell_unreachable(NOW, other);
    node.standing.frozen = false;
    node.peers.remove(leader);
    node.tell_unreachable(NOW, other);
    assert!(told(&node, leader).is_empty() && node.silent().next().is_none());
}

#[test]
fn the_leader_knows_who_is_apart_until_they_reach_each_other() {
    let (mut node, [two, three, four], _) = four();
    let me = node.me().expect("it is one");
    append(&mut node, Change::Lost(four));
    for (from, host) in [(two, two), (two, me), (two, four), (four, two)] {
        node.handle_unreachable(NOW, from, host);
    }
    assert_eq!(node.voters_seen(NOW).apart, []);
    node.handle_unreachable(NOW, three, two);
    assert_eq!(node.voters_seen(NOW).apart, [(two, three)]);
    node.handle_reached(NOW, two, four);
    assert_eq!(node.voters_seen(NOW).apart, [(two, three)], "another one");
    node.handle_reached(NOW, two, three);
    assert_eq!(node.voters_seen(NOW).apart, [], "whoever says so");
}

#[test]
fn two_that_cannot_reach_each_other_both_stay_and_find_each_other_again() {
    let mut net = voting::net(5);
    let (a, b) = (3, 4);
    let ids = [a, b].map(|host| net.id(host));
    net.call(a, |node, now, memory| node.connect_to(now, ids[1], memory));
    net.run(1000);
    net.cut(a, b);
    net.run(60_000);
    let apart = |net: &mut super::net::Net| {
        let now = net.now;
        net.node(0).voters_seen(now).apart
    };
    assert_eq!(apart(&mut net), [(ids[0].min(ids[1]), ids[0].max(ids[1]))]);
    for host in 0..5 {
        assert!(net.node(host).hosts().all(|h| h.state == HostState::Up), "{host}");
        assert!(!net.node(host).is_frozen());
    }
    assert!(net.node(a).silent().eq([ids[1]]), "the one that has called it");
    net.mend();
    net.run(10_000);
    assert_eq!(apart(&mut net), []);
    assert!(net.node(a).silent().next().is_none() && net.node(b).silent().next().is_none());
    assert_eq!([a, b].map(|host| net.id(host)), ids, "they are who they were");
}
