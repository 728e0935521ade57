//! A run as tables and charts.

use towpath_sim::qos::experiment::{ChannelReport, Comparison, Quantity, Report};
use towpath_sim::qos::network::Point;
use towpath_sim::qos::signal::Verdict;

use crate::cells::{count, rate, share, time, words};
use crate::plot::{Axis, Chart, Column, Shape, Table, Unit};
use crate::words::{bps_text, ns_text};

fn verdict(channel: &ChannelReport) -> String {
    match channel.verdict {
        None => "not asked".to_string(),
        Some(Verdict::Pending) => "no answer".to_string(),
        Some(Verdict::Admitted { setup_us }) => {
            format!("admitted after {}", ns_text(setup_us.saturating_mul(1000)))
        }
        Some(Verdict::Refused { short_bps, .. }) => {
            format!("refused, short by {}", bps_text(short_bps))
        }
    }
}

/// All tables of a run; those without rows are left out.
pub(super) fn tables(report: &Report) -> Vec<(&'static str, Table)> {
    let all = [
        ("Channels", channels(report)),
        ("Ports", ports(report)),
        ("Hosts", hosts(report)),
        ("Beside the source", references(report)),
    ];
    all.into_iter().filter(|(_, table)| !table.is_empty()).collect()
}

fn channels(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::words("CHANNEL", "channel"),
        Column::words("ANSWER", "answer"),
        Column::figures("RESERVED", "reserved_bps"),
        Column::figures("SENT", "sent_packets"),
        Column::figures("LOST", "lost_packets"),
        Column::figures("PAYLOAD", "payload_bps"),
        Column::figures("ON THE WIRE", "wire_bps"),
        Column::figures("MEAN", "delay_ns_mean"),
        Column::figures("P99", "delay_ns_p99"),
        Column::figures("WORST", "delay_ns_max"),
        Column::figures("JITTER", "jitter_ns"),
        Column::figures("LONGEST GAP", "gap_ns_max"),
        Column::figures("BOUND", "bound_ns"),
        Column::figures("LATE", "late_packets"),
    ]);
    for c in &report.channels {
        table.push(vec![
            words(&c.name),
            words(&verdict(c)),
            rate(c.reserved_bps),
            count(c.released),
            count(c.lost_queue + c.lost_host),
            rate(c.payload_bps),
            rate(c.wire_bps),
            time(c.delay.mean_ns),
            time(c.delay.p99_ns),
            time(c.delay.max_ns),
            time(c.jitter_ns),
            time(c.gap.max_ns),
            c.bound_ns.map_or(words("-"), time),
            count(c.beyond),
        ]);
    }
    table
}

fn ports(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::words("PORT", "port"),
        Column::figures("RATE", "rate_bps"),
        Column::figures("BUSY", "busy_ppm"),
    ]);
    for p in report.ports.iter().filter(|p| p.busy_ppm > 0) {
        table.push(vec![words(&p.name), rate(p.rate_bps), share(p.busy_ppm)]);
    }
    table
}

fn hosts(report: &Report) -> Table {
    let mut table =
        Table::new(&[Column::words("HOST", "host"), Column::figures("PROCESSOR", "busy_ppm")]);
    for h in report.hosts.iter().filter(|h| h.busy_ppm > 0) {
        table.push(vec![words(&h.name), share(h.busy_ppm)]);
    }
    table
}

/// The source's figures beside ours.
fn references(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::words("TABLE", "table"),
        Column::words("CHANNEL", "channel"),
        Column::words("WHAT", "quantity"),
        Column::words("WHOSE", "whose"),
        Column::figures("PACKETS", "packets"),
        Column::figures("LEAST", "ns_min"),
        Column::figures("MEAN", "ns_mean"),
        Column::figures("P50", "ns_p50"),
        Column::figures("P90", "ns_p90"),
        Column::figures("P99", "ns_p99"),
        Column::figures("WORST", "ns_max"),
    ]);
    for r in &report.references {
        let what = match r.quantity {
            Quantity::Delay => "delay",
            Quantity::Gap => "gap",
        };
        let all = [(r.label.clone(), "source", r.theirs), (r.label.clone(), "ours", r.ours)];
        // As the source did for another figure.
        let smooth = r.smooth.iter().flat_map(|smooth| {
            let label = |left_out| format!("{}, {left_out} interruptions left out", r.label);
            [
                (label(smooth.theirs_left_out), "source", smooth.theirs),
                (label(smooth.ours_left_out), "ours", smooth.ours),
            ]
        });
        for (label, whose, s) in all.into_iter().chain(smooth) {
            table.push(vec![
                words(&label),
                words(&r.channel),
                words(what),
                words(whose),
                count(s.samples),
                time(s.min_ns),
                time(s.mean_ns),
                time(s.p50_ns),
                time(s.p90_ns),
                time(s.p99_ns),
                time(s.max_ns),
            ]);
        }
    }
    table
}

