//! The command: its options, the reading, the exit status.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde_json::json;
use towpath_media::inspect::{Inspector, Report};
use towpath_media::read::{FaultKind, Reader};
use towpath_report::text::causes;
use towpath_wire::ByteSize;

use super::{charts, text, unreadable};
use crate::batch::{bytes_bar, in_order};
use crate::files::{
    BLOCK, Input, OUTPUT_CLOSED, is_text, make_dir, not_among, print, shown, stem, write_file,
};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::outputs::is_closed;
use crate::plot::{Page, Section};

/// Exit status where a file is damaged.
const DAMAGED: u8 = 1;
/// Exit status where a file could not be read at all.
const FAILED: u8 = 255;

#[derive(Debug, Args)]
pub(crate) struct MediaArgs {
    #[command(subcommand)]
    command: MediaCommand,
}

#[derive(Debug, Subcommand)]
enum MediaCommand {
    /// Tell what is in video files, and whether they keep the rules
    Info(InfoArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Reads MPEG transport streams (packets of 188, 192 or 204 bytes), program streams, MPEG-1, MPEG-2,
H.264 and H.265 video, Motion JPEG and AVI; what a file is, its bytes tell and not its name. Memory
does not grow with the file. A damaged file gives what can be used, and where the damage is.

Examples:
  towpath media info film.ts
  towpath media info --html report.html *.ts       one page with tables and pictures
  towpath media info --json film.ts | jq .report.clocks
  curl -s URL | towpath media info --limit 100MB -

Ctrl-C ends the reading; what has been read is reported. A second one leaves at once.

Exit status: 0 every file is undamaged; 1 a file is damaged, or with --strict breaks a rule; 255 a
file could not be read, or Towpath could not do it; 130 interrupted.")]
struct InfoArgs {
    /// Files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read at most so much of each file, such as 100MB
    #[arg(long, value_name = "SIZE", value_parser = crate::units::size)]
    limit: Option<ByteSize>,
    /// Exit with 1 also where a check of TR 101 290 or the model decoder finds a violation
    #[arg(long)]
    strict: bool,
    /// Print one JSON object per file
    #[arg(long)]
    json: bool,
    /// Write pictures (SVG) into a directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write a page with all tables and pictures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(crate) fn run(args: &MediaArgs) -> anyhow::Result<ExitCode> {
    let MediaCommand::Info(args) = &args.command;
    not_among(args.html.as_deref(), &args.files)?;
    if let Some(dir) = &args.svg {
        make_dir(dir)?;
    }
    let interrupt = Interrupt::heeded()?;
    let limit = args.limit.map_or(u64::MAX, ByteSize::as_bytes);
    let bar = bytes_bar(total(&args.files, limit));
    let mut page = Page::new(
        "Media report",
        "What is in each file, and whether it keeps the rules, by towpath media info.",
    );
    let (mut status, mut stems, mut trouble) = (0, Vec::new(), None);
    let inspect = |path: &PathBuf| inspect(path, limit, &interrupt, &bar);
    in_order(&args.files, inspect, |path, result| {
        let told = bar.suspend(|| match result {
            Ok(report) => {
                status = status.max(verdict(&report, args.strict));
                tell(args, path, &report, &mut page, &stem(path, &mut stems))
            }
            // What an interrupt kept from being read at all.
            Err(_) if interrupt.is_set() => Ok(()),
            Err(e) => {
                status = FAILED;
                eprintln!("error: {}: {}", shown(path), causes(e.chain()));
                if args.json {
                    let error = causes(e.chain());
                    let said = json!({ "schema": 1, "file": shown(path), "error": error });
                    print(&format!("{said}\n")).map_err(Into::into)
                } else {
                    Ok(())
                }
            }
        });
        trouble = trouble.take().or(told.err());
    });
    bar.finish_and_clear();
    match trouble {
        Some(e) if is_closed(&e) => return Ok(ExitCode::from(OUTPUT_CLOSED)),
        Some(e) => return Err(e),
        None => {}
    }
    if let Some(path) = &args.html {
        write_file(path, page.html())?;
    }
    Ok(ExitCode::from(if interrupt.is_set() { INTERRUPTED } else { status }))
}

/// Bytes of all files, where that can be known.
fn total(files: &[PathBuf], limit: u64) -> Option<u64> {
    let size = |path: &PathBuf| match std::fs::metadata(path) {
        Ok(m) if m.is_file() => Some(m.len().min(limit)),
        _ if limit < u64::MAX => Some(limit),
        _ => None,
    };
    files.iter().map(size).sum()
}

/// Reads a file to its end, its limit or an interrupt.
fn inspect(
    path: &Path,
    limit: u64,
    interrupt: &Interrupt,
    bar: &ProgressBar,
) -> anyhow::Result<Report> {
    if interrupt.is_set() {
        bail!("interrupted");
    }
    if limit == 0 {
        bail!("--limit 0: there is nothing to report on");
    }
    let mut input = Input::open(path, limit, interrupt)?;
    let (mut reader, mut inspector) = (Reader::new(), Inspector::new());
    let mut block = vec![0; BLOCK];
    let mut text = None;
    loop {
        let filled = input.fill(&mut block).context("cannot read on")?;
        let text = *text.get_or_insert_with(|| is_text(&block[..filled]));
        if filled == 0 {
            break;
        }
        reader.push(&block[..filled], &mut inspector).map_err(|e| unreadable(path, &e, text))?;
        bar.inc(filled as u64);
    }
    let format =
        reader.finish(&mut inspector).map_err(|e| unreadable(path, &e, text == Some(true)))?;
    let mut report = inspector.report(format, reader.bytes());
    if report.faults.total() > 0 && input.is_cut()? {
        report.faults.kinds.retain(|fault| fault.kind != FaultKind::Truncated);
    }
    Ok(report)
}

fn verdict(report: &Report, strict: bool) -> u8 {
    let broken = || {
        let buffers = report.buffers.iter().any(|b| {
            let full = |f: &towpath_media::inspect::FillReport| f.overflows > 0;
            full(&b.transport)
                || b.multiplex.as_ref().is_some_and(full)
                || b.elementary.as_ref().is_some_and(full)
                || b.main.as_ref().is_some_and(full)
                || b.underflows + b.starved > 0
        });
        buffers || report.checks.iter().any(|c| c.count > 0)
    };
    if report.faults.total() > 0 || strict && broken() { DAMAGED } else { 0 }
}

/// Prints a report and writes what was asked for.
fn tell(
    args: &InfoArgs,
    path: &Path,
    report: &Report,
    page: &mut Page,
    stem: &str,
) -> anyhow::Result<()> {
    let name = shown(path);
    if args.json {
        print(&format!("{}\n", json!({ "schema": 1, "file": name, "report": report })))?;
    } else {
        print(&format!("{}\n", text::report_text(&name, report)))?;
    }
    if args.svg.is_none() && args.html.is_none() {
        return Ok(());
    }
    let charts = charts::charts(report);
    if let Some(dir) = &args.svg {
        for (chart_name, chart) in &charts {
            write_file(&dir.join(format!("{stem}-{chart_name}.svg")), chart.svg())?;
        }
    }
    let mut section = Section::new(&name).text(&text::summary(report));
    section = section.charts(charts.iter().map(|c| &c.1));
    for (heading, table) in text::tables(report) {
        section = section.text(heading).table(&table);
    }
    page.push(&section);
    Ok(())
}
