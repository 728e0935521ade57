//! Channels that the owner of a node opens itself, and what it may ask the node about.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::Memory;
use towpath_proto::association::{AssociationEvent, Opening};
use towpath_vm::message::LABEL_OWNER;
use towpath_wire::frame::{Direction, Reliability};

use super::hostile::{Wire, open, send};
use super::net::{Net, config};
use crate::NodeEvent;

const WINDOW: u32 = 4096;

fn opening() -> Opening {
    Opening { window: Some(WINDOW), ..Opening::new(Direction::Both, LABEL_OWNER) }
}

/// Takes what came for a host's owner: channel, and bytes.
fn taken(net: &mut Net, host: usize, gives_back: bool) -> Vec<(Wire, Vec<u8>)> {
    let mut all = Vec::new();
    for event in net.events(host) {
        let NodeEvent::Channel { association, event, .. } = event else { continue };
        let AssociationEvent::Message { channel, block, len, .. } = event else { continue };
        let bytes = net.seats[host].memory.bytes(block)[..len as usize].to_vec();
        net.call(host, |node, now, memory| {
            memory.release(block);
            if gives_back {
                node.consumed(association, channel, len);
            }
            node.pump(now, memory);
        });
        all.push(((association, channel), bytes));
    }
    all
}

#[test]
fn an_owners_channel_goes_on_as_what_came_is_taken_and_not_otherwise() {
    let mut net = Net::new(2);
    net.node(0).serve(LABEL_OWNER..=LABEL_OWNER);
    let wire = open(&mut net, 1, 0, opening());
    for n in 0..16_u8 {
        send(&mut net, 1, wire, &[n; 1000]);
    }
    net.run(200);
    let first = taken(&mut net, 0, true);
    assert!((1..=WINDOW as usize / 1000).contains(&first.len()), "{} messages", first.len());
    let mut all = first;
    for _ in 0..20 {
        net.run(100);
        all.extend(taken(&mut net, 0, true));
    }
    let bytes: Vec<Vec<u8>> = all.into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(bytes, (0..16).map(|n| vec![n; 1000]).collect::<Vec<_>>(), "all, in order");
    let stats = net.node(1).channel_stats(wire.0, wire.1).expect("it is open");
    assert_eq!((stats.messages_sent, stats.bytes_sent), (16, 16_000));
    // What is not taken holds up whoever sends.
    for n in 0..16_u8 {
        send(&mut net, 1, wire, &[n; 1000]);
    }
    let mut kept = 0;
    for _ in 0..10 {
        net.run(100);
        kept += taken(&mut net, 0, false).len();
    }
    assert!(kept <= WINDOW as usize / 1000, "{kept} messages");
    let now = net.now;
    let waits = net.node(1).flows(now);
    assert_eq!(waits.len(), 1, "{waits:?}");
    let host = net.id(0);
    let says = alloc::format!("messages that wait for {host}: 0 bytes in flight, window ");
    let count: usize = waits[0].split(' ').next().unwrap().parse().unwrap();
    assert!(waits[0].contains(&says) && (12..=16).contains(&count), "{}", waits[0]);
    assert_eq!(net.node(0).flows(now), [""; 0].map(String::from), "it has nothing to send");
}

#[test]
fn a_channel_that_its_owner_ends_is_over_on_both_sides() {
    let mut net = Net::new(2);
    net.node(0).serve(LABEL_OWNER..=LABEL_OWNER);
    let wire = open(&mut net, 1, 0, opening());
    send(&mut net, 1, wire, b"before");
    net.run(100);
    let got = taken(&mut net, 0, true);
    assert_eq!(got.len(), 1);
    let there = got[0].0;
    net.call(1, |node, now, memory| {
        node.finish_channel(wire.0, wire.1, 7);
        node.pump(now, memory);
    });
    net.run(100);
    let ended = |event: &NodeEvent| {
        let over = AssociationEvent::Ended { channel: there.1 };
        matches!(event, NodeEvent::Channel { event, .. } if *event == over)
    };
    assert!(net.events(0).iter().any(ended));
    net.call(0, |node, _, _| node.finish_channel(there.0, there.1, 7));
    net.run(200);
    assert_eq!(net.node(1).channel_stats(wire.0, wire.1), None);
    assert_eq!(net.node(0).channel_stats(there.0, there.1), None);
}

#[test]
fn what_does_not_arrive_by_its_deadline_is_given_up() {
    let mut net = Net::new(2);
    net.node(0).serve(LABEL_OWNER..=LABEL_OWNER);
    let timely = Opening { reliability: Reliability::Timely, ..opening() };
    let wire = open(&mut net, 1, 0, timely);
    net.run(50);
    let by = |net: &mut Net, bytes: &[u8], within| {
        net.call(1, |node, now, memory| {
            let block = memory.put(bytes).expect("there is room");
            let len = bytes.len() as u32;
            node.send_by(wire.0, wire.1, block, len, now + within).expect("it is taken");
            node.pump(now, memory);
        });
    };
    by(&mut net, b"in time", Duration::from_secs(1));
    net.run(100);
    assert_eq!(taken(&mut net, 0, true).len(), 1);
    net.events(1);
    net.cut_way(1, 0);
    by(&mut net, b"too late", Duration::from_millis(5));
    net.run(300);
    net.mend();
    net.run(300);
    assert_eq!(taken(&mut net, 0, true).len(), 0);
    let given_up = |event: &NodeEvent| {
        matches!(event, NodeEvent::Channel { event: AssociationEvent::Abandoned { .. }, .. })
    };
    assert!(net.events(1).iter().any(given_up));
}

#[test]
fn changes_are_told_to_each_host_and_counted() {
    let mut net = Net::new(2);
    let before = net.node(0).log_messages();
    net.add(config(2, "h2"));
    net.run(200);
    let told = net.node(0).log_messages() - before;
    assert!((1..=3).contains(&told), "{told} messages for one host that joined");
    assert_eq!(net.node(1).log_messages(), 0, "it does not lead");
}
