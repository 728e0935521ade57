//! How a farm ends before its items do: by a rule, an interrupt or an error.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use towpath_wire::Instant;

use super::Farm;
use crate::farm::bits::Bits;
use crate::farm::joblog::{LogError, Logged};
use crate::farm::report::Report;
use crate::farm::run::FarmError;
use crate::protocol::Request;

/// How long tasks that are told to end may take before they are killed.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// How long killed tasks may take to end.
const STOP: Duration = Duration::from_secs(1);
pub(super) const SIGTERM: i32 = 15;
pub(super) const SIGKILL: i32 = 9;

/// When and why it ends before its end.
#[derive(Debug, Default)]
pub(super) struct Stop {
    pub(super) by: Option<Instant>,
    /// What runs is killed then; none: it was, or nothing ends.
    pub(super) kill_at: Option<Instant>,
    pub(super) error: Option<FarmError>,
    /// Why the last host was lost to us.
    pub(super) host_why: Option<String>,
    /// The sink failed: it gets nothing more.
    pub(super) sink_broken: bool,
}

impl Farm<'_> {
    /// Items that stand in the job log with another command are run again only where that is
    /// wanted: mostly the list has moved, or the log is another farm's.
    pub(super) fn check_changed(&mut self, path: &Path, logged: &Logged) -> Result<(), FarmError> {
        let Some(example) = logged.example() else { return Ok(()) };
        let count = logged.changed();
        if !self.options.rerun_changed {
            let path = path.to_path_buf();
            return Err(LogError::Changed { path, count, example }.into());
        }
        self.sink.warn(&format!(
            "{count} items of job log {} run again: their command is another now ({example})",
            path.display()
        ));
        Ok(())
    }

    /// Leaves out what the job log tells of; gives which items.
    pub(super) fn leave_out(&mut self, logged: Logged) -> Bits {
        let Logged { mut succeeded, failed, .. } = logged;
        if self.options.goes_on.is_some() {
            self.report.succeeded = succeeded.count().into();
            self.report.failed = failed.count().into();
            for item in (0..self.options.items.len()).filter(|item| failed.contains(*item)) {
                succeeded.insert(item);
            }
        } else {
            self.report.skipped = succeeded.count().into();
        }
        succeeded
    }

    /// Ends the farm where its results so far are those that end it.
    pub(super) fn halt(&mut self) {
        let Report { succeeded, failed, skipped, .. } = self.report;
        let items = u64::from(self.options.items.len()) - skipped;
        let Some(rule) = self.options.halt else { return };
        if self.report.halted.is_some() || !rule.is_reached(succeeded, failed, items) {
            return;
        }
        self.report.halted = Some(rule.to_string());
        if rule.now {
            return self.end_early(None);
        }
        for tag in self.plan.hold() {
            let _ = self.daemons.push(&Request::Kill { tag, signal: SIGTERM });
        }
    }

    pub(super) fn stranded(&self) -> FarmError {
        let hint = self.options.template.shell_hint().unwrap_or(
            "see `towpath hosts`; is the program installed where it should run, or named by path?",
        );
        let why = self.stop.host_why.clone();
        FarmError::Stranded {
            why: why.unwrap_or_else(|| "none of the hosts is up".into()),
            not_run: self.plan.waiting(),
            hint: hint.into(),
        }
    }

    /// Nothing more is started, and what runs is killed.
    pub(super) fn end_early(&mut self, error: Option<FarmError>) {
        if self.stop.by.is_some() {
            // The first reason is the one that counts.
            return;
        }
        self.stop.error = error;
        let kill_at = self.now() + GRACE;
        self.stop.kill_at = Some(kill_at);
        self.stop.by = Some(kill_at + STOP);
        self.plan.stop();
        self.signal_all(SIGTERM);
    }

    /// Kills what was told to end and has not: when it is time, or when somebody wants it at once.
    pub(super) fn be_firm(&mut self, now: Instant) {
        let Some(kill_at) = self.stop.kill_at else { return };
        let at_once = self.options.at_once.load(Ordering::Relaxed);
        if at_once || kill_at <= now {
            self.stop.kill_at = None;
            // Nobody waits for the ends then: the daemon sees to them.
            self.stop.by = Some(if at_once { now } else { now + STOP });
            self.signal_all(SIGKILL);
        }
    }

    /// Sends a signal to every attempt under way.
    fn signal_all(&mut self, signal: i32) {
        let tags: Vec<u64> = self.plan.tags().collect();
        for tag in tags {
            let _ = self.daemons.push(&Request::Kill { tag, signal });
        }
        if self.daemons.flush().is_err() {
            self.daemons.disconnect();
        }
    }
}
