//! Distributed make: the root knows what can be made next, and whoever is free makes it. All tasks
//! see the same directory.

use std::collections::{BTreeSet, VecDeque};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Args;

use super::pieces::read;
use super::rules::Rules;
use crate::exchange::{Exchange, ExchangeError};
use crate::report::Report;

const FILE_MAX: u64 = 4 << 20;
/// Of what a failed command said.
const SAID_MAX: usize = 4 << 10;
/// How often whoever runs a command looks whether all tasks are there.
const LOOK: Duration = Duration::from_millis(50);
const WORK: i32 = 13;
const RESULT: i32 = 14;

#[derive(Clone, Debug, Args)]
pub(crate) struct MakeArgs {
    /// Rules: tables `[[rule]]` with `target`, `needs` and `run`
    #[arg(value_name = "TOML")]
    rules: PathBuf,
    /// Where files are and commands run [default: where the rules are]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs a command. Nothing: it did well; otherwise how it ended, and its last words. Where another
/// task is lost meanwhile, the shell is killed.
fn run(
    exchange: &mut dyn Exchange,
    command: &str,
    dir: &Path,
) -> Result<Option<String>, ExchangeError> {
    let mut shell = Command::new("sh");
    let shell = shell.arg("-c").arg(command).current_dir(dir).stdin(Stdio::null());
    let mut shell = match shell.stdout(Stdio::null()).stderr(Stdio::piped()).spawn() {
        Ok(shell) => shell,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let mut pipe = shell.stderr.take().expect("a pipe was asked for");
    let (sender, ended) = channel();
    // Who reads is not waited for: what the shell left behind may keep the pipe open.
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let read = pipe.read_to_end(&mut said);
        let _ = sender.send(read.map(|_| said));
    });
    let said = loop {
        match ended.recv_timeout(LOOK) {
            Ok(said) => break said.unwrap_or_default(),
            Err(RecvTimeoutError::Disconnected) => break Vec::new(),
            Err(RecvTimeoutError::Timeout) => exchange.check().inspect_err(|_| {
                // It may have ended by itself just now.
                let _ = shell.kill().and_then(|()| shell.wait());
            })?,
        }
    };
    Ok(match shell.wait() {
        Ok(status) if status.success() => None,
        Ok(status) => {
            let said = &said[said.len().saturating_sub(SAID_MAX)..];
            Some(format!("{status}: {}", String::from_utf8_lossy(said).trim()))
        }
        Err(error) => Some(error.to_string()),
    })
}

/// Runs what the root sends, until it sends nothing.
fn work(exchange: &mut dyn Exchange, dir: &Path) -> anyhow::Result<()> {
    loop {
        let command = exchange.recv(Some(0), WORK)?.1;
        if command.is_empty() {
            return Ok(());
        }
        let ended = run(exchange, std::str::from_utf8(&command).context("a command")?, dir)?;
        exchange.send(0, RESULT, ended.unwrap_or_default().as_bytes())?;
    }
}

/// The root's part.
struct Making<'a> {
    rules: &'a Rules,
    dir: &'a Path,
    waits: Vec<usize>,
    /// Rules that can be followed now, the first in the file first.
    ready: BTreeSet<usize>,
    /// Targets in the order in which they were made; those that were there are not among them.
    made: Vec<usize>,
    failed: Option<String>,
}

impl<'a> Making<'a> {
    fn new(rules: &'a Rules, dir: &'a Path) -> Self {
        let waits = rules.waits.clone();
        let ready = (0..waits.len()).filter(|at| waits[*at] == 0).collect();
        Self { rules, dir, waits, ready, made: Vec::new(), failed: None }
    }

    /// The next rule that has something to do.
    fn next(&mut self) -> Option<usize> {
        while self.failed.is_none() {
            let at = self.ready.pop_first()?;
            if !self.rules.is_made(at, self.dir) {
                return Some(at);
            }
            self.release(at);
        }
        None
    }

    fn release(&mut self, at: usize) {
        for next in &self.rules.followers[at] {
            self.waits[*next] -= 1;
            if self.waits[*next] == 0 {
                self.ready.insert(*next);
            }
        }
    }

    fn ended(&mut self, at: usize, said: &str) {
        let target = &self.rules.all[at].target;
        if !said.is_empty() {
            let said = towpath_report::text::harmless(said);
            self.failed.get_or_insert(format!("the command for {target} failed: {said}"));
        } else if !self.dir.join(target).exists() {
            self.failed.get_or_insert(format!("the command for {target} did not make it"));
        } else {
            self.made.push(at);
            self.release(at);
        }
    }

    /// Gives out work until all is made, or something failed and what was begun has ended.
    fn run(&mut self, exchange: &mut dyn Exchange) -> Result<(), ExchangeError> {
        let mut free: VecDeque<usize> = (1..exchange.size()).collect();
        let mut under_way = vec![None; exchange.size()];
        loop {
            while let Some(to) = free.front().copied()
                && let Some(at) = self.next()
            {
                free.pop_front();
                under_way[to] = Some(at);
                exchange.send(to, WORK, self.rules.all[at].run.as_bytes())?;
            }
            if under_way.iter().all(Option::is_none) {
                break;
            }
            let (from, said) = exchange.recv(None, RESULT)?;
            let bad = ExchangeError::Malformed { len: said.len(), what: "the end of a command" };
            self.ended(under_way[from].take().ok_or(bad)?, &String::from_utf8_lossy(&said));
            free.push_back(from);
        }
        (1..exchange.size()).try_for_each(|to| exchange.send(to, WORK, b""))
    }
}

