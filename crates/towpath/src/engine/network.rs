//! The engine's link: a driver, watched by the engine's `epoll`.

use std::io;

use towpath_io::udp::Notice;
use towpath_io::{Clock, LinkDriver, Turn, UdpLink};
use towpath_node::Node;
use towpath_proto::HeapMemory;

use super::poll::Poll;
use crate::log;

/// A link's driver. Invariant: `epoll` reports that the socket is writable exactly while it is
/// `blocked`.
pub(super) struct Network {
    pub(super) driver: LinkDriver,
    key: u64,
    blocked: bool,
    /// The last turn of sending was over before everything was sent.
    more: bool,
}

impl Network {
    pub(super) fn new(udp: UdpLink, key: u64, poll: &Poll) -> io::Result<Self> {
        poll.add(&udp, key)?;
        Ok(Self { driver: LinkDriver::new(udp), key, blocked: false, more: false })
    }

    /// Hands waiting datagrams to the node, as many as fit into a turn.
    pub(super) fn receive(
        &mut self,
        node: &mut Node,
        clock: &Clock,
        memory: &mut HeapMemory,
    ) -> io::Result<()> {
        self.driver.receive(clock, node, memory).map(drop)
    }

    /// [`LinkDriver::spin`].
    pub(super) fn spin(
        &mut self,
        node: &mut Node,
        clock: &Clock,
        memory: &mut HeapMemory,
    ) -> io::Result<bool> {
        self.driver.spin(clock, node, memory)
    }

    /// Sleeps for a moment where datagrams come so fast that it pays, and nothing waits to be
    /// sent; true when it did.
    pub(super) fn gather(&mut self, clock: &Clock) -> bool {
        let pause = self.driver.gather(clock);
        if self.blocked || self.more || pause.is_zero() {
            return false;
        }
        std::thread::sleep(pause);
        true
    }

    /// Sends what the node has to send. True when there may be more: the turn was over first.
    pub(super) fn transmit(
        &mut self,
        node: &mut Node,
        clock: &Clock,
        memory: &HeapMemory,
        poll: &Poll,
    ) -> io::Result<bool> {
        if self.blocked {
            return Ok(false);
        }
        let turn = self.driver.transmit(clock, node, memory);
        while let Some(notice) = self.driver.notice() {
            tell(&notice);
        }
        if turn == Turn::Blocked {
            self.block(true, poll)?;
        }
        self.more = turn == Turn::More;
        Ok(self.more)
    }

    /// The socket takes datagrams again.
    pub(super) fn writable(&mut self, poll: &Poll) -> io::Result<()> {
        if self.blocked { self.block(false, poll) } else { Ok(()) }
    }

    /// Trains that the kernel refused.
    pub(super) fn send_errors(&self) -> u64 {
        self.driver.counters().send_errors + self.driver.counters().too_long
    }

    fn block(&mut self, blocked: bool, poll: &Poll) -> io::Result<()> {
        self.blocked = blocked;
        poll.set_writable(&self.driver, self.key, blocked)
    }
}

/// Each kind comes once; the counters have the rest.
fn tell(notice: &Notice) {
    match notice {
        Notice::NoSegmentation(why) => {
            log!("the kernel does not cut trains of datagrams on this way ({why}): sending singly");
        }
        Notice::Refused { why, remote } => log!("cannot send to {remote}: {why}"),
    }
}
