//! Corners of the interface in which programs of PVM were seen to rely on what PVM does
//! (`as_pvm.c`): the same lines as with PVM, where that is installed, and the ones that it printed
//! where not.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::pvm::Pvm;
use crate::support::{self, Machine};
use towpath_skip::skip;

const CORNERS: &str = "\
another task 1, context kept 1, fragments 4080, tids shown 0
heard 1
instance of nobody 1, of 0 -20, of me 0
in a group that is not there -19
instance of nobody in a frozen group 1
barriers for 0 -3, for one 0
barrier of a stranger -19
nameless program 0: -7 -7 -7
on a host that is not there 0: -6
none -2, fewer -2
handler without a function 9, again -33
deleted 0
number of the process given 1
context of the parent 1
set to 1, after leaving 0
";

/// A look takes in one message; a wish comes behind the result that was sent before it.
const POLLING: &str = "\
a wish at look 2, another at probe 2
wishes before results 1
";

fn compiled(machine: &Machine) -> PathBuf {
    let folder = machine.folder.path();
    let program = folder.join("as_pvm");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-D_GNU_SOURCE", "-o"]).arg(&program);
    cc.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/as_pvm.c"));
    cc.arg(format!("-I{}/include/towpath-pvm3", folder.display()));
    // PVM has groups in a library of their own: it stays named though ours needs none.
    cc.arg(format!("-L{}/lib/towpath", folder.display()));
    cc.args(["-Wl,--no-as-needed", "-lgpvm3", "-lpvm3"]);
    assert!(cc.status().expect("a C compiler").success());
    program
}

/// Lines of a task and of its child: children's output is marked by who it is of.
fn lines(text: &str) -> String {
    let of = |line: &str| match line.split_once("] ") {
        Some((mark, rest)) if mark.starts_with("[t") => rest.to_owned(),
        _ => line.to_owned(),
    };
    let about = |line: &&str| {
        !line.ends_with(" BEGIN") && !line.ends_with(" EOF") && !line.starts_with("libpvm [")
    };
    text.lines().filter(about).map(|line| of(line) + "\n").collect()
}

#[test]
fn corners_are_those_of_pvm() {
    let Some(machine) = Machine::new(1, "/usr/bin/cc") else { return };
    let program = compiled(&machine).display().to_string();
    for (part, expected) in [("", CORNERS), ("polling", POLLING)] {
        assert_eq!(lines(&machine.run(&program, &[part], "")), expected, "{part}");
    }
    if !Path::new("/usr/bin/pvm").exists() {
        return skip("PVM is not installed: what it prints was not looked at again");
    }
    let pvm = Pvm::new();
    for (part, expected) in [("", CORNERS), ("polling", POLLING)] {
        assert_eq!(lines(&pvm.run(&program, &[part], "")), expected, "PVM, {part}");
    }
}

#[test]
fn the_console_shows_no_mailbox_of_the_librarys_own() {
    let Some(machine) = Machine::new(1, "/usr/bin/cc") else { return };
    let program = compiled(&machine).display().to_string();
    // It makes contexts, which are kept in one, and leaves one behind.
    machine.run(&program, &[], "");
    let console = support::towpath().display().to_string();
    let names = machine.run(&console, &["pvm"], "put mine 1 x\nnames\nquit\n");
    assert!(names.contains("<mine>:") && !names.contains("TOWPATH"), "{names}");
}
