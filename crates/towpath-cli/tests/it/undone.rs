//! What is begun and not wanted any more is undone, and what cannot be kept is said.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, getrlimit, prlimit};
use towpath::lock::is_locked;

use crate::support::{PROMPT, Vm, processes_with, text};

/// Waits until it is so.
fn until(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < PROMPT, "it does not come to be so");
        std::thread::yield_now();
    }
}

/// The state of a process, as `ps` writes it; of one that has gone, nothing.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn parent(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}

fn start(vm: &Vm, args: &[&str]) -> Child {
    vm.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn token(vm: &Vm) -> String {
    text(&vm.towpath(&["token"]).stdout).trim().to_string()
}

#[test]
fn a_join_that_is_interrupted_leaves_no_daemon() {
    let (vm, newcomer) = (Vm::up(1), Vm::new());
    let (token, founder) = (token(&vm), vm.pid(1));
    // It hears of nobody for as long as it waits.
    Vm::signal(founder, "-STOP");
    let dir = newcomer.vm_dir().host(1);
    for signal in ["-INT", "-TERM"] {
        let join = start(&newcomer, &["join", &token]);
        until(|| is_locked(&dir));
        Vm::signal(join.id(), signal);
        let out = join.wait_with_output().unwrap();
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(130), "{said}");
        assert!(said.contains("interrupted: what was being started is ended"), "{said}");
        assert!(!is_locked(&dir), "its daemon runs on");
    }
    Vm::signal(founder, "-CONT");
    let out = newcomer.towpath(&["join", &token]);
    assert!(out.status.success(), "{}", text(&out.stderr));
}

#[test]
fn an_up_that_is_interrupted_leaves_no_daemon() {
    let vm = Vm::new();
    let up = start(&vm, &["up", "--hosts", "250"]);
    until(|| is_locked(&vm.vm_dir().host(2)));
    Vm::signal(up.id(), "-INT");
    let out = up.wait_with_output().unwrap();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted: ") && !said.contains("hosts up"), "{said}");
    assert!((1..=250).all(|n| !is_locked(&vm.vm_dir().host(n))), "a daemon runs on");
}

