//! Proof that the swarm would find a bug: one is planted for each kind of promise. Only `make
//! plants` compiles them, into a target folder of its own, so that no tested product has them.
#![cfg(plant)]

use towpath_proto::config::Plant;
use towpath_sim::swarm::stand_in;
use towpath_sim::{Scenario, run};

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
