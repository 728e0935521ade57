//! The benches by the command that has them.

use std::path::PathBuf;

mod bench;
mod tap;
mod bench_tasks;
#[path = "../../../towpath-cli/tests/it/support/built.rs"]
mod built;

fn command() -> PathBuf {
    built::built(&["towpath"], &["-p", "towpath-cli"])
}
