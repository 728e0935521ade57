//! PVM's own example programs: what they print with Towpath is what they print with PVM, but for
//! the numbers of tasks, times and the order of lines; as Debian ships them, and compiled from
//! their sources against our headers. PVM's machine has one host, ours three (but
//! for programs that count hosts).
//!
//! Needs Debian's packages pvm, pvm-dev, pvm-examples and netpipe-pvm; says so and skips where
//! they are not.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::Machine;
use crate::support::pvm::Pvm;
use towpath_skip::skip;

/// Name, arguments, input.
type Program = (&'static str, &'static [&'static str], &'static str);

/// Programs that count the hosts, or start so many tasks on each.
const FARMS: [Program; 5] = [
    ("master1", &[], ""),
    ("fmaster1", &[], ""),
    ("gexample", &[], "100\n3\n"),
    ("fgexample", &[], "100\n3\n"),
    ("hitc", &[], "10\n"),
];

/// Programs that spawn by themselves.
const ALONE: [Program; 13] = [
    ("hello.pvm", &[], ""),
    ("timing", &[], ""),
    ("tjl", &[], ""),
    ("trsg", &[], "4\n5\n"),
    ("frsg", &[], "4\n5\n"),
    ("inheritb", &[], ""),
    ("inherita", &["inherit1"], ""),
    ("inherita", &["inherit3"], ""),
    ("gexamp", &["4"], ""),
    ("ge", &["4"], ""),
    ("joinleave", &["200"], ""),
    ("tst", &[], ""),
    ("thb", &["3"], ""),
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
    let hex = word.strip_prefix("0x").or(word.strip_prefix('t')).unwrap_or(word);
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
        // Mailboxes of lmbi: the name has the task's number.
        let (name, rest) = word.find("lmbi").map_or((word, ""), |at| word.split_at(at));
        match () {
            () if !rest.is_empty() && is_tid(name) => format!("TASK{rest}"),
            () if measured && starts_with_digit => "NUMBER".to_owned(),
            () if is_tid(word) => "TASK".to_owned(),
            () => word.to_owned(),
        }
    };
    let line = |line: &str| {
        // frsg adds up what it never set.
        let unset = line.split_once("calculated by Sum1 as").map(|(before, after)| {
            let after = after.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}calculated by Sum1 as NUMBER{after}")
        });
        let line = unset.as_deref().unwrap_or(line);
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
    // Of `ge`, which looks members up while others leave: with PVM they are some times there, too.
    let counts = |line: &String| !line.is_empty() && !line.ends_with("doesn't match up!");
    let mut lines: Vec<String> = text.lines().map(line).filter(counts).collect();
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
    [format!("-I{installed}/include/towpath-pvm3"), format!("-L{installed}/lib/towpath")]
}

fn assert_same(program: &str, pvm: &str, ours: &str) {
    let (expected, got) = (normalised(pvm), normalised(ours));
    assert!(expected.len() > 1, "{program} printed nothing with PVM: {pvm}");
    assert_eq!(got, expected, "{program}\nwith PVM:\n{pvm}\nwith Towpath:\n{ours}");
}

/// A machine of PVM and one of ours, with so many hosts.
fn both(hosts: u32) -> Option<(Pvm, Machine)> {
    if !Path::new("/usr/include/pvm3.h").exists() {
        skip("Debian's pvm-dev is not installed: nothing was compared with PVM");
        return None;
    }
    let machine = Machine::new(hosts, "/usr/bin/spmd")?;
    Some((Pvm::new(), machine))
}

/// Compares programs as they are installed with those of a folder.
fn compare(programs: &[Program], folder: &Path, pvm: &Pvm, machine: &Machine) {
    for (program, args, input) in programs {
        let theirs = pvm.run(&format!("/usr/bin/{program}"), args, input);
        let ours = machine.run(&folder.join(program).display().to_string(), args, input);
        // Some say how they were started.
        let ours = ours.replace(&folder.display().to_string(), "/usr/bin");
        assert_same(program, &theirs, &ours);
        // What it spawned may be in its group still.
        machine.wait_for_end_of_tasks();
    }
}

#[test]
fn shipped_programs_print_what_they_print_with_pvm() {
    let installed = Path::new("/usr/bin");
    {
        let Some((pvm, machine)) = both(1) else { return };
        compare(&FARMS, installed, &pvm, &machine);
    }
    let Some((pvm, machine)) = both(3) else { return };
    compare(&ALONE, installed, &pvm, &machine);
    let theirs = spawner(pvm.folder.path(), &[]);
    let ours = spawner(machine.folder.path(), &flags(&machine));
    for (program, count, end) in TOGETHER {
        let path = format!("/usr/bin/{program}");
        let text = machine.run(&ours, &[count, &path], "");
        assert!(text.contains(end), "{program}: no `{end}` in\n{text}");
        assert_same(program, &pvm.run(&theirs, &[count, &path], ""), &text);
    }
}

