//! `farm`: one command over many inputs on all hosts, like a parallel `xargs`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use towpath::farm::{
    FarmError, FarmOptions, Form, InputError, ItemDone, Items, Outcome, Printer, Progress, Report,
    Separator, Sink, Steady, Template, run as run_farm,
};
use towpath::private::create_result;

/// Exit status when whoever read the output closed it: 128 + SIGPIPE.
const OUTPUT_CLOSED: u8 = 141;
/// Output beyond this is not left to wait for the next flush.
const BUFFERED_MAX: u64 = 32 * 1024;
/// How often progress is told where there is no terminal to draw a bar on.
const LINE_EVERY: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Placeholders: {} the item, {.} without extension, {/} its file name, {//} its directory, {/.} its
file name without extension, {#} its number. A command without any gets the item as its last
argument. No shell is involved; where one is wanted, hand it the item as an argument (see below).

Examples:
  towpath farm gzip -k ::: *.log                 one file after :::, or one line of input, per run
  find . -name '*.wav' -print0 | towpath farm -0 flac -s {} -o {.}.flac
  towpath farm -a list -k sh -c 'gzip -c \"$1\" | sha256sum' sh {} >sums
  towpath farm --joblog log --timeout 2m ./simulate --seed {} ::: 1 2 3 4
  towpath farm --joblog log --resume ./simulate --seed {} ::: 1 2 3 4    only what did not succeed

Every command has TOWPATH_SEQ (the item's number) and TOWPATH_HOST set, and of this environment
only what --env names. Its standard input is empty. If a host is lost, its items run again
elsewhere: a command may run more than once, but exactly one result of it counts.

Ctrl-C ends what runs and reports how far it came; a second one leaves at once.

Exit status: 0 all succeeded; 1-100 so many items failed; 101 more than 100 failed; 130
interrupted; 141 the output was closed; 255 Towpath itself could not do it.";

/// What `towpath farm` is given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FarmArgs {
    /// Items end with a NUL byte instead of a line feed
    #[arg(short = '0', long)]
    null: bool,
    /// Read the items from a file instead of standard input
    #[arg(short, long, value_name = "FILE")]
    arg_file: Option<PathBuf>,
    /// Run exactly so many at once on each host (default: as many as it has job slots)
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Use only this host: h2, 2, or its name; may be repeated
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// End an item that runs longer, such as 500ms, 30s, 2m or 1h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Run an item again up to so many times when its host is lost or refuses it
    #[arg(long, value_name = "N", default_value_t = 3)]
    retries: u32,
    /// Run a failed item again up to so many times
    #[arg(long, value_name = "N", default_value_t = 0)]
    retry_failed: u32,
    /// Write output in the order of the items, not as they finish
    #[arg(short, long)]
    keep_order: bool,
    /// Write a line about each finished item, as GNU parallel does
    #[arg(long, value_name = "FILE")]
    joblog: Option<PathBuf>,
    /// Leave out items that succeeded according to the job log; failed ones run again
    #[arg(long, requires = "joblog")]
    resume: bool,
    /// Write a report in JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write one JSON object per item, and the report as the last one
    #[arg(long, conflicts_with = "tag")]
    json: bool,
    /// Show a progress bar: `auto` does if standard error is a terminal
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    progress: When,
    /// Begin each line of output with the item and a tab
    #[arg(long)]
    tag: bool,
    /// Set a variable for every command, or pass on one of ours
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Working directory on the hosts (default: this one)
    #[arg(long, value_name = "DIR")]
    workdir: Option<OsString>,
    /// Print the commands, run nothing
    #[arg(long)]
    dry_run: bool,
    /// The command with its arguments, and perhaps `:::` and items
    // Without `allow_hyphen_values`, which would take `-j2` for the beginning of the command.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

/// Runs the farm through the first of the daemons at `sockets` that answers. Gives the exit
/// status; an error means 255.
pub(crate) fn run(args: &FarmArgs, sockets: &[PathBuf]) -> anyhow::Result<u8> {
    let options = options(args)?;
    if args.dry_run {
        return dry_run(&options);
    }
    // Before anything runs, so that a report that cannot be written costs no work.
    let report_file = match &args.report {
        Some(path) => Some(create_result(path).map_err(|e| report_error(path, &e))?),
        None => None,
    };
    let interrupt = crate::interrupt::flag()?;
    let mut screen = Screen {
        printer: Printer::new(
            form(args),
            Steady::new(io::stdout(), &interrupt),
            Steady::new(io::stderr(), &interrupt),
        ),
        meter: Meter::new(args.progress, options.items.len().into()),
        out_is_terminal: io::stdout().is_terminal(),
    };
    let Outcome { report, error } = run_farm(&options, sockets, &mut screen, &interrupt);
    let shown = screen.meter.finish();
    if let (Some(mut file), Some(path)) = (report_file, &args.report) {
        write_report(&mut file, &report).map_err(|e| report_error(path, &e))?;
    }
    if matches!(error, Some(FarmError::OutputClosed)) {
        return Ok(OUTPUT_CLOSED);
    }
    let printed = screen.printer.report(&report).and_then(|()| screen.printer.flush());
    if shown || report.failed + report.not_run + report.host_lost_reruns > 0 {
        eprintln!("{}", summary(&report));
    }
    match (error, printed) {
        // With its text only: the texts of its sources are in it.
        (Some(e), _) => Err(anyhow!("{e}")),
        (None, Err(e)) if e.kind() == io::ErrorKind::BrokenPipe => Ok(OUTPUT_CLOSED),
        (None, Err(e)) if e.kind() != io::ErrorKind::TimedOut => {
            Err(e).context("cannot write output")
        }
        (None, _) => Ok(report.exit_status()),
    }
}

fn form(args: &FarmArgs) -> Form {
    match (args.json, args.tag) {
        (true, _) => Form::Json,
        (_, true) => Form::Tagged,
        _ => Form::Plain,
    }
}

fn write_report(file: &mut File, report: &Report) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *file, report)?;
    file.write_all(b"\n")
}

fn report_error(path: &std::path::Path, e: &io::Error) -> anyhow::Error {
    anyhow!(
        "cannot write the report {}: {e}\nhint: give another file with --report",
        path.display()
    )
}

fn summary(r: &Report) -> String {
    let mut text = format!("{} of {} items succeeded", r.succeeded, r.items - r.skipped);
    for (count, what) in [
        (r.failed, "failed"),
        (r.not_run, "not run"),
        (r.skipped, "done before"),
        (r.host_lost_reruns, "ran again after a host was lost or refused them"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    if r.interrupted {
        text.push_str(", interrupted");
    }
    format!("{text}; {:.1} s, {:.1} items/s", r.elapsed_s, r.items_per_s)
}

fn options(args: &FarmArgs) -> anyhow::Result<FarmOptions> {
    let bytes = |s: &OsString| s.as_bytes().to_vec();
    let split = args.command.iter().position(|word| word == ":::");
    let (command, listed) = match split {
        Some(at) => (&args.command[..at], Some(&args.command[at + 1..])),
        None => (&args.command[..], None),
    };
    let template = Template::new(&command.iter().map(bytes).collect::<Vec<_>>())?;
    let workdir = match &args.workdir {
        Some(dir) => dir.clone(),
        None => std::env::current_dir().context("this directory")?.into_os_string(),
    };
    Ok(FarmOptions {
        template,
        items: items(args, listed)?,
        hosts: args.host.clone(),
        jobs: args.jobs,
        timeout: args.timeout,
        retries: args.retries,
        retry_failed: args.retry_failed,
        keep_order: args.keep_order,
        joblog: args.joblog.clone(),
        resume: args.resume,
        env: args.env.iter().map(variable).collect::<anyhow::Result<_>>()?,
        workdir: workdir.into_vec(),
    })
}

fn variable(setting: &OsString) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let bytes = setting.as_bytes();
    if let Some(at) = bytes.iter().position(|b| *b == b'=') {
        return Ok((bytes[..at].to_vec(), bytes[at + 1..].to_vec()));
    }
    match std::env::var_os(setting) {
        Some(value) => Ok((bytes.to_vec(), value.into_vec())),
        None => bail!(
            "--env {name}: not set here\nhint: set it, or give --env {name}=VALUE",
            name = setting.display()
        ),
    }
}

fn items(args: &FarmArgs, listed: Option<&[OsString]>) -> anyhow::Result<Items> {
    let separator = if args.null { Separator::Nul } else { Separator::Line };
    match (listed, &args.arg_file) {
        (Some(_), Some(_)) => {
            bail!("items both after ::: and in --arg-file\nhint: leave one of the two out")
        }
        (Some(listed), None) => {
            let mut items = Items::default();
            for item in listed {
                items.push(item.as_bytes())?;
            }
            Ok(items)
        }
        (None, Some(path)) => {
            let name = path.display().to_string();
            let file =
                File::open(path).map_err(|os| InputError::Read { name: name.clone(), os })?;
            Ok(Items::read(&mut BufReader::new(file), &name, separator)?)
        }
        (None, None) => {
            if io::stdin().is_terminal() {
                eprintln!("reading the items from the terminal; end them with Ctrl-D");
            }
            Ok(Items::read(&mut io::stdin().lock(), "standard input", separator)?)
        }
    }
}

fn dry_run(options: &FarmOptions) -> anyhow::Result<u8> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut print = || -> io::Result<()> {
        for index in 0..options.items.len() {
            let item = options.items.at(index);
            out.write_all(&options.template.command_line(item, u64::from(index) + 1))?;
            out.write_all(b"\n")?;
        }
        out.flush()
    };
    match print() {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(OUTPUT_CLOSED),
        other => other.map(|()| 0).context("cannot write output"),
    }
}

/// Parses `500ms`, `30s`, `2m`, `1.5h`; a bare number is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_s = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("unknown unit {unit:?}; known are ms, s, m and h")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("{digits:?} is not a number"))?;
    let seconds = number * unit_s;
    // What the daemon counts in milliseconds of 32 bits.
    if (0.001..=4_000_000.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("{text} is not between 1ms and 1111h"))
    }
}

