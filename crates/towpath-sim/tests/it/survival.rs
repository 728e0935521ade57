//! What hosts live through: a founder that starts again, a leader that is away, refusals. Only the
//! log ends a host's tasks.

use std::time::Duration;

use crate::hosts::{Got, Vm, ms};
use towpath_node::{Node, NodeEvent, Saved};
use towpath_proto::association::End;
use towpath_sim::link::LinkSpec;
use towpath_vm::HostState;
use towpath_vm::talk::ToTask;
use towpath_wire::{HostId, Instant, TaskId};

fn node(vm: &Vm, host: usize) -> &Node {
    vm.world.hosts[host].node.as_ref().expect("it runs")
}

/// A pair of tasks that talk, on hosts 1 and 2.
fn pair(vm: &mut Vm) -> (TaskId, TaskId) {
    let (a, b) = (vm.enrol(1), vm.enrol(2));
    talk(vm, (a, b), 0);
    (a, b)
}

/// Both send each other message `seq`, and have it.
fn talk(vm: &mut Vm, (a, b): (TaskId, TaskId), seq: u32) {
    assert!(vm.send(1, a, b, seq, 1000) && vm.send(2, b, a, seq, 1000));
    vm.run(ms(200));
    assert_eq!((vm.seqs(a), vm.seqs(b)), (vec![seq], vec![seq]));
}

fn told(vm: &Vm, host: usize, what: impl Fn(&NodeEvent) -> bool) -> usize {
    vm.others.iter().filter(|(h, e)| *h == host && what(e)).count()
}

/// Nobody was declared lost, became another or ended, and nobody's tasks were told to.
fn all_are_who_they_were(vm: &Vm, ids: &[HostId]) {
    for (host, id) in ids.iter().enumerate().skip(1) {
        assert_eq!(node(vm, host).me(), Some(*id), "host {host}");
    }
    for (host, event) in &vm.others {
        let ends = match event {
            NodeEvent::HostLost(id) => ids[1..].contains(id),
            NodeEvent::HostLeft(_)
            | NodeEvent::Deleted
            | NodeEvent::JoinFailed(_)
            | NodeEvent::Halt
            | NodeEvent::Joined { again: true, .. } => true,
            _ => false,
        };
        assert!(!ends, "host {host}: {event:?}");
    }
}

fn ids(vm: &Vm, hosts: usize) -> Vec<HostId> {
    (0..hosts).map(|h| vm.me(h)).collect()
}

/// The same table everywhere.
fn all_agree(vm: &Vm, hosts: usize) {
    let table = |host| node(vm, host).hosts().cloned().collect::<Vec<_>>();
    for host in 1..hosts {
        assert_eq!(table(host), table(0), "host {host}");
        assert_eq!(node(vm, host).leader(), node(vm, 0).leader());
        assert!(!node(vm, host).is_frozen(), "host {host}");
    }
}

#[test]
fn a_founder_that_starts_again_has_its_members_and_their_tasks_go_on() {
    for away in [ms(10), ms(1500), ms(30_000)] {
        let mut vm = Vm::up(4);
        let (ids, both) = (ids(&vm, 4), pair(&mut vm));
        let old = vm.enrol(0);
        assert!(vm.send(0, old, both.0, 0, 10));
        vm.run(ms(100));
        vm.take(both.0);
        let saved = vm.saved();
        vm.world.crash(0);
        vm.run(away);
        vm.found_again(Some(saved));
        vm.run(ms(3000));
        all_are_who_they_were(&vm, &ids);
        let new = vm.me(0);
        assert_eq!(new.slot(), ids[0].slot(), "people know it by that");
        assert!(new.incarnation() > ids.iter().map(|id| id.incarnation()).max().unwrap());
        for host in 1..4 {
            assert_eq!(told(&vm, host, |e| *e == NodeEvent::HostLost(ids[0])), 1, "host {host}");
        }
        assert_eq!(
            vm.take(both.0),
            [Got::Said(ToTask::Gone { peer: old })],
            "its old life is over"
        );
        talk(&mut vm, both, 1);
        all_agree(&vm, 4);
        // It leads: hosts join, under numbers that nobody had.
        let task = vm.enrol(0);
        assert_ne!(task.pvm_tid(), old.pvm_tid());
        vm.world.crash(3);
        vm.join(3, 3600);
        vm.run(ms(1000));
        assert!(vm.me(3).incarnation() > new.incarnation());
        all_agree(&vm, 4);
        for (host, task) in [(1, both.0), (2, both.1), (0, task)] {
            vm.left(host, task);
        }
        vm.run(ms(100));
        vm.nothing_is_left();
    }
}

