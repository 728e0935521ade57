//! Which channels may be opened, by whom, and what becomes of their credit.

use core::time::Duration;
use std::vec::Vec;

use towpath_wire::frame::{ChannelOpen, MESSAGE_CHARGE};
use towpath_wire::{ChannelId, Direction, Instant, Reliability};

use super::channel::{Channel, Opening, PeerLimits};
use super::channels::{Channels, Growth, OpenRefused};
use crate::config::Config;

const PEER: PeerLimits =
    PeerLimits { window: 1 << 20, channels_max: 64, credit: 1 << 28, paths: 16 };
const OURS: Opening = Opening::new(Direction::Opener, 7);

fn window(bytes: u32) -> Opening {
    Opening { window: Some(bytes), ..OURS }
}

/// What a peer says of a channel by which it sends.
fn theirs(id: u32, limit: u64) -> ChannelOpen {
    let (direction, reliability) = (Direction::Opener, Reliability::ReliableOrdered);
    ChannelOpen { label: 7, ..ChannelOpen::new(ChannelId(id), direction, reliability, limit) }
}

/// A channel of ours ends: the peer knows it, and knows that it is over.
fn end(channels: &mut Channels, id: ChannelId) {
    channels.with(id, |c| (c.known, c.close_acked) = (true, true));
    channels.forget(id);
}

fn growth(config: &Config) -> Growth<'_> {
    Growth { now: Instant::ZERO, trip: Duration::ZERO, config }
}

#[test]
fn the_initiator_opens_even_numbers_and_the_responder_odd_ones_none_twice() {
    let config = Config::default();
    for initiator in [true, false] {
        let mut channels = Channels::new(initiator);
        let first = u32::from(!initiator);
        for n in 0..5 {
            assert!(!channels.is_past(ChannelId(first + 2 * n)), "not open yet");
            assert_eq!(channels.open(OURS, PEER, &config), Some(ChannelId(first + 2 * n)));
        }
        let last = ChannelId(first + 8);
        end(&mut channels, last);
        assert!(channels.get(last).is_none() && channels.is_past(last));
        assert_eq!(channels.open(OURS, PEER, &config), Some(ChannelId(first + 10)));
        assert_eq!(channels.iter().count(), 5);
    }
}

#[test]
fn both_sides_bound_the_number_of_channels_and_their_credit_to_the_byte() {
    let open = |channels: &mut Channels, config: &Config, opening| {
        channels.open(opening, PEER, config).map(|id| channels.get(id).expect("open").open.limit)
    };
    // Windows: what is asked, cut to what either side allows, and never too small for a message.
    let config = Config { window: 5000, window_max: 9000, credit_max: 30_000, ..Config::default() };
    let mut channels = Channels::new(true);
    assert_eq!(open(&mut channels, &config, OURS), Some(5000));
    assert_eq!(open(&mut channels, &config, window(10_000)), Some(9000));
    assert_eq!(open(&mut channels, &config, window(0)), Some(MESSAGE_CHARGE));
    let left = 30_000 - 14_000 - MESSAGE_CHARGE as u32;
    assert_eq!(open(&mut channels, &config, window(9000)), Some(9000));
    assert_eq!(open(&mut channels, &config, window(left - 9000 + 1)), None, "a byte too much");
    assert_eq!(open(&mut channels, &config, window(left - 9000)), Some(u64::from(left) - 9000));
    assert_eq!(open(&mut channels, &config, window(0)), None, "nothing is left");
    // What one had is free once it is over.
    end(&mut channels, ChannelId(2));
    assert_eq!(open(&mut channels, &config, window(9000)), Some(9000));
    // The peer's bounds count as ours do.
    let strict = PeerLimits { window: 700, channels_max: 3, credit: 1500, paths: 16 };
    let mut channels = Channels::new(true);
    let id = channels.open(window(9000), strict, &config).expect("room");
    assert_eq!(channels.get(id).expect("open").open.limit, 700);
    assert!(channels.open(window(801), strict, &config).is_some(), "cut to 700");
    assert_eq!(channels.open(window(101), strict, &config), None);
    assert!(channels.open(window(100), strict, &config).is_some(), "the last byte");
    let many = PeerLimits { credit: 1 << 20, ..strict };
    assert_eq!(channels.open(window(64), many, &config), None, "three at most");
    let few = Config { channels_max: 2, ..config };
    let mut channels = Channels::new(false);
    let opened = (0..4).filter(|_| channels.open(window(64), many, &few).is_some());
    assert_eq!(opened.count(), 2);
}

