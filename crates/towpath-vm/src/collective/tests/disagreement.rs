//! Members that disagree, and messages that no member sends.

use std::string::ToString;
use std::vec;

use proptest::prelude::*;

use super::network::Network;
use super::work::{By, hosts, settings, tasks};
use crate::collective::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// One vector is longer: every operation ends, and whoever fails names both lengths.
    #[test]
    fn vectors_of_different_lengths_end_the_operation_and_are_named(
        hosts in hosts(),
        settings in settings(),
        lengths in (0..50usize, 0..50usize).prop_filter("differ", |(a, b)| a != b),
        odd in 0..40usize,
        which in 0..4u32,
        seed: u64,
    ) {
        prop_assume!(hosts.len() > 1);
        let odd = odd % hosts.len();
        let script = move |rank: u32, number| {
            let length = if rank as usize == odd { lengths.0 } else { lengths.1 };
            let (data, operator) = (vec![1; 4 * length].into(), By::Sum.operator());
            (number == 0).then(|| match which {
                0 => Operation::Reduce { root: 0, data, operator },
                1 => Operation::AllReduce { data, operator },
                2 => Operation::Scan { data, operator },
                _ => Operation::AllGather { data, lengths: Lengths::Equal },
            })
        };
        let (results, ..) = Network::new(&hosts, &settings, seed, script).run();
        let both = [4 * lengths.0 as u64, 4 * lengths.1 as u64];
        let mut failed = 0;
        for (rank, results) in results.iter().enumerate() {
            prop_assert_eq!(results.len(), 1, "rank {} waits", rank);
            if let Err(error) = results[0] {
                failed += 1;
                match error {
                    CollectiveError::Length { got, expected, .. } => {
                        prop_assert!(got != expected && both.contains(&got));
                        prop_assert!(both.contains(&expected));
                    }
                    error => prop_assert!(false, "{}", error),
                }
            }
        }
        // Of a reduce and a scan only who combines can know.
        prop_assert!(failed > 0);
        prop_assert!(which != 1 || failed == hosts.len());
    }

    /// Members in different operations: nobody waits for ever among those who hear of it.
    #[test]
    fn a_member_in_another_operation_is_named(
        hosts in proptest::collection::vec(0..3u32, 2..12),
        seed: u64,
    ) {
        let script = |rank: u32, number| {
            let data = (rank == 0).then(|| vec![1].into());
            (number == 0).then(|| match rank {
                1 => Operation::AllToAll { parts: vec![], lengths: Lengths::Any },
                _ => Operation::Broadcast { root: 0, data },
            })
        };
        let size = hosts.len();
        let parts = move |operation| match operation {
            Operation::AllToAll { lengths, .. } => {
                Operation::AllToAll { parts: vec![Payload::EMPTY; size], lengths }
            }
            other => other,
        };
        let script = move |rank, number| script(rank, number).map(parts);
        let (results, ..) = Network::new(&hosts, &Settings::default(), seed, script).run();
        let Err(error) = results[1][0] else { panic!("{results:?}") };
        let named = matches!(error, CollectiveError::Operation { .. });
        prop_assert!(named, "{}", error);
    }

    /// Bytes that no member sends never make a member panic, of whatever length they are; who
    /// succeeds has what the operation gives, and where nothing was changed all do.
    #[test]
    fn any_message_is_taken_or_refused(
        hosts in hosts(),
        settings in settings(),
        tasks in tasks(),
        seed: u64,
        from in 0..40usize,
        noise in proptest::collection::vec(any::<u8>(), 0..40),
        cut in 0..40usize,
        at in any::<usize>(),
        format in proptest::option::of(any::<u32>()),
    ) {
        let size = hosts.len() as u32;
        let count = tasks.len();
        let script = move |rank, number| {
            tasks.get(number).map(|task: &super::work::Task| task.operation(rank, size))
        };
        let changed = std::rc::Rc::new(core::cell::Cell::new(false));
        let note = std::rc::Rc::clone(&changed);
        let mut network = Network::new(&hosts, &settings, seed, script);
        network.tamper = Some(std::boxed::Box::new(move |sender, word, body| {
            if sender as usize == from {
                *word = format.unwrap_or(*word);
                let mut bytes = body.to_vec();
                let at = at % (bytes.len() + 1);
                bytes.splice(at..bytes.len().min(at + cut), noise.iter().copied());
                note.set(note.get() || bytes != body.to_vec() || format.is_some());
                *body = bytes.into();
            }
        }));
        let (results, ..) = network.run();
        for results in &results {
            prop_assert!(results.len() <= count);
            for output in results.iter().flatten() {
                if let Output::Many(parts) = output {
                    prop_assert_eq!(parts.len(), size as usize);
                }
            }
            let all = results.len() == count && results.iter().all(Result::is_ok);
            prop_assert!(changed.get() || all, "nothing was changed: {:?}", results);
        }
    }
}

