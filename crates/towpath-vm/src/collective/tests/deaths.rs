//! Members that die: nobody waits for ever, and nobody fails without need.

use proptest::prelude::*;

use super::network::Network;
use super::work::{hosts, settings, tasks};
use crate::collective::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn when_members_die_at_any_step_every_operation_of_every_other_ends(
        hosts in hosts(),
        settings in settings(),
        tasks in tasks(),
        seed: u64,
        deaths in proptest::collection::vec((0..40usize, 0..30usize), 1..4),
    ) {
        let size = hosts.len() as u32;
        let script = tasks.clone();
        let mut network = Network::new(&hosts, &settings, seed, move |rank, number| {
            script.get(number).map(|task| task.operation(rank, size))
        });
        let deaths: std::vec::Vec<_> =
            deaths.into_iter().map(|(rank, life)| ((rank % hosts.len()) as u32, life)).collect();
        for &(rank, life) in &deaths {
            network.dies_after(rank, life);
        }
        let (results, ..) = network.run();
        let may_die = |rank| deaths.iter().any(|death| death.0 == rank);
        for (rank, results) in (0..).zip(results).filter(|(rank, _)| !may_die(*rank)) {
            prop_assert_eq!(results.len(), tasks.len(), "rank {} waits", rank);
            for (result, task) in results.into_iter().zip(&tasks) {
                match result {
                    Ok(output) => prop_assert_eq!(output, task.expected(rank, size)),
                    Err(CollectiveError::MemberLost { rank }) => prop_assert!(may_die(rank)),
                    Err(error) => prop_assert!(false, "{}", error),
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Those that live do nothing more after their first error, take in nothing more, and have
    /// room for little; some of their operations they start, and go on.
    #[test]
    fn every_call_of_every_other_returns_though_they_give_up(
        hosts in hosts(),
        settings in settings(),
        tasks in proptest::collection::vec(tasks(), 1..4),
        seed: u64,
        room in prop_oneof![1..4usize, Just(1000)],
        starts: Option<u64>,
        (dies, life) in (0..40usize, 0..60usize),
        second in proptest::option::weighted(0.3, (0..40usize, 0..60usize)),
    ) {
        let size = hosts.len() as u32;
        let tasks = tasks.concat();
        let script = tasks.clone();
        let mut network = Network::new(&hosts, &settings, seed, move |rank, number| {
            script.get(number).map(|task| task.operation(rank, size))
        });
        (network.room, network.starts, network.gives_up) = (room, starts, true);
        let deaths: std::vec::Vec<_> = [(dies, life)].into_iter().chain(second)
            .map(|(rank, life)| ((rank % hosts.len()) as u32, life)).collect();
        for &(rank, life) in &deaths {
            network.dies_after(rank, life);
        }
        network.rest();
        let waits: std::vec::Vec<bool> = (0..size).map(|rank| network.waits(rank)).collect();
        let (results, ..) = network.run();
        let may_die = |rank| deaths.iter().any(|death| death.0 == rank);
        for (rank, results) in (0..).zip(results).filter(|(rank, _)| !may_die(*rank)) {
            prop_assert!(!waits[rank as usize], "rank {} waits", rank);
            let mut failed = false;
            for (number, result) in results.iter().enumerate() {
                match result {
                    Ok(output) => prop_assert_eq!(output, &tasks[number].expected(rank, size)),
                    Err(CollectiveError::MemberLost { rank }) => {
                        failed = true;
                        prop_assert!(may_die(*rank));
                    }
                    Err(error) => prop_assert!(false, "{}", error),
                }
            }
            prop_assert!(failed || results.len() == tasks.len(), "rank {} stopped", rank);
        }
    }
}

fn gather(root: u32) -> impl Fn(u32, usize) -> Option<Operation> {
    move |_, number| {
        let data = std::vec![1; 5].into();
        (number == 0).then_some(Operation::Gather { root, data, lengths: Lengths::Any })
    }
}

#[test]
fn who_has_sent_its_part_may_die_without_harm() {
    let mut network = Network::new(&[0, 1, 2], &Settings::default(), 1, gather(0));
    network.dies_after(1, 1);
    let (results, ..) = network.run();
    assert_eq!(results[0], [Ok(Output::Many(std::vec![std::vec![1; 5].into(); 3]))]);
}

#[test]
fn the_error_names_the_dead_also_where_it_comes_from_another() {
    let hosts = [0, 1, 1, 1];
    let mut network = Network::new(&hosts, &Settings::default(), 1, gather(0));
    network.dies_after(3, 0);
    let (results, ..) = network.run();
    let lost = [Err(CollectiveError::MemberLost { rank: 3 })];
    // Rank 1 gathers for its host, and tells the root. Rank 2 has done its part.
    assert_eq!(results[0], lost);
    assert_eq!(results[1], lost);
    assert_eq!(results[2], [Ok(Output::None)]);
}
