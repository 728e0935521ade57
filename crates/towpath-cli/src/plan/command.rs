//! The command: its options, the work on each file, the exit status.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use towpath_media::plan::Conventions;
use towpath_media::schedule::{self, Scheme};
use towpath_media::trace::FrameRate;
use towpath_wire::{ByteSize, Rate};

use super::aggregate;
use super::charts::{self, Named};
use super::curves::Curves;
use super::model::{Ask, Question, answer};
use super::rows::Answer;
use super::source::{self, Wanted};
use crate::batch::{in_order, work_bar};
use crate::files::{
    INTERRUPTED, OUTPUT_CLOSED, is_closed, make_dir, not_among, print, shown, stem, write_file,
};
use crate::plot::{Page, Section};
use crate::units::{self, Delay};

/// Exit status where no scheme does what was asked, or a file is damaged.
const INFEASIBLE: u8 = 1;
/// Exit status where a file could not be planned for at all.
const FAILED: u8 = 255;

#[derive(Debug, Args)]
#[command(after_help = "\
A file is a video (see `towpath media info`) or a frame trace as text: CSV with a column `bytes`,
the four columns of Fitzek and Reisslein's library, .gdf, or a list of sizes.

Of rate, buffer and start-up delay: two given, the third is computed; a delay alone (1 s where
nothing is given) asks for the least rate and the buffer that goes with it, a rate alone for the
least delay, a buffer alone for the least rate at 1 s; with all three, each scheme is judged. The
delay counts from the first bit sent to the first frame taken out of the buffer.

Columns: × LEAST RATE is the peak over the least that any schedule could have with the buffer and
delay asked for; × LEAST BUFFER and + LEAST DELAY compare with the least at the scheme's own peak
rate. docs/video-schedules.md explains the schemes.

Examples:
  towpath plan film.ts
  towpath plan film.ts --startup 500ms --buffer 4MB
  towpath plan film.ts --rate 2Mbps --buffer 4MiB --scheme window-pcbr
  towpath plan trace.csv --fps 25 --startup '12 slots' --html plan.html
  towpath plan film.ts --buffer 1MB --scheme smooth --schedule film.sched
  towpath plan *.ts --startup 1s --json
  towpath plan film.ts --aggregate 20 --buffer 4MB

Exit status: 0 every file is planned for; 1 for some file no scheme does what was asked, or it is
damaged; 255 a file could not be read, or Towpath could not do it; 130 interrupted.")]
pub(crate) struct PlanArgs {
    /// Videos or frame traces; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// From the first bit to the first frame: 0.5s, 500ms, '12 slots' (frame times)
    #[arg(long, value_name = "DELAY", value_parser = units::delay)]
    startup: Option<Delay>,
    /// What the receiver can hold: 4MB (10⁶ bytes), 4MiB
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    buffer: Option<ByteSize>,
    /// Highest rate: 2Mbps, 2Mbit/s, 250kB/s
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    rate: Option<Rate>,
    /// Only this scheme; may be repeated
    #[arg(long, value_name = "NAME", value_parser = scheme)]
    scheme: Vec<Scheme>,
    /// Frames per second, whatever the file says: 25, 29.97, 30000/1001
    #[arg(long, value_name = "N", value_parser = units::frame_rate)]
    fps: Option<FrameRate>,
    /// Plan for all bytes between clock references (PCR) instead of video frames
    #[arg(long)]
    pcr: bool,
    /// The program of a transport stream that counts
    #[arg(long, value_name = "N")]
    program: Option<u16>,
    /// Lists of nothing but sizes hold bits, not bytes
    #[arg(long)]
    bits: bool,
    /// Compute as the first source did: 30 frames per second, its way to count buffers (--buffer
    /// is that of the curves)
    #[arg(long, conflicts_with_all = ["pcr", "fps", "rate", "schedule", "aggregate"])]
    thesis: bool,
    /// So many streams on one link, evenly staggered, taking the files in turn
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    aggregate: Option<u32>,
    /// Write a schedule that a sender can follow (one file, one --scheme)
    #[arg(long, value_name = "OUT")]
    schedule: Option<PathBuf>,
    /// Write tables and curves (CSV) into a directory
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Write pictures (SVG) into a directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write a page with all tables and pictures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print one JSON object per file
    #[arg(long)]
    json: bool,
}

fn scheme(name: &str) -> Result<Scheme, String> {
    name.parse().map_err(|()| {
        let known = Scheme::ALL.map(Scheme::name).join(", ");
        format!("no scheme {name:?}; there are {known}")
    })
}

/// What was computed for one file.
struct Done {
    answer: Answer,
    charts: Vec<Named>,
    curves: Option<Curves>,
}

pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    if args.schedule.is_some() && (args.files.len() != 1 || args.scheme.len() != 1) {
        bail!("--schedule writes one schedule\nhint: give one file, and its scheme with --scheme");
    }
    for out in [&args.schedule, &args.html] {
        not_among(out.as_deref(), &args.files)?;
    }
    for dir in [&args.csv, &args.svg].into_iter().flatten() {
        make_dir(dir)?;
    }
    let interrupt = crate::farm::interrupt_flag()?;
    let drawn = args.svg.is_some() || args.html.is_some() || args.csv.is_some();
    let pieces = 1 + if drawn { Curves::POINTS } else { 0 };
    let bar = work_bar(args.files.len() * pieces);
    let told = || bar.inc(1);
    let mut output = Output::new(args);
    in_order(
        &args.files,
        |path| plan(args, path, &interrupt, &told),
        |path, done| {
            bar.suspend(|| output.file(path, done));
            bar.inc(1);
        },
    );
    bar.finish_and_clear();
    let status = output.finish()?;
    Ok(if interrupt.load(Ordering::Relaxed) { ExitCode::from(INTERRUPTED) } else { status })
}