#[test]
fn errors_name_rank_value_and_limit() {
    let length = CollectiveError::Length { rank: 3, got: 8, expected: 16 };
    assert_eq!(length.to_string(), "rank 3 has 8 bytes where 16 are expected");
    let team = Team::new(0, &[0, 1], Settings::default()).unwrap();
    let call = |operation: Operation| operation.call(&team);
    let other = CollectiveError::Operation {
        rank: 2,
        got: call(Operation::Broadcast { root: 7, data: None }),
        expected: call(Operation::AllReduce { data: Payload::EMPTY, operator: By::Sum.operator() }),
    };
    assert_eq!(
        other.to_string(),
        "rank 2 takes part in a broadcast with root 7 where an allreduce by operator 0x15 is \
         expected"
    );
    for error in [length, other, CollectiveError::TooLarge { rank: 1, bytes: 9, limit: 8 }] {
        assert_eq!(CollectiveError::parse(&error.emit()), Ok(error));
    }
}

#[test]
fn a_callers_mistakes_are_told_before_anything_is_sent() {
    let team = Team::new(0, &[0, 0], Settings { bytes_max: 100, ..Settings::default() }).unwrap();
    let start = |operation| Collective::new(&team, operation).unwrap_err();
    let text = |operation| start(operation).to_string();
    assert_eq!(text(Operation::Broadcast { root: 2, data: None }), "root 2 is not in a team of 2");
    assert_eq!(
        start(Operation::Broadcast { root: 0, data: None }),
        StartError::RootData { operation: "broadcast" }
    );
    let parts = |n| vec![Payload::EMPTY; n];
    assert_eq!(
        text(Operation::Scatter { root: 0, parts: Some(parts(3)) }),
        "3 parts for a team of 2"
    );
    let data = |bytes| Payload::from(vec![0; bytes]);
    assert_eq!(
        text(Operation::AllReduce { data: data(7), operator: By::Sum.operator() }),
        "7 bytes are not whole elements of 4 bytes"
    );
    assert_eq!(
        text(Operation::Broadcast { root: 0, data: Some(data(101)) }),
        "101 bytes of data, more than the limit of 100 for one member"
    );
    assert_eq!(
        Team::new(2, &[0, 0], Settings::default()).unwrap_err().to_string(),
        "rank 2 is not in a team of 2"
    );
    assert_eq!(Team::new(0, &[], Settings::default()).unwrap_err(), TeamError::Size(0));
}

#[test]
fn a_member_takes_no_more_than_its_limit() {
    let small = Settings { bytes_max: 10, ..Settings::default() };
    let team = Team::new(1, &[0, 1], small).unwrap();
    let mut machine = Collective::new(&team, Operation::Broadcast { root: 0, data: None }).unwrap();
    let format = Operation::Broadcast { root: 0, data: None }.call(&team).format(0);
    let mut end = 11u64.to_le_bytes().to_vec();
    end.extend(1u64.to_le_bytes());
    machine.handle(0, format, end.into());
    let error = machine.poll_result().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "rank 0 has 11 bytes, more than the limit of 10");

    let team = Team::new(1, &[0, 1, 2], Settings::default()).unwrap();
    let mut machine = Collective::new(&team, Operation::Broadcast { root: 0, data: None }).unwrap();
    for _ in 0..16 * 3 + 257 {
        machine.handle(2, format, Payload::EMPTY);
    }
    let error = machine.poll_result().unwrap().unwrap_err();
    assert_eq!(error, CollectiveError::Flooded { rank: 2, limit: 16 * 3 + 256 });
}

/// A part that comes by itself is as long as it was said to be, or the operation fails.
#[test]
fn a_part_of_another_length_than_was_announced_is_refused() {
    const LONG: usize = 50;
    let settings = Settings { direct_from: 40, ..Settings::default() };
    let part = |rank: u32| Payload::from(vec![rank as u8; LONG]);
    let (lengths, size) = (Lengths::Any, 2);
    for which in 0..3 {
        for change in [LONG - 1, LONG + 1, 0] {
            let script = move |rank: u32, number| {
                let parts = || (0..size).map(part).collect::<std::vec::Vec<_>>();
                (number == 0).then(|| match which {
                    0 => Operation::Gather { root: 0, data: part(rank), lengths },
                    1 => Operation::Scatter { root: 1, parts: (rank == 1).then(parts) },
                    _ => Operation::AllGather { data: part(rank), lengths },
                })
            };
            let mut network = Network::new(&[0, 1], &settings, 7, script);
            network.tamper = Some(std::boxed::Box::new(move |sender, _, body| {
                if sender == 1 && body.len() == LONG {
                    *body = vec![1; change].into();
                }
            }));
            let (results, ..) = network.run();
            let refused = Err(CollectiveError::Malformed { rank: 1 });
            assert_eq!(results[0], [refused], "operation {which}, {change} bytes of {LONG}");
        }
    }
}
