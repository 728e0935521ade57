//! What hosts keep and owe for tasks' messages, and how much of it.

use alloc::vec;
use alloc::vec::Vec;

use towpath_proto::memory::BLOCK_COST;
use towpath_vm::Ending;
use towpath_vm::credit::FIRST_MAX;
use towpath_vm::talk::{CREDIT_FIRST, Subject, ToDaemon, ToTask, WatchEvent};
use towpath_wire::TaskId;
use towpath_wire::talk::{PIECE_CHARGE, PIECE_MAX};

use super::net::{Net, header, payload, program};
use crate::data::OUTGOING_MAX;

use super::data::counter;

#[test]
fn when_much_came_unasked_everybody_asks_first_until_half_of_it_is_read() {
    let mut net = Net::new(2);
    let (two, far) = (net.id(1), net.enrol(1));
    net.seats[1].holds = true;
    let piece = (CREDIT_FIRST - PIECE_CHARGE) as usize;
    let most = FIRST_MAX / CREDIT_FIRST;
    let mut senders = Vec::new();
    for n in 0..=most {
        let a = net.enrol(0);
        assert!(net.send(0, a, far, 0, piece));
        senders.push(a);
        net.run(5);
        let told = net.told(0, a);
        assert_eq!(told.is_empty(), n < most, "after {n}: {told:?}");
        if n == most {
            assert_eq!(told, [ToTask::AskFirst { host: two, on: true }]);
        }
    }
    // Its own tasks are told as well, and whoever enrols.
    assert_eq!(net.told(1, far), [ToTask::AskFirst { host: two, on: true }]);
    let late = net.enrol_by(0, None).expect("it enrols");
    let told = net.told(0, late);
    assert!(matches!(&told[..], [ToTask::Welcome(w)] if w.ask_first == [two]), "{told:?}");
    let late_there = net.enrol_by(1, None).expect("it enrols");
    let told = net.told(1, late_there);
    assert!(matches!(&told[..], [ToTask::Welcome(w)] if w.ask_first == [two]), "{told:?}");
    // And a host that comes later.
    net.add(super::net::config(2, "three"));
    net.run(100);
    net.call(2, |node, now, memory| node.connect_to(now, two, memory));
    net.run(100);
    let c = net.enrol_by(2, None).expect("it enrols");
    let told = net.told(2, c);
    assert!(matches!(&told[..], [ToTask::Welcome(w)] if w.ask_first == [two]), "{told:?}");
    // They read.
    for a in &senders {
        net.told(0, *a);
    }
    net.seats[1].holds = false;
    let held = core::mem::take(&mut net.seats[1].held);
    assert_eq!(held.len() as u64, most + 1);
    for (n, delivery) in held.into_iter().enumerate() {
        assert_eq!(net.node(1).local.members.asks_first(), n as u64 <= most / 2, "{n}");
        net.call(1, |node, now, memory| node.task_written(now, &delivery, memory));
    }
    net.run(50);
    assert_eq!(net.told(0, senders[0]), [ToTask::AskFirst { host: two, on: false }]);
    assert_eq!(net.told(2, c), [ToTask::AskFirst { host: two, on: false }]);
    for a in senders.into_iter().chain([late]) {
        net.left(0, a);
    }
    for (host, task) in [(1, far), (1, late_there), (2, c)] {
        net.left(host, task);
    }
    net.run(1_000);
    net.nothing_is_left();
}

#[test]
fn data_for_a_host_that_does_not_answer_is_taken_in_up_to_the_limit() {
    let mut net = Net::new(2);
    let a = net.enrol(0);
    let far: Vec<TaskId> = (0..40).map(|_| net.enrol(1)).collect();
    // Windows of 4 MiB for each.
    for peer in &far {
        assert!(net.send(0, a, *peer, 0, 10));
    }
    net.run(100);
    for _ in 0..5 {
        for peer in &far {
            net.says(0, a, ToDaemon::Blocked { peer: *peer, need: 8000 });
        }
        net.run(200);
        net.told(0, a);
    }
    net.cut(0, 1);
    let mut taken = 0;
    'all: for seq in 1..64 {
        for peer in &far {
            let way = net.node(0).explain(a, *peer).by_daemons;
            if way.limit_bytes - way.sent_bytes < PIECE_MAX as u64 + PIECE_CHARGE {
                continue;
            }
            if !net.send(0, a, *peer, seq, PIECE_MAX) {
                break 'all;
            }
            taken += 1;
        }
    }
    assert!(!net.node(0).task_budget_left());
    let outgoing = counter(&mut net, 0, "task_bytes_outgoing");
    assert!((OUTGOING_MAX..OUTGOING_MAX + (66 << 10)).contains(&outgoing), "{outgoing}");
    // Behind short ones, so each says its place: in front stand 28 bytes and a header.
    assert_eq!(outgoing, taken * (PIECE_MAX as u64 + 28 + 56 + BLOCK_COST));
    assert_eq!(counter(&mut net, 0, "task_bytes_outgoing_max"), outgoing);
    // It is for other hosts only; several at once are turned away as well.
    let near = net.enrol(0);
    assert!(net.send(0, a, near, 0, 100));
    assert_eq!(net.got(0, near), [0]);
    assert!(!net.cast(0, a, &far[..2], 70, 10));
    net.mend();
    net.run(5_000);
    assert!(net.node(0).task_budget_left());
    assert_eq!(counter(&mut net, 0, "task_bytes_outgoing"), 0);
    net.left(0, a);
    net.left(0, near);
    for task in far {
        net.left(1, task);
    }
    net.run(2_000);
    net.nothing_is_left();
}

