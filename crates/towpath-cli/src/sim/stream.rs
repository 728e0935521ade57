//! `sim stream`: video to a client with a processor, with and without feedback.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::json;
use towpath_media::receive::When;
use towpath_sim::stream::{ClientSpec, Clip, LinkModel, StreamOutcome, StreamSpec, run as run_one};
use towpath_wire::ByteSize;

use crate::batch::in_order;
use crate::cells::{count, words};
use crate::files::print;
use crate::outputs::Outputs;
use crate::plot::{Axis, Chart, Column, Page, Section, Shape, Table, Unit};
use crate::units;

/// Longest run.
const SECONDS_MAX: u64 = 100_000;

#[derive(Debug, Args)]
#[command(after_help = "\
Figures 2 to 4 of Hossain, Kang and Horst (1999), by the sender and the receiver that `towpath
stream` runs: a client whose processor decodes a little slower than the server sends. Its ring
fills; then datagrams wait in the kernel, which costs the processor more, and it shows fewer frames
than it could. Feedback after that (SLOWDOWN when the ring is full) swings; feedback before it, at
three quarters, keeps the rate. The costs' defaults are those at which the source's curves come
out; they stand for machines of 1996.

Examples:
  towpath sim stream --svg out/
  towpath sim stream --content mpeg1 --html report.html
  towpath sim stream --feedback before --loss 1 --jitter 20ms --json

