//! How an association finds out that its peer is gone, what it costs when nobody waits for it,
//! and how a peer that was given up learns of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::network::{BOTH, CLEAN, Fate, Host, Network, ONE_WAY, cut, is_data, ms};
use towpath_proto::Config;
use towpath_proto::association::{End, Opening, REASON_LOST};
use towpath_proto::config::Liveness;
use towpath_sim::link::LinkSpec;
use towpath_wire::Instant;
use towpath_wire::frame::Reliability;

const SECOND: Duration = Duration::from_secs(1);

fn config() -> Config {
    Config::default()
}

fn bounds() -> Liveness {
    Liveness::default()
}

/// Two hosts that watch each other.
fn watching(spec: LinkSpec) -> Network {
    let mut net = Network::connected(&config(), spec);
    let now = net.now;
    net.hosts.iter_mut().for_each(|h| h.watch(now, true));
    net.flush();
    net
}

/// The one end that a host was told.
fn end(host: &Host) -> (Instant, &End) {
    let [(when, end)] = &host.over[..] else { panic!("{:?}", host.over) };
    (*when, end)
}

// Silence.

#[test]
fn a_silent_peer_is_lost_after_lost_after_and_not_before() {
    let mut net = watching(CLEAN);
    net.run_for(3 * SECOND);
    cut(&mut net);
    let cut_at = net.now;
    net.run_for(bounds().lost_after);
    assert!(net.hosts.iter().all(|h| h.over.is_empty()), "not before");
    net.run_for(bounds().lost_after);
    for h in &net.hosts {
        let (when, End::Silent { for_, asks, excused }) = end(h) else { panic!("{:?}", h.over) };
        assert!(*for_ >= bounds().lost_after && *for_ < bounds().lost_after + ms(10), "{for_:?}");
        assert!(when <= cut_at + bounds().keepalive + bounds().lost_after + ms(10), "{when}");
        assert!(*asks >= bounds().asks && excused.is_zero(), "{asks} asks, {excused:?}");
    }
}

#[test]
fn an_own_stall_does_not_count_as_the_peers_silence() {
    let mut net = watching(CLEAN);
    net.run_for(SECOND);
    // Host 0 does not run for 10 s, and its timers come before what waits in the network.
    let woken = net.now + 10 * SECOND;
    net.links[1].set_up(false);
    net.hosts[0].stalled_until = woken;
    net.run_for(10 * SECOND + ms(1));
    assert!(net.hosts[0].over.is_empty(), "silent only because we slept: {:?}", net.hosts[0].over);
    // From then on the silence is the peer's.
    net.run_for(bounds().lost_after + bounds().keepalive);
    let (when, End::Silent { for_, .. }) = end(&net.hosts[0]) else {
        panic!("{:?}", net.hosts[0].over)
    };
    assert!(when > woken + SECOND, "{when}");
    // A host that woke late a little ago is a little more patient (decision 9).
    assert!(*for_ >= bounds().lost_after && *for_ < bounds().lost_after + ms(100), "{for_:?}");
}

#[test]
fn a_link_that_loses_every_fifth_packet_each_way_is_no_dead_peer() {
    for seed in 0..8 {
        let spec = LinkSpec { loss_ppm: 200_000, ..CLEAN };
        let mut net = watching(spec);
        for (n, link) in net.links.iter_mut().enumerate() {
            let rng = towpath_proto::Rng::new(seed, n as u64);
            *link = towpath_sim::link::Link::new(spec, rng);
        }
        net.run_for(600 * SECOND);
        assert!(
            net.hosts.iter().all(|h| h.over.is_empty()),
            "seed {seed}: {:?}",
            net.hosts[0].over
        );
    }
}

