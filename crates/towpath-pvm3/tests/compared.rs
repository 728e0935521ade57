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
const ALONE: [(&str, &[&str], &str); 11] = [
    ("hello.pvm", &[], ""),
    ("master1", &[], ""),
    ("fmaster1", &[], ""),
    ("timing", &[], ""),
    ("gexample", &[], "100\n3\n"),
    ("fgexample", &[], "100\n3\n"),
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

/// A line that tells times or rates: it says so, or it has nothing but numbers.
fn is_measured(line: &str) -> bool {
    if !line.contains(|letter: char| letter.is_ascii_alphabetic()) {
        return true;
    }
    ["Roundtrip T", "usec", "uSec", "(us)", "seconds", "MB/s", "Bytes/", "~=", "Time"]
        .iter()
        .any(|mark| line.contains(mark))
}

/// Lines, sorted, without numbers of tasks and times.
fn normalised(text: &str) -> Vec<String> {
    let word = |word: &str, measured: bool| {
        let starts_with_digit = word.starts_with(|first: char| first.is_ascii_digit());
        match () {
            () if measured && starts_with_digit => "NUMBER".to_owned(),
            () if is_tid(word) => "TASK".to_owned(),
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

/// Sources of the programs: folder in the archive, names. Those of the four bandwidth tests are
/// one file, compiled with the encoding.
const SOURCES: [(&str, &[&str]); 2] = [
    (
        "examples",
        &[
            "hello.c",
            "hello_other.c",
            "master1.c",
            "slave1.c",
            "timing.c",
            "timing_slave.c",
            "gexample.c",
            "inheritb.c",
            "inherit2.c",
            "spmd.c",
        ],
    ),
    ("gexamples", &["tjl.c", "trsg.c", "frsg.f"]),
];

/// The same programs from their sources against our headers; children are looked for beside
/// them.
#[test]
fn programs_from_source_print_what_shipped_ones_print_with_pvm() {
    let Some((pvm, mut machine)) = both() else { return };
    let archives = Path::new("/usr/share/doc/pvm-examples");
    if !archives.exists() || Command::new("gfortran").arg("--version").output().is_err() {
        return skip("no sources of pvm-examples, or no gfortran: nothing was compiled");
    }
    let folder = machine.folder.path().to_owned();
    for (name, sources) in SOURCES {
        let archive = archives.join(format!("{name}.tar.gz"));
        let mut tar = Command::new("tar");
        tar.arg("xzf").arg(archive).arg("-C").arg(&folder);
        assert!(tar.status().expect("tar").success());
        for source in sources {
            let source = folder.join(name).join(source);
            let libraries = ["-lfpvm3", "-lgpvm3", "-lpvm3"];
            compiled(&folder, &source, &flags(&machine), &libraries);
        }
    }
    std::fs::rename(folder.join("hello"), folder.join("hello.pvm")).expect("a program");
    let mut flags_of_bwtest = flags(&machine).to_vec();
    flags_of_bwtest.extend(["-DPACK".to_owned(), "-DENCODE=PvmDataRaw".to_owned()]);
    let source = folder.join("examples/bwtest.c");
    compiled(&folder, &source, &flags_of_bwtest, &["-lgpvm3", "-lpvm3"]);
    machine.programs.clone_from(&folder);
    for program in ["hello.pvm", "master1", "timing", "gexample", "tjl", "trsg", "frsg", "inheritb"]
    {
        let (_, args, input) = ALONE.iter().find(|row| row.0 == program).expect("a program");
        let theirs = pvm.run(&format!("/usr/bin/{program}"), args, input);
        let ours = machine.run(&folder.join(program).display().to_string(), args, input);
        assert_same(program, &theirs, &ours);
    }
    let (theirs, ours) = (spawner(pvm.folder.path(), &[]), spawner(&folder, &flags(&machine)));
    for (shipped, program, count) in [("spmd", "spmd", "4"), ("rbwtest", "bwtest", "2")] {
        let theirs = pvm.run(&theirs, &[count, &format!("/usr/bin/{shipped}")], "");
        let program = folder.join(program).display().to_string();
        assert_same(shipped, &theirs, &machine.run(&ours, &[count, &program], ""));
    }
}

/// `NetPIPE` checks what comes back itself (for messages of 4 bytes and more: below, it fails with
/// PVM too).
#[test]
fn netpipe_checks_what_it_gets() {
    let Some(machine) = Machine::new(1, "/usr/bin/NPpvm") else { return };
    let both = ["-i", "-p", "0", "-u", "20000", "-n", "50"];
    let mut other = machine.command(Path::new("timeout"));
    other.args(["60", "/usr/bin/NPpvm"]).args(both);
    let other = other.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut other = other.expect("coreutils");
    // It takes the task that was there first for its partner.
    while !machine.towpath(&["ps", "--json"]).contains("\"task\"") {}
    let file = machine.folder.path().join("np.out").display().to_string();
    let args = [&["-h", "x", "-l", "4", "-o", &file], &both[..]].concat();
    let text = machine.run("/usr/bin/NPpvm", &args, "");
    let passed = text.matches("Integrity check passed").count();
    assert!(passed > 20 && !text.contains("failed"), "{text}");
    assert!(other.wait().expect("its end").success());
}
