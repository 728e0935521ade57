//! Tasks that tasks spawn: where they go, who hears of whom, whose their output is.

use alloc::vec::Vec;

use towpath_vm::talk::{Answer, Fault, Place, Question, SpawnTasks, ToDaemon, ToTask};
use towpath_vm::{Action, Ending, RequestEvent, Stream};
use towpath_wire::TaskId;

use super::net::{Net, program};
use crate::NodeEvent;

fn spawn(count: u32, place: Place) -> SpawnTasks {
    SpawnTasks { program: b"child".to_vec(), count, place, context: 9, ..SpawnTasks::default() }
}

fn asks(net: &mut Net, host: usize, task: TaskId, number: u64, spawn: SpawnTasks) {
    net.says(host, task, ToDaemon::Ask { number, question: Question::Spawn(spawn) });
    net.run(50);
}

fn spawned(told: &[ToTask]) -> Option<&Vec<Result<TaskId, Fault>>> {
    told.iter().find_map(|say| match say {
        ToTask::Answer { answer: Ok(Answer::Spawned(results)), .. } => Some(results),
        _ => None,
    })
}

/// A task of a job of host 0 that runs on `on`.
fn job(net: &mut Net, on: usize) -> (towpath_vm::RequestId, TaskId) {
    let host = net.id(on);
    let request = net.spawn(0, host, program(&[]));
    net.run(50);
    let claim = net.started(on);
    net.enrol_by(on, Some(claim)).expect("it enrols");
    net.run(50);
    net.told(on, claim.task);
    net.news(0, request);
    (request, claim.task)
}

#[test]
fn tasks_spawned_together_hear_of_each_other_and_of_their_parent() {
    let mut net = Net::new(3);
    let (_, parent) = job(&mut net, 1);
    for host in 0..3 {
        net.events(host);
    }
    asks(&mut net, 1, parent, 1, spawn(4, Place::Any));
    let mut children = Vec::new();
    for host in 0..3 {
        for claim in net.starts(host) {
            net.call(host, |n, now, m| n.task_started(now, claim.task, 80, m));
            children.push((host, claim));
        }
    }
    let counts: Vec<usize> =
        (0..3).map(|h| children.iter().filter(|(host, _)| *host == h).count()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 4);
    assert!(counts.iter().all(|n| (1..=2).contains(n)), "{counts:?}");
    assert_eq!(counts[1], 1, "the parent is there already");
    net.run(50);
    let told = net.told(1, parent);
    let results = spawned(&told).expect("it is answered").clone();
    let tasks: Vec<TaskId> = results.into_iter().map(|r| r.expect("each runs")).collect();
    let mut known: Vec<TaskId> = children.iter().map(|(_, c)| c.task).collect();
    known.sort();
    let mut sorted = tasks.clone();
    sorted.sort();
    assert_eq!(sorted, known);
    for (host, claim) in &children {
        net.enrol_by(*host, Some(*claim)).expect("it enrols");
        let told = net.told(*host, claim.task);
        let [ToTask::Welcome(welcome)] = &told[..] else { panic!("{told:?}") };
        assert_eq!((welcome.you, welcome.parent), (claim.task, Some(parent)));
        assert_eq!((&welcome.siblings, welcome.context), (&tasks, 9));
        // A claim is good once: another process of it is a task of its own.
        let other = net.enrol_by(*host, Some(*claim)).expect("it enrols");
        assert_ne!(other, claim.task);
        net.left(*host, other);
    }
    // The owner of the job hears of each.
    let adopted: Vec<_> = net
        .events(0)
        .into_iter()
        .filter_map(|e| match e {
            NodeEvent::Adopted { parent, host, program, .. } => Some((parent, host, program)),
            _ => None,
        })
        .collect();
    assert_eq!(adopted.len(), 4);
    assert!(adopted.iter().all(|(parent, _, p)| parent.is_some() && p == b"child"));
    assert_eq!(
        adopted.iter().map(|a| a.1).collect::<Vec<_>>(),
        tasks.iter().map(|t| t.host()).collect::<Vec<_>>()
    );
    // In turn: the next ones begin behind the last.
    let info = net.ask(1, parent, Question::Task(tasks[0]));
    assert!(matches!(&info, Ok(Answer::Tasks(t)) if t[0].parent == Some(parent) && t[0].enrolled));
}

