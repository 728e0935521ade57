//! Simulated transfers, their dumps, and the comparison with 1997, on the command line.

use std::process::Output;

use crate::support::{Vm, text};
use serde_json::Value;

const SCENARIO: &str = r#"
kind = "transfer"
about = "a test"
sample_ms = 20
seconds_max = 20

[link.there]
rate_bps = 100_000_000
delay_us = 2_000
loss_ppm = 20_000

[link.back]

[[flow]]
name = "bulk"
forward = ["there"]
backward = ["back"]
bytes = 2_000_000
"#;

fn run(scenario: &str, more: &[&str]) -> (Vm, Output) {
    let vm = Vm::new();
    std::fs::write(vm.file("s.toml"), scenario).unwrap();
    let out = vm.towpath(&[&["sim", "run", "s.toml"][..], more].concat());
    (vm, out)
}

fn json(bytes: &[u8]) -> Vec<Value> {
    text(bytes).lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn fault(scenario: &str, more: &[&str]) -> String {
    let (_, out) = run(scenario, more);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(255), String::new()));
    text(&out.stderr)
}

#[test]
fn a_transfer_is_told_as_table_csv_charts_page_and_dump() {
    let more =
        ["--csv", "s.csv", "--svg", "out", "--html", "s.html", "--dump", "s.txt", "--zoom", "0..1"];
    let (vm, out) = run(SCENARIO, &more);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let shown = text(&out.stdout);
    assert!(shown.starts_with("s: a test\n") && shown.contains("\nbulk       2 MB"), "{shown}");
    let read = |name: &str| std::fs::read_to_string(vm.file(name)).unwrap();
    let csv = read("s.csv");
    let last: Vec<&str> = csv.lines().last().unwrap().split(',').collect();
    assert_eq!((last[0], last[1], last[3]), ("s", "bulk", "2000000"), "{last:?}");
    let column = |line: &str, n| line.split(',').nth(n).unwrap().parse::<u64>().unwrap();
    let rates = csv.lines().skip(1).map(|l| column(l, 4));
    assert!(rates.max() > Some(5_000_000), "{csv}");
    // Over 20 ms more may come than the link carries, when a repair lets what waited behind it go.
    for line in csv.lines().skip(1) {
        assert!(column(line, 3) * 8 <= 100_000 * column(line, 2), "{line}");
    }
    for name in ["rate", "rtt", "queue", "sequence", "sequence-large"] {
        let svg = read(&format!("out/s-{name}.svg"));
        assert!(svg.ends_with("</svg>\n") && svg.contains("<path"), "{name}");
    }
    let sequence = read("out/s-sequence.svg");
    for series in ["credit", "acknowledged", "sent", "sent again", "lost on the way"] {
        assert!(sequence.contains(&format!(">{series}</text>")), "{series}");
    }
    assert!(read("s.html").contains("<svg"));
    // In the dump: handshake, data one way, acknowledgements the other, and what was lost.
    let dump = read("s.txt");
    assert!(dump.contains("\"bulk\" > ") && dump.contains(" initiation from "), "{dump}");
    let lines = |a: &str, b: &str| dump.lines().filter(|l| l.contains(a) && l.contains(b)).count();
    assert!(lines("\"bulk\" > ", "DATA channel ") >= 2_000_000 / 1472);
    assert!(lines("\"bulk\" < ", " ACK path 0 ") > 50);
    assert!(lines("\"bulk\" > ", " LOST data ") > 10);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let trace = |more: &[&str]| {
        let (_, out) = run(SCENARIO, &[&["--json"], more].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        let value = json(&out.stdout).remove(0);
        assert_eq!((&value["scenario"], &value["version"]), (&"s".into(), &1.into()));
        value["trace_hash"].as_str().unwrap().to_string()
    };
    let first = trace(&[]);
    assert_eq!(first, trace(&["--seed", "1"]));
    assert_ne!(first, trace(&["--seed", "2"]));
}

#[test]
fn a_broken_promise_is_told_with_the_command_that_replays_it() {
    let cut = format!("{SCENARIO}\n[[change]]\nat_ms = 30\nlink = \"there\"\nup = false\n");
    let (_, out) = run(&cut, &["--seed", "3"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stdout));
    let said = text(&out.stderr);
    assert!(said.contains("flow \"bulk\": the association ended"), "{said}");
    assert!(said.contains("replay: towpath sim run s.toml --seed 3\n"), "{said}");
}

#[test]
fn faults_of_a_file_are_named() {
    let with = |old: &str, new: &str| fault(&SCENARIO.replacen(old, new, 1), &[]);
    for (old, new, said) in [
        ("sample_ms", "sample", "unknown field `sample`"),
        ("loss_ppm = 20_000", "loss_ppm = 1_000_001", "link.there.loss_ppm is 1000001, must be at"),
        ("rate_bps = 100_000_000", "rate_bps = 0", "link.there.rate_bps is 0, must be between"),
        ("rate_bps = 100_000_000", "rate_bps = 9_000_000_000_000_000", "must be between 1000 and"),
        ("[\"there\"]", "[\"their\"]", "forward of flow \"bulk\" is \"their\", must be the name"),
        ("seconds_max = 20", "seconds_max = 0", "seconds_max is 0, must be between"),
        (
            "kind = \"transfer\"",
            "kind = \"transport\"",
            "kind is \"transport\", must be \"transfer\"",
        ),
        ("kind = \"transfer\"", "kind = 7", "kind is no text, must be"),
        ("[link.there]", "[link.there", "line 7"),
        (
            "100_000_000",
            "'fast'",
            "line 8: invalid type: string \"fast\", expected u64\n     8 | rate_bps = 'fast'\n\
             hint: scenarios/transfer has examples",
        ),
    ] {
        let error = with(old, new);
        assert!(error.contains("s.toml") && error.contains(said), "{error}");
    }
    let step = format!("{SCENARIO}[[step]]\nat_ms = 1\nahead_ms = 1\nflow = \"other\"\n");
    assert!(fault(&step, &[]).contains("flow of a step is \"other\", must be the name of a flow"));
}

#[test]
fn options_that_do_not_fit_are_refused_with_a_hint() {
    let said = fault(SCENARIO, &["--seeds", "5"]);
    assert!(said.contains("--seeds is for swarms only\nhint: "), "{said}");
    let said = fault("hosts = [3, 3]\n", &["--zoom", "1..2"]);
    assert!(said.contains("--zoom is for transfers only\nhint: "), "{said}");
    let said = fault("hosts = [3, 3]\n", &["--dump", "x"]);
    assert!(said.contains("--dump takes one run\nhint: name its --seed"), "{said}");
    let said = fault(SCENARIO, &["--csv", "s.toml"]);
    assert!(said.contains("s.toml is one of the files to read"), "{said}");
    let vm = Vm::new();
    std::fs::write(vm.file("t.toml"), SCENARIO).unwrap();
    std::fs::write(vm.file("w.toml"), "").unwrap();
    let out = vm.towpath(&["sim", "run", "t.toml", "w.toml"]);
    assert!(text(&out.stderr).contains("w.toml is a swarm, t.toml a transfer\nhint: "));
    let out = vm.towpath(&["sim", "run", "t.toml", "t.toml", "--dump", "x"]);
    assert!(text(&out.stderr).contains("--dump takes one scenario"), "{}", text(&out.stderr));
    for zoom in ["3", "2s..1s", "1..x"] {
        let out = vm.towpath(&["sim", "run", "t.toml", "--zoom", zoom]);
        assert_eq!(out.status.code(), Some(255), "{zoom}");
        assert!(text(&out.stderr).contains("--zoom"), "{zoom}");
    }
}

#[test]
fn a_swarm_run_can_be_read_too_unless_it_is_sealed() {
    let dump = |seed: &str| {
        let swarm = "hosts = [2, 2]\nflow_bytes = [100_000, 100_000]\nfaults = [0, 0]\n";
        let (vm, out) = run(swarm, &["--seed", seed, "--dump", "d.txt"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        std::fs::read_to_string(vm.file("d.txt")).unwrap()
    };
    let clear = dump("1");
    assert!(clear.contains("host 0 > 1 ") && clear.contains("DATA channel "), "{clear}");
    let sealed = dump("15");
    assert!(sealed.contains(" B sealed\n") && !sealed.contains("DATA channel "));
}

#[test]
fn every_scenario_that_comes_along_keeps_its_promises() {
    let dir = format!("{}/../../scenarios/transfer", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path().display().to_string()).collect();
    files.sort();
    assert!(files.len() >= 9, "{files:?}");
    let args: Vec<&str> =
        ["sim", "run", "--json"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let out = Vm::new().towpath(&args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let runs = json(&out.stdout);
    assert_eq!(runs.len(), files.len());
    for run in &runs {
        assert!(!run["about"].as_str().unwrap().is_empty());
        assert!(run["flows"].as_array().unwrap().iter().all(|f| f["bytes"].as_u64() > Some(0)));
    }
}

#[test]
fn the_scheme_of_1997_stands_beside_the_present_one() {
    let vm = Vm::new();
    let args = ["sim", "repair", "--loss", "0,5", "--bytes", "4MiB", "--seeds", "1", "--json"];
    let out = vm.towpath(&[&args[..], &["--svg", "out", "--csv", "r.csv"]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let rows = json(&out.stdout);
    let schemes: Vec<&str> = rows.iter().map(|r| r["scheme"].as_str().unwrap()).collect();
    assert_eq!(schemes, ["1997", "association", "1997", "association"]);
    assert!(rows.iter().all(|r| r["bytes"] == 4 << 20), "{rows:?}");
    let repeated = |n: usize| rows[n]["repeated"].as_u64().unwrap();
    assert_eq!([repeated(0), repeated(1)], [0, 0]);
    assert!(repeated(2) > 20 && repeated(3) > 20, "{rows:?}");
    // A segment and its map take 64 * 4178 * 8 bits and a round trip of 2.75 ms.
    let segment = 64.0 * 4178.0 * 8.0 / 135.632e6 + 90.0 * 8.0 / 135.632e6 + 2.75e-3;
    assert!((rows[0]["seconds"].as_f64().unwrap() - 16.0 * segment).abs() < 1e-3, "{rows:?}");
    assert_eq!(std::fs::read_to_string(vm.file("r.csv")).unwrap().lines().count(), 5);
    for name in ["time", "goodput", "overhead"] {
        assert!(vm.file(&format!("out/repair-{name}.svg")).exists(), "{name}");
    }
    let out = vm.towpath(&["sim", "repair", "--loss", "101"]);
    assert!(text(&out.stderr).contains("101 % is lost, must be between 0 and 100"));
    let out = vm.towpath(&["sim", "repair", "--rate", "1bit/s"]);
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("rate_bps is 1, must be between 1000 and 10^12"));
}
