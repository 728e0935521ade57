//! `cargo xtask test`: runs `cargo test`, and says at its end what was skipped and how many passed.
//!
//! A test that cannot run here returns early; the test runner takes that for passed and hides what
//! it said. Such tests write to the file that `TOWPATH_SKIPS` names (crate `towpath-skip`).

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::args::TestArgs;
use crate::process;
use crate::report::WithHint;

/// Names the file that tests write their skips to.
const VARIABLE: &str = "TOWPATH_SKIPS";

/// What the closing lines of all test binaries add up to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    failed: usize,
    ignored: usize,
}

impl Tally {
    /// Adds a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; …`; any
    /// other says nothing.
    fn add(&mut self, line: &str) {
        let Some((_, counts)) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for part in counts.split("; ") {
            let Some((count, what)) = part.split_once(' ') else { continue };
            let Ok(count) = count.parse::<usize>() else { continue };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
    }
}

/// Lines that are told again of a test that failed: its last, where it says why.
const TOLD_AGAIN: usize = 15;

/// What tests that failed said last, for the end of a long log: it may be all that is kept of it.
#[derive(Debug, Default)]
struct Failures {
    of: Vec<(String, VecDeque<String>)>,
    /// Between the runner's two lists of failures.
    telling: bool,
    /// Within the list of functions that led to a panic.
    tracing: bool,
}

impl Failures {
    fn add(&mut self, line: &str) {
        if line == "failures:" {
            self.telling = !self.telling;
        } else if line.starts_with("test result: ") {
            self.telling = false;
        } else if let Some(name) =
            line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
            && self.telling
        {
            self.tracing = false;
            self.of.push((name.to_owned(), VecDeque::new()));
        } else if line == "stack backtrace:" || line.starts_with("note: ") {
            self.tracing = line == "stack backtrace:";
        } else if let Some((_, said)) = self.of.last_mut()
            && self.telling
            && !self.tracing
            && !line.is_empty()
        {
            said.push_back(line.chars().take(400).collect());
            if said.len() > TOLD_AGAIN {
                said.pop_front();
            }
        }
    }
}

/// The crate and the test of a line of skips, `crate test: why`.
fn subject(line: &str) -> &str {
    line.split_once(": ").map_or(line, |(subject, _)| subject)
}

/// Entries of a list of allowed skips: `crate test`, or a beginning of that and `*`; `#` begins a
/// comment.
fn entries(text: &str) -> Vec<String> {
    let entry = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
    text.lines().map(entry).filter(|entry| !entry.is_empty()).collect()
}

fn is_allowed(entries: &[String], skip: &str) -> bool {
    entries.iter().any(|entry| match entry.strip_suffix('*') {
        Some(beginning) => subject(skip).starts_with(beginning),
        None => subject(skip) == entry,
    })
}

pub(crate) fn run(root: &Path, args: &TestArgs) -> Result<()> {
    let mut allowed = Vec::new();
    for path in &args.allow {
        let text = fs::read_to_string(root.join(path));
        allowed.extend(entries(&text.hint(
            || format!("cannot read {}", path.display()),
            "give a file of allowed skips to --allow, relative to the root",
        )?));
    }
    let path = new_file(root)?;
    let (tally, failures, success) = cargo_test(root, &path, &args.rest)?;
    let skips = fs::read_to_string(&path).unwrap_or_default();
    let skips: BTreeSet<&str> = skips.lines().collect();
    let odd: Vec<&&str> = skips.iter().filter(|skip| !is_allowed(&allowed, skip)).collect();
    for skip in &skips {
        println!("skipped: {skip}");
    }
    for (name, said) in &failures.of {
        println!("failed: {name}");
        for line in said {
            println!("  {line}");
        }
    }
    let closing = closing(&tally, &skips);
    println!("{closing}");
    // For who runs more after this and wants it last.
    let _ = fs::write(path.with_file_name("tests"), closing + "\n");
    if !success {
        bail!(
            "a test failed, or was not built\nhint: its last lines are above, behind all of them"
        );
    }
    if !args.allow.is_empty() && !odd.is_empty() {
        for skip in &odd {
            println!("not allowed to be skipped here: {skip}");
        }
        bail!(
            "{} tests were skipped that must not be here\nhint: install what they need, or list \
             them with the reason in {}",
            odd.len(),
            args.allow[0].display()
        );
    }
    Ok(())
}

/// The line that says it all: what was skipped returned early, and does not count as passed.
fn closing(tally: &Tally, skips: &BTreeSet<&str>) -> String {
    let skipped = skips.iter().map(|line| subject(line)).collect::<BTreeSet<_>>().len();
    let passed = tally.passed.saturating_sub(skipped);
    let Tally { failed, ignored, .. } = tally;
    let rest = if *ignored == 0 { String::new() } else { format!(" ({ignored} more: nightly)") };
    format!("{passed} passed, {failed} failed, {skipped} skipped{rest}")
}

/// Where tests are to write their skips; nothing of an earlier run is in it.
fn new_file(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target");
    let path = folder.join("skips");
    let done = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, ""));
    done.hint(|| format!("cannot write {}", path.display()), "make room, or change its owner")?;
    Ok(path)
}

/// Longest time in which nothing is said, once tests run: then those that run hang.
const SILENCE: Duration = Duration::from_mins(10);

