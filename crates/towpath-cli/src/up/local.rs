//! Daemons of this machine, started in the background.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use towpath::VmDir;
use towpath::daemon::{self, Started};
use towpath::log;
use towpath::start::processors;
use towpath_proto::coding::Coding;
use towpath_proto::stripe::StripeKind;
use towpath_report::units;
use towpath_wire::Rate;

/// How long a daemon may take to say that it is part of its virtual machine.
const START_WAIT: Duration = Duration::from_secs(15);
/// The same where it joins: four of the five hosts that its token may name do not answer. Less than
/// a start on another machine may take.
const JOIN_WAIT: Duration = Duration::from_secs(30);
/// The same where it comes back to hosts that may start again as well, by hand, one by one.
const RETURN_WAIT: Duration = Duration::from_secs(30);
/// How often it is looked whether somebody does not want to wait for that.
const LOOK: Duration = Duration::from_millis(20);
/// How long one that is told to end before it is part of it may take to.
const UNDO_WAIT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Args)]
pub(crate) struct Tuning {
    /// Jobs that each host runs at once (default: its share of the processors, and one)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) slots: Option<u16>,
    /// A host that answers nothing for so long is lost, and what ran there with it, in milliseconds
    /// (default: 10000; `towpath hosts` shows it as silent long before). The founder's counts for
    /// all hosts
    #[arg(long, value_name = "MS")]
    #[arg(value_parser = clap::value_parser!(u32).range(200..=600_000))]
    pub(crate) lost_after_ms: Option<u32>,
    /// How fast each address of a host sends at most, as `950Mbit/s`: a little below what its
    /// network carries, so that what waits does so where urgent data can overtake it, and so that
    /// tasks can reserve some of it (default: as fast as it can, and nothing is reserved)
    #[arg(long, value_name = "RATE", value_parser = link_rate)]
    pub(crate) link_rate: Option<Rate>,
    /// By which of several paths to another host the next packet goes: `earliest` (default: the one
    /// by which it arrives first), `redundant` (all of them), `fcfs`, `round-robin`, `permuted`,
    /// `shortest-queue`, `adaptive`. Counts for hosts that are started on this machine
    #[arg(long, value_name = "NAME", value_parser = daemon::stripe_named)]
    pub(crate) stripe: Option<StripeKind>,
    /// Code what goes to other hosts across the paths to them, as `3+1`: to each 3 packets one of
    /// parity, on other paths, so that any one of the 4 may be lost and nothing waits for it;
    /// `6+2,adaptive`: no more parity than what was lost of late calls for (default: `off`; see
    /// docs/paths.md). Counts for what hosts send that are started on this machine
    #[arg(long, value_name = "K+M", value_parser = daemon::coding_of)]
    pub(crate) coding: Option<Coding>,
    /// One of the addresses of --listen that is for emergencies, or costs, best not the first: what
    /// goes by the daemons leaves by it only while none of the others carries (direct streams of
    /// tasks are TCP, which the kernel routes). Several times for several. Counts for what hosts
    /// send that are started on this machine: name the other end on its machine, too
    #[arg(long, value_name = "ADDR")]
    pub(crate) standby: Vec<IpAddr>,
}

/// A rate that a link's packet scheduler knows.
pub(super) fn link_rate(text: &str) -> Result<Rate, String> {
    let rate = units::rate(text)?;
    daemon::check_link_rate(rate).map(|()| rate)
}

impl Tuning {
    /// With slots for each of `hosts` on this machine: one more than its share of processors, so
    /// that a job that waits leaves none idle.
    pub(super) fn for_hosts(&self, hosts: u16) -> Self {
        let share = || processors::available().div_ceil(hosts) + 1;
        Self { slots: Some(self.slots.unwrap_or_else(share)), ..self.clone() }
    }
}

/// Who may lead.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Leading {
    /// How many hosts keep the log of changes, so that another one leads when the leader is gone:
    /// 1, 3 or 5 (default: as before, or 3). As many as there are hosts for; most of them have to
    /// live. With 1 the founder alone leads
    #[arg(long, value_name = "N", value_parser = daemon::voters)]
    pub(crate) voters: Option<u8>,
    /// Lead again alone, from what a host of this machine kept (the one that kept the most),
    /// though others may lead by now: for when most of those that voted are gone for good. What
    /// the rest of them has decided on since does not come along
    #[arg(long)]
    pub(crate) recover: bool,
}

impl Leading {
    fn args(self) -> Vec<String> {
        let voters = self.voters.iter().flat_map(|n| ["--voters".to_string(), n.to_string()]);
        voters.chain(self.recover.then(|| "--recover".to_string())).collect()
    }
}

/// What a daemon of this machine is started with.
pub(super) struct Start<'a> {
    pub(super) vm: &'a VmDir,
    pub(super) number: u16,
    pub(super) listen: &'a [SocketAddr],
    pub(super) tuning: &'a Tuning,
    pub(super) leading: Leading,
    /// It asks those that may lead by now to take it back.
    pub(super) returns: bool,
    /// It joins; else it founds.
    pub(super) token: Option<&'a str>,
    /// Its host's name; `None`: this machine's name and its number.
    pub(super) name: Option<&'a str>,
    /// Variables for it.
    pub(super) env: &'a [(String, String)],
}

