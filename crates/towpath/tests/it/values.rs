//! Values instead of bytes: what teams do with arrays, parts of teams, jobs, calls, pools and
//! pipes, through real daemons on two hosts.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::Vm;
use crate::teams::together;
use towpath::task::collective::Function;
use towpath::task::topology::hypercube;
use towpath::task::{CallError, Grid, Job, PipeError, PipeIn, PipeOut, Pool, TeamError};
use towpath::{Task, TaskId};

/// Bit by bit.
fn same(a: &[f64], b: &[f64]) {
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(a), bits(b), "{a:?} is not {b:?}");
}

fn all_collectives(task: &mut Task, ids: &[TaskId]) {
    let mut team = task.team_of(ids).unwrap();
    let (rank, size) = (team.rank(), team.size());
    let of = |rank: u32| [f64::from(rank), 1.0];
    let mut got = if rank == 1 { [7_i16, -1, 3] } else { [0; 3] };
    team.broadcast_slice(task, 1, &mut got).unwrap();
    assert_eq!(got, [7, -1, 3]);
    let total = [f64::from(size * (size - 1) / 2), f64::from(size)];
    let mut sum = of(rank);
    team.all_reduce_slice(task, &mut sum, Function::Sum).unwrap();
    same(&sum, &total);
    let mut sum = of(rank);
    team.reduce_slice(task, 2, &mut sum, Function::Sum).unwrap();
    same(&sum, &if rank == 2 { total } else { of(rank) });
    assert_eq!(team.all_reduce_value(task, rank, Function::Max).unwrap(), size - 1);
    let mut up_to = [u64::from(rank)];
    team.scan_slice(task, &mut up_to, Function::Sum).unwrap();
    assert_eq!(up_to, [u64::from(rank * (rank + 1) / 2)]);
    let mut below = [u64::from(rank)];
    let has = team.exclusive_scan_slice(task, &mut below, Function::Sum).unwrap();
    assert_eq!((has, below), (rank > 0, [u64::from(rank * rank.saturating_sub(1) / 2)]));
    let own = vec![rank; rank as usize];
    let each: Vec<Vec<u32>> = (0..size).map(|r| vec![r; r as usize]).collect();
    assert_eq!(team.gather_slice(task, 0, &own).unwrap(), (rank == 0).then(|| each.clone()));
    assert_eq!(team.all_gather_parts(task, &own).unwrap(), each);
    let mut all = vec![0.0; 2 * size as usize];
    team.all_gather_slice(task, &of(rank), &mut all).unwrap();
    assert!((0..size).all(|r| all[2 * r as usize..][..2] == of(r)));
    let mut part = [0.0; 2];
    team.scatter_slice(task, 3, (rank == 3).then_some(&all[..]), &mut part).unwrap();
    same(&part, &of(rank));
    let counts: Vec<usize> = (0..size as usize).collect();
    let flat: Vec<u32> = each.concat();
    let given = (rank == 1).then_some((&flat[..], &counts[..]));
    assert_eq!(team.scatter_counts(task, 1, given).unwrap(), own);
    to_each(task, &mut team);
}

fn to_each(task: &mut Task, team: &mut towpath::task::Team) {
    let (rank, size) = (team.rank(), team.size());
    let pairs: Vec<u32> = (0..size).map(|to| 100 * rank + to).collect();
    let mut from_each = vec![0; size as usize];
    team.all_to_all_slice(task, &pairs, &mut from_each).unwrap();
    assert!((0..size).all(|from| from_each[from as usize] == 100 * from + rank));
    // As many as the sender's rank plus the receiver's.
    let counts: Vec<usize> = (0..size).map(|to| (rank + to) as usize).collect();
    let values: Vec<u32> = (0..size).flat_map(|to| vec![to; (rank + to) as usize]).collect();
    let started = team.start_all_to_all(task, &values, &counts).unwrap();
    let sum = team.start_all_reduce(task, &[1_u64, 2], Function::Sum).unwrap();
    assert_eq!(team.finish_values(task, sum).unwrap(), [[u64::from(size), 2 * u64::from(size)]]);
    let got = team.finish_values(task, started).unwrap();
    assert!((0..size).all(|from| got[from as usize] == vec![rank; (from + rank) as usize]));
    assert_eq!(team.all_to_all_counts(task, &values, &counts).unwrap(), got);
    let short = team.all_to_all_counts(task, &values[1..], &counts).unwrap_err();
    assert!(matches!(short, TeamError::Content(_)), "{short}");
}

