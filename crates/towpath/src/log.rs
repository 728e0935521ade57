//! The daemon's log: a line for each thing worth knowing, with date (UTC) and level.
//!
//! What is said goes to standard error. Where that is `daemon.log` of the daemon's directory, as
//! `up` and `join` have it, the file is added to over restarts and kept within bounds: at
//! [`BYTES_MAX`] it is moved to `daemon.log.1`, that one to `daemon.log.2`, and a new one begun.
//! Standard error goes with it, so that whatever else writes there is found there, too. A panic is
//! written down before anything else happens.
//!
//! `TOWPATH_LOG` chooses what is said (`debug`, `towpath=trace,warn`), `info` by default. At that
//! level there are no tokens, and no commands or output of tasks that a client waits for.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, TryLockError};

use rustix::fs::OFlags;
use rustix::stdio::{dup2_stderr, stderr};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::private::{Dir, PrivateError};

/// Says one thing, as `println!` does.
macro_rules! log {
    ($($arg:tt)*) => { tracing::info!($($arg)*) };
}
pub(crate) use log;

/// Chooses what is said.
pub const LOG_VAR: &str = "TOWPATH_LOG";
/// Name of the log in a daemon's directory.
pub const NAME: &str = "daemon.log";
/// Bytes of a file, at which the next one is begun.
pub const BYTES_MAX: u64 = 8 << 20;
/// Earlier files that are kept.
pub const KEPT: usize = 2;
/// How the first line of a daemon's life begins, behind date and level.
pub const FIRST: &str = "starts: towpath ";

/// Opens the log of the daemon in `dir`, to be added to.
pub fn open(dir: &Path) -> Result<File, PrivateError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
    Dir::make(dir)?.file(NAME, flags)
}

/// The `n`th of the files of the log at `path`, counted from the newest.
fn earlier(path: &Path, n: usize) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(format!(".{n}"));
    name.into()
}

/// A log that is kept within bounds. Invariant: no line begins in a file of `bytes_max` or more.
struct Kept {
    dir: PathBuf,
    file: File,
    bytes_max: u64,
    /// Standard error goes there, too.
    for_stderr: bool,
}

impl Kept {
    /// Standard error, where it is the log of the daemon in `dir`.
    fn of_stderr(dir: &Path) -> Option<Self> {
        let file = File::from(stderr().try_clone_to_owned().ok()?);
        let kept = Self { dir: dir.into(), file, bytes_max: BYTES_MAX, for_stderr: true };
        kept.is_current().then_some(kept)
    }

    fn path(&self) -> PathBuf {
        self.dir.join(NAME)
    }

    /// Whether the file is still the one at its path.
    fn is_current(&self) -> bool {
        let (Ok(own), Ok(there)) = (self.file.metadata(), fs::symlink_metadata(self.path())) else {
            return false;
        };
        (own.dev(), own.ino()) == (there.dev(), there.ino())
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if !self.is_current() {
            self.begin();
        } else if self.file.metadata()?.len() >= self.bytes_max {
            let path = self.path();
            for n in (1..KEPT).rev() {
                let _ = fs::rename(earlier(&path, n), earlier(&path, n + 1));
            }
            let _ = fs::rename(&path, earlier(&path, 1));
            self.begin();
        }
        self.file.write_all(line)
    }

    /// Turns to the file at the path. In vain the old one is added to: better a long log than none.
    fn begin(&mut self) {
        if let Ok(file) = open(&self.dir) {
            if self.for_stderr {
                let _ = dup2_stderr(&file);
            }
            self.file = file;
        }
    }
}

/// Where lines go.
struct Out(Option<Mutex<Kept>>);

