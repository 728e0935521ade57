//! Multicasts, as far as they do without the daemons, and what else goes by the direct routes.

use towpath_io::shared::SHORT_MAX;
use towpath_vm::talk::{CREDIT_FIRST, ToDaemon, ToTask};
use towpath_wire::TaskId;
use towpath_wire::talk::PIECE_CHARGE;

use super::actors::{ANY, crowd, enrol, header, neighbours, sent, with_ring};
use super::stage::{Heard, LONG, Side, Stage, ring_after};
use super::streams::Peer;
use crate::Route;
use crate::message::Envelope;
use crate::task::Task;

fn used(task: &Task) -> usize {
    task.home.as_ref().unwrap().arena().used()
}

/// The direct routes that a task has asked for.
fn asked(side: &mut Side) -> Vec<TaskId> {
    let heard = std::iter::from_fn(|| side.heard());
    let asked = heard.filter_map(|heard| match heard {
        Heard::Control(ToDaemon::Direct { peer }) => Some(peer),
        _ => None,
    });
    asked.collect()
}

#[test]
fn neighbours_read_one_block() {
    let (mut tasks, _sides) = crowd(4);
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    let long = vec![3; 50_000];
    tasks[0].send(ids[1], 1, &long).unwrap();
    let one = used(&tasks[0]);
    assert!(one >= long.len());
    tasks[0].multicast(&ids, Envelope::tag(2), &[&long[..9], &long[9..]]).unwrap();
    assert_eq!(used(&tasks[0]), 2 * one, "one for the three of them");
    // A loan that is written is that block.
    let mut loan = tasks[0].loan(long.len()).unwrap();
    loan.copy_from_slice(&long);
    let sealed = loan.seal(long.len());
    tasks[0].multicast_sealed(&ids, Envelope::tag(3), &sealed).unwrap();
    tasks[0].send_sealed(ids[1], Envelope::tag(4), &sealed).unwrap();
    assert_eq!(used(&tasks[0]), 3 * one);
    for task in &mut tasks[1..] {
        for _ in 0..task.rings.len() {
            task.poll().unwrap();
        }
        for tag in [2, 3] {
            assert!(task.try_recv(&ANY.tag(tag)).unwrap().expect("it came").bytes() == long);
        }
    }
    assert!(tasks[0].try_recv(&ANY.tag(3)).unwrap().expect("its own").bytes() == long);
    let counted = |name| tasks[0].counters().iter().find(|(n, _)| *n == name).unwrap().1;
    assert_eq!((counted("multicasts"), counted("sent_by_ring")), (2, 8));
    assert_eq!(counted("sent_by_daemon"), 0);
}

#[test]
fn who_has_room_in_its_ring_does_not_wait_for_who_has_none() {
    let (mut tasks, _sides) = crowd(3);
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    let (sender, receivers) = tasks.split_at_mut(1);
    for (full, other) in [(0, 1), (1, 0)] {
        while sender[0].try_send(ids[1 + full], 1, b"").unwrap() {}
        std::thread::scope(|scope| {
            scope.spawn(|| sender[0].multicast(&ids[1..], Envelope::tag(2), &[b"all"]).unwrap());
            let soon = receivers[other].recv_timeout(&ANY, LONG).unwrap();
            assert_eq!(soon.expect("it is sent at once").bytes(), b"all");
            while receivers[full].recv(&ANY).unwrap().tag() != 2 {}
        });
    }
}

#[test]
fn rings_are_asked_for_unless_there_are_many_receivers() {
    for (count, asks) in [(16, 16), (17, 0)] {
        let (mut task, mut side) = enrol(&mut Stage::new(), 1);
        let near: Vec<TaskId> = (50..50 + count).map(|n| side.id.host().task(n).unwrap()).collect();
        for times in 1..=5 {
            task.multicast(&near, Envelope::tag(1), &[b"short"]).unwrap();
            let asked = asked(&mut side);
            assert_eq!(asked.len(), if times == 5 { asks } else { 0 }, "{count}, {times} times");
        }
    }
}

