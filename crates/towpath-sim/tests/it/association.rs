//! What two endpoints promise each other's owners, over a small in-memory network in virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::network::{BOTH, CLEAN, Fate, Host, Network, ONE_WAY, drop_nth, is_data, ms};
use towpath_proto::association::End;
use towpath_proto::congestion::CongestionKind;
use towpath_proto::{Config, Machine, Rng, SendError};
use towpath_sim::link::LinkSpec;
use towpath_wire::frame::MESSAGE_CHARGE;
use towpath_wire::packet::DATA_HEADER;

const SECOND: Duration = Duration::from_secs(1);

fn config() -> Config {
    Config::default()
}

// Messages.

#[test]
fn both_sides_may_send_64_mib_before_either_reads() {
    let mut net = Network::connected(&config(), CLEAN);
    let (count, len) = (1024, 65_536);
    let channel = net.hosts[0].open(BOTH).unwrap();
    net.hosts[0].send(channel, 0, len).unwrap();
    net.flush();
    net.run_for(ms(50));
    net.hosts.iter_mut().for_each(|h| h.reading = false);
    net.hosts[1].send(channel, 0, len).unwrap();
    for n in 1..count {
        net.hosts.iter_mut().for_each(|h| _ = h.send(channel, n, len).unwrap());
    }
    net.flush();
    net.run_for(5 * SECOND);
    // Own messages wait with their owner; of the peer's there is no more than the credit given.
    let own = count * (u64::from(len) + 64);
    let bound = own + u64::from(config().window) * 7 / 4;
    for h in &net.hosts {
        assert!(h.unread.len() >= 14, "the credit is used: {} messages", h.unread.len());
        assert!(h.memory.used_max() <= bound, "{} B, bound {bound} B", h.memory.used_max());
    }
    net.hosts.iter_mut().for_each(Host::read);
    net.flush();
    let done = |n: &Network| n.hosts.iter().all(|h| h.arrived.len() as u64 == count);
    assert!(net.run_until(done, 60 * SECOND), "no deadlock");
    assert!(net.hosts.iter().all(|h| h.has_all(channel, count, len)));
    net.run_for(SECOND);
    assert!(net.hosts.iter().all(|h| h.memory.used() == 0), "every block came back");
}

#[test]
fn credit_for_short_messages_takes_no_datagrams_of_its_own() {
    let mut net = Network::connected(&config(), CLEAN);
    let channel = net.hosts[0].open(BOTH).unwrap();
    let trips = 200;
    for n in 0..trips {
        for (from, to) in [(0, 1), (1, 0)] {
            net.hosts[from].send(channel, n, 16).unwrap();
            net.flush();
            assert!(net.run_until(|net| net.hosts[to].arrived.len() as u64 > n, SECOND));
        }
    }
    let sent: u64 = net.hosts.iter().map(|h| h.stats().packets_sent).sum();
    assert!(sent <= 2 * trips + 20, "{sent} datagrams for {trips} messages each way");
    // It comes all the same: the longest message fits at once when the last echo is over.
    net.run_for(ms(10));
    let long = config().window - MESSAGE_CHARGE as u32;
    net.hosts[0].send(channel, trips, long).unwrap();
    net.flush();
    assert!(net.run_until(|net| net.hosts[1].arrived.len() as u64 > trips, SECOND));
}

/// 32 MiB each way over 10 Gbit/s and 40 ms: more under way than a path remembers packets for.
fn fill_a_long_fat_path(congestion: CongestionKind, loss_ppm: u32) {
    let config = Config { congestion, ..config() };
    let mut net = Network::connected(&config, LinkSpec { delay_us: 20_000, loss_ppm, ..CLEAN });
    let (count, len) = (64, 65_536);
    for h in &mut net.hosts {
        let channels: Vec<_> = (0..8).map(|_| h.open(ONE_WAY).unwrap()).collect();
        for n in 0..count {
            for c in &channels {
                h.send(*c, n, len).unwrap();
            }
        }
    }
    net.flush();
    let done = |n: &Network| n.hosts.iter().all(|h| h.sent == 8 * count);
    let all = net.run_until(done, 60 * SECOND);
    for h in &net.hosts {
        let (arrived, sent, stats) = (h.arrived.len(), h.sent, h.stats());
        assert!(all, "{arrived} arrived and {sent} acknowledged of {}: {stats:?}", 8 * count);
        assert_eq!(h.over, []);
        assert_eq!(h.memory.used(), 0, "every block came back");
    }
}

