//! The driver: a daemon's replies into the plan, the plan's launches into requests, results into
//! the log and the sink. One turn of its loop takes every reply that is there, and writes all
//! requests at once.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use towpath_vm::{Ending, Host, HostState, TaskExit, TaskSpec};
use towpath_wire::{HostId, Instant};

use super::bits::Bits;
use super::blocks::Feeds;
use super::daemons::Daemons;
use super::hosts::Hosts;
use super::joblog::{JobLog, Logged};
use super::order::{Done, Order};
use super::output::{Account, Limits, Store};
use super::plan::{Launch, Plan, PlanEvent, PlanOptions};
use super::report::{Failure, HostReport, Report, WallTimes};
use super::results::ResultsDir;
use super::run::{FarmError, FarmOptions, Outcome, Progress, Sink};
use crate::client::ClientError;
use crate::protocol::{ADOPTED_TAGS, HostEvent, Reply, Request, TaskEvent};

#[path = "drive_end.rs"]
mod end;
#[path = "drive_out.rs"]
mod out;

use end::{GRACE, Stop};

/// How often progress is told, and the interrupt flag looked at.
const TICK: Duration = Duration::from_millis(100);
/// Most replies taken in one turn.
const REPLIES_MAX: usize = 1024;
/// Output under way for all items together, of which each gets its share.
const WINDOWS: u32 = 16 << 20;
const WINDOW_MIN: u32 = 8 * 1024;
const WINDOW_MAX: u32 = 128 * 1024;
/// Failures told on the way; the report lists more.
const FAILURES_TOLD: u64 = 10;
const E2BIG: i32 = 7;

/// A farm that runs.
pub(super) struct Farm<'a> {
    options: &'a FarmOptions,
    sink: &'a mut dyn Sink,
    interrupt: &'a AtomicBool,
    zero: std::time::Instant,
    daemons: Daemons<'a>,
    hosts: Hosts<'a>,
    plan: Plan,
    accounts: HashMap<u64, Account>,
    feeds: Feeds,
    store: Store,
    order: Order,
    log: Option<JobLog>,
    results: Option<ResultsDir>,
    times: WallTimes,
    report: Report,
    progress_at: Instant,
    /// When the next item may be started.
    launch_at: Instant,
    stop: Stop,
}

impl<'a> Farm<'a> {
    pub(super) fn new(
        options: &'a FarmOptions,
        sockets: Vec<&'a Path>,
        sink: &'a mut dyn Sink,
        interrupt: &'a AtomicBool,
    ) -> Self {
        let plan = PlanOptions {
            jobs: options.jobs,
            retries: options.retries,
            retry_failed: options.retry_failed,
            program_varies: options.template.program_varies()
                && !options.template.looks_like_shell(),
            no_queue: !options.delay.is_zero(),
        };
        Self {
            options,
            sink,
            interrupt,
            zero: std::time::Instant::now(),
            daemons: Daemons::new(sockets),
            hosts: Hosts::new(&options.hosts),
            plan: Plan::new(plan, options.items.len()),
            accounts: HashMap::new(),
            feeds: Feeds::new(options.pipe.clone()),
            store: Store::new(Limits::default()),
            order: Order::new(options.keep_order, Bits::default()),
            log: None,
            results: None,
            times: WallTimes::new(),
            report: Report::default(),
            progress_at: Instant::ZERO,
            launch_at: Instant::ZERO,
            stop: Stop::default(),
        }
    }

    pub(super) fn run(mut self) -> Outcome {
        if let Err(e) = self.prepare() {
            self.stop.error = Some(e);
            self.plan.stop();
        }
        while !self.is_over() {
            if let Err(e) = self.turn() {
                self.end_early(Some(e));
            }
        }
        self.finish()
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.zero.elapsed()
    }