#[test]
fn a_founder_again_and_again_never_gives_out_a_number_twice() {
    let mut vm = Vm::up(3);
    let (ids, both) = (ids(&vm, 3), pair(&mut vm));
    let mut lives = vec![ids[0]];
    for seq in 1..5 {
        let saved = vm.saved();
        vm.world.crash(0);
        vm.run(ms(100));
        vm.found_again(Some(saved));
        vm.run(ms(3000));
        assert!(lives.iter().all(|old| *old < vm.me(0)));
        lives.push(vm.me(0));
        talk(&mut vm, both, seq);
    }
    all_are_who_they_were(&vm, &ids);
    all_agree(&vm, 3);
}

#[test]
fn what_members_know_beyond_what_the_founder_kept_counts() {
    let mut vm = Vm::up(4);
    // Kept before the last host joined, as on a full disk; and a host left since.
    vm.world.crash(3);
    vm.run(ms(100_000));
    let old: Saved = vm.saved();
    vm.join(3, 3600);
    vm.run(ms(500));
    let (ids, both) = (ids(&vm, 4), pair(&mut vm));
    vm.others.clear();
    let index = node(&vm, 1).log_index();
    assert!(node(&vm, 0).log_index() == index && vm.saved() != old);
    vm.world.crash(0);
    vm.run(ms(3000));
    vm.found_again(Some(old));
    vm.run(ms(5000));
    all_are_who_they_were(&vm, &ids);
    all_agree(&vm, 4);
    assert!(node(&vm, 0).log_index() > index);
    talk(&mut vm, both, 1);
}

#[test]
fn a_member_that_is_cut_off_while_the_founder_starts_again_finds_it_later() {
    let mut vm = Vm::up(4);
    let (ids, both) = (ids(&vm, 4), pair(&mut vm));
    let saved = vm.saved();
    vm.world.crash(0);
    cut(&mut vm, 0, 3);
    vm.run(ms(500));
    vm.found_again(Some(saved));
    vm.run(ms(5000));
    assert!(node(&vm, 3).is_frozen() && !node(&vm, 1).is_frozen());
    mend(&mut vm, 0, 3);
    vm.run(ms(3000));
    all_are_who_they_were(&vm, &ids);
    all_agree(&vm, 4);
    talk(&mut vm, both, 1);
}

#[test]
fn a_founder_without_its_table_ends_nobody() {
    let mut vm = Vm::up(3);
    let (ids, both) = (ids(&vm, 3), pair(&mut vm));
    vm.world.crash(0);
    vm.run(ms(500));
    vm.found_again(None);
    vm.run(ms(60_000));
    all_are_who_they_were(&vm, &ids);
    for host in 1..3 {
        let refuses = |e: &NodeEvent| matches!(e, NodeEvent::LeaderRefuses { .. });
        assert_eq!(told(&vm, host, refuses), 1, "told once");
        assert!(node(&vm, host).is_frozen());
        let why = node(&vm, host).refused().expect("it says why");
        assert!(why.contains("not in the host table"), "{why}");
    }
    talk(&mut vm, both, 1);
}

#[test]
fn another_hosts_table_is_no_founders() {
    let mut vm = Vm::up(2);
    let saved = vm.saved();
    let bytes = saved.encode();
    assert_eq!(Saved::decode(&bytes), Ok(saved));
    for len in 0..bytes.len() {
        assert!(Saved::decode(&bytes[..len]).is_err(), "cut at {len}");
    }
    assert!(vm.found_by_another(Saved::decode(&bytes).unwrap()).is_err());
}

/// The founder dies and starts again with an old table, out of reach of all hosts until it leads.
fn found_again_alone(vm: &mut Vm, hosts: usize, saved: Saved) {
    vm.world.crash(0);
    (1..hosts).for_each(|host| cut(vm, 0, host));
    vm.run(ms(6000));
    vm.found_again(Some(saved));
    vm.run(ms(3000));
    (1..hosts).for_each(|host| mend(vm, 0, host));
    vm.run(ms(3000));
}

#[test]
fn lives_that_could_keep_nothing_are_told_apart() {
    let mut vm = Vm::up(4);
    let (ids, both) = (ids(&vm, 4), pair(&mut vm));
    let saved = vm.saved();
    let mut lives = vec![ids[0]];
    for life in 0..3 {
        found_again_alone(&mut vm, 4, saved.clone().led(saved.term() + life));
        assert!(lives.iter().all(|old| *old < vm.me(0)), "{lives:?}, then {}", vm.me(0));
        lives.push(vm.me(0));
        all_are_who_they_were(&vm, &ids);
        all_agree(&vm, 4);
        talk(&mut vm, both, life as u32 + 1);
    }
}

