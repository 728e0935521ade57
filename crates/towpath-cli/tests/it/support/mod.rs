//! What the command-line tests share: a virtual machine of their own in a temporary directory.
#![allow(dead_code, missing_docs, unreachable_pub)] // each test file uses its part

pub mod built;
pub mod requests;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use towpath::protocol::{HostEvent, Reply, Request};
use towpath::{Client, Home, VmDir};
use towpath_wire::HostId;

/// What takes longer than this is no prompt answer, not even on a busy machine.
pub const PROMPT: Duration = Duration::from_secs(15);

/// The program with the roles that tests run as tasks.
pub fn roles() -> PathBuf {
    built::built(&["examples/job-roles"], &["-p", "towpath-cli", "--example", "job-roles"])
}

/// A home of its own; whatever runs in it ends with it.
pub struct Vm {
    pub dir: tempfile::TempDir,
}

impl Vm {
    pub fn new() -> Self {
        Self { dir: tempfile::Builder::new().prefix("tp").tempdir().unwrap() }
    }

    /// A virtual machine of `hosts` hosts.
    pub fn up(hosts: usize) -> Self {
        let vm = Self::new();
        let out = vm.towpath(&["up", "--hosts", &hosts.to_string()]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        vm
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_towpath"));
        c.args(args).env("TOWPATH_HOME", self.dir.path()).env_remove("TOWPATH_VM");
        c.stdin(Stdio::null()).current_dir(self.dir.path());
        c
    }

    pub fn towpath(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs with `input` on standard input.
    pub fn with_input(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            use std::io::Write;
            let _ = stdin.write_all(&input);
        });
        let out = child.wait_with_output().unwrap();
        writer.join().unwrap();
        out
    }

    pub fn vm_dir(&self) -> VmDir {
        Home::at(self.dir.path().into()).vm("default").unwrap()
    }

    pub fn client(&self, host: usize) -> Client {
        Client::connect(&self.vm_dir().host(host).join("sock")).unwrap()
    }

    /// Waits until three hosts vote, the first leads: who does.
    pub fn three_vote(&self) -> Vec<HostId> {
        let begin = Instant::now();
        loop {
            let votes = self.client(1).info().unwrap().voters;
            if votes.len() == 3 {
                return votes;
            }
            assert!(begin.elapsed() < PROMPT, "{votes:?} vote");
        }
    }

    /// Process of a host's engine.
    pub fn pid(&self, host: usize) -> u32 {
        self.client(host).info().unwrap().pid
    }

    /// A counter of a host.
    pub fn counter(&self, host: usize, name: &str) -> u64 {
        let info = self.client(host).info().unwrap();
        info.counters.iter().find(|(n, _)| n == name).unwrap().1
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn signal(pid: u32, signal: &str) {
        let status = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        let _ = self.towpath(&["down"]);
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for an event of hosts on a client that watches.
pub fn wait_for(client: &mut Client, mut what: impl FnMut(&HostEvent) -> bool) -> bool {
    let deadline = std::time::Instant::now() + Duration::from_secs(15);
    loop {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return false;
        }
        match client.receiver.next(Some(left)) {
            Ok(Some(Reply::HostEvent(event))) if what(&event) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

pub fn watch(vm: &Vm, host: usize) -> Client {
    let mut client = vm.client(host);
    client.sender.send(&Request::Watch).unwrap();
    client
}

/// Resident memory of a process, in KiB.
pub fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Processes whose command line contains `mark` (zombies have none).
pub fn processes_with(mark: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let mut line = Vec::new();
        let path = entry.path().join("cmdline");
        let _ = std::fs::File::open(path).and_then(|mut f| f.read_to_end(&mut line));
        let line = text(&line).replace('\0', " ");
        if line.contains(mark) && pid != std::process::id() {
            found.push((pid, line));
        }
    }
    found
}

/// A named pipe: lets a test wait for a task without asking over and over.
pub fn fifo(path: &Path) {
    let status = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(status.success());
}
