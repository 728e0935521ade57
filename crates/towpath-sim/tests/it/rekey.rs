//! Packet keys are renewed under load, loss and reordering, and nothing is ever sealed beyond what
//! a key can stand.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::network::{BOTH, CLEAN, Fate, Host, Network, ONE_WAY, is_data, ms};
use towpath_proto::association::End;
use towpath_proto::config::Rekey;
use towpath_proto::congestion::CongestionKind;
use towpath_proto::{Config, Rng};
use towpath_sim::link::{Link, LinkSpec};
use towpath_sim::swarm::stand_in;
use towpath_sim::{Scenario, run};
use towpath_wire::packet::Packet;

const SECOND: Duration = Duration::from_secs(1);

fn every(packets: u64) -> Config {
    Config { rekey: Rekey { packets, ..Rekey::default() }, ..Config::default() }
}

#[test]
fn hundreds_of_epochs_under_loss_and_reordering_lose_nothing() {
    let spec = LinkSpec {
        loss_ppm: 50_000,
        reorder_ppm: 100_000,
        reorder_us: 2000,
        duplicate_ppm: 20_000,
        ..CLEAN
    };
    for seed in 0..4 {
        // An epoch lasts a round trip at least: a small window makes many of them.
        let config = Config { congestion: CongestionKind::Fixed(32_000), ..every(8) };
        let hosts = vec![Host::new(10 + seed, config.clone()), Host::new(20 + seed, config)];
        let mut net = Network::new(hosts, spec);
        for (n, link) in net.links.iter_mut().enumerate() {
            *link = Link::new(spec, Rng::new(seed.into(), n as u64));
        }
        net.connect(0, 1);
        assert!(net.run_until(|n| n.hosts[1].connected.len() == 1, 5 * SECOND));
        let channel = net.hosts[0].open(BOTH).unwrap();
        let (count, len) = (256, 65_536);
        (0..count).for_each(|n| _ = net.hosts[0].send(channel, n, len).unwrap());
        net.flush();
        assert!(net.run_until(|n| !n.hosts[1].opened.is_empty(), 5 * SECOND));
        (0..count).for_each(|n| _ = net.hosts[1].send(channel, n, len).unwrap());
        net.flush();
        let done = |n: &Network| n.hosts.iter().all(|h| h.sent == count);
        let all = net.run_until(done, 600 * SECOND);
        for h in &net.hosts {
            let s = h.stats();
            assert!(all && h.has_all(channel, count, len), "seed {seed}: {s:?}");
            assert!(s.keys_sent > 300, "seed {seed}: the epoch byte wrapped: {s:?}");
            assert!(s.keys_received > 300, "seed {seed}: {s:?}");
            // What comes an epoch too late is repaired; it is rare.
            assert!(s.forged < s.packets_received / 20, "seed {seed}: {s:?}");
        }
        let (a, b) = (net.hosts[0].stats(), net.hosts[1].stats());
        assert!(a.keys_sent - b.keys_received <= 1, "seed {seed}: {a:?} {b:?}");
    }
}

#[test]
fn on_a_clean_link_no_packet_is_refused_at_an_update() {
    let mut net = Network::connected(&every(8), CLEAN);
    let channel = net.hosts[0].open(ONE_WAY).unwrap();
    (0..768).for_each(|n| _ = net.hosts[0].send(channel, n, 65_536).unwrap());
    net.flush();
    net.run_for(20 * SECOND);
    assert!(net.hosts[1].has_all(channel, 768, 65_536));
    assert!(net.hosts[0].stats().keys_sent > 20, "{:?}", net.hosts[0].stats());
    for h in &net.hosts {
        assert_eq!((h.stats().forged, h.stats().packets_lost), (0, 0));
    }
}

#[test]
fn swarms_with_tiny_keys_keep_every_promise() {
    let mut most = 0;
    for seed in 0..12 {
        let outcome = run(&Scenario::default(), seed, &stand_in, &|c| {
            (c.rekey.packets, c.congestion) = (4, CongestionKind::Aimd);
        });
        assert!(outcome.violations.is_empty(), "seed {seed}: {:#?}", outcome.violations);
        most = most.max(outcome.key_updates);
    }
    assert!(most > 300, "{most} epochs");
}

#[test]
fn a_key_s_age_ends_it_even_where_little_is_said() {
    let age = 10 * SECOND;
    let rekey = Rekey { age, ..Rekey::default() };
    let mut net = Network::connected(&Config { rekey, ..Config::default() }, CLEAN);
    let now = net.now;
    net.hosts[0].watch(now, true);
    net.run_for(100 * SECOND);
    for h in &net.hosts {
        assert!((9..=10).contains(&h.stats().keys_sent), "{:?}", h.stats());
        assert_eq!(h.stats().forged, 0);
    }
}

#[test]
fn trusted_links_renew_their_keys_too() {
    let config = Config { trusted: true, ..every(8) };
    let mut net = Network::connected(&config, CLEAN);
    let channel = net.hosts[0].open(ONE_WAY).unwrap();
    (0..64).for_each(|n| _ = net.hosts[0].send(channel, n, 65_536).unwrap());
    net.flush();
    net.run_for(20 * SECOND);
    assert!(net.hosts[1].has_all(channel, 64, 65_536));
    assert!(net.hosts[0].stats().keys_sent > 5 && net.hosts[1].stats().forged == 0);
}

