//! What the reliability classes promise, over a small in-memory network in virtual time.

use std::time::Duration;

use crate::network::{BOTH, CLEAN, Host, Network, ONE_WAY, content, digest, drop_nth, is_data, ms};
use towpath_proto::association::Opening;
use towpath_proto::congestion::CongestionKind;
use towpath_proto::{ChannelStats, Config, SendError};
use towpath_sim::link::LinkSpec;
use towpath_wire::{ChannelId, Reliability};

const SECOND: Duration = Duration::from_secs(1);
const UNORDERED: Opening = Opening { reliability: Reliability::ReliableUnordered, ..ONE_WAY };
const TIMELY: Opening = Opening { reliability: Reliability::Timely, ..ONE_WAY };
const UNRELIABLE: Opening = Opening { reliability: Reliability::Unreliable, ..ONE_WAY };

/// A window that stays as it is: what is tested here is not congestion control.
fn config() -> Config {
    Config { congestion: CongestionKind::Fixed(1 << 20), ..Config::default() }
}

fn lossy(loss_ppm: u32, delay_us: u64) -> LinkSpec {
    LinkSpec { loss_ppm, delay_us, ..CLEAN }
}

fn channel_stats(net: &Network, host: usize, channel: ChannelId) -> ChannelStats {
    let h = &net.hosts[host];
    let association = h.endpoint.association(h.id()).expect("it is open");
    association.channel_stats(channel).expect("the channel is open")
}

fn intact(net: &Network, host: usize) -> bool {
    net.hosts[host].arrived.iter().all(|a| a.digest == digest(&content(a.number, a.len)))
}

/// At rest: no memory is held, and both sides agree on the channel's end.
fn comes_to_rest(net: &mut Network, channel: ChannelId) {
    let id = net.hosts[0].id();
    net.hosts[0].endpoint.finish_channel(id, channel, 0);
    net.flush();
    net.run_for(5 * SECOND);
    assert_eq!(net.hosts[1].ended, [channel], "the end is told");
    for h in &net.hosts {
        assert!(h.over.is_empty(), "{:?}", h.over);
        assert_eq!(h.memory.used(), 0, "every block came back");
    }
}

#[test]
fn a_message_of_an_unordered_channel_does_not_wait_for_a_lost_one() {
    for (opening, expected) in [(UNORDERED, [1, 2, 0]), (ONE_WAY, [0, 1, 2])] {
        let mut net = Network::connected(&config(), CLEAN);
        net.run_for(ms(100));
        drop_nth(&mut net, 0, 0, is_data);
        let channel = net.hosts[0].open(opening).unwrap();
        for n in 0..3 {
            net.hosts[0].send(channel, n, 1400).unwrap();
        }
        net.flush();
        net.run_for(SECOND);
        let order: Vec<_> = net.hosts[1].arrived.iter().map(|a| a.number).collect();
        assert_eq!(order, expected);
        assert!(intact(&net, 1));
        comes_to_rest(&mut net, channel);
    }
}

#[test]
fn unordered_messages_arrive_exactly_once_however_lossy_the_link() {
    let spec = LinkSpec { reorder_ppm: 100_000, reorder_us: 5000, ..lossy(200_000, 500) };
    let mut net = Network::connected(&config(), LinkSpec { duplicate_ppm: 100_000, ..spec });
    let channel = net.hosts[0].open(UNORDERED).unwrap();
    let count = 2000;
    for n in 0..count {
        net.hosts[0].send(channel, n, (n % 7 * 900) as u32).unwrap();
    }
    net.flush();
    assert!(
        net.run_until(|n| n.hosts[0].sent == count, 120 * SECOND),
        "{:?}",
        net.hosts[0].stats()
    );
    let mut numbers: Vec<_> = net.hosts[1].arrived.iter().map(|a| a.number).collect();
    assert!(!numbers.is_sorted(), "the test saw messages overtake each other");
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..count));
    assert!(intact(&net, 1));
    comes_to_rest(&mut net, channel);
}

#[test]
fn an_unreliable_message_is_sent_once_and_each_is_delivered_or_counted() {
    let mut net = Network::connected(&config(), lossy(100_000, 500));
    let channel = net.hosts[0].open(UNRELIABLE).unwrap();
    let count = 2000;
    for n in 0..count {
        net.hosts[0].send(channel, n, if n % 5 == 0 { 4200 } else { 1400 }).unwrap();
    }
    net.flush();
    net.run_for(20 * SECOND);
    let (sender, receiver) = (channel_stats(&net, 0, channel), channel_stats(&net, 1, channel));
    assert_eq!(sender.repaired, 0);
    assert_eq!(sender.messages_sent + sender.abandoned, count);
    assert_eq!(sender.abandoned, net.hosts[0].abandoned.len() as u64);
    assert_eq!(receiver.messages_received + receiver.dropped, count);
    assert!(receiver.messages_received >= sender.messages_sent);
    // Four of five messages are one packet long, the fifth three: 0.9 and 0.9³ of them arrive.
    assert!((1650..1850).contains(&receiver.messages_received), "{receiver:?}");
    assert!(intact(&net, 1));
    comes_to_rest(&mut net, channel);
}

