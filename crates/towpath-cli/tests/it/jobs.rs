//! A job of `towpath run` whose tasks spawn tasks: output, signals, its end. The tasks are
//! those of `roles/`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::support::{Vm, text};
use serde_json::Value;

/// Runs a role as the first task of a job.
fn job(vm: &Vm, options: &[&str], role: &str) -> Command {
    let mut command = vm.command(&["run"]);
    command.args(options).arg("--").arg(crate::support::roles()).arg(role);
    command
}

#[test]
fn a_job_lasts_as_long_as_its_last_task_and_shows_what_each_says() {
    let vm = Vm::up(2);
    let out = job(&vm, &["--json", "--tag"], "leaves-two-behind").output().unwrap();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "how spawned ones end is not counted: {said}");
    for number in ["[+1 ", "[+2 "] {
        let line = said.lines().find(|l| l.starts_with(number));
        assert!(line.is_some_and(|l| l.ends_with("] still here")), "{said}");
    }
    let job: Value = serde_json::from_slice(&out.stdout).unwrap();
    let tasks = job["tasks"].as_array().unwrap();
    assert_eq!((tasks.len(), &job["size"]), (3, &1.into()));
    assert!(tasks[1..].iter().all(|t| t["status"] == 5 && t["program"] == "sh"), "{job}");
    assert!(tasks[0]["rank"] == 0 && tasks[0]["status"] == 0, "{job}");
}

#[test]
fn ctrl_c_reaches_spawned_tasks_too() {
    let vm = Vm::up(1);
    let mut command = job(&vm, &["--no-tag"], "one-that-waits");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|l| l == "ready"));
    Vm::signal(child.id(), "-INT");
    assert!(lines.any(|l| l == "caught"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_first_task_speaks_for_a_job_whose_tasks_end_with_statuses_of_their_own() {
    let vm = Vm::up(1);
    let go = vm.file("go");
    // Task 2 fails first, and task 0 once that is told.
    for (how, status) in [("exit 7", 5), ("kill -SEGV $$", 139)] {
        crate::support::fifo(&go);
        let script = format!(
            "case $TOWPATH_RANK in 0) read x < {}; exit 5;; 2) {how};; *) exit 0;; esac",
            go.display()
        );
        let mut run = vm.command(&["run", "-n", "3", "--keep-going", "--", "sh", "-c", &script]);
        let mut run = run.stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(run.stderr.take().unwrap());
        let mut lines = said.lines().map(Result::unwrap);
        assert!(lines.any(|line| line.starts_with("towpath: task 2 on ")));
        std::fs::write(&go, "\n").unwrap();
        assert!(lines.any(|line| line.starts_with("towpath: task 0 on ")));
        assert_eq!(run.wait().unwrap().code(), Some(status), "{how}");
        std::fs::remove_file(&go).unwrap();
    }
}

#[test]
fn a_time_limit_ends_spawned_tasks_too() {
    let vm = Vm::up(2);
    let options = ["--timeout", "1s", "--grace", "1s"];
    let out = job(&vm, &options, "one-that-outlives-it").output().unwrap();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(124), "{said}");
    assert!(said.contains("the time is over: the 1 that still run"), "{said}");
}

#[test]
fn a_signal_reaches_a_task_by_its_name() {
    let vm = Vm::up(2);
    let mut run = vm.command(&["run", "--host", "h2", "--", "sh", "-c"]);
    run.arg("trap 'exit 7' USR1; echo ready; while :; do tail -f /dev/null & wait; done");
    let mut child = run.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|l| l == "ready"));
    let out = vm.towpath(&["kill", "-s", "USR1", "h2:t1", "h2:t77"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(text(&out.stderr).starts_with("h2:t77: ") || text(&out.stderr).contains("t77"));
    assert_eq!(child.wait().unwrap().code(), Some(7));
}
