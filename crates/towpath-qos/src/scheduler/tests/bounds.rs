//! Delay bounds for sources within their token buckets, bursts aligned or not, beside a greedy
//! queue where the discipline isolates.

use std::prelude::rust_2024::*;

use core::time::Duration;

use proptest::prelude::*;
use towpath_qos::scheduler::{Discipline, QueueConfig, Service};
use towpath_wire::ByteSize;

use super::link::{Arrival, L, Outcome, arrival, build, cases, run, share};

/// A source: r in thousandths of the link, b in bytes.
#[derive(Clone, Copy, Debug)]
struct Source {
    r: u64,
    b: u64,
}

const END: u64 = 400_000;

/// As much as (b, r) allows from `start` on, in packets of `size`.
fn greedy(source: Source, queue: u32, size: u32, start: u64) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    let mut sent = 0;
    loop {
        sent += u64::from(size);
        // First time at which b + r·t covers what was sent.
        let at = start + (sent.saturating_sub(source.b) * 1000).div_ceil(source.r);
        if at > END {
            return arrivals;
        }
        arrivals.push(arrival(at, queue, size));
    }
}

fn sources() -> impl Strategy<Value = Vec<(Source, u32, u64)>> {
    let one = (20u64..200, 0u64..6000, 64u32..=L, prop_oneof![Just(0u64), 0u64..20_000]);
    prop::collection::vec(one, 4).prop_map(|all| {
        let of = |(r, b, size, start): (u64, u64, u32, u64)| {
            (Source { r, b: b.max(u64::from(size)) }, size, start)
        };
        all.into_iter().map(of).collect()
    })
}

/// The sources as queues 0..4 and, if asked, a greedy one beyond any bucket as queue 4.
fn load(sources: &[(Source, u32, u64)], flood: Option<u32>) -> Vec<Arrival> {
    let mut all = Vec::new();
    for (queue, (source, size, start)) in sources.iter().enumerate() {
        all.extend(greedy(*source, queue as u32, *size, *start));
    }
    if let Some(size) = flood {
        all.extend((0..END / u64::from(size)).map(|k| arrival(k * u64::from(size), 4, size)));
    }
    all.sort_by_key(|a| a.at);
    all
}

fn configs(sources: &[(Source, u32, u64)]) -> Vec<QueueConfig> {
    let mut all: Vec<_> = sources
        .iter()
        .map(|(s, _, _)| QueueConfig {
            rate: share(s.r),
            burst: ByteSize::from_bytes(s.b),
            packets_max: 100_000,
            ..QueueConfig::default()
        })
        .collect();
    // The greedy queue has what is left of the link, at least 200 of 1000, and drops.
    let left = 1000 - sources.iter().map(|(s, _, _)| s.r).sum::<u64>();
    all.push(QueueConfig {
        rate: share(left),
        packets_max: 50,
        service: Service::BestEffort,
        ..QueueConfig::default()
    });
    all
}

/// Every packet of queues 0..4 within its queue's bound in nanoseconds.
fn check(outcome: &Outcome, bound: impl Fn(usize) -> u64, name: &str) -> Result<(), TestCaseError> {
    for s in outcome.sent.iter().filter(|s| s.queue < 4) {
        let bound = bound(s.queue as usize);
        prop_assert!(s.delay() <= bound, "{name}: {:?} took {} > {bound}", s, s.delay());
    }
    Ok(())
}