Exit status: 0; 255 for errors.")]
pub(super) struct StreamArgs {
    /// When the client asks for less (default: all three, to be compared)
    #[arg(long, value_enum)]
    feedback: Vec<Feedback>,
    /// What is sent: 18 frames a second of 10 KB, or 9 in groups of I, P and B
    #[arg(long, value_enum, default_value_t = Content::Mjpeg)]
    content: Content,
    /// Decoding and showing a frame [default: 57.3ms, mpeg1 119ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    decode: Option<Duration>,
    /// Taking a datagram
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "100us")]
    take: Duration,
    /// Keeping a datagram in the kernel while the ring is full
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "2.97ms")]
    kernel: Duration,
    /// Bytes of the client's ring
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "1MiB")]
    ring: ByteSize,
    /// Least time on the way
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "1ms")]
    delay: Duration,
    /// Most that is added to it
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0.5ms")]
    jitter: Duration,
    /// Datagrams lost, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    loss: f64,
    /// When the server stops, in seconds
    #[arg(long, value_name = "S", default_value_t = 540)]
    stop: u64,
    /// When the run ends, in seconds
    #[arg(long, value_name = "S", default_value_t = 580)]
    end: u64,
    /// Feeds every random draw
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    outputs: Outputs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Feedback {
    Off,
    After,
    Before,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Content {
    Mjpeg,
    Mpeg1,
}

impl Feedback {
    const ALL: [Self; 3] = [Self::Off, Self::After, Self::Before];

    const fn when(self) -> When {
        match self {
            Self::Off => When::Off,
            Self::After => When::After,
            Self::Before => When::Before,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::After => "after",
            Self::Before => "before",
        }
    }
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn spec(args: &StreamArgs, feedback: Feedback) -> StreamSpec {
    let (clip, decode) = match args.content {
        Content::Mjpeg => (Clip::mjpeg(), Duration::from_micros(57_300)),
        Content::Mpeg1 => (Clip::mpeg1(), Duration::from_millis(119)),
    };
    StreamSpec {
        clip,
        client: ClientSpec {
            frame_us: us(args.decode.unwrap_or(decode)),
            take_us: us(args.take),
            kernel_us: us(args.kernel),
            ring_bytes: args.ring.as_bytes() as usize,
            kernel_bytes: 256 * 1024,
            start_bytes: 40 * 1024,
        },
        link: LinkModel {
            delay_us: us(args.delay),
            jitter_us: us(args.jitter),
            loss_ppm: (args.loss * 1e4).round() as u32,
        },
        feedback: feedback.when(),
        stop_s: args.stop,
        end_s: args.end,
        seed: args.seed,
    }
}

pub(super) fn run(args: &StreamArgs) -> anyhow::Result<ExitCode> {
    if !(0.0..=100.0).contains(&args.loss) {
        bail!("--loss {} % must be between 0 and 100", args.loss);
    }
    if args.end > SECONDS_MAX || args.stop > args.end {
        bail!(
            "--stop {} and --end {} must be in this order, at most {SECONDS_MAX}",
            args.stop,
            args.end
        );
    }
    if args.ring.as_bytes() < 64 * 1024 || args.ring.as_bytes() > 1 << 30 {
        bail!("--ring {} must be between 64KiB and 1GiB", args.ring);
    }
    args.outputs.prepare()?;
    let modes =
        if args.feedback.is_empty() { Feedback::ALL.to_vec() } else { args.feedback.clone() };
    let mut runs: Vec<(Feedback, StreamOutcome)> = Vec::new();
    in_order(
        &modes,
        |mode| run_one(&spec(args, *mode)),
        |mode, outcome| runs.push((*mode, outcome)),
    );
    tell(args, &runs)?;
    Ok(ExitCode::SUCCESS)
}

fn tell(args: &StreamArgs, runs: &[(Feedback, StreamOutcome)]) -> anyhow::Result<()> {
    if args.outputs.json {
        for (mode, outcome) in runs {
            let row = json!({ "schema": 1, "feedback": mode.name(), "outcome": outcome });
            print(&format!("{row}\n"))?;
        }
    } else {
        print(&summary(args, runs).text())?;
    }
    args.outputs.tables(|| {
        runs.iter()
            .map(|(mode, outcome)| (format!("stream-{}", mode.name()), curve(outcome)))
            .collect()
    })?;
    let charts: Vec<(String, Chart)> = if args.outputs.want_charts() {
        runs.iter().map(|(m, o)| (format!("stream-{}", m.name()), chart(*m, o))).collect()
    } else {
        Vec::new()
    };
    args.outputs
        .charts(|| charts.iter().map(|(name, chart)| (name.clone(), chart.clone())).collect())?;
    if args.outputs.page_file().is_some() {
        let mut page = Page::new("Video to a slow client", "By towpath sim stream.");
        let section = Section::new("Feedback off, after and before degradation");
        let section = section.table(&summary(args, runs));
        page.push(&section.charts(charts.iter().map(|(_, chart)| chart)));
        args.outputs.page(&page)?;
    }
    Ok(())
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn summary(args: &StreamArgs, runs: &[(Feedback, StreamOutcome)]) -> Table {
    let mut table = Table::new(&[
        Column::words("FEEDBACK", "feedback"),
        Column::figures("COLLAPSE s", "collapse_s"),
        Column::figures("SHOWN fps", "shown_fps_mean"),
        Column::figures("WORST s", "shown_fps_min"),
        Column::figures("SHOWN", "shown"),
        Column::figures("INCOMPLETE", "incomplete"),
        Column::figures("SPOILED", "spoiled"),
        Column::figures("DROPPED", "dropped"),
        Column::figures("SLOWDOWN", "slowdowns"),
    ]);
    for (mode, outcome) in runs {
        let until = outcome.shown_fps.len().min(args.stop as usize);
        let steady = &outcome.shown_fps[20.min(until)..until];
        let worst = steady.iter().copied().fold(f64::INFINITY, f64::min);
        let figure = |value: f64| (format!("{value:.1}"), format!("{value:.3}"));
        let collapse = outcome.collapse_s.map_or("-".into(), |s| s.to_string());
        let c = outcome.counters;
        table.push(vec![
            words(mode.name()),
            (collapse.clone(), collapse),
            figure(mean(steady)),
            figure(if worst.is_finite() { worst } else { 0.0 }),
            count(c.shown),
            count(c.incomplete),
            count(c.spoiled),
            count(c.dropped),
            count(outcome.asked.iter().filter(|(_, ask)| *ask == 0).count() as u64),
        ]);
    }
    table
}

fn curve(outcome: &StreamOutcome) -> Table {
    let mut table = Table::new(&[
        Column::figures("TIME s", "time_s"),
        Column::figures("SENT fps", "sent_fps"),
        Column::figures("SHOWN fps", "shown_fps"),
        Column::figures("RING B", "ring_bytes"),
    ]);
    let rates = outcome.sent_fps.iter().zip(&outcome.shown_fps);
    for (second, ((sent, shown), ring)) in rates.zip(&outcome.ring_bytes).enumerate() {
        let figure = |value: f64| (format!("{value:.2}"), format!("{value:.3}"));
        table.push(vec![count(second as u64 + 1), figure(*sent), figure(*shown), count(*ring)]);
    }
    table
}

fn chart(mode: Feedback, outcome: &StreamOutcome) -> Chart {
    // Five seconds at a time, as an eye sees it.
    let smooth = |values: &[f64]| {
        values.chunks(5).enumerate().map(|(k, v)| (k as f64 * 5.0, mean(v))).collect::<Vec<_>>()
    };
    let (x, y) = (Axis::new("time", Unit::Seconds), Axis::new("frames per second", Unit::Count));
    let caption = match mode {
        Feedback::Off => {
            "No feedback (the third source's Figure 2): when the ring is full the \
            kernel buffers, and the client shows less than it could until the server stops."
        }
        Feedback::After => "Feedback after degradation (Figure 3): full, slow, normal, full again.",
        Feedback::Before => {
            "Feedback before degradation (Figure 4): asked at three quarters of the \
            ring, the server makes room before anything suffers."
        }
    };
    let title = format!("Server and client, feedback {}", mode.name());
    Chart::new(title, x, y)
        .caption(caption)
        .with("server sends", Shape::Step, smooth(&outcome.sent_fps))
        .with("client shows", Shape::Step, smooth(&outcome.shown_fps))
}
