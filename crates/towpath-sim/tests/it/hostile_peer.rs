//! What a peer that holds the keys and breaks every rule can do: end its association, and no more.

use std::sync::mpsc;
use std::time::Duration;

use crate::network::{BOTH, CLEAN, Network};
use towpath_proto::Config;
use towpath_wire::bytes::Writer;
use towpath_wire::frame::{self, DATA_OVERHEAD};
use towpath_wire::{ChannelId, ChannelOpen, Direction, Reliability};

/// Content of a packet, written frame by frame.
fn content(len: usize, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut w = Writer::new(&mut bytes);
    write(&mut w);
    let used = w.used();
    bytes.truncate(used);
    bytes
}

fn one_way(channel: u32) -> ChannelOpen {
    let (direction, reliability) = (Direction::Opener, Reliability::ReliableOrdered);
    let plain = ChannelOpen::new(ChannelId(channel), direction, reliability, 1 << 20);
    ChannelOpen { label: 7, ..plain }
}

/// Host 0 (the peer, whose own endpoint is cut off from now on) and host 1 (the victim).
fn network() -> Network {
    let mut net = Network::connected(&Config::default(), CLEAN);
    net.run_for(Duration::from_millis(100));
    net.links[0].set_up(false);
    net
}

#[test]
fn a_channel_closed_below_what_arrived_on_it_leaves_no_block_behind() {
    let mut net = network();
    for round in 0..20u32 {
        let open = one_way(2 * round);
        let packet = content(1200, |w| {
            frame::emit_open(w, &open);
            // The second message, in part; then the end after no message at all.
            frame::emit_data_header(w, open.channel, 1, 500_000, 0, 4);
            w.put(b"part");
            frame::emit_close_channel(w, open.channel, 0, 0);
        });
        net.forge(0, 1, 1000 + u64::from(round), &packet);
    }
    let stranded = net.hosts[1].memory.used();
    // Fault or not: once the association is over, all of it is back.
    net.run_for(Duration::from_secs(10));
    assert_eq!(net.hosts[1].endpoint.associations().count(), 0, "the peer is silent by now");
    let used = net.hosts[1].memory.used();
    assert_eq!(used, 0, "never given back; {stranded} B before the end");
}

#[test]
fn a_packet_number_beyond_all_sense_opens_nothing_and_is_no_fault() {
    let mut net = network();
    let before = net.hosts[1].stats();
    for number in [u64::MAX, u64::MAX - 1, u64::MAX] {
        net.forge(0, 1, number, &[1]);
    }
    net.run_for(Duration::from_millis(100));
    let stats = net.hosts[1].stats();
    assert_eq!((stats.forged - before.forged, stats.refused), (3, before.refused), "{stats:?}");
    assert_eq!(stats.packets_received, before.packets_received, "nothing was opened: {stats:?}");
    assert!(net.hosts[1].over.is_empty(), "and no fault");
}

/// Runs `what` on its own thread; false when it has not come back after ten seconds.
fn comes_back(what: impl FnOnce() + Send + 'static) -> bool {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        what();
        let _ = done.send(());
    });
    wait.recv_timeout(Duration::from_secs(10)).is_ok()
}

#[test]
fn a_gap_in_packet_numbers_and_a_small_grant_do_not_stop_the_poll_loop() {
    let back = comes_back(|| {
        let mut net = network();
        net.hosts[1].grant = 128;
        net.forge(0, 1, 3000, &[1]);
        net.forge(0, 1, 3001, &[1]);
        net.run_for(Duration::from_millis(100));
    });
    assert!(back, "poll_transmit never returned (or panicked)");
}

#[test]
fn challenges_and_a_small_grant_stay_within_the_grant() {
    let mut net = network();
    net.hosts[1].grant = 128;
    net.tap = Box::new(|_, from, bytes| {
        assert!(from == 0 || bytes.len() <= 128, "{} B, granted 128 B", bytes.len());
        crate::network::Fate::Pass
    });
    let packet = content(8 * 16, |w| {
        (0..8).for_each(|n| {
            w.u64(8);
            w.u64(n);
        });
    });
    net.forge(0, 1, 1000, &packet);
    net.run_for(Duration::from_millis(100));
}

#[test]
fn a_message_in_as_many_parts_as_possible_costs_no_more_than_stated() {
    let mut net = network();
    let channel = net.hosts[1].open(BOTH).unwrap();
    // Every second byte of a message: one packet after the other, until it is refused.
    let (len, mut offset, mut number) = (100_000u32, 0, 1000);
    while offset + 100 < len {
        let packet = content(1440, |w| {
            while w.room() > DATA_OVERHEAD + 1 && offset < len {
                frame::emit_data_header(w, channel, 0, len, offset, 1);
                w.put(b"x");
                offset += 2;
            }
        });
        net.forge(0, 1, number, &packet);
        number += 1;
    }
    assert!(net.hosts[1].stats().refused > 0, "the bookkeeping has a limit");
    assert!(net.hosts[1].over.is_empty(), "and a repetition would be taken later");
}
