//! Every packet scheduler under the same loads: what each promises shows, and what it does not.

use std::sync::OnceLock;

use towpath_qos::scheduler::Discipline;
use towpath_sim::qos::compare::{ClassRow, Comparison, Load, Row, churn, compare};

/// One table for all tests.
fn all() -> &'static Comparison {
    static TABLE: OnceLock<Comparison> = OnceLock::new();
    TABLE.get_or_init(|| {
        let load = Load { duration_ms: 500, region_max: [8, 150], ..Load::default() };
        compare(&load, Discipline::ALL, None).expect("valid load")
    })
}

fn row<'a>(comparison: &'a Comparison, name: &str) -> &'a Row {
    comparison.rows.iter().find(|r| r.name == name).expect("a discipline of that name")
}

fn class<'a>(row: &'a Row, name: &str) -> &'a ClassRow {
    row.classes.iter().find(|c| c.class == name).expect("a class of the load")
}

/// Disciplines that order by deadline or curve and hold every deadline of the default load.
const DEADLINES: [&str; 8] = [
    "edf",
    "edf-calendar",
    "jitter-edd",
    "three-queue",
    "rcsp",
    "hfsc",
    "priority",
    "priority-bitmap",
];

#[test]
fn what_each_discipline_promises_shows_under_one_load() {
    let table = all();
    assert_eq!(table.rows.len(), Discipline::ALL.len());
    for name in DEADLINES {
        let beyond: u64 = row(table, name).classes.iter().map(|c| c.beyond + c.lost).sum();
        assert_eq!(beyond, 0, "{name}");
    }
    // First come, first served and the source's own CBQ have no delay to promise beside bulk.
    for name in ["fcfs", "cbq-source"] {
        assert!(class(row(table, name), "control").beyond > 0, "{name}");
    }
    // Held until its deadline at each hop, a packet's jitter is that of the last hop.
    let jitter = |name| class(row(table, name), "voice").jitter_ns;
    assert!(jitter("jitter-edd") * 2 < jitter("edf"), "{} {}", jitter("jitter-edd"), jitter("edf"));
}

#[test]
fn fair_disciplines_share_by_weight_and_unfair_ones_do_not() {
    let table = all();
    for r in &table.rows {
        let fair = r.fairness.error_ppm_max < 10_000;
        let blind =
            ["fcfs", "priority", "priority-bitmap", "three-queue"].contains(&r.name.as_str());
        assert_eq!(fair, !blind, "{}: {:?}", r.name, r.fairness);
    }
}

#[test]
fn a_rival_that_breaks_its_word_hurts_only_where_nothing_isolates() {
    let table = all();
    for name in ["wfq", "wf2q", "scfq", "virtual-clock", "edf", "three-queue", "rcsp", "hfsc"] {
        let i = row(table, name).isolation;
        assert!(i.hostile_ns_max <= i.calm_ns_max * 11 / 10 && i.lost == 0, "{name}: {i:?}");
    }
    for name in ["fcfs", "priority"] {
        let i = row(table, name).isolation;
        assert!(i.hostile_ns_max > i.calm_ns_max * 3 / 2, "{name}: {i:?}");
    }
}

#[test]
fn edf_has_the_largest_schedulable_region() {
    let table = all();
    let edf = &row(table, "edf").region;
    // By hand, no video: n bursts of one voice packet (24 µs) behind a bulk packet (123.04 µs)
    // within 3 ms: n = 119.
    assert_eq!((edf[0].first, edf[0].second), (0, 119));
    for r in &table.rows {
        for (i, p) in r.region.iter().enumerate() {
            let best = edf.get(i).map(|e| e.second);
            assert!(best.is_some_and(|best| p.second <= best), "{} {p:?} {best:?}", r.name);
        }
    }
    let area = |name| row(table, name).region.iter().map(|p| p.second).sum::<u32>();
    assert!(area("edf") > 2 * area("wfq") && area("wfq") > area("fcfs"));
}

#[test]
fn the_same_load_gives_the_same_table() {
    let load = Load { duration_ms: 50, region_max: [2, 20], ..Load::default() };
    let two = [Discipline::Edf, Discipline::Drr];
    let run = || compare(&load, &two, None).expect("valid");
    assert_eq!(run(), run());
}

#[test]
fn churn_counts_packets_and_asks_the_clock_it_is_given() {
    let mut ns = 0;
    let mut clock = || {
        ns += 1000;
        ns
    };
    let c = churn(Discipline::Drr, 100, 5000, &mut clock).expect("valid");
    assert_eq!((c.queues, c.packets), (100, 5000));
    // 5000 packets ask the clock 78 times between the first and the last reading.
    assert_eq!(c.ns_per_packet, 79_000 / 5000);
}

#[test]
fn a_load_out_of_range_is_refused_with_the_value_and_the_limit() {
    let error = Load::parse("hops = 0").expect_err("no hops").to_string();
    assert_eq!(error, "load: hops is 0, must be 1 to 16");
    let text = "[[classes]]\nname = \"a\"\nchannels = 1\nrate_bps = 1\nburst_bytes = 1\n\
                packet_bytes = 64\ndeadline_us = 1";
    let error = Load::parse(text).expect_err("one class").to_string();
    assert_eq!(error, "load: number of classes is 1, must be 2 to 16");
}
