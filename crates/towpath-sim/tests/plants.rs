//! Proof that the swarms would find a bug: some are planted for each kind of promise. Only `make
//! plants` compiles them, into a target folder of its own, so that no tested product has them.
//!
//! Each test prints what replays the seed that found its bug; without the bug the same seed keeps
//! every promise.
#![cfg(plant)]

use towpath_proto::config::Plant;
use towpath_sim::consensus::{self, ConsensusScenario};
use towpath_sim::swarm::stand_in;
use towpath_sim::vm::{VmScenario, run_with};
use towpath_sim::{Scenario, run};
use towpath_vm::consensus::config::Plant as LogPlant;

/// Promises that a run of the swarm broke.
fn of_flows(plant: Plant, seed: u64) -> Vec<String> {
    let outcome = run(&Scenario::default(), seed, &stand_in, &|c| c.plant = plant);
    outcome.violations.into_iter().map(|v| v.0).collect()
}

/// The same where every host has two links.
fn of_two_links(plant: Plant, seed: u64) -> Vec<String> {
    let scenario = Scenario { links: [2, 2], ..Scenario::default() };
    let outcome = run(&scenario, seed, &stand_in, &|c| c.plant = plant);
    outcome.violations.into_iter().map(|v| v.0).collect()
}

/// The same of virtual machines with tasks.
fn of_tasks(plant: Plant, seed: u64) -> Vec<String> {
    run_with(&VmScenario::default(), seed, &|c| c.plant = plant).violations
}

/// The same where three hosts keep the log, and the founder fails like any other.
fn of_voters(plant: Plant, seed: u64) -> Vec<String> {
    let scenario = VmScenario { voters: 3, faults: 3, ..VmScenario::default() };
    run_with(&scenario, seed, &|c| c.plant = plant).violations
}

/// The same where one host fails, of those that have long mailbox entries.
fn of_mail(plant: Plant, seed: u64) -> Vec<String> {
    let mail_bytes_max = 100_000;
    let scenario = VmScenario { voters: 3, faults: 1, mail_bytes_max, ..VmScenario::default() };
    run_with(&scenario, seed, &|c| c.plant = plant).violations
}

/// Of those where tasks are unique.
fn of_unique(plant: Plant, seed: u64) -> Vec<String> {
    let base = VmScenario { unique: true, ..VmScenario::default() };
    let scenario = VmScenario { voters: 3, faults: 5, aparts: 2, ..base };
    run_with(&scenario, seed, &|c| c.plant = plant).violations
}

/// The same where they fail more often: a leader has to go between what it decided and its answer.
fn of_failing_voters(plant: Plant, seed: u64) -> Vec<String> {
    let scenario = VmScenario { voters: 3, faults: 8, ..VmScenario::default() };
    run_with(&scenario, seed, &|c| c.plant = plant).violations
}

/// The first of `seeds` seeds finds the bug, by what it is.
fn is_found(
    plant: Plant,
    (command, broken): (&str, fn(Plant, u64) -> Vec<String>),
    seeds: u64,
    says: &str,
) {
    let found = |seed: &u64| broken(plant, *seed).into_iter().find(|what| what.contains(says));
    let hit = (0..seeds).find_map(|seed| found(&seed).map(|what| (seed, what)));
    let (seed, what) = hit.unwrap_or_else(|| {
        let others: Vec<_> = (0..seeds).flat_map(|seed| broken(plant, seed)).take(3).collect();
        panic!("{plant:?} went unnoticed by {seeds} seeds; these were broken: {others:?}")
    });
    println!("{plant:?}: {what}\nreplay: towpath sim {command} --seed {seed}");
    assert_eq!(broken(Plant::None, seed), [""; 0], "seed {seed} without the bug");
}

const FLOWS: (&str, fn(Plant, u64) -> Vec<String>) = ("run", of_flows);
const TWO_LINKS: (&str, fn(Plant, u64) -> Vec<String>) =
    ("run scenarios/two-links.toml", of_two_links);
const TASKS: (&str, fn(Plant, u64) -> Vec<String>) = ("vm", of_tasks);
const FAILING_VOTERS: (&str, fn(Plant, u64) -> Vec<String>) =
    ("vm --voters 3 --faults 8", of_failing_voters);
