//! What was measured, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::machines::System;

/// What a time is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) hosts: u32,
    /// `daemon`, `direct` or `spawn`; or what a group does.
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

    /// The fastest setting of a cell, of those that have `word`.
    fn best(&self, cell: &(u32, String, u32), system: System, word: &str) -> Option<(&str, f64)> {
        let (hosts, route, bytes) = cell;
        let of_cell = |key: &Key| {
            (key.hosts, &key.route, key.bytes, key.system) == (*hosts, route, *bytes, system)
                && key.setting.contains(word)
        };
        let fitting = self.medians.iter().filter(|(key, _)| of_cell(key));
        fitting.min_by(|a, b| a.1.total_cmp(b.1)).map(|(key, time)| (key.setting.as_str(), *time))
    }

    /// PVM's best and ours, of the settings that have `word`, and how many times faster ours is.
    fn compared(&self, cell: &(u32, String, u32), word: &str) -> String {
        let of = |system| self.best(cell, system, word).map(|(_, time)| time);
        match (of(System::Pvm), of(System::Towpath)) {
            (Some(theirs), Some(ours)) => {
                let slower = if ours > theirs { " slower" } else { "" };
                format!("{theirs:.1}, {ours:.1}: {:.2}{slower}", theirs / ours)
            }
            _ => String::new(),
        }
    }

    /// Markdown: a line for each cell.
    pub(crate) fn table(&self) -> String {
        let mut cells: Vec<(u32, String, u32)> =
            self.medians.keys().map(|key| (key.hosts, key.route.clone(), key.bytes)).collect();
        cells.dedup();
        let mut text = String::from(
            "| hosts | route asked for | size | best way of PVM, of Towpath | µs, PVM and Towpath: \
             ratio | raw only | two processors only | one processor only |\n\
             |---|---|---|---|---|---|---|---|\n",
        );
        for cell in &cells {
            let ways = [System::Pvm, System::Towpath].map(|system| self.best(cell, system, ""));
            let [Some((their_way, _)), Some((our_way, _))] = ways else { continue };
            let (hosts, route, bytes) = cell;
            let size = match (route.as_str(), bytes) {
                ("spawn", tasks) => format!("{tasks} tasks"),
                (_, 0) => String::new(),
                (_, bytes) => bytes_shown(*bytes),
            };
            writeln!(
                text,
                "| {hosts} | {route} | {size} | {their_way}, {our_way} | {} | {} | {} | {} |",
                self.compared(cell, ""),
                self.compared(cell, "raw"),
                self.compared(cell, "apart"),
                self.compared(cell, "together"),
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
