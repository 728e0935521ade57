//! What came of a transfer, as tables and charts.

use towpath_sim::transfer::{FlowReport, Point, Sample, TransferReport};

use crate::cells::{Cell, count, rate, share, time, words};
use crate::plot::{Axis, Chart, Column, Shape, Table, Unit};
use crate::words::bytes_text;

fn size(bytes: u64) -> Cell {
    (bytes_text(bytes), bytes.to_string())
}

fn seconds(s: f64) -> Cell {
    time((s * 1e9) as u64)
}

/// All tables of a run.
pub(super) fn tables(report: &TransferReport) -> Vec<(&'static str, Table)> {
    vec![("Flows", flows(report)), ("Links", links(report))]
}

fn flows(report: &TransferReport) -> Table {
    let mut table = Table::new(&[
        Column::words("FLOW", "flow"),
        Column::figures("DELIVERED", "bytes"),
        Column::figures("TIME", "time_ns"),
        Column::figures("GOODPUT", "goodput_bps"),
        Column::figures("LATER HALF", "later_half_bps"),
        Column::figures("SENT", "packets_sent"),
        Column::figures("NEEDED", "packets_needed"),
        Column::figures("LOST", "packets_lost"),
        Column::figures("SPURIOUS", "spurious"),
        Column::figures("REPAIRED", "repaired"),
        Column::figures("PROBES", "probes"),
        Column::figures("RTT", "rtt_ns_mean"),
        Column::figures("HELD", "memory_bytes_max"),
    ]);
    for f in &report.flows {
        table.push(vec![
            words(&f.name),
            size(f.bytes),
            seconds(f.seconds),
            rate(f.goodput_bps as u64),
            rate(f.later_half_bps as u64),
            count(f.packets_sent),
            count(f.packets_needed),
            count(f.packets_lost),
            count(f.spurious),
            count(f.repaired),
            count(f.probes),
            time((f.rtt_ms_mean * 1e6) as u64),
            size(f.memory_bytes_max[0].max(f.memory_bytes_max[1])),
        ]);
    }
    table
}

fn links(report: &TransferReport) -> Table {
    let mut table = Table::new(&[
        Column::words("LINK", "link"),
        Column::figures("LOAD", "load_ppm"),
        Column::figures("DATAGRAMS", "offered"),
        Column::figures("LOST", "lost"),
        Column::figures("OVERFLOWED", "overflowed"),
        Column::figures("CUT", "cut"),
        Column::figures("TOO LONG", "oversized"),
        Column::figures("MARKED", "marked"),
        Column::figures("REORDERED", "reordered"),
        Column::figures("TWICE", "duplicated"),
        Column::figures("CORRUPTED", "corrupted"),
        Column::figures("QUEUE", "queue_bytes_max"),
    ]);
    for l in &report.links {
        let s = &l.stats;
        let mut row = vec![words(&l.name), share((l.load * 1e6) as u64)];
        let counts = [
            s.offered,
            s.lost,
            s.overflowed,
            s.cut,
            s.oversized,
            s.marked,
            s.reordered,
            s.duplicated,
            s.corrupted,
        ];
        row.extend(counts.map(count));
        row.push(size(s.queue_bytes_max));
        table.push(row);
    }
    table
}

/// Flows over time, for [`push_samples`].
pub(super) fn samples_table() -> Table {
    Table::new(&[
        Column::words("SCENARIO", "scenario"),
        Column::words("FLOW", "flow"),
        Column::figures("AT", "at_ms"),
        Column::figures("DELIVERED", "delivered_bytes"),
        Column::figures("RATE", "rate_bps"),
        Column::figures("RTT", "rtt_us"),
        Column::figures("REPAIRED", "repaired"),
        Column::figures("LOST", "lost"),
        Column::figures("QUEUE", "queue_bytes"),
    ])
}

/// Adds a run's samples; each rate is that since the sample before.
pub(super) fn push_samples(table: &mut Table, scenario: &str, report: &TransferReport) {
    for flow in &report.flows {
        let rates = rates(flow).map(|(_, bps)| bps as u64);
        for (s, bps) in flow.samples.iter().zip(std::iter::once(0).chain(rates)) {
            let mut row = vec![words(scenario), words(&flow.name)];
            let figures =
                [s.at_ms, s.delivered_bytes, bps, s.rtt_us, s.repaired, s.lost, s.queue_bytes];
            row.extend(figures.map(count));
            table.push(row);
        }
    }
}

/// Seconds and bit/s, for each sample but the first.
fn rates(flow: &FlowReport) -> impl Iterator<Item = (f64, f64)> + '_ {
    flow.samples.windows(2).map(|w| {
        let ms = w[1].at_ms.saturating_sub(w[0].at_ms).max(1);
        let bytes = w[1].delivered_bytes - w[0].delivered_bytes;
        (w[1].at_ms as f64 / 1e3, bytes as f64 * 8e3 / ms as f64)
    })
}

fn over_time(title: String, label: &str, unit: Unit) -> Chart {
    Chart::new(title, Axis::new("time", Unit::Seconds), Axis::new(label, unit))
}