#[test]
fn both_sides_may_fill_a_long_fat_path_at_once() {
    fill_a_long_fat_path(CongestionKind::Aimd, 0);
}

#[test]
fn both_sides_may_fill_a_long_fat_path_at_once_with_losses() {
    fill_a_long_fat_path(CongestionKind::Aimd, 1_000);
}

#[test]
fn both_sides_may_fill_a_long_fat_path_at_once_with_a_constant_window() {
    fill_a_long_fat_path(CongestionKind::Fixed(8 << 20), 0);
}

#[test]
fn a_message_longer_than_the_window_is_too_long_and_one_that_just_fits_arrives() {
    let mut net = Network::connected(&config(), CLEAN);
    let channel = net.hosts[0].open(BOTH).unwrap();
    let limit = config().window - MESSAGE_CHARGE as u32;
    let len = limit + 1;
    assert_eq!(net.hosts[0].send(channel, 0, len), Err(SendError::TooLong { len, limit }));
    net.hosts[0].send(channel, 0, limit).unwrap();
    net.flush();
    net.run_for(SECOND);
    assert!(net.hosts[1].has_all(channel, 1, limit));
}

#[test]
fn a_long_message_after_a_short_one_that_was_read_is_not_held_back() {
    for (short, long) in [(1000, 1_048_000), (200_000, 900_000), (250_000, 800_000)] {
        let mut net = Network::connected(&config(), CLEAN);
        let channel = net.hosts[0].open(ONE_WAY).unwrap();
        net.hosts[0].send(channel, 0, short).unwrap();
        net.hosts[0].send(channel, 1, long).unwrap();
        net.flush();
        net.run_for(10 * SECOND);
        let arrived = net.hosts[1].arrived.len();
        assert_eq!(arrived, 2, "{short} B, then {long} B: window {} B", config().window);
    }
}

#[test]
fn a_message_longer_than_the_peers_smaller_window_is_told_as_too_long() {
    let small = Config { window: 65_536, ..config() };
    let mut net = Network::new(vec![Host::new(1, config()), Host::new(2, small)], CLEAN);
    net.connect(0, 1);
    net.run_for(SECOND);
    let channel = net.hosts[0].open(BOTH).unwrap();
    let sent = net.hosts[0].send(channel, 0, 100_000);
    net.flush();
    net.run_for(30 * SECOND);
    let arrived = net.hosts[1].arrived.len();
    assert!(
        matches!(sent, Err(SendError::TooLong { .. })) || arrived == 1,
        "taken ({sent:?}), and never sent: {arrived} arrived in 30 s"
    );
}

#[test]
fn loss_and_reordering_leave_32_mib_intact_and_repairs_in_proportion() {
    let spec = LinkSpec { loss_ppm: 50_000, reorder_ppm: 50_000, reorder_us: 400, ..CLEAN };
    let mut net = Network::connected(&config(), spec);
    let (count, len) = (512, 65_536);
    let channel = net.hosts[0].open(ONE_WAY).unwrap();
    (0..count).for_each(|n| _ = net.hosts[0].send(channel, n, len).unwrap());
    net.flush();
    let done = |n: &Network| n.hosts[1].arrived.len() as u64 == count;
    assert!(net.run_until(done, 600 * SECOND), "{:?}", net.hosts[0].stats());
    assert!(net.hosts[1].has_all(channel, count, len));
    let (lost, stats) = (net.links[0].stats.lost, net.hosts[0].stats());
    assert!(lost > 500, "the link did lose: {lost}");
    assert!(2 * stats.repaired <= 5 * lost, "{} repairs for {lost} lost", stats.repaired);
}

#[test]
fn on_a_clean_link_nothing_is_ever_repaired() {
    // A pipe that never fills, and one that the sender fills until it queues.
    for rate_bps in [10_000_000_000, 1_000_000_000, 100_000_000, 10_000_000] {
        let mut net = Network::connected(&config(), LinkSpec { rate_bps, ..CLEAN });
        let (count, len) = (256, 65_536);
        let channel = net.hosts[0].open(ONE_WAY).unwrap();
        (0..count).for_each(|n| _ = net.hosts[0].send(channel, n, len).unwrap());
        net.flush();
        let done = |n: &Network| n.hosts[1].arrived.len() as u64 == count;
        assert!(net.run_until(done, 120 * SECOND), "at {rate_bps} bit/s");
        let s = net.hosts[0].stats();
        assert_eq!((s.repaired, s.packets_lost), (0, 0), "at {rate_bps} bit/s: {s:?}");
    }
}

