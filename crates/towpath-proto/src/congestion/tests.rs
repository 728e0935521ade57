//! One conformance suite over every policy, then what only one of them promises.

use alloc::boxed::Box;
use proptest::prelude::*;
use towpath_wire::Instant;

use super::policy::WINDOW_MAX;
use super::*;

const DATAGRAM: u64 = 1400;

fn policies() -> [Box<dyn Congestion>; 4] {
    use CongestionKind::{Aimd, Cubic, Fixed, Tolerant};
    [Aimd, Fixed(64_000), Tolerant, Cubic].map(|kind| kind.build(DATAGRAM))
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
        delivered: now * bytes,
        prior_delivered: sent * bytes,
        congestion_met: false,
    }
}

fn lost(now: u64, sent: u64, bytes: u64) -> Loss {
    Loss { now: at(now), sent: at(sent), bytes }
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

/// In congestion avoidance with a window of about so many datagrams.
fn cubic_at(datagrams: u64) -> Cubic {
    let mut p = Cubic::new(DATAGRAM);
    p.on_acked(&acked(1, 0, (datagrams - 10) * DATAGRAM, true));
    p.leave_slow_start();
    p
}

/// Milliseconds until a cut window of 100 datagrams is back at 99.
fn back_after(rtt_ms: u64) -> u64 {
    let mut p = cubic_at(100);
    p.on_lost(&lost(1000, 990, DATAGRAM));
    assert_eq!(p.window(), 70 * DATAGRAM);
    let mut now = 1000;
    while p.window() < 99 * DATAGRAM {
        now += rtt_ms;
        p.on_acked(&acked(now, now - rtt_ms, p.window(), true));
        assert!(now < 20_000);
    }
    now - 1000
}

#[test]
fn cubic_leaves_seven_tenths_and_comes_back_to_where_it_was() {
    // RFC 9438 figure 2: K = cube root of (100 - 70) / 0.4 = 4.2 s. It counts one round trip
    // ahead, and is within a datagram of its aim 1.4 s before.
    assert!((2400..4400).contains(&back_after(200)), "{} ms", back_after(200));
    // Where Reno is faster, its growth rules: 9/17 datagrams a round trip (§4.3), 29 of them.
    let reno = 29 * 17 / 9 * 20;
    assert!(back_after(20).abs_diff(reno) <= 40, "{} ms, Reno {reno} ms", back_after(20));
}

/// Feeds rounds of 100 datagrams on a path of 20 ms; of each round `lost_of` are lost.
struct Rounds {
    policy: Tolerant,
    now: u64,
}

impl Rounds {
    fn new() -> Self {
        let mut rounds = Self { policy: Tolerant::new(DATAGRAM), now: 100 };
        rounds.go_on(20, 20, 0);
        rounds
    }

    /// So many rounds with that round-trip time.
    fn go_on(&mut self, rounds: u64, rtt: u64, lost_of: u64) {
        for _ in 0..rounds {
            for n in 0..10 {
                let now = self.now + rtt * n / 10;
                let gone = lost_of * (n + 1) / 10 - lost_of * n / 10;
                let sample = Sample {
                    prior_delivered: self.now,
                    delivered: self.now + rtt,
                    ..acked(now, now - rtt, (10 - gone) * DATAGRAM, false)
                };
                self.policy.on_acked(&sample);
                if gone > 0 {
                    self.policy.on_lost(&lost(now, now - rtt, gone * DATAGRAM));
                }
            }
            self.now += rtt;
        }
    }

    fn lose(&mut self, datagrams: u64) {
        self.policy.on_lost(&lost(self.now, self.now - 1, datagrams * DATAGRAM));
    }
}

#[test]
fn a_loss_at_a_high_queue_cuts_once_a_round_and_one_at_a_low_queue_does_not() {
    let mut r = Rounds::new();
    r.go_on(10, 40, 0);
    r.go_on(10, 21, 0);
    let start = r.policy.window();
    r.lose(3);
    assert_eq!(r.policy.window(), start, "the queue is low");
    let mut r = Rounds::new();
    r.go_on(10, 40, 0);
    r.lose(1);
    assert_eq!(r.policy.window(), start * 7 / 10);
    r.lose(5);
    assert_eq!(r.policy.window(), start * 7 / 10, "the same round");
    r.go_on(5, 40, 0);
    r.lose(1);
    assert!(r.policy.window() < start * 5 / 10);
}

#[test]
fn what_the_path_loses_anyway_does_not_cut_but_more_does() {
    let mut r = Rounds::new();
    let start = r.policy.window();
    r.go_on(200, 20, 1);
    r.go_on(20, 40, 1);
    assert_eq!(r.policy.window(), start, "a hundredth, as ever");
    r.go_on(6, 40, 10);
    assert!(r.policy.window() < start, "ten times as much, and the queue is high");
}

#[test]
fn where_no_queue_shows_a_loss_cuts_until_cuts_are_seen_not_to_help() {
    let mut r = Rounds::new();
    // A queue ends slow start; then none shows for so long that it is forgotten.
    r.go_on(8, 40, 0);
    r.go_on(800, 20, 0);
    let start = r.policy.window();
    r.go_on(1, 20, 10);
    let cut = r.policy.window();
    assert!(cut < start, "{cut} of {start}");
    // A tenth of the smaller window, too.
    r.go_on(20, 20, 10);
    assert_eq!(r.policy.window(), start, "taken back");
    r.go_on(20, 20, 10);
    assert_eq!(r.policy.window(), start, "the path's own");
    r.go_on(3, 20, 50);
    assert!(r.policy.window() < start, "five times as much is not");
}

/// So many rounds of a new path where so many datagrams pass in each: a policer, or this flow's
/// part of a queue that others keep full. The greatest window and the last, in datagrams.
fn policed(rounds: u64, pass: u64) -> (u64, u64) {
    let mut p = Tolerant::new(DATAGRAM);
    let (mut now, mut most, pass) = (100, 0, pass * DATAGRAM);
    for _ in 0..rounds {
        let window = p.window();
        for n in 0..10 {
            let then = now + 2 * n;
            let sample = Sample {
                delivered: now + 20,
                prior_delivered: now,
                ..acked(then, then - 20, window.min(pass) / 10, true)
            };
            p.on_acked(&sample);
            if window > pass {
                p.on_lost(&lost(then, then - 20, (window - pass) / 10));
            }
        }
        now += 20;
        most = most.max(p.window());
    }
    (most / DATAGRAM, p.window() / DATAGRAM)
}

#[test]
fn slow_start_ends_where_more_is_lost_and_no_more_delivered() {
    let (most, last) = policed(12, 100);
    assert!(most <= 500 && last <= 110, "{most}, then {last} datagrams");
}

#[test]
fn slow_start_ends_there_however_few_datagrams_a_round_delivers() {
    // Two spans of nine rounds, in each of which it grows by what passes.
    let (most, last) = policed(22, 6);
    assert!(most <= 130 && last <= 12, "{most}, then {last} datagrams");
}

#[test]
fn a_needless_cut_is_taken_back_when_all_that_it_answered_was_only_late() {
    let mut r = Rounds::new();
    r.go_on(10, 40, 0);
    let start = r.policy.window();
    r.lose(2);
    r.lose(1);
    r.policy.on_spurious(at(r.now - 1), 2 * DATAGRAM);
    assert_eq!(r.policy.window(), start * 7 / 10);
    r.policy.on_spurious(at(r.now - 1), DATAGRAM);
    assert_eq!(r.policy.window(), start);
}

#[test]
fn marks_cut_less_than_losses_and_once_a_round() {
    let mut r = Rounds::new();
    let start = r.policy.window();
    for n in 0..5 {
        let marked = acked(r.now + n, r.now + n - 1, DATAGRAM, false);
        let (delivered, prior_delivered) = (0, 0);
        let marked = Sample { congestion_met: true, delivered, prior_delivered, ..marked };
        r.policy.on_acked(&marked);
    }
    assert_eq!(r.policy.window(), start * 85 / 100);
}

#[test]
fn slow_start_ends_with_a_growing_queue_not_with_the_paths_own_losses() {
    let mut p = Tolerant::new(DATAGRAM);
    let (mut now, mut rtt) = (100, 20);
    let mut grown = 0;
    for round in 0..12 {
        let before = p.window();
        if round >= 6 {
            rtt += 4;
        }
        for n in 0..10 {
            let then = now + rtt * n / 10;
            let sample = Sample {
                delivered: now + rtt,
                prior_delivered: now,
                ..acked(then, then - rtt, before / 10, true)
            };
            p.on_acked(&sample);
            if n == 5 && round < 6 {
                p.on_lost(&lost(then, then - rtt, before / 20));
            }
        }
        now += rtt;
        if round < 6 {
            assert!(p.window() >= before * 19 / 10, "doubles: {before} to {}", p.window());
        }
        grown = p.window() * 100 / before;
    }
    assert!(grown < 110, "{grown} % of the round before");
}
