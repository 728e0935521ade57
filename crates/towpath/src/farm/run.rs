//! Running a farm: what goes in, what comes out, what can go wrong.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use towpath_vm::{Stream, TaskExit, TaskSpec};

use super::blocks::Blocks;
use super::drive::Farm;
use super::halt::Halt;
use super::input::Items;
use super::joblog::LogError;
use super::output::{Capture, SpillError, Store};
use super::report::Report;
use super::results::ResultsError;
use super::template::Template;
use crate::client::ClientError;

/// What to run, over what, and how.
#[derive(Clone, Debug)]
pub struct FarmOptions {
    /// The command.
    pub template: Template,
    /// What it runs over.
    pub items: Items,
    /// The commands' inputs, one for each item; none: they are empty.
    pub pipe: Option<Blocks>,
    /// Names or ids of the hosts that may be used; none: all.
    pub hosts: Vec<String>,
    /// Exactly so many items at once on each host; none: as many as it has job slots.
    pub jobs: Option<u16>,
    /// Longest time that an item may run.
    pub timeout: Option<Duration>,
    /// Times that an item is run again because its host was lost or refused it.
    pub retries: u32,
    /// Times that an item is run again because it failed.
    pub retry_failed: u32,
    /// Least time from the start of an item to that of the next.
    pub delay: Duration,
    /// After which results nothing more is started.
    pub halt: Option<Halt>,
    /// Where to put each item's output into files of its own.
    pub results: Option<PathBuf>,
    /// Write output in the order of the items instead of as they finish.
    pub keep_order: bool,
    /// Where to write the job log.
    pub joblog: Option<PathBuf>,
    /// Leave out what the job log tells to have succeeded, and add to it.
    pub resume: bool,
    /// When resuming, go on as the farm that was interrupted: what the job log tells to have failed
    /// from this byte on is left out, too, and all of it counts as done by this one.
    pub goes_on: Option<u64>,
    /// When resuming, run items again that stand in the job log with another command; else such
    /// ones are refused.
    pub rerun_changed: bool,
    /// Once this is set, too, whoever interrupts a farm does not wait for what runs to end
    /// politely.
    pub at_once: Arc<AtomicBool>,
    /// Variables for every command, besides `TOWPATH_SEQ` and `TOWPATH_HOST`.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Working directory on the hosts.
    pub workdir: Vec<u8>,
}

impl FarmOptions {
    /// The command of an item, on the host of that name; without what the driver gives it.
    pub(super) fn spec(&self, item: u32, host: &str) -> TaskSpec {
        let seq = u64::from(item) + 1;
        let mut args = self.template.expand(self.items.at(item), seq);
        let program = args.remove(0);
        let mut env = self.env.clone();
        env.push((b"TOWPATH_SEQ".to_vec(), seq.to_string().into_bytes()));
        env.push((b"TOWPATH_HOST".to_vec(), host.as_bytes().to_vec()));
        let limit = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
        let timeout_ms = self.timeout.map_or(0, limit);
        TaskSpec {
            program,
            args,
            env,
            cwd: self.workdir.clone(),
            timeout_ms,
            ..TaskSpec::default()
        }
    }
}

/// Why Towpath could not go on.
#[derive(Debug, thiserror::Error)]
pub enum FarmError {
    /// No daemon to work with, at the start or after one went away.
    #[error(transparent)]
    Daemon(#[from] ClientError),
    /// There is no host at all.
    #[error("the virtual machine has no host that is up and given work\nhint: see `towpath hosts`")]
    NoHosts,
    /// A host that was asked for is not there.
    #[error(
        "no host {wanted:?} is up and given work; there are: {known}\nhint: see `towpath hosts`"
    )]
    UnknownHost {
        /// Name or id.
        wanted: String,
        /// Names of those that are up.
        known: String,
    },
    /// All hosts were lost or excluded.
    #[error("no host is left to run on ({why}): {not_run} items were not run\nhint: {hint}")]
    Stranded {
        /// What became of the last ones.
        why: String,
        /// Items without a result.
        not_run: u32,
        /// What to do.
        hint: String,
    },
    /// The job log cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Results cannot be written.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// Output cannot be kept.
    #[error(transparent)]
    Spill(#[from] SpillError),
    /// Output cannot be written.
    #[error(
        "cannot write output: {0}\n\
         hint: see where standard output goes; with --joblog, --resume goes on from here"
    )]
    Output(io::Error),
    /// Whoever read the output is gone.
    #[error("whoever read the output has closed it")]
    OutputClosed,
}

impl From<io::Error> for FarmError {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Output(e),
        }
    }
}

/// What became of a farm.
#[derive(Debug)]
pub struct Outcome {
    /// What was done, also when it could not be finished.
    pub report: Report,
    /// Why it could not be finished; none if it was, or was interrupted.
    pub error: Option<FarmError>,
}

/// An item with its result.
#[derive(Debug)]
pub struct ItemDone<'a> {
    /// Its number from 1.
    pub seq: u64,
    /// The item.
    pub item: &'a [u8],
    /// Where it ran.
    pub host: &'a str,
    /// How it ended.
    pub exit: &'a TaskExit,
    store: &'a Store,
    capture: &'a Capture,
}

impl<'a> ItemDone<'a> {
    pub(crate) const fn new(
        (seq, item): (u64, &'a [u8]),
        host: &'a str,
        exit: &'a TaskExit,
        (store, capture): (&'a Store, &'a Capture),
    ) -> Self {
        Self { seq, item, host, exit, store, capture }
    }

    /// Bytes of both outputs.
    pub fn output_bytes(&self) -> u64 {
        self.capture.len(Stream::Out) + self.capture.len(Stream::Err)
    }

    /// Passes one of the outputs on, piece by piece.
    pub fn read(
        &self,
        stream: Stream,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.store.read(self.capture, stream, take)
    }
}

/// How far it is.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Items to run.
    pub total: u64,
    /// Items with a result.
    pub done: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Each host with what it has in flight.
    pub hosts: Vec<(&'a str, u32)>,
}

/// Takes what a farm gives. An error of the first two ends the farm.
pub trait Sink {
    /// An item has its result. Called once per item, never for an item without.
    fn item(&mut self, done: &ItemDone<'_>) -> io::Result<()>;
    /// Nothing more comes for the moment.
    fn flush(&mut self) -> io::Result<()>;
    /// All items so far are in the job log, which has so many bytes.
    fn logged(&mut self, bytes: u64) -> io::Result<()> {
        let _ = bytes;
        Ok(())
    }
    /// Something that a person should know, in one or more lines.
    fn warn(&mut self, text: &str);
    /// Called about ten times a second.
    fn progress(&mut self, progress: &Progress<'_>);
}

/// Runs a farm to its end through the first of the daemons at `sockets` that answers; the others
/// stand in for it. Setting `interrupt` ends it within about three seconds, with what runs:
/// politely, then with SIGKILL.
///
/// The memory worst case is the items, 64 MiB of output (more goes to a temporary file), 16 MiB or
/// 8 KiB for each item in flight of output under way, and about 200 bytes for each item that waits
/// for its turn where order is kept.
pub fn run<S: AsRef<Path>>(
    options: &FarmOptions,
    sockets: &[S],
    sink: &mut dyn Sink,
    interrupt: &AtomicBool,
) -> Outcome {
    let sockets: Vec<&Path> = sockets.iter().map(AsRef::as_ref).collect();
    Farm::new(options, sockets, sink, interrupt).run()
}
