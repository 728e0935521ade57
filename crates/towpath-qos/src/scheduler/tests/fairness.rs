//! Shares, each discipline against its own theorem.

use std::prelude::rust_2024::*;
use std::vec;

use num_rational::BigRational;
use proptest::prelude::*;
use towpath_qos::scheduler::{Discipline, QueueConfig};

use super::link::{Arrival, L, Outcome, arrival, build, cases, run, share};

fn queues(shares: &[u64]) -> Vec<QueueConfig> {
    let of =
        |thousandths: &u64| QueueConfig { rate: share(*thousandths), ..QueueConfig::default() };
    shares.iter().map(of).collect()
}

fn whole(n: u64) -> BigRational {
    BigRational::from_integer(n.into())
}

/// When each packet leaves the fluid system (generalised processor sharing, one byte per
/// nanosecond), exactly: every backlogged queue gets its share of the sum of backlogged shares.
fn fluid_ends(shares: &[u64], arrivals: &[Arrival]) -> Vec<BigRational> {
    let mut ends = vec![whole(0); arrivals.len()];
    let mut lists: Vec<Vec<(usize, BigRational)>> = vec![Vec::new(); shares.len()];
    let mut now = whole(0);
    let mut next = 0;
    loop {
        let active: u64 =
            (0..shares.len()).filter(|q| !lists[*q].is_empty()).map(|q| shares[q]).sum();
        let arrives = arrivals.get(next).map(|a| whole(a.at));
        // Time until the first head is done at the present rates.
        let done = (0..shares.len())
            .filter(|q| !lists[*q].is_empty())
            .map(|q| (&lists[q][0].1 * whole(active) / whole(shares[q]), q))
            .min();
        let (step, finished) = match (done, &arrives) {
            (None, None) => return ends,
            (Some((takes, _)), Some(at)) if &now + &takes > *at => (at - &now, None),
            (Some((takes, queue)), _) => (takes, Some(queue)),
            (None, Some(at)) => (at - &now, None),
        };
        for q in 0..shares.len() {
            if let Some(head) = lists[q].first_mut() {
                head.1 -= &step * whole(shares[q]) / whole(active);
            }
        }
        now += step;
        if let Some(queue) = finished {
            let (index, _) = lists[queue].remove(0);
            ends[index] = now.clone();
        } else {
            let a = arrivals[next];
            lists[a.queue as usize].push((next, whole(u64::from(a.bytes))));
            next += 1;
        }
    }
}