/// A burst beside a queue that always has one packet: the last of the burst leaves after (b + L) of
/// both, though nothing is more urgent.
#[test]
fn a_burst_waits_for_the_turns_of_others_of_its_priority() {
    let queues = [(1, 10_000), (500, 1000)].map(|(r, b)| (Source { r, b }, 1000, 0));
    let mut configs = configs(&queues);
    for config in &mut configs {
        config.priority = 0;
    }
    configs[2].priority = 7;
    let outcome =
        run(&mut *build(Discipline::PriorityBitmap, &configs), &load(&queues, None), u64::MAX);
    let last = outcome.sent.iter().filter(|s| s.queue == 0 && s.delay() < 100_000);
    let worst = last.map(super::link::Sent::delay).max().unwrap();
    // 11 000 + L bytes at the link's rate would be the bound of queues served as they come.
    assert!(worst > 11_000 + u64::from(L), "{worst}");
    assert!(worst <= (11_000 + u64::from(L)) * 1000 / 499, "{worst}");
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn fcfs_is_bounded_by_all_bursts(sources in sources()) {
        let outcome =
            run(&mut *build(Discipline::Fcfs, &configs(&sources)), &load(&sources, None), u64::MAX);
        // Bursts in packets: up to one packet each beyond the fluid bucket is not there.
        let total: u64 = sources.iter().map(|(s, _, _)| s.b).sum();
        check(&outcome, |_| total, "fcfs")?;
    }

    #[test]
    fn static_priority_is_bounded_by_what_is_as_urgent(
        sources in sources(), flood in 64u32..=L,
    ) {
        let mut configs = configs(&sources);
        for (priority, config) in configs.iter_mut().enumerate() {
            config.priority = priority as u8;
        }
        let load = load(&sources, Some(flood));
        let bound = |queue: usize| {
            let bursts: u64 = sources[..=queue].iter().map(|(s, _, _)| s.b).sum();
            let above: u64 = sources[..queue].iter().map(|(s, _, _)| s.r).sum();
            ((bursts + u64::from(L)) * 1000).div_ceil(1000 - above)
        };
        for discipline in [Discipline::StaticPriority, Discipline::PriorityBitmap] {
            let outcome = run(&mut *build(discipline, &configs), &load, u64::MAX);
            check(&outcome, bound, discipline.facts().name)?;
        }
    }

    /// Two queues in each priority: whoever comes first may have to wait for the other's turns.
    #[test]
    fn queues_in_turn_are_bounded_by_how_long_the_link_is_busy(
        sources in sources(), flood in 64u32..=L,
    ) {
        let mut configs = configs(&sources);
        for (queue, config) in configs.iter_mut().enumerate() {
            config.priority = queue as u8 / 2;
        }
        let outcome = run(
            &mut *build(Discipline::PriorityBitmap, &configs),
            &load(&sources, Some(flood)),
            u64::MAX,
        );
        let bound = |queue: usize| {
            let as_urgent = &sources[..queue / 2 * 2 + 2];
            let bursts: u64 = as_urgent.iter().map(|(s, _, _)| s.b).sum();
            let rates: u64 = as_urgent.iter().map(|(s, _, _)| s.r).sum();
            ((bursts + u64::from(L)) * 1000).div_ceil(1000 - rates)
        };
        check(&outcome, bound, "priority-bitmap")?;
    }

    /// b/r + L/C, with a greedy queue of any packet size beside.
    #[test]
    fn rate_proportional_servers(sources in sources(), flood in 64u32..=L) {
        let configs = configs(&sources);
        let load = load(&sources, Some(flood));
        for discipline in [Discipline::Wfq, Discipline::Wf2q, Discipline::VirtualClock] {
            let outcome = run(&mut *build(discipline, &configs), &load, u64::MAX);
            let bound = |queue: usize| {
                let (source, _, _) = sources[queue];
                (source.b * 1000).div_ceil(source.r) + u64::from(L) + 2
            };
            check(&outcome, bound, discipline.facts().name)?;
        }
    }

    /// b/r + Li/r + (V − 1)·L/C.
    #[test]
    fn scfq_latency(sources in sources(), flood in 64u32..=L) {
        let load = load(&sources, Some(flood));
        let outcome = run(&mut *build(Discipline::Scfq, &configs(&sources)), &load, u64::MAX);
        let bound = |queue: usize| {
            let (source, size, _) = sources[queue];
            ((source.b + u64::from(size)) * 1000).div_ceil(source.r) + 4 * u64::from(L) + 2
        };
        check(&outcome, bound, "scfq")?;
    }

    /// b/r + (3F − 2Q)/C with r = Q/F·C: only sources whose rate that is at least.
    #[test]
    fn drr_latency(
        sources in sources(), flood in 64u32..=L,
        weights in prop::collection::vec(1u16..5, 5),
    ) {
        let mut configs = configs(&sources);
        for (config, weight) in configs.iter_mut().zip(&weights) {
            config.weight = *weight;
        }
        let frame: u64 = weights.iter().map(|w| u64::from(*w) * u64::from(L)).sum();
        let quantum = |queue: usize| u64::from(weights[queue]) * u64::from(L);
        let fits = |q: usize| quantum(q) * 1000 / frame >= sources[q].0.r;
        let load = load(&sources, Some(flood));
        let outcome = run(&mut *build(Discipline::Drr, &configs), &load, u64::MAX);
        let bound = |q: usize| {
            if !fits(q) {
                return u64::MAX;
            }
            (sources[q].0.b * frame).div_ceil(quantum(q)) + 3 * frame - 2 * quantum(q)
        };
        check(&outcome, bound, "drr")?;
    }

    /// Linear curves: h(α, S) = b/r, plus L/C.
    #[test]
    fn hfsc_with_linear_curves(sources in sources(), flood in 64u32..=L) {
        let mut configs = configs(&sources);
        for config in &mut configs {
            config.burst = ByteSize::ZERO;
        }
        let load = load(&sources, Some(flood));
        let outcome = run(&mut *build(Discipline::Hfsc, &configs), &load, u64::MAX);
        let bound =
            |q: usize| (sources[q].0.b * 1000).div_ceil(sources[q].0.r) + u64::from(L) + 4;
        check(&outcome, bound, "hfsc")?;
    }

    /// RCSP from the end of the hold: with the token bucket as arrival curve a level's delay is
    /// static priority's, whatever the sources do: here all five are greedy beyond their buckets.
    #[test]
    fn rcsp_levels_are_static_priority_on_regulated_traffic(
        sources in sources(), sizes in prop::collection::vec(200u32..=L, 5),
    ) {
        let mut configs = configs(&sources);
        for (priority, config) in configs.iter_mut().enumerate() {
            config.priority = priority as u8;
            config.packets_max = 100_000;
        }
        configs[4].burst = ByteSize::from_bytes(u64::from(L));
        let bucket = |q: usize| {
            sources.get(q).map_or(Source { r: 100, b: u64::from(L) }, |s| s.0)
        };
        configs[4].rate = share(100);
        let mut arrivals = Vec::new();
        for k in 0..60u64 {
            for (queue, size) in sizes.iter().enumerate() {
                arrivals.push(arrival(k * 500, queue as u32, *size));
            }
        }
        let outcome = run(&mut *build(Discipline::Rcsp, &configs), &arrivals, u64::MAX);
        // The time a packet is held until: exactly the token bucket, in 2⁻¹⁰ ns.
        for queue in 0..5 {
            let Source { r, b } = bucket(queue);
            let (mut tokens, mut last) = (u128::from(b.max(u64::from(sizes[queue]))) << 10, 0u128);
            let above: u64 = (0..queue).map(|q| bucket(q).r).sum();
            let bursts: u64 = (0..=queue).map(|q| bucket(q).b.max(u64::from(sizes[q]))).sum();
            let bound = ((bursts + u64::from(L)) * 1000).div_ceil(1000 - above);
            let granule = 1024 * (queue as u64 + 2);
            for s in outcome.sent.iter().filter(|s| s.queue as usize == queue) {
                let need = u128::from(s.bytes) << 10;
                let arrived = (u128::from(s.arrived) << 10).max(last);
                let full = u128::from(b.max(u64::from(s.bytes))) << 10;
                tokens = (tokens + (arrived - last) * u128::from(r) / 1000).min(full);
                let wait = if tokens >= need { 0 } else { (need - tokens) * 1000 / u128::from(r) };
                tokens = (tokens + wait * u128::from(r) / 1000).saturating_sub(need);
                last = arrived + wait;
                let held = (last >> 10) as u64;
                prop_assert!(s.start + 2 >= held, "{s:?} left before {held}");
                prop_assert!(s.end <= held + bound + granule, "{s:?}: {held} + {bound}");
            }
        }
    }
}

