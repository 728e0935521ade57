//! What one side says in forms that the other may not know, or does not serve.

use towpath_wire::PathId;
use towpath_wire::bytes::Writer;
use towpath_wire::frame::{self, ChannelOpen, TrafficSpec};
use towpath_wire::packet::{Data, TAG};
use towpath_wire::{ByteSize, Rate};

use super::*;
use crate::machine::nonce;

/// A packet of the first side's, with that content, reaches the second one.
fn say(net: &mut Net, number: u64, content: &[u8]) {
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
fn over(net: &Net) -> Option<&End> {
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
