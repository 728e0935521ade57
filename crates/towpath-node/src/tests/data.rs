//! Tasks' messages between hosts: order, credit, ends, and what is kept of them.

use alloc::vec;
use alloc::vec::Vec;

use towpath_proto::memory::BLOCK_COST;
use towpath_vm::Ending;
use towpath_vm::talk::{CREDIT_FIRST, Subject, ToDaemon, ToTask, WatchEvent};
use towpath_wire::TaskId;
use towpath_wire::talk::{Header, MULTICAST_MAX, PIECE_CHARGE, PIECE_MAX};

use super::net::{Net, header, payload, program};
use crate::explain::{DirectState, Exchange};

pub(super) fn counter(net: &mut Net, host: usize, name: &str) -> u64 {
    let counters = net.node(host).counters();
    counters.iter().find(|(n, _)| *n == name).expect("there is one of that name").1
}

pub(super) fn counters(net: &mut Net, host: usize) -> [u64; 3] {
    ["pieces_taken", "pieces_given", "pieces_stray"].map(|name| counter(net, host, name))
}

#[test]
fn messages_arrive_once_and_in_order_and_their_ends_behind_them() {
    let mut net = Net::new(2);
    let (a, near, far) = (net.enrol(0), net.enrol(0), net.enrol(1));
    for seq in 0..5 {
        assert!(net.send(0, a, near, seq, 100 * seq as usize));
        assert!(net.send(0, a, far, seq, 1000));
    }
    assert_eq!(net.got(0, near), [0, 1, 2, 3, 4], "on one host at once");
    net.run(50);
    assert_eq!(net.got(1, far), [0, 1, 2, 3, 4]);
    // A long one in pieces.
    let whole = payload(5, 3000);
    for at in [0, 1000, 2000] {
        let piece = Header { offset: at as u64, ..header(a, far, 5, 3000) };
        assert!(net.piece(0, &piece, &whole[at..at + 1000]));
    }
    net.left(0, a);
    assert_eq!(net.told(0, near), [ToTask::Gone { peer: a }]);
    net.run(50);
    assert_eq!(net.got(1, far), [5]);
    assert_eq!(net.told(1, far), [ToTask::Gone { peer: a }]);
    assert_eq!(counters(&mut net, 0), [13, 5, 0]);
    assert_eq!(counters(&mut net, 1), [0, 8, 0]);
    net.left(0, near);
    net.left(1, far);
    net.run(1_000);
    net.nothing_is_left();
}

#[test]
fn a_multicast_reaches_each_receiver_on_any_host() {
    let mut net = Net::new(3);
    let a = net.enrol(0);
    let to: Vec<(usize, TaskId)> = [0, 0, 1, 1, 2].map(|h| (h, net.enrol(h))).to_vec();
    let tasks: Vec<TaskId> = to.iter().map(|(_, t)| *t).collect();
    for seq in 0..3 {
        assert!(net.cast(0, a, &tasks, seq, 500));
    }
    net.run(50);
    for (host, task) in &to {
        assert_eq!(net.got(*host, *task), [0, 1, 2]);
    }
    assert_eq!(counters(&mut net, 0), [3, 6, 0]);
    assert_eq!(counters(&mut net, 1), [0, 6, 0]);
    // One of two on a host is gone: the other still gets its own.
    net.left(1, tasks[2]);
    net.left(0, tasks[0]);
    net.told(0, a);
    assert!(net.cast(0, a, &tasks[1..], 3, 500));
    assert!(net.cast(0, a, &tasks[..2], 4, 500));
    net.run(50);
    assert_eq!(net.got(0, tasks[1]), [3, 4]);
    assert_eq!(net.got(1, tasks[3]), [3]);
    assert_eq!(net.got(2, tasks[4]), [3]);
    assert_eq!(counters(&mut net, 1)[2], 1);
    assert_eq!(counters(&mut net, 0)[2], 1);
    for (host, task) in to.into_iter().chain([(0, a)]) {
        net.left(host, task);
    }
    net.run(1_000);
    net.nothing_is_left();
}

