//! The header against a C compiler, the library's symbols, and programs run under a daemon.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(command: &mut Command) -> Output {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (said, cried) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{command:?}: {}\n{said}{cried}", out.status);
    out
}

/// Where cargo has put the library that this test depends on.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let libraries = test.parent().unwrap().to_path_buf();
    assert!(libraries.join("libtowpath_c.so").exists(), "no library in {}", libraries.display());
    libraries
}

/// Names followed by an opening parenthesis, such as `towpath_send(`.
fn called(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices('(') {
        let start = text[..at].rfind(|c| !word(c)).map_or(0, |n| n + 1);
        let name = &text[start..at];
        if name.starts_with("towpath_") {
            names.insert(name.to_string());
        }
    }
    names
}

/// The header without its comments.
fn header() -> String {
    let text = std::fs::read_to_string(format!("{ROOT}/include/towpath.h")).unwrap();
    let mut code = String::new();
    let mut rest = text.as_str();
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").expect("a comment ends").1;
    }
    code + rest
}

#[test]
fn every_function_of_the_header_is_called_by_a_program() {
    let programs = ["tour", "hosts", "misuse", "panel"].map(|name| {
        std::fs::read_to_string(format!("{ROOT}/crates/towpath-capi/tests/c/{name}.c")).unwrap()
    });
    let called: BTreeSet<String> = programs.iter().flat_map(|text| called(text)).collect();
    let missing: Vec<_> = self::called(&header()).difference(&called).cloned().collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_library_exports_what_the_header_declares() {
    let library = libraries().join("libtowpath_c.so");
    let out = run(Command::new("nm").args(["--dynamic", "--defined-only"]).arg(library));
    let names = text(&out.stdout);
    let names = names.lines().filter_map(|line| line.split_whitespace().last());
    let exported: BTreeSet<_> = names.filter(|n| n.starts_with("towpath_")).collect();
    let declared = called(&header());
    let declared: BTreeSet<_> = declared.iter().map(String::as_str).collect();
    assert!(exported.len() > 50, "{exported:?}");
    assert_eq!(exported, declared);
}

/// Compiles `tour.c` or the like to a program of the same name.
fn compile(compiler: &str, flags: &[&str], out: &Path, libraries: &Path) {
    let name = out.file_name().unwrap().display();
    let source = format!("{ROOT}/crates/towpath-capi/tests/c/{name}.c");
    let strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
    let mut c = Command::new(compiler);
    c.args(flags).args(strict).arg(format!("-I{ROOT}/include")).arg(source).arg("-o").arg(out);
    run(c.arg("-L").arg(libraries).arg("-ltowpath_c"));
}

/// A program of `tests/c`, compiled, in a directory that is also the home of a virtual machine.
struct Place {
    dir: tempfile::TempDir,
    program: PathBuf,
    command: PathBuf,
}

impl Place {
    fn of(name: &str, flags: &[&str]) -> Self {
        let built = libraries();
        let dir = tempfile::Builder::new().prefix("tpc").tempdir().unwrap();
        let program = dir.path().join(name);
        compile("cc", flags, &program, &built);
        // The name that programs ask for at run time.
        let library = dir.path().join("libtowpath_c.so.0");
        std::os::unix::fs::symlink(built.join("libtowpath_c.so"), library).unwrap();
        let command = crate::built::built(&["towpath"], &["-p", "towpath-cli"]);
        Self { dir, program, command }
    }

    fn towpath(&self, args: &[&str]) -> Command {
        let mut c = Command::new(&self.command);
        c.args(args).env("TOWPATH_HOME", self.dir.path()).env_remove("TOWPATH_VM");
        c.env("LD_LIBRARY_PATH", self.dir.path()).current_dir(self.dir.path());
        c
    }

    /// Runs the program: `how` are options of `run`, `with` what it is given.
    fn run(&self, how: &[&str], with: &[&str]) -> Output {
        let args = [&["run"], how, &["--", self.program.to_str().unwrap()], with].concat();
        self.towpath(&args).output().unwrap()
    }
}

/// Compiles a program of `tests/c` and runs it under a virtual machine of its own, which must go on
/// to its end; `up` and `how` are options of `up` and `run`, `with` what it is given. What it said.
fn under_a_daemon(name: &str, flags: &[&str], up: &[&str], [how, with]: [&[&str]; 2]) -> String {
    let place = Place::of(name, flags);
    run(&mut place.towpath(&[&["up"], up].concat()));
    let out = place.run(how, with);
    let down = place.towpath(&["down"]).output();
    let (said, cried) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{name}: {}\n{said}{cried}", out.status);
    assert!(down.is_ok_and(|out| out.status.success()), "the daemon goes on");
    said
}

#[test]
fn a_c_program_takes_the_tour_under_a_daemon() {
    let flags = ["-std=c99", "-D_POSIX_C_SOURCE=200809L"];
    let said = under_a_daemon("tour", &flags, &["--hosts", "2"], [&["--host", "h1"], &[]]);
    assert_eq!(said, "alone\ntogether\ngroups\n");
}

#[test]
fn a_c_program_hears_of_hosts_that_come_and_go_and_ends_them_all() {
    let place = Place::of("hosts", &["-std=c99", "-D_POSIX_C_SOURCE=200809L"]);
    run(&mut place.towpath(&["up"]));
    let right = place.dir.path().join("right");
    let with = [place.command.to_str().unwrap(), right.to_str().unwrap()];
    // The daemon ends before it could say how the task did.
    let out = place.run(&["--timeout", "120s"], &with);
    let hosts = place.towpath(&["hosts"]).output().unwrap();
    if !right.exists() {
        let down = place.towpath(&["down"]).output();
        panic!("{}{}{down:?}", text(&out.stdout), text(&out.stderr));
    }
    assert!(!hosts.status.success(), "{}", text(&hosts.stdout));
}

#[test]
fn what_some_start_and_others_wait_for_comes_together_on_one_host_and_on_two() {
    let flags = ["-std=c99", "-D_POSIX_C_SOURCE=200809L"];
    for how in [&["--host", "h1"][..], &[]] {
        let how = [&["-n", "5", "--timeout", "120s"], how].concat();
        under_a_daemon("mixed", &flags, &["--hosts", "2"], [&how, &[]]);
    }
}

#[test]
fn one_task_sees_and_steers_what_two_others_compute() {
    let flags = ["-std=c99", "-D_POSIX_C_SOURCE=200809L"];
    let how = ["-n", "3", "--spread", "--timeout", "120s"];
    under_a_daemon("panel", &flags, &["--hosts", "2"], [&how, &[]]);
}

/// Runs `misuse.c` as two tasks of one host; what they said.
fn misuse(what: &str) -> String {
    let flags = ["-std=c99", "-D_DEFAULT_SOURCE", "-pthread"];
    under_a_daemon("misuse", &flags, &[], [&["-n", "2", "--timeout", "120s"], &[what]])
}

#[test]
fn a_forked_child_hears_so_and_becomes_another_task_while_its_parent_goes_on() {
    assert!(misuse("forks").contains("counted 2"));
}

#[test]
fn a_task_that_closes_all_descriptors_hears_that_it_is_lost() {
    assert!(misuse("closes").contains("counted 0"));
}

#[test]
fn ten_thousand_threads_take_turns_or_hear_that_the_task_is_busy() {
    let said = misuse("threads");
    let number = |what: &str| {
        let after = said.split(what).nth(1).and_then(|rest| rest.split_whitespace().next());
        after.and_then(|n| n.parse::<u32>().ok()).unwrap_or_else(|| panic!("no {what}in {said}"))
    };
    let threads = number("threads ");
    assert_eq!(number("counted "), threads, "every message arrived");
    if threads < 10_000 {
        eprintln!("note: this machine allows {threads} threads");
    }
}

#[test]
fn what_was_started_may_be_dropped_by_another_thread() {
    assert!(misuse("frees").contains("counted 0"));
}

#[test]
fn a_task_without_address_space_for_its_segment_goes_by_the_daemon() {
    assert!(misuse("memory").contains("counted 0"));
}

#[test]
fn without_a_daemon_the_error_says_so() {
    let place = Place::of("tour", &["-std=c11", "-D_POSIX_C_SOURCE=200809L"]);
    let dir = place.dir.path();
    let mut c = Command::new(&place.program);
    c.env("LD_LIBRARY_PATH", dir).env("TOWPATH_HOME", dir);
    for name in ["TOWPATH_VM", "TOWPATH_TASK_SOCKET", "TOWPATH_TASK", "TOWPATH_COOKIE"] {
        c.env_remove(name);
    }
    let out = c.output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let said = text(&out.stderr);
    assert!(said.contains("no daemon") && said.contains("hint"), "{said}");
}
