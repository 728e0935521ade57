//! Who minds a job: a process in a session of its own that runs the job's client, keeps what that
//! prints, has a farm's client go on after it was killed or found no daemon, and writes down how
//! it ended.
//!
//! A farm's client puts what the items print into [`Spool`]s itself, before its job log has them as
//! done: whichever of the two processes is killed, what is done has its output. It is killed with
//! its minder, so that there is one at a time.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use super::job::{
    ARGS, About, ENDED, ENVIRON, Ended, JOB_VAR, Job, JobError, OUTCOME, UNSERVED, WAITS, failed,
    now_s, parted,
};
use super::spool::Spool;
use crate::client::Client;
use crate::config::VmDir;
use crate::lock::{Lock, parent};

/// Names of a job's streams.
pub const OUT: &str = "out";
/// What was printed on standard error.
pub const ERR: &str = "err";
/// What its client and its minder say.
pub const SAID: &str = "said";

/// This program, also where its file was replaced meanwhile.
pub const SELF: &str = "/proc/self/exe";
/// What it is called in lists of processes.
pub const NAME: &str = "towpath";
/// How often interrupts are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// How long is waited before a client is started again, at first.
const AGAIN: Duration = Duration::from_secs(1);
/// The same at most.
const AGAIN_MAX: Duration = Duration::from_mins(1);
/// How long a client may take to end that was killed politely.
const FIRM: Duration = Duration::from_secs(5);
/// Status of a job that was told to end.
const INTERRUPTED: u8 = 130;
/// A client that ends so often in a row, with nothing done between, is not started again.
const VAIN_MAX: u32 = 10;

/// Whether this process is the client of a job, run by its minder; if so it ends with that.
pub fn is_client(job: &Job) -> bool {
    let minder = job.minder().map(|minder| minder.pid);
    let signal = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // Behind that: it may have ended before.
    minder.is_some() && parent(std::process::id()) == minder && signal.is_ok()
}

/// What a minder is told by signals.
#[derive(Debug, Default)]
struct Told {
    /// The machine goes down, or whoever started it all: it is to go on later.
    stop: Arc<AtomicBool>,
    /// It is to end.
    end: Arc<AtomicBool>,
    /// At once.
    kill: Arc<AtomicBool>,
}

impl Told {
    fn hear() -> io::Result<Self> {
        let told = Self::default();
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(signal, told.stop.clone())?;
        }
        signal_hook::flag::register(SIGUSR1, told.end.clone())?;
        signal_hook::flag::register(SIGUSR2, told.kill.clone())?;
        Ok(told)
    }

    fn ends(&self) -> bool {
        self.end.load(Ordering::Relaxed) || self.kills()
    }

    fn kills(&self) -> bool {
        self.kill.load(Ordering::Relaxed)
    }

    fn any(&self) -> bool {
        self.ends() || self.stop.load(Ordering::Relaxed)
    }
}

struct Minder<'a> {
    vm: &'a VmDir,
    job: &'a Job,
    about: About,
    told: Told,
    said: Spool,
    unwritten: u64,
}

/// Minds a job to its end, and gives that; `None` where another one minds it, or where this one is
/// interrupted and nobody wants the job to end: the machine goes down, and it may go on later.
/// `begins` is called once it has the job.
pub fn mind(vm: &VmDir, job: &Job, begins: &mut dyn FnMut()) -> Result<Option<Ended>, JobError> {
    let told = Told::hear().map_err(failed("cannot handle signals for", &job.path))?;
    let Some(lock) = Lock::take(&job.path)? else { return Ok(None) };
    let about = job.about().ok_or(JobError::None(job.number))?;
    for stale in [ENDED, WAITS] {
        job.drop_file(stale);
    }
    // Where this process is killed its client lives on for an instant.
    lock.lend().map_err(failed("cannot lend", &job.path))?;
    let said = Spool::open(&job.path.join(SAID), about.keep)?;
    begins();
    let mut minder = Minder { vm, job, about, told, said, unwritten: 0 };
    let status = minder.run()?;
    job.drop_file(WAITS);
    let Some(status) = status.or_else(|| minder.told.ends().then_some(INTERRUPTED)) else {
        return Ok(None);
    };
    let ended = Ended { status, at_s: now_s(), unwritten: minder.unwritten };
    let written = serde_json::to_vec(&ended).unwrap_or_default();
    // It is not to be forgotten how it ended: as soon as there is room.
    while let Err(why) = job.put(ENDED, &written) {
        if !minder.pause(AGAIN) {
            return Err(why);
        }
    }
    drop(lock);
    Ok(Some(ended))
}

/// What a shell says of an end.
fn shell_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255)
}

