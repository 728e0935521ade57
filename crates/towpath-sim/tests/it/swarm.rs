//! The swarm as a test: many seeds, every promise checked. That it would find a bug is shown by
//! `tests/plants.rs`.

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
