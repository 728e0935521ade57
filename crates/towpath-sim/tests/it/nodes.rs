//! Whole nodes in virtual time: what idleness costs, who finds out that a host is gone, and what
//! becomes of hosts that return.

use std::time::Duration;

use towpath_node::{DeleteError, JoinTarget, Links, Node, NodeConfig, NodeEvent};
use towpath_proto::association::End;
use towpath_proto::{Config, Crypto, Rng};
use towpath_sim::clock::Clock;
use towpath_sim::crypto::StandIn;
use towpath_sim::link::LinkSpec;
use towpath_sim::process::Program;
use towpath_sim::world::{Step, World, address};
use towpath_vm::{Ending, RequestEvent};
use towpath_wire::{ByteSize, HostId, Instant};

const SECOND: Duration = Duration::from_secs(1);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

struct Vm {
    world: World,
    told: Vec<(Instant, usize, NodeEvent)>,
    /// Where each host believes to receive.
    links: fn(usize) -> Links,
}

fn config(host: usize, links: Links) -> NodeConfig {
    NodeConfig {
        name: format!("h{host}"),
        build: "test".into(),
        links,
        arch: "x86_64-linux".into(),
        speed: 1000,
        cpus: 2,
        slots: 2,
        unix_us_at_zero: 1_000_000_000_000,
        paced: false,
        voters: 1,
        keeps_table: false,
        life: 0,
        proto: Config::default(),
    }
}

/// A host has the same key in each of its lives.
fn crypto(host: usize) -> Box<dyn Crypto> {
    Box::new(StandIn::new(Rng::new(77, host as u64)))
}

impl Vm {
    /// A virtual machine of `hosts` hosts; host 0 leads.
    fn up(hosts: usize) -> Self {
        Self::at(hosts, |host| Links::one(address(host)))
    }

    fn at(hosts: usize, links: fn(usize) -> Links) -> Self {
        let mut world = World::new(1);
        for _ in 0..hosts {
            let spec = LinkSpec { delay_us: 200, ..LinkSpec::default() };
            world.add_host(Clock::new(0, 0), ByteSize::from_mib(64), true, |_| spec);
        }
        world.boot(0, Node::found(config(0, links(0)), crypto(0), Rng::new(5, 0), [7; 32]));
        let mut vm = Self { world, told: Vec::new(), links };
        for host in 1..hosts {
            vm.join(host, 0);
        }
        vm.run_for(SECOND);
        assert_eq!(vm.world.hosts[0].node.as_ref().unwrap().hosts().count(), hosts);
        vm.told.clear();
        vm
    }

    /// Boots a node on `host`, for the `life`-th time.
    fn join(&mut self, host: usize, life: u64) {
        let invite = |n: &mut Node, now, _: &mut _| n.invite(now, 3600, [host as u8; 16]);
        let invitation = self.world.with(0, invite).flatten().expect("the founder invites");
        let (key, others) = (crypto(0).public_key(), Vec::new());
        let target = JoinTarget { addr: address(0), key, others, invitation };
        let now = self.world.local_now(host);
        let rng = Rng::new(6 + life, host as u64);
        let config = config(host, (self.links)(host));
        self.world.boot(host, Node::join(now, config, crypto(host), rng, target));
    }

    fn run_for(&mut self, d: Duration) {
        let until = self.world.now() + d;
        self.world.call_at(until, 0);
        while let Some(step) = self.world.step(until) {
            match step {
                Step::Call(_) => break,
                Step::Event { host, event } => self.told.push((self.world.now(), host, event)),
            }
        }
    }

    fn me(&self, host: usize) -> HostId {
        self.world.hosts[host].node.as_ref().unwrap().me().expect("it joined")
    }

    fn watch(&mut self, host: usize, on: bool) {
        self.world.with(host, |n, now, m| n.watch_hosts(now, on, m));
    }

