//! What a daemon runs in the place of a task's program where a tasker may start it.
//!
//! It stands for the task: as long as it runs, the task does. On a host with a tasker it asks that
//! to start the program, waits for its end, and ends as that did; signals it passes on, and for
//! those that cannot be, a second process waits. Where there is none, or none any more, it becomes
//! the program.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write, stdin};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use signal_hook::consts::{
    SIGABRT, SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,
};
use signal_hook::iterator::Signals;
use towpath::Task;
use towpath::task::place::{COOKIE_VAR, SOCKET_VAR, TASK_VAR};
use towpath_pvm::names as search;
use towpath_wire::TaskId;

use super::roles::{Came, Packed, Question, START_TASK};

/// A program that is no task after this time is taken not to have been started.
const ATTACH_MAX: Duration = Duration::from_mins(1);
/// Exit status of a task whose program was not started, as shells have it.
const NOT_STARTED: u8 = 127;
const SIGNALS: [i32; 9] =
    [SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT];
/// Longest cookie that is read, in bytes.
const COOKIE_MAX: u64 = 4096;

/// Runs `command` as the task that this process was started as. `taskers`: their numbers, with
/// commas between; `flags` of the spawn.
pub(super) fn start(taskers: &str, flags: i32, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let (name, args) = command.split_first().context("no program to start")?;
    let own = variable(TASK_VAR)?.parse().ok().and_then(|raw: u64| TaskId::try_from(raw).ok());
    let own = own.with_context(|| format!("{TASK_VAR} is no task"))?;
    let taskers = taskers.split(',').filter_map(|raw| raw.parse::<u64>().ok());
    let mut taskers = taskers.filter_map(|raw| TaskId::try_from(raw).ok());
    let tasker = taskers.find(|task: &TaskId| task.host() == own.host());
    let program = found(name);
    let program = program.with_context(|| format!("{}: no such program", name.display()))?;
    let Some(tasker) = tasker else { return become_program(&program, args) };
    let mut question = Packed::default();
    question.int(own.pvm_tid().cast_signed()).int(flags).text(program.as_os_str().as_bytes());
    question.count(args.len() + 1).text(program.as_os_str().as_bytes());
    for arg in args {
        question.text(arg.as_bytes());
    }
    let variables = variables();
    question.count(variables.len());
    for (name, value) in variables {
        question.text(&[name.as_bytes(), b"=", value.as_bytes()].concat());
    }
    // Its place among those that were started with it.
    question.int(0).int(1).int(1);
    let cookie = variable(COOKIE_VAR)?;
    let survivor = Survivor::start(&cookie)?;
    let mut signals = Signals::new(SIGNALS)?;
    let signals_for = cookie.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            pass_on(&signals_for, signal);
        }
    });
    let asker = Task::enrol_at(Path::new(&variable(SOCKET_VAR)?), None)?;
    let question = Question::ask(asker, tasker, START_TASK, &question)?;
    follow(question, own, &cookie, survivor, || become_program(&program, args))
}

/// A process that kills the program when this one is killed; ended when dropped.
struct Survivor(Child);

impl Survivor {
    fn start(cookie: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["pvm", "--survivor"]).process_group(0);
        // No process of the task: without its cookie, and without its output, which ends with it.
        command.env_remove(COOKIE_VAR).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.stdin(Stdio::piped()).spawn()?;
        let mut survivor = Self(child);
        // The pipe ends with this process.
        survivor.0.stdin.as_mut().context("no pipe")?.write_all(cookie.as_bytes())?;
        Ok(survivor)
    }
}

impl Drop for Survivor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What [`Survivor`] does.
pub(super) fn survive() -> anyhow::Result<ExitCode> {
    let mut cookie = String::new();
    stdin().take(COOKIE_MAX).read_to_string(&mut cookie)?;
    if cookie.len() as u64 == COOKIE_MAX {
        bail!("a cookie has less than {COOKIE_MAX} bytes, the limit");
    }
    pass_on(&cookie, SIGKILL);
    Ok(ExitCode::SUCCESS)
}

/// Waits until the program that a tasker started has ended. `instead`: what to do when the tasker
/// ends before it has started it.
fn follow(
    mut question: Question,
    own: TaskId,
    cookie: &str,
    survivor: Survivor,
    instead: impl FnOnce() -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let mut limit = Some(ATTACH_MAX);
    loop {
        let came = question.wait(limit)?;
        let attached = question.task.task(own).is_ok_and(|task| task.enrolled);
        match came {
            Came::Answer(mut answer) => {
                answer.int();
                drop(survivor);
                return Ok(ended(answer.int().unwrap_or(0), attached));
            }
            Came::Ended if attached => {
                wait_for_end(cookie);
                return Ok(ExitCode::SUCCESS);
            }
            Came::Ended => {
                drop((question, survivor));
                return instead();
            }
            Came::Nothing if attached => limit = None,
            Came::Nothing => {
                let limit = ATTACH_MAX.as_secs();
                eprintln!("the tasker has not started the program within {limit} s");
                return Ok(ExitCode::from(NOT_STARTED));
            }
        }
    }
}

/// Ends as the program did, by its status as `wait` gives it. One that was never a task was not
/// started: PVM's taskers say 0 of it.
fn ended(status: i32, attached: bool) -> ExitCode {
    let (signal, code) = (status & 0x7f, (status >> 8) as u8);
    if signal != 0 {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    match code {
        0 if !attached && status == 0 => ExitCode::from(NOT_STARTED),
        code => ExitCode::from(code),
    }
}

fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set"))
}

/// Where the program is: as the daemon would look for it.
fn found(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into()).filter(|path: &PathBuf| path.is_file());
    }
    let own = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let of_pvm = search::program(name, &own, &own);
    of_pvm.or_else(|| search::in_path(name, &own("PATH")?))
}

fn become_program(program: &Path, args: &[OsString]) -> anyhow::Result<ExitCode> {
    let why = Command::new(program).args(args).exec();
    bail!("{}: {why}", program.display());
}

/// What the program needs to be this task, and what its parent gave it.
fn variables() -> Vec<(OsString, OsString)> {
    let exported = std::env::var_os("PVM_EXPORT").unwrap_or_default();
    let wanted = |name: &[u8]| {
        name.starts_with(b"TOWPATH_")
            || name.starts_with(b"PVM")
            || name == b"LD_LIBRARY_PATH"
            || name == b"LD_PRELOAD"
            || exported.as_bytes().split(|&byte| byte == b':').any(|one| one == name)
    };
    std::env::vars_os().filter(|(name, _)| wanted(name.as_bytes())).collect()
}

/// The process that a tasker started: the first with this task's cookie besides this one.
fn process(cookie: &str) -> Option<Pid> {
    let line = format!("{COOKIE_VAR}={cookie}");
    let own = std::process::id();
    let numbers = fs::read_dir("/proc").ok()?.flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_it = |pid: &u32| {
        let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|one| one == line.as_bytes())
    };
    let first = numbers.filter(|pid| *pid != own).filter(has_it).min()?;
    Pid::from_raw(first.cast_signed())
}

fn pass_on(cookie: &str, signal: i32) {
    if let (Some(pid), Some(signal)) = (process(cookie), Signal::from_named_raw(signal)) {
        // It may have ended.
        let _ = kill_process(pid, signal);
    }
}

fn wait_for_end(cookie: &str) {
    while let Some(pid) = process(cookie) {
        let Ok(exit) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        let _ = poll(&mut [PollFd::new(&exit, PollFlags::IN)], None);
    }
}
