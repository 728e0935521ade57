//! A host that is killed in the middle of an application: the tasks of the other host end by
//! themselves, say what docs/applications.md says that they do, and leave no answer behind.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::applications::program;
use crate::support::{Vm, text};

const TASKS: usize = 4;
/// How soon those that are left have ended, on a busy machine, too.
const SOON: Duration = Duration::from_secs(20);
/// How often an application is begun that was done before its host was killed.
const TRIES: usize = 6;
/// Processor time, in hundredths of a second, that a task has when its work has begun: more than
/// its start takes.
const BEGUN: u64 = 3;

/// Which applications, how large: as they are they take a second at least. `@` is a directory of
/// the test.
const ALL: &[&[&str]] = &[
    &["options"],
    &["market", "--trades", "2000000", "--database", "@/market.db"],
    &["steer", "--rounds", "1000000"],
    &["field", "--map", "2000"],
    &["tracker", "--targets", "1000"],
    &["tracker", "--targets", "1000", "--sharing", "ssdp"],
    &["jpeg", "--size", "4000", "4000", "--quality", "100", "--file", "@/picture.jpg"],
    &["fractal", "--columns", "4000", "--steps", "100000"],
    &["tornado", "--side", "2000", "--frames", "1000"],
    &["chemistry", "--side", "2048"],
    &["radar", "--largest", "200", "--cylinders", "2000"],
    &["kernel", "fft", "--size", "4096"],
    &["kernel", "lu", "--size", "4096"],
    &["kernel", "matmul", "--size", "4096"],
    &["kernel", "nbody", "--size", "100000"],
    &["kernel", "ep", "--size", "36"],
    &["kernel", "sort", "--size", "20000000"],
    &["kernel", "tsp", "--size", "20"],
    &["kernel", "hough", "--size", "4000"],
    // A pool; branch and bound; a pool whose items ask; pieces that are dealt out; work that the
    // root gives out.
    &["example", "raytrace", "--columns", "4000"],
    &["example", "queens", "--queens", "16"],
    &["example", "keysearch", "--bits", "32"],
    &["example", "compress", "--level", "9", "--file", "@/long", "--output", "@/long.gz"],
    &["example", "make", "@/rules.toml"],
];

/// What lies in the directory of the test beforehand.
fn prepare(at: &Path, words: &[&str]) {
    std::fs::create_dir(at).unwrap();
    if !words.iter().any(|word| word.starts_with("@/")) {
        return;
    }
    // Without a pattern, so that it takes its time.
    let mut state = 1_u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        b' ' + (state >> 59) as u8
    };
    std::fs::write(at.join("long"), (0..20_000_000).map(|_| byte()).collect::<Vec<_>>()).unwrap();
    let work = "i=0; while [ $i -lt 1000000000 ]; do i=$((i+1)); done; touch ";
    let rule = |name: &str| format!("[[rule]]\ntarget = \"{name}\"\nrun = \"{work}{name}\"\n");
    std::fs::write(at.join("rules.toml"), ["one", "two", "three"].map(rule).concat()).unwrap();
}

/// Processor time of a process and of the shells that it waits for, in hundredths of a second.
fn worked(pid: u32) -> u64 {
    let own = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which is in brackets: state, ..., times of user and system.
    let fields = own.rsplit(')').next().unwrap_or_default().split_whitespace();
    let times = fields.skip(11).take(2).filter_map(|time| time.parse::<u64>().ok());
    let below = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let below = below.unwrap_or_default();
    let shells = below.split_whitespace().filter_map(|pid| pid.parse().ok());
    times.sum::<u64>() + shells.map(worked).sum::<u64>()
}

/// The job's tasks: processes of the program that have this directory among their words.
fn tasks(program: &Path, mark: &str) -> Vec<u32> {
    let is_task = |(pid, _): &(u32, String)| {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
    };
    crate::support::processes_with(mark).into_iter().filter(is_task).map(|(pid, _)| pid).collect()
}

