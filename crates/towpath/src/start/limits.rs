//! Descriptors: the daemon may open as many as the system lets it, its tasks see the limit that
//! the daemon was started with. Programs that use `select` or close every descriptor there could
//! be do not stand a high one.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// Descriptors that the daemon may open in the moment while its own limit is the tasks'.
const SPARE: u64 = 128;

/// Descriptors that a daemon needs at least: sixteen of its own, and room for a few clients and
/// tasks at once.
pub const DESCRIPTORS_MIN: u64 = 64;

/// The system lets this process open too few descriptors for a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the hard limit of open descriptors is {0}, a daemon needs {DESCRIPTORS_MIN} at least\n\
     hint: `ulimit -H -n` shows it; the administrator raises it, in limits.conf or by systemd's \
     LimitNOFILE="
)]
pub struct TooFew(pub u64);

/// The limit that was found, and given back to tasks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Descriptors {
    /// The soft limit as it was, if it was raised.
    found: Option<u64>,
}

impl Descriptors {
    /// [`Descriptors::raise`] for a daemon, to which the hard limit must leave enough.
    pub fn raise_for_daemon() -> Result<Self, TooFew> {
        let too_few = getrlimit(Resource::Nofile).maximum.filter(|max| *max < DESCRIPTORS_MIN);
        too_few.map_or_else(|| Ok(Self::raise()), |max| Err(TooFew(max)))
    }

    /// Raises the soft limit to the hard one.
    pub fn raise() -> Self {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, ..limit };
        let higher = limit.maximum.is_none_or(|max| limit.current.is_some_and(|now| now < max));
        match limit.current {
            Some(found) if higher && setrlimit(Resource::Nofile, raised).is_ok() => {
                Self { found: Some(found) }
            }
            _ => Self::default(),
        }
    }

    /// Starts a process that sees the limit as it was found.
    ///
    /// A limit belongs to a whole process and is inherited, so ours is put back while the new one
    /// starts. Where so many descriptors are open that another thread could miss one in that
    /// moment, the new process is given its limit right after its start instead: it might see
    /// ours in its first instructions.
    pub fn spawn(self, command: &mut Command) -> io::Result<Child> {
        let Some(found) = self.found else { return command.spawn() };
        let hard = getrlimit(Resource::Nofile).maximum;
        let ours = Rlimit { current: hard, maximum: hard };
        // The hard one may have been lowered since.
        let found = hard.map_or(found, |hard| found.min(hard));
        let theirs = Rlimit { current: Some(found), maximum: hard };
        if lowest_free().is_none_or(|fd| fd + SPARE >= found) {
            let child = command.spawn()?;
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            // Fails only for a process that has ended already.
            let _ = prlimit(pid, Resource::Nofile, theirs);
            return Ok(child);
        }
        setrlimit(Resource::Nofile, theirs)?;
        let child = command.spawn();
        setrlimit(Resource::Nofile, ours)?;
        child
    }
}

/// What is to be said of a process that does not answer, where that is for want of descriptors.
pub(crate) fn want_of(pid: u32) -> Option<String> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
    (open >= limit).then(|| {
        format!(
            "\nhint: process {pid} has no descriptor left ({open} are open, its limit is {limit}): \
             end some of its clients or tasks, or raise the limit"
        )
    })
}

/// The lowest descriptor that is free.
fn lowest_free() -> Option<u64> {
    let fd: OwnedFd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).ok()?;
    u64::try_from(fd.as_raw_fd()).ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::Stdio;

    use super::*;

    /// The limits that a process sees, once it is told to look.
    fn seen(found: Option<u64>) -> (String, String) {
        let mut command = Command::new("sh");
        command.args(["-c", "read go; ulimit -Sn; ulimit -Hn"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Descriptors { found }.spawn(&mut command).unwrap();
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success());
        let (soft, hard) = said.trim_end().split_once('\n').expect("two lines");
        (soft.into(), hard.into())
    }

    #[test]
    fn a_process_without_descriptors_is_known_by_its_limit() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        assert_eq!(want_of(child.id()), None);
        let pid = Some(Pid::from_child(&child));
        let own = prlimit(pid, Resource::Nofile, getrlimit(Resource::Nofile)).unwrap();
        let none = Rlimit { current: Some(3), ..own };
        prlimit(pid, Resource::Nofile, none).unwrap();
        let said = want_of(child.id()).expect("it has three, and may have no more");
        assert!(said.contains("its limit is 3"), "{said}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(want_of(child.id()), None, "it is over");
    }

    #[test]
    fn tasks_see_the_limit_that_was_found_and_the_daemon_keeps_its_own() {
        Descriptors::raise_for_daemon().unwrap();
        let ours = getrlimit(Resource::Nofile);
        assert_eq!(ours.current, ours.maximum, "it is raised");
        let again = Descriptors::raise();
        assert_eq!(again.found, None, "there is nothing to raise");
        let hard = ours.maximum.map_or_else(|| "unlimited".into(), |max| max.to_string());
        assert_eq!(seen(None), (hard.clone(), hard.clone()));
        // One below the limit; and one so low that others could miss a descriptor meanwhile.
        let high = ours.maximum.map_or(1 << 20, |max| max - 1);
        for found in [high, SPARE + 2] {
            assert_eq!(seen(Some(found)), (found.to_string(), hard.clone()));
            let now = getrlimit(Resource::Nofile);
            assert_eq!((now.current, now.maximum), (ours.current, ours.maximum));
        }
    }
}
