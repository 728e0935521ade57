//! A peer that sends more than it may, or what no daemon says, and tasks that ask for what is not
//! there: what is kept of it.

use alloc::vec;
use alloc::vec::Vec;

use towpath_proto::memory::BLOCK_COST;
use towpath_proto::{AssociationId, HeapMemory, Memory};
use towpath_vm::channel::ChannelSpec;
use towpath_vm::data::Placed;
use towpath_vm::message::{Blocked, Numbers, TaskList};
use towpath_vm::talk::{CREDIT_FIRST, Subject, ToDaemon, ToTask, WatchEvent};
use towpath_vm::{Ending, Message, TaskInfo};
use towpath_wire::talk::{Header, PIECE_CHARGE, PIECE_MAX};
use towpath_wire::{ByteSize, ChannelId, HostId, Instant};

use super::data::counter;
use super::hostile::{open, send};
use super::net::{Net, header, payload};
use super::{NOW, enrol, events, node};
use crate::NodeEvent;
use crate::lanes::Purpose;
use crate::node::credit::PAIRS_MAX;
use crate::node::work::TASKS_MAX;

#[test]
fn a_peer_that_sends_more_than_it_was_granted_is_not_listened_to() {
    let mut net = Net::new(2);
    let (receiver, src) = (net.enrol(0), net.enrol(1));
    net.seats[0].holds = true;
    let wire = open(&mut net, 1, 0, Purpose::Small.opening());
    let (before, id) = (net.node(0).malformed(), net.id(1));
    let association = net.node(0).association_to(id);
    let len = 4096 - PIECE_CHARGE as usize;
    for seq in 0..8 {
        let header = header(src, receiver, seq, len);
        let front = towpath_vm::data::FRONT_ONE;
        send(&mut net, 1, wire, &[&front[..], &header.emit(), &payload(seq, len)].concat());
    }
    net.run(20);
    let inside = counter(&mut net, 0, "task_bytes_inside_max");
    assert!(inside <= CREDIT_FIRST + 5 * 128 + 4096, "{inside}: and one while it is looked at");
    assert_eq!(net.seats[0].held.len() as u64, CREDIT_FIRST / 4096);
    assert!(net.node(0).malformed() > before);
    assert_ne!(net.node(0).association_to(id), association, "the connection has ended");
    net.read(0);
    assert_eq!(net.seats[0].memory.used(), 0);
}

#[test]
fn invented_senders_make_no_more_pairs_than_there_may_be() {
    let (mut node, other, mut memory) = node();
    let task = enrol(&mut node, &mut memory);
    events(&mut node);
    let sender = |n: usize| other.task(n as u32).expect("a task");
    let (many, others) = (1 << 15, PAIRS_MAX >> 15);
    for n in 0..PAIRS_MAX - 1 {
        let receiver = task.host().task(100 + (n % others) as u32).expect("a task");
        node.local.ties.tie(receiver, sender(1 + n / others));
    }
    let via = (AssociationId(0), ChannelId(5));
    for (n, pairs) in [(many + 1, 1), (many + 2, 1), (many + 3, 1)] {
        let header = header(sender(n), task, 0, 9);
        let parts: [&[u8]; 3] = [&towpath_vm::data::FRONT_ONE, &header.emit(), &[5; 9]];
        let block = memory.put_parts(&parts).expect("there is room");
        node.handle_data(NOW, other, via, block, &mut memory);
        let (sender, receiver) = (sender(n), task);
        let blocked = Blocked { sender, receiver, sent: 0, need: 100 };
        node.handle_message(NOW, other, Message::Blocked(blocked));
        assert_eq!(node.local.members.get(task).expect("it is there").pairs.len(), pairs);
    }
    assert_eq!(node.local.ties.pairs_with(other), PAIRS_MAX);
    assert_eq!(events(&mut node).len(), 1, "the piece of the last that there was room for");
    let parted = |m: &&Message| matches!(m, Message::Parted(_));
    assert_eq!(node.queued(other).iter().filter(parted).count(), 4, "the others are told");
}

