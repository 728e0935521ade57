//! Jobs that go on without whoever started them, whatever is killed.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::Value;

use crate::support::{PROMPT, Vm, processes_with, text};

/// Starts a job; gives its number.
fn begin(vm: &Vm, args: &[&str], input: &str) -> String {
    let out = vm.with_input(args, input.as_bytes());
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout).trim().to_string()
}

/// A job as `towpath jobs` has it.
fn job(vm: &Vm, number: &str) -> Value {
    let out = vm.towpath(&["jobs", "--json"]);
    let list: Value = serde_json::from_slice(&out.stdout).unwrap();
    let all = list["jobs"].as_array().unwrap();
    let found = all.iter().find(|job| job["job"].as_u64() == number.parse().ok());
    found.unwrap_or_else(|| panic!("no job {number}: {list}")).clone()
}

/// Waits until what is said of a job is as wanted.
fn until(vm: &Vm, number: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let begin = Instant::now();
    loop {
        let job = job(vm, number);
        if wanted(&job) {
            return job;
        }
        assert!(begin.elapsed() < PROMPT, "{job}");
    }
}

fn dir(vm: &Vm, number: &str) -> PathBuf {
    vm.vm_dir().jobs().join(number)
}

/// The processes of a job: who minds it, and its client.
fn processes(vm: &Vm, number: &str) -> (u32, Vec<u32>) {
    let minder = towpath::lock::Holder::of(&dir(vm, number)).unwrap().pid;
    let children = std::fs::read_to_string(format!("/proc/{minder}/task/{minder}/children"));
    let children = children.unwrap_or_default();
    (minder, children.split_whitespace().map(|pid| pid.parse().unwrap()).collect())
}

fn items(n: usize) -> String {
    (1..=n).flat_map(|i| [i.to_string(), "\n".into()]).collect()
}

fn counted(out: &[u8]) -> BTreeMap<String, u32> {
    let mut seen = BTreeMap::new();
    for line in text(out).lines() {
        *seen.entry(line.to_string()).or_default() += 1;
    }
    seen
}

