//! Hosts on loopback: up, hosts, ps, run, down, tokens, and what goes wrong with them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::support::{PROMPT, Vm, fifo, processes_with, text, wait_for, watch};
use towpath::protocol::HostEvent;

#[test]
fn three_hosts_come_up_are_listed_and_go_down() {
    let vm = Vm::up(3);
    let out = vm.towpath(&["hosts", "--json"]);
    let list: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let hosts = list["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 3);
    assert!(hosts.iter().all(|h| h["state"] == "up" && h["pid"].as_u64().is_some()), "{list}");
    assert_eq!(hosts.iter().filter(|h| h["leader"] == true).count(), 1);
    let mark = vm.dir.path().to_str().unwrap().to_string();
    assert!(vm.towpath(&["down"]).status.success());
    let out = vm.towpath(&["hosts"]);
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("hint: start it with `towpath up`"));
    assert_eq!(processes_with(&mark), []);
}

#[test]
fn a_command_runs_on_the_host_with_its_arguments_variables_and_directory() {
    let vm = Vm::up(2);
    let script = "echo out:$1:$COLOUR:$(pwd); echo err >&2; exit 7";
    let args = ["run", "--host", "h2", "--env", "COLOUR=blue", "--workdir", "/usr", "--"];
    let out = vm.towpath(&[&args[..], &["sh", "-c", script, "sh", "a b"]].concat());
    assert_eq!(text(&out.stdout), "out:a b:blue:/usr\n");
    assert_eq!(text(&out.stderr), "err\n");
    assert_eq!(out.status.code(), Some(7));
}

#[test]
fn exit_statuses_follow_the_shell() {
    let vm = Vm::up(1);
    let status = |args: &[&str]| vm.towpath(&[&["run"], args].concat()).status.code();
    assert_eq!(status(&["--", "sh", "-c", "kill -9 $$"]), Some(137));
    assert_eq!(status(&["--timeout", "200ms", "--", "tail", "-f", "/dev/null"]), Some(124));
    assert_eq!(status(&["--", "no-such-program-here"]), Some(127));
    assert_eq!(status(&["--", "/etc/passwd"]), Some(126));
    assert_eq!(status(&["--host", "h9", "--", "true"]), Some(255));
    // A working directory is not taken for the program.
    for (folder, code) in [("/nowhere/at/all", 127), ("/etc/passwd", 126)] {
        let out = vm.towpath(&["run", "--workdir", folder, "--", "true"]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{said}");
        assert!(said.contains(&format!("working directory {folder}: ")), "{said}");
    }
}

#[test]
fn long_output_arrives_whole() {
    let vm = Vm::up(2);
    let script = "i=0; while [ $i -lt 200 ]; do head -c 100000 /dev/zero; i=$((i+1)); done";
    let out = vm.towpath(&["run", "--host", "h2", "--", "sh", "-c", script]);
    assert_eq!(out.stdout.len(), 20_000_000);
    assert!(out.stdout.iter().all(|b| *b == 0));
}

#[test]
fn ps_shows_what_runs_and_a_client_that_goes_away_takes_its_task_along() {
    let vm = Vm::up(2);
    let (started, ended) = (vm.file("started"), vm.file("ended"));
    fifo(&started);
    fifo(&ended);
    let script = format!(
        "trap 'echo gone > {}; exit' TERM; echo $$ > {}; \
         while :; do tail -f /dev/null & wait; done",
        ended.display(),
        started.display()
    );
    let mut run = vm.command(&["run", "--host", "h2", "--", "sh", "-c", &script]).spawn().unwrap();
    let pid = std::fs::read_to_string(&started).unwrap();
    // The task may speak before its daemon has seen it run.
    let begun = Instant::now();
    let shown = |ps: &str| ps.contains(pid.trim()) && ps.contains("h2");
    let mut ps = text(&vm.towpath(&["ps"]).stdout);
    while !shown(&ps) && begun.elapsed() < PROMPT {
        ps = text(&vm.towpath(&["ps"]).stdout);
    }
    assert!(shown(&ps), "{ps}");
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(std::fs::read_to_string(&ended).unwrap(), "gone\n");
}

#[test]
fn a_killed_daemon_is_known_within_seconds_and_leaves_no_process() {
    let vm = Vm::up(3);
    let mut client = watch(&vm, 1);
    let started = vm.file("started");
    fifo(&started);
    // A task that leaves its group and session, and one that ignores polite signals.
    let script = format!(
        "trap '' TERM; setsid tail -f {mark} & echo $$ > {}; tail -f {mark}; :",
        started.display(),
        mark = vm.file("towpath-mark").display()
    );
    std::fs::write(vm.file("towpath-mark"), "").unwrap();
    let mut run = vm.command(&["run", "--host", "h3", "--", "sh", "-c", &script]);
    let run = run.stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::fs::read_to_string(&started).unwrap();
    let begin = Instant::now();
    Vm::signal(vm.pid(3), "-KILL");
    assert!(wait_for(&mut client, |e| matches!(e, HostEvent::Lost(id) if id.slot() == 3)));
    let known = begin.elapsed();
    assert!(known < PROMPT, "lost after {known:?}");
    let out = run.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("host lost"), "{}", text(&out.stderr));
    let mark = vm.file("towpath-mark");
    let left = processes_with(&format!("tail -f {}", mark.display()));
    assert!(left.is_empty(), "{left:?}");
    let hosts = text(&vm.towpath(&["hosts"]).stdout);
    assert!(hosts.contains("lost"), "{hosts}");
}

