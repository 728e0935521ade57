//! What a peer can do by coding: what is rebuilt is taken in as if it had come, and nothing else.

use towpath_wire::PathId;
use towpath_wire::bytes::Writer;
use towpath_wire::coding::{
    CODED_LEN, PARITY_OVERHEAD, Parity, REBUILT_LEN, SYMBOL_HEAD, emit_coded, emit_parity,
    emit_rebuilt, emit_symbol_head,
};
use towpath_wire::frame::{self, ChannelOpen, DATA_OVERHEAD};

use super::formats::{over, say};
use super::*;
use crate::association::CodingStats;
use crate::coding::{Coding, CodingConfig};

fn written(len: usize, emit: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; len];
    emit(&mut Writer::new(&mut bytes));
    bytes
}

/// A parity of one packet, number 50 of path 0, that held `frames`.
fn copy_of(group: u32, frames: &[u8]) -> Vec<u8> {
    let mut symbol = vec![0; SYMBOL_HEAD];
    emit_symbol_head(&mut symbol, frames.len(), PathId(0), 50);
    symbol.extend(frames);
    let parity = Parity { group, members: 1, index: 0, symbol: &symbol };
    written(PARITY_OVERHEAD + symbol.len(), |w| emit_parity(w, &parity))
}

/// A channel with one message, `text`, said to be of `len` bytes.
fn message(channel: u32, text: &[u8], len: u32) -> Vec<u8> {
    let (direction, class) = (Direction::Opener, Reliability::ReliableOrdered);
    let open = ChannelOpen::new(ChannelId(channel), direction, class, 1 << 16);
    written(frame::open_len(&open) + DATA_OVERHEAD + text.len(), |w| {
        frame::emit_open(w, &open);
        frame::emit_data_header(w, open.channel, 0, len, 0, text.len() as u16);
        w.put(text);
    })
}

fn counted(net: &Net, n: usize) -> CodingStats {
    net.sides[n].association.stats().paths.coding
}

fn coded(coding: Coding) -> Net {
    let coding = CodingConfig { usual: coding, ..CodingConfig::default() };
    Net::with(&Config { coding, ..Config::default() }, 64)
}

#[test]
fn a_lost_packet_is_rebuilt_counts_as_lost_and_is_not_sent_again() {
    let mut net = coded(Coding::new(3, 1).unwrap());
    let channel = net.open(0, BOTH);
    net.send(0, channel, b"first");
    net.run(200);
    let (next, before) = (net.sides[0].sent, counted(&net, 0).encoder);
    assert_eq!((before.groups, before.sent), (1, 1), "a short message has a copy");
    net.sides[0].loses = vec![next + 1];
    let message = bytes(1, 3 * 1392 * 4 - 200);
    net.send(0, channel, &message);
    net.run(500);
    assert_eq!(net.sides[1].got.last(), Some(&(channel, message)));
    assert_eq!(net.sides[1].got.len(), 2);
    let (ours, theirs) = (counted(&net, 0), counted(&net, 1));
    assert!(ours.encoder.groups >= 5 && ours.encoder.sent == ours.encoder.groups, "{ours:?}");
    assert_eq!((theirs.decoder.rebuilt, ours.delivered), (1, 1));
    assert_eq!((net.stats(0).packets_lost, net.stats(0).repaired), (1, 0));
    assert_eq!(net.sides.each_ref().map(|s| s.memory.used()), [0, 0]);
    assert_eq!(net.sides[0].association.in_flight(), 0);
}

#[test]
fn a_channel_says_for_itself_how_it_is_coded() {
    let mut net = Net::new();
    let coding = Some(Coding::new(2, 1).unwrap());
    let [plain, safe] = [None, coding].map(|coding| net.open(0, Opening { coding, ..BOTH }));
    net.send(0, plain, &bytes(1, 9000));
    net.run(200);
    assert_eq!(counted(&net, 0), CodingStats::default());
    net.send(0, safe, &bytes(1, 9000));
    net.run(200);
    let counted = counted(&net, 0).encoder;
    assert_eq!((counted.groups, counted.sent), (4, 4), "seven packets");
    let mut net = coded(Coding::new(2, 1).unwrap());
    let channel = net.open(0, Opening { coding: Some(Coding::OFF), ..BOTH });
    net.send(0, channel, &bytes(1, 9000));
    net.run(200);
    assert_eq!(net.stats(0).paths.coding, CodingStats::default());
}

