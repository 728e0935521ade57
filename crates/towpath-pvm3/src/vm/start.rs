//! Hosts that programs start: `pvm_start_pvmd` and `pvm_addhosts`.
//!
//! To start a host takes keys, a shell on another machine, and time: that is the `towpath`
//! program's work, not a library's in somebody else's process. The first daemon is started by
//! `towpath pvm`. Where there is one, `towpath pvm --add` runs as a task on the founder's host,
//! which alone admits hosts, and its end is waited for.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use towpath_task::{Event, Place, SpawnTasks, Subject, Task, TaskId};

use super::codes::of_fault;
use super::contract::{HostRow, Vm};
use super::shapes::asked;
use super::towpath::Member;
use crate::code::{Code, Outcome};

/// The program, as daemons find it too.
pub(super) const PROGRAM: &str = "towpath";

/// The task that starts hosts for this one. The program hears nothing of it.
#[derive(Debug, Default)]
pub(super) struct Starter {
    task: Option<TaskId>,
    /// The watch for its end, until that has come.
    watch: Option<u64>,
}

impl Starter {
    /// Whether an event is about it.
    pub(super) fn takes(&mut self, event: &Event) -> bool {
        match event {
            Event::Notice { watch, .. } => self.watch.take_if(|own| own == watch).is_some(),
            Event::Output { task, .. } => self.task == Some(*task),
            Event::End(_) => false,
        }
    }
}

/// The host that is meant by a name with options behind it.
fn name_of(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

fn named<'a>(hosts: &'a [HostRow], text: &str) -> Option<&'a HostRow> {
    hosts.iter().find(|row| row.name == name_of(text))
}

impl Member {
    /// `pvm_addhosts`: for each a host or a code.
    pub(super) fn add(&mut self, names: &[String]) -> Result<Vec<i32>, Code> {
        let before = self.hosts()?;
        let mut args = vec![b"pvm".to_vec()];
        for name in names.iter().filter(|name| named(&before, name).is_none()) {
            args.extend([b"--add".to_vec(), name.clone().into_bytes()]);
        }
        let founder = before.iter().map(|row| row.tid).min().ok_or(Code::NoHost)?;
        let now = if args.len() == 1 {
            Vec::new()
        } else {
            self.start_on(founder, args)?;
            self.hosts()?
        };
        let outcome = |name: &String| match (named(&before, name), named(&now, name)) {
            (Some(_), _) => Code::DupHost.number(),
            (None, Some(row)) => row.tid,
            (None, None) => Code::CantStart.number(),
        };
        Ok(names.iter().map(outcome).collect())
    }

    /// Runs the program on a host to its end.
    fn start_on(&mut self, host: i32, args: Vec<Vec<u8>>) -> Result<(), Code> {
        let place = Place::Host(self.host(host)?.ok_or(Code::NoHost)?);
        let program = PROGRAM.into();
        let tasks =
            SpawnTasks { program, args, place, count: 1, orphan: true, ..Default::default() };
        let task = match asked(self.layer().spawn(tasks))?.pop() {
            Some(Ok(task)) => task,
            Some(Err(fault)) => return Err(of_fault(&fault)),
            None => return Err(Code::SysErr),
        };
        self.starter.task = Some(task);
        self.starter.watch = Some(asked(self.layer().watch(Subject::Task(task)))?);
        self.take_events();
        while self.starter.watch.is_some() {
            self.wait(None)?;
        }
        Ok(())
    }
}

/// `pvm_start_pvmd`: with the arguments of `pvm`, a host file and `-nNAME`.
pub(crate) fn start(args: &[String]) -> Outcome {
    if is_up() {
        return Err(Code::DupHost);
    }
    let mut command = Command::new(program());
    // A person's first commands for the console are none of this program's.
    command.args(["pvm", "--no-commands"]).args(args).stdin(Stdio::null()).stdout(Stdio::null());
    // Who ignores the ends of children is not told of them: what counts is what came of it.
    let _ = command.status();
    if is_up() { Ok(0) } else { Err(Code::CantStart) }
}

fn is_up() -> bool {
    Task::enrol().is_ok_and(|task| task.leave().is_ok())
}

/// The program that this library belongs to: beside it, or where both are installed, or by `PATH`.
fn program() -> PathBuf {
    let library = library().and_then(|path| path.canonicalize().ok());
    let folder = library.as_deref().and_then(Path::parent);
    let places = ["", "..", "../../bin"].map(|way| Some(folder?.join(way).join(PROGRAM)));
    places.into_iter().flatten().find(|path| path.is_file()).unwrap_or_else(|| PROGRAM.into())
}

/// The file of this library.
fn library() -> Option<PathBuf> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let own: fn(&[String]) -> Outcome = start;
    // SAFETY: any address may be asked for; where one is known, all of `found` is written.
    let found = unsafe {
        (libc::dladdr(own as *const libc::c_void, found.as_mut_ptr()) != 0)
            .then(|| found.assume_init())
    }?;
    if found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name lasts as long as the library.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(std::ffi::OsStr::from_bytes(name.to_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_before_options() {
        assert_eq!(name_of(" node1 lo=bob"), "node1");
        assert_eq!(name_of(""), "");
    }

    #[test]
    fn this_library_is_a_file() {
        assert!(library().unwrap().is_file());
    }

    #[test]
    fn the_program_hears_nothing_of_what_starts_hosts() {
        let host = towpath_task::HostId::new(1, 1).unwrap();
        let (own, other) = (host.task(5).unwrap(), host.task(6).unwrap());
        let mut starter = Starter { task: Some(own), watch: Some(9) };
        let output =
            |task| Event::Output { task, stream: towpath_task::Stream::Out, bytes: vec![] };
        assert!(starter.takes(&output(own)) && !starter.takes(&output(other)));
        assert!(!starter.takes(&Event::End(String::new())));
        let notice = |watch, task| {
            let event = towpath_task::WatchEvent::TaskEnded { task, ending: None };
            Event::Notice { watch, event }
        };
        assert!(!starter.takes(&notice(8, own)) && starter.watch == Some(9));
        assert!(starter.takes(&notice(9, own)) && starter.watch.is_none());
        assert!(!starter.takes(&notice(9, own)), "it has come");
    }

    #[test]
    fn a_host_is_known_by_its_name_whatever_its_options() {
        let row = |name: &str| HostRow {
            tid: 1 << 18,
            name: name.into(),
            arch: String::new(),
            speed: 1000,
            dsig: 0,
        };
        let hosts = [row("a"), row("b")];
        assert_eq!(named(&hosts, "b sp=7").map(|row| row.name.as_str()), Some("b"));
        assert!(named(&hosts, "c").is_none() && named(&hosts, "").is_none());
    }
}
