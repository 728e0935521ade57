//! PVM's own example programs, as Debian ships them, on a virtual machine of Towpath: not
//! recompiled, with this library in the place of PVM's.
//!
//! Needs the `towpath` program beside the tests (`cargo test --workspace` builds it) and Debian's
//! packages pvm-examples and netpipe-pvm; says so and skips where they are not.

mod support;

use support::Machine;

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
fn hello_on_three_hosts() {
    on(3, "/usr/bin/hello.pvm", &[], "", &["hello, world from"]);
}