    /// When `host` was first told something.
    fn when(&self, host: usize, what: impl Fn(&NodeEvent) -> bool) -> Option<Instant> {
        self.told.iter().find(|(_, h, e)| *h == host && what(e)).map(|(when, ..)| *when)
    }

    fn lost(&self, told: usize, lost: HostId) -> Option<Instant> {
        self.when(told, |e| *e == NodeEvent::HostLost(lost))
    }

    /// Datagrams per association and 10 s in the next `d`, in thousandths.
    fn rate(&mut self, d: Duration, associations: u64) -> u64 {
        let before = self.world.delivered;
        self.run_for(d);
        (self.world.delivered - before) * 10_000 / d.as_secs() / associations
    }
}

#[test]
fn idle_hosts_exchange_a_packet_in_ten_seconds_and_watched_ones_four_a_second() {
    let mut vm = Vm::up(3);
    vm.run_for(60 * SECOND);
    assert!(vm.rate(3600 * SECOND, 2) <= 1000);
    // A client at a member: it watches the leader, and the leader everyone.
    vm.watch(1, true);
    vm.run_for(SECOND);
    let watched = vm.rate(60 * SECOND, 2);
    assert!((35_000..=45_000).contains(&watched), "{watched}");
    vm.watch(1, false);
    vm.run_for(60 * SECOND);
    assert!(vm.rate(3600 * SECOND, 2) <= 1000);
    assert_eq!(vm.told, []);
}

#[test]
fn whoever_watches_anywhere_soon_knows_that_a_host_is_lost() {
    for watcher in [0, 1] {
        let mut vm = Vm::up(3);
        vm.run_for(120 * SECOND);
        vm.watch(watcher, true);
        vm.run_for(SECOND);
        let (gone, begin) = (vm.me(2), vm.world.now());
        vm.world.crash(2);
        vm.run_for(60 * SECOND);
        let lost = vm.lost(watcher, gone).expect("told").since(begin);
        assert!(lost <= ms(2600), "{lost:?}");
        let over =
            |e: &NodeEvent| matches!(e, NodeEvent::ContactOver { end: End::Silent { .. }, .. });
        assert!(vm.when(0, over).is_some(), "the leader says by which rule");
    }
}

#[test]
fn a_request_watches_the_host_that_it_runs_on() {
    for begin_s in [1, 120] {
        let mut vm = Vm::up(3);
        vm.run_for(begin_s * SECOND);
        let program = Program { run_us: 3_600_000_000, output_bytes: 0, status: 0 };
        let (gone, spec) = (vm.me(2), program.spec(4096, false));
        let made = vm.world.with(1, |n, now, m| n.spawn(now, gone, spec, m));
        made.expect("alive").expect("made");
        vm.run_for(60 * SECOND);
        let begin = vm.world.now();
        vm.world.crash(2);
        vm.run_for(10 * SECOND);
        let ended = |e: &NodeEvent| {
            matches!(e, NodeEvent::Request { event: RequestEvent::Ended(x), .. }
                if x.ending == Ending::HostLost)
        };
        let ended = vm.when(1, ended).expect("the request ends").since(begin);
        assert!(ended <= ms(2600), "{ended:?}");
        let lost = vm.lost(0, gone).expect("the leader watches, too").since(begin);
        assert!(lost <= ms(2600), "{lost:?}");
        // Nothing is left to wait for.
        vm.run_for(60 * SECOND);
        assert!(vm.rate(3600 * SECOND, 1) <= 1000);
    }
}

#[test]
fn a_requester_that_dies_takes_its_tasks_along() {
    let mut vm = Vm::up(3);
    let program = Program { run_us: 3_600_000_000, output_bytes: 0, status: 0 };
    let (to, spec) = (vm.me(2), program.spec(4096, false));
    vm.world.with(1, |n, now, m| n.spawn(now, to, spec, m)).expect("alive").expect("made");
    vm.run_for(60 * SECOND);
    let tasks = |vm: &Vm| vm.world.hosts[2].node.as_ref().unwrap().tasks_here(vm.world.now()).len();
    assert_eq!(tasks(&vm), 1);
    vm.world.crash(1);
    vm.run_for(ms(2600) + 3 * SECOND);
    assert_eq!(tasks(&vm), 0);
}

