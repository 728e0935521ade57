//! How two endpoints come to an association, over a small in-memory network in virtual time.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use crate::network::{
    BOTH, CLEAN, Fate, Host, LINK, Network, at, cut, drop_nth, is_data, is_response, ms,
};
use towpath_proto::{
    Config, Connect, ConnectFailure, Endpoint, Grant, HeapMemory, Machine, Psk, Rng, TxBatch,
};
use towpath_sim::crypto::StandIn;
use towpath_sim::link::LinkSpec;
use towpath_wire::packet::Packet;
use towpath_wire::{Admission, ByteSize, Instant, VersionRange};

const SECOND: Duration = Duration::from_secs(1);

fn config() -> Config {
    Config::default()
}

#[test]
fn the_wrong_pre_shared_key_is_known_to_the_initiator_within_a_second() {
    let mut net = Network::pair(&config(), CLEAN);
    net.connect_with(0, 1, Psk([9; 32]));
    net.run_for(10 * SECOND);
    let [(when, failure)] = &net.hosts[0].failed[..] else { panic!("{:?}", net.hosts[0].failed) };
    assert_eq!(*failure, ConnectFailure::WrongKey);
    assert!(*when < at(SECOND), "known only after {when}");
    assert!(net.hosts.iter().all(|h| h.connected.is_empty()));
}

#[test]
fn one_forged_response_does_not_pass_for_a_wrong_key() {
    let mut net = Network::pair(&config(), CLEAN);
    let first = Rc::new(Cell::new(true));
    net.tap = Box::new(move |_, _, bytes| {
        // Whoever knows the initiator's public key can make a correct mac1: spoil the inside of
        // a copy as such a forger would, by spoiling the pre-shared key's part alone.
        if is_response(bytes) && first.replace(false) {
            let inside = bytes.len() - 40;
            bytes[inside] ^= 1;
        }
        Fate::Pass
    });
    net.connect(0, 1);
    net.run_for(10 * SECOND);
    assert!(net.hosts[0].failed.is_empty(), "{:?}", net.hosts[0].failed);
    assert_eq!(net.hosts[0].connected.len(), 1);
}

#[test]
fn no_answer_is_told_at_the_handshake_timeout_and_not_before() {
    let mut net = Network::pair(&config(), CLEAN);
    cut(&mut net);
    net.connect(0, 1);
    net.run_for(20 * SECOND);
    let timeout = config().handshakes.timeout;
    assert_eq!(net.hosts[0].failed, [(at(timeout), ConnectFailure::NoAnswer)]);
    assert!((5..=12).contains(&net.datagrams), "{} initiations", net.datagrams);
}

#[test]
fn a_lost_initiation_or_response_is_repeated() {
    for lost in [0, 1] {
        let mut net = Network::pair(&config(), CLEAN);
        drop_nth(&mut net, lost, 0, |_| true);
        net.connect(0, 1);
        net.run_for(SECOND);
        for h in &net.hosts {
            assert_eq!(h.connected.len(), 1, "lost from host {lost}");
            assert!(h.connected[0].0 < at(ms(150)), "only at {}", h.connected[0].0);
        }
        assert_eq!(net.hosts[1].incoming, 1);
    }
}

#[test]
fn a_lost_first_sealed_packet_is_made_good() {
    let mut net = Network::pair(&config(), CLEAN);
    drop_nth(&mut net, 0, 0, is_data);
    net.connect(0, 1);
    net.run_for(SECOND);
    assert!(net.hosts.iter().all(|h| h.connected.len() == 1));
}

#[test]
fn a_replayed_initiation_replaces_nothing_and_takes_at_most_one_place() {
    let mut net = Network::pair(&config(), CLEAN);
    let first = Rc::new(RefCell::new(Vec::new()));
    let keep = first.clone();
    net.tap = Box::new(move |_, _, bytes| {
        if keep.borrow().is_empty() {
            *keep.borrow_mut() = bytes.clone();
        }
        Fate::Pass
    });
    net.connect(0, 1);
    net.run_for(SECOND);
    let id = net.hosts[1].id();
    let from: SocketAddr = ([10, 9, 9, 9], 1).into();
    for _ in 0..1000 {
        let replay = first.borrow().clone();
        net.inject(1, from, replay);
        net.run_for(ms(1));
    }
    assert_eq!(net.hosts[1].incoming, 2, "the real one, and one for a thousand replays");
    assert_eq!(net.hosts[1].id(), id, "the association stands as before");
    assert_eq!(net.hosts[1].connected.len(), 1);
    let channel = net.hosts[0].open(BOTH).unwrap();
    net.hosts[0].send(channel, 0, 10_000).unwrap();
    net.flush();
    net.run_for(SECOND);
    assert!(net.hosts[1].has_all(channel, 1, 10_000));
    assert!(net.hosts.iter().all(|h| h.over.is_empty()));
}

