//! What a task has not sent yet: taken on by its other calls, and left to the daemons at the end.

use std::time::Duration;

use towpath_vm::Ending;
use towpath_vm::collective::{Element, Function, Lengths, Operation, Operator};
use towpath_vm::talk::{ToDaemon, ToTask, WatchEvent};
use towpath_wire::talk::Header;
use towpath_wire::{HostId, TaskId};

use super::actors::{ANY, enrol, header, sent, with_ring};
use super::stage::{Heard, LONG, Stage};
use super::streams::Peer;
use crate::task::Task;

/// Fills the ring from one task to the other: how many messages that takes.
fn fill(a: &mut Task, to: TaskId) -> usize {
    let mut count = 0;
    while a.try_send(to, 1, b"").unwrap() {
        count += 1;
    }
    count
}

/// Receives so many.
fn take(b: &mut Task, count: usize) {
    (0..count).for_each(|_| assert_eq!(b.recv(&ANY).unwrap().tag(), 1));
}

#[test]
fn calls_that_never_wait_go_on_sending() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let to = b.id();
    let count = fill(&mut a, to);
    drop(a.start_send_bytes(to, 7, b"queued").unwrap());
    assert!(a.recv_at_hand(&ANY).unwrap().is_none() && a.started.has_queued());
    take(&mut b, count);
    b.poll().unwrap();
    assert!(a.recv_at_hand(&ANY).unwrap().is_none());
    assert!(!a.started.has_queued());
    assert_eq!(b.recv_timeout(&ANY, LONG).unwrap().map(|message| message.tag()), Some(7));
}

#[test]
fn that_a_send_is_over_ends_a_wait() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let to = b.id();
    let count = fill(&mut a, to);
    drop(a.start_send_bytes(to, 7, b"queued").unwrap());
    assert!(!a.wait(Some(Duration::ZERO)).unwrap());
    take(&mut b, count);
    b.poll().unwrap();
    assert!(a.wait(Some(LONG)).unwrap());
    assert!(!a.wait(Some(Duration::ZERO)).unwrap(), "once");
}

#[test]
fn a_send_that_was_tried_in_vain_may_still_be_taken_back() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let to = b.id();
    let count = fill(&mut a, to);
    let queued = a.start_send_bytes(to, 7, b"queued").unwrap();
    for _ in 0..3 {
        a.poll().unwrap();
    }
    assert!(a.cancel_send(queued).unwrap(), "nothing of it has left");
    take(&mut b, count);
    b.poll().unwrap();
    a.poll().unwrap();
    assert!(b.try_recv(&ANY).unwrap().is_none());
}

#[test]
fn what_is_queued_goes_by_the_daemons_when_its_task_leaves() {
    for is_dropped in [false, true] {
        let (mut a, mut a_side, b, _b_side) = with_ring();
        let to = b.id();
        let count = fill(&mut a, to) as u32;
        for text in [&b"first"[..], b"second"] {
            drop(a.start_send_bytes(to, 7, text).unwrap());
        }
        if is_dropped {
            drop(a);
        } else {
            a.leave().unwrap();
        }
        let left = [(count, 7, b"first".to_vec()), (count + 1, 7, b"second".to_vec())];
        assert_eq!(sent(&mut a_side, to), left);
    }
}

#[test]
fn what_is_queued_for_a_task_that_has_ended_goes_nowhere() {
    let (mut a, mut a_side, b, _b_side) = with_ring();
    let to = b.id();
    fill(&mut a, to);
    drop(a.start_send_bytes(to, 7, b"queued").unwrap());
    a.endpoint.gone(to);
    a.leave().unwrap();
    assert_eq!(sent(&mut a_side, to), []);
}

