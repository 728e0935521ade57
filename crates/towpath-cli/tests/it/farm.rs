//! The farm on real hosts: nothing lost, nothing twice, whatever dies.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Instant;

use crate::support::{PROMPT, Vm, fifo, processes_with, text};

fn numbers(n: usize) -> Vec<u8> {
    (1..=n).flat_map(|i| format!("{i}\n").into_bytes()).collect()
}

#[test]
fn output_in_order_is_the_serial_output() {
    let vm = Vm::up(3);
    let script = "echo start $1; head -c $(($1 * 400)) /dev/zero | tr '\\0' x; echo; echo end $1";
    let args = ["farm", "--keep-order", "--", "sh", "-c", script, "sh", "{}"];
    let farmed = vm.with_input(&args, &numbers(300));
    assert!(farmed.status.success(), "{}", text(&farmed.stderr));
    let item = |i: usize| format!("start {i}\n{}\nend {i}\n", "x".repeat(i * 400));
    let serial: Vec<String> = (1..=300).map(item).collect();
    assert!(farmed.stdout == serial.concat().as_bytes());
}

/// Kills host `victim` once half of `n` items are done; checks that each has one result.
fn half_way(victim: usize) {
    let vm = Vm::up(3);
    let n = 400;
    let joblog = vm.file("joblog");
    let report = vm.file("report.json");
    let script = "echo $1 >> ledger; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; echo item $1";
    let mut farm = vm
        .command(&["farm", "--joblog", joblog.to_str().unwrap(), "--report"])
        .args([report.to_str().unwrap(), "--", "sh", "-c", script, "sh", "{}"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = farm.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, &numbers(n)).unwrap();
    drop(stdin);
    let pid = vm.pid(victim);
    let mut lines = BufReader::new(farm.stdout.take().unwrap()).lines();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..n / 2 {
        *seen.entry(lines.next().unwrap().unwrap()).or_default() += 1;
    }
    Vm::signal(pid, "-KILL");
    for line in lines {
        *seen.entry(line.unwrap()).or_default() += 1;
    }
    let out = farm.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let expected: BTreeMap<String, u32> = (1..=n).map(|i| (format!("item {i}"), 1)).collect();
    assert_eq!(seen, expected, "one result per item");
    let log = std::fs::read_to_string(&joblog).unwrap();
    assert_eq!(log.lines().count(), n + 1, "one line per item and the heading");
    let ledger = std::fs::read_to_string(vm.file("ledger")).unwrap();
    let started = ledger.lines().count();
    let said: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    println!("{n} items started {started} times: {said}");
    assert_eq!(said["succeeded"], n);
    assert!(said["host_lost_reruns"].as_u64().unwrap() >= 1, "the victim had work: {said}");
    assert!(started >= n && started <= n + 100);
}

#[test]
fn a_worker_killed_half_way_costs_no_item() {
    half_way(3);
}

#[test]
fn the_leader_killed_half_way_costs_no_item() {
    // It is also the daemon that the farm talks to: the farm goes on through another.
    half_way(1);
}

#[test]
fn failures_are_counted_listed_and_given_back() {
    let vm = Vm::up(2);
    let args = ["farm", "--", "sh", "-c", "test $(($1 % 10)) -ne 0", "sh", "{}"];
    let out = vm.with_input(&args, &numbers(30));
    assert_eq!(out.status.code(), Some(3), "{}", text(&out.stderr));
    let out = vm.with_input(&["farm", "--", "false"], &numbers(150));
    assert_eq!(out.status.code(), Some(101));
}

#[test]
fn a_time_out_ends_an_item_and_what_it_started() {
    let vm = Vm::up(2);
    let begin = Instant::now();
    let mark = vm.file("timeout-mark");
    std::fs::write(&mark, "").unwrap();
    // Many that do not go politely: they are on their way out when their shell is gone.
    let script = format!(
        "i=0; while [ $i -lt 50 ]; do i=$((i+1)); (trap '' TERM; exec tail -f {}) & done; wait",
        mark.display()
    );
    let out =
        vm.towpath(&["farm", "--timeout", "300ms", "--", "sh", "-c", &script, ":::", "a", "b"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(begin.elapsed() < PROMPT);
    assert_eq!(processes_with(mark.to_str().unwrap()), []);
}

#[test]
fn resume_runs_only_what_has_not_succeeded() {
    let vm = Vm::up(2);
    let joblog = vm.file("joblog");
    let joblog = joblog.to_str().unwrap();
    let args = |flag: &'static [&'static str]| -> Vec<String> {
        let fixed = ["farm", "--joblog", joblog];
        let script = "echo $1 >> ran; test -e ready || test $1 -ne 5";
        let tail = ["--", "sh", "-c", script, "sh", "{}"];
        fixed.iter().chain(flag).chain(&tail).map(|s| (*s).to_string()).collect()
    };
    let run = |args: Vec<String>| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        vm.with_input(&args, &numbers(10)).status.code()
    };
    assert_eq!(run(args(&[])), Some(1));
    std::fs::write(vm.file("ready"), "").unwrap();
    assert_eq!(run(args(&["--resume"])), Some(0));
    let ran = std::fs::read_to_string(vm.file("ran")).unwrap();
    assert_eq!(ran.lines().count(), 11, "ten, then the one that had failed");
}

#[test]
fn nul_separated_input_and_odd_names_pass_unharmed() {
    let vm = Vm::up(2);
    let items: &[&[u8]] = &[b"a b", b"$(touch hacked)", b"new\nline", b"\xff\xfe", b"'\"\\"];
    let input = items.join(&0u8);
    let out = vm.with_input(&["farm", "-0", "-k", "--", "printf", "%s|", "{}"], &input);
    let mut expected = items.join(&b'|');
    expected.push(b'|');
    assert_eq!(out.stdout, expected, "{}", text(&out.stderr));
    assert!(!vm.file("hacked").exists());
}

#[test]
fn what_is_wrong_is_said_with_a_hint() {
    let vm = Vm::up(2);
    let says = |args: &[&str], what: &str| {
        let out = vm.with_input(args, b"1\n2\n");
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(255), "{args:?}: {said}");
        assert!(said.contains(what) && said.contains("hint:"), "{args:?}: {said}");
    };
    says(&["farm", "--arg-file", "/no/such/list", "--", "true"], "/no/such/list");
    says(&["farm", "--joblog", "/dev/full", "--", "true"], "/dev/full");
    says(&["farm", "--joblog", "/no/such/dir/log", "--", "true"], "/no/such/dir/log");
    says(&["farm", "--host", "h9", "--", "true"], "h9");
    let away = Vm::new();
    let out = away.with_input(&["farm", "--", "true"], b"1\n");
    assert!(text(&out.stderr).contains("hint: start it with `towpath up`"));
}

