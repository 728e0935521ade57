//! What one path allows, asks and learns, as its association sees it.

use core::time::Duration;
use std::vec::Vec;

use towpath_wire::bytes::Writer;
use towpath_wire::frame::{Frame, Frames, emit_ack};
use towpath_wire::{ChannelId, Instant, LinkId, PathId};

use super::arrivals::Asks;
use super::flight::{Item, PACKETS_MAX};
use super::path::{Departure, Outcome, Path};
use crate::config::Config;
use crate::congestion::CongestionKind;

const DATAGRAM: u32 = 1472;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn path_of(config: &Config) -> Path {
    Path::new(PathId(0), LinkId(0), ([10, 0, 0, 1], 1).into(), config)
}

/// A path whose window stays as it is, and that nobody paces.
fn fixed(window: u64) -> Path {
    path_of(&Config { congestion: CongestionKind::Fixed(window), ..Config::default() })
}

fn aimd() -> Path {
    path_of(&Config { congestion: CongestionKind::Aimd, ..Config::default() })
}

const fn open(channel: u64) -> Item {
    Item::Open(ChannelId(channel as u32))
}

/// `count` packets of `bytes` that ask for an acknowledgement, each with an item of its number.
fn send(path: &mut Path, now: Instant, count: u64, bytes: u32) {
    let departure = Departure { bytes, eliciting: true, ..Departure::at(now) };
    for _ in 0..count {
        let item = open(path.next_number());
        path.depart(departure, &[item]);
    }
}

/// So many packets that hold acknowledgements only.
fn send_acks(path: &mut Path, now: Instant, count: u64) {
    let departure = Departure { bytes: 60, ..Departure::at(now) };
    (0..count).for_each(|_| path.depart(departure, &[]));
}

/// The peer waited `delay` before it said which packets came; the datagram waited `late` for us.
fn acked(
    path: &mut Path,
    (now, late, delay): (Instant, Duration, Duration),
    largest: u64,
    words: &[u64],
) -> Outcome {
    let (mut bytes, mut out) = ([0; 256], Outcome::default());
    let mut w = Writer::new(&mut bytes);
    emit_ack(&mut w, PathId(0), delay.as_micros() as u32, largest, words);
    let frame = Frames::new(&bytes).next();
    let Some(Ok(Frame::Ack(ack))) = frame else { panic!("{frame:?}") };
    assert!(path.on_ack(now, late, &ack, &mut out));
    out
}

fn ack(path: &mut Path, now: Instant, largest: u64, word: u64) -> Outcome {
    acked(path, (now, Duration::ZERO, Duration::ZERO), largest, &[word])
}

#[test]
fn room_is_what_the_window_leaves_and_none_unless_a_whole_datagram_fits() {
    let window = 10 * u64::from(DATAGRAM);
    let mut path = fixed(window);
    assert_eq!((path.room(at(0)), path.window(), path.in_flight()), (window, window, 0));
    send_acks(&mut path, at(0), 5);
    assert_eq!(path.room(at(0)), window, "mere acknowledgements take none");
    send(&mut path, at(0), 9, DATAGRAM);
    assert_eq!(path.room(at(0)), DATAGRAM.into(), "just one datagram");
    send(&mut path, at(0), 1, 1);
    assert_eq!((path.room(at(0)), path.in_flight()), (0, window - u64::from(DATAGRAM) + 1));
    assert_eq!(path.pace_at(), None, "it is not the pacer that holds it");
    // Two of the ten arrive: what they took is free again.
    ack(&mut path, at(20), 6, 0b11);
    assert_eq!(path.room(at(20)), 3 * u64::from(DATAGRAM) - 1);
}

#[test]
fn a_path_has_half_as_many_packets_under_way_as_its_peer_tells_apart() {
    let mut path = fixed(1 << 30);
    send(&mut path, at(0), PACKETS_MAX as u64 - 1, 1);
    assert!(path.room(at(0)) > 0);
    send(&mut path, at(0), 1, 1);
    assert_eq!(path.room(at(0)), 0);
    // The oldest has arrived, and the second has not.
    ack(&mut path, at(20), 0, 1);
    path.detect_losses(at(20), &mut Outcome::default());
    assert!(path.room(at(20)) > 0);
    send(&mut path, at(20), 1, 1);
    assert_eq!(path.room(at(20)), 0);
}