/// A daemon that has been started and not yet reported.
pub(super) struct Starting {
    number: u16,
    child: Child,
    log: PathBuf,
    /// How long it may take.
    within: Duration,
}

/// What sets [`Tuning::lost_after_ms`].
fn lost_after(ms: u32) -> [String; 2] {
    ["--lost-after-ms".into(), ms.to_string()]
}

/// What sets [`Tuning::link_rate`].
fn paced(rate: Rate) -> [String; 2] {
    ["--link-rate".into(), rate.as_bps().to_string()]
}

impl Tuning {
    /// Says so where a newcomer was told otherwise than its virtual machine does.
    pub(super) fn tell_lost_after(&self, started: &Started) {
        let there = started.lost_after_ms;
        if let Some(here) = self.lost_after_ms.filter(|here| *here != there) {
            eprintln!(
                "--lost-after-ms {here} does not count: hosts of this virtual machine are lost \
                 after {there} ms, as its founder was told"
            );
        }
    }
}

impl Start<'_> {
    pub(super) fn start(&self) -> anyhow::Result<Starting> {
        let dir = self.vm.make_host(self.number.into())?;
        let log = dir.join(log::NAME);
        let stderr = log::open(&dir)?;
        let tuning = self.tuning;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["--vm", &self.vm.name, "daemon", "--detach"])
            .args(["--number", &self.number.to_string()])
            .args(self.listen.iter().flat_map(|addr| ["--listen".to_string(), addr.to_string()]))
            .args(tuning.lost_after_ms.iter().flat_map(|ms| lost_after(*ms)))
            .args(tuning.link_rate.iter().flat_map(|rate| paced(*rate)))
            .args(tuning.stripe.iter().flat_map(|kind| ["--stripe", kind.name()]))
            .args(tuning.standby.iter().flat_map(|ip| ["--standby".to_string(), ip.to_string()]))
            .args(tuning.coding.iter().flat_map(|how| ["--coding".to_string(), how.to_string()]))
            .args(tuning.slots.iter().flat_map(|s| ["--slots".to_string(), s.to_string()]))
            .args(self.leading.args())
            .args(self.name.iter().flat_map(|n| ["--name", n]))
            .args(self.token.map(|_| "--join"))
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr);
        let mut child = command.spawn().context("starting a daemon")?;
        if let (Some(mut stdin), Some(token)) = (child.stdin.take(), self.token) {
            // A daemon that ended before it read its token says why on its own.
            let _ = stdin.write_all(token.as_bytes());
        }
        let within = match self.token {
            _ if self.returns => RETURN_WAIT,
            Some(_) => JOIN_WAIT,
            None => START_WAIT,
        };
        Ok(Starting { number: self.number, child, log, within })
    }
}

/// Somebody wanted it to end before it was up.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted: what was being started is ended, nothing of it is up")
    }
}

impl std::error::Error for Interrupted {}

impl Starting {
    /// Waits until the daemon says how its start went; gives its process with the answer. Ends it,
    /// and sees it off, where it takes too long or an interrupt comes before.
    pub(super) fn wait(self, interrupt: &AtomicBool) -> anyhow::Result<(Started, Child)> {
        self.wait_unless(interrupt, || None)
    }

    /// The same, unless `vain` finds meanwhile why it is in vain.
    pub(super) fn wait_unless(
        mut self,
        interrupt: &AtomicBool,
        vain: impl FnOnce() -> Option<String> + Send + 'static,
    ) -> anyhow::Result<(Started, Child)> {
        let stdout = self.child.stdout.take().context("the daemon's output")?;
        let (send, receive) = mpsc::channel();
        let also = send.clone();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = std::io::Read::take(BufReader::new(stdout), 65_536).read_line(&mut line);
            let _ = send.send(read.map(|_| line));
        });
        std::thread::spawn(move || vain().map(|why| also.send(Err(io::Error::other(why)))));
        let number = self.number;
        let deadline = Instant::now() + self.within;
        let line = loop {
            match receive.recv_timeout(LOOK) {
                Ok(line) => break line,
                Err(_) if interrupt.load(Ordering::Relaxed) => {
                    self.undo();
                    return Err(Interrupted.into());
                }
                Err(_) if Instant::now() < deadline => {}
                Err(_) => {
                    self.undo();
                    bail!(
                        "daemon {number} did not start within {} s\nhint: see {}",
                        self.within.as_secs(),
                        self.log.display()
                    );
                }
            }
        };
        let line = line.inspect_err(|_| self.terminate())?;
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        match (said.get("started"), said.get("failed").and_then(Value::as_str)) {
            (Some(started), _) => Ok((serde_json::from_value(started.clone())?, self.child)),
            // Ctrl-C reached it, too.
            (None, _) if interrupt.load(Ordering::Relaxed) => {
                self.undo();
                Err(Interrupted.into())
            }
            (None, Some(failed)) => bail!("daemon {number}: {failed}"),
            (None, None) => {
                bail!("daemon {number} ended at once\nhint: see {}", self.log.display())
            }
        }
    }

    /// Politely: its guard cleans up behind it.
    fn terminate(&self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Ends it, with what it has begun, and sees it off.
    fn undo(&mut self) {
        self.terminate();
        let deadline = Instant::now() + UNDO_WAIT;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