#[test]
fn what_comes_before_a_task_enrolled_is_kept_for_it() {
    let mut net = Net::new(2);
    let (one, two) = (net.id(0), net.id(1));
    net.spawn(0, two, program(&[]));
    net.run(50);
    let there = net.started(1);
    let (a, b) = (net.enrol(0), net.enrol(1));
    assert!(net.send(0, a, there.task, 0, 10) && net.send(1, b, there.task, 0, 10));
    net.left(1, b);
    net.run(50);
    assert_eq!(net.got(1, there.task), [] as [u32; 0]);
    assert_eq!(counter(&mut net, 1, "task_bytes_inside"), 2 * BLOCK_COST + 10 + 68);
    net.enrol_by(1, Some(there)).expect("it enrols");
    let told = net.told(1, there.task);
    assert!(
        matches!(&told[..], [ToTask::Welcome(_), ToTask::Gone { peer }] if *peer == b),
        "{told:?}"
    );
    assert_eq!(net.got(1, there.task), [0, 0]);
    // One that ends before it enrols drops what was kept.
    net.spawn(0, two, program(&[]));
    net.run(50);
    let other = net.started(1);
    assert!(net.send(0, a, other.task, 0, 10));
    net.run(50);
    net.call(1, |node, now, m| node.task_exited(now, other.task, Ending::Exited(3), m));
    net.run(50);
    assert_eq!(net.told(0, a), [ToTask::Gone { peer: other.task }]);
    assert_eq!(counter(&mut net, 1, "task_bytes_inside"), 0);
    assert_eq!(counter(&mut net, 1, "task_bytes_inside_max"), 2 * BLOCK_COST + 10 + 68);
    assert_eq!(one.slot(), 1);
    net.left(0, a);
    net.left(1, there.task);
    net.call(1, |node, now, m| node.task_exited(now, there.task, Ending::Exited(0), m));
    net.run(1_000);
    net.nothing_is_left();
}

#[test]
fn a_task_sends_no_more_than_it_may() {
    let mut net = Net::new(2);
    let most = (CREDIT_FIRST - PIECE_CHARGE) as usize;
    for there in [0, 1] {
        let (a, b) = (net.enrol(0), net.enrol(there));
        assert!(net.send(0, a, b, 0, most), "to the last byte");
        assert_eq!(net.cut_off(0, a), None);
        net.run(50);
        assert_eq!(net.got(there, b), [0]);
        // It asks for more, and gets it; to the last byte again. Until it hears of that, it has
        // nothing more.
        net.cut(0, 1);
        if there == 1 {
            net.says(0, a, ToDaemon::Blocked { peer: b, need: 1000 });
            let way = net.node(0).explain(a, b).by_daemons;
            assert_eq!((way.sent_bytes, way.limit_bytes), (CREDIT_FIRST, CREDIT_FIRST));
        }
        net.mend();
        if there == 0 {
            net.says(0, a, ToDaemon::Blocked { peer: b, need: 1000 });
        }
        net.run(500);
        assert!(matches!(&net.told(0, a)[..], [ToTask::Credit { peer, .. }] if *peer == b));
        let way = net.node(0).explain(a, b).by_daemons;
        assert_eq!(way.sent_bytes, CREDIT_FIRST);
        assert_eq!(way.limit_bytes, CREDIT_FIRST + 4 * CREDIT_FIRST);
        let rest = (way.limit_bytes - way.sent_bytes - PIECE_CHARGE) as usize;
        net.seats[there].holds = true;
        assert!(net.send(0, a, b, 1, rest));
        assert_eq!(net.cut_off(0, a), None);
        assert!(net.send(0, a, b, 2, 0));
        let why = net.cut_off(0, a).expect("it sent more than it may");
        assert_eq!(why, alloc::format!("it sent {b} more than it may"));
        net.left(0, a);
        net.run(50);
        net.read(there);
        assert_eq!(net.got(there, b), [1]);
        net.told(there, b);
        // Several at once are held to the same.
        let c = net.enrol(0);
        assert!(net.cast(0, c, &[b], 0, most));
        assert_eq!(net.cut_off(0, c), None);
        net.run(50);
        net.credit(0, c, b, 1000);
        let way = net.node(0).explain(c, b).by_daemons;
        assert!(net.cast(0, c, &[b], 1, (way.limit_bytes - way.sent_bytes - 63) as usize));
        assert!(net.cut_off(0, c).is_some());
        net.left(0, c);
        net.run(50);
        assert_eq!(net.got(there, b), [0]);
        net.left(there, b);
    }
    net.run(1_000);
    net.nothing_is_left();
}

