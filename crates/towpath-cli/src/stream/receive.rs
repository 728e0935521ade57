//! Into a file or a pipe, on to an address, or judged.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::json;
use towpath::pacing::{Ended, Received, Reception};
use towpath_media::inspect::{Inspector, Report};
use towpath_media::read::{Format, Reader};
use towpath_media::receive::{
    ArrivalReport, Errors, Framing, PlayoutConfig, ReceiveConfig, ReceiveCounters, When,
};

use super::command::{CheckArgs, From, PlayArgs, RecordArgs};
use crate::files::{FilesError, shown};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::units::size_text;
use crate::words::counted;

/// Something was lost, or a rule broken.
const LOSS: u8 = 1;
/// How often the live line is drawn.
const LIVE: Duration = Duration::from_millis(500);

/// What came passes on its way to the file.
struct Verifying {
    out: Box<dyn Write + Send>,
    check: Option<(Reader, Inspector)>,
}

impl Write for Verifying {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        if let Some((reader, inspector)) = &mut self.check {
            // Of a given format nothing is unreadable.
            let _ = reader.push(&bytes[..n], inspector);
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

pub(super) fn record(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::heeded()?;
    let name = shown(&args.out);
    let out: Box<dyn Write + Send> = if args.out.as_os_str() == "-" {
        let out = io::stdout().as_fd().try_clone_to_owned().context("no standard output")?;
        Box::new(File::from(out))
    } else {
        let file = File::create(&args.out).with_context(|| format!("cannot write {name}"))?;
        Box::new(BufWriter::with_capacity(1 << 16, file))
    };
    let check = args.verify.then(|| (Reader::with_format(Format::Ts188), Inspector::new()));
    let mut through = Verifying { out, check };
    let config = ReceiveConfig {
        framing: if args.from.at.rtp { Framing::Rtp } else { Framing::Either },
        capacity: args.buffer.as_bytes() as usize,
        start: args.start.as_bytes() as usize,
        feedback: args.feedback.when(),
        ..ReceiveConfig::default()
    };
    let received = receive(&args.from, Received::written(config), &mut through, &interrupt)?;
    let report = through.check.take().map(|(mut reader, mut inspector)| {
        let _ = reader.finish(&mut inspector);
        inspector.report(Format::Ts188, reader.bytes())
    });
    let broken = report.as_ref().map_or(0, broken);
    if args.from.json {
        let Outcome { counters, strangers, .. } = &received;
        let said = json!({
            "schema": 1, "received": counters, "strangers": strangers, "report": report
        });
        tell_json(&args.out, &said)?;
    } else {
        tell(&received.counters);
        if report.is_some() {
            eprintln!(
                "{} found in what came (towpath media info shows them)",
                counted(broken, "violation")
            );
        }
    }
    Ok(received.code(broken > 0))
}

/// The object goes where the stream does not.
fn tell_json(out: &std::path::Path, said: &serde_json::Value) -> Result<(), FilesError> {
    if out.as_os_str() == "-" {
        eprintln!("{said}");
        Ok(())
    } else {
        crate::files::print(&format!("{said}\n"))
    }
}

/// Violations of TR 101 290, and faults.
fn broken(report: &Report) -> u64 {
    report.faults.total() + report.checks.iter().map(|check| check.count).sum::<u64>()
}

pub(super) fn play(args: &PlayArgs) -> anyhow::Result<ExitCode> {
    if args.to.rtp {
        bail!("{}: what is played out goes to udp:// addresses", args.to.at);
    }
    let interrupt = Interrupt::heeded()?;
    let receive_config = ReceiveConfig {
        framing: if args.from.at.rtp { Framing::Rtp } else { Framing::Either },
        capacity: 8 << 20,
        feedback: When::Off,
        ..ReceiveConfig::default()
    };
    let config = PlayoutConfig { receive: receive_config, delay: args.delay };
    let received =
        receive(&args.from, Received::sent(config, args.to.at), &mut io::sink(), &interrupt)?;
    if args.from.json {
        crate::files::print(&format!(
            "{}\n",
            json!({ "schema": 1, "received": received.counters })
        ))?;
    } else {
        tell(&received.counters);
    }
    Ok(received.code(false))
}

pub(super) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::heeded()?;
    let what = Received::Judged(Box::default());
    let received = receive(&args.from, what, &mut io::sink(), &interrupt)?;
    let report = received.arrivals.context("nothing was judged")?;
    if args.from.json {
        crate::files::print(&format!("{}\n", json!({ "schema": 1, "arrivals": report })))?;
    } else {
        show(&report)?;
    }
    Ok(if interrupt.is_set() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

fn show(report: &ArrivalReport) -> Result<(), FilesError> {
    let line = |what: &str, e: &Errors| {
        format!(
            "{what:<12} {:>9} {:>11.1} {:>11.1} {:>11.1} {:>12.1}\n",
            e.count, e.p50_us, e.p99_us, e.p999_us, e.range_us
        )
    };
    let mut text = format!(
        "{:<12} {:>9} {:>11} {:>11} {:>11} {:>12}\n",
        "ERROR", "COUNT", "P50 µs", "P99 µs", "P99.9 µs", "RANGE µs"
    );
    text.push_str(&line("datagrams", &report.datagram));
    text.push_str(&line("references", &report.reference));
    let bunched = format!(
        "{}, longest burst {}, {:.1} % within 50 µs of the one before, {}\n",
        counted(report.datagrams, "datagram"),
        report.burst_max,
        report.burst_percent,
        counted(report.breaks, "clock break"),
    );
    text.push_str(&bunched);
    crate::files::print(&text)
}

struct Outcome {
    counters: ReceiveCounters,
    arrivals: Option<ArrivalReport>,
    /// Datagrams that were not of the sender.
    strangers: u64,
    interrupted: bool,
}

impl Outcome {
    fn code(&self, broken: bool) -> ExitCode {
        let c = &self.counters;
        let lost = c.order.lost + c.order.late + c.overflowed > 0;
        if self.interrupted {
            ExitCode::from(INTERRUPTED)
        } else if lost || broken {
            ExitCode::from(LOSS)
        } else {
            ExitCode::SUCCESS
        }
    }
}

fn receive(
    from: &From,
    what: Received,
    out: &mut (dyn Write + Send),
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    if from.source.is_some() && !from.at.is_group() {
        bail!("--source is for groups, {} is none", from.at.at.ip());
    }
    let interface = if from.at.is_group() { from.interface } else { Ipv4Addr::UNSPECIFIED };
    let mut reception = Reception::listen(from.at.at, interface, from.source, what)?;
    eprintln!("receiving at {}", from.at.at);
    let begun = Instant::now();
    let mut live = io::stderr().is_terminal().then_some((begun, 0u64));
    let how =
        reception.run((from.wait, from.silence), Some(interrupt.as_fd()), out, |reception| {
            if let Some((at, bytes)) = &mut live
                && at.elapsed() >= LIVE
            {
                draw(reception, at.elapsed(), bytes);
                *at = Instant::now();
            }
            interrupt.is_set() || from.time.is_some_and(|time| begun.elapsed() >= time)
        })?;
    if live.is_some() {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    if reception.peer().is_none() && how == Ended::Silent {
        bail!(
            "nothing came at {} for {:?}\nhint: is something sent there, and does a firewall let \
             it through?",
            from.at.at,
            from.wait
        );
    }
    let (counters, arrivals) = match reception.what() {
        Received::Written(receiver) => (receiver.counters(), None),
        Received::Sent(playout, _) => (playout.receiver().counters(), None),
        Received::Judged(arrivals) => (ReceiveCounters::default(), Some(arrivals.report())),
    };
    if reception.strangers() > 0 {
        eprintln!(
            "note: {} of others than {} left out",
            counted(reception.strangers(), "datagram"),
            reception.peer().map_or("the sender".into(), |peer| peer.to_string()),
        );
    }
    let strangers = reception.strangers();
    Ok(Outcome { counters, arrivals, strangers, interrupted: interrupt.is_set() })
}

/// A line of how it does.
fn draw(reception: &Reception, since: Duration, bytes: &mut u64) {
    let (counters, level) = match reception.what() {
        Received::Written(receiver) => (receiver.counters(), receiver.level()),
        Received::Sent(playout, _) => (playout.receiver().counters(), playout.sender().waiting()),
        Received::Judged(arrivals) => {
            let _ = write!(io::stderr(), "\r\x1b[K{} datagrams", arrivals.datagrams());
            return;
        }
    };
    let rate = (counters.bytes - *bytes) as f64 * 8.0 / since.as_secs_f64();
    *bytes = counters.bytes;
    let order = counters.order;
    let _ = write!(
        io::stderr(),
        "\r\x1b[K{} {} buffered {} lost {} late {} dropped {}",
        size_text(counters.bytes as f64),
        crate::units::rate_text(rate),
        size_text(level as f64),
        order.lost,
        order.late,
        counters.overflowed,
    );
}

fn tell(c: &ReceiveCounters) {
    let mut line =
        format!("received {} in {}", size_text(c.bytes as f64), counted(c.datagrams, "datagram"));
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            line = format!("{line}, {count} {what}");
        }
    };
    add(c.order.lost, "lost");
    add(c.order.late, "too late");
    add(c.order.duplicates, "twice");
    add(c.order.reordered, "out of order");
    add(c.overflowed, "dropped: the buffer was full");
    add(c.garbage, "that were no stream");
    add(c.feedback[0], "times SLOWDOWN asked");
    add(c.feedback[1], "times SPEEDUP asked");
    eprintln!("{line}");
}
