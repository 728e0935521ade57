//! Which message a receive takes, and what is known of messages; loans; what a task says of itself.

use std::time::Duration;

use towpath_io::shared::SHORT_MAX;
use towpath_vm::matching::Wanted;
use towpath_vm::talk::{ToDaemon, ToTask};

use super::actors::{ANY, all, crowd, enrol, header, neighbours, with_ring};
use super::stage::{self, Heard, LONG, Stage};
use crate::Route;
use crate::error::{RecvError, SendError};
use crate::message::{Choice, Envelope};
use crate::task::Task;

const SOON: Duration = Duration::from_millis(5);

fn counter(task: &Task, name: &str) -> u64 {
    task.counters().iter().find(|(n, _)| *n == name).expect("it is counted").1
}

#[test]
fn a_message_is_chosen_by_what_it_is_and_the_first_of_equals_is_taken() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let send = |a: &mut Task, b: &Task, tag, context, bytes: &[u8]| {
        let envelope = Envelope { tag, context, format: 9 };
        a.send_with(b.id(), envelope, bytes).unwrap();
    };
    assert!(b.recv_by(Some(SOON), &mut |_| Choice::Take).unwrap().is_none(), "nothing came");
    for (tag, context, bytes) in [(1, 0, b"one"), (2, 5, b"two"), (3, 0, b"six"), (4, 0, b"ten")] {
        send(&mut a, &b, tag, context, bytes);
    }
    let mut shown = Vec::new();
    let none = b.recv_by(Some(SOON), &mut |arrived| {
        shown.push((arrived.about.tag, arrived.about.context, arrived.bytes.to_vec()));
        Choice::Skip
    });
    assert!(none.unwrap().is_none());
    let expected = [(1, 0, "one"), (2, 5, "two"), (3, 0, "six"), (4, 0, "ten")];
    let expected = expected.map(|(tag, context, text)| (tag, context, text.as_bytes().to_vec()));
    assert_eq!(shown[..4], expected, "in the order in which they came, of every context");
    // The highest rank, and of two the one that came first; what is taken ends the search.
    let rank = |tag: i64| [0, 1, 7, 7, 3][tag as usize];
    let got = b.recv_by(None, &mut |arrived| Choice::Rank(rank(arrived.about.tag))).unwrap();
    let got = got.expect("one of them");
    assert_eq!((got.tag(), got.context(), got.format(), got.src()), (2, 5, 9, a.id()));
    let mut seen = 0;
    let got = b.recv_by(None, &mut |arrived| {
        seen += 1;
        if arrived.bytes == b"six" { Choice::Take } else { Choice::Rank(1) }
    });
    assert_eq!((got.unwrap().map(|m| m.tag()), seen), (Some(3), 2));
    let first = b.recv_first().unwrap().expect("the earliest that is left");
    assert_eq!((first.tag(), first.len(), first.is_empty()), (1, 3, false));
    assert_eq!(b.recv_first().unwrap().map(|m| m.tag()), Some(4));
    assert!(b.recv_first().unwrap().is_none());
    send(&mut a, &b, 5, 0, b"");
    assert!(b.recv_first().unwrap().is_some_and(|m| m.is_empty()));
    // Whoever waits is woken by what comes.
    let to = b.id();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| b.recv_by(Some(LONG), &mut |_| Choice::Take).unwrap());
        a.send(to, 6, b"late").unwrap();
        assert_eq!(waits.join().unwrap().map(crate::Message::into_bytes), Some(b"late".to_vec()));
    });
}

#[test]
fn a_probed_message_stays_and_one_that_is_too_long_does_too() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let tagged = |tag| Wanted::any().from(a.id()).tag(tag);
    let (one, two) = (tagged(1), tagged(2));
    assert_eq!(b.probe(&one).unwrap(), None);
    a.send(b.id(), 1, b"four").unwrap();
    for _ in 0..2 {
        let about = b.probe(&one).unwrap().expect("it is there");
        assert_eq!((about.src, about.tag, about.context, about.len), (a.id(), 1, 0, 4));
    }
    assert_eq!(b.probe(&two).unwrap(), None);
    let mut out = [9; 5];
    let short = b.recv_into(&one, &mut out[..3]);
    assert_eq!(short, Err(RecvError::TooLong { len: 4, room: 3 }));
    assert_eq!(b.recv_into_timeout(&two, &mut out, SOON), Ok(None));
    let about = b.recv_into_timeout(&one, &mut out, SOON).unwrap().expect("it is there still");
    assert_eq!((about.len, &out), (4, b"four\x09"));
    assert_eq!(b.recv_into_timeout(&one, &mut out, SOON), Ok(None), "once");
    // The same for a long one, that is not copied beforehand.
    let long: Vec<u8> = (0..100_000).map(|n| (n % 251) as u8).collect();
    a.send(b.id(), 2, &long).unwrap();
    let mut out = vec![0; long.len()];
    let short = b.recv_into(&two, &mut out[..long.len() - 1]);
    assert_eq!(short, Err(RecvError::TooLong { len: long.len(), room: long.len() - 1 }));
    assert_eq!(b.recv_into(&two, &mut out).unwrap().len, long.len());
    assert!(out == long);
}

