//! Barriers of tasks of one host, which need no messages after the first.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use towpath_io::shared::EPOCHS;
use towpath_vm::collective::{Element, Function, Lengths, Operation, Operator, Output, Payload};
use towpath_wire::TaskId;

use super::actors::enrol;
use super::stage::{LONG, Side, Stage, ring};
use crate::meeting::PRACTICE;
use crate::task::Task;
use crate::team::Team;

const MEMBERS: usize = 5;
const ROUNDS: u64 = 60;

/// Tasks of one host with a ring between each two, and their daemon's sides.
fn neighbours(stage: &mut Stage) -> (Vec<Task>, Vec<Side>) {
    let (mut tasks, mut sides): (Vec<_>, Vec<_>) = (0..MEMBERS).map(|_| enrol(stage, 1)).unzip();
    for b in 1..MEMBERS {
        let (before, rest) = sides.split_at_mut(b);
        for a in before {
            ring(a, &mut rest[0]);
        }
    }
    for _ in 0..2 {
        for task in &mut tasks {
            task.poll().unwrap();
        }
    }
    (tasks, sides)
}

#[test]
fn nobody_goes_on_before_all_are_there_in_whatever_team() {
    let mut stage = Stage::new();
    let (tasks, _sides) = neighbours(&mut stage);
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    let came = [AtomicU64::new(0), AtomicU64::new(0)];
    let ended: Vec<(u64, u64, usize)> = std::thread::scope(|scope| {
        let (ids, came) = (&ids, &came);
        let run = |task: Task| scope.spawn(move || member(task, ids, came));
        let threads: Vec<_> = tasks.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let expected = (0, ROUNDS + 1 - u64::from(PRACTICE), EPOCHS + 1);
    assert_eq!(ended, [expected; MEMBERS], "too early, rounds by words, teams by words");
}

/// How often a barrier ended too early, how many rounds of two teams needed no messages, and of
/// how many teams after them the last barrier needed none. (A member that panics would leave the
/// others waiting.)
fn member(mut task: Task, ids: &[TaskId], came: &[AtomicU64; 2]) -> (u64, u64, usize) {
    let (mut early, mut rounds, mut teams_after) = (0, 0, 0);
    let mut teams = [(); 2].map(|()| task.team_of(ids).unwrap());
    for round in 1..=ROUNDS {
        for (team, came) in teams.iter_mut().zip(came) {
            came.fetch_add(1, SeqCst);
            team.barrier(&mut task).unwrap();
            early += u64::from(came.load(SeqCst) < round * MEMBERS as u64);
        }
        rounds += u64::from(teams.iter().all(Team::meets_by_words));
    }
    drop(teams);
    // One more than there are words: each is free again after its team.
    for _ in 0..=EPOCHS {
        let mut team = task.team_of(ids).unwrap();
        for _ in 0..2 * PRACTICE {
            team.barrier(&mut task).unwrap();
        }
        teams_after += usize::from(team.meets_by_words());
    }
    (early, rounds, teams_after)
}

/// Runs `member` in tasks of one host; what they say.
fn each<T: Send>(member: impl Fn(&mut Task, &mut Team) -> T + Sync) -> Vec<T> {
    let mut stage = Stage::new();
    let (tasks, _sides) = neighbours(&mut stage);
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    std::thread::scope(|scope| {
        let (ids, member) = (&ids, &member);
        let run = |mut task: Task| {
            scope.spawn(move || {
                let mut team = task.team_of(ids).unwrap();
                member(&mut task, &mut team)
            })
        };
        let threads: Vec<_> = tasks.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn barriers_that_were_started_meet_by_words_too() {
    let came = AtomicU64::new(0);
    let ended = each(|task, team| {
        let (mut early, mut by_words) = (0, 0);
        for round in 1..=ROUNDS {
            came.fetch_add(1, SeqCst);
            let started = team.start(task, Operation::Barrier).unwrap();
            team.barrier(task).unwrap();
            early += u64::from(team.finish(task, started).unwrap() != Output::None);
            early += u64::from(came.load(SeqCst) < round * MEMBERS as u64);
            by_words += u64::from(team.meets_by_words());
        }
        (early, by_words)
    });
    assert_eq!(ended, [(0, ROUNDS - 1); MEMBERS], "the members agree in the second round");
}

/// The ten operations, as `rank` begins them in `round`, and what it must get.
fn all_ten(rank: u32, round: u64) -> Vec<(Operation, Output)> {
    let size = MEMBERS as u32;
    let root = (round % u64::from(size)) as u32;
    let word = |from: u32, to: u32| -> Payload {
        let word = round << 32 | u64::from(from) << 16 | u64::from(to);
        word.to_le_bytes().to_vec().into()
    };
    let sum = |ranks: std::ops::Range<u32>| -> Payload {
        let each = |from| round << 32 | u64::from(from) << 16;
        ranks.map(each).sum::<u64>().to_le_bytes().to_vec().into()
    };
    let (is_root, one) = (rank == root, Output::One);
    let at_root = |output: Output| if is_root { output } else { Output::None };
    let operator = || Operator::built_in(Function::Sum, Element::U64).unwrap();
    let (data, lengths) = (|| word(rank, 0), Lengths::Equal);
    let from_all = |to| Output::Many((0..size).map(|from| word(from, to)).collect());
    let to_all = |from| (0..size).map(|to| word(from, to)).collect::<Vec<_>>();
    let before = if rank == 0 { Output::None } else { one(sum(0..rank)) };
    vec![
        (Operation::Barrier, Output::None),
        (Operation::Broadcast { root, data: is_root.then(data) }, one(word(root, 0))),
        (
            Operation::Reduce { root, data: data(), operator: operator() },
            at_root(one(sum(0..size))),
        ),
        (Operation::AllReduce { data: data(), operator: operator() }, one(sum(0..size))),
        (Operation::Gather { root, data: data(), lengths }, at_root(from_all(0))),
        (Operation::AllGather { data: data(), lengths }, from_all(0)),
        (Operation::Scatter { root, parts: is_root.then(|| to_all(root)) }, one(word(root, rank))),
        (Operation::AllToAll { parts: to_all(rank), lengths }, from_all(rank)),
        (Operation::Scan { data: data(), operator: operator() }, one(sum(0..rank + 1))),
        (Operation::ExclusiveScan { data: data(), operator: operator() }, before),
    ]
}

#[test]
fn what_some_start_and_others_wait_for_comes_together() {
    let ended = each(|task, team| {
        let (rank, mut wrong, mut by_words) = (team.rank(), Vec::new(), 0);
        for round in 1..=ROUNDS {
            let mut open = Vec::new();
            for (at, (operation, expected)) in all_ten(rank, round).into_iter().enumerate() {
                // Each kind in turn is started by some, and waited for by the others.
                let starts = (u64::from(rank) + round + at as u64).is_multiple_of(2);
                if starts {
                    open.push((at, team.start(task, operation).unwrap(), expected));
                } else if team.perform(task, operation).unwrap() != expected {
                    wrong.push((round, at));
                }
            }
            by_words += u64::from(team.meets_by_words());
            for (at, started, expected) in open {
                if team.finish(task, started).unwrap() != expected {
                    wrong.push((round, at));
                }
            }
        }
        (wrong, by_words > 0)
    });
    assert_eq!(ended, vec![(Vec::new(), true); MEMBERS]);
}

#[test]
fn barriers_by_words_send_nothing() {
    let sent = each(|task, team| {
        for _ in 0..PRACTICE {
            team.barrier(task).unwrap();
        }
        let before = team.sent();
        assert!(team.meets_by_words() && before.messages > 0);
        for _ in 0..5 {
            team.barrier(task).unwrap();
        }
        (before, team.sent())
    });
    assert!(sent.iter().all(|(before, after)| before == after), "{sent:?}");
}

#[test]
fn a_task_that_waits_hears_of_a_barrier_by_words() {
    let ended = each(|task, team| {
        for _ in 0..PRACTICE {
            team.barrier(task).unwrap();
        }
        let mut pending = (0..3).map(|_| team.start(task, Operation::Barrier).unwrap());
        let [a, b, c] = [(); 3].map(|()| pending.next().unwrap());
        drop(pending);
        let mut woken = true;
        if team.rank() == 0 {
            team.barrier(task).unwrap();
        } else {
            let last = team.start(task, Operation::Barrier).unwrap();
            while !team.test(task, &last).unwrap() {
                woken &= task.wait(Some(LONG)).unwrap();
            }
            team.finish(task, last).unwrap();
        }
        let before = [c, a, b].map(|pending| {
            let is_over = team.test(task, &pending).unwrap();
            team.finish(task, pending).unwrap();
            is_over
        });
        (team.meets_by_words(), woken, before)
    });
    assert_eq!(ended, [(true, true, [true; 3]); MEMBERS]);
}

#[test]
fn a_team_that_finds_no_word_tries_again() {
    let mut stage = Stage::new();
    let (mut tasks, _sides) = neighbours(&mut stage);
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    // The last task's words are on offer elsewhere until it has tried once.
    let mut elsewhere = Some(tasks[MEMBERS - 1].offer_words(std::iter::empty()));
    let ended: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let ids = &ids;
        let run = |mut task: Task| {
            let elsewhere = if task.id() == ids[MEMBERS - 1] { elsewhere.take() } else { None };
            let mut elsewhere = elsewhere;
            scope.spawn(move || {
                let mut team = task.team_of(ids).unwrap();
                let mut by_words = Vec::new();
                for count in 1..=3 * u64::from(PRACTICE) {
                    let started = team.start(&mut task, Operation::Barrier).unwrap();
                    team.finish(&mut task, started).unwrap();
                    if team.meets_by_words() {
                        by_words.push(count);
                    }
                    if count == u64::from(PRACTICE) {
                        drop(elsewhere.take());
                    }
                }
                by_words
            })
        };
        let threads: Vec<_> = tasks.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ended, vec![vec![6, 7, 8, 9]; MEMBERS]);
}