const VOTERS: (&str, fn(Plant, u64) -> Vec<String>) = ("vm --voters 3 --faults 3", of_voters);
const UNIQUE: (&str, fn(Plant, u64) -> Vec<String>) =
    ("vm --voters 3 --faults 5 --aparts 2 --unique", of_unique);
const MAIL: (&str, fn(Plant, u64) -> Vec<String>) =
    ("vm --voters 3 --faults 1 --mail-bytes 100000", of_mail);

#[test]
fn without_a_bug_nothing_is_found() {
    for seed in 0..100 {
        assert_eq!(of_flows(Plant::None, seed), [""; 0], "towpath sim run --seed {seed}");
        let two = of_two_links(Plant::None, seed);
        assert_eq!(two, [""; 0], "towpath sim run scenarios/two-links.toml --seed {seed}");
        assert_eq!(of_tasks(Plant::None, seed), [""; 0], "towpath sim vm --seed {seed}");
        assert_eq!(of_voters(Plant::None, seed), [""; 0], "towpath sim {} --seed {seed}", VOTERS.0);
    }
}

#[test]
fn a_lost_acknowledgement_is_found() {
    is_found(Plant::LostAcknowledgement, FLOWS, 100, "");
}

#[test]
fn an_off_by_one_in_the_bitmap_is_found() {
    is_found(Plant::BitmapOffByOne, FLOWS, 100, "");
}

#[test]
fn a_forgotten_skip_is_found() {
    is_found(Plant::ForgottenSkip, FLOWS, 100, "");
}

#[test]
fn a_forgotten_repair_is_found() {
    is_found(Plant::ForgottenRepair, FLOWS, 100, "");
}

// Keys.

#[test]
fn a_key_kept_past_its_life_is_found() {
    is_found(Plant::KeyKept, FLOWS, 20, "a key of the past");
}

#[test]
fn a_nonce_used_twice_is_found() {
    is_found(Plant::NonceReused, FLOWS, 5, "under a nonce used before");
}

// Links.

#[test]
fn a_packet_that_leaves_by_another_link_is_found() {
    is_found(Plant::WrongLink, TWO_LINKS, 5, "a link that does not lead there");
}

#[test]
fn a_link_that_is_not_told_of_work_is_found() {
    is_found(Plant::LinkAsleep, TWO_LINKS, 200, "");
}

#[test]
fn a_lost_offer_of_an_address_that_is_not_repeated_is_found() {
    is_found(Plant::OfferForgotten, TWO_LINKS, 200, "do not use each network");
}

#[test]
fn an_address_that_is_challenged_but_once_is_found() {
    is_found(Plant::ChallengedOnce, TWO_LINKS, 200, "do not use each network");
}

#[test]
fn a_silent_path_that_nobody_asks_is_found() {
    is_found(Plant::SilentUnasked, TWO_LINKS, 200, "do not use each network");
}

// Coding across links.

#[test]
fn a_parity_with_a_wrong_coefficient_is_found() {
    is_found(Plant::WrongCoefficient, TWO_LINKS, 200, "");
}

#[test]
fn another_packet_told_to_be_rebuilt_is_found() {
    is_found(Plant::RebuiltOffByOne, TWO_LINKS, 200, "");
}

#[test]
fn a_reserved_channel_whose_egress_is_not_told_of_it_is_found() {
    is_found(Plant::HeadAsleep, TASKS, 200, "sleeps for ever");
}

// Control.

#[test]
fn a_command_that_is_applied_twice_is_found() {
    is_found(Plant::CommandTwice, TASKS, 200, "");
}

// Liveness.

#[test]
fn asks_that_are_not_reset_when_the_peer_is_heard_are_found() {
    is_found(Plant::AsksKept, FLOWS, 40, "fit into that time");
}

#[test]
fn a_silence_that_goes_on_while_the_peer_is_heard_is_found() {
    is_found(Plant::SilenceKept, FLOWS, 20, "");
}

// Credit between tasks.

#[test]
fn credit_given_twice_is_found() {
    is_found(Plant::CreditTwice, TASKS, 40, "things amiss");
}

