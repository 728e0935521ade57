//! The tap in virtual time.

use std::time::Duration;

use proptest::prelude::*;
use towpath_wire::Instant;

use super::Direction::{Back, There};
use super::*;
use crate::link::LinkSpec;

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn plain(link: LinkSpec) -> Tap {
    Tap::new(&Script::of(WayState { link, up: true }), Instant::ZERO)
}

fn script(text: &str) -> Tap {
    Tap::new(&Script::parse(text).unwrap(), Instant::ZERO)
}

const FREE: LinkSpec =
    LinkSpec { rate_bps: 1_000_000_000_000, delay_us: 0, framing_bytes: 0, ..LinkSpec::PLAIN };

/// A frame of `len` bytes that can be told from others.
fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len.max(4)];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[..4].try_into().unwrap())
}

/// Everything that is under way, with when it is due.
fn drain(tap: &mut Tap, until: Instant) -> Vec<(u64, u32)> {
    let mut out = Vec::new();
    while let Some(at) = tap.next_timeout().filter(|at| *at <= until) {
        tap.handle_timeout(at);
        while let Some(due) = tap.poll_frame(at) {
            out.push((due.due.as_nanos(), number(&due.frame)));
        }
    }
    out
}

/// Which of the first `count` frames get through, one every millisecond.
fn fates(tap: &mut Tap, count: u32) -> Vec<bool> {
    for n in 0..count {
        tap.handle_frame(ms(n.into()), There, frame(n, 100));
    }
    let came = drain(tap, Instant::NEVER);
    let mut fates = vec![false; count as usize];
    for (_, n) in came {
        fates[n as usize] = true;
    }
    fates
}

#[test]
fn frames_leave_at_the_rate_and_arrive_after_the_delay() {
    let mut tap = plain(LinkSpec { rate_bps: 8_000_000, delay_us: 500, framing_bytes: 24, ..FREE });
    (0..3).for_each(|n| tap.handle_frame(ms(0), There, frame(n, 976)));
    // 1000 bytes at 1 byte a microsecond.
    let due = drain(&mut tap, ms(10));
    assert_eq!(due, [(1_500_000, 0), (2_500_000, 1), (3_500_000, 2)]);
    let stats = tap.stats(There);
    assert_eq!((stats.frames_out, stats.bytes_out, stats.queue_bytes_max), (3, 2928, 2928));
}

#[test]
fn a_burst_passes_at_once_and_the_rate_holds_after_it() {
    let mut tap = plain(LinkSpec { rate_bps: 8_000_000, rate_burst_bytes: 3000, ..FREE });
    let at = |tap: &mut Tap| {
        (0..5).for_each(|n| tap.handle_frame(ms(50), There, frame(n, 1000)));
        drain(tap, Instant::NEVER).into_iter().map(|(at, _)| at).collect::<Vec<_>>()
    };
    // Three thousand bytes of credit, then a thousand a millisecond.
    assert_eq!(at(&mut tap), [50, 50, 50, 51, 52].map(|ms| ms * 1_000_000));
}

#[test]
fn each_direction_has_a_link_of_its_own() {
    let mut tap = script(
        "[link.both]\ndelay_us = 7000\nrate_bps = 1_000_000_000_000\n\
                          [link.back]\ndelay_us = 1000",
    );
    tap.handle_frame(ms(0), There, frame(1, 100));
    tap.handle_frame(ms(0), Back, frame(2, 100));
    let first = tap.poll_frame(ms(100)).unwrap();
    assert_eq!((first.direction, first.due.as_nanos()), (Back, 1_000_001));
    assert_eq!(tap.poll_frame(ms(100)).unwrap().direction, There);
}

#[test]
fn the_queue_overflows_and_is_counted() {
    let mut tap = plain(LinkSpec { rate_bps: 8_000_000, queue_bytes: 2500, ..FREE });
    (0..10).for_each(|n| tap.handle_frame(ms(0), There, frame(n, 1000)));
    assert_eq!(tap.stats(There).overflowed, 8);
    let why: Vec<Why> = std::iter::from_fn(|| tap.poll_dropped()).map(|drop| drop.why).collect();
    assert_eq!(why, [Why::Overflowed; 8]);
    assert_eq!(drain(&mut tap, ms(10)).len(), 2);
}

