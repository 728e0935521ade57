//! Two hosts with several links: what a bulk transfer gets of them together, what becomes of it
//! when one of them dies, returns, loses or is slow, and of short messages beside it. The hosts
//! agree on their paths by themselves.

use std::time::Duration;

use towpath_node::{JoinTarget, Links, Node, NodeConfig, NodeEvent};
use towpath_proto::association::{Opening, PathState, PathStatus};
use towpath_proto::config::PathsConfig;
use towpath_proto::stripe::StripeKind;
use towpath_proto::{
    AssociationEvent, AssociationId, AssociationStats, Config, Crypto, Memory, Rng,
};
use towpath_sim::clock::Clock;
use towpath_sim::crypto::StandIn;
use towpath_sim::link::LinkSpec;
use towpath_sim::world::{Step, World};
use towpath_vm::message::LABEL_OWNER;
use towpath_wire::{ByteSize, ChannelId, Direction, HostId, Instant};

/// Of a datagram's bytes on a link of the simulator, those that are a message's.
const PAYLOAD: f64 = 1416.0 / (1472.0 + 66.0);
const BULK: u32 = 64 << 10;
const SHORT: u32 = 200;

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn mbit(rate: u64, delay: Duration) -> LinkSpec {
    let delay_us = delay.as_micros() as u64;
    // 40 ms at its rate, as the measured links had.
    let queue_bytes = (rate * 1_000_000 / 8 / 25).max(30_000);
    LinkSpec { rate_bps: rate * 1_000_000, delay_us, queue_bytes, ..LinkSpec::PLAIN }
}

fn crypto(host: usize) -> Box<dyn Crypto> {
    Box::new(StandIn::new(Rng::new(77, host as u64)))
}

fn config(host: usize, world: &World, proto: &Config) -> NodeConfig {
    NodeConfig {
        name: format!("h{host}"),
        build: "test".into(),
        links: Links::new(world.addresses(host)),
        arch: "x86_64-linux".into(),
        speed: 1000,
        cpus: 2,
        slots: 2,
        unix_us_at_zero: 1_000_000_000_000,
        paced: false,
        voters: 1,
        keeps_table: false,
        life: 0,
        proto: proto.clone(),
    }
}

/// A message that arrived: when, its channel, number and length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    pub(crate) at: Instant,
    pub(crate) channel: ChannelId,
    pub(crate) number: u64,
    pub(crate) len: u32,
}

/// Host 1 sends to host 0, which leads.
pub(crate) struct Pair {
    pub(crate) world: World,
    specs: Vec<LinkSpec>,
    pub(crate) bulk: ChannelId,
    pub(crate) short: ChannelId,
    /// When each short message was sent.
    pub(crate) asked: Vec<Instant>,
    pub(crate) came: Vec<Came>,
}

impl Pair {
    pub(crate) fn new(specs: &[LinkSpec]) -> Self {
        Self::with(specs, &Config::default())
    }

    pub(crate) fn with(specs: &[LinkSpec], proto: &Config) -> Self {
        let mut world = World::new(3);
        for _ in 0..2 {
            world.add_host(Clock::new(0, 0), ByteSize::from_mib(256), false, |_| specs[0]);
        }
        for spec in &specs[1..] {
            world.add_fabric(|_, _| *spec, |_| false);
        }
        let first = config(0, &world, proto);
        world.boot(0, Node::found(first, crypto(0), Rng::new(5, 0), [7; 32]));
        let invite = |n: &mut Node, now, _: &mut _| n.invite(now, 3600, [1; 16]);
        let invitation = world.with(0, invite).flatten().expect("the founder invites");
        let addr = world.addresses(0)[0];
        let (key, others) = (crypto(0).public_key(), Vec::new());
        let target = JoinTarget { addr, key, others, invitation };
        let (second, now) = (config(1, &world, proto), world.local_now(1));
        world.boot(1, Node::join(now, second, crypto(1), Rng::new(6, 1), target));
        let none = ChannelId(u32::MAX);
        let (asked, came) = (Vec::new(), Vec::new());
        let specs = specs.to_vec();
        let mut pair = Self { world, specs, bulk: none, short: none, asked, came };
        pair.run(ms(1000));
        let id = pair.association();
        let open = |opening| {
            move |n: &mut Node, _: Instant, _: &mut _| n.open_channel(id, opening).expect("room")
        };
        let plain = Opening::new(Direction::Opener, LABEL_OWNER);
        let bulk = Opening { window: Some(16 << 20), ..plain };
        let short = Opening { label: LABEL_OWNER + 1, priority: 9, ..plain };
        pair.bulk = pair.world.with(1, open(bulk)).expect("it lives");
        pair.short = pair.world.with(1, open(short)).expect("it lives");
        pair
    }

