//! The library as programs meet it: its symbols, its headers, C and Fortran programs linked to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use towpath_skip::skip;

/// What this crate built.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let path = test.with_file_name("libpvm3.so");
    assert!(path.exists(), "{} is not built", path.display());
    path
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn run(command: &mut Command) -> String {
    let output = output(command);
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    text.into_owned()
}

/// Names that a shared object exports, with the sizes of variables (0 for functions).
fn exported(object: &Path) -> BTreeMap<String, u64> {
    let listing = run(Command::new("nm").args(["-D", "-S", "--defined-only"]).arg(object));
    let mut names = BTreeMap::new();
    for line in listing.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, size, kind, name] = fields[..] else { continue };
        let size = u64::from_str_radix(size, 16).expect("a size");
        let is_variable = matches!(kind, "D" | "B" | "R" | "d" | "b" | "r" | "V");
        names.insert(name.to_owned(), if is_variable { size } else { 0 });
    }
    names
}

fn listed(text: &str) -> BTreeSet<&str> {
    text.lines().collect()
}

#[test]
fn every_name_of_the_interface_is_exported() {
    let names = exported(&library());
    for name in listed(include_str!("../symbols.txt")) {
        assert!(names.contains_key(name), "{name} is not exported");
    }
    // Programs hold copies of these: the sizes are part of the interface.
    for (name, size) in [
        ("pvm_errlist", 296),
        ("pvm_nerr", 4),
        ("pvm_errno", 4),
        ("pvmmyctx", 4),
        ("pvmmytid", 4),
        ("pvmdebmask", 4),
        ("pvmctrc", 68),
        ("pvmtrc", 68),
        ("pvmtevinfo", 6104),
        ("pvmtevdidlist", 1968),
    ] {
        assert_eq!(names.get(name), Some(&size), "{name}");
    }
}

/// PVM's own library, where Debian's is installed, exports nothing that is missing here but what
/// is used inside it alone (tests/internal.txt: allocator, fragments, sockets of its protocols).
#[test]
fn nothing_of_debians_library_is_missing() {
    let folder = Path::new("/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let theirs: Vec<PathBuf> =
        ["libpvm3.so.3", "libgpvm3.so.3"].iter().map(|name| folder.join(name)).collect();
    if !theirs.iter().all(|path| path.exists()) {
        return skip("Debian's libpvm3 is not installed: its symbols were not compared");
    }
    let internal = listed(include_str!("../internal.txt"));
    let ours = exported(&library());
    for (name, size) in theirs.iter().flat_map(|path| exported(path)) {
        match ours.get(&name) {
            Some(mine) => assert_eq!(*mine, size, "size of {name}"),
            None => assert!(internal.contains(name.as_str()), "{name} is missing"),
        }
    }
}

struct Installed(tempfile::TempDir);

impl Installed {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        crate::support::install(folder.path());
        Self(folder)
    }

    /// Compiles a program of this folder and runs it, without a virtual machine.
    fn run(&self, compiler: &str, source: &str, args: &[&str]) -> String {
        let root = self.0.path();
        let program = root.join("program");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        run(Command::new(compiler)
            .arg(sources.join(source))
            .arg("-o")
            .arg(&program)
            .arg(format!("-I{}", root.join("include/towpath-pvm3").display()))
            .arg(format!("-L{}", root.join("lib/towpath").display()))
            .args(args));
        run(Command::new(program)
            .env("LD_LIBRARY_PATH", root.join("lib/towpath"))
            .env_remove("TOWPATH_TASK_SOCKET")
            .env("TOWPATH_HOME", root.join("none")))
    }
}

#[test]
fn a_c_program_packs_and_unpacks() {
    let installed = Installed::new();
    let args = ["-Wall", "-Wextra", "-Werror", "-O1", "-Wl,-z,now", "-lgpvm3", "-lpvm3"];
    assert_eq!(installed.run("cc", "packing.c", &args), "ok\n");
}

#[test]
fn a_fortran_program_packs_and_unpacks() {
    if Command::new("gfortran").arg("--version").output().is_err() {
        return skip("gfortran is not installed: the Fortran interface was not tried");
    }
    let installed = Installed::new();
    let args = ["-std=legacy", "-fallow-argument-mismatch", "-w", "-lfpvm3", "-lgpvm3", "-lpvm3"];
    assert_eq!(installed.run("gfortran", "packing.f", &args).trim(), "ok");
}

#[test]
fn the_group_library_brings_the_whole_library() {
    let installed = Installed::new();
    let group = installed.0.path().join("lib/towpath/libgpvm3.so.3");
    let dynamic = run(Command::new("readelf").arg("-d").arg(&group));
    assert!(dynamic.contains("[libpvm3.so.3]"), "{dynamic}");
    assert!(dynamic.contains("soname: [libgpvm3.so.3]"), "{dynamic}");
    assert!(exported(&group).keys().all(|name| !name.starts_with("pvm")));
}