#[test]
fn replayed_packets_are_no_sign_of_life() {
    let mut net = watching(CLEAN);
    let kept = Rc::new(RefCell::new(Vec::new()));
    let keep = kept.clone();
    net.tap = Box::new(move |_, from, bytes| {
        if from == 1 && is_data(bytes) {
            keep.borrow_mut().push(bytes.clone());
        }
        Fate::Pass
    });
    net.run_for(3 * SECOND);
    net.tap = Box::new(|_, _, _| Fate::Pass);
    cut(&mut net);
    let (cut_at, from) = (net.now, net.hosts[1].addr);
    for n in 0..400 {
        let packets = kept.borrow();
        net.inject(0, from, packets[n % packets.len()].clone());
        drop(packets);
        net.run_for(ms(10));
    }
    let (when, End::Silent { .. }) = end(&net.hosts[0]) else { panic!("{:?}", net.hosts[0].over) };
    assert!(when <= cut_at + bounds().keepalive + bounds().lost_after + ms(10), "{when}");
}

#[test]
fn a_peer_that_talks_and_acknowledges_nothing_is_given_up_for_that() {
    // Host 0 hears host 1; nothing of what it sends arrives, and host 1 has much to say.
    let mut net = watching(CLEAN);
    let channel = net.hosts[1].open(ONE_WAY).unwrap();
    net.flush();
    net.run_for(SECOND);
    let begin = net.now;
    net.links[0].set_up(false);
    let own = net.hosts[0].open(ONE_WAY).unwrap();
    net.hosts[0].send(own, 0, 100).unwrap();
    net.flush();
    let mut n = 0;
    while net.hosts[0].over.is_empty() && net.now < begin + 60 * SECOND {
        // Fresh packets of host 1, as its association would seal them.
        net.forge(1, 0, 1_000_000 + n, &[1]);
        n += 1;
        net.run_for(ms(100));
    }
    let (when, End::NoProgress { for_, .. }) = end(&net.hosts[0]) else {
        panic!("{:?}", net.hosts[0].over)
    };
    let bound = bounds().no_progress_after;
    assert!(*for_ >= bound && *for_ < bound + ms(10), "{for_:?}");
    assert!(when <= begin + bound + ms(10), "{when}");
    assert_eq!(net.hosts[0].opened, [channel]);
    let said = net.hosts[0].over[0].1.to_string();
    assert_eq!(said, "no progress: heard, but nothing acknowledged for 20.0s");
}

// Idleness.

/// Datagrams of both hosts in the next `d`.
fn datagrams_in(net: &mut Network, d: Duration) -> u64 {
    let before = net.datagrams;
    net.run_for(d);
    net.datagrams - before
}

#[test]
fn watched_associations_exchange_keep_alives_and_nothing_else() {
    let mut net = watching(CLEAN);
    net.run_for(SECOND);
    let (datagrams, bytes) = (net.datagrams, net.bytes);
    net.run_for(60 * SECOND);
    let sent = net.datagrams - datagrams;
    // A keep-alive of either side every 500 ms, and its acknowledgement.
    assert!((220..=250).contains(&sent), "{sent} datagrams in a minute");
    assert!(net.bytes - bytes <= sent * 72, "{} B", net.bytes - bytes);
    for h in &net.hosts {
        assert!(h.over.is_empty());
        assert_eq!((h.stats().probes, h.stats().packets_lost), (0, 0));
    }
}

#[test]
fn an_idle_association_that_nobody_watches_costs_a_packet_in_ten_seconds() {
    let mut net = Network::connected(&config(), CLEAN);
    // 0.5 + 1 + 2 + 4 + 8 + 16 s: then it has backed off.
    let ramp = datagrams_in(&mut net, 32 * SECOND);
    assert!(ramp <= 2 * 7, "{ramp} datagrams while backing off");
    let hour = datagrams_in(&mut net, 3600 * SECOND);
    assert!(hour <= 360, "{hour} datagrams in an hour");
    assert!(hour >= 3600 / 25, "it does stay alive: {hour}");
    assert!(net.hosts.iter().all(|h| h.over.is_empty()));
    for h in &net.hosts {
        assert_eq!((h.stats().probes, h.stats().packets_lost), (0, 0));
    }
}

