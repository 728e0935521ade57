//! `explain` and `top` beside tasks of this very process.

use std::time::Duration;

use crate::support::{Vm, text};
use serde_json::Value;
use towpath::Task;
use towpath::task::{Route, TaskId, Wanted};

const TAG: i64 = 5;
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
    assert!(after.iter().all(|way| way["direct"] == "stands"), "{after:?}");
    for (way, task) in after.iter().zip([&a, &b]) {
        counted(way, task, &["by_ring"]);
    }
}

/// What `explain` says was sent is what the task has counted; the first by name begins an exchange.
fn counted(way: &Value, task: &Task, ways: &[&str]) {
    let own = task.counters();
    let own = |name| own.iter().find(|(known, _)| *known == name).unwrap().1;
    let (ring, stream) = (own("sent_by_ring"), own("sent_by_stream"));
    let begins = way["from"].as_str() < way["to"].as_str();
    let bytes = if begins { b"there".len() as u64 } else { b"back".len() as u64 };
    for (name, count) in [("by_ring", ring), ("by_stream", stream)] {
        assert_eq!(count > 0, ways.contains(&name), "{name} {way}");
        assert_eq!(way["sent"][name]["messages"], count, "{way}");
        assert_eq!(way["sent"][name]["bytes"], count * bytes, "{way}");
    }
    assert_eq!(way["sent"]["messages_by_daemons"], own("sent_by_daemon"), "{way}");
}

#[test]
fn a_stream_stands_ends_and_is_refused_as_explain_says() {
    let vm = Vm::up(2);
    let (mut a, mut b) = (task(&vm, 1), task(&vm, 2));
    let before = ways(&vm, &a, &b);
    assert!(before.iter().all(|way| way["direct"].is_null()), "{before:?}");
    // As long as it takes until both have opened it.
    let end = std::time::Instant::now() + LONG;
    while a.route(b.id()) != Route::Stream || b.route(a.id()) != Route::Stream {
        assert!(std::time::Instant::now() < end, "a stream stands in time");
        exchange(&mut a, &mut b);
    }
    exchange(&mut a, &mut b);
    let after = ways(&vm, &a, &b);
    for (way, task) in after.iter().zip([&a, &b]) {
        assert_eq!(way["route"], "a stream between the tasks", "{way}");
        assert_eq!(way["direct"], "stands", "{way}");
        counted(way, task, &["by_stream"]);
    }
    let top = json(&vm, &["top", "--once", "--json"]);
    for task in [&a, &b] {
        let row = row(&top, task);
        assert_eq!((&row["rings"], &row["streams"]), (&0.into(), &1.into()), "{row}");
        assert!(row["by_stream_bytes"].as_u64() > Some(0), "{row}");
    }

    let mut c = task(&vm, 2);
    c.allow_direct(false);
    for _ in 0..20 {
        exchange(&mut a, &mut c);
    }
    // The answer to the offer goes round by both daemons.
    let refused = |way: &Value| way["direct"].as_str().is_some_and(|d| d.starts_with("refused"));
    loop {
        assert!(std::time::Instant::now() < end, "a refusal is known in time");
        exchange(&mut a, &mut c);
        let all = ways(&vm, &a, &c);
        assert!(all.iter().all(|way| way["route"] == "the daemons"), "{all:?}");
        if all.iter().all(refused) {
            assert!(all[1]["direct"].as_str().unwrap().contains("takes none"), "{all:?}");
            break;
        }
    }
}

fn row<'a>(top: &'a Value, task: &Task) -> &'a Value {
    let id = task.id().to_string();
    let row = top["tasks"].as_array().expect("tasks").iter().find(|row| row["task"] == id);
    row.unwrap_or_else(|| panic!("{id} is not in {top}"))
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
    for task in [&a, &b] {
        let row = row(&said, task);
        assert_eq!(row["peers"], 1, "{row}");
        assert!(row["by_daemons_bytes"].as_u64() > Some(0), "{row}");
        assert!(row["bytes_per_s"].is_number(), "{row}");
    }
    let words = text(&vm.towpath(&["top", "--once"]).stdout);
    assert!(words.contains("2 hosts, 2 up") && words.contains("round trip"), "{words}");
}
