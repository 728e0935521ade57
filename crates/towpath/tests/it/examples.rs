//! The examples, each of which checks its own result.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use crate::support::Vm;

/// An example of this build. Cargo builds them with the tests, unless it was asked for this file
/// alone.
fn example(name: &str) -> PathBuf {
    crate::built::built(&[&format!("examples/{name}")], &["-p", "towpath", "--example", name])
}

/// Starts a program as a task of its own at a host.
fn start(vm: &Vm, host: usize, program: &PathBuf, size: usize) -> Child {
    start_of(vm, host, program, size, "job")
}

fn start_of(vm: &Vm, host: usize, program: &PathBuf, size: usize, job: &str) -> Child {
    let mut c = Command::new(program);
    for name in ["TOWPATH_TASK", "TOWPATH_COOKIE", "TOWPATH_VM"] {
        c.env_remove(name);
    }
    c.env("TOWPATH_TASK_SOCKET", vm.socket(host)).env("TOWPATH_SIZE", size.to_string());
    c.env("TOWPATH_JOB", job);
    c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) -> (Output, String) {
    let out = child.wait_with_output().unwrap();
    let text = [&out.stdout[..], &out.stderr[..]].concat();
    (out, String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_farm_that_loses_a_worker_finds_every_prime_once() {
    let (vm, farm) = (Vm::up(2), example("farm"));
    let (out, text) = end(start(&vm, 1, &farm, 1));
    assert!(out.status.success(), "{text}");
    // π(320 000), from any table of primes.
    assert!(text.contains("27608 primes below 320000"), "{text}");
    assert!(text.contains("1 lost"), "{text}");
}

#[test]
fn heat_on_four_tasks_is_that_of_one_bit_by_bit() {
    let (vm, heat) = (Vm::up(2), example("heat"));
    let children: Vec<Child> = (0..4).map(|n| start(&vm, 1 + n % 2, &heat, 4)).collect();
    let ended: Vec<(Output, String)> = children.into_iter().map(end).collect();
    assert!(ended.iter().all(|(out, _)| out.status.success()), "{ended:?}");
    let said: String = ended.into_iter().map(|(_, text)| text).collect();
    assert!(said.contains("by 4 tasks") && said.contains(" 0 points differ"), "{said}");
}

#[test]
fn two_rings_at_once_do_not_meet() {
    let (vm, ring) = (Vm::up(1), example("ring"));
    let of = |job| (0..3).map(move |_| job);
    let jobs = of("a").chain(of("b"));
    let children: Vec<Child> = jobs.map(|job| start_of(&vm, 1, &ring, 3, job)).collect();
    let ended: Vec<(Output, String)> = children.into_iter().map(end).collect();
    assert!(ended.iter().all(|(out, _)| out.status.success()), "{ended:?}");
    let sums = ended.iter().filter(|(_, text)| text.contains("100 rounds of 3 tasks: 300"));
    assert_eq!(sums.count(), 2, "{ended:?}");
}
