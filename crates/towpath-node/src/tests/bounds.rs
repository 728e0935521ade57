//! Limits to the last one that is within them, and what is counted of what is beyond.

use alloc::vec::Vec;

use towpath_proto::{AssociationId, HostKey};
use towpath_qos::admission::KeptHop;
use towpath_qos::spec::limits::INTERVAL_NS_MAX;
use towpath_qos::topology::HOPS_MAX;
use towpath_vm::control::DELETED_MAX;
use towpath_vm::log::RESTART_GAP;
use towpath_vm::message::{LABEL_OWNER, LABEL_TASK};
use towpath_vm::promises::{Again, Holds, PROMISES_OF_HOST_MAX, Promise, Terms};
use towpath_vm::talk::{Answer, Fault, MailRules, RegistryAnswer, ToTask};
use towpath_vm::{Change, Entry, Message};
use towpath_wire::frame::{ChannelOpen, Direction, Reliability};
use towpath_wire::talk::FRAME_BODY_MAX;
use towpath_wire::{ByteSize, ChannelId, HostId, Rate};

use super::contact::four;
use super::standing::following;
use super::{NOW, append, node};
use crate::Node;
use crate::commit::Waiting;
use crate::config::reason;
use crate::promising::Promising;

/// How often it found what no daemon says, since it was asked last.
fn found(node: &mut Node) -> u64 {
    core::mem::take(&mut node.malformed)
}

#[test]
fn a_host_has_so_many_promises_over_so_many_hops() {
    let (mut node, [two, ..], _) = four();
    let most = 4 * PROMISES_OF_HOST_MAX as u64;
    for (count, is_bad) in [(most, 0), (most + 1, 1)] {
        let holds = Holds { host: two, last: count, numbers: (1..=count).collect() };
        node.handle_holds(NOW, two, holds);
        assert_eq!(found(&mut node), is_bad, "{count}");
    }
    let (rate, bytes) = (Rate::from_mbps(1), ByteSize::from_bytes(1500));
    let within = core::time::Duration::from_millis(1);
    let terms = Terms { rate, burst: bytes, packet: bytes, within };
    let task = two.task(1).expect("a task");
    let to = node.me().expect("it is one");
    let promise = Promise { host: two, number: 1, task, to, terms };
    let hop = |budget_ns, at| KeptHop { budget_ns, level: 0, rate_bps: 1, at_ns: [0, at, 0] };
    let longest = INTERVAL_NS_MAX;
    for (hops, hop, is_bad) in [
        (HOPS_MAX, hop(1, 1), 0),
        (HOPS_MAX + 1, hop(1, 1), 1),
        (1, hop(longest, longest), 0),
        (1, hop(longest + 1, 0), 1),
        (1, hop(0, longest + 1), 1),
    ] {
        let again = Again { promise, hops: alloc::vec![hop; hops] };
        node.handle_again(NOW, two, again);
        assert_eq!(found(&mut node), is_bad, "{hops} of {hop:?}");
    }
}

#[test]
fn one_that_has_asked_for_nothing_has_nothing_to_say_of_promises() {
    let mut promising = Promising::default();
    let me = node().0.me().expect("it is one");
    assert!(!promising.is_due(NOW, (me, me, 1, None)));
}

#[test]
fn deleted_hosts_that_have_not_ended_are_remembered_to_a_number() {
    for (before, kept) in [(DELETED_MAX - 1, DELETED_MAX), (DELETED_MAX, DELETED_MAX)] {
        let (mut node, [two, ..], _) = four();
        let others = (0..before as u32).map(|n| HostId::new(1, n + 9).expect("a host"));
        node.lead.unheard = others.collect();
        node.strike_out(NOW, two, Some(Waiting::Table(1)));
        assert_eq!(node.lead.unheard.len(), kept);
    }
}

#[test]
fn hosts_that_the_log_will_tell_of_soon_are_waited_for_and_few_at_once() {
    let (mut node, [leader, ..]) = following(false);
    let index = node.log_index() as u32;
    let furthest = index + 16 * RESTART_GAP as u32;
    let host = |life| HostId::new(9, life).expect("a host");
    for (life, is_to_come) in
        [(index, false), (index + 1, true), (furthest, true), (furthest + 1, false)]
    {
        assert_eq!(node.is_to_come(host(life)), is_to_come, "{life} at {index}");
        assert_eq!(node.may_be_up(host(life)), is_to_come);
    }
    let known = host(index + 1);
    node.peers.entry(known);
    let most = node.hosts().count() + 64;
    let mut life = index + 2;
    while node.peers.by_host.len() + 1 < most {
        node.peers.entry(host(life));
        life += 1;
    }
    assert!(node.is_to_come(host(life)), "the last one");
    node.peers.entry(host(life));
    assert!(!node.is_to_come(host(life + 1)) && node.is_to_come(known));
    let me = node.me().expect("it is one");
    assert!(node.may_be_up(leader) && node.is_nowhere(me.task(7).expect("a task")));
    assert!(!node.is_nowhere(leader.task(7).expect("a task")));
}

