//! One line for each test that did not run.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::panic::Location;
use std::path::Path;

/// Names the file that skips are written to.
const VARIABLE: &str = "TOWPATH_SKIPS";

/// Says that the test that calls this, or a part of it, did not run, and why. To be called by the
/// test's own thread, whose name is the test's; the test returns afterwards.
///
/// # Panics
///
/// If the file that `TOWPATH_SKIPS` names cannot be written: a skip must not be lost.
#[track_caller]
pub fn skip(why: &str) {
    let thread = std::thread::current();
    let line = line(Location::caller().file(), thread.name(), why);
    eprintln!("SKIPPED {line}");
    if let Some(path) = std::env::var_os(VARIABLE) {
        let path = Path::new(&path);
        append(path, &line).unwrap_or_else(|e| panic!("{VARIABLE}={}: {e}", path.display()));
    }
}

/// `crate test: why`, on one line. Where tests run on the main thread, the file stands for the
/// test.
fn line(file: &str, test: Option<&str>, why: &str) -> String {
    let mut parts = file.split('/').skip_while(|part| *part != "crates").skip(1);
    let of = parts.next().unwrap_or("?");
    let test = test.filter(|name| *name != "main").unwrap_or(file);
    format!("{of} {test}: {}", why.lines().collect::<Vec<_>>().join(" "))
}

/// In one write, so that lines of tests that run at once stay whole.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_crate_the_test_and_the_reason() {
        let file = "crates/towpath-io/tests/it/udp.rs";
        assert_eq!(line(file, Some("udp::sends"), "no\n::1"), "towpath-io udp::sends: no ::1");
        assert_eq!(
            line("/any/crates/towpath-io/src/udp.rs", Some("main"), "no ::1"),
            "towpath-io /any/crates/towpath-io/src/udp.rs: no ::1"
        );
    }

    #[test]
    fn lines_are_added_never_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("skips");
        append(&path, "a b: c").expect("written");
        append(&path, "d e: f").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "a b: c\nd e: f\n");
        assert!(append(&folder.path().join("none/skips"), "g").is_err());
    }
}
