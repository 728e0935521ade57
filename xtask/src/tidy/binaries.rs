//! One test binary per crate: each further one links the whole crate anew and waits for the one
//! before it.

use super::tree::Tree;
use crate::report::Violation;
use crate::rules::{self, OwnProcess};

/// The binary's root inside `tests/`.
const ROOT: &str = "it/main.rs";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &tree.rust {
        let Some((name, path)) = in_tests(&file.path) else { continue };
        let is_root = !path.contains('/') || path.matches('/').count() == 1 && ends_in_main(path);
        if is_root && path != ROOT && !has_own_process(name, path) {
            let what = format!(
                "a test binary of its own: put it under crates/{name}/tests/it/, with its `mod` \
                 in main.rs"
            );
            violations.push(Violation::new(&file.path, 1, what));
        }
        if let Some(module) = module(path)
            && !declares(tree, name, module)
        {
            let what = format!("never runs: no `mod {module};` in crates/{name}/tests/{ROOT}");
            violations.push(Violation::new(&file.path, 1, what));
        }
    }
    for OwnProcess { of, test, .. } in rules::OWN_PROCESS {
        let path = format!("crates/{of}/tests/{test}.rs");
        if tree.has_crate(of) && !tree.exists(&path) {
            let what = "no such test, but a row in OWN_PROCESS of xtask/src/rules.rs";
            violations.push(Violation::new(&path, 1, what));
        }
    }
    violations
}

/// A file's crate, and its path below that crate's `tests/`.
fn in_tests(path: &str) -> Option<(&str, &str)> {
    let (name, path) = path.strip_prefix("crates/")?.split_once('/')?;
    Some((name, path.strip_prefix("tests/")?))
}

fn ends_in_main(path: &str) -> bool {
    path.ends_with("/main.rs")
}

fn has_own_process(name: &str, path: &str) -> bool {
    let mut rows = rules::OWN_PROCESS.iter();
    rows.any(|row| row.of == name && path.strip_suffix(".rs") == Some(row.test))
}

/// The module of the binary's root that this file is.
fn module(path: &str) -> Option<&str> {
    let path = path.strip_prefix("it/")?;
    let module = path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs"))?;
    (module != "main" && !module.contains('/')).then_some(module)
}

fn declares(tree: &Tree, name: &str, module: &str) -> bool {
    let root = tree.text(&format!("crates/{name}/tests/{ROOT}"));
    let declaration = format!("mod {module};");
    root.is_some_and(|root| root.text.lines().any(|line| line.ends_with(&declaration)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_second_binary_is_refused_in_either_form() {
        for path in
            ["crates/towpath-wire/tests/stray.rs", "crates/towpath-wire/tests/stray/main.rs"]
        {
            let said = found(&[("crates/towpath-wire/tests/it/main.rs", ""), (path, "")]);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(
                said[0].starts_with(&format!("{path}:1: a test binary of its own")),
                "{said:?}"
            );
        }
    }

    #[test]
    fn what_needs_its_own_process_may_have_it_and_must_exist() {
        let manifest = ("crates/towpath-io/Cargo.toml", "");
        let row = ("crates/towpath-io/tests/shared_killed.rs", "");
        assert!(found(&[manifest, row]).is_empty());
        assert!(found(&[manifest])[0].contains("no such test"));
    }

    #[test]
    fn a_module_that_nobody_declares_never_runs() {
        let folder = ("crates/towpath-wire/tests/it/b/mod.rs", "");
        let files = [("crates/towpath-wire/tests/it/main.rs", "mod a;\n"), folder];
        let declared = ("crates/towpath-wire/tests/it/a.rs", "");
        let said =
            found(&[files[0], files[1], declared, ("crates/towpath-wire/tests/it/a/c.rs", "")]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("never runs: no `mod b;`"), "{said:?}");
    }
}