#[test]
fn an_idle_association_outlives_losses() {
    let mut net = Network::connected(&config(), LinkSpec { loss_ppm: 200_000, ..CLEAN });
    net.run_for(3600 * SECOND);
    assert!(net.hosts.iter().all(|h| h.over.is_empty()), "{:?}", net.hosts[0].over);
}

#[test]
fn an_unwatched_peer_that_died_is_found_out_when_something_is_sent_to_it() {
    for sender in [0, 1] {
        let mut net = Network::connected(&config(), CLEAN);
        let channel = net.hosts[sender].open(BOTH).unwrap();
        net.flush();
        net.run_for(60 * SECOND);
        cut(&mut net);
        let sent_at = net.now;
        net.hosts[sender].send(channel, 0, 100).unwrap();
        net.flush();
        net.run_for(10 * SECOND);
        let (when, End::Silent { .. }) = end(&net.hosts[sender]) else { panic!() };
        assert!(when >= sent_at + bounds().lost_after, "{when}");
        assert!(when <= sent_at + bounds().lost_after + ms(10), "{when}");
    }
}

#[test]
fn an_unwatched_dead_peer_is_found_out_by_either_side_in_the_end() {
    let mut net = Network::connected(&config(), CLEAN);
    net.run_for(60 * SECOND);
    cut(&mut net);
    let cut_at = net.now;
    net.run_for(100 * SECOND);
    let [initiator, responder] = [0, 1].map(|n| end(&net.hosts[n]).0.since(cut_at));
    let longest = bounds().keepalive_max;
    assert!(initiator <= longest + bounds().lost_after + ms(10), "{initiator:?}");
    assert!(responder <= 3 * longest + bounds().lost_after + ms(10), "{responder:?}");
    assert!(responder >= 2 * longest, "{responder:?}");
}

#[test]
fn watching_asks_at_once_and_keeps_asking() {
    for watcher in [0, 1] {
        let mut net = Network::connected(&config(), CLEAN);
        net.run_for(60 * SECOND);
        cut(&mut net);
        let now = net.now;
        net.hosts[watcher].watch(now, true);
        net.flush();
        net.run_for(5 * SECOND);
        let (when, _) = end(&net.hosts[watcher]);
        assert!(when <= now + bounds().lost_after + ms(10), "{when}");
    }
}

// Lives.

#[test]
fn a_host_that_slept_too_long_learns_at_once_that_it_was_given_up() {
    for sleeper in [0, 1] {
        let mut net = watching(CLEAN);
        net.run_for(3 * SECOND);
        let woken = net.now + 5 * SECOND;
        net.hosts[sleeper].stalled_until = woken;
        // The network does not keep what comes meanwhile.
        let asleep = Rc::new(Cell::new(true));
        let flag = asleep.clone();
        net.tap = Box::new(
            move |_, from, _| {
                if from != sleeper && flag.get() { Fate::Drop } else { Fate::Pass }
            },
        );
        net.run_for(5 * SECOND);
        let other = &net.hosts[1 - sleeper];
        assert!(matches!(end(other).1, End::Silent { .. }), "{:?}", other.over);
        asleep.set(false);
        net.run_for(ms(10));
        let (when, End::ByPeer { reason, text }) = end(&net.hosts[sleeper]) else {
            panic!("{:?}", net.hosts[sleeper].over)
        };
        assert_eq!(*reason, REASON_LOST);
        assert!(text.starts_with("silent: 1"), "{text}");
        assert!(when <= woken + ms(5), "{when}");
        net.run_for(60 * SECOND);
        assert!(net.hosts.iter().all(|h| h.endpoint.associations().count() == 0));
    }
}