/// 3000 messages of one packet, one each 2 ms over a link of 20 ms there and back that loses 20 %,
/// each to arrive within `within`: what sender and receiver counted.
fn timely(within: Duration) -> (ChannelStats, ChannelStats) {
    let mut net = Network::connected(&config(), lossy(200_000, 10_000));
    let channel = net.hosts[0].open(TIMELY).unwrap();
    // The round-trip time is known before the first message.
    net.run_for(5 * SECOND);
    let count = 3000;
    for n in 0..count {
        let deadline = net.now + within;
        net.hosts[0].send_by(channel, n, 1000, deadline).unwrap();
        net.flush();
        net.run_for(ms(2));
    }
    net.run_for(5 * SECOND);
    let (sender, receiver) = (channel_stats(&net, 0, channel), channel_stats(&net, 1, channel));
    assert_eq!(sender.messages_sent + sender.abandoned, count, "{sender:?}");
    assert_eq!(receiver.messages_received + receiver.dropped, count, "{receiver:?}");
    assert!(intact(&net, 1));
    comes_to_rest(&mut net, channel);
    (sender, receiver)
}

#[test]
fn a_timely_message_is_not_sent_when_it_cannot_arrive_in_time() {
    let (sender, receiver) = timely(ms(5));
    assert_eq!((sender.messages_sent, receiver.messages_received), (0, 0));
    assert_eq!((receiver.dropped, receiver.stale), (3000, 0));
}

#[test]
fn a_timely_message_that_allows_one_try_gets_one() {
    let (sender, receiver) = timely(ms(15));
    assert_eq!(sender.repaired, 0);
    assert!((2300..2500).contains(&receiver.messages_received), "80 %: {receiver:?}");
}

#[test]
fn the_last_repair_in_time_goes_twice_so_that_few_are_given_up() {
    // Time for one repair: with one copy 4 % are lost (120 of 3000), with two 0.8 % (24).
    let (sender, receiver) = timely(ms(48));
    let missed = receiver.dropped + sender.late;
    assert!(missed < 60, "{missed} missed: {sender:?}");
    assert!(sender.repaired > 1000, "600 lost at first, most of them repaired twice: {sender:?}");
}

#[test]
fn with_time_enough_a_timely_channel_loses_nothing() {
    let (sender, receiver) = timely(ms(1000));
    assert_eq!((receiver.messages_received, sender.late), (3000, 0));
}

#[test]
fn what_expires_in_the_queue_costs_no_bandwidth_and_those_after_it_are_in_time() {
    // 1.5 s worth of messages, each to arrive within 200 ms.
    let slow = LinkSpec { rate_bps: 10_000_000, ..lossy(0, 500) };
    let fixed = Config { congestion: CongestionKind::Fixed(16 * 1472), ..Config::default() };
    let mut net = Network::connected(&fixed, slow);
    let channel = net.hosts[0].open(TIMELY).unwrap();
    net.run_for(5 * SECOND);
    let (before, deadline) = (net.bytes, net.now + ms(200));
    for n in 0..1400 {
        net.hosts[0].send_by(channel, n, 1300, deadline).unwrap();
    }
    net.flush();
    net.run_for(ms(400));
    let (sender, spent) = (channel_stats(&net, 0, channel), net.bytes - before);
    assert!(sender.messages_sent > 100 && sender.abandoned > 1000, "{sender:?}");
    assert!(spent < 350_000, "{spent} B in 200 ms at 10 Mbit/s (250 000 B), and 24 B a skip");
    net.hosts[0].send_by(channel, 1400, 1300, net.now + ms(100)).unwrap();
    net.flush();
    net.run_for(ms(100));
    assert_eq!(net.hosts[1].arrived.last().map(|a| a.number), Some(1400));
    assert_eq!(channel_stats(&net, 0, channel).late, 0);
    comes_to_rest(&mut net, channel);
}

#[test]
fn a_deadline_is_for_timely_channels_only() {
    let mut net = Network::connected(&config(), CLEAN);
    let channel = net.hosts[0].open(UNORDERED).unwrap();
    let deadline = net.now + SECOND;
    assert_eq!(net.hosts[0].send_by(channel, 0, 10, deadline), Err(SendError::NotTimely));
}

#[test]
fn messages_of_1_b_to_16_mib_pass_a_link_that_loses_5_percent_and_reorders() {
    let spec = LinkSpec {
        rate_bps: 1_000_000_000,
        reorder_ppm: 20_000,
        reorder_us: 2000,
        ..lossy(50_000, 500)
    };
    let mut net = Network::connected(&config(), spec);
    let window = Some(config().window_max);
    let channel = net.hosts[0].open(Opening { window, ..ONE_WAY }).unwrap();
    let most = 16 << 20;
    let lens = [1, most, 1, 1000, 3 << 20, 65_536, 0, most];
    for (n, len) in lens.into_iter().enumerate() {
        net.hosts[0].send(channel, n as u64, len).unwrap();
    }
    net.flush();
    let all = lens.len();
    assert!(
        net.run_until(|n| n.hosts[0].sent == all as u64, 60 * SECOND),
        "{:?}",
        net.hosts[0].stats()
    );
    assert!(net.hosts[1].arrived.iter().map(|a| a.len).eq(lens));
    assert!(intact(&net, 1));
    let (used, bound) = (net.hosts[1].memory.used_max(), u64::from(config().window_max));
    assert!(used <= bound, "{used} B of messages, window {bound} B");
    comes_to_rest(&mut net, channel);
}