/// Standard output and error with the progress between them.
struct Screen<'a> {
    printer: Printer<Steady<'a, io::Stdout>, Steady<'a, io::Stderr>>,
    meter: Meter,
    out_is_terminal: bool,
}

impl Sink for Screen<'_> {
    fn item(&mut self, done: &ItemDone<'_>) -> io::Result<()> {
        let Self { printer, meter, .. } = self;
        if done.output_bytes() <= BUFFERED_MAX {
            return printer.item(done);
        }
        meter.around(|| printer.item(done))
    }

    fn flush(&mut self) -> io::Result<()> {
        let Self { printer, meter, out_is_terminal } = self;
        let on_terminal =
            printer.err.buffered() > 0 || *out_is_terminal && printer.out.buffered() > 0;
        if on_terminal { meter.around(|| printer.flush()) } else { printer.flush() }
    }

    fn warn(&mut self, text: &str) {
        self.meter.around(|| eprintln!("warning: {text}"));
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.meter.update(progress);
    }
}

/// How far it is, for people.
enum Meter {
    Silent,
    Bar(ProgressBar),
    /// Where there is no terminal: a line now and then.
    Lines {
        begin: Instant,
        next: Instant,
    },
}

impl Meter {
    fn new(when: When, total: u64) -> Self {
        let terminal = io::stderr().is_terminal();
        match when {
            When::Never => Self::Silent,
            When::Auto if !terminal => Self::Silent,
            When::Always if !terminal => {
                let now = Instant::now();
                Self::Lines { begin: now, next: now + LINE_EVERY }
            }
            When::Auto | When::Always => {
                let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
                let template = "{wide_bar} {pos}/{len}  {rate}, {eta} left{msg}";
                if let Ok(style) = ProgressStyle::with_template(template) {
                    bar.set_style(style.with_key("rate", rate));
                }
                Self::Bar(bar)
            }
        }
    }

