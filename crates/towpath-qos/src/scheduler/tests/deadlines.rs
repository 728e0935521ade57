//! Earliest deadline first against its exact test, and jitter over two nodes.

use std::prelude::rust_2024::*;

use core::time::Duration;

use proptest::prelude::*;
use towpath_qos::scheduler::{Discipline, QueueConfig};
use towpath_wire::{ByteSize, Rate};

use super::link::{Arrival, L, Outcome, arrival, build, cases, run};

/// A sporadic source: packets of `size` bytes at least `gap` ns apart, due within `delay` ns.
#[derive(Clone, Copy, Debug)]
struct Task {
    size: u32,
    gap: u64,
    delay: u64,
}

fn configs(tasks: &[Task]) -> Vec<QueueConfig> {
    let of = |task: &Task| QueueConfig {
        // Rounded up: a source that keeps its gap is never early.
        rate: Rate::from_bps((u64::from(task.size) * 8_000_000_000).div_ceil(task.gap)),
        burst: ByteSize::ZERO,
        delay: Duration::from_nanos(task.delay),
        packets_max: 10_000,
        ..QueueConfig::default()
    };
    tasks.iter().map(of).collect()
}

const HORIZON: u64 = 60_000;

/// The first time at which more is due than the link can have sent, by trying all of them:
/// Σ sⱼ·(⌊(t − dⱼ)/gapⱼ⌋ + 1) + max_{dₖ>t} (sₖ − 1) > t. The blocking packet began a nanosecond
/// earlier, the least time there is here (Jeffay, Stanat and Martel 1991).
fn overload(tasks: &[Task]) -> Option<(u64, Option<usize>)> {
    (1..HORIZON).find_map(|t| {
        let due = |task: &Task| match t.checked_sub(task.delay) {
            Some(left) => u64::from(task.size) * (left / task.gap + 1),
            None => 0,
        };
        let demand: u64 = tasks.iter().map(due).sum();
        let blocking =
            (0..tasks.len()).filter(|k| tasks[*k].delay > t).max_by_key(|k| tasks[*k].size);
        let blocked = blocking.map_or(0, |k| u64::from(tasks[k].size) - 1);
        (demand > 0 && demand + blocked > t).then_some((t, blocking))
    })
}

/// Every task at once and as often as it may from `start` on, but for one that comes first.
fn adversary(tasks: &[Task], blocking: Option<usize>) -> Vec<Arrival> {
    let mut all = Vec::new();
    for (queue, task) in tasks.iter().enumerate() {
        if Some(queue) == blocking {
            all.push(arrival(1_000_000, queue as u32, task.size));
        } else {
            let from = 1_000_001;
            let count = HORIZON / task.gap;
            all.extend((0..count).map(|k| arrival(from + k * task.gap, queue as u32, task.size)));
        }
    }
    all.sort_by_key(|a| a.at);
    all
}

fn late(outcome: &Outcome, tasks: &[Task], by: u64) -> Option<u64> {
    let over = outcome.sent.iter().map(|s| s.delay().saturating_sub(tasks[s.queue as usize].delay));
    over.max().filter(|over| *over > by)
}

fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let one = (100u32..=L, 2_000u64..9_000, 300u64..8_000).prop_map(|(size, gap, delay)| Task {
        size,
        gap,
        delay: delay.max(u64::from(size)),
    });
    // Load near what fits, so that both answers occur.
    prop::collection::vec(one, 2..6).prop_filter("load below the link", |tasks| {
        tasks.iter().map(|t| f64::from(t.size) / t.gap as f64).sum::<f64>() < 0.95
    })
}

fn schedulable() -> impl Strategy<Value = Vec<Task>> {
    tasks().prop_filter("deadlines that fit", |tasks| overload(tasks).is_none())
}

