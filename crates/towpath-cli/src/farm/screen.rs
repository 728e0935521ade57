//! What a farm shows: items' output, and how far it is.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use towpath::farm::{ItemDone, Printer, Progress, Report, Sink, Steady};
use towpath::jobs::Mark;
use towpath::jobs::spool::Spool;
use towpath_report::text::visible;

use super::args::When;

/// Output beyond this is not left to wait for the next flush.
const BUFFERED_MAX: u64 = 32 * 1024;
/// How often progress is told where there is no terminal to draw a bar on.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Where items' output goes.
pub(super) trait Output: Write {
    /// Bytes that wait to be written.
    fn buffered(&self) -> usize;
    /// Where what was written ends, where that is kept.
    fn end(&self) -> u64;
}

impl<F: AsFd> Output for Steady<'_, F> {
    fn buffered(&self) -> usize {
        Self::buffered(self)
    }

    fn end(&self) -> u64 {
        0
    }
}

impl Output for Spool {
    fn buffered(&self) -> usize {
        0
    }

    fn end(&self) -> u64 {
        Self::end(self)
    }
}

/// Standard output and error with the progress between them.
pub(super) struct Screen<O: Output, E: Output> {
    pub(super) printer: Printer<O, E>,
    pub(super) meter: Meter,
    pub(super) out_is_terminal: bool,
    /// Where a job keeps how far its output and its job log go together, and how far they last did.
    pub(super) mark: Option<(File, Mark)>,
}

impl<O: Output, E: Output> Screen<O, E> {
    /// Writes the end of the output, and how far it goes. Nothing where there is output of which
    /// the job log does not tell: that is cut off by whoever goes on.
    pub(super) fn finish(&mut self, report: &Report) -> io::Result<()> {
        let last = self.mark.as_ref().map(|(_, last)| *last);
        let ends = (self.printer.out.end(), self.printer.err.end());
        if last.is_some_and(|last| ends != (last.out, last.err)) {
            return Ok(());
        }
        self.printer.report(report)?;
        self.printer.flush()?;
        self.logged(last.map_or(0, |last| last.log))
    }
}

impl<O: Output, E: Output> Sink for Screen<O, E> {
    fn item(&mut self, done: &ItemDone<'_>) -> io::Result<()> {
        let Self { printer, meter, .. } = self;
        if done.output_bytes() <= BUFFERED_MAX {
            return printer.item(done);
        }
        meter.around(|| printer.item(done))
    }

    fn flush(&mut self) -> io::Result<()> {
        let Self { printer, meter, out_is_terminal, .. } = self;
        let on_terminal =
            printer.err.buffered() > 0 || *out_is_terminal && printer.out.buffered() > 0;
        if on_terminal { meter.around(|| printer.flush()) } else { printer.flush() }
    }

    fn logged(&mut self, bytes: u64) -> io::Result<()> {
        let Some((file, last)) = &mut self.mark else { return Ok(()) };
        let mark = Mark { out: self.printer.out.end(), err: self.printer.err.end(), log: bytes };
        file.write_all_at(mark.emit().as_bytes(), 0)?;
        *last = mark;
        Ok(())
    }

    fn warn(&mut self, text: &str) {
        self.meter.around(|| eprintln!("warning: {text}"));
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.meter.update(progress);
    }
}

/// How far it is, for people.
pub(super) enum Meter {
    Silent,
    Bar(ProgressBar),
    /// Where there is no terminal: a line now and then.
    Lines {
        begin: Instant,
        next: Instant,
    },
}

impl Meter {
    pub(super) fn new(when: When, total: u64) -> Self {
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
    pub(super) fn finish(&self) -> bool {
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
        let _ = write!(text, "  {}:{in_flight}", visible(name));
    }
    if progress.hosts.len() > HOSTS_SHOWN {
        text.push_str("  …");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_rate_and_time_left() {
        let progress =
            Progress { total: 100, done: 50, failed: 1, hosts: vec![("n1", 3), ("n2", 4)] };
        let text = line(&progress, Duration::from_secs(5));
        assert_eq!(text, "50/100  10.0 items/s, 5 s left, 1 failed  n1:3  n2:4");
    }
}
