//! The job log: one line per item with a result, as GNU parallel writes it.
//!
//! ```text
//! Seq  Host  Starttime  JobRuntime  Send  Receive  Exitval  Signal  Command     (tab-separated)
//! ```
//! `Starttime` is in seconds since the Unix epoch by this host's clock, `JobRuntime` in seconds,
//! `Receive` the bytes of both outputs. A time-out is `Exitval` −1 and `Signal` 15; 127 and 126
//! mean not started, 255 a lost or refusing host.
//!
//! **Resuming** is what GNU parallel calls `--resume-failed`: an item is left out when a line of
//! its number and its very command tells of `Exitval` 0 and `Signal` 0. Failed ones run again.
//! Where the last line of an item has another command than the item has now, the list has moved or
//! the command was changed: that is refused, unless such items are to run again. A line without its
//! line feed was torn by a crash and counts for nothing; it is cut off before new lines are added.
//! A line is written behind the item's output: whatever kills the farm, what the log tells of has
//! been shown.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use towpath_vm::{Ending, TaskExit};
use towpath_wire::Instant;

use super::bits::Bits;
use crate::private::{create_result, open_result};

const HEADER: &[u8] =
    b"Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n";
/// Longest time that a line waits to be written.
const FLUSH_EVERY: Duration = Duration::from_millis(100);
/// Bytes that wait to be written at most.
const BUFFER: usize = 64 * 1024;
/// Longest line read back: a command holds an item several times, quoted.
const LINE_MAX: u64 = 16 << 20;

/// The job log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It cannot be opened or written.
    #[error(
        "cannot write job log {}: {os}\n\
         hint: free space or make it writable, then go on with --resume; or give another --joblog",
        path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        os: io::Error,
    },
    /// It cannot be read to resume from.
    #[error("cannot read job log {}: {os}\nhint: leave --resume out to start anew", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        os: io::Error,
    },
    /// It is about other commands.
    #[error(
        "job log {} tells of {count} items with another command than they have now ({example})\n\
         hint: --resume goes on with the same command over the same items in the same order; with \
         --rerun-changed what is changed runs again; or give another --joblog",
        path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// How many.
        count: u32,
        /// One of them.
        example: String,
    },
    /// It is something else.
    #[error(
        "{} is not a job log: its first line is not `Seq Host Starttime …`\n\
         hint: give --joblog the file of the farm to resume",
        path.display()
    )]
    NotALog {
        /// The file.
        path: PathBuf,
    },
}

/// A line to be.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Number of the item from 1.
    pub seq: u64,
    /// Where it ran.
    pub host: &'a str,
    /// When it ended, since the Unix epoch.
    pub ended: Duration,
    /// How, and how long it ran.
    pub exit: &'a TaskExit,
    /// Bytes of output.
    pub output_bytes: u64,
    /// The command, without tabs and line feeds.
    pub command: &'a [u8],
}

/// A job log that is being written.
#[derive(Debug)]
pub struct JobLog {
    file: File,
    path: PathBuf,
    buf: Vec<u8>,
    /// So many bytes of it tell of items whose output is out.
    sure: usize,
    /// Length of the file.
    len: u64,
    flush_at: Option<Instant>,
}

impl JobLog {
    /// Starts an empty one, in place of whatever the file holds.
    pub fn create(path: &Path) -> Result<Self, LogError> {
        Self::begin(path, create_result(path), 0)
    }

    /// Adds to the one there, after its last whole line; starts one if there is none.
    pub fn append(path: &Path) -> Result<Self, LogError> {
        let open = || -> io::Result<(File, u64)> {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let mut file = open_result(path, &mut options)?;
            let end = whole_lines_end(&mut file)?;
            if end != file.metadata()?.len() {
                file.set_len(end)?;
            }
            file.seek(SeekFrom::Start(end))?;
            Ok((file, end))
        };
        match open() {
            Ok((file, len)) => Self::begin(path, Ok(file), len),
            Err(e) => Self::begin(path, Err(e), 0),
        }
    }

    /// Writes the header at once: a full disk shows before anything runs.
    fn begin(path: &Path, file: io::Result<File>, len: u64) -> Result<Self, LogError> {
        let path = path.to_path_buf();
        let file = match file {
            Ok(file) => file,
            Err(os) => return Err(LogError::Write { path, os }),
        };
        let mut log = Self { file, path, buf: vec![], sure: 0, len, flush_at: None };
        if len == 0 {
            log.buf.extend_from_slice(HEADER);
            log.flush()?;
        }
        Ok(log)
    }

