//! What a task keeps of members of its teams.

use std::sync::mpsc::channel;
use std::time::Duration;

use towpath_vm::collective::{
    Collective, CollectiveError, Element, Function, NOTICE, Operation, Operator, Standing, Step,
    Team as Layout,
};
use towpath_vm::talk::{
    Answer, Question, RegistryAnswer, RegistryOp, ToDaemon, ToTask, WatchEvent,
};
use towpath_wire::talk::{CONTEXT_OWN, Header};
use towpath_wire::{HostId, TaskId};

use super::actors::{all, crowd, enrol, header};
use super::stage::{Heard, LONG, Side, Stage};
use crate::job::Job;
use crate::meeting::PRACTICE;
use crate::task::Task;
use crate::team::settings;
use crate::team_error::TeamError;

#[test]
fn nothing_is_kept_of_members_that_have_ended() {
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let host = HostId::new(2, 1).unwrap();
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

/// Answers the questions of a task that joins a group, and waits until it is frozen.
fn group(side: &mut Side, members: &[Option<TaskId>], context: u32) {
    let mut ask = |answer| {
        loop {
            if let Heard::Control(ToDaemon::Ask { number, question }) = side.hear() {
                side.say(&ToTask::Answer { number, answer: Ok(Answer::Registry(answer)) });
                return question;
            }
        }
    };
    let joins = ask(RegistryAnswer::Instance(0));
    assert_eq!(joins, Question::Registry(RegistryOp::Join("solvers".into())));
    let members = members.to_vec();
    let freezes = ask(RegistryAnswer::Members { members, version: 1, context });
    let count = 2;
    assert_eq!(freezes, Question::Registry(RegistryOp::Freeze { group: "solvers".into(), count }));
}

#[test]
fn a_group_is_a_team_in_a_context_of_its_own_in_the_order_of_ranks() {
    for context in [5, 5 | CONTEXT_OWN] {
        let (mut tasks, mut sides) = crowd(2);
        let ids: Vec<_> = tasks.iter().map(Task::id).collect();
        let members = [Some(ids[0]), Some(ids[1])];
        std::thread::scope(|scope| {
            scope.spawn(|| sides.iter_mut().for_each(|side| group(side, &members, context)));
            all(&mut tasks, |n, task| {
                // The one that was instance 0 has the higher rank.
                let team = Job::meet(task, "solvers", 1 - n as u32, 2).unwrap();
                assert_eq!((team.rank(), team.members()), (1 - n as u32, &[ids[1], ids[0]][..]));
            });
        });
        std::thread::scope(|scope| {
            scope.spawn(|| group(&mut sides[0], &members, context));
            let team = tasks[0].team("solvers", 2).unwrap();
            assert_eq!((team.peers.context, team.size()), (5 | CONTEXT_OWN, 2));
        });
        std::thread::scope(|scope| {
            scope.spawn(|| group(&mut sides[0], &[members[0], None], context));
            let hole = tasks[0].team("solvers", 2).unwrap_err();
            assert!(matches!(hole, TeamError::Hole { instance: 1, size: 2 }), "{hole}");
        });
    }
}

#[test]
fn a_member_alone_meets_nobody() {
    let (mut task, _side) = enrol(&mut Stage::new(), 1);
    let mut team = task.team_of(&[task.id()]).unwrap();
    for _ in 0..4 * PRACTICE {
        team.barrier(&mut task).unwrap();
    }
    assert!(!team.meets_by_words());
}

/// More than goes out without having been asked for.
const LONG_BYTES: usize = 100_000;
/// Within this, what is heard is acted on, unless the machine is busy: then a test shows less.
const MOMENT: Duration = Duration::from_millis(30);

/// Member `from` tells that the team in `context` is broken from operation `first` on.
fn notice(side: &mut Side, from: TaskId, context: u32, first: u32) {
    let lost = CollectiveError::MemberLost { rank: 9 };
    let body = Standing::default().fail(first, lost).unwrap().parts[0].to_vec();
    let head = header(from, side.id, NOTICE, 0, body.len());
    side.piece(&Header { context, ..head }, &body);
}

/// Waits until the task has said that it lacks credit for `peer`.
fn blocked(side: &mut Side, peer: TaskId) {
    while !matches!(side.hear(), Heard::Control(ToDaemon::Blocked { peer: p, .. }) if p == peer) {}
}

#[test]
fn a_send_that_a_notice_ends_in_its_midst_is_seen_through_for_those_who_need_it() {
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let [fails, lives] = [8, 9].map(|n| HostId::new(1, 1).unwrap().task(n).unwrap());
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        let task = &mut task;
        scope.spawn(move || {
            let mut team = task.team_of(&[task.id(), fails, lives]).unwrap();
            tell.send(team.peers.context).unwrap();
            // It makes no other call, since there was no error.
            team.broadcast(task, 0, Some(vec![7; LONG_BYTES])).unwrap();
            tell.send(0).unwrap();
        });
        let context = told.recv().unwrap();
        blocked(&mut side, lives);
        notice(&mut side, fails, context, 1);
        assert!(told.recv_timeout(MOMENT).is_err(), "the rest is still here");
        side.say(&ToTask::Credit { peer: lives, limit: 1 << 30 });
    });
    assert!(!task.is_behind(lives) && task.is_behind(fails), "who fails needs nothing");
}

#[test]
fn what_is_heard_in_a_send_ends_later_operations_that_are_under_way() {
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let [root, fails, leaf] = [2, 3, 4].map(|slot| HostId::new(slot, 1).unwrap().task(1).unwrap());
    let reduce = || {
        let sum = Operator::built_in(Function::Sum, Element::U8).unwrap();
        Operation::Reduce { root: 0, data: vec![1; 8].into(), operator: sum }
    };
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        let task = &mut task;
        let waiting = scope.spawn(move || {
            let mut team = task.team_of(&[root, fails, task.id(), leaf]).unwrap();
            tell.send(team.peers.context).unwrap();
            let up = team.start(task, reduce()).unwrap();
            let down = Operation::Broadcast { root: 0, data: None };
            let down = team.start(task, down).unwrap();
            let is_over = team.wait(task, &down, LONG).unwrap();
            tell.send(0).unwrap();
            (is_over, team.finish(task, up), team.finish(task, down))
        });
        let context = told.recv().unwrap();
        // What comes from below, which this task adds its own to and sends up.
        let layout = Layout::new(3, &[2, 3, 1, 4], settings(false)).unwrap();
        let mut below = Collective::new(&layout, reduce()).unwrap();
        let Some(Step::Send { to: 2, message }) = below.poll_send() else { panic!("a new tree") };
        let bytes = message.parts.iter().map(|part| &part[..]).collect::<Vec<_>>().concat();
        let head = header(leaf, side.id, 0, 0, bytes.len());
        side.say(&ToTask::AskFirst { host: root.host(), on: true });
        side.piece(&Header { context, format: message.format, ..head }, &bytes);
        blocked(&mut side, root);
        notice(&mut side, fails, context, 1);
        assert!(told.recv_timeout(MOMENT).is_err(), "its part in the first is still here");
        side.say(&ToTask::Credit { peer: root, limit: 1 << 30 });
        let (is_over, up, down) = waiting.join().unwrap();
        assert!(is_over, "nobody ends it");
        assert!(up.is_ok() && down.is_err(), "its part in the first was sent");
    });
}