#[test]
fn an_unwatched_host_that_died_is_found_out_in_the_end() {
    let mut vm = Vm::up(2);
    vm.run_for(60 * SECOND);
    let (gone, begin) = (vm.me(1), vm.world.now());
    vm.world.crash(1);
    vm.run_for(100 * SECOND);
    let lost = vm.lost(0, gone).expect("told").since(begin);
    // Told by nobody else apart from a cable that is out, so it may come back for 4 s.
    assert!(lost <= 82 * SECOND, "{lost:?}");
}

#[test]
fn asking_for_the_hosts_finds_a_dead_one() {
    let mut vm = Vm::up(3);
    vm.run_for(120 * SECOND);
    let (gone, begin) = (vm.me(1), vm.world.now());
    vm.world.crash(1);
    vm.world.with(0, |n, now, _| n.ask_hosts(now));
    vm.run_for(10 * SECOND);
    let lost = vm.lost(0, gone).expect("told").since(begin);
    assert!(lost <= ms(2100), "{lost:?}");
}

#[test]
fn a_restarted_host_replaces_its_old_life_when_it_has_joined() {
    let mut vm = Vm::up(3);
    vm.watch(0, true);
    vm.run_for(10 * SECOND);
    let (old, begin) = (vm.me(2), vm.world.now());
    let program = Program { run_us: 3_600_000_000, output_bytes: 0, status: 0 };
    let spec = program.spec(4096, false);
    vm.world.with(1, |n, now, m| n.spawn(now, old, spec, m)).expect("alive").expect("made");
    vm.run_for(ms(50));
    vm.world.crash(2);
    vm.join(2, 1);
    vm.run_for(ms(300));
    let new = vm.me(2);
    assert!(new.incarnation() > old.incarnation());
    for told in [0, 1] {
        let lost = vm.lost(told, old).expect("the old life is over");
        assert!(lost <= begin + ms(200), "{lost}");
        let added = |e: &NodeEvent| matches!(e, NodeEvent::HostAdded(h) if h.id == new);
        assert!(vm.when(told, added).expect("the new one began") >= lost);
    }
    let ended = |(_, h, e): &&(Instant, usize, NodeEvent)| {
        let over = matches!(e, NodeEvent::Request { event: RequestEvent::Ended(_), .. });
        *h == 1 && over
    };
    assert_eq!(vm.told.iter().filter(ended).count(), 1, "what ran there ended once");
    // The new life is a host like any other.
    let spec = Program { run_us: 10, output_bytes: 10, status: 0 }.spec(4096, false);
    vm.world.with(1, |n, now, m| n.spawn(now, new, spec, m)).expect("alive").expect("made");
    vm.run_for(SECOND);
    assert_eq!(vm.told.iter().filter(ended).count(), 2);
}

#[test]
fn a_host_that_slept_too_long_joins_again_as_another() {
    let mut vm = Vm::up(3);
    vm.watch(0, true);
    vm.run_for(10 * SECOND);
    let old = vm.me(2);
    let woken = vm.world.now() + 6 * SECOND;
    vm.world.pause(2, woken);
    vm.run_for(6 * SECOND);
    assert!(vm.lost(0, old).is_some());
    vm.run_for(2 * SECOND);
    let again = |e: &NodeEvent| matches!(e, NodeEvent::Joined { again: true, .. });
    let back = vm.when(2, again).expect("it is back");
    assert!(back <= woken + ms(1100), "{back}: told at once, and tries a second later");
    assert!(vm.me(2).incarnation() > old.incarnation());
}

/// Deletes a host and gives the leader's answer.
fn delete(vm: &mut Vm, at: usize, host: HostId) -> Result<(), DeleteError> {
    vm.world.with(at, |n, now, m| n.delete_host(now, 1, host, m)).expect("alive")
}

