//! The thread of a tap: takes frames in, and gives on those that are due.

use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use towpath_io::Clock;
use towpath_sim::tap::{self, Direction, Script, Setting, Ways, Why};
use towpath_wire::Instant;
use towpath_wire::units::nanos;

use super::device::Device;
use super::reading::{DeviceStats, Reading, Timing, WayReading};

/// Frames taken from one device before the other has its turn.
const BATCH: usize = 64;
/// Longest sleep.
const IDLE: Duration = Duration::from_secs(1);
/// A tap above all others has worked so long without a rest, and rests so long.
const RESTLESS: Duration = Duration::from_millis(20);
const REST: Duration = Duration::from_micros(500);
/// Buffers kept for frames to come.
const FREE_MAX: usize = 4096;
/// Bytes of Ethernet's header, with room for two tags of VLANs.
const ETHERNET_HEADER: usize = 14 + 8;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was given on.
    Passed,
    /// It was not.
    Dropped(Why),
}

/// Who is shown each frame once it is known what becomes of it.
pub trait Watch: Send {
    /// `unix_ns`: by the machine's wall clock at the start, and its monotonic clock since.
    fn frame(&mut self, unix_ns: u64, direction: Direction, outcome: Outcome, frame: &[u8]);
}

/// What the thread is told; each answers when it is done.
pub(super) enum Order {
    Change { ways: Ways, settings: Vec<Setting>, done: Sender<()> },
    Restart { script: Box<Script>, done: Sender<()> },
    Read { answer: Sender<Reading> },
}

pub(super) struct Work {
    /// The first end, the second end.
    devices: [Device; 2],
    frame_max: usize,
    tap: tap::Tap,
    counts: [DeviceStats; 2],
    timing: Timing,
    free: Vec<Vec<u8>>,
    clock: Clock,
    began: Instant,
    watch: Option<Box<dyn Watch>>,
    wake: OwnedFd,
}

impl Work {
    pub(super) fn new(
        devices: [Device; 2],
        mtu: u32,
        script: &Script,
        watch: Option<Box<dyn Watch>>,
        wake: OwnedFd,
    ) -> Self {
        let clock = Clock::start();
        let began = clock.now();
        Self {
            devices,
            frame_max: mtu as usize + ETHERNET_HEADER,
            tap: tap::Tap::new(script, began),
            counts: [DeviceStats::default(); 2],
            timing: Timing::default(),
            free: Vec::new(),
            clock,
            began,
            watch,
            wake,
        }
    }

    /// Runs until nobody has orders any more.
    pub(super) fn run(
        mut self,
        inbox: &Receiver<Order>,
        realtime: bool,
        ready: &Sender<anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        // Sleeps end on time, not up to 50 us later.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let begun = if realtime { above_all() } else { Ok(()) };
        let failed = begun.is_err();
        // Who started it waits for this.
        let _ = ready.send(begun);
        if failed {
            return Ok(());
        }
        let mut rested = self.clock.now();
        loop {
            if !self.obey(inbox) {
                return Ok(());
            }
            let begun = self.clock.now();
            let more = self.take(Direction::There)? | self.take(Direction::Back)?;
            self.give()?;
            let now = self.clock.now();
            self.timing.turn.record(nanos(now.since(begun)));
            if realtime && now.since(rested) > RESTLESS {
                std::thread::sleep(REST);
                rested = self.clock.now();
            }
            if !more && self.wait()? {
                rested = self.clock.now();
            }
        }
    }

    /// False: nobody has orders any more.
    fn obey(&mut self, inbox: &Receiver<Order>) -> bool {
        loop {
            let order = match inbox.try_recv() {
                Ok(order) => order,
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            };
            let now = self.clock.now();
            // Whoever asked may be gone meanwhile.
            match order {
                Order::Change { ways, settings, done } => {
                    self.tap.handle_timeout(now);
                    let how = |state: &mut _| settings.iter().for_each(|one| one.apply(state));
                    self.tap.change(now, ways, how);
                    let _ = done.send(());
                }
                Order::Restart { script, done } => {
                    self.tap = tap::Tap::new(&script, now);
                    (self.counts, self.timing) = (Default::default(), Timing::default());
                    self.began = now;
                    let _ = done.send(());
                }
                Order::Read { answer } => drop(answer.send(self.read(now))),
            }
        }
    }

