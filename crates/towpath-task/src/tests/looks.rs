//! How a task looks for what comes: nothing has to wait for other things, and who waits sleeps.

use std::time::Duration;

use towpath_vm::matching::Wanted;
use towpath_vm::talk::ToTask;
use towpath_wire::TaskId;

use super::actors::{ANY, enrol, header, with_ring};
use super::rings::with_played_peers;
use super::stage::{LONG, Side, Stage};
use crate::deadline::Deadline;
use crate::error::RecvError;
use crate::intake::LOOKS;
use crate::task::Task;

/// A task without shared memory, and the daemon's side of it.
fn apart() -> (Task, Side) {
    let mut stage = Stage::new();
    let socket = stage.socket();
    let enrolling = std::thread::spawn(move || Task::enrol_at(&socket, None).unwrap());
    let side = stage.accept(1, false);
    (enrolling.join().unwrap(), side)
}

/// Tasks whose messages the daemon brings.
fn far(side: &Side) -> TaskId {
    side.id.host().task(99).unwrap()
}

#[test]
fn what_the_daemon_has_brought_is_found_by_the_first_call_that_looks() {
    let (mut with, mut side) = enrol(&mut Stage::new(), 1);
    let (mut without, mut other) = apart();
    for (task, side) in [(&mut with, &mut side), (&mut without, &mut other)] {
        let (from, to) = (far(side), side.id);
        side.piece(&header(from, to, 1, 0, 1), b"x");
        assert!(task.poll().unwrap(), "a poll");
        assert_eq!(task.recv(&ANY).unwrap().tag(), 1);
        side.piece(&header(from, to, 2, 1, 1), b"x");
        let got = task.try_recv(&ANY).unwrap();
        assert_eq!(got.map(|message| message.tag()), Some(2), "a receive that does not wait");
        side.piece(&header(from, to, 3, 2, 1), b"x");
        assert!(task.wait(Some(Duration::ZERO)).unwrap(), "a wait that is over at once");
        side.piece(&header(from, to, 4, 3, 1), b"x");
        assert!(task.probe(&ANY.tag(4)).unwrap().is_some());
        assert!(task.probe(&ANY.tag(5)).unwrap().is_none() && !task.poll().unwrap());
    }
}

#[test]
fn who_waits_for_nothing_looks_a_few_times_and_sleeps() {
    let (with, side) = enrol(&mut Stage::new(), 1);
    for (mut task, _side) in [(with, side), apart()] {
        let mut looks = 0;
        let moment = Deadline::after(Some(Duration::from_millis(20)));
        let found = task.wait_for(moment, &mut |_| {
            looks += 1;
            None::<()>
        });
        assert!(found.unwrap().is_none());
        assert!(looks < 20, "{looks} looks");
        let shared = task.home.is_some();
        assert_eq!(task.counts.sleeps > 0, shared, "sleeps beside shared memory are counted");
    }
}

#[test]
fn a_poll_that_found_something_in_a_ring_asks_the_kernel_only_now_and_then() {
    let (mut a, _a_side, mut b, mut b_side) = with_ring();
    let (from, to) = (far(&b_side), b.id());
    while b.poll().unwrap() {}
    b.look();
    for count in 1..LOOKS / 2 {
        a.send(to, 1, b"x").unwrap();
        if count % 2 == 0 {
            assert!(b.poll().unwrap());
        } else {
            assert_eq!(b.recv(&ANY).unwrap().tag(), 1);
        }
        assert_eq!(b.waits.looks, count, "nobody asked");
    }
    // Something always comes; what the daemon brings does all the same.
    b_side.piece(&header(from, to, 2, 0, 1), b"y");
    let mut polls = 0;
    while b.endpoint.probe(&ANY.tag(2)).is_none() {
        a.send(to, 1, b"x").unwrap();
        b.poll().unwrap();
        polls += 1;
        assert!(polls <= LOOKS, "its turn has come");
    }
    // Once it is known that the socket has more, that is read too.
    b_side.piece(&header(from, to, 3, 1, 1), b"y");
    b.look();
    a.send(to, 1, b"x").unwrap();
    b.poll().unwrap();
    assert!(b.endpoint.probe(&ANY.tag(3)).is_some());
}

#[test]
fn a_message_at_the_head_of_a_ring_is_received_without_being_put_among_others() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let (from, to) = (a.id(), b.id());
    let long = vec![9; 40_000];
    while b.poll().unwrap() {}
    for wanted in [ANY, Wanted::any().from(from)] {
        for bytes in [&b"tiny"[..], &[1; 100], &long] {
            a.send(to, 1, bytes).unwrap();
            let before = (b.came(), b.rings.taken);
            let got = b.try_recv(&wanted).unwrap().expect("it is there");
            assert!(got.bytes() == bytes);
            assert_eq!((b.came(), b.rings.taken), (before.0, before.1 + 1));
        }
    }
    // A poll puts it there, as one.
    a.send(to, 1, &long).unwrap();
    let before = (b.came(), b.rings.taken);
    b.poll().unwrap();
    assert_eq!((b.came(), b.rings.taken), (before.0 + 1, before.1 + 1));
}

