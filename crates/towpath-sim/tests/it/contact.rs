//! Hosts out of contact with each other or with the leader: who is lost, who stays.

use std::time::Duration;

use crate::hosts::{Got, Vm, ms};
use crate::survival::{all_agree, all_are_who_they_were, ids, node, pair, talk, told};
use towpath_node::NodeEvent;
use towpath_proto::association::End;
use towpath_sim::link::LinkSpec;
use towpath_vm::HostState;
use towpath_vm::talk::ToTask;
use towpath_wire::HostId;
use towpath_wire::Instant;
use towpath_wire::TaskId;

pub(crate) fn set(vm: &mut Vm, a: usize, b: usize, up: bool) {
    for (from, to) in [(a, b), (b, a)] {
        vm.world.link(from, to).set_up(up);
    }
}

pub(crate) fn cut(vm: &mut Vm, a: usize, b: usize) {
    set(vm, a, b, false);
}

pub(crate) fn mend(vm: &mut Vm, a: usize, b: usize) {
    set(vm, a, b, true);
}

#[test]
fn a_leader_that_was_away_strikes_nobody_off() {
    for hosts in [3, 5] {
        for away in [500, 2100, 2500, 3000, 4000, 10_000, 30_000] {
            for stopped in [true, false] {
                let mut vm = Vm::up(hosts);
                let (ids, both) = (ids(&vm, hosts), pair(&mut vm));
                vm.world.with(0, |n, now, m| n.watch_hosts(now, true, m));
                vm.run(ms(1234));
                if stopped {
                    let until = vm.world.now() + ms(away);
                    vm.world.pause(0, until);
                } else {
                    (1..hosts).for_each(|host| cut(&mut vm, 0, host));
                }
                vm.run(ms(away));
                talk(&mut vm, both, 1);
                (1..hosts).for_each(|host| mend(&mut vm, 0, host));
                vm.run(ms(10_000));
                println!("{hosts} hosts, away {away} ms, stopped {stopped}");
                all_are_who_they_were(&vm, &ids);
                all_agree(&vm, hosts);
                talk(&mut vm, both, 2);
            }
        }
    }
}

#[test]
fn a_member_alone_with_a_leader_that_was_away_for_three_seconds_stays() {
    for away in [2500, 3000] {
        let mut vm = Vm::up(2);
        let ids = ids(&vm, 2);
        let (a, b) = (vm.enrol(1), vm.enrol(1));
        cut(&mut vm, 0, 1);
        vm.run(ms(away));
        mend(&mut vm, 0, 1);
        vm.run(ms(5000));
        all_are_who_they_were(&vm, &ids);
        assert!(vm.send(1, a, b, 0, 10));
        vm.run(ms(10));
        assert_eq!(vm.seqs(b), [0]);
    }
}

#[test]
fn a_host_that_dies_while_the_leader_is_away_is_lost_once_it_is_back() {
    let mut vm = Vm::up(4);
    let (ids, both) = (ids(&vm, 4), pair(&mut vm));
    let until = vm.world.now() + ms(3000);
    vm.world.pause(0, until);
    vm.world.crash(3);
    vm.run(ms(3000) + 5 * Duration::from_secs(2));
    assert_eq!(told(&vm, 0, |e| *e == NodeEvent::HostLost(ids[3])), 1);
    assert_eq!(told(&vm, 0, |e| matches!(e, NodeEvent::HostLost(_))), 1, "and only it");
    talk(&mut vm, both, 1);
}

/// When the leader knew that a host was lost, from now on.
pub(crate) fn lost_at(vm: &mut Vm, host: HostId, most: Duration) -> Option<Duration> {
    let begin: Instant = vm.world.now();
    while vm.world.now() < begin + most {
        vm.run(ms(10));
        if told(vm, 0, |e| *e == NodeEvent::HostLost(host)) > 0 {
            return Some(vm.world.now().since(begin));
        }
    }
    None
}

#[test]
fn a_host_that_died_is_lost_as_soon_as_it_is_silent_and_others_are_not() {
    for hosts in [3, 5] {
        let mut vm = Vm::up(hosts);
        pair(&mut vm);
        let dead = vm.me(hosts - 1);
        vm.world.crash(hosts - 1);
        let took = lost_at(&mut vm, dead, ms(20_000)).expect("lost");
        assert!(took <= ms(2510), "{took:?}");
        let silent =
            |e: &NodeEvent| matches!(e, NodeEvent::ContactOver { end: End::Silent { .. }, .. });
        assert!(told(&vm, 0, silent) > 0);
    }
    // Nobody else is there to tell a dead host from a cut cable.
    let mut vm = Vm::up(2);
    vm.enrol(1);
    let dead = vm.me(1);
    vm.world.crash(1);
    let took = lost_at(&mut vm, dead, ms(20_000)).expect("lost");
    assert!(took > ms(5000) && took <= ms(6510), "{took:?}");
    // All at once: the leader's own cable, as far as it knows. Not for ever.
    let mut vm = Vm::up(3);
    pair(&mut vm);
    let dead = vm.me(1);
    (1..3).for_each(|host| vm.world.crash(host));
    let took = lost_at(&mut vm, dead, ms(100_000)).expect("lost");
    assert!(took > ms(60_000) && took <= ms(90_000), "{took:?}");
}