#[test]
fn the_peers_channels_are_bounded_and_an_open_that_comes_again_opens_nothing() {
    let config = Config { window_max: 9000, credit_max: 20_000, ..Config::default() };
    let mut channels = Channels::new(true);
    let mut open = |id, limit| channels.opened(theirs(id, limit), &config);
    assert_eq!(open(0, 5000), Err(OpenRefused::Fault), "even numbers are ours");
    assert_eq!(open(1, MESSAGE_CHARGE - 1), Err(OpenRefused::Fault), "too small for a message");
    assert_eq!(open(1, 9001), Err(OpenRefused::Fault), "more than we offer");
    assert_eq!((open(1, 9000), open(1, 9000)), (Ok(true), Ok(false)));
    assert_eq!(open(5, MESSAGE_CHARGE), Ok(true), "numbers may come in any order");
    assert_eq!(open(3, 9000), Ok(true));
    let left = 20_000 - 18_000 - MESSAGE_CHARGE;
    assert_eq!(open(7, left + 1), Err(OpenRefused::TooMany));
    assert_eq!(open(7, left), Ok(true), "to the last byte");
    assert_eq!(open(9, MESSAGE_CHARGE), Err(OpenRefused::TooMany));
    assert!([1, 3, 5, 7].iter().all(|id| channels.is_past(ChannelId(*id))));
    assert!(!channels.is_past(ChannelId(9)), "it may come again");
    let few = Config { channels_max: 2, ..Config::default() };
    let mut channels = Channels::new(false);
    let opened: Vec<_> = [0, 2, 4].map(|id| channels.opened(theirs(id, 64), &few)).into();
    assert_eq!(opened, [Ok(true), Ok(true), Err(OpenRefused::TooMany)]);
    // Ours and theirs have shares of their own.
    assert!(channels.open(window(64), PEER, &few).is_some());
}

#[test]
fn each_side_has_the_halves_that_the_direction_gives_it() {
    let config = Config::default();
    for (direction, ours, peers) in [
        (Direction::Both, (true, true), (true, true)),
        (Direction::Opener, (true, false), (false, true)),
        (Direction::Acceptor, (false, true), (true, false)),
    ] {
        let mut channels = Channels::new(true);
        let opening = Opening { direction, ..OURS };
        let id = channels.open(opening, PEER, &config).expect("room");
        channels.opened(ChannelOpen { direction, ..theirs(1, 64) }, &config).expect("room");
        let halves = |id| {
            let c = channels.get(id).expect("open");
            (c.send.is_some(), c.receive.is_some())
        };
        assert_eq!((halves(id), halves(ChannelId(1))), (ours, peers), "{direction:?}");
    }
}

#[test]
fn a_channel_is_kept_until_both_directions_are_over_and_the_peer_knows_it() {
    let config = Config::default();
    for missing in 0..3 {
        let mut channels = Channels::new(true);
        let id = channels.open(OURS, PEER, &config).expect("room");
        channels.with(id, |c| (c.known, c.close_acked) = (missing != 0, missing != 1));
        channels.forget(id);
        assert_eq!(channels.get(id).is_some(), missing < 2, "{missing}");
    }
    // By this one the peer sends: it is over when all has come, and its owner was told.
    for told in [false, true] {
        let mut channels = Channels::new(true);
        channels.opened(theirs(1, 64), &config).expect("room");
        let id = ChannelId(1);
        channels.forget(id);
        assert!(channels.get(id).is_some(), "it has just begun");
        channels.with(id, |c| {
            c.receive.as_mut().expect("they send").set_last(0).expect("none came");
            c.end_told = told;
        });
        channels.forget(id);
        assert_eq!(channels.get(id).is_none(), told);
    }
}

