//! Long messages to tasks of several hosts, along a chain of hosts, in virtual time.

use std::time::Duration;

use crate::hosts::{Got, Vm, ms};
use towpath_sim::link::LinkSpec;
use towpath_vm::talk::{Subject, ToDaemon, ToTask};
use towpath_wire::TaskId;
use towpath_wire::talk::PIECE_MAX;

/// A sender on host 0 and a receiver on each other one, with credit for what follows, and hosts
/// that have been asked whether they take what comes by others.
fn chain(vm: &mut Vm) -> (TaskId, Vec<TaskId>) {
    let a = vm.enrol(0);
    let others: Vec<TaskId> = (1..vm.world.hosts.len()).map(|host| vm.enrol(host)).collect();
    for _ in 0..3 {
        for peer in &others {
            vm.says(0, a, ToDaemon::Blocked { peer: *peer, need: 8192 });
        }
        vm.run(ms(50));
    }
    let to: Vec<(TaskId, u32)> = others.iter().map(|t| (*t, 0)).collect();
    vm.cast(0, a, &to, 10_000);
    vm.run(ms(50));
    for task in &others {
        assert_eq!(vm.whole(*task), [0]);
    }
    vm.take(a);
    (a, others)
}

/// Whether a host that is there passed pieces on.
fn passes(vm: &Vm) -> bool {
    let mut there = (0..vm.world.hosts.len()).filter(|h| vm.world.hosts[*h].node.is_some());
    there.any(|host| vm.counter(host, "pieces_passed_on") > 0)
}

fn numbered(to: &[TaskId], seq: u32) -> Vec<(TaskId, u32)> {
    to.iter().map(|t| (*t, seq)).collect()
}

#[test]
fn a_long_message_for_five_hosts_takes_little_more_time_than_for_one() {
    let mut vm = Vm::shaped(6);
    let (a, others) = chain(&mut vm);
    let passed = |vm: &Vm| (1..6).map(|h| vm.counter(h, "pieces_passed_on")).collect::<Vec<_>>();
    assert_eq!(passed(&vm), [0; 5], "hosts that were not asked get theirs straight");
    let time = |vm: &mut Vm, to: &[TaskId], seq| {
        let begin = vm.world.now();
        vm.cast(0, a, &numbered(to, seq), PIECE_MAX);
        vm.run(ms(100));
        vm.last.since(begin)
    };
    // The first of them makes the connections between hosts of the chain.
    let first = time(&mut vm, &others, 1);
    let five = time(&mut vm, &others, 2);
    let one = time(&mut vm, &others[..1], 3);
    assert_eq!(passed(&vm), [52, 52, 52, 52, 0]);
    for task in &others {
        let seqs = vm.whole(*task);
        assert_eq!(seqs, if *task == others[0] { vec![1, 2, 3] } else { vec![1, 2] });
    }
    assert!(five <= one.mul_f64(1.3), "{one:?} for one, {five:?} for five");
    assert!(first <= one.mul_f64(1.5), "{one:?} for one, {first:?} for five at first");
    vm.nothing_is_left();
}

#[test]
fn a_short_message_overtakes_no_long_one_on_any_way() {
    let mut vm = Vm::star(4);
    let (a, others) = chain(&mut vm);
    for round in 0..5 {
        let seq = 1 + 3 * round;
        vm.cast(0, a, &numbered(&others, seq), 40_000);
        vm.cast(0, a, &numbered(&others, seq + 1), 100);
        for task in &others {
            assert!(vm.send(0, a, *task, seq + 2, 50));
        }
        vm.run(ms(if round == 2 { 100 } else { 0 }));
    }
    vm.run(ms(200));
    for task in &others {
        assert_eq!(vm.whole(*task), (1..16).collect::<Vec<_>>());
    }
    assert!(passes(&vm), "the long ones went along a chain");
    vm.nothing_is_left();
}

