//! Whom the holder of the VM key lets in: tokens for so many hosts, revoked ones, other builds.

use towpath_node::{JoinFailure, JoinTarget, Links, Node, NodeConfig, NodeEvent};
use towpath_proto::{Config, Crypto, Rng};
use towpath_sim::clock::Clock;
use towpath_sim::crypto::StandIn;
use towpath_sim::link::LinkSpec;
use towpath_sim::world::address;
use towpath_wire::{ByteSize, Instant};

use crate::hosts::{Vm, ms, wall_clock};

fn crypto(host: usize) -> Box<dyn Crypto> {
    Box::new(StandIn::new(Rng::new(77, host as u64)))
}

/// A founder alone, and so many hosts that have not joined.
fn founder(newcomers: usize) -> Vm {
    let mut vm = Vm::up(1);
    let spec = LinkSpec { delay_us: 200, ..LinkSpec::default() };
    for _ in 0..newcomers {
        vm.world.add_host(Clock::new(0, 0), ByteSize::from_mib(64), true, |_| spec);
    }
    vm
}

fn join(vm: &mut Vm, host: usize, invitation: towpath_node::Invitation, build: &str) {
    let config = NodeConfig {
        name: format!("n{host}"),
        build: build.into(),
        links: Links::one(address(host)),
        arch: "any".into(),
        speed: 1000,
        cpus: 1,
        slots: 1,
        unix_us_at_zero: wall_clock(host),
        paced: false,
        voters: 1,
        keeps_table: false,
        life: 0,
        proto: Config::default(),
    };
    let (key, others) = (crypto(0).public_key(), Vec::new());
    let target = JoinTarget { addr: address(0), key, others, invitation };
    let (now, rng) = (vm.world.local_now(host), Rng::new(6, host as u64));
    vm.world.boot(host, Node::join(now, config, crypto(host), rng, target));
}

fn invite(vm: &mut Vm, nonce: u8, uses: Option<u32>) -> towpath_node::Invitation {
    let invite = |n: &mut Node, now, _: &mut _| n.invite_for(now, 3600, [nonce; 16], uses);
    vm.world.with(0, invite).unwrap().expect("it founded")
}

/// Which of these have joined, and why the others have not.
fn outcome(vm: &Vm, hosts: std::ops::Range<usize>) -> (Vec<usize>, Vec<String>) {
    let joined =
        |host: &usize| vm.world.hosts[*host].node.as_ref().is_some_and(|n| n.me().is_some());
    let why = |(_, event): &(usize, NodeEvent)| match event {
        NodeEvent::JoinFailed(JoinFailure::Refused(r)) => Some(r.text.clone()),
        _ => None,
    };
    (hosts.filter(joined).collect(), vm.others.iter().filter_map(why).collect())
}

#[test]
fn of_those_that_come_at_once_with_a_token_for_one_only_one_gets_in() {
    let mut vm = founder(4);
    let token = invite(&mut vm, 1, Some(1));
    for host in 1..5 {
        join(&mut vm, host, token.clone(), "test");
    }
    vm.run(ms(5000));
    let (joined, why) = outcome(&vm, 1..5);
    assert_eq!((joined.len(), why.len()), (1, 3), "{why:?}");
    assert!(why.iter().all(|why| why.contains("as many hosts as it was good for")), "{why:?}");
    let used: Vec<u32> = vm
        .world
        .with(0, |n, now, _| n.invitations(now).into_iter().map(|i| i.uses).collect())
        .unwrap();
    assert_eq!(used, [1]);
}

#[test]
fn a_token_that_is_not_in_the_list_admits_nobody() {
    let mut vm = founder(3);
    let (revoked, forgotten) = (invite(&mut vm, 1, None), invite(&mut vm, 2, None));
    assert_eq!(vm.world.with(0, |n, now, _| n.revoke(now, &[1; 16])), Some(true));
    assert_eq!(vm.world.with(0, |n, now, _| n.revoke(now, &[1; 16])), Some(false));
    join(&mut vm, 1, revoked, "test");
    vm.run(ms(1000));
    let (joined, why) = outcome(&vm, 1..2);
    assert_eq!((joined, why), (vec![], vec!["the token has been revoked".to_string()]));
    // A list that is put back has what was in it, and nothing else.
    let kept = vm.world.with(0, |n, now, _| n.invitations(now)).unwrap();
    vm.world.with(0, |n, now, _| n.revoke(now, &[2; 16]));
    join(&mut vm, 2, forgotten.clone(), "test");
    vm.run(ms(1000));
    assert_eq!(outcome(&vm, 2..3).0, []);
    vm.world.with(0, |n, now, _| n.restore_invitations(now, kept));
    join(&mut vm, 3, forgotten, "test");
    vm.run(ms(1000));
    assert_eq!(outcome(&vm, 3..4).0, [3]);
}

#[test]
fn a_host_of_another_build_is_told_which_both_are() {
    let mut vm = founder(1);
    let token = invite(&mut vm, 1, Some(1));
    join(&mut vm, 1, token.clone(), "0.9 (older)");
    vm.run(ms(1000));
    let (joined, why) = outcome(&vm, 1..2);
    assert_eq!(joined, []);
    let wanted = "it runs towpath test, protocol 1, this host towpath 0.9 (older), protocol 1";
    assert_eq!(why, [wanted]);
    // That has not used the token up.
    join(&mut vm, 1, token, "test");
    vm.run(ms(1000));
    assert_eq!(outcome(&vm, 1..2).0, [1]);
}

#[test]
fn so_many_tokens_are_good_and_not_more() {
    let mut vm = founder(0);
    let issue = |n: &mut Node, now: Instant, _: &mut _| {
        let nonce = |i: u32| u128::from(i).to_le_bytes();
        let issued = (0..2000).filter(|i| n.invite_for(now, 60, nonce(*i), None).is_ok()).count();
        // Those that are over make room.
        let later = now + std::time::Duration::from_secs(61);
        (issued, n.invite_for(later, 60, nonce(5000), None).is_ok(), n.invitations(later).len())
    };
    let limit = towpath_node::invitations::INVITATIONS_MAX;
    assert_eq!(vm.world.with(0, issue), Some((limit, true, 1)));
}
