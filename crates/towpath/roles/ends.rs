//! A task that ends in one way or another: for `tests/it/ends.rs`.

use std::env;

use towpath::{Task, TaskId};

use crate::support::{ANY, pattern};

/// The variable with its peer's number, and how many messages it sends.
pub(crate) const PEER: &str = "TP_TEST_PEER";
pub(crate) const MESSAGES: i64 = 2000;

/// Sends to the peer that the environment names, then goes as its role says.
pub(crate) fn end(role: &str) {
    let raw = env::var(PEER).unwrap().parse::<u64>().unwrap();
    let peer = TaskId::try_from(raw).unwrap();
    let mut task = Task::enrol().unwrap();
    task.allow_direct(role != "die by daemon");
    task.send(peer, -1, b"here").unwrap();
    if role == "wait" {
        let _ = task.recv(&ANY);
        return;
    }
    for i in 0..MESSAGES {
        let len = if i % 100 == 99 { 100_000 } else { i as usize % 300 };
        task.send(peer, i, &pattern(i as u64, len)).unwrap();
    }
    if role.starts_with("die") {
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
    } else if role == "leave" {
        task.leave().unwrap();
        // The process goes on, and must not be needed any more.
        std::thread::park();
    }
}
