//! The lock of a daemon's directory: held while it runs, it says which process that is, and which
//! host once it is one. What it says can be read whether the daemon answers or not.
//!
//! ```text
//! line 1 process id | line 2 host, as people write it | line 3 when the process started, in clock
//! ticks since the machine did (proc(5), field 22 of `/proc/PID/stat`)
//! ```
//! A process number is given out again once its process has ended: only with the time of its start
//! is it a process. Signals go by a descriptor that was opened before that was looked at.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::private::{Dir, PrivateError, peek};

/// Most of a lock file that is read.
const TEXT_MAX: u64 = 4096;

/// Who holds a lock, or held it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The engine's process.
    pub pid: u32,
    /// Its host, as people write it.
    pub host: Option<String>,
    /// When it started; `None`: an earlier build did not say.
    started: Option<u64>,
}

/// A lock that this process holds.
#[derive(Debug)]
pub(crate) struct Lock(File);

const NAME: &str = "lock";

/// How long a lock that no living daemon holds is waited for: who looks at it has it for an
/// instant, and who cleans up behind a daemon for as long as killed processes take to be gone.
const CLEANED_WAIT: Duration = Duration::from_secs(5);
/// How often it is tried.
const TRY_EVERY: Duration = Duration::from_millis(2);

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

impl Lock {
    /// Takes the lock of `dir` for this process's daemon; `None` where another one has it.
    pub(crate) fn take(dir: &Path) -> Result<Option<Self>, PrivateError> {
        let Some(mut lock) = Self::hold(dir)? else { return Ok(None) };
        lock.write(None).map_err(|why| PrivateError::System {
            what: "cannot write",
            path: path(dir),
            why,
        })?;
        Ok(Some(lock))
    }

    /// Holds the lock of `dir`, so that no daemon starts there meanwhile; who held it last stays
    /// written down. Waits for others that do the same. `None` where a daemon has it.
    pub(crate) fn hold(dir: &Path) -> Result<Option<Self>, PrivateError> {
        let file = Dir::make(dir)?.file(NAME, OFlags::WRONLY | OFlags::CREATE)?;
        let deadline = Instant::now() + CLEANED_WAIT;
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let lives = Holder::of(dir).is_some_and(|holder| holder.stat().is_some());
            if lives || Instant::now() > deadline {
                return Ok(None);
            }
            std::thread::sleep(TRY_EVERY);
        }
        Ok(Some(Self(file)))
    }

    /// Has processes that this one starts from here on hold it, too, for as long as they run.
    pub(crate) fn lend(&self) -> io::Result<()> {
        Ok(rustix::io::fcntl_setfd(&self.0, rustix::io::FdFlags::empty())?)
    }

    /// Has it say nobody's name: another process is to hold it next.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.0.set_len(0)
    }

    /// Writes down who holds it.
    pub(crate) fn write(&mut self, host: Option<&str>) -> io::Result<()> {
        let pid = std::process::id();
        let started = stat(pid).map_or_else(String::new, |stat| stat.started.to_string());
        let text = format!("{pid}\n{}\n{started}\n", host.unwrap_or_default());
        self.0.seek(SeekFrom::Start(0))?;
        self.0.write_all(text.as_bytes())?;
        self.0.set_len(text.len() as u64)
    }
}