#[test]
fn where_little_is_lost_adaptive_coding_sends_no_parity() {
    let mut net = coded(Coding::new(4, 2).unwrap().adaptive());
    let channel = net.open(0, BOTH);
    for n in 0..20 {
        net.send(0, channel, &bytes(n, 40_000));
        net.run(100);
    }
    assert_eq!(counted(&net, 0), CodingStats::default());
    // One in ten is lost for a while.
    let next = net.sides[0].sent;
    net.sides[0].loses = (next..next + 3000).filter(|n| n % 10 == 3).collect();
    for n in 0..60 {
        net.send(0, channel, &bytes(n, 40_000));
        net.run(100);
    }
    assert_eq!(net.sides[1].got.len(), 80);
    let counted = counted(&net, 0);
    assert!(counted.encoder.sent > 100 && counted.delivered > 20, "{counted:?}");
}

#[test]
fn what_is_rebuilt_arrives_once_however_often_it_comes() {
    let mut net = Net::new();
    let frames = message(200, b"rebuilt", 7);
    say(&mut net, 900, &copy_of(7, &frames));
    assert_eq!(net.sides[1].got, [(ChannelId(200), b"rebuilt".to_vec())]);
    // Its parity again, as another group's, too; and the packet itself, late.
    say(&mut net, 901, &copy_of(7, &frames));
    say(&mut net, 902, &copy_of(8, &frames));
    say(&mut net, 50, &frames);
    assert_eq!((net.sides[1].got.len(), over(&net)), (1, None));
    let counted = counted(&net, 1).decoder;
    assert_eq!((counted.received, counted.rebuilt, counted.garbage), (3, 2, 0));
}

#[test]
fn whoever_tells_of_a_packet_that_was_never_sent_is_at_fault() {
    let rebuilt = |path, number| written(REBUILT_LEN, |w| emit_rebuilt(w, PathId(path), number));
    let mut net = Net::new();
    let channel = net.open(1, BOTH);
    net.send(1, channel, b"first");
    net.run(100);
    assert_eq!(net.sides[0].got.len(), 1);
    // What arrived is known to have arrived.
    say(&mut net, 900, &rebuilt(0, 0));
    assert_eq!((over(&net), counted(&net, 1).delivered), (None, 0));
    say(&mut net, 901, &rebuilt(0, 1000));
    assert_eq!(over(&net), Some(&End::Fault("has rebuilt a packet never sent")));
    let mut net = Net::new();
    say(&mut net, 900, &rebuilt(5, 0));
    assert_eq!(over(&net), Some(&End::Fault("message beyond its credit or length")));
}

#[test]
fn what_is_rebuilt_can_do_no_more_than_what_arrives() {
    let mut net = Net::new();
    // No frames; an acknowledgement of what was never sent, an end, an answer: over and done.
    say(&mut net, 900, &copy_of(1, &[3, 9]));
    let acks = written(frame::ack_len(1), |w| frame::emit_ack(w, PathId(0), 0, 999, &[1]));
    let ends = written(4, |w| frame::emit_close(w, 0, b""));
    say(&mut net, 901, &copy_of(2, &[acks, ends, vec![1, 0]].concat()));
    let counts = counted(&net, 1);
    assert_eq!((over(&net), counts.malformed, counts.decoder.rebuilt), (None, 1, 2));
    // Garbage of every length is counted and gives nothing.
    for len in 0..64 {
        let symbol = vec![0xff; len];
        let parity = Parity { group: 10 + len as u32, members: 1, index: 0, symbol: &symbol };
        let frame = written(PARITY_OVERHEAD + len, |w| emit_parity(w, &parity));
        say(&mut net, 902 + len as u64, &frame);
    }
    let counts = counted(&net, 1);
    assert_eq!((over(&net), counts.decoder.garbage, counts.decoder.rebuilt), (None, 64, 2));
    // A member of no group, whose frames are taken in all the same.
    let frames = message(200, b"a member", 8);
    let member = written(CODED_LEN, |w| emit_coded(w, 99, 20, 3, frames.len() as u16));
    say(&mut net, 980, &[member, frames].concat());
    assert_eq!((net.sides[1].got.len(), counted(&net, 1).decoder.garbage), (1, 65));
    // A message beyond its credit is one.
    say(&mut net, 990, &copy_of(300, &message(202, b"much", 1 << 20)));
    assert_eq!(over(&net), Some(&End::Fault("message beyond its credit or length")));
}

#[test]
fn nothing_is_kept_or_rebuilt_where_no_memory_is_given() {
    let coding = CodingConfig { memory: 0, ..CodingConfig::default() };
    let mut net = Net::with(&Config { coding, ..Config::default() }, 64);
    say(&mut net, 900, &copy_of(7, &message(200, b"rebuilt", 7)));
    assert_eq!((net.sides[1].got.len(), counted(&net, 1)), (0, CodingStats::default()));
}