#[test]
fn arrays_are_broadcast_reduced_gathered_and_exchanged() {
    together(&Vm::up(2), 5, all_collectives);
}

#[test]
fn members_that_disagree_on_the_type_are_told() {
    let said = together(&Vm::up(2), 2, |task, ids| {
        let mut team = task.team_of(ids).unwrap();
        let told = if team.rank() == 0 {
            team.broadcast_slice(task, 0, &mut [1.0_f64; 4])
        } else {
            team.broadcast_slice(task, 0, &mut [1_u64; 4])
        };
        // Whoever only sends hears of it in what comes next.
        told.and_then(|()| team.barrier(task)).unwrap_err().to_string()
    });
    assert!(said.iter().any(|said| said.contains("of type 0x")), "{said:?}");
}

#[test]
fn parts_of_a_team_agree_on_who_is_in_them() {
    let teams = together(&Vm::up(2), 7, |task, ids| {
        let mut team = task.team_of(ids).unwrap();
        let rank = team.rank();
        // Three colours, the order turned round in one of them; and one that stays out.
        let colour = (rank != 6).then_some(rank % 3);
        let key = if rank % 3 == 1 { 10 - rank } else { 0 };
        let Some(mut part) = team.split(task, colour, key).unwrap() else {
            assert_eq!(rank, 6);
            team.barrier(task).unwrap();
            return (colour, Vec::new(), 0);
        };
        // It works, and apart from the others.
        let sum = part.all_reduce_value(task, rank, Function::Sum).unwrap();
        // Another of the same members is another team.
        let mut again = part.split(task, Some(0), 0).unwrap().unwrap();
        assert_eq!(again.members(), part.members());
        again.barrier(task).unwrap();
        team.barrier(task).unwrap();
        assert_eq!(part.member(part.rank()), task.id());
        (colour, part.members().iter().map(|m| place(ids, *m)).collect(), sum)
    });
    let [zero, one, two] = [vec![0, 3], vec![4, 1], vec![2, 5]];
    for (colour, members, sum) in teams {
        let expected = match colour {
            Some(0) => &zero,
            Some(1) => &one,
            Some(_) => &two,
            None => continue,
        };
        assert_eq!((&members, sum), (expected, expected.iter().sum()));
    }
}

fn place(ids: &[TaskId], task: TaskId) -> u32 {
    ids.iter().position(|id| *id == task).unwrap() as u32
}

#[test]
fn a_job_has_the_ranks_that_its_tasks_were_started_with() {
    together(&Vm::up(2), 4, |task, ids| {
        let rank = place(ids, task.id());
        let mut team = Job::meet(task, "a job", rank, 4).unwrap();
        assert_eq!(team.rank(), rank);
        // Neighbours on a ring of two by two, and on a square.
        let grid = Grid::balanced(team.size(), 2).round(0).round(1);
        let right = team.member(grid.neighbour(rank, 1, 1).unwrap());
        task.send_value(right, 1, rank).unwrap();
        let left = grid.neighbour(rank, 1, -1).unwrap();
        let wanted = towpath::Wanted::any().from(team.member(left)).tag(1);
        assert_eq!(task.recv_value::<u32>(&wanted).unwrap(), left);
        assert_eq!(hypercube(rank, 4).count(), 2);
        team.barrier(task).unwrap();
    });
}

#[test]
fn a_call_gets_its_own_answer_and_an_error_when_nobody_gives_one() {
    const SQUARE: i32 = 3;
    let vm = Vm::up(2);
    together(&vm, 3, |task, ids| {
        if task.id() == ids[0] {
            for _ in 0..20 {
                let question = task.next_question(Some(SQUARE), None).unwrap().unwrap();
                assert_eq!(question.service(), SQUARE);
                let values = question.values::<f64>().unwrap();
                let squares: Vec<f64> = values.iter().map(|x| x * x).collect();
                task.reply(question, &squares).unwrap();
            }
            return;
        }
        // Answers may come in another order than they are asked for.
        let asked: Vec<_> =
            (0..10).map(|n| task.start_call(ids[0], SQUARE, &[f64::from(n)]).unwrap()).collect();
        for (n, asked) in (0..10).zip(asked).rev() {
            let answer = task.finish_call::<f64>(asked).unwrap();
            assert_eq!(*answer, [f64::from(n * n)]);
        }
    });
    let (mut asks, dies) = (vm.task(1), vm.task(2));
    let asked = asks.start_call(dies.id(), 0, &[1_u8]).unwrap();
    let to = dies.id();
    dies.leave().unwrap();
    let why = asks.finish_call::<u8>(asked).unwrap_err();
    assert!(matches!(why, CallError::Ended(task) if task == to), "{why}");
}

