//! `towpath sim node`: the fifth source's tables.

use serde_json::Value;

use crate::support::{Vm, text};

/// Computed, so that it takes no time.
const TABLE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/node/table-4.toml"));

fn run(vm: &Vm, args: &[&str]) -> (Option<i32>, String, String) {
    let out = vm.towpath(&[&["sim", "node"], args].concat());
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn the_tables_that_come_along_are_told_cell_by_cell_and_alike_each_time() {
    let vm = Vm::new();
    let (code, shown, fault) = run(&vm, &["--csv", "cells.csv"]);
    assert_eq!((code, fault.as_str()), (Some(0), ""), "{shown}");
    let all = shown.lines().last().unwrap();
    assert!(all.starts_with("all: 89 cells: ") && all.contains(" within 10 %"), "{all}");
    let csv = std::fs::read_to_string(vm.file("cells.csv")).unwrap();
    assert_eq!(csv.lines().count(), 90, "{csv}");
    assert_eq!(run(&vm, &[]).1, shown);
}

#[test]
fn a_table_of_ones_own_is_told_as_json() {
    let vm = Vm::new();
    std::fs::write(vm.file("own.toml"), TABLE).unwrap();
    let (code, json, fault) = run(&vm, &["own.toml", "--json"]);
    assert_eq!((code, fault.as_str()), (Some(0), ""), "{json}");
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&value["scenario"], &value["version"]), (&"own".into(), &1.into()));
    let cells = value["cells"].as_array().unwrap();
    assert!(cells.iter().all(|cell| cell["ours"].is_number()) && cells.len() == 8, "{json}");
}

#[test]
fn what_cannot_be_run_is_refused_with_its_place_and_a_hint() {
    let vm = Vm::new();
    for (name, content, said) in [
        ("word.toml", TABLE.replace("seeds", "saads"), "line "),
        ("many.toml", TABLE.replace("seeds = 3", "seeds = 1000000000"), "must be 1 to"),
        ("half.toml", TABLE[..TABLE.len() / 2].to_owned(), "half.toml"),
        ("none.toml", String::new(), "none.toml"),
    ] {
        std::fs::write(vm.file(name), content).unwrap();
        let (code, shown, fault) = run(&vm, &[name]);
        assert_eq!((code, shown.as_str()), (Some(255), ""), "{name}");
        assert!(fault.contains(said) && fault.contains("hint: "), "{name}: {fault}");
    }
    let many = vec!["word.toml"; 257];
    let (code, _, fault) = run(&vm, &many);
    assert_eq!(code, Some(255));
    assert!(fault.contains("257, at most 256") && fault.contains("hint: "), "{fault}");
}
