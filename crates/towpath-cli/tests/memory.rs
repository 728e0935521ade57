//! Hosts where memory is tight: a control group with a limit, and a `/dev/shm` without room.

#[path = "../roles/memory.rs"]
#[allow(dead_code, reason = "the tasks' own part")]
mod role;
#[path = "it/support/mod.rs"]
mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use role::{LIMIT, MIB};
use support::{PROMPT, Vm, text};
use towpath_skip::skip;

/// A control group with a memory limit; gone with it, when nothing runs in it any more.
struct Group(PathBuf);

impl Group {
    /// None where this user may make none, or limits no memory by it.
    fn of(bytes: usize, name: &str) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let named = |(root, limit, prefix): &(&str, &str, &str)| {
            let own = groups.lines().find_map(|line| line.split_once(prefix))?.1;
            let dir = Path::new(root).join(own.trim_start_matches('/'));
            let dir = if dir.is_dir() { dir } else { PathBuf::from(root) };
            let dir = dir.join(format!("towpath-test-{name}-{}", std::process::id()));
            fs::create_dir(&dir).ok()?;
            let group = Self(dir);
            // In a folder that is no group there is no such file, and none is to be made.
            let file = fs::OpenOptions::new().write(true).open(group.0.join(limit));
            file.ok()?.write_all(bytes.to_string().as_bytes()).ok()?;
            Some(group)
        };
        let kinds = [
            ("/sys/fs/cgroup", "memory.max", "0::"),
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", ":memory:"),
        ];
        kinds.iter().find_map(named)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let end = Instant::now() + PROMPT;
        while fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            std::thread::yield_now();
        }
    }
}

/// A virtual machine in such a group.
fn up_in(group: &Group) -> Vm {
    let vm = Vm::new();
    let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$1\" up";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(&group.0).arg(env!("CARGO_BIN_EXE_towpath"));
    command.env("TOWPATH_HOME", vm.dir.path()).env_remove("TOWPATH_VM");
    let out = command.current_dir(vm.dir.path()).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    vm
}

/// Runs `count` tasks with a role.
fn run(vm: &Vm, role: &str, count: &str) -> Output {
    let program = support::roles();
    let limit = format!("TOWPATH_ARENA_MAX={}", 8 * MIB);
    let how = ["run", "-n", count, "--keep-going", "--timeout", "60s", "--env", &limit, "--"];
    let what = [program.to_str().unwrap(), role];
    vm.towpath(&[&how[..], &what].concat())
}

/// The daemon is the one it was, and of use.
fn is_well(vm: &Vm, daemon: u32) {
    assert_eq!(vm.pid(1), daemon);
    let out = vm.towpath(&["run", "--", "true"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
}

#[test]
fn where_memory_is_tight_messages_arrive_and_who_takes_all_of_it_ends_alone() {
    let Some(group) = Group::of(LIMIT, "memory") else {
        return skip("this user may limit no memory by a control group here");
    };
    let vm = up_in(&group);
    let daemon = vm.pid(1);
    let out = run(&vm, "exchange", "2");
    assert_eq!(out.status.code(), Some(0), "{}{}", text(&out.stdout), text(&out.stderr));
    is_well(&vm, daemon);
    let out = run(&vm, "eat", "2");
    let (said, cried) = (text(&out.stdout), text(&out.stderr));
    assert_eq!(out.status.code(), Some(128 + 9), "{said}{cried}");
    assert!(cried.contains("signal 9"), "{cried}");
    assert!(said.contains("the end was told"), "{said}{cried}");
    is_well(&vm, daemon);
}

#[test]
fn a_full_dev_shm_is_not_in_the_way() {
    let vm = Vm::new();
    // A namespace of mounts, in which /dev/shm has room for nothing.
    let script = "mount -t tmpfs -o size=4k none /dev/shm && \
                  { head -c 8192 /dev/zero > /dev/shm/full; true; } && exec \"$0\" up";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_towpath")]);
    command.env("TOWPATH_HOME", vm.dir.path()).env_remove("TOWPATH_VM");
    let out = command.current_dir(vm.dir.path()).output();
    let Some(out) = out.ok().filter(|out| out.status.success()) else {
        return skip("this user may make no namespace of mounts here");
    };
    assert!(text(&out.stderr).contains("No space left"), "it is full: {}", text(&out.stderr));
    let out = vm.towpath(&["run", "--", "sh", "-c", "echo > /dev/shm/more"]);
    assert_ne!(out.status.code(), Some(0), "tasks see it");
    let out = run(&vm, "exchange", "2");
    assert_eq!(out.status.code(), Some(0), "{}{}", text(&out.stdout), text(&out.stderr));
}
