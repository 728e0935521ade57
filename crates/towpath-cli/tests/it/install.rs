//! What `make install` puts where, and that it can be used from there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use towpath_skip::skip;

use crate::support::{built, text};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Most bytes of the command as tests build it, with their checks, without symbols: a release, of
/// which they are 20 MB at most, has three quarters of that.
const SIZE_MAX: u64 = 26_500_000;

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// The folder with everything that is installed, under the names that the script looks for.
fn built_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let own = PathBuf::from(env!("CARGO_BIN_EXE_towpath"));
    let c = built::built(&["libtowpath_c.so", "deps/libtowpath_c.so"], &["-p", "towpath-capi"]);
    let pvm = built::built(&["libpvm3.so", "deps/libpvm3.so"], &["-p", "towpath-pvm3"]);
    let apps = built::built(&["towpath-apps"], &["-p", "towpath-apps", "--bin", "towpath-apps"]);
    let all =
        [("towpath", own), ("towpath-apps", apps), ("libtowpath_c.so", c), ("libpvm3.so", pvm)];
    for (name, file) in all {
        std::os::unix::fs::symlink(file, folder.path().join(name)).unwrap();
    }
    folder
}

fn script(build: &Path, prefix: &str, destdir: &Path, args: &[&str]) -> Output {
    let mut sh = Command::new("sh");
    sh.arg(format!("{ROOT}/packaging/install.sh")).args(args);
    sh.env("PREFIX", prefix).env("DESTDIR", destdir).env("BUILD", build).output().unwrap()
}

fn run(command: &mut Command) -> Output {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(out.status.success(), "{command:?}: {}{}", text(&out.stdout), text(&out.stderr));
    out
}

/// Names of all files and links below a folder.
fn files(folder: &Path) -> Vec<String> {
    let out = run(Command::new("find").args([".", "!", "-type", "d"]).current_dir(folder));
    let mut names: Vec<String> = text(&out.stdout).lines().map(String::from).collect();
    names.sort();
    names
}