#[test]
fn control_frames_of_each_channel_are_written_once_and_what_has_no_room_is_first_again() {
    let config = Config::default();
    let mut channels = Channels::new(true);
    assert!(!channels.has_control());
    let ids: Vec<_> = (0..3).map(|_| channels.open(OURS, PEER, &config).expect("room")).collect();
    assert!(channels.has_control());
    let mut written = Vec::new();
    // The second finds no room.
    assert!(channels.write_control(growth(&config), |c| {
        written.push(c.open.channel);
        c.due.open = false;
    }));
    assert!(!channels.write_control(growth(&config), |c| written.push(c.open.channel)));
    assert!(channels.has_control());
    while channels.write_control(growth(&config), |c| {
        written.push(c.open.channel);
        c.due.open = false;
    }) {}
    assert_eq!(written, [ids[0], ids[1], ids[1], ids[2]]);
    assert!(!channels.has_control());
    // What can wait is no reason for a packet, but goes along; what presses is one.
    channels.with(ids[0], |c| (c.due.limit, c.due.patient) = (true, true));
    assert!(!channels.has_control());
    channels.with(ids[1], |c| c.due.close = true);
    assert!(channels.has_control());
    written.clear();
    while channels.write_control(growth(&config), |c| {
        written.push(c.open.channel);
        (c.due.limit, c.due.close) = (false, false);
    }) {}
    assert_eq!(written, ids[..2]);
    assert!(!channels.has_control());
    // A channel that is forgotten has nothing to say.
    channels.with(ids[2], |c| c.due.limit = true);
    end(&mut channels, ids[2]);
    assert!(!channels.has_control());
}

#[test]
fn a_scheduler_is_told_of_channels_with_data_and_gets_the_one_it_names() {
    let config = Config::default();
    let mut channels = Channels::new(true);
    let ids: Vec<_> = (0..3).map(|_| channels.open(OURS, PEER, &config).expect("room")).collect();
    let block = crate::memory::Block { index: 0, generation: 0 };
    assert!(!channels.has_data(None) && channels.pick(None).is_none());
    for id in &ids[1..] {
        let pushed = channels.with(*id, |c| {
            c.send.as_mut().expect("we send").push(block, 10, Instant::NEVER).is_ok()
        });
        assert_eq!(pushed, Some(true));
    }
    let only = |channels: &mut Channels, id| (channels.has_data(Some(id)), channels.pick(Some(id)));
    assert_eq!(only(&mut channels, ids[0]), (false, None));
    assert_eq!(only(&mut channels, ids[1]), (true, Some(ids[1])));
    assert_eq!(only(&mut channels, ChannelId(99)), (false, None));
    let mut listed: Vec<_> = channels.with_data().collect();
    listed.sort();
    assert_eq!(listed, ids[1..]);
    let turns: Vec<_> = (0..4).map(|_| channels.pick(None)).collect();
    assert_eq!(turns[..2], turns[2..], "in turn");
    assert!(turns[0] != turns[1] && channels.has_data(None), "{turns:?}");
}

#[test]
fn windows_grow_to_a_bound_and_take_nothing_of_what_the_peer_may_open() {
    let ms = |n: u64| Instant::ZERO + Duration::from_millis(n);
    let config = Config { window: 1000, window_max: 4000, credit_max: 10_000, ..Config::default() };
    let trip = Duration::from_millis(20);
    let mut channels = Channels::new(true);
    // A quarter and more of a window is used and given back every millisecond.
    let used = |channels: &mut Channels, id: u32, times: u64| {
        let id = ChannelId(id);
        for n in 1..=times {
            channels.with(id, |c| {
                let receive = c.receive.as_mut().expect("it sends to us");
                receive.take_for_test(receive.window() as u32 / 2);
                c.due.limit = true;
            });
            let growth = Growth { now: ms(n), trip, config: &config };
            let renew = |c: &mut Channel| {
                c.receive.as_mut().expect("it sends to us").renew(ms(n));
                c.due.limit = false;
            };
            assert!(channels.write_control(growth, renew));
        }
        let c = channels.get(id).expect("open");
        c.receive.as_ref().expect("it sends to us").window()
    };
    for id in [1, 3, 5] {
        assert_eq!(channels.opened(theirs(id, 1000), &config), Ok(true));
    }
    assert_eq!(channels.opened(theirs(7, 999), &config), Ok(true));
    assert_eq!(used(&mut channels, 1, 1), 1000, "nothing was told before");
    assert_eq!(used(&mut channels, 1, 9), 4000, "no more than a window may have");
    assert_eq!(used(&mut channels, 7, 9), 999, "it was asked for, and stays");
    // 5000 in all, of which 3000 are gone.
    assert_eq!(used(&mut channels, 3, 9), 2000, "twice as much again is too much for all");
    assert_eq!(used(&mut channels, 5, 9), 2000);
    // Of 10 000 the peer has opened 3999, and has grown by 5000.
    assert_eq!(channels.opened(theirs(9, 4000), &config), Ok(true));
    assert_eq!(channels.opened(theirs(11, 2001), &config), Ok(true), "to the last byte");
    assert_eq!(channels.opened(theirs(13, 64), &config), Err(OpenRefused::TooMany));
}
