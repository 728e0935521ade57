//! An interrupt ends commands at once, whatever they compute or wait for.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{PROMPT, Vm, text};

/// An interrupt of a process that works: how long it lived on, and its exit status.
fn interrupted(mut child: Child) -> (Duration, Option<i32>) {
    Vm::signal(child.id(), "-INT");
    let begin = Instant::now();
    let status = child.wait().unwrap();
    (begin.elapsed(), status.code())
}

#[test]
fn a_computation_that_looks_at_no_flag_is_ended_all_the_same() {
    let vm = Vm::new();
    let mut file = std::io::BufWriter::new(std::fs::File::create(vm.file("sizes")).unwrap());
    for size in (1..=1_000_000).rev() {
        writeln!(file, "{size}").unwrap();
    }
    drop(file);
    let mut command = vm.command(&["plan", "sizes", "--fps", "25", "--scheme", "cba"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Until it computes: it has taken a second of processor time.
    let stat = format!("/proc/{}/stat", child.id());
    let ticks = || {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        fields.skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum::<u64>()
    };
    while ticks() < 100 && std::path::Path::new(&stat).exists() {
        std::thread::yield_now();
        if text(&std::fs::read(&stat).unwrap_or_default()).contains(") Z ") {
            break;
        }
    }
    let (took, status) = interrupted(child);
    // It may have come to its end before: then there was nothing to end.
    assert!(matches!(status, Some(130 | 0)), "{status:?}");
    // A quarter of a second, and what a busy machine adds.
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn run_can_be_left_while_its_daemon_does_not_answer() {
    let vm = Vm::up(1);
    let mut command = vm.command(&["run", "--", "sh", "-c", "echo ready; exec tail -f /dev/null"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let daemon = vm.pid(1);
    Vm::signal(daemon, "-STOP");
    let begin = Instant::now();
    // Interrupts that come before one was looked at count once.
    let status = loop {
        Vm::signal(child.id(), "-INT");
        match child.try_wait().unwrap() {
            None if begin.elapsed() < PROMPT => std::thread::yield_now(),
            status => break status,
        }
    };
    Vm::signal(daemon, "-CONT");
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(status.and_then(|status| status.code()), Some(255), "it is ended");
}