#[test]
fn the_end_of_a_task_is_told_after_what_it_sent_along_a_chain() {
    let mut vm = Vm::star(5);
    let (a, others) = chain(&mut vm);
    let watcher = vm.enrol(4);
    vm.says(4, watcher, ToDaemon::Watch { watch: 1, subject: Subject::Task(a) });
    vm.run(ms(10));
    vm.cast(0, a, &numbered(&others, 1), PIECE_MAX);
    vm.left(0, a);
    // Who asks now must not hear of it before the others.
    vm.says(3, others[2], ToDaemon::Watch { watch: 7, subject: Subject::Task(a) });
    vm.run(ms(200));
    for task in &others {
        let mut got = vm.take(*task);
        let ends = got.iter().filter(|g| matches!(g, Got::Said(_))).count();
        got.truncate(got.len() - ends);
        assert_eq!(ends, if *task == others[2] { 2 } else { 1 }, "{task}");
        vm.got.insert(*task, got);
        assert_eq!(vm.whole(*task), [1]);
    }
    assert_eq!(vm.take(watcher).len(), 1);
    assert!(passes(&vm), "it went along a chain");
    for host in 0..5 {
        vm.left(host, if host == 0 { a } else { others[host - 1] });
    }
    vm.left(4, watcher);
    vm.run(ms(1000));
    vm.nothing_is_left();
    for host in &vm.world.hosts {
        assert_eq!(host.node.as_ref().unwrap().remains(), Vec::<String>::new());
    }
}

#[test]
fn who_writes_to_a_task_that_is_over_hears_so_after_what_it_sent_along_a_chain() {
    let mut vm = Vm::star(5);
    let (a, others) = chain(&mut vm);
    vm.cast(0, a, &numbered(&others, 1), PIECE_MAX);
    vm.left(0, a);
    // These words find it gone while its last message is on its way to those who say them.
    assert!(vm.send(3, others[2], a, 0, 10));
    vm.says(4, others[3], ToDaemon::Blocked { peer: a, need: 8192 });
    vm.run(ms(200));
    for task in &others {
        let mut got = vm.take(*task);
        assert_eq!(got.pop(), Some(Got::Said(ToTask::Gone { peer: a })), "{task}");
        vm.got.insert(*task, got);
        assert_eq!(vm.whole(*task), [1], "{task}");
    }
    assert!(passes(&vm), "it went along a chain");
    vm.nothing_is_left();
}

#[test]
fn a_host_that_dies_in_a_chain_at_any_moment_holds_nothing_back() {
    let mut passing = 0;
    for (dies, after) in (1..6).flat_map(|host| (0..5).map(move |k| (host, 400 + 1300 * k))) {
        let mut vm = Vm::star(6);
        let (a, others) = chain(&mut vm);
        for seq in 1..4 {
            vm.cast(0, a, &numbered(&others, seq), 50_000);
        }
        vm.run(Duration::from_micros(after));
        vm.world.crash(dies);
        vm.run(ms(4000));
        for (host, task) in (1..).zip(&others).filter(|(host, _)| *host != dies) {
            assert_eq!(vm.whole(*task), [1, 2, 3], "{host}, when {dies} dies after {after} us");
        }
        let mut said = vm.take(a);
        said.retain(|g| !matches!(g, Got::Said(ToTask::Credit { .. })));
        assert_eq!(said, [Got::Said(ToTask::Gone { peer: others[dies - 1] })]);
        passing += u32::from(passes(&vm));
        vm.nothing_is_left();
    }
    // Where the first host dies first, everything goes straight.
    assert!(passing > 12, "a chain passed pieces on in {passing} of 25 rounds");
}

#[test]
fn two_hosts_of_a_chain_that_cannot_reach_each_other_hold_nothing_back_from_a_third() {
    let mut vm = Vm::up(5);
    let (a, others) = chain(&mut vm);
    for seq in 1..4 {
        vm.cast(0, a, &numbered(&others, seq), 50_000);
    }
    vm.run(Duration::from_micros(300));
    for (from, to) in [(2, 3), (3, 2)] {
        let cut = LinkSpec { loss_ppm: 1_000_000, ..LinkSpec::default() };
        vm.world.link(from, to).set_spec(cut);
    }
    vm.run(ms(8000));
    let mut whole = 0;
    for task in &others {
        // One of the two is lost; what it has then ends where the chain broke.
        let got = vm.take(*task);
        if got.iter().all(|g| matches!(g, Got::Piece(..))) {
            vm.got.insert(*task, got);
            assert_eq!(vm.whole(*task), [1, 2, 3], "{task}");
            whole += 1;
        }
    }
    assert!(whole >= 3, "{whole} have everything");
    let again: u64 = vm.counter(0, "pieces_sent_again");
    assert!(again > 0, "nothing was on the way when the link was cut");
    vm.nothing_is_left();
}
