//! Every parser of foreign bytes has a fuzz target, and the target is built.

use anyhow::Result;
use toml::{Table, Value};

use super::tree::Tree;
use crate::report::{Violation, WithHint};
use crate::rules::{self, FuzzRule};

const MANIFEST: &str = "fuzz/Cargo.toml";

pub(super) fn check(tree: &Tree) -> Result<Vec<Violation>> {
    let built = built_targets(tree)?;
    let mut violations = Vec::new();
    for FuzzRule { module, target } in rules::FUZZED {
        let of = match module {
            Some((name, _)) if !tree.has_crate(name) => continue,
            Some((name, module)) => {
                let path = format!("crates/{name}/src/{module}.rs");
                let folder = format!("crates/{name}/src/{module}/mod.rs");
                if !tree.exists(&path) && !tree.exists(&folder) {
                    let what = format!("no such module, but a row for fuzz target `{target}`");
                    violations.push(Violation::new(&path, 1, what));
                }
                format!("{name}'s `{module}`")
            }
            None => "sequences of operations".to_owned(),
        };
        let path = format!("fuzz/fuzz_targets/{target}.rs");
        if !tree.exists(&path) {
            let what = format!("missing: the fuzz target of {of}");
            violations.push(Violation::new(&path, 1, what));
        } else if !built.iter().any(|name| name == target) {
            let what = format!("no [[bin]] named `{target}`: the target is never built");
            violations.push(Violation::new(MANIFEST, 1, what));
        }
    }
    Ok(violations)
}

fn built_targets(tree: &Tree) -> Result<Vec<String>> {
    let Some(file) = tree.text(MANIFEST) else { return Ok(Vec::new()) };
    let manifest: Table =
        file.text.parse().hint(|| format!("cannot read {MANIFEST}"), "correct its TOML")?;
    let targets = manifest.get("bin").and_then(Value::as_array);
    let names = targets.into_iter().flatten().filter_map(|target| target.get("name")?.as_str());
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_must_exist_and_be_built() {
        let bins = ["packet", "talk", "tasks", "operations", "coding"];
        let built: String = bins.map(|bin| format!("[[bin]]\nname = \"{bin}\"\n")).concat();
        let mut files = vec![
            ("crates/towpath-wire/Cargo.toml", ""),
            ("crates/towpath-wire/src/packet.rs", ""),
            ("crates/towpath-wire/src/frame/mod.rs", ""),
            ("crates/towpath-wire/src/talk.rs", ""),
            ("crates/towpath-wire/src/coding.rs", ""),
            ("fuzz/Cargo.toml", &*built),
            ("fuzz/fuzz_targets/packet.rs", ""),
            ("fuzz/fuzz_targets/talk.rs", ""),
            ("fuzz/fuzz_targets/tasks.rs", ""),
            ("fuzz/fuzz_targets/operations.rs", ""),
            ("fuzz/fuzz_targets/coding.rs", ""),
        ];
        let said = |files: &[(&str, &str)]| -> Vec<String> {
            let violations = check(&Tree::of(files)).expect("readable");
            violations.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            said(&files),
            ["fuzz/fuzz_targets/frame.rs:1: missing: the fuzz target of towpath-wire's `frame`"]
        );
        files.push(("fuzz/fuzz_targets/frame.rs", ""));
        assert!(said(&files)[0].contains("never built"));
        files.remove(1);
        assert!(said(&files)[0].contains("no such module"));
    }
}
