//! The direct route between tasks of two hosts, through real daemons.

use std::thread;

use crate::support::{ANY, Vm, pattern, work};
use towpath::Task;
use towpath::task::{Envelope, Event, Route, SendError, Subject, WatchEvent};

/// Sends to and fro until messages of `a` go to `b` by a stream; how many were sent each way.
fn until_stream(a: &mut Task, b: &mut Task) -> u64 {
    let (first, second) = (a.id(), b.id());
    for n in 0.. {
        a.send(second, 0, &pattern(n, 100)).unwrap();
        assert_eq!(b.recv(&ANY).unwrap().bytes(), pattern(n, 100));
        b.send(first, 0, b"seen").unwrap();
        assert_eq!(a.recv(&ANY).unwrap().bytes(), b"seen");
        if a.route(second) == Route::Stream && b.route(first) == Route::Stream {
            return n + 1;
        }
    }
    unreachable!("numbers do not end")
}

#[test]
fn messages_change_from_the_daemons_to_a_stream_without_a_gap() {
    let vm = Vm::up(2);
    let (mut a, mut b) = (vm.task(1), vm.task(2));
    let (first, second) = (a.id(), b.id());
    thread::scope(|s| {
        s.spawn(|| work(&mut a, second, 200));
        s.spawn(|| work(&mut b, first, 200));
    });
    until_stream(&mut a, &mut b);
}

#[test]
fn what_was_sent_before_leaving_arrives_and_the_end_is_told_after_it() {
    let vm = Vm::up(2);
    let (mut a, mut b) = (vm.task(1), vm.task(2));
    let (first, second) = (a.id(), b.id());
    b.watch(Subject::Task(first)).unwrap();
    until_stream(&mut a, &mut b);
    let last_words = pattern(9, 3 << 20);
    let sender = thread::spawn(move || {
        a.send(second, 1, &last_words).unwrap();
        drop(a);
    });
    let event = loop {
        if let Some(event) = b.next_event() {
            break event;
        }
        b.wait(None).unwrap();
    };
    sender.join().unwrap();
    assert!(matches!(
        event,
        Event::Notice { event: WatchEvent::TaskEnded { task, .. }, .. } if task == first
    ));
    let got = b.try_recv(&ANY).unwrap().expect("its last message came before its end was told");
    assert!(got.bytes() == pattern(9, 3 << 20));
    let failed = loop {
        if let Err(e) = b.send(first, 0, b"too late") {
            break e;
        }
        b.wait(Some(std::time::Duration::from_millis(1))).unwrap();
    };
    assert_eq!(failed, SendError::NoTask(first));
}

#[test]
fn much_goes_one_way_while_nothing_comes_the_other() {
    let vm = Vm::up(2);
    let (mut a, mut b) = (vm.task(1), vm.task(2));
    let second = b.id();
    until_stream(&mut a, &mut b);
    thread::scope(|s| {
        s.spawn(|| (0..60).for_each(|n| a.send(second, n, &pattern(9, 1 << 20)).unwrap()));
        for n in 0..60 {
            let got = b.recv(&ANY).unwrap();
            assert!(got.tag() == n && got.bytes() == pattern(9, 1 << 20), "message {n}");
        }
    });
}

/// A multicast to tasks that have streams goes by those, where the links are no bottleneck: chains
/// of daemons are for slow ones.
#[test]
fn a_multicast_goes_by_streams_where_that_is_sooner() {
    const CASTS: i64 = 20;
    let vm = Vm::up(3);
    let (mut from, mut b, mut c) = (vm.task(1), vm.task(2), vm.task(3));
    until_stream(&mut from, &mut b);
    until_stream(&mut from, &mut c);
    let to = [b.id(), c.id()];
    let by_stream = |task: &Task| {
        let counters = task.counters();
        counters.into_iter().find(|(name, _)| *name == "sent_by_stream").unwrap().1
    };
    // Short ones, for which the speed of the link does not matter; then long ones, by whatever way.
    for len in [64, 300_000] {
        let before = by_stream(&from);
        thread::scope(|s| {
            for task in [&mut b, &mut c] {
                s.spawn(move || {
                    for n in 0..CASTS {
                        let got = task.recv(&ANY).unwrap();
                        assert!(got.tag() == n && got.bytes() == pattern(n as u64, len), "{n}");
                    }
                });
            }
            for n in 0..CASTS {
                from.multicast(&to, Envelope::tag(n), &[&pattern(n as u64, len)]).unwrap();
            }
        });
        let sent = by_stream(&from) - before;
        assert!(len > 64 || sent == 2 * CASTS as u64, "{sent} of {} by streams", 2 * CASTS);
    }
}
