//! The replicated log under faults, by seeds: see [`towpath_sim::consensus`].

use towpath_sim::consensus::{ConsensusOutcome, ConsensusScenario, run};

fn of(nodes: usize, seeds: std::ops::Range<u64>) -> Vec<ConsensusOutcome> {
    let scenario = ConsensusScenario { nodes, ..ConsensusScenario::default() };
    seeds.map(|seed| run(&scenario, seed)).collect()
}

#[test]
fn sixty_seeds_of_three_to_nine_replicas_lose_nothing_and_are_available_again() {
    let mut all = Vec::new();
    for (nodes, seeds) in [(3, 0..20), (4, 20..30), (5, 30..50), (9, 50..60)] {
        all.extend(of(nodes, seeds).into_iter().map(|outcome| (nodes, outcome)));
    }
    for (nodes, o) in &all {
        let replay = format!("towpath sim consensus --nodes {nodes} --seed {}", o.seed);
        assert_eq!(o.violations, [""; 0], "replay: {replay}");
    }
    // What is not reached is not checked.
    let sum = |f: fn(&ConsensusOutcome) -> u64| all.iter().map(|(_, o)| f(o)).sum::<u64>();
    let reached = [
        ("faults", sum(|o| o.faults), 1200),
        ("elections", sum(|o| o.elections), 400),
        ("entries", sum(|o| o.committed), 10_000),
        ("repeated", sum(|o| o.repeated), 1000),
        ("replaced", sum(|o| o.replaced), 30),
        ("snapshots", sum(|o| o.snapshots), 500),
        ("torn", sum(|o| o.torn), 60),
    ];
    for (what, count, least) in reached {
        assert!(count >= least, "{what}: {count}, at least {least} expected");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    assert_eq!(of(5, 7..9), of(5, 7..9));
    assert_ne!(of(5, 7..8)[0].trace_hash, of(5, 8..9)[0].trace_hash);
}
