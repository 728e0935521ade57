//! Path MTU discovery (RFC 8899): ways that say nothing when a datagram is too long for them.

use std::time::Duration;

use crate::network::{CLEAN, LINK, Network, ONE_WAY, ms};
use towpath_proto::{Config, Machine, PathChange};
use towpath_sim::link::LinkSpec;
use towpath_wire::ChannelId;

const LEN: u32 = 500_000;

fn searching() -> Config {
    Config { datagram_max: 61_440, ..Config::default() }
}

/// Ways in both directions that take datagrams of at most `longest` bytes.
fn narrow(net: &mut Network, spec: LinkSpec, longest: u32) {
    let spec = LinkSpec { datagram_bytes_max: longest, ..spec };
    net.links.iter_mut().for_each(|l| l.set_spec(spec));
}

/// Sends `count` messages more and waits until all are acknowledged.
fn transfer(net: &mut Network, channel: ChannelId, count: u64, limit: Duration) -> Duration {
    let (begin, before) = (net.now, net.hosts[0].sent);
    for n in 0..count {
        net.hosts[0].send(channel, before + n, LEN).expect("room for a message");
    }
    net.flush();
    let done = |n: &Network| n.hosts[0].sent == before + count;
    assert!(net.run_until(done, limit), "{} of {count} within {limit:?}", net.hosts[0].sent);
    assert!(net.hosts[1].has_all(channel, before + count, LEN), "everything arrived");
    net.now.since(begin)
}

fn datagram(net: &Network) -> u32 {
    let host = &net.hosts[0];
    host.endpoint.association(host.id()).expect("it is open").datagram().into()
}

fn connected(config: &Config, spec: LinkSpec, longest: u32) -> (Network, ChannelId) {
    let mut net = Network::connected(config, spec);
    narrow(&mut net, spec, longest);
    let channel = net.hosts[0].open(ONE_WAY).expect("a channel");
    (net, channel)
}

#[test]
fn the_longest_datagram_of_the_way_is_found_while_data_flows() {
    for longest in [1472, 1500, 4000, 8972, 20_000, 61_440] {
        let (mut net, channel) = connected(&searching(), CLEAN, longest);
        transfer(&mut net, channel, 60, Duration::from_secs(5));
        let found = datagram(&net);
        assert!(found <= longest && longest - found <= found / 16 + 1, "{found} of {longest}");
        let oversized = net.links[0].stats.oversized;
        assert!(oversized <= 40, "{oversized} datagrams were too long for {longest}");
    }
}

#[test]
fn a_way_shorter_than_ethernet_carries_everything() {
    for longest in [1232, 1280, 1420, 1464] {
        let (mut net, channel) = connected(&Config::default(), CLEAN, longest);
        let time = transfer(&mut net, channel, 4, Duration::from_secs(10));
        assert!(datagram(&net) <= longest, "{} of {longest}", datagram(&net));
        assert!(time < Duration::from_secs(2), "{time:?} with {longest}");
    }
}

#[test]
fn a_way_that_narrows_under_a_transfer_does_not_stop_it() {
    let (mut net, channel) = connected(&searching(), CLEAN, 8972);
    transfer(&mut net, channel, 20, Duration::from_secs(5));
    assert_eq!(datagram(&net), 8972);
    narrow(&mut net, CLEAN, 1400);
    let time = transfer(&mut net, channel, 20, Duration::from_secs(10));
    let found = datagram(&net);
    assert!((1232..=1400).contains(&found), "{found}");
    assert!(time < Duration::from_secs(3), "{time:?}");
}

#[test]
fn loss_alone_does_not_shorten_datagrams() {
    let spec = LinkSpec { loss_ppm: 100_000, ..CLEAN };
    let (mut net, channel) = connected(&Config::default(), spec, 65_507);
    transfer(&mut net, channel, 60, Duration::from_mins(1));
    assert_eq!(datagram(&net), 1472);
}

#[test]
fn after_an_outage_datagrams_are_as_long_as_before() {
    let (mut net, channel) = connected(&Config::default(), CLEAN, 1472);
    transfer(&mut net, channel, 4, Duration::from_secs(5));
    net.hosts[0].send(channel, 4, LEN).expect("room");
    net.flush();
    net.links.iter_mut().for_each(|l| l.set_up(false));
    net.run_for(ms(1500));
    net.links.iter_mut().for_each(|l| l.set_up(true));
    net.run_until(|n| n.hosts[0].sent == 5, Duration::from_secs(5));
    net.run_for(ms(600));
    // What goes on is sent with whatever passes; the first trial shows that all does.
    transfer(&mut net, channel, 20, Duration::from_secs(10));
    assert_eq!(datagram(&net), 1472);
}

#[test]
fn what_a_link_says_itself_is_believed_at_once() {
    let (mut net, channel) = connected(&searching(), CLEAN, 3000);
    let (now, remote) = (net.now, net.hosts[1].addr);
    let told = PathChange::Longest { remote, bytes: 3000 };
    net.hosts[0].endpoint.handle_path(now, LINK, told);
    transfer(&mut net, channel, 4, Duration::from_secs(5));
    assert_eq!(datagram(&net), 3000);
    assert_eq!(net.links[0].stats.oversized, 0, "nothing longer was tried");
}

#[test]
fn a_search_costs_a_slow_way_next_to_nothing() {
    let slow = LinkSpec { rate_bps: 20_000_000, ..CLEAN };
    let time = |config: &Config| {
        let (mut net, channel) = connected(config, slow, 1472);
        transfer(&mut net, channel, 8, Duration::from_secs(30))
    };
    let (with, without) = (time(&searching()), time(&Config::default()));
    assert!(with < without.mul_f64(1.1), "{with:?} against {without:?}");
}
