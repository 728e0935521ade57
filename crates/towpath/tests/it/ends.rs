//! Tasks that end in every way, in processes of their own: nothing that they sent is lost, and
//! their end is told after it.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::ending::{MESSAGES, PEER};
use crate::support::{ANY, LONG, Vm, pattern};
use towpath::task::{Event, Subject, Wanted, WatchEvent};
use towpath::{Task, TaskId};

/// Starts a task's process with a role.
fn start(socket: &Path, role: &str, peer: TaskId) -> Child {
    let mut command = Command::new(crate::roles());
    command.args(["end", role]).env("TOWPATH_TASK_SOCKET", socket);
    command.env(PEER, peer.to_raw().to_string()).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().unwrap()
}

/// Waits for the first message of a started process, and has its end told.
fn meet(task: &mut Task) -> TaskId {
    let first =
        task.recv_timeout(&Wanted { tag: Some(-1), ..ANY }, LONG).unwrap().expect("it came");
    task.watch(Subject::Task(first.src())).unwrap();
    first.src()
}

/// Waits for the notice of a task's end; true when it was told how it ended.
fn end_of(task: &mut Task, whom: TaskId) -> bool {
    loop {
        match task.next_event() {
            Some(Event::Notice { event: WatchEvent::TaskEnded { task, ending }, .. }) => {
                assert_eq!(task, whom);
                return ending.is_some();
            }
            Some(other) => panic!("{other:?}"),
            None => assert!(task.wait(Some(LONG)).unwrap(), "the end was not told"),
        }
    }
}

/// A process sends much and ends at once, in the way of `role`.
fn last_words(role: &str, far: bool) {
    let vm = Vm::up(if far { 2 } else { 1 });
    let mut task = vm.task(1);
    let mut child = start(&vm.socket(if far { 2 } else { 1 }), role, task.id());
    let peer = meet(&mut task);
    end_of(&mut task, peer);
    // Without waiting any more: all of it came before the end was told.
    for i in 0..MESSAGES {
        let got = task.try_recv(&ANY).unwrap();
        let got = got.unwrap_or_else(|| panic!("message {i} is lost, or came late"));
        let len = if i % 100 == 99 { 100_000 } else { i as usize % 300 };
        assert_eq!((got.src(), got.tag(), got.len()), (peer, i, len));
        assert!(got.bytes() == pattern(i as u64, len), "message {i}");
    }
    assert!(!task.wait(Some(std::time::Duration::ZERO)).unwrap(), "nothing comes after its end");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_task_is_told_of_after_its_last_message() {
    last_words("die", false);
}

#[test]
fn a_killed_task_without_a_ring_is_told_of_after_its_last_message() {
    last_words("die by daemon", false);
}

#[test]
fn a_killed_task_of_another_host_is_told_of_after_its_last_message() {
    last_words("die by daemon", true);
}

#[test]
fn a_killed_task_with_a_stream_is_told_of_after_its_last_message() {
    last_words("die", true);
}

#[test]
fn a_task_that_leaves_is_told_of_while_its_process_lives_on() {
    last_words("leave", false);
}

#[test]
fn a_task_that_returns_from_main_is_told_of_after_its_last_message() {
    last_words("return", true);
}

#[test]
fn sending_to_an_ended_task_is_an_error_and_a_wait_for_it_ends() {
    let vm = Vm::up(2);
    let mut task = vm.task(1);
    for host in [1, 2] {
        let mut child = start(&vm.socket(host), "wait", task.id());
        let peer = meet(&mut task);
        task.allow_direct(false);
        child.kill().unwrap();
        child.wait().unwrap();
        // More than any credit: it cannot end by itself, only by the peer's end.
        let sent = (0..1000).try_for_each(|_| task.send(peer, 0, &vec![0; 60_000]));
        assert_eq!(sent, Err(towpath::task::SendError::NoTask(peer)));
        end_of(&mut task, peer);
        task.allow_direct(true);
    }
}