    pub(crate) fn association(&self) -> AssociationId {
        let node = self.world.hosts[1].node.as_ref().expect("it lives");
        node.association_to(HostId::new(1, 1).expect("a host")).expect("it is connected")
    }

    pub(crate) fn paths(&self) -> Vec<PathStatus> {
        let node = self.world.hosts[1].node.as_ref().expect("it lives");
        let association = node.endpoint().association(self.association());
        association.expect("it stands").paths().collect()
    }

    /// What an end has counted.
    pub(crate) fn stats(&self, host: usize) -> AssociationStats {
        let node = self.world.hosts[host].node.as_ref().expect("it lives");
        let (_, association) = node.endpoint().associations().next().expect("it stands");
        *association.stats()
    }

    pub(crate) fn send(&mut self, channel: ChannelId, len: u32) {
        let id = self.association();
        self.world.with(1, |node, _, memory| {
            let block = memory.put(&vec![7; len as usize]).expect("room");
            node.send(id, channel, block, len).expect("it is open");
        });
    }

    pub(crate) fn waits(&self) -> u64 {
        let node = self.world.hosts[1].node.as_ref().expect("it lives");
        let association = node.endpoint().association(self.association()).expect("it stands");
        association.waiting(self.bulk) as u64
    }

    /// Goes on without sending anything.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.world.now() + time;
        while let Some(step) = self.world.step(end) {
            if let Step::Event { host, event } = step {
                self.handle(host, event);
            }
        }
    }

    fn handle(&mut self, host: usize, event: NodeEvent) {
        let NodeEvent::Channel { association, event, .. } = event else { return };
        match event {
            AssociationEvent::Message { channel, number, block, len, .. } => {
                self.world.with(host, |node, _, memory| {
                    memory.release(block);
                    node.consumed(association, channel, len);
                });
                self.came.push(Came { at: self.world.now(), channel, number, len });
            }
            AssociationEvent::Sent { block, .. } => {
                self.world.with(host, |_, _, memory| memory.release(block));
            }
            _ => {}
        }
    }

    /// There is always more to send than fits, and a short message every 10 ms where these are
    /// wanted.
    pub(crate) fn load(&mut self, time: Duration, shorts: bool) {
        let end = self.world.now() + time;
        let mut n = 0_u64;
        while self.world.now() < end {
            while self.waits() < 128 {
                self.send(self.bulk, BULK);
            }
            if shorts && n.is_multiple_of(5) {
                self.asked.push(self.world.now());
                self.send(self.short, SHORT);
            }
            n += 1;
            let next = self.world.now() + ms(2);
            self.world.call_at(next, 0);
            self.run(ms(2));
        }
    }

    /// Megabits of messages a second since then, of what the links could carry of them.
    pub(crate) fn share(&self, since: Instant, of: &[LinkSpec]) -> f64 {
        let sum: u64 = of.iter().map(|s| s.rate_bps).sum();
        self.rate_since(since) / (sum as f64 / 1e6 * PAYLOAD)
    }

    pub(crate) fn rate_since(&self, since: Instant) -> f64 {
        self.rate_between(since, self.world.now())
    }

    pub(crate) fn rate_between(&self, from: Instant, to: Instant) -> f64 {
        let came = self.came.iter().filter(|c| c.at > from && c.at <= to);
        let bytes: u64 = came.map(|c| u64::from(c.len)).sum();
        bytes as f64 * 8.0 / to.since(from).as_secs_f64() / 1e6
    }

    /// The longest time without the next message in order, since then.
    pub(crate) fn gap(&self, since: Instant) -> Duration {
        let times = self.came.iter().filter(|c| c.channel == self.bulk).map(|c| c.at);
        let times: Vec<_> = times.filter(|at| *at >= since).collect();
        times.windows(2).map(|w| w[1].since(w[0])).max().unwrap_or(Duration::MAX)
    }

    /// What short messages took, in order.
    pub(crate) fn delays(&self) -> Vec<Duration> {
        let short = self.came.iter().filter(|c| c.channel == self.short);
        let mut all: Vec<_> = short.map(|c| c.at.since(self.asked[c.number as usize])).collect();
        all.sort_unstable();
        all
    }

    /// A network carries nothing any more, and nobody is told; or it does again.
    pub(crate) fn kill(&mut self, fabric: u8, dead: bool) {
        let spec = self.specs[usize::from(fabric)];
        let loss_ppm = if dead { 1_000_000 } else { spec.loss_ppm };
        for (from, to) in [(0, 1), (1, 0)] {
            self.world.link_on(fabric, from, to).set_spec(LinkSpec { loss_ppm, ..spec });
        }
    }
}

