//! Tasks, teams and streams on real daemons that run in this process.

mod broken_teams;
#[path = "../../../towpath-cli/tests/it/support/built.rs"]
mod built;
mod channels;
#[path = "../../roles/ends.rs"]
#[allow(dead_code, reason = "the process's own part")]
mod ending;
mod ends;
mod examples;
mod lent;
mod messages;
mod reserved;
mod spawn;
mod started;
mod streams;
mod support;
mod teams;
mod values;

/// The program with the roles that tests start.
fn roles() -> std::path::PathBuf {
    built::built(&["examples/task-roles"], &["-p", "towpath", "--example", "task-roles"])
}