#[test]
fn a_token_of_another_virtual_machine_is_refused_under_a_name_that_is_taken() {
    let (one, other, newcomer) = (Vm::up(1), Vm::up(1), Vm::new());
    let join = |args: &[&str]| newcomer.towpath(&[&["join"], args].concat());
    let out = join(&[&token(&one)]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let theirs = token(&other);
    let refused = |out: std::process::Output, words: &str| {
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(255), "{said}");
        assert!(said.contains(words) && said.contains("hint: ") && said.contains("--vm NAME"));
    };
    refused(join(&[&theirs]), "`default` runs on this machine, and the token is of another one");
    // Its own again is no other one.
    let out = join(&[&token(&one)]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let out = join(&["--vm", "second", &theirs]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(newcomer.towpath(&["--vm", "second", "down"]).status.success());
    // A founder that was killed, and whose hosts wait for it.
    let founder = other.pid(1);
    Vm::signal(founder, "-KILL");
    until(|| !is_locked(&other.vm_dir().host(1)));
    refused(
        other.towpath(&["join", &token(&one)]),
        "`default` was founded, does not run now and is kept on this machine",
    );
}

#[test]
fn a_token_that_cannot_be_kept_is_said_to_be_one() {
    let vm = Vm::up(1);
    let quiet = vm.towpath(&["token"]);
    assert!(!text(&quiet.stderr).contains("warning"), "{}", text(&quiet.stderr));
    // As on a full disk: nothing new can be made there.
    let blocked = vm.vm_dir().host(1).join("tokens.new");
    std::fs::create_dir(&blocked).unwrap();
    let out = vm.towpath(&["token"]);
    let said = text(&out.stderr);
    assert!(out.status.success() && text(&out.stdout).starts_with("tow2-"), "{said}");
    assert!(said.contains("is not written down") && said.contains("hint: make room"), "{said}");
    let json = vm.towpath(&["token", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(told["trouble"].as_array().unwrap().len(), 1, "{told}");
    std::fs::remove_dir(&blocked).unwrap();
}

#[test]
fn a_guard_that_is_stopped_ends_with_down() {
    let vm = Vm::up(1);
    let guard = parent(vm.pid(1));
    Vm::signal(guard, "-STOP");
    until(|| state(guard) == Some('T'));
    let out = vm.towpath(&["down"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(matches!(state(guard), None | Some('Z')), "{:?}", state(guard));
    // Also where its engine was killed before: that has nobody who asks about it.
    let out = vm.towpath(&["up"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let (engine, dir) = (vm.pid(1), vm.vm_dir().host(1));
    let guard = parent(engine);
    Vm::signal(guard, "-STOP");
    until(|| state(guard) == Some('T'));
    Vm::signal(engine, "-KILL");
    until(|| !is_locked(&dir));
    assert!(vm.towpath(&["down"]).status.success());
    assert!(matches!(state(guard), None | Some('Z')), "{:?}", state(guard));
}

#[test]
fn run_ends_soon_while_its_host_does_not_answer() {
    let vm = Vm::new();
    let out = vm.towpath(&["up", "--hosts", "2", "--lost-after-ms", "600000"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let script = "echo ready; exec tail -f /dev/null";
    let mut run = start(&vm, &["run", "--host", "h2", "--", "sh", "-c", script]);
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let far = vm.pid(2);
    Vm::signal(far, "-STOP");
    let begin = Instant::now();
    Vm::signal(run.id(), "-TERM");
    let out = run.wait_with_output().unwrap();
    let took = begin.elapsed();
    Vm::signal(far, "-CONT");
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(255), "{said}");
    assert!(said.contains("does not answer: left with 1 task there") && took < PROMPT, "{said}");
    // One that answers has its task end as that wants to.
    let script = "trap 'sleep 2; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let mut run = start(&vm, &["run", "--host", "h2", "--", "sh", "-c", script]);
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Vm::signal(run.id(), "-TERM");
    let out = run.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(7), "{}", text(&out.stderr));
}

/// Lets a process open nothing more; gives what undoes that.
fn without_descriptors(pid: u32) -> impl FnOnce() {
    let pid = Pid::from_raw(pid.cast_signed());
    let before = getrlimit(Resource::Nofile);
    let mut none = before;
    none.current = Some(3);
    let own = prlimit(pid, Resource::Nofile, none).unwrap();
    move || {
        prlimit(pid, Resource::Nofile, own).unwrap();
    }
}

#[test]
fn items_of_a_host_without_descriptors_run_elsewhere_and_it_is_named() {
    let vm = Vm::up(2);
    let again = without_descriptors(vm.pid(2));
    let items: Vec<u8> = (1..=40).flat_map(|i| format!("{i}\n").into_bytes()).collect();
    // It cannot even say so itself to who asks it.
    let dir = vm.vm_dir().host(2);
    let asked = towpath::Client::connect(&dir.join("sock")).unwrap().info().unwrap_err();
    assert!(asked.to_string().contains("its limit is 3"), "{asked}");
    let begin = Instant::now();
    let out = vm.with_input(&["farm", "-k", "echo", "{}"], &items);
    let took = begin.elapsed();
    again();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(out.stdout == items, "{}", text(&out.stdout));
    assert!(took < PROMPT, "{took:?}");
    assert_eq!(said.matches("has no room at the moment").count(), 1, "{said}");
    assert!(said.contains("daemon has none of its 3 descriptors left"), "{said}");
}

/// A farm whose command does not heed SIGTERM, once that runs.
fn stubborn(vm: &Vm, mark: &Path) -> (Child, BufReader<std::process::ChildStderr>) {
    std::fs::write(mark, "").unwrap();
    let script = format!("trap '' TERM; exec tail -f {}", mark.display());
    let mut farm = start(vm, &["farm", "sh", "-c", &script, "sh", ":::", "a", "b"]);
    let runs = format!("tail -f {}", mark.display());
    until(|| processes_with(&runs).iter().any(|(_, line)| line.starts_with("tail")));
    let said = BufReader::new(farm.stderr.take().unwrap());
    (farm, said)
}

#[test]
fn a_farm_whose_commands_ignore_sigterm_ends_all_the_same() {
    let vm = Vm::up(1);
    for interrupts in [1, 2] {
        let mark = vm.file(&format!("mark{interrupts}"));
        let (mut farm, mut said) = stubborn(&vm, &mark);
        let begin = Instant::now();
        for _ in 0..interrupts {
            Vm::signal(farm.id(), "-INT");
            // Signals of one kind that come before one was looked at count once.
            let mut line = String::new();
            while interrupts > 1 && !line.starts_with("interrupted: ") && line.is_empty() {
                said.read_line(&mut line).unwrap();
            }
        }
        let status = farm.wait().unwrap();
        assert_eq!(status.code(), Some(130));
        if interrupts > 1 {
            assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
        }
        until(|| processes_with(&format!("tail -f {}", mark.display())).is_empty());
        assert!(begin.elapsed() < PROMPT, "{:?}", begin.elapsed());
    }
}