/// Best effort and statistical floods cost a deterministic packet one blocking packet at most;
/// best effort gets what is left.
#[test]
fn three_queues_keep_their_order() {
    let config = |service, delay| QueueConfig {
        rate: share(100),
        burst: ByteSize::from_bytes(1000),
        delay: Duration::from_nanos(delay),
        packets_max: 10_000,
        service,
        ..QueueConfig::default()
    };
    let configs = [
        config(Service::Deterministic, 2500),
        config(Service::Statistical, 50_000),
        config(Service::BestEffort, 1),
    ];
    let mut all = Vec::new();
    for k in 0..200 {
        all.push(arrival(k * 1500, 2, L));
        if k % 7 == 0 {
            all.push(arrival(k * 1500 + 1, 0, 1000));
        }
        if k < 20 {
            all.push(arrival(k * 1500, 1, 1000));
        }
    }
    all.sort_by_key(|a| a.at);
    let outcome = run(&mut *build(Discipline::ThreeQueue, &configs), &all, u64::MAX);
    for s in &outcome.sent {
        match s.queue {
            0 => assert!(s.slack >= 0 && s.delay() <= 2500, "{s:?}"),
            2 => {
                let waiting = outcome
                    .sent
                    .iter()
                    .any(|o| o.queue < 2 && o.arrived <= s.start && o.start > s.start);
                assert!(!waiting, "best effort passed a better one at {}", s.start);
            }
            _ => {}
        }
    }
    assert_eq!(outcome.sent.len(), all.len());
}