/// True while a daemon holds the lock of `dir`.
pub fn is_locked(dir: &Path) -> bool {
    let Some(file) = peek(&path(dir)) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

impl Holder {
    /// Of the lock of `dir`.
    pub fn of(dir: &Path) -> Option<Self> {
        let mut text = String::new();
        peek(&path(dir))?.take(TEXT_MAX).read_to_string(&mut text).ok()?;
        let mut lines = text.lines();
        let pid = lines.next()?.trim().parse().ok()?;
        let host = lines.next().filter(|host| !host.is_empty()).map(String::from);
        let started = lines.next().and_then(|line| line.trim().parse().ok());
        Some(Self { pid, host, started })
    }

    /// Of the lock of `dir`, where it is stopped: by a signal, or by a debugger.
    pub fn stopped(dir: &Path) -> Option<Self> {
        let holder = Self::of(dir)?;
        let stat = holder.stat()?;
        (matches!(stat.state, 'T' | 't') && is_locked(dir)).then_some(holder)
    }

    /// What the system says of it; `None` where it has ended, whoever has its number now.
    fn stat(&self) -> Option<Stat> {
        stat(self.pid).filter(|stat| self.started.is_none_or(|started| started == stat.started))
    }

    /// Lets it go on, and the guard around it, where a signal has stopped them.
    pub fn wake(&self) {
        let guard = self.stat().map(|stat| stat.parent).filter(|guard| *guard > 1);
        if let Some(guard) = guard {
            send(guard, Signal::CONT, || self.stat().is_some_and(|stat| stat.parent == guard));
        }
        self.signal(Signal::CONT);
    }

    /// The guard around it; `None` where there is none any more. Also of a daemon that has ended,
    /// as long as its guard, which may be stopped, has not asked about it.
    pub fn guard(&self) -> Option<Guard> {
        self.started?;
        let pid = self.stat()?.parent;
        let process = pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()?;
        // What it is called with; another parent is no guard.
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_guard = command.split(|b| *b == 0).any(|word| word == b"daemon");
        // Behind the descriptor: now the number cannot become another's.
        let is_its = self.stat().is_some_and(|stat| stat.parent == pid);
        (pid > 1 && is_guard && is_its).then_some(Guard { pid, process })
    }

    /// Asks it to end; it ends its tasks politely.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills it; its guard cleans up behind it.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        // Without the time of its start it may be anybody.
        send(self.pid, signal, || self.started.is_some() && self.stat().is_some());
    }
}

/// The guard around a daemon, held by a descriptor: it stays the one that was found.
#[derive(Debug)]
pub struct Guard {
    pid: u32,
    process: OwnedFd,
}

impl Guard {
    /// Lets it go on where a signal has stopped it.
    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until it has ended, for so long at most; whether it has.
    pub fn is_over(&self, wait: Duration) -> bool {
        let wait = Timespec::try_from(wait).ok();
        let mut fds = [PollFd::new(&self.process, PollFlags::IN)];
        poll(&mut fds, wait.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Whether it is stopped: by a signal, or by a debugger.
    pub fn is_stopped(&self) -> bool {
        // Looked at before it is known that the number is still its own.
        let stopped = stat(self.pid).is_some_and(|stat| matches!(stat.state, 'T' | 't'));
        stopped && !self.is_over(Duration::ZERO)
    }

    /// Kills it; what it would have cleaned up is left.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // In vain only where it has gone.
        let _ = pidfd_send_signal(&self.process, signal);
    }
}

/// Sends a signal to a process if it is still the one that is meant, which `is_it` tells once its
/// number cannot become another's any more. In vain only where it has gone, or is not ours.
fn send(pid: u32, signal: Signal, is_it: impl FnOnce() -> bool) {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return };
    if let Ok(process) = pidfd_open(pid, PidfdFlags::empty())
        && is_it()
    {
        let _ = pidfd_send_signal(process, signal);
    }
}

/// The parent of a process.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    Some(stat(pid)?.parent)
}

/// Of a process (proc(5), `/proc/PID/stat`).
struct Stat {
    state: char,
    parent: u32,
    started: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before them may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // The state is field 3.
    let field = |n: usize| fields.get(n - 3);
    Some(Stat {
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        started: field(22)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    #[test]
    fn a_lock_is_had_once_and_says_whose_it_is() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_locked(dir.path()));
        assert_eq!(Holder::of(dir.path()), None);
        fs::write(path(dir.path()), "1234567\nh12.345\n and more").unwrap();
        let mut lock = Lock::take(dir.path()).unwrap().unwrap();
        assert!(is_locked(dir.path()));
        assert!(Lock::take(dir.path()).unwrap().is_none());
        let pid = std::process::id();
        let holder = Holder::of(dir.path()).unwrap();
        assert_eq!((holder.pid, &holder.host), (pid, &None));
        assert_eq!(holder.started, stat(pid).map(|s| s.started));
        lock.write(Some("h2.1")).unwrap();
        assert_eq!(Holder::of(dir.path()).unwrap().host.as_deref(), Some("h2.1"));
        assert_eq!(Holder::stopped(dir.path()), None, "it runs");
        drop(lock);
        assert!(!is_locked(dir.path()));
    }

