//! Messages between tasks, through real daemons.

use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::support::{ANY, LONG, Vm, pattern};
use towpath::task::{Choice, Envelope, RecvError, Route, Wanted};

/// The tag of message `n`: every other one takes more than 32 bits; its lower half is another's.
const fn tag_of(n: i64) -> i64 {
    if n % 2 == 0 { n } else { n << 33 | (n - 1) }
}

/// Two tasks, `hosts` hosts apart: messages of many lengths arrive whole and in order, both ways.
fn exchange(hosts: usize) {
    let vm = Vm::up(hosts);
    let (mut a, mut b) = (vm.task(1), vm.task(hosts));
    assert_ne!(a.id(), b.id());
    let to = b.id();
    let lens = [0, 1, 15, 16, 4096, 16_320, 16_321, 65_536, 65_537, 300_000, 3_000_000];
    let from = a.id();
    let echo = std::thread::spawn(move || {
        for (n, len) in (0..).zip(lens) {
            let got = b.recv(&ANY.tag(tag_of(n))).unwrap();
            assert_eq!((got.src(), got.tag(), got.len()), (from, tag_of(n), len));
            assert!(got.bytes() == pattern(n as u64, len), "message {n}");
            b.send(from, !got.tag(), got.bytes()).unwrap();
        }
        b.leave().unwrap();
    });
    for (n, len) in (0..).zip(lens) {
        a.send(to, tag_of(n), &pattern(n as u64, len)).unwrap();
    }
    for (n, len) in (0..).zip(lens) {
        let got = a.recv(&ANY).unwrap();
        assert_eq!((got.src(), got.tag(), got.len()), (to, !tag_of(n), len));
        assert!(got.bytes() == pattern(n as u64, len), "answer {n}");
    }
    echo.join().unwrap();
}

#[test]
fn two_tasks_on_one_host_exchange_messages() {
    exchange(1);
}

#[test]
fn two_tasks_on_two_hosts_exchange_messages() {
    exchange(2);
}

#[test]
fn messages_are_chosen_by_source_tag_and_context() {
    let vm = Vm::up(1);
    let (mut a, mut b, mut c) = (vm.task(1), vm.task(1), vm.task(1));
    let to = c.id();
    a.send(to, 1, b"a1").unwrap();
    a.send(to, 2, b"a2").unwrap();
    a.send_with(to, Envelope { tag: 1, context: 9, format: 77 }, b"a1 in 9").unwrap();
    // What a sent is in before b sends.
    while c.probe(&Wanted { context: 9, ..ANY }).unwrap().is_none() {
        c.wait(Some(LONG)).unwrap();
    }
    b.send(to, 1, b"b1").unwrap();
    let from_b = Wanted { source: Some(b.id()), tag: Some(1), context: 0 };
    assert_eq!(c.recv(&from_b).unwrap().bytes(), b"b1");
    assert_eq!(c.recv(&Wanted { tag: Some(2), ..ANY }).unwrap().bytes(), b"a2");
    let ninth = c.recv(&Wanted { context: 9, ..ANY }).unwrap();
    assert_eq!((ninth.bytes(), ninth.format()), (&b"a1 in 9"[..], 77));
    assert_eq!(c.recv(&ANY).unwrap().bytes(), b"a1");
    assert!(c.try_recv(&ANY).unwrap().is_none());
    assert!(c.recv_timeout(&ANY, Duration::from_millis(20)).unwrap().is_none());
}

#[test]
fn a_receive_into_too_little_room_leaves_the_message() {
    let vm = Vm::up(1);
    let (mut a, mut b) = (vm.task(1), vm.task(1));
    a.send(b.id(), 5, b"hello").unwrap();
    let mut room = [0; 8];
    let short = b.recv_into(&ANY, &mut room[..4]);
    assert_eq!(short, Err(RecvError::TooLong { len: 5, room: 4 }));
    let got = b.recv_into(&ANY, &mut room).unwrap();
    assert_eq!((got.src, got.tag, got.len, &room[..5]), (a.id(), 5, 5, &b"hello"[..]));
}

#[test]
fn a_match_function_sees_all_contexts_in_order_and_may_rank() {
    let vm = Vm::up(1);
    let mut a = vm.task(1);
    let own = a.id();
    for (tag, context) in [(3, 0), (1, 5), (9, 0), (9, 5)] {
        a.send_with(own, Envelope { tag, context, format: 0 }, &[tag as u8]).unwrap();
    }
    let mut seen = Vec::new();
    let none = a.recv_by(Some(Duration::ZERO), &mut |m| {
        seen.push((m.about.tag, m.about.context, m.bytes[0]));
        Choice::Skip
    });
    assert!(none.unwrap().is_none());
    assert_eq!(seen, [(3, 0, 3), (1, 5, 1), (9, 0, 9), (9, 5, 9)]);
    let rank = |m: &towpath::task::Arrived<'_>| Choice::Rank(m.about.tag as u32);
    let best = a.recv_by(None, &mut |m| rank(m)).unwrap().unwrap();
    assert_eq!((best.tag(), best.context()), (9, 0), "the earliest of the highest rank");
    let first = a.recv_by(None, &mut |_| Choice::Take).unwrap().unwrap();
    assert_eq!(first.tag(), 3);
}