#[test]
fn credit_that_is_never_told_is_found() {
    is_found(Plant::CreditLost, TASKS, 40, "does not come to an end");
}

// Chains of hosts, and who is told.

#[test]
fn the_last_behind_a_lost_host_of_a_chain_left_out_is_found() {
    is_found(Plant::ChainCutShort, TASKS, 200, "");
}

#[test]
fn messages_that_overtake_others_by_another_channel_are_found() {
    is_found(Plant::PlaceUnsaid, TASKS, 200, "");
}

#[test]
fn an_end_that_overtakes_a_long_message_is_found() {
    is_found(Plant::EndOvertakes, TASKS, 200, "");
}

#[test]
fn credit_that_goes_with_a_channel_is_found() {
    is_found(Plant::ChannelCreditKept, TASKS, 200, "");
}

#[test]
fn a_reservation_that_outlives_its_channel_is_found() {
    is_found(Plant::ReservationKept, TASKS, 200, "reservations");
}

#[test]
fn an_end_told_to_one_host_too_few_is_found() {
    is_found(Plant::NoticeOneTooFew, TASKS, 40, "");
}

// Fencing.

#[test]
fn tasks_of_a_lost_host_that_go_on_are_found() {
    is_found(Plant::LostGoesOn, TASKS, 40, "goes on though its host");
}

#[test]
fn a_leader_that_fences_the_wrong_side_is_found() {
    is_found(Plant::WrongSideLost, TASKS, 40, "and nothing struck it");
}

// The replicated log.

/// What of the replicated log a bug breaks.
fn of_log(plant: LogPlant, nodes: usize, seed: u64) -> Vec<String> {
    let scenario = ConsensusScenario { nodes, ..ConsensusScenario::default() };
    consensus::run_with(&scenario, seed, &|c| c.plant = plant).violations
}

/// The first of 200 seeds finds it, with three replicas and with five.
fn is_found_in_the_log(plant: LogPlant, says: &[&str]) {
    for nodes in [3, 5] {
        let found = |seed: &u64| {
            let broken = of_log(plant, nodes, *seed);
            broken.into_iter().find(|what| says.iter().any(|says| what.contains(says)))
        };
        let hit = (0..200).find_map(|seed| found(&seed).map(|what| (seed, what)));
        let Some((seed, what)) = hit else { panic!("{plant:?} went unnoticed by 200 seeds") };
        println!("{plant:?}: {what}\nreplay: towpath sim consensus --nodes {nodes} --seed {seed}");
        assert_eq!(of_log(LogPlant::None, nodes, seed), [""; 0], "seed {seed} without the bug");
    }
}

#[test]
fn an_answer_that_leaves_before_it_is_on_the_disk_is_found() {
    is_found_in_the_log(LogPlant::SkippedSync, &["is lost", "is changed", "two leaders"]);
}

#[test]
fn a_vote_given_twice_is_found() {
    is_found_in_the_log(LogPlant::VotedTwice, &["two leaders in term"]);
}

#[test]
fn a_read_that_asks_no_majority_is_found() {
    is_found_in_the_log(LogPlant::StaleRead, &["is not linearizable"]);
}

#[test]
fn an_answer_that_is_forgotten_is_found() {
    is_found_in_the_log(LogPlant::AnswerForgotten, &["is not linearizable"]);
}

#[test]
fn an_entry_of_an_earlier_term_that_is_committed_by_counting_is_found() {
    is_found_in_the_log(LogPlant::OldTermCommitted, &["is lost", "is changed"]);
}

// Several that keep the log.

#[test]
fn a_loss_by_whoever_is_lost_is_found() {
    is_found(Plant::LostAlone, VOTERS, 200, "");
}

#[test]
fn an_entry_whose_content_one_host_has_is_found() {
    is_found(Plant::ContentAlone, MAIL, 200, "the content of");
}

#[test]
fn a_unique_task_that_goes_on_while_its_host_is_lost_is_found() {
    is_found(Plant::UniqueGoesOn, UNIQUE, 200, "unique tasks run on host");
}

#[test]
fn a_question_that_is_done_twice_is_found() {
    is_found(Plant::AskedTwice, FAILING_VOTERS, 200, "");
}