#[test]
fn pieces_that_make_no_sense_are_the_end_of_their_sender() {
    let mut net = Net::new(2);
    let (a, b) = (net.enrol(0), net.enrol(1));
    let bad = |net: &mut Net, header: Header, len: usize, why: &str| {
        let bytes = header.emit();
        let payload = vec![0; len];
        assert!(net.call(0, |node, now, m| node.task_data(now, a, &bytes, &payload, m)));
        let said = net.cut_off(0, a).unwrap_or_else(|| panic!("not noticed: {why}"));
        assert!(said.contains(why), "{said}");
        let to = [(b, 0)];
        assert!(net.call(0, |node, now, m| node.task_multicast(now, a, &to, &bytes, &payload, m)));
        assert!(net.cut_off(0, a).is_some(), "{why}");
    };
    bad(&mut net, header(b, a, 0, 5), 5, "it said to be");
    bad(&mut net, header(a, b, 0, 5), 6, "payload");
    bad(&mut net, Header { offset: 3, ..header(a, b, 0, 5) }, 3, "payload");
    bad(&mut net, header(a, b, 0, 1 << 20), PIECE_MAX + 1, "limit 65536");
    let many: Vec<(TaskId, u32)> =
        (1..=MULTICAST_MAX as u32 + 1).map(|n| (b.host().task(n).expect("a task"), 0)).collect();
    let bytes = header(a, b, 0, 0).emit();
    net.call(0, |node, now, m| node.task_multicast(now, a, &many, &bytes, &[], m));
    assert_eq!(net.cut_off(0, a), Some("4097 receivers at once".into()));
    // As many as may be.
    let c = net.enrol(0);
    let bytes = header(c, b, 0, 0).emit();
    let most = &many[..MULTICAST_MAX];
    net.call(0, |node, now, m| node.task_multicast(now, c, most, &bytes, &[], m));
    assert_eq!(net.cut_off(0, c), None);
    // In no order, each once.
    let d = net.enrol(0);
    let other = net.enrol(1);
    let bytes = header(d, b, 0, 0).emit();
    let to = [(other, 0), (b, 0)];
    net.call(0, |node, now, m| node.task_multicast(now, d, &to, &bytes, &[], m));
    assert_eq!(net.cut_off(0, d), None);
    net.run(50);
    assert_eq!(net.got(1, b), [0, 0]);
    assert_eq!(net.got(1, other), [0, 0]);
    // Nobody who did not enrol is heard.
    let stranger = b.host().task(77).expect("a task");
    let bytes = header(stranger, b, 0, 0).emit();
    assert!(net.call(0, |node, now, m| node.task_data(now, stranger, &bytes, &[], m)));
    assert!(net.call(0, |node, now, m| node.task_multicast(now, stranger, &to, &bytes, &[], m)));
    net.run(50);
    assert_eq!(net.got(1, b), [] as [u32; 0]);
}

#[test]
fn who_sends_to_a_task_that_is_gone_is_told_and_loses_nothing() {
    let mut net = Net::new(2);
    let a = net.enrol(0);
    for there in [0, 1] {
        let b = net.enrol(there);
        net.left(there, b);
        // As much as may be sent unasked, and more: it cannot know yet.
        for seq in 0..3 {
            assert!(net.send(0, a, b, seq, 16_000));
            assert!(net.cast(0, a, &[b], seq, 16_000));
        }
        net.run(50);
        assert_eq!(net.cut_off(0, a), None);
        let told = net.told(0, a);
        assert!(
            !told.is_empty() && told.iter().all(|t| *t == ToTask::Gone { peer: b }),
            "{told:?}"
        );
        net.says(0, a, ToDaemon::Blocked { peer: b, need: 1000 });
        net.run(50);
        assert_eq!(net.told(0, a), [ToTask::Gone { peer: b }]);
    }
    net.left(0, a);
    net.run(1_000);
    net.nothing_is_left();
}