fn arrivals(queues: u32) -> impl Strategy<Value = Vec<Arrival>> {
    prop::collection::vec((0u64..3000, 0..queues, 40u32..=L), 1..60).prop_map(|all| {
        let mut at = 0;
        all.into_iter()
            .map(|(gap, queue, bytes)| {
                at += gap.saturating_sub(1500);
                arrival(at, queue, bytes)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(cases(96))]

    /// Parekh and Gallager, theorem 1: no packet leaves later than L/C after it leaves the fluid
    /// system. The schedulers count 2⁻¹⁶ ns, which can order two packets differently that the
    /// fluid system ends within that of each other; hence no tolerance beyond a nanosecond.
    #[test]
    fn wfq_is_at_most_a_packet_behind_the_fluid_system(
        shares in prop::collection::vec(1u64..250, 4),
        arrivals in arrivals(4),
    ) {
        let ends = fluid_ends(&shares, &arrivals);
        let outcome = run(&mut *build(Discipline::Wfq, &queues(&shares)), &arrivals, u64::MAX);
        for s in &outcome.sent {
            prop_assert!(whole(s.end) <= &ends[s.index] + whole(u64::from(L) + 1), "{:?}", s);
        }
    }

    /// With shares that sum to the link and every queue backlogged from the start, WF²Q+ is never
    /// a packet behind its fluid share nor a packet ahead.
    #[test]
    fn wf2q_is_within_a_packet_of_the_fluid_share(
        cuts in prop::collection::btree_set(1u64..1000, 1..5),
        sizes in prop::collection::vec(40u32..=L, 40),
    ) {
        let mut bounds: Vec<u64> = cuts.into_iter().collect();
        bounds.push(1000);
        let shares: Vec<u64> =
            bounds.iter().scan(0, |last, b| { let s = b - *last; *last = *b; Some(s) }).collect();
        let arrivals: Vec<Arrival> = (0..shares.len() as u32)
            .flat_map(|q| sizes.iter().map(move |bytes| arrival(0, q, *bytes))).collect();
        let outcome = run(&mut *build(Discipline::Wf2q, &queues(&shares)), &arrivals, u64::MAX);
        let total: u64 = sizes.iter().map(|b| u64::from(*b)).sum();
        let mut served = vec![0u64; shares.len()];
        for s in &outcome.sent {
            served[s.queue as usize] += u64::from(s.bytes);
            if served.contains(&total) {
                break;
            }
            for (queue, share) in shares.iter().enumerate() {
                let (got, due) = (served[queue] * 1000, s.end * share);
                prop_assert!(got + 1000 * u64::from(L) >= due, "behind: {queue} at {}", s.end);
                prop_assert!(due + 1000 * u64::from(L) >= got, "ahead: {queue} at {}", s.end);
            }
        }
    }

    /// Golestani: over any interval in which both have packets, |Wi/ri − Wj/rj| ≤ Li/ri + Lj/rj.
    #[test]
    fn scfq_shares(shares in prop::collection::vec(1u64..300, 3), arrivals in arrivals(3)) {
        let outcome = run(&mut *build(Discipline::Scfq, &queues(&shares)), &arrivals, u64::MAX);
        let allowed = |i: usize, j: usize| u64::from(L) * (shares[i] + shares[j]);
        check_pairs(&outcome, &arrivals, &shares, allowed)?;
    }

    /// Round robins: visits differ by one, and each is off its quantum by less than a packet:
    /// |Wi/Qi − Wj/Qj| ≤ 1 + L/Qi + L/Qj.
    #[test]
    fn drr_shares(weights in prop::collection::vec(1u64..6, 3), arrivals in arrivals(3)) {
        let of = |w: &u64| QueueConfig { weight: *w as u16, ..QueueConfig::default() };
        let configs: Vec<_> = weights.iter().map(of).collect();
        let outcome = run(&mut *build(Discipline::Drr, &configs), &arrivals, u64::MAX);
        let quantum = |i: usize| weights[i] * u64::from(L);
        let quanta: Vec<u64> = (0..3).map(quantum).collect();
        let allowed =
            |i: usize, j: usize| quanta[i] * quanta[j] + u64::from(L) * (quanta[i] + quanta[j]);
        check_pairs(&outcome, &arrivals, &quanta, allowed)?;
    }

    /// The source's CBQ is a round robin with quotas by rate.
    #[test]
    fn source_cbq_shares(shares in prop::collection::vec(50u64..300, 3), arrivals in arrivals(3)) {
        let configs = queues(&shares);
        let outcome = run(&mut *build(Discipline::CbqSource, &configs), &arrivals, u64::MAX);
        let least = *shares.iter().min().unwrap();
        let quanta: Vec<u64> = shares.iter().map(|s| u64::from(L) * s / least).collect();
        let allowed =
            |i: usize, j: usize| quanta[i] * quanta[j] + u64::from(L) * (quanta[i] + quanta[j]);
        check_pairs(&outcome, &arrivals, &quanta, allowed)?;
    }
}

/// For every two queues and every interval in which both have packets:
/// |Wi·wj − Wj·wi| ≤ allowed(i, j), w the weights.
fn check_pairs(
    outcome: &Outcome,
    arrivals: &[Arrival],
    weights: &[u64],
    allowed: impl Fn(usize, usize) -> u64,
) -> Result<(), TestCaseError> {
    for i in 0..weights.len() {
        for j in 0..i {
            // Waiting in queue q when the k-th transmission starts, that packet included.
            let waits = |q: usize, k: usize| {
                let start = outcome.sent[k].start;
                let come = arrivals.iter().filter(|a| a.queue as usize == q && a.at <= start);
                let gone = outcome.sent[..k].iter().filter(|s| s.queue as usize == q);
                come.count() > gone.count()
            };
            let (mut now, mut least, mut most) = (0i128, 0i128, 0i128);
            for (k, s) in outcome.sent.iter().enumerate() {
                if !(waits(i, k) && waits(j, k)) {
                    (now, least, most) = (0, 0, 0);
                    continue;
                }
                let bytes = i128::from(s.bytes);
                if s.queue as usize == i {
                    now += bytes * i128::from(weights[j]);
                } else if s.queue as usize == j {
                    now -= bytes * i128::from(weights[i]);
                }
                (least, most) = (least.min(now), most.max(now));
                let off = most - least;
                prop_assert!(off <= i128::from(allowed(i, j)), "{i}, {j} at {}: {off}", s.end);
                let queue = s.queue as usize;
                let come = arrivals.iter().filter(|a| a.queue == s.queue && a.at <= s.start);
                let gone = outcome.sent[..=k].iter().filter(|g| g.queue == s.queue);
                if (queue == i || queue == j) && come.count() == gone.count() {
                    // It sends its last packet: it has none waiting.
                    (now, least, most) = (0, 0, 0);
                }
            }
        }
    }
    Ok(())
}

/// Bennett and Zhang's example: one queue with half the link and ten with a twentieth each, one
/// packet size. WFQ sends the first queue's ten packets in a row; WF²Q+ alternates.
#[test]
fn wf2q_alternates_where_wfq_runs_ahead() {
    let mut shares = vec![500];
    shares.extend([50; 10]);
    let mut all: Vec<Arrival> = (0..11).map(|_| arrival(0, 0, 1000)).collect();
    all.extend((1..11).map(|q| arrival(0, q, 1000)));
    let order = |discipline| -> Vec<u32> {
        let outcome = run(&mut *build(discipline, &queues(&shares)), &all, u64::MAX);
        outcome.sent.iter().map(|s| s.queue).collect()
    };
    let wfq = order(Discipline::Wfq);
    assert!(wfq[..9].iter().all(|q| *q == 0), "{wfq:?}");
    let wf2q = order(Discipline::Wf2q);
    // The last of the first queue ends with all others in the fluid system.
    assert!((0..18).all(|k| (wf2q[k] == 0) == (k % 2 == 0)), "{wf2q:?}");
}

/// A queue that used idle capacity is held back by Virtual Clock for as long, not by WFQ.
#[test]
fn virtual_clock_punishes_past_use_and_wfq_does_not() {
    // Queue 0 alone for 100 packets at the full link, twice its rate; then queue 1 joins.
    let mut all: Vec<Arrival> = (0..100).map(|k| arrival(k * 1000, 0, 1000)).collect();
    for k in 0..100 {
        all.push(arrival(100_000, 0, 1000 - (k % 2)));
        all.push(arrival(100_000, 1, 1000));
    }
    let first_of = |discipline| {
        let outcome = run(&mut *build(discipline, &queues(&[500, 500])), &all, u64::MAX);
        let mut then = outcome.sent.iter().filter(|s| s.start >= 100_000);
        then.position(|s| s.queue == 0).unwrap()
    };
    assert!(first_of(Discipline::Wfq) <= 1);
    // Its clock stands at 200 µs, 100 µs ahead: 50 packets of 2 µs of the other go first.
    assert!((48..=51).contains(&first_of(Discipline::VirtualClock)));
}

/// Under these a low class gets nothing beside a greedy high one.
const DRY: [Discipline; 3] =
    [Discipline::StaticPriority, Discipline::PriorityBitmap, Discipline::CbqAncestorsOnly];

/// A queue that always has packets gets something in every discipline that promises it; static
/// priority starves it.
#[test]
fn who_starves() {
    for discipline in Discipline::ALL {
        let facts = discipline.facts();
        let config =
            |priority| QueueConfig { rate: share(400), priority, ..QueueConfig::default() };
        let mut configs = [config(0), config(1)];
        configs[0].packets_max = 100_000;
        configs[1].packets_max = 100_000;
        if matches!(discipline, Discipline::Fcfs | Discipline::ThreeQueue) {
            configs[1].service = towpath_qos::scheduler::Service::Statistical;
            configs[0].service = towpath_qos::scheduler::Service::Statistical;
        }
        let mut all = Vec::new();
        for k in 0..2000 {
            all.push(arrival(k * 1000, 0, 1000));
            all.push(arrival(k * 1000, 1, 500));
        }
        let outcome = run(&mut *build(*discipline, &configs), &all, 1_000_000);
        let low = outcome.bytes_of(1, 0, 1_000_000);
        if DRY.contains(discipline) {
            // Ancestors-only: the link, which both may borrow from, is never over its limit.
            assert_eq!(low, 0, "{}: a low class starves behind a greedy one", facts.name);
        } else {
            assert!(low >= 200_000, "{}: {low} of 1 000 000 bytes", facts.name);
        }
    }
}
