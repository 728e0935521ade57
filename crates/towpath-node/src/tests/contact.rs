//! Hosts that do not answer, or refuse: when they are called again, and when they are given up.

use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::{ConnectFailure, HeapMemory, Refusal};
use towpath_vm::{Change, Host, HostState};
use towpath_wire::{HostId, Instant};

use super::judging::led_by;
use super::{NOW, append, events, node};
use crate::config::{reason, refusal};
use crate::peers::{Contact, RETRY_EVERY};
use crate::{Node, NodeEvent};

const SECOND: Duration = Duration::from_secs(1);

fn refused(code: u16) -> ConnectFailure {
    ConnectFailure::Refused(Refusal { code, text: "no".into() })
}

fn contact(node: &Node, host: HostId) -> Contact {
    node.peers.by_host.get(&host).map_or(Contact::None, |peer| peer.contact)
}

/// What becomes of a call that fails so long after it began.
fn fails(node: &mut Node, host: HostId, now: Instant, failure: ConnectFailure) -> Contact {
    node.ensure_connection(NOW, host);
    let Contact::Connecting { id, .. } = contact(node, host) else { panic!("it is called") };
    node.handle_connect_failed(now, id, failure);
    contact(node, host)
}

/// A node, and three others of which it knows.
pub(super) fn four() -> (Node, [HostId; 3], HeapMemory) {
    let (mut node, two, memory) = node();
    let more = [3, 4].map(|slot| {
        let id = HostId::new(slot, slot.into()).expect("a host");
        let like: Host = node.hosts().next().expect("itself").clone();
        let key = [slot as u8; 32];
        append(&mut node, Change::Added(Host { id, key, state: HostState::Up, ..like }));
        id
    });
    (node, [two, more[0], more[1]], memory)
}

#[test]
fn a_host_that_may_not_have_heard_of_us_yet_is_called_again_for_a_while() {
    let late = NOW + SECOND * 3;
    let soon = late - Duration::from_millis(1);
    for (failure, now, wait) in [
        (ConnectFailure::Yielded, late, Some(SECOND)),
        (refused(refusal::NOT_MEMBER), soon, Some(RETRY_EVERY)),
        (refused(refusal::NOT_MEMBER), late, None),
        (refused(refusal::RETURNING), soon, Some(SECOND)),
        (refused(refusal::RETURNING), late, None),
        (ConnectFailure::NoAnswer, soon, None),
        (refused(refusal::MALFORMED), soon, None),
        (ConnectFailure::WrongKey, soon, None),
    ] {
        let (mut node, [leader, other, _], _) = four();
        led_by(&mut node, leader);
        let after = fails(&mut node, other, now, failure.clone());
        match wait {
            Some(wait) => {
                assert_eq!(after, Contact::Waiting { since: NOW }, "{failure:?}");
                assert_eq!(node.next_retry(), Some(now + wait), "{failure:?}");
            }
            None => assert_eq!((after, node.next_retry()), (Contact::None, None), "{failure:?}"),
        }
        assert!(!node.is_frozen(), "whoever leads has nothing to do with it");
    }
}

#[test]
fn one_that_goes_first_is_left_the_first_try() {
    let (mut node, [two, three, _], _) = four();
    node.await_contact(NOW, two);
    assert_eq!(contact(&node, two), Contact::Waiting { since: NOW });
    assert_eq!(node.next_retry(), Some(NOW + SECOND));
    node.handle_retries(NOW + SECOND / 2);
    assert_eq!(contact(&node, two), Contact::Waiting { since: NOW });
    node.handle_retries(NOW + SECOND);
    assert!(matches!(contact(&node, two), Contact::Connecting { since: NOW, .. }));
    assert_eq!(node.next_retry(), None);
    node.await_contact(NOW + SECOND, two);
    assert_eq!(contact(&node, two), Contact::Waiting { since: NOW + SECOND });
    node.await_contact(NOW + SECOND * 2, two);
    assert_eq!(node.next_retry(), Some(NOW + SECOND * 2), "it waits already");
    // Whoever is not there any more is not called.
    append(&mut node, Change::Lost(three));
    node.ensure_connection(NOW, three);
    assert_eq!(contact(&node, three), Contact::None);
}

