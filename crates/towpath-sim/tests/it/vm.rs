//! Virtual machines with tasks, by seeds: see [`towpath_sim::vm`].

use proptest::prelude::*;
use towpath_sim::vm::{VmOutcome, VmScenario, hostile, run};

#[test]
fn forty_seeds_keep_every_promise_made_to_tasks() {
    let scenario = VmScenario::default();
    let (mut messages, mut spawned, mut cut_short, mut lost) = (0, 0, 0, 0);
    let mut passed_on = 0;
    let mut failed = Vec::new();
    // At the last two a task heard from one that it was told is gone.
    for seed in (0..40).chain([142, 717]) {
        let out = run(&scenario, seed);
        if !out.violations.is_empty() {
            failed.push(format!("seed {seed}: {:#?}", out.violations));
        }
        messages += out.messages;
        spawned += out.spawned;
        cut_short += out.cut_short;
        lost += out.hosts_lost;
        let most = out.peaks.iter().find(|(name, _)| name == "pieces_passed_on");
        passed_on += most.map_or(0, |(_, n)| *n);
    }
    assert!(failed.is_empty(), "{failed:#?}");
    // What is not reached is not checked.
    assert!(messages > 8000, "{messages}");
    assert!(spawned > 600, "{spawned}");
    assert!(cut_short > 10, "{cut_short}");
    assert!(lost > 20, "{lost}");
    assert!(passed_on > 20, "{passed_on} pieces went by way of other hosts");
}