#[test]
fn ends_are_told_once_to_each_who_had_to_do_with_it_and_how_they_came() {
    let mut net = Net::new(3);
    let two = net.id(1);
    net.spawn(0, two, program(&[]));
    net.run(50);
    let task = net.started(1);
    net.enrol_by(1, Some(task)).expect("it enrols");
    let task = task.task;
    let (near, far) = (net.enrol(1), net.enrol(2));
    for (host, watcher) in [(1, near), (2, far)] {
        net.says(host, watcher, ToDaemon::Watch { watch: 8, subject: Subject::Task(task) });
        net.says(host, watcher, ToDaemon::Watch { watch: 9, subject: Subject::Task(task) });
        net.says(host, watcher, ToDaemon::Unwatch { watch: 9 });
    }
    net.run(50);
    // Its connection ends first, its process within two seconds.
    net.left(1, task);
    net.run(1_000);
    assert_eq!(net.told(1, near), []);
    net.call(1, |node, now, m| node.task_exited(now, task, Ending::Exited(7), m));
    net.run(50);
    let ending = Some(Ending::Exited(7));
    let event = WatchEvent::TaskEnded { task, ending };
    for (host, watcher) in [(1, near), (2, far)] {
        assert_eq!(net.told(host, watcher), [ToTask::Notice { watch: 8, event: event.clone() }]);
        // Who asks later hears the same.
        net.says(host, watcher, ToDaemon::Watch { watch: 3, subject: Subject::Task(task) });
        net.run(50);
        assert_eq!(net.told(host, watcher), [ToTask::Notice { watch: 3, event: event.clone() }]);
    }
    // One whose process goes on is over after two seconds, however it ends.
    net.spawn(0, two, program(&[]));
    net.run(50);
    let slow = net.started(1);
    net.enrol_by(1, Some(slow)).expect("it enrols");
    net.says(2, far, ToDaemon::Watch { watch: 1, subject: Subject::Task(slow.task) });
    net.run(50);
    net.left(1, slow.task);
    net.run(1_900);
    assert_eq!(net.told(2, far), []);
    net.run(200);
    let event = WatchEvent::TaskEnded { task: slow.task, ending: None };
    assert_eq!(net.told(2, far), [ToTask::Notice { watch: 1, event }]);
    net.call(1, |node, now, m| node.task_exited(now, slow.task, Ending::Exited(0), m));
    net.left(1, near);
    net.left(2, far);
    net.run(1_000);
    net.nothing_is_left();
}

#[test]
fn a_task_that_leaves_is_not_waited_for() {
    let mut net = Net::new(2);
    let (a, b) = (net.enrol(0), net.enrol(1));
    assert!(net.send(0, a, b, 0, 10));
    net.says(0, a, ToDaemon::Leave);
    assert!(net.send(0, a, b, 1, 10), "nobody is there to say it");
    net.run(50);
    assert_eq!(net.got(1, b), [0]);
    assert_eq!(net.told(1, b), [ToTask::Gone { peer: a }]);
    net.says(
        1,
        b,
        ToDaemon::Enrol(towpath_vm::talk::Enrol {
            version: towpath_vm::talk::TALK_VERSION,
            claim: None,
            pid: 1,
            command: "again".into(),
        }),
    );
    assert_eq!(net.cut_off(1, b), Some("it enrolled twice".into()));
    net.left(1, b);
    net.run(1_000);
    net.nothing_is_left();
}

