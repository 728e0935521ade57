//! Runs a tap until it is told to end.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use towpath_bench::tap::{Options, Tap, Watch, ceiling};

use super::args::TapArgs;
use super::record::Recorder;
use super::report::Report;
use crate::interrupt::Interrupt;

/// How often the tap is asked whether it still runs.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &TapArgs) -> anyhow::Result<ExitCode> {
    let script = args.tap_script()?;
    let measured = (!args.ceiling.is_zero()).then(|| ceiling(args.ceiling)).transpose()?;
    let recorder =
        |path: &std::path::PathBuf| Recorder::new(path, args.kind(), args.capture_size.as_bytes());
    let recorder = args.capture.as_ref().map(recorder).transpose()?;
    let watch = recorder.clone().map(|recorder| Box::new(recorder) as Box<dyn Watch>);
    let options = Options { realtime: args.realtime, watch };
    let interrupt = Interrupt::lasting()?;
    let tap = Tap::between(&args.ends(), args.kind(), args.mtu, &script, options)?;
    eprintln!("tap: runs");
    let begun = Instant::now();
    let mut told = begun;
    let report = |reading: &_, not_captured| -> anyhow::Result<()> {
        let ceiling = measured.as_ref();
        let report = Report { reading, ceiling, script: &script, not_captured };
        if args.json {
            putln!("{}", report.json())?;
        } else {
            put!("{}", report.text())?;
        }
        Ok(())
    };
    let last = loop {
        let Ok(reading) = tap.read() else {
            // Why it ended is its own to say.
            tap.stop()?;
            anyhow::bail!("the tap ended by itself");
        };
        let left = args.time.map(|time| time.saturating_sub(begun.elapsed()));
        if interrupt.is_set() || left.is_some_and(|left| left.is_zero()) {
            break reading;
        }
        if args.every.is_some_and(|every| told.elapsed() >= every) {
            told = Instant::now();
            report(&reading, None)?;
        }
        let next = args.every.map(|every| every.saturating_sub(told.elapsed()));
        let time = [Some(LOOK), left, next].into_iter().flatten().min().unwrap_or(LOOK);
        wait(&interrupt, time);
    };
    tap.stop()?;
    let not_captured = recorder.map(|recorder| recorder.end()).transpose()?;
    report(&last, not_captured)?;
    Ok(ExitCode::SUCCESS)
}

fn wait(interrupt: &Interrupt, time: Duration) {
    let timeout =
        Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
    // An interrupted wait is a short one.
    let _ = poll(&mut [PollFd::new(interrupt, PollFlags::IN)], Some(&timeout));
}