impl Minder<'_> {
    /// Gives its exit status; `None` where it has not ended, or that is not known.
    fn run(&mut self) -> Result<Option<u8>, JobError> {
        let (mut vain, mut done, mut wait) = (0, self.job.results(), AGAIN);
        loop {
            self.job.drop_file(UNSERVED);
            self.job.drop_file(OUTCOME);
            let status = match self.client() {
                Ok(status) => status,
                Err(why) => {
                    self.say(&format!("its client cannot be run: {why}"));
                    return Ok(None);
                }
            };
            if !self.about.resumes {
                let known = status.signal().is_none() && !self.told.stop.load(Ordering::Relaxed);
                return Ok(known.then(|| shell_status(status)));
            }
            if self.told.any() {
                let ended = self.job.outcome().filter(|_| self.told.ends());
                return Ok(ended);
            }
            if let Some(outcome) = self.job.outcome() {
                return Ok(Some(outcome));
            }
            let unserved = self.job.has(UNSERVED);
            if !unserved {
                self.say(&format!("its client was ended ({status}): it goes on"));
            }
            let now = self.job.results();
            (vain, wait) = if now > done { (0, AGAIN) } else { (vain + 1, wait * 2) };
            done = now;
            if vain >= VAIN_MAX {
                self.say(&format!("given up after {VAIN_MAX} starts without a result"));
                return Ok(Some(255));
            }
            if unserved && !self.wait_for_daemon()
                || !self.wait_for_room()
                || !self.pause(wait.min(AGAIN_MAX))
            {
                return Ok(None);
            }
        }
    }

    /// Waits until there is room for what it is to keep; false after an interrupt.
    fn wait_for_room(&self) -> bool {
        while self.job.is_disk_full() {
            if !self.pause(AGAIN) {
                return false;
            }
        }
        true
    }

    /// Waits until a daemon of this machine answers; false after an interrupt.
    fn wait_for_daemon(&mut self) -> bool {
        let answers = |vm: &VmDir| {
            let sockets = vm.sockets().unwrap_or_default();
            sockets.iter().any(|socket| Client::connect(socket).is_ok())
        };
        if !answers(self.vm) {
            self.say("no daemon of this machine answers: it goes on once one does");
            // Where the disk is full it is not shown that it waits.
            let _ = self.job.put(WAITS, b"");
        }
        while !answers(self.vm) {
            if !self.pause(AGAIN) {
                return false;
            }
        }
        self.job.drop_file(WAITS);
        true
    }

    /// Waits; false after an interrupt.
    fn pause(&self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        while Instant::now() < until && !self.told.any() {
            std::thread::sleep(LOOK);
        }
        !self.told.any()
    }

    /// Runs the client to its end.
    fn client(&mut self) -> io::Result<ExitStatus> {
        let path = &self.job.path;
        let missing = |what: &str| io::Error::new(io::ErrorKind::NotFound, format!("no {what}"));
        let args = parted(&self.job.get(ARGS).ok_or_else(|| missing(ARGS))?);
        let environ = parted(&self.job.get(ENVIRON).ok_or_else(|| missing(ENVIRON))?);
        let mut command = Command::new(SELF);
        command.arg0(NAME).args(args).env_clear().current_dir(&self.about.workdir);
        for variable in environ {
            let variable = variable.as_bytes();
            if let Some(at) = variable.iter().position(|b| *b == b'=') {
                let (name, value) = (&variable[..at], &variable[at + 1..]);
                command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
            }
        }
        command
            .env(JOB_VAR, path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        // A farm's client prints what it has to say only.
        let [out_to, err_to] = if self.about.writes { [SAID, SAID] } else { [OUT, ERR] };
        let out = out.map(|from| self.keep(from, out_to)).transpose()?;
        let err = err.map(|from| self.keep(from, err_to)).transpose()?;
        let status = self.wait(&mut child);
        for kept in [out, err].into_iter().flatten() {
            self.unwritten += kept.join().unwrap_or_default();
        }
        status
    }

    /// Keeps what comes from there, in a thread of its own, which gives how much of it could not
    /// be written.
    fn keep<R: Read + Send + 'static>(
        &self,
        mut from: R,
        name: &str,
    ) -> io::Result<JoinHandle<u64>> {
        let path = self.job.path.join(name);
        let mut to = Spool::open(&path, self.about.keep).map_err(io::Error::other)?;
        let keep = move || {
            let (mut buf, mut unwritten) = (vec![0; 64 * 1024], 0);
            // Whoever prints is not kept waiting by a disk that is full.
            while let Ok(read @ 1..) = from.read(&mut buf) {
                let written = to.write_all(&buf[..read]).and_then(|()| to.flush());
                unwritten += if written.is_err() { read as u64 } else { 0 };
            }
            unwritten
        };
        std::thread::Builder::new().name(name.into()).spawn(keep)
    }

    /// Waits for the client, and passes interrupts on.
    fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let pid = Pid::from_raw(child.id().cast_signed());
        let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let look = Timespec::try_from(LOOK).ok();
        let (mut passed, mut firm_at) = (0, None);
        let send = |signal| {
            if let Some(pid) = pid {
                let _ = kill_process(pid, signal);
            }
        };
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            let wanted = if self.told.kills() { 2 } else { u8::from(self.told.any()) };
            if wanted > passed {
                passed += 1;
                send(Signal::INT);
                // Where it is stopped it hears nothing.
                send(Signal::CONT);
                firm_at = (passed == 2).then(|| Instant::now() + FIRM);
            }
            if firm_at.is_some_and(|at| at <= Instant::now()) {
                send(Signal::KILL);
            }
            match &process {
                Some(process) => {
                    let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], look.as_ref());
                }
                None => std::thread::sleep(LOOK),
            }
        }
    }

    /// Says something about the job.
    fn say(&mut self, text: &str) {
        let line = format!("job {}: {text}\n", self.job.number);
        let written = self.said.write_all(line.as_bytes()).and_then(|()| self.said.flush());
        self.unwritten += if written.is_err() { line.len() as u64 } else { 0 };
    }
}
