//! What a daemon leaves its tasks and what it leaves behind: the limit of descriptors, its own
//! variables, orphans of a daemon that was killed together with its guard.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::support::{PROMPT, Vm, fifo, processes_with, text};
use towpath_skip::skip;

/// Runs towpath under another soft limit of descriptors.
fn limited(vm: &Vm, soft: u64, args: &[&str]) -> String {
    let mut command = Command::new("sh");
    let script = format!("ulimit -S -n {soft} && exec \"$@\"");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_towpath")]).args(args);
    command.env("TOWPATH_HOME", vm.dir.path()).env_remove("TOWPATH_VM");
    let out = command.current_dir(vm.dir.path()).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout)
}

fn shell(script: &str) -> String {
    text(&Command::new("sh").args(["-c", script]).output().unwrap().stdout)
}

/// The soft and the hard limit of descriptors of a process; of one that has ended, nothing.
fn limits_of(pid: u32) -> [String; 2] {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let mut words = line.unwrap_or_default().split_whitespace().skip(3).map(str::to_owned);
    [words.next().unwrap_or_default(), words.next().unwrap_or_default()]
}

#[test]
fn the_daemon_may_open_more_than_its_tasks() {
    let hard = shell("ulimit -H -n");
    let vm = Vm::new();
    let go = vm.file("go");
    fifo(&go);
    // With 100 there is no room for the daemon to put the limit back while a task starts, so the
    // task is given it right after its start, when it may have run already: it looks later.
    for soft in [700, 100] {
        limited(&vm, soft, &["up"]);
        assert_eq!(limits_of(vm.pid(1)), [hard.trim(), hard.trim()], "the daemon's own");
        let script =
            format!("[ {soft} = 700 ] || read x < {}; ulimit -S -n; ulimit -H -n", go.display());
        let run = vm.command(&["run", "--", "sh", "-c", &script]).stdout(Stdio::piped()).spawn();
        if soft == 100 {
            let is_task = |line: &str| line.starts_with("sh -c") && line.contains("read x");
            let begun = Instant::now();
            // Where it never is, the task says so.
            while begun.elapsed() < PROMPT
                && !processes_with(go.to_str().unwrap())
                    .iter()
                    .any(|(pid, line)| is_task(line) && limits_of(*pid)[0] == "100")
            {}
            std::fs::write(&go, "\n").unwrap();
        }
        let out = run.unwrap().wait_with_output().unwrap();
        assert_eq!(text(&out.stdout), format!("{soft}\n{hard}"), "a task's");
        assert!(vm.towpath(&["down"]).status.success());
    }
}

#[test]
fn a_daemon_that_may_open_too_little_says_so_at_its_start() {
    let vm = Vm::new();
    let mut command = Command::new("sh");
    let script = "ulimit -n 16 && exec \"$@\"";
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_towpath"), "up"]);
    command.env("TOWPATH_HOME", vm.dir.path()).env_remove("TOWPATH_VM");
    let out = command.current_dir(vm.dir.path()).output().unwrap();
    assert_eq!(out.status.code(), Some(255));
    let said = text(&out.stderr);
    let wanted = "the hard limit of open descriptors is 16, a daemon needs 64 at least\nhint: ";
    assert!(said.contains(wanted), "{said}");
    // The least that is let through carries a daemon and its tasks.
    let mut command = Command::new("sh");
    let script = "ulimit -n 64 && \"$1\" up && exec \"$1\" run -n 4 -- echo here";
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_towpath")]);
    command.env("TOWPATH_HOME", vm.dir.path()).env_remove("TOWPATH_VM");
    let out = command.current_dir(vm.dir.path()).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(text(&out.stdout).matches("here").count(), 4);
}

/// A control group, of either version, that grants one processor's time.
fn group_of_one_processor() -> Option<PathBuf> {
    let grants = [
        ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "100000"),
        ("/sys/fs/cgroup", "cpu.max", "100000 100000"),
    ];
    grants.into_iter().find_map(|(root, file, grant)| {
        let group = Path::new(root).join(format!("towpath-test-{}", std::process::id()));
        let made = Path::new(root).join("cgroup.procs").exists() && fs::create_dir(&group).is_ok();
        let granted =
            made && group.join(file).exists() && fs::write(group.join(file), grant).is_ok();
        if made && !granted {
            let _ = fs::remove_dir(&group);
        }
        granted.then_some(group)
    })
}

