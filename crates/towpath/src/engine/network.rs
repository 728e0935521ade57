//! The engine's links: a driver each, watched by the engine's `epoll`.

use std::io;
use std::net::SocketAddr;

use towpath_io::carriers::Carriers;
use towpath_io::udp::Notice;
use towpath_io::{Clock, LinkDriver, Turn, UdpLink};
use towpath_node::Node;
use towpath_node::egress::{EgressStats, LinkEgress, NotReserved, Reservation};
use towpath_proto::{AssociationId, HeapMemory, Machine, PathChange};
use towpath_wire::{ChannelId, Instant, LinkId, Rate};

use super::poll::Poll;
use crate::log::log;

/// What one link sent may be a reason for another to send: links are asked again so often before
/// what comes in has its turn.
const PASSES: u32 = 4;

/// A link. Invariant: `epoll` reports that the socket is writable exactly while it is `blocked`.
pub(super) struct Link {
    pub(super) driver: LinkDriver<LinkEgress>,
    key: u64,
    blocked: bool,
    /// Datagrams wait.
    readable: bool,
    /// The last turn of sending was over before everything was sent.
    more: bool,
}

/// All links. Invariant: link `i` is at place `i`, and `busy` is one of them.
pub(super) struct Network {
    links: Vec<Link>,
    /// The link by which datagrams came last: where the next ones are looked for before sleeping.
    busy: usize,
    /// Of links that there is a choice of.
    carriers: Option<Carriers>,
}

impl Network {
    /// Watches each link under a key of its own, from `first_key` on; each is paced at `rate`, if
    /// there is one.
    pub(super) fn new(
        udp: Vec<UdpLink>,
        rate: Option<Rate>,
        first_key: u64,
        poll: &Poll,
    ) -> io::Result<Self> {
        let watch = |(key, udp): (u64, UdpLink)| {
            poll.add(&udp, key)?;
            let egress = LinkEgress::new(udp.id(), rate).map_err(io::Error::other)?;
            let driver = LinkDriver::with_egress(udp, egress);
            Ok(Link { driver, key, blocked: false, readable: false, more: false })
        };
        let links: io::Result<_> = (first_key..).zip(udp).map(watch).collect();
        Ok(Self { links: links?, busy: 0, carriers: None })
    }

    /// Hears under this key from now on which links lose their carriers, where there are several.
    /// In vain where the kernel tells us nothing: then silence tells, later.
    pub(super) fn watch_carriers(&mut self, key: u64, poll: &Poll) -> io::Result<()> {
        let ips: Vec<_> = self.addrs()?.iter().map(SocketAddr::ip).collect();
        if ips.len() < 2 {
            return Ok(());
        }
        match Carriers::watch(&ips) {
            Ok(carriers) => poll.add(self.carriers.insert(carriers), key)?,
            Err(e) => log!("links that lose their carriers are known by their silence: {e}"),
        }
        Ok(())
    }

    /// Tells the node which links have lost their carriers, or have them again.
    pub(super) fn tell_carriers(&mut self, now: Instant, node: &mut Node) {
        let changes = self.carriers.as_mut().map(Carriers::changes).unwrap_or_default();
        for (at, up) in changes {
            let Some(link) = self.links.get(at).map(|link| link.driver.link()) else { continue };
            let addr = link.local_addr().map(|addr| addr.to_string()).unwrap_or_default();
            let (change, what) = if up {
                (PathChange::Up, "has a carrier again")
            } else {
                (PathChange::Down, "has no carrier: others carry what went by it")
            };
            log!("the link at {addr} {what}");
            node.handle_path(now, link.id(), change);
        }
    }

    pub(super) fn links(&self) -> &[Link] {
        &self.links
    }

    /// Where datagrams are received.
    pub(super) fn addrs(&self) -> io::Result<Vec<SocketAddr>> {
        self.links.iter().map(|l| l.driver.link().local_addr()).collect()
    }

    /// Something waits at the link with this key, or it takes datagrams again.
    pub(super) fn is_ready(&mut self, key: u64, writable: bool, poll: &Poll) -> io::Result<()> {
        let Some(link) = self.links.iter_mut().find(|l| l.key == key) else { return Ok(()) };
        link.readable = true;
        if writable { link.unblock(poll) } else { Ok(()) }
    }

    /// Hands datagrams that wait to the node, of each link as many as fit into a turn.
    pub(super) fn receive(
        &mut self,
        node: &mut Node,
        clock: &Clock,
        memory: &mut HeapMemory,
    ) -> io::Result<()> {
        for (i, link) in self.links.iter_mut().enumerate() {
            if std::mem::take(&mut link.readable) && link.driver.receive(clock, node, memory)? {
                self.busy = i;
            }
        }
        Ok(())
    }

