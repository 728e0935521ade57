//! PVM's own example programs: what they print with Towpath is what they print with PVM, but for
//! the numbers of tasks, times and the order of lines; as Debian ships them, and compiled from
//! their sources against our headers.
//!
//! Needs Debian's packages pvm, pvm-dev, pvm-examples and netpipe-pvm; says so and skips where
//! they are not.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::pvm::Pvm;
use support::{Machine, skip};

/// Programs that spawn by themselves: name, arguments, input.
const ALONE: [(&str, &[&str], &str); 12] = [
    ("hello.pvm", &[], ""),
    ("master1", &[], ""),
    ("fmaster1", &[], ""),
    ("timing", &[], ""),
    ("gexample", &[], "100\n3\n"),
    ("fgexample", &[], "100\n3\n"),
    ("joinleave", &["50"], ""),
    ("tjl", &[], ""),
    ("trsg", &[], "4\n5\n"),
    ("frsg", &[], "4\n5\n"),
    ("hitc", &[], "10\n"),
    ("inheritb", &[], ""),
];

/// Programs of which several are spawned together: how many, what one of them says at its end.
const TOGETHER: [(&str, &str, &str); 6] = [
    ("spmd", "4", "token ring done"),
    ("fspmd", "4", "token ring done"),
    ("dbwtest", "2", "100000 doubles received correctly"),
    ("ibwtest", "2", "100000 doubles received correctly"),
    ("pbwtest", "2", "100000 doubles received correctly"),
    ("rbwtest", "2", "100000 doubles received correctly"),
];

/// A task's number: of one of the first hosts, and not the host alone.
fn is_tid(word: &str) -> bool {
    let of_task = |value: u32| {
        let (host, task) = (value >> 18, value & 0x3_ffff);
        (1..=3).contains(&host) && (1..0x1_0000).contains(&task)
    };
    let hex = word.strip_prefix('t').unwrap_or(word);
    u32::from_str_radix(hex, 16).is_ok_and(of_task) || word.parse().is_ok_and(of_task)
}

/// A number of which nobody knows what it will be: of a line that tells a time or a rate.
fn is_measured(line: &str) -> bool {
    ["Roundtrip T", "usec", "uSec", "(us)", "seconds", "MB/s", "Bytes/", "~=", "Time"]
        .iter()
        .any(|mark| line.contains(mark))
}

/// Lines, sorted, without numbers of tasks and times.
fn normalised(text: &str) -> Vec<String> {
    let word = |word: &str, measured: bool| {
        let starts_with_digit = word.starts_with(|first: char| first.is_ascii_digit());
        match () {
            () if is_tid(word) => "TASK".to_owned(),
            () if measured && starts_with_digit => "NUMBER".to_owned(),
            () => word.to_owned(),
        }
    };
    let line = |line: &str| {
        let mut out = String::new();
        let of_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
        let mut rest = line.trim();
        while !rest.is_empty() {
            let end = rest.find(|letter| !of_word(letter)).unwrap_or(rest.len());
            out += &word(&rest[..end], is_measured(line));
            rest = &rest[end..];
            let next = rest.find(of_word).unwrap_or(rest.len());
            out += &rest[..next];
            rest = &rest[next..];
        }
        // Fortran's columns depend on the numbers.
        out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = text.lines().map(line).filter(|line| !line.is_empty()).collect();
    lines.sort();
    lines
}

fn compiled(folder: &Path, source: &Path, flags: &[String], libraries: &[&str]) -> PathBuf {
    let program = folder.join(source.file_stem().expect("a file's name"));
    let fortran = source.extension().is_some_and(|extension| extension == "f");
    let mut compiler = Command::new(if fortran { "gfortran" } else { "cc" });
    if fortran {
        compiler.args(["-std=legacy", "-fallow-argument-mismatch"]);
    } else {
        compiler.args(["-std=gnu89", "-DHASSTDLIB", "-DSYSVSTR"]);
    }
    compiler.args(["-w", "-O1", "-o"]).arg(&program).arg(source).args(flags).args(libraries);
    assert!(compiler.status().expect("a compiler").success(), "{compiler:?}");
    program
}

fn spawner(folder: &Path, flags: &[String]) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spawner.c");
    compiled(folder, &source, flags, &["-lpvm3"]).display().to_string()
}

/// Where our library and headers are.
fn flags(machine: &Machine) -> [String; 2] {
    let installed = machine.folder.path().display();
    [format!("-I{installed}/include"), format!("-L{installed}/lib")]
}

fn assert_same(program: &str, pvm: &str, ours: &str) {
    let (expected, got) = (normalised(pvm), normalised(ours));
    assert!(expected.len() > 1, "{program} printed nothing with PVM: {pvm}");
    assert_eq!(got, expected, "{program}\nwith PVM:\n{pvm}\nwith Towpath:\n{ours}");
}

fn both() -> Option<(Pvm, Machine)> {
    if !Path::new("/usr/include/pvm3.h").exists() {
        skip("Debian's pvm-dev is not installed: nothing was compared with PVM");
        return None;
    }
    let machine = Machine::new(1, "/usr/bin/spmd")?;
    Some((Pvm::new(), machine))
}

#[test]
fn shipped_programs_print_what_they_print_with_pvm() {
    let Some((pvm, machine)) = both() else { return };
    for (program, args, input) in ALONE {
        let path = format!("/usr/bin/{program}");
        assert_same(program, &pvm.run(&path, args, input), &machine.run(&path, args, input));
    }
    let theirs = spawner(pvm.folder.path(), &[]);
    let ours = spawner(machine.folder.path(), &flags(&machine));
    for (program, count, end) in TOGETHER {
        let path = format!("/usr/bin/{program}");
        let text = machine.run(&ours, &[count, &path], "");
        assert!(text.contains(end), "{program}: no `{end}` in\n{text}");
        assert_same(program, &pvm.run(&theirs, &[count, &path], ""), &text);
    }
}