impl Write for &Out {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.0.as_ref().map(Mutex::try_lock) {
            Some(Ok(mut kept)) => kept.write(line)?,
            Some(Err(TryLockError::Poisoned(kept))) => kept.into_inner().write(line)?,
            // A panic while a line is written must get out all the same.
            None | Some(Err(TryLockError::WouldBlock)) => io::stderr().write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Out {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

fn filter() -> EnvFilter {
    let wanted = std::env::var(LOG_VAR).unwrap_or_default();
    EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).parse_lossy(wanted)
}

fn subscriber(out: Out) -> impl tracing::Subscriber + Send + Sync {
    tracing_subscriber::fmt()
        .with_env_filter(filter())
        .with_target(false)
        .with_ansi(false)
        .with_writer(out)
        .finish()
}

/// Has this process log for the daemon in `dir`. Only the first call counts.
pub fn start(dir: &Path) {
    let out = Out(Kept::of_stderr(dir).map(Mutex::new));
    if tracing::subscriber::set_global_default(subscriber(out)).is_ok() {
        std::panic::set_hook(Box::new(last_words));
    }
}

/// Writes a panic down.
fn last_words(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("?");
    let at = info.location().map(ToString::to_string).unwrap_or_default();
    let what = info.payload_as_str().unwrap_or("something that is no text");
    tracing::error!("panic in thread `{thread}` at {at}: {what}");
    let way = std::backtrace::Backtrace::capture();
    if way.status() == std::backtrace::BacktraceStatus::Captured {
        tracing::error!("{way}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(dir: &Path, bytes_max: u64) -> Kept {
        Kept { dir: dir.into(), file: open(dir).unwrap(), bytes_max, for_stderr: false }
    }

    fn logged(dir: &Path, what: impl FnOnce()) -> String {
        let out = Out(Some(Mutex::new(kept(dir, BYTES_MAX))));
        tracing::subscriber::with_default(subscriber(out), what);
        fs::read_to_string(dir.join(NAME)).unwrap()
    }

    #[test]
    fn a_log_is_added_to_and_has_bounds() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(NAME), "of an earlier life\n").unwrap();
        let mut log = kept(dir.path(), 1000);
        let line = |n: usize| format!("{n:099}\n");
        log.write(line(0).as_bytes()).unwrap();
        let text = fs::read_to_string(dir.path().join(NAME)).unwrap();
        assert_eq!(text, format!("of an earlier life\n{}", line(0)));
        for n in 1..100 {
            log.write(line(n).as_bytes()).unwrap();
        }
        let mut names: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["daemon.log", "daemon.log.1", "daemon.log.2"]);
        // The last lines, in order, none lost or cut.
        let all: String = ["daemon.log.2", "daemon.log.1", "daemon.log"]
            .map(|name| fs::read_to_string(dir.path().join(name)).unwrap())
            .concat();
        let count = all.len() / 100;
        assert!((20..=30).contains(&count), "{count}");
        assert_eq!(all, (100 - count..100).map(line).collect::<String>());
        for name in names {
            assert!(fs::metadata(dir.path().join(name)).unwrap().len() < 1100);
        }
    }

    #[test]
    fn a_log_that_somebody_moved_away_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = kept(dir.path(), 1000);
        log.write(b"one\n").unwrap();
        fs::rename(dir.path().join(NAME), dir.path().join("moved")).unwrap();
        log.write(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join(NAME)).unwrap(), "two\n");
    }

    #[test]
    fn lines_have_date_and_level() {
        let dir = tempfile::tempdir().unwrap();
        let text = logged(dir.path(), || {
            log!("one thing: {}", 5);
            tracing::debug!("not by default");
            tracing::warn!("another");
        });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        // 2026-11-22T17:10:06.123456Z
        let (date, rest) = lines[0].split_at(27);
        assert!(date.starts_with("20") && &date[10..11] == "T" && date.ends_with('Z'), "{text}");
        assert_eq!(rest, "  INFO one thing: 5");
        assert!(lines[1].ends_with("  WARN another"), "{text}");
    }

    #[test]
    fn a_panic_is_written_down() {
        let dir = tempfile::tempdir().unwrap();
        let before = std::panic::take_hook();
        let text = logged(dir.path(), || {
            std::panic::set_hook(Box::new(last_words));
            let _ = std::panic::catch_unwind(|| panic!("out of {}", "paper"));
        });
        std::panic::set_hook(before);
        assert!(text.contains(" ERROR panic in thread `"), "{text}");
        assert!(text.contains("log.rs:") && text.contains(": out of paper\n"), "{text}");
    }
}