#[test]
fn what_is_forgotten_for_lack_of_room_goes_out_again() {
    let mut path = fixed(1 << 30);
    send(&mut path, at(0), 2, 100);
    send_acks(&mut path, at(1), 2 * PACKETS_MAX as u64 - 2);
    assert_eq!((path.loss_at, path.in_flight()), (None, 200));
    send_acks(&mut path, at(7), 1);
    assert_eq!((path.loss_at, path.in_flight()), (Some(at(7)), 100), "the first has to go");
    let mut out = Outcome::default();
    path.detect_losses(at(7), &mut out);
    assert_eq!((out.lost, out.packets_lost), ([open(0)].into(), 1));
    let mut out = Outcome::default();
    path.detect_losses(at(8), &mut out);
    assert_eq!((out.lost.len(), out.packets_lost), (0, 0), "once");
}

#[test]
fn after_a_sample_the_pacer_holds_data_until_its_time_and_wakes_who_waits_once() {
    let mut path = path_of(&Config::default());
    send(&mut path, at(0), 4, DATAGRAM);
    assert!(path.room(at(0)) > 0, "nobody waits while no round trip is known");
    ack(&mut path, at(100), 3, 0b1111);
    while path.room(at(100)) > 0 {
        send(&mut path, at(100), 1, DATAGRAM);
    }
    let until = path.paced_until();
    assert!(path.in_flight() < path.window() && until > at(100), "{until}");
    assert!(path.room(until) > 0 && path.room(until - Duration::from_nanos(1)) == 0);
    let wake = path.pace_at().expect("it waits for the pacer alone");
    assert!(wake >= until && wake < until + ms(50), "{wake}");
    path.standing.up = false;
    assert_eq!(path.pace_at(), None, "nothing goes out on it");
    path.standing.up = true;
    path.pace(wake - Duration::from_nanos(1));
    assert_eq!(path.pace_at(), Some(wake), "too early");
    path.pace(wake);
    assert_eq!(path.pace_at(), None);
}

#[test]
fn every_32nd_acknowledgement_asks_for_one_and_every_8th_while_maps_are_long() {
    let mut path = fixed(1 << 20);
    send_acks(&mut path, at(0), 31);
    assert!(!path.wants_ping());
    send_acks(&mut path, at(0), 1);
    assert!(path.wants_ping());
    send(&mut path, at(0), 1, 100);
    assert!(!path.wants_ping(), "that one asked");
    // 1024 packets that the peer does not know to have arrived, and one more.
    path.arrivals.arrived(at(0), 1024, Asks::Nothing, ms(2));
    send_acks(&mut path, at(0), 8);
    assert!(!path.wants_ping());
    path.arrivals.arrived(at(0), 1025, Asks::Nothing, ms(2));
    assert!(path.wants_ping());
    send(&mut path, at(0), 1, 100);
    send_acks(&mut path, at(0), 7);
    assert!(!path.wants_ping());
    send_acks(&mut path, at(0), 1);
    assert!(path.wants_ping());
    assert_eq!(path.arrivals.count, 2);
}

#[test]
fn longer_datagrams_are_tried_once_the_peer_answers_and_there_is_room() {
    let config = Config {
        datagram_max: 9000,
        congestion: CongestionKind::Fixed(20_000),
        ..Config::default()
    };
    let mut path = path_of(&config);
    send(&mut path, at(0), 1, DATAGRAM);
    assert_eq!(path.trial(at(0)), None, "nobody has answered");
    ack(&mut path, at(20), 0, 1);
    send(&mut path, at(20), 8, DATAGRAM);
    assert_eq!(path.trial(at(20)), None, "no room for so many bytes");
    ack(&mut path, at(40), 8, 0xff);
    assert_eq!(path.trial(at(40)), Some(9000));
    path.trial_departs(9000);
    send(&mut path, at(40), 1, 9000);
    assert_eq!((path.trial(at(40)), path.datagram), (None, 1472), "one at a time");
    ack(&mut path, at(60), 9, 1);
    assert_eq!(path.datagram, 9000);
    // Room is counted in such datagrams from now on.
    send(&mut path, at(60), 1, 11_001);
    assert_eq!(path.room(at(60)), 0);
    path.longest_told(at(60), 8000);
    assert_eq!((path.datagram, path.room(at(60))), (8000, 8999));
    path.longest_told(at(60), 9500);
    assert_eq!(path.datagram, 8000, "more is no reason to send more at once");
}