/// Makes everything; targets in the order in which they were made, at the root.
fn made(
    exchange: &mut dyn Exchange,
    file: &Path,
    dir: &Path,
) -> anyhow::Result<Option<Vec<String>>> {
    if exchange.rank() != 0 {
        return work(exchange, dir).map(|()| None);
    }
    let text = String::from_utf8(read(file, FILE_MAX)?).context("the rules are no text")?;
    let rules = Rules::read(&text, dir).with_context(|| file.display().to_string())?;
    let mut making = Making::new(&rules, dir);
    if exchange.size() == 1 {
        while let Some(at) = making.next() {
            let said = run(exchange, &rules.all[at].run, dir)?.unwrap_or_default();
            making.ended(at, &said);
        }
    } else {
        making.run(exchange)?;
    }
    if let Some(failed) = making.failed {
        bail!(failed);
    }
    Ok(Some(making.made.iter().map(|at| rules.all[*at].target.clone()).collect()))
}

/// The whole example; the root gets the report.
pub(super) fn make(exchange: &mut dyn Exchange, args: &MakeArgs) -> anyhow::Result<Option<Report>> {
    let beside = args.rules.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = args.dir.as_deref().or(beside).unwrap_or(Path::new("."));
    ensure!(dir.is_dir(), "{} is no directory", dir.display());
    let Some(made) = made(exchange, &args.rules, dir)? else { return Ok(None) };
    let lead = format!("{}, {} tasks", args.rules.display(), exchange.size());
    let mut report = Report::new("Make", &lead);
    let names = if made.is_empty() { "nothing: all was there".to_owned() } else { made.join("\n") };
    report.say("Made", towpath_report::text::harmless(&names).as_ref());
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::exchange::local;

    const RULES: &str = "
[[rule]]
target = 'both'
needs = ['one.up', 'two.up']
run = 'cat one.up two.up > both'
[[rule]]
target = 'one.up'
needs = ['one']
run = 'tr a-z A-Z < one > one.up'
[[rule]]
target = 'two.up'
needs = ['two']
run = 'tr a-z A-Z < two > two.up'
";

    fn make_in(dir: &Path, size: usize, rules: &str) -> anyhow::Result<Vec<String>> {
        let file = dir.join("rules.toml");
        std::fs::write(&file, rules).unwrap();
        let mut all = local::run(size, |exchange| made(exchange, &file, dir));
        Ok(all.swap_remove(0)?.expect("the root's"))
    }

    fn home() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("one"), "first\n").unwrap();
        std::fs::write(dir.path().join("two"), "second\n").unwrap();
        dir
    }

    #[test]
    fn what_is_older_than_its_needs_is_made_in_order_by_any_number_of_tasks() {
        for size in [1, 2, 3, 4, 7, 8] {
            let dir = home();
            let mut made = make_in(dir.path(), size, RULES).unwrap();
            assert_eq!(made.pop().as_deref(), Some("both"));
            made.sort();
            assert_eq!(made, ["one.up", "two.up"]);
            let both = std::fs::read_to_string(dir.path().join("both")).unwrap();
            assert_eq!(both, "FIRST\nSECOND\n");
            assert!(make_in(dir.path(), size, RULES).unwrap().is_empty());
            // Changed later than anything was made.
            let two = std::fs::File::options().append(true).open(dir.path().join("two")).unwrap();
            let later = SystemTime::now() + Duration::from_secs(1000);
            two.set_modified(later).unwrap();
            assert_eq!(make_in(dir.path(), size, RULES).unwrap(), ["two.up", "both"]);
        }
    }

    #[test]
    fn what_cannot_be_made_is_named() {
        let dir = home();
        let said = |rules: &str| format!("{:#}", make_in(dir.path(), 3, rules).unwrap_err());
        let rule = |target: &str, needs: &str, run: &str| {
            format!("[[rule]]\ntarget = '{target}'\nneeds = [{needs}]\nrun = '{run}'\n")
        };
        let circle = [("a", "'c'"), ("b", "'a'"), ("c", "'b'"), ("d", "'c'")];
        let circle: String = circle.map(|(target, needs)| rule(target, needs, "true")).concat();
        assert!(
            said(&circle).ends_with("a circle: a needs c needs b needs a"),
            "{}",
            said(&circle)
        );
        let missing = said(&rule("a", "'nowhere'", "true"));
        assert!(missing.ends_with("a needs nowhere: it is not there, and no rule makes it"));
        let failing = rule("a", "'one'", "echo no room >&2; exit 3") + &rule("b", "'a'", "touch b");
        let failing = said(&failing);
        assert!(failing.contains("the command for a failed: exit status: 3: no room"), "{failing}");
        assert!(!dir.path().join("b").exists());
        assert_eq!(said(&rule("a", "", "true")), "the command for a did not make it");
        let twice = rule("a", "", "true") + &rule("a", "", "true");
        assert!(said(&twice).ends_with("a is made by two rules"));
        assert!(said("").ends_with("0 rules: from 1 to 10000"));
        assert!(said("[[rule]]\ntarget = 'a'\nruns = 'x'\n").contains("unknown field"));
        assert!(said(&rule("a", "", "")).contains("a command of 0 bytes"));
    }
}
