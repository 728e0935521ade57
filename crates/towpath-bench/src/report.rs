//! Medians as a table or as JSON, with all that one must know to read them.

use serde_json::json;
use towpath_report::plot::{Column, Table};

use super::args::Pins;
use super::machine::description;
use super::row::{Sample, What};

/// Everything that was measured.
pub(super) struct Report {
    pub(super) route: String,
    pub(super) mtu: Option<u32>,
    pub(super) pins: Pins,
    pub(super) seconds: f64,
    pub(super) iperf: bool,
    pub(super) rows: Vec<(What, Vec<Sample>)>,
}

impl Report {
    fn median(&self, what: What) -> Option<Sample> {
        let row = self.rows.iter().find(|(w, _)| *w == what)?;
        Some(Sample::median(&row.1))
    }

    /// Throughput over the floor's; round trip over the floor's.
    fn ratios(&self, what: What, sample: &Sample) -> (Option<f64>, Option<f64>) {
        let Some(floor) = what.floor(sample.datagram_bytes).and_then(|f| self.median(f)) else {
            return (None, None);
        };
        let over = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
        (over(sample.bytes_per_s, floor.bytes_per_s), over(sample.rtt_us_p50, floor.rtt_us_p50))
    }

    fn pinned(&self) -> String {
        match self.pins.0 {
            Some((a, b)) => format!("pinned to processors {a} and {b}"),
            None => "not pinned".to_string(),
        }
    }

    pub(super) fn text(&self) -> String {
        let runs = self.rows.first().map_or(0, |(_, samples)| samples.len());
        let mtu = self.mtu.map_or("unknown".to_string(), |m| m.to_string());
        let iperf = if self.iperf { "" } else { "iperf3 is not installed: left out.\n" };
        let figure = |heading| Column::figures(heading, "");
        let mut table = Table::new(&[
            Column::words("", ""),
            figure("GB/s"),
            figure("of floor"),
            figure("packets/s"),
            figure("of B"),
            figure("p50 us"),
            figure("of floor"),
            figure("p99 us"),
            figure("CPU us"),
            figure("CPU s/GB"),
            figure("sender's"),
            figure("calls/MB"),
        ]);
        for (what, samples) in &self.rows {
            let s = Sample::median(samples);
            let (flow, trip) = self.ratios(*what, &s);
            let cell = |value: Option<f64>, decimals: usize| {
                let text = value.map_or(String::new(), |v| format!("{v:.decimals$}"));
                (text, String::new())
            };
            table.push(vec![
                (what.name(), String::new()),
                cell(s.bytes_per_s.map(|b| b / 1e9), 3),
                cell(flow, 2),
                cell(s.datagrams_per_s, 0),
                cell(s.datagram_bytes.map(f64::from), 0),
                cell(s.rtt_us_p50, 1),
                cell(trip, 2),
                cell(s.rtt_us_p99, 1),
                cell(s.trip_cpu_us, 1),
                cell(s.cpu_s_per_gb, 2),
                cell(s.sender_s_per_gb, 2),
                cell(s.calls_per_mb, 1),
            ]);
        }
        format!(
            "{}\n{}; route MTU {mtu}; two processes, {}\n\
             Medians of {runs} rounds, {} s each; processor time per GB and system calls of both \
             ends, processor time per round trip of one.\n\
             Floors: trains of as long datagrams for throughput, the UDP echo that waits alike \
             for round trips.\n\
             {iperf}\n{}",
            description(),
            self.route,
            self.pinned(),
            self.seconds,
            table.text()
        )
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let rows = self.rows.iter().map(|(what, samples)| {
            let median = Sample::median(samples);
            let (flow, trip) = self.ratios(*what, &median);
            json!({
                "name": what.name(), "median": median, "samples": samples,
                "bytes_of_floor": flow, "rtt_of_floor": trip,
            })
        });
        json!({
            "machine": description(), "route": self.route, "mtu_bytes": self.mtu,
            "processes": 2,
            "pinned": self.pins.0.map(|(a, b)| [a, b]), "seconds": self.seconds,
            "iperf3": self.iperf, "rows": rows.collect::<Vec<_>>(),
        })
    }
}
