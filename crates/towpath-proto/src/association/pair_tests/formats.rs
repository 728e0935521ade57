//! What one side says in forms that the other may not know, or does not serve.

use towpath_wire::PathId;
use towpath_wire::bytes::Writer;
use towpath_wire::frame::{self, ChannelOpen, TrafficSpec};
use towpath_wire::packet::{Data, TAG};
use towpath_wire::{ByteSize, Rate};

use std::string::ToString;

use super::*;
use crate::machine::nonce;

/// A packet of the first side's, with that content, reaches the second one.
pub(super) fn say(net: &mut Net, number: u64, content: &[u8]) {
    let keys = &net.sides[0].association.identity.keys.send;
    let path = PathId(0);
    let header = Data { epoch: keys.epoch, path, receiver: 1, number };
    let mut datagram = vec![0; DATA_HEADER + content.len() + TAG];
    header.emit(&mut datagram);
    let (aad, sealed) = datagram.split_at_mut(DATA_HEADER);
    sealed[..content.len()].copy_from_slice(content);
    keys.key.seal(nonce(path, number), aad, sealed);
    net.sides[1].coming.push_back((net.now, datagram));
    net.receive(1);
}

fn written(len: usize, emit: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; len];
    emit(&mut Writer::new(&mut bytes));
    bytes
}

/// How the second side has ended.
pub(super) fn over(net: &Net) -> Option<&End> {
    net.sides[1].events.iter().find_map(|(_, event)| match event {
        AssociationEvent::Over(end) => Some(end),
        _ => None,
    })
}

fn opened(net: &Net) -> Vec<ChannelOpen> {
    let open = |(_, event): &(_, AssociationEvent)| match event {
        AssociationEvent::Opened(open) => Some(**open),
        _ => None,
    };
    net.sides[1].events.iter().filter_map(open).collect()
}

fn plain() -> ChannelOpen {
    ChannelOpen::new(ChannelId(0), Direction::Both, Reliability::Timely, 1 << 16)
}

#[test]
fn the_owner_is_told_of_the_reservation_that_a_channel_is_part_of() {
    let mut net = Net::new();
    let tspec = TrafficSpec {
        rate: Rate::from_mbps(2),
        peak: Rate::from_mbps(4),
        burst: ByteSize::from_kib(8),
        unit_min_bytes: 64,
        unit_max_bytes: 1400,
    };
    let reservation = Some(u64::MAX - 1);
    let first = net.open(0, Opening { tspec: Some(tspec), reservation, ..BOTH });
    let second = net.open(0, BOTH);
    for channel in [first, second] {
        net.send(0, channel, b"hello");
    }
    net.run(100);
    let told: Vec<_> = opened(&net).iter().map(|o| (o.channel, o.tspec, o.reservation)).collect();
    assert_eq!(told, [(first, Some(tspec), reservation), (second, None, None)]);
    assert_eq!(net.sides[1].got.len(), 2);
}

/// Taken for an ordinary channel it would deliver to one of many, or send what was not admitted.
#[test]
fn a_channel_of_a_form_that_is_not_served_ends_the_association_by_name() {
    for (open, why) in [
        (ChannelOpen { one_to_many: true, ..plain() }, "OPEN of a one-to-many channel"),
        (ChannelOpen { duplex: true, ..plain() }, "OPEN of a duplex channel"),
    ] {
        let mut net = Net::new();
        net.run(50);
        say(&mut net, 900, &written(frame::open_len(&open), |w| frame::emit_open(w, &open)));
        let Some(End::Fault(told)) = over(&net) else { panic!("{:?}", over(&net)) };
        assert!(told.starts_with(why) && opened(&net).is_empty(), "{told}");
        net.run(100);
        let peer = net.sides[0].events.last().map(|(_, event)| event);
        let Some(AssociationEvent::Over(End::ByPeer { reason: 1, text })) = peer else {
            panic!("{peer:?}")
        };
        assert!(text.starts_with(why), "the peer is told, too: {text}");
    }
}

#[test]
fn what_a_later_build_adds_is_passed_over_or_ends_the_association_by_name() {
    let reserved = ChannelOpen { reservation: Some(5), ..plain() };
    let open = |kind: u8| {
        let mut bytes = written(frame::open_len(&reserved), |w| frame::emit_open(w, &reserved));
        bytes[20] += 3;
        bytes.extend([kind, 1, 77]);
        bytes
    };
    for (content, why) in [
        (open(200), None),
        ([&[200, 0, 1, 0, 9][..], &open(129)].concat(), None),
        (open(100), Some("OPEN with a critical parameter that is not known here")),
        (
            [&[100, 0, 1, 0, 9][..], &open(129)].concat(),
            Some("frame of a critical type that is not known here"),
        ),
        (vec![3, 9], Some("malformed frame")),
    ] {
        let mut net = Net::new();
        net.run(50);
        say(&mut net, 900, &content);
        let told = if why.is_none() { vec![reserved] } else { Vec::new() };
        assert_eq!((over(&net), opened(&net)), (why.map(End::Fault).as_ref(), told));
    }
}

