//! Flows over links: runs scenarios and tells what came of them.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::json;
use towpath_sim::network::Sent;
use towpath_sim::transfer::{TransferReport, TransferScenario};

use super::command::{File, SimRunArgs};
use super::dump::Dump;
use super::report;
use crate::batch::{in_order, work_bar};
use crate::files::{make_dir, print, shown, stem, write_file};
use crate::plot::{Page, Section};

/// Exit status where a promise was broken.
const BROKEN: u8 = 1;

/// Runs every file.
pub(super) fn run(args: &SimRunArgs, files: &[File]) -> anyhow::Result<ExitCode> {
    if let (Some(_), [_, second, ..]) = (&args.dump, files) {
        bail!(
            "--dump takes one scenario, {} is the second\nhint: run it alone",
            shown(&second.path)
        );
    }
    let mut page =
        Page::new("Transfers", "Flows over simulated links. docs/transport.md explains.");
    let (mut taken, mut trouble, mut broken) = (Vec::new(), None, false);
    let mut samples = report::samples_table();
    let bar = work_bar(files.len());
    in_order(
        files,
        |file| one(args, file),
        |file, done| {
            bar.inc(1);
            let told = done.and_then(|report| {
                broken |= !report.broken.is_empty();
                let name = stem(&file.path, &mut taken);
                report::push_samples(&mut samples, &name, &report);
                page.push(&section(args, &name, &report));
                let text = if args.json { as_json(&name, &report)? } else { text(&name, &report) };
                bar.suspend(|| tell(file, &text, &report))?;
                draw(args, &name, &report)
            });
            trouble = trouble.take().or(told.err());
        },
    );
    bar.finish_and_clear();
    if let Some(e) = trouble {
        return Err(e);
    }
    if let Some(path) = &args.csv {
        write_file(path, samples.csv())?;
    }
    if let Some(path) = &args.html {
        write_file(path, page.html())?;
    }
    Ok(if broken { ExitCode::from(BROKEN) } else { ExitCode::SUCCESS })
}

fn one(args: &SimRunArgs, file: &File) -> anyhow::Result<TransferReport> {
    let mut scenario = TransferScenario::parse(&file.text).map_err(|e| file.fault(e))?;
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    if args.congestion.is_some() {
        scenario.flow.iter_mut().for_each(|f| f.congestion.clone_from(&args.congestion));
    }
    let dump = args.dump.as_deref().map(Dump::create).transpose()?;
    let names: Vec<String> = scenario.flow.iter().map(|f| format!("{:?}", f.name)).collect();
    // Hosts 2 n and 2 n + 1 are sender and receiver of flow n.
    let way = move |sent: &Sent<'_>| {
        let name = names.get(sent.from / 2).map_or("", String::as_str);
        format!("{name} {}", if sent.from.is_multiple_of(2) { '>' } else { '<' })
    };
    let tap = dump.as_ref().map(|d| d.tap(way, true));
    let report = towpath_sim::transfer::run(&scenario, tap).map_err(|e| file.fault(e))?;
    if let (Some(dump), Some(path)) = (dump, &args.dump) {
        dump.finish(path)?;
    }
    Ok(report)
}

/// Results to standard output, broken promises to standard error.
fn tell(file: &File, text: &str, report: &TransferReport) -> anyhow::Result<()> {
    print(text)?;
    for what in &report.broken {
        eprintln!("{}: {what}", shown(&file.path));
    }
    if !report.broken.is_empty() {
        eprintln!("replay: towpath sim run {} --seed {}", shown(&file.path), report.seed);
    }
    Ok(())
}

fn as_json(name: &str, report: &TransferReport) -> anyhow::Result<String> {
    let mut value = serde_json::to_value(report)?;
    value["version"] = json!(1);
    value["scenario"] = json!(name);
    Ok(format!("{value}\n"))
}

fn text(name: &str, report: &TransferReport) -> String {
    let about = if report.about.is_empty() { String::new() } else { format!(": {}", report.about) };
    let mut out = format!(
        "{name}{about}\n{:.3} s in virtual time, seed {}, {} datagrams, trace {}\n\n",
        report.seconds, report.seed, report.datagrams, report.trace_hash
    );
    for (_, table) in report::tables(report) {
        out.push_str(&table.text());
        out.push('\n');
    }
    out
}

fn section(args: &SimRunArgs, name: &str, report: &TransferReport) -> Section {
    let mut section = Section::new(name).text(&report.about);
    for (title, table) in &report::tables(report) {
        section = section.text(title).table(table);
    }
    for what in &report.broken {
        section = section.text(&format!("Broken: {what}"));
    }
    if args.html.is_none() {
        return section;
    }
    section.charts(report::charts(report, args.zoom).iter().map(|c| &c.1))
}

fn draw(args: &SimRunArgs, name: &str, report: &TransferReport) -> anyhow::Result<()> {
    let Some(dir) = &args.svg else { return Ok(()) };
    make_dir(dir)?;
    for (what, chart) in report::charts(report, args.zoom) {
        write_file(&dir.join(format!("{name}-{what}.svg")), chart.svg())?;
    }
    Ok(())
}