#[test]
fn duplicates_and_reordering_alone_deliver_each_message_once_and_in_order() {
    let spec = LinkSpec { duplicate_ppm: 200_000, reorder_ppm: 200_000, reorder_us: 3000, ..CLEAN };
    let mut net = Network::connected(&config(), spec);
    let channel = net.hosts[1].open(BOTH).unwrap();
    (0..2000).for_each(|n| _ = net.hosts[1].send(channel, n, 900).unwrap());
    net.flush();
    net.run_for(30 * SECOND);
    assert!(net.hosts[0].has_all(channel, 2000, 900));
    assert!(net.hosts[0].stats().duplicates > 50);
}

#[test]
fn corrupt_datagrams_raise_forged_and_nothing_else() {
    let mut net = Network::connected(&config(), CLEAN);
    let spoiled = Rc::new(Cell::new(0u64));
    let count = spoiled.clone();
    let mut rng = Rng::new(5, 5);
    net.tap = Box::new(move |_, from, bytes| {
        if from == 0 && rng.chance_ppm(100_000) {
            let bits = 8 * (bytes.len() - DATA_HEADER) as u64;
            let bit = rng.below(bits) as usize;
            bytes[DATA_HEADER + bit / 8] ^= 1 << (bit % 8);
            count.set(count.get() + 1);
        }
        Fate::Pass
    });
    let before = net.hosts[1].stats().packets_received;
    let channel = net.hosts[0].open(ONE_WAY).unwrap();
    (0..3000).for_each(|n| _ = net.hosts[0].send(channel, n, 1000).unwrap());
    net.flush();
    net.run_for(60 * SECOND);
    assert!(net.hosts[1].has_all(channel, 3000, 1000));
    let s = net.hosts[1].stats();
    assert!(spoiled.get() > 200, "{}", spoiled.get());
    assert_eq!(s.forged, spoiled.get());
    assert!(s.packets_received > before);
    assert_eq!((s.duplicates, s.refused), (0, 0));
    assert!(net.hosts.iter().all(|h| h.over.is_empty() && h.incoming <= 1));
}

#[test]
fn duplicates_and_packets_older_than_the_replay_window_are_dropped_unopened() {
    let mut net = Network::connected(&config(), CLEAN);
    let kept = Rc::new(RefCell::new(Vec::new()));
    let keep = kept.clone();
    net.tap = Box::new(move |_, from, bytes| {
        if from == 0 && keep.borrow().len() < 10 {
            keep.borrow_mut().push(bytes.clone());
        }
        Fate::Pass
    });
    let channel = net.hosts[0].open(ONE_WAY).unwrap();
    (0..200).for_each(|n| _ = net.hosts[0].send(channel, n, 60_000).unwrap());
    net.flush();
    net.run_for(10 * SECOND);
    assert!(net.hosts[1].has_all(channel, 200, 60_000));
    assert!(net.hosts[1].stats().packets_received > 5000, "beyond the window of 4096");
    let before = net.hosts[1].stats();
    let from = net.hosts[0].addr;
    // Spoiled ones too: were they opened, they would count as forged.
    for packet in kept.borrow().iter() {
        let mut spoiled = packet.clone();
        *spoiled.last_mut().unwrap() ^= 1;
        net.inject(1, from, packet.clone());
        net.inject(1, from, spoiled);
    }
    net.run_for(ms(1));
    let s = net.hosts[1].stats();
    assert_eq!(s.duplicates, before.duplicates + 20);
    assert_eq!((s.forged, s.messages_received), (before.forged, before.messages_received));
}

// Ends.

#[test]
fn finish_delivers_everything_before_the_end_in_both_directions() {
    let spec = LinkSpec { loss_ppm: 100_000, reorder_ppm: 100_000, ..CLEAN };
    for seed in 0..20 {
        let hosts = vec![Host::new(100 + seed, config()), Host::new(200 + seed, config())];
        let mut net = Network::new(hosts, spec);
        net.links[0] = towpath_sim::link::Link::new(spec, Rng::new(seed.into(), 10));
        net.connect(0, 1);
        assert!(net.run_until(|n| n.hosts[1].connected.len() == 1, 5 * SECOND));
        let channel = net.hosts[0].open(BOTH).unwrap();
        net.hosts[0].send(channel, 0, 10).unwrap();
        net.flush();
        assert!(net.run_until(|n| n.hosts[1].opened.len() == 1, 5 * SECOND));
        for n in 0..50 {
            net.hosts[1].send(channel, n, 3000).unwrap();
        }
        let id = net.hosts[1].id();
        net.hosts[1].endpoint.finish_channel(id, channel, 0);
        net.flush();
        assert!(net.run_until(|n| n.hosts[0].ended == [channel], 20 * SECOND), "seed {seed}");
        assert!(net.hosts[0].has_all(channel, 50, 3000), "everything before the end");
        let id = net.hosts[0].id();
        net.hosts[0].endpoint.finish_channel(id, channel, 0);
        net.flush();
        assert!(net.run_until(|n| n.hosts[1].ended == [channel], 20 * SECOND), "seed {seed}");
        assert!(net.hosts[1].has_all(channel, 1, 10));
        assert_eq!(net.hosts[0].send(channel, 1, 1), Err(SendError::NotOpen));
        assert!(net.hosts.iter().all(|h| h.over.is_empty()));
    }
}

