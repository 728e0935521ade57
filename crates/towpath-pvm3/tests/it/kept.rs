//! Long messages that stay with their sender (kept.c), compiled against our header.

use std::path::Path;
use std::process::Command;

use crate::support::Machine;

#[test]
fn what_was_packed_stays_when_it_was_sent_and_in_a_forked_child() {
    let Some(machine) = Machine::new(1, "/usr/bin/cc") else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept.c");
    let folder = machine.folder.path();
    let program = folder.join("kept");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&program).arg(source);
    cc.arg(format!("-I{}/include/towpath-pvm3", folder.display()));
    cc.arg(format!("-L{}/lib/towpath", folder.display())).arg("-lpvm3");
    assert!(cc.status().expect("a C compiler").success());
    for encoding in ["raw", "default"] {
        let text = machine.run(&program.display().to_string(), &[encoding], "");
        assert_eq!(text.matches(": good\n").count(), 4, "{encoding}:\n{text}");
    }
}
