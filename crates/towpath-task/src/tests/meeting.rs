//! Barriers of tasks of one host, which need no messages after the first.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use towpath_vm::collective::{CollectiveError, Operation, Output};
use towpath_wire::TaskId;

use super::actors::enrol;
use super::stage::{Side, Stage, ring};
use crate::meeting::PRACTICE;
use crate::task::Task;
use crate::team::TeamError;

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
    std::thread::scope(|scope| {
        let (ids, came) = (&ids, &came);
        for mut task in tasks {
            scope.spawn(move || {
                let mut teams = [(); 2].map(|()| task.team_of(ids).unwrap());
                for round in 1..=ROUNDS {
                    for (team, came) in teams.iter_mut().zip(came) {
                        came.fetch_add(1, SeqCst);
                        team.barrier(&mut task).unwrap();
                        assert!(came.load(SeqCst) >= round * MEMBERS as u64, "round {round}");
                    }
                    let words = teams.iter().filter(|team| team.meets_by_words()).count();
                    assert_eq!(words == 2, round >= u64::from(PRACTICE), "round {round}");
                }
                let [one, other] = teams;
                drop((one, other));
                // Their words are free again.
                let mut team = task.team_of(ids).unwrap();
                for _ in 0..2 * PRACTICE {
                    team.barrier(&mut task).unwrap();
                }
                assert!(team.meets_by_words());
            });
        }
    });
}

#[test]
fn barriers_that_were_started_go_on_beside_those_by_words() {
    let mut stage = Stage::new();
    let (tasks, _sides) = neighbours(&mut stage);
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    let came = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (ids, came) = (&ids, &came);
        for mut task in tasks {
            scope.spawn(move || {
                let mut team = task.team_of(ids).unwrap();
                for round in 1..=ROUNDS {
                    came.fetch_add(1, SeqCst);
                    let started = team.start(&mut task, Operation::Barrier).unwrap();
                    team.barrier(&mut task).unwrap();
                    assert_eq!(team.finish(&mut task, started).unwrap(), Output::None);
                    assert!(came.load(SeqCst) >= round * MEMBERS as u64, "round {round}");
                    assert_eq!(team.meets_by_words(), round >= u64::from(PRACTICE));
                }
            });
        }
    });
}

#[test]
fn who_waits_by_words_for_one_that_sends_messages_is_told() {
    let mut stage = Stage::new();
    let (tasks, _sides) = neighbours(&mut stage);
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    std::thread::scope(|scope| {
        let ids = &ids;
        for mut task in tasks {
            scope.spawn(move || {
                let mut team = task.team_of(ids).unwrap();
                for _ in 0..PRACTICE {
                    team.barrier(&mut task).unwrap();
                }
                let met = if team.rank() == 2 {
                    let started = team.start(&mut task, Operation::Barrier).unwrap();
                    team.finish(&mut task, started).map(drop)
                } else {
                    team.barrier(&mut task)
                };
                let Err(TeamError::Collective(e)) = met else { panic!("{met:?}") };
                assert!(matches!(e, CollectiveError::Operation { .. }), "{e}");
            });
        }
    });
}
