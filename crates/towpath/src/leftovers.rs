//! What a daemon leaves behind when it is killed together with its guard: processes of its tasks
//! that nobody ends any more. The next start of the same host ends them, and so does `down`.
//!
//! They are known by what they were started with: each task, and whatever it starts, has the path
//! of the daemon's socket in its environment. That is what a process itself says
//! (`/proc/PID/environ`), so that no number that has become another process's can be mistaken for
//! one of theirs. A process is held by a descriptor before it is looked at, and the signal goes by
//! that.
//!
//! What cleared its environment and left the process group of its task gets away; the control group
//! ([`cgroup`](crate::start::cgroup)), where there is one, has that, too.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use towpath_task::place::{SOCKET_NAME, SOCKET_VAR};

use crate::config::SOCK;

/// How long killed processes may take to be gone.
const GONE_WAIT: Duration = Duration::from_secs(2);

/// No descriptor is left, to this process or to anybody.
const NO_DESCRIPTOR: [Errno; 2] = [Errno::MFILE, Errno::NFILE];

/// Ends what is left of the tasks of a daemon in `dir` that has not ended as daemons do; gives how
/// many processes that were. To be called while no daemon runs there.
pub fn end(dir: &Path) -> usize {
    let sockets = [SOCK, SOCKET_NAME].map(|name| dir.join(name));
    // A daemon that ends takes them away.
    if !sockets.iter().any(|socket| socket.symlink_metadata().is_ok()) {
        return 0;
    }
    let Ok(meta) = dir.metadata() else { return 0 };
    let place = (meta.dev(), meta.ino());
    let spared = own_line();
    let deadline = Instant::now() + GONE_WAIT;
    let mut ended = 0;
    // They may start others while we look.
    loop {
        let Ok((found, is_all)) = tasks_of(place, &spared) else { return ended };
        if found.is_empty() && !is_all {
            // Where it cannot be looked (no descriptor is left), the next start does.
            return ended;
        }
        if found.is_empty() || Instant::now() > deadline {
            break;
        }
        for process in &found {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        ended += found.len();
        wait(&found, deadline);
    }
    for socket in sockets {
        let _ = fs::remove_file(socket);
    }
    ended
}

/// Waits until all of them are gone.
fn wait(processes: &[OwnedFd], deadline: Instant) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    for process in processes {
        let left = deadline.saturating_duration_since(Instant::now());
        let left =
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left));
    }
}

/// This process and those that it comes from: who starts a daemon from a shell that is left of its
/// earlier life is not to be ended by it.
fn own_line() -> Vec<u32> {
    let mut line = vec![std::process::id()];
    while let Some(parent) = line.last().and_then(|pid| crate::lock::parent(*pid))
        && parent > 1
    {
        line.push(parent);
    }
    line
}

/// Our processes with a socket in this directory, except these, and whether these are all: false
/// where there are more than descriptors.
fn tasks_of(place: (u64, u64), spared: &[u32]) -> io::Result<(Vec<OwnedFd>, bool)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let pid = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = pid.filter(|pid| !spared.contains(pid)) {
            match held_task(pid, place) {
                Ok(task) => found.extend(task),
                Err(_) => return Ok((found, false)),
            }
        }
    }
    Ok((found, true))
}

/// An error where no descriptor is left; whatever else fails is another's process, or has ended.
fn held_task(pid: u32, place: (u64, u64)) -> io::Result<Option<OwnedFd>> {
    let proc = Path::new("/proc").join(pid.to_string());
    let own = geteuid().as_raw();
    let Some(id) = Pid::from_raw(pid.cast_signed()) else { return Ok(None) };
    if !proc.metadata().is_ok_and(|meta| meta.uid() == own) {
        return Ok(None);
    }
    let Some(process) = known(pidfd_open(id, PidfdFlags::empty()).map_err(Into::into))? else {
        return Ok(None);
    };
    let Some(environment) = known(fs::read(proc.join("environ")))? else { return Ok(None) };
    let socket = environment.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(SOCKET_VAR.as_bytes())?.strip_prefix(b"=")?;
        Some(Path::new(OsStr::from_bytes(value)))
    });
    // However the path is written.
    let dir = socket.and_then(Path::parent).filter(|dir| dir.is_absolute());
    let dir = dir.and_then(|dir| dir.metadata().ok());
    Ok(dir.is_some_and(|dir| (dir.dev(), dir.ino()) == place).then_some(process))
}

fn known<T>(tried: io::Result<T>) -> io::Result<Option<T>> {
    match tried {
        Err(why) if Errno::from_io_error(&why).is_some_and(|e| NO_DESCRIPTOR.contains(&e)) => {
            Err(why)
        }
        tried => Ok(tried.ok()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that says it is a task of the daemon with this socket. Whoever starts a process
    /// goes on before it is known by what it was started with: execve(2) lets its parent go while
    /// it still has the old memory.
    pub(crate) fn start(socket: &Path) -> Child {
        let mut command = Command::new("sleep");
        let task = command.arg("600").env(SOCKET_VAR, socket).stdin(Stdio::null()).spawn().unwrap();
        let environment = format!("/proc/{}/environ", task.id());
        let name = SOCKET_VAR.as_bytes();
        let is_known = || {
            let environment = fs::read(&environment).unwrap();
            environment.windows(name.len()).any(|part| part == name)
        };
        while !is_known() {
            std::thread::yield_now();
        }
        task
    }

    #[test]
    fn tasks_of_a_daemon_that_was_killed_end_and_nobody_else_does() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = other.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        let mut tasks = [start(&dir.path().join(SOCKET_NAME)), start(&link.join(SOCKET_NAME))];
        let mut strangers = [start(&other.path().join(SOCKET_NAME)), start(Path::new("x"))];
        // A daemon that has ended as they do leaves no socket, and nothing to look for.
        assert_eq!(end(dir.path()), 0);
        fs::write(dir.path().join(SOCK), "").unwrap();
        assert_eq!(end(dir.path()), 2);
        for task in &mut tasks {
            assert!(!task.wait().unwrap().success());
        }
        assert!(!dir.path().join(SOCK).exists());
        for stranger in &mut strangers {
            assert!(stranger.try_wait().unwrap().is_none());
            stranger.kill().unwrap();
            stranger.wait().unwrap();
        }
    }
}