#[test]
fn with_two_links_every_promise_is_kept_while_one_network_fails() {
    let scenario = VmScenario { links: 2, ..VmScenario::default() };
    let mut failed = Vec::new();
    let mut messages = 0;
    for seed in 0..22 {
        let out = run(&scenario, seed);
        messages += out.messages;
        if !out.violations.is_empty() {
            failed.push(format!("sim vm --links 2 --seed {seed}: {:#?}", out.violations));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(messages > 4000, "{messages}");
}

#[test]
fn where_three_keep_the_log_any_host_may_be_lost() {
    let scenario = VmScenario { voters: 3, faults: 3, ..VmScenario::default() };
    let mut failed = Vec::new();
    let mut lost = 0;
    // At the latter ones two voters were away at once, and a host heard of its leader by another.
    for seed in (0..60).chain([83, 258, 546]) {
        let out = run(&scenario, seed);
        lost += out.hosts_lost;
        if !out.violations.is_empty() {
            failed
                .push(format!("sim vm --voters 3 --faults 3 --seed {seed}: {:#?}", out.violations));
        }
    }
    let scenario = VmScenario { voters: 5, faults: 5, hosts: 9, ..VmScenario::default() };
    // At the last one a request came that had been given up with the connection that it was for.
    for seed in (0..10).chain([750]) {
        let out = run(&scenario, seed);
        if !out.violations.is_empty() {
            failed.push(format!("sim vm --voters 5 --faults 5 --hosts 9 --seed {seed}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(lost > 30, "{lost}");
}

#[test]
fn where_hosts_start_again_nothing_is_left_behind() {
    let (mut failed, mut starts) = (Vec::new(), 0);
    // At the single ones a channel was asked of a host that was still finding out who leads, a
    // question stayed with a leader that could answer it again; a task ended meanwhile, a host knew
    // none of those that led afterwards; a task heard of another one before its host did of that
    // one's; a piece came once more behind the end of its sender, two groups had one context. Of
    // those that are told to end: what a task asked while several kept the log came after what it
    // asked once one did; a newcomer was asked something before it heard who it is, or never heard
    // it. And a task stayed registered that had asked just before its host told what it has; a host
    // was called as who it was, in another slot. A host was lost by its own vote. Of a founder that
    // leads alone: it started again twice, or was cut off, and the first to come was a newcomer.
    // What was kept beside the log came to one that had not heard yet that it keeps it.
    for ((voters, faults, restarts, power_cuts, endings), many, single) in [
        ((3, 0, 0, 2, 0), 25, &[60, 150, 173, 707][..]),
        ((3, 3, 0, 1, 0), 25, &[151, 453, 461, 469, 5400]),
        ((5, 2, 3, 0, 0), 5, &[81, 349]),
        ((3, 1, 2, 1, 0), 5, &[693, 5199, 7657]),
        ((1, 2, 1, 2, 0), 5, &[326, 868]),
        ((3, 0, 0, 0, 4), 10, &[178, 407]),
        ((3, 2, 0, 0, 3), 10, &[157, 174, 208, 291, 3713]),
        ((5, 2, 0, 0, 3), 5, &[12, 52]),
        ((3, 3, 0, 0, 0), 0, &[5601]),
        ((3, 2, 3, 0, 0), 0, &[2013, 2631]),
        ((1, 2, 3, 0, 0), 5, &[52, 69, 356]),
        ((1, 2, 0, 0, 3), 5, &[242]),
        ((1, 1, 2, 1, 0), 0, &[52]),
        ((5, 1, 2, 1, 0), 0, &[20132]),
        ((5, 3, 0, 1, 0), 0, &[53035]),
    ] {
        for seed in (0..many).chain(single.iter().copied()) {
            let base = VmScenario::default();
            let scenario = VmScenario { voters, faults, restarts, power_cuts, endings, ..base };
            let out = run(&scenario, seed);
            starts += usize::from(out.growth.log_entries > 1 << 16);
            if !out.violations.is_empty() {
                let how = format!("--voters {voters} --faults {faults} --restarts {restarts}");
                let how = format!("{how} --power-cuts {power_cuts} --endings {endings}");
                let how = format!("{how} --seed {seed}");
                failed.push(format!("sim vm {how}: {:#?}", out.violations));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(starts > 40, "{starts}");
}

#[test]
fn two_hosts_that_lose_each_other_both_stay() {
    let mut failed = Vec::new();
    for (voters, faults) in [(1, 0), (3, 0), (3, 2), (5, 0)] {
        let scenario = VmScenario { voters, faults, aparts: 2, ..VmScenario::default() };
        for seed in 0..12 {
            let out = run(&scenario, seed);
            if !out.violations.is_empty() {
                let how = format!("--voters {voters} --faults {faults} --aparts 2 --seed {seed}");
                failed.push(format!("sim vm {how}: {:#?}", out.violations));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn long_mailbox_entries_outlive_those_that_keep_them() {
    let (mut failed, mut read, mut lost) = (Vec::new(), 0, 0);
    for (voters, faults, restarts, endings) in
        [(3, 1, 0, 0), (3, 3, 0, 0), (5, 2, 0, 0), (3, 2, 2, 0), (3, 2, 0, 3)]
    {
        let base = VmScenario { mail_bytes_max: 100_000, ..VmScenario::default() };
        let scenario = VmScenario { voters, faults, restarts, endings, ..base };
        let single: &[u64] = match (restarts, endings) {
            (0, 0) => &[],
            (_, 0) => &[1271],
            _ => &[37, 1136, 1238],
        };
        for seed in (0..10).chain(single.iter().copied()) {
            let out = run(&scenario, seed);
            (read, lost) = (read + out.mail, lost + out.mail_lost);
            if !out.violations.is_empty() {
                let how = format!("--voters {voters} --faults {faults} --restarts {restarts}");
                let how = format!("{how} --endings {endings} --mail-bytes 100000 --seed {seed}");
                failed.push(format!("sim vm {how}: {:#?}", out.violations));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    // Where most of those that vote are gone at once there is nobody who has them.
    assert!(read > 500 && lost < 5, "{lost} of {read}");
}

#[test]
fn same_seed_same_trace() {
    let scenario = VmScenario::default();
    let hash = |seed| run(&scenario, seed).trace_hash;
    assert_eq!(hash(3), hash(3));
    assert_ne!(hash(3), hash(4), "a hash of nothing would be the same, too");
}

#[test]
fn joins_in_quick_succession_are_told_together() {
    let hosts = 100;
    let out = run(&VmScenario { hosts, tasks: 0, faults: 0, ..VmScenario::large() }, 1);
    assert!(out.violations.is_empty(), "{:#?}", out.violations);
    let growth = out.growth;
    assert_eq!((growth.table, growth.log_entries), (hosts, hosts as u64));
    // One message for each host and entry would be this many.
    let each = (hosts * (hosts - 1) / 2) as u64;
    assert!(growth.log_messages < each * 3 / 4, "{growth:?}");
    // No more than 20 000 a second, and those of the first and the last moment.
    let most = (20_000.0 * growth.joined_s) as u64 + 2 * hosts as u64;
    assert!(growth.log_messages <= most, "{growth:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn tasks_that_keep_no_rules_break_nothing(
        bytes in proptest::collection::vec(any::<u8>(), 0..3000),
    ) {
        hostile(&bytes);
    }
}

#[test]
#[ignore = "nightly: minutes of work"]
fn a_thousand_hosts_of_which_five_keep_the_log() {
    let some = VmScenario { faults: 10, restarts: 10, endings: 10, ..VmScenario::large() };
    let out = run(&VmScenario { voters: 5, power_cuts: 1, aparts: 10, ..some }, 3);
    assert!(out.violations.is_empty(), "{:#?}", out.violations);
    assert_eq!(out.growth.table, 1000);
}

/// The large run of docs/vm.md; `TOWPATH_VM_BIG` makes it another size, `TOWPATH_VM_SEED` another.
#[test]
#[ignore = "nightly: minutes of work"]
fn a_thousand_hosts() {
    let size = std::env::var("TOWPATH_VM_BIG").unwrap_or_else(|_| "1000x20000".into());
    let (hosts, tasks) = size.split_once('x').expect("HOSTSxTASKS");
    let (hosts, tasks) = (hosts.parse().expect("hosts"), tasks.parse().expect("tasks"));
    let scenario = VmScenario { hosts, tasks, faults: hosts / 50, ..VmScenario::large() };
    let seed = std::env::var("TOWPATH_VM_SEED").map_or(1, |seed| seed.parse().expect("a seed"));
    let out = run(&scenario, seed);
    for (name, peak) in &out.peaks {
        println!("{name:28} {peak} at most on a host");
    }
    let out = VmOutcome { peaks: Vec::new(), ..out };
    println!("{out:#?}");
    assert!(out.violations.is_empty());
}

/// Who begins a lost host's work elsewhere can count on it.
#[test]
fn no_unique_task_runs_on_a_host_that_is_lost() {
    let (mut failed, mut alive) = (Vec::new(), 0);
    for (voters, faults, restarts, aparts) in
        [(1, 5, 0, 2), (3, 5, 0, 2), (3, 3, 2, 0), (5, 5, 0, 0)]
    {
        let base = VmScenario { unique: true, ..VmScenario::default() };
        let scenario = VmScenario { voters, faults, restarts, aparts, ..base };
        for seed in 0..25 {
            let out = run(&scenario, seed);
            alive += out.lost_alive;
            if !out.violations.is_empty() {
                let how = format!("--voters {voters} --faults {faults} --restarts {restarts}");
                let how = format!("{how} --aparts {aparts} --unique --seed {seed}");
                failed.push(format!("sim vm {how}: {:#?}", out.violations));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(alive > 50, "{alive}");
}