#[test]
fn what_a_task_sends_itself_and_posts_itself_is_there_at_once() {
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let own = task.id();
    assert_eq!(task.route(own), Route::Own);
    task.send(own, 3, b"to myself").unwrap();
    let from = own.host().task(77).unwrap();
    task.post(from, Envelope { tag: 4, context: 2, format: 1 }, b"from elsewhere".to_vec());
    let got = task.recv(&ANY).unwrap();
    assert_eq!((got.src(), got.tag(), got.bytes()), (own, 3, &b"to myself"[..]));
    let got = task.try_recv(&Wanted::any().context(2)).unwrap().expect("it was posted");
    assert_eq!((got.src(), got.format(), got.bytes()), (from, 1, &b"from elsewhere"[..]));
    assert_eq!((counter(&task, "sent_to_self"), counter(&task, "sent_by_daemon")), (1, 0));
    assert!(side.heard().is_none(), "no daemon has to do with it");
    assert!(format!("{task:?}").contains("Task"));
    assert_eq!((task.context(), task.parent(), task.siblings().len()), (0, None, 0));
}

#[test]
fn without_direct_routes_everything_goes_by_the_daemon_and_is_counted() {
    let (mut a, mut a_side, mut b, _b_side) = with_ring();
    // What opened the ring.
    let before = counter(&b, "received_by_ring");
    a.send(b.id(), 1, b"by the ring").unwrap();
    a.allow_direct(false);
    assert_eq!(a.route(b.id()), Route::Daemon);
    while a_side.heard().is_some() {}
    a.send(b.id(), 2, b"by the daemon").unwrap();
    let Heard::Data(header, bytes) = a_side.hear() else { panic!("no piece") };
    assert_eq!((header.tag, header.seq, bytes.as_slice()), (2, 1, &b"by the daemon"[..]));
    a.allow_direct(true);
    assert_eq!(a.route(b.id()), Route::Ring);
    a.send(b.id(), 3, b"by the ring").unwrap();
    assert_eq!((counter(&a, "sent_by_ring"), counter(&a, "sent_by_daemon")), (2, 1));
    // The order holds: what went by the daemon has not come.
    assert_eq!(b.recv(&ANY).unwrap().tag(), 1);
    assert!(b.try_recv(&ANY).unwrap().is_none());
    assert_eq!(counter(&b, "received_by_ring"), before + 1);
    assert_eq!(counter(&b, "rings_corrupt") + counter(&b, "streams_bad"), 0);
}

#[test]
fn a_task_that_refuses_direct_routes_says_so_when_one_is_offered() {
    let (mut a, mut a_side, _b, mut b_side) = neighbours();
    let peer = b_side.id;
    a.allow_direct(false);
    stage::ring(&mut a_side, &mut b_side);
    while a.poll().unwrap() {}
    assert_eq!(a.route(peer), Route::Daemon);
}

#[test]
fn what_is_written_into_a_loan_arrives_whole_with_whatever_envelope() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    for len in [0, 5, SHORT_MAX, SHORT_MAX + 1, 100_000] {
        let bytes: Vec<u8> = (0..len).map(|n| (n * 7 % 253) as u8).collect();
        let mut loan = a.loan(len).unwrap();
        assert_eq!(loan.len(), len);
        loan.copy_from_slice(&bytes);
        loan.write(len / 2, &bytes[len / 2..]);
        assert!(*loan == *bytes);
        let envelope = Envelope { tag: 4, context: 6, format: 7 };
        a.send_loan(b.id(), envelope, loan).unwrap();
        let got = b.recv(&Wanted::any().context(6)).unwrap();
        assert_eq!((got.tag(), got.format(), got.len()), (4, 7, len));
        assert!(got.bytes() == bytes);
        // To itself, and of its own memory.
        let own = a.id();
        let mut loan = a.loan(len).unwrap();
        loan.copy_from_slice(&bytes);
        a.send_loan(own, envelope, loan).unwrap();
        assert!(a.recv(&Wanted::any().context(6)).unwrap().bytes() == bytes);
    }
}