    /// Does something that writes to the terminal.
    fn around<T>(&self, write: impl FnOnce() -> T) -> T {
        match self {
            Self::Bar(bar) => bar.suspend(write),
            Self::Silent | Self::Lines { .. } => write(),
        }
    }

    fn update(&mut self, progress: &Progress<'_>) {
        match self {
            Self::Silent => {}
            Self::Bar(bar) => {
                bar.set_length(progress.total);
                bar.set_position(progress.done);
                bar.set_message(details(progress));
            }
            Self::Lines { begin, next } => {
                let now = Instant::now();
                if now >= *next {
                    *next = now + LINE_EVERY;
                    eprintln!("{}", line(progress, now.duration_since(*begin)));
                }
            }
        }
    }

    /// Takes the bar away; true when there was any progress to be seen.
    fn finish(&self) -> bool {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
        !matches!(self, Self::Silent)
    }
}

fn rate(state: &ProgressState, to: &mut dyn std::fmt::Write) {
    let _ = write!(to, "{:.0} items/s", state.per_sec());
}

fn line(progress: &Progress<'_>, elapsed: Duration) -> String {
    let rate = progress.done as f64 / elapsed.as_secs_f64().max(1e-9);
    let left = (progress.total - progress.done) as f64 / rate.max(1e-9);
    let left = if progress.done == 0 { "?".to_string() } else { format!("{left:.0} s") };
    let (done, total) = (progress.done, progress.total);
    format!("{done}/{total}  {rate:.1} items/s, {left} left{}", details(progress))
}