/// Waits until all tasks but `idle` of them work; false: the job is over.
fn has_begun(job: &mut Child, program: &Path, mark: &str, idle: usize) -> bool {
    let mut found = Vec::new();
    while job.try_wait().unwrap().is_none() {
        if found.len() < TASKS {
            found = tasks(program, mark);
        } else if found.iter().filter(|pid| worked(**pid) < BEGUN).count() <= idle {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

/// Begins an application and kills a host; false: that was not in the middle.
fn killed(program: &Path, words: &[&str]) -> bool {
    let vm = Vm::up(2);
    let (at, out) = (vm.file("at"), vm.file("out"));
    prepare(&at, words);
    let before = names(&at);
    let words: Vec<String> =
        words.iter().map(|word| word.replace('@', at.to_str().unwrap())).collect();
    let (page, host) = (at.join("page"), vm.pid(2));
    let mut run = vm.command(&["run", "--spread", "-n", "4", "--on-failure", "go-on"]);
    let run = run.arg("--output-dir").arg(&out).arg("--").arg(program).arg("--out").arg(&page);
    let mut job = run.args(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // The root of `make` only gives out work, and decompressing takes little of the time of `jpeg`.
    let idle = usize::from(words.iter().any(|word| word == "make" || word == "jpeg"));
    let mark = page.to_str().unwrap();
    let has_begun = has_begun(&mut job, program, mark, idle);
    Vm::signal(host, "-KILL");

    let ended = ended_within(job, &words, || tasks(program, mark));
    if !has_begun || ended.status.success() {
        return false;
    }
    let said = |rank: usize, kind: &str| {
        let path = out.join(format!("{rank}.{kind}"));
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let late = (0..TASKS).find(|rank| !said(*rank, "out").is_empty());
    if late.is_some() {
        return false;
    }
    let run = text(&ended.stderr);
    assert!(run.contains("2 tasks (1, 3): host lost"), "{words:?}: {run}");
    let errors = [0, 2].map(|rank| said(rank, "err"));
    // One that had done its part needed nothing more of the others.
    for error in errors.iter().filter(|error| !error.is_empty()) {
        assert!(is_documented(error), "{words:?}: `{error}`");
    }
    assert_eq!(names(&at), before, "{words:?}");
    errors.iter().any(|error| !error.is_empty())
}

/// What docs/applications.md says of a task that is lost.
fn is_documented(error: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = |before: &str, after: &str| {
        let number_of = error.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        number_of.is_some_and(number)
    };
    fits("error: task ", " ended in the middle of the work\n")
        || fits("error: rank ", " ended before it had done its part\n")
}

/// What there is in a directory. A database is begun before the work: what is in it, is asked
/// apart.
fn names(at: &Path) -> Vec<PathBuf> {
    let paths = at.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<_> =
        paths.filter(|path| !path.to_str().unwrap().contains("market.db")).collect();
    names.sort();
    names
}

fn ended_within(job: Child, words: &[String], left: impl Fn() -> Vec<u32>) -> std::process::Output {
    let (sender, receiver) = channel();
    let waits = std::thread::spawn(move || sender.send(job.wait_with_output().unwrap()));
    let ended = match receiver.recv_timeout(SOON) {
        Err(RecvTimeoutError::Timeout) => {
            let left = left();
            for pid in &left {
                Vm::signal(*pid, "-KILL");
            }
            panic!("{words:?}: {} tasks do not end", left.len());
        }
        ended => ended.unwrap(),
    };
    waits.join().unwrap().unwrap();
    ended
}

#[test]
fn a_host_that_is_killed_in_the_middle_of_an_application_leaves_no_answer() {
    let program = program().canonicalize().unwrap();
    for words in ALL {
        let killed = (0..TRIES).any(|_| killed(&program, words));
        assert!(killed, "{words:?} was always done before its host was killed");
    }
}

/// Whether the task that wrote ended or was killed: there is no run in what it left.
#[test]
fn a_database_whose_host_is_killed_holds_no_run() {
    let program = program().canonicalize().unwrap();
    let vm = Vm::up(2);
    let kept = vm.file("market.db");
    let path = kept.to_str().unwrap();
    let mut job = vm.command(&["demo", "-n", "4"]);
    let job = job.args(["market", "--trades", "2000000", "--database", path]);
    let mut job = job.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let host = vm.pid(2);
    assert!(has_begun(&mut job, &program, path, 0), "it takes a minute");
    Vm::signal(host, "-KILL");
    let ended = ended_within(job, &["market".to_owned()], || tasks(&program, path));
    assert!(!ended.status.success() && ended.stdout.is_empty());
    assert!(text(&ended.stderr).contains("task"), "{}", text(&ended.stderr));
    let asked = std::process::Command::new(program).args(["query", path]).output().unwrap();
    assert!(!asked.status.success() && asked.stdout.is_empty(), "{}", text(&asked.stdout));
}