/// Tests that the runner called slow and that have not ended.
#[derive(Debug, Default)]
struct Slow {
    tests: Vec<String>,
    /// Whether any test has run yet: before, silence is that of building.
    begun: bool,
}

impl Slow {
    fn add(&mut self, line: &str) {
        self.begun |= line.starts_with("running ");
        let Some(line) = line.strip_prefix("test ") else { return };
        if let Some((name, _)) = line.split_once(" has been running for over ") {
            self.tests.push(name.to_owned());
        } else if let Some((name, _)) = line.split_once(" ... ") {
            self.tests.retain(|slow| slow != name);
        }
    }

    /// Ends the test binary that is silent, so that the others run and this one is named: a run
    /// that is cut off from outside says nothing. How many hung.
    fn end(&mut self, cargo: &Child, failures: &mut Failures) -> usize {
        let pid = cargo.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let _ = Command::new("kill").args(["-9", child]).status();
        }
        if self.tests.is_empty() {
            self.tests.push("a test".into());
        }
        let why = format!("hangs: nothing was said for {} s; ended", SILENCE.as_secs());
        let told = |name| (name, VecDeque::from([why.clone()]));
        let count = self.tests.len();
        failures.of.extend(self.tests.drain(..).map(told));
        count
    }
}

/// Runs the tests, their output passed on line by line; whether all went well.
fn cargo_test(root: &Path, skips: &Path, args: &[String]) -> Result<(Tally, Failures, bool)> {
    let mut command = process::cargo(root);
    command.arg("test").args(args).env(VARIABLE, skips).stdout(Stdio::piped());
    let mut child = command.spawn().hint(|| "cannot run cargo".into(), "put it on the PATH")?;
    let (mut tally, mut failures) = (Tally::default(), Failures::default());
    let Some(stdout) = child.stdout.take() else { bail!("no output of cargo\nhint: try again") };
    let (give, said) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stdout);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0)
            && give.send(std::mem::take(&mut line)).is_ok()
        {}
    });
    let mut slow = Slow::default();
    loop {
        match said.recv_timeout(SILENCE) {
            Ok(line) => {
                // Tests may print what is not UTF-8.
                let text = String::from_utf8_lossy(&line);
                tally.add(text.trim_end());
                failures.add(text.trim_end());
                slow.add(text.trim_end());
                print!("{text}");
            }
            Err(RecvTimeoutError::Timeout) if slow.begun => {
                tally.failed += slow.end(&child, &mut failures);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().hint(|| "cannot wait for cargo".into(), "try again")?;
    Ok((tally, failures, status.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_all_binaries_are_added() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out; finished",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
            "test result of another kind: 9 passed",
        ] {
            tally.add(line);
        }
        assert_eq!(tally, Tally { passed: 7, failed: 2, ignored: 1 });
    }

    #[test]
    fn what_failed_is_told_again_by_its_last_lines() {
        let mut failures = Failures::default();
        let first = "---- noise stdout ----\nfailures:\n\n---- a::b stdout ----\nbegins\n";
        let more = "more\n".repeat(TOLD_AGAIN);
        let why = "why\nstack backtrace:\n  0: x\nnote: more\n---- c stdout ----\nd\n\n";
        let rest = "failures:\n    a::b\n    c\n\ntest result: FAILED. \nlater";
        [first, &more, why, rest].concat().lines().for_each(|line| failures.add(line));
        let [(first, said), (second, short)] = &failures.of[..] else { panic!("{failures:?}") };
        assert_eq!((first.as_str(), second.as_str()), ("a::b", "c"));
        assert_eq!((said.len(), said.back().unwrap().as_str()), (TOLD_AGAIN, "why"));
        assert_eq!(short, &["d"]);
    }

    #[test]
    fn slow_tests_are_those_that_have_not_ended() {
        let mut slow = Slow::default();
        slow.add("test early has been running for over 60 seconds");
        assert!(!slow.begun);
        for line in [
            "running 3 tests",
            "test a::b has been running for over 60 seconds",
            "test c has been running for over 60 seconds",
            "test c ... ok",
            "test d ... ok",
        ] {
            slow.add(line);
        }
        assert!(slow.begun);
        assert_eq!(slow.tests, ["early", "a::b"]);
    }

    #[test]
    fn what_was_skipped_does_not_count_as_passed() {
        let tally = Tally { passed: 7, failed: 0, ignored: 0 };
        let skips = ["a x::y: no c", "a x::y: no d", "b z: no e"];
        assert_eq!(closing(&tally, &skips.into()), "5 passed, 0 failed, 2 skipped");
        let tally = Tally { ignored: 2, ..tally };
        assert!(closing(&tally, &BTreeSet::new()).ends_with("0 skipped (2 more: nightly)"));
    }

    #[test]
    fn a_skip_is_allowed_by_name_or_by_a_beginning_with_a_star() {
        let allowed = entries("# why\ntowpath-io udp::sends # no ::1\n\ntowpath-cli slurm::*\n");
        assert_eq!(allowed.len(), 2);
        assert!(is_allowed(&allowed, "towpath-io udp::sends: no ::1 here"));
        assert!(!is_allowed(&allowed, "towpath-io udp::sends_more: no ::1"));
        assert!(is_allowed(&allowed, "towpath-cli slurm::a_job: no slurmd"));
        assert!(!is_allowed(&allowed, "towpath-cli ssh::a_real_ssh: no sshd"));
    }
}
