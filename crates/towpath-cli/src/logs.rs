//! `logs`: what this machine's daemons have to say.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use towpath::VmDir;
use towpath::lock::{Holder, is_locked};
use towpath::text::harmless;

use crate::control::known_host;
use crate::{control, interrupt};

/// How often followed files are looked at.
const TICK: Duration = Duration::from_millis(200);
/// Longest line kept for its end; a longer one is shown in pieces.
const LINE_MAX: usize = 64 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath logs                      what the daemons of this machine said since they were started
  towpath logs --host h2 -f         one of them, and what it will say

A daemon that systemd started says it to the journal: `journalctl --user -u towpath`.")]
pub(crate) struct LogsArgs {
    /// Only this host, one of this machine: h2, 2, or its name
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Go on with what will be said
    #[arg(short, long)]
    follow: bool,
}

/// A daemon's log as far as it was shown.
struct Log {
    path: PathBuf,
    tag: String,
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
    let path = vm.host(number).join("daemon.log");
    Log { path, tag: tag.into(), shown: 0, line: Vec::new() }
}

/// The number on this machine of the daemon that is `wanted`.
fn number_of(vm: &VmDir, wanted: &str) -> anyhow::Result<usize> {
    let mut client = control::connect(vm)?;
    let host = known_host(&control::host_table(&mut client)?, wanted)?;
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
    /// Shows what was added since the last time, line by line.
    fn show(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut file = match File::open(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        if file.metadata()?.len() < self.shown {
            // Its daemon was started anew.
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
        let mut log = Log { path: path.clone(), tag: "[1] ".into(), shown: 0, line: Vec::new() };
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
}
