//! One conformance suite over every policy, then what only one of them promises.

use core::time::Duration;

use alloc::boxed::Box;
use proptest::prelude::*;
use towpath_wire::Instant;

use super::*;

const DATAGRAM: u64 = 1400;

fn policies() -> [Box<dyn Congestion>; 2] {
    [CongestionKind::Aimd.build(DATAGRAM), CongestionKind::Fixed(64_000).build(DATAGRAM)]
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

proptest! {
    #[test]
    fn the_window_always_lets_two_datagrams_pass(
        ops in proptest::collection::vec((0..3u8, 0..20_000u64), 0..200),
    ) {
        for mut policy in policies() {
            for (i, (op, bytes)) in ops.iter().enumerate() {
                let now = at(i as u64 + 1);
                match op {
                    0 => policy.on_acked(now, at(i as u64), *bytes, Duration::from_millis(1), true),
                    1 => policy.on_lost(now, at(i as u64), *bytes),
                    _ => policy.on_silence(),
                }
                prop_assert!(policy.window() >= 2 * DATAGRAM);
                prop_assert!(policy.window() <= 8 << 20);
            }
        }
    }
}

#[test]
fn aimd_doubles_per_round_trip_until_a_loss_then_grows_by_one() {
    let mut p = Aimd::new(DATAGRAM);
    let rtt = Duration::from_millis(10);
    let start = p.window();
    p.on_acked(at(10), at(0), start, rtt, true);
    assert_eq!(p.window(), 2 * start);
    p.on_lost(at(20), at(11), DATAGRAM);
    assert_eq!(p.window(), start);
    p.on_lost(at(21), at(12), DATAGRAM);
    assert_eq!(p.window(), start, "one reduction per round trip");
    p.on_acked(at(30), at(22), start, rtt, true);
    assert_eq!(p.window(), start + DATAGRAM);
}

#[test]
fn aimd_does_not_grow_while_the_application_is_the_limit() {
    let mut p = Aimd::new(DATAGRAM);
    let start = p.window();
    p.on_acked(at(10), at(0), start, Duration::from_millis(10), false);
    assert_eq!(p.window(), start);
}