    /// [`LinkDriver::spin`].
    pub(super) fn spin(
        &mut self,
        node: &mut Node,
        clock: &Clock,
        memory: &mut HeapMemory,
    ) -> io::Result<bool> {
        self.links[self.busy].driver.spin(clock, node, memory)
    }

    /// Sleeps for a moment where datagrams come so fast that it pays, nothing waits to be sent, and
    /// nothing is due before it is over; true when it did.
    pub(super) fn gather(&mut self, clock: &Clock, next: Option<Instant>) -> bool {
        let pause = self.links[self.busy].driver.gather(clock);
        if pause.is_zero() || self.links.iter().any(|l| l.blocked || l.more) {
            return false;
        }
        let due = next.into_iter().chain(self.held_until()).min();
        if due.is_some_and(|due| due.since(clock.now()) < pause) {
            return false;
        }
        std::thread::sleep(pause);
        true
    }

    /// Sends what the node has to send. True when there may be more: a turn was over first.
    pub(super) fn transmit(
        &mut self,
        node: &mut Node,
        clock: &Clock,
        memory: &HeapMemory,
        poll: &Poll,
    ) -> io::Result<bool> {
        let mut more = false;
        for _ in 0..PASSES {
            let (sent, left) = self.pass(node, clock, memory, poll)?;
            more = left;
            if !sent || self.links.len() == 1 {
                return Ok(more);
            }
            more = true;
        }
        Ok(more)
    }

    /// Asks each link once. Whether one of them sent something, and whether there may be more.
    fn pass(
        &mut self,
        node: &mut Node,
        clock: &Clock,
        memory: &HeapMemory,
        poll: &Poll,
    ) -> io::Result<(bool, bool)> {
        let (mut sent, mut more) = (false, false);
        for link in self.links.iter_mut().filter(|l| !l.blocked) {
            let turn = link.driver.transmit(clock, node, memory);
            while let Some(notice) = link.driver.notice() {
                tell(&notice);
            }
            if turn == Turn::Blocked {
                link.blocked = true;
                poll.set_writable(&link.driver, link.key, true)?;
            }
            sent |= turn != Turn::Idle;
            link.more = turn == Turn::More;
            more |= link.more;
        }
        Ok((sent, more))
    }

    /// When a paced link lets the next of what waits go.
    pub(super) fn held_until(&self) -> Option<Instant> {
        let open = self.links.iter().filter(|l| !l.blocked);
        open.filter_map(|l| l.driver.held_until()).min()
    }

    /// Reserves at a link's egress.
    pub(super) fn reserve(&mut self, now: Instant, asked: &Reservation) -> Result<(), NotReserved> {
        let link = self.links.iter_mut().find(|l| l.driver.link().id() == asked.link);
        link.map_or(Err(NotReserved::NoRate), |l| l.driver.egress_mut().admit(now, asked))
    }

    /// Ends a reservation at a link's egress.
    pub(super) fn release(&mut self, now: Instant, link: LinkId, of: (AssociationId, ChannelId)) {
        if let Some(link) = self.links.iter_mut().find(|l| l.driver.link().id() == link) {
            link.driver.egress_mut().release(now, of);
        }
    }

    /// Bytes that all links have sent and received so far.
    pub(super) fn moved(&self) -> u64 {
        let of = |l: &Link| l.driver.counters().bytes_sent + l.driver.counters().bytes_received;
        self.links.iter().map(of).sum()
    }

    /// Channels that are reserved.
    pub(super) fn reserved(&self) -> usize {
        self.links.iter().map(|l| l.driver.egress().reserved()).sum()
    }

    /// What paced links have let go, all of them together.
    pub(super) fn paced(&self) -> EgressStats {
        let all = self.links.iter().filter_map(|l| l.driver.egress().stats());
        all.fold(EgressStats::default(), EgressStats::and)
    }

    /// Whatever blocked, it is tried again.
    pub(super) fn unblock(&mut self, poll: &Poll) -> io::Result<()> {
        self.links.iter_mut().try_for_each(|l| l.unblock(poll))
    }

    /// Trains that the kernel refused.
    pub(super) fn send_errors(&self) -> u64 {
        let errors = |l: &Link| l.driver.counters().send_errors + l.driver.counters().too_long;
        self.links.iter().map(errors).sum()
    }
}

impl Link {
    fn unblock(&mut self, poll: &Poll) -> io::Result<()> {
        if !std::mem::take(&mut self.blocked) {
            return Ok(());
        }
        poll.set_writable(&self.driver, self.key, false)
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
