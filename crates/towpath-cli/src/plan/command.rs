//! The command: its options, the work on each file, the exit status.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use towpath_media::Stop;
use towpath_media::plan::{Conventions, Video, Wanted};
use towpath_media::schedule::{self, Schedule, Scheme};
use towpath_media::trace::FrameRate;
use towpath_report::text::causes;
use towpath_wire::{ByteSize, Rate};

use super::aggregate;
use super::charts::{self, Named};
use super::curves::Curves;
use super::model::{Ask, answer};
use super::rows::Answer;
use super::source::{self, noted, summary};
use super::verify::{self, Verdict};
use crate::batch::{in_order, work_bar};
use crate::files::{FilesError, OUTPUT_CLOSED, not_among, print, shown, stem, write_file};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::outputs::{Outputs, is_closed};
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
rate. Rates, buffers and delays are rounded up and do it together as they are printed; --json has
them exactly. docs/video-schedules.md explains the schemes.

Examples:
  towpath plan film.ts
  towpath plan film.ts --startup 500ms --buffer 4MB
  towpath plan film.ts --rate 2Mbps --buffer 4MiB --scheme window-pcbr
  towpath plan trace.csv --fps 25 --startup '12 slots' --html plan.html
  towpath plan film.ts --buffer 1MB --scheme smooth --schedule film.sched
  towpath plan film.ts --verify film.sched
  towpath plan *.ts --startup 1s --json
  towpath plan film.ts --aggregate 20 --buffer 4MB

Ctrl-C ends it.

Exit status: 0 every file is planned for; 1 for some file no scheme (with --verify the schedule)
does what was asked, or it is damaged; 255 a file could not be read, or Towpath could not do it;
130 interrupted.")]
pub(crate) struct PlanArgs {
    /// Videos or frame traces; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// From the first bit to the first frame: 0.5s, 500ms, '12 slots' (frame times)
    #[arg(long, value_name = "DELAY", allow_hyphen_values = true, value_parser = units::delay)]
    startup: Option<Delay>,
    /// What the receiver can hold: 4MB (10⁶ bytes), 4MiB
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = units::size)]
    buffer: Option<ByteSize>,
    /// Highest rate: 2Mbps, 2Mbit/s, 250kB/s
    #[arg(long, value_name = "RATE", allow_hyphen_values = true, value_parser = units::rate)]
    rate: Option<Rate>,
    /// Only this scheme; may be repeated
    #[arg(long, value_name = "NAME", value_parser = scheme)]
    scheme: Vec<Scheme>,
    /// Frames per second, whatever the file says: 25, 29.97, 30000/1001
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = units::frame_rate)]
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
    /// Judge a schedule, as --schedule writes it, instead of planning: does it do, what does it
    /// take?
    #[arg(long, value_name = "SCHEDULE", conflicts_with_all = [
        "startup", "buffer", "rate", "scheme", "thesis", "aggregate", "schedule", "csv", "svg",
        "html",
    ])]
    verify: Option<PathBuf>,
    #[command(flatten)]
    outputs: Outputs,
}

fn scheme(name: &str) -> Result<Scheme, String> {
    name.parse().map_err(|()| {
        let known = Scheme::ALL.map(Scheme::name).join(", ");
        format!("no scheme {name:?}; there are {known}")
    })
}

/// What was computed for one file.
enum Done {
    Planned(Box<Planned>),
    Judged(Box<(Video, Verdict)>),
}

struct Planned {
    answer: Answer,
    charts: Vec<Named>,
    curves: Option<Curves>,
}

pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    if args.schedule.is_some() && (args.files.len() != 1 || args.scheme.len() != 1) {
        bail!("--schedule writes one schedule\nhint: give one file, and its scheme with --scheme");
    }
    for out in [args.schedule.as_deref(), args.outputs.page_file()] {
        not_among(out, &args.files)?;
    }
    args.outputs.prepare()?;
    let interrupt = Interrupt::new()?;
    let schedule = args.verify.as_deref().map(|path| verify::load(path, &interrupt)).transpose();
    if interrupt.is_set() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let schedule = schedule?;
    let drawn = args.outputs.want_charts() || args.outputs.want_tables();
    let pieces = 1 + if drawn { Curves::POINTS } else { 0 };
    let bar = work_bar(args.files.len() * pieces);
    let told = || bar.inc(1);
    let mut output = Output::new(args);
    in_order(
        &args.files,
        |path| match &schedule {
            Some(schedule) => judge(args, path, schedule, &interrupt),
            None => plan(args, path, &interrupt, &told),
        },
        |path, done| {
            // What an interrupt cut short is not told.
            if !interrupt.is_set() {
                bar.suspend(|| output.file(path, done));
            }
            bar.inc(1);
        },
    );
    bar.finish_and_clear();
    if interrupt.is_set() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    output.finish()
}

fn load(args: &PlanArgs, path: &Path, interrupt: &Interrupt) -> anyhow::Result<Video> {
    if interrupt.is_set() {
        bail!("interrupted");
    }
    let wanted = Wanted {
        frame_rate: if args.thesis { Some(FrameRate::THIRTY) } else { args.fps },
        pcr: args.pcr,
        program: args.program,
        bits: args.bits,
    };
    source::load(path, wanted, interrupt)
}