#[test]
fn a_host_has_as_many_processors_as_its_control_group_grants() {
    let vm = Vm::new();
    let all = std::thread::available_parallelism().unwrap().get();
    let Some(group) = (all > 1).then(group_of_one_processor).flatten() else {
        return skip("this user may make no control groups here, or has one processor");
    };
    let mut command = Command::new("sh");
    let enter = "echo $$ > \"$1/cgroup.procs\"";
    let script = format!("{enter} && \"$2\" up && \"$2\" hosts --json; \"$2\" down");
    command.args(["-c", &script, "sh"]);
    command.arg(&group).arg(env!("CARGO_BIN_EXE_towpath"));
    command.env("TOWPATH_HOME", vm.dir.path()).env_remove("TOWPATH_VM");
    let out = command.current_dir(vm.dir.path()).output().unwrap();
    // The guard is the last to leave it, a moment after `down`.
    let deadline = std::time::Instant::now() + PROMPT;
    while fs::remove_dir(&group).is_err() {
        assert!(std::time::Instant::now() < deadline, "something is left in {}", group.display());
        std::thread::yield_now();
    }
    let list: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(list["hosts"][0]["cpus"], 1, "{list}");
}

#[test]
fn a_task_can_start_a_virtual_machine_of_its_own() {
    let vm = Vm::up(1);
    let inner = vm.file("inner");
    let script = format!(
        "TOWPATH_HOME={0}; export TOWPATH_HOME; unset TOWPATH_VM; \
         {1} up && {1} hosts --json && {1} down",
        inner.display(),
        env!("CARGO_BIN_EXE_towpath")
    );
    let out = vm.towpath(&["run", "--", "sh", "-c", &script]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let list: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(list["hosts"].as_array().unwrap().len(), 1);
}

#[test]
fn what_a_daemon_killed_with_its_guard_left_behind_ends_with_down() {
    let vm = Vm::up(1);
    let dir = vm.vm_dir().host(1);
    if !dir.join("group").exists() {
        return skip("this user may make no control groups here");
    }
    let group = std::fs::read_to_string(dir.join("group")).unwrap();
    let (started, mark) = (vm.file("started"), vm.file("mark"));
    fifo(&started);
    std::fs::write(&mark, "").unwrap();
    // A task in a session of its own, which nobody adopts but the system.
    let script = format!(
        "trap '' TERM HUP; setsid -f sh -c 'trap \"\" TERM HUP; tail -f {}' & echo $$ > {}; \
         while :; do tail -f /dev/null; done",
        mark.display(),
        started.display()
    );
    let mut run = vm.command(&["run", "--", "sh", "-c", &script]).spawn().unwrap();
    std::fs::read_to_string(&started).unwrap();
    let engine = vm.pid(1);
    let stat = std::fs::read_to_string(format!("/proc/{engine}/stat")).unwrap();
    let guard = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().to_string();
    let status = Command::new("kill").args(["-KILL", &guard, &engine.to_string()]).status();
    assert!(status.unwrap().success());
    run.wait().unwrap();
    let deadline = std::time::Instant::now() + PROMPT;
    while towpath::lock::is_locked(&dir) {
        assert!(std::time::Instant::now() < deadline, "the daemon still runs");
        std::thread::yield_now();
    }
    let orphan = format!("tail -f {}", mark.display());
    assert!(!processes_with(&orphan).is_empty(), "it got away from both");
    assert!(vm.towpath(&["down"]).status.success());
    assert_eq!(processes_with(&orphan), []);
    assert!(!std::path::Path::new(&group).exists() && !dir.join("group").exists());
}

#[test]
fn a_daemon_of_a_service_says_when_it_is_up_and_ends_politely_when_told() {
    let vm = Vm::new();
    let socket = std::os::unix::net::UnixDatagram::bind(vm.file("notify")).unwrap();
    socket.set_read_timeout(Some(PROMPT)).unwrap();
    // As the unit of `towpath unit` has it.
    let unit = text(&vm.towpath(&["unit", "--listen", "127.0.0.1:0"]).stdout);
    let line = unit.lines().find_map(|l| l.strip_prefix("ExecStart=")).unwrap();
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let mut command = vm.command(&words);
    let mut guard = command.env("NOTIFY_SOCKET", vm.file("notify")).spawn().unwrap();
    let mut said = [0; 64];
    let n = socket.recv(&mut said).unwrap();
    assert_eq!(&said[..n], b"READY=1");
    let (started, ended) = (vm.file("started"), vm.file("ended"));
    fifo(&started);
    let script = format!(
        "trap 'echo $NOTIFY_SOCKET- > {}; exit' TERM; echo > {}; \
         while :; do tail -f /dev/null & wait; done",
        ended.display(),
        started.display()
    );
    let mut run = vm.command(&["run", "--", "sh", "-c", &script]).spawn().unwrap();
    std::fs::read_to_string(&started).unwrap();
    Vm::signal(guard.id(), "-TERM");
    assert!(guard.wait().unwrap().success());
    run.wait().unwrap();
    assert_eq!(std::fs::read_to_string(&ended).unwrap(), "-\n", "its task ended politely");
    assert_eq!(processes_with(vm.dir.path().to_str().unwrap()), []);
}
