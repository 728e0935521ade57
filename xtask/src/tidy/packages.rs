//! A budget of packages: what is easily added is hardly ever taken away.

use anyhow::Result;
use toml::{Table, Value};

use super::tree::Tree;
use crate::report::{Violation, WithHint};
use crate::rules;

const LOCK: &str = "Cargo.lock";

pub(super) fn check(tree: &Tree) -> Result<Vec<Violation>> {
    let Some(file) = tree.text(LOCK) else { return Ok(Vec::new()) };
    let lock: Table = file.text.parse().hint(|| format!("cannot read {LOCK}"), "write it anew")?;
    let packages = lock.get("package").and_then(Value::as_array);
    let foreign = |package: &&Value| package.get("source").is_some();
    let count = packages.into_iter().flatten().filter(foreign).count();
    let limit = rules::PACKAGES_MAX;
    if count <= limit {
        return Ok(Vec::new());
    }
    let what = format!("too many packages of others (limit {limit}, value {count})");
    Ok(vec![Violation::new(LOCK, 1, what)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(foreign: usize) -> usize {
        let one = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n";
        let lock = format!("{one}{}", format!("{one}source = \"registry\"\n").repeat(foreign));
        check(&Tree::of(&[(LOCK, &lock)])).expect("readable").len()
    }

    #[test]
    fn only_packages_of_others_count() {
        assert_eq!(found(rules::PACKAGES_MAX), 0);
        assert_eq!(found(rules::PACKAGES_MAX + 1), 1);
    }
}
