//! `attach`: what a job prints, from the beginning on, until it ends.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use towpath::VmDir;
use towpath::jobs::minder::{ERR, OUT, SAID};
use towpath::jobs::spool::{Kept, Piece};
use towpath::jobs::{self, Ended, Job, State};
use towpath_report::files::OUTPUT_CLOSED;
use towpath_report::units::size_text;

use super::start::mind;
use crate::interrupt;

/// How often is looked for more.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of what is said that are kept until their line ends.
const LINE_MAX: usize = 64 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath attach            what the last job printed and prints
  towpath attach 3 >out     job 3

Ctrl-C leaves the job as it is: `towpath jobs end` ends it. A farm that was interrupted, since its
processes were killed or the machine was, goes on with what is not done.

Exit status: that of the job; 130 interrupted; 255 where it is not known, or Towpath failed.")]
pub(crate) struct AttachArgs {
    /// Its number, as `towpath jobs` has it [default: the last one]
    #[arg(value_name = "JOB")]
    job: Option<usize>,
    /// Show what is there, and do not wait for more
    #[arg(long)]
    no_wait: bool,
}

/// What a job prints and what is said about it.
struct View {
    out: Kept,
    err: Kept,
    said: Kept,
    /// The beginning of a line of what is said.
    line: Vec<u8>,
    buf: Vec<u8>,
}

impl View {
    fn new(job: &Job) -> Self {
        let [out, err, said] = [OUT, ERR, SAID].map(|name| Kept::new(job.path.join(name)));
        Self { out, err, said, line: Vec::new(), buf: vec![0; 64 * 1024] }
    }

    /// Shows all that is there.
    fn show(&mut self, job: &Job, writes: bool) -> io::Result<()> {
        if writes {
            // Beyond that a client may have to print it anew.
            let mark = job.mark().unwrap_or_default();
            (self.out.end, self.err.end) = (mark.out, mark.err);
        }
        let Self { out, err, said, line, buf } = self;
        pass_on(out, buf, &mut |bytes| io::stdout().write_all(bytes))?;
        io::stdout().flush()?;
        pass_on(err, buf, &mut |bytes| io::stderr().write_all(bytes))?;
        pass_on(said, buf, &mut |bytes| {
            for part in bytes.split_inclusive(|b| *b == b'\n') {
                line.extend_from_slice(part);
                if part.ends_with(b"\n") || line.len() > LINE_MAX {
                    eprintln!("{}", String::from_utf8_lossy(line).trim_end());
                    line.clear();
                }
            }
            Ok(())
        })
    }
}

fn pass_on(
    kept: &mut Kept,
    buf: &mut [u8],
    to: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    loop {
        match kept.read(buf)? {
            Piece::Bytes(len) => to(&buf[..len])?,
            Piece::Missed(bytes) => {
                eprintln!("{} before this were not kept (--keep-output)", size_text(bytes as f64));
            }
            Piece::Nothing => return Ok(()),
        }
    }
}

pub(crate) fn attach(vm: &VmDir, args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let job = match args.job {
        Some(number) => jobs::find(vm, number)?,
        None => jobs::all(vm)?.pop().context("no job\nhint: `towpath farm --detach` makes one")?,
    };
    let about = job.about().with_context(|| {
        format!("what job {0} is cannot be read\nhint: `towpath jobs forget {0}`", job.number)
    })?;
    // First: an interrupt means this command, and not the job.
    let interrupt = interrupt::flag()?;
    if job.state() == State::Interrupted && about.resumes && !args.no_wait {
        mind(vm, &job)?;
        eprintln!("job {} was interrupted: it goes on with what is not done", job.number);
    }
    let mut view = View::new(&job);
    let mut was_full = false;
    loop {
        if !job.path.exists() {
            bail!("job {} was forgotten", job.number);
        }
        let is_full = job.is_disk_full();
        if is_full && !was_full {
            eprintln!("warning: the disk is full where it is kept: it goes on once there is room");
        }
        was_full = is_full;
        // First, so that nothing is missed that is printed before it ends.
        let state = job.state();
        match view.show(&job, about.writes) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(OUTPUT_CLOSED.into()),
            shown => shown.context("cannot show what it printed")?,
        }
        match state {
            State::Ended(ended) => return Ok(ends(&job, ended)),
            State::Interrupted if about.resumes => bail!(
                "job {0} was interrupted\nhint: `towpath attach {0}` has it go on with what is not \
                 done",
                job.number
            ),
            State::Interrupted => {
                bail!("job {} was interrupted: it is not known how its command ended", job.number)
            }
            State::Runs | State::Waits if args.no_wait => return Ok(ExitCode::SUCCESS),
            State::Runs | State::Waits => {}
        }
        std::thread::sleep(LOOK);
        if interrupt.load(std::sync::atomic::Ordering::Relaxed) {
            eprintln!("job {0} goes on: `towpath jobs end {0}` ends it", job.number);
            return Ok(interrupt::INTERRUPTED.into());
        }
    }
}

fn ends(job: &Job, ended: Ended) -> ExitCode {
    if ended.unwritten > 0 {
        let bytes = size_text(ended.unwritten as f64);
        eprintln!("warning: {bytes} that it printed could not be written down: was the disk full?");
    }
    if ended.status != 0 {
        eprintln!("job {} ended with status {}", job.number, ended.status);
    }
    ended.status.into()
}
