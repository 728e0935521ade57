//! The swarm as a test: many seeds, every promise checked, and proof that a bug would be found.

use towpath_proto::config::Plant;
use towpath_sim::swarm::stand_in;
use towpath_sim::{Outcome, Scenario, run};

fn clean(seed: u64) -> Outcome {
    run(&Scenario::default(), seed, &stand_in, &|_| {})
}

fn replay(outcome: &Outcome) -> String {
    format!("{:#?}\nreplay: towpath sim run --seed {}", outcome.violations, outcome.seed)
}

#[test]
fn same_seed_same_trace() {
    for seed in [1, 7, 12] {
        let (a, b) = (clean(seed), clean(seed));
        assert_eq!(a.trace_hash, b.trace_hash, "seed {seed}");
        assert_eq!(a, b, "seed {seed}");
    }
    assert_ne!(clean(1).trace_hash, clean(2).trace_hash);
}

#[test]
fn sixty_seeds_keep_every_promise() {
    for seed in 0..60 {
        let outcome = clean(seed);
        assert!(outcome.violations.is_empty(), "{}", replay(&outcome));
        assert!(outcome.faults >= 3, "seed {seed}: {} faults", outcome.faults);
        assert!(outcome.data_packets >= 5000, "seed {seed}: {}", outcome.data_packets);
    }
}

fn found_within(plant: Plant, seeds: u64) -> Option<u64> {
    (0..seeds).find(|seed| {
        let outcome = run(&Scenario::default(), *seed, &stand_in, &|c| c.plant = plant);
        !outcome.violations.is_empty()
    })
}

#[test]
fn a_lost_acknowledgement_is_found() {
    let seed = found_within(Plant::LostAcknowledgement, 100);
    assert!(seed.is_some(), "a planted bug went unnoticed");
}

#[test]
fn an_off_by_one_in_the_bitmap_is_found() {
    let seed = found_within(Plant::BitmapOffByOne, 100);
    assert!(seed.is_some(), "a planted bug went unnoticed");
}

#[test]
fn a_forgotten_skip_is_found() {
    let seed = found_within(Plant::ForgottenSkip, 100);
    assert!(seed.is_some(), "a planted bug went unnoticed");
}

#[test]
fn a_forgotten_repair_is_found() {
    let seed = found_within(Plant::ForgottenRepair, 100);
    assert!(seed.is_some(), "a planted bug went unnoticed");
}