/// A pair with so many paths more, of which the first carries what is sent.
fn with_paths(more: usize) -> (Net, ChannelId) {
    let stripe = crate::stripe::StripeKind::Fcfs;
    let paths = crate::config::PathsConfig { stripe, ..Default::default() };
    let mut net = Net::with(&Config { paths, ..Config::default() }, 64);
    for n in [0, 1] {
        let association = &mut net.sides[n].association;
        let remote = association.remote();
        for _ in 0..more {
            assert!(association.add_path(LinkId(0), remote).is_some());
        }
    }
    let channel = net.open(0, BOTH);
    net.send(0, channel, b"first");
    net.run(200);
    (net, channel)
}

fn retired(net: &Net, n: usize) -> Vec<(PathId, u16)> {
    let retired = |(_, event): &(_, AssociationEvent)| match event {
        AssociationEvent::PathRetired { path, reason } => Some((*path, *reason)),
        _ => None,
    };
    net.sides[n].events.iter().filter_map(retired).collect()
}

#[test]
fn what_is_under_way_on_a_path_that_the_peer_retires_goes_by_another_at_once() {
    for lost in [&[][..], &[0, 1]] {
        let (mut net, channel) = with_paths(1);
        net.sides[0].cut = true;
        // So much as leaves by the first path before its pacer holds it back.
        let message = bytes(3, 6000);
        net.send(0, channel, &message);
        net.transmit(0);
        net.sides[0].cut = false;
        let paths = &net.sides[0].association.paths;
        assert!(paths[0].in_flight() > 6000 && paths[1].in_flight() == 0);
        // The peer's word goes by the path that is left; where it is lost it is repeated.
        net.sides[1].loses = lost.to_vec();
        let now = net.now;
        net.sides[1].association.retire_path(now, PathId(0), 5).expect("there is another");
        // Left to time-outs it takes several of them, each of 30 ms at least.
        net.run(if lost.is_empty() { 2 * TRIP.as_millis() as u64 } else { 3000 });
        assert_eq!((retired(&net, 0), retired(&net, 1)), (vec![(PathId(0), 5)], vec![]));
        assert!(net.sides[1].got.last() == Some(&(channel, message)), "{lost:?}");
        assert_eq!(net.stats(0).misretired, 0);
        assert!(!lost.is_empty() || net.stats(0).packets_lost == 0, "nothing counts as lost");
        // From here on both go by the other one.
        let first = net.sides[0].association.paths[0].next_number();
        for n in [0, 1] {
            net.send(n, channel, &bytes(n, 5000));
        }
        net.run(500);
        assert_eq!(net.sides[0].association.paths[0].next_number(), first);
        assert_eq!((net.sides[0].got.len(), net.sides[1].got.len()), (1, 3));
        assert_eq!(net.sides.each_ref().map(|s| s.association.in_flight()), [0, 0]);
    }
}

#[test]
fn the_last_path_and_one_that_there_is_not_are_not_retired_but_counted() {
    let (mut net, channel) = with_paths(1);
    let retire = |path, reason| {
        written(frame::PATH_RETIRE_LEN, |w| frame::emit_path_retire(w, PathId(path), reason))
    };
    say(&mut net, 900, &[retire(2, 1), retire(0, 2), retire(0, 3), retire(1, 4)].concat());
    assert_eq!((retired(&net, 1), net.stats(1).misretired), (vec![(PathId(0), 2)], 2));
    let association = &mut net.sides[1].association;
    let error = association.retire_path(net.now, PathId(1), 0).expect_err("the last one");
    assert_eq!(error.to_string(), "path p1 is the last one");
    let error = association.retire_path(net.now, PathId(7), 0).expect_err("there is none");
    assert_eq!(error.to_string(), "there is no path p7");
    net.send(1, channel, b"by the last one");
    net.run(500);
    assert_eq!(net.sides[0].got.len(), 1);
}

#[test]
fn a_path_that_the_peer_offers_is_told_to_the_owner_once() {
    let mut net = Net::new();
    net.run(50);
    let offer = |path, port| {
        let remote = ([10, 0, 1, 0], port).into();
        written(frame::PATH_ADD_LEN, |w| frame::emit_path_add(w, PathId(path), LinkId(3), remote))
    };
    let offers = [offer(1, 7), offer(1, 8), offer(0, 9), offer(16, 9), offer(15, 9)];
    say(&mut net, 900, &offers.concat());
    let told: Vec<_> = net.sides[1].events.iter().map(|(_, event)| event.clone()).collect();
    let [one, fifteen] = [(1, 7), (15, 9)].map(|(path, port)| {
        let (link, remote) = (LinkId(3), ([10, 0, 1, 0], port).into());
        AssociationEvent::PathOffered { path: PathId(path), link, remote }
    });
    assert_eq!(told, [one, fifteen]);
}

#[test]
fn no_more_paths_are_added_than_the_peer_can_hold() {
    let mut net = Net::new();
    let a = &mut net.sides[0].association;
    a.identity.peer.paths = 3;
    let remote = a.remote();
    let added: Vec<_> = (1..5).map(|link| a.add_path(LinkId(link), remote)).collect();
    assert_eq!(added, [Some(PathId(1)), Some(PathId(2)), None, None]);
    assert_eq!(a.peer_paths(), 3);
}
