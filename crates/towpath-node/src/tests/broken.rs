//! Two hosts that lost each other: what the leader hears of it, and which of them goes.

use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::message::Unreachable;
use towpath_vm::{Change, Message};
use towpath_wire::{HostId, Instant};

use super::contact::four;
use super::net::Net;
use super::standing::following;
use super::{NOW, append, voting};
use crate::broken::Look;
use crate::{Node, NodeEvent};

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
    node.tell_unreachable(NOW, other);
    assert_eq!((told(&node, leader), node.next_retry()), ([(other, false)].into(), Some(NOW)));
    node.peers.remove(other);
    node.tell_unreachable(NOW, other);
    assert_eq!(node.next_retry(), Some(NOW + SECOND), "it was called at once already");
    node.tell_unreachable(NOW, third);
    let before = told(&node, leader).len();
    node.tell_unreachable_again(NOW);
    assert_eq!(told(&node, leader)[before..], [(other, false), (third, false)]);
    node.forget_broken(third);
    node.tell_reached(NOW, third);
    node.tell_reached(NOW, other);
    node.tell_reached(NOW, other);
    assert_eq!(told(&node, leader)[before + 2..], [(other, true)], "once, and of who is there");
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
    assert!(told(&node, leader).is_empty() && node.lead.broken.told.is_empty());
}

#[test]
fn a_connection_is_looked_at_when_its_time_is_over_unless_it_is_back() {
    let (mut node, [two, three, four], _) = four();
    let me = node.me().expect("it is one");
    append(&mut node, Change::Lost(four));
    for (from, host) in [(two, two), (two, me), (two, four), (four, two)] {
        node.handle_unreachable(NOW, from, host);
    }
    assert!(node.lead.broken.between.is_empty() && node.lead.broken.at.is_none());
    let least = SECOND * 5;
    let within = least.max(node.lost_after() + node.silent_after() * 3);
    for (now, from, host) in
        [(NOW, two, three), (NOW + SECOND, three, two), (NOW + SECOND, two, three)]
    {
        node.handle_unreachable(now, from, host);
    }
    let looks = |node: &Node| -> Vec<_> {
        let looks = node.lead.broken.between.iter();
        looks.map(|(between, look)| (*between, look.at, look.asked)).collect()
    };
    let both = [((two, three), NOW + within, None), ((three, two), NOW + within + SECOND, None)];
    assert_eq!((looks(&node), node.lead.broken.at), (both.into(), Some(NOW + within)));
    node.forget_unreachable(two);
    assert_eq!((looks(&node), node.lead.broken.at), (both[1..].into(), Some(both[1].1)));
    node.handle_unreachable(NOW, two, three);
    node.handle_reached(NOW, two, four);
    assert_eq!(looks(&node).len(), 2, "another one");
    node.handle_reached(NOW, two, three);
    assert_eq!((looks(&node).len(), node.lead.broken.at), (0, None), "whoever says so");
    node.set_lost_after(20_000);
    node.handle_unreachable(NOW, two, three);
    assert_eq!(looks(&node)[0].1, NOW + node.lost_after() + node.silent_after() * 3);
}

/// Tells the leader of connections that broke.
fn lose_each_other(net: &mut Net, pairs: &[(usize, usize)]) {
    for (from, to) in pairs {
        let (from, to) = (net.id(*from), net.id(*to));
        net.call(0, |node, now, _| node.handle_unreachable(now, from, to));
    }
}

/// Those that the leader declared lost since the last time.
fn lost(net: &mut Net) -> Vec<HostId> {
    let lost = |event| if let NodeEvent::HostLost(host) = event { Some(host) } else { None };
    net.events(0).into_iter().filter_map(lost).collect()
}

#[test]
fn of_those_that_lost_each_other_the_one_with_most_goes_and_of_two_the_one_that_came_last() {
    for voters in [1, 3] {
        let founder = crate::NodeConfig { voters, ..super::net::config(0, "h0") };
        let mut net = voting::net_of(6, founder);
        let ids: Vec<HostId> = (0..6).map(|host| net.id(host)).collect();
        lose_each_other(&mut net, &[(3, 1), (2, 3), (3, 4), (5, 4)]);
        let node = net.node(0);
        let (within, again) = (node.lost_after() + node.silent_after() * 3, node.silent_after());
        let within = within.max(SECOND * 5).as_millis() as u64;
        net.run(within - 100);
        assert_eq!(lost(&mut net), [], "two have time to find each other again");
        net.run((again + SECOND).as_millis() as u64);
        let mut gone = lost(&mut net);
        gone.sort_unstable();
        assert_eq!(gone, [ids[3], ids[5]], "{voters} vote");
        let broken = &net.node(0).lead.broken;
        assert!(voters > 1 || broken.between.is_empty() && broken.at.is_none());
    }
}