#[test]
fn a_pool_does_every_item_once_whoever_is_slow() {
    const ITEMS: u64 = 3000;
    let done: Vec<AtomicU64> = (0..ITEMS).map(|_| AtomicU64::new(0)).collect();
    let stolen = together(&Vm::up(2), 4, |task, ids| {
        let mut team = task.team_of(ids).unwrap();
        let mut stolen = 0;
        for round in 0..2 {
            let mut pool = Pool::new(&team, ITEMS);
            while let Some(item) = pool.next(task, &mut team).unwrap() {
                done[item as usize].fetch_add(1, Ordering::Relaxed);
                // The first has much more to do for each.
                let work = if team.rank() == 0 { 2000 } else { 1 };
                std::hint::black_box((0..work * 20).fold(item, |a, b| a.rotate_left(5) ^ b));
            }
            stolen += pool.stolen();
            team.barrier(task).unwrap();
            assert!(done.iter().all(|n| n.load(Ordering::Relaxed) == round + 1));
            team.barrier(task).unwrap();
        }
        stolen
    });
    assert!(stolen.iter().sum::<u64>() > 0, "{stolen:?}");
}

#[test]
fn a_pipe_holds_its_beginning_up_and_ends_in_order() {
    let vm = Vm::up(2);
    together(&vm, 3, |task, ids| {
        let rank = place(ids, task.id()) as usize;
        if rank == 0 {
            let mut out = PipeIn::<u64>::new(ids[1], 5, 3);
            for number in 0..200 {
                out.put(task, &[number; 100]).unwrap();
            }
            return out.close(task).unwrap();
        }
        let mut input = PipeOut::<u64>::new(ids[rank - 1], 5);
        let mut out = (rank == 1).then(|| PipeIn::<u64>::new(ids[2], 5, 1));
        let mut expected = 0;
        while let Some(mut values) = input.take(task).unwrap() {
            assert!(values.iter().all(|v| *v == expected * rank as u64));
            values.iter_mut().for_each(|v| *v *= 2);
            if let Some(out) = &mut out {
                out.put(task, &values).unwrap();
            }
            expected += 1;
        }
        assert_eq!(expected, 200);
        assert!(input.take(task).unwrap().is_none(), "it stays over");
        if let Some(out) = out {
            out.close(task).unwrap();
        }
    });
    // Nobody takes anything out, and goes.
    let (mut puts, goes) = (vm.task(1), vm.task(2));
    let to = goes.id();
    let mut pipe = PipeIn::<u8>::new(to, 1, 2);
    (0..2).for_each(|_| pipe.put(&mut puts, &[1]).unwrap());
    goes.leave().unwrap();
    let why = pipe.put(&mut puts, &[1]).unwrap_err();
    assert!(matches!(why, PipeError::Ended(task) if task == to), "{why}");
}

#[test]
fn a_pipe_after_a_pipe_with_the_same_tag_is_another() {
    let vm = Vm::up(2);
    together(&vm, 2, |task, ids| {
        for count in [3, 20] {
            if place(ids, task.id()) == 0 {
                let mut out = PipeIn::<u64>::new(ids[1], 5, 3);
                // What the other end says of the last ones comes after this end was closed.
                (0..count).for_each(|number| out.put(task, &[number]).unwrap());
                out.close(task).unwrap();
                continue;
            }
            let mut input = PipeOut::<u64>::new(ids[0], 5);
            for expected in 0..count {
                assert_eq!(input.take(task).unwrap().unwrap()[0], expected);
            }
            assert!(input.take(task).unwrap().is_none());
        }
    });
}
