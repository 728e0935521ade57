//! Barriers of tasks of one host, which need no messages after the first.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use towpath_io::shared::EPOCHS;
use towpath_vm::collective::{CollectiveError, Operation, Output};
use towpath_wire::TaskId;

use super::actors::enrol;
use super::stage::{Side, Stage, ring};
use crate::meeting::PRACTICE;
use crate::task::Task;
use crate::team::{Team, TeamError};

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
fn barriers_that_were_started_go_on_beside_those_by_words() {
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
    assert_eq!(ended, [(0, ROUNDS + 1 - u64::from(PRACTICE)); MEMBERS]);
}

#[test]
fn who_waits_by_words_for_one_that_sends_messages_is_told() {
    let ended = each(|task, team| {
        for _ in 0..PRACTICE {
            team.barrier(task).unwrap();
        }
        if team.rank() == 2 {
            let started = team.start(task, Operation::Barrier).unwrap();
            team.finish(task, started).map(drop)
        } else {
            team.barrier(task)
        }
    });
    for met in ended {
        let Err(TeamError::Collective(e)) = met else { panic!("{met:?}") };
        assert!(matches!(e, CollectiveError::Operation { .. }), "{e}");
    }
}
