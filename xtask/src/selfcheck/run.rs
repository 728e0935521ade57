//! Plants each fault, runs this very program on the copy, and asks for failure and message.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::copy::{Copy, Edit};
use super::faults::{self, Fault};
use crate::deny::{self, Readiness};
use crate::process::{self, Outcome};
use crate::report::WithHint;
use crate::rules;

pub(crate) fn run(root: &Path) -> Result<()> {
    let copy = Copy::of(root)?;
    if !copy.root.join("crates").join(rules::WIRE).join("src/lib.rs").exists() {
        bail!("no {} to plant faults in\nhint: selfcheck needs that crate", rules::WIRE);
    }
    let mut missed = 0;
    let tidy_before = output(&command(&copy, &["tidy"])?);
    for batch in batches(faults::for_tidy()) {
        missed += plant(&copy, &batch, &tidy_before)?;
    }
    missed += plant_raised(&copy, &tidy_before)?;
    missed += plant_all(&copy, faults::for_purity())?;
    missed += match deny::readiness(&copy.root)? {
        Readiness::Ready => plant_all(&copy, faults::for_deny())?,
        Readiness::NotInstalled => skipped("cargo-deny is not installed"),
        Readiness::NotDownloaded => skipped("dependencies missing here: `cargo fetch --locked`"),
    };
    if missed > 0 {
        bail!(
            "selfcheck: {missed} planted faults were missed\nhint: repair the check, not the fault"
        );
    }
    Ok(())
}

fn skipped(why: &str) -> usize {
    println!("SKIPPED faults for deny: {why}");
    0
}

fn plant_all(copy: &Copy, faults: Vec<Fault>) -> Result<usize> {
    let Some(first) = faults.first() else { return Ok(0) };
    let before = output(&command(copy, first.command)?);
    let mut missed = 0;
    for fault in faults {
        missed += plant(copy, &[fault], &before)?;
    }
    Ok(missed)
}

/// Faults that can be planted at once: none changes a file that another of its batch changes.
fn batches(faults: Vec<Fault>) -> Vec<Vec<Fault>> {
    let mut batches: Vec<Vec<Fault>> = Vec::new();
    for fault in faults {
        let meets = |other: &Fault| {
            let path = |edit: &Edit| other.plant.iter().any(|theirs| theirs.path() == edit.path());
            fault.plant.iter().any(path)
        };
        match batches.iter_mut().find(|batch| !batch.iter().any(meets)) {
            Some(batch) => batch.push(fault),
            None => batches.push(vec![fault]),
        }
    }
    batches
}

/// An exception may not rise even when its function rises with it, compared with the last commit.
fn plant_raised(copy: &Copy, before: &str) -> Result<usize> {
    let (committed, fault) = faults::raised_exception();
    copy.with(&committed, || {
        copy.commit()?;
        let found = plant(copy, &[fault], before);
        copy.forget_commits()?;
        found
    })
}

/// Plants faults of one check at once; how many it missed.
fn plant(copy: &Copy, faults: &[Fault], before: &str) -> Result<usize> {
    let Some(first) = faults.first() else { return Ok(0) };
    let edits: Vec<Edit> = faults.iter().flat_map(|fault| fault.plant.clone()).collect();
    let outcome = copy.with(&edits, || command(copy, first.command))?;
    Ok(faults.iter().filter(|fault| !finds(&outcome, fault, before)).count())
}

/// Whether the check found a fault. The message must not have been there before.
fn finds(outcome: &Outcome, fault: &Fault, before: &str) -> bool {
    let said = output(outcome);
    let (name, check, expect) = (fault.name, fault.command[0], fault.expect.as_str());
    let reason = if outcome.success {
        "it did not fail"
    } else if !said.contains(expect) {
        "it failed, but did not say so"
    } else if check == "tidy" && !is_counted(&said, expect) {
        "it said so, but that check did not fail"
    } else if before.contains(expect) && !is_removal(fault) {
        "it says so without the fault, too"
    } else {
        println!("ok   {check}: {name}: `{expect}`");
        return true;
    };
    println!("FAIL {check}: {name}: {reason} (expected `{expect}`)");
    for line in said.lines().filter(|line| line.contains("planted") || line.contains("error")) {
        println!("     {line}");
    }
    false
}

/// Whether what was said stands below the line of a check that failed: others do, too, where many
/// faults are planted at once.
fn is_counted(said: &str, expect: &str) -> bool {
    let before = said.split(expect).next().unwrap_or_default().lines();
    let mut of_checks = before.filter(|line| line.starts_with("ok ") || line.starts_with("FAIL "));
    of_checks.next_back().is_some_and(|line| line.starts_with("FAIL "))
}

/// A fault that takes something away may be there already while the tree is being built up.
fn is_removal(fault: &Fault) -> bool {
    fault.plant.iter().all(|edit| matches!(edit, Edit::Remove(_)))
}

fn command(copy: &Copy, arguments: &[&str]) -> Result<Outcome> {
    let program = std::env::current_exe()
        .hint(|| "cannot find this program".into(), "run it with `cargo xtask selfcheck`")?;
    process::capture(Command::new(program).args(arguments).arg("--root").arg(&copy.root))
}

fn output(outcome: &Outcome) -> String {
    format!("{}{}", outcome.stdout, outcome.stderr)
}