    /// Adds a line, which is written once the item's output is out, which [`JobLog::settle`] says:
    /// within 100 ms if [`JobLog::flush`] is called when [`JobLog::is_due`] says so.
    pub fn push(&mut self, now: Instant, line: &Line<'_>) {
        let (exit_value, signal) = exit_columns(&line.exit.ending);
        let runtime = Duration::from_micros(line.exit.wall_us);
        let start_s = line.ended.saturating_sub(runtime).as_secs_f64();
        // Writing to a vector does not fail.
        let _ = write!(
            self.buf,
            "{}\t{}\t{start_s:.3}\t{:10.3}\t0\t{}\t{exit_value}\t{signal}\t",
            line.seq,
            line.host,
            runtime.as_secs_f64(),
            line.output_bytes,
        );
        self.buf.extend_from_slice(line.command);
        self.buf.push(b'\n');
        self.flush_at.get_or_insert(now + FLUSH_EVERY);
    }

    /// When lines are to be written.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.flush_at
    }

    /// Whether lines are to be written: they have waited long enough, or are many.
    pub fn is_due(&self, now: Instant) -> bool {
        self.flush_at.is_some_and(|at| at <= now) || self.is_full()
    }

    /// Whether lines wait that take much room.
    pub const fn is_full(&self) -> bool {
        self.buf.len() >= BUFFER
    }

    /// The output of all items so far is out.
    pub const fn settle(&mut self) {
        self.sure = self.buf.len();
    }

    /// Output cannot be written any more: items whose output may be lost are not told of.
    pub fn discard(&mut self) {
        self.buf.truncate(self.sure);
    }

    /// Writes all lines.
    pub fn flush(&mut self) -> Result<(), LogError> {
        self.flush_at = None;
        let written = self.file.write_all(&self.buf);
        self.len += self.buf.len() as u64;
        self.buf.clear();
        self.sure = 0;
        written.map_err(|os| LogError::Write { path: self.path.clone(), os })
    }

    /// Bytes in the file.
    pub const fn written(&self) -> u64 {
        self.len
    }
}

/// `Exitval` and `Signal` of an end.
fn exit_columns(ending: &Ending) -> (i32, i32) {
    match ending {
        Ending::Exited(code) => (*code, 0),
        Ending::Signalled(signal) => (0, *signal),
        Ending::TimedOut => (-1, 15),
        Ending::NotStarted { .. } | Ending::HostLost | Ending::Unsure | Ending::Refused(_) => {
            (ending.shell_status().into(), 0)
        }
    }
}

