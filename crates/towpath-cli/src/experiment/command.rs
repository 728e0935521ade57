//! `sim qos`: runs experiments from files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use towpath_qos::file::BYTES_MAX;
use towpath_sim::qos::experiment::ScenarioError;
use towpath_sim::qos::{Report, Scenario};

use super::report;
use crate::batch::{in_order, work_bar};
use crate::files::{FilesError, print, shown, stem};
use crate::outputs::Outputs;
use crate::plot::{Page, Section};
use crate::topology::{self, read_text};

/// Where what an experiment looks like is written.
const HINT: &str = "`towpath sim qos --help` has an example; docs/admission.md has all keys";
/// Exit status where a promise was broken.
const BROKEN: u8 = 1;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath sim qos scenarios/qos/8021p-2.toml
  towpath sim qos scenarios/qos/*.toml --html experiments.html
  towpath sim qos scenarios/qos/middleware-2-50-20.toml --svg out/ --csv out/ --seed 7

The files in scenarios/qos are the experiments of the project's second source (Cui 1999); where
the source printed a table, it stands beside ours. Same file and seed, same result.

An experiment is hosts, switches, links and channels; docs/admission.md has all keys:

  name = \"one sender\"
  duration_ms = 1000

  [[host]]
  name = \"a\"
  [[host]]
  name = \"b\"

  [[link]]
  between = [\"a\", \"b\"]
  rate_bps = 100_000_000

  [[channel]]
  name = \"video\"
  from = \"a\"
  to = \"b\"
  packet_bytes = 1024
  send = { kind = \"periodic\", rate_bps = 4_000_000 }

Exit status: 0; 1 a packet came later than was promised to its channel; 255 for errors.")]
pub(crate) struct QosArgs {
    /// Experiments, in TOML
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Run with this seed instead of the file's
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    outputs: Outputs,
}

struct Done {
    about: String,
    finding: String,
    report: Report,
}

pub(crate) fn run(args: &QosArgs) -> anyhow::Result<ExitCode> {
    let mut page = Page::new("Experiments", "Channels in virtual time, beside what was measured.");
    let (mut taken, mut trouble, mut broken) = (Vec::new(), None, false);
    args.outputs.prepare()?;
    let bar = work_bar(args.files.len());
    in_order(
        &args.files,
        |path| one(path, args.seed),
        |path, done| {
            bar.inc(1);
            let told = done.and_then(|done| {
                broken |= done.report.channels.iter().any(|c| c.beyond > 0);
                page.push(&section(&done));
                let text = if args.outputs.json { as_json(&done)? } else { as_text(&done) };
                bar.suspend(|| print(&text))?;
                Ok(write(&args.outputs, &stem(path, &mut taken), &done.report)?)
            });
            trouble = trouble.take().or(told.err());
        },
    );
    bar.finish_and_clear();
    if let Some(e) = trouble {
        return Err(e);
    }
    args.outputs.page(&page)?;
    Ok(if broken { ExitCode::from(BROKEN) } else { ExitCode::SUCCESS })
}

fn one(path: &Path, seed: Option<u64>) -> anyhow::Result<Done> {
    let text = read_text(path, BYTES_MAX)?;
    let in_file = || format!("in {}", shown(path));
    let mut scenario = match Scenario::parse(&text) {
        Err(ScenarioError::Syntax(e)) => return Err(topology::in_file(path, &text, &e, HINT)),
        parsed => parsed.with_context(in_file)?,
    };
    scenario.seed = seed.unwrap_or(scenario.seed);
    let report = towpath_sim::qos::run(&scenario).with_context(in_file)?;
    Ok(Done { about: scenario.about, finding: scenario.finding, report })
}

fn as_json(done: &Done) -> anyhow::Result<String> {
    let mut value = serde_json::to_value(&done.report)?;
    value["version"] = json!(1);
    value["about"] = json!(done.about);
    value["finding"] = json!(done.finding);
    Ok(format!("{value}\n"))
}

fn as_text(done: &Done) -> String {
    let report = &done.report;
    let mut out = format!(
        "{}: {}\n{} ms in virtual time, seed {}, {} packets over ports, trace {}\n\n",
        report.scenario,
        done.about,
        report.duration_ms,
        report.seed,
        report.packet_hops,
        report.trace
    );
    for (k, (title, table)) in report::tables(report).iter().enumerate() {
        if k > 0 {
            // Writing to a string cannot fail.
            let _ = write!(out, "\n{title}\n");
        }
        out.push_str(&table.text());
    }
    if !done.finding.is_empty() {
        let _ = write!(out, "\nFinding: {}\n", done.finding);
    }
    out.push('\n');
    out
}

fn section(done: &Done) -> Section {
    let mut section = Section::new(&done.report.scenario).text(&done.about);
    if !done.finding.is_empty() {
        section = section.text(&format!("Finding: {}", done.finding));
    }
    for (title, table) in &report::tables(&done.report) {
        section = section.text(title).table(table);
    }
    section.charts(report::charts(&done.report).iter().map(|c| &c.1))
}

fn write(outputs: &Outputs, name: &str, report: &Report) -> Result<(), FilesError> {
    outputs.charts(|| {
        let charts = report::charts(report).into_iter();
        charts.map(|(what, chart)| (format!("{name}-{what}"), chart)).collect()
    })?;
    outputs.tables(|| {
        let tables = report::tables(report).into_iter();
        let tables = tables.map(|(title, table)| (title.to_lowercase().replace(' ', "-"), table));
        let tables = tables.chain([("packets".to_string(), report::packets(report))]);
        tables.map(|(what, table)| (format!("{name}-{what}"), table)).collect()
    })
}
