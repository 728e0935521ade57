//! A farm that goes on without whoever started it: what starts it, and what runs it then.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::Path;

use anyhow::{Context, bail};
use towpath::VmDir;
use towpath::farm::{
    FarmError, FarmOptions, InputError, Items, LogError, Outcome, Printer, Report, Separator,
    run as run_farm,
};
use towpath::jobs::minder::{ERR, OUT};
use towpath::jobs::spool::Spool;
use towpath::jobs::{self, JOBLOG, Job, SOURCE_MAX};

use super::args::{FarmArgs, When};
use super::command::{form, options, tell};
use super::screen::{Meter, Screen};
use crate::control;
use crate::jobs::{Kind, start};

/// Where items come from: files, and standard input for `-`. A job has them as they were when it
/// began.
pub(super) struct Sources<'a> {
    job: Option<(&'a Job, Does)>,
    next: Cell<usize>,
    /// Most bytes of one.
    max: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Keep,
    ReadAgain,
}

impl<'a> Sources<'a> {
    pub(super) const fn new(job: Option<&'a Job>) -> Self {
        let job = match job {
            Some(job) => Some((job, Does::ReadAgain)),
            None => None,
        };
        Self { job, next: Cell::new(0), max: SOURCE_MAX }
    }

    const fn kept(job: &'a Job) -> Self {
        Self { job: Some((job, Does::Keep)), next: Cell::new(0), max: SOURCE_MAX }
    }

    /// The next one, with its name.
    pub(super) fn open(&self, path: &Path) -> anyhow::Result<(Box<dyn BufRead>, String)> {
        let is_input = path.as_os_str() == "-";
        let name = if is_input { "standard input".into() } else { path.display().to_string() };
        let k = self.next.replace(self.next.get() + 1);
        if let Some((job, Does::ReadAgain)) = self.job {
            return Ok((Box::new(BufReader::new(job.source(k, false)?)), name));
        }
        let source: Box<dyn BufRead> = if is_input {
            if io::stdin().is_terminal() {
                eprintln!("reading the items from the terminal; end them with Ctrl-D");
            }
            Box::new(io::stdin().lock())
        } else {
            let opened = File::open(path);
            let opened = opened.map_err(|os| InputError::Read { name: name.clone(), os })?;
            Box::new(BufReader::new(opened))
        };
        let Some((job, _)) = self.job else { return Ok((source, name)) };
        let mut to = job.source(k, true)?;
        let copied = io::copy(&mut source.take(self.max + 1), &mut to);
        if copied.with_context(|| format!("keeping a copy of {name}"))? > self.max {
            bail!("{name} has more than {} bytes\nhint: make several farms of it", self.max);
        }
        Ok((Box::new(BufReader::new(job.source(k, false)?)), name))
    }

    pub(super) fn read(&self, path: &Path, separator: Separator) -> anyhow::Result<Items> {
        let (mut source, name) = self.open(path)?;
        Ok(Items::read(&mut source, &name, separator)?)
    }
}

/// Makes a job of it.
pub(super) fn detach(vm: &VmDir, args: &FarmArgs) -> anyhow::Result<u8> {
    control::sockets(vm)?;
    let making = jobs::make(vm)?;
    let options = options(args, &Sources::kept(making.job()))?;
    making.job().has_items(options.items.len())?;
    start(vm, making, &args.by_itself, Kind::Farm)?;
    Ok(0)
}

/// How a client of a job ended.
enum End {
    Status(u8),
    /// There was no daemon to work with.
    Unserved(String),
    /// What it is to keep cannot be written.
    Unkept,
}

/// Runs it, as the client of a job.
pub(super) fn run(vm: &VmDir, args: &FarmArgs, job: &Job) -> anyhow::Result<u8> {
    let end = client(vm, args, job).unwrap_or_else(|e| {
        eprintln!("error: {}", towpath_report::text::causes(e.chain()));
        End::Status(255)
    });
    match end {
        End::Status(status) => {
            job.client_ends(status)?;
            Ok(status)
        }
        End::Unserved(why) => {
            job.is_unserved()?;
            eprintln!("{why}");
            Ok(255)
        }
        // Its minder has it go on once there is room.
        End::Unkept => Ok(255),
    }
}

