//! Calls while another call waits: from signal handlers, message handlers and threads (within.c).
//! Each part hangs where the waiting call keeps the others out.

use std::path::Path;
use std::process::Command;

use crate::support::Machine;

/// What to try, and what it prints; with PVM too, but for what threads do, which PVM has none of,
/// and for leaving inside of a signal handler, which PVM does not let tasks do.
const PARTS: [(&str, &str); 13] = [
    ("in_signal_handler", "in the handler: receive 1, leave 0\n"),
    ("sent_by_signal_handler", "received 1\n"),
    ("jumped_out", "jumped out, received 1\n"),
    ("after_other_calls", "handled 1\n"),
    ("in_barrier", "barrier 0, handled 1\n"),
    ("thread_receives", "received 1\n"),
    ("thread_receives_from_other", "other 1\nreceived 1\n"),
    ("thread_in_barrier", "asked 1\nbarrier 0\n"),
    ("thread_waits_for_entry", "entry 1\n"),
    ("threads_and_signals", "1 good\n2 good\n3 good\n4 good\n5 good\nhandled 1\n"),
    ("complaints", "complained 1\n"),
    ("caught_no_more", "caught no more 0, left 0\n"),
    ("output_as_messages", "1 -2 1\n1 -1 1\n1 6\n1 0\n"),
];

#[test]
fn a_call_that_waits_lets_others_in() {
    let Some(machine) = Machine::new(1, "/usr/bin/cc") else { return };
    let folder = machine.folder.path();
    let program = folder.join("within");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-O1", "-D_GNU_SOURCE", "-o"]).arg(&program);
    cc.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/within.c"));
    cc.arg(format!("-I{}/include/towpath-pvm3", folder.display()));
    cc.arg(format!("-L{}/lib/towpath", folder.display())).args(["-lgpvm3", "-lpvm3", "-lpthread"]);
    assert!(cc.status().expect("a C compiler").success());
    for (part, expected) in PARTS {
        let text = machine.run(&program.display().to_string(), &[part], "");
        let (mut got, mut wanted): (Vec<&str>, Vec<&str>) =
            (text.lines().collect(), expected.lines().collect());
        if part.starts_with("thread") {
            got.sort_unstable();
            wanted.sort_unstable();
        }
        assert_eq!(got, wanted, "{part}");
    }
}
