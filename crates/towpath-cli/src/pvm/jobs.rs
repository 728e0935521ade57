//! Output of what was spawned with `->`: each line with the job's number and the task's.
//!
//! ```text
//! [1:t40002] line
//! [1:t40002] EOF
//! [1] finished
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use towpath::TaskId;
use towpath::private::open_result;
use towpath_vm::Host;

use super::tids::Tid;
use super::trace::Trace;

/// Most jobs of a console.
const JOBS_MAX: usize = 4096;
/// Longest line that is kept until its end comes, in bytes; a longer one is cut.
const LINE_MAX: usize = 64 << 10;

/// Context of the messages in which tasks tell what they do; the tag is the job's number.
pub(super) const TRACE_CONTEXT: u32 = 0x7_fffe;

/// Where a job's output goes.
#[derive(Debug)]
pub(super) enum Sink {
    /// The daemon's log; of a traced job, its trace alone.
    Log,
    /// The console.
    Console,
    /// A file.
    File(File),
}

impl Sink {
    /// `->file`, or `->>file` to `append`.
    pub(super) fn file(path: &str, append: bool) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        options.create(true).append(append).write(true).truncate(!append);
        let file = open_result(Path::new(path), &mut options);
        let file = file.with_context(|| format!("cannot write {path}"))?;
        Ok(Self::File(file))
    }

    /// Writes of a trace: as it is into a file, with the job's number and the task's to the
    /// console.
    fn write_trace(
        &mut self,
        job: usize,
        task: Tid,
        text: &str,
        console: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        let named = |line| format!("[T{job}:t{task:x}] {line}\n").into_bytes();
        let lines = match self {
            Self::File(_) => text.into(),
            _ => text.lines().flat_map(named).collect(),
        };
        self.write(lines, console)
    }

    fn write(&mut self, lines: Vec<u8>, console: &mut Vec<u8>) -> anyhow::Result<()> {
        match self {
            Self::Log => {}
            Self::Console => console.extend(lines),
            Self::File(file) => file.write_all(&lines).context("cannot write a job's output")?,
        }
        Ok(())
    }
}

fn finished(number: usize) -> Vec<u8> {
    format!("[{}] finished\n", number + 1).into_bytes()
}

#[derive(Debug)]
struct Job {
    sink: Sink,
    /// Its trace, and where that goes.
    trace: Option<(Trace, Sink)>,
    /// Tasks whose output goes on, with the beginning of a line.
    open: BTreeMap<TaskId, Vec<u8>>,
}

/// Jobs by number, from 1. Invariants: `of` names jobs that are there; tasks of `silent` are open.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    all: Vec<Job>,
    of: HashMap<TaskId, usize>,
    /// Children that nothing was heard of yet, and whether they were missed when last asked after.
    silent: BTreeMap<TaskId, bool>,
}

impl Jobs {
    /// Begins a job; its number.
    pub(super) fn begin(&mut self, sink: Sink) -> anyhow::Result<usize> {
        self.add_job(sink, None)
    }

    /// Begins a job with a trace; its number, and what is to be shown.
    pub(super) fn begin_traced(
        &mut self,
        sink: Sink,
        to: Sink,
        hosts: &[Host],
    ) -> anyhow::Result<(usize, String)> {
        let mut trace = Trace::default();
        let text = trace.begin(hosts);
        let job = self.add_job(sink, Some((trace, to)))?;
        let mut shown = Vec::new();
        if let Some((_, to)) = &mut self.all[job - 1].trace {
            to.write_trace(job, Tid(0), &text, &mut shown)?;
        }
        Ok((job, String::from_utf8_lossy(&shown).into_owned()))
    }

    /// What a traced task tells of itself.
    pub(super) fn traced(
        &mut self,
        job: i64,
        from: TaskId,
        bytes: &[u8],
        console: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        let at = usize::try_from(job).ok().and_then(|job| job.checked_sub(1));
        let of = at.and_then(|at| self.all.get_mut(at)).and_then(|job| job.trace.as_mut());
        let Some((trace, to)) = of else { return Ok(()) };
        let (text, whole) = trace.message(from, bytes);
        let tid = Tid::from(from);
        to.write_trace(at.map_or(0, |at| at + 1), tid, &text, console)?;
        if whole.is_none() {
            console.extend(format!("[{job}] t{tid:x}: a record that is none\n").into_bytes());
        }
        if let (Some(at), false) = (at, self.knows(from)) {
            self.add(at + 1, from);
            self.silent.insert(from, false);
        }
        Ok(())
    }

