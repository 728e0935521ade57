//! Trace events: what Debian's `tracer` writes of a program's calls with Towpath is what it writes
//! with PVM, but for times, the numbers of tasks and buffers, and the order of lines.
//!
//! Needs Debian's packages pvm, pvm-dev and pvm-examples; says so and skips where they are not.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::Machine;
use crate::support::pvm::Pvm;
use towpath_skip::skip;

const TRACER: &str = "/usr/bin/tracer";
/// Longest wait for what must come.
const LONG: Duration = Duration::from_secs(30);

/// Asks again until it is so.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not within {LONG:?}");
        std::thread::yield_now();
    }
}

/// Ended when dropped.
struct Tracer(Child);

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Calls in the trace of a program that `tasks` tasks run. `names` lists the mailboxes.
fn trace(
    mut tracer: Command,
    file: &Path,
    names: impl Fn() -> String,
    run: impl Fn(),
    tasks: usize,
) -> Vec<String> {
    let _ = std::fs::remove_file(file);
    tracer.arg("-T").arg(file).arg("full").stdin(Stdio::piped());
    let _tracer = Tracer(tracer.stdout(Stdio::null()).spawn().expect("PVM's tracer"));
    wait_until("a tracer", || names().contains("###_PVM_TRACER_###"));
    run();
    let text = || std::fs::read_to_string(file).unwrap_or_default();
    let ended = |line: &&str| line.starts_with("\"endtask(0)\"");
    let left = || calls(&text()).iter().filter(|line| line.starts_with("exit")).count();
    wait_until("the end of tasks", || {
        left() == tasks && text().lines().filter(ended).count() >= tasks
    });
    calls(&text())
}

/// The calls, sorted.
fn calls(text: &str) -> Vec<String> {
    let mut calls: Vec<String> = text.lines().filter_map(call).collect();
    calls.sort();
    calls
}

/// Name and values of an event of a call.
fn call(line: &str) -> Option<String> {
    let (name, values) = line.strip_prefix('"')?.split_once("\" { ")?;
    // PVM has messages of its own, and handlers for them.
    if !(name.ends_with("(0.0)") || name.ends_with("(1.1)")) || name.starts_with("mhf_invoke") {
        return None;
    }
    // Behind the time and the task; of a message that came, behind the number of its buffer.
    let own = if name == "recv(1.1)" { 4 } else { 3 };
    let values: Vec<&str> = values.split([',', ' ']).filter(|word| !word.is_empty()).collect();
    let value = |word: &&str| match word.parse::<u32>() {
        Ok(0x4_0001..0x5_0000) => "TASK".to_owned(),
        _ => (*word).to_owned(),
    };
    let values: Vec<String> = values.iter().skip(own).map(value).collect();
    Some(format!("{name} {}", values.join(" ")))
}

#[test]
fn traces_are_those_of_pvm() {
    for program in [TRACER, "/usr/bin/hello.pvm", "/usr/bin/master1"] {
        if !Path::new(program).exists() {
            return skip(&format!("{program} is not installed"));
        }
    }
    let Some(machine) = Machine::new(1, TRACER) else { return };
    let pvm = Pvm::new();
    let towpath = crate::support::towpath().display().to_string();
    for (name, tasks) in [("hello.pvm", 2), ("master1", 4)] {
        let program = format!("/usr/bin/{name}");
        let file = machine.folder.path().join("trace");
        let ours = trace(
            machine.command(Path::new(TRACER)),
            &file,
            || machine.run(&towpath, &["pvm", "--no-commands"], "names\nquit\n"),
            || drop(machine.run(&program, &[], "")),
            tasks,
        );
        let theirs = trace(
            pvm.command(Path::new(TRACER)),
            &file,
            || pvm.run("/usr/bin/pvm", &[], "names\nquit\n"),
            || drop(pvm.run(&program, &[], "")),
            tasks,
        );
        assert!(ours.iter().any(|line| line.starts_with("recv(1.1) ")), "{ours:?}");
        assert_eq!(ours, theirs, "{name}");
    }
}
