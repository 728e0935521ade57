//! A virtual machine of Towpath for tests, and the library installed beside it.
#![allow(dead_code)] // Each test file uses a part.

#[path = "../../../../towpath-cli/tests/it/support/built.rs"]
mod built;
pub(crate) mod net;
pub(crate) mod pvm;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use towpath_skip::skip;

/// Longest time that a program may take.
const LIMIT: Duration = Duration::from_mins(1);

/// One machine at a time: each has several hosts, and programs that fill them.
static ONE: Mutex<()> = Mutex::new(());

/// The `towpath` program.
pub(crate) fn towpath() -> PathBuf {
    built::built(&["towpath"], &["-p", "towpath-cli"])
}

/// Installs what this crate built into a folder.
pub(crate) fn install(folder: &Path) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/install.sh");
    let mut install = Command::new("sh");
    let test = std::env::current_exe().expect("the path of this test");
    install.args([script, "pvm3"]).env("PREFIX", folder).env("DESTDIR", "");
    install.env("BUILD", test.parent().expect("a folder"));
    assert!(install.status().expect("a shell").success());
}

/// A virtual machine on loopback addresses, ended when dropped.
pub(crate) struct Machine {
    towpath: PathBuf,
    pub(crate) folder: tempfile::TempDir,
    /// Where spawned programs are looked for.
    pub(crate) programs: PathBuf,
    _one: std::sync::MutexGuard<'static, ()>,
}

impl Machine {
    /// `None`: something is not there that this needs.
    pub(crate) fn new(hosts: u32, program: &str) -> Option<Self> {
        if !Path::new(program).exists() {
            skip(&format!("{program} is not installed"));
            return None;
        }
        let towpath = towpath();
        let one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let machine = Self { towpath, folder, programs: "/usr/bin".into(), _one: one };
        install(machine.folder.path());
        let mut up = machine.command(&machine.towpath);
        let up = up.args(["up", "--hosts", &hosts.to_string()]).output().expect("towpath");
        assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
        Some(machine)
    }

    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("TOWPATH_HOME", self.folder.path().join("home"))
            .env("LD_LIBRARY_PATH", self.folder.path().join("lib/towpath"))
            .env("PVM_PATH", &self.programs)
            .env_remove("TOWPATH_VM");
        command
    }

    /// What the `towpath` program prints.
    pub(crate) fn towpath(&self, args: &[&str]) -> String {
        let output = self.command(&self.towpath).args(args).output().expect("towpath");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until no task runs: what a program spawned may end after it, and as long as it has
    /// not, its groups are there.
    pub(crate) fn wait_for_end_of_tasks(&self) {
        for _ in 0..2000 {
            if self.towpath(&["ps", "--json"]).starts_with("{\"tasks\":[]}") {
                return;
            }
        }
        panic!("tasks did not end");
    }

    /// Runs a program to its end and gives what it printed, standard error behind.
    pub(crate) fn run(&self, program: &str, args: &[&str], input: &str) -> String {
        run_timed(self.command(Path::new("timeout")), program, args, input)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.command(&self.towpath).arg("down").output();
    }
}

/// Runs a program to its end by `timeout`, and gives what it printed, standard error behind.
fn run_timed(mut timeout: Command, program: &str, args: &[&str], input: &str) -> String {
    use std::io::Write;
    timeout.arg(LIMIT.as_secs().to_string()).arg(program).args(args);
    let mut child = timeout
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("coreutils");
    // A program that reads nothing may be gone already.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("its end");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_ne!(output.status.code(), Some(124), "{program} did not end:\n{text}");
    text
}