    /// Opens the job log, and a daemon.
    fn prepare(&mut self) -> Result<(), FarmError> {
        let FarmOptions { items, template, .. } = self.options;
        let mut skipped = Bits::new(items.len());
        if let Some(path) = &self.options.joblog {
            if self.options.resume {
                let command = |item| template.command_line(items.at(item), u64::from(item) + 1);
                let failed_from = self.options.goes_on.unwrap_or_default();
                let logged = Logged::read(path, items.len(), failed_from, command)?;
                self.check_changed(path, &logged)?;
                skipped = self.leave_out(logged);
            }
            let open = if self.options.resume { JobLog::append } else { JobLog::create };
            self.log = Some(open(path)?);
        }
        self.results = self.options.results.as_deref().map(ResultsDir::create).transpose()?;
        for item in (0..items.len()).filter(|item| skipped.contains(*item)) {
            self.plan.skip(item);
        }
        self.order = Order::new(self.options.keep_order, skipped);
        if self.options.goes_on.is_some() {
            self.halt();
        }
        if !self.plan.is_finished() {
            let now = self.now();
            self.daemons.connect(now)?;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let gone =
            || !self.daemons.is_connected() || self.stop.by.is_some_and(|at| at <= self.now());
        self.plan.is_finished() || self.stop.by.is_some() && gone()
    }

    fn turn(&mut self) -> Result<(), FarmError> {
        let now = self.now();
        if self.stop.by.is_none() && self.interrupt.load(Ordering::Relaxed) {
            self.report.interrupted = true;
            let grace = GRACE.as_secs();
            self.sink.warn(&format!(
                "interrupted: ending what runs, with SIGKILL after {grace} s; once more does that \
                 at once"
            ));
            self.end_early(None);
        }
        self.be_firm(now);
        match self.exchange(now) {
            // Nobody reads our output, and somebody wants us to end.
            Err(FarmError::Output(e)) if e.kind() == io::ErrorKind::TimedOut => {
                self.report.interrupted = true;
                self.end_early(None);
                Ok(())
            }
            Err(FarmError::Daemon(cause)) if self.stop.by.is_none() => self.go_elsewhere(cause),
            Err(FarmError::Daemon(_)) => {
                self.daemons.disconnect();
                Ok(())
            }
            other => other,
        }
    }

    /// Requests out, replies in.
    fn exchange(&mut self, now: Instant) -> Result<(), FarmError> {
        self.launch(now)?;
        self.settle()?;
        self.daemons.flush()?;
        self.tick(now)?;
        if self.plan.is_finished() {
            return Ok(());
        }
        if self.daemons.is_settled() && self.plan.is_stranded() {
            return Err(self.stranded());
        }
        let mut reply = self.daemons.next(now, self.wait(now))?;
        for _ in 0..REPLIES_MAX {
            let Some(some) = reply else { break };
            let now = self.now();
            self.take_reply(now, some)?;
            self.settle()?;
            reply = self.daemons.try_next()?;
        }
        if let Some(reply) = reply {
            self.take_reply(self.now(), reply)?;
        }
        Ok(())
    }

    /// Time until something is due.
    fn wait(&self, now: Instant) -> Duration {
        let log = self.log.as_ref().and_then(JobLog::poll_timeout);
        let launch = (self.launch_at > now).then_some(self.launch_at);
        let due = [log, self.plan.poll_timeout(now), launch, self.stop.by, self.stop.kill_at];
        let due = due.into_iter().flatten().fold(now + TICK, Instant::min);
        due.since(now)
    }

    fn tick(&mut self, now: Instant) -> Result<(), FarmError> {
        self.flush_sink()?;
        if self.log.as_ref().is_some_and(|log| log.is_due(now)) {
            self.flush_log()?;
        }
        if now >= self.progress_at {
            self.progress_at = now + TICK;
            self.tell_progress();
        }
        Ok(())
    }

    fn tell_progress(&mut self) {
        let hosts = self.plan.hosts().map(|(id, _, in_flight, _)| (self.hosts.name(id), in_flight));
        let progress = Progress {
            total: u64::from(self.plan.total()) - self.report.skipped,
            done: self.report.succeeded + self.report.failed,
            failed: self.report.failed,
            hosts: hosts.collect(),
        };
        self.sink.progress(&progress);
    }

    fn launch(&mut self, now: Instant) -> Result<(), FarmError> {
        let window = (WINDOWS / self.plan.capacity().max(1)).clamp(WINDOW_MIN, WINDOW_MAX);
        while self.launch_at <= now
            && let Some(launch) = self.plan.poll_launch(now)
        {
            self.launch_at = now + self.options.delay;
            let Launch { tag, host, .. } = launch;
            let spec = TaskSpec {
                queued: launch.queued,
                output_window: window,
                input_window: self.feeds.window(),
                ..self.options.spec(launch.item, self.hosts.name(host))
            };
            self.accounts.insert(tag, Account { window, owed: 0 });
            if let Err(e) = self.daemons.push(&Request::Spawn { tag, host, spec }) {
                let ending = Ending::NotStarted { errno: E2BIG, text: e.to_string() };
                self.plan.ended(now, tag, TaskExit::without_run(ending));
            }
            if self.daemons.is_full() {
                self.daemons.flush()?;
            }
        }
        Ok(())
    }

    fn take_reply(&mut self, now: Instant, reply: Reply) -> Result<(), FarmError> {
        match reply {
            Reply::Task { tag, event } => return self.take_task_event(now, tag, event),
            Reply::Hosts(hosts) => {
                let first = self.hosts.is_empty();
                let up: Vec<Host> =
                    hosts.into_iter().filter(|h| h.state == HostState::Up).collect();
                if first {
                    let takes: Vec<Host> = up.iter().filter(|h| !h.drains()).cloned().collect();
                    self.hosts.check(&takes)?;
                }
                for host in up {
                    self.add_host(now, host);
                }
                self.daemons.settled();
            }
            Reply::HostEvent(HostEvent::Added(host) | HostEvent::LeaderBack(host)) => {
                self.add_host(now, host);
            }
            Reply::HostEvent(HostEvent::Drains(id, on)) => {
                self.plan.host_drains(id, on);
                if on && self.plan.is_drained() {
                    self.sink.warn(
                        "every host is drained: no item begins\n\
                         hint: `towpath host drain HOST --undo` gives one work again",
                    );
                }
            }
            Reply::HostEvent(HostEvent::Silent(id)) => self.plan.host_is_silent(id),
            Reply::HostEvent(HostEvent::Heard(id)) => self.plan.host_is_heard(id),
            Reply::HostEvent(HostEvent::Lost(id) | HostEvent::LeaderLost(id)) => {
                self.lose_host(now, id, "was lost");
            }
            Reply::HostEvent(HostEvent::Left(id)) => self.lose_host(now, id, "has left"),
            Reply::Failed(text) => self.sink.warn(&text),
            Reply::Info(_)
            | Reply::Tasks { .. }
            | Reply::Adopted { .. }
            | Reply::Token(_)
            | Reply::Tokens(_)
            | Reply::Explained { .. }
            | Reply::Loads { .. }
            | Reply::Networks { .. }
            | Reply::Promises { .. }
            | Reply::Metrics(_)
            | Reply::Unheard(_)
            | Reply::Voters(_)
            | Reply::Done => {}
        }
        Ok(())
    }

    fn add_host(&mut self, now: Instant, host: Host) {
        for old in self.hosts.replaced_by(host.id) {
            if self.plan.is_up(old) {
                self.lose_host(now, old, "was lost");
            }
        }
        let (id, slots, drains) = (host.id, host.slots, host.drains());
        if self.hosts.add(host) {
            self.plan.add_host(id, slots);
            self.plan.host_drains(id, drains);
        }
    }

    fn lose_host(&mut self, now: Instant, id: HostId, what: &str) {
        if !self.hosts.knows(id) {
            return;
        }
        self.plan.lose_host(now, id);
        let text = format!("host {} {what}", self.hosts.name(id));
        self.sink.warn(&format!("{text}: its items run elsewhere"));
        self.stop.host_why = Some(text);
    }

    fn take_task_event(
        &mut self,
        now: Instant,
        tag: u64,
        event: TaskEvent,
    ) -> Result<(), FarmError> {
        if tag >= ADOPTED_TAGS {
            // Of a task that an item's command spawned: it is no item's.
            if let TaskEvent::Output { bytes, .. } = event {
                let bytes = bytes.len() as u32;
                let _ = self.daemons.push(&Request::Credit { tag, bytes });
            }
            return Ok(());
        }
        match event {
            TaskEvent::Started { .. } => {
                self.plan.started(tag);
                if let Some(item) = self.plan.item(tag) {
                    self.feeds.started(tag, item);
                }
                self.feeds.feed(tag, &mut self.daemons)?;
            }
            TaskEvent::InputTaken(bytes) => {
                self.feeds.taken(tag, bytes);
                self.feeds.feed(tag, &mut self.daemons)?;
            }
            TaskEvent::Output { stream, bytes } => {
                let Some(account) = self.accounts.get_mut(&tag) else { return Ok(()) };
                account.owed = account.owed.saturating_add(bytes.len() as u32);
                if account.owed >= account.window / 4 {
                    let bytes = std::mem::take(&mut account.owed);
                    // A credit is a few bytes: it can always be encoded.
                    let _ = self.daemons.push(&Request::Credit { tag, bytes });
                }
                self.store.append(tag, stream, bytes)?;
            }
            TaskEvent::Ended(exit) => {
                self.feeds.ended(tag);
                self.plan.ended(now, tag, exit);
            }
        }
        Ok(())
    }

    /// Deals with what the plan decided.
    fn settle(&mut self) -> Result<(), FarmError> {
        while let Some(event) = self.plan.poll_event() {
            match event {
                PlanEvent::Finished { item, tag, host, exit, attempts } => {
                    self.accounts.remove(&tag);
                    let capture = self.store.take(tag);
                    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                    let done = Done { item, host, exit, ended: now.unwrap_or_default(), capture };
                    let recorded = self.record(&done, attempts);
                    self.order.push(done);
                    recorded?;
                    self.halt();
                }
                PlanEvent::Dropped { tag, ending, .. } => {
                    self.accounts.remove(&tag);
                    self.store.discard(tag);
                    if self.stop.by.is_none() && self.report.halted.is_none() {
                        self.report.dropped(&ending);
                    }
                }
                PlanEvent::NoRoom { host, why } => {
                    let host = self.hosts.name(host);
                    self.sink.warn(&format!(
                        "host {host} has no room at the moment: {why}; what it cannot start runs \
                         on other hosts, or there later\n\
                         hint: fewer at once with --jobs, or let its daemon have more"
                    ));
                }
                PlanEvent::Excluded { host, why } => {
                    let text = format!("host {}: program {why}", self.hosts.name(host));
                    self.sink.warn(&format!("{text}; the host gets nothing more"));
                    self.stop.host_why = Some(text);
                }
            }
        }
        while let Some(done) = self.order.pop() {
            self.write(done)?;
        }
        Ok(())
    }

    /// Counts and logs a result.
    fn record(&mut self, done: &Done, attempts: u32) -> Result<(), FarmError> {
        let seq = u64::from(done.item) + 1;
        let item = self.options.items.at(done.item);
        let host = self.hosts.name(done.host);
        let ending = &done.exit.ending;
        self.times.add(&done.exit);
        let what = String::from_utf8_lossy(&item.text()).into_owned();
        if ending.is_success() {
            self.report.succeeded += 1;
        } else {
            self.report.failed += 1;
            if !matches!(ending, Ending::Exited(_)) && self.report.failed <= FAILURES_TOLD {
                let first = self.report.failed == 1 && matches!(ending, Ending::NotStarted { .. });
                let hint = self.options.template.shell_hint().filter(|_| first);
                let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
                self.sink.warn(&format!("item {seq} ({what}) on {host}: {ending}{hint}"));
            }
            let (host, exit) = (host.to_string(), ending.shell_status());
            let ending = ending.to_string();
            self.report.list(Failure { seq, item: what, host, exit, ending, attempts });
        }
        if let Some(results) = &mut self.results {
            results.write(seq, item, (&self.store, &done.capture))?;
        }
        Ok(())
    }

    /// The daemon went away: what was under way there is lost, and goes on through another one.
    fn go_elsewhere(&mut self, cause: ClientError) -> Result<(), FarmError> {
        let now = self.now();
        let under_way = self.plan.in_flight();
        let was = self.daemons.path();
        self.plan.lose_daemon(now);
        self.settle()?;
        self.daemons.connect_next(now, cause)?;
        self.sink.warn(&format!(
            "the daemon at {was} went away: {under_way} items run again through {}",
            self.daemons.path(),
        ));
        Ok(())
    }

    /// Writes what is left, and the report.
    fn finish(mut self) -> Outcome {
        // Whatever still runs ends with the connection.
        self.daemons.disconnect();
        if let Err(e) = self.wind_up()
            && self.stop.error.is_none()
            && !self.report.interrupted
        {
            self.stop.error = Some(e);
        }
        self.tell_progress();
        let mut report = self.report;
        let elapsed = self.zero.elapsed().as_secs_f64();
        report.items = self.plan.total().into();
        report.not_run = report.items - report.skipped - report.succeeded - report.failed;
        report.error = self.stop.error.as_ref().map(ToString::to_string);
        report.elapsed_s = elapsed;
        report.items_per_s = f64::from(self.plan.done()) / elapsed.max(1e-9);
        self.times.fill(&mut report);
        let host =
            |(id, standing, _, counts)| HostReport::new(self.hosts.name(id), id, standing, counts);
        report.hosts = self.plan.hosts().map(host).collect();
        Outcome { report, error: self.stop.error }
    }

    fn wind_up(&mut self) -> Result<(), FarmError> {
        let mut result = self.settle();
        while let Some(done) = self.order.pop_any() {
            result = result.and(self.write(done));
        }
        result = result.and(self.flush_sink());
        let logged = self.flush_log();
        result.and(logged)
    }
}

#[cfg(test)]
#[path = "drive_tests.rs"]
mod tests;
