//! Many tasks that do not read: what a host keeps for them stays bounded, and others go on.

use crate::hosts::{Got, Vm, ms};
use towpath_vm::credit::FIRST_MAX;
use towpath_vm::talk::{CREDIT_FIRST, ToDaemon, ToTask};
use towpath_wire::TaskId;
use towpath_wire::talk::PIECE_CHARGE;

/// Payload that uses up all that may be sent unasked in one piece.
const FIRST: usize = (CREDIT_FIRST - PIECE_CHARGE) as usize;

/// What `task` was said last about asking first, of which host.
fn told(vm: &mut Vm, task: TaskId) -> Option<(u16, bool)> {
    vm.take(task).into_iter().rev().find_map(|got| match got {
        Got::Said(ToTask::AskFirst { host, on }) => Some((host.slot(), on)),
        _ => None,
    })
}

fn limit(vm: &mut Vm, task: TaskId) -> Option<u64> {
    vm.take(task).into_iter().rev().find_map(|got| match got {
        Got::Said(ToTask::Credit { limit, .. }) => Some(limit),
        _ => None,
    })
}

#[test]
fn receivers_that_never_read_stop_nobody_else_on_their_host() {
    let mut vm = Vm::up(2);
    let receivers: Vec<TaskId> = (0..60).map(|_| vm.enrol(0)).collect();
    let senders: Vec<TaskId> = (0..20).flat_map(|_| [vm.enrol(0), vm.enrol(1)]).collect();
    let (far, near, reader) = (vm.enrol(1), vm.enrol(0), vm.enrol(0));
    vm.reads = false;
    let mut pairs = 0;
    for (i, sender) in senders.iter().enumerate() {
        if told(&mut vm, *sender).is_some() {
            break;
        }
        for receiver in &receivers {
            assert!(vm.send(i % 2, *sender, *receiver, 0, FIRST));
        }
        pairs += 60;
        vm.run(ms(50));
    }
    let all = FIRST_MAX / CREDIT_FIRST;
    assert!((all + 1..=all + 60).contains(&pairs), "{pairs}: the next ones ask");
    // Everybody knows, on both hosts, and whoever comes now does.
    let full = vm.me(0);
    assert_eq!(told(&mut vm, far), Some((full.slot(), true)));
    assert_eq!(told(&mut vm, near), Some((full.slot(), true)));
    let late = vm.enrol_knowing(1, &[full]);
    assert!(vm.counter(0, "task_bytes_inside_max") < FIRST_MAX * 104 / 100);
    // Whoever sends to a task that reads is granted what it asks for.
    vm.reads = true;
    vm.take(reader);
    for (host, sender) in [(1, far), (0, near), (1, late)] {
        vm.says(host, sender, ToDaemon::Blocked { peer: reader, need: 1064 });
        vm.run(ms(10));
        assert!(limit(&mut vm, sender).is_some_and(|limit| limit >= 1064), "{sender}");
        assert!(vm.send(host, sender, reader, 0, 1000));
        vm.run(ms(10));
        assert_eq!(vm.seqs(reader), [0], "from {sender}");
    }
    // One that had sent unasked before asks for more: what is under way counts.
    let (sender, receiver) = (senders[0], receivers[0]);
    vm.says(0, sender, ToDaemon::Blocked { peer: receiver, need: CREDIT_FIRST });
    vm.run(ms(10));
    assert!(limit(&mut vm, sender).is_some_and(|limit| limit > CREDIT_FIRST));
    // All is read: nobody needs to ask first any more.
    for (host, delivery) in core::mem::take(&mut vm.unread) {
        vm.world.with(host, |n, now, m| n.task_written(now, &delivery, m));
    }
    vm.run(ms(50));
    assert_eq!(told(&mut vm, far), Some((full.slot(), false)));
    assert_eq!(told(&mut vm, near), Some((full.slot(), false)));
    vm.enrol_knowing(1, &[]);
    vm.nothing_is_left();
}

#[test]
fn a_host_that_connects_learns_that_it_is_to_ask_first() {
    let mut vm = Vm::up(3);
    let receivers: Vec<TaskId> = (0..60).map(|_| vm.enrol(1)).collect();
    let senders: Vec<TaskId> = (0..35).map(|_| vm.enrol(1)).collect();
    let stranger = vm.enrol(2);
    vm.reads = false;
    for sender in senders {
        for receiver in &receivers {
            assert!(vm.send(1, sender, *receiver, 0, FIRST));
        }
    }
    vm.run(ms(100));
    assert_eq!(told(&mut vm, stranger), None, "the two hosts do not know each other");
    assert!(vm.send(2, stranger, receivers[0], 0, 10));
    vm.run(ms(100));
    assert_eq!(told(&mut vm, stranger), Some((vm.me(1).slot(), true)));
}