    fn add_job(&mut self, sink: Sink, trace: Option<(Trace, Sink)>) -> anyhow::Result<usize> {
        if self.all.len() == JOBS_MAX {
            bail!("{JOBS_MAX} jobs were spawned by this console, the limit");
        }
        self.all.push(Job { sink, trace, open: BTreeMap::new() });
        Ok(self.all.len())
    }

    /// A task of a job runs.
    pub(super) fn add(&mut self, job: usize, task: TaskId) {
        self.of.insert(task, job - 1);
        self.all[job - 1].open.insert(task, Vec::new());
    }

    pub(super) fn knows(&self, task: TaskId) -> bool {
        self.of.contains_key(&task)
    }

    /// Whether it is the only one of its job whose output goes on.
    pub(super) fn is_last(&self, task: TaskId) -> bool {
        let job = self.of.get(&task).map(|number| &self.all[*number]);
        job.is_some_and(|job| job.open.len() == 1 && job.open.contains_key(&task))
    }

    /// A task that runs: of its parent's job, if that has one.
    pub(super) fn add_child(&mut self, task: TaskId, parent: Option<TaskId>) {
        let job = parent.and_then(|parent| self.of.get(&parent).copied());
        if let (Some(job), false) = (job, self.knows(task)) {
            self.add(job + 1, task);
            self.silent.insert(task, false);
        }
    }

    /// Whether there are children that nothing was heard of. Their output may go elsewhere, and
    /// then nothing says when it ends: they are to be asked after.
    pub(super) fn any_silent(&self) -> bool {
        !self.silent.is_empty()
    }

    /// Of silent tasks those that do not run any more are over; only when they were missed twice,
    /// as the last of their output may be on its way.
    pub(super) fn asked_after(
        &mut self,
        runs: impl Fn(TaskId) -> bool,
        console: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        let mut over = Vec::new();
        self.silent.retain(|&task, missed| {
            let was_missed = std::mem::replace(missed, !runs(task));
            let ended = was_missed && *missed;
            over.extend(ended.then_some(task));
            !ended
        });
        for task in over {
            let Some(&number) = self.of.get(&task) else { continue };
            let job = &mut self.all[number];
            job.open.remove(&task);
            if job.open.is_empty() {
                job.sink.write(finished(number), console)?;
            }
        }
        Ok(())
    }

    /// A task that one of a job has spawned: of its parent's job, else of the last one that runs.
    pub(super) fn adopt(&mut self, task: TaskId, parent: Option<TaskId>) {
        let job = parent.and_then(|parent| self.of.get(&parent).copied());
        let job = job.or_else(|| self.all.iter().rposition(|job| !job.open.is_empty()));
        if let Some(job) = job.or_else(|| self.all.len().checked_sub(1)) {
            self.add(job + 1, task);
        }
    }

    /// Output of a task; none: it has ended.
    pub(super) fn output(
        &mut self,
        task: TaskId,
        bytes: &[u8],
        console: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        let Some(number) = self.of.get(&task).copied() else { return Ok(()) };
        self.silent.remove(&task);
        let job = &mut self.all[number];
        let name = format!("[{}:t{:x}] ", number + 1, Tid::from(task)).into_bytes();
        let mut rest = job.open.remove(&task).unwrap_or_default();
        let mut lines = Vec::new();
        if bytes.is_empty() {
            if !rest.is_empty() {
                lines.push(rest);
            }
        } else {
            for &byte in bytes {
                if byte != b'\n' {
                    rest.push(byte);
                }
                if byte == b'\n' || rest.len() == LINE_MAX {
                    lines.push(std::mem::take(&mut rest));
                }
            }
            job.open.insert(task, rest);
        }
        if let Some((trace, to)) = &mut job.trace {
            let text: String = lines.iter().map(|line| trace.printed(task, line)).collect();
            to.write_trace(number + 1, Tid::from(task), &text, console)?;
        }
        if bytes.is_empty() {
            lines.push(b"EOF".to_vec());
        }
        let mut lines: Vec<u8> =
            lines.iter().flat_map(|line| [&name, line.as_slice(), b"\n"].concat()).collect();
        if job.open.is_empty() {
            lines.extend(finished(number));
        }
        job.sink.write(lines, console)
    }