/// When the loss of a killed daemon's host is known to those who watch: by the word of its guard,
/// long before a silent host is lost. Prints figures.
#[test]
fn a_killed_daemon_is_known_by_the_word_of_its_guard() {
    for lost_after_ms in ["200", "60000"] {
        let vm = Vm::new();
        // One that decides alone: of three that vote, two that are killed one after the other would
        // leave one that decides nothing.
        let up = ["up", "--hosts", "4", "--voters", "1", "--lost-after-ms", lost_after_ms];
        let up = vm.towpath(&up);
        assert!(up.status.success(), "{}", text(&up.stderr));
        let mut client = watch(&vm, 1);
        let mut took = Vec::new();
        for host in 2..=4 {
            let started = vm.file("started");
            fifo(&started);
            let script = format!("echo > {}; exec cat", started.display());
            let name = format!("h{host}");
            // Somebody depends on the host: one that nobody depends on is asked seldom.
            let mut run = vm.command(&["run", "--host", &name, "--", "sh", "-c", &script]);
            let mut run = run.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            std::fs::read_to_string(&started).unwrap();
            std::fs::remove_file(&started).unwrap();
            let begin = Instant::now();
            Vm::signal(vm.pid(host), "-KILL");
            let lost =
                |e: &HostEvent| matches!(e, HostEvent::Lost(id) if usize::from(id.slot()) == host);
            assert!(wait_for(&mut client, lost), "{name} is not lost");
            took.push(begin.elapsed());
            assert_eq!(run.wait().unwrap().code(), Some(255));
        }
        took.sort_unstable();
        println!("--lost-after-ms {lost_after_ms}: a killed daemon's host known after {took:?}");
    }
}

/// Stops a process, and waits until it is.
fn stop(pid: u32) {
    Vm::signal(pid, "-STOP");
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !stat().rsplit(')').next().unwrap().starts_with(" T") {
        std::thread::yield_now();
    }
}

#[test]
fn a_stopped_daemon_is_named_holds_nobody_up_and_goes_down_with_the_others() {
    let vm = Vm::up(3);
    let (first, second) = (vm.pid(1), vm.pid(2));
    stop(second);
    let out = vm.towpath(&["hosts", "--json"]);
    assert!(out.status.success());
    let list: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    // The others were asked who they are, this one was not.
    let asked = list["hosts"].as_array().unwrap().iter().filter(|h| !h["pid"].is_null());
    assert_eq!(asked.count(), 2);
    let said = text(&out.stderr);
    assert!(said.starts_with(&format!("daemon 2 (process {second}, h2")), "{said}");
    let hint = format!("is stopped\nhint: `kill -CONT {second}`");
    assert!(said.matches("is stopped").count() == 1 && said.contains(&hint), "{said}");
    // The next one is asked where the first one is stopped, and nobody where all are.
    stop(first);
    assert!(vm.towpath(&["hosts"]).status.success());
    let said = text(&vm.towpath(&["host", "delete", "h3"]).stderr);
    assert!(said.contains(&format!("daemon 1 (process {first}")), "{said}");
    stop(vm.pid(3));
    let out = vm.towpath(&["run", "--", "true"]);
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("daemon 1 (process"), "{}", text(&out.stderr));

    let out = vm.towpath(&["down", "--json"]);
    let down: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let wanted = serde_json::json!({
        "vm": "default", "ended": 3, "killed": 0, "deleted": 0, "left": [],
    });
    assert_eq!((down, out.status.code()), (wanted, Some(0)));
    assert_eq!(processes_with(vm.dir.path().to_str().unwrap()), []);
}

