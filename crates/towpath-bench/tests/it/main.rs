//! The benches by the command that has them.

use std::path::PathBuf;

mod bench;
mod bench_tasks;
#[path = "../../../towpath-cli/tests/it/support/built.rs"]
mod built;
mod tap;

fn command() -> PathBuf {
    built::built(&["towpath"], &["-p", "towpath-cli"])
}
