//! The command line: which application, how many tasks, where its page goes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::demos::{self, ChemistryArgs, FractalArgs, RadarArgs, TornadoArgs};
use crate::examples::{self, ExampleArgs};
use crate::exchange::machine::Machine;
use crate::exchange::record::{Recorder, thread_ns};
use crate::exchange::{Exchange, ExchangeError, local};
use crate::field::{self, FieldArgs};
use crate::jpeg::{self, JpegArgs};
use crate::kernels::{self, KernelArgs};
use crate::options::{self, MarketArgs, OptionsArgs};
use crate::rates::{self, RatesArgs};
use crate::report::Report;
use crate::steering::{SteerArgs, steer};
use crate::tracker::{self, TrackerArgs};

/// Tasks of this process, where no virtual machine runs them.
const TASKS_MAX: u16 = 256;

const EXAMPLES: &str = "\
Examples:
  towpath demo options                           in a virtual machine if one is up
  towpath run -n 4 -- towpath-apps market        the same program as a job of four tasks
  towpath-apps field --tasks 2 --out field       two threads; a page in field/index.html
  towpath-apps tracker --tasks 4 --record t4     what each task did, for `towpath sim job t4`";

/// Applications of Towpath: each runs as the tasks of a job, or as threads of this process.
#[derive(Debug, Parser)]
#[command(name = "towpath-apps", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    /// Threads of this process, where no job started it
    #[arg(long, global = true, default_value_t = 2, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(TASKS_MAX)))]
    tasks: u16,
    /// Write a page with pictures (index.html) and the data to this directory
    #[arg(long, global = true, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write what each task computed, sent and received to this file, for `towpath sim job`
    #[arg(long, global = true, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(subcommand)]
    application: Application,
}

#[derive(Debug, Subcommand)]
enum Application {
    /// Price one option by all models, and draw its surface
    Options(OptionsArgs),
    /// Price a market of many trades, and find its volatility day by day
    Market(MarketArgs),
    /// Ask a database that `market --database` wrote
    #[cfg(feature = "database")]
    Query(options::QueryArgs),
    /// Scatter a plane wave by two loaded slots, and draw the field
    Field(FieldArgs),
    /// Track many targets by two sensors
    Tracker(TrackerArgs),
    /// Compress and decompress a picture in five stages
    Jpeg(JpegArgs),
    /// Run one of the eight kernels of the suite, and check its answer
    Kernel(KernelArgs),
    /// Run one of the smaller examples
    Example(ExampleArgs),
    /// Draw Mandelbrot's set
    Fractal(FractalArgs),
    /// Follow a tornado: wind, pressure, temperature
    Tornado(TornadoArgs),
    /// Let two substances drift, spread and react
    Chemistry(ChemistryArgs),
    /// Compute the radar cross section of cylinders
    Radar(RadarArgs),
    /// Measure the inner loops on one core
    Rates(RatesArgs),
    /// Compute a surface again and again while its parameters change
    Steer(SteerArgs),
}

impl Application {
    /// In records.
    fn name(&self) -> String {
        match self {
            Self::Options(_) => "options".into(),
            Self::Market(_) => "market".into(),
            #[cfg(feature = "database")]
            Self::Query(_) => "query".into(),
            Self::Field(_) => "field".into(),
            Self::Tracker(args) => format!("tracker {}", args.sharing()),
            Self::Jpeg(_) => "jpeg".into(),
            Self::Kernel(args) => format!("kernel {}", args.kernel()),
            Self::Example(_) => "example".into(),
            Self::Fractal(_) => "fractal".into(),
            Self::Tornado(_) => "tornado".into(),
            Self::Chemistry(_) => "chemistry".into(),
            Self::Radar(_) => "radar".into(),
            Self::Rates(_) => "rates".into(),
            Self::Steer(_) => "steer".into(),
        }
    }

    fn run(&self, exchange: &mut dyn Exchange) -> anyhow::Result<Option<Report>> {
        match self {
            Self::Options(args) => options::options(exchange, args),
            Self::Market(args) => options::market(exchange, args),
            #[cfg(feature = "database")]
            Self::Query(args) => options::query(exchange, args),
            Self::Field(args) => field::field(exchange, args),
            Self::Tracker(args) => tracker::tracker(exchange, args),
            Self::Jpeg(args) => jpeg::jpeg(exchange, args),
            Self::Kernel(args) => kernels::kernel(exchange, args),
            Self::Example(args) => examples::example(exchange, args),
            Self::Fractal(args) => demos::fractal(exchange, args),
            Self::Tornado(args) => demos::tornado(exchange, args),
            Self::Chemistry(args) => demos::chemistry(exchange, args),
            Self::Radar(args) => demos::radar(exchange, args),
            Self::Rates(args) => rates::rates(exchange, args),
            Self::Steer(args) => steer(exchange, args),
        }
    }
}

pub(crate) fn run() -> ExitCode {
    match try_run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            towpath_report::files::tell(&format!(
                "error: {}",
                towpath_report::text::causes(error.chain())
            ));
            ExitCode::FAILURE
        }
    }
}

fn try_run(cli: &Cli) -> anyhow::Result<()> {
    if let Some(mut machine) = Machine::enrol("towpath-apps")? {
        let done = one(cli, &mut machine)?;
        machine.leave()?;
        return done.show(cli);
    }
    let all = local::run(usize::from(cli.tasks), |exchange| one(cli, exchange));
    let (mut reports, mut errors) = (Vec::new(), Vec::new());
    for outcome in all {
        match outcome {
            Ok(done) => reports.push(done),
            Err(error) => errors.push(error),
        }
    }
    // That another task ended is what followed from the cause.
    errors.sort_by_key(|error| matches!(error.downcast_ref(), Some(ExchangeError::Ended { .. })));
    match errors.into_iter().next() {
        Some(cause) => Err(cause),
        None => reports.iter().try_for_each(|done| done.show(cli)),
    }
}

/// What one task has to show; most have nothing.
struct Done {
    report: Option<Report>,
    /// What all did; or why there is no record. The answer is none the worse for it.
    record: anyhow::Result<Option<String>>,
}

/// One task's part of an application.
fn one(cli: &Cli, exchange: &mut dyn Exchange) -> anyhow::Result<Done> {
    if cli.record.is_none() {
        return Ok(Done { report: cli.application.run(exchange)?, record: Ok(None) });
    }
    let mut recorder = Recorder::new(exchange, thread_ns);
    let report = cli.application.run(&mut recorder)?;
    Ok(Done { report, record: recorder.finish(&cli.application.name()) })
}

impl Done {
    fn show(&self, cli: &Cli) -> anyhow::Result<()> {
        if let Some(report) = &self.report {
            report.show(cli.out.as_deref())?;
        }
        let Some(path) = &cli.record else { return Ok(()) };
        match &self.record {
            Ok(None) => Ok(()),
            Ok(Some(text)) => Ok(towpath_report::files::write_file(path, text)?),
            Err(error) => anyhow::bail!("no record: {error:#}"),
        }
    }
}
