//! What comes out is what a direct computation gives, whatever comes first.

use std::vec::Vec;

use proptest::prelude::*;

use super::network::Network;
use super::work::{hosts, settings, tasks};
use crate::collective::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_member_gets_what_is_computed_directly(
        hosts in hosts(),
        settings in settings(),
        tasks in tasks(),
        seed: u64,
    ) {
        let size = hosts.len() as u32;
        let script = tasks.clone();
        let network = Network::new(&hosts, &settings, seed, move |rank, number| {
            script.get(number).map(|task| task.operation(rank, size))
        });
        let (results, ..) = network.run();
        for (rank, results) in (0..).zip(results) {
            let expected: Vec<_> = tasks.iter().map(|t| Ok(t.expected(rank, size))).collect();
            prop_assert_eq!(results, expected, "rank {}", rank);
        }
    }
}

/// Members count their operations; one that is ahead does not disturb the others.
#[test]
fn a_member_may_be_many_operations_ahead() {
    let settings = Settings::default();
    let network = Network::new(&[0, 0, 1], &settings, 7, |rank, number| {
        let data = (rank == 0).then(|| std::vec![number as u8; 3].into());
        (number < 50).then_some(Operation::Broadcast { root: 0, data })
    });
    let (results, messages, _) = network.run();
    for results in results {
        for (number, result) in results.into_iter().enumerate() {
            assert_eq!(result, Ok(Output::One(std::vec![number as u8; 3].into())));
        }
    }
    assert_eq!(messages, [2; 50]);
}