fn judge(
    args: &PlanArgs,
    path: &Path,
    schedule: &Schedule,
    interrupt: &Interrupt,
) -> anyhow::Result<Done> {
    let video = load(args, path, interrupt)?;
    let verdict = Verdict::of(&video.trace, schedule, Stop::when(interrupt.flag()));
    Ok(Done::Judged(Box::new((video, verdict))))
}

fn plan(
    args: &PlanArgs,
    path: &Path,
    interrupt: &Interrupt,
    told: &dyn Fn(),
) -> anyhow::Result<Done> {
    let video = load(args, path, interrupt)?;
    let ask = Ask {
        delay: args.startup,
        buffer: args.buffer,
        rate: args.rate,
        conventions: if args.thesis { Conventions::Thesis } else { Conventions::Exact },
    };
    let question = ask.of(&video.trace)?;
    let schemes = if args.scheme.is_empty() { &Scheme::ALL[..] } else { &args.scheme };
    let answer = answer(video, question, schemes, interrupt)?;
    let plots = args.outputs.want_charts();
    let curves =
        (plots || args.outputs.want_tables()).then(|| Curves::new(&answer, interrupt, told));
    let charts = match (&curves, plots) {
        (Some(curves), true) => charts::charts(&answer, curves, Stop::when(interrupt.flag())),
        _ => Vec::new(),
    };
    Ok(Done::Planned(Box::new(Planned { answer, charts, curves })))
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
            Ok(Done::Planned(planned)) => self.planned(path, *planned),
            Ok(Done::Judged(judged)) => self.judged(path, &judged.0, &judged.1),
            Err(e) => self.failed(path, &e),
        };
        self.trouble = self.trouble.take().or(told.err());
    }

    fn failed(&mut self, path: &Path, e: &anyhow::Error) -> anyhow::Result<()> {
        self.status = FAILED;
        eprintln!("error: {}: {}", shown(path), causes(e.chain()));
        if self.args.outputs.json {
            let object = json!({ "schema": 1, "file": shown(path), "error": causes(e.chain()) });
            print(&format!("{object}\n"))?;
        }
        Ok(())
    }

    /// What there is to say about a video whatever is asked of it.
    fn noted(&mut self, name: &str, video: &Video) {
        for note in &video.notes {
            eprintln!("note: {name}: {}", noted(*note));
        }
        if video.is_damaged() {
            self.status = self.status.max(INFEASIBLE);
        }
    }

    fn judged(&mut self, path: &Path, video: &Video, verdict: &Verdict) -> anyhow::Result<()> {
        let name = shown(path);
        self.noted(&name, video);
        if let Some(fault) = verdict.fault(video) {
            self.status = self.status.max(INFEASIBLE);
            eprintln!("error: {name}: {fault}");
        }
        print(&if self.args.outputs.json {
            format!("{}\n", verdict.json(&name, video))
        } else {
            format!("{name}: {}\n{}", summary(video), verdict.text(video))
        })?;
        Ok(())
    }

    fn planned(&mut self, path: &Path, planned: Planned) -> anyhow::Result<()> {
        let (args, name) = (self.args, shown(path));
        let Planned { answer, charts, curves } = planned;
        self.noted(&name, &answer.video);
        for (scheme, why) in answer.wrong() {
            self.status = FAILED;
            eprintln!("error: {name}: {scheme}: {why}");
        }
        if !answer.feasible() {
            self.status = self.status.max(INFEASIBLE);
            eprintln!("error: {name}: no scheme does this");
            if let Some(hint) = answer.hint() {
                eprintln!("hint: {hint}");
            }
        }
        if args.outputs.json {
            print(&format!("{}\n", answer.json(&name)))?;
        } else {
            let (whole, asked) = (summary(&answer.video), answer.asked());
            print(&format!("{name}: {whole}\n{asked}\n\n{}\n", answer.table().text()))?;
        }
        if let Some(out) = &args.schedule {
            let planned = answer.rows.first().and_then(|row| row.answer.as_ref().ok());
            if let Some(solved) = planned {
                write_file(out, schedule::emit(&solved.solution.schedule))?;
            }
        }
        let stem = stem(path, &mut self.stems);
        self.files(&stem, &answer, &charts, curves.as_ref())?;
        if args.outputs.page_file().is_some() {
            let section = Section::new(&name).text(&summary(&answer.video)).text(&answer.asked());
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
    ) -> Result<(), FilesError> {
        self.args.outputs.charts(|| {
            charts.iter().map(|named| (format!("{stem}-{}", named.name), &named.chart)).collect()
        })?;
        let Some(curves) = curves else { return Ok(()) };
        self.args.outputs.tables(|| {
            let tables = curves.tables(&answer.video.trace).into_iter();
            let tables = tables.map(|(name, table)| (format!("{stem}-{name}"), table));
            std::iter::once((format!("{stem}-plan"), answer.table())).chain(tables).collect()
        })
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
            let json = self.args.outputs.json;
            print(&if json { format!("{}\n", sum.json()) } else { sum.text() })?;
            self.args.outputs.charts(|| vec![("aggregate".to_string(), &sum.chart)])?;
            self.page.push(
                &Section::new("All streams on one link").lines(&sum.text()).charts([&sum.chart]),
            );
        }
        Ok(self.args.outputs.page(&self.page)?)
    }
}