/// A service that is announced in a mailbox: found, asked, ended; and other mailboxes.
fn services(
    start: &dyn Fn(&str, &[&str]) -> Child,
    run: &dyn Fn(&str, &[&str]) -> String,
) -> Vec<(String, String)> {
    let service = start("task0", &["harbour", "d"]);
    let there = |_: &i32| run("gmbi", &[]).contains("<harbour>");
    assert!((0..1000).any(|at| there(&at)), "the service was never there");
    let steps: [(&str, &[&str]); 11] = [
        ("gmbi", &[]),
        ("task1", &["harbour"]),
        ("task1", &["harbour", "0", "f"]),
        ("task1", &["nowhere"]),
        ("task1", &["harbour", "3", "d"]),
        ("lmbi", &["3", "pm", "e"]),
        ("lmbi", &["2", "p", "e"]),
        ("gmbi", &[]),
        ("rme", &["harbour", "0"]),
        ("rme", &["harbour", "7"]),
        ("task_end", &["harbour", "0"]),
    ];
    let mut said: Vec<_> = steps
        .iter()
        .map(|(program, args)| (format!("{program} {args:?}"), run(program, args)))
        .collect();
    let output = service.wait_with_output().expect("its end");
    assert!(output.status.success());
    said.push(("task0".into(), String::from_utf8_lossy(&output.stdout).into_owned()));
    said
}

/// Services as shipped and, on our machine, from their sources.
fn compare_services(folder: &Path, pvm: &Pvm, machine: &Machine) {
    let started = |mut timeout: Command, program: &Path, args: &[&str]| {
        timeout.arg("60").arg(program).args(args).stdout(Stdio::piped());
        timeout.spawn().expect("coreutils")
    };
    let timeout = Path::new("timeout");
    let installed = Path::new("/usr/bin");
    let text = |folder: &Path, program: &str| folder.join(program).display().to_string();
    let theirs = services(
        &|program, args| started(pvm.command(timeout), &installed.join(program), args),
        &|program, args| pvm.run(&text(installed, program), args, ""),
    );
    let ours = services(
        &|program, args| started(machine.command(timeout), &folder.join(program), args),
        &|program, args| machine.run(&text(folder, program), args, ""),
    );
    for ((what, theirs), (_, ours)) in theirs.iter().zip(&ours) {
        assert_same(what, theirs, ours);
    }
    assert!(ours.iter().any(|(_, said)| said.contains("handled 3 service requests")), "{ours:?}");
}

#[test]
fn services_in_mailboxes_are_those_of_pvm() {
    let Some((pvm, machine)) = both(3) else { return };
    compare_services(Path::new("/usr/bin"), &pvm, &machine);
}

/// Sources of the programs: folder in the archive, names.
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
            "inherita.c",
            "inheritb.c",
            "inherit1.c",
            "inherit2.c",
            "inherit3.c",
            "spmd.c",
        ],
    ),
    (
        "gexamples",
        &[
            "tjl.c",
            "trsg.c",
            "frsg.f",
            "gexamp.c",
            "ge.c",
            "joinleave.c",
            "tst.c",
            "thb.c",
            "tnb.c",
        ],
    ),
];

/// Programs of the first folder that share a file.
const SERVICES: [&str; 6] = ["task0", "task1", "task_end", "gmbi", "lmbi", "rme"];

/// The four bandwidth tests are one file, compiled with the encoding.
const ENCODINGS: [(&str, &[&str]); 4] = [
    ("dbwtest", &["-DPACK", "-DENCODE=PvmDataDefault"]),
    ("rbwtest", &["-DPACK", "-DENCODE=PvmDataRaw"]),
    ("ibwtest", &["-DPACK", "-DENCODE=PvmDataInPlace"]),
    ("pbwtest", &[]),
];

/// Fortran programs: the archive has C programs of the same name.
const FORTRAN: [(&str, &str); 6] = [
    ("master1", "fmaster1"),
    ("slave1", "fslave1"),
    ("spmd", "fspmd"),
    ("gexample", "fgexample"),
    ("hitc", "hitc"),
    ("hitc_slave", "hitc_slave"),
];