#[test]
fn a_forged_epoch_changes_nothing() {
    let mut net = Network::connected(&every(64), CLEAN);
    net.run_for(SECOND);
    let channel = net.hosts[0].open(ONE_WAY).unwrap();
    let from = net.hosts[0].addr;
    let last = Rc::new(std::cell::RefCell::new(Vec::new()));
    let keep = last.clone();
    net.tap = Box::new(move |_, sender, bytes| {
        if sender == 0 && is_data(bytes) {
            keep.borrow_mut().clone_from(bytes);
        }
        Fate::Pass
    });
    for n in 0..200 {
        net.hosts[0].send(channel, n, 3000).unwrap();
        net.flush();
        let mut forged = last.borrow().clone();
        // A number that is still to come, so that the epoch alone is wrong.
        forged[8..16].copy_from_slice(&(1_000_000 + n).to_le_bytes());
        for epoch in 0..=255 {
            forged[1] = epoch;
            net.inject(1, from, forged.clone());
        }
        net.run_for(ms(5));
    }
    assert!(net.hosts[1].has_all(channel, 200, 3000));
    assert!(net.hosts.iter().all(|h| h.over.is_empty()));
    assert!(net.hosts[1].stats().keys_received > 3, "{:?}", net.hosts[1].stats());
    assert_eq!(net.hosts[1].stats().forged, 200 * 256);
}

#[test]
fn too_many_forged_packets_end_the_association() {
    let rekey = Rekey { failures_max: 100, ..Rekey::default() };
    let mut net = Network::connected(&Config { rekey, ..Config::default() }, CLEAN);
    let spoiled = Rc::new(Cell::new(0));
    let count = spoiled.clone();
    net.tap = Box::new(move |_, from, bytes| {
        if from == 0 && is_data(bytes) && bytes.len() > 1000 {
            *bytes.last_mut().unwrap() ^= 1;
            count.set(count.get() + 1);
        }
        Fate::Pass
    });
    let channel = net.hosts[0].open(ONE_WAY).unwrap();
    (0..100).for_each(|n| _ = net.hosts[0].send(channel, n, 10_000).unwrap());
    net.flush();
    net.run_for(60 * SECOND);
    let [(_, End::Fault(why))] = &net.hosts[1].over[..] else { panic!("{:?}", net.hosts[1].over) };
    assert!(why.contains("authenticate"), "{why}");
    assert!(spoiled.get() >= 100);
}

/// A peer that acknowledges nothing of the new epoch gets no newer one, and nothing beyond the
/// key's limit.
#[test]
fn nothing_is_sealed_beyond_a_key_s_limit() {
    let rekey = Rekey { packets: 1 << 40, packets_max: 500, ..Rekey::default() };
    let mut net = Network::connected(&Config { rekey, ..Config::default() }, CLEAN);
    let sealed = Rc::new(Cell::new(0u64));
    let count = sealed.clone();
    net.tap = Box::new(move |_, from, bytes| {
        if from == 0
            && let Ok(Packet::Data(data)) = Packet::parse(bytes)
        {
            assert_eq!(data.epoch, 0);
            count.set(count.get() + 1);
        }
        Fate::Pass
    });
    let channel = net.hosts[0].open(ONE_WAY).unwrap();
    (0..100).for_each(|n| _ = net.hosts[0].send(channel, n, 10_000).unwrap());
    net.flush();
    net.run_for(60 * SECOND);
    let [(_, End::Fault(why))] = &net.hosts[0].over[..] else { panic!("{:?}", net.hosts[0].over) };
    assert!(why.contains("key"), "{why}");
    assert!((490..=504).contains(&sealed.get()), "{} packets", sealed.get());
    assert!(matches!(&net.hosts[1].over[..], [(_, End::ByPeer { .. })]));
}

#[test]
fn no_key_follows_one_of_which_nothing_was_acknowledged() {
    let mut net = Network::connected(&every(8), CLEAN);
    let newest = Rc::new(Cell::new(0));
    let seen = newest.clone();
    net.tap = Box::new(move |_, from, bytes| {
        if from == 0
            && let Ok(Packet::Data(data)) = Packet::parse(bytes)
        {
            seen.set(data.epoch);
        }
        Fate::Pass
    });
    let channel = net.hosts[0].open(ONE_WAY).unwrap();
    (0..8).for_each(|n| _ = net.hosts[0].send(channel, n, 65_536).unwrap());
    net.flush();
    net.run_for(SECOND);
    assert!(net.hosts[1].has_all(channel, 8, 65_536));
    let (before, sent) = (newest.get(), net.hosts[0].stats().packets_sent);
    net.links[1].set_up(false);
    (8..16).for_each(|n| _ = net.hosts[0].send(channel, n, 65_536).unwrap());
    net.flush();
    net.run_for(SECOND);
    assert!(net.hosts[0].stats().packets_sent > sent + 32, "enough for four epochs");
    assert_eq!(newest.get(), before + 1);
}