#[test]
fn a_farm_goes_on_by_itself_and_is_shown_whenever_it_is_looked_at() {
    let vm = Vm::up(1);
    let farm =
        ["farm", "--detach", "-k", "sh", "-c", "echo out $1; echo err $1 >&2; exit $1", "sh"];
    let number = begin(&vm, &farm, "0\n1\n0\n");
    assert_eq!(number, "1");
    for _ in 0..2 {
        let out = vm.towpath(&["attach", &number]);
        assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
        assert_eq!(text(&out.stdout), "out 0\nout 1\nout 0\n");
        let said = text(&out.stderr);
        assert!(said.contains("err 0\nerr 1\nerr 0\n"), "{said}");
        assert!(said.contains("2 of 3 items succeeded, 1 failed"), "{said}");
    }
    let told = job(&vm, &number);
    assert_eq!((&told["state"], &told["status"]), (&"ended".into(), &1.into()));
    assert_eq!((&told["results"], &told["items"]), (&3.into(), &3.into()));
    let listed = text(&vm.towpath(&["jobs"]).stdout);
    assert!(listed.contains("ended 1") && listed.contains("3/3"), "{listed}");
    // What failed runs once more, and nothing else.
    let out = vm.towpath(&["jobs", "again", &number]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let out = vm.towpath(&["attach"]);
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(text(&out.stdout), "out 0\nout 1\nout 0\nout 1\n");
    // Blocks of standard input are items, too.
    let pipe = ["farm", "--detach", "-k", "--pipe", "--block", "4", "cat"];
    let number = begin(&vm, &pipe, "a\nb\nc\nd\n");
    assert_eq!(text(&vm.towpath(&["attach", &number]).stdout), "a\nb\nc\nd\n");
    let out = vm.towpath(&["jobs", "forget", "--ended"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let list: Value = serde_json::from_slice(&vm.towpath(&["jobs", "--json"]).stdout).unwrap();
    assert_eq!(list["jobs"].as_array().unwrap().len(), 0);
}

#[test]
fn whatever_is_killed_every_item_has_one_result() {
    let vm = Vm::up(2);
    let n = 150;
    let items = items(n);
    // Every tenth fails, and a failure is a result. Thirty at a time may run.
    let script = "until [ -e go$((($1 - 1) / 30)) ]; do sleep 0.02; done; echo item $1; \
                  case $1 in *0) exit 1;; esac";
    let may_run = |block: usize| std::fs::write(vm.file(&format!("go{block}")), "").unwrap();
    may_run(0);
    let number = begin(&vm, &["farm", "--detach", "sh", "-c", script, "sh"], &items);
    let done = |job: &Value| job["results"].as_u64().unwrap();
    for (round, least) in [10, 40, 70, 100].into_iter().enumerate() {
        until(&vm, &number, |job| done(job) >= least);
        let (minder, clients) = processes(&vm, &number);
        if round.is_multiple_of(2) {
            // Its client alone: the other process starts it again.
            for client in clients {
                Vm::signal(client, "-KILL");
            }
            may_run(round + 1);
            continue;
        }
        Vm::signal(minder, "-KILL");
        until(&vm, &number, |job| job["state"] == "interrupted");
        may_run(round + 1);
        // The first one has it go on, and others look on.
        let out = vm.command(&["attach", &number, "--no-wait"]).output().unwrap();
        assert_eq!(out.status.code(), Some(255), "{}", text(&out.stderr));
        let looks = || vm.towpath(&["attach", &number]);
        if round == 3 {
            let both = std::thread::scope(|scope| {
                [scope.spawn(looks), scope.spawn(looks)].map(|look| look.join().unwrap())
            });
            assert!(both.iter().all(|out| out.status.code() == Some(15)), "{both:?}");
        } else {
            let mut look = vm.command(&["attach", &number]).spawn().unwrap();
            until(&vm, &number, |job| job["state"] == "runs");
            Vm::signal(look.id(), "-INT");
            assert_eq!(look.wait().unwrap().code(), Some(130));
        }
    }
    let out = vm.towpath(&["attach", &number]);
    assert_eq!(out.status.code(), Some(15), "{}", text(&out.stderr));
    let expected: BTreeMap<String, u32> = (1..=n).map(|i| (format!("item {i}"), 1)).collect();
    assert_eq!(counted(&out.stdout), expected, "{}", text(&out.stderr));
    let log = std::fs::read_to_string(dir(&vm, &number).join("joblog")).unwrap();
    let mut logged: Vec<usize> =
        log.lines().skip(1).map(|l| l.split('\t').next().unwrap().parse().unwrap()).collect();
    logged.sort_unstable();
    assert_eq!(logged, (1..=n).collect::<Vec<_>>());
    assert!(text(&out.stderr).contains("135 of 150 items succeeded, 15 failed"));
}

#[test]
fn what_failed_runs_once_more_though_its_client_is_killed_meanwhile() {
    let vm = Vm::up(1);
    let script = "until [ -e go$1 ]; do sleep 0.02; done; echo item $1; exit 1";
    let farm = ["farm", "--detach", "-j1", "sh", "-c", script, "sh"];
    let may_run = |item: usize| std::fs::write(vm.file(&format!("go{item}")), "").unwrap();
    (1..=3).for_each(may_run);
    let number = begin(&vm, &farm, &items(3));
    until(&vm, &number, |job| job["state"] == "ended");
    (2..=3).for_each(|item| std::fs::remove_file(vm.file(&format!("go{item}"))).unwrap());
    // By its home's other name.
    let (home, link) = (vm.vm_dir().path.parent().unwrap().to_path_buf(), vm.file("link"));
    std::os::unix::fs::symlink(home, &link).unwrap();
    let out = vm.command(&["jobs", "again", &number]).env("TOWPATH_HOME", &link).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    until(&vm, &number, |job| job["results"] == 4);
    let (_, clients) = processes(&vm, &number);
    for client in clients {
        Vm::signal(client, "-KILL");
    }
    (2..=3).for_each(may_run);
    let job = until(&vm, &number, |job| job["state"] == "ended");
    assert_eq!((&job["results"], &job["status"]), (&6.into(), &3.into()));
    let out = vm.towpath(&["attach", &number]);
    let twice: BTreeMap<String, u32> = (1..=3).map(|i| (format!("item {i}"), 2)).collect();
    assert_eq!(counted(&out.stdout), twice);
}

#[test]
fn a_client_that_is_stopped_ends_all_the_same() {
    let vm = Vm::up(1);
    let number = begin(&vm, &["farm", "--detach", "sleep", "600"], "1\n");
    let begun = Instant::now();
    let client = loop {
        // Before it is that, it is another process of its minder's.
        let is_it = |pid: &u32| {
            std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with(b"600\0"))
        };
        if let Some(client) = processes(&vm, &number).1.into_iter().find(is_it) {
            break client;
        }
        assert!(begun.elapsed() < PROMPT);
    };
    Vm::signal(client, "-STOP");
    let out = vm.towpath(&["jobs", "end", "--now", &number]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let job = job(&vm, &number);
    assert_eq!((&job["state"], &job["status"]), (&"ended".into(), &130.into()), "{job}");
    // Its number is not given to another one.
    assert!(vm.towpath(&["jobs", "forget", &number]).status.success());
    assert_eq!(begin(&vm, &["farm", "--detach", "true"], ""), "2");
}

#[test]
fn a_farm_waits_for_the_daemon_that_served_it() {
    let vm = Vm::up(1);
    let script = "until [ -e go ]; do sleep 0.05; done; echo item $1";
    let number = begin(&vm, &["farm", "--detach", "sh", "-c", script, "sh"], "1\n2\n3\n");
    until(&vm, &number, |job| job["state"] == "runs");
    let holder = towpath::lock::Holder::of(&vm.vm_dir().host(1)).unwrap();
    if let Some(guard) = holder.guard() {
        guard.kill();
    }
    holder.kill();
    until(&vm, &number, |job| job["state"] == "waits");
    assert!(vm.towpath(&["up"]).status.success());
    until(&vm, &number, |job| job["state"] == "runs");
    std::fs::write(vm.file("go"), "").unwrap();
    let out = vm.towpath(&["attach", &number]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let expected: BTreeMap<String, u32> = (1..=3).map(|i| (format!("item {i}"), 1)).collect();
    assert_eq!(counted(&out.stdout), expected);
    assert!(text(&out.stderr).contains("no daemon of this machine answers"));
}

#[test]
fn a_command_runs_by_itself_and_ends_when_it_is_told_to() {
    let vm = Vm::up(1);
    let number = begin(&vm, &["run", "--detach", "--", "sh", "-c", "echo one; exit 3"], "");
    let out = vm.towpath(&["attach", &number]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(3), "one\n".into()));
    let mark = vm.file("mark").display().to_string();
    std::fs::write(&mark, "").unwrap();
    let long = ["run", "--detach", "--", "tail", "-f", &mark];
    let number = begin(&vm, &long, "");
    let begun = Instant::now();
    while processes_with(&mark).len() < 2 {
        assert!(begun.elapsed() < PROMPT, "the client and its task run");
    }
    let out = vm.towpath(&["jobs", "forget", &number]);
    assert!(text(&out.stderr).contains("has not ended"), "{}", text(&out.stderr));
    let out = vm.towpath(&["jobs", "end", &number]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let told = job(&vm, &number);
    assert_eq!(told["state"], "ended", "{told}");
    let out = vm.towpath(&["jobs", "end", &number]);
    assert!(text(&out.stderr).contains("does not run"), "{}", text(&out.stderr));
    let out = vm.towpath(&["jobs", "again", &number]);
    assert!(text(&out.stderr).contains("only a farm can"), "{}", text(&out.stderr));
    // The machine goes down, and nobody said that this is to end.
    let number = begin(&vm, &long, "");
    let begun = Instant::now();
    while processes_with(&mark).len() < 2 {
        assert!(begun.elapsed() < PROMPT, "the client and its task run");
    }
    Vm::signal(processes(&vm, &number).0, "-TERM");
    until(&vm, &number, |job| job["state"] == "interrupted");
    let out = vm.towpath(&["attach", &number]);
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("not known how its command ended"));
    for (args, said) in [
        (&["attach", "77"][..], "no job 77"),
        (&["jobs", "end", "77"], "no job 77"),
        (&["farm", "--detach", "--joblog", "x", "true", ":::", "1"], "cannot be used"),
        (&["farm", "--detach", "true", "::::", "/nonexistent"], "/nonexistent"),
    ] {
        let out = vm.towpath(args);
        assert_eq!(out.status.code(), Some(255), "{args:?}");
        assert!(text(&out.stderr).contains(said), "{args:?}: {}", text(&out.stderr));
    }
}

#[test]
fn of_what_is_printed_the_end_is_kept_within_the_bound() {
    let vm = Vm::up(1);
    let script = "head -c 20000 /dev/zero | tr '\\0' x; echo; echo item $1";
    let farm = ["farm", "--detach", "-k", "--keep-output", "64KiB", "sh", "-c", script, "sh", "{}"];
    let items = items(40);
    let number = begin(&vm, &farm, &items);
    until(&vm, &number, |job| job["state"] == "ended");
    let out = vm.towpath(&["attach", &number]);
    assert_eq!(out.status.code(), Some(0));
    assert!(text(&out.stdout).ends_with("x\nitem 40\n"));
    assert!(text(&out.stderr).contains("before this were not kept"), "{}", text(&out.stderr));
    let files = std::fs::read_dir(dir(&vm, &number).join("out")).unwrap();
    let kept: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!((40_000..=65_536).contains(&kept), "{kept} bytes");
    // A job's directory is nobody else's.
    let mode = std::fs::metadata(dir(&vm, &number)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}