#[test]
fn a_dead_link_drops_what_waits_and_delivers_what_has_left() {
    let mut tap = script(
        "[link.both]\nrate_bps = 8_000_000\ndelay_us = 5000\n\
                          [[change]]\nat_ms = 2\nup = false\n[[change]]\nat_ms = 20\nup = true",
    );
    // They leave after 1, 2, 3 and 4 ms.
    (0..4).for_each(|n| tap.handle_frame(ms(0), There, frame(n, 1000)));
    tap.handle_frame(ms(10), There, frame(9, 1000));
    assert_eq!(drain(&mut tap, ms(15)), [(6_000_000, 0), (7_000_000, 1)]);
    assert_eq!(tap.stats(There).cut, 3);
    assert_eq!(std::iter::from_fn(|| tap.poll_dropped()).count(), 3);
    tap.handle_frame(ms(20), There, frame(10, 1000));
    assert_eq!(drain(&mut tap, ms(30)), [(26_000_000, 10)]);
}

#[test]
fn a_change_of_rate_or_delay_holds_for_what_waits_from_its_instant_on() {
    let mut tap = script(
        "[link.both]\nrate_bps = 8_000_000\n\
                          [[change]]\nat_ms = 1\nrate_bps = 4_000_000\n\
                          [[change]]\nat_ms = 4\nrate_bps = 8_000_000\ndelay_us = 10_000",
    );
    (0..4).for_each(|n| tap.handle_frame(ms(0), There, frame(n, 1000)));
    // A millisecond each; from 1 on two, so that half of the third is left at 4; then one again.
    let due = drain(&mut tap, ms(100));
    assert_eq!(due, [(1_000_000, 0), (3_000_000, 1), (14_500_000, 2), (15_500_000, 3)]);
    // What comes later queues behind nothing.
    tap.handle_frame(ms(100), There, frame(7, 1000));
    assert_eq!(drain(&mut tap, ms(200)), [(111_000_000, 7)]);
}

#[test]
fn the_same_number_of_a_frame_has_the_same_fate_whatever_the_queue_does() {
    let lossy = LinkSpec { loss_ppm: 100_000, burst_enter_ppm: 20_000, ..FREE };
    let wide = fates(&mut plain(lossy), 3000);
    assert_eq!(wide, fates(&mut plain(lossy), 3000));
    // Nor does it matter when they come.
    let mut later = plain(lossy);
    (0..3000).for_each(|n| later.handle_frame(ms(7 * u64::from(n)), There, frame(n, 100)));
    let came = drain(&mut later, Instant::NEVER);
    assert!(came.iter().all(|(_, n)| wide[*n as usize]));
    assert_eq!(came.len(), wide.iter().filter(|through| **through).count());
    // A link that overflows: what is lost beyond that is what was lost before.
    let mut narrow = plain(LinkSpec { rate_bps: 400_000, queue_bytes: 2000, ..lossy });
    let less = fates(&mut narrow, 3000);
    assert!(narrow.stats(There).overflowed > 500);
    assert!(less.iter().zip(&wide).all(|(less, more)| !less || *more));
    let other = Script { seed: 2, ..Script::of(WayState { link: lossy, up: true }) };
    assert_ne!(wide, fates(&mut Tap::new(&other, Instant::ZERO), 3000));
}

#[test]
fn the_directions_lose_different_frames() {
    let mut tap = plain(LinkSpec { loss_ppm: 500_000, ..FREE });
    for n in 0..200 {
        tap.handle_frame(ms(n), There, frame(n as u32, 100));
        tap.handle_frame(ms(n), Back, frame(n as u32, 100));
    }
    let mut came = [Vec::new(), Vec::new()];
    while let Some(due) = tap.poll_frame(ms(1000)) {
        came[due.direction as usize].push(number(&due.frame));
    }
    assert_ne!(came[0], came[1]);
}

#[test]
fn bursts_are_as_long_and_as_many_as_the_model_says() {
    // One in a hundred begins a burst of five: 4.76 % of all, in runs of 5 on average.
    let link = LinkSpec { burst_enter_ppm: 10_000, burst_leave_ppm: 200_000, ..FREE };
    let fates = fates(&mut plain(link), 100_000);
    let lost = fates.iter().filter(|through| !**through).count() as f64;
    let runs = fates.windows(2).filter(|pair| pair[0] && !pair[1]).count() as f64;
    assert!((lost / 100_000.0 - 0.01 / 0.21).abs() < 0.005, "{lost}");
    assert!((lost / runs - 5.0).abs() < 0.5, "{lost} in {runs}");
}