/// How a connection between the second and the third is looked at that was asked about then.
fn looked_at(net: &mut Net, late: Duration, asked: Option<Instant>) -> (bool, Option<Look>) {
    let between = (net.id(1), net.id(2));
    net.call(0, |node, now, _| {
        let look = Look { at: now - late, asked };
        node.lead.broken.between = [(between, look)].into();
        node.lead.broken.arm();
        node.settle_broken(now);
        let stays = node.lead.broken.between.get(&between).copied();
        (node.is_up(between.1), stays)
    })
}

#[test]
fn nobody_is_lost_by_a_leader_that_is_late_or_has_not_heard_both() {
    let mut net = Net::new(3);
    let heard = |net: &mut Net, host: usize| {
        let id = net.id(host);
        let node = net.node(0);
        let association = node.association_to(id).expect("they are connected");
        node.endpoint().association(association).expect("it stands").heard_at()
    };
    net.run(1000);
    let third = net.id(2);
    net.call(0, |node, now, memory| {
        let again = node.association_to(third).expect("they are connected");
        node.endpoint.ask(now, again);
        node.pump(now, memory);
    });
    net.run(700);
    let task = net.enrol(0);
    let far = net.enrol(1);
    assert!(net.send(1, far, task, 0, 10));
    net.run(100);
    let (one, two) = (heard(&mut net, 1), heard(&mut net, 2));
    assert!(two < one, "one was heard later: {two} {one}");
    let (silent, now) = (net.node(0).silent_after(), net.now);
    let nano = Duration::from_nanos(1);
    let again = Some((now + silent / 2, Some(now)));
    for (late, asked) in [
        (Duration::ZERO, None),
        (silent / 4 + nano, Some(two)),
        (silent / 4, Some(two + nano)),
        (Duration::ZERO, Some(one)),
        (Duration::ZERO, Some(now)),
    ] {
        let (is_up, look) = looked_at(&mut net, late, asked);
        assert!(is_up, "{late:?} late, asked at {asked:?}");
        assert_eq!(look.map(|look| (look.at, look.asked)), again);
        assert!(net.node(0).watch.asking_until.is_some());
    }
    let (is_up, look) = looked_at(&mut net, silent / 4, Some(two));
    assert!(!is_up && look.is_none(), "both gave a sign of life");
}

#[test]
fn what_is_to_be_looked_at_later_is_left_as_it_is() {
    let mut net = Net::new(3);
    let between = (net.id(1), net.id(2));
    net.call(0, |node, now, _| {
        let look = Look { at: now + Duration::from_nanos(1), asked: Some(Instant::ZERO) };
        node.lead.broken.between = [(between, look)].into();
        for armed in [look.at, now] {
            node.lead.broken.at = Some(armed);
            node.settle_broken(now);
            let stays = node.lead.broken.between[&between];
            assert_eq!((stays.at, stays.asked, node.lead.broken.at), {
                (look.at, look.asked, Some(look.at))
            });
        }
        assert!(node.is_up(between.0) && node.is_up(between.1));
    });
}

#[test]
fn until_it_is_decided_that_one_is_lost_the_others_are_not_asked_for_again() {
    let mut net = voting::net(5);
    let [one, two, three, four] = [1, 2, 3, 4].map(|host| net.id(host));
    net.call(0, |node, now, _| {
        let look = Look { at: now, asked: Some(Instant::ZERO) };
        let later = Look { at: now + SECOND * 60, asked: None };
        let due = [(one, three), (three, two), (four, three)].map(|between| (between, look));
        node.lead.broken.between = due.into();
        node.lead.broken.between.insert((one, two), later);
        node.lead.broken.arm();
        node.settle_broken(now);
        let within = (SECOND * 5).max(node.lost_after() + node.silent_after() * 3);
        for (between, look) in &node.lead.broken.between {
            let expected = if *between == (one, two) { later.at } else { now + within };
            assert_eq!((look.at, look.asked), (expected, None), "{between:?}");
        }
        assert_eq!(node.lead.broken.between.len(), 4, "all are up until then");
    });
    net.run(300);
    assert_eq!(lost(&mut net), [three]);
}
