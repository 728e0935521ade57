//! `logs`: what this machine's daemons have to say.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use towpath::lock::{Holder, is_locked};
use towpath::{VmDir, log};
use towpath_report::text::harmless;

use crate::control::known_host;
use crate::{control, interrupt};

/// How often followed files are looked at.
const TICK: Duration = Duration::from_millis(200);
/// How that line goes on behind the date.
const FIRST: &[u8] = b"INFO starts: towpath ";
/// Longest line kept for its end; a longer one is shown in pieces.
const LINE_MAX: usize = 64 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath logs                      what the daemons of this machine said since they were started
  towpath logs --host h2 -f         one of them, and what it will say
  towpath logs --all                what they said in earlier lives, too

The file is hosts/N/daemon.log in the virtual machine's directory; at 8 MiB it becomes daemon.log.1,
and that one daemon.log.2. TOWPATH_LOG=debug, when the daemon is started, has it say more.
A daemon that systemd started says it to the journal: `journalctl --user -u towpath`.")]
pub(crate) struct LogsArgs {
    /// Only this host, one of this machine: h2, 2, or its name
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Also what was said before the daemon was started, as far as the file goes
    #[arg(long)]
    all: bool,
    /// Go on with what will be said
    #[arg(short, long)]
    follow: bool,
}

/// A daemon's log as far as it was shown.
struct Log {
    path: PathBuf,
    tag: String,
    /// The file while it is shown: a new one may come to its path.
    file: Option<File>,
    shown: u64,
    /// The beginning of a line.
    line: Vec<u8>,
}