#[test]
fn the_leader_killed_freezes_changes_but_not_traffic() {
    let vm = Vm::up(3);
    let mut client = watch(&vm, 2);
    Vm::signal(vm.pid(1), "-KILL");
    assert!(wait_for(&mut client, |e| matches!(e, HostEvent::LeaderLost(_))));
    let out = vm.towpath(&["run", "--host", "h3", "--", "echo", "still here"]);
    assert_eq!(text(&out.stdout), "still here\n");
    let out = vm.towpath(&["token"]);
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("hint:"), "{}", text(&out.stderr));
}

#[test]
fn a_second_up_and_a_port_in_use_say_what_to_do() {
    let vm = Vm::up(1);
    let out = vm.towpath(&["up"]);
    assert_eq!(out.status.code(), Some(255));
    let said = text(&out.stderr);
    assert!(said.contains("is up already") && said.contains("hint:"), "{said}");

    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let other = Vm::new();
    let out = other.towpath(&["up", "--listen", &addr]);
    assert_eq!(out.status.code(), Some(255));
    let said = text(&out.stderr);
    assert!(said.contains(&addr) && said.contains("hint: the port is in use"), "{said}");
    let out = other.towpath(&["up", "--listen", &addr, "--listen", &addr]);
    let said = text(&out.stderr);
    assert!(said.contains(&format!("{addr} is given twice")) && !said.contains("in use"), "{said}");
    let mark = other.dir.path().to_str().unwrap().to_string();
    assert_eq!(processes_with(&mark), []);
}

#[test]
fn a_usage_line_has_no_options_that_only_the_environment_sets() {
    let vm = Vm::new();
    let usage = |command: &mut Command| {
        let out = command.output().unwrap();
        assert_eq!(out.status.code(), Some(255));
        let said = text(&out.stderr);
        said.lines().find(|line| line.starts_with("Usage: ")).unwrap().to_string()
    };
    for args in [&["host", "add"][..], &["run"], &["kill"], &["nonesuch"], &["ps", "--nonesuch"]] {
        let bare = usage(&mut vm.command(args));
        let set = usage(vm.command(args).env("TOWPATH_VM", "foo").env("TOWPATH_SSH", "rsh"));
        assert_eq!(bare, set);
        assert!(!set.contains("--"), "{set}");
    }
    let line = usage(&mut vm.command(&["host", "add"]));
    assert_eq!(line, "Usage: towpath host add [OPTIONS] [NAME]...");
}

#[test]
fn tokens_admit_and_stale_wrong_or_damaged_ones_do_not() {
    let (vm, newcomer, stranger) = (Vm::up(1), Vm::new(), Vm::up(1));
    let token = |vm: &Vm, ttl: &str| text(&vm.towpath(&["token", "--ttl", ttl]).stdout);

    let good = token(&vm, "60");
    let out = newcomer.with_input(&["join", "-"], good.as_bytes());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let out = newcomer.towpath(&["run", "--host", "h1", "--", "echo", "from afar"]);
    assert_eq!(text(&out.stdout), "from afar\n");

    // A token that was over before it was used.
    let stale = vm.with_input(&["join", "-"], expired(&good).as_bytes());
    assert_eq!(stale.status.code(), Some(255));
    // Its secret belongs to another expiry, so it is a wrong key, and says so promptly.
    assert!(text(&stale.stderr).contains("hint:"), "{}", text(&stale.stderr));

    // Who is part of none yet.
    let late = Vm::new();
    let mixed = with_addr_of(&token(&stranger, "60"), &good);
    let begin = Instant::now();
    let wrong = late.with_input(&["join", "-"], mixed.as_bytes());
    assert_eq!(wrong.status.code(), Some(255));
    assert!(text(&wrong.stderr).contains("hint:"), "{}", text(&wrong.stderr));
    assert!(begin.elapsed() < PROMPT);

    // Nobody receives where the founder was.
    let gone = Vm::up(1);
    let old = token(&gone, "60");
    assert!(gone.towpath(&["down"]).status.success());
    let out = late.with_input(&["join", "-"], old.as_bytes());
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("nobody receives at 127.0.0.1:"), "{}", text(&out.stderr));
    // Somebody else does, who answers no stranger: the wait is told.
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut silent: towpath::Token = old.parse().unwrap();
    silent.leaders[0].addrs = vec![other.local_addr().unwrap()];
    let out = late.with_input(&["join", "-"], silent.to_string().as_bytes());
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("no answer within 5 s"), "{}", text(&out.stderr));

    let damaged = newcomer.towpath(&["join", &good.trim()[..60]]);
    assert!(text(&damaged.stderr).contains("damaged"), "{}", text(&damaged.stderr));
    assert_eq!(text(&vm.towpath(&["hosts"]).stdout).matches(" up").count(), 2);
}

