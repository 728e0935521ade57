//! `explain` and `top` beside tasks of this very process.

mod support;

use std::time::Duration;

use serde_json::Value;
use support::{Vm, text};
use towpath::Task;
use towpath::task::{Route, TaskId, Wanted};

const TAG: i32 = 5;
/// What takes longer than this has gone wrong, also on a busy machine.
const LONG: Duration = Duration::from_mins(1);

fn json(vm: &Vm, args: &[&str]) -> Value {
    let out = vm.towpath(args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("one JSON object")
}

fn task(vm: &Vm, host: usize) -> Task {
    Task::enrol_at(&vm.vm_dir().host(host).join("task.sock"), None).unwrap()
}

fn from(source: TaskId) -> Wanted {
    Wanted { source: Some(source), tag: Some(TAG), context: 0 }
}

fn exchange(a: &mut Task, b: &mut Task) {
    a.send(b.id(), TAG, b"there").unwrap();
    assert!(b.recv_timeout(&from(a.id()), LONG).unwrap().is_some());
    b.send(a.id(), TAG, b"back").unwrap();
    assert!(a.recv_timeout(&from(b.id()), LONG).unwrap().is_some());
}

fn ways(vm: &Vm, a: &Task, b: &Task) -> Vec<Value> {
    let (a, b) = (a.id().to_string(), b.id().to_string());
    let said = json(vm, &["explain", &a, &b, "--json"]);
    let ways = said["ways"].as_array().expect("ways").clone();
    assert_eq!((ways[0]["from"].as_str(), ways[0]["to"].as_str()), (Some(&*a), Some(&*b)));
    assert_eq!((ways[1]["from"].as_str(), ways[1]["to"].as_str()), (Some(&*b), Some(&*a)));
    ways
}

#[test]
fn the_way_between_two_hosts_is_explained_with_its_network() {
    let vm = Vm::up(2);
    let (mut a, mut b) = (task(&vm, 1), task(&vm, 2));
    exchange(&mut a, &mut b);
    for way in ways(&vm, &a, &b) {
        assert_eq!(way["route"], "the daemons", "{way}");
        assert!(way["by_daemons_bytes"].as_u64() > Some(0), "{way}");
        assert!(way["by_daemons_bytes"].as_u64() < way["limit_bytes"].as_u64(), "{way}");
        assert!(way["network"]["rtt_us"].as_f64() > Some(0.0), "{way}");
        assert!(way["network"]["rate_max_bytes_per_s"].as_f64() > Some(0.0), "{way}");
    }
    let (a, b) = (a.id().to_string(), b.id().to_string());
    let words = text(&vm.towpath(&["explain", &a, &b]).stdout);
    assert!(words.contains("the daemons") && words.contains("round trip"), "{words}");
}

#[test]
fn one_host_goes_by_the_daemon_first_and_then_by_shared_memory() {
    let vm = Vm::up(1);
    let (mut a, mut b) = (task(&vm, 1), task(&vm, 1));
    exchange(&mut a, &mut b);
    let before = ways(&vm, &a, &b);
    assert!(before.iter().all(|way| way["route"] == "the daemon"), "{before:?}");
    assert!(before.iter().all(|way| way["network"].is_null()), "{before:?}");
    for _ in 0..100 {
        exchange(&mut a, &mut b);
    }
    assert_eq!(a.route(b.id()), Route::Ring);
    let after = ways(&vm, &a, &b);
    assert!(after.iter().all(|way| way["route"] == "shared memory"), "{after:?}");
}

#[test]
fn who_is_not_there_is_named() {
    let vm = Vm::up(1);
    let a = task(&vm, 1);
    let (a, nobody) = (a.id().to_string(), "h1:t200000");
    for args in [["explain", &a, nobody], ["explain", nobody, &a], ["explain", &a, &a]] {
        let out = vm.towpath(&args);
        assert_eq!(out.status.code(), Some(255));
        assert!(text(&out.stderr).contains("h1.1:t"), "{}", text(&out.stderr));
    }
    let out = vm.towpath(&["explain", &a, "h9:t1"]);
    assert!(text(&out.stderr).contains("no host `h9`"), "{}", text(&out.stderr));
}

#[test]
fn top_shows_hosts_tasks_and_what_they_sent() {
    let vm = Vm::up(2);
    let (mut a, mut b) = (task(&vm, 1), task(&vm, 2));
    exchange(&mut a, &mut b);
    let said = json(&vm, &["top", "--once", "--json"]);
    assert_eq!(said["hosts"].as_array().map(Vec::len), Some(2), "{said}");
    assert_eq!(said["hosts"][0]["networks"].as_array().map(Vec::len), Some(1), "{said}");
    let tasks = said["tasks"].as_array().expect("tasks");
    for id in [a.id(), b.id()] {
        let id = id.to_string();
        let row = tasks.iter().find(|t| t["task"].as_str() == Some(&id));
        let row = row.unwrap_or_else(|| panic!("{id} is not in {said}"));
        assert_eq!(row["peers"], 1, "{row}");
        assert!(row["by_daemons_bytes"].as_u64() > Some(0), "{row}");
        assert!(row["by_daemons_bytes_per_s"].is_number(), "{row}");
    }
    let words = text(&vm.towpath(&["top", "--once"]).stdout);
    assert!(words.contains("2 hosts, 2 up") && words.contains("round trip"), "{words}");
}
