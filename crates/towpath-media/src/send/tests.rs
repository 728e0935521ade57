//! What a sender promises.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use proptest::prelude::*;
use towpath_wire::{Instant, Rate};

use super::testing::{clocked, plain, stream};
use super::{
    Config, DATAGRAM, Due, Feedback, Sender, Standing, Streams, Tick, Timing, WINDOW_FILL,
    WINDOW_MAX,
};
use crate::pace::{Follow, PCR_WRAP, Pacer, Pcbr, Pdcbr};
use crate::read::PACKET;
use crate::schedule::pdcbr::DualRate;
use crate::schedule::{POSITION_UNIT, Schedule, Scheme, Segment};
use crate::trace::ExactRate;

/// All of a stored stream at the instants it asks for: datagrams, and when each was due.
fn all(config: Config, bytes: &[u8]) -> (Vec<u8>, Vec<Due>, Sender) {
    let mut sender = Sender::new(config);
    let (mut sent, mut dues, mut at, mut now) = (vec![], vec![], 0, Instant::ZERO);
    let mut out = [0; DATAGRAM];
    loop {
        let room = sender.room().min(bytes.len() - at);
        if room > 0 {
            sender.push(&bytes[at..at + room]);
            at += room;
        }
        if at == bytes.len() {
            sender.finish();
        }
        while let Some(due) = sender.poll_transmit(now, &mut out) {
            sent.extend_from_slice(&out[..due.len]);
            dues.push(due);
        }
        match sender.poll_timeout() {
            Some(next) => now = now.max(next),
            None if at == bytes.len() => return (sent, dues, sender),
            None => {}
        }
    }
}

fn ticks(due: &Due) -> u64 {
    (due.at.as_nanos() * 27).div_ceil(1000)
}

#[test]
fn a_datagram_starts_at_each_reference_and_time_runs_evenly_between_them() {
    let file = stream(&[(900, 10), (900 + 270_000, 3), (900 + 540_000, 7)]);
    let (sent, dues, _) = all(Config::stored(), &file);
    assert_eq!(sent, file);
    let lens: Vec<_> = dues.iter().map(|due| (due.len / PACKET, due.clock)).collect();
    assert_eq!(lens, [(7, true), (3, false), (3, true), (7, true)]);
    let at: Vec<_> = dues.iter().map(ticks).collect();
    assert_eq!(at, [0, 189_000, 270_000, 540_000]);
}

#[test]
fn what_stands_before_the_first_reference_goes_at_its_rate() {
    let mut file = vec![];
    for number in 0..7 {
        file.extend_from_slice(&plain(17, number));
    }
    file.extend(stream(&[(5000, 14), (5000 + 1400, 7)]));
    let (sent, dues, _) = all(Config::stored(), &file);
    assert_eq!(sent, file);
    assert_eq!(dues.iter().map(ticks).collect::<Vec<_>>(), [0, 700, 1400, 2100]);
}

#[test]
fn a_broken_clock_goes_on_at_the_rate_before_and_a_wrap_is_none() {
    // 7 packets in 700 ticks; a step back; 14 s ahead; the wrap.
    let last = PCR_WRAP - 700;
    let file =
        stream(&[(9000, 7), (9700, 14), (50, 7), (750, 7), (400_000_000, 7), (last, 7), (0, 7)]);
    let (_, dues, sender) = all(Config::stored(), &file);
    assert_eq!(
        dues.iter().map(ticks).collect::<Vec<_>>(),
        [0, 700, 1400, 2100, 2800, 3500, 4200, 4900]
    );
    assert_eq!(sender.counters().breaks, 3);
}

#[test]
fn an_announced_break_is_one_however_small_the_step() {
    let mut file = stream(&[(0, 7), (700, 7)]);
    file.extend_from_slice(&clocked(256, 14, 701, true));
    for number in 15..21 {
        file.extend_from_slice(&plain(256, number));
    }
    file.extend(stream(&[(1401, 7)]));
    let (_, dues, sender) = all(Config::stored(), &file);
    assert_eq!(dues.iter().map(ticks).collect::<Vec<_>>(), [0, 700, 1400, 2100]);
    assert_eq!(sender.counters().breaks, 1);
}