pub(crate) fn logs(vm: &VmDir, args: &LogsArgs) -> anyhow::Result<ExitCode> {
    let mut logs = if let Some(host) = &args.host {
        vec![log(vm, number_of(vm, host)?, "")]
    } else {
        let there = |n: &usize| vm.host(*n).join("daemon.log").exists();
        let mut numbers: Vec<usize> = vm.local_hosts()?.into_iter().filter(there).collect();
        let runs = |n: &usize| is_locked(&vm.host(*n));
        if numbers.iter().any(runs) {
            numbers.retain(runs); // The others belong to an earlier life.
        }
        let several = numbers.len() > 1;
        let tag = |n: &usize| if several { format!("[daemon {n}] ") } else { String::new() };
        numbers.iter().map(|n| log(vm, *n, &tag(n))).collect()
    };
    if logs.is_empty() {
        bail!("no daemon of `{}` has run on this machine\nhint: `towpath up` starts one", vm.name);
    }
    if !args.all {
        for log in &mut logs {
            log.skip_earlier_lives()?;
        }
    }
    let mut out = io::stdout().lock();
    let interrupted = interrupt::flag()?;
    loop {
        for log in &mut logs {
            log.show(&mut out)?;
        }
        let last = !args.follow || interrupted.load(std::sync::atomic::Ordering::Relaxed);
        for log in logs.iter_mut().filter(|_| last) {
            log.end_line(&mut out)?;
        }
        out.flush()?;
        if last {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(TICK);
    }
}

fn log(vm: &VmDir, number: usize, tag: &str) -> Log {
    let path = vm.host(number).join(log::NAME);
    Log { path, tag: tag.into(), file: None, shown: 0, line: Vec::new() }
}

/// Whether a daemon's life begins with this line: date, level, words.
fn is_first(line: &[u8]) -> bool {
    const DATE: usize = "2026-11-22T17:10:06.123456Z".len();
    line.get(DATE..).is_some_and(|rest| rest.trim_ascii_start().starts_with(FIRST))
}

/// The number on this machine of the daemon that is `wanted`.
fn number_of(vm: &VmDir, wanted: &str) -> anyhow::Result<usize> {
    let mut client = control::connect(vm)?;
    let host = control::among_hosts(&mut client, |all| known_host(all, wanted))?;
    let id = host.id.to_string();
    let is_it = |n: &usize| {
        let dir = vm.host(*n);
        is_locked(&dir) && Holder::of(&dir).is_some_and(|h| h.host.as_deref() == Some(&id))
    };
    vm.local_hosts()?.into_iter().find(is_it).with_context(|| {
        format!("{} ({}) is none of this machine's\nhint: run it there", host.id, host.name)
    })
}

impl Log {
    fn open(&self) -> io::Result<Option<File>> {
        match File::open(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            file => file.map(Some),
        }
    }

    /// Begins with the line that a daemon's life begins with, the last one there is.
    fn skip_earlier_lives(&mut self) -> io::Result<()> {
        let Some(file) = self.open()? else { return Ok(()) };
        let (mut lines, mut at, mut line) = (BufReader::new(file), 0, Vec::new());
        loop {
            line.clear();
            let n = (&mut lines).take(LINE_MAX as u64).read_until(b'\n', &mut line)?;
            if n == 0 {
                return Ok(());
            }
            if is_first(&line) {
                self.shown = at;
            }
            at += n as u64;
        }
    }

    /// Shows what was added since the last time, line by line: to the end of the file that was
    /// shown, and then of the one that has taken its place, if one has.
    fn show(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let there = self.open()?;
        let id = |file: &File| file.metadata().map(|m| (m.dev(), m.ino()));
        if let Some(file) = self.file.take() {
            let is_there = there.as_ref().map(id).transpose()? == Some(id(&file)?);
            if !is_there {
                self.show_file(&file, out)?;
                self.end_line(out)?;
                self.shown = 0;
            }
        }
        let Some(file) = there else { return Ok(()) };
        let shown = self.show_file(&file, out);
        self.file = Some(file);
        shown
    }

    fn show_file(&mut self, mut file: &File, out: &mut dyn Write) -> io::Result<()> {
        if file.metadata()?.len() < self.shown {
            // Somebody has emptied it.
            self.shown = 0;
            self.line.clear();
        }
        file.seek(SeekFrom::Start(self.shown))?;
        let mut buf = vec![0; LINE_MAX];
        loop {
            let n = file.read(&mut buf)?;
            if n == 0 {
                return Ok(());
            }
            self.shown += n as u64;
            for piece in buf[..n].split_inclusive(|b| *b == b'\n') {
                self.line.extend_from_slice(piece);
                if self.line.ends_with(b"\n") || self.line.len() >= LINE_MAX {
                    self.end_line(out)?;
                }
            }
        }
    }

    /// Shows the line that was begun, if one was.
    fn end_line(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.line.is_empty() {
            return Ok(());
        }
        out.write_all(self.tag.as_bytes())?;
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        out.write_all(harmless(&String::from_utf8_lossy(line)).as_bytes())?;
        out.write_all(b"\n")?;
        self.line.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_shown_once_and_a_new_life_from_its_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.log");
        let tag = "[1] ".to_string();
        let mut log = Log { path: path.clone(), tag, file: None, shown: 0, line: Vec::new() };
        let mut said = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut out = Vec::new();
            log.show(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(said("one\ntw"), "[1] one\n");
        assert_eq!(said("one\ntwo\nthree\n"), "[1] two\n[1] three\n");
        assert_eq!(said("one\ntwo\nthree\n"), "");
        assert_eq!(said("new\ncut"), "[1] new\n");
        let mut out = Vec::new();
        log.end_line(&mut out).unwrap();
        log.end_line(&mut out).unwrap();
        assert_eq!(out, b"[1] cut\n");
    }

    #[test]
    fn a_file_that_was_moved_away_is_shown_to_its_end_before_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.log");
        let (tag, line) = (String::new(), Vec::new());
        let mut log = Log { path: path.clone(), tag, file: None, shown: 0, line };
        let mut out = Vec::new();
        std::fs::write(&path, "one\n").unwrap();
        log.show(&mut out).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"two\n").unwrap();
        std::fs::rename(&path, dir.path().join("daemon.log.1")).unwrap();
        std::fs::write(&path, "three\nfour\n").unwrap();
        log.show(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "one\ntwo\nthree\nfour\n");
    }

    #[test]
    fn earlier_lives_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.log");
        let date = "2026-11-22T17:10:06.123456Z";
        let first = format!("{date}  INFO {}0.1.0", towpath::log::FIRST);
        let said = format!("{date}  INFO [t1] INFO {}0.1.0", towpath::log::FIRST);
        std::fs::write(&path, format!("{first}\none\n{first} x\ntwo\n{said}\n")).unwrap();
        let (tag, line) = (String::new(), Vec::new());
        let mut log = Log { path, tag, file: None, shown: 0, line };
        log.skip_earlier_lives().unwrap();
        let mut out = Vec::new();
        log.show(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("{first} x\ntwo\n{said}\n"));
    }
}
