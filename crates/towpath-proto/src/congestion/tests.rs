//! One conformance suite over every policy, then what only one of them promises.

use core::time::Duration;

use alloc::boxed::Box;
use proptest::prelude::*;
use towpath_wire::Instant;

use super::policy::WINDOW_MAX;
use super::*;

const DATAGRAM: u64 = 1400;

fn policies() -> [Box<dyn Congestion>; 4] {
    use CongestionKind::{Aimd, Cubic, Fixed, Model};
    [Aimd, Fixed(64_000), Model, Cubic].map(|kind| kind.build(DATAGRAM))
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn acked(now: u64, sent: u64, bytes: u64, limited: bool) -> Sample {
    Sample {
        now: at(now),
        rtt: Some(at(now).since(at(sent))),
        acked: bytes,
        sent: at(sent),
        limited,
        starved: false,
        delivered: now * bytes,
        prior_delivered: sent * bytes,
        rate: Some(bytes * 100),
        in_flight: bytes,
        prior_in_flight: 2 * bytes,
    }
}

fn lost(now: u64, sent: u64, bytes: u64) -> Loss {
    let (now, sent) = (at(now), at(sent));
    Loss { now, sent, bytes, in_flight: bytes, prior_in_flight: 2 * bytes }
}

proptest! {
    #[test]
    fn the_window_always_lets_two_datagrams_pass(
        ops in proptest::collection::vec((0..5u8, 0..20_000u64), 0..200),
    ) {
        for mut policy in policies() {
            for (i, (op, bytes)) in ops.iter().enumerate() {
                let now = i as u64 + 1;
                match op {
                    0 | 1 => policy.on_acked(&acked(now, i as u64, *bytes, *op == 0)),
                    2 => policy.on_lost(&lost(now, i as u64, *bytes)),
                    3 => policy.on_spurious(at(i as u64), *bytes),
                    _ => policy.on_silence(),
                }
                prop_assert!(policy.window() >= 2 * DATAGRAM);
                prop_assert!(policy.window() <= WINDOW_MAX);
                prop_assert!(policy.pacing().is_none_or(|rate| rate > 0));
            }
        }
    }
}

#[test]
fn aimd_doubles_per_round_trip_until_a_loss_then_grows_by_one() {
    let mut p = Aimd::new(DATAGRAM);
    let start = p.window();
    p.on_acked(&acked(10, 0, start, true));
    assert_eq!(p.window(), 2 * start);
    p.on_lost(&lost(20, 11, DATAGRAM));
    assert_eq!(p.window(), start);
    p.on_lost(&lost(21, 12, DATAGRAM));
    assert_eq!(p.window(), start, "one reduction per round trip");
    p.on_acked(&acked(30, 22, start, true));
    assert_eq!(p.window(), start + DATAGRAM);
}

#[test]
fn aimd_takes_a_needless_reduction_back_only_when_all_of_it_was_needless() {
    let mut p = Aimd::new(DATAGRAM);
    let start = p.window();
    p.on_lost(&lost(20, 11, 2 * DATAGRAM));
    p.on_spurious(at(11), DATAGRAM);
    assert_eq!(p.window(), start / 2);
    p.on_spurious(at(10), DATAGRAM);
    assert_eq!(p.window(), start);
}

#[test]
fn aimd_does_not_grow_while_the_application_is_the_limit() {
    let mut p = Aimd::new(DATAGRAM);
    let start = p.window();
    p.on_acked(&acked(10, 0, start, false));
    assert_eq!(p.window(), start);
}

#[test]
fn cubic_leaves_seven_tenths_and_comes_back_to_where_it_was() {
    let mut p = Cubic::resuming(DATAGRAM, 100 * DATAGRAM);
    p.on_lost(&lost(1000, 990, DATAGRAM));
    assert_eq!(p.window(), 70 * DATAGRAM);
    // RFC 9438 figure 2: K = cube root of (100 - 70) / 0.4 = 4.2 s.
    let mut now = 1000;
    while p.window() < 99 * DATAGRAM {
        now += 20;
        p.on_acked(&acked(now, now - 20, p.window(), true));
        assert!(now < 8000);
    }
    assert!((3500..5500).contains(&(now - 1000)), "{} ms", now - 1000);
}
