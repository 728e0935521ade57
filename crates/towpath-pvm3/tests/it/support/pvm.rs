//! PVM itself, as Debian ships it, for what is compared with it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A virtual machine of PVM on this host, ended when dropped.
pub(crate) struct Pvm {
    pub(crate) folder: tempfile::TempDir,
}

impl Pvm {
    pub(crate) fn new() -> Self {
        let pvm = Self { folder: tempfile::tempdir().expect("a folder") };
        pvm.console("conf\nquit\n");
        pvm
    }

    /// A program with PVM's own library.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        set_environment(&mut command, self.folder.path());
        command
    }

    /// Runs a program to its end and gives what it printed, standard error behind.
    pub(crate) fn run(&self, program: &str, args: &[&str], input: &str) -> String {
        super::run_timed(self.command(Path::new("timeout")), program, args, input)
    }

    fn console(&self, input: &str) {
        let mut console = self.command(Path::new("timeout"));
        console.args(["30", "/usr/bin/pvm"]).stdin(Stdio::piped());
        let mut child = console.stdout(Stdio::null()).spawn().expect("PVM's console");
        let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        child.wait().expect("its end");
    }
}

impl Drop for Pvm {
    fn drop(&mut self) {
        self.console("halt\n");
    }
}

/// What PVM's programs find in their environment.
pub(crate) fn set_environment(command: &mut Command, folder: &Path) {
    command
        .env("PVM_TMP", folder)
        .env("PVM_ALLOW_ROOT", "1")
        .env("PVM_VMID", "towpath-test")
        .env("PVM_PATH", "/usr/bin")
        .env_remove("LD_LIBRARY_PATH");
}
