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

fn with_two_links(seed: u64) -> Outcome {
    let scenario = Scenario { links: [2, 2], ..Scenario::default() };
    run(&scenario, seed, &stand_in, &|_| {})
}

#[test]
fn with_two_links_both_carry_and_every_promise_is_kept() {
    let mut rebuilt = 0;
    for seed in 0..60 {
        let outcome = with_two_links(seed);
        let broken = &outcome.violations;
        let replay = format!("replay: towpath sim run scenarios/two-links.toml --seed {seed}");
        assert!(broken.is_empty(), "{broken:#?}\n{replay}");
        rebuilt += outcome.rebuilt;
        let (all, least) = (outcome.networks.iter().sum::<u64>(), outcome.networks.iter().min());
        assert_eq!(outcome.networks.len(), 2);
        assert!(least.is_some_and(|n| *n > all / 20), "{:?}\n{replay}", outcome.networks);
        if seed % 20 == 0 {
            assert_eq!(with_two_links(seed), outcome, "{replay}");
        }
    }
    assert!(rebuilt > 1000, "{rebuilt} packets were rebuilt in all");
}
