//! What a task keeps of members of its teams.

use std::sync::mpsc::channel;
use std::time::Duration;

use towpath_vm::collective::{
    Collective, CollectiveError, Element, Function, NOTICE, Operation, Operator, Standing, Step,
    Team as Layout,
};
use towpath_vm::talk::{ToDaemon, ToTask, WatchEvent};
use towpath_wire::talk::Header;
use towpath_wire::{HostId, TaskId};

use super::actors::{enrol, header};
use super::stage::{Heard, LONG, Side, Stage};
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