fn plan(
    args: &PlanArgs,
    path: &Path,
    interrupt: &AtomicBool,
    told: &dyn Fn(),
) -> anyhow::Result<Done> {
    if interrupt.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    let wanted = Wanted {
        frame_rate: if args.thesis { Some(FrameRate::THIRTY) } else { args.fps },
        pcr: args.pcr,
        program: args.program,
        bits: args.bits,
    };
    let video = source::load(path, wanted, interrupt)?;
    let ask = Ask {
        delay: args.startup,
        buffer: args.buffer,
        rate: args.rate,
        conventions: if args.thesis { Conventions::Thesis } else { Conventions::Exact },
    };
    let question = Question::new(&video.trace, &ask)?;
    let schemes = if args.scheme.is_empty() { &Scheme::ALL[..] } else { &args.scheme };
    let answer = answer(video, question, schemes);
    let plots = args.svg.is_some() || args.html.is_some();
    let curves = (plots || args.csv.is_some()).then(|| Curves::new(&answer, interrupt, told));
    let charts = match (&curves, plots) {
        (Some(curves), true) => charts::charts(&answer, curves),
        _ => Vec::new(),
    };
    Ok(Done { answer, charts, curves })
}

/// Where results go, and how it went so far.
struct Output<'a> {
    args: &'a PlanArgs,
    page: Page,
    stems: Vec<String>,
    status: u8,
    trouble: Option<anyhow::Error>,
    answers: Vec<Answer>,
}

impl<'a> Output<'a> {
    fn new(args: &'a PlanArgs) -> Self {
        let lead = "What rate, what buffer and what wait each video needs, by towpath plan.";
        let page = Page::new("Delivery plan", lead);
        Self { args, page, stems: Vec::new(), status: 0, trouble: None, answers: Vec::new() }
    }

    fn file(&mut self, path: &Path, done: anyhow::Result<Done>) {
        let told = match done {
            Ok(done) => self.planned(path, done),
            Err(e) => self.failed(path, &e),
        };
        self.trouble = self.trouble.take().or(told.err());
    }

    fn failed(&mut self, path: &Path, e: &anyhow::Error) -> anyhow::Result<()> {
        self.status = FAILED;
        eprintln!("error: {}: {e:#}", shown(path));
        if self.args.json {
            let object = json!({ "schema": 1, "file": shown(path), "error": format!("{e:#}") });
            print(&format!("{object}\n"))?;
        }
        Ok(())
    }

    fn planned(&mut self, path: &Path, done: Done) -> anyhow::Result<()> {
        let (args, name) = (self.args, shown(path));
        let Done { answer, charts, curves } = done;
        for note in &answer.video.notes {
            eprintln!("note: {name}: {note}");
        }
        if answer.video.damaged || !answer.feasible() {
            self.status = self.status.max(INFEASIBLE);
        }
        if !answer.feasible() {
            eprintln!("error: {name}: no scheme does this");
            if let Some(hint) = answer.hint() {
                eprintln!("hint: {hint}");
            }
        }
        if args.json {
            print(&format!("{}\n", answer.json(&name)))?;
        } else {
            let (summary, asked) = (answer.summary(), answer.asked());
            print(&format!("{name}: {summary}\n{asked}\n\n{}\n", answer.table().text()))?;
        }
        if let Some(out) = &args.schedule {
            let planned = answer.rows.first().and_then(|row| row.answer.as_ref().ok());
            if let Some(solution) = planned {
                write_file(out, &schedule::emit(&solution.schedule))?;
            }
        }
        let stem = stem(path, &mut self.stems);
        self.files(&stem, &answer, &charts, curves.as_ref())?;
        if args.html.is_some() {
            let section = Section::new(&name).text(&answer.summary()).text(&answer.asked());
            let section = section.table(&answer.table());
            self.page.push(&section.charts(charts.iter().map(|c| &c.chart)));
        }
        if args.aggregate.is_some() {
            self.answers.push(answer);
        }
        Ok(())
    }

    fn files(
        &self,
        stem: &str,
        answer: &Answer,
        charts: &[Named],
        curves: Option<&Curves>,
    ) -> anyhow::Result<()> {
        if let Some(dir) = &self.args.svg {
            for named in charts {
                write_file(&dir.join(format!("{stem}-{}.svg", named.name)), &named.chart.svg())?;
            }
        }
        if let (Some(dir), Some(curves)) = (&self.args.csv, curves) {
            write_file(&dir.join(format!("{stem}-plan.csv")), &answer.table().csv())?;
            for (name, table) in curves.tables(&answer.video.trace) {
                write_file(&dir.join(format!("{stem}-{name}.csv")), &table.csv())?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<ExitCode> {
        let told = self.last();
        match self.trouble.take().or(told.err()) {
            Some(e) if is_closed(&e) => Ok(ExitCode::from(OUTPUT_CLOSED)),
            Some(e) => Err(e),
            None => Ok(ExitCode::from(self.status)),
        }
    }

    /// What is said about all files together.
    fn last(&mut self) -> anyhow::Result<()> {
        if let (Some(streams), false) = (self.args.aggregate, self.answers.is_empty()) {
            let sum = aggregate::of(&self.answers, streams).context("--aggregate")?;
            print(&if self.args.json { format!("{}\n", sum.json()) } else { sum.text() })?;
            if let Some(dir) = &self.args.svg {
                write_file(&dir.join("aggregate.svg"), &sum.chart.svg())?;
            }
            self.page.push(
                &Section::new("All streams on one link").lines(&sum.text()).charts([&sum.chart]),
            );
        }
        if let Some(path) = &self.args.html {
            write_file(path, &self.page.html())?;
        }
        Ok(())
    }
}