/// Compiles all into a folder; `false`: there are no sources, or no compiler.
fn compile_all(folder: &Path, flags: &[String]) -> bool {
    let archives = Path::new("/usr/share/doc/pvm-examples");
    if !archives.exists() || Command::new("gfortran").arg("--version").output().is_err() {
        skip("no sources of pvm-examples, or no gfortran: nothing was compiled");
        return false;
    }
    let libraries = ["-lfpvm3", "-lgpvm3", "-lpvm3"];
    // The sources name `../include/fpvm3.h`, as in PVM's own tree.
    if let Some(headers) = flags.iter().find_map(|flag| flag.strip_prefix("-I")) {
        std::os::unix::fs::symlink(headers, folder.join("include")).expect("a link");
    }
    let renamed = |program: PathBuf, name: &str| {
        std::fs::rename(program, folder.join(name)).expect("a program");
    };
    for (name, sources) in SOURCES {
        let archive = archives.join(format!("{name}.tar.gz"));
        let mut tar = Command::new("tar");
        tar.arg("xzf").arg(archive).arg("-C").arg(folder);
        assert!(tar.status().expect("tar").success());
        if name == "examples" {
            for (source, name) in FORTRAN {
                let source = folder.join(format!("examples/{source}.f"));
                renamed(compiled(folder, &source, flags, &libraries), name);
            }
        }
        for source in sources {
            compiled(folder, &folder.join(name).join(source), flags, &libraries);
        }
    }
    renamed(folder.join("hello"), "hello.pvm");
    let shared = folder.join("examples/taskf.c").display().to_string();
    for service in SERVICES {
        let source = folder.join(format!("examples/{service}.c"));
        compiled(folder, &source, flags, &[&shared, "-lpvm3"]);
    }
    for (name, encoding) in ENCODINGS {
        let own = encoding.iter().map(ToString::to_string);
        let flags: Vec<String> = flags.iter().cloned().chain(own).collect();
        let source = folder.join("examples/bwtest.c");
        renamed(compiled(folder, &source, &flags, &["-lgpvm3", "-lpvm3"]), name);
    }
    true
}

/// The same programs from their sources against our headers; children are looked for beside
/// them.
#[test]
fn programs_from_source_print_what_shipped_ones_print_with_pvm() {
    let built = tempfile::tempdir().expect("a folder");
    let folder = built.path();
    {
        let Some((pvm, mut machine)) = both(1) else { return };
        if !compile_all(folder, &flags(&machine)) {
            return;
        }
        folder.clone_into(&mut machine.programs);
        compare(&FARMS, folder, &pvm, &machine);
    }
    let Some((pvm, mut machine)) = both(3) else { return };
    folder.clone_into(&mut machine.programs);
    compare(&ALONE, folder, &pvm, &machine);
    let theirs = spawner(pvm.folder.path(), &[]);
    let ours = spawner(machine.folder.path(), &flags(&machine));
    for (program, count, _) in TOGETHER {
        let theirs = pvm.run(&theirs, &[count, &format!("/usr/bin/{program}")], "");
        let program = folder.join(program).display().to_string();
        assert_same(&program, &theirs, &machine.run(&ours, &[count, &program], ""));
    }
    drop((pvm, machine));
    let Some((pvm, machine)) = both(3) else { return };
    compare_services(folder, &pvm, &machine);
}

/// `NetPIPE` checks what comes back itself (for messages of 4 bytes and more: below, it fails with
/// PVM too).
fn integrity(
    command: &dyn Fn(&Path) -> Command,
    run: &dyn Fn(&str, &[&str]) -> String,
    file: &Path,
    is_there: &dyn Fn() -> bool,
) -> String {
    let both = ["-i", "-p", "0", "-u", "20000", "-n", "50"];
    let mut other = command(Path::new("timeout"));
    other.args(["60", "/usr/bin/NPpvm"]).args(both);
    let other = other.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut other = other.expect("coreutils");
    // It takes the task that was there first for its partner.
    while !is_there() {}
    let file = file.join("np.out").display().to_string();
    let args = [&["-h", "x", "-l", "4", "-o", &file], &both[..]].concat();
    let text = run("/usr/bin/NPpvm", &args);
    assert!(other.wait().expect("its end").success());
    text.lines().filter(|line| !line.contains(&file)).collect::<Vec<_>>().join("\n")
}

#[test]
fn netpipe_checks_what_it_gets() {
    if !Path::new("/usr/bin/NPpvm").exists() {
        return skip("Debian's netpipe-pvm is not installed: nothing was checked");
    }
    let Some((pvm, machine)) = both(3) else { return };
    let ours = integrity(
        &|program| machine.command(program),
        &|program, args| machine.run(program, args, ""),
        machine.folder.path(),
        &|| machine.towpath(&["ps", "--json"]).contains("\"task\""),
    );
    let theirs = integrity(
        &|program| pvm.command(program),
        &|program, args| pvm.run(program, args, ""),
        pvm.folder.path(),
        &|| {
            let tasks = pvm.run("/usr/bin/pvm", &[], "ps -ax\nquit\n");
            tasks.lines().any(|line| line.contains("4/c -") && !line.contains("(cons)"))
        },
    );
    let passed = ours.matches("Integrity check passed").count();
    assert!(passed > 20 && !ours.contains("failed"), "{ours}");
    assert_same("NPpvm", &theirs, &ours);
}
