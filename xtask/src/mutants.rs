//! `cargo xtask mutants`: how many of a seeded sample of changes to each crate its own unit tests
//! notice, by cargo-mutants. Those that survive for a reason stand in [`SURVIVORS`] with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use crate::process;
use crate::report::WithHint;

/// The version this was written with.
const VERSION: &str = "27.1.0";
/// Crates, and about how many mutants of each: 400 and more in all.
const CRATES: &[(&str, usize)] = &[
    ("towpath-wire", 50),
    ("towpath-proto", 50),
    ("towpath-vm", 50),
    ("towpath-node", 50),
    ("towpath-qos", 50),
    ("towpath-media", 50),
    ("towpath-io", 25),
    ("towpath-task", 25),
    ("towpath", 20),
    ("towpath-pvm3", 15),
];
/// Mutants that no test can notice, or that none need: one a line, as cargo-mutants names it
/// without the place in the file, then ` | ` and the reason.
const SURVIVORS: &str = "docs/mutants-survivors.md";
/// Of what compiles: at least so many in a hundred are caught, in all and in each crate.
const CAUGHT_MIN: usize = 90;
const CAUGHT_MIN_EACH: usize = 85;
const SEED: u64 = 1997;

/// What came of one crate's sample.
#[derive(Default)]
struct Tally {
    caught: usize,
    known: usize,
    unviable: usize,
    missed: Vec<String>,
}

impl Tally {
    fn viable(&self) -> usize {
        self.caught + self.missed.len()
    }

    /// In a hundred; mutants known to be harmless aside.
    fn rate(&self) -> usize {
        100 * self.caught / self.viable().max(1)
    }
}

pub(crate) fn run(root: &Path, crates: &[String]) -> Result<()> {
    if !process::capture(process::cargo(root).args(["mutants", "--version"]))?.success {
        println!("SKIPPED mutants: cargo-mutants is not installed; NOTHING was checked");
        println!("hint: `cargo install cargo-mutants --locked --version {VERSION}`");
        return Ok(());
    }
    let known = known(root)?;
    let (mut all, mut low) = (Tally::default(), Vec::new());
    println!("{:16} {:>6} {:>6} {:>6} {:>9}  seed {SEED}", "", "caught", "of", "%", "unviable");
    let wanted = |name: &str| crates.is_empty() || crates.iter().any(|c| c == name);
    for (name, sample) in CRATES.iter().filter(|(name, _)| wanted(name)) {
        let tally = sample_of(root, name, *sample, &known)?;
        let Tally { caught, unviable, .. } = tally;
        println!("{name:16} {caught:6} {:6} {:6} {unviable:9}", tally.viable(), tally.rate());
        tally.missed.iter().for_each(|mutant| println!("    survived: {mutant}"));
        if tally.rate() < CAUGHT_MIN_EACH {
            low.push(format!("{name} {} %, at least {CAUGHT_MIN_EACH}", tally.rate()));
        }
        all.caught += caught;
        all.known += tally.known;
        all.missed.extend(tally.missed);
    }
    println!("{} of {} caught, {} known to be harmless", all.caught, all.viable(), all.known);
    if all.rate() < CAUGHT_MIN {
        low.push(format!("all crates {} %, at least {CAUGHT_MIN}", all.rate()));
    }
    if !low.is_empty() {
        bail!(
            "mutants: too few are caught: {}\n\
             hint: test what survived, or give the reason in {SURVIVORS}",
            low.join("; ")
        );
    }
    Ok(())
}

/// The names of survivors that have a reason.
fn known(root: &Path) -> Result<BTreeSet<String>> {
    let path = root.join(SURVIVORS);
    let text = fs::read_to_string(&path)
        .hint(|| format!("cannot read {}", path.display()), "it stands in the repository")?;
    Ok(text.lines().filter_map(survivor).map(str::to_string).collect())
}

/// The name in a line of survivors: what is changed may be a bar, too, reasons have none.
fn survivor(line: &str) -> Option<&str> {
    line.strip_prefix("- ")?.rsplit_once(" | ").map(|(name, _)| name)
}

/// A mutant's name without line and column: they change with every edit.
fn unplaced(mutant: &str) -> String {
    let mut parts = mutant.splitn(4, ':');
    match (parts.next(), parts.nth(2)) {
        (Some(file), Some(what)) => format!("{file}:{what}"),
        _ => mutant.into(),
    }
}

fn sample_of(root: &Path, name: &str, sample: usize, known: &BTreeSet<String>) -> Result<Tally> {
    let listed = process::stdout_of(process::cargo(root).args(["mutants", "--list", "-p", name]))?;
    let shards = listed.lines().count().div_ceil(sample).max(1) as u64;
    let shard = format!("{}/{shards}", SEED % shards);
    let out = root.join("target/mutants").join(name);
    fs::create_dir_all(&out).hint(|| format!("cannot make {}", out.display()), "is there room?")?;
    let mut mutants = process::cargo(root);
    // One folder for all that is built, whatever the copy of the tree is called.
    mutants.env("CARGO_TARGET_DIR", root.join("target/mutants/build"));
    mutants.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "1");
    mutants.args(["mutants", "-p", name, "--shard", &shard, "--sharding", "round-robin"]);
    mutants.args(["--timeout", "180", "--no-times", "--colors", "never", "-o"]).arg(&out);
    mutants.args(["--", "--lib"]);
    // It ends with an error when a mutant survives: what counts is what it wrote.
    let outcome = process::capture(&mut mutants)?;
    let read = |file: &str| fs::read_to_string(out.join("mutants.out").join(file));
    let lines = |file: &str| -> Result<Vec<String>> {
        let text = read(file).hint(
            || format!("cargo-mutants left no {file} for {name}: {}", outcome.stderr.trim_end()),
            "do the crate's unit tests pass?",
        )?;
        Ok(text.lines().map(unplaced).collect())
    };
    let (harmless, missed) = lines("missed.txt")?.into_iter().partition(|m| known.contains(m));
    let harmless: Vec<String> = harmless;
    Ok(Tally {
        caught: lines("caught.txt")?.len() + lines("timeout.txt")?.len(),
        known: harmless.len(),
        unviable: lines("unviable.txt")?.len(),
        missed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survivor_is_what_stands_before_its_reason() {
        let line = "- a/b.rs: replace | with ^ in f | they share no bit";
        assert_eq!(survivor(line), Some("a/b.rs: replace | with ^ in f"));
        assert_eq!((survivor("A line is what"), survivor("- odd")), (None, None));
    }

    #[test]
    fn a_mutant_is_named_without_its_place() {
        assert_eq!(unplaced("a/b.rs:7:12: replace + with - in f"), "a/b.rs: replace + with - in f");
        assert_eq!(unplaced("odd"), "odd");
    }

    #[test]
    fn the_sample_is_large_enough() {
        assert!(CRATES.iter().map(|(_, sample)| sample).sum::<usize>() >= 300);
    }

    #[test]
    fn rates_are_of_what_compiles() {
        let missed = vec!["a".into()];
        let tally = Tally { caught: 3, known: 5, unviable: 9, missed };
        assert_eq!((tally.viable(), tally.rate()), (4, 75));
    }
}
