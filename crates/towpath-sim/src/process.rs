//! Simulated processes: a run time, an exit status, and output as fast as credit allows.

use std::collections::BTreeMap;
use std::time::Duration;

use towpath_vm::{Ending, Stream, TaskSpec};
use towpath_wire::{Instant, TaskId};

/// Largest piece of output handed in at once.
const PIECE: u64 = 8192;

/// What a simulated program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// How long it runs, in microseconds, if nothing holds its output up.
    pub run_us: u64,
    /// Bytes that it writes.
    pub output_bytes: u64,
    /// Exit status; the name "missing" cannot be started at all.
    pub status: i32,
}

impl Program {
    /// The command that runs this program.
    pub fn spec(&self, output_window: u32, queued: bool) -> TaskSpec {
        let number = |n: String| n.into_bytes();
        TaskSpec {
            program: b"sim".to_vec(),
            args: vec![
                number(self.run_us.to_string()),
                number(self.output_bytes.to_string()),
                number(self.status.to_string()),
            ],
            output_window,
            queued,
            ..TaskSpec::default()
        }
    }

    /// Reads a command back; `None` when there is no such program.
    pub fn parse(spec: &TaskSpec) -> Option<Self> {
        let arg = |i: usize| std::str::from_utf8(spec.args.get(i)?).ok();
        (spec.program == b"sim").then_some(())?;
        Some(Self {
            run_us: arg(0)?.parse().ok()?,
            output_bytes: arg(1)?.parse().ok()?,
            status: arg(2)?.parse().ok()?,
        })
    }
}

#[derive(Debug)]
struct Process {
    program: Program,
    written: u64,
    credit: u64,
    until: Instant,
    signal: Option<i32>,
}

/// What a process did.
#[derive(Debug, PartialEq, Eq)]
pub enum Did {
    /// It wrote so many bytes.
    Wrote(Stream, Vec<u8>),
    /// It ended.
    Ended(Ending),
}

/// All processes of one simulated host.
#[derive(Debug, Default)]
pub struct Processes {
    running: BTreeMap<TaskId, Process>,
}

impl Processes {
    /// Starts one; `None` when there is no such program.
    pub fn start(&mut self, now: Instant, task: TaskId, spec: &TaskSpec) -> Option<()> {
        let program = Program::parse(spec)?;
        let until = now + Duration::from_micros(program.run_us);
        let credit = spec.output_window.into();
        self.running.insert(task, Process { program, written: 0, credit, until, signal: None });
        Some(())
    }

    /// Sends a signal, which ends it.
    pub fn signal(&mut self, task: TaskId, signal: i32) {
        if let Some(p) = self.running.get_mut(&task) {
            p.signal.get_or_insert(signal);
        }
    }

    /// It may write more.
    pub fn credit(&mut self, task: TaskId, bytes: u32) {
        if let Some(p) = self.running.get_mut(&task) {
            p.credit += u64::from(bytes);
        }
    }

    /// What a process does now; call until `None`, and again at [`Processes::until`] or after a
    /// signal or credit.
    pub fn step(&mut self, now: Instant, task: TaskId) -> Option<Did> {
        let p = self.running.get_mut(&task)?;
        if let Some(signal) = p.signal {
            self.running.remove(&task);
            return Some(Did::Ended(Ending::Signalled(signal)));
        }
        let piece = (p.program.output_bytes - p.written).min(p.credit).min(PIECE);
        if piece > 0 {
            let first = p.written;
            p.written += piece;
            p.credit -= piece;
            let bytes = (first..first + piece).map(output_byte).collect();
            return Some(Did::Wrote(Stream::Out, bytes));
        }
        if p.written == p.program.output_bytes && p.until <= now {
            let status = p.program.status;
            self.running.remove(&task);
            return Some(Did::Ended(Ending::Exited(status)));
        }
        None
    }

    /// When a process ends by itself.
    pub fn until(&self, task: TaskId) -> Option<Instant> {
        self.running.get(&task).map(|p| p.until)
    }

    /// The tasks that have a process.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.running.keys().copied()
    }

    /// Number of processes.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}

/// Byte `n` of a simulated program's output.
pub const fn output_byte(n: u64) -> u8 {
    (n ^ (n >> 8)) as u8
}
