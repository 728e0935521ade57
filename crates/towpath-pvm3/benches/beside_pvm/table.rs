//! What was measured, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::machines::System;

/// What a time is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) hosts: u32,
    /// `daemon`, `direct` or `spawn`.
    pub(crate) route: String,
    /// Bytes of a message; how many tasks, where the route is `spawn`.
    pub(crate) bytes: u32,
    pub(crate) system: System,
    pub(crate) setting: String,
}

/// Times in microseconds.
#[derive(Default)]
pub(crate) struct Figures {
    rounds: BTreeMap<Key, Vec<f64>>,
    /// Medians, once all is measured.
    medians: BTreeMap<Key, f64>,
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn bytes_shown(bytes: u32) -> String {
    match bytes {
        0x10_0000.. => format!("{} MiB", bytes >> 20),
        1024.. => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

impl Figures {
    pub(crate) fn add(&mut self, key: Key, time: f64) {
        self.rounds.entry(key).or_default().push(time);
    }

    /// All is measured.
    pub(crate) fn finish(&mut self) {
        let medians = self.rounds.iter().map(|(key, times)| (key.clone(), median(times)));
        self.medians = medians.collect();
    }

    /// The fastest setting of a cell, of those that begin with `mode`.
    fn best(&self, cell: &(u32, String, u32), system: System, mode: &str) -> Option<(&str, f64)> {
        let (hosts, route, bytes) = cell;
        let of_cell = |key: &Key| {
            (key.hosts, &key.route, key.bytes, key.system) == (*hosts, route, *bytes, system)
                && key.setting.starts_with(mode)
        };
        let fitting = self.medians.iter().filter(|(key, _)| of_cell(key));
        fitting.min_by(|a, b| a.1.total_cmp(b.1)).map(|(key, time)| (key.setting.as_str(), *time))
    }

    /// Markdown: a line for each cell.
    pub(crate) fn table(&self) -> String {
        let mut cells: Vec<(u32, String, u32)> =
            self.medians.keys().map(|key| (key.hosts, key.route.clone(), key.bytes)).collect();
        cells.dedup();
        let mut text = String::from(
            "| hosts | route asked for | size | PVM, best way | µs | Towpath, best way | µs | \
             PVM / Towpath | raw only: PVM, Towpath, ratio |\n\
             |---|---|---|---|---|---|---|---|---|\n",
        );
        for cell in &cells {
            let ways = [System::Pvm, System::Towpath].map(|system| self.best(cell, system, ""));
            let [Some((their_way, theirs)), Some((our_way, ours))] = ways else { continue };
            let raw = [System::Pvm, System::Towpath].map(|system| self.best(cell, system, "raw"));
            let raw = match raw {
                [Some((_, theirs)), Some((_, ours))] => {
                    format!("{theirs:.1}, {ours:.1}, {:.2}", theirs / ours)
                }
                _ => String::new(),
            };
            let (hosts, route, bytes) = cell;
            let size =
                if route == "spawn" { format!("{bytes} tasks") } else { bytes_shown(*bytes) };
            let slower = if ours > theirs { " slower" } else { "" };
            writeln!(
                text,
                "| {hosts} | {route} | {size} | {their_way} | {theirs:.1} | {our_way} | {ours:.1} \
                 | {:.2}{slower} | {raw} |",
                theirs / ours
            )
            .expect("memory");
        }
        text
    }

    /// An array with every setting: its median and the rounds that it is of.
    pub(crate) fn json(&self) -> String {
        let mut rows = Vec::new();
        for (Key { hosts, route, bytes, system, setting }, times) in &self.rounds {
            let times: Vec<String> = times.iter().map(|time| format!("{time:.3}")).collect();
            rows.push(format!(
                "  {{\"system\": \"{system:?}\", \"hosts\": {hosts}, \"route\": \"{route}\", \
                 \"size\": {bytes}, \"setting\": \"{setting}\", \"us\": [{}]}}",
                times.join(", ")
            ));
        }
        format!("[\n{}\n]\n", rows.join(",\n"))
    }
}