#[test]
fn parts_arrive_as_one_message() {
    let vm = Vm::up(1);
    let (mut a, mut b) = (vm.task(1), vm.task(1));
    let whole = pattern(3, 100_000);
    let mut parts: Vec<&[u8]> = whole.chunks(7001).collect();
    parts.insert(2, &[]);
    let many: Vec<&[u8]> = whole.chunks(1000).collect();
    for parts in [&parts, &many] {
        let to = b.id();
        std::thread::scope(|s| {
            s.spawn(|| a.send_parts(to, Envelope::tag(1), parts).unwrap());
            assert!(b.recv(&ANY).unwrap().bytes() == whole);
        });
    }
}

#[test]
fn a_multicast_reaches_each_receiver_once_and_in_order_with_other_messages() {
    let vm = Vm::up(2);
    let mut from = vm.task(1);
    let mut receivers: Vec<_> = [1, 1, 2, 2, 2].map(|host| vm.task(host)).into();
    let all: Vec<_> = receivers.iter().map(towpath::Task::id).collect();
    let body = pattern(1, 200_000);
    std::thread::scope(|s| {
        for (i, task) in receivers.iter_mut().enumerate() {
            let body = &body;
            s.spawn(move || {
                assert_eq!(task.recv(&ANY).unwrap().bytes(), [i as u8]);
                assert!(task.recv(&ANY).unwrap().bytes() == *body);
                assert_eq!(task.recv(&ANY).unwrap().bytes(), b"");
                assert_eq!(task.recv(&ANY).unwrap().bytes(), b"last");
            });
        }
        for (i, to) in all.iter().enumerate() {
            from.send(*to, 0, &[i as u8]).unwrap();
        }
        from.multicast(&all, Envelope::tag(1), &[&body]).unwrap();
        from.multicast(&all, Envelope::tag(2), &[]).unwrap();
        for to in &all {
            from.send(*to, 3, b"last").unwrap();
        }
    });
}

#[test]
fn both_may_send_much_before_either_receives() {
    const EACH: usize = 64;
    let vm = Vm::up(2);
    let (mut a, mut b) = (vm.task(1), vm.task(2));
    let (first, second) = (a.id(), b.id());
    let work = |task: &mut towpath::Task, peer, seed: u64| {
        for i in 0..EACH {
            task.send(peer, 0, &pattern(seed + i as u64, 1 << 20)).unwrap();
        }
        for i in 0..EACH {
            let got = task.recv(&ANY).unwrap();
            assert!(got.bytes() == pattern(1000 - seed + i as u64, 1 << 20));
        }
    };
    let begin = Instant::now();
    std::thread::scope(|s| {
        s.spawn(|| work(&mut a, second, 0));
        s.spawn(|| work(&mut b, first, 1000));
    });
    println!("64 MiB each way, both send first: {:?}", begin.elapsed());
}

#[test]
fn tasks_of_one_host_come_to_use_shared_memory_and_keep_the_order_across_routes() {
    let vm = Vm::up(1);
    let (mut a, mut b) = (vm.task(1), vm.task(1));
    let to = b.id();
    let count = 6000;
    std::thread::scope(|s| {
        s.spawn(|| {
            for tag in 0..count {
                // The route changes every few messages, long and short ones among them.
                a.allow_direct(tag % 11 < 7);
                let len = [0, 8, 40, 41, 4096, 4097, 70_000, 300][tag as usize % 8];
                a.send(to, tag, &pattern(tag as u64, len)).unwrap();
            }
            a.allow_direct(true);
            assert_eq!(a.route(to), Route::Ring);
        });
        for tag in 0..count {
            let got = b.recv(&ANY).unwrap();
            assert_eq!(got.tag(), tag);
            assert!(got.bytes() == pattern(tag as u64, got.len()), "message {tag}");
        }
    });
}

#[test]
fn many_senders_to_one_task_that_comes_late() {
    let vm = Vm::up(2);
    let mut late = vm.task(1);
    let to = late.id();
    let begin = Instant::now();
    std::thread::scope(|s| {
        for i in 0..16 {
            let mut task = vm.task(1 + i % 2);
            s.spawn(move || {
                for tag in 0..50 {
                    task.send(to, tag, &pattern(tag as u64, 64_000)).unwrap();
                }
            });
        }
        // Everybody is at it before anything is taken.
        let mut next = std::collections::HashMap::new();
        for _ in 0..16 * 50 {
            let got = late.recv_timeout(&ANY, LONG).unwrap().expect("nothing is lost");
            let expected = next.entry(got.src()).or_insert(0);
            assert_eq!(got.tag(), *expected);
            assert!(got.bytes() == pattern(got.tag() as u64, 64_000));
            *expected += 1;
        }
    });
    println!("16 senders on two hosts, 51 MB to one task: {:?}", begin.elapsed());
}

