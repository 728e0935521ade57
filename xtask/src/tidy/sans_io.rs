//! The sans-IO crates: their two attributes, and no way to a clock, a network or an entropy
//! source. `cargo xtask purity` proves the same by linking; this names the line.

use syn::{AttrStyle, Attribute, Meta};

use super::tree::{RustFile, Tree};
use crate::report::Violation;
use crate::rules;

/// Paths that mean IO, each with what to use in its place.
const FORBIDDEN: &[(&[&str], &str)] = &[
    (&["std", "time"], "`now` is passed in"),
    (&["std", "net"], "bytes are passed in"),
    (&["std", "io"], "bytes are passed in"),
    (&["std", "thread"], "the driver owns threads"),
    (&["rand"], "seeds are passed in"),
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for rule in rules::CRATES.iter().filter(|rule| rule.sans_io && tree.has_crate(rule.name)) {
        let path = format!("crates/{}/src/lib.rs", rule.name);
        match tree.rust.iter().find(|file| file.path == path) {
            Some(file) => check_attributes(file, &mut violations),
            None => violations.push(Violation::new(&path, 1, "a sans-IO crate needs a lib.rs")),
        }
    }
    for file in &tree.rust {
        // Benches and tests beside `src` drive the crate from outside, as a driver does.
        let of_crate = rules::rule_of_path(&file.path);
        if of_crate.is_some_and(|rule| rule.sans_io && in_src(&file.path, rule.name)) {
            check_paths(file, &mut violations);
        }
    }
    violations
}

fn in_src(path: &str, name: &str) -> bool {
    path.strip_prefix("crates/")
        .and_then(|path| path.strip_prefix(name))
        .is_some_and(|path| path.starts_with("/src/"))
}

fn check_attributes(file: &RustFile, violations: &mut Vec<Violation>) {
    let attributes = &file.source.syntax.attrs;
    if !attributes
        .iter()
        .any(|attribute| is_inner(attribute) && attribute.path().is_ident("no_std"))
    {
        let what = "a sans-IO crate starts with `#![no_std]`, without a condition";
        violations.push(Violation::new(&file.path, 1, what));
    }
    if !attributes.iter().any(forbids_unsafe) {
        let what = "a sans-IO crate starts with `#![forbid(unsafe_code)]`";
        violations.push(Violation::new(&file.path, 1, what));
    }
}

fn is_inner(attribute: &Attribute) -> bool {
    matches!(attribute.style, AttrStyle::Inner(_))
}

fn forbids_unsafe(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    is_inner(attribute)
        && list.path.is_ident("forbid")
        && list.tokens.to_string().split(',').any(|lint| lint.trim() == "unsafe_code")
}

fn check_paths(file: &RustFile, violations: &mut Vec<Violation>) {
    for path in file.source.paths() {
        for (forbidden, instead) in FORBIDDEN {
            // A local called `rand` is no path; the crate is one with a second segment.
            if path.starts_with(forbidden) && path.segments.len() > 1 {
                let name = forbidden.join("::");
                let what = format!("`{name}` in a sans-IO crate: {instead}");
                violations.push(Violation::new(&file.path, path.line, what));
            }
        }
        if path.segments.iter().any(|segment| segment == "SystemTime") {
            let what = "`SystemTime` in a sans-IO crate: `now` is passed in";
            violations.push(Violation::new(&file.path, path.line, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lib: &str) -> Vec<String> {
        let manifest = ("crates/towpath-qos/Cargo.toml", "");
        let tree = Tree::of(&[manifest, ("crates/towpath-qos/src/lib.rs", lib)]);
        check(&tree).into_iter().map(|violation| violation.to_string()).collect()
    }

    #[test]
    fn both_attributes_are_needed_without_condition() {
        assert!(found("#![no_std]\n#![forbid(missing_docs, unsafe_code)]\n").is_empty());
        assert_eq!(found("#![cfg_attr(not(test), no_std)]\n#![deny(unsafe_code)]\n").len(), 2);
    }

    #[test]
    fn only_the_crate_itself_must_do_without_a_clock() {
        assert!(in_src("crates/towpath-qos/src/a/b.rs", "towpath-qos"));
        for path in ["crates/towpath-qos/benches/a.rs", "crates/towpath-qos/tests/a.rs"] {
            assert!(!in_src(path, "towpath-qos"), "{path}");
        }
    }

    #[test]
    fn forbidden_paths_are_found_in_groups_and_alone() {
        let attributes = "#![no_std]\n#![forbid(unsafe_code)]\n";
        let text = format!(
            "{attributes}use std::{{fmt, time::Instant}};\nfn f(rand: u8) {{\n\
                            let _ = (rand, core::time::Duration::ZERO, rand::random());\n}}\n"
        );
        let found = found(&text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains(":3: `std::time`"), "{found:?}");
        assert!(found[1].contains(":5: `rand`"), "{found:?}");
    }
}