#[test]
fn a_leader_is_called_until_it_answers_and_what_it_says_meanwhile_is_told_once() {
    let (mut node, [leader, other, _], _) = four();
    led_by(&mut node, leader);
    events(&mut node);
    node.leader_out_of_contact(NOW, leader);
    assert!(node.is_frozen() && node.is_out_of_reach(leader) && !node.is_out_of_reach(other));
    assert_eq!(
        (events(&mut node), node.next_retry()),
        ([NodeEvent::LeaderLost(leader)].into(), Some(NOW))
    );
    assert_eq!(node.silent().collect::<Vec<_>>(), [leader]);
    assert!(!node.takes_new(leader) && node.takes_new(other));
    node.handle_retries(NOW);
    let says = |why: &str| [NodeEvent::LeaderRefuses { leader, why: why.into() }].to_vec();
    for (code, told) in [
        (refusal::RECOVERING, Vec::new()),
        (refusal::NOT_MEMBER, says("no")),
        (refusal::NOT_LEADER, Vec::new()),
        (refusal::RETURNING, Vec::new()),
    ] {
        let after = fails(&mut node, leader, NOW + SECOND, refused(code));
        assert_eq!(after, Contact::Waiting { since: NOW }, "{code}");
        assert_eq!(
            (events(&mut node), node.next_retry()),
            (told, Some(NOW + SECOND * 2)),
            "{code}"
        );
        node.handle_retries(NOW + SECOND * 2);
    }
    assert_eq!(node.refused(), Some("no"));
    node.note_refusal("never".into());
    assert_eq!((events(&mut node), node.refused()), (says("never"), Some("never")));
    // The same again: it is tried a second later, and said no more.
    node.drop_contact(NOW, leader, reason::FENCED);
    events(&mut node);
    node.leader_out_of_contact(NOW, leader);
    assert_eq!((events(&mut node), node.next_retry()), (Vec::new(), Some(NOW + SECOND)));
    assert!(node.joining.is_none());
    node.handle_retries(NOW + SECOND);
    fails(&mut node, leader, NOW + SECOND, refused(refusal::FENCED));
    let joining = node.joining.as_ref().expect("its log has this host as lost");
    assert!(joining.others.is_empty() && joining.key.0 == [2; 32]);
    node.rejoin_refused(NOW, Refusal { code: refusal::RECOVERING, text: "later".into() });
    assert_eq!((node.refused(), node.joining.is_some()), (Some("never"), true));
    node.rejoin_refused(NOW, Refusal { code: refusal::REVOKED, text: "gone".into() });
    assert_eq!((node.refused(), node.joining.is_some()), (Some("gone"), true));
    node.rejoin_refused(NOW, Refusal { code: refusal::STANDS, text: "why".into() });
    assert_eq!((node.refused(), node.joining.is_some()), (Some("gone"), false));
}

fn state(node: &Node, host: HostId) -> Option<HostState> {
    node.hosts().find(|h| h.id == host).map(|h| h.state)
}

#[test]
fn the_only_other_host_is_lost_when_its_time_to_return_is_over() {
    let (mut node, two, mut memory) = node();
    let time = node.return_within();
    node.await_return(NOW, two, time);
    assert!(node.lead.suspects.has(two) && !node.is_out_of_reach(two));
    for (now, expected) in
        [(NOW + time - Duration::from_nanos(1), HostState::Up), (NOW + time, HostState::Lost)]
    {
        node.settle_suspects(now);
        node.pump(now, &mut memory);
        assert_eq!(state(&node, two), Some(expected));
    }
    assert!(!node.lead.suspects.any());
}