#[test]
fn early_pieces_take_what_their_sender_is_charged_and_not_what_stands_before_them() {
    let (mut node, other, _) = node();
    let mut memory = HeapMemory::new(ByteSize::from_mib(64));
    let task = enrol(&mut node, &mut memory);
    let (src, me) = (other.task(1).expect("a task"), task.host());
    let strangers = (0..1000).map(|n| (me.task(1000 + n).expect("a task"), 0, 0));
    let strangers: Vec<_> = strangers.collect();
    let via = (AssociationId(0), ChannelId(4));
    for n in 0..1000 {
        let header = Header { offset: u64::from(n) + 1, ..header(src, task, 0, 1 << 20) };
        let receivers = [vec![(task, 0, 100 + n)], strangers.clone()].concat();
        let placed = Placed { number: 0, goes_on: true, receivers };
        let parts: [&[u8]; 3] = [&placed.front(), &header.emit(), &[n as u8]];
        let block = memory.put_parts(&parts).expect("there is room");
        node.handle_data(NOW, other, via, block, &mut memory);
        node.release_dropped(&mut memory);
    }
    assert_eq!(node.data.relays.remains()[2], ("pieces before their turn", 1000));
    assert!(memory.used() <= 5 * CREDIT_FIRST, "{} bytes", memory.used());
    assert_eq!(memory.used(), node.data.inside);
    // What was kept is what came: in its turn it is handed on.
    let first = Header { total: 1 << 20, ..header(src, task, 0, 100 - PIECE_CHARGE as usize) };
    let front = Placed::straight(vec![(task, 0, 0)]).front();
    let payload = vec![9; 100 - PIECE_CHARGE as usize];
    let block = memory.put_parts(&[&front, &first.emit(), &payload]).expect("there is room");
    node.handle_data(NOW, other, via, block, &mut memory);
    let mut given = Vec::new();
    for event in events(&mut node) {
        let NodeEvent::Deliver(d) = event else { continue };
        given.extend_from_slice(&memory.bytes(d.block)[d.at as usize..(d.at + d.len) as usize]);
        node.task_written(NOW, &d, &mut memory);
    }
    let expected: Vec<u8> = payload.into_iter().chain((0..1000).map(|n| n as u8)).collect();
    assert_eq!(given, expected);
    assert_eq!(memory.used(), 0);
}

#[test]
fn no_piece_and_no_message_of_a_channel_is_longer_than_a_task_takes() {
    let (mut node, other, _) = node();
    let mut memory = HeapMemory::new(ByteSize::from_mib(4));
    let task = enrol(&mut node, &mut memory);
    events(&mut node);
    let src = other.task(1).expect("a task");
    // Within its credit.
    let pair = node.pair(task, src).expect("a pair");
    assert!(pair.window.may_come(0, CREDIT_FIRST));
    node.local.members.blocked(task, src, (0, 1 << 20));
    let via = (AssociationId(0), ChannelId(5));
    let len = PIECE_MAX + 1;
    let parts: [&[u8]; 3] =
        [&towpath_vm::data::FRONT_ONE, &header(src, task, 0, len).emit(), &vec![5; len]];
    let block = memory.put_parts(&parts).expect("there is room");
    node.handle_data(NOW, other, via, block, &mut memory);
    node.release_dropped(&mut memory);
    let given = events(&mut node).iter().any(|e| matches!(e, NodeEvent::Deliver(_)));
    assert!(!given && memory.used() == 0);
    assert!(node.peers.faulty.contains(&other));

    let mut net = Net::new(2);
    let (one, two) = (net.enrol(1), net.enrol(0));
    let spec = ChannelSpec { window: 4 << 20, ..ChannelSpec::default() };
    net.says(1, one, ToDaemon::OpenChannel { number: 0, to: two, spec });
    net.run(100);
    let wire = net.node(1).local.channels.carriers.keys().next().copied().expect("one");
    net.call(1, |node, now, memory| {
        let block = memory.put(&vec![7; spec.longest() as usize + 1]).expect("there is room");
        let len = memory.len(block);
        let sent = node.send(wire.0, wire.1, block, len);
        let number = sent.expect("its room is larger");
        node.data.hold_outgoing(len);
        node.peers.departs(wire.0, u64::from(len) + BLOCK_COST);
        node.local.channels.departs(wire, number, now);
        node.pump(now, memory);
    });
    net.run(300);
    assert_eq!((net.seats[0].on_channels.len(), net.node(0).malformed()), (0, 1));
    assert_eq!(net.seats[0].memory.used(), 0);
}