/// The same token with its expiry moved to the past: its secret no longer fits.
fn expired(token: &str) -> String {
    let mut t: towpath::Token = token.parse().unwrap();
    t.invitation.expiry_unix_s = 1;
    t.to_string()
}

/// A token of one virtual machine pointed at another's founder.
fn with_addr_of(token: &str, other: &str) -> String {
    let mut t: towpath::Token = token.parse().unwrap();
    let other: towpath::Token = other.parse().unwrap();
    t.leaders = other.leaders;
    t.to_string()
}

#[test]
fn interrupting_a_run_interrupts_the_command() {
    let vm = Vm::up(2);
    let script =
        "trap 'echo caught; exit 5' INT; echo ready; while :; do tail -f /dev/null & wait; done";
    let mut run = vm.command(&["run", "--host", "h2", "--", "sh", "-c", script]);
    let mut run = run.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    Vm::signal(run.id(), "-INT");
    assert_eq!(lines.next().unwrap().unwrap(), "caught");
    assert_eq!(run.wait().unwrap().code(), Some(5));
}

#[test]
fn logs_show_what_daemons_say_now_and_later() {
    let vm = Vm::up(2);
    let both = text(&vm.towpath(&["logs"]).stdout);
    assert!(both.contains("[daemon 1] ") && both.contains("[daemon 2] "), "{both}");
    let mut follow = vm.command(&["logs", "--host", "h1", "-f"]);
    let mut follow = follow.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|l| l.contains("joined as h1") && !l.starts_with('[')));
    assert!(vm.towpath(&["host", "delete", "h2"]).status.success());
    assert!(lines.any(|l| l.contains("host h2") && l.contains("left")));
    Vm::signal(follow.id(), "-INT");
    assert!(follow.wait().unwrap().success());
    let out = vm.towpath(&["logs", "--host", "h9"]);
    assert!(text(&out.stderr).contains("no host `h9`"), "{}", text(&out.stderr));
}

#[test]
fn a_host_that_receives_at_two_addresses_is_joined_and_reached_by_either() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        println!("left out: this machine has no IPv6");
        return;
    }
    let vm = Vm::new();
    let two = ["--listen", "127.0.0.1:0", "--listen", "[::1]:0"];
    let ok = |args: &[&str]| {
        let out = vm.towpath(args);
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
        text(&out.stdout)
    };
    ok(&[&["up"], &two[..]].concat());
    let token = ok(&["token"]);
    // Hosts of one family each, and one of both: the founder has a way to all of them.
    ok(&["join", token.trim(), "--listen", "[::1]:0", "--name", "six"]);
    ok(&["join", token.trim(), "--listen", "127.0.0.1:0", "--name", "four"]);
    let both = ["join", token.trim(), "--name", "both", "--json"];
    let both = [&both[..], &["--listen", "[::1]:0", "--listen", "127.0.0.1:0"]].concat();
    let both: serde_json::Value = serde_json::from_str(&ok(&both)).unwrap();
    let hosts: serde_json::Value = serde_json::from_str(&ok(&["hosts", "--json"])).unwrap();
    let known = hosts["hosts"].as_array().unwrap().iter().find(|h| h["name"] == "both");
    assert_eq!(both["hosts"][0]["addr"], known.unwrap()["addr"], "it says where it is reached");
    for host in hosts["hosts"].as_array().unwrap() {
        let addr: std::net::SocketAddr = host["addr"].as_str().unwrap().parse().unwrap();
        assert_eq!(addr.is_ipv6(), host["name"] == "six", "{host}");
        assert!(addr.ip().is_loopback() && addr.port() != 0, "{host}");
    }
    for name in ["six", "four", "both"] {
        assert_eq!(ok(&["run", "--host", name, "--", "echo", name]), format!("{name}\n"));
    }
    // The table has an address of `both` that a host of the other family cannot reach.
    let other = Vm::new();
    let out = other.towpath(&["join", token.trim(), "--listen", "[::1]:0"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let out = other.towpath(&["run", "--host", "both", "--", "echo", "across"]);
    assert_eq!(text(&out.stdout), "across\n", "{}", text(&out.stderr));
}

#[test]
fn too_many_addresses_are_refused() {
    let vm = Vm::new();
    let listen = ["--listen", "127.0.0.1:0"].repeat(9);
    let out = vm.towpath(&[&["up"], &listen[..]].concat());
    assert_eq!(out.status.code(), Some(255));
    let said = text(&out.stderr);
    assert!(said.contains("9 addresses to receive at, limits 1 and 8"), "{said}");
}