#[test]
fn finish_without_a_message_ends_even_if_the_opening_packet_was_lost() {
    for gap in [ms(0), ms(1), ms(30)] {
        let mut net = Network::connected(&config(), CLEAN);
        net.run_for(ms(100));
        drop_nth(&mut net, 0, 0, is_data);
        let channel = net.hosts[0].open(ONE_WAY).unwrap();
        net.flush();
        net.run_for(gap);
        let id = net.hosts[0].id();
        net.hosts[0].endpoint.finish_channel(id, channel, 0);
        net.flush();
        net.run_for(10 * SECOND);
        assert_eq!(net.hosts[1].opened, [channel], "finished {gap:?} after the opening");
        assert_eq!(net.hosts[1].ended, [channel], "finished {gap:?} after the opening");
    }
}

#[test]
fn close_tells_the_peer_the_reason_in_words() {
    for lost in [None, Some(0), Some(1)] {
        let mut net = Network::connected(&config(), CLEAN);
        net.run_for(ms(100));
        if let Some(n) = lost {
            drop_nth(&mut net, 0, n, is_data);
        }
        let channel = net.hosts[0].open(BOTH).unwrap();
        net.hosts[0].send(channel, 0, 1000).unwrap();
        let (id, now) = (net.hosts[0].id(), net.now);
        let h = &mut net.hosts[0];
        h.endpoint.close(now, id, 300, "maintenance", &mut h.memory);
        net.flush();
        net.run_for(SECOND);
        assert_eq!(net.hosts[0].over[0].1, End::Closed);
        let told = End::ByPeer { reason: 300, text: "maintenance".into() };
        assert_eq!(net.hosts[1].over.iter().map(|o| &o.1).collect::<Vec<_>>(), [&told]);
        assert!(net.hosts.iter().all(|h| h.memory.used() == 0));
        assert!(net.hosts.iter().all(|h| h.endpoint.associations().count() == 0));
        assert!(net.hosts[0].endpoint.association(id).is_none());
    }
}

#[test]
fn the_text_of_a_close_is_cut_between_characters() {
    let mut net = Network::connected(&config(), CLEAN);
    let now = net.now;
    let (text, id) = ("ä".repeat(200), net.hosts[0].id());
    let h = &mut net.hosts[0];
    h.endpoint.close(now, id, 300, &text, &mut h.memory);
    net.flush();
    net.run_for(SECOND);
    let [(_, End::ByPeer { text, .. })] = &net.hosts[1].over[..] else { panic!() };
    assert!(text.chars().all(|c| c == 'ä'), "{text}");
}

// Channels.

#[test]
fn channels_beyond_the_limit_are_refused_and_no_number_is_used_twice() {
    let config = Config { channels_max: 4, ..config() };
    let mut net = Network::connected(&config, CLEAN);
    let mut used: Vec<_> = (0..4).map(|_| net.hosts[0].open(ONE_WAY).unwrap()).collect();
    assert_eq!(net.hosts[0].open(ONE_WAY), None);
    // The other side's limit is its own.
    assert!(net.hosts[1].open(BOTH).is_some());
    for round in 0..50 {
        let (id, oldest) = (net.hosts[0].id(), used[round]);
        net.hosts[0].send(oldest, 0, 100).unwrap();
        net.hosts[0].endpoint.finish_channel(id, oldest, 0);
        net.flush();
        net.run_for(ms(50));
        let fresh = net.hosts[0].open(ONE_WAY).expect("a place became free");
        assert!(!used.contains(&fresh), "{fresh:?} was used before");
        used.push(fresh);
        assert_eq!(net.hosts[0].open(ONE_WAY), None);
    }
    assert_eq!(net.hosts[1].ended.len(), 50);
    assert!(net.hosts.iter().all(|h| h.over.is_empty()));
}