#[test]
fn jitter_keeps_the_order_and_reordering_does_not() {
    let late = |link: LinkSpec| {
        let mut tap = plain(LinkSpec { delay_us: 1000, ..link });
        (0..2000).for_each(|n| tap.handle_frame(ms(u64::from(n)), There, frame(n, 100)));
        let came = drain(&mut tap, Instant::NEVER);
        let overtaken = came.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
        (overtaken, came.iter().map(|(at, n)| at - u64::from(*n) * 1_000_000).collect::<Vec<_>>())
    };
    let (overtaken, delays) = late(LinkSpec { jitter_us: 5000, ..FREE });
    assert_eq!(overtaken, 0);
    let mean = delays.iter().sum::<u64>() / delays.len() as u64;
    assert!(delays.iter().all(|ns| (1_000_000..6_000_100).contains(ns)));
    assert!((3_500_000..6_000_000).contains(&mean), "{mean}");
    let (overtaken, _) = late(LinkSpec { reorder_ppm: 100_000, reorder_us: 5000, ..FREE });
    assert!((80..300).contains(&overtaken), "{overtaken}");
}

#[test]
fn what_is_doubled_comes_twice_and_what_is_damaged_in_one_bit() {
    let mut tap = plain(LinkSpec { duplicate_ppm: 1_000_000, ..FREE });
    tap.handle_frame(ms(0), There, frame(5, 100));
    assert_eq!(drain(&mut tap, ms(1)).iter().map(|(_, n)| *n).collect::<Vec<_>>(), [5, 5]);
    let mut tap = plain(LinkSpec { corrupt_ppm: 1_000_000, ..FREE });
    tap.handle_frame(ms(0), There, vec![0; 100]);
    let damaged = tap.poll_frame(ms(1)).unwrap().frame;
    assert_eq!(damaged.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
}

#[test]
fn what_is_too_long_is_dropped() {
    let mut tap = script("[link.there]\nframe_bytes_max = 1280");
    tap.handle_frame(ms(0), There, frame(1, 1281));
    tap.handle_frame(ms(0), There, frame(2, 1280));
    tap.handle_frame(ms(0), Back, frame(3, 1500));
    assert_eq!((tap.stats(There).oversized, tap.stats(There).frames_out), (1, 0));
    assert_eq!(drain(&mut tap, ms(1)).len(), 2);
}

#[test]
fn a_repeated_change_happens_as_often_as_it_says() {
    let text = "[[change]]\nat_ms = 10\nevery_ms = 20\ntimes = 3\nup = false\n\
                [[change]]\nat_ms = 20\nevery_ms = 20\ntimes = 3\nup = true\nlink = 'both'";
    let mut tap = script(text);
    let mut up = |at| {
        tap.handle_timeout(ms(at));
        tap.state(There).up
    };
    let states = [9, 10, 19, 20, 29, 30, 40, 50, 59, 60, 70, 90].map(&mut up);
    let dead = [10, 19, 30, 50, 59];
    assert_eq!(
        states,
        [9, 10, 19, 20, 29, 30, 40, 50, 59, 60, 70, 90].map(|at| !dead.contains(&at))
    );
    assert_eq!(tap.changes_left(), 0);
}

fn fault(text: &str) -> String {
    Script::parse(text).unwrap_err().to_string()
}

#[test]
fn faults_name_line_field_value_limit_and_what_to_do() {
    for (text, said) in [
        (
            "[link.both]\nloss_ppm = 2_000_000",
            "line 2: link.both.loss_ppm is 2000000, must be at most 1000000\n\
             hint: parts per million: 1 % is 10000",
        ),
        (
            "\n[link.there]\nrate = 3",
            "line 3: unknown field `rate`\nhint: fields of a link: rate_bps,",
        ),
        (
            "[link.their]",
            "line 1: link \"their\" is unknown, must be there, back or both\n\
             hint: write [link.both]",
        ),
        (
            "[link.both]\nrate_bps = '10M'",
            "line 2: link.both.rate_bps is \"10M\", must be a whole number\nhint: bits per second",
        ),
        ("[link.both]\nup = 1", "line 2: link.both.up is 1, must be true or false"),
        (
            "[link.both]\ndelay_us = -1",
            "line 2: link.both.delay_us is -1, must be 0 to 18446744073709551615",
        ),
        (
            "[link.both]\nqueue_bytes = 0",
            "line 2: link.both.queue_bytes is 0, must be between 1 and 2^32",
        ),
        (
            "kind = 'transfer'",
            "line 1: kind is \"transfer\", must be \"tap\"\nhint: other scenarios",
        ),
        ("speed = 1", "line 1: unknown field `speed`\nhint: at the top:"),
        (
            "[change]\nat_ms = 1",
            "line 1: change is a table, must be a list\nhint: write [[change]]",
        ),
        ("[[change]]\nup = true", "line 1: a change has no at_ms\nhint: at_ms is when"),
        ("seed = 3\n[[change]]\nat_ms = 1", "line 2: a change changes nothing"),
        (
            "[[change]]\nat_ms = 1\nup = false\nlink = 'wan'",
            "line 4: link of a change is \"wan\", must be there, back or both",
        ),
        ("[[change]]\nat_ms = 1\nup = false\ntimes = 2", "line 1: times is 2 without every_ms"),
        (
            "[[change]]\nat_ms = 1\nup = false\ntimes = 0",
            "line 4: times of a change is 0, must be 1 to 100000",
        ),
        (
            "[[change]]\nat_ms = 1\nloss_ppm = 1_000_001",
            "line 3: loss_ppm of a change is 1000001, must be at most 1000000",
        ),
        (
            "[[change]]\nat_ms = 2_592_000_001\nup = true",
            "line 2: at_ms of a change is 2592000001, must be 0 to 2592000000",
        ),
        ("[link.both\n", "line 1: "),
    ] {
        let fault = fault(text);
        assert!(fault.starts_with(said), "{text}:\n{fault}");
        assert!(fault.contains("\nhint: "), "{fault}");
    }
    let many = "[[change]]\nat_ms = 1\nup = true\n".repeat(257);
    assert!(fault(&many).contains("number of [[change]] is 257, must be at most 256"));
    let often = "[[change]]\nat_ms = 1\nup = true\nevery_ms = 1\ntimes = 60_000\n".repeat(2);
    assert!(fault(&often).contains("changes are 120000, must be at most 100000"));
    assert!(fault(&" ".repeat(BYTES_MAX + 1)).contains("must be 0 to 1048576"));
}

#[test]
fn the_files_that_come_along_are_scripts() {
    let read = |text| Script::parse(text).unwrap();
    let wan = read(include_str!("../../../../scenarios/tap/wan.toml"));
    assert_eq!(wan.begin.map(|way| way.link.rate_bps), [20_000_000, 2_000_000]);
    let radio = read(include_str!("../../../../scenarios/tap/radio.toml"));
    assert_eq!(radio.changes.len(), 2000);
    let cable = read(include_str!("../../../../scenarios/tap/dead-cable.toml"));
    let up = cable.changes.iter().map(|change| (change.at.as_secs(), change.settings[0]));
    assert!(up.eq([(4, Setting::Up(false)), (9, Setting::Up(true))]));
}

#[test]
fn one_way_overrides_both_wherever_it_stands() {
    let text = "[link.there]\ndelay_us = 1\n[link.both]\ndelay_us = 2\nloss_ppm = 3";
    let [there, back] = Script::parse(text).unwrap().begin.map(|way| way.link);
    assert_eq!((there.delay_us, back.delay_us), (1, 2));
    assert_eq!((there.loss_ppm, back.loss_ppm), (3, 3));
}

prop_compose! {
    fn links()(
        rate_bps in 1_000_000u64..100_000_000,
        delay_us in 0u64..20_000,
        queue_bytes in 1_500u64..100_000,
        rate_burst_bytes in prop_oneof![Just(0u64), 1_500u64..30_000],
        jitter_us in prop_oneof![Just(0u64), 1u64..5_000],
        loss_ppm in prop_oneof![Just(0u32), 0u32..500_000],
        reorder_ppm in prop_oneof![Just(0u32), 0u32..500_000],
        duplicate_ppm in prop_oneof![Just(0u32), 0u32..500_000],
        framing_bytes in 0u64..60,
    ) -> LinkSpec {
        LinkSpec {
            rate_bps,
            rate_burst_bytes,
            delay_us,
            jitter_us,
            queue_bytes,
            loss_ppm,
            reorder_ppm,
            duplicate_ppm,
            framing_bytes,
            ..FREE
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_frame_is_accounted_for_and_none_is_early(
        link in links(),
        gaps in prop::collection::vec((0u64..2_000_000, 1usize..1500), 1..200),
        changes in prop::collection::vec((0u64..200, links(), any::<bool>()), 0..5),
    ) {
        let mut tap = plain(link);
        let mut now = Instant::ZERO;
        let mut due: Vec<(u64, u64)> = Vec::new();
        for (n, (gap, len)) in gaps.iter().enumerate() {
            now += Duration::from_nanos(*gap);
            for (_, link, up) in changes.iter().filter(|(at, ..)| *at == n as u64) {
                tap.change(now, Ways::Both, |state| *state = WayState { link: *link, up: *up });
            }
            tap.handle_frame(now, There, frame(n as u32, *len));
            while let Some(one) = tap.poll_frame(now) {
                prop_assert!(one.due <= now);
                due.push((one.due.as_nanos(), one.frame.len() as u64));
            }
        }
        let held = tap.held(There) as u64;
        while let Some(at) = tap.next_timeout() {
            let one = tap.poll_frame(at).unwrap();
            due.push((one.due.as_nanos(), one.frame.len() as u64));
        }
        let s = tap.stats(There);
        let dropped = std::iter::from_fn(|| tap.poll_dropped()).count() as u64;
        prop_assert_eq!(dropped, s.lost + s.overflowed + s.cut + s.oversized + s.crowded);
        prop_assert_eq!(s.frames_in + s.duplicated, s.frames_out + dropped);
        prop_assert_eq!(s.frames_out, due.len() as u64);
        prop_assert_eq!(s.bytes_out, due.iter().map(|(_, len)| len).sum::<u64>());
        prop_assert!(held <= s.frames_out);
        prop_assert!(s.frames_in == gaps.len() as u64);
    }

    #[test]
    fn no_stretch_of_time_carries_more_than_rate_and_burst(
        link in links(),
        gaps in prop::collection::vec((0u64..1_000_000, 1usize..1500), 2..120),
    ) {
        // Without chance each arrival is when a frame has left, a delay later.
        let link = LinkSpec { jitter_us: 0, loss_ppm: 0, reorder_ppm: 0, duplicate_ppm: 0, ..link };
        let mut tap = plain(link);
        let mut now = Instant::ZERO;
        for (n, (gap, len)) in gaps.iter().enumerate() {
            now += Duration::from_nanos(*gap);
            tap.handle_frame(now, There, frame(n as u32, *len));
        }
        let due = drain(&mut tap, Instant::NEVER);
        prop_assert!(due.windows(2).all(|pair| pair[0].1 < pair[1].1));
        let wire = |n: u32| gaps[n as usize].1.max(4) as u64 + link.framing_bytes;
        for first in 0..due.len() {
            let mut bytes = 0;
            for (at, n) in &due[first..] {
                bytes += wire(*n);
                let stretch = u128::from(at - due[first].0);
                let most = stretch * u128::from(link.rate_bps) / 8_000_000_000;
                // The first has left at the beginning of the stretch: it counts as burst.
                let most = most as u64 + link.rate_burst_bytes.max(wire(due[first].1)) + 1;
                prop_assert!(bytes <= most, "{bytes} of {most}");
            }
        }
        // And none less: a link that is never idle is never behind its rate by more than rounding.
        let all: u64 = due.iter().map(|(_, n)| wire(*n)).sum();
        let last = due.last().map_or(0, |(at, _)| at - link.delay_us * 1000);
        let took = u128::from(all) * 8_000_000_000 / u128::from(link.rate_bps);
        prop_assert!(u128::from(last) <= took + u128::from(now.as_nanos()) + due.len() as u128 + 1);
    }

    #[test]
    fn what_is_lost_is_the_share_that_was_said(loss_ppm in 0u32..1_000_000, seed in any::<u64>()) {
        let link = LinkSpec { loss_ppm, ..FREE };
        let script = Script { seed, ..Script::of(WayState { link, up: true }) };
        let mut tap = Tap::new(&script, Instant::ZERO);
        for n in 0..4000 {
            tap.handle_frame(ms(n), There, vec![0; 60]);
        }
        let p = f64::from(loss_ppm) / 1e6;
        // Six standard deviations.
        let room = 6.0 * (4000.0 * p * (1.0 - p)).sqrt() + 1.0;
        prop_assert!((tap.stats(There).lost as f64 - 4000.0 * p).abs() <= room);
    }

    #[test]
    fn whatever_the_text_is_nothing_panics(text in "[\\[\\]a-z_.=0-9'\"\n-]{0,80}") {
        if let Err(error) = Script::parse(&text) {
            let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
            prop_assert!((1..=lines).contains(&error.line));
        }
    }
}