#[test]
fn numbers_that_no_daemon_says_settle_nothing() {
    let (mut node, other, _) = node();
    let src = node.me().expect("it is one").task(1).expect("a task");
    node.data.relays.stage(other, src, false);
    for ranges in [vec![(1, 1), (1, 1)], vec![(0, u64::MAX); 1000], vec![(2, 1)]] {
        node.handle_message(NOW, other, Message::Relayed(Numbers { ranges }));
    }
    assert_eq!((node.malformed, node.data.relays.remains()[0].1), (3, 1));
    node.handle_message(NOW, other, Message::Relayed(Numbers::of(vec![1])));
    assert_eq!((node.malformed, node.data.relays.remains()[0].1), (3, 0));
}

#[test]
fn a_list_of_tasks_without_an_end_is_given_up() {
    let (mut node, other, mut memory) = node();
    let query = node.list(NOW, other, &mut memory);
    let info = TaskInfo {
        channels: 0,
        reserved_bps: 0,
        id: other.task(1).expect("a task"),
        requester: other,
        pid: 1,
        age_us: 1,
        command: "x".into(),
        parent: None,
        enrolled: true,
        started: true,
    };
    let mut answers = Vec::new();
    for told in 1..=40 {
        let tasks = vec![info.clone(); 1000];
        let list = TaskList { request: query, tasks, more: true };
        node.handle_message(NOW, other, Message::Tasks(list));
        let ended = events(&mut node).into_iter().find_map(|e| match e {
            NodeEvent::Tasks { tasks, .. } => Some(tasks),
            _ => None,
        });
        answers.extend(ended.map(|tasks| (told, tasks.is_err())));
    }
    assert_eq!(answers, [(1 + TASKS_MAX / 1000, true)]);
    assert!(node.local.questions.is_empty());
}

#[test]
fn nobody_is_asked_because_of_tasks_of_hosts_that_are_not_there() {
    let (mut node, _, mut memory) = node();
    let task = enrol(&mut node, &mut memory);
    events(&mut node);
    let nobody = HostId::new(9, 9).expect("a host").task(1).expect("a task");
    let watch = ToDaemon::Watch { watch: 1, subject: Subject::Task(nobody) };
    let blocked = ToDaemon::Blocked { peer: nobody, need: 1000 };
    for say in [watch, blocked, ToDaemon::Direct { peer: nobody }] {
        node.task_says(NOW, task, say, &mut memory);
    }
    let header = header(task, nobody, 0, 9);
    node.task_data(NOW, task, &header.emit(), &[5; 9], &mut memory);
    node.task_multicast(NOW, task, &[(nobody, 0)], &header.emit(), &[5; 9], &mut memory);
    let ending = Some(Ending::HostLost);
    let event = WatchEvent::TaskEnded { task: nobody, ending };
    let gone = ToTask::Gone { peer: nobody };
    let expected = [
        ToTask::Notice { watch: 1, event },
        gone.clone(),
        ToTask::NoDirect { peer: nobody },
        gone.clone(),
        gone,
    ];
    let expected: Vec<NodeEvent> =
        expected.into_iter().map(|say| NodeEvent::ToTask { task, say }).collect();
    assert_eq!(events(&mut node), expected);
    // Each of them was once put where what has to do with hosts is kept, and taken out again.
    assert_eq!((node.data.taken, node.data.stray), (1, 3));
    assert!(node.local.members.get(task).expect("it is there").pairs.is_empty());
    assert_eq!(node.poll_timeout_at(), None);
}

trait NextTimer {
    fn poll_timeout_at(&self) -> Option<Instant>;
}

impl NextTimer for crate::Node {
    fn poll_timeout_at(&self) -> Option<Instant> {
        towpath_proto::Machine::poll_timeout(self).map(|(at, _)| at)
    }
}
