//! No test sleeps: simulated time makes tests fast and their order certain. Only the namespace
//! tests run in real time.

use super::tree::{RustFile, Tree, has_extension, is_test_path, under_tests};
use crate::report::Violation;

const SLEEPS: &[&[&str]] = &[
    &["thread", "sleep"],
    &["thread", "sleep_until"],
    &["thread", "sleep_ms"],
    &["time", "sleep"],
    &["time", "sleep_until"],
];

const PYTHON_SLEEPS: &[&str] = &["time.sleep(", "from time import sleep"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust.iter().filter(|file| !may_sleep(&file.path)) {
        check_rust(file, &mut violations);
    }
    for file in &tree.texts {
        let is_test = is_test_path(&file.path) || is_python_test(&file.path);
        if !has_extension(&file.path, "py") || !is_test || may_sleep(&file.path) {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            let code = line.split('#').next().unwrap_or_default();
            if PYTHON_SLEEPS.iter().any(|sleep| code.contains(sleep)) {
                violations.push(Violation::new(&file.path, index + 1, "a test sleeps"));
            }
        }
    }
    violations
}

/// Files under `tests/` that drive network namespaces.
fn may_sleep(path: &str) -> bool {
    under_tests(path) && path.contains("namespace")
}

fn is_python_test(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with("test_"))
}

fn check_rust(file: &RustFile, violations: &mut Vec<Violation>) {
    for path in file.source.paths() {
        let sleeps = SLEEPS.iter().any(|sleep| path.ends_with(sleep));
        if sleeps && (file.is_test || file.source.shape.in_test(path.line)) {
            let what = format!("a test sleeps: `{}`", path.segments.join("::"));
            violations.push(Violation::new(&file.path, path.line, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn test_code_may_not_sleep_and_other_code_may() {
        let call = "fn f() { std::thread::sleep(d); }\n";
        assert_eq!(found("crates/towpath-io/src/x.rs", call), 0);
        assert_eq!(found("crates/towpath-io/src/tests.rs", call), 1);
        assert_eq!(found("crates/towpath-io/tests/x.rs", call), 1);
        let module = format!("{call}#[cfg(test)]\nmod tests {{\n    {call}}}\n");
        assert_eq!(found("crates/towpath-io/src/x.rs", &module), 1);
    }

    #[test]
    fn imports_do_not_hide_it() {
        assert_eq!(found("tests/x.rs", "use std::thread::{self, sleep};\n"), 1);
        assert_eq!(found("tests/x.rs", "use tokio::{net, time::sleep};\n"), 1);
        assert_eq!(found("tests/x.rs", "fn f() { assert!({ thread::sleep(d); true }); }\n"), 1);
    }

    #[test]
    fn namespace_tests_may() {
        assert_eq!(found("tests/namespaces/link.rs", "use std::thread::sleep;\n"), 0);
        assert_eq!(found("crates/a/src/namespace/tests.rs", "use std::thread::sleep;\n"), 1);
    }

    #[test]
    fn python_tests_may_not() {
        assert_eq!(found("python/towpath/tests/x.py", "    time.sleep(1)  # wait\n"), 1);
        assert_eq!(found("python/test_x.py", "# time.sleep(1)\n"), 0);
    }
}