/// The initiation that a stranger at address `n` sends to `to`.
fn strangers_initiation(n: u32, to: &Host) -> (SocketAddr, Vec<u8>) {
    let crypto = StandIn::new(Rng::new(0x0066_6c6f_6f64, n.into()));
    let mut stranger = Endpoint::new(config(), Box::new(crypto), Rng::new(3, n.into()));
    let (remote, key) = (to.addr, to.endpoint.public_key());
    let connect = Connect {
        link: LINK,
        remote,
        key,
        admission: Admission::Member,
        psk: Psk([1; 32]),
        hello: b"",
    };
    stranger.connect(Instant::ZERO, &connect).unwrap();
    let memory = HeapMemory::new(ByteSize::ZERO);
    let mut buf = vec![0; 2048];
    let mut batch = TxBatch::new(&mut buf, &memory, 1);
    let t = stranger.poll_transmit(Instant::ZERO, Grant::free(LINK), &mut batch).unwrap();
    buf.truncate(t.len);
    (SocketAddr::new(IpAddr::V4(Ipv4Addr::from(0x0b00_0000 + n)), 9), buf)
}

/// Strangers at 10 000 addresses each send one initiation, `every` apart, to host 1; host 0 tries
/// to join when `join` of them came. Returns the most half-open places ever taken.
fn flood(net: &mut Network, every: Duration, join: u32) -> usize {
    let begin = net.now;
    let mut accepted: Vec<Instant> = Vec::new();
    let mut most = 0;
    for n in 0..10_000u32 {
        let (from, initiation) = strangers_initiation(n, &net.hosts[1]);
        let before = net.hosts[1].incoming;
        net.inject(1, from, initiation);
        net.run_for(Duration::ZERO);
        accepted.extend((before..net.hosts[1].incoming).map(|_| net.now));
        accepted.retain(|t| *t + 5 * SECOND > net.now);
        most = most.max(accepted.len());
        net.run_for((begin + every * (n + 1)).since(net.now));
        if n == join {
            net.connect(0, 1);
        }
    }
    most
}

#[test]
fn a_burst_of_handshakes_from_10_000_addresses_keeps_nobody_out() {
    let mut net = Network::pair(&config(), CLEAN);
    let most = flood(&mut net, Duration::from_micros(50), 1000);
    net.run_for(5 * SECOND);
    assert!(most <= usize::from(config().handshakes.half_open_max), "{most} half-open places");
    let stats = net.hosts[1].endpoint.stats();
    assert!(stats.cookies > 9_000, "{stats:?}");
    assert_eq!(net.hosts[0].connected.len(), 1, "{:?}, {stats:?}", net.hosts[0].failed);
}

#[test]
fn a_lasting_flood_of_handshakes_without_cookies_keeps_nobody_out() {
    for join in [1000, 2000, 3000, 4000] {
        let mut net = Network::pair(&config(), CLEAN);
        let most = flood(&mut net, ms(1), join);
        assert!(most <= usize::from(config().handshakes.half_open_max), "{most} half-open places");
        let (failed, stats) = (&net.hosts[0].failed, net.hosts[1].endpoint.stats());
        assert_eq!(net.hosts[0].connected.len(), 1, "after {join} ms: {failed:?}, {stats:?}");
    }
}