#[test]
fn tasks_go_where_they_are_to_and_nowhere_else() {
    let mut net = Net::new(3);
    let (two, three) = (net.id(1), net.id(2));
    let (_, parent) = job(&mut net, 1);
    let mut number = 10;
    let mut place = |net: &mut Net, place| -> Vec<usize> {
        number += 1;
        asks(net, 1, parent, number, spawn(2, place));
        let mut at = Vec::new();
        for host in 0..3 {
            for claim in net.starts(host) {
                at.push(host);
                let ending = Ending::NotStarted { errno: 2, text: "no such file".into() };
                net.call(host, |n, now, m| n.task_exited(now, claim.task, ending, m));
            }
        }
        net.run(50);
        let told = net.told(1, parent);
        let results = spawned(&told).expect("it is answered");
        let none = |r: &Result<TaskId, Fault>| {
            matches!(r, Err(Fault::NoHost))
                || matches!(r, Err(Fault::NotStarted { errno: 2, text }) if text == "no such file")
        };
        assert!(results.len() == 2 && results.iter().all(none), "{results:?}");
        at
    };
    assert_eq!(place(&mut net, Place::Host(three)), [2, 2]);
    assert_eq!(place(&mut net, Place::Name("h1".into())), [1, 1]);
    assert_eq!(place(&mut net, Place::Name("nobody".into())), [] as [usize; 0]);
    assert_eq!(place(&mut net, Place::Arch("other".into())), [] as [usize; 0]);
    let not = place(&mut net, Place::Not(two));
    assert!(not.len() == 2 && !not.contains(&1), "{not:?}");
    assert_eq!(place(&mut net, Place::Arch("any".into())).len(), 2);
}

#[test]
fn a_task_nobody_started_spawns_for_its_own_host_and_orphans_have_no_parent() {
    let mut net = Net::new(2);
    let two = net.id(1);
    let a = net.enrol(0);
    let spawn = SpawnTasks { orphan: true, ..spawn(1, Place::Host(two)) };
    asks(&mut net, 0, a, 1, spawn);
    let claim = net.started(1);
    net.enrol_by(1, Some(claim)).expect("it enrols");
    net.run(50);
    let told = net.told(1, claim.task);
    let welcome = |say: &ToTask| match say {
        ToTask::Welcome(w) => Some((w.parent, w.siblings.clone())),
        _ => None,
    };
    assert_eq!(told.iter().filter_map(welcome).collect::<Vec<_>>(), [(None, [claim.task].into())]);
    assert_eq!(spawned(&net.told(0, a)), Some(&[Ok(claim.task)].into()));
    let adopted = |e: &NodeEvent| matches!(e, NodeEvent::Adopted { parent: None, .. });
    assert!(net.events(0).iter().any(adopted));
    // It is part of nobody's job: it goes on when its requester is lost.
    net.crash(0);
    net.run(9_000);
    let term = |e: &NodeEvent| matches!(e, NodeEvent::Action(Action::Signal { .. }));
    assert!(!net.events(1).iter().any(term));
}

