//! Calls that fail give the codes of PVM's manual, and the task goes on (codes.c).
//!
//! Never given, because nothing here does what they are about: `PvmBadVersion`, `PvmIPLoopback`.
//! Given only when a host dies, or the machine loses its leader, in the middle of a call, and not
//! tried here: `PvmHostFail`, `PvmDSysErr`. `PvmAlready` and `PvmHostrNMstr`: roles.rs.

use std::path::Path;
use std::process::Command;

use crate::support::Machine;

#[test]
fn calls_that_fail_give_pvms_codes() {
    let Some(machine) = Machine::new(1, "/usr/bin/cc") else { return };
    let folder = machine.folder.path();
    let program = folder.join("codes");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-O1", "-o"]).arg(&program);
    cc.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/codes.c"));
    cc.arg(format!("-I{}/include/towpath-pvm3", folder.display()));
    cc.arg(format!("-L{}/lib/towpath", folder.display())).args(["-lgpvm3", "-lpvm3"]);
    assert!(cc.status().expect("a C compiler").success());
    let text = machine.run(&program.display().to_string(), &[], "");
    assert_eq!(text, "0 wrong\n");
    let mut alone = machine.command(&program);
    let alone = alone.env("TOWPATH_HOME", folder.join("none")).output().expect("the program");
    assert_eq!(String::from_utf8_lossy(&alone.stdout), "no virtual machine\n");
}