#[test]
fn the_loss_of_a_trial_is_no_sign_of_congestion_and_that_of_data_is() {
    for (trial, part) in [(true, 1), (false, 2)] {
        let config =
            Config { datagram_max: 1500, congestion: CongestionKind::Aimd, ..Config::default() };
        let mut path = path_of(&config);
        send(&mut path, at(0), 1, DATAGRAM);
        ack(&mut path, at(20), 0, 1);
        let window = path.window();
        if trial {
            assert_eq!(path.trial(at(1000)), Some(1500));
            path.trial_departs(1500);
        }
        send(&mut path, at(1000), 1, 1500);
        send(&mut path, at(1001), 3, 100);
        let out = ack(&mut path, at(1020), 4, 0b111);
        assert_eq!((out.lost, out.packets_lost), ([open(1)].into(), 1), "it is sent again");
        assert_eq!(path.window(), window / part, "a trial: {trial}");
        assert_eq!(path.datagram, 1472);
    }
}

#[test]
fn ten_long_packets_lost_in_a_row_shorten_the_datagrams() {
    let mut path = fixed(1 << 20);
    send(&mut path, at(0), 1, DATAGRAM);
    ack(&mut path, at(20), 0, 1);
    for (lost, datagram) in [(9, 1472), (1, 1232)] {
        send(&mut path, at(1000), lost, DATAGRAM);
        send(&mut path, at(1000), 3, 100);
        let last = path.next_number() - 1;
        let out = ack(&mut path, at(1020), last, 0b111);
        assert_eq!((out.packets_lost, path.datagram), (lost, datagram));
    }
}

#[test]
fn marks_slow_the_path_down_once_each_time_that_there_are_more_of_them() {
    let mut path = aimd();
    let mut number = 0;
    let mut round = |path: &mut Path, marked: u64, now: u64| {
        path.on_marks(marked);
        send(path, at(now), 1, DATAGRAM);
        ack(path, at(now + 20), number, 1);
        number += 1;
        path.window() / u64::from(DATAGRAM)
    };
    assert_eq!(round(&mut path, 0, 0), 10);
    assert_eq!(round(&mut path, 1, 100), 5);
    assert_eq!(round(&mut path, 1, 200), 5, "as many as before");
    assert_eq!(round(&mut path, 0, 300), 5, "an old count came late");
    assert_eq!(round(&mut path, 1, 400), 5, "as many as before it");
    assert_eq!(round(&mut path, 2, 500), 2);
}

#[test]
fn what_counted_as_lost_and_arrives_is_counted_once_and_takes_the_blame_back() {
    let mut path = aimd();
    send(&mut path, at(0), 5, DATAGRAM);
    let window = path.window();
    let out = ack(&mut path, at(20), 3, 0b111);
    assert_eq!((out.lost, out.spurious, out.progress), ([open(0)].into(), 0, true));
    assert_eq!(out.acked, [open(1), open(2), open(3)], "oldest first");
    assert!(path.window() < window);
    assert_eq!(path.in_flight(), DATAGRAM.into());
    let out = ack(&mut path, at(21), 3, 0b1111);
    assert_eq!((out.acked, out.spurious, out.progress), ([open(0)].into(), 1, true));
    assert_eq!((path.window() >= window, path.in_flight()), (true, DATAGRAM.into()));
    let out = ack(&mut path, at(22), 3, 0b1111);
    assert_eq!((out.acked.len(), out.spurious, out.progress), (0, 0, false), "that is known");
    // From now on time alone decides, not three later packets.
    send(&mut path, at(30), 8, DATAGRAM);
    let out = ack(&mut path, at(50), 12, 0b1111);
    assert_eq!(out.lost, [open(4)], "that one is old enough");
    let due = path.loss_at.expect("the others are overtaken");
    assert!(due > at(50), "{due}");
    let mut out = Outcome::default();
    path.detect_losses(due, &mut out);
    assert_eq!(out.lost, (5..9).map(open).collect::<Vec<_>>());
}