#[test]
fn output_of_tasks_goes_to_the_one_that_catches_it_and_no_faster_than_it_reads() {
    let mut net = Net::new(3);
    let (request, parent) = job(&mut net, 1);
    let three = net.id(2);
    net.says(1, parent, ToDaemon::CatchOutput(true));
    asks(&mut net, 1, parent, 1, spawn(1, Place::Host(three)));
    let claim = net.started(2);
    net.run(50);
    net.told(1, parent);
    let window = 32 << 10;
    let text = alloc::vec![b'x'; 1000];
    for _ in 0..window / 1000 {
        let bytes = text.clone();
        net.call(2, |n, now, m| n.task_output(now, claim.task, Stream::Out, bytes, m));
    }
    net.run(50);
    let told = net.told(1, parent);
    assert_eq!(told.len(), 32);
    let caught = ToTask::Output { task: claim.task, stream: Stream::Out, bytes: text.clone() };
    assert!(told.iter().all(|say| *say == caught), "{:?}", told.first());
    net.events(2);
    net.says(1, parent, ToDaemon::OutputCredit(10_000));
    net.run(50);
    let given = |net: &mut Net, of: TaskId| -> u32 {
        let credit = |e| match e {
            NodeEvent::Action(Action::Credit { task, bytes }) if task == of => Some(bytes),
            _ => None,
        };
        net.events(2).into_iter().filter_map(credit).sum()
    };
    assert_eq!(given(&mut net, claim.task), 10_000);
    net.call(2, |n, now, m| n.task_output(now, claim.task, Stream::Err, b"end".to_vec(), m));
    net.call(2, |n, now, m| n.task_exited(now, claim.task, Ending::Exited(0), m));
    net.run(50);
    let output =
        |bytes: &[u8], stream| ToTask::Output { task: claim.task, stream, bytes: bytes.to_vec() };
    assert_eq!(net.told(1, parent), [output(b"end", Stream::Err), output(b"", Stream::Out)]);
    assert!(
        !net.seats[0]
            .events
            .iter()
            .any(|e| matches!(e, NodeEvent::Request { event: RequestEvent::Output { .. }, .. }))
    );
    // When the catcher ends, what comes afterwards goes to the job's owner.
    asks(&mut net, 1, parent, 2, spawn(1, Place::Host(three)));
    let claim = net.started(2);
    net.run(50);
    net.call(2, |n, now, m| n.task_output(now, claim.task, Stream::Out, text, m));
    net.run(50);
    net.events(2);
    net.left(1, parent);
    net.call(1, |n, now, m| n.task_exited(now, parent, Ending::Exited(0), m));
    net.run(50);
    assert_eq!(given(&mut net, claim.task), 1000, "a whole window is open again");
    net.seats[0].events.clear();
    net.call(2, |n, now, m| n.task_output(now, claim.task, Stream::Out, b"late".to_vec(), m));
    net.call(2, |n, now, m| n.task_exited(now, claim.task, Ending::Exited(0), m));
    net.run(50);
    let late = |e: &NodeEvent| match e {
        NodeEvent::Request { event: RequestEvent::Output { bytes, .. }, .. } => bytes == b"late",
        _ => false,
    };
    assert!(net.events(0).iter().any(late));
    let _ = request;
    net.run(1_000);
    net.nothing_is_left();
}

#[test]
fn a_spawn_whose_host_dies_is_answered_and_its_siblings_begin_without() {
    let mut net = Net::new(3);
    let (_, parent) = job(&mut net, 1);
    net.call(0, |node, now, memory| node.watch_hosts(now, true, memory));
    let (two, three) = (net.id(1), net.id(2));
    let asked = [Place::Host(three), Place::Host(two)];
    for (number, place) in asked.into_iter().enumerate() {
        net.says(
            1,
            parent,
            ToDaemon::Ask { number: number as u64, question: Question::Spawn(spawn(1, place)) },
        );
    }
    net.run(50);
    net.crash(2);
    let claim = net.started(1);
    net.run(8_000);
    let told = net.told(1, parent);
    let results: Vec<&Vec<_>> = told
        .iter()
        .filter_map(|say| match say {
            ToTask::Answer { answer: Ok(Answer::Spawned(r)), .. } => Some(r),
            _ => None,
        })
        .collect();
    assert!(results.contains(&&[Ok(claim.task)].into()), "{told:?}");
    assert!(results.contains(&&[Err(Fault::HostLost)].into()), "{told:?}");
    // Its root is gone before it heard of its siblings: it begins alone.
    net.says(
        1,
        parent,
        ToDaemon::Ask { number: 9, question: Question::Spawn(spawn(2, Place::Host(two))) },
    );
    net.run(2);
    net.cut(0, 1);
    net.run(10_000);
    let told = net.told(1, parent);
    assert!(!told.is_empty(), "it hears of the end of its spawn");
}

#[test]
fn a_task_whose_job_is_lost_cannot_spawn() {
    let mut net = Net::new(3);
    let two = net.id(1);
    let request = net.call(2, |n, now, m| n.spawn(now, two, program(&[]), m)).expect("asked");
    net.run(50);
    let claim = net.started(1);
    net.enrol_by(1, Some(claim)).expect("it enrols");
    let _ = request;
    net.call(0, |node, now, memory| node.watch_hosts(now, true, memory));
    net.crash(2);
    net.run(8_000);
    net.told(1, claim.task);
    asks(&mut net, 1, claim.task, 3, spawn(1, Place::Any));
    let answer = Err(Fault::HostLost);
    assert_eq!(net.told(1, claim.task), [ToTask::Answer { number: 3, answer }]);
}