#[test]
fn a_program_absent_everywhere_ends_the_farm_promptly() {
    let vm = Vm::up(2);
    let begin = Instant::now();
    // More items than both hosts take at once: some are left when neither gets any more.
    let out = vm.with_input(&["farm", "--", "no-such-program-here", "{}"], &numbers(200));
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(255), "{said}");
    assert!(said.contains("no-such-program-here") && said.contains("hint:"), "{said}");
    assert!(begin.elapsed() < PROMPT);
}

#[test]
fn a_program_absent_on_some_hosts_runs_on_the_others() {
    let vm = Vm::up(3);
    let own = vm.file("own");
    std::fs::create_dir(&own).unwrap();
    let tool = own.join("tool");
    std::fs::write(&tool, "#!/bin/sh\necho ran $1\n").unwrap();
    let chmod = std::process::Command::new("chmod").arg("+x").arg(&tool).status().unwrap();
    assert!(chmod.success());
    // Hosts 1 to 3 cannot find the tool; the fourth, whose daemon has another PATH, can.
    let token = text(&vm.towpath(&["token"]).stdout);
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
    let rest = Vm::new();
    let mut join = rest.command(&["join", token.trim()]);
    assert!(join.env("PATH", path).output().unwrap().status.success());
    let mut farm = rest.command(&["farm", "-k", "--", "tool", "{}", ":::"]);
    let out = farm.args((1..=40).map(|i| i.to_string())).output().unwrap();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    let expected: Vec<String> = (1..=40).map(|i| format!("ran {i}\n")).collect();
    assert_eq!(text(&out.stdout), expected.concat());
    assert!(said.contains("could not be started"), "{said}");
}

