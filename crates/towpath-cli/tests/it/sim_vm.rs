//! `towpath sim vm`: simulated virtual machines with tasks.

use crate::support::{Vm, text};
use serde_json::Value;

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let out = Vm::new().towpath(&[&["sim", "vm"], args].concat());
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn a_run_is_told_as_a_table_lines_and_json() {
    let (code, shown, faults) = run(&["--seed", "3"]);
    assert_eq!((code, faults.as_str()), (Some(0), ""), "{shown}");
    let row = |name: &str| shown.lines().find(|l| l.starts_with(name)).expect(name).to_string();
    assert!(row("promises broken").ends_with(" 0"), "{shown}");
    let tasks: u64 = row("tasks").split([' ', ',']).find_map(|word| word.parse().ok()).unwrap();
    assert!(tasks >= 60, "{shown}");
    let hash = row("trace hash").split_whitespace().last().unwrap().to_string();

    let (code, lines, _) = run(&["--seed", "2", "--seeds", "2"]);
    assert_eq!((code, lines.lines().count()), (Some(0), 2), "{lines}");
    let last = lines.lines().last().unwrap();
    assert!(last.contains(&hash) && last.ends_with(": kept"), "same seed, same run: {lines}");

    let (code, json, _) = run(&["--seed", "3", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, json["trace_hash"].as_str()), (Some(0), Some(hash.as_str())));
    assert_eq!(json["growth"]["table"].as_u64().map(|n| n <= 6), Some(true), "{json}");
    assert!(json["most_on_a_host"]["message_memory_max"].as_u64() > Some(0), "{json}");
}

#[test]
fn sizes_are_bounded_with_a_reason() {
    for (args, named) in [
        (["--hosts", "1"], "1 is not in 2..=4000"),
        (["--hosts", "4001"], "4001 is not in 2..=4000"),
        (["--tasks", "1000001"], "1000001 is not in 0..=1000000"),
    ] {
        let (code, _, fault) = run(&args);
        assert!(code == Some(255) && fault.contains(named), "{fault}");
    }
    let (code, _, fault) = run(&["--seed", "18446744073709551615", "--seeds", "2"]);
    assert!(code == Some(255) && fault.contains("beyond the last seed"), "{fault}");
}
