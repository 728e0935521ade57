//! A virtual machine of Towpath for tests, and the library installed beside it.
#![allow(dead_code)] // Each test file uses a part.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Longest time that a program may take.
const LIMIT: Duration = Duration::from_mins(1);

/// One machine at a time: each has several hosts, and programs that fill them.
static ONE: Mutex<()> = Mutex::new(());

fn beside_tests(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.with_file_name(name)
}

/// Not passed: something is not there that a test needs.
pub(crate) fn skip(what: &str) {
    eprintln!("SKIPPED: {what}");
    println!("SKIPPED: {what}");
}

/// A virtual machine on loopback addresses, ended when dropped.
pub(crate) struct Machine {
    towpath: PathBuf,
    pub(crate) folder: tempfile::TempDir,
    _one: std::sync::MutexGuard<'static, ()>,
}

impl Machine {
    /// `None`: something is not there that this needs.
    pub(crate) fn new(hosts: u32, program: &str) -> Option<Self> {
        if !Path::new(program).exists() {
            skip(&format!("{program} is not installed"));
            return None;
        }
        let towpath = beside_tests("..").join("towpath");
        if !towpath.exists() {
            skip("the towpath program is not built: cargo build -p towpath-cli");
            return None;
        }
        let one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let machine = Self { towpath, folder, _one: one };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
        let mut install = Command::new(script);
        install.arg(beside_tests("libpvm3.so")).arg(machine.folder.path());
        assert!(install.status().expect("a shell").success());
        let mut up = machine.command(&machine.towpath);
        let up = up.args(["up", "--hosts", &hosts.to_string()]).output().expect("towpath");
        assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
        Some(machine)
    }

    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("TOWPATH_HOME", self.folder.path().join("home"))
            .env("LD_LIBRARY_PATH", self.folder.path().join("lib"))
            .env("PVM_PATH", "/usr/bin")
            .env_remove("TOWPATH_VM");
        command
    }

    /// Runs a program to its end and gives what it printed, standard error behind.
    pub(crate) fn run(&self, program: &str, args: &[&str], input: &str) -> String {
        use std::io::Write;
        let mut timed = self.command(Path::new("timeout"));
        timed.arg(LIMIT.as_secs().to_string()).arg(program).args(args);
        let mut child = timed
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
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.command(&self.towpath).arg("down").output();
    }
}