/// Each joins in under a second while 50 000 strangers a second ask for two seconds.
#[test]
fn a_flood_from_100_000_addresses_takes_bounded_room_and_delays_nobody_for_a_second() {
    const STRANGERS: u32 = 100_000;
    const HOSTS: usize = 20;
    let hosts = (1..=HOSTS as u32 + 1).map(|n| Host::new(n, config())).collect();
    let mut net = Network::new(hosts, CLEAN);
    let (target, begin, mut most) = (HOSTS, net.now, 0);
    let mut asked = Vec::new();
    for n in 0..STRANGERS {
        let (from, initiation) = strangers_initiation(n, &net.hosts[target]);
        net.inject(target, from, initiation);
        net.run_for((begin + Duration::from_micros(20) * (n + 1)).since(net.now));
        most = most.max(net.hosts[target].endpoint.half_open());
        if n % 4000 == 1000 && asked.len() < HOSTS {
            net.connect(asked.len(), target);
            asked.push(net.now);
        }
    }
    net.run_for(SECOND);
    assert!(most <= config().handshakes.half_open_max, "{most} half-open places");
    let stats = net.hosts[target].endpoint.stats();
    assert!(stats.cookies > u64::from(STRANGERS) * 9 / 10, "{stats:?}");
    for (host, asked) in net.hosts.iter().zip(asked) {
        let joined: Vec<Duration> = host.connected.iter().map(|c| c.0.since(asked)).collect();
        assert!(joined.len() == 1 && joined[0] < SECOND, "{joined:?}, {:?}", host.failed);
    }
    net.run_for(6 * SECOND);
    assert_eq!(net.hosts[target].endpoint.associations().count(), HOSTS);
}

/// A host that answers cookies from its own address, and never proves that it may join.
#[test]
fn one_address_that_takes_all_places_keeps_nobody_else_out() {
    let hosts = (1..=3).map(|n| Host::new(n, config())).collect();
    let mut net = Network::new(hosts, CLEAN);
    let mut asked = net.now;
    for n in 0..2_000 {
        net.connect_with(2, 1, Psk([9; 32]));
        net.run_for(ms(2));
        if n == 1_000 {
            let full = net.hosts[1].endpoint.half_open();
            assert_eq!(full, config().handshakes.half_open_max, "the places are taken");
            net.connect(0, 1);
            asked = net.now;
        }
    }
    let joined: Vec<Duration> = net.hosts[0].connected.iter().map(|c| c.0.since(asked)).collect();
    let stats = net.hosts[1].endpoint.stats();
    assert!(joined.len() == 1 && joined[0] < SECOND, "{joined:?}, {stats:?}");
    assert!((1..10).contains(&stats.evicted), "{stats:?}");
}

#[test]
fn a_copied_initiation_draws_no_answer_to_whom_its_copier_names() {
    let (first, answers) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
    let mut net = Network::pair(&config(), CLEAN);
    let (keep, count) = (first.clone(), answers.clone());
    net.tap = Box::new(move |_, from, bytes| {
        if from == 0 && keep.borrow().is_empty() {
            keep.borrow_mut().clone_from(bytes);
        }
        count.set(count.get() + u32::from(from == 1 && is_response(bytes)));
        // The handshake stays half open.
        if is_data(bytes) { Fate::Drop } else { Fate::Pass }
    });
    net.connect(0, 1);
    net.run_for(ms(5));
    assert_eq!((answers.get(), net.hosts[1].endpoint.half_open()), (1, 1));
    let victim = SocketAddr::from(([10, 9, 9, 9], 1));
    for _ in 0..100 {
        let copy = first.borrow().clone();
        net.inject(1, victim, copy);
        net.run_for(Duration::from_micros(50));
    }
    assert_eq!(answers.get(), 1, "answers to a copy");
}

#[test]
fn both_sides_initiating_at_once_end_with_exactly_one_association_each() {
    // Both orders of keys, and every offset within the one-way delay of 500 us.
    for (a, b) in [(1, 2), (2, 1), (3, 4), (4, 3), (5, 6), (6, 5)] {
        for offset_us in [0, 1, 250, 499] {
            let mut net = Network::new(vec![Host::new(a, config()), Host::new(b, config())], CLEAN);
            net.connect(0, 1);
            net.run_for(Duration::from_micros(offset_us));
            net.connect(1, 0);
            net.run_for(20 * SECOND);
            let what = format!("hosts {a} and {b}, {offset_us} us apart");
            for h in &net.hosts {
                assert_eq!(h.endpoint.associations().count(), 1, "{what}");
                assert_eq!(h.connected.len(), 1, "{what}");
                assert!(h.over.is_empty(), "{what}: {:?}", h.over);
            }
            let yielded = net.hosts.iter().flat_map(|h| &h.failed);
            assert!(yielded.clone().all(|f| f.1 == ConnectFailure::Yielded), "{what}");
            assert_eq!(yielded.count(), 1, "{what}");
        }
    }
}

