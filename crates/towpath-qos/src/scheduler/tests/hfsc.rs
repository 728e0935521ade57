//! Hierarchical fair service curves: the guarantee, the sharing, the ceiling.

use std::format;
use std::prelude::rust_2024::*;

use core::time::Duration;

use proptest::prelude::*;
use towpath_qos::scheduler::hfsc::ServiceCurve;
use towpath_qos::scheduler::{Discipline, Packet, QueueConfig, QueueId, Scheduler};
use towpath_wire::{ByteSize, Instant, Rate};

use super::link::{Arrival, L, Outcome, arrival, build, cases, run, share};

fn curve(config: &QueueConfig) -> ServiceCurve {
    ServiceCurve::new(config).unwrap()
}

fn leaf() -> impl Strategy<Value = QueueConfig> {
    (20u64..240, 0u64..4000, 500u64..40_000, 1u64..500).prop_map(|(rate, burst, delay, sharing)| {
        QueueConfig {
            rate: share(rate),
            burst: ByteSize::from_bytes(burst),
            delay: Duration::from_nanos(delay),
            share: Some(share(sharing)),
            packets_max: 10_000,
            ..QueueConfig::default()
        }
    })
}

/// Curves that the link can keep: Σ S(t) ≤ t at every knee and in the long run.
fn feasible(leaves: &[QueueConfig]) -> bool {
    let curves: Vec<_> = leaves.iter().map(curve).collect();
    let knees = leaves.iter().map(|leaf| leaf.delay.as_nanos() as u64);
    // Convex curves bend earlier than their delay: look at a grid as well.
    knees
        .chain((0..200).map(|k| k * 200))
        .all(|t| curves.iter().map(|c| c.bytes_in(t)).sum::<u64>() <= t + 1)
}

/// Bursts of packets with pauses in between, per leaf.
fn traffic(queues: u32) -> impl Strategy<Value = Vec<Arrival>> {
    let burst = (0u64..150_000, 0..queues, 64u32..=L, 1u64..25);
    prop::collection::vec(burst, 1..25).prop_map(|bursts| {
        let mut all = Vec::new();
        for (at, queue, bytes, count) in bursts {
            all.extend((0..count).map(|_| arrival(at, queue, bytes)));
        }
        all.sort_by_key(|a| a.at);
        all
    })
}

/// For every packet's end t2 there is a start t1 of a backlog with W(t1, t2) ≥ S(t2 − t1) − L:
/// the definition of a service curve (Stoica, Zhang and Ng, section 2), with the one packet that
/// non-preemption costs. Looks also at the instants between, when the next packet is overdue.
fn keeps(outcome: &Outcome, arrivals: &[Arrival], queue: u32, of: &ServiceCurve) -> Option<String> {
    let sent: Vec<_> = outcome.sent.iter().filter(|s| s.queue == queue).collect();
    let come: Vec<_> = arrivals.iter().filter(|a| a.queue == queue).collect();
    let mut starts = Vec::new();
    let mut served = 0;
    for (k, s) in sent.iter().enumerate() {
        // A backlog starts where a packet comes after all before it left.
        if k == 0 || come[k].at >= sent[k - 1].end {
            starts.push((come[k].at, served));
        }
        // Just before it ends, its bytes are not yet counted.
        let kept = starts.iter().any(|(t1, before)| {
            let due = of.bytes_in(s.end - 1 - t1);
            served - before + u64::from(L) + u64::from(s.bytes) + 2 >= due
        });
        if !kept {
            return Some(format!("queue {queue}: {s:?} late, {served} bytes before"));
        }
        served += u64::from(s.bytes);
    }
    None
}

proptest! {
    #![proptest_config(cases(256))]

    /// Deadlines are missed by at most a packet's time when the curves fit the link, whatever
    /// others do and whatever link sharing gave before.
    #[test]
    fn service_curves_are_kept(
        leaves in prop::collection::vec(leaf(), 4).prop_filter("fit the link", |l| feasible(l)),
        traffic in traffic(5),
    ) {
        let mut all = leaves.clone();
        // A fifth leaf without a real-time curve and with most of the link shares.
        all.push(QueueConfig { rate: Rate::from_bps(0), share: Some(share(900)),
            packets_max: 10_000, ..QueueConfig::default() });
        let outcome = run(&mut *build(Discipline::Hfsc, &all), &traffic, u64::MAX);
        for (queue, leaf) in leaves.iter().enumerate() {
            let broken = keeps(&outcome, &traffic, queue as u32, &curve(leaf));
            prop_assert_eq!(broken, None);
        }
        for s in &outcome.sent {
            prop_assert!(s.slack >= -i64::from(L) - 4, "deadline missed by {}", -s.slack);
        }
    }
}

