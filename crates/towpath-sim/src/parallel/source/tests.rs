use super::Verdict::{Off, Trend, Within};
use super::*;
use crate::scenario::ScenarioError;

fn table(name: &str) -> NodeTable {
    let (_, text) = TABLES.into_iter().find(|(known, _)| *known == name).unwrap();
    NodeTable::parse(text).unwrap()
}

/// Table 2's file with something else.
fn refused(old: &str, new: &str) -> String {
    let text = TABLES[0].1.replacen(old, new, 1);
    assert_ne!(text, TABLES[0].1, "{old} is there");
    NodeTable::parse(&text).unwrap_err().to_string()
}

fn line_of(what: &str) -> usize {
    TABLES[0].1.lines().position(|line| line.starts_with(what)).unwrap() + 1
}

#[test]
fn the_files_have_every_cell_of_the_source_that_can_be_read() {
    let cells = |name: &str| -> usize { table(name).run.iter().map(|r| r.cell.len()).sum() };
    assert_eq!(["table-2", "table-3", "table-5", "table-6"].map(cells), [9, 16, 12, 12]);
    assert_eq!((cells("table-7"), table("table-4").division.len()), (18, 8));
    // One of twelve cannot be read.
    assert_eq!(cells("table-8"), 11);
}

#[test]
fn a_number_out_of_range_is_refused_with_its_line_and_the_limits() {
    let line = line_of("processors");
    let said = refused("processors = 4", "processors = 65");
    assert!(said.contains(&format!("line {line}: 65, must be 1 to 64")), "{said}");
    let said = refused("memory_ns = 20", "memory_ns = -1");
    assert!(said.contains("-1, must be 1 to 100000"), "{said}");
    let said = refused("processors = 4", "processor = 4");
    assert!(said.starts_with(&format!("line {line}: unknown field `processor`")), "{said}");
    let said = refused("node = \"one-bus\"", "node = \"no-bus\"");
    assert_eq!(
        said,
        "node of run \"20 ns\" is no-bus, must be the name of one [workstation] or [gateway]"
    );
    let said = refused("printed = 323", "printed = inf");
    assert_eq!(said, "a number of \"20 ns\" is inf, must be 10^-6 to 10^9");
    let said = refused("change = { memory_ns = 40 }", "change = { overloaded = 1 }");
    assert!(said.starts_with("change is that of run \"40 ns\", must be without keys"), "{said}");
    let said = refused("measured_ms = 1000", "measured_ms = 60000\nseeds = 3");
    assert!(said.contains("duplicate key"), "{said}");
    let said = refused("mbps = 100\nkm", "mbps = 100000\nkm");
    assert!(said.ends_with("carry at most 20000000 packets in it"), "{said}");
    let long = TABLES[0].1.replace("seeds = 3", "seeds = 32").replace("= 1000\n\n", "= 60000\n\n");
    let said = NodeTable::parse(&long).unwrap_err();
    assert!(matches!(said, ScenarioError::Range { ref field, .. } if field == "measured_ms"));
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    for (name, run) in [("table-3", 4), ("table-6", 5)] {
        let mut table = table(name);
        table.measured_ms =
            NodeTable::parse(&TABLES[0].1.replace("= 1000\n\n", "= 50\n\n")).unwrap().measured_ms;
        let once = table.run(run);
        assert_eq!(once, table.run(run));
        let traces: Vec<u64> = once.seeds.iter().map(|seed| seed.trace).collect();
        assert!(traces[0] != traces[1] && traces[1] != traces[2], "{traces:?}");
    }
}

#[test]
fn a_cell_is_judged_by_its_distance_and_then_by_its_order() {
    let text = r#"
table = "T"
about = ""
seeds = 1
measured_ms = 10
[[division]]
name = "near"
parallel_us = 58.2
serial_us = 12.1
printed = 5.8
[[division]]
name = "far"
parallel_us = 58.2
serial_us = 12.1
printed = 5.0
"#;
    let outcome = NodeTable::parse(text).unwrap().judge(&[]);
    let verdicts: Vec<Verdict> = outcome.cells.iter().map(|cell| cell.verdict).collect();
    assert_eq!(verdicts, [Within, Off]);

    let measured = |throughput_mbps| RunOutcome {
        seeds: vec![Measured {
            throughput_mbps,
            latency_us: 0.0,
            access_us: 0.0,
            busy_percent: 0.0,
            trace: 0,
        }],
    };
    let verdicts = |mbps: [f64; 3]| {
        let outcome = table("table-2").judge(&mbps.map(measured));
        let cells = outcome.cells.into_iter().filter(|cell| cell.measure == "Mbit/s");
        cells.map(|cell| cell.verdict).collect::<Vec<_>>()
    };
    // Printed: 323, 284, 170.
    assert_eq!(verdicts([355.0, 256.0, 154.0]), [Within; 3]);
    assert_eq!(verdicts([356.0, 284.0, 170.0]), [Trend, Within, Within]);
    assert_eq!(verdicts([280.0, 284.0, 170.0]), [Off, Within, Within]);
}