#[test]
fn a_peer_that_heard_none_of_three_closes_is_told_on_its_next_packet() {
    let mut net = watching(CLEAN);
    net.run_for(SECOND);
    let (id, now) = (net.hosts[0].id(), net.now);
    let lost = Rc::new(Cell::new(3));
    let left = lost.clone();
    net.tap = Box::new(move |_, from, _| {
        if from == 0 && left.get() > 0 {
            left.set(left.get() - 1);
            return Fate::Drop;
        }
        Fate::Pass
    });
    let h = &mut net.hosts[0];
    h.endpoint.close(now, id, 300, "maintenance", &mut h.memory);
    net.flush();
    net.run_for(ms(100));
    assert_eq!(lost.get(), 0);
    assert!(net.hosts[1].over.is_empty());
    let channel = net.hosts[1].open(ONE_WAY).unwrap();
    net.hosts[1].send(channel, 0, 100).unwrap();
    net.flush();
    net.run_for(ms(10));
    assert!(matches!(end(&net.hosts[1]).1, End::ByPeer { reason: 300, .. }));
}

#[test]
fn a_peer_that_heard_no_close_at_all_finds_silence() {
    for host in [0, 1] {
        let mut net = watching(CLEAN);
        net.run_for(SECOND);
        net.links[host].set_up(false);
        let (id, now) = (net.hosts[host].id(), net.now);
        let h = &mut net.hosts[host];
        h.endpoint.close(now, id, 300, "maintenance", &mut h.memory);
        net.flush();
        net.run_for(bounds().keepalive + bounds().lost_after + ms(20));
        let other = &net.hosts[1 - host];
        assert!(matches!(end(other).1, End::Silent { .. }), "{:?}", other.over);
    }
}

#[test]
fn bulk_data_to_a_closed_association_draws_few_closes() {
    let mut net = watching(CLEAN);
    let channel = net.hosts[0].open(ONE_WAY).unwrap();
    net.links[1].set_up(false);
    let (id, now) = (net.hosts[1].id(), net.now);
    let h = &mut net.hosts[1];
    h.endpoint.close(now, id, 300, "maintenance", &mut h.memory);
    (0..10).for_each(|n| _ = net.hosts[0].send(channel, n, 100_000).unwrap());
    let closes = Rc::new(Cell::new(0));
    let count = closes.clone();
    net.tap = Box::new(move |_, from, _| {
        count.set(count.get() + usize::from(from == 1));
        Fate::Pass
    });
    net.flush();
    net.run_for(SECOND);
    assert!((4..=14).contains(&closes.get()), "{} closes in 390 ms", closes.get());
}

#[test]
fn a_full_table_forgets_given_up_peers_first() {
    let small = Config { associations_max: 1, ..config() };
    let mut net = Network::connected(&small, CLEAN);
    let now = net.now;
    net.hosts[0].watch(now, true);
    net.flush();
    cut(&mut net);
    net.run_for(4 * SECOND);
    assert!(matches!(end(&net.hosts[0]).1, End::Silent { .. }));
    assert_eq!(net.hosts[0].endpoint.associations().count(), 1, "it would answer");
    net.connect(0, 1); // panics where there is no place
    assert_eq!(net.hosts[0].endpoint.associations().count(), 0);
}

/// Host 1 sleeps `sleep` while host 0 sends to it; what came meanwhile waits in its socket.
fn sent_to_a_sleeper(mut net: Network, sleep: Duration) -> Network {
    let channel = net.hosts[0].open(BOTH).unwrap();
    net.hosts[0].send(channel, 0, 1000).unwrap();
    net.flush();
    net.run_for(3 * SECOND);
    assert_eq!(net.hosts[1].arrived.len(), 1);
    net.hosts[1].stalled_until = net.now + sleep;
    net.run_for(SECOND / 2);
    (1..6).for_each(|n| _ = net.hosts[0].send(channel, n, 1000).unwrap());
    net.flush();
    net.run_for(sleep);
    net.run_for(5 * SECOND);
    net
}

