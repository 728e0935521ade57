//! The cells beside what was printed.

use super::file::{CellSpec, Mark, NodeTable, RunSpec};
use super::outcome::{CellOutcome, RunOutcome, TableOutcome, Verdict};
use crate::hash::Trace;

/// A cell agrees with the source within so much.
const TENTH: f64 = 0.1;
/// Cells of the source that differ by less are in no order.
const ALIKE: f64 = 0.1;

/// A cell, and the row in which it must be in order.
struct Judged<'a> {
    row: &'a str,
    spec: &'a CellSpec,
    ours: f64,
}

impl NodeTable {
    /// What is to be said of the table, with an outcome for each of its runs.
    pub fn judge(&self, outcomes: &[RunOutcome]) -> TableOutcome {
        let mut trace = Trace::new(0);
        let runs = || self.run.iter().zip(outcomes);
        let all: Vec<(&RunSpec, Judged<'_>)> = runs()
            .flat_map(|(run, outcome)| {
                run.cell.iter().map(move |spec| {
                    (run, Judged { row: &run.row, spec, ours: outcome.mean(spec.measure) })
                })
            })
            .collect();
        let mut cells: Vec<CellOutcome> = Vec::new();
        for (run, cell) in &all {
            let others = all.iter().map(|(_, other)| other);
            let others = others.filter(|o| o.row == cell.row);
            let others = others.filter(|o| o.spec.measure == cell.spec.measure);
            let in_order = others.clone().count() > 1 && others.clone().all(|o| in_order(cell, o));
            cells.push(one(run, cell, in_order));
        }
        for outcome in outcomes.iter().flat_map(|outcome| &outcome.seeds) {
            trace.word(outcome.trace);
        }
        cells.extend(self.divisions());
        TableOutcome {
            table: self.table.clone(),
            about: self.about.clone(),
            seeds: self.seeds.value(),
            cells,
            trace_hash: format!("{:016x}", trace.value()),
        }
    }

    fn divisions(&self) -> impl Iterator<Item = CellOutcome> {
        self.division.iter().map(|of| {
            let ours = (of.parallel_us + of.serial_us) / of.serial_us;
            let difference = ours / of.printed - 1.0;
            CellOutcome {
                run: of.name.clone(),
                measure: "speed-up",
                printed: of.printed,
                ours,
                difference_percent: Some(difference * 100.0),
                mark: Mark::Reproducible,
                verdict: if difference.abs() <= TENTH { Verdict::Within } else { Verdict::Off },
                note: of.note.clone(),
            }
        })
    }
}

fn one(run: &RunSpec, cell: &Judged<'_>, in_order: bool) -> CellOutcome {
    let &Judged { spec, ours, .. } = cell;
    let difference = ours / spec.printed - 1.0;
    let near = spec.mark != Mark::Order && difference.abs() <= TENTH;
    let verdict = match spec.mark {
        Mark::Contradictory => Verdict::Contradictory,
        _ if near => Verdict::Within,
        _ if in_order => Verdict::Trend,
        _ => Verdict::Off,
    };
    CellOutcome {
        run: run.name.clone(),
        measure: spec.measure.name(),
        printed: spec.printed,
        ours,
        difference_percent: (spec.mark != Mark::Order).then_some(difference * 100.0),
        mark: spec.mark,
        verdict,
        note: spec.note.clone(),
    }
}

/// Whether ours are in the order in which the source's are, where these are in one.
fn in_order(cell: &Judged<'_>, other: &Judged<'_>) -> bool {
    let contradictory = other.spec.mark == Mark::Contradictory;
    let (printed, ours) = (cell.spec.printed / other.spec.printed, cell.ours / other.ours);
    contradictory || printed.ln().abs() < ALIKE || (printed > 1.0) == (ours > 1.0)
}