#[test]
fn two_hosts_that_lost_each_other_for_a_while_stay() {
    for away in [2500, 4500] {
        let mut vm = Vm::up(4);
        let (ids, (a, b)) = (ids(&vm, 4), pair(&mut vm));
        cut(&mut vm, 1, 2);
        vm.run(ms(away));
        assert_eq!(vm.take(a), [Got::Said(ToTask::Gone { peer: b })], "the pair's work is over");
        mend(&mut vm, 1, 2);
        vm.run(ms(20_000));
        all_are_who_they_were(&vm, &ids);
        let state = |h: &towpath_vm::Host| h.state == HostState::Up;
        assert_eq!(node(&vm, 0).hosts().filter(|h| state(h)).count(), 4);
    }
}

#[test]
fn whoever_cannot_reach_hosts_that_died_is_not_taken_for_the_broken_one() {
    let mut vm = Vm::up_with(4, |_| ms(3000));
    let tasks: Vec<TaskId> = (1..4).map(|host| vm.enrol(host)).collect();
    let ids = ids(&vm, 4);
    for dead in [1, 2] {
        assert!(vm.send(1, tasks[0], tasks[dead], 0, 10));
    }
    vm.run(ms(200));
    // As two thirds of the others died, the leader waits for them to come back.
    for host in [2, 3] {
        vm.world.crash(host);
    }
    vm.run(ms(30_000));
    assert_eq!(node(&vm, 1).me(), Some(ids[1]), "it is who it was");
    let lost: Vec<HostId> = (2..4).map(|host| ids[host]).collect();
    for host in [0, 1] {
        assert!(lost.iter().all(|id| told(&vm, host, |e| *e == NodeEvent::HostLost(*id)) == 1));
        assert_eq!(told(&vm, host, |e| *e == NodeEvent::HostLost(ids[1])), 0, "host {host}");
    }
}

#[test]
fn a_leader_that_was_away_while_two_lost_each_other_strikes_neither_off() {
    for lost_after in [500, 2000] {
        for (from, away) in [(100, 10_000), (4000, 1500), (4000, 3000), (7600, 1000), (7600, 9000)]
        {
            for stopped in [true, false] {
                let mut vm = Vm::up_with(4, |_| ms(lost_after));
                let (ids, _) = (ids(&vm, 4), pair(&mut vm));
                cut(&mut vm, 1, 2);
                let told_of =
                    |vm: &Vm| told(vm, 1, |e| matches!(e, NodeEvent::ContactOver { .. })) > 0;
                while !told_of(&vm) {
                    vm.run(ms(10));
                }
                let from = if lost_after == 500 { from.min(4600) } else { from };
                vm.run(ms(from));
                if stopped {
                    let until = vm.world.now() + ms(away);
                    vm.world.pause(0, until);
                } else {
                    (1..4).for_each(|host| cut(&mut vm, 0, host));
                }
                vm.run(ms(away / 4));
                // The two reach each other while the leader cannot hear of it.
                mend(&mut vm, 1, 2);
                vm.run(ms(away - away / 4));
                (1..4).for_each(|host| mend(&mut vm, 0, host));
                vm.run(ms(30_000));
                println!("{lost_after} ms, from {from} for {away}, stopped {stopped}");
                all_are_who_they_were(&vm, &ids);
                all_agree(&vm, 4);
            }
        }
    }
}

#[test]
fn a_host_that_slept_within_its_time_to_come_back_is_reached_again() {
    let mut vm = Vm::up_with(4, |_| ms(6000));
    let (ids, _) = (ids(&vm, 4), pair(&mut vm));
    // No more are heard than are silent: once the conversation is over, after six seconds, the
    // leader gives them three more to come back.
    let until = vm.world.now() + ms(8000);
    for host in [2, 3] {
        vm.world.pause(host, until);
    }
    vm.run(ms(60_000));
    all_are_who_they_were(&vm, &ids);
    all_agree(&vm, 4);
}

#[test]
fn a_host_that_was_away_and_lost_is_another_one_and_its_name_stays() {
    let mut vm = Vm::up(4);
    vm.watch_from(0);
    let name = |vm: &Vm, host: usize| {
        let me = vm.me(host);
        node(vm, 0).hosts().find(|h| h.id == me).expect("in the table").name.clone()
    };
    vm.rename(3, "h1");
    vm.run(ms(500));
    let (mut id, first) = (vm.me(3), name(&vm, 3));
    assert_ne!(first, "h1", "that is taken");
    for _ in 0..3 {
        let until = vm.world.now() + ms(6000);
        vm.world.pause(3, until);
        vm.run(ms(9000));
        assert_ne!(vm.me(3), id, "it is another one");
        id = vm.me(3);
        assert_eq!(name(&vm, 3), first);
    }
}

#[test]
fn how_long_a_silent_host_is_waited_for_is_the_founders_to_say() {
    let mut vm = Vm::up_with(4, |host| if host == 0 { ms(1000) } else { ms(300 * host as u64) });
    pair(&mut vm);
    let dead = vm.me(3);
    // The founder's view and a member's.
    vm.world.crash(3);
    let took = lost_at(&mut vm, dead, ms(20_000)).expect("lost");
    assert!(took >= ms(1000) && took <= ms(1260), "{took:?}");
    let spec = LinkSpec { delay_us: 200, ..LinkSpec::default() };
    assert!(vm.world.link(1, 2).spec().delay_us == spec.delay_us);
    cut(&mut vm, 1, 2);
    vm.run(ms(950));
    assert_eq!(told(&vm, 1, |e| matches!(e, NodeEvent::ContactOver { .. })), 0, "not yet");
    vm.run(ms(400));
    assert_eq!(told(&vm, 1, |e| matches!(e, NodeEvent::ContactOver { .. })), 1);
}
