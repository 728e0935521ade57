//! `sim node`: the tables of the fifth source beside what its nodes do here.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Args;
use serde_json::json;
use towpath_sim::parallel::source::{NodeTable, RunOutcome, TABLES, TableOutcome, Verdict};
use towpath_sim::scenario::{BYTES_MAX, ScenarioError};

use crate::batch::{in_order, work_bar};
use crate::cells::{Cell, words};
use crate::files::{not_among, print, shown, stem, write_file};
use crate::plot::{Column, Table};
use crate::topology::{in_file, read_text};

/// Files of one call.
const FILES_MAX: usize = 256;
const HINT: &str = "scenarios/node has the source's tables";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath sim node                                   all tables of the source that come along
  towpath sim node scenarios/node/table-3.toml --csv table-3.csv
  towpath sim node my-node.toml --json

A file has nodes of the source's architectures (one bus, two buses, serial; a row of gateways), runs
that change some of it, and what the source printed. Each cell is the mean of several seeds. Its
verdict: within 10 % of the source; trend, where it is not, but in the same order with the other
cells of its row; contradictory, where the source is so with itself; off. Everything that the source
does not print stands in the file, with why. docs/parallel.md has what came of it.

Exit status: 0 whatever the verdicts are, 255 for errors.")]
pub(super) struct NodeArgs {
    /// Tables (default: those that come along, see scenarios/node)
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write all cells as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print one JSON object per table
    #[arg(long)]
    json: bool,
}

/// A table, and the name of its file.
type Named = (String, NodeTable);

fn read(path: &Path) -> anyhow::Result<NodeTable> {
    let text = read_text(path, BYTES_MAX)?;
    NodeTable::parse(&text).map_err(|e| match e {
        ScenarioError::Syntax(e) => in_file(path, &text, &e, HINT),
        e @ ScenarioError::Range { .. } => {
            anyhow!("in {}: {e}\nhint: {HINT}", shown(path))
        }
    })
}

fn tables(files: &[PathBuf]) -> anyhow::Result<Vec<Named>> {
    if files.len() > FILES_MAX {
        bail!(
            "tables are {}, at most {FILES_MAX} at once\nhint: give some of them, then the others",
            files.len()
        );
    }
    if files.is_empty() {
        let own = TABLES.iter().map(|(name, text)| Ok(((*name).into(), NodeTable::parse(text)?)));
        return own.collect();
    }
    let mut taken = Vec::new();
    files.iter().map(|path| Ok((stem(path, &mut taken), read(path)?))).collect()
}

pub(super) fn run(args: &NodeArgs) -> anyhow::Result<ExitCode> {
    not_among(args.csv.as_deref(), &args.files)?;
    let tables = tables(&args.files)?;
    let jobs: Vec<(usize, usize)> = tables
        .iter()
        .enumerate()
        .flat_map(|(at, (_, table))| (0..table.run.len()).map(move |run| (at, run)))
        .collect();
    let mut outcomes: Vec<Vec<RunOutcome>> = vec![Vec::new(); tables.len()];
    let bar = work_bar(jobs.len());
    in_order(
        &jobs,
        |(at, run)| tables[*at].1.run(*run),
        |(at, _), outcome| {
            bar.inc(1);
            outcomes[*at].push(outcome);
        },
    );
    bar.finish_and_clear();
    let judged = tables.iter().zip(&outcomes);
    let judged: Vec<(&str, TableOutcome)> =
        judged.map(|((name, table), outcomes)| (name.as_str(), table.judge(outcomes))).collect();
    for (name, outcome) in &judged {
        print(&if args.json { as_json(name, outcome)? } else { text(outcome) })?;
    }
    if !args.json && judged.len() > 1 {
        print(&format!("all: {}\n", counts(judged.iter().map(|(_, outcome)| outcome))))?;
    }
    if let Some(path) = &args.csv {
        let mut table = new_table();
        for (_, outcome) in &judged {
            push(&mut table, outcome);
        }
        write_file(path, table.csv())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(name: &str, outcome: &TableOutcome) -> anyhow::Result<String> {
    let mut value = serde_json::to_value(outcome)?;
    value["version"] = json!(1);
    value["scenario"] = json!(name);
    Ok(format!("{value}\n"))
}

fn text(outcome: &TableOutcome) -> String {
    let mut table = new_table();
    push(&mut table, outcome);
    let notes = outcome.cells.iter().filter(|cell| !cell.note.is_empty());
    let notes: Vec<String> = notes.map(|c| format!("  {}: {}", c.run, c.note)).collect();
    format!(
        "{}: {}; mean of {} seeds, trace {}\n\n{}\n{}\n{}\n\n",
        outcome.table,
        outcome.about,
        outcome.seeds,
        outcome.trace_hash,
        table.text(),
        notes.join("\n"),
        counts([outcome].into_iter()),
    )
}

/// How many cells have which verdict.
fn counts<'a>(outcomes: impl Iterator<Item = &'a TableOutcome>) -> String {
    let verdicts: Vec<Verdict> =
        outcomes.flat_map(|outcome| outcome.cells.iter().map(|cell| cell.verdict)).collect();
    let all = [Verdict::Within, Verdict::Trend, Verdict::Contradictory, Verdict::Off];
    let counted = all.map(|of| (of, verdicts.iter().filter(|verdict| **verdict == of).count()));
    let told = counted.into_iter().filter(|(_, count)| *count > 0);
    let told: Vec<String> = told.map(|(of, count)| format!("{count} {}", of.name())).collect();
    format!("{} cells: {}", verdicts.len(), told.join(", "))
}

fn new_table() -> Table {
    Table::new(&[
        Column::words("TABLE", "table"),
        Column::words("RUN", "run"),
        Column::words("MEASURED", "measured"),
        Column::figures("SOURCE", "source"),
        Column::figures("OURS", "ours"),
        Column::figures("DIFFERENCE", "difference_percent"),
        Column::words("VERDICT", "verdict"),
    ])
}

fn push(table: &mut Table, outcome: &TableOutcome) {
    for cell in &outcome.cells {
        let difference: Cell = cell.difference_percent.map_or_else(
            || words(""),
            |percent| (format!("{percent:+.1} %"), format!("{percent:.3}")),
        );
        table.push(vec![
            words(&outcome.table),
            words(&cell.run),
            words(cell.measure),
            (format!("{:.1}", cell.printed), cell.printed.to_string()),
            (format!("{:.1}", cell.ours), format!("{:.3}", cell.ours)),
            difference,
            words(cell.verdict.name()),
        ]);
    }
}