/// All charts of a run, by the names of their files. `zoom`: seconds from and to, for the part of
/// the sequence numbers that is drawn large.
pub(super) fn charts(report: &TransferReport, zoom: Option<(f64, f64)>) -> Vec<(String, Chart)> {
    let title = |what: &str| format!("{what}: {}", report.about);
    let mut all = vec![("rate".to_string(), rate_chart(report, title("Rate")))];
    let sampled = |what: &str, unit, value: fn(&Sample) -> f64| {
        let mut chart = over_time(title(what), what, unit);
        for f in &report.flows {
            let points = f.samples.iter().map(|s| (s.at_ms as f64 / 1e3, value(s)));
            chart = chart.with(&f.name, Shape::Step, points.collect());
        }
        chart
    };
    let rtt = sampled("Round trip", Unit::Seconds, |s| s.rtt_us as f64 / 1e6);
    all.push(("rtt".into(), rtt.caption("The sender's smoothed estimate.")));
    let queue = sampled("Queue", Unit::Bytes, |s| s.queue_bytes as f64);
    all.push(("queue".into(), queue.caption("Where most wait on the flow's way, at each sample.")));
    for (n, flow) in report.flows.iter().enumerate() {
        let (begin, end) = zoom.unwrap_or_else(|| worth_a_look(flow));
        let suffix = if report.flows.len() == 1 { String::new() } else { format!("-{}", n + 1) };
        all.push((format!("sequence{suffix}"), sequence(flow, (0.0, f64::INFINITY))));
        all.push((format!("sequence{suffix}-large"), sequence(flow, (begin, end))));
    }
    all
}

fn rate_chart(report: &TransferReport, title: String) -> Chart {
    let mut chart = over_time(title, "delivered", Unit::BitsPerSecond);
    for flow in &report.flows {
        chart = chart.with(&flow.name, Shape::Step, rates(flow).collect());
    }
    for flow in &report.flows {
        let steps = flow.samples.windows(2).zip(rates(flow));
        let lost = steps.filter(|(w, _)| w[1].lost > w[0].lost).map(|(_, point)| point);
        let lost: Vec<(f64, f64)> = lost.collect();
        if !lost.is_empty() {
            chart = chart.with(format!("{}: counted as lost", flow.name), Shape::Dots, lost);
        }
    }
    chart.caption("Bytes delivered between samples. Dots: packets counted as lost meanwhile.")
}

/// Eight round trips around the first loss; without one, from the first packet on.
fn worth_a_look(flow: &FlowReport) -> (f64, f64) {
    let at = |points: &[Point]| points.first().map(|p| p.at_ns as f64 / 1e9);
    let rtt = (flow.rtt_ms_mean / 1e3).max(1e-4);
    let begin = match at(&flow.curve.lost) {
        Some(lost) => lost - 2.0 * rtt,
        None => at(&flow.curve.sent).unwrap_or(0.0),
    };
    (begin.max(0.0), begin.max(0.0) + 8.0 * rtt)
}

/// Sequence, acknowledgement and credit over time, as in Figure 3.15 of the first source.
fn sequence(flow: &FlowReport, (begin, end): (f64, f64)) -> Chart {
    let curve = &flow.curve;
    let dots = |points: &[Point]| {
        let points = points.iter().map(|p| (p.at_ns as f64 / 1e9, p.bytes as f64));
        points.filter(|(at, _)| (begin..=end).contains(at)).collect::<Vec<_>>()
    };
    // A step also shows what held when the part began.
    let steps = |points: &[Point]| {
        let before = points.iter().rev().find(|p| (p.at_ns as f64) < begin * 1e9);
        let first = before.map(|p| (begin, p.bytes as f64));
        first.into_iter().chain(dots(points)).collect::<Vec<_>>()
    };
    let left_out = match curve.left_out {
        0 => String::new(),
        n => format!(" {n} later points are left out."),
    };
    let caption = format!(
        "Each dot is a packet with message bytes, where its last byte stands in the stream of \
         messages; the lines are what is acknowledged and what the receiver's credit allows, \
         whole messages (as in Hsieh 1997, Figure 3.15).{left_out}"
    );
    let title = format!("Sequence, acknowledgement and credit of flow {:?}", flow.name);
    let axis = |label: &str, unit| {
        let axis = Axis::new(label, unit);
        if end.is_finite() { axis.tight() } else { axis }
    };
    let mut credit = steps(&curve.credit);
    if end.is_finite() {
        // Credit far above what is sent would make all else small.
        let least = steps(&curve.acknowledged).first().map_or(0.0, |p| p.1);
        let most = dots(&curve.sent).last().map_or(0.0, |p| p.1);
        credit.retain(|p| p.1 <= most + 0.5 * (most - least));
    }
    Chart::new(title, axis("time", Unit::Seconds), axis("position", Unit::Bytes))
        .caption(caption)
        .with("credit", Shape::Step, credit)
        .with("acknowledged", Shape::Step, steps(&curve.acknowledged))
        .with("sent", Shape::Dots, dots(&curve.sent))
        .with("sent again", Shape::Dots, dots(&curve.repaired))
        .with("lost on the way", Shape::Dots, dots(&curve.lost))
}