    /// Whether any was traced.
    pub(super) fn any_traced(&self) -> bool {
        self.all.iter().any(|job| job.trace.is_some())
    }

    /// Whether any goes on.
    pub(super) fn any(&self) -> bool {
        self.all.iter().any(|job| !job.open.is_empty())
    }

    /// Those that go on, by number, with the tasks that run.
    pub(super) fn list(&self) -> impl Iterator<Item = (usize, BTreeSet<TaskId>)> {
        let jobs = self.all.iter().enumerate().filter(|(_, job)| !job.open.is_empty());
        jobs.map(|(at, job)| (at + 1, job.open.keys().copied().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_wire::HostId;

    fn task(number: u32) -> TaskId {
        HostId::new(1, 1).unwrap().task(number).unwrap()
    }

    #[test]
    fn lines_have_names_and_jobs_an_end() {
        let mut jobs = Jobs::default();
        let job = jobs.begin(Sink::Console).unwrap();
        jobs.add(job, task(2));
        let mut out = Vec::new();
        for bytes in [&b"a\nb"[..], b"c\n\nrest"] {
            jobs.output(task(2), bytes, &mut out).unwrap();
        }
        assert!(jobs.is_last(task(2)) && !jobs.is_last(task(3)));
        jobs.add_child(task(3), Some(task(2)));
        jobs.add_child(task(7), Some(task(8)));
        assert!(!jobs.is_last(task(2)) && !jobs.knows(task(7)));
        jobs.output(task(3), b"x\n", &mut out).unwrap();
        jobs.output(task(2), b"", &mut out).unwrap();
        assert!(jobs.any());
        jobs.output(task(3), b"", &mut out).unwrap();
        assert!(!jobs.any());
        let expected = "[1:t40002] a\n[1:t40002] bc\n[1:t40002] \n[1:t40003] x\n\
             [1:t40002] rest\n[1:t40002] EOF\n[1:t40003] EOF\n[1] finished\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_child_whose_output_goes_elsewhere_holds_its_job_while_it_runs() {
        let mut jobs = Jobs::default();
        let job = jobs.begin(Sink::Console).unwrap();
        jobs.add(job, task(2));
        for child in [3, 4, 5] {
            jobs.add_child(task(child), Some(task(2)));
        }
        let mut out = Vec::new();
        for (ended, bytes) in [(2, &b""[..]), (4, b"x\n"), (4, b"")] {
            jobs.output(task(ended), bytes, &mut out).unwrap();
        }
        out.clear();
        // The third runs on; the fifth has ended, but seemed to run when first asked after.
        for (runs, any) in [(&[3, 5][..], true), (&[3], true), (&[3], true), (&[], true)] {
            jobs.asked_after(|asked| runs.iter().any(|n| task(*n) == asked), &mut out).unwrap();
            assert_eq!((jobs.any(), out.is_empty()), (any, true), "{runs:?}");
        }
        assert_eq!(jobs.list().collect::<Vec<_>>(), [(1, BTreeSet::from([task(3)]))]);
        jobs.asked_after(|_| false, &mut out).unwrap();
        assert!(!jobs.any() && !jobs.any_silent());
        assert_eq!(out, b"[1] finished\n");
    }

    #[test]
    fn an_unknown_task_belongs_to_the_last_job_that_runs() {
        let mut jobs = Jobs::default();
        for number in [2, 3] {
            let job = jobs.begin(Sink::Console).unwrap();
            jobs.add(job, task(number));
        }
        let mut out = Vec::new();
        jobs.output(task(3), b"", &mut out).unwrap();
        jobs.adopt(task(9), None);
        assert_eq!(jobs.list().collect::<Vec<_>>(), [(1, BTreeSet::from([task(2), task(9)]))]);
    }

    #[test]
    fn a_job_can_write_into_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        for (round, append) in [(1, false), (2, true), (3, false)] {
            let mut jobs = Jobs::default();
            let job = jobs.begin(Sink::file(path.to_str().unwrap(), append).unwrap()).unwrap();
            jobs.add(job, task(2));
            jobs.output(task(2), b"a\n", &mut Vec::new()).unwrap();
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            assert_eq!(lines, [1, 2, 1][round - 1]);
        }
    }
}
