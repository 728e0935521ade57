//! What was measured, as a table, as CSV or as JSON, with all that one must know to read it.

use serde_json::json;
use towpath_report::plot::{Column, Table};

use super::super::machine::description;
use super::args::Common;
use super::metrics::Metrics;
use super::sample::Sample;

/// A row: what is measured, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) name: String,
    /// By which way messages go.
    pub(super) route: &'static str,
    /// Payload bytes of a message; 0 where there is none.
    pub(super) bytes: usize,
    /// Processes that a message passes, or that take part; daemons counted.
    pub(super) processes: usize,
    /// Which row it is held to, by its place.
    pub(super) floor: Option<usize>,
}

/// Everything that was measured.
pub(super) struct Report<'a> {
    pub(super) what: &'static str,
    pub(super) common: &'a Common,
    /// What else one must know, a line each.
    pub(super) notes: Vec<String>,
    pub(super) rows: Vec<(Row, Vec<Sample>)>,
    /// What follows from them.
    pub(super) metrics: Metrics,
}

/// Which rows are measured: those with the words in their names, and their floors.
pub(super) fn chosen(rows: &[Row], only: Option<&str>) -> anyhow::Result<Vec<bool>> {
    let Some(words) = only else { return Ok(vec![true; rows.len()]) };
    let mut keep: Vec<bool> = rows.iter().map(|row| row.name.contains(words)).collect();
    if !keep.contains(&true) {
        anyhow::bail!("no row has {words:?} in its name");
    }
    for row in 0..rows.len() {
        if let Some(floor) = rows[row].floor.filter(|_| keep[row]) {
            keep[floor] = true;
        }
    }
    Ok(keep)
}

impl Report<'_> {
    fn pinned(&self) -> String {
        let list = self.common.list();
        if list.is_empty() {
            return "not pinned".to_string();
        }
        let list: Vec<String> = list.iter().map(usize::to_string).collect();
        format!("pinned to processors {} in turn", list.join(", "))
    }

    /// What is between the hosts.
    fn links(&self) -> String {
        match (&self.common.rate, self.common.inside) {
            (_, false) => String::new(),
            (None, true) => " in a network namespace of its own".to_string(),
            (Some(rate), true) => format!(" in a network namespace of its own, links of {rate}"),
        }
    }

    fn median(&self, row: usize) -> Sample {
        Sample::median(&self.rows[row].1)
    }

    /// Over the floor's median.
    fn ratio(&self, row: usize) -> Option<f64> {
        let floor = self.rows[row].0.floor.filter(|f| !self.rows[*f].1.is_empty())?;
        Some(self.median(row).us_p50? / self.median(floor).us_p50?)
    }

    /// Rows that were measured.
    fn measured(&self) -> impl Iterator<Item = usize> {
        (0..self.rows.len()).filter(|row| !self.rows[*row].1.is_empty())
    }

    fn table(&self) -> Table {
        let figure = Column::figures;
        let mut table = Table::new(&[
            Column::words("", "name"),
            Column::words("route", "route"),
            figure("B", "size_bytes"),
            figure("processes", "processes"),
            figure("p50 us", "us_p50"),
            figure("of floor", "of_floor"),
            figure("p90 us", "us_p90"),
            figure("p99 us", "us_p99"),
            figure("GB/s", "bytes_per_s"),
            figure("sleeps", "sleeps"),
        ]);
        for n in self.measured() {
            let (row, s) = (&self.rows[n].0, self.median(n));
            let cell = |value: Option<f64>, decimals: usize| {
                let text = |d: usize| value.map_or(String::new(), |v| format!("{v:.d$}"));
                (text(decimals), text(4))
            };
            let same = |text: String| (text.clone(), text);
            let bytes = if row.bytes == 0 { String::new() } else { row.bytes.to_string() };
            table.push(vec![
                same(row.name.clone()),
                same(row.route.to_string()),
                same(bytes),
                same(row.processes.to_string()),
                cell(s.us_p50, 2),
                cell(self.ratio(n), 2),
                cell(s.us_p90, 2),
                cell(s.us_p99, 2),
                (cell(s.bytes_per_s.map(|b| b / 1e9), 2).0, cell(s.bytes_per_s, 0).1),
                cell(s.sleeps, 2),
            ]);
        }
        table
    }

    fn json(&self) -> serde_json::Value {
        let rows = self.measured().map(|n| {
            let (row, samples) = &self.rows[n];
            json!({
                "name": row.name, "route": row.route, "size_bytes": row.bytes,
                "processes": row.processes, "of_floor": self.ratio(n),
                "floor": row.floor.map(|f| &self.rows[f].0.name),
                "median": self.median(n), "samples": samples,
            })
        });
        json!({
            "what": self.what, "machine": description(), "hosts": self.common.hosts,
            "netns": self.common.inside, "rate": self.common.rate,
            "cpus": self.common.list(), "runs": self.common.runs, "notes": self.notes,
            "rows": rows.collect::<Vec<_>>(), "metrics": self.metrics.json(),
        })
    }

    pub(super) fn print(&self) -> anyhow::Result<()> {
        if self.common.json {
            putln!("{}", self.json())?;
        } else if self.common.csv {
            put!("{}", self.table().csv())?;
        } else {
            putln!("{}", description())?;
            let (what, hosts, runs) = (self.what, self.common.hosts, self.common.runs);
            putln!(
                "{what}; hosts: {hosts}, each a daemon{}; {}; medians of {runs} rounds.",
                self.links(),
                self.pinned()
            )?;
            for note in &self.notes {
                putln!("{note}")?;
            }
            putln!("")?;
            put!("{}", self.table().text())?;
            if let Some((heading, table)) = self.metrics.table() {
                put!("\n{heading}\n\n{}", table.text())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, floor: Option<usize>) -> Row {
        Row { name: name.into(), route: "", bytes: 16, processes: 2, floor }
    }

    #[test]
    fn a_chosen_row_brings_its_floor() {
        let rows = [row("spin", None), row("futex", None), row("direct", Some(0))];
        assert_eq!(chosen(&rows, Some("direct")).unwrap(), [true, false, true]);
        assert_eq!(chosen(&rows, None).unwrap(), [true; 3]);
        assert!(chosen(&rows, Some("pigeon")).unwrap_err().to_string().contains("pigeon"));
    }
}