    fn read(&self, now: Instant) -> Reading {
        let way = |direction: Direction| WayReading {
            state: self.tap.state(direction),
            stats: self.tap.stats(direction),
            held: self.tap.held(direction),
            device: self.counts[direction as usize],
        };
        let busy = clock_gettime(ClockId::ThreadCPUTime);
        Reading {
            elapsed: now.since(self.began),
            there: way(Direction::There),
            back: way(Direction::Back),
            lateness: self.timing.lateness.summary(),
            turn: self.timing.turn.summary(),
            busy: Duration::new(busy.tv_sec as u64, busy.tv_nsec as u32),
            changes_left: self.tap.changes_left(),
        }
    }

    /// Takes frames in; true when there may be more.
    fn take(&mut self, direction: Direction) -> anyhow::Result<bool> {
        let now = self.clock.now();
        let from = direction as usize;
        for _ in 0..BATCH {
            let mut frame = self.free.pop().unwrap_or_default();
            // One byte more tells what is too long.
            frame.resize(self.frame_max + 1, 0);
            let received = self.devices[from].receive(&mut frame);
            let Some(len) = received.with_context(|| format!("{} is gone", end(from)))? else {
                self.free.push(frame);
                return Ok(false);
            };
            if len > self.frame_max {
                self.counts[from].trains += 1;
                self.free.push(frame);
                continue;
            }
            frame.truncate(len);
            self.tap.handle_frame(now, direction, frame);
            self.drops(now);
        }
        Ok(true)
    }

    fn drops(&mut self, now: Instant) {
        while let Some(drop) = self.tap.poll_dropped() {
            self.show(now, drop.direction, Outcome::Dropped(drop.why), &drop.frame);
            self.keep(drop.frame);
        }
    }

    fn keep(&mut self, frame: Vec<u8>) {
        if self.free.len() < FREE_MAX {
            self.free.push(frame);
        }
    }

    fn show(&mut self, now: Instant, direction: Direction, outcome: Outcome, frame: &[u8]) {
        if let Some(watch) = &mut self.watch {
            let unix_ns = self.clock.unix_us_at_zero() * 1000 + now.as_nanos();
            watch.frame(unix_ns, direction, outcome, frame);
        }
    }

    fn give(&mut self) -> anyhow::Result<()> {
        let mut now = self.clock.now();
        self.tap.handle_timeout(now);
        self.drops(now);
        // Not for ever: frames that come have their turn.
        for _ in 0..4 * BATCH {
            let Some(due) = self.tap.poll_frame(now) else { break };
            let (from, to) = (due.direction as usize, 1 - due.direction as usize);
            let sent = self.devices[to].send(&due.frame);
            now = self.clock.now();
            if sent.with_context(|| format!("{} is gone", end(to)))? {
                self.timing.lateness.record(nanos(now.since(due.due)));
                self.counts[from].count(self.devices[from].layer(), &due.frame);
            } else {
                self.counts[from].refused += 1;
            }
            self.show(now, due.direction, Outcome::Passed, &due.frame);
            self.keep(due.frame);
        }
        Ok(())
    }

    /// Sleeps until something happens; false where something is due already.
    fn wait(&self) -> anyhow::Result<bool> {
        let now = self.clock.now();
        let time = self.tap.next_timeout().map_or(IDLE, |at| at.since(now).min(IDLE));
        if time.is_zero() {
            return Ok(false);
        }
        let timeout = Timespec::try_from(time).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let [first, second] = &self.devices;
        let mut all = [
            PollFd::new(first, PollFlags::IN),
            PollFd::new(second, PollFlags::IN),
            PollFd::new(&self.wake, PollFlags::IN),
        ];
        // An interrupted wait is a short one.
        let _ = poll(&mut all, Some(&timeout));
        if all[2].revents().contains(PollFlags::IN) {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        for (number, device) in all[..2].iter().enumerate() {
            let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
            let device = device.revents();
            if device.intersects(gone) && !device.contains(PollFlags::IN) {
                anyhow::bail!("{} is gone", end(number));
            }
        }
        Ok(true)
    }
}

fn end(number: usize) -> &'static str {
    ["the interface of the first end", "the interface of the second end"][number]
}

/// This thread goes before all ordinary ones.
fn above_all() -> anyhow::Result<()> {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: `parameter` is alive during the call; 0 is the calling thread.
    let rc = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) };
    let refused = std::io::Error::last_os_error();
    if rc == 0 {
        return Ok(());
    }
    Err(refused)
        .context("no real-time priority here\nhint: it takes root and a group that has some")
}
