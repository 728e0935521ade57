//! What tasks of several hosts do together, through real daemons; and loans.

use std::sync::Mutex;

use crate::support::{LONG, Vm, pattern};
use towpath::task::collective::{Commutes, Element, Function, Lengths, Operator};
use towpath::task::{Envelope, Team, TeamError, Wanted};
use towpath::{Task, TaskId};

const HOSTS: usize = 2;

/// Runs `member` in `count` tasks, by turns on either host, each with all ids.
pub(crate) fn together<T: Send>(
    vm: &Vm,
    count: usize,
    member: impl Fn(&mut Task, &[TaskId]) -> T + Sync,
) -> Vec<T> {
    let tasks: Vec<Task> = (0..count).map(|n| vm.task(1 + n % HOSTS)).collect();
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    std::thread::scope(|scope| {
        let run = |mut task: Task| {
            let (member, ids) = (&member, &ids);
            scope.spawn(move || member(&mut task, ids))
        };
        let threads: Vec<_> = tasks.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn doubles(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn sum() -> Operator {
    Operator::built_in(Function::Sum, Element::F64).unwrap()
}

/// The first byte of each element is its rank, so that the order can be seen.
fn in_order(task: &mut Task, team: &mut Team) -> Vec<u8> {
    let append = |left: &mut [u8], right: &[u8]| {
        for (left, right) in left.chunks_mut(8).zip(right.chunks(8)) {
            let used = left.iter().position(|b| *b == 0).unwrap();
            let more = right.iter().position(|b| *b == 0).unwrap();
            left[used..used + more].copy_from_slice(&right[..more]);
        }
    };
    let operator = Operator::user(8, Commutes::No, append).unwrap();
    let own = [team.rank() as u8 + 1, 0, 0, 0, 0, 0, 0, 0];
    team.scan(task, own.to_vec(), operator).unwrap()
}

fn everything(task: &mut Task, team: &mut Team) {
    let (rank, size) = (team.rank(), team.size());
    let own = vec![rank as u8; 3 + rank as usize];
    team.barrier(task).unwrap();
    for (root, len) in [(0, 10), (size - 1, 300_000)] {
        let data = pattern(7, len);
        let got = team.broadcast(task, root, (rank == root).then(|| data.clone()));
        assert!(got.unwrap() == data, "broadcast of {len} bytes from {root}");
    }
    let total = f64::from(size * (size - 1) / 2);
    let vector = doubles(&[f64::from(rank), 1.0]);
    let reduced = team.reduce(task, 1, vector.clone(), sum()).unwrap();
    assert_eq!(reduced, (rank == 1).then(|| doubles(&[total, f64::from(size)])));
    let all = team.all_reduce(task, vector, sum()).unwrap();
    assert_eq!(all, doubles(&[total, f64::from(size)]));
    let parts = |n: u32| (0..n).map(|r| vec![r as u8; 3 + r as usize]).collect::<Vec<_>>();
    let gathered = team.gather(task, 2, own.clone(), Lengths::Any).unwrap();
    assert_eq!(gathered, (rank == 2).then(|| parts(size)));
    assert_eq!(team.all_gather(task, own.clone(), Lengths::Any).unwrap(), parts(size));
    let mine = team.scatter(task, 0, (rank == 0).then(|| parts(size))).unwrap();
    assert_eq!(mine, own);
    let to_each = (0..size).map(|to| vec![rank as u8, to as u8]).collect();
    let from_each = team.all_to_all(task, to_each, Lengths::Equal).unwrap();
    let expected: Vec<Vec<u8>> = (0..size).map(|from| vec![from as u8, rank as u8]).collect();
    assert_eq!(from_each, expected);
    let ranks: Vec<u8> = (1..=rank as u8 + 1).collect();
    assert_eq!(in_order(task, team)[..ranks.len()], ranks);
    let below = team.exclusive_scan(task, doubles(&[f64::from(rank)]), sum()).unwrap();
    let expected = f64::from(rank * rank.saturating_sub(1) / 2);
    assert_eq!(below, (rank > 0).then(|| doubles(&[expected])));
}

#[test]
fn everything_together_on_two_hosts() {
    let vm = Vm::up(HOSTS);
    let ranks = together(&vm, 5, |task, ids| {
        let mut team = task.team_of(ids).unwrap();
        everything(task, &mut team);
        // A second team of the same tasks does not meet the first one.
        let mut again = task.team_of(ids).unwrap();
        everything(task, &mut again);
        team.rank()
    });
    assert_eq!(ranks, [0, 1, 2, 3, 4]);
}

#[test]
fn a_group_becomes_a_team() {
    let vm = Vm::up(HOSTS);
    let mut ranks = together(&vm, 4, |task, _| {
        let mut team = task.team("workers", 4).unwrap();
        everything(task, &mut team);
        assert_eq!(team.members()[team.rank() as usize], task.id());
        team.rank()
    });
    ranks.sort_unstable();
    assert_eq!(ranks, [0, 1, 2, 3]);
}

#[test]
fn who_waits_for_a_member_that_ended_is_told() {
    let vm = Vm::up(HOSTS);
    let first = Mutex::new(Vec::new());
    let failed = together(&vm, 4, |task, ids| {
        let mut team = task.team_of(ids).unwrap();
        team.barrier(task).unwrap();
        first.lock().unwrap().push(task.id());
        if team.rank() == 3 {
            // It ends as its handle goes, with nothing said.
            return true;
        }
        matches!(team.barrier(task), Err(TeamError::Collective(_)))
    });
    assert_eq!(failed, [true; 4]);
    assert_eq!(first.into_inner().unwrap().len(), 4);
}

#[test]
fn a_broadcast_on_one_host_is_one_multicast() {
    let vm = Vm::up(1);
    let tasks: Vec<Task> = (0..12).map(|_| vm.task(1)).collect();
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    let multicasts: Vec<u64> = std::thread::scope(|scope| {
        let run = |mut task: Task| {
            let ids = &ids;
            scope.spawn(move || {
                let mut team = task.team_of(ids).unwrap();
                let data = (team.rank() == 0).then(|| pattern(1, 5000));
                assert!(team.broadcast(&mut task, 0, data).unwrap() == pattern(1, 5000));
                let counters = task.counters();
                counters.iter().find(|(name, _)| *name == "multicasts").unwrap().1
            })
        };
        let threads: Vec<_> = tasks.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!((multicasts[0], multicasts[1..].iter().sum()), (1, 0_u64));
}

#[test]
fn teams_that_cannot_be_are_refused() {
    let vm = Vm::up(1);
    let (mut a, b) = (vm.task(1), vm.task(1));
    let twice = [a.id(), b.id(), a.id()];
    assert!(a.team_of(&twice).is_err() && a.team_of(&[]).is_err());
    assert!(a.team_of(&[b.id()]).is_err(), "oneself is not among them");
}

#[test]
fn loans_arrive_whole_on_every_route() {
    let vm = Vm::up(HOSTS);
    let (mut a, mut b, mut far) = (vm.task(1), vm.task(1), vm.task(2));
    for (n, len) in (0_i32..).zip([0, 1, 4096, 4097, 100_000, 3 << 20]) {
        let data = pattern(n.cast_unsigned().into(), len);
        for to in [b.id(), far.id()] {
            let mut loan = a.loan(len).unwrap();
            loan.copy_from_slice(&data);
            // The receiver takes it in while the sender waits for room.
            let receiver = if to == b.id() { &mut b } else { &mut far };
            std::thread::scope(|scope| {
                let sending = scope.spawn(|| a.send_loan(to, Envelope::tag(n), loan));
                let wanted = Wanted { source: None, tag: Some(n.into()), context: 0 };
                let got = receiver.recv_timeout(&wanted, LONG).unwrap().expect("it comes");
                assert!(got.bytes() == data, "a loan of {len} bytes");
                sending.join().unwrap().unwrap();
            });
        }
    }
    drop(b);
    let loan = a.loan(10).unwrap();
    drop(loan);
}
