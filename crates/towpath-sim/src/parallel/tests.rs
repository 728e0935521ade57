use std::time::Duration;

use super::*;

fn outcome(of: ParallelSpec) -> ParallelOutcome {
    run(&ParallelSpec { measured: Duration::from_millis(400), ..of })
}

const SPEC: ParallelSpec = ParallelSpec::TWO_BUS;

#[test]
fn the_cells_of_the_source_come_out_within_a_tenth() {
    for (scheduler, uneven) in
        [(Scheduler::RoundRobin, false), (Scheduler::RoundRobin, true), (Scheduler::Adaptive, true)]
    {
        // As long as the load takes to change as the source says.
        let spec = ParallelSpec { scheduler, uneven, ..SPEC };
        let out = run(&spec);
        let (mbps, us) = spec.source().unwrap();
        let ratios = [
            out.delivered_bps as f64 / 1e6 / mbps as f64,
            out.rtt.mean_ns as f64 / 1e3 / us as f64,
        ];
        assert!(
            ratios.iter().all(|r| (0.9..=1.1).contains(r)),
            "{scheduler:?} {uneven}: {ratios:?}"
        );
    }
    assert_eq!(ParallelSpec { window: 5, ..SPEC }.source(), None);
    assert_eq!(ParallelSpec { policy: Policy::Crca, ..SPEC }.source(), None);
}

#[test]
fn uneven_load_costs_round_robin_and_not_the_adaptive_scheduler() {
    let rate =
        |scheduler, uneven| run(&ParallelSpec { scheduler, uneven, ..SPEC }).delivered_bps as f64;
    let kept = |scheduler| rate(scheduler, true) / rate(scheduler, false);
    assert!(kept(Scheduler::RoundRobin) < 0.92);
    assert!(kept(Scheduler::Permuted) < 0.92);
    assert!(kept(Scheduler::Adaptive) > 0.98);
}

#[test]
fn every_policy_delivers_everything_in_spite_of_loss() {
    for policy in Policy::ALL {
        for timer in Timer::ALL {
            let out = outcome(ParallelSpec { policy, timer, loss_ppm: 20_000, ..SPEC });
            // What was delivered had none before it missing, or waits for it.
            let delivered = out.delivered_bps * 4 / 10 / 36_000;
            assert!(out.in_order as u64 + out.waiting_max as u64 >= delivered, "{out:?}");
            assert!(out.delivered_bps > 200_000_000, "{out:?}");
            assert!(out.timeouts > out.spurious, "{out:?}");
        }
    }
}

#[test]
fn without_loss_every_time_out_is_spurious_and_the_sources_rule_has_more_than_ours() {
    let timeouts = |timer| {
        let out = run(&ParallelSpec { timer, uneven: true, ..SPEC });
        assert_eq!(out.timeouts, out.spurious);
        out.timeouts
    };
    let [source, usual, ours] = Timer::ALL.map(timeouts);
    assert!(source > 0 && ours < source && ours < usual, "{source} {usual} {ours}");
}

#[test]
fn time_outs_that_repeat_what_was_not_lost_cost_round_robin_its_rate() {
    let rate = |timer, repeats| {
        run(&ParallelSpec { timer, repeats, uneven: true, ..SPEC }).delivered_bps as f64
    };
    assert!(rate(Timer::Source, true) < 0.75 * rate(Timer::Source, false));
    assert!(rate(Timer::Ours, true) > 1.3 * rate(Timer::Source, true));
}

#[test]
fn a_central_processor_is_the_bottleneck_where_telling_costs_much() {
    let rate = |policy| {
        let spec = ParallelSpec { policy, mips: 1, tell_instructions: 400, ..SPEC };
        outcome(ParallelSpec { processors: 8, links: 12, bus_bps: 1 << 40, ..spec }).delivered_bps
    };
    let [drda, crca, drca, crda] = Policy::ALL.map(rate);
    assert!(
        [crca, drca, crda].iter().all(|bps| *bps * 10 < drda * 9),
        "{drda} {crca} {drca} {crda}"
    );
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let spec = ParallelSpec { loss_ppm: 5000, uneven: true, repeats: true, ..SPEC };
    assert_eq!(outcome(spec), outcome(spec));
    assert_ne!(outcome(spec).rtt, outcome(ParallelSpec { seed: 2, ..spec }).rtt);
}

#[test]
fn what_is_out_of_range_is_named() {
    let field = |spec: ParallelSpec| spec.out_of_range().map(|(field, ..)| field);
    assert_eq!(field(SPEC), None);
    assert_eq!(field(ParallelSpec { processors: 65, ..SPEC }), Some("processors"));
    assert_eq!(field(ParallelSpec { measured: Duration::ZERO, ..SPEC }), Some("measured"));
}
