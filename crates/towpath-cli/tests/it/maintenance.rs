//! Hosts that are seen to while everything else goes on: drained, taken out, silent for a while.
//! Real processes on loopback.

use std::process::Stdio;
use std::time::Instant;

use towpath::protocol::{HostEvent, Request};

use crate::support::{PROMPT, Vm, fifo, text, wait_for, watch};

fn json(vm: &Vm, args: &[&str]) -> serde_json::Value {
    let out = vm.towpath(args);
    serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", text(&out.stderr)))
}

#[test]
fn a_drained_host_ends_what_it_has_and_is_given_nothing_new() {
    let vm = Vm::up(3);
    let (started, goes) = (vm.file("started"), vm.file("goes"));
    fifo(&started);
    fifo(&goes);
    let script = format!("echo > {}; read line < {}", started.display(), goes.display());
    let run = vm.command(&["run", "--host", "h2", "--", "sh", "-c", &script]).spawn().unwrap();
    std::fs::read_to_string(&started).unwrap();
    let out = vm.towpath(&["host", "drain", "h2", "--timeout", "300ms"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("is drained; still 1 task there"), "{said}");
    let hosts = text(&vm.towpath(&["hosts"]).stdout);
    assert!(hosts.lines().any(|l| l.starts_with("h2") && l.contains("drained")), "{hosts}");
    let status = json(&vm, &["status", "--json"]);
    assert_eq!(status["hosts"]["drained"].as_array().unwrap().len(), 1, "{status}");
    let out = vm.towpath(&["run", "--host", "h2", "--", "true"]);
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("--undo"), "{}", text(&out.stderr));
    let out = json(&vm, &["run", "--json", "-n", "8", "--", "true"]);
    let ran = out.to_string();
    assert!(ran.contains("h1") && ran.contains("h3") && !ran.contains("\"h2"), "{ran}");
    // What ran there was not touched.
    std::fs::write(&goes, "on\n").unwrap();
    assert!(run.wait_with_output().unwrap().status.success());
    let out = vm.towpath(&["host", "drain", "h2"]);
    let said = text(&out.stderr);
    assert!(out.status.success() && said.contains("nothing runs there"), "{said}");
    let out = vm.towpath(&["host", "drain", "h2", "--undo"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(vm.towpath(&["run", "--host", "h2", "--", "true"]).status.success());
    let out = vm.towpath(&["host", "drain", "h9"]);
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("no host `h9`"), "{}", text(&out.stderr));
}

#[test]
fn a_leader_that_is_told_to_end_has_another_one_lead_first() {
    let vm = Vm::new();
    let out = vm.towpath(&["up", "--hosts", "4", "--voters", "3"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let begin = Instant::now();
    let bears = |vm: &Vm| json(vm, &["status", "--json"])["may_be_lost"].as_u64();
    while bears(&vm) != Some(1) {
        assert!(begin.elapsed() < PROMPT, "three keep the log");
    }
    let said = text(&vm.towpath(&["status"]).stdout);
    assert!(said.contains("h1.1") && said.contains("any 1 of"), "{said}");
    let mut client = watch(&vm, 4);
    let begin = Instant::now();
    vm.client(1).ask(&Request::Shutdown, PROMPT).unwrap();
    // Which of both is heard first is open: it ends as soon as it leads no longer.
    let (mut leads, mut lost) = (None, false);
    assert!(wait_for(&mut client, |e| {
        if matches!(e, HostEvent::LeaderBack(_)) {
            leads = Some(begin.elapsed());
        }
        lost |= matches!(e, HostEvent::Lost(id) if id.slot() == 1);
        lost && leads.is_some()
    }));
    println!("another one leads {leads:?} after the leader was told to end");
    let info = vm.client(4).info().unwrap();
    assert!(!info.frozen && info.leader.is_some_and(|id| id.slot() != 1), "{info:?}");
    // It is there again as one of the others, however politely it went.
    for how in ["a request", "SIGTERM"] {
        let out = vm.towpath(&["up"]);
        assert!(out.status.success(), "after {how}: {}", text(&out.stderr));
        let info = vm.client(1).info().unwrap();
        assert!(info.leader.is_some_and(|id| id.slot() != 1), "it follows: {info:?}");
        assert_eq!(json(&vm, &["status", "--json"])["hosts"]["up"].as_array().unwrap().len(), 4);
        Vm::signal(vm.pid(1), "-TERM");
        let begin = Instant::now();
        while towpath::lock::is_locked(&vm.vm_dir().host(1)) {
            assert!(begin.elapsed() < PROMPT, "it ends");
        }
    }
}

#[test]
fn a_daemon_that_stands_still_for_a_while_is_shown_as_silent_and_costs_nobody_a_task() {
    let vm = Vm::up(3);
    let mut client = watch(&vm, 1);
    let (started, goes) = (vm.file("started"), vm.file("goes"));
    fifo(&started);
    fifo(&goes);
    let script = format!("echo > {}; read line < {}", started.display(), goes.display());
    let mut run = vm.command(&["run", "--host", "h3", "--", "sh", "-c", &script]);
    let run = run.stderr(Stdio::piped()).spawn().unwrap();
    std::fs::read_to_string(&started).unwrap();
    let far = vm.pid(3);
    let begin = Instant::now();
    Vm::signal(far, "-STOP");
    assert!(wait_for(&mut client, |e| matches!(e, HostEvent::Silent(id) if id.slot() == 3)));
    println!("silent after {:?}", begin.elapsed());
    let hosts = text(&vm.towpath(&["hosts"]).stdout);
    assert!(hosts.lines().any(|l| l.starts_with("h3") && l.contains("silent")), "{hosts}");
    let status = vm.towpath(&["status"]);
    assert_eq!(status.status.code(), Some(1), "{}", text(&status.stderr));
    assert!(text(&status.stdout).contains("1 silent (h3"), "{}", text(&status.stdout));
    let out = vm.towpath(&["run", "-n", "6", "--", "echo", "here"]);
    assert_eq!(text(&out.stdout).matches("here").count(), 6, "{}", text(&out.stderr));
    Vm::signal(far, "-CONT");
    assert!(wait_for(&mut client, |e| matches!(e, HostEvent::Heard(id) if id.slot() == 3)));
    std::fs::write(&goes, "on\n").unwrap();
    let out = run.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
}

#[test]
fn machines_whose_hosts_were_ended_together_are_up_again_with_what_they_kept() {
    let all = [Vm::new(), Vm::new(), Vm::new()];
    let [founder, others @ ..] = &all;
    let works = |out: std::process::Output| assert!(out.status.success(), "{}", text(&out.stderr));
    works(founder.towpath(&["up"]));
    for vm in others {
        let token = text(&founder.towpath(&["token"]).stdout);
        works(vm.with_input(&["join", "-"], token.as_bytes()));
    }
    let three_vote = || {
        let begin = Instant::now();
        while founder.client(1).info().unwrap().voters.len() < 3 {
            assert!(begin.elapsed() < PROMPT, "three keep the log");
        }
    };
    three_vote();
    let pids = [&others[0], &others[1]].map(|vm| vm.pid(1));
    for pid in pids {
        Vm::signal(pid, "-TERM");
    }
    let begin = Instant::now();
    while others.iter().any(|vm| towpath::lock::is_locked(&vm.vm_dir().host(1))) {
        assert!(begin.elapsed() < PROMPT, "they end");
    }
    // It decides alone; they need no token, and begin no virtual machine of their own.
    works(founder.towpath(&["token"]));
    let leader = founder.client(1).info().unwrap().me;
    for vm in others {
        works(vm.towpath(&["up"]));
        assert_eq!(vm.client(1).info().unwrap().leader, leader, "the same virtual machine");
    }
    three_vote();
}

/// The other two may be gone for good: what it keeps may be all that is left.
#[test]
fn a_host_that_nobody_has_let_go_keeps_what_it_has_of_the_log() {
    let (first, second, last) = (Vm::up(1), Vm::new(), Vm::new());
    let token = text(&first.towpath(&["token"]).stdout);
    for vm in [&second, &last] {
        let out = vm.with_input(&["join", "-"], token.as_bytes());
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    first.three_vote();
    let dir = last.vm_dir().host(1);
    let kept = ["table", "vm.key", "control"].map(|name| dir.join(name));
    let begin = Instant::now();
    while !kept.iter().all(|path| path.exists()) {
        assert!(begin.elapsed() < PROMPT, "it keeps the log");
    }
    let others = [first.pid(1), second.pid(1)];
    for pid in others {
        Vm::signal(pid, "-STOP");
    }
    let out = last.towpath(&["down", "--local"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(kept.iter().all(|path| path.exists()), "nobody has let it go");
    for pid in others {
        Vm::signal(pid, "-CONT");
    }
}

/// Nothing else is decided meanwhile: what waited for the disk goes on when that takes something.
#[test]
fn those_that_were_to_vote_while_the_leaders_disk_was_full_do_once_it_is_not() {
    let vm = Vm::up(1);
    // As on a full disk: nothing new can be made there, once what is being written is.
    let blocked = vm.vm_dir().host(1).join("table.new");
    while std::fs::create_dir(&blocked).is_err() {}
    let token = text(&vm.towpath(&["token"]).stdout);
    for _ in 0..2 {
        let out = vm.with_input(&["join", "-"], token.as_bytes());
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    let voters = || vm.client(1).info().unwrap().voters.len();
    let begin = Instant::now();
    // As long as that takes elsewhere, and longer than the disk is tried again.
    while begin.elapsed() < std::time::Duration::from_secs(6) {
        assert!(voters() < 3, "they would not be known to a founder that starts again");
    }
    std::fs::remove_dir(&blocked).unwrap();
    vm.three_vote();
}

#[test]
fn a_host_that_starts_again_is_where_the_others_know_it() {
    let (first, second, third) = (Vm::new(), Vm::new(), Vm::new());
    let up = |vm: &Vm, args: &[&str]| {
        let out = vm.towpath(args);
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stderr) + &text(&out.stdout)
    };
    up(&first, &["up", "--listen", "127.0.0.7:0"]);
    let token = text(&first.towpath(&["token"]).stdout);
    for vm in [&second, &third] {
        up(vm, &["join", "--listen", "127.0.0.8:0", token.trim()]);
    }
    first.three_vote();
    Vm::signal(first.pid(1), "-KILL");
    let begin = Instant::now();
    // Its guard ends behind it.
    let said = loop {
        let out = first.towpath(&["up"]);
        if out.status.success() {
            break text(&out.stderr);
        }
        assert!(begin.elapsed() < PROMPT, "{}", text(&out.stderr));
    };
    assert!(said.contains("at 127.0.0.7, where the others know it"), "{said}");
    let listed = text(&first.towpath(&["hosts"]).stdout);
    assert!(listed.contains("127.0.0.7:") && listed.contains("127.0.0.8:"), "{listed}");
}
