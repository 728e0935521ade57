//! A reserved channel: what it tells of its head, and what grants for others leave to it.

use super::*;
use crate::egress::Head;
use crate::machine::DSCP_RESERVED;
use towpath_wire::frame::DATA_OVERHEAD;
use towpath_wire::packet::{DATA_HEADER, TAG};

const LINK: LinkId = LinkId(0);

fn head(net: &mut Net) -> Option<Head> {
    let now = net.now;
    let a = &mut net.sides[0].association;
    a.heads_on().for_each(|link| assert_eq!(link, LINK));
    a.poll_head(now, LINK)
}

#[test]
fn a_reserved_channels_data_waits_for_its_own_grants_and_its_heads_say_what_is_sealed() {
    let mut net = Net::new();
    let [reserved, other] = [7, 9].map(|label| net.open(0, Opening { label, ..BOTH }));
    net.run(200);
    assert!(net.sides[0].association.reserve(reserved, Some(LINK)));
    assert_eq!(head(&mut net), None, "nothing waits");
    let datagram = usize::from(net.sides[0].association.datagram());
    // One that fits, one that is cut, and small ones that share a packet.
    let lens = [100, 4000, 10, 20, 0, 30];
    let begin = net.now;
    for len in lens {
        net.send(0, reserved, &bytes(len, len));
    }
    net.send(0, other, b"not reserved");
    let first = head(&mut net).expect("it waits");
    assert_eq!((first.channel, first.since), (reserved, begin));
    assert_eq!(head(&mut net), None, "a head at a time");
    assert!(net.sides[0].association.reserve(reserved, Some(LINK)));
    assert_eq!(head(&mut net), Some(first), "to whoever reserves it anew, anew");
    net.now += Duration::from_millis(3);
    assert_eq!(net.granted(0, GrantKind::All).len(), 1, "the other's alone");
    let (mut told, mut packets) = (Some(first), 0);
    while let Some(Head { bytes, since, .. }) = told {
        assert_eq!(since, begin, "it has waited since then");
        let mut buf = vec![0; 4096];
        let Side { association, memory, .. } = &mut net.sides[0];
        let mut out = TxBatch::new(&mut buf, memory, 1);
        let kind = GrantKind::Data(reserved);
        let grant = Grant { kind, bytes: bytes as usize, ..Grant::free(LINK) };
        let train = association.poll_transmit(net.now, grant, &mut out).expect("it was told");
        // The empty message takes a byte less than the shortest head.
        let least = DATA_HEADER + DATA_OVERHEAD + 1 + TAG;
        assert_eq!(train.len.max(least), bytes as usize, "as it was told");
        assert_eq!(train.tos >> 2, DSCP_RESERVED, "marked for the switches");
        let arrival = (net.now + TRIP, buf[..train.len].to_vec());
        net.sides[1].coming.push_back(arrival);
        packets += 1;
        told = head(&mut net);
    }
    let content = lens.iter().map(|len| len + DATA_OVERHEAD).sum::<usize>();
    let least = content.div_ceil(datagram - DATA_HEADER - TAG);
    // Each end of a packet cuts a message once at most, and the rest has a header of its own.
    assert!((least..=least + 1).contains(&packets), "{packets} packets, {least} at least");
    net.run(100);
    let mut got: Vec<_> = net.sides[1].got.iter().map(|(c, b)| (*c, b.len())).collect();
    got.sort_unstable();
    let mut all: Vec<_> = lens.into_iter().map(|len| (reserved, len)).collect();
    all.push((other, 12));
    all.sort_unstable();
    assert_eq!(got, all);
}