#[test]
fn what_is_installed_is_stripped_complete_and_goes_away_again() {
    if !(is_there("cc") && is_there("objcopy")) {
        return skip("no C compiler, or no objcopy: the installation needs both");
    }
    let build = built_folder();
    let dest = tempfile::tempdir().unwrap();
    // A directory that was there before.
    std::fs::create_dir_all(dest.path().join("opt/tp/share/man")).unwrap();
    let out = script(build.path(), "/opt/tp", dest.path(), &[]);
    assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
    let at = |name: &str| dest.path().join("opt/tp").join(name);
    let installed = files(dest.path());
    for name in [
        "bin/towpath",
        "bin/towpath-apps",
        "lib/debug/bin/towpath.debug",
        "lib/libtowpath_c.so",
        "lib/libtowpath_c.so.0",
        "lib/towpath/libpvm3.so.3",
        "lib/towpath/libgpvm3.so.3",
        "lib/pkgconfig/towpath.pc",
        "include/towpath.h",
        "include/towpath-pvm3/pvm3.h",
        "share/man/man1/towpath.1",
        "share/man/man1/towpath-run.1",
        "share/bash-completion/completions/towpath",
        "share/zsh/site-functions/_towpath",
        "share/fish/vendor_completions.d/towpath.fish",
    ] {
        assert!(at(name).exists(), "{name} of {installed:?}");
    }
    assert!(!at("share/man/man1/towpath-daemon.1").exists(), "hidden commands have no page");
    let sections = text(&run(Command::new("objdump").arg("-h").arg(at("bin/towpath"))).stdout);
    assert!(!sections.contains(".debug_line") && sections.contains(".gnu_debuglink"), "{sections}");
    let size = at("bin/towpath").metadata().unwrap().len();
    // Tests have checks in it that a release has not; `make nightly` looks at that.
    assert!(size <= SIZE_MAX, "{size} B, limit {SIZE_MAX} B");
    let page = std::fs::read_to_string(at("share/man/man1/towpath-run.1")).unwrap();
    assert!(page.contains("on\\-failure"), "from the command line's own definition");
    let completions = at("share/bash-completion/completions/towpath");
    assert!(std::fs::read_to_string(completions).unwrap().contains("--on-failure"));
    // A second time over the first, as an update does; then away with it.
    let mut list = std::fs::read_to_string(at("share/towpath/installed")).unwrap();
    for old in ["lib/old/libtowpath_c.so.0.0.9", "lib/old/"] {
        list += &["/opt/tp/", old, "\n"].concat();
    }
    std::fs::create_dir(at("lib/old")).unwrap();
    std::fs::write(at("lib/old/libtowpath_c.so.0.0.9"), "").unwrap();
    std::fs::write(at("share/towpath/installed"), list).unwrap();
    assert!(script(build.path(), "/opt/tp", dest.path(), &[]).status.success());
    assert_eq!(files(dest.path()), installed, "what an older version had has gone");
    assert!(!at("lib/old").exists());
    std::fs::write(at("lib/of-somebody-else"), "").unwrap();
    let out = script(build.path(), "/opt/tp", dest.path(), &["uninstall"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(files(dest.path()), ["./opt/tp/lib/of-somebody-else"]);
    assert!(!at("include").exists() && !at("share/towpath").exists() && !at("bin").exists());
    assert_eq!(at("share/man").read_dir().unwrap().count(), 0, "it was there before");
    let out = script(build.path(), "/opt/tp", dest.path(), &["uninstall"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("hint:"), "{}", text(&out.stderr));
}

#[test]
fn an_installation_that_failed_can_be_taken_away_and_everybody_can_read_a_whole_one() {
    if !(is_there("cc") && is_there("objcopy")) {
        return skip("no C compiler, or no objcopy: the installation needs both");
    }
    let build = built_folder();
    let dest = tempfile::tempdir().unwrap();
    // No program that could be stripped.
    let program = build.path().join("towpath");
    let whole = std::fs::read_link(&program).unwrap();
    std::fs::remove_file(&program).unwrap();
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    assert!(!script(build.path(), "/usr/local", dest.path(), &[]).status.success());
    assert!(files(dest.path()).contains(&"./usr/local/lib/towpath/libpvm3.so.3".into()));
    assert!(script(build.path(), "/usr/local", dest.path(), &["uninstall"]).status.success());
    assert_eq!(files(dest.path()), [""; 0]);
    assert!(!dest.path().join("usr").exists());

    std::fs::remove_file(&program).unwrap();
    std::os::unix::fs::symlink(whole, &program).unwrap();
    let mut sh = Command::new("sh");
    sh.args(["-c", "umask 077; exec sh \"$0\""]).arg(format!("{ROOT}/packaging/install.sh"));
    run(sh.env("PREFIX", "/usr/local").env("DESTDIR", dest.path()).env("BUILD", build.path()));
    let closed = ["usr", "!", "-type", "l", "!", "-perm", "-u=rw,go=r"];
    assert_eq!(text(&run(Command::new("find").args(closed).current_dir(dest.path())).stdout), "");
    let closed = ["usr", "-type", "d", "!", "-perm", "755"];
    assert_eq!(text(&run(Command::new("find").args(closed).current_dir(dest.path())).stdout), "");
    // There the dynamic linker does not look by itself before ldconfig has run.
    let package = dest.path().join("usr/local/lib/pkgconfig/towpath.pc");
    let package = std::fs::read_to_string(package).unwrap();
    assert!(package.contains("-Wl,-rpath,${libdir}"), "{package}");
}

/// Compiled as the header says, with the flags that pkg-config gives.
fn compile(source: &str, package: &str, pkgconfig: &Path, out: &Path) {
    let mut sh = Command::new("sh");
    sh.arg("-c").arg(format!("cc {source} $(pkg-config --cflags --libs {package}) -o \"$0\""));
    run(sh.arg(out).env("PKG_CONFIG_PATH", pkgconfig));
}

#[test]
fn programs_are_compiled_with_pkg_config_and_run_from_the_installation() {
    if !(is_there("cc") && is_there("pkg-config") && is_there("objcopy")) {
        return skip("no C compiler, no pkg-config or no objcopy: nothing to compile with");
    }
    let build = built_folder();
    let place = tempfile::Builder::new().prefix("tpi").tempdir().unwrap();
    let prefix = place.path().join("prefix");
    let out = script(build.path(), prefix.to_str().unwrap(), Path::new(""), &[]);
    assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
    let hello = place.path().join("hello.c");
    std::fs::write(
        &hello,
        "#include <stdio.h>\n#include <towpath.h>\n\
         int main(void) { printf(\"%s\\n\", towpath_version()); return towpath_abi(); }\n",
    )
    .unwrap();
    let pkgconfig = prefix.join("lib/pkgconfig");
    let program = place.path().join("hello");
    compile(hello.to_str().unwrap(), "towpath", &pkgconfig, &program);
    // The dynamic linker finds the library by its soname, with nothing set.
    let mut hello = Command::new(&program);
    let said = text(&run(hello.env_remove("LD_LIBRARY_PATH")).stdout);
    assert_eq!(said, format!("{}\n", env!("CARGO_PKG_VERSION")));

    // A program for PVM, from source; the installed command finds its library by itself.
    let source = place.path().join("task.c");
    std::fs::write(
        &source,
        "#include <stdio.h>\n#include <pvm3.h>\n\
         int main(void) { printf(\"%d\\n\", pvm_mytid() > 0); pvm_exit(); return 0; }\n",
    )
    .unwrap();
    let program = place.path().join("task");
    compile(source.to_str().unwrap(), "towpath-pvm3", &pkgconfig, &program);
    let towpath = |args: &[&str]| {
        let mut command = Command::new(prefix.join("bin/towpath"));
        command.args(args).env("TOWPATH_HOME", place.path().join("home"));
        command.env_remove("TOWPATH_VM").env_remove("TOWPATH_PVM_LIB").current_dir(place.path());
        run(command.stdin(std::process::Stdio::null()))
    };
    towpath(&["up"]);
    let out = towpath(&["run", "--timeout", "60s", "./task"]);
    towpath(&["down"]);
    assert_eq!((text(&out.stdout).as_str(), text(&out.stderr).as_str()), ("1\n", ""));
}

#[test]
fn what_is_not_built_is_named() {
    let (build, dest) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let out = script(build.path(), "/usr/local", dest.path(), &[]);
    assert_eq!(out.status.code(), Some(1));
    let said = text(&out.stderr);
    assert!(said.contains("towpath is not built") && said.contains("hint:"), "{said}");
    let out = script(build.path(), "relative", dest.path(), &[]);
    assert!(text(&out.stderr).contains("PREFIX=relative is not absolute"));
    assert!(files(dest.path()).is_empty());
}