#[test]
fn a_loop_goes_on_at_the_rate_before() {
    let file = stream(&[(9000, 7), (9700, 7)]);
    let mut sender = Sender::new(Config::stored());
    sender.push(&file);
    sender.splice();
    sender.push(&file);
    sender.finish();
    let (mut out, mut at) = ([0; DATAGRAM], vec![]);
    while let Some(due) = sender.poll_transmit(Instant::from_nanos(1_000_000), &mut out) {
        at.push(ticks(&due));
    }
    // It began at 1 ms, and everything of it but the first datagram is due later.
    assert_eq!(at, [27_000]);
    let later = Instant::from_nanos(1_200_000);
    while let Some(due) = sender.poll_transmit(later, &mut out) {
        at.push(ticks(&due));
    }
    assert_eq!(at, [27_000, 27_700, 28_400, 29_100]);
}

#[test]
fn the_clock_of_a_silent_program_is_given_up_for_another() {
    let mut file = stream(&[(0, 7), (700, 7)]);
    for k in 0..60u64 {
        file.extend_from_slice(&clocked(999, k as u32, 70_000 + k * 700, false));
        for number in 1..7 {
            file.extend_from_slice(&plain(999, number));
        }
    }
    let (sent, dues, sender) = all(Config::stored(), &file);
    assert_eq!(sent, file);
    assert_eq!(sender.counters().references, 2 + 41);
    let steps: Vec<_> = dues.windows(2).map(|pair| ticks(&pair[1]) - ticks(&pair[0])).collect();
    assert!(steps.iter().all(|step| (699..=701).contains(step)), "{steps:?}");
}

#[test]
fn a_stream_without_clock_needs_a_rate() {
    let file: Vec<u8> = (0..100).flat_map(|number| plain(17, number)).collect();
    let mut sender = Sender::new(Config::stored());
    sender.push(&file);
    sender.finish();
    assert_eq!(sender.standing(), Standing::Clockless);
    assert_eq!(sender.poll_transmit(Instant::NEVER, &mut [0; DATAGRAM]), None);
    let fallback = Some(Rate::from_bps(DATAGRAM as u64 * 8 * 1000));
    let (sent, dues, _) = all(Config { fallback, ..Config::stored() }, &file);
    assert_eq!(sent, file);
    let off = |(k, due): (usize, &Due)| ticks(due).abs_diff(k as u64 * 27_000);
    assert!(dues.iter().enumerate().all(|place| off(place) <= 1));
}

#[test]
fn a_late_stream_is_shifted_and_never_bursts() {
    let groups: Vec<_> = (0..100).map(|k| (k * 270_000, 7)).collect();
    let file = stream(&groups);
    let mut sender = Sender::new(Config::stored());
    let ms = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    let mut out = [0; DATAGRAM];
    sender.push(&file);
    sender.finish();
    assert_eq!(sender.poll_transmit(ms(0), &mut out).expect("first").at, ms(0));
    // Late by less: made up for. By more: shifted.
    assert_eq!(sender.poll_transmit(ms(300), &mut out).expect("due").at, ms(10));
    assert_eq!(sender.poll_transmit(ms(5000), &mut out).expect("due").at, ms(5000));
    assert_eq!(sender.poll_transmit(ms(5000), &mut out), None);
    assert_eq!(sender.poll_timeout(), Some(ms(5010)));
    assert_eq!(sender.counters().shifts, 1);
}

#[test]
fn a_live_stream_waits_its_delay_and_waits_again_where_its_source_fails() {
    let ms = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    let delay = Duration::from_millis(40);
    let mut sender = Sender::new(Config { delay, ..Config::stored() });
    let group = |k: u64| stream(&[(k * 540_000, 7)]);
    let mut out = [0; DATAGRAM];
    let mut at = vec![];
    // Groups of 20 ms; 3 of them close with the fourth: enough at 60 ms.
    for k in 0..10u64 {
        sender.push(&group(k));
        while let Some(due) = sender.poll_transmit(ms(k * 20), &mut out) {
            at.push(due.at);
        }
    }
    assert_eq!(at[..2], [ms(40), ms(60)]);
    // Nothing came for 300 ms: the next is due after the delay, and then in rhythm.
    for k in 10..30u64 {
        let now = ms(k * 20 + 300);
        sender.push(&group(k));
        while let Some(due) = sender.poll_transmit(now, &mut out) {
            at.push(due.at);
        }
    }
    let steps: Vec<u64> =
        at.windows(2).map(|p| p[1].since(p[0]).as_millis() as u64).filter(|s| *s != 20).collect();
    assert_eq!(steps.len(), 1, "one gap: {steps:?}");
    assert!(steps[0] >= 300);
    assert_eq!((sender.counters().starved, sender.counters().shifts), (1, 1));
}

