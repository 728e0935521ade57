//! Virtual machines with tasks, by seeds: see [`towpath_sim::vm`].

use towpath_sim::vm::{VmScenario, run};

#[test]
fn forty_seeds_keep_every_promise_made_to_tasks() {
    let scenario = VmScenario::default();
    let (mut messages, mut spawned, mut cut_short, mut lost) = (0, 0, 0, 0);
    let mut failed = Vec::new();
    for seed in 0..40 {
        let out = run(&scenario, seed);
        if !out.violations.is_empty() {
            failed.push(format!("seed {seed}: {:#?}", out.violations));
        }
        messages += out.messages;
        spawned += out.spawned;
        cut_short += out.cut_short;
        lost += out.hosts_lost;
    }
    assert!(failed.is_empty(), "{failed:#?}");
    // What is not reached is not checked.
    assert!(messages > 8000, "{messages}");
    assert!(spawned > 600, "{spawned}");
    assert!(cut_short > 20, "{cut_short}");
    assert!(lost > 20, "{lost}");
}

#[test]
fn same_seed_same_trace() {
    let scenario = VmScenario::default();
    assert_eq!(run(&scenario, 3).trace_hash, run(&scenario, 3).trace_hash);
}