    #[test]
    fn who_takes_a_lock_waits_for_who_cleans_up_behind_a_dead_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let mut dead = Command::new("true").spawn().unwrap();
        let said = format!("{}\nh2.1\n1\n", dead.id());
        dead.wait().unwrap();
        fs::write(path(dir.path()), &said).unwrap();
        let cleaning = Lock::hold(dir.path()).unwrap().unwrap();
        assert_eq!(fs::read_to_string(path(dir.path())).unwrap(), said, "it is no daemon");
        let there = dir.path().to_path_buf();
        let (say, said) = std::sync::mpsc::channel();
        let daemon = std::thread::spawn(move || say.send(Lock::take(&there).unwrap()).unwrap());
        assert!(said.recv_timeout(20 * TRY_EVERY).is_err(), "nobody has it meanwhile");
        drop(cleaning);
        let lock = said.recv().unwrap();
        daemon.join().unwrap();
        assert!(lock.is_some(), "it starts once that is done");
        assert!(Lock::hold(dir.path()).unwrap().is_none(), "and nobody cleans up meanwhile");
    }

    /// A process that is stopped; it ends with the value.
    struct Stopped(Child);

    impl Stopped {
        fn new() -> Self {
            let child = Command::new("sleep").arg("600").spawn().unwrap();
            let pid = Pid::from_child(&child);
            rustix::process::kill_process(pid, Signal::STOP).unwrap();
            while stat(child.id()).unwrap().state != 'T' {
                std::thread::yield_now();
            }
            Self(child)
        }
    }

    impl Drop for Stopped {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_parent_is_a_guard_only_if_it_is_called_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let written = |pid: u32, started: u64| {
            fs::write(path(dir.path()), format!("{pid}\nh2.1\n{started}\n")).unwrap();
            Holder::of(dir.path()).unwrap()
        };
        // A child of this process, which is no guard.
        let process = Stopped::new();
        let pid = process.0.id();
        let started = stat(pid).unwrap().started;
        assert!(written(pid, started).guard().is_none());
        // A shell with that word among its own, and its child.
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 600 & echo $!; wait", "sh", "daemon"]);
        let mut shell = shell.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(shell.stdout.take().unwrap()), &mut line)
            .unwrap();
        let child: u32 = line.trim().parse().unwrap();
        let started = stat(child).unwrap().started;
        assert!(written(child, started + 1).guard().is_none(), "another had the number");
        let guard = written(child, started).guard().expect("it is one");
        assert!(!guard.is_stopped() && !guard.is_over(Duration::ZERO));
        rustix::process::kill_process(Pid::from_child(&shell), Signal::STOP).unwrap();
        while !guard.is_stopped() {
            std::thread::yield_now();
        }
        guard.kill();
        assert!(guard.is_over(Duration::from_secs(10)) && !guard.is_stopped());
        assert!(!shell.wait().unwrap().success());
        written(child, started).kill();
    }

    #[test]
    fn a_stopped_stranger_with_the_number_of_a_daemon_is_no_daemon_and_lives() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::take(dir.path()).unwrap().unwrap();
        let mut process = Stopped::new();
        let pid = process.0.id();
        let started = stat(pid).unwrap().started;
        let said = |started: u64| {
            fs::write(path(dir.path()), format!("{pid}\nh2.1\n{started}\n")).unwrap();
            (Holder::of(dir.path()).unwrap(), Holder::stopped(dir.path()))
        };
        // The daemon had the number before.
        let (holder, stopped) = said(started - 1);
        assert_eq!(stopped, None);
        holder.kill();
        holder.terminate();
        holder.wake();
        // A signal that was sent is seen by whoever sends another one.
        assert_eq!(stat(pid).unwrap().state, 'T');
        assert!(process.0.try_wait().unwrap().is_none());
        // The daemon itself.
        let (holder, stopped) = said(started);
        assert_eq!(stopped.as_ref(), Some(&holder));
        holder.kill();
        assert!(!process.0.wait().unwrap().success());
        assert_eq!(Holder::stopped(dir.path()), None);
        drop(lock);
    }
}