#[test]
fn a_head_that_could_not_go_is_told_again_and_one_whose_reservation_ends_goes_with_the_others() {
    let mut net = Net::new();
    let channel = net.open(0, BOTH);
    net.run(200);
    assert!(net.sides[0].association.reserve(channel, Some(LinkId(5))), "there is no path on it");
    assert!(!net.sides[0].association.reserve(ChannelId(98), Some(LINK)), "no such channel");
    net.send(0, channel, b"waits");
    let now = net.now;
    let told = |net: &mut Net| {
        let a = &mut net.sides[0].association;
        let links: Vec<_> = a.heads_on().collect();
        (links, a.poll_head(now, LinkId(5)).is_some())
    };
    assert_eq!(told(&mut net), (vec![LinkId(5)], true));
    let mut buf = vec![0; 4096];
    let Side { association, memory, .. } = &mut net.sides[0];
    let mut out = TxBatch::new(&mut buf, memory, 1);
    let grant = Grant { kind: GrantKind::Data(channel), ..Grant::free(LinkId(5)) };
    assert_eq!(association.poll_transmit(now, grant, &mut out), None);
    assert_eq!(told(&mut net), (vec![LinkId(5)], true), "something happened: it is told again");
    assert_eq!(told(&mut net), (vec![], false), "and once");
    net.run(100);
    assert_eq!(net.sides[1].got, []);
    assert!(net.sides[0].association.reserve(channel, None));
    net.run(100);
    assert_eq!(net.sides[1].got, [(channel, b"waits".to_vec())]);
    // Reserved and forgotten again, with something noted.
    assert!(net.sides[0].association.reserve(channel, Some(LINK)));
    net.send(0, channel, b"never");
    let Side { association, memory, .. } = &mut net.sides[0];
    association.close(now, 300, "", memory);
    assert_eq!(association.poll_head(now, LINK), None, "it has ended");
}

#[test]
fn what_a_reserved_channel_has_under_way_takes_nothing_of_the_others_window() {
    let mut net = Net::new();
    let [reserved, other] = [7, 9].map(|label| net.open(0, Opening { label, ..BOTH }));
    net.run(200);
    assert!(net.sides[0].association.reserve(reserved, Some(LINK)));
    for n in 0..600 {
        net.send(0, reserved, &bytes(n, 1000));
    }
    assert!(head(&mut net).is_some());
    assert!(net.granted(0, GrantKind::Data(reserved)).len() > 400);
    let a = &net.sides[0].association;
    assert!(a.in_flight() > 600_000 && a.in_flight() > 2 * a.window(), "{}", a.in_flight());
    net.send(0, other, b"as if nothing were under way");
    assert_eq!(net.granted(0, GrantKind::All).len(), 1);
}

#[test]
fn a_reservation_that_moves_is_news_on_its_new_link() {
    let mut net = Net::new();
    let channel = net.open(0, BOTH);
    net.run(200);
    let now = net.now;
    assert!(net.sides[0].association.reserve(channel, Some(LINK)));
    net.send(0, channel, b"waits");
    let a = &mut net.sides[0].association;
    assert_eq!(a.heads_on().collect::<Vec<_>>(), [LINK]);
    assert!(a.reserve(channel, Some(LinkId(5))), "before anybody looked");
    assert_eq!(a.heads_on().collect::<Vec<_>>(), [LinkId(5)]);
    assert_eq!(a.poll_head(now, LINK), None);
    assert!(a.poll_head(now, LinkId(5)).is_some());
}

/// A peer that does not know the channel needs its OPEN with the data: of a grant without room for
/// both nothing comes, and the driver is not held up.
#[test]
fn of_a_grant_that_is_too_short_nothing_comes() {
    let mut net = Net::new();
    let channel = net.open(0, BOTH);
    assert!(net.sides[0].association.reserve(channel, Some(LINK)));
    net.send(0, channel, b"waits");
    let mut buf = vec![0; 4096];
    let Side { association, memory, .. } = &mut net.sides[0];
    for bytes in [0, 10, DATA_HEADER + DATA_OVERHEAD + 1 + TAG] {
        let mut out = TxBatch::new(&mut buf, memory, 1);
        let grant = Grant { kind: GrantKind::Data(channel), bytes, ..Grant::free(LINK) };
        assert_eq!(association.poll_transmit(net.now, grant, &mut out), None, "{bytes}");
    }
}
