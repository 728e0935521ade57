//! A comparison as tables and charts.

use towpath_sim::qos::compare::{Comparison, Row};

use crate::cells::{count, share, time, words};
use crate::plot::{Axis, Chart, Column, Shape, Table, Unit};

/// Largest delay over deadline of any class.
fn worst(row: &Row) -> f64 {
    let ratio = |c: &towpath_sim::qos::compare::ClassRow| {
        c.delay.max_ns as f64 / c.deadline_ns.max(1) as f64
    };
    row.classes.iter().map(ratio).fold(0.0, f64::max)
}

/// The fullest mix without a late packet, in millionths of the link.
fn fullest(row: &Row) -> u64 {
    row.region.iter().map(|p| p.load_ppm).max().unwrap_or(0)
}

/// A row per discipline.
pub(super) fn summary(comparison: &Comparison) -> Table {
    let mut table = Table::new(&[
        Column::words("DISCIPLINE", "discipline"),
        Column::words("BOUND", "bounded"),
        Column::figures("WORST", "worst_delay_per_deadline"),
        Column::figures("LATE", "late_packets"),
        Column::figures("LOST", "lost_packets"),
        Column::figures("JITTER", "jitter_ns_max"),
        Column::figures("UNFAIR", "share_error_ppm"),
        Column::figures("HARM", "hostile_per_calm"),
        Column::figures("REGION", "region_ppm"),
        Column::figures("COST", "cost_ns"),
    ]);
    for row in &comparison.rows {
        let sum = |f: fn(&towpath_sim::qos::compare::ClassRow) -> u64| {
            row.classes.iter().map(f).sum::<u64>()
        };
        let jitter = row.classes.iter().map(|c| c.jitter_ns).max().unwrap_or(0);
        let harm = row.isolation.hostile_ns_max as f64 / row.isolation.calm_ns_max.max(1) as f64;
        let costs: Vec<String> = row.churn.iter().map(|c| c.ns_per_packet.to_string()).collect();
        let (worst, unfair) = (worst(row), row.fairness.error_ppm_max);
        let cost = if costs.is_empty() { "-".to_string() } else { costs.join(" / ") };
        table.push(vec![
            words(&row.name),
            words(if row.delay_bound.is_some() { "yes" } else { "no" }),
            (format!("{worst:.2}"), format!("{worst:.6}")),
            count(sum(|c| c.beyond)),
            count(sum(|c| c.lost)),
            time(jitter),
            share(unfair),
            (format!("{harm:.1}×"), format!("{harm:.6}")),
            share(fullest(row)),
            (cost, costs.join(" ")),
        ]);
    }
    table
}

/// A row per discipline and class.
pub(super) fn classes(comparison: &Comparison) -> Table {
    let mut table = Table::new(&[
        Column::words("DISCIPLINE", "discipline"),
        Column::words("CLASS", "class"),
        Column::figures("DEADLINE", "deadline_ns"),
        Column::figures("MEAN", "delay_ns_mean"),
        Column::figures("P50", "delay_ns_p50"),
        Column::figures("P99", "delay_ns_p99"),
        Column::figures("WORST", "delay_ns_max"),
        Column::figures("JITTER", "jitter_ns"),
        Column::figures("LATE", "late_packets"),
        Column::figures("LOST", "lost_packets"),
        Column::figures("PACKETS", "packets"),
    ]);
    for row in &comparison.rows {
        for class in &row.classes {
            table.push(vec![
                words(&row.name),
                words(&class.class),
                time(class.deadline_ns),
                time(class.delay.mean_ns),
                time(class.delay.p50_ns),
                time(class.delay.p99_ns),
                time(class.delay.max_ns),
                time(class.jitter_ns),
                count(class.beyond),
                count(class.lost),
                count(class.delay.samples),
            ]);
        }
    }
    table
}

/// The border of each schedulable region.
pub(super) fn region(comparison: &Comparison) -> Table {
    let mut table = Table::new(&[
        Column::words("DISCIPLINE", "discipline"),
        Column::figures("FIRST CLASS", "first_channels"),
        Column::figures("SECOND CLASS", "second_channels"),
        Column::figures("LOAD", "load_ppm"),
    ]);
    for row in &comparison.rows {
        for p in &row.region {
            let (first, second) = (count(p.first.into()), count(p.second.into()));
            table.push(vec![words(&row.name), first, second, share(p.load_ppm)]);
        }
    }
    table
}

/// Time per packet.
pub(super) fn cost(comparison: &Comparison) -> Table {
    let mut table = Table::new(&[
        Column::words("DISCIPLINE", "discipline"),
        Column::figures("QUEUES", "queues"),
        Column::figures("NS PER PACKET", "ns_per_packet"),
    ]);
    for row in &comparison.rows {
        for c in &row.churn {
            let cells = [u64::from(c.queues), c.ns_per_packet].map(count);
            table.push([words(&row.name)].into_iter().chain(cells).collect());
        }
    }
    table
}

/// Charts by the names of their files.
pub(super) fn charts(comparison: &Comparison) -> Vec<(&'static str, Chart)> {
    let load = &comparison.load;
    let class = |k: usize| load.classes.get(k).map_or("class", |c| c.name.as_str());
    let mut region = Chart::new(
        "Schedulable region",
        Axis::new(format!("{} channels", class(0)), Unit::Count),
        Axis::new(format!("{} channels", class(1)), Unit::Count),
    )
    .caption("Mixes below a line meet every deadline, all bursts at once. Further out is better.");
    let mut cost = Chart::new(
        "Time per packet",
        Axis::new("backlogged queues", Unit::Count).log(),
        Axis::new("enqueue and dequeue", Unit::Seconds),
    )
    .caption("On this machine, now.");
    for row in &comparison.rows {
        let points = row.region.iter().map(|p| (f64::from(p.first), f64::from(p.second)));
        region = region.with(&row.name, Shape::Line, points.collect());
        let points = row.churn.iter().map(|c| (f64::from(c.queues), c.ns_per_packet as f64 / 1e9));
        cost = cost.with(&row.name, Shape::Line, points.collect());
    }
    let mut delay = Chart::new(
        "Worst delay against deadline",
        Axis::new("discipline, by its row in the table", Unit::Count),
        Axis::new("worst delay / deadline", Unit::Count).log(),
    )
    .caption("A packet above 1 was late.");
    for (k, class) in load.classes.iter().enumerate() {
        let points = comparison.rows.iter().enumerate().filter_map(|(index, row)| {
            let c = row.classes.get(k)?;
            Some(((index + 1) as f64, c.delay.max_ns as f64 / c.deadline_ns.max(1) as f64))
        });
        delay = delay.with(&class.name, Shape::Dots, points.collect());
    }
    let mut all = vec![("region", region), ("delay", delay)];
    if comparison.rows.iter().any(|r| !r.churn.is_empty()) {
        all.push(("cost", cost));
    }
    all
}