#[test]
fn receivers_from_anybody_take_eight_from_one_ring_and_go_on_to_the_next() {
    take_eight_each(None);
    // One that has nothing has no turn, and the others have no longer ones.
    (0..3).for_each(|empty| take_eight_each(Some(empty)));
}

fn take_eight_each(empty: Option<usize>) {
    let (mut task, _side, mut peers) = with_played_peers::<3>();
    let ids = peers.each_ref().map(|peer| peer.side.id);
    for (_, peer) in peers.iter_mut().enumerate().filter(|(n, _)| Some(*n) != empty) {
        (0..LOOKS).for_each(|_| assert!(peer.sends(1)));
    }
    let mut from = || task.try_recv(&ANY.tag(1)).unwrap().expect("there are many").src();
    let sources: Vec<TaskId> = (0..LOOKS / 2).map(|_| from()).collect();
    let mut runs = sources.chunk_by(|a, b| a == b).map(|run| (run[0], run.len()));
    let first = runs.next().unwrap();
    assert!(first.1 <= 8, "{sources:?}");
    let mut at = ids.iter().position(|id| *id == first.0).unwrap();
    for (source, len) in runs.clone().take(2) {
        at = (at + 1) % ids.len();
        at = if Some(at) == empty { (at + 1) % ids.len() } else { at };
        assert_eq!((source, len), (ids[at], 8), "{sources:?}");
    }
    assert!(runs.count() >= 2);
}

#[test]
fn polls_begin_with_another_ring_each_time() {
    let (mut task, _side, mut peers) = with_played_peers::<3>();
    let ids = peers.each_ref().map(|peer| peer.side.id);
    let mut firsts = Vec::new();
    for _ in 0..6 {
        for peer in &mut peers {
            assert!(peer.sends(1));
        }
        task.poll().unwrap();
        let order = [(); 3].map(|()| task.recv_first().unwrap().expect("of each").src());
        let first = ids.iter().position(|id| *id == order[0]).unwrap();
        assert_eq!(order, [0, 1, 2].map(|n| ids[(first + n) % 3]));
        firsts.push(first);
    }
    assert!(firsts.windows(2).all(|two| two[1] == (two[0] + 1) % 3), "{firsts:?}");
}

#[test]
fn what_came_before_the_daemon_went_is_told_first() {
    let (mut a, _a_side, mut b, b_side) = with_ring();
    drop(b_side);
    a.send(b.id(), 1, b"by the ring").unwrap();
    b.look();
    assert!(b.poll().unwrap(), "something came");
    assert_eq!(b.try_recv(&ANY).unwrap().expect("it came").bytes(), b"by the ring");
    assert!(matches!(b.poll(), Err(RecvError::Lost(_))));
    // Where nothing came, that is said at once.
    let (mut task, side) = enrol(&mut Stage::new(), 1);
    drop(side);
    assert!(matches!(task.poll(), Err(RecvError::Lost(_))));
}

#[test]
fn frames_are_put_together_however_the_socket_cuts_them() {
    let (mut task, mut side) = apart();
    let (from, to) = (far(&side), side.id);
    // Lengths that no buffer's size is a multiple of, and one that is longer than the buffer.
    let lens: Vec<usize> = (0..40).map(|n| 1000 + 37 * n).chain([60_001, 1, 60_003, 2]).collect();
    let bytes = |n: usize, len: usize| (0..len).map(|i| (i + n) as u8).collect::<Vec<u8>>();
    let sends = lens.clone();
    let daemon = std::thread::spawn(move || {
        for (n, len) in sends.into_iter().enumerate() {
            side.piece(&header(from, to, i64::from(n as u32), n as u32, len), &bytes(n, len));
        }
        side.say(&ToTask::Gone { peer: from });
        side
    });
    for (n, len) in lens.into_iter().enumerate() {
        let got = task.recv_timeout(&ANY, LONG).unwrap().expect("it was sent");
        assert_eq!(u64::try_from(got.tag()), Ok(n as u64));
        assert!(got.bytes() == bytes(n, len), "message {n}");
    }
    daemon.join().unwrap();
}

#[test]
fn a_messages_own_bytes_are_given_out_without_a_copy() {
    let (mut task, _side) = enrol(&mut Stage::new(), 1);
    let long = vec![4; 1000];
    task.send(task.id(), 1, &long).unwrap();
    let message = task.recv(&ANY).unwrap();
    let at = message.bytes().as_ptr();
    let bytes = message.into_bytes();
    assert!(bytes.as_ptr() == at && bytes == long);
}
