//! What hosts live through: a founder that starts again, a leader that is away, refusals. Only the
//! log ends a host's tasks.

use crate::contact::{cut, lost_at, mend};
use crate::hosts::{Got, Vm, ms};
use towpath_node::Node;
use towpath_node::NodeEvent;
use towpath_node::Saved;
use towpath_vm::talk::ToTask;
use towpath_wire::HostId;
use towpath_wire::TaskId;

pub(crate) fn node(vm: &Vm, host: usize) -> &Node {
    vm.world.hosts[host].node.as_ref().expect("it runs")
}

/// A pair of tasks that talk, on hosts 1 and 2.
pub(crate) fn pair(vm: &mut Vm) -> (TaskId, TaskId) {
    let (a, b) = (vm.enrol(1), vm.enrol(2));
    talk(vm, (a, b), 0);
    (a, b)
}

/// Both send each other message `seq`, and have it.
pub(crate) fn talk(vm: &mut Vm, (a, b): (TaskId, TaskId), seq: u32) {
    assert!(vm.send(1, a, b, seq, 1000) && vm.send(2, b, a, seq, 1000));
    vm.run(ms(200));
    assert_eq!((vm.seqs(a), vm.seqs(b)), (vec![seq], vec![seq]));
}

pub(crate) fn told(vm: &Vm, host: usize, what: impl Fn(&NodeEvent) -> bool) -> usize {
    vm.others.iter().filter(|(h, e)| *h == host && what(e)).count()
}

/// Nobody was declared lost, became another or ended, and nobody's tasks were told to.
pub(crate) fn all_are_who_they_were(vm: &Vm, ids: &[HostId]) {
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

pub(crate) fn ids(vm: &Vm, hosts: usize) -> Vec<HostId> {
    (0..hosts).map(|h| vm.me(h)).collect()
}

/// The same table everywhere.
pub(crate) fn all_agree(vm: &Vm, hosts: usize) {
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
    let saved = || Saved::decode(&bytes).unwrap();
    assert!(vm.found_by_another(9, saved()).is_err(), "the table does not know its key");
    // One that does not lead in it asks whoever does.
    let node = vm.found_by_another(1, saved()).unwrap();
    assert!(!node.leads() && node.me().is_none());
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
        found_again_alone(&mut vm, 4, saved.clone().led(saved.before() + life));
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
    for (host, id) in ids.iter().enumerate().skip(1).take(2) {
        assert!(node(&vm, host).is_frozen(), "host {host}");
        assert_eq!(node(&vm, host).refused(), Some("it has an older table"), "host {host}");
        assert_eq!(node(&vm, host).me(), Some(*id));
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
        for host in [1, 2] {
            cut(&mut vm, 0, host);
        }
        let back = if calls { 0 } else { 700 };
        vm.run(ms(3000 + back));
        vm.found_again(Some(saved));
        vm.run(ms(3000));
        for host in [1, 2] {
            mend(&mut vm, 0, host);
        }
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