#[test]
fn a_task_that_takes_no_direct_route_asks_for_none_and_uses_none() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let mut peer = Peer::new(1).joined(&mut task, &mut side);
    let near = side.id.host().task(50).unwrap();
    task.allow_direct(false);
    assert_eq!(task.route(peer.id), Route::Daemon);
    for to in [peer.id, near] {
        assert!(task.try_send(to, 1, b"tries").unwrap());
        task.send(to, 2, &[2; 4000]).unwrap();
        for tag in 3..9 {
            task.send(to, tag, b"").unwrap();
        }
        task.multicast(&[to], Envelope::tag(9), &[b"cast"]).unwrap();
    }
    task.ask_ring(near);
    task.flush().unwrap();
    let mut data = 0;
    while let Some(heard) = side.heard() {
        assert!(!matches!(heard, Heard::Control(ToDaemon::Direct { .. })), "{heard:?}");
        data += usize::from(matches!(heard, Heard::Data(..) | Heard::Multicast(_)));
    }
    assert_eq!(data, 18, "all of it by the daemon");
    task.allow_direct(true);
    task.send(peer.id, 10, b"by the stream").unwrap();
    assert_eq!(peer.reads_until(10), b"by the stream");
}

#[test]
fn a_long_message_waits_for_the_ring_that_it_asks_for() {
    let (mut a, mut a_side, mut b, mut b_side) = neighbours();
    let (to, long) = (b.id(), vec![6; 20_000]);
    std::thread::scope(|scope| {
        let sends = scope.spawn(|| {
            a.send(to, 1, &long).unwrap();
            a.counts.ring
        });
        assert_eq!(a_side.hear(), Heard::Control(ToDaemon::Direct { peer: to }));
        // The receiver has its end before the sender is offered its own.
        ring_after(&mut b_side, &mut a_side, || {
            while b.rings.is_empty() {
                b.poll().unwrap();
            }
        });
        assert_eq!(sends.join().unwrap(), 1, "it goes by the ring");
    });
    assert!(b.recv(&ANY).unwrap().bytes() == long);
    assert_eq!(sent(&mut a_side, to), []);
}

#[test]
fn a_long_message_goes_by_the_daemon_once_its_ring_was_refused() {
    let (mut a, mut a_side, b, _b_side) = neighbours();
    let to = b.id();
    a.endpoint.meet(to);
    a_side.say(&ToTask::Credit { peer: to, limit: 1 << 30 });
    std::thread::scope(|scope| {
        scope.spawn(|| a.send(to, 1, &vec![6; 20_000]).unwrap());
        assert_eq!(a_side.hear(), Heard::Control(ToDaemon::Direct { peer: to }));
        a_side.say(&ToTask::NoDirect { peer: to });
    });
    a.send(to, 2, b"short").unwrap();
    let sent: Vec<i64> = sent(&mut a_side, to).into_iter().map(|(_, tag, _)| tag).collect();
    assert_eq!(sent, [1, 2], "and none is asked for again");
    a_side.taken(a_side.lent);
}

#[test]
fn nothing_is_left_for_a_task_that_has_ended() {
    let (mut task, _side) = enrol(&mut Stage::new(), 1);
    let (ends, lives) = (Peer::new(1).id, Peer::new(2).id);
    for to in [ends, lives] {
        let rest = header(task.id(), to, 1, 0, 100_000);
        task.routes.keep(rest, vec![1; 100_000].into(), 0);
        task.routes.dialled.insert(to);
    }
    assert!(task.is_behind(ends));
    task.heard(ToTask::Gone { peer: ends }).unwrap();
    assert!(!task.is_behind(ends) && task.is_behind(lives));
    assert_eq!(task.routes.dialled.iter().collect::<Vec<_>>(), [&lives]);
}

#[test]
fn a_send_by_a_stream_ends_when_the_kernel_has_it() {
    for is_cast in [false, true] {
        let mut stage = Stage::new();
        let (mut task, mut side) = enrol(&mut stage, 1);
        let mut peer = Peer::new(1).joined(&mut task, &mut side);
        peer.is_filled(&mut task);
        let to = peer.id;
        std::thread::scope(|scope| {
            let reads = scope.spawn(|| peer.reads_until(3));
            if is_cast {
                task.multicast(&[to], Envelope::tag(3), &[b"last"]).unwrap();
            } else {
                task.send(to, 3, b"last").unwrap();
            }
            assert!(task.has_written(to), "nothing is left here, as a multicast: {is_cast}");
            assert_eq!(reads.join().unwrap(), b"last");
        });
    }
}

#[test]
fn a_started_send_goes_by_the_stream_in_pieces() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let mut peer = Peer::new(1).joined(&mut task, &mut side);
    let long: Vec<u8> = (0..300_000_u32).map(|i| (i / 3) as u8).collect();
    let to = peer.id;
    let started = task.start_send_bytes(to, 5, &long).unwrap();
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| peer.reads_until(5));
        task.finish_send(started).unwrap();
        while !task.has_written(to) {
            task.poll().unwrap();
        }
        assert!(reads.join().unwrap() == long);
    });
    assert!(task.try_send(to, 6, b"at once").unwrap() && !task.started.has_queued());
    assert_eq!(peer.reads_until(6), b"at once");
    assert_eq!(task.routes.sent, 2);
    assert_eq!(sent(&mut side, to), []);
}

