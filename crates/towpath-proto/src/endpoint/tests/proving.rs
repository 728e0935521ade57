//! How two hosts agree on a path, and what comes of those who do not keep to it.

use super::*;
use crate::association::{PathState, PathStatus};
use crate::machine::PACKET_MIN;
use towpath_wire::PathId;

type Addr = ::core::net::SocketAddr;

/// Somebody else's address.
fn victim() -> Addr {
    ([203, 0, 113, 9], 9).into()
}

fn paths(net: &Net, n: usize) -> Vec<PathStatus> {
    net.ends[n].0.association(ids(net)[n]).expect("it stands").paths().collect()
}

fn states(net: &Net, n: usize) -> Vec<PathState> {
    paths(net, n).iter().map(|p| p.state).collect()
}

fn counted(net: &Net, n: usize) -> crate::association::AssociationStats {
    *net.ends[n].0.association(ids(net)[n]).expect("it stands").stats()
}

fn connected() -> (Net, AssociationId) {
    let mut net = Net::new(&Config::default());
    let id = net.connect(b"hello").expect("a place");
    net.run(20);
    (net, id)
}

fn open(net: &mut Net, id: AssociationId) -> PathId {
    let now = net.now;
    net.ends[0].0.open_path(now, id, OTHER, addr_on(OTHER, 1)).expect("room for a path")
}

/// What one end sends now on a link: where to, and the bytes.
fn trains(net: &mut Net, n: usize, link: LinkId) -> Vec<(Addr, Vec<u8>)> {
    let (mut buf, mut sent) = (vec![0; 16 * 1500], Vec::new());
    let (now, (endpoint, memory)) = (net.now, &mut net.ends[n]);
    if endpoint.poll_timeout().is_some_and(|(at, _)| at <= now) {
        endpoint.handle_timeout(now, memory);
    }
    loop {
        let mut out = TxBatch::new(&mut buf, memory, 16);
        let Some(train) = endpoint.poll_transmit(now, Grant::free(link), &mut out) else {
            return sent;
        };
        sent.extend(buf[..train.len].chunks(train.segment).map(|d| (train.remote, d.to_vec())));
    }
}

/// One end receives a datagram on a link as if it came from an address.
fn arrives(net: &mut Net, n: usize, link: LinkId, remote: Addr, datagram: &[u8]) {
    let rx = RxMeta { link, remote, ecn: 0, late: Duration::ZERO };
    let (endpoint, memory) = &mut net.ends[n];
    endpoint.handle_datagram(net.now, rx, &mut datagram.to_vec(), memory);
}

#[test]
fn an_address_that_is_offered_becomes_a_path_that_carries() {
    let (mut net, id) = connected();
    let theirs = ids(&net)[1];
    assert!(net.ends[1].0.offer_path(theirs, OTHER, addr_on(OTHER, 1)));
    net.run(10);
    let offered = |e: &EndpointEvent| match e {
        EndpointEvent::Association {
            event: AssociationEvent::PathOffered { path, link, remote },
            ..
        } => Some((path.0, *link, *remote)),
        _ => None,
    };
    let offers: Vec<_> = net.events[0].iter().filter_map(offered).collect();
    assert_eq!(offers, [(1, OTHER, addr_on(OTHER, 1))]);
    open(&mut net, id);
    net.run(1);
    assert_eq!(states(&net, 0), [PathState::Carries, PathState::Unproven]);
    net.run(10);
    for n in [0, 1] {
        assert_eq!(states(&net, n), [PathState::Carries; 2], "end {n}");
        assert_eq!((counted(&net, n).paths.opened, counted(&net, n).forged), (1, 0));
        assert_eq!(paths(&net, n)[1].rtt, Some(Duration::from_millis(2)), "of the challenge");
    }
    let channel = net.ends[0].0.open(id, Opening::new(Direction::Both, 1)).expect("a channel");
    net.send(id, channel, 300);
    net.run(300);
    let [one, two] = net.taken;
    assert_eq!(received(&net), 300);
    assert!(one > (one + two) / 4 && two > (one + two) / 4, "{one} and {two} datagrams");
}

#[test]
fn only_who_started_the_association_opens_paths_and_no_more_than_fit() {
    let (mut net, id) = connected();
    let (now, theirs) = (net.now, ids(&net)[1]);
    assert_eq!(net.ends[1].0.open_path(now, theirs, OTHER, addr_on(OTHER, 0)), None);
    for n in 1..16 {
        assert_eq!(open(&mut net, id), PathId(n));
    }
    assert_eq!(net.ends[0].0.open_path(now, id, OTHER, addr_on(OTHER, 1)), None);
    net.run(300);
    assert_eq!((states(&net, 1), states(&net, 0).len()), (vec![PathState::Carries; 16], 16));
    // Challenge, answer, answer; and what acknowledges the last two.
    assert!(net.taken[1] <= 5 * 15, "{}", net.taken[1]);
    for n in 1..=16 {
        let offered = net.ends[1].0.offer_path(theirs, OTHER, addr_on(OTHER, 1));
        assert_eq!(offered, n < 16, "offer {n}");
    }
}