#[test]
fn a_peer_that_takes_fewer_channels_keeps_the_association_and_the_others() {
    let few = Config { channels_max: 2, ..config() };
    let mut net = Network::new(vec![Host::new(1, config()), Host::new(2, few)], CLEAN);
    net.connect(0, 1);
    net.run_for(SECOND);
    let channels: Vec<_> = (0..2).map(|_| net.hosts[0].open(ONE_WAY).unwrap()).collect();
    assert_eq!(net.hosts[0].open(ONE_WAY), None, "the peer said that it takes two");
    for c in &channels {
        net.hosts[0].send(*c, 0, 5000).unwrap();
    }
    net.flush();
    net.run_for(5 * SECOND);
    assert!(net.hosts.iter().all(|h| h.over.is_empty()), "{:?}", net.hosts[1].over);
    assert!(channels.iter().all(|c| net.hosts[1].has_all(*c, 1, 5000)));
    // A third has its turn once one of the others is over.
    let id = net.hosts[0].id();
    net.hosts[0].endpoint.finish_channel(id, channels[0], 0);
    net.flush();
    net.run_for(5 * SECOND);
    let third = net.hosts[0].open(ONE_WAY).expect("a place became free");
    net.hosts[0].send(third, 0, 5000).unwrap();
    net.flush();
    net.run_for(5 * SECOND);
    assert!(net.hosts[1].has_all(third, 1, 5000), "{:?}", net.hosts[0].stats());
}

#[test]
fn a_full_table_of_channels_turns_over_on_a_lossy_link_without_a_fault() {
    for seed in 0..30 {
        let spec = LinkSpec { loss_ppm: 100_000, reorder_ppm: 100_000, ..CLEAN };
        let one = Config { channels_max: 1, ..config() };
        let hosts = vec![Host::new(300 + seed, one.clone()), Host::new(400 + seed, one)];
        let mut net = Network::new(hosts, spec);
        for (n, link) in net.links.iter_mut().enumerate() {
            *link = towpath_sim::link::Link::new(spec, Rng::new(seed.into(), 20 + n as u64));
        }
        net.connect(0, 1);
        assert!(net.run_until(|n| n.hosts[1].connected.len() == 1, 5 * SECOND));
        for round in 0..20 {
            let what = format!("seed {seed} round {round}");
            // As soon as our own table has a place, the next one is opened.
            let channel = (0..20_000).find_map(|_| {
                let channel = net.hosts[0].open(BOTH);
                net.run_for(if channel.is_none() { ms(1) } else { ms(0) });
                channel
            });
            let channel = channel.unwrap_or_else(|| panic!("{what}: the place stays taken"));
            let id = net.hosts[0].id();
            net.hosts[0].send(channel, 0, 2000).unwrap();
            net.hosts[0].endpoint.finish_channel(id, channel, 0);
            net.flush();
            let opened = |n: &Network| n.hosts[1].opened.contains(&channel);
            assert!(net.run_until(opened, 20 * SECOND), "{what}: {:?}", net.hosts[1].over);
            let id = net.hosts[1].id();
            net.hosts[1].send(channel, 0, 2000).unwrap();
            net.hosts[1].endpoint.finish_channel(id, channel, 0);
            net.flush();
            let ended = |n: &Network| n.hosts[0].ended.contains(&channel);
            assert!(net.run_until(ended, 20 * SECOND), "{what}: {:?}", net.hosts[1].over);
            assert!(net.hosts.iter().all(|h| h.over.is_empty()), "{what}: {:?}", net.hosts[1].over);
        }
    }
}

/// Short timers that come and go (acknowledgements, probes) leave no old long ones behind.
#[test]
fn after_light_traffic_nobody_is_woken_for_nothing() {
    let mut net = Network::connected(&Config::default(), CLEAN);
    let channel = net.hosts[0].open(ONE_WAY).unwrap();
    for n in 0..4_000 {
        net.hosts[0].send(channel, n, 100).unwrap();
        net.flush();
        net.run_for(ms(5));
    }
    let (end, mut wakes) = (net.now + Duration::from_mins(1), 0);
    loop {
        let due = net.hosts.iter().filter_map(|h| h.endpoint.poll_timeout()).map(|(at, _)| at);
        let Some(due) = due.min().filter(|due| *due < end) else { break };
        net.run_for(due.since(net.now).max(Duration::from_nanos(1)));
        wakes += 1;
    }
    assert!(wakes < 60, "{wakes} wake-ups of two hosts in an idle minute");
}
