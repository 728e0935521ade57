//! What must not be committed: unfinished code, debug output, and places that exist only on one
//! machine. The needles are put together here so that this file does not find itself.

use super::tree::{RustFile, TextFile, Tree};
use crate::report::Violation;

const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

const MARK: &str = concat!("FIX", "ME");

/// Folders of the machines that people work on.
const MACHINE_PATHS: &[&str] =
    &[concat!("/", "root/"), concat!("/", "work/"), concat!("/", "home/")];

/// Hosts of package registries: a mirror would make them wrong.
const HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("proxy", ".golang.org"),
];

/// Cargo names the default registry by its canonical address there; it is no mirror's.
const LOCK_FILE: &str = "Cargo.lock";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &tree.rust {
        check_macros(file, &mut violations);
    }
    for file in &tree.texts {
        check_text(file, &mut violations);
    }
    violations
}

fn check_macros(file: &RustFile, violations: &mut Vec<Violation>) {
    for name in MACROS {
        for line in file.source.lines_with(&[name, "!"]) {
            violations.push(Violation::new(&file.path, line, format!("`{name}!` left in")));
        }
    }
    for (index, line) in file.source.lines.iter().enumerate() {
        if line.contains(MARK) {
            violations.push(Violation::new(&file.path, index + 1, format!("{MARK} left in")));
        }
    }
}

fn check_text(file: &TextFile, violations: &mut Vec<Violation>) {
    let is_lock = file.path.rsplit('/').next() == Some(LOCK_FILE);
    for (index, line) in file.text.lines().enumerate() {
        for path in MACHINE_PATHS.iter().filter(|path| has_absolute(line, path)) {
            let what = format!("a path of one machine: `{path}`");
            violations.push(Violation::new(&file.path, index + 1, what));
        }
        for host in HOSTS.iter().filter(|host| !is_lock && line.contains(**host)) {
            let what = format!("the host of a package registry: `{host}`");
            violations.push(Violation::new(&file.path, index + 1, what));
        }
    }
}

/// Whether the path starts a word: a folder inside a relative path or an address does not count.
fn has_absolute(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~/})*$>".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn unfinished_code_is_found_and_its_mention_is_not() {
        assert_eq!(found("a.rs", "fn f() { todo!() }\n"), 1);
        assert_eq!(found("a.rs", "fn f() { std::dbg!(1); }\n"), 1);
        assert_eq!(found("a.rs", "// no todo! here\nconst S: &str = \"dbg!(x)\";\n"), 0);
        assert_eq!(found("a.rs", &format!("// {MARK}: later\n")), 1);
    }

    #[test]
    fn machine_paths_are_found_only_where_they_are_absolute() {
        for text in ["see /wo_rk/x", "\"/ro_ot/a\"", "a=/ho_me/me/b"] {
            assert_eq!(found("a.md", &text.replace('_', "")), 1, "{text}");
        }
        for text in ["target/wo_rk/x", "https://example.invalid/ho_me/x", "$HOME/wo_rk/x"] {
            assert_eq!(found("a.md", &text.replace('_', "")), 0, "{text}");
        }
    }

    #[test]
    fn registry_hosts_are_found_except_in_the_lock_file() {
        for host in HOSTS {
            assert_eq!(found("docs/a.md", &format!("see https://{host}/x\n")), 1);
            assert_eq!(found("fuzz/Cargo.lock", &format!("source = \"{host}\"\n")), 0);
        }
    }
}