#[test]
fn a_deleted_host_is_told_and_everyone_forgets_it() {
    let mut vm = Vm::up(3);
    let (gone, leader) = (vm.me(2), vm.me(0));
    let spec = Program { run_us: 3_600_000_000, output_bytes: 0, status: 0 }.spec(4096, false);
    vm.world.with(1, |n, now, m| n.spawn(now, gone, spec, m)).expect("alive").expect("made");
    vm.run_for(ms(50));
    assert_eq!(delete(&mut vm, 1, gone), Err(DeleteError::NotLeader));
    assert_eq!(delete(&mut vm, 0, leader), Err(DeleteError::Leader(leader)));
    assert_eq!(delete(&mut vm, 0, gone), Ok(()));
    assert_eq!(delete(&mut vm, 0, gone), Err(DeleteError::Unknown(gone)));
    vm.run_for(ms(100));
    assert!(vm.when(2, |e| *e == NodeEvent::Deleted).is_some(), "it is told");
    let left = |e: &NodeEvent| matches!(e, NodeEvent::HostLeft(id) if *id == gone);
    assert!(vm.when(0, left).is_some() && vm.when(1, left).is_some());
    let ended = |e: &NodeEvent| {
        matches!(e, NodeEvent::Request { event: RequestEvent::Ended(x), .. }
            if x.ending == Ending::HostLost)
    };
    assert!(vm.when(1, ended).is_some(), "what ran there has ended");
    assert_eq!(vm.world.hosts[1].node.as_ref().unwrap().hosts().count(), 2);
}

#[test]
fn a_host_deleted_while_it_was_cut_off_learns_of_it_when_it_is_back() {
    let mut vm = Vm::up(3);
    vm.watch(0, true);
    vm.run_for(SECOND);
    let gone = vm.me(1);
    let until = vm.world.now() + 5 * SECOND;
    vm.world.pause(1, until);
    vm.run_for(4 * SECOND);
    assert!(vm.lost(0, gone).is_some());
    assert_eq!(delete(&mut vm, 0, gone), Ok(()));
    vm.run_for(11 * SECOND);
    assert!(vm.when(1, |e| *e == NodeEvent::Deleted).is_some());
    assert_eq!(vm.world.hosts[0].node.as_ref().unwrap().hosts().count(), 2);
}

/// Of these the table has the first, and the world delivers at the first two.
fn three(host: usize) -> Links {
    let mut other = address(host);
    other.set_ip([10, 9, 0, host as u8].into());
    Links::new(vec![address(host), other, ([0x2001, 0xDB8, 0, 0, 0, 0, 0, 1], 7077).into()])
}

#[test]
fn the_nearest_of_a_hosts_addresses_is_tried_and_then_the_next() {
    let near: fn(usize) -> Links =
        |host| if host == 1 { three(1) } else { Links::one(three(host).addrs()[1]) };
    // Told of host 2 later than it joined itself.
    let deaf = |host| if host == 2 { three(2) } else { Links::one(three(host).addrs()[2]) };
    for (links, from, to, addr) in [(near, 2, 1, three(1).addrs()[1]), (deaf, 1, 2, address(2))] {
        let mut vm = Vm::at(3, links);
        let host = vm.me(to);
        vm.world.with(from, |n, now, m| n.connect_to(now, host, m));
        // Where it was reached first; later on a path follows its peer to where that sends from.
        let mut found = Vec::new();
        for _ in 0..300_000 {
            vm.run_for(Duration::from_micros(100));
            let networks = vm.world.hosts[from].node.as_ref().expect("it runs");
            let (networks, _) = networks.networks(None, 9);
            found = networks.iter().filter(|n| n.host == host).map(|n| n.addr).collect();
            if !found.is_empty() {
                break;
            }
        }
        assert_eq!(found, [addr]);
        assert_eq!(vm.told.iter().filter(|t| matches!(t.2, NodeEvent::HostLost(_))).count(), 0);
    }
}
