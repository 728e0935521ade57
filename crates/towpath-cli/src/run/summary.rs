//! What became of a job, as JSON.

use std::time::Duration;

use serde_json::{Value, json};
use towpath_vm::{Host, TaskExit};
use towpath_wire::TaskId;

/// One task of a job, as far as it is known.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) host: Host,
    pub(super) task: Option<(TaskId, u32)>,
    pub(super) exit: Option<TaskExit>,
}

impl Member {
    fn json(&self, rank: usize) -> Value {
        json!({
            "rank": rank,
            "host": self.host.id.to_string(),
            "name": self.host.name,
            "task": self.task.map(|(task, _)| task.to_string()),
            "pid": self.task.map(|(_, pid)| pid),
            "status": self.exit.as_ref().map(|e| e.ending.shell_status()),
            "ending": self.exit.as_ref().map(|e| e.ending.to_string()),
            "wall_us": self.exit.as_ref().map(|e| e.wall_us),
        })
    }
}

/// The whole job.
pub(super) fn json(job: &str, members: &[Member], status: u8, wall: Duration) -> Value {
    let tasks: Vec<Value> = members.iter().enumerate().map(|(r, m)| m.json(r)).collect();
    json!({
        "job": job, "size": members.len(), "status": status,
        "wall_us": wall.as_micros() as u64, "tasks": tasks,
    })
}
