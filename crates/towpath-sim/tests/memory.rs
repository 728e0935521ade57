//! An association's memory stays within the formula of `towpath-proto`'s documentation, counted at
//! the allocator.

#[path = "it/network/mod.rs"]
mod network;

use std::alloc::System;
use std::time::Duration;

use cap::Cap;
use network::{BOTH, CLEAN, Network, ms};
use towpath_proto::Config;
use towpath_proto::association::Opening;
use towpath_sim::link::LinkSpec;
use towpath_wire::ChannelId;
use towpath_wire::bytes::Writer;
use towpath_wire::frame::{self, DATA_OVERHEAD};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fn live() -> usize {
    ALLOCATOR.allocated()
}

const WINDOW: u32 = 128 * 1024;
/// Of all windows together.
const CREDIT: u32 = 2 * WINDOW;

fn config() -> Config {
    Config {
        window: WINDOW,
        window_max: WINDOW,
        credit_max: CREDIT.into(),
        channels_max: 2,
        messages_max: 1024,
        ..Config::default()
    }
}

/// The formula's first term, for one direction: messages and their bookkeeping.
const OF_CREDIT: usize = CREDIT as usize * 15 / 2;
/// The second, for one direction: messages that wait, of two channels.
const OF_MESSAGES: usize = 2 * (1024 * 144 + 1536);
/// What retransmission remembers of packets with one piece each, of a path.
const OF_PATH: usize = 1_200_000;
/// What the network of this test holds beside it: datagrams under way, names of messages.
const OF_TEST: usize = 256 * 1024;

/// Bytes that two hosts' associations have taken since `before`.
fn grown(before: usize) -> usize {
    live().saturating_sub(before)
}

/// Every second byte of a message nearly as long as the window, a packet after the other.
fn holes() {
    const LEN: u32 = WINDOW / 4 * 3;
    let mut net = Network::connected(&config(), CLEAN);
    net.run_for(ms(100));
    net.links[0].set_up(false);
    let channel = net.hosts[1].open(BOTH).unwrap();
    let before = live();
    let (mut offset, mut number) = (0, 1000);
    while offset + 100 < LEN {
        let mut bytes = vec![0; 1440];
        let mut w = Writer::new(&mut bytes);
        while w.room() > DATA_OVERHEAD + 1 && offset < LEN {
            frame::emit_data_header(&mut w, channel, 0, LEN, offset, 1);
            w.put(b"x");
            offset += 2;
        }
        let used = w.used();
        net.forge(0, 1, number, &bytes[..used]);
        number += 1;
    }
    let grown = grown(before);
    assert!(net.hosts[1].over.is_empty(), "{:?}", net.hosts[1].over);
    assert!(net.hosts[1].stats().refused > 0, "the bookkeeping has a limit");
    assert!(grown > LEN as usize, "{grown} B: nothing was kept");
    assert!(grown < OF_CREDIT / 2 + OF_TEST, "{grown} B of every second byte of {LEN}");
}

/// Messages that nobody acknowledges, as short as they come.
fn short_messages(channels: &[ChannelId], net: &mut Network) {
    let before = live();
    let mut sent = 0;
    for channel in channels {
        while net.hosts[0].send(*channel, sent, 1).is_ok() && sent < 100_000 {
            sent += 1;
        }
    }
    net.flush();
    net.run_for(ms(20));
    let grown = grown(before);
    assert!(sent >= 1024, "{sent} messages wait");
    assert!(
        grown < OF_CREDIT + OF_MESSAGES + OF_PATH + OF_TEST,
        "{grown} B for {sent} short messages"
    );
}

/// Both ways at full rate over a path that loses one in twenty.
fn bulk() {
    let spec = LinkSpec { loss_ppm: 50_000, ..CLEAN };
    let mut net = Network::connected(&config(), spec);
    let channels = [net.hosts[0].open(BOTH).unwrap(), net.hosts[1].open(BOTH).unwrap()];
    let (before, mut most, mut n) = (live(), 0, 0);
    for _ in 0..1000 {
        for (host, channel) in [(0, channels[0]), (1, channels[1])] {
            let id = net.hosts[host].id();
            while net.hosts[host].endpoint.waiting(id, channel) < 4 {
                net.hosts[host].send(channel, n, 20_000).unwrap();
                n += 1;
            }
        }
        net.flush();
        net.run_for(ms(1));
        most = most.max(grown(before));
    }
    assert!(n > 1000, "{n} messages");
    let bound = 2 * (2 * OF_CREDIT + 2 * OF_MESSAGES + OF_PATH) + OF_TEST;
    assert!(most < bound, "{most} B for both ways of both hosts, {bound} stated");
}

/// As many channels as there may be, all of which carried a message once and are idle now.
fn idle() {
    const MOST: usize = 16_384;
    let config = Config { channels_max: MOST as u16, credit_max: 128 << 20, ..Config::default() };
    let mut net = Network::connected(&config, CLEAN);
    net.run_for(ms(100));
    let before = live();
    for n in 0..MOST as u32 {
        let opening = Opening { window: Some(4096), ..BOTH };
        let channel = net.hosts[0].open(opening).expect("there may be so many");
        net.hosts[0].send(channel, u64::from(n), 100).expect("there is room");
        if n % 64 == 0 {
            net.flush();
            net.run_for(ms(1));
        }
    }
    assert!(net.hosts[0].open(BOTH).is_none(), "one more than there may be");
    net.flush();
    net.run_for(Duration::from_secs(2));
    let id = net.hosts[0].id();
    assert_eq!(
        net.hosts[0].endpoint.association(id).map(towpath_proto::Association::in_flight),
        Some(0)
    );
    let grown = grown(before);
    // Each carried something one way only.
    let bound = 2 * (MOST * 900 + OF_PATH) + OF_TEST;
    assert!(grown < bound, "{grown} B for {MOST} idle channels at both hosts, {bound} stated");
    println!("{MOST} idle channels: {} B each at each host", grown / MOST / 2);
}

#[test]
fn an_association_takes_no_more_than_stated() {
    holes();
    idle();
    let mut net = Network::connected(&config(), CLEAN);
    net.run_for(Duration::from_millis(100));
    let channels = [net.hosts[0].open(BOTH).unwrap(), net.hosts[0].open(BOTH).unwrap()];
    net.links[0].set_up(false);
    short_messages(&channels, &mut net);
    bulk();
}