#[test]
fn where_nobody_answers_nothing_depends_on_the_path_and_little_goes_there() {
    let (mut net, id) = connected();
    net.cut = Some(OTHER);
    open(&mut net, id);
    let channel = net.ends[0].0.open(id, Opening::new(Direction::Both, 1)).expect("a channel");
    net.send(id, channel, 100);
    net.run(200);
    assert_eq!((received(&net), counted(&net, 0).packets_lost), (100, 0));
    net.run(59_800);
    let asked = net.taken[1];
    assert!((20..80).contains(&asked), "{asked} challenges in a minute");
    assert_eq!(states(&net, 0)[1], PathState::Unproven);
    // It answers at last: within a second and a bit.
    net.cut = None;
    net.run(1100);
    assert_eq!(states(&net, 0)[1], PathState::Carries);
    assert_eq!(states(&net, 1)[1], PathState::Carries);
}

#[test]
fn to_an_address_that_was_named_by_sending_from_it_goes_three_times_as_much_as_came() {
    let (mut net, id) = connected();
    open(&mut net, id);
    let challenge = trains(&mut net, 0, OTHER).remove(0).1;
    assert_eq!(challenge.len(), PACKET_MIN);
    arrives(&mut net, 1, OTHER, victim(), &challenge);
    let mut bytes = 0;
    for _ in 0..30_000 {
        net.now += Duration::from_millis(1);
        for (remote, datagram) in trains(&mut net, 1, OTHER) {
            assert_eq!(remote, victim());
            bytes += datagram.len();
        }
    }
    assert!(bytes > 2 * PACKET_MIN && bytes <= 3 * PACKET_MIN, "{bytes} of {PACKET_MIN}");
    assert_eq!(states(&net, 1)[1], PathState::Unproven);
    // The true one, which it goes on with.
    let again = trains(&mut net, 0, OTHER);
    assert_eq!(again.len(), 1);
    arrives(&mut net, 1, OTHER, addr_on(OTHER, 0), &again[0].1);
    net.run(10);
    assert_eq!(states(&net, 1)[1], PathState::Carries);
}

#[test]
fn a_packet_that_another_sends_on_moves_no_path() {
    let (mut net, id) = connected();
    let channel = net.ends[0].0.open(id, Opening::new(Direction::Both, 1)).expect("a channel");
    net.send(id, channel, 1);
    let packets = trains(&mut net, 0, LINK);
    assert!(packets.len() > 2, "{}", packets.len());
    let mut came = 0;
    for (_, datagram) in &packets {
        came += datagram.len();
        arrives(&mut net, 1, LINK, victim(), datagram);
    }
    let (mut there, mut here) = (0, 0);
    for _ in 0..10_000 {
        net.now += Duration::from_millis(1);
        for (remote, datagram) in trains(&mut net, 1, LINK) {
            if remote == victim() {
                there += datagram.len();
            } else {
                here += 1;
                arrives(&mut net, 0, LINK, addr(1), &datagram);
            }
        }
        for (_, datagram) in trains(&mut net, 0, LINK) {
            arrives(&mut net, 1, LINK, addr(0), &datagram);
        }
    }
    assert!(there <= 4 * PACKET_MIN && there <= 3 * came, "{there} bytes to another's address");
    assert!(here > 1, "and everything else to its own");
    assert_eq!((paths(&net, 1)[0].remote, counted(&net, 1).paths.moved), (addr(0), 0));
}

#[test]
fn a_path_follows_its_peer_to_another_address() {
    let (mut net, id) = connected();
    let channel = net.ends[0].0.open(id, Opening::new(Direction::Both, 1)).expect("a channel");
    let moved: Addr = ([192, 0, 2, 77], 4711).into();
    net.send(id, channel, 20);
    for _ in 0..200 {
        net.now += Duration::from_millis(1);
        for (_, datagram) in trains(&mut net, 0, LINK) {
            arrives(&mut net, 1, LINK, moved, &datagram);
        }
        for (remote, datagram) in trains(&mut net, 1, LINK) {
            // What still goes to the old address reaches nobody.
            if remote == moved {
                arrives(&mut net, 0, LINK, addr(1), &datagram);
            }
        }
        while let Some(event) = net.ends[1].0.poll_event() {
            net.handle(1, &event);
            net.events[1].push(event);
        }
    }
    assert_eq!((paths(&net, 1)[0].remote, counted(&net, 1).paths.moved), (moved, 1));
    assert_eq!(received(&net), 20);
    assert_eq!(counted(&net, 0).paths.moved, 0);
}

#[test]
fn an_answer_counts_whenever_it_comes_and_once() {
    let (mut net, id) = connected();
    open(&mut net, id);
    let challenge = trains(&mut net, 0, OTHER).remove(0).1;
    arrives(&mut net, 1, OTHER, addr_on(OTHER, 0), &challenge);
    let answer = trains(&mut net, 1, OTHER).remove(0).1;
    // Half a minute later; what was asked meanwhile is lost.
    net.cut = Some(OTHER);
    net.run(30_000);
    assert_eq!(states(&net, 0)[1], PathState::Unproven);
    arrives(&mut net, 0, OTHER, addr_on(OTHER, 1), &answer);
    assert_eq!(states(&net, 0)[1], PathState::Carries);
    assert_eq!(counted(&net, 0).paths.responses_stray, 0);
    arrives(&mut net, 0, OTHER, addr_on(OTHER, 1), &answer);
    assert_eq!((counted(&net, 0).duplicates, counted(&net, 0).paths.opened), (1, 1));
}