#[test]
fn a_sealed_loan_goes_to_several_and_more_than_once() {
    let (mut tasks, mut sides) = crowd(3);
    let ids: Vec<_> = tasks.iter().map(Task::id).collect();
    let bytes: Vec<u8> = (0..50_000).map(|n| (n % 249) as u8).collect();
    let sender = &mut tasks[0];
    let mut spare = sender.spare_loan(60_000).expect("there are readers and memory");
    assert_eq!(spare.len(), 60_000);
    spare.write(0, &bytes);
    let sealed = spare.seal(bytes.len());
    assert!(*sealed == *bytes);
    for tag in 0..3 {
        for to in [1, 2, 0] {
            sender.send_sealed(ids[to], Envelope::tag(tag), &sealed).unwrap();
        }
    }
    drop(sealed);
    let counts = all(&mut tasks, |_, task| {
        let before = counter(task, "received_by_ring");
        for tag in 0..3 {
            let got = task.recv(&ANY).unwrap();
            assert!(got.tag() == tag && got.bytes() == bytes);
        }
        counter(task, "received_by_ring") - before
    });
    assert_eq!(counts, [0, 3, 3]);
    let sender = &mut tasks[0];
    // One of memory of its own, and short ones.
    let mut own = crate::Loan::own(10);
    own.write(2, b"12345678");
    let short = own.seal(8);
    assert_eq!(&*short, b"\x00\x00123456");
    sender.send_sealed(ids[1], Envelope::tag(5), &short).unwrap();
    assert_eq!(tasks[1].recv(&ANY).unwrap().bytes(), b"\x00\x00123456");
    // More than half of the memory is not lent for long; nor to somebody who is alone.
    let sender = &mut tasks[0];
    assert!(sender.spare_loan(9 << 20).is_none());
    let (mut alone, _side) = enrol(&mut Stage::new(), 1);
    assert!(alone.spare_loan(60_000).is_none());
    // Who has ended gets nothing more.
    sides[0].say(&ToTask::Gone { peer: ids[2] });
    while sender.route(ids[2]) == Route::Ring {
        sender.poll().unwrap();
    }
    let mut late = sender.loan(50_000).unwrap();
    late.write(0, &bytes);
    assert_eq!(sender.send_loan(ids[2], Envelope::tag(9), late), Err(SendError::NoTask(ids[2])));
}

#[test]
fn a_task_says_what_it_wants_of_its_daemon_before_it_leaves() {
    let (task, mut side) = enrol(&mut Stage::new(), 1);
    task.leave().unwrap();
    let mut heard = Vec::new();
    while let Some(said) = side.heard() {
        heard.push(said);
    }
    assert!(heard.contains(&Heard::Control(ToDaemon::Leave)), "{heard:?}");
}

#[test]
fn pieces_by_the_daemon_are_put_together_in_order() {
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let (to, from) = (task.id(), towpath_wire::HostId::new(3, 1).unwrap().task(4).unwrap());
    let bytes: Vec<u8> = (0..100_000).map(|n| (n % 247) as u8).collect();
    let whole = header(from, to, 8, 0, bytes.len());
    for (n, piece) in bytes.chunks(30_000).enumerate() {
        assert!(task.try_recv(&ANY).unwrap().is_none(), "not all of it");
        side.piece(&towpath_wire::talk::Header { offset: n as u64 * 30_000, ..whole }, piece);
    }
    let mut out = vec![0; bytes.len()];
    let about = task.recv_into(&Wanted::any().from(from), &mut out).unwrap();
    assert_eq!((about.src, about.tag, about.len), (from, 8, bytes.len()));
    assert!(out == bytes);
}

#[test]
fn a_task_that_was_spawned_knows_by_whom_and_with_whom() {
    let mut stage = Stage::new();
    let socket = stage.socket();
    let enrolling = std::thread::spawn(move || Task::enrol_at(&socket, None).unwrap());
    let parent = towpath_wire::HostId::new(3, 1).unwrap().task(5).unwrap();
    let side = stage.accept_child(1, true, Some(parent));
    let task = enrolling.join().unwrap();
    assert_eq!((task.id(), task.host()), (side.id, side.id.host()));
    assert_eq!((task.parent(), task.siblings()), (Some(parent), &[side.id][..]));
}
