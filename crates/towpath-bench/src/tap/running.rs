//! A tap that runs, from outside.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context, anyhow};
use rustix::event::{EventfdFlags, eventfd};
use towpath_sim::tap::{Script, Setting, Ways};

use super::device::Device;
use super::end::{End, Kind};
use super::reading::Reading;
use super::work::{Order, Watch, Work};

/// How a tap runs.
#[derive(Default)]
pub struct Options {
    /// Above all ordinary processes (`SCHED_FIFO`; it takes root). A tap that has no rest gives
    /// others their turn nevertheless.
    pub realtime: bool,
    /// Who is shown each frame.
    pub watch: Option<Box<dyn Watch>>,
}

/// A tap in a thread of its own; it ends when this is dropped. What it is told has happened when
/// the call comes back.
pub struct Tap {
    orders: Option<Sender<Order>>,
    wake: OwnedFd,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Tap {
    /// Makes the devices of two ends, or takes those that are there, and begins the script.
    pub fn between(
        ends: &[End; 2],
        kind: Kind,
        mtu: u32,
        script: &Script,
        options: Options,
    ) -> anyhow::Result<Self> {
        let [first, second] = ends;
        Self::start([first.open(kind, mtu)?, second.open(kind, mtu)?], mtu, script, options)
    }

    /// Between two devices. `mtu`: bytes of the longest packet of IP that passes.
    pub(crate) fn start(
        devices: [Device; 2],
        mtu: u32,
        script: &Script,
        options: Options,
    ) -> anyhow::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (orders, inbox) = channel();
        let work = Work::new(devices, mtu, script, options.watch, wake.try_clone()?);
        let (ready, begun) = channel();
        let run = move || work.run(&inbox, options.realtime, &ready);
        let thread = std::thread::Builder::new().name("tap".into()).spawn(run)?;
        let tap = Self { orders: Some(orders), wake, thread: Some(thread) };
        begun.recv().map_err(|_| anyhow!("the tap did not start"))??;
        Ok(tap)
    }

    fn order<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> anyhow::Result<T> {
        let (answer, told): (Sender<T>, Receiver<T>) = channel();
        let orders = self.orders.as_ref().context("the tap has ended")?;
        orders.send(order(answer)).map_err(|_| anyhow!("the tap has ended"))?;
        rustix::io::write(&self.wake, &1u64.to_ne_bytes())?;
        told.recv().map_err(|_| anyhow!("the tap has ended"))
    }

    /// Changes directions now, whatever the script says; the script goes on.
    pub fn change(&self, ways: Ways, settings: &[Setting]) -> anyhow::Result<()> {
        let settings = settings.to_vec();
        self.order(|done| Order::Change { ways, settings, done })
    }

    /// The link is dead, and nobody is told: what waits, and what comes, is dropped.
    pub fn kill(&self) -> anyhow::Result<()> {
        self.change(Ways::Both, &[Setting::Up(false)])
    }

    /// The link is alive again.
    pub fn revive(&self) -> anyhow::Result<()> {
        self.change(Ways::Both, &[Setting::Up(true)])
    }

    /// A new tap with the same devices: empty, counters at 0, the script from its beginning.
    pub fn restart(&self, script: &Script) -> anyhow::Result<()> {
        let script = Box::new(script.clone());
        self.order(|done| Order::Restart { script, done })
    }

    /// What it has done so far.
    pub fn read(&self) -> anyhow::Result<Reading> {
        self.order(|answer| Order::Read { answer })
    }

    /// Ends it; what went wrong with it is an error.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.end()
    }

    fn end(&mut self) -> anyhow::Result<()> {
        self.orders = None;
        // A tap that has ended by itself does not listen.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().map_err(|_| anyhow!("the tap panicked"))?
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // Whoever wants to know calls `stop`.
        let _ = self.end();
    }
}
