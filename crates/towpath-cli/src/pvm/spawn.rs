//! `spawn`: what its options mean, and the tasks.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;

use anyhow::bail;
use towpath::task::{Place, SpawnTasks};
use towpath_pvm::linkage::{self, Linkage};
use towpath_pvm::names::arch_from_pvm;
use towpath_vm::Host;

use super::console::{Console, wrong_args};
use super::jobs::{Sink, TRACE_CONTEXT};
use super::roles;
use super::tasks::word;
use super::tids::Tid;
use crate::control;
use crate::run::lacks_library;

/// Most tasks of one `spawn`.
const COUNT_MAX: u32 = 4096;
/// The debugger's script where neither `PVM_DEBUGGER` nor `PVM_ROOT` says.
const ROOT: &str = "/usr/lib/pvm3";

/// Where output goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Output {
    /// Into the daemon's log.
    #[default]
    Log,
    Console,
    File {
        path: String,
        append: bool,
    },
}

/// A `spawn` as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    count: u32,
    /// A host's name or address, or an architecture.
    place: Option<String>,
    folder: String,
    debug: bool,
    /// Where a trace of it goes.
    trace: Option<Output>,
    output: Output,
    program: String,
    args: Vec<String>,
}

impl Wanted {
    fn parse(words: &[&str]) -> anyhow::Result<Self> {
        let mut wanted = Self { count: 1, ..Self::default() };
        let mut words = words.iter();
        let program = loop {
            let Some(word) = words.next() else { return wrong_args() };
            match word.strip_prefix('-') {
                Some(option) => wanted.option(option)?,
                None => break word,
            }
        };
        wanted.program = (*program).into();
        wanted.args = words.map(|word| (*word).into()).collect();
        Ok(wanted)
    }

    fn option(&mut self, option: &str) -> anyhow::Result<()> {
        if let Some(path) = option.strip_prefix('>') {
            self.output = match (path, path.strip_prefix('>')) {
                ("", _) => Output::Console,
                (_, Some("")) => bail!("->> needs a file"),
                (_, Some(path)) => Output::File { path: path.into(), append: true },
                (path, None) => Output::File { path: path.into(), append: false },
            };
        } else if option == "?" {
            self.debug = true;
        } else if let Some(path) = option.strip_prefix('@') {
            self.trace = Some(match path {
                "" => Output::Console,
                path => Output::File { path: path.into(), append: false },
            });
        } else if option.starts_with(|c: char| c.is_ascii_digit()) {
            let count = option.parse().ok().filter(|n| (1..=COUNT_MAX).contains(n));
            let Some(count) = count else {
                bail!("-{option}: a number of tasks is 1 to {COUNT_MAX}")
            };
            self.count = count;
        } else {
            let option = option.strip_prefix("-host=").unwrap_or(option);
            let (place, folder) = option.split_once(':').unwrap_or((option, ""));
            if place.is_empty() && folder.is_empty() {
                bail!("unknown option `-{option}`");
            }
            self.place = (!place.is_empty()).then(|| place.into());
            self.folder = folder.into();
        }
        Ok(())
    }

    /// Where to start them; `None`: it names neither a host nor an architecture.
    fn place(&self, hosts: &[Host]) -> Option<Place> {
        let Some(name) = &self.place else { return Some(Place::Any) };
        let by_name = hosts.iter().find(|host| control::is_called(host, name));
        let by_address = || hosts.iter().find(|host| host.addr.ip().to_string() == *name);
        match (by_name.or_else(by_address), arch_from_pvm(name)) {
            (Some(host), _) => Some(Place::Host(host.id)),
            (None, arch) => arch.map(|arch| Place::Arch(arch.into())),
        }
    }
}

impl Output {
    fn sink(&self) -> anyhow::Result<Sink> {
        Ok(match self {
            Self::Log => Sink::Log,
            Self::Console => Sink::Console,
            Self::File { path, append } => Sink::file(path, *append)?,
        })
    }
}

