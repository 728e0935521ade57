//! Others who do the same, where they are installed.

use std::process::{Command, Stdio};

/// A line for each peer: what is there, or that it is not.
pub(super) fn notes() -> Vec<String> {
    let there = |program: &str| {
        let shell = format!("command -v {program}");
        let found = Command::new("sh").args(["-c", &shell]).stdout(Stdio::null()).status();
        found.is_ok_and(|status| status.success())
    };
    let line = |name: &str, program: &str, how: &str| {
        if there(program) {
            format!("{name}: `{program}` is installed, but not measured here{how}.")
        } else {
            format!("{name}: `{program}` is not installed.")
        }
    };
    let beside = "; `cargo bench -p towpath-pvm3 --bench beside_pvm` does";
    vec![line("MPI", "mpirun", ""), line("PVM", "pvm", beside)]
}