#[test]
fn feedback_speed_and_pause_bend_what_is_to_come() {
    let groups: Vec<_> = (0..1000).map(|k| (k * 27_000, 7)).collect();
    let file = stream(&groups);
    let mut streams = Streams::new();
    let mut sender = Sender::new(Config::stored());
    sender.push(&file);
    sender.finish();
    let id = streams.add(sender);
    let mut out = [0; DATAGRAM];
    let mut run = |streams: &mut Streams, until: u64| {
        let mut count = 0;
        while let Some(due) =
            streams.poll_timeout().filter(|due| due.as_nanos() <= until * 1_000_000)
        {
            count += usize::from(streams.poll_transmit(due, &mut out).is_some());
        }
        count
    };
    assert_eq!(run(&mut streams, 99), 100);
    let ms = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    streams.with(id, |s| s.feedback(ms(99), Feedback::SlowDown)).expect("it is there");
    assert_eq!(run(&mut streams, 199), 80);
    streams.with(id, |s| s.feedback(ms(199), Feedback::Normal)).expect("it is there");
    streams.with(id, |s| s.set_speed(ms(199), 2_000_000)).expect("it is there");
    assert_eq!(run(&mut streams, 249), 100);
    streams.with(id, |s| s.pause(ms(249))).expect("it is there");
    assert_eq!(run(&mut streams, 400), 0);
    streams.with(id, |s| s.resume(ms(400))).expect("it is there");
    assert_eq!(run(&mut streams, 405), 10);
    assert!(streams.remove(id).is_some() && streams.remove(id).is_none());
    assert_eq!(streams.with(id, |s| s.room()), None);
}

#[test]
fn a_planned_schedule_is_followed_to_the_tick() {
    let file = stream(&[(0, 20), (2_700_000, 22)]);
    let total = file.len() as u64;
    let half = total / 2;
    let segments = vec![
        Segment { start: 0, position: 0, rate: ExactRate::new(1, 100).expect("rate") },
        Segment {
            start: 5_000_000,
            position: half * POSITION_UNIT,
            rate: ExactRate::new(1, 50).expect("rate"),
        },
    ];
    let peak = segments[1].rate;
    let schedule = Schedule {
        scheme: Scheme::Smooth,
        ticks_per_second: 27_000_000,
        delay: 0,
        buffer: total,
        peak,
        total,
        segments,
    };
    let pacer = Pacer::new(Follow::owned(schedule), DATAGRAM as u32);
    let timing = Timing::Paced { pacer: Box::new(pacer), ticks_per_second: 27_000_000 };
    let (sent, dues, _) = all(Config { timing, ..Config::stored() }, &file);
    assert_eq!(sent, file);
    // A datagram's instant is that of its last byte.
    let zero = ticks(&dues[0]);
    let mut position = 0;
    for due in &dues {
        position += due.len as u64;
        let expected = match position {
            _ if position <= half => position * 100,
            _ => 5_000_000 + (position - half) * 50,
        };
        let first = DATAGRAM as u64 * 100;
        assert_eq!(ticks(due) - zero, expected - first, "byte {position}");
    }
}

/// The rule of the first source (§4.3.3 to §4.5), counted by hand: three groups of one datagram;
/// the second is early, the third late.
#[test]
fn pcbr_holds_while_early_and_pdcbr_changes_its_rate() {
    let bytes = DATAGRAM as u64;
    let file = stream(&[(0, 7), (bytes * 30, 7), (bytes * 31, 7), (bytes * 32, 7)]);
    let send = |pacer: Box<dyn crate::pace::Pace + Send>| {
        let timing = Timing::Paced { pacer, ticks_per_second: 27_000_000 };
        let (_, dues, _) = all(Config { timing, ..Config::stored() }, &file);
        dues.iter().map(|due| ticks(due).wrapping_sub(ticks(&dues[0])) / bytes).collect::<Vec<_>>()
    };
    // 20 ticks a byte: the first ends at 20, the second is held until 30 and ends at 50, the third
    // and the fourth are late and go on at once.
    let pcbr = Pcbr::new(ExactRate::new(1, 20).expect("rate")).expect("rate");
    assert_eq!(send(Box::new(Pacer::new(pcbr, DATAGRAM as u32))), [0, 30, 50, 70]);
    // High 20, low 40: the second starts early at 20, goes slowly and ends at 60; then late: high.
    let rates = DualRate::new(ExactRate::new(1, 20).expect("rate"), 10, 20).expect("rates");
    let pdcbr = Pacer::new(Pdcbr::new(rates), DATAGRAM as u32);
    assert_eq!(send(Box::new(pdcbr)), [0, 40, 60, 80]);
}

