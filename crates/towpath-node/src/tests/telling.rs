//! What the leader tells the others, and when: changes, and what waits for news.

use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::{AssociationId, HeapMemory};
use towpath_vm::{Change, Entry, Host, Message};
use towpath_wire::{ByteSize, HostId, Instant};

use super::contact::four;
use super::standing::following;
use super::{NOW, append, enrol};
use crate::Node;

/// The entries that wait for a host, by index, message by message.
fn told(node: &Node, host: HostId) -> Vec<Vec<u64>> {
    let entries = |message| match message {
        Message::Entries(said) => Some(said.entries.iter().map(|entry| entry.index).collect()),
        _ => None,
    };
    node.queued(host).into_iter().filter_map(entries).collect()
}

fn joins(node: &Node, slot: u16, index: u64) -> Entry {
    let like: Host = node.hosts().next().expect("itself").clone();
    let id = HostId::new(slot, slot.into()).expect("a host");
    Entry { term: 1, index, change: Change::Added(Host { id, key: [slot as u8; 32], ..like }) }
}

#[test]
fn joins_in_quick_succession_are_told_together_and_all_else_at_once() {
    let (mut node, [two, three, _], _) = four();
    // 20 000 messages a second, to three hosts.
    let quiet = Duration::from_micros(150);
    let join = |node: &mut Node, now: Instant, index| {
        let entry = joins(node, 9, index);
        node.announce(now, entry);
    };
    join(&mut node, NOW, 100);
    assert_eq!(told(&node, two), [[100]], "the first after a while");
    assert_eq!(node.lead.telling.quiet_until, Some(NOW + quiet));
    join(&mut node, NOW + quiet / 2, 101);
    join(&mut node, NOW + quiet / 2, 102);
    assert_eq!((told(&node, two).len(), node.lead.telling.at), (1, Some(NOW + quiet)));
    node.tell_entries(NOW + quiet - Duration::from_nanos(1));
    assert_eq!(told(&node, two).len(), 1, "not before");
    node.tell_entries(NOW + quiet);
    assert_eq!(told(&node, two), [&[100][..], &[101, 102]]);
    assert_eq!((node.log_messages(), node.lead.telling.at), (6, None));
    join(&mut node, NOW + quiet, 103);
    assert_eq!(told(&node, two).len(), 2);
    let change = Change::Drains(three, true);
    node.announce(NOW + quiet, Entry { term: 1, index: 104, change });
    assert_eq!(told(&node, two)[2..], [[103, 104]], "what is no join waits for nothing");
    join(&mut node, NOW + quiet * 2, 105);
    assert_eq!(told(&node, two)[3..], [[105]], "its time is over");
}

#[test]
fn so_many_joins_are_told_however_soon() {
    let (mut node, [two, ..], _) = four();
    node.lead.telling.quiet_until = Some(NOW + Duration::from_secs(1));
    for index in 1..256 {
        let entry = joins(&node, 9, 1000 + index);
        node.announce(NOW, entry);
    }
    assert_eq!(told(&node, two).len(), 0);
    let entry = joins(&node, 9, 2000);
    node.announce(NOW, entry);
    let told: Vec<usize> = told(&node, two).iter().map(Vec::len).collect();
    assert_eq!(told, [256]);
}

#[test]
fn a_host_hears_of_what_came_after_it_only() {
    let (mut node, [two, three, last], _) = four();
    node.lead.telling.quiet_until = Some(NOW + Duration::from_secs(1));
    for index in 3..=5 {
        let entry = joins(&node, 9, index);
        node.announce(NOW, entry);
    }
    node.tell_entries(NOW + Duration::from_secs(1));
    let heard = [two, three, last].map(|host| told(&node, host));
    assert_eq!(heard, [[[3, 4, 5].to_vec()], [[4, 5].to_vec()], [[5].to_vec()]]);
    let entry = joins(&node, 9, 4);
    append(&mut node, Change::Lost(two));
    node.announce(NOW + Duration::from_secs(2), entry);
    let heard = [two, three, last].map(|host| told(&node, host).len());
    assert_eq!(heard, [1, 2, 1], "one is lost, and for one it is no news");
    assert_eq!(node.log_messages(), 4);
}

#[test]
fn the_leader_hears_when_somebody_here_waits_for_news_and_when_nobody_does() {
    let says = |node: &mut Node, leader: HostId| {
        let all = |node: &Node| -> Vec<bool> {
            let on = |m| if let Message::Watch(watch) = m { Some(watch.on) } else { None };
            node.queued(leader).into_iter().filter_map(on).collect()
        };
        let before = all(node).len();
        node.tell_leader(NOW);
        all(node)[before..].to_vec()
    };
    let causes: [fn(&mut Node, HostId); 3] = [
        |node, _| node.watch.owner = true,
        |node, other| _ = node.requests.open(other, 1, true).expect("a request"),
        |node, _| {
            let mut memory = HeapMemory::new(ByteSize::from_mib(1));
            enrol(node, &mut memory);
            // That was told with it.
            node.watch.told = None;
        },
    ];
    for (n, cause) in causes.into_iter().enumerate() {
        let (mut node, [leader, other, _]) = following(false);
        assert_eq!(says(&mut node, leader), [], "nobody does");
        cause(&mut node, other);
        assert_eq!(says(&mut node, leader), [true], "{n}");
        assert_eq!(says(&mut node, leader), [], "{n}: it was told");
        node.peers.set_up(leader, AssociationId(77));
        assert_eq!(says(&mut node, leader), [true], "{n}: by another connection it was not");
        if node.watch.owner {
            node.watch.owner = false;
            assert_eq!(says(&mut node, leader), [false]);
            assert_eq!(says(&mut node, leader), []);
        }
    }
    let (mut node, [_, other, third], _) = four();
    node.peers.set_up(other, AssociationId(1));
    for (from, on, others) in
        [(other, true, 1), (other, true, 1), (third, true, 2), (other, false, 1), (third, false, 0)]
    {
        node.peers.dirty = <_>::default();
        let was = node.watch.others.is_empty();
        node.handle_watch(from, on);
        assert_eq!(node.watch.others.len(), others);
        assert_eq!(node.peers.any_dirty(), was != (others == 0), "they are watched, or not");
    }
}
