//! Grants for a channel's data alone, and for everything but data.

use proptest::prelude::*;

use super::*;
use towpath_wire::frame::{DATA_OVERHEAD, Frame, Frames};
use towpath_wire::packet::TAG;

/// What the conversion table of reservations counts for each frame beside the message.
const FRAMES: usize = 2 * DATA_OVERHEAD;

/// Two channels that the peer knows; the first side owes an acknowledgement.
fn owing() -> (Net, ChannelId) {
    let mut net = Net::new();
    let [a, b] = core::array::from_fn(|_| net.open(0, BOTH));
    for channel in [a, b] {
        net.send(0, channel, b"first");
    }
    net.run(200);
    for _ in 0..4 {
        net.send(1, a, &bytes(3, 2000));
    }
    net.transmit(1);
    net.now += TRIP;
    net.receive(0);
    (net, b)
}

/// How many frames of a datagram are data, and how many are anything else.
fn frames(datagram: &[u8]) -> (usize, usize) {
    let content = &datagram[DATA_HEADER..datagram.len() - TAG];
    let data = |frame| matches!(frame, Ok(Frame::Data(_)));
    let (of, other): (Vec<_>, Vec<_>) = Frames::new(content).partition(|f| data(*f));
    (of.len(), other.len())
}

#[test]
fn a_channels_grant_carries_its_data_alone_and_the_rest_goes_by_a_grant_of_its_own() {
    let (mut net, b) = owing();
    // Behind each of these there is no room for a piece of the next, and none is filled up for it.
    for len in [1340, 1340, 1340, 4000, 200] {
        net.send(0, b, &bytes(4, len));
    }
    let sent = net.granted(0, GrantKind::Data(b));
    let counted: Vec<_> = sent.iter().map(|d| frames(d)).collect();
    assert!(counted.iter().all(|(data, other)| *data > 0 && *other == 0), "{counted:?}");
    // What was owed is still owed, and takes no data along.
    net.send(0, b, &bytes(6, 300));
    let sent = net.granted(0, GrantKind::Control);
    let counted: Vec<_> = sent.iter().map(|d| frames(d)).collect();
    assert!(!counted.is_empty(), "it owes an acknowledgement");
    assert!(counted.iter().all(|(data, other)| *data == 0 && *other > 0), "{counted:?}");
    assert!(net.granted(0, GrantKind::Control).is_empty(), "once");
    net.now += TRIP; // the pacer has let a good deal go
    let sent = net.granted(0, GrantKind::Data(b));
    assert!(!sent.is_empty() && sent.iter().all(|d| frames(d).1 == 0), "the data still waits");
}

#[test]
fn the_end_of_the_association_is_control() {
    let (mut net, b) = owing();
    let now = net.now;
    let Side { association, memory, .. } = &mut net.sides[0];
    association.close(now, 7, "enough", memory);
    assert!(net.granted(0, GrantKind::Data(b)).is_empty());
    assert_eq!(net.granted(0, GrantKind::Control).len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_channels_grants_cost_no_more_than_the_conversion_table_says(
        lengths in proptest::collection::vec(
            prop_oneof![0..200usize, 1300..1500usize, 0..9000usize], 1..30,
        ),
        at_once in 1..8usize,
    ) {
        let (mut net, b) = owing();
        net.run(100);
        let (mut sent, mut got) = (Vec::new(), 0);
        let mut waiting = lengths.iter();
        for _ in 0..2000 {
            for len in waiting.by_ref().take(at_once) {
                net.send(0, b, &bytes(9, *len));
            }
            sent.extend(net.granted(0, GrantKind::Data(b)));
            net.now += TRIP;
            net.receive(1);
            net.transmit(1);
            net.now += TRIP;
            net.receive(0);
            got = net.sides[1].got.iter().filter(|(channel, _)| *channel == b).count() - 1;
            if got == lengths.len() {
                break;
            }
        }
        prop_assert_eq!(got, lengths.len());
        prop_assert_eq!(net.of(0, b).repaired, 0);
        let longest = sent.iter().map(Vec::len).max().unwrap_or_default();
        let payload = 1472 - DATA_HEADER - TAG - FRAMES;
        prop_assert!(longest <= 1472);
        let packets: usize = lengths.iter().map(|len| len.div_ceil(payload).max(1)).sum();
        let table = lengths.iter().sum::<usize>() + packets * (DATA_HEADER + TAG + FRAMES);
        let bytes: usize = sent.iter().map(Vec::len).sum();
        prop_assert!(sent.len() <= packets, "{} packets, {packets} stated", sent.len());
        prop_assert!(bytes <= table, "{bytes} bytes, {table} stated");
    }
}