#[test]
fn a_task_that_asks_before_its_credit_is_used_up_sends_nothing_unasked_any_more() {
    let mut net = Net::new(2);
    let (a, b) = (net.enrol(0), net.enrol(1));
    assert!(net.send(0, a, b, 0, 36));
    net.says(0, a, ToDaemon::Blocked { peer: b, need: 1000 });
    let way = net.node(0).explain(a, b).by_daemons;
    assert_eq!((way.sent_bytes, way.limit_bytes), (100, 100));
    net.run(50);
    let way = net.node(0).explain(a, b).by_daemons;
    assert_eq!((way.sent_bytes, way.limit_bytes), (100, 100 + 4 * CREDIT_FIRST));
    // What it was granted stays when it asks again.
    net.says(0, a, ToDaemon::Blocked { peer: b, need: 1000 });
    let again = net.node(0).explain(a, b).by_daemons;
    assert_eq!(again.limit_bytes, way.limit_bytes);
}

#[test]
fn how_the_last_256_tasks_ended_is_known() {
    let mut net = Net::new(2);
    let two = net.id(1);
    let mut ended = Vec::new();
    for code in 0..257 {
        net.spawn(0, two, program(&[]));
        net.run(5);
        let task = net.started(1).task;
        net.call(1, |node, now, m| node.task_exited(now, task, Ending::Exited(code), m));
        ended.push(task);
    }
    net.run(50);
    let a = net.enrol(0);
    let known = |net: &mut Net, task| {
        net.says(0, a, ToDaemon::Watch { watch: 1, subject: Subject::Task(task) });
        net.run(20);
        match net.told(0, a).pop() {
            Some(ToTask::Notice { event: WatchEvent::TaskEnded { ending, .. }, .. }) => ending,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(known(&mut net, ended[0]), None, "too long ago");
    assert_eq!(known(&mut net, ended[1]), Some(Ending::Exited(1)));
    assert_eq!(known(&mut net, ended[256]), Some(Ending::Exited(256)));
}

#[test]
fn pieces_that_came_before_their_turn_go_with_their_receiver() {
    use towpath_vm::data::Placed;
    let mut net = Net::new(2);
    let (a, b) = (net.enrol(0), net.enrol(0));
    let other = net.id(1);
    let src = other.task(9).expect("a task");
    let via = net.node(0).association_to(other).expect("they are connected");
    let via = (via, towpath_wire::ChannelId(6));
    for dst in [a, b] {
        let piece = [
            &Placed::straight(vec![(dst, 1, 100)]).front()[..],
            &header(src, dst, 1, 36).emit(),
            &payload(1, 36),
        ]
        .concat();
        net.call(0, |node, now, memory| {
            let block = memory.put(&piece).expect("there is room");
            node.handle_data(now, other, via, block, memory);
            node.pump(now, memory);
        });
    }
    assert_eq!(net.got(0, a), [] as [u32; 0]);
    let remains = net.node(0).remains();
    assert!(remains.contains(&"2 pieces before their turn".into()), "{remains:?}");
    net.left(0, a);
    let remains = net.node(0).remains();
    assert!(remains.contains(&"1 pieces before their turn".into()), "{remains:?}");
    // The other one's sender is over.
    let ended = towpath_vm::message::TaskEnded { task: src, ending: None };
    net.call(0, |node, now, memory| {
        node.handle_message(now, other, towpath_vm::Message::TaskEnded(ended));
        node.pump(now, memory);
    });
    net.left(0, b);
    net.run(50);
    net.nothing_is_left();
}