#[test]
fn what_a_leader_says_of_another_term_is_asked_about_or_is_what_none_says() {
    for (is_shared, later, is_bad, reports) in
        [(true, true, 0, 1), (true, false, 1, 0), (false, true, 0, 1), (false, false, 1, 0)]
    {
        let (mut node, [leader, other, _]) = following(is_shared);
        let (term, index) = node.log.as_ref().map(|log| log.snapshot().place()).expect("a log");
        let term = if later { term + 1 } else { term - 1 };
        let entry = Entry { term, index: index + 1, change: Change::Lost(other) };
        node.handle_entry(NOW, leader, &entry);
        let said = node.queued(leader);
        let reported = said.iter().filter(|m| matches!(m, Message::Report(_))).count();
        assert_eq!((found(&mut node), reported), (is_bad, reports), "{is_shared} {later}");
    }
}

#[test]
fn channels_that_every_two_hosts_have_are_ordered_and_go_both_ways() {
    let (mut node, other, _) = node();
    let id = AssociationId(1);
    node.peers.set_up(other, id);
    let open = |label, direction, reliability| ChannelOpen {
        channel: ChannelId(2),
        direction,
        reliability,
        priority: 1,
        label,
        limit: 1000,
        tspec: None,
        reservation: None,
        one_to_many: false,
        duplex: false,
    };
    let (both, ordered) = (Direction::Both, Reliability::ReliableOrdered);
    for (label, direction, reliability, counts) in [
        (LABEL_TASK, both, ordered, (0, 0)),
        (LABEL_TASK, Direction::Opener, ordered, (1, 0)),
        (LABEL_TASK, both, Reliability::Timely, (1, 0)),
        (LABEL_OWNER - 1, both, ordered, (0, 1)),
        (LABEL_OWNER - 1, Direction::Opener, ordered, (0, 1)),
    ] {
        let before = node.peers.unserved;
        node.handle_lane_open(id, &open(label, direction, reliability));
        assert_eq!((found(&mut node), node.peers.unserved - before), counts, "{label}");
    }
}

#[test]
fn what_is_too_long_for_a_frame_is_counted_and_answered_so() {
    let (mut node, ..) = node();
    let answer = |content: usize| {
        let (rules, content) = (MailRules::default(), alloc::vec![1; content]);
        let entry = RegistryAnswer::Mail { index: 0, owner: None, rules, format: 0, content };
        ToTask::Answer { number: 7, answer: Ok(Answer::Registry(entry)) }
    };
    assert_eq!(node.in_a_frame(answer(10)), Some(answer(10)));
    for times in 1..3 {
        let said = node.in_a_frame(answer(FRAME_BODY_MAX));
        let Some(ToTask::Answer { number: 7, answer: Err(Fault::Limit { limit, .. }) }) = said
        else {
            panic!("{said:?}")
        };
        assert_eq!((limit, node.peers.too_long), (FRAME_BODY_MAX as u64, times));
    }
}

#[test]
fn those_that_may_lead_hear_first_that_an_engine_has_ended() {
    let (mut node, [_, _, third]) = following(true);
    append(&mut node, Change::Voters([HostId::new(3, 3).expect("a host")].into()));
    let keys = |node: &Node| -> Vec<u8> {
        node.last_words().expect("it is one").to.iter().map(|(_, key)| key[0]).collect()
    };
    let me = node.me().expect("it is one");
    let own = |node: &Node| node.hosts().find(|h| h.id == me).map(|h| h.key[0]);
    assert!(own(&node).is_some());
    assert_eq!(keys(&node), [2, 3, 4], "who leads, who may, and one that is in contact");
    let before = node.last_words_as_of();
    node.peers.remove(third);
    assert_eq!(keys(&node), [2, 3]);
    assert_ne!(node.last_words_as_of(), before);
}

#[test]
fn a_host_that_ends_says_whether_it_comes_back() {
    let id = AssociationId(1);
    for (keeps, founder, says, is_shared, expected) in [
        (true, true, None, true, reason::ENDED),
        (true, false, None, true, reason::LEFT),
        (true, false, Some(true), true, reason::ENDED),
        (true, true, Some(false), true, reason::LEFT),
        (false, true, None, true, reason::LEFT),
        (true, true, None, false, reason::ENDED),
    ] {
        let (mut node, [_, other, _]) = following(is_shared);
        (node.config.keeps_table, node.voting.founded) = (keeps, founder);
        if let Some(says) = says {
            node.comes_back(says);
        }
        assert_eq!(node.why_it_goes(id), expected, "{keeps} {founder} {says:?} {is_shared}");
        node.lead.farewells.insert(other, NOW);
        assert_eq!(node.why_it_goes(id), reason::SHUTDOWN, "it was deleted");
    }
    let (mut node, ..) = node();
    (node.config.keeps_table, node.voting.founded) = (true, true);
    assert_eq!(node.why_it_goes(id), reason::LEFT, "nobody else may lead what it leads");
    let key = HostKey([2; 32]);
    assert!(!node.is_to_hear_of_its_end(&key, crate::hello::Purpose::Rejoin));
}