impl Console<'_> {
    pub(super) fn spawn(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let wanted = Wanted::parse(args)?;
        let hosts = self.hosts()?;
        let Some(place) = wanted.place(&hosts) else {
            return Ok("0 successful\nNo such host\n".into());
        };
        let mut out = String::new();
        let trace = wanted.trace.as_ref().map(Output::sink).transpose()?;
        let sink = wanted.output.sink()?;
        // What a traced task prints is part of the trace.
        let job = match (trace, sink) {
            (None, Sink::Log) => None,
            (None, sink) => Some(self.jobs.begin(sink)?),
            (Some(trace), sink) => {
                let (job, begin) = self.jobs.begin_traced(sink, trace, &hosts)?;
                out += &begin;
                Some(job)
            }
        };
        self.warn_without_library(&wanted);
        self.task.catch_output(job.is_some())?;
        let mut tasks = self.tasks(&wanted, place);
        if let (Some(job), Some(_)) = (job, &wanted.trace) {
            let tracer = Tid::from(self.task.id()).0;
            tasks.env.extend(self.mask.variables(tracer, TRACE_CONTEXT, job));
        }
        roles::by_taskers(&mut self.task, &mut tasks);
        let spawned = self.task.spawn(tasks)?;
        let done = spawned.iter().filter(|task| task.is_ok()).count();
        if let Some(job) = job {
            let _ = writeln!(out, "[{job}]");
        }
        let _ = writeln!(out, "{done} successful");
        for task in &spawned {
            match task {
                Ok(task) => {
                    let _ = writeln!(out, "t{:x}", Tid::from(*task));
                    if let Some(job) = job {
                        self.jobs.add(job, *task);
                    }
                }
                Err(fault) => {
                    let _ = writeln!(out, "{}", word(fault));
                }
            }
        }
        Ok(out)
    }

    /// Says once that programs for PVM will not get our library, as far as this machine shows it.
    fn warn_without_library(&mut self, wanted: &Wanted) {
        let own = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let given = |name: &str| self.settings.variable(name).map(OsString::from);
        let passed = self.settings.for_children();
        if self.library_told || passed.iter().any(|(name, _)| name == b"LD_LIBRARY_PATH") {
            return;
        }
        let folder = Some(OsStr::new(&wanted.folder)).filter(|folder| !folder.is_empty());
        let program = OsStr::new(&wanted.program);
        let file = linkage::file(program, folder, &own, &given);
        let linkage = file.map_or(Linkage::None, |file| linkage::at(&file));
        if let Some(why) = lacks_library(self.vm, program, linkage) {
            eprintln!("warning: {why}");
            self.library_told = true;
        }
    }

    fn tasks(&self, wanted: &Wanted, place: Place) -> SpawnTasks {
        let bytes = |text: &String| text.clone().into_bytes();
        let mut args: Vec<Vec<u8>> = wanted.args.iter().map(bytes).collect();
        let mut program = bytes(&wanted.program);
        if wanted.debug {
            let set = self.settings.variable("PVM_DEBUGGER").map(String::from);
            let root = self.settings.variable("PVM_ROOT").unwrap_or(ROOT);
            let debugger = set.unwrap_or_else(|| format!("{root}/lib/debugger"));
            args.insert(0, std::mem::replace(&mut program, debugger.into_bytes()));
        }
        SpawnTasks {
            program,
            args,
            env: self.settings.for_children(),
            cwd: bytes(&wanted.folder),
            place,
            count: wanted.count,
            // As PVM has it: a program started from the console is a master, not a slave.
            orphan: true,
            ..SpawnTasks::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Wanted {
        Wanted::parse(&line.split(' ').collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn options_in_any_order_before_the_program() {
        let wanted = parse("-4 -> -node1:/tmp prog -x -3");
        assert_eq!((wanted.count, wanted.output), (4, Output::Console));
        assert_eq!((wanted.place.as_deref(), wanted.folder.as_str()), (Some("node1"), "/tmp"));
        assert_eq!(
            (wanted.program.as_str(), wanted.args),
            ("prog", vec!["-x".into(), "-3".into()])
        );
        let wanted = parse("-:/w -? -@trace ->>out prog");
        assert_eq!((wanted.place, wanted.folder.as_str()), (None, "/w"));
        assert!(wanted.debug);
        assert_eq!(wanted.trace, Some(Output::File { path: "trace".into(), append: false }));
        assert_eq!(parse("-@ p").trace, Some(Output::Console));
        assert_eq!(wanted.output, Output::File { path: "out".into(), append: true });
        assert_eq!(parse("->out p").output, Output::File { path: "out".into(), append: false });
        assert_eq!(parse("--host=127.0.0.1 p").place.as_deref(), Some("127.0.0.1"));
        assert_eq!(parse("-LINUX64 p").place(&[]).unwrap(), Place::Arch("x86_64-linux".into()));
    }

    #[test]
    fn wrong_ones_are_refused() {
        for line in ["", "-4", "-0 p", "-4097 p", "- p", "->> p"] {
            let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
            assert!(Wanted::parse(&words).is_err(), "{line}");
        }
        assert_eq!(parse("-nowhere p").place(&[]), None);
    }
}