#[test]
fn the_way_between_two_tasks_is_explained() {
    let mut net = Net::new(2);
    let (a, b, c) = (net.enrol(0), net.enrol(0), net.enrol(1));
    let way = net.node(0).explain(a, b);
    assert_eq!((way.from, way.to, way.known, way.peer_known), (a, b, true, Some(true)));
    assert_eq!((way.direct, way.by_daemons), (DirectState::None, Exchange::default()));
    assert_eq!(way.network, None);
    assert!(net.send(0, a, b, 0, 36) && net.send(0, a, c, 0, 136));
    net.run(50);
    let way = net.node(0).explain(a, b);
    let exchange = |sent_bytes| Exchange { sent_bytes, limit_bytes: CREDIT_FIRST };
    assert_eq!(way.by_daemons, exchange(100));
    let way = net.node(0).explain(a, c);
    assert_eq!((way.by_daemons, way.peer_known), (exchange(200), None));
    let network = way.network.expect("they are connected");
    assert_eq!((network.host, network.sealed), (net.id(1), true));
    assert_eq!(network.addr, super::net::addr(1));
    assert!(network.packets_sent > 0 && network.datagram_bytes > 1000);
    assert_eq!(net.node(0).networks(None, 1), (vec![network.clone()], false));
    assert_eq!(net.node(0).networks(Some(network.host), 9), (vec![], false));
    let nobody = a.host().task(99).expect("a task");
    let way = net.node(0).explain(nobody, nobody);
    assert_eq!((way.known, way.peer_known), (false, Some(false)));
    // So many at a time, in order, each once.
    let (first, more) = net.node(0).loads(None, 1);
    let (rest, no_more) = net.node(0).loads(Some(first[0].task), 1);
    assert_eq!((first.len(), more, rest.len(), no_more), (1, true, 1, false));
    let loads: Vec<_> = first.into_iter().chain(rest).collect();
    let load = |task: TaskId| loads.iter().find(|l| l.task == task).expect("it is there");
    assert_eq!((load(a).peers, load(a).direct, load(a).sent_bytes), (2, 0, 300));
    assert_eq!((load(b).peers, load(b).sent_bytes), (1, 0));
    // A ring, and a stream.
    net.says(0, a, ToDaemon::Direct { peer: b });
    net.says(0, a, ToDaemon::Direct { peer: c });
    net.run(50);
    assert_eq!(net.node(0).explain(a, b).direct, DirectState::Ring);
    assert_eq!(net.node(0).explain(a, c).direct, DirectState::Stream);
    assert_eq!(net.node(1).explain(c, a).direct, DirectState::Stream);
    let (loads, _) = net.node(0).loads(None, 9);
    assert_eq!(loads.iter().map(|l| l.direct).sum::<u32>(), 3);
    net.says(0, b, ToDaemon::RingFailed { peer: a });
    assert_eq!(net.node(0).explain(a, b).direct, DirectState::RingFailed);
}

#[test]
fn a_message_that_came_on_the_wrong_channel_is_not_believed() {
    let mut net = Net::new(2);
    let a = net.enrol(0);
    let other = net.id(1);
    net.events(0);
    let via = (
        net.node(0).association_to(other).expect("they are connected"),
        towpath_wire::ChannelId(6),
    );
    let hand = |net: &mut Net, bytes: &[u8]| {
        let before = net.node(0).malformed();
        net.call(0, |node, now, memory| {
            let block = memory.put(bytes).expect("there is room");
            node.handle_data(now, other, via, block, memory);
            node.pump(now, memory);
        });
        net.node(0).malformed() - before
    };
    // A word that belongs elsewhere, half a one, and a piece of somebody who is not there.
    let watch = towpath_vm::Message::Watch(towpath_vm::message::Watch { on: true });
    assert_eq!(hand(&mut net, &watch.encode()), 1);
    assert_eq!(hand(&mut net, &[1]), 1);
    let piece = [&towpath_vm::data::FRONT_ONE[..], &header(a, a, 0, 3).emit(), b"abc"].concat();
    assert_eq!(hand(&mut net, &piece), 1, "of our own task");
    assert_eq!(net.got(0, a), [] as [u32; 0]);
    let theirs = other.task(1).expect("a task");
    let front = towpath_vm::data::FRONT_ONE;
    let piece = [&front[..], &header(theirs, a, 0, 3).emit(), &payload(0, 3)].concat();
    assert_eq!(hand(&mut net, &piece), 0);
    assert_eq!(net.got(0, a), [0]);
    // More than may be sent unasked is kept, and counted.
    let long = payload(1, 20_000);
    let piece = [&front[..], &header(theirs, a, 1, 20_000).emit(), &long].concat();
    assert_eq!(hand(&mut net, &piece), 1);
}