/// Packet by packet, as far as the scenario keeps them.
pub(super) fn packets(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::words("CHANNEL", "channel"),
        Column::figures("PACKET", "packet"),
        Column::figures("AT", "at_ns"),
        Column::figures("DELAY", "delay_ns"),
        Column::figures("GAP", "gap_ns"),
    ]);
    for c in &report.channels {
        for p in &c.series {
            let figures = [p.packet, p.at_ns, p.delay_ns, p.gap_ns].map(count);
            let mut row = vec![words(&c.name)];
            row.extend(figures);
            table.push(row);
        }
    }
    table
}

/// Delays of all channels, what was admitted and refused, and charts per table of the source, by
/// the names of their files.
pub(super) fn charts(report: &Report) -> Vec<(String, Chart)> {
    let mut all = vec![("delay".to_string(), delays(report))];
    all.extend(asked(report).map(|chart| ("admission".to_string(), chart)));
    for (k, r) in report.references.iter().enumerate() {
        let ours = report.channels.iter().find(|c| c.name == r.channel);
        let ours = ours.map_or(&[][..], |c| c.series.as_slice());
        all.push((format!("table-{}", k + 1), beside(r, ours, None)));
        if let Some(smooth) = &r.smooth {
            let chart = beside(r, ours, Some(smooth.interruption_ns));
            all.push((format!("table-{}-without-interruptions", k + 1), chart));
        }
    }
    all
}

/// An axis of times of very different length.
fn times(label: &str) -> Axis {
    Axis::new(label, Unit::Seconds).log()
}

fn delays(report: &Report) -> Chart {
    // Not all packets are kept: the first may be far from the first one sent.
    let packets = Axis::new("packet", Unit::Count).tight();
    let title = format!("{}: delay of each packet", report.scenario);
    let mut chart = Chart::new(title, packets, times("delay"));
    for c in report.channels.iter().filter(|c| !c.series.is_empty()) {
        let points = c.series.iter().map(|p| (p.packet as f64, p.delay_ns as f64 / 1e9));
        chart = chart.with(&c.name, Shape::Dots, points.collect());
    }
    chart
}

/// What channels asked for, in their order, and whether they got it; none where nobody asked.
fn asked(report: &Report) -> Option<Chart> {
    let bars = |admitted: bool| -> Vec<(f64, f64)> {
        let numbered = report.channels.iter().enumerate();
        let answered = numbered.filter(|(_, c)| match c.verdict {
            Some(Verdict::Admitted { .. }) => admitted,
            Some(_) => !admitted,
            None => false,
        });
        answered.map(|(k, c)| ((k + 1) as f64, c.reserved_bps as f64)).collect()
    };
    let (admitted, refused) = (bars(true), bars(false));
    if admitted.is_empty() && refused.is_empty() {
        return None;
    }
    let names = |bars: &[(f64, f64)]| {
        let name = |(k, _): &(f64, f64)| report.channels[*k as usize - 1].name.clone();
        bars.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let caption = if refused.is_empty() {
        "All were admitted.".to_string()
    } else {
        format!("Refused: {}.", names(&refused))
    };
    let title = format!("{}: what channels asked for", report.scenario);
    let rate = Axis::new("asked for", Unit::BitsPerSecond);
    let chart =
        Chart::new(title, Axis::new("channel, in the order of the file", Unit::Count), rate);
    Some(chart.caption(caption).with("admitted", Shape::Bars, admitted).with(
        "refused",
        Shape::Bars,
        refused,
    ))
}

/// The source's values and as many of ours; those below `most_ns`, where it is given.
fn beside(r: &Comparison, ours: &[Point], most_ns: Option<u64>) -> Chart {
    let (label, ns): (_, fn(&Point) -> u64) = match r.quantity {
        Quantity::Delay => ("delay", |p| p.delay_ns),
        Quantity::Gap => ("from one packet to the next", |p| p.gap_ns),
    };
    let numbered = |values: &mut dyn Iterator<Item = u64>| {
        let kept = values.enumerate().filter(|(_, ns)| most_ns.is_none_or(|most| *ns < most));
        kept.map(|(k, ns)| (k as f64, ns as f64 / 1e9)).collect::<Vec<_>>()
    };
    let theirs = numbered(&mut r.theirs_us.iter().map(|us| us.saturating_mul(1000)));
    let ours = numbered(&mut ours.iter().take(r.theirs_us.len()).map(ns));
    let without = if most_ns.is_some() { ", without interruptions" } else { "" };
    let title = format!("{}, {}{without}", r.label, r.channel);
    Chart::new(title, Axis::new("packet", Unit::Count), times(label))
        .caption("The source measured on its machines; ours is simulated.")
        .with("source", Shape::Dots, theirs)
        .with("ours", Shape::Dots, ours)
}
