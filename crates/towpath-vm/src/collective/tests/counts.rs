//! Messages of each operation, as the module's table states them.

use std::vec::Vec;

use super::network::Network;
use crate::collective::*;

/// One operation of a team on `hosts`: messages and bytes.
fn cost(
    hosts: &[u32],
    settings: &Settings,
    operation: impl Fn(u32) -> Operation + 'static,
) -> (u64, u64) {
    let script = move |rank, number| (number == 0).then(|| operation(rank));
    let (results, messages, bytes) = Network::new(hosts, settings, 3, script).run();
    assert!(results.iter().all(|results| matches!(results[..], [Ok(_)])), "{results:?}");
    (messages[0], bytes[0])
}

fn ranks_on(hosts: u32, each: u32) -> Vec<u32> {
    (0..hosts * each).map(|rank| rank % hosts).collect()
}

fn vector(bytes: usize) -> Payload {
    std::vec![1; bytes].into()
}

fn sum() -> Operator {
    Operator::built_in(Function::Sum, Element::U8).unwrap()
}

fn pairs(by: impl Fn(&mut [u8], &[u8]) + 'static) -> Operator {
    Operator::user(1, Commutes::No, by).unwrap()
}

fn log2_up(n: u64) -> u64 {
    u64::from(n.next_power_of_two().trailing_zeros())
}

/// Host counts and members of each.
const SHAPES: [(u32, u32); 8] = [(1, 1), (1, 2), (1, 8), (1, 20), (2, 4), (5, 1), (5, 3), (7, 6)];

#[test]
fn barrier() {
    for (h, each) in SHAPES {
        let (n, rounds) = (u64::from(h * each), log2_up(h.into()));
        let expected = 2 * (n - u64::from(h)) + u64::from(h) * rounds;
        let hosts = ranks_on(h, each);
        let cost = |settings: &Settings| cost(&hosts, settings, |_| Operation::Barrier).0;
        assert_eq!(cost(&Settings::default()), expected, "{h} hosts of {each}");
        assert_eq!(cost(&Settings { multicast: Reach::Host, ..Settings::default() }), expected);
        let by_memory = Settings { host_stage: true, ..Settings::default() };
        assert_eq!(cost(&by_memory), u64::from(h) * rounds);
    }
}

#[test]
fn broadcast() {
    for (h, each) in SHAPES {
        let hosts = ranks_on(h, each);
        let n = u64::from(h * each);
        for multicast in [Reach::Nowhere, Reach::Host, Reach::Everywhere] {
            let settings = Settings { multicast, ..Settings::default() };
            let cost = |bytes| {
                cost(&hosts, &settings, move |rank| {
                    let root = n as u32 / 2;
                    Operation::Broadcast { root, data: (rank == root).then(|| vector(bytes)) }
                })
            };
            // On one host nothing but what is given.
            let end = if h == 1 { 0 } else { 16 };
            assert_eq!(cost(1000), (n - 1, (n - 1) * (1000 + end)), "{h} hosts of {each}");
            let bytes = 160_000;
            let segments = if h == 1 || multicast == Reach::Everywhere {
                0
            } else {
                160_000_u64.div_ceil(160_000_u64.div_ceil(8 * u64::from(h)).max(2048))
            };
            assert_eq!(cost(bytes), ((n - 1) * (segments + 1), (n - 1) * (160_000 + end)));
        }
    }
}

#[test]
fn reductions() {
    for (h, each) in SHAPES {
        let hosts = ranks_on(h, each);
        let (n, h) = (u64::from(h * each), u64::from(h));
        let power = |g: u64| 1 << g.ilog2();
        let doubling = |g: u64| power(g) * log2_up(power(g)) + 2 * (g - power(g));
        for root in [0, n as u32 - 1] {
            let reduce = |bytes, operator: fn() -> Operator| {
                let operation =
                    move |_| Operation::Reduce { root, data: vector(bytes), operator: operator() };
                cost(&hosts, &Settings::default(), operation).0
            };
            assert_eq!(reduce(99, sum), n - 1);
            assert_eq!(reduce(99, || pairs(|_, _| {})), n - 1 + u64::from(root != 0));
            let g = if h == 1 { n } else { h };
            let long = if g == 1 { n - 1 } else { n - g + g * g - 1 };
            assert_eq!(reduce(400_000, sum), long, "{n} on {h}");
        }
        let all = |bytes, operator: fn() -> Operator| {
            let operation =
                move |_| Operation::AllReduce { data: vector(bytes), operator: operator() };
            cost(&hosts, &Settings::default(), operation).0
        };
        assert_eq!(all(99, sum), 2 * (n - h) + doubling(h));
        assert_eq!(all(99, || pairs(|_, _| {})), doubling(n));
        let g = if h == 1 { n } else { h };
        assert_eq!(all(400_000, sum), 2 * (n - g) + 2 * g * (g - 1));
        let scan = |_| Operation::Scan { data: vector(9), operator: sum() };
        let expected: u64 = (0..6).map(|k| n.saturating_sub(1 << k)).sum();
        let expected = expected + (6..8).map(|k| n.saturating_sub(1 << k)).sum::<u64>();
        assert_eq!(cost(&hosts, &Settings::default(), scan).0, expected);
    }
}

#[test]
fn parts() {
    for (h, each) in SHAPES {
        let hosts = ranks_on(h, each);
        let (n, h) = (u64::from(h * each), u64::from(h));
        let near = n / h;
        let cost = |operation: fn(u32, u32, usize) -> Operation, bytes| {
            let operation = move |rank| operation(rank, n as u32, bytes);
            cost(&hosts, &Settings::default(), operation).0
        };
        let gather = |_, _, bytes| {
            let lengths = Lengths::Equal;
            Operation::Gather { root: 0, data: vector(bytes), lengths }
        };
        let scatter = |rank, n, bytes| {
            let parts = || (0..n).map(|_| vector(bytes)).collect();
            Operation::Scatter { root: 0, parts: (rank == 0).then(parts) }
        };
        let all_gather =
            |_, _, bytes| Operation::AllGather { data: vector(bytes), lengths: Lengths::Any };
        let all_to_all = |_, n, bytes| {
            let parts = (0..n).map(|_| vector(bytes)).collect();
            Operation::AllToAll { parts, lengths: Lengths::Any }
        };
        let each = h == 1 && n <= 16;
        let all = if each { n * (n - 1) } else { 2 * (n - h) + h * log2_up(h) };
        assert_eq!(cost(gather, 9), n - 1);
        assert_eq!(cost(gather, 70_000), n - 1 + (n - near), "{n} on {h}");
        assert_eq!(cost(scatter, 9), n - 1);
        assert_eq!(cost(scatter, 70_000), n - 1 + (n - near));
        assert_eq!(cost(all_gather, 9), all);
        let long = if each { 0 } else { n * (n - 1) };
        assert_eq!(cost(all_gather, 70_000), all + long);
        let by_hosts = n * (near - 1) + 2 * (n - h) + h * (h - 1);
        let everyone = h == 1 || h == n;
        assert_eq!(cost(all_to_all, 9), if everyone { n * (n - 1) } else { by_hosts });
        let long = if everyone { n * (n - 1) } else { by_hosts + n * (n - near) };
        assert_eq!(cost(all_to_all, 70_000), long);
    }
}