fn striped(stripe: StripeKind) -> Config {
    Config { paths: PathsConfig { stripe, ..PathsConfig::default() }, ..Config::default() }
}

fn steady(specs: &[LinkSpec], proto: &Config) -> f64 {
    let mut pair = Pair::with(specs, proto);
    assert_eq!(pair.paths().len(), specs.len(), "{:?}", pair.paths());
    pair.load(ms(2000), false);
    let since = pair.world.now();
    pair.load(ms(3000), false);
    let share = pair.share(since, specs);
    let rates: Vec<_> = pair.paths().iter().map(|p| (p.rate * 8 / 1000, p.in_flight)).collect();
    println!("{share:.4} of the sum, {:?}; paths {rates:?} kbit/s, bytes", proto.paths.stripe);
    share
}

#[test]
fn four_equal_links_are_as_good_as_their_sum() {
    let share = steady(&[mbit(100, ms(1)); 4], &Config::default());
    assert!(share >= 0.985, "{share:.3} of the sum");
}

#[test]
fn unequal_links_are_as_good_as_their_sum_with_small_buffers_and_large_ones() {
    let specs = [100, 50, 25, 10].map(|rate| mbit(rate, ms(1)));
    let share = steady(&specs, &Config::default());
    assert!(share >= 0.98, "{share:.3} of the sum");
    let large = specs.map(|s| LinkSpec { queue_bytes: 16 << 20, ..s });
    let share = steady(&large, &Config::default());
    assert!(share >= 0.97, "{share:.3} of the sum with 16 MiB buffers");
}

#[test]
fn one_of_two_that_loses_a_datagram_in_a_hundred_costs_little_more_than_that() {
    let lossy = LinkSpec { loss_ppm: 10_000, ..mbit(100, ms(1)) };
    let share = steady(&[mbit(100, ms(1)), lossy], &Config::default());
    assert!(share >= 0.975, "{share:.3} of the sum");
}

#[test]
fn a_far_link_beside_a_near_one_makes_nothing_slower() {
    let specs = [mbit(100, Duration::from_micros(2500)), mbit(100, ms(50))];
    let share = steady(&specs, &Config::default());
    assert!(share >= 0.85, "{share:.3} of the sum");
}

#[test]
fn every_scheduler_uses_both_of_two_links() {
    for stripe in StripeKind::ALL {
        let share = steady(&[mbit(100, ms(1)); 2], &striped(stripe));
        let bounds = if stripe == StripeKind::Redundant { 0.45..0.51 } else { 0.95..1.01 };
        assert!(bounds.contains(&share), "{}: {share:.3} of the sum", stripe.name());
    }
}