#[test]
fn an_old_initiation_sent_again_does_not_keep_us_from_connecting() {
    // Both orders of keys: the larger key yields to real initiations.
    for (a, b) in [(1, 2), (2, 1), (3, 4), (4, 3)] {
        let mut net = Network::new(vec![Host::new(a, config()), Host::new(b, config())], CLEAN);
        let old = Rc::new(RefCell::new(Vec::new()));
        let keep = old.clone();
        // Both initiate at once, once: whoever goes second has seen the other's handshake.
        net.tap = Box::new(move |_, from, bytes| {
            if from == 0 && matches!(Packet::parse(bytes), Ok(Packet::Initiation(_))) {
                *keep.borrow_mut() = bytes.clone();
            }
            Fate::Pass
        });
        net.connect(0, 1);
        net.connect(1, 0);
        net.run_for(SECOND);
        let (id, now) = (net.hosts[1].id(), net.now);
        let h = &mut net.hosts[1];
        h.endpoint.close(now, id, 300, "again", &mut h.memory);
        net.flush();
        net.run_for(SECOND);
        let yielded = net.hosts[1].failed.len();
        net.connect(1, 0);
        let (from, replay) = (net.hosts[0].addr, old.borrow().clone());
        net.inject(1, from, replay);
        net.run_for(SECOND);
        assert_eq!(net.hosts[1].failed.len(), yielded, "hosts {a} and {b}: not again");
        assert_eq!(net.hosts[1].endpoint.associations().count(), 1, "hosts {a} and {b}");
    }
}

#[test]
fn both_sides_initiating_at_once_over_a_lossy_link_still_meet() {
    for seed in 0..40 {
        let spec = LinkSpec { loss_ppm: 200_000, ..CLEAN };
        let hosts = vec![Host::new(2 * seed + 1, config()), Host::new(2 * seed + 2, config())];
        let mut net = Network::new(hosts, spec);
        net.connect(0, 1);
        net.connect(1, 0);
        net.run_for(4 * SECOND);
        for h in &net.hosts {
            assert!(h.over.is_empty(), "seed {seed}: {:?}", h.over);
            assert_eq!(h.endpoint.associations().count(), 1, "seed {seed}: {:?}", h.failed);
        }
    }
}

// Versions.

fn with_versions(min: u8, max: u8) -> Config {
    Config { versions: VersionRange { min, max }, ..config() }
}

#[test]
fn version_ranges_without_overlap_end_in_a_version_failure_that_names_the_peers() {
    let hosts = vec![Host::new(1, with_versions(1, 2)), Host::new(2, with_versions(3, 4))];
    let mut net = Network::new(hosts, CLEAN);
    net.connect(0, 1);
    net.run_for(20 * SECOND);
    let failure = ConnectFailure::Version(VersionRange { min: 3, max: 4 });
    assert_eq!(net.hosts[0].failed, [(at(config().handshakes.timeout), failure)]);
    assert_eq!(net.hosts[1].incoming, 0);
}

#[test]
fn ranges_that_overlap_in_part_agree_on_the_newest_common_version() {
    for (a, b, agreed) in [((1, 3), (2, 5), 3), ((2, 5), (1, 3), 3), ((1, 9), (4, 4), 4)] {
        let hosts =
            vec![Host::new(1, with_versions(a.0, a.1)), Host::new(2, with_versions(b.0, b.1))];
        let mut net = Network::new(hosts, CLEAN);
        let said = Rc::new(Cell::new(0));
        let note = said.clone();
        net.tap = Box::new(move |_, _, bytes| {
            if let Ok(Packet::Response(r)) = Packet::parse(bytes) {
                note.set(r.version);
            }
            Fate::Pass
        });
        net.connect(0, 1);
        net.run_for(SECOND);
        assert_eq!(said.get(), agreed);
        assert!(net.hosts.iter().all(|h| h.connected.len() == 1), "{a:?} and {b:?}");
    }
}