/// Failures, and what each host has in flight.
fn details(progress: &Progress<'_>) -> String {
    const HOSTS_SHOWN: usize = 8;
    let mut text = String::new();
    if progress.failed > 0 {
        let _ = write!(text, ", {} failed", progress.failed);
    }
    for (name, in_flight) in progress.hosts.iter().take(HOSTS_SHOWN) {
        let _ = write!(text, "  {name}:{in_flight}");
    }
    if progress.hosts.len() > HOSTS_SHOWN {
        text.push_str("  …");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        farm: FarmArgs,
    }

    fn parse(words: &[&str]) -> Result<FarmOptions, String> {
        let cli = Cli::try_parse_from([&["farm"], words].concat()).map_err(|e| e.to_string())?;
        options(&cli.farm).map_err(|e| e.to_string())
    }

    fn listed(options: &FarmOptions) -> Vec<String> {
        let text = |i| String::from_utf8_lossy(options.items.at(i)).into_owned();
        (0..options.items.len()).map(text).collect()
    }

    #[test]
    fn options_of_the_command_are_its_own() {
        let farm = parse(&["-k", "-j2", "gzip", "-k", "-0", "{}", ":::", "a", "-b"]).unwrap();
        assert_eq!(farm.template.expand(b"x", 1), [&b"gzip"[..], b"-k", b"-0", b"x"]);
        assert_eq!(listed(&farm), ["a", "-b"]);
        assert_eq!((farm.keep_order, farm.jobs), (true, Some(2)));
        let dashes = parse(&["--", "sh", "-c", "x", ":::"]).unwrap();
        assert_eq!(dashes.template.expand(b"i", 1), [&b"sh"[..], b"-c", b"x", b"i"]);
        assert!(dashes.items.is_empty());
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(duration("1.5h"), Ok(Duration::from_mins(90)));
        assert_eq!(duration("30"), Ok(Duration::from_secs(30)));
        for bad in ["", "s", "-1s", "0", "3d", "nan", "9999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn mistakes_have_hints() {
        for (words, part) in [
            (&["x", ":::", "a\0b"][..], "hint:"),
            (&["-a", "/nonexistent", "x"], "/nonexistent"),
            (&["-a", "/etc/passwd", "x", ":::", "a"], "hint:"),
            (&["--env", "TOWPATH_NOT_SET", "x", ":::"], "hint:"),
            (&["--resume", "x", ":::"], "--joblog"),
            (&[":::", "a"], "no command"),
        ] {
            let err = parse(words).unwrap_err();
            assert!(err.contains(part), "{words:?}: {err}");
        }
    }

    #[test]
    fn a_variable_is_set_or_passed_on() {
        let pair = |s: &str| variable(&OsString::from(s)).unwrap();
        assert_eq!(pair("A=b=c"), (b"A".to_vec(), b"b=c".to_vec()));
        assert_eq!(pair("PATH").0, b"PATH");
    }

    #[test]
    fn a_line_tells_rate_and_time_left() {
        let progress =
            Progress { total: 100, done: 50, failed: 1, hosts: vec![("n1", 3), ("n2", 4)] };
        let text = line(&progress, Duration::from_secs(5));
        assert_eq!(text, "50/100  10.0 items/s, 5 s left, 1 failed  n1:3  n2:4");
    }
}
