//! Floyd and Jacobson's class-based queuing: who is limited, who may borrow.

use std::prelude::rust_2024::*;
use std::vec;

use towpath_qos::scheduler::{Discipline, Packet, QueueConfig, QueueId};
use towpath_wire::Instant;

use super::link::{Arrival, arrival, build, run, share};

const END: u64 = 4_000_000;

/// Every queue that is named always has packets, of 1000 B.
fn flood(queues: &[u32]) -> Vec<Arrival> {
    let mut all = Vec::new();
    for k in 0..END / 1000 {
        all.extend(queues.iter().map(|q| arrival(k * 1000, *q, 1000)));
    }
    all
}

fn class(thousandths: u64, may_borrow: bool) -> QueueConfig {
    let rate = share(thousandths);
    QueueConfig { rate, may_borrow, packets_max: 10_000, ..QueueConfig::default() }
}

/// Thousandths of the link that a queue got in the second half.
fn got(discipline: Discipline, queues: &[QueueConfig], arrivals: &[Arrival], queue: u32) -> u64 {
    let outcome = run(&mut *build(discipline, queues), arrivals, END);
    outcome.bytes_of(queue, END / 2, END) * 1000 / (END / 2)
}

fn near(got: u64, expected: u64) -> bool {
    got.abs_diff(expected) * 100 <= expected
}

const FORMS: [Discipline; 3] =
    [Discipline::CbqFormal, Discipline::CbqAncestorsOnly, Discipline::CbqTopLevel];

#[test]
fn a_class_that_may_not_borrow_keeps_to_its_share_on_an_idle_link() {
    for form in FORMS {
        let got = got(form, &[class(200, false)], &flood(&[0]), 0);
        assert!(near(got, 200), "{}: {got}", form.facts().name);
    }
}

#[test]
fn a_class_that_may_borrow_takes_the_idle_link() {
    for form in FORMS {
        let got = got(form, &[class(200, true), class(800, true)], &flood(&[0]), 0);
        assert!(near(got, 1000), "{}: {got}", form.facts().name);
    }
}

/// Equal weights in the round robin: what makes the shares differ is the estimator alone.
#[test]
fn backlogged_classes_are_held_to_their_shares() {
    let classes = [class(500, true), class(300, true), class(200, true)];
    for form in [Discipline::CbqFormal, Discipline::CbqTopLevel] {
        for (queue, expected) in [(0, 500), (1, 300), (2, 200)] {
            let got = got(form, &classes, &flood(&[0, 1, 2]), queue);
            let off = got.abs_diff(expected);
            assert!(off * 10 <= expected, "{}: class {queue} got {got}", form.facts().name);
        }
    }
}

/// Two agencies of half the link; the first has leaves of 300 and 200, the second one of 500. While
/// the first agency's second leaf is silent, its share goes to its sibling, not to the other
/// agency.
#[test]
fn what_a_leaf_leaves_goes_to_its_agency_first() {
    let under =
        |parent, config: QueueConfig| QueueConfig { parent: Some(QueueId(parent)), ..config };
    let classes = [
        class(500, true),
        class(500, true),
        under(0, class(300, true)),
        under(0, class(200, true)),
        under(1, class(500, true)),
    ];
    for form in [Discipline::CbqFormal, Discipline::CbqTopLevel] {
        let all = flood(&[2, 4]);
        let first = got(form, &classes, &all, 2);
        let second = got(form, &classes, &all, 4);
        let name = form.facts().name;
        assert!(first.abs_diff(500) <= 50, "{name}: {first} and {second}");
        assert!(second.abs_diff(500) <= 50, "{name}: {first} and {second}");
    }
}

/// Forty classes that may not borrow wait for their time again and again beside one that always
/// may: none is forgotten, and none of the link is lost.
#[test]
fn many_limited_classes_come_back_in_time() {
    let mut classes = vec![class(10, false); 40];
    classes.push(class(600, true));
    let all: Vec<u32> = (0..41).collect();
    for form in FORMS {
        let outcome = run(&mut *build(form, &classes), &flood(&all), END);
        let packets = |queue| outcome.bytes_of(queue, END / 2, END) / 1000;
        let got: Vec<u64> = (0..40).map(packets).collect();
        // 1 % of 2000 packets each; as all are in step, the ends of what is counted may bring each
        // of them one more, and what went late may be made up for.
        assert!(got.iter().all(|got| (18..=23).contains(got)), "{}: {got:?}", form.facts().name);
        assert_eq!(all.iter().map(|queue| packets(*queue)).sum::<u64>(), 2000);
        assert_eq!(outcome.idle_with_backlog, 0, "{}", form.facts().name);
    }
}

/// The more urgent class goes first, but only up to its share if it may not borrow. (If it may, it
/// does whenever the other is over its limit for the moment, between two packets.)
#[test]
fn priority_without_starvation() {
    let urgent = QueueConfig { priority: 0, ..class(100, false) };
    let other = QueueConfig { priority: 1, ..class(900, true) };
    for form in FORMS {
        let got = got(form, &[urgent, other], &flood(&[0, 1]), 0);
        // A packet that goes late leaves the average above zero and the next one goes at once:
        // up to 1/32 more than the share.
        assert!((99..=104).contains(&got), "{}: {got}", form.facts().name);
    }
}

#[test]
fn only_leaves_hold_packets_and_trees_come_apart_from_below() {
    let under = QueueConfig { parent: Some(QueueId(0)), ..class(100, true) };
    for discipline in [Discipline::CbqFormal, Discipline::Hfsc] {
        let mut s = build(discipline, &[class(500, true), under]);
        let refused = s.enqueue(Instant::ZERO, Packet::new(QueueId(0), 100, 0)).unwrap_err();
        assert_eq!(refused.to_string(), "queue 0 is a class with children and holds no packets");
        let busy = s.remove_queue(QueueId(0)).unwrap_err();
        assert_eq!(busy.to_string(), "queue 0 still holds 0 packets and 1 children");
        assert!(s.enqueue(Instant::ZERO, Packet::new(QueueId(1), 100, 0)).is_ok());
        let below = QueueConfig { parent: Some(QueueId(1)), ..under };
        let refused = s.add_queue(QueueId(2), &below).unwrap_err();
        assert_eq!(refused.to_string(), "queue 2 cannot be under 1: it holds packets");
        let moved = s.reconfigure(QueueId(1), &class(100, true)).unwrap_err();
        assert!(moved.to_string().ends_with("a class stays where it was added"), "{moved}");
        assert!(s.dequeue(Instant::ZERO).is_some());
        assert!(s.remove_queue(QueueId(1)).is_ok() && s.remove_queue(QueueId(0)).is_ok());
    }
}
