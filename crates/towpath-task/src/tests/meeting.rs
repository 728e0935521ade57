//! Barriers of tasks of one host, which need no messages after the first.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use towpath_vm::talk::{ToDaemon, ToTask, WatchEvent};
use towpath_wire::TaskId;

use super::actors::enrol;
use super::stage::{Heard, Stage, ring};
use crate::meeting::PRACTICE;
use crate::task::Task;
use crate::team::TeamError;

const MEMBERS: usize = 5;
const ROUNDS: u64 = 60;

#[test]
fn nobody_goes_on_before_all_are_there_in_whatever_team() {
    let mut stage = Stage::new();
    let (mut tasks, mut sides): (Vec<_>, Vec<_>) =
        (0..MEMBERS).map(|_| enrol(&mut stage, 1)).unzip();
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
fn nothing_is_kept_of_members_that_have_ended() {
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let host = towpath_wire::HostId::new(2, 1).unwrap();
    for n in 1..=50 {
        let peer = host.task(n).unwrap();
        let mut first = task.team_of(&[task.id(), peer]).unwrap();
        let mut second = task.team_of(&[peer, task.id()]).unwrap();
        let Heard::Control(ToDaemon::Watch { watch, .. }) = side.hear() else { panic!("no watch") };
        let event = WatchEvent::TaskEnded { task: peer, ending: None };
        side.say(&ToTask::Notice { watch, event });
        for team in [&mut first, &mut second] {
            let lost = team.barrier(&mut task);
            assert!(matches!(lost, Err(TeamError::Collective(_))), "{lost:?}");
        }
        assert_eq!(task.ends.kept(), 0);
        while side.heard().is_some() {}
    }
}