/// Length of the file up to its last line feed.
fn whole_lines_end(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut piece = vec![];
    while end > 0 {
        let start = end.saturating_sub(BUFFER as u64);
        file.seek(SeekFrom::Start(start))?;
        piece.resize((end - start) as usize, 0);
        file.read_exact(&mut piece)?;
        if let Some(at) = piece.iter().rposition(|b| *b == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// What a log tells of the items of a farm.
#[derive(Debug)]
pub(crate) struct Logged {
    /// Those that succeeded with the command that they have now.
    pub(crate) succeeded: Bits,
    /// Those that failed with it, and have not succeeded since.
    pub(crate) failed: Bits,
    /// Those that stand there with another command in their last line: how it was, and is.
    changed: BTreeMap<u32, (Vec<u8>, Vec<u8>)>,
    /// How many there are beyond [`CHANGED_MAX`].
    more: Bits,
}

/// Changed commands that are kept to be shown; the first of them is.
const CHANGED_MAX: usize = 16;
/// Bytes of a command that are shown.
const SHOWN: usize = 60;

impl Logged {
    /// Reads what a log tells of `items` items; failures count from that byte on. `command` gives
    /// the command of an item by its index from 0. No log is an empty log.
    pub(crate) fn read(
        path: &Path,
        items: u32,
        failed_from: u64,
        command: impl Fn(u32) -> Vec<u8>,
    ) -> Result<Self, LogError> {
        let read_error = |os| LogError::Read { path: path.to_path_buf(), os };
        let [succeeded, failed, more] = [(); 3].map(|()| Bits::new(items));
        let mut logged = Self { succeeded, failed, changed: BTreeMap::new(), more };
        let file = match File::open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(logged),
            other => other.map_err(read_error)?,
        };
        let mut lines = BufReader::new(file);
        let mut line = vec![];
        let (mut first, mut end) = (true, 0);
        loop {
            line.clear();
            let read = Read::take(&mut lines, LINE_MAX).read_until(b'\n', &mut line);
            end += read.map_err(read_error)? as u64;
            if line.pop() != Some(b'\n') {
                return Ok(logged);
            }
            if std::mem::take(&mut first) {
                if line != HEADER[..HEADER.len() - 1] {
                    return Err(LogError::NotALog { path: path.to_path_buf() });
                }
            } else {
                logged.take(&line, items, end > failed_from, &command);
            }
        }
    }

    fn take(
        &mut self,
        line: &[u8],
        items: u32,
        failure_counts: bool,
        command: impl Fn(u32) -> Vec<u8>,
    ) {
        let Some((item, is_success, was)) = parsed(line, items) else { return };
        let is = command(item);
        if was == is {
            if is_success {
                self.succeeded.insert(item);
                self.failed.remove(item);
            } else if failure_counts && !self.succeeded.contains(item) {
                self.failed.insert(item);
            }
            self.changed.remove(&item);
            self.more.remove(item);
        } else if self.changed.len() < CHANGED_MAX || self.changed.contains_key(&item) {
            self.changed.insert(item, (was.to_vec(), is));
        } else {
            self.more.insert(item);
        }
    }

    /// How many items stand there with another command than they have now.
    pub(crate) fn changed(&self) -> u32 {
        self.changed.len() as u32 + self.more.count()
    }

    /// One of them, in words.
    pub(crate) fn example(&self) -> Option<String> {
        let (item, (was, is)) = self.changed.first_key_value()?;
        let shown = |command: &[u8]| {
            let text = String::from_utf8_lossy(command);
            let short: String = text.chars().take(SHOWN).collect();
            let rest = if short.len() < text.len() { "…" } else { "" };
            format!("`{short}{rest}`")
        };
        Some(format!("item {}: {} there, {} now", item + 1, shown(was), shown(is)))
    }
}

/// The item of a line, whether it succeeded, and with which command.
fn parsed(line: &[u8], items: u32) -> Option<(u32, bool, &[u8])> {
    let mut columns = line.splitn(9, |b| *b == b'\t');
    let seq: u32 = str::from_utf8(columns.next()?).ok()?.parse().ok()?;
    let (exit_value, signal) = (columns.nth(5)?, columns.next()?);
    let logged = columns.next()?;
    let item = seq.checked_sub(1).filter(|item| *item < items)?;
    Some((item, exit_value == b"0" && signal == b"0", logged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn command(item: u32) -> Vec<u8> {
        format!("gzip {item}").into_bytes()
    }

    fn push(log: &mut JobLog, item: u32, ending: Ending) {
        let exit = TaskExit { ending, wall_us: 2_000 };
        let line = Line {
            seq: u64::from(item) + 1,
            host: "a",
            ended: Duration::from_secs(1_700_000_000),
            exit: &exit,
            output_bytes: 3,
            command: &command(item),
        };
        log.push(Instant::ZERO, &line);
    }

    fn done(path: &Path) -> Vec<u32> {
        let bits = Logged::read(path, 100, 0, command).unwrap().succeeded;
        (0..100).filter(|i| bits.contains(*i)).collect()
    }

    #[test]
    fn lines_are_those_of_gnu_parallel() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = JobLog::create(&path).unwrap();
        push(&mut log, 0, Ending::Exited(3));
        push(&mut log, 1, Ending::Signalled(9));
        log.flush().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n\
            1\ta\t1699999999.998\t     0.002\t0\t3\t3\t0\tgzip 0\n\
            2\ta\t1699999999.998\t     0.002\t0\t3\t0\t9\tgzip 1\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn only_successes_with_the_same_command_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = JobLog::create(&path).unwrap();
        push(&mut log, 0, Ending::Exited(0));
        push(&mut log, 1, Ending::Exited(1));
        push(&mut log, 2, Ending::Signalled(9));
        push(&mut log, 3, Ending::TimedOut);
        push(&mut log, 4, Ending::HostLost);
        push(&mut log, 1, Ending::Exited(0));
        log.flush().unwrap();
        assert_eq!(done(&path), [0, 1]);
        let other = |i: u32| format!("gzip -9 {i}").into_bytes();
        let logged = Logged::read(&path, 100, 0, other).unwrap();
        assert_eq!((logged.succeeded.count(), logged.changed()), (0, 5));
        let said = logged.example().unwrap();
        assert_eq!(said, "item 1: `gzip 0` there, `gzip -9 0` now");
        let shorter = Logged::read(&path, 1, 0, command).unwrap();
        assert_eq!((shorter.succeeded.count(), shorter.changed()), (1, 0), "it may be shorter");
    }

    #[test]
    fn the_last_line_of_an_item_says_which_command_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = JobLog::create(&path).unwrap();
        let other = |i: u32| format!("gunzip {i}").into_bytes();
        (0..40).for_each(|item| push(&mut log, item, Ending::Exited(0)));
        log.flush().unwrap();
        let logged = Logged::read(&path, 40, 0, other).unwrap();
        assert_eq!((logged.succeeded.count(), logged.changed()), (0, 40));
        // Run again with the other command, the second half only.
        let text = std::fs::read_to_string(&path).unwrap();
        let again: Vec<String> =
            text.lines().skip(21).map(|line| line.replace("gzip", "gunzip") + "\n").collect();
        std::fs::write(&path, text + &again.concat()).unwrap();
        let logged = Logged::read(&path, 40, 0, other).unwrap();
        assert_eq!((logged.succeeded.count(), logged.changed()), (20, 20));
        let (_, kept) = (logged, Logged::read(&path, 40, 0, command).unwrap());
        assert_eq!((kept.succeeded.count(), kept.changed()), (40, 20), "both ran");
    }

    #[test]
    fn no_log_is_an_empty_log_and_another_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert_eq!(done(&path), [0; 0]);
        std::fs::write(&path, "precious\n").unwrap();
        let err = Logged::read(&path, 1, 0, command).unwrap_err().to_string();
        assert!(err.contains("is not a job log") && err.contains("hint:"), "{err}");
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_the_file() {
        let err = JobLog::create(Path::new("/dev/full")).unwrap_err().to_string();
        assert!(err.contains("/dev/full") && err.contains("hint:"), "{err}");
    }

    #[test]
    fn lines_wait_at_most_100_ms() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = JobLog::create(&path).unwrap();
        push(&mut log, 0, Ending::Exited(0));
        let due = log.poll_timeout().unwrap();
        assert_eq!(due, Instant::ZERO + FLUSH_EVERY);
        assert!(!log.is_due(due - Duration::from_millis(1)) && log.is_due(due));
        assert!(done(&path).is_empty());
        log.flush().unwrap();
        assert_eq!((done(&path), log.poll_timeout()), (vec![0], None));
        while !log.is_full() {
            push(&mut log, 1, Ending::Exited(0));
        }
        assert!(log.is_due(Instant::ZERO));
    }

    #[test]
    fn items_whose_output_may_be_lost_are_not_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = JobLog::create(&path).unwrap();
        push(&mut log, 0, Ending::Exited(0));
        log.settle();
        push(&mut log, 1, Ending::Exited(0));
        log.discard();
        log.flush().unwrap();
        assert_eq!(done(&path), [0]);
        assert_eq!(log.written(), std::fs::metadata(&path).unwrap().len());
        push(&mut log, 2, Ending::Exited(0));
        log.discard();
        log.flush().unwrap();
        assert_eq!(done(&path), [0]);
        let log = JobLog::append(&path).unwrap();
        assert_eq!(log.written(), std::fs::metadata(&path).unwrap().len());
    }

    #[test]
    fn failures_are_told_apart_from_what_never_ran() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = JobLog::create(&path).unwrap();
        for (item, status) in [(0, 1), (1, 0), (2, 1), (2, 0), (3, 0), (3, 1)] {
            push(&mut log, item, Ending::Exited(status));
        }
        log.flush().unwrap();
        let logged = Logged::read(&path, 9, 0, command).unwrap();
        let of = |bits: &Bits| (0..9).filter(|i| bits.contains(*i)).collect::<Vec<_>>();
        assert_eq!((of(&logged.succeeded), of(&logged.failed)), (vec![1, 2, 3], vec![0]));
        // From here on they count, and what failed before is to run again.
        let from = log.written();
        push(&mut log, 4, Ending::Exited(1));
        log.flush().unwrap();
        let logged = Logged::read(&path, 9, from, command).unwrap();
        assert_eq!((of(&logged.succeeded), of(&logged.failed)), (vec![1, 2, 3], vec![4]));
    }

    proptest! {
        #[test]
        fn a_torn_log_resumes_with_its_whole_lines(
            items in 1u32..20, cut in 0usize..400, more: bool,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("log");
            let mut log = JobLog::create(&path).unwrap();
            (0..items).for_each(|i| push(&mut log, i, Ending::Exited(0)));
            log.flush().unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let kept = &bytes[..bytes.len().saturating_sub(cut)];
            std::fs::write(&path, kept).unwrap();
            let whole = kept.split(|b| *b == b'\n').count() as u32 - 1;
            let mut expected: Vec<u32> = (0..whole.saturating_sub(1)).collect();
            prop_assert_eq!(done(&path), expected.clone());
            if more {
                let mut log = JobLog::append(&path).unwrap();
                push(&mut log, 99, Ending::Exited(0));
                log.flush().unwrap();
                expected.push(99);
                prop_assert_eq!(done(&path), expected);
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = parsed(&bytes, 10);
        }
    }
}
