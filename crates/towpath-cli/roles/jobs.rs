//! First tasks of jobs, which spawn others: for `tests/it/jobs.rs`.

use towpath::Task;
use towpath_vm::talk::{Place, SpawnTasks};

/// Starts `count` shells with a script, as a task.
fn spawn(count: u32, script: &str) {
    let mut task = Task::enrol().unwrap();
    let tasks = SpawnTasks {
        program: b"sh".to_vec(),
        args: vec![b"-c".to_vec(), script.as_bytes().to_vec()],
        env: Vec::new(),
        cwd: Vec::new(),
        place: Place::Any,
        count,
        context: 0,
        orphan: false,
        unique: false,
    };
    assert!(task.spawn(tasks).unwrap().iter().all(Result::is_ok));
}

pub(crate) fn leaves_two_behind() {
    spawn(2, "read nothing; echo still here; exit 5");
}

pub(crate) fn one_that_waits() {
    // It is ready when this task is gone, which the signal would end.
    let script = format!(
        "trap 'echo caught; exit 0' INT; while kill -0 {} 2>/dev/null; do sleep 0.01; done; \
         echo ready; while :; do tail -f /dev/null & wait; done",
        std::process::id()
    );
    spawn(1, &script);
}

pub(crate) fn one_that_outlives_it() {
    spawn(1, "tail -f /dev/null");
}
