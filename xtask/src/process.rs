//! Running other programs and reading what they said.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::report::WithHint;

/// What a finished program left.
pub(crate) struct Outcome {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command to its end, keeping its output.
pub(crate) fn capture(command: &mut Command) -> Result<Outcome> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .hint(|| format!("cannot run `{program}`"), "install it, or put it on the PATH")?;
    Ok(Outcome {
        success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Runs a command that must succeed, and gives its standard output.
pub(crate) fn stdout_of(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let outcome = capture(command)?;
    if !outcome.success {
        bail!(
            "`{program}` failed: {}\nhint: run it by hand to see more",
            outcome.stderr.trim_end()
        );
    }
    Ok(outcome.stdout)
}

/// The cargo that runs us, or the one on the PATH. It is told nothing of our own package: some
/// build scripts take a change of that for a reason to build their crate, and all above it, anew.
pub(crate) fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}
