//! Who is let in, as what, and what others are told: by who leads and by who follows.

use alloc::boxed::Box;

use towpath_proto::{Config, HostKey, Rng};
use towpath_vm::HostState::{Lost, Up};
use towpath_vm::{Change, Entry, Host, HostState};
use towpath_wire::{Admission, HostId, Instant};

use super::net::config;
use super::{Mute, NOW, append, node};
use crate::config::{Invitation, refusal};
use crate::hello::Purpose;
use crate::{JoinTarget, Node, NodeConfig};

type Verdict = Result<Option<HostId>, u16>;

fn judged(node: &Node, key: u8, admission: Admission, purpose: Purpose) -> Verdict {
    node.judge(NOW, &HostKey([key; 32]), &admission, purpose).map_err(|(code, _)| code)
}

fn as_member(node: &Node, key: u8, purpose: Purpose) -> Verdict {
    judged(node, key, Admission::Member, purpose)
}

const fn token(expiry_unix_s: u64) -> Admission {
    Admission::Token { expiry_unix_s, nonce: [9; 16] }
}

const fn lead(id: HostId) -> Purpose {
    Purpose::Lead { id, term: 1, index: 1 }
}

fn host(slot: u16, incarnation: u32) -> HostId {
    HostId::new(slot, incarnation).expect("a host")
}

/// A host with this key is in the table.
fn add(node: &mut Node, id: HostId, key: u8) {
    let like: Host = node.hosts().next().expect("itself").clone();
    append(node, Change::Added(Host { id, key: [key; 32], state: HostState::Up, ..like }));
}

/// Another host comes to lead, as this one hears.
pub(super) fn led_by(node: &mut Node, leader: HostId) {
    let log = node.log.as_mut().expect("a log");
    let (term, index) = log.snapshot().place();
    let change = Change::Leads(leader);
    log.follow(&Entry { term: term + 1, index: index + 1, change }).expect("it follows");
}

#[test]
fn members_are_who_the_table_says_in_the_life_that_it_says() {
    let (mut node, other, _) = node();
    let later = host(2, 9);
    for (key, id, verdict) in [
        (2, other, Ok(Some(other))),
        (2, host(2, 1), Err(refusal::FENCED)),
        (2, later, Err(refusal::NOT_MEMBER)),
        (3, other, Err(refusal::NOT_MEMBER)),
    ] {
        assert_eq!(as_member(&node, key, Purpose::Member(id)), verdict, "{key} as {id}");
    }
    append(&mut node, Change::Lost(other));
    assert_eq!(as_member(&node, 2, Purpose::Member(other)), Err(refusal::FENCED));
    let with_token = judged(&node, 2, token(u64::MAX), Purpose::Member(other));
    assert_eq!(with_token, Err(refusal::MALFORMED));
    assert_eq!(as_member(&node, 2, Purpose::Ended(other)), Err(refusal::NOTED));
}

#[test]
fn whoever_is_known_comes_back_without_a_fresh_token_and_others_need_one_that_is_good() {
    let (mut node, other, _) = node();
    for (key, admission, purpose, verdict) in [
        (2, Admission::Member, Purpose::Rejoin, Err(refusal::STANDS)),
        (3, Admission::Member, Purpose::Rejoin, Err(refusal::NOT_MEMBER)),
        (2, token(0), Purpose::Join, Ok(None)),
        (2, Admission::Member, Purpose::Join, Err(refusal::NOT_MEMBER)),
        (3, Admission::Member, Purpose::Join, Err(refusal::NOT_MEMBER)),
        (3, token(1), Purpose::Join, Err(refusal::EXPIRED)),
        (3, token(2), Purpose::Join, Err(refusal::REVOKED)),
    ] {
        let found = judged(&node, key, admission, purpose);
        assert_eq!(found, verdict, "{key} with {admission:?}: {purpose:?}");
    }
    append(&mut node, Change::Lost(other));
    assert_eq!(as_member(&node, 2, Purpose::Rejoin), Ok(None));
}

#[test]
fn one_that_follows_lets_nobody_join_and_whoever_leads_in_whatever_life() {
    let (mut node, other, _) = node();
    let third = host(3, 3);
    add(&mut node, third, 3);
    assert_eq!(as_member(&node, 2, lead(host(2, 9))), Err(refusal::NOT_MEMBER));
    led_by(&mut node, other);
    assert!(!node.leads() && node.leader() == Some(other));
    for purpose in [Purpose::Join, Purpose::Rejoin] {
        assert_eq!(judged(&node, 4, token(2), purpose), Err(refusal::NOT_LEADER));
    }
    for (key, id, verdict) in [
        (2, other, Ok(Some(other))),
        (2, host(2, 9), Ok(Some(other))),
        (3, third, Ok(Some(third))),
        (3, host(3, 9), Err(refusal::NOT_MEMBER)),
        (4, other, Err(refusal::NOT_MEMBER)),
    ] {
        assert_eq!(as_member(&node, key, lead(id)), verdict, "{key} leads as {id}");
    }
    assert_eq!(judged(&node, 2, token(2), lead(other)), Err(refusal::MALFORMED));
    append(&mut node, Change::Lost(third));
    assert_eq!(as_member(&node, 3, lead(third)), Err(refusal::NOT_MEMBER));
    let states: alloc::vec::Vec<_> = node.hosts().map(|h| h.state).collect();
    assert_eq!(states, [Up, Up, Lost]);
}

#[test]
fn one_that_is_no_member_itself_lets_nobody_in() {
    let invitation =
        Invitation { expiry_unix_s: 9, nonce: [0; 16], psk: towpath_proto::Psk::MEMBER };
    let (addr, key) = (([10, 0, 0, 9], 7077).into(), HostKey([8; 32]));
    let target = JoinTarget { addr, key, others: [].into(), invitation };
    let config = NodeConfig { proto: Config::default(), ..config(1, "h1") };
    let node = Node::join(Instant::ZERO, config, Box::new(Mute), Rng::new(1, 2), target);
    for purpose in [Purpose::Join, Purpose::Member(host(1, 1)), lead(host(1, 1))] {
        assert_eq!(as_member(&node, 2, purpose), Err(refusal::NOT_MEMBER));
    }
    assert_eq!((node.me(), node.leader(), node.is_listed()), (None, None, false));
    assert_eq!(
        (node.log_index(), node.snapshot_bytes(), node.last_words().is_none()),
        (0, 0, true)
    );
    assert_eq!(node.join_addr(), Some(addr));
}