#[test]
fn maps_of_many_words_settle_all_that_they_show_and_nothing_else() {
    let mut path = fixed(1 << 20);
    send(&mut path, at(0), 200, 100);
    // Of 199 down: every second one, all, none, and the last eight.
    let words = [0x5555_5555_5555_5555, u64::MAX, 0, 0xff];
    let out = acked(&mut path, (at(20), Duration::ZERO, Duration::ZERO), 199, &words);
    let shown = |n: &u64| match 199 - n {
        below @ 0..64 => below % 2 == 0,
        128..192 => false,
        _ => true,
    };
    let mut came = out.acked.clone();
    came.sort_by_key(|item| if let Item::Open(c) = item { c.0 } else { u32::MAX });
    assert_eq!(came, (0..200).filter(shown).map(open).collect::<Vec<_>>());
    // All the others but the last two were overtaken by three and more.
    let lost: Vec<_> = (0..197).filter(|n| !shown(n)).map(open).collect();
    assert_eq!((out.packets_lost, out.lost), (lost.len() as u64, lost));
    assert_eq!(path.in_flight(), 100, "packet 198");
}

#[test]
fn the_round_trip_is_that_of_the_newest_packet_less_what_the_peer_waited() {
    let mut path = fixed(1 << 20);
    let zero = Duration::ZERO;
    send(&mut path, at(0), 2, 100);
    acked(&mut path, (at(20), zero, zero), 1, &[1]);
    assert_eq!(path.rtt.longest(), ms(20));
    // An older one says nothing.
    acked(&mut path, (at(90), zero, zero), 1, &[3]);
    assert_eq!((path.rtt.smoothed(), path.rtt.longest()), (ms(20), ms(20)));
    // The peer may wait for 2 ms, and no more than that is taken off.
    for (now, waits, counts) in [(1000, 1, 27), (2000, 2, 26), (3000, 7, 26)] {
        let before = path.rtt.smoothed();
        send(&mut path, at(now), 1, 100);
        let top = path.next_number() - 1;
        acked(&mut path, (at(now + 28), zero, ms(waits)), top, &[1]);
        assert_eq!(path.rtt.smoothed(), (before * 7 + ms(counts)) / 8, "waited {waits} ms");
    }
}

#[test]
fn a_packet_that_counted_as_lost_says_nothing_of_the_round_trip() {
    let mut path = fixed(1 << 20);
    send(&mut path, at(0), 1, 100);
    ack(&mut path, at(20), 0, 1);
    send(&mut path, at(100), 2, 100);
    // The second is overtaken by nothing until a third, of the same moment, is answered late.
    send(&mut path, at(100), 4, 100);
    let out = ack(&mut path, at(120), 5, 1);
    assert_eq!(out.lost, [open(1), open(2)], "three later ones");
    let before = (path.rtt.smoothed(), path.rtt.longest());
    let out = ack(&mut path, at(500), 6, 0b11_0000);
    assert_eq!(out.spurious, 2);
    assert_eq!((path.rtt.smoothed(), path.rtt.longest()), before);
}

#[test]
fn what_waited_for_us_to_read_it_overtakes_nothing_that_may_still_wait() {
    for (late, lost) in [(0, 1), (10, 0)] {
        let mut path = fixed(1 << 20);
        send(&mut path, at(0), 1, 100);
        ack(&mut path, at(20), 0, 1);
        send(&mut path, at(100), 1, 100);
        send(&mut path, at(110), 1, 100);
        // 32 ms after the first left: that is too long, unless the word of it lay here for long.
        let out = acked(&mut path, (at(132), ms(late), Duration::ZERO), 2, &[1]);
        assert_eq!(out.packets_lost, lost, "{late} ms late");
    }
}