#[test]
fn ctrl_c_ends_everything_and_says_how_far_it_came() {
    let vm = Vm::up(3);
    let (started, mark) = (vm.file("started"), vm.file("ctrl-c-mark"));
    fifo(&started);
    std::fs::write(&mark, "").unwrap();
    let script = format!("echo x > {}; tail -f {}", started.display(), mark.display());
    let mut farm = vm
        .command(&["farm", "--", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut farm.stdin.take().unwrap(), &numbers(50)).unwrap();
    let mut first = [0; 2];
    std::fs::File::open(&started).unwrap().read_exact(&mut first).unwrap();
    let begin = Instant::now();
    Vm::signal(farm.id(), "-INT");
    let out = farm.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130), "{}", text(&out.stderr));
    assert!(begin.elapsed() < PROMPT);
    assert_eq!(processes_with(mark.to_str().unwrap()), [], "nothing is left");
    let ps = text(&vm.towpath(&["ps"]).stdout);
    assert_eq!(ps.lines().count(), 1, "{ps}");
}

#[test]
fn a_thousand_short_items_go_fast() {
    // The full figure (10 000 items of one millisecond) is in the README; this guards against a
    // stall per item, on a machine that may be busy and in an unoptimised build.
    let vm = Vm::up(3);
    let begin = Instant::now();
    let out = vm.with_input(&["farm", "--", "true"], &numbers(1000));
    assert!(out.status.success(), "{}", text(&out.stderr));
    let rate = 1000.0 / begin.elapsed().as_secs_f64();
    println!("{rate:.0} items/s");
    assert!(rate > 50.0, "{rate:.0} items/s");
}

/// What `towpath farm` and GNU parallel make of the same words, each in the order of the items.
fn beside_parallel(vm: &Vm, args: &[&str], input: &[u8]) -> Option<(String, String)> {
    // A file: it writes before it has read all.
    std::fs::write(vm.file("input"), input).unwrap();
    let parallel = std::process::Command::new("parallel")
        .args(["--will-cite", "--keep-order"])
        .args(args)
        .current_dir(vm.dir.path())
        .env("HOME", vm.dir.path())
        .stdin(std::fs::File::open(vm.file("input")).unwrap())
        .output();
    let Ok(theirs) = parallel else {
        towpath_skip::skip("GNU parallel is not installed");
        return None;
    };
    let ours = vm.with_input(&[&["farm", "--keep-order"], args].concat(), input);
    assert_eq!(ours.status.code(), theirs.status.code(), "{args:?}: {}", text(&ours.stderr));
    Some((text(&ours.stdout), text(&theirs.stdout)))
}

#[test]
fn words_mean_what_they_mean_to_gnu_parallel() {
    // One host, so that -j1 is one at a time.
    let vm = Vm::up(1);
    std::fs::write(vm.file("one"), "p\nq\n").unwrap();
    std::fs::write(vm.file("two"), "r\ns\nt\n").unwrap();
    for args in [
        &["echo", "{}", ":::", "a", "b", ":::", "1", "2"][..],
        &["echo", "{2}", "x{1}y", ":::", "a", "b", ":::", "1", "2"],
        &["echo", ":::", "a", "b", ":::+", "1", "2", ":::", "x", "y"],
        &["echo", "{1/.}", "{2//}", "{-1/}", ":::", "d/a.txt", ":::", "e/f.c", "g"],
        &["echo", "{1}-{2}", "::::", "one", "two"],
        &["echo", "{1}-{2}", "::::", "one", "::::+", "two"],
        &["echo", "{1}-{2}", "::::", "one", ":::", "z"],
        &["-a", "one", "-a", "two", "echo", "{2}{1}"],
        &["-N", "2", "echo", "{1}+{2}", ":::", "1", "2", "3", "4", "5"],
        &["-N3", "echo", ":::", "1", "2", "3", "4"],
        &["-C", ",", "echo", "{3}{1}", ":::", "a,b,c", "d,e,f"],
        &["--colsep", "\\t", "echo", "{2}", ":::", "a\tb", "c\td"],
        &["--colsep", "\\|", "echo", "{2}", "{}", ":::", "a|b", "c|d"],
        &["--tag", "echo", "{2}", ":::", "a", ":::", "1", "2"],
        &["-j1", "--halt", "now,fail=1", "test", "{}", "!=", "3", ":::", "1", "2", "3", "4", "5"],
        &["-j1", "--halt", "soon,fail=2", "test", "{}", "-gt", "3", ":::", "1", "2", "3", "4"],
    ] {
        let Some((ours, theirs)) = beside_parallel(&vm, args, b"in\nput\n") else { return };
        assert_eq!(ours, theirs, "{args:?}");
    }
    let Some((ours, theirs)) = beside_parallel(&vm, &["echo", "{1}{#}"], b"in\nput\n") else {
        return;
    };
    assert_eq!(ours, theirs);
}

