//! The engine's side of the control thread.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use towpath_io::Clock;

use super::launch::Launch;
use super::poll::Waker;
use super::spawner::{Order, Report, Spawner};
use crate::start::limits::Descriptors;

/// Orders to the control thread, reports from it.
pub(super) struct Control {
    orders: Sender<Order>,
    reports: Receiver<Report>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    ordered: bool,
}

impl Control {
    /// Starts the control thread. It wakes `engine` when it has something to report.
    pub(super) fn start(
        engine: &Waker,
        clock: Clock,
        launch: Launch,
        descriptors: Descriptors,
    ) -> io::Result<Self> {
        let waker = Waker::new()?;
        let (orders, orders_in) = channel();
        let (reports_out, reports) = channel();
        let own = waker.clone();
        let spawner = Spawner::new(
            orders_in,
            reports_out,
            [own, engine.clone()],
            clock,
            launch,
            descriptors,
        )?;
        let thread =
            std::thread::Builder::new().name("control".into()).spawn(move || spawner.run())?;
        Ok(Self { orders, reports, waker, thread: Some(thread), ordered: false })
    }

    /// Queues an order; [`Control::wake`] has it carried out.
    pub(super) fn order(&mut self, order: Order) {
        // The control thread ends only when told to.
        let _ = self.orders.send(order);
        self.ordered = true;
    }

    pub(super) fn wake(&mut self) {
        if std::mem::take(&mut self.ordered) {
            self.waker.wake();
        }
    }

    pub(super) fn next_report(&self) -> Option<Report> {
        self.reports.try_recv().ok()
    }

    /// Has every process ended, and waits for it.
    pub(super) fn stop(&mut self) {
        self.order(Order::Stop);
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
