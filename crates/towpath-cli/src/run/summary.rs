//! What became of a job, as JSON.

use std::time::Duration;

use serde_json::{Value, json};
use towpath_vm::{Host, TaskExit};
use towpath_wire::{HostId, TaskId};

/// One task of a job, as far as it is known.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) host: HostId,
    /// The host's name.
    pub(super) name: String,
    /// It was spawned by another task, which is its concern.
    pub(super) spawned: Option<Spawned>,
    pub(super) task: Option<(TaskId, u32)>,
    pub(super) exit: Option<TaskExit>,
}

/// A task that a task spawned.
#[derive(Debug)]
pub(super) struct Spawned {
    /// What the daemon calls it.
    pub(super) tag: u64,
    pub(super) program: String,
}

impl Member {
    /// One that was asked for.
    pub(super) fn new(host: &Host) -> Self {
        Self { host: host.id, name: host.name.clone(), spawned: None, task: None, exit: None }
    }

    fn json(&self, rank: usize) -> Value {
        let rank = if self.spawned.is_none() { Some(rank) } else { None };
        json!({
            "rank": rank,
            "program": self.spawned.as_ref().map(|s| s.program.clone()),
            "host": self.host.to_string(),
            "name": self.name,
            "task": self.task.map(|(task, _)| task.to_string()),
            "pid": self.task.map(|(_, pid)| pid),
            "status": self.exit.as_ref().map(|e| e.ending.shell_status()),
            "ending": self.exit.as_ref().map(|e| e.ending.to_string()),
            "wall_us": self.exit.as_ref().map(|e| e.wall_us),
        })
    }
}

/// The whole job: the tasks asked for in order of their ranks, then those that they spawned.
pub(super) fn json(job: &str, members: &[Member], status: u8, wall: Duration) -> Value {
    let tasks: Vec<Value> = members.iter().enumerate().map(|(r, m)| m.json(r)).collect();
    let size = members.iter().filter(|m| m.spawned.is_none()).count();
    json!({
        "job": job, "size": size, "status": status,
        "wall_us": wall.as_micros() as u64, "tasks": tasks,
    })
}
