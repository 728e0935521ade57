//! `cargo xtask count`: instructions and allocations of a packet and of a message, here and in
//! another checkout, by callgrind. Counts are the same on a busy machine, where times say nothing.
//!
//! What is counted is `crates/towpath-sim/benches/count`: a simulated pair with the stand-in seal.
//! It runs with N pieces of work and with 2 N; the difference is theirs alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, anyhow, bail};

use crate::process;
use crate::report::WithHint;

/// What the bench knows, and how much of it is counted.
const WORK: [(&str, u64); 5] = [
    ("packets", 20_000),
    ("short-packets", 20_000),
    ("messages", 8000),
    ("echoes", 4000),
    ("long-messages", 1000),
];
const HINT: &str = "copy crates/towpath-sim/benches/count there, with its lines of Cargo.toml; \
                    where nodes are made otherwise, leave out what they do not know";

/// Of one run, or of one piece of work.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted {
    instructions: f64,
    allocations: f64,
}

pub(crate) fn run(root: &Path, other: Option<&Path>) -> Result<()> {
    process::stdout_of(Command::new("valgrind").arg("--version"))?;
    let here = build(root)?;
    let there = other.map(build).transpose()?;
    println!("| work | instructions | there | change | allocations | there |");
    println!("|---|---|---|---|---|---|");
    for (what, n) in WORK {
        let ours = each(&here, what, n)?;
        let theirs = there.as_deref().map(|there| each(there, what, n)).transpose()?;
        println!("{}", row(what, ours, theirs));
    }
    Ok(())
}

fn row(what: &str, ours: Counted, theirs: Option<Counted>) -> String {
    let Counted { instructions, allocations } = ours;
    let dash = || "-".to_string();
    let of = |f: &dyn Fn(Counted) -> String| theirs.map_or_else(dash, f);
    let there = of(&|t| format!("{:.0}", t.instructions));
    let change = of(&|t| format!("{:+.1} %", (instructions / t.instructions - 1.0) * 100.0));
    let allocated = of(&|t| format!("{:.2}", t.allocations));
    format!("| {what} | {instructions:.0} | {there} | {change} | {allocations:.2} | {allocated} |")
}

/// Compiles the bench of a checkout; where it is.
fn build(checkout: &Path) -> Result<PathBuf> {
    let mut cargo = process::cargo(checkout);
    cargo.args(["bench", "-p", "towpath-sim", "--bench", "count", "--locked", "--no-run"]);
    // Each its own: crates of two checkouts are of one name to cargo, which would mix them.
    cargo.arg("--target-dir").arg(checkout.join("target"));
    let outcome = process::capture(&mut cargo)?;
    if !outcome.success {
        bail!("no bench in {}: {}\nhint: {HINT}", checkout.display(), outcome.stderr.trim_end());
    }
    let path = outcome.stderr.lines().rev().find_map(|line| {
        let (_, path) = line.split_once("Executable")?;
        Some(path.split_once('(')?.1.trim_end().trim_end_matches(')').to_owned())
    });
    let path = path.ok_or_else(|| anyhow!("cargo did not say what it built\nhint: {HINT}"))?;
    Ok(checkout.join(path))
}

/// What one piece of work costs.
fn each(bench: &Path, what: &str, n: u64) -> Result<Counted> {
    let [once, twice] = [callgrind(bench, what, n)?, callgrind(bench, what, 2 * n)?];
    let per = |a: f64, b: f64| (b - a) / n as f64;
    Ok(Counted {
        instructions: per(once.instructions, twice.instructions),
        allocations: per(once.allocations, twice.allocations),
    })
}

fn callgrind(bench: &Path, what: &str, n: u64) -> Result<Counted> {
    let out = std::env::temp_dir().join(format!("towpath-count-{}", std::process::id()));
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--quiet"]);
    valgrind.arg(format!("--callgrind-out-file={}", out.display()));
    process::stdout_of(valgrind.arg(bench).arg(what).arg(n.to_string()))?;
    let text = std::fs::read_to_string(&out);
    let text = text.hint(|| format!("cannot read {}", out.display()), "look at its folder")?;
    let _ = std::fs::remove_file(&out);
    parse(&text).ok_or_else(|| anyhow!("callgrind said no totals of `{what}`"))
}

/// Totals of a callgrind file: instructions, and calls of the allocator.
fn parse(text: &str) -> Option<Counted> {
    let (mut names, mut called) = (BTreeMap::<&str, &str>::new(), "");
    let (mut instructions, mut allocations) = (None, 0);
    for line in text.lines() {
        if let Some(total) = line.strip_prefix("totals: ") {
            instructions = total.split_whitespace().next()?.parse().ok();
        } else if let Some(name) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
            // `(12) name` once, then `(12)`.
            let (id, name) = name.split_once(' ').unwrap_or((name, ""));
            let name = if name.is_empty() { names.get(id).copied()? } else { name };
            names.insert(id, name);
            if line.starts_with('c') {
                called = name;
            }
        } else if let Some(calls) = line.strip_prefix("calls=")
            && ["malloc", "calloc", "realloc"].contains(&called)
        {
            allocations += calls.split_whitespace().next()?.parse::<u64>().ok()?;
        }
    }
    Some(Counted { instructions: instructions?, allocations: allocations as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
events: Ir
fn=(1) main
0 5
cfn=(2) malloc
calls=3 0
0 90
cfn=(3) malloc_consolidate
calls=9 0
0 1
fn=(2)
0 90
cfn=(4) realloc
calls=2 0
0 1
cfn=(2)
calls=1 0
0 1
totals: 1234
";

    #[test]
    fn instructions_and_calls_of_the_allocator_are_found() {
        let counted = Counted { instructions: 1234.0, allocations: 6.0 };
        assert_eq!(parse(FILE), Some(counted));
        assert_eq!(parse("fn=(1) main\n0 5\n"), None, "no totals");
    }

    #[test]
    fn a_row_says_the_change() {
        let [ours, theirs] =
            [1020.0, 1000.0].map(|instructions| Counted { instructions, allocations: 0.5 });
        let with = "| packets | 1020 | 1000 | +2.0 % | 0.50 | 0.50 |";
        assert_eq!(row("packets", ours, Some(theirs)), with);
        assert_eq!(row("packets", ours, None), "| packets | 1020 | - | - | 0.50 | - |");
    }
}