#[test]
fn several_short_messages_go_into_rings_that_take_them_at_once() {
    let (mut tasks, _sides) = crowd(5);
    let members: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    for (len, casts) in [(SHORT_MAX, 0), (SHORT_MAX + 1, 1)] {
        let before = tasks[0].counts.multicast;
        super::actors::all(&mut tasks, |n, task| {
            let mut team = task.team_of(&members).unwrap();
            let got = team.broadcast(task, 0, (n == 0).then(|| vec![4; len])).unwrap();
            assert!(got == vec![4; len]);
            let told = team.sent();
            let expected = if n == 0 { (4, 4 * len as u64) } else { (0, 0) };
            assert_eq!((told.messages, told.bytes), expected);
            team.barrier(task).unwrap();
        });
        assert_eq!(tasks[0].counts.multicast, before + casts, "{len} bytes");
    }
}

#[test]
fn a_ring_that_is_full_takes_nothing_now() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let to = b.id();
    assert!(a.rings.get(to).unwrap().takes_now());
    while a.try_send(to, 1, b"").unwrap() {}
    let ring = a.rings.get(to).unwrap();
    assert!(!ring.takes_now() && !ring.has_room());
    while b.try_recv(&ANY).unwrap().is_some() {}
    b.poll().unwrap();
    assert!(a.rings.get(to).unwrap().takes_now());
}

#[test]
fn parts_however_many_go_out_as_one_message() {
    for count in [15, 16, 17, 40] {
        let (mut task, mut side) = enrol(&mut Stage::new(), 1);
        let peers = [1, 2].map(|n| Peer::new(n).id);
        let parts: Vec<[u8; 3]> = (0..count).map(|n| [n, n + 1, n + 2]).collect();
        let each: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        task.multicast(&peers, Envelope::tag(1), &each).unwrap();
        let Heard::Multicast(body) = side.hear() else { panic!("no multicast") };
        assert!(body.ends_with(parts.as_flattened()), "{count} parts");
        task.send_parts(peers[0], Envelope::tag(2), &each).unwrap();
        let sent = sent(&mut side, peers[0]);
        assert_eq!(sent, [(1, 2, parts.as_flattened().to_vec())], "{count} parts");
    }
}

#[test]
fn what_a_ring_has_taken_goes_to_the_others_later_where_there_is_no_room_to_wait() {
    let (mut a, mut a_side, mut b, _b_side) = with_ring();
    let far = Peer::new(1).id;
    a.send(far, 1, &[1; (CREDIT_FIRST - PIECE_CHARGE) as usize]).unwrap();
    let sender = a_side.id.host().task(99).unwrap();
    a_side.piece(&header(sender, a.id(), 50, 0, 100), &[5; 100]);
    while !a.poll().unwrap() {}
    a.held_max = 100;
    a.multicast(&[b.id(), far], Envelope::tag(2), &[b"to both"]).unwrap();
    assert_eq!(b.recv(&ANY).unwrap().bytes(), b"to both");
    assert_eq!(a.recv(&ANY).unwrap().tag(), 50);
    a_side.say(&ToTask::Credit { peer: far, limit: 1 << 30 });
    a.send(far, 3, b"more").unwrap();
    let sent = sent(&mut a_side, far);
    assert_eq!(sent[1..], [(1, 2, b"to both".to_vec()), (2, 3, b"more".to_vec())]);
}

#[test]
fn what_a_stream_has_left_when_its_task_leaves_goes_by_the_daemons() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let peer = Peer::new(1).joined(&mut task, &mut side);
    peer.is_filled(&mut task);
    let to = peer.id;
    let daemon = std::thread::spawn(move || {
        side.say(&ToTask::Credit { peer: to, limit: 1 << 30 });
        loop {
            let Heard::Data(header, bytes) = side.hear() else { continue };
            if header.dst == to && header.seq == 39 {
                assert_eq!(header.offset + bytes.len() as u64, header.total);
                return side;
            }
        }
    });
    task.settle_streams(LONG).unwrap();
    assert!(!task.routes.is_open(to) && task.routes.left() == 0);
    daemon.join().unwrap();
}