#[test]
fn a_link_that_dies_silently_stalls_nothing_and_is_used_again_when_it_returns() {
    for dies in [0, 1] {
        let specs = [mbit(100, ms(1)); 2];
        let mut pair = Pair::new(&specs);
        pair.load(ms(3000), false);
        let dead = pair.world.now();
        pair.kill(dies, true);
        pair.load(ms(5000), false);
        let second = pair.rate_between(dead, dead + ms(1000));
        assert!(second >= 85.0, "link {dies}: {second:.1} Mbit/s in the second after its death");
        let gap = pair.gap(dead);
        assert!(gap <= ms(80), "link {dies}: {gap:?} without anything in order");
        let silent = |p: &PathStatus| matches!(p.state, PathState::Silent(_));
        assert_eq!(pair.paths().iter().filter(|p| silent(p)).count(), 1, "{:?}", pair.paths());
        let back = pair.world.now();
        pair.kill(dies, false);
        pair.load(ms(500), false);
        let least = pair.rate_between(back, back + ms(500));
        assert!(least >= 85.0, "link {dies}: {least:.1} Mbit/s while it returns");
        let since = pair.world.now();
        pair.load(ms(1000), false);
        let both = pair.rate_since(since);
        assert!(both >= 178.0, "link {dies}: {both:.1} Mbit/s half a second after its return");
        assert!(pair.gap(back) <= ms(80), "link {dies}: {:?}", pair.gap(back));
        let (gap, again) = (gap.as_secs_f64() * 1e3, pair.gap(back));
        println!(
            "link {dies} dies: {second:.1} Mbit/s in the next second, gap {gap:.1} ms; \
             returns: {least:.1} in the next half second, then {both:.1}, gap {again:?}"
        );
        let state = |p: &PathStatus| (p.state, p.counted.left, p.counted.returned);
        let states: Vec<_> = pair.paths().iter().map(state).collect();
        assert_eq!(states[usize::from(dies)], (PathState::Carries, 1, 1), "{states:?}");
    }
}

#[test]
fn urgent_short_messages_do_not_wait_behind_bulk_on_any_path() {
    let alone = |specs: &[LinkSpec]| {
        let mut pair = Pair::new(specs);
        for _ in 0..300 {
            pair.asked.push(pair.world.now());
            pair.send(pair.short, SHORT);
            pair.run(ms(10));
        }
        pair.delays()
    };
    let beside = |specs: &[LinkSpec]| {
        let mut pair = Pair::new(specs);
        pair.load(ms(2000), false);
        pair.asked.clear();
        pair.load(ms(3000), true);
        pair.run(ms(500));
        pair.delays()
    };
    // However long the buffers: what is under way on a path is what it holds, and a quarter.
    let specs = [100, 25].map(|rate| LinkSpec { queue_bytes: 16 << 20, ..mbit(rate, ms(5)) });
    let (quiet, busy) = (alone(&specs), beside(&specs));
    let p99 = |all: &[Duration]| all[all.len() * 99 / 100];
    let (quiet, busy) = (p99(&quiet), p99(&busy));
    println!("short messages: p99 {busy:?} beside bulk, {quiet:?} alone");
    // A quarter of a round trip waits before them, and quiet ones take a half; and the datagram
    // that is leaving, on either link.
    assert!(
        busy <= quiet * 3 / 2 + Duration::from_micros(600),
        "{busy:?} beside bulk, {quiet:?} alone"
    );
}

#[test]
fn copies_on_every_link_make_the_death_of_one_unnoticeable() {
    let stripe = StripeKind::Redundant;
    let specs = [mbit(100, ms(1)); 2];
    let mut pair = Pair::with(&specs, &striped(stripe));
    for n in 0..400 {
        if n == 200 {
            pair.kill(0, true);
        }
        pair.asked.push(pair.world.now());
        pair.send(pair.short, SHORT);
        pair.run(ms(5));
    }
    let delays = pair.delays();
    assert_eq!(delays.len(), 400);
    assert!(delays[399] <= ms(3), "{:?} at worst", delays[399]);
}