#[test]
fn a_founder_with_an_older_table_than_its_members_is_not_followed() {
    let mut vm = Vm::up(4);
    let saved = vm.saved();
    found_again_alone(&mut vm, 4, saved.clone());
    vm.world.crash(3);
    vm.join(3, 3600);
    vm.run(ms(1000));
    let (ids, both) = (ids(&vm, 4), pair(&mut vm));
    vm.others.clear();
    // As where not even the term of a life can be kept: it leads in the same once more.
    found_again_alone(&mut vm, 4, saved);
    vm.run(ms(60_000));
    assert_eq!(vm.me(0), ids[0]);
    for host in 1..3 {
        assert!(node(&vm, host).is_frozen(), "host {host}");
        assert_eq!(node(&vm, host).refused(), Some("it has an older table"), "host {host}");
        assert_eq!(node(&vm, host).me(), Some(ids[host]));
    }
    talk(&mut vm, both, 1);
}

/// A founder's table from before host 3 joined again.
fn kept_before_a_life(vm: &mut Vm) -> Saved {
    let (saved, before) = (vm.saved(), vm.me(3));
    vm.watch_from(0);
    let until = vm.world.now() + ms(6000);
    vm.world.pause(3, until);
    vm.run(ms(9000));
    assert_ne!(vm.me(3), before);
    saved
}

#[test]
fn a_host_that_a_founder_knows_only_in_an_earlier_life_ends_nothing() {
    let mut vm = Vm::up(4);
    let saved = kept_before_a_life(&mut vm);
    let (me, task) = (vm.me(3), vm.enrol(3));
    found_again_alone(&mut vm, 4, saved);
    vm.run(ms(60_000));
    assert_eq!(node(&vm, 3).me(), Some(me), "it is who it was");
    assert_eq!(vm.take(task), [], "and so are its tasks");
    assert!(node(&vm, 3).is_frozen());
    let why = node(&vm, 3).refused().expect("it says why");
    assert!(why.contains("only in an earlier life"), "{why}");
}

#[test]
fn a_founder_hears_a_host_that_it_knows_in_an_earlier_life() {
    // By the host's own call, or by the founder's.
    for calls in [true, false] {
        let mut vm = Vm::up(4);
        let saved = kept_before_a_life(&mut vm);
        let (ids, both) = (ids(&vm, 4), pair(&mut vm));
        vm.others.clear();
        vm.world.crash(0);
        // Only that one is there to tell.
        [1, 2].into_iter().for_each(|host| cut(&mut vm, 0, host));
        let back = if calls { 0 } else { 700 };
        vm.run(ms(3000 + back));
        vm.found_again(Some(saved));
        vm.run(ms(3000));
        [1, 2].into_iter().for_each(|host| mend(&mut vm, 0, host));
        vm.run(ms(5000));
        all_are_who_they_were(&vm, &ids);
        all_agree(&vm, 4);
        talk(&mut vm, both, 1);
    }
}

#[test]
fn a_founder_that_starts_again_is_told_who_waits_for_news() {
    let mut vm = Vm::up(4);
    vm.enrol(1);
    let (saved, dead) = (vm.saved(), vm.me(3));
    vm.world.crash(0);
    // It asks for two seconds.
    cut(&mut vm, 0, 2);
    vm.run(ms(3000));
    vm.found_again(Some(saved));
    vm.run(ms(3000));
    mend(&mut vm, 0, 2);
    vm.run(ms(60_000));
    vm.world.crash(3);
    let took = lost_at(&mut vm, dead, ms(20_000)).expect("lost");
    assert!(took <= ms(2510), "{took:?}");
}

#[test]
fn one_long_sleep_counts_once_however_many_hosts_there_are() {
    let mut vm = Vm::up(9);
    vm.watch_from(0);
    vm.run(ms(1000));
    let until = vm.world.now() + ms(1500);
    vm.world.pause(0, until);
    vm.run(ms(1510));
    let lag = node(&vm, 0).endpoint().lag();
    // A sixteenth of the half of `lost_after`.
    assert!(lag > ms(40) && lag < ms(63), "{lag:?}");
}

fn set(vm: &mut Vm, a: usize, b: usize, up: bool) {
    for (from, to) in [(a, b), (b, a)] {
        vm.world.link(from, to).set_up(up);
    }
}

fn cut(vm: &mut Vm, a: usize, b: usize) {
    set(vm, a, b, false);
}

fn mend(vm: &mut Vm, a: usize, b: usize) {
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
fn lost_at(vm: &mut Vm, host: HostId, most: Duration) -> Option<Duration> {
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
    [2, 3].into_iter().for_each(|host| vm.world.crash(host));
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
    // Nobody else is heard, so the leader waits for twelve seconds more.
    let until = vm.world.now() + ms(15_000);
    [2, 3].into_iter().for_each(|host| vm.world.pause(host, until));
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