#[test]
fn what_a_fenced_host_finds_in_its_socket_has_no_effect() {
    let net = sent_to_a_sleeper(watching(CLEAN), 6 * SECOND);
    assert!(matches!(end(&net.hosts[0]).1, End::Silent { .. }), "{:?}", net.hosts[0].over);
    let sleeper = &net.hosts[1];
    let (_, End::ByPeer { reason: REASON_LOST, .. }) = end(sleeper) else {
        panic!("{:?}", sleeper.over)
    };
    assert_eq!(sleeper.arrived.len(), 1, "nothing of what came while it slept");
    assert!(net.hosts.iter().all(|h| h.memory.used() == 0), "every block came back");
}

#[test]
fn what_a_host_finds_after_a_short_sleep_arrives() {
    let net = sent_to_a_sleeper(watching(CLEAN), 3 * SECOND / 2);
    assert!(net.hosts.iter().all(|h| h.over.is_empty()));
    assert_eq!(net.hosts[1].arrived.len(), 6);
}

#[test]
fn a_long_sleep_that_nobody_noticed_delays_messages_by_a_round_trip() {
    let patient = Liveness { lost_after: 20 * SECOND, ..bounds() };
    let patient = Config { liveness: patient, ..config() };
    // Host 0 is patient; host 1 believes itself fenced, asks, and is told that it is not.
    let mut net = Network::new(vec![Host::new(1, patient), Host::new(2, config())], CLEAN);
    net.connect(0, 1);
    net.run_for(SECOND);
    let now = net.now;
    net.hosts[1].watch(now, true);
    net.flush();
    let net = sent_to_a_sleeper(net, 6 * SECOND);
    assert!(net.hosts.iter().all(|h| h.over.is_empty()), "{:?}", net.hosts[0].over);
    assert_eq!(net.hosts[1].arrived.len(), 6);
}

#[test]
fn a_deadline_long_past_is_no_sleep() {
    // Nothing happens here for long, so that what was long past is after what was last known.
    let mut net = Network::connected(&config(), CLEAN);
    net.run_for(60 * SECOND);
    let timely = Opening { reliability: Reliability::Timely, ..ONE_WAY };
    let channel = net.hosts[0].open(timely).unwrap();
    net.flush();
    net.run_for(10 * SECOND);
    for (n, before) in (0..).zip([4 * SECOND, 69 * SECOND]) {
        let deadline = net.now - before;
        net.hosts[0].send_by(channel, n, 100, deadline).unwrap();
        net.flush();
        net.run_for(Duration::ZERO);
        assert_eq!(net.hosts[0].abandoned.len(), n as usize + 1, "told at once");
    }
    assert_eq!(net.hosts[0].stats().late_max, Duration::ZERO);
}

#[test]
fn hosts_that_slept_over_what_they_sent_at_any_moment_go_on_at_their_rate() {
    for after_us in (0..60).map(|n| 500 * n) {
        let mut net = Network::connected(&config(), LinkSpec { delay_us: 5000, ..CLEAN });
        let channel = net.hosts[0].open(BOTH).unwrap();
        for n in 0..20 {
            net.hosts[0].send(channel, n, 20_000).unwrap();
            net.flush();
            net.run_for(ms(if n < 19 { 30 } else { 0 }));
        }
        net.run_for(Duration::from_micros(after_us));
        // Their clocks count what nobody lived through.
        net.now += 3600 * SECOND;
        let woken = net.now;
        net.run_for(SECOND);
        assert!(net.hosts.iter().all(|h| h.over.is_empty()), "{:?}", net.hosts[1].over);
        net.hosts[0].send(channel, 20, 1 << 19).unwrap();
        net.flush();
        let arrived = |net: &Network| net.hosts[1].arrived.len() == 21;
        assert!(net.run_until(arrived, SECOND), "{after_us} us: {:?}", net.now.since(woken));
        let host = &net.hosts[0];
        let rtt = host.endpoint.association(host.id()).unwrap().rtt();
        assert!(rtt < ms(200), "{after_us} us: {rtt:?}");
    }
}
