//! Runs every check and prints one line for each, violations below it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};

use super::tree::Tree;
use super::{
    binaries, edges, fuzz_targets, leftovers, modules, packages, ratchet, sans_io, sizes, sleeping,
    unsafe_code,
};
use crate::report::Violation;

struct Check {
    name: &'static str,
    about: &'static str,
    hint: &'static str,
    run: fn(&Tree) -> Result<Vec<Violation>>,
}

const CHECKS: &[Check] = &[
    Check {
        name: "parse",
        about: "every Rust file can be read",
        hint: "what cannot be read was not checked; make it compile first",
        run: |tree| Ok(tree.unreadable.clone()),
    },
    Check {
        name: "edges",
        about: "who may use whom",
        hint: "the table is CRATES in xtask/src/rules.rs; change it only with the architecture",
        run: edges::check,
    },
    Check {
        name: "sans-io",
        about: "no clock, network, thread or random source in the sans-IO crates",
        hint: "pass `now`, bytes and seeds in; see the sans-IO contract in the design",
        run: |tree| Ok(sans_io::check(tree)),
    },
    Check {
        name: "unsafe",
        about: "unsafe only in io, pvm3, capi, py, bench, with its SAFETY: comment",
        hint: "put `// SAFETY:` and the reason directly above the unsafe block",
        run: |tree| Ok(unsafe_code::check(tree)),
    },
    Check {
        name: "modules",
        about: "lib.rs and mod.rs hold documentation, `mod` and `pub use` only",
        hint: "move the item to a module of its own and re-export it",
        run: |tree| Ok(modules::check(tree)),
    },
    Check {
        name: "sizes",
        about: "files, functions, parameters, fields, columns; exceptions in xtask/ratchet.toml",
        hint: "split it; for one dispatch `match` write `// tidy: dispatch` above the function",
        run: |tree| ratchet::check(tree, sizes::measure(tree)),
    },
    Check {
        name: "sleeping",
        about: "no test sleeps, except the namespace tests",
        hint: "use simulated time, or wait for the event itself",
        run: |tree| Ok(sleeping::check(tree)),
    },
    Check {
        name: "binaries",
        about: "one test binary per crate; exceptions in xtask/src/rules.rs",
        hint: "each binary costs a link and waits for the others; OWN_PROCESS lists who may",
        run: |tree| Ok(binaries::check(tree)),
    },
    Check {
        name: "leftovers",
        about: "no unfinished code, debug output, machine paths or registry hosts",
        hint: "finish or remove it; compute paths at run time",
        run: |tree| Ok(leftovers::check(tree)),
    },
    Check {
        name: "packages",
        about: "no more packages of others than the budget",
        hint: "do without, or raise PACKAGES_MAX in xtask/src/rules.rs and say what it saves",
        run: packages::check,
    },
    Check {
        name: "fuzz",
        about: "every parser has a fuzz target",
        hint: "write the target, or correct FUZZED in xtask/src/rules.rs",
        run: fuzz_targets::check,
    },
];

pub(crate) fn run(root: &Path) -> Result<()> {
    let tree = Tree::load(root)?;
    let mut failed = Vec::new();
    for check in CHECKS {
        if !run_check(check, &tree) {
            failed.push(check.name);
        }
    }
    if !failed.is_empty() {
        bail!("tidy: {} failed\nhint: each violation is listed above", failed.join(", "));
    }
    Ok(())
}

/// Prints a check's line and what it found; whether it passed.
fn run_check(check: &Check, tree: &Tree) -> bool {
    let (found, hint) = match (check.run)(tree) {
        Ok(violations) => (violations, format!("hint: {}", check.hint)),
        // A table that cannot be read: the error has its own hint.
        Err(error) => (Vec::new(), error.to_string()),
    };
    let lines: BTreeSet<_> = found.into_iter().collect();
    let passed = lines.is_empty() && hint.starts_with("hint: ");
    println!("{} {:<10} {}", if passed { "ok  " } else { "FAIL" }, check.name, check.about);
    if !passed {
        for violation in &lines {
            println!("  {violation}");
        }
        println!("  {}", hint.replace('\n', "\n  "));
    }
    passed
}