const END: u64 = 2_000_000;

fn flood(queues: &[u32]) -> Vec<Arrival> {
    let mut all = Vec::new();
    for k in 0..END / 1000 {
        all.extend(queues.iter().map(|q| arrival(k * 1000, *q, 1000)));
    }
    all
}

fn sharing(thousandths: u64, parent: Option<u32>) -> QueueConfig {
    QueueConfig {
        rate: Rate::from_bps(0),
        share: Some(share(thousandths)),
        parent: parent.map(QueueId),
        packets_max: 10_000,
        ..QueueConfig::default()
    }
}

fn got(queues: &[QueueConfig], arrivals: &[Arrival]) -> Vec<u64> {
    let outcome = run(&mut *build(Discipline::Hfsc, queues), arrivals, END);
    (0..queues.len() as u32).map(|q| outcome.bytes_of(q, 0, END) * 1000 / END).collect()
}

#[test]
fn siblings_share_what_their_agency_has() {
    let tree = [
        sharing(600, None),
        sharing(400, None),
        sharing(300, Some(0)),
        sharing(300, Some(0)),
        sharing(100, Some(1)),
        sharing(300, Some(1)),
    ];
    let all = got(&tree, &flood(&[2, 3, 4, 5]));
    for (queue, expected) in [(2, 300), (3, 300), (4, 100), (5, 300)] {
        assert!(all[queue].abs_diff(expected) <= 2, "{all:?}");
    }
    let some = got(&tree, &flood(&[2, 4, 5]));
    for (queue, expected) in [(2, 600), (4, 100), (5, 300)] {
        assert!(some[queue].abs_diff(expected) <= 2, "{some:?}");
    }
}

#[test]
fn a_ceiling_holds_and_leaves_the_rest_to_siblings() {
    let mut tree = [sharing(500, None), sharing(500, None), sharing(250, Some(0))];
    tree[0].ceiling = Some(share(200));
    let both = got(&tree, &flood(&[1, 2]));
    assert!(both[2].abs_diff(200) <= 2 && both[1].abs_diff(800) <= 2, "{both:?}");
    let alone = got(&tree, &flood(&[2]));
    assert!(alone[2].abs_diff(200) <= 2, "{alone:?}");
}

/// A changed curve holds from the change on: what was served before is neither owed nor credit.
#[test]
fn a_changed_curve_starts_at_the_change() {
    let leaf = |rate| QueueConfig {
        rate: share(rate),
        share: Some(share(1)),
        packets_max: 10,
        ..QueueConfig::default()
    };
    let mut s = build(Discipline::Hfsc, &[leaf(800), leaf(100)]);
    let put = |s: &mut dyn Scheduler, now, queue| {
        s.enqueue(Instant::from_nanos(now), Packet::new(queue, 1000, 0)).unwrap();
    };
    for _ in 0..3 {
        put(&mut *s, 0, QueueId(0));
        put(&mut *s, 0, QueueId(1));
    }
    let mut served = [[0u32; 2]; 2];
    for k in 0..2000u64 {
        if k == 1000 {
            s.reconfigure(QueueId(0), &leaf(100)).unwrap();
            s.reconfigure(QueueId(1), &leaf(800)).unwrap();
        }
        let packet = s.dequeue(Instant::from_nanos(k * 1000)).unwrap();
        served[(k / 1000) as usize][packet.queue.0 as usize] += 1;
        put(&mut *s, k * 1000, packet.queue);
    }
    // Its own curve and at most what the two leave, a tenth of the link.
    assert!((800..=902).contains(&served[0][0]), "{served:?}");
    assert!((800..=902).contains(&served[1][1]), "{served:?}");
}

/// The paper's point against Virtual Clock: a leaf that took idle capacity is not punished.
#[test]
fn use_of_idle_capacity_is_not_held_against_a_leaf() {
    let leaf = QueueConfig { rate: share(500), packets_max: 10_000, ..QueueConfig::default() };
    let mut all: Vec<Arrival> = (0..100).map(|k| arrival(k * 1000, 0, 1000)).collect();
    for _ in 0..100 {
        all.push(arrival(100_000, 0, 1000));
        all.push(arrival(100_000, 1, 1000));
    }
    let outcome = run(&mut *build(Discipline::Hfsc, &[leaf, leaf]), &all, u64::MAX);
    let first = outcome.bytes_of(0, 100_000, 150_000);
    assert!(first.abs_diff(25_000) <= 2_000, "{first} of 50 000");
}
