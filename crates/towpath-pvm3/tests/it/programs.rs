//! PVM's own example programs, as Debian ships them, on a virtual machine of Towpath: not
//! recompiled, with this library in the place of PVM's.
//!
//! Needs Debian's packages pvm-examples and netpipe-pvm; says so and skips where they are not.

use std::path::Path;
use std::process::Stdio;

use crate::support::Machine;

/// Runs a program on so many hosts; what it prints must contain `expected`.
fn on(hosts: u32, program: &str, args: &[&str], input: &str, expected: &[&str]) {
    let Some(machine) = Machine::new(hosts, program) else { return };
    let text = machine.run(program, args, input);
    for expected in expected {
        assert!(text.contains(expected), "{program}: no `{expected}` in\n{text}");
    }
}

#[test]
fn hello_on_one_host() {
    on(1, "/usr/bin/hello.pvm", &[], "", &["hello, world from"]);
}

#[test]
fn hello_and_farms_on_three_hosts() {
    let Some(machine) = Machine::new(3, "/usr/bin/hello.pvm") else { return };
    let hello = machine.run("/usr/bin/hello.pvm", &[], "");
    assert!(hello.contains("hello, world from"), "{hello}");
    for (program, expecting) in
        [("/usr/bin/master1", "(expecting "), ("/usr/bin/fmaster1", "(expected ")]
    {
        let text = machine.run(program, &[], "");
        let mut results = 0;
        for line in text.lines().filter(|line| line.contains("I got")) {
            let (got, expected) = line.split_once(expecting).expect("what it should be");
            let got = got.split_whitespace().nth(2).expect("a value");
            let expected = expected.trim_end_matches(')').trim();
            assert_eq!(got, expected, "{line}");
            results += 1;
        }
        assert_eq!(results, 9, "three tasks a host:\n{text}");
    }
    let timing = machine.run("/usr/bin/timing", &[], "");
    assert!(timing.trim_end().ends_with("done"), "{timing}");
}

#[test]
fn groups_on_three_hosts() {
    let Some(machine) = Machine::new(3, "/usr/bin/gexample") else { return };
    let run = |program: &str, args: &[&str], input: &str, expected: &[&str]| {
        let text = machine.run(&format!("/usr/bin/{program}"), args, input);
        machine.wait_for_end_of_tasks();
        for expected in expected {
            assert!(text.contains(expected), "{program}: no `{expected}` in\n{text}");
        }
    };
    run("gexample", &[], "100\n3\n", &["1-Norm is 5050", "9.33262e+157"]);
    run("fgexample", &[], "100\n3\n", &["5050", "9.33262154"]);
    run("gexamp", &["4"], "", &["sync"]);
    run("ge", &["4"], "", &["done"]);
    run("joinleave", &["200"], "", &["Joined 200 times"]);
    run("tst", &[], "", &["joined prognosis 0, negative 0", "left prognosis 0, negative 0"]);
    run("tjl", &[], "", &["joined group31"]);
    run("thb", &["3"], "", &["joined group31", "done."]);
    run("trsg", &[], "4\n5\n", &["Sum of Squares of first 20 integers is 2870", "Test Ok"]);
    run("frsg", &[], "4\n5\n", &["2870", "Test Ok"]);
    run("hitc", &[], "10\n", &["Program Finished"]);
    run("inheritb", &[], "", &["with context 262145. <-- received from 1st inherit2"]);
}

#[test]
fn services_by_mailboxes_and_handlers() {
    let Some(machine) = Machine::new(1, "/usr/bin/task0") else { return };
    let start = |program: &str, args: &[&str]| {
        let mut command = machine.command(Path::new("timeout"));
        command.arg("60").arg(program).args(args).stdout(Stdio::piped());
        command.spawn().expect("coreutils")
    };
    let wait_for = |class: &str| {
        for _ in 0..1000 {
            if machine.run("/usr/bin/gmbi", &[], "").contains(class) {
                return;
            }
        }
        panic!("{class} was never there");
    };
    let service = start("/usr/bin/task0", &["harbour", "d"]);
    wait_for("<harbour>");
    machine.run("/usr/bin/task_end", &["harbour", "0"], "");
    let output = service.wait_with_output().expect("its end");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("handled 1 service requests"), "{text}");

    let server = start("/usr/bin/mhf_server", &[]);
    wait_for("<mhf_server>");
    machine.run("/usr/bin/mhf_tickle", &[], "0\n9\n");
    let output = server.wait_with_output().expect("its end");
    assert_ne!(output.status.code(), Some(124), "the server did not end");
}

/// PVM's console, on our library: it asks for hosts and tasks, and spawns.
#[test]
fn the_console_of_pvm() {
    on(
        3,
        "/usr/bin/pvm",
        &[],
        "conf\nspawn -4 -> spmd\nquit\n",
        &["3 hosts, 1 data format", "LINUX64", "4 successful"],
    );
}