#[test]
fn the_tick_grows_with_the_load() {
    let at = Instant::from_nanos(1_000_001);
    assert_eq!(Tick::for_load(380).wake(at), at);
    assert_eq!(Tick::for_load(600 * 380).wake(at), Instant::from_nanos(1_500_000));
    assert!(Tick::for_load(400 * 380).length() < Tick::for_load(600 * 380).length());
}

#[test]
fn many_streams_go_out_in_the_order_in_which_they_are_due() {
    let mut streams = Streams::new();
    for k in 0..300u64 {
        let groups: Vec<_> = (0..20).map(|g| (g * 27_000 + k * 3, 7)).collect();
        let mut sender = Sender::new(Config::stored());
        sender.push(&stream(&groups));
        sender.finish();
        streams.add(sender);
    }
    let (mut out, mut last, mut count) = ([0; DATAGRAM], Instant::ZERO, 0);
    while let Some(now) = streams.poll_timeout() {
        while let Some((_, due)) = streams.poll_transmit(now, &mut out) {
            assert!(due.at >= last && due.at <= now.max(last));
            (last, count) = (due.at, count + 1);
        }
    }
    assert_eq!(count, 300 * 20);
}

#[test]
fn references_that_stand_still_or_leap_are_passed_over_and_nothing_leaves_in_a_burst() {
    let still = [(0, 40), (0, 40), (1, 40), (540_000, 40), (1_080_000, 40)];
    let (sent, dues, sender) = all(Config::stored(), &stream(&still));
    assert_eq!((sent, sender.counters().breaks), (stream(&still), 0));
    let at_once = |due: &Due| dues.iter().filter(|other| other.at == due.at).count();
    assert!(dues.iter().all(|due| at_once(due) == 1), "{dues:?}");
    // One of nothing else has no clock.
    let mut sender = Sender::new(Config::stored());
    let file = stream(&[(7, 40); 400]);
    let mut at = 0;
    while at < file.len() && sender.room() > 0 {
        let len = sender.room().min(file.len() - at);
        sender.push(&file[at..at + len]);
        at += len;
    }
    sender.finish();
    assert_eq!((sender.standing(), sender.poll_timeout()), (Standing::Clockless, None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_packet_leaves_once_in_order_and_each_at_its_time(
        groups in prop::collection::vec((1u64..3_000_000, 1usize..60), 2..40),
        start in 0..PCR_WRAP,
    ) {
        let (mut at, mut before) = (start, 0);
        let groups: Vec<_> = groups
            .iter()
            .map(|&(step, packets)| {
                // What lies between two references goes no faster than any stream is sent.
                at += step.max(before as u64 * 188 / 5 + 1);
                before = packets;
                (at % PCR_WRAP, packets)
            })
            .collect();
        let file = stream(&groups);
        let (sent, dues, sender) = all(Config::stored(), &file);
        prop_assert_eq!(&sent, &file);
        prop_assert_eq!(sender.counters().breaks, 0);
        // References are met at their time, to the tick.
        let clocks: Vec<_> = dues.iter().filter(|due| due.clock).map(ticks).collect();
        for (k, tick) in clocks.iter().enumerate() {
            let expected = (groups[k].0 + PCR_WRAP - groups[0].0) % PCR_WRAP;
            prop_assert!(tick.abs_diff(expected) <= 1, "reference {}", k);
        }
        prop_assert!(dues.windows(2).all(|pair| pair[0].at <= pair[1].at));
    }

    #[test]
    fn any_bytes_end_and_stay_within_the_window(
        pieces in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..400),
                (any::<u16>(), any::<u64>(), any::<bool>())
                    .prop_map(|(pid, at, told)| clocked(pid & 0x1FFF, 0, at, told).to_vec()),
                (1usize..400).prop_map(|n| stream(&[(7, n)])),
            ],
            0..60,
        ),
        repeats in 1usize..200,
    ) {
        let fallback = Some(Rate::from_mbps(4));
        let mut sender = Sender::new(Config { fallback, ..Config::stored() });
        let mut out = [0; DATAGRAM];
        let mut now = Instant::ZERO;
        let mut held = 0;
        for piece in pieces.iter().cycle().take(pieces.len() * repeats) {
            if sender.room() > 0 {
                sender.push(piece);
            }
            held = held.max(sender.waiting());
            while sender.room() == 0 {
                now = now.max(sender.poll_timeout().expect("what is full can be sent"));
                while sender.poll_transmit(now, &mut out).is_some() {}
            }
        }
        prop_assert!(held <= WINDOW_MAX + WINDOW_FILL + 80_000);
        sender.finish();
        let mut turns = 0u32;
        while !sender.is_finished() {
            now = now.max(sender.poll_timeout().expect("something is to be sent"));
            while sender.poll_transmit(now, &mut out).is_some() {}
            turns += 1;
            prop_assert!(turns < 1_000_000);
        }
        prop_assert_eq!(sender.waiting(), 0);
    }
}

