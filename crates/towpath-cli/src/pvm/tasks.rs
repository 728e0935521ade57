//! Tasks: `ps`, `pstat`, `kill`, `sig`, `jobs`, `reset`.

use std::fmt::Write;

use anyhow::bail;
use towpath::TaskId;
use towpath::task::{AskError, Fault, TaskInfo};
use towpath_vm::Host;

use super::console::{Console, wrong_args};
use super::mail::NO_RESET;
use super::tids::Tid;
use crate::control;

const TERMINATE: i32 = 15;
/// What PVM shows for a task without parent.
const NO_PARENT: &str = "-";
/// PVM's bits and letters: its process was started by a daemon; it is connected to one.
const STARTED: (u8, char) = (2, 'f');
const CONNECTED: (u8, char) = (4, 'c');

/// What `ps` is to show.
#[derive(Debug, Default, PartialEq, Eq)]
struct Listing {
    all: bool,
    long: bool,
    /// Also this console.
    others: bool,
    host: Option<String>,
}

impl Listing {
    fn parse(args: &[&str]) -> anyhow::Result<Self> {
        let mut listing = Self::default();
        for arg in args {
            let Some(letters) = arg.strip_prefix('-') else { bail!("unknown option `{arg}`") };
            let name = letters.strip_prefix('h').or_else(|| letters.strip_prefix('n'));
            if let Some(name) = name {
                listing.host = Some(name.into());
                continue;
            }
            for letter in letters.chars() {
                match letter {
                    'a' => listing.all = true,
                    'l' => listing.long = true,
                    'x' => listing.others = true,
                    _ => bail!("unknown option `-{letter}`"),
                }
            }
        }
        Ok(listing)
    }
}

fn heading(long: bool) -> String {
    let more = if long { format!(" {:>8} {:>6}", "PTID", "PID") } else { String::new() };
    format!("{:>24} {:>8}{more}   FLAG 0x COMMAND\n", "HOST", "TID")
}

/// A line about a task; `console` is the task that asks.
fn row(task: &TaskInfo, host: &str, long: bool, console: Option<TaskId>) -> String {
    let own = console == Some(task.id);
    let mut out = if own {
        format!("{host:>24} {:>8}", "(cons)")
    } else {
        format!("{host:>24} {:>8x}", Tid::from(task.id))
    };
    if long {
        let parent = task.parent.map_or(NO_PARENT.into(), |p| format!("{:x}", Tid::from(p)));
        let _ = write!(out, " {parent:>8} {:>6}", task.pid);
    }
    let flags = [(task.enrolled, CONNECTED), (task.started, STARTED)];
    let set = || flags.iter().filter(|(set, _)| *set).map(|(_, flag)| *flag);
    let bits: u8 = set().map(|(bit, _)| bit).sum();
    let letters: Vec<String> = set().map(|(_, letter)| letter.to_string()).collect();
    let flags = format!("{bits:x}/{}", letters.join(","));
    // PVM knows no program of those that enrolled by themselves.
    let command = task.command.split(' ').next().filter(|_| task.started).unwrap_or("-");
    let _ = writeln!(out, " {flags:>9} {command:<12}");
    out
}

/// PVM's word for what went wrong.
pub(super) fn word(fault: &Fault) -> String {
    match fault {
        Fault::NotStarted { errno: 2 | 13 | 20, .. } => "No such file".into(),
        Fault::NotStarted { text, .. } => text.clone(),
        Fault::NoHost => "No such host".into(),
        Fault::NoTask => "No such task".into(),
        Fault::HostLost => "Host failed".into(),
        fault => fault.to_string(),
    }
}

