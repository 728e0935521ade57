//! The lock of a daemon's directory: held while it runs, it says which process that is, and which
//! host once it is one. What it says can be read whether the daemon answers or not.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

/// Who holds a lock, or held it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The engine's process.
    pub pid: u32,
    /// Its host, as people write it.
    pub host: Option<String>,
}

/// A lock that this process holds.
#[derive(Debug)]
pub(crate) struct Lock(File);

fn path(dir: &Path) -> PathBuf {
    dir.join("lock")
}

impl Lock {
    /// Takes the lock of `dir`; `None` where another process has it.
    pub(crate) fn take(dir: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path(dir))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        let mut lock = Self(file);
        lock.write(None)?;
        Ok(Some(lock))
    }

    /// Writes down who holds it.
    pub(crate) fn write(&mut self, host: Option<&str>) -> io::Result<()> {
        let text = format!("{}\n{}\n", std::process::id(), host.unwrap_or_default());
        self.0.seek(SeekFrom::Start(0))?;
        self.0.write_all(text.as_bytes())?;
        self.0.set_len(text.len() as u64)
    }
}

/// True while a daemon holds the lock of `dir`.
pub fn is_locked(dir: &Path) -> bool {
    let Ok(file) = File::open(path(dir)) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

impl Holder {
    /// Of the lock of `dir`.
    pub fn of(dir: &Path) -> Option<Self> {
        let text = fs::read_to_string(path(dir)).ok()?;
        let mut lines = text.lines();
        let pid = lines.next()?.trim().parse().ok()?;
        let host = lines.next().filter(|host| !host.is_empty()).map(String::from);
        Some(Self { pid, host })
    }

    /// Of the lock of `dir`, where it is stopped: by a signal, or by a debugger.
    pub fn stopped(dir: &Path) -> Option<Self> {
        let holder = Self::of(dir)?;
        let stopped = matches!(stat(holder.pid)?.0, 'T' | 't');
        // The number may be another process's by now.
        (stopped && is_locked(dir)).then_some(holder)
    }

    /// Lets it go on, and the guard around it, where a signal has stopped them.
    pub fn wake(&self) {
        let guard = stat(self.pid).map(|(_, parent)| parent).filter(|guard| *guard > 1);
        for pid in guard.into_iter().chain([self.pid]) {
            send(pid, Signal::CONT);
        }
    }

    /// Kills it; its guard cleans up behind it.
    pub fn kill(&self) {
        send(self.pid, Signal::KILL);
    }
}

/// In vain only where the process has gone, or is not ours.
fn send(pid: u32, signal: Signal) {
    let _ = Pid::from_raw(pid.cast_signed()).map(|pid| kill_process(pid, signal));
}

/// State and parent of a process (proc(5), `/proc/PID/stat`).
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before them may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
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
        assert_eq!(Holder::of(dir.path()), Some(Holder { pid, host: None }));
        lock.write(Some("h2.1")).unwrap();
        assert_eq!(Holder::of(dir.path()).unwrap().host.as_deref(), Some("h2.1"));
        assert_eq!(Holder::stopped(dir.path()), None, "it runs");
        drop(lock);
        assert!(!is_locked(dir.path()));
    }
}