#[test]
fn streams_are_counted_and_found_by_names_that_are_given_once() {
    let mut streams = Streams::new();
    assert_eq!((streams.is_empty(), streams.len()), (true, 0));
    let one = streams.add(Sender::new(Config::stored()));
    let other = streams.add(Sender::new(Config::stored()));
    assert_eq!((streams.len(), streams.is_empty()), (2, false));
    streams.with(other, |sender| sender.push(&stream(&[(0, 3)]))).expect("it is there");
    let waiting = |streams: &Streams, id| streams.get(id).map(Sender::waiting);
    assert_eq!((waiting(&streams, one), waiting(&streams, other)), (Some(0), Some(3 * PACKET)));
    assert!(streams.remove(one).is_some());
    assert!(streams.remove(one).is_none() && streams.get(one).is_none());
    assert!(streams.with(one, |_| ()).is_none());
    assert_eq!(streams.len(), 1);
    // Its place is given again, its name is not.
    let third = streams.add(Sender::new(Config::stored()));
    assert_eq!((third.slot(), third == one, streams.len()), (one.slot(), false, 2));
    assert!(streams.get(one).is_none());
    assert_eq!((waiting(&streams, third), waiting(&streams, other)), (Some(0), Some(3 * PACKET)));
}

#[test]
fn what_waits_is_dropped_when_play_goes_on_elsewhere() {
    let mut sender = Sender::new(Config::stored());
    let empty = sender.room();
    sender.push(&stream(&[(0, 5), (27_000_000, 5), (54_000_000, 5)]));
    let mut out = [0; DATAGRAM];
    assert!(sender.poll_transmit(Instant::ZERO, &mut out).is_some());
    sender.finish();
    sender.flush();
    assert_eq!(sender.room(), empty);
    assert!(sender.poll_transmit(Instant::ZERO, &mut out).is_none());
    assert_eq!(sender.poll_timeout(), None);
    // It is not at its end: another stretch is sent as if it were the first.
    let next = stream(&[(900, 2), (27_000_900, 2)]);
    sender.push(&next);
    sender.finish();
    let (mut sent, mut now) = (vec![], Instant::ZERO);
    while let Some(at) = sender.poll_timeout() {
        now = now.max(at);
        while let Some(due) = sender.poll_transmit(now, &mut out) {
            sent.extend_from_slice(&out[..due.len]);
        }
    }
    assert!(sent == next, "{} bytes", sent.len());
    assert!(sender.is_finished());
}

#[test]
fn a_stream_that_is_held_asks_for_nothing_until_it_goes_on() {
    let mut sender = Sender::new(Config::stored());
    sender.pause(Instant::ZERO);
    sender.push(&stream(&[(0, 5), (27_000_000, 5), (54_000_000, 5)]));
    sender.finish();
    let mut out = [0; DATAGRAM];
    assert_eq!(sender.poll_timeout(), None);
    assert!(sender.poll_transmit(Instant::ZERO, &mut out).is_none());
    let later = Instant::ZERO + Duration::from_secs(9);
    sender.resume(later);
    assert!(sender.poll_timeout().is_some_and(|at| at <= later));
    assert!(sender.poll_transmit(later, &mut out).is_some());
}

#[test]
fn a_stream_that_becomes_due_sooner_is_looked_at_sooner() {
    let mut streams = Streams::new();
    let mut late = Sender::new(Config::stored());
    late.push(&stream(&[(0, 2), (27_000_000, 2), (54_000_000, 2)]));
    late.finish();
    let mut out = [0; DATAGRAM];
    while late.poll_transmit(Instant::ZERO, &mut out).is_some() {}
    let id = streams.add(late);
    let first = streams.poll_timeout().expect("more is due");
    let before = streams.with(id, |sender| {
        sender.set_speed(Instant::ZERO, 2_000_000);
        sender.poll_timeout().expect("it is due")
    });
    let before = before.expect("it is there");
    assert!(before < first, "{before:?} {first:?}");
    assert_eq!(streams.poll_timeout(), Some(before));
}