proptest! {
    #![proptest_config(cases(256))]

    /// Deadlines are met if and only if the test says so: a set that passes meets them against
    /// every adversary of the family, one that fails misses against the one the test names.
    #[test]
    fn edf_meets_deadlines_iff_the_test_says_so(tasks in tasks()) {
        let go = |discipline, blocking| {
            run(&mut *build(discipline, &configs(&tasks)), &adversary(&tasks, blocking), u64::MAX)
        };
        match overload(&tasks) {
            None => for blocking in (0..tasks.len()).map(Some).chain([None]) {
                let outcome = go(Discipline::Edf, blocking);
                prop_assert_eq!(late(&outcome, &tasks, 0), None);
                let slack = outcome.sent.iter().map(|s| s.slack).min().unwrap();
                prop_assert!(slack >= 0, "the scheduler says so too");
                // The calendar's granule here is 1024 ns.
                let outcome = go(Discipline::EdfCalendar, blocking);
                prop_assert_eq!(late(&outcome, &tasks, 1023), None);
            },
            Some((_, blocking)) => {
                prop_assert!(late(&go(Discipline::Edf, blocking), &tasks, 0).is_some());
            }
        }
    }

    /// A queue that sends more than it said makes only itself late.
    #[test]
    fn edf_isolates(tasks in schedulable(), greedy in 0usize..2, size in 0u32..=L) {
        let size = 1 + size % tasks[greedy].size;
        let mut all = adversary(&tasks, None);
        all.extend((0..100).map(|k| arrival(1_000_001 + k * 300, greedy as u32, size)));
        all.sort_by_key(|a| a.at);
        let outcome = run(&mut *build(Discipline::Edf, &configs(&tasks)), &all, u64::MAX);
        for s in outcome.sent.iter().filter(|s| s.queue as usize != greedy) {
            prop_assert!(s.delay() <= tasks[s.queue as usize].delay, "{:?}", s);
        }
    }

    /// Two jitter-EDD nodes in a row: delay within d1 + d2, jitter within d2, although the first
    /// node's load makes its delays vary.
    #[test]
    fn jitter_edd_takes_out_the_first_nodes_jitter(
        tasks in schedulable(), starts in prop::collection::vec(0u64..5_000, 6),
    ) {
        let mut all = Vec::new();
        for (queue, task) in tasks.iter().enumerate() {
            let count = HORIZON / task.gap;
            let from = 1_000_000 + starts[queue];
            all.extend((0..count).map(|k| arrival(from + k * task.gap, queue as u32, task.size)));
        }
        all.sort_by_key(|a| a.at);
        let node = |arrivals: &[Arrival]| {
            run(&mut *build(Discipline::JitterEdd, &configs(&tasks)), arrivals, u64::MAX)
        };
        let first = node(&all);
        prop_assert!(first.sent.iter().all(|s| s.slack >= 0));
        let relayed: Vec<Arrival> = first.sent.iter()
            .map(|s| Arrival { slack: s.slack, ..arrival(s.end, s.queue, s.bytes) }).collect();
        let second = node(&relayed);
        for queue in 0..tasks.len() as u32 {
            let delay = tasks[queue as usize].delay;
            let total: Vec<u64> = second.sent.iter().filter(|s| s.queue == queue)
                .map(|s| s.end - first.sent[s.index].arrived).collect();
            let (least, most) = (*total.iter().min().unwrap(), *total.iter().max().unwrap());
            prop_assert!(most <= 2 * delay, "{most} in two hops of {delay}");
            prop_assert!(least >= delay, "held until the first deadline");
            prop_assert!(most - least <= delay, "jitter {}", most - least);
        }
    }
}

/// Deadlines by hand: a at 0 due 3000, b at 0 due 2000, c at 500 due 1600.
#[test]
fn the_earliest_goes_first() {
    let task = |delay| Task { size: 1000, gap: 100_000, delay };
    let tasks = [task(3000), task(2000), task(1100)];
    let all = [arrival(0, 0, 1000), arrival(0, 1, 1000), arrival(500, 2, 1000)];
    let outcome = run(&mut *build(Discipline::Edf, &configs(&tasks)), &all, u64::MAX);
    let order: Vec<_> = outcome.sent.iter().map(|s| (s.queue, s.end, s.slack)).collect();
    assert_eq!(order, [(1, 1000, 1000), (2, 2000, -400), (0, 3000, 0)]);
}