#[test]
fn windows_together_are_bounded_and_the_peer_is_never_asked_for_more() {
    let config = Config { credit_max: 100 << 20, ..config() };
    let mut net = Network::connected(&config, CLEAN);
    let large = Opening { window: Some(u32::MAX), ..ONE_WAY };
    let channels: Vec<_> = (0..4).map_while(|_| net.hosts[0].open(large)).collect();
    assert_eq!(channels.len(), 3, "3 windows of 32 MiB in 100 MiB");
    let limit = config.window_max - 64;
    assert_eq!(
        net.hosts[0].send(channels[0], 0, limit + 1),
        Err(SendError::TooLong { len: limit + 1, limit })
    );
    let small = net.hosts[0].open(ONE_WAY).expect("room for a small one is left");
    for c in [channels[0], channels[1], channels[2], small] {
        net.hosts[0].send(c, 0, 100).unwrap();
        let id = net.hosts[0].id();
        net.hosts[0].endpoint.finish_channel(id, c, 0);
    }
    net.flush();
    net.run_for(SECOND);
    assert_eq!(net.hosts[1].ended.len(), 4);
    assert!(net.hosts[0].open(large).is_some(), "what is over gives its window back");
    assert!(net.hosts.iter().all(|h| h.over.is_empty()));
}

#[test]
fn both_sides_may_send_64_mib_on_64_channels_before_either_reads() {
    let config = Config { window: 256 << 10, ..config() };
    let mut net = Network::connected(&config, CLEAN);
    let (count, len) = (16, 65_536u32);
    let channels: Vec<_> = (0..64).map(|_| net.hosts[0].open(BOTH).unwrap()).collect();
    net.flush();
    net.run_for(ms(50));
    for h in &mut net.hosts {
        h.reading = false;
        for n in 0..count {
            for c in &channels {
                h.send(*c, n, len).unwrap();
            }
        }
    }
    net.flush();
    net.run_for(5 * SECOND);
    let own = 64 * count * (u64::from(len) + 64);
    let bound = own + 64 * u64::from(config.window);
    for h in &net.hosts {
        assert!(h.unread.len() == 64 * 3, "the credit is used: {} messages", h.unread.len());
        assert!(h.memory.used_max() <= bound, "{} B, bound {bound} B", h.memory.used_max());
    }
    net.hosts.iter_mut().for_each(Host::read);
    net.flush();
    let done = |n: &Network| n.hosts.iter().all(|h| h.arrived.len() as u64 == 64 * count);
    assert!(net.run_until(done, 60 * SECOND), "no deadlock");
    assert!(net.hosts.iter().all(|h| channels.iter().all(|c| h.has_all(*c, count, len))));
    net.run_for(SECOND);
    assert!(net.hosts.iter().all(|h| h.memory.used() == 0), "every block came back");
}

#[test]
fn a_busy_channel_of_higher_priority_holds_no_repair_back() {
    let mut net = Network::connected(&config(), lossy(0, 5000));
    let low = net.hosts[0].open(ONE_WAY).unwrap();
    let high = net.hosts[0].open(Opening { priority: 9, ..ONE_WAY }).unwrap();
    net.run_for(SECOND);
    let lost = drop_nth(&mut net, 0, 0, is_data);
    net.hosts[0].send(low, 0, 1000).unwrap();
    net.flush();
    // 50 MiB: far more than what passes until the message is missed.
    for n in 0..800 {
        net.hosts[0].send(high, n, 65_536).unwrap();
    }
    net.flush();
    let arrived = |n: &Network| n.hosts[1].arrived.iter().any(|a| a.channel == low);
    assert!(net.run_until(arrived, SECOND), "the low channel's only packet was lost");
    assert!(lost.get() > 1);
    let before = net.hosts[1].arrived.iter().filter(|a| a.channel == high).count();
    assert!(before < 400, "{before} messages of the other channel came first");
}

#[test]
fn busy_channels_of_equal_priority_take_turns() {
    let mut net = Network::connected(&config(), CLEAN);
    let channels = [(); 2].map(|()| net.hosts[0].open(ONE_WAY).unwrap());
    net.run_for(SECOND);
    // Less than the credit of either: nothing else makes them take turns.
    let count = 10;
    for channel in channels {
        (0..count).for_each(|n| _ = net.hosts[0].send(channel, n, 65_536).unwrap());
    }
    net.flush();
    let done = |n: &Network| n.hosts[1].arrived.len() as u64 == 2 * count;
    assert!(net.run_until(done, SECOND));
    for pair in net.hosts[1].arrived.chunks(2) {
        let each = channels.map(|c| pair.iter().any(|a| a.channel == c));
        assert_eq!(each, [true; 2], "{pair:?}");
    }
}