#[test]
fn a_leader_in_contact_with_nobody_loses_nobody_before_the_latest() {
    let (mut node, hosts, mut memory) = four();
    let (time, latest) = (node.return_within(), node.silent_after() * 40);
    assert!(node.is_alone(NOW));
    for host in [hosts[0], hosts[1]] {
        node.await_return(NOW, host, time);
    }
    let mut now = NOW;
    while now + time < NOW + latest {
        now += time;
        node.settle_suspects(now);
        node.pump(now, &mut memory);
        assert_eq!(state(&node, hosts[0]), Some(HostState::Up), "at {now}");
        let until = node.lead.suspects.by_host[&hosts[0]].until;
        assert_eq!(until, now + time, "whoever comes back first is no reason to hurry");
    }
    node.settle_suspects(NOW + latest);
    node.pump(NOW + latest, &mut memory);
    let states = hosts.map(|host| state(&node, host).expect("it is known"));
    assert_eq!(states, [HostState::Lost, HostState::Lost, HostState::Up]);
}

#[test]
fn a_suspect_that_is_lost_already_is_none() {
    let (mut node, hosts, _) = four();
    for host in hosts {
        node.await_return(NOW, host, SECOND);
    }
    node.await_return(NOW, hosts[2], SECOND * 50);
    assert_eq!(node.lead.suspects.by_host[&hosts[2]].until, NOW + SECOND, "the first time counts");
    append(&mut node, Change::Lost(hosts[0]));
    node.settle_suspects(NOW + SECOND / 2);
    assert!(node.lead.suspects.has(hosts[0]), "it is not looked at before");
    node.settle_suspects(NOW + SECOND);
    assert_eq!(hosts.map(|host| node.lead.suspects.has(host)), [false, true, true]);
}

#[test]
fn hosts_are_told_as_silent_and_as_heard_once_and_only_while_they_are_up() {
    let (mut node, [two, three, _], _) = four();
    events(&mut node);
    node.falls_silent(two);
    node.falls_silent(two);
    assert_eq!(events(&mut node), [NodeEvent::HostSilent(two)]);
    assert!(!node.takes_new(two) && node.takes_new(three));
    node.is_heard_again(three);
    node.is_heard_again(two);
    node.is_heard_again(two);
    assert_eq!(events(&mut node), [NodeEvent::HostHeard(two)]);
    assert_eq!(node.silent().count(), 0);
    append(&mut node, Change::Lost(three));
    node.falls_silent(three);
    assert_eq!((events(&mut node), node.silent().count()), (Vec::new(), 0));
    append(&mut node, Change::Drains(two, true));
    assert!(!node.takes_new(two));
    let me = node.me().expect("it is one");
    assert!(node.takes_new(me) && !node.is_out_of_reach(me));
}

#[test]
fn all_are_watched_for_a_while_once_they_were_asked() {
    let (mut node, ..) = node();
    let twice = node.lost_after() * 2;
    node.ask_hosts(NOW);
    assert_eq!(node.watch.asking_until, Some(NOW + twice));
    node.settle_asking(NOW + twice - Duration::from_nanos(1));
    assert!(node.watch.asking_until.is_some());
    node.settle_asking(NOW + twice);
    assert_eq!(node.watch.asking_until, None);
    assert_eq!(u128::from(node.lost_after_ms()), node.lost_after().as_millis());
    node.set_lost_after(20_000);
    assert_eq!((node.lost_after_ms(), node.return_within()), (20_000, node.silent_after() * 2));
}

#[test]
fn only_a_leader_of_others_is_alone_and_only_while_it_hears_none() {
    let (mut node, hosts, _) = four();
    assert!(node.is_alone(NOW));
    for host in hosts {
        append(&mut node, Change::Lost(host));
    }
    assert!(!node.is_alone(NOW), "there is nobody else");
    let (mut node, [leader, ..], _) = four();
    led_by(&mut node, leader);
    assert!(!node.is_alone(NOW), "it does not lead");
    let mut net = super::net::Net::new(3);
    let now = net.now;
    assert!(!net.node(0).is_alone(now), "it hears both");
}