fn client(vm: &VmDir, args: &FarmArgs, job: &Job) -> anyhow::Result<End> {
    let went_on = job.mark();
    let last = went_on.unwrap_or_default();
    let options = FarmOptions {
        joblog: Some(job.path.join(JOBLOG)),
        resume: true,
        goes_on: Some(job.failed_from()),
        ..options(args, &Sources::new(Some(job)))?
    };
    let sockets = match control::sockets(vm) {
        Ok(sockets) => sockets,
        Err(why) => return Ok(End::Unserved(why.to_string())),
    };
    let keep = job.about().context("what this job is")?.keep;
    let [out, err] = [(OUT, last.out), (ERR, last.err)].map(|(name, end)| {
        let mut spool = Spool::open(&job.path.join(name), keep)?;
        spool.cut(end).context("cannot cut off output")?;
        anyhow::Ok(spool)
    });
    let (out, err) = (out?, err?);
    cut_off(&job.path.join(JOBLOG), last.log)?;
    let [interrupt, at_once] = crate::interrupt::twice()?;
    let options = FarmOptions { at_once, ..options };
    let mut screen = Screen {
        printer: Printer::new(form(args), out, err),
        meter: Meter::new(When::Never, 0),
        out_is_terminal: false,
        mark: Some((job.mark_file()?, last)),
    };
    let Outcome { report, error } = run_farm(&options, &sockets, &mut screen, &interrupt);
    if let Some(e) = &error
        && is_unserved(e, went_on.is_some())
        && !report.interrupted
    {
        return Ok(End::Unserved(e.to_string()));
    }
    ends(&mut screen, &report, error)
}

fn ends(
    screen: &mut Screen<Spool, Spool>,
    report: &Report,
    error: Option<FarmError>,
) -> anyhow::Result<End> {
    let printed = screen.finish(report);
    tell(report, false);
    match error {
        Some(e @ (FarmError::Output(_) | FarmError::Log(LogError::Write { .. }))) => {
            eprintln!("error: {e}");
            return Ok(End::Unkept);
        }
        Some(e) => bail!("{e}"),
        None => {}
    }
    if let Err(e) = printed {
        eprintln!("error: cannot keep output: {e}");
        return Ok(End::Unkept);
    }
    Ok(End::Status(report.exit_status()))
}

/// Takes away the lines that the last client wrote and did not get to the end with: their items run
/// again, and their output is cut off, too.
fn cut_off(log: &Path, len: u64) -> anyhow::Result<()> {
    match File::options().write(true).open(log) {
        Ok(log) if log.metadata()?.len() > len => {
            log.set_len(len).context("cannot cut off the job log")
        }
        _ => Ok(()),
    }
}

/// Whether it may go on once a daemon answers.
const fn is_unserved(error: &FarmError, went_on: bool) -> bool {
    match error {
        FarmError::Daemon(_) | FarmError::NoHosts => true,
        // It was there before.
        FarmError::UnknownHost { .. } => went_on,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use towpath::Home;

    use super::*;

    #[test]
    fn sources_are_kept_as_they_were_within_their_limit() {
        let dir = tempfile::tempdir().unwrap();
        let vm = Home::at(dir.path().into()).vm("test").unwrap();
        let making = jobs::make(&vm).unwrap();
        let list = dir.path().join("list");
        std::fs::write(&list, "a\nb\n").unwrap();
        let read = |sources: &Sources<'_>| sources.read(&list, Separator::Line);
        let tight = Sources { max: 3, ..Sources::kept(making.job()) };
        let why = read(&tight).unwrap_err().to_string();
        assert!(why.contains("more than 3 bytes") && why.contains("hint: "), "{why}");
        let fits = Sources { max: 4, ..Sources::kept(making.job()) };
        assert_eq!(read(&fits).unwrap().len(), 2);
        std::fs::write(&list, "another\n").unwrap();
        assert_eq!(read(&Sources::new(Some(making.job()))).unwrap().len(), 2);
        assert_eq!(read(&Sources::new(None)).unwrap().len(), 1);
    }
}