#[test]
fn input_in_blocks_is_that_of_gnu_parallel_and_survives_a_killed_host() {
    let vm = Vm::up(2);
    let input = numbers(100_000);
    for args in [&["--pipe", "--block", "50k", "cksum"][..], &["--pipe", "--block", "100K", "cat"]]
    {
        let Some((ours, theirs)) = beside_parallel(&vm, args, &input) else { break };
        assert!(ours == theirs, "{args:?}");
    }
    // What does not read its input is none the worse for it.
    let out = vm.with_input(&["farm", "--pipe", "--block", "100K", "--", "true"], &input);
    assert!(out.status.success(), "{}", text(&out.stderr));
    // Each block counts once, whatever becomes of a host.
    let script = "sleep 0.2; wc -l";
    let mut farm = vm
        .command(&["farm", "--pipe", "--block", "20k", "--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = farm.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, &input).unwrap();
    drop(stdin);
    let mut lines = BufReader::new(farm.stdout.take().unwrap()).lines();
    let count = |line: std::io::Result<String>| line.unwrap().trim().parse::<u64>().unwrap();
    let first = count(lines.next().unwrap());
    Vm::signal(vm.pid(2), "-KILL");
    let all: u64 = first + lines.map(count).sum::<u64>();
    assert_eq!((farm.wait().unwrap().code(), all), (Some(0), 100_000));
}

#[test]
fn results_are_where_gnu_parallel_puts_them() {
    let vm = Vm::up(1);
    let args = |dir| {
        let head = ["--results", dir, "sh", "-c"];
        [&head[..], &["'echo out; echo err >&2; exit 1'", ":::", "a/b", "c", ":::", "1"]].concat()
    };
    let ours = args("ours").iter().map(|word| word.trim_matches('\'')).collect::<Vec<_>>();
    let out = vm.towpath(&[&["farm"], &ours[..]].concat());
    assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(2), "out\nout\n"));
    let files = |dir: &str| -> BTreeMap<String, String> {
        let list = std::process::Command::new("find")
            .args([".", "-type", "f"])
            .current_dir(vm.file(dir))
            .output();
        let names = text(&list.unwrap().stdout);
        let read = |name: &str| std::fs::read_to_string(vm.file(dir).join(name)).unwrap();
        names.lines().map(|name| (name.to_string(), read(name).trim().to_string())).collect()
    };
    assert_eq!(files("ours")["./1/a\\_b/2/1/stderr"], "err");
    let parallel = std::process::Command::new("parallel")
        .args(["--will-cite", "--quote"])
        .args(args("theirs").iter().map(|word| word.trim_matches('\'')))
        .current_dir(vm.dir.path())
        .env("HOME", vm.dir.path())
        .output();
    if parallel.is_err() {
        return towpath_skip::skip("GNU parallel is not installed");
    }
    assert_eq!(files("ours"), files("theirs"));
}

#[test]
fn what_is_not_understood_is_refused_and_nothing_runs() {
    let vm = Vm::up(1);
    for (args, part) in [
        (&["touch", "ran{2}", ":::", "a"][..], "`{2}` of the command: item 1 has 1 column"),
        (&["touch", "ran{5}", ":::", "a", ":::", "b"], "item 1 has 2 columns"),
        (&["touch", "ran{%}", ":::", "a"], "the number of a job slot"),
        (&["--load", "80%", "touch", "ran", ":::", "a"], "--jobs"),
        (&["--pipe", "touch", "ran{}"], "the command's input"),
        (&["--pipe", "touch", "ran", ":::", "a"], "hint:"),
        (&["--link", "touch", "ran", ":::", "a"], ":::+"),
        (&["--bogus", "touch", "ran", ":::", "a"], "behind it"),
        (&["--halt", "2", "touch", "ran", ":::", "a"], "now,fail=1"),
    ] {
        let out = vm.towpath(&[&["farm"], args].concat());
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(255), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
    }
    let ran = std::fs::read_dir(vm.dir.path()).unwrap().flatten();
    assert!(!ran.map(|e| text(e.file_name().as_encoded_bytes())).any(|n| n.starts_with("ran")));
}

#[test]
fn who_expects_a_shell_is_told_that_there_is_none() {
    let vm = Vm::up(1);
    let out = vm.towpath(&["farm", "echo {}", ":::", "a"]);
    let said = text(&out.stderr);
    assert!(said.contains("hint: no shell is involved") && said.contains("sh -c"), "{said}");
    assert_ne!(out.status.code(), Some(0));
}
