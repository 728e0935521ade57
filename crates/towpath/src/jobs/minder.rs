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
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::job::{
    ARGS, About, END, ENDED, ENVIRON, Ended, JOB_VAR, Job, JobError, OUTCOME, UNSERVED, WAITS,
    failed, now_s, parted,
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

/// How often interrupts are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// How long is waited before a client is started again, at first.
const AGAIN: Duration = Duration::from_secs(1);
/// The same at most.
const AGAIN_MAX: Duration = Duration::from_mins(1);
/// A client that ends so often in a row, with nothing done between, is not started again.
const VAIN_MAX: u32 = 10;

/// Whether this process is the client of the job at `path`, run by its minder; if so it ends with
/// that.
pub fn is_client(job: &Job) -> bool {
    let minder = job.minder().map(|minder| minder.pid);
    let signal = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // Behind that: it may have ended before.
    minder.is_some() && parent(std::process::id()) == minder && signal.is_ok()
}

/// What interrupts the minder: the first, the second time.
pub type Interrupts<'a> = [&'a AtomicBool; 2];

struct Minder<'a> {
    vm: &'a VmDir,
    job: &'a Job,
    about: About,
    interrupts: Interrupts<'a>,
    said: Spool,
    unwritten: u64,
}

/// Minds a job to its end, and gives that; `None` where another one minds it, or where this one is
/// interrupted and nobody wants the job to end: the machine goes down, and it may go on later.
/// `begins` is called once it has the job.
pub fn mind(
    vm: &VmDir,
    job: &Job,
    interrupts: Interrupts<'_>,
    begins: &mut dyn FnMut(),
) -> Result<Option<Ended>, JobError> {
    let Some(lock) = Lock::take(&job.path)? else { return Ok(None) };
    let about = job.about().ok_or(JobError::None(job.number))?;
    for stale in [ENDED, WAITS, END] {
        job.drop_file(stale);
    }
    // Where this process is killed its client lives on for an instant.
    lock.lend().map_err(failed("cannot lend", &job.path))?;
    let said = Spool::open(&job.path.join(SAID), about.keep)?;
    begins();
    let mut minder = Minder { vm, job, about, interrupts, said, unwritten: 0 };
    let status = minder.run()?;
    job.drop_file(WAITS);
    if minder.is_interrupted() && !job.has(END) {
        return Ok(None);
    }
    let ended = Ended { status, at_s: now_s(), unwritten: minder.unwritten };
    job.put(ENDED, &serde_json::to_vec(&ended).unwrap_or_default())?;
    drop(lock);
    Ok(Some(ended))
}

/// What a shell says of an end.
fn shell_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255)
}

impl Minder<'_> {
    fn run(&mut self) -> Result<u8, JobError> {
        let (mut vain, mut done, mut wait) = (0, self.job.results(), AGAIN);
        loop {
            self.job.drop_file(UNSERVED);
            self.job.drop_file(OUTCOME);
            let status = match self.client() {
                Ok(status) => status,
                Err(why) => {
                    self.say(&format!("its client cannot be run: {why}"));
                    return Ok(255);
                }
            };
            let outcome = self.job.outcome().filter(|_| self.about.resumes);
            let unserved = self.job.has(UNSERVED);
            if outcome.is_some() || !self.about.resumes || self.is_interrupted() {
                return Ok(outcome.unwrap_or_else(|| shell_status(status)));
            }
            if !unserved {
                self.say(&format!("its client was ended ({status}): it goes on"));
            }
            let now = self.job.results();
            (vain, wait) = if now > done { (0, AGAIN) } else { (vain + 1, wait * 2) };
            done = now;
            if vain >= VAIN_MAX {
                self.say(&format!("given up after {VAIN_MAX} starts without a result"));
                return Ok(shell_status(status));
            }
            if unserved && !self.wait_for_daemon()? || !self.pause(wait.min(AGAIN_MAX)) {
                return Ok(shell_status(status));
            }
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupts[0].load(Ordering::Relaxed)
    }

    /// How often it was interrupted, or is to be.
    fn interruptions(&self) -> usize {
        let came = self.interrupts.iter().filter(|i| i.load(Ordering::Relaxed)).count();
        if came > 0 && self.job.get(END).is_some_and(|how| how == b"kill") { 2 } else { came }
    }

    /// Waits until a daemon of this machine answers; false after an interrupt.
    fn wait_for_daemon(&mut self) -> Result<bool, JobError> {
        let answers = |vm: &VmDir| {
            let sockets = vm.sockets().unwrap_or_default();
            sockets.iter().any(|socket| Client::connect(socket).is_ok())
        };
        if !answers(self.vm) {
            self.say("no daemon of this machine answers: it goes on once one does");
            self.job.put(WAITS, b"")?;
        }
        while !answers(self.vm) {
            if !self.pause(AGAIN) {
                return Ok(false);
            }
        }
        self.job.drop_file(WAITS);
        Ok(true)
    }

    /// Waits; false after an interrupt.
    fn pause(&self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        while Instant::now() < until && !self.is_interrupted() {
            std::thread::sleep(LOOK);
        }
        !self.is_interrupted()
    }

    /// Runs the client to its end.
    fn client(&mut self) -> io::Result<ExitStatus> {
        let path = &self.job.path;
        let missing = |what: &str| io::Error::new(io::ErrorKind::NotFound, format!("no {what}"));
        let args = parted(&self.job.get(ARGS).ok_or_else(|| missing(ARGS))?);
        let environ = parted(&self.job.get(ENVIRON).ok_or_else(|| missing(ENVIRON))?);
        let mut command = Command::new(std::env::current_exe()?);
        command.args(args).env_clear().current_dir(&self.about.workdir);
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
        let mut passed = 0;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if self.interruptions() > passed
                && let Some(pid) = pid
            {
                passed += 1;
                let _ = kill_process(pid, Signal::INT);
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
