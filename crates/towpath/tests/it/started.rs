//! Operations of teams that were started and go on while their tasks do other things.

use std::time::Duration;

use crate::support::{LONG, Vm, pattern};
use towpath::task::collective::{Element, Function, Operation, Operator, Output};
use towpath::task::{Choice, STARTED_MAX, Team, TeamError, Wanted};
use towpath::{Task, TaskId};

const HOSTS: usize = 2;
const MEMBERS: usize = 5;

/// Runs `member` in tasks of a team, by turns on either host.
fn together(member: impl Fn(&mut Task, &mut Team) + Sync) {
    let vm = Vm::up(HOSTS);
    let tasks: Vec<Task> = (0..MEMBERS).map(|n| vm.task(1 + n % HOSTS)).collect();
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    std::thread::scope(|scope| {
        for mut task in tasks {
            let (member, ids) = (&member, &ids);
            scope.spawn(move || {
                let mut team = task.team_of(ids).unwrap();
                member(&mut task, &mut team);
            });
        }
    });
}

fn sum(value: u64) -> Operation {
    let operator = Operator::built_in(Function::Sum, Element::U64).unwrap();
    Operation::AllReduce { data: value.to_le_bytes().to_vec().into(), operator }
}

fn number(output: &Output) -> u64 {
    let Output::One(bytes) = output else { panic!("{output:?}") };
    u64::from_le_bytes(bytes[..].try_into().unwrap())
}

/// Sends to the next member and receives from the one before.
fn pass_round(task: &mut Task, team: &Team, tag: i64) {
    let (rank, size) = (team.rank() as usize, team.size() as usize);
    let (next, before) =
        (team.members()[(rank + 1) % size], team.members()[(rank + size - 1) % size]);
    task.send(next, tag, &[rank as u8]).unwrap();
    let wanted = Wanted { source: Some(before), tag: Some(tag), context: 0 };
    let got = task.recv_timeout(&wanted, LONG).unwrap().expect("it comes");
    assert_eq!(got.bytes(), [((rank + size - 1) % size) as u8]);
}

/// How many messages wait to be received, whatever they are.
fn waiting(task: &mut Task) -> usize {
    let mut count = 0;
    let nothing = task.recv_by(Some(Duration::ZERO), &mut |_| {
        count += 1;
        Choice::Skip
    });
    assert!(nothing.unwrap().is_none());
    count
}

#[test]
fn several_are_under_way_and_end_in_any_order_beside_messages() {
    together(|task, team| {
        let (rank, size) = (u64::from(team.rank()), u64::from(team.size()));
        let data = pattern(3, 300_000);
        for round in 0..20 {
            let total = team.start(task, sum(rank + round)).unwrap();
            let data = (rank == 4).then(|| data.clone().into());
            let long = team.start(task, Operation::Broadcast { root: 4, data }).unwrap();
            pass_round(task, team, 1);
            let all_here = team.start(task, Operation::Barrier).unwrap();
            pass_round(task, team, 2);
            // One that its caller waits for, between them.
            let each = team.all_reduce(task, 1_u64.to_le_bytes().to_vec(), {
                Operator::built_in(Function::Sum, Element::U64).unwrap()
            });
            assert_eq!(each.unwrap(), size.to_le_bytes());
            assert_eq!(team.finish(task, all_here).unwrap(), Output::None);
            let Output::One(got) = team.finish(task, long).unwrap() else { panic!("no bytes") };
            assert!(got[..] == pattern(3, 300_000));
            let total = number(&team.finish(task, total).unwrap());
            assert_eq!(total, size * (size - 1) / 2 + size * round);
        }
        team.barrier(task).unwrap();
        assert_eq!(waiting(task), 0, "nothing is left");
    });
}

#[test]
fn a_started_barrier_waits_for_the_last_while_everyone_works() {
    together(|task, team| {
        let first = team.members()[0];
        let wanted = |tag| Wanted { source: None, tag: Some(tag), context: 0 };
        if team.rank() > 0 {
            let all_here = team.start(task, Operation::Barrier).unwrap();
            assert!(!team.test(task, &all_here).unwrap(), "rank 0 has not started it");
            assert!(!team.wait(task, &all_here, Duration::from_millis(1)).unwrap());
            task.send(first, 1, b"").unwrap();
            // Nothing but what the task itself waits for tells that something came.
            while !team.test(task, &all_here).unwrap() {
                assert!(task.wait(Some(LONG)).unwrap(), "something comes");
            }
            team.finish(task, all_here).unwrap();
        } else {
            for _ in 1..team.size() {
                task.recv_timeout(&wanted(1), LONG).unwrap().expect("all others have started");
            }
            let all_here = team.start(task, Operation::Barrier).unwrap();
            assert!(team.wait(task, &all_here, LONG).unwrap());
            team.finish(task, all_here).unwrap();
        }
    });
}

#[test]
fn all_that_is_under_way_hears_that_a_member_has_ended() {
    together(|task, team| {
        team.barrier(task).unwrap();
        if team.rank() == 3 {
            return; // It ends as its handle goes, with nothing said.
        }
        let all_here = team.start(task, Operation::Barrier).unwrap();
        let total = team.start(task, sum(1)).unwrap();
        for pending in [total, all_here] {
            while !team.test(task, &pending).unwrap() {
                assert!(task.wait(Some(LONG)).unwrap(), "the end is told");
            }
            let ended = team.finish(task, pending);
            assert!(matches!(ended, Err(TeamError::Collective(_))), "{ended:?}");
        }
        assert!(team.barrier(task).is_err());
    });
}

#[test]
fn what_nobody_finishes_goes_on_for_the_others_and_leaves_nothing() {
    together(|task, team| {
        let rank = u64::from(team.rank());
        for round in 0..2 * STARTED_MAX as u64 {
            // Another member each time throws its result away.
            let pending = team.start(task, sum(rank)).unwrap();
            if rank == round % 5 {
                drop(pending);
            } else {
                assert_eq!(number(&team.finish(task, pending).unwrap()), 10);
            }
        }
        // Messages of two tasks keep their order: afterwards everything has come.
        let own = task.id();
        for other in team.members().iter().filter(|m| **m != own) {
            task.send(*other, 9, b"").unwrap();
        }
        let wanted = Wanted { source: None, tag: Some(9), context: 0 };
        for _ in 1..team.size() {
            task.recv_timeout(&wanted, LONG).unwrap().expect("it comes");
        }
        team.barrier(task).unwrap();
        assert_eq!(waiting(task), 0, "nothing is left");
    });
}

#[test]
fn too_many_and_those_of_another_team_are_refused() {
    let vm = Vm::up(1);
    let mut task = vm.task(1);
    let alone = [task.id()];
    let (mut team, mut other) = (task.team_of(&alone).unwrap(), task.team_of(&alone).unwrap());
    let mut all = Vec::new();
    for n in 0..STARTED_MAX as u64 {
        all.push(team.start(&mut task, sum(n)).unwrap());
    }
    let more = team.start(&mut task, Operation::Barrier);
    let e = more.map(drop).unwrap_err();
    assert!(matches!(e, TeamError::Started) && e.to_string().contains("64"), "{e}");
    // One that its caller waits for may be.
    team.barrier(&mut task).unwrap();
    let foreign = other.test(&mut task, &all[0]);
    assert!(matches!(foreign, Err(TeamError::Foreign)), "{foreign:?}");
    for (n, pending) in (0..).zip(all) {
        assert_eq!(number(&team.finish(&mut task, pending).unwrap()), n);
    }
    drop(team.start(&mut task, Operation::Barrier).unwrap());
}
