//! What a tap did, as a table or as JSON.

use std::fmt::Write as _;

use serde_json::json;
use towpath_bench::tap::{Ceiling, Direction, Reading, Script};

use crate::plot::{Column, Table};
use crate::units::{rate_text, time_text};

/// A reading with what is known beside it.
pub(super) struct Report<'a> {
    pub(super) reading: &'a Reading,
    pub(super) ceiling: Option<&'a Ceiling>,
    pub(super) script: &'a Script,
    /// Frames that the capture's file had no room for.
    pub(super) not_captured: Option<u64>,
}

impl Report<'_> {
    fn table(&self) -> Table {
        let figure = |heading| Column::figures(heading, "");
        let mut table = Table::new(&[Column::words("", ""), figure("THERE"), figure("BACK")]);
        let ways = Direction::BOTH.map(|direction| self.reading.way(direction));
        let seconds = self.reading.elapsed.as_secs_f64();
        let rates = ways.map(|way| rate_text(way.stats.bytes_out as f64 * 8.0 / seconds));
        let rows: [(&str, [u64; 2]); 12] = [
            ("frames in", ways.map(|way| way.stats.frames_in)),
            ("frames out", ways.map(|way| way.stats.frames_out)),
            ("bytes out", ways.map(|way| way.stats.bytes_out)),
            ("lost by chance", ways.map(|way| way.stats.lost)),
            ("queue full", ways.map(|way| way.stats.overflowed)),
            ("link dead", ways.map(|way| way.stats.cut)),
            ("too long", ways.map(|way| way.stats.oversized)),
            ("overtaken", ways.map(|way| way.stats.reordered)),
            ("doubled", ways.map(|way| way.stats.duplicated)),
            ("damaged", ways.map(|way| way.stats.corrupted)),
            ("trains", ways.map(|way| way.device.trains)),
            ("failed by the tap", ways.map(|way| way.stats.crowded + way.device.refused)),
        ];
        let row = |name: &str, cells: [String; 2]| {
            let [there, back] = cells.map(|cell| (cell, String::new()));
            vec![(name.to_owned(), String::new()), there, back]
        };
        for (name, cells) in rows {
            table.push(row(name, cells.map(|cell| cell.to_string())));
        }
        table.push(row("rate out", rates));
        let queue = ways.map(|way| way.stats.queue_bytes_max.to_string());
        table.push(row("queue at most, B", queue));
        table
    }

    pub(super) fn text(&self) -> String {
        let late = &self.reading.lateness;
        let [p50, p99, most] = [late.p50_ns, late.p99_ns, late.max_ns].map(|ns| ns as f64 / 1e9);
        let [p50, p99, most] = [p50, p99, most].map(time_text);
        let mut out = String::new();
        let ran = time_text(self.reading.elapsed.as_secs_f64());
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(out, "Ran {ran}, seed {}.", self.script.seed);
        if late.samples > 0 {
            let _ = writeln!(
                out,
                "Frames went on {p50} late in the median, {p99} at p99, {most} at most."
            );
        }
        if let Some(ceiling) = self.ceiling {
            let (packets, bps) = (ceiling.packets_per_s, rate_text(ceiling.bps));
            let _ = writeln!(out, "The tap's own ceiling was {packets:.0} packets/s, {bps}.");
        }
        let _ = write!(out, "\n{}", self.table().text());
        for warning in self.warnings() {
            let _ = write!(out, "\nwarning: {warning}\n");
        }
        out
    }

    /// What makes figures doubtful.
    fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        let failed = self.reading.failed();
        if failed > 0 {
            all.push(format!(
                "the tap itself failed {failed} frames: what was measured over it is its own\n\
                 hint: a lower --rate, a shorter --delay"
            ));
        }
        let trains: u64 =
            Direction::BOTH.into_iter().map(|way| self.reading.way(way).device.trains).sum();
        if trains > 0 {
            all.push(format!(
                "{trains} frames were longer than --mtu and dropped: trains that hosts send uncut\n\
                 hint: on the hosts' interfaces: ip link set dev DEVICE gso_max_segs 1"
            ));
        }
        if let Some(count) = self.not_captured.filter(|count| *count > 0) {
            all.push(format!(
                "{count} frames did not fit into the capture\nhint: a larger --capture-size"
            ));
        }
        all
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let way = |direction| {
            let way = self.reading.way(direction);
            json!({
                "state": way.state, "held": way.held, "device": way.device, "frames": way.stats,
            })
        };
        json!({
            "seconds": self.reading.elapsed.as_secs_f64(), "seed": self.script.seed,
            "ceiling": self.ceiling.map(|ceiling| json!({
                "packets_per_s": ceiling.packets_per_s, "bps": ceiling.bps,
                "measured_s": ceiling.measured.as_secs_f64(),
            })),
            "lateness": self.reading.lateness, "turn": self.reading.turn,
            "busy_s": self.reading.busy.as_secs_f64(), "changes_left": self.reading.changes_left,
            "failed": self.reading.failed(), "not_captured": self.not_captured,
            Direction::There.name(): way(Direction::There),
            Direction::Back.name(): way(Direction::Back),
        })
    }
}