impl Console<'_> {
    pub(super) fn ps(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let listing = Listing::parse(args)?;
        let mut hosts = self.hosts()?;
        if let Some(name) = &listing.host {
            let id = Tid::parse(name);
            let is = |host: &Host| control::is_called(host, name) || id == Some(host.id.into());
            hosts.retain(is);
            if hosts.is_empty() {
                bail!("No such host");
            }
        } else if !listing.all {
            let own = self.task.host();
            hosts.retain(|host| host.id == own);
        }
        let mut out = heading(listing.long);
        for host in &hosts {
            let mut tasks = self.task.tasks(Some(host.id))?;
            tasks.sort_by_key(|task| task.id.number());
            for task in &tasks {
                let own = self.task.id();
                if task.id != own || listing.others {
                    out += &row(task, &host.name, listing.long, Some(own));
                }
            }
        }
        Ok(out)
    }

    pub(super) fn list_jobs(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let long = match args {
            [] => false,
            ["-l"] => true,
            _ => return wrong_args(),
        };
        let hosts = self.hosts()?;
        let jobs: Vec<_> = self.jobs.list().collect();
        let mut out = if long { heading(false) } else { String::new() };
        for (number, tasks) in jobs {
            if !long {
                let names: Vec<String> =
                    tasks.iter().map(|task| format!(" t{:x}", Tid::from(*task))).collect();
                let _ = writeln!(out, "{number:>2}:{}", names.concat());
                continue;
            }
            let _ = writeln!(out, "{number:>2}:");
            for task in tasks {
                let host = hosts.iter().find(|host| host.id == task.host());
                let name = host.map_or("-", |host| host.name.as_str());
                // It may be over by now.
                if let Ok(task) = self.task.task(task) {
                    out += &row(&task, name, false, None);
                }
            }
        }
        Ok(out)
    }

    /// The tasks that arguments name; `None` for one that is not there.
    fn named(&mut self, args: &[&str]) -> anyhow::Result<Vec<(Tid, Option<TaskId>)>> {
        if args.is_empty() {
            return wrong_args();
        }
        let hosts = self.hosts()?;
        let mut named = Vec::new();
        for arg in args {
            match Tid::parse(arg) {
                Some(tid) => named.push((tid, tid.task(&hosts))),
                None => bail!("`{arg}` is no task such as t40001"),
            }
        }
        Ok(named)
    }

    pub(super) fn pstat(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let mut out = String::new();
        for (tid, task) in self.named(args)? {
            let found = task.map(|task| self.task.task(task));
            let status = match found {
                Some(Ok(_)) => "run".to_string(),
                None | Some(Err(AskError::Fault(Fault::NoTask))) => "No such task".to_string(),
                Some(Err(AskError::Fault(fault))) => word(&fault),
                Some(Err(e)) => return Err(e.into()),
            };
            let _ = writeln!(out, "t{tid:>8x}  {status}");
        }
        Ok(out)
    }

    /// A task that is not there takes it in silence, as in PVM.
    fn signal(&mut self, task: TaskId, signal: i32) -> anyhow::Result<()> {
        match self.task.signal(task, signal) {
            Ok(()) | Err(AskError::Fault(Fault::NoTask | Fault::NoHost)) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    pub(super) fn sig(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let [signal, tasks @ ..] = args else { return wrong_args() };
        let Some(signal) = signal.parse().ok().filter(|n| (1..=64).contains(n)) else {
            bail!("`{signal}` is no signal: 1 to 64");
        };
        for (_, task) in self.named(tasks)? {
            task.map_or(Ok(()), |task| self.signal(task, signal))?;
        }
        Ok(String::new())
    }

    pub(super) fn kill(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let (children, args) = match args {
            ["-c", rest @ ..] => (true, rest),
            all => (false, all),
        };
        let named: Vec<TaskId> = self.named(args)?.into_iter().filter_map(|(_, t)| t).collect();
        if !children {
            for task in named {
                self.signal(task, TERMINATE)?;
            }
            return Ok(String::new());
        }
        for task in self.task.tasks(None)? {
            if task.parent.is_some_and(|parent| named.contains(&parent)) {
                self.signal(task.id, TERMINATE)?;
            }
        }
        Ok(String::new())
    }

    /// Ends all tasks but this one and those that do not want it (`PvmNoReset`); `reset info`
    /// deletes mailbox entries that nobody owns any more.
    pub(super) fn reset(&mut self, args: &[&str]) -> anyhow::Result<String> {
        match args {
            [] => {}
            ["info", rest @ ..] if rest.len() <= 2 => return self.reset_mail(rest),
            _ => return wrong_args(),
        }
        let boxes = self.task.mailboxes(NO_RESET)?;
        let entries = boxes.iter().flat_map(|mailbox| &mailbox.entries);
        let spared: Vec<TaskId> = entries.filter_map(|(_, owner, _)| *owner).collect();
        for task in self.task.tasks(None)? {
            if task.id != self.task.id() && !spared.contains(&task.id) {
                self.signal(task.id, TERMINATE)?;
            }
        }
        self.reset_mail(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_wire::HostId;

    #[test]
    fn rows_are_as_pvm_prints_them() {
        let host = HostId::new(1, 1).unwrap();
        let mut task = TaskInfo {
            id: host.task(5).unwrap(),
            requester: host,
            pid: 12189,
            age_us: 0,
            command: "/usr/bin/hello.pvm x".into(),
            parent: host.task(1),
            enrolled: false,
            started: true,
            channels: 0,
            reserved_bps: 0,
        };
        let short = "                      vm    40005       2/f /usr/bin/hello.pvm\n";
        assert_eq!(row(&task, "vm", false, None), short);
        task.enrolled = true;
        task.command = "pvmgs".into();
        let long = "                      vm    40005    40001  12189     6/c,f pvmgs       \n";
        assert_eq!(row(&task, "vm", true, None), long);
        (task.parent, task.started) = (None, false);
        let own = "                      vm   (cons)        -  12189       4/c -           \n";
        assert_eq!(row(&task, "vm", true, Some(task.id)), own);
        let head = "                    HOST      TID     PTID    PID   FLAG 0x COMMAND\n";
        assert_eq!(heading(true), head);
        assert_eq!(heading(false), "                    HOST      TID   FLAG 0x COMMAND\n");
    }

    #[test]
    fn options_of_ps() {
        let parsed = Listing::parse(&["-al", "-x", "-hc0000"]).unwrap();
        let host = Some("c0000".into());
        assert_eq!(parsed, Listing { all: true, long: true, others: true, host });
        assert!(Listing::parse(&["-q"]).is_err());
        assert!(Listing::parse(&["a"]).is_err());
    }
}