#[test]
fn a_task_that_does_not_read_holds_up_its_sender_and_fills_no_daemon() {
    const MESSAGES: usize = 100;
    let vm = Vm::up(2);
    for host in [1, 2] {
        let (mut from, mut reader) = (vm.task(1), vm.task(host));
        from.allow_direct(false);
        let to = reader.id();
        let (sent, progress) = std::sync::mpsc::channel();
        std::thread::scope(|s| {
            s.spawn(move || {
                for tag in 0..i64::try_from(MESSAGES).unwrap() {
                    from.send(to, tag, &pattern(tag as u64, 1 << 20)).unwrap();
                    sent.send(()).unwrap();
                }
            });
            let quiet = Duration::from_millis(300);
            let before = std::iter::from_fn(|| progress.recv_timeout(quiet).ok()).count();
            assert!(before < MESSAGES / 2, "{before} messages went to nobody");
            for host in [1, 2] {
                let most = vm.counter(host, "message_memory_bytes_max");
                assert!(most < 8 << 20, "daemon {host} held {most} bytes for one pair");
            }
            for tag in 0..i64::try_from(MESSAGES).unwrap() {
                let got = reader.recv(&ANY).unwrap();
                assert_eq!(got.tag(), tag);
                assert!(got.bytes() == pattern(tag as u64, 1 << 20));
            }
        });
    }
}

#[test]
fn long_messages_are_received_into_a_buffer_while_several_tasks_send_them() {
    const EACH: i64 = 20;
    let len = |tag: i64| 1_500_000 + 7919 * tag as usize;
    let vm = Vm::up(1);
    let mut receiver = vm.task(1);
    let to = receiver.id();
    std::thread::scope(|s| {
        for _ in 0..3 {
            let mut task = vm.task(1);
            s.spawn(move || {
                let seed = task.id().to_raw();
                for tag in 0..EACH {
                    task.send(to, tag, &pattern(seed + tag as u64, len(tag))).unwrap();
                }
                assert_eq!(task.route(to), Route::Ring);
            });
        }
        let mut room = vec![0; len(EACH)];
        let mut next = std::collections::HashMap::new();
        for _ in 0..3 * EACH {
            let got = receiver.recv_into(&ANY, &mut room).unwrap();
            let expected = next.entry(got.src).or_insert(0);
            assert_eq!((got.tag, got.len), (*expected, len(got.tag)));
            let sent = pattern(got.src.to_raw() + got.tag as u64, got.len);
            assert!(room[..got.len] == sent, "message {} of {}", got.tag, got.src);
            *expected += 1;
        }
    });
}

#[test]
fn a_multicast_to_tasks_of_the_same_host_goes_through_shared_memory() {
    let vm = Vm::up(2);
    let mut from = vm.task(1);
    let mut receivers: Vec<_> = [1, 1, 1, 2].map(|host| vm.task(host)).into();
    let all: Vec<_> = receivers.iter().map(towpath::Task::id).collect();
    let bodies: Vec<_> =
        [20_000, 0, 100, 5000, 300_000].map(|len| pattern(len, len as usize)).into();
    std::thread::scope(|s| {
        for task in &mut receivers {
            let bodies = &bodies;
            s.spawn(move || {
                for (tag, body) in (0..).zip(bodies) {
                    let got = task.recv(&ANY).unwrap();
                    assert_eq!(got.tag(), tag);
                    assert!(got.bytes() == *body, "message {tag}");
                    task.send(got.src(), tag, &[]).unwrap();
                }
            });
        }
        for (tag, body) in (0..).zip(&bodies) {
            if tag == 0 {
                // Long enough to bring the rings about.
                for to in &all {
                    from.send(*to, tag, body).unwrap();
                }
            } else {
                from.multicast(&all, Envelope::tag(tag), &[body]).unwrap();
            }
            for _ in &all {
                from.recv(&Wanted { tag: Some(tag), ..ANY }).unwrap();
            }
        }
    });
    let sent = |name| from.counters().into_iter().find(|(n, _)| *n == name).unwrap().1;
    assert!(sent("sent_by_ring") >= 3 * 4, "{:?}", from.counters());
}

#[test]
fn a_hosts_clock_is_the_machines() {
    let vm = Vm::up(2);
    let mut task = vm.task(1);
    let far = vm.task(2);
    let unix_us = || UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    for host in [task.id().host(), far.id().host()] {
        let before = unix_us();
        let clock = task.clock(host).unwrap();
        let slack = 1000; // two clocks of the machine are read one after the other
        assert!((before - slack..=unix_us() + slack).contains(&clock), "{before}: {clock}");
    }
}