/// How long news of the ends of streams' peers are held back, as of each peer that is told of.
fn patience(task: &mut Task, ends: &[(TaskId, Option<Ending>)]) -> Vec<Duration> {
    let tell = |(watch, (peer, ending)): (usize, &(TaskId, Option<Ending>))| {
        let event = WatchEvent::TaskEnded { task: *peer, ending: ending.clone() };
        let news = ToTask::Notice { watch: watch as u64, event };
        assert!(task.park(*peer, news).is_none(), "its stream may bring something");
        task.routes.parked.last().unwrap().patience
    };
    ends.iter().enumerate().map(tell).collect()
}

#[test]
fn last_words_are_waited_for_less_long_where_the_host_is_lost() {
    let (last, lost) = (Duration::from_secs(2), Duration::from_millis(150));
    for (first, expected) in [
        (None, [last, last, last, last]),
        (Some(Ending::Exited(0)), [last, last, last, last]),
        // All of that host, and of no other.
        (Some(Ending::HostLost), [lost, last, lost, last]),
    ] {
        let mut stage = Stage::new();
        let (mut task, mut side) = enrol(&mut stage, 1);
        let places = [(2, 1), (3, 1), (2, 2), (3, 2)];
        let peers = places.map(|(host, n)| Peer::on(host, n).joined(&mut task, &mut side));
        let mut ends = peers.each_ref().map(|peer| (peer.id, None));
        ends[0].1 = first;
        assert_eq!(patience(&mut task, &ends), expected);
        // Of one that has no stream it is told at once.
        let event = WatchEvent::TaskEnded { task: Peer::new(9).id, ending: None };
        assert!(task.park(Peer::new(9).id, ToTask::Notice { watch: 9, event }).is_some());
    }
}

#[test]
fn what_comes_late_of_operations_of_a_broken_team_is_dropped() {
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let peer = HostId::new(2, 1).unwrap().task(1).unwrap();
    let mut team = task.team_of(&[task.id(), peer]).unwrap();
    let Heard::Control(ToDaemon::Watch { watch, .. }) = side.hear() else { panic!("no watch") };
    side.say(&ToTask::Notice { watch, event: WatchEvent::TaskEnded { task: peer, ending: None } });
    for _ in 0..2 {
        team.barrier(&mut task).unwrap_err();
    }
    let context = team.peers.context;
    // The next has number 2.
    for (seq, tag) in [(0, 0), (1, 1), (2, 2), (3, 3)] {
        side.piece(&Header { context, ..header(peer, task.id(), tag, seq, 1) }, b"x");
    }
    side.piece(&header(peer, task.id(), 0, 4, 1), b"y");
    while task.came() < 5 {
        task.poll().unwrap();
    }
    team.barrier(&mut task).unwrap_err();
    let waiting = task.endpoint.store().iter();
    let tags: Vec<(u32, i64)> = waiting.map(|(_, w)| (w.key.context, w.key.tag)).collect();
    let kept = [(context, 2), (context, 3), (0, 0)];
    assert_eq!(tags, kept, "later ones, and what is not the team's");
}

#[test]
fn an_operation_that_cannot_begin_ends_all_that_are_under_way() {
    let (mut task, _side) = enrol(&mut Stage::new(), 1);
    let peer = HostId::new(2, 1).unwrap().task(1).unwrap();
    let mut team = task.team_of(&[peer, task.id()]).unwrap();
    let broadcast = || Operation::Broadcast { root: 0, data: None };
    let open = [(); 2].map(|()| team.start(&mut task, broadcast()).unwrap());
    for pending in &open {
        assert!(!team.test(&mut task, pending).unwrap());
    }
    let sum = Operator::built_in(Function::Sum, Element::U64).unwrap();
    team.all_reduce(&mut task, vec![1; 7], sum).unwrap_err();
    for pending in open {
        assert!(team.test(&mut task, &pending).unwrap(), "it has failed, too");
        team.finish(&mut task, pending).unwrap_err();
    }
    assert!(team.gather(&mut task, 0, vec![1], Lengths::Any).is_err(), "and so do later ones");
}
