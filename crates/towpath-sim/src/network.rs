//! Links, the routes over them, and the datagrams under way.

use towpath_proto::Rng;
use towpath_wire::Instant;

use crate::link::{Link, LinkSpec};

/// A datagram on its way over the links of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transit {
    /// The host that sent it.
    pub from: usize,
    /// The host that it is for.
    pub to: usize,
    /// Its ECN bits.
    pub ecn: u8,
    /// The network that it travels on, where hosts stand on several.
    pub fabric: u8,
    /// Links of its route that it has behind it, the present one included.
    hops: u16,
    packet: u32,
}

/// A datagram that a host sent, as an onlooker beside the host sees it.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// Simulated time.
    pub at: Instant,
    /// The host that sent it.
    pub from: usize,
    /// The host that it is for.
    pub to: usize,
    /// The network that it travels on, where hosts stand on several.
    pub fabric: u8,
    /// Its bytes.
    pub datagram: &'a [u8],
    /// How often it left the first link of its route: 0 when it was lost there.
    pub copies: usize,
}

/// What looks on while datagrams are sent.
pub type Tap = Box<dyn FnMut(&Sent<'_>)>;

/// Links and routes between hosts. Invariant: a route holds only links that there are.
pub struct Network {
    links: Vec<Link>,
    /// By host from, then host to.
    routes: Vec<Vec<Vec<usize>>>,
    /// By host: its links to and from the middle of a star, over which it reaches those that it
    /// has no route to.
    star: Vec<[usize; 2]>,
    /// Its number, where hosts stand on several networks.
    fabric: u8,
    seed: u64,
    packets: Vec<Vec<u8>>,
    free: Vec<u32>,
    tap: Option<Tap>,
}

impl Network {
    /// A network without links; `seed` feeds those that come.
    pub fn new(seed: u64) -> Self {
        Self::fabric(seed, 0)
    }

    /// The same, one of several that hosts stand on: network `number` of them.
    pub fn fabric(seed: u64, number: u8) -> Self {
        Self {
            links: Vec::new(),
            routes: Vec::new(),
            star: Vec::new(),
            fabric: number,
            seed,
            packets: Vec::new(),
            free: Vec::new(),
            tap: None,
        }
    }

    /// Lets someone look on.
    pub fn set_tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// Adds one direction of a link; returns its number.
    pub fn add_link(&mut self, spec: LinkSpec) -> usize {
        let number = self.links.len();
        let stream = number as u64 | u64::from(self.fabric) << 40 | 1 << 50;
        self.links.push(Link::new(spec, Rng::new(self.seed, stream)));
        number
    }

    /// A link by its number.
    pub fn link(&mut self, number: usize) -> &mut Link {
        &mut self.links[number]
    }

    /// Every link, in order of number.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Datagrams from one host to another pass these links, in this order, from now on. Several
    /// routes may share a link.
    pub fn set_route(&mut self, from: usize, to: usize, links: &[usize]) {
        assert!(links.iter().all(|l| *l < self.links.len()), "a route is made of links");
        let hosts = self.routes.len().max(from + 1).max(to + 1);
        self.routes.resize(hosts, Vec::new());
        self.routes.iter_mut().for_each(|row| row.resize(hosts, Vec::new()));
        self.routes[from][to] = links.to_vec();
    }

    /// Gives the next host of a star a link to its middle and one back.
    pub fn add_ray(&mut self, out: LinkSpec, back: LinkSpec) {
        let ray = [self.add_link(out), self.add_link(back)];
        self.star.push(ray);
    }

    /// A star's host's links: to its middle, and back.
    pub fn ray(&self, host: usize) -> [usize; 2] {
        self.star[host]
    }

    /// Link number `hop` from one host to another; `None` behind the last.
    fn leg(&self, from: usize, to: usize, hop: usize) -> Option<usize> {
        let route = self.route(from, to);
        if route.is_empty() && from != to {
            let ends = [self.star.get(from)?[0], self.star.get(to)?[1]];
            return ends.get(hop).copied();
        }
        route.get(hop).copied()
    }

    /// The links from one host to another that have a route of their own; empty when there are
    /// none.
    pub fn route(&self, from: usize, to: usize) -> &[usize] {
        self.routes.get(from).and_then(|row| row.get(to)).map_or(&[], Vec::as_slice)
    }

    /// Sends a datagram: `schedule` is told when it, or a copy of it, comes out of the first link
    /// of its route. Nothing comes of it where there is no route.
    pub fn send(
        &mut self,
        now: Instant,
        from: usize,
        to: usize,
        datagram: &[u8],
        ecn: u8,
        schedule: impl FnMut(Instant, Transit),
    ) {
        let (packet, fabric) = (self.store(datagram), self.fabric);
        let copies = self.hop(now, Transit { from, to, ecn, fabric, hops: 0, packet }, schedule);
        if let Some(tap) = &mut self.tap {
            tap(&Sent { at: now, from, to, fabric, datagram, copies });
        }
    }

    /// A datagram came out of a link: gives it back when it has arrived, else sends it over the
    /// next link of its route.
    pub fn arrive(
        &mut self,
        now: Instant,
        transit: Transit,
        schedule: impl FnMut(Instant, Transit),
    ) -> Option<Transit> {
        if self.leg(transit.from, transit.to, transit.hops.into()).is_none() {
            return Some(transit);
        }
        self.hop(now, transit, schedule);
        None
    }

    /// The bytes of a datagram under way.
    pub fn bytes(&mut self, transit: Transit) -> &mut [u8] {
        &mut self.packets[transit.packet as usize]
    }

    /// A datagram's way is over, wherever that was.
    pub fn release(&mut self, transit: Transit) {
        self.free.push(transit.packet);
    }

    fn store(&mut self, datagram: &[u8]) -> u32 {
        let packet = self.free.pop().unwrap_or_else(|| {
            self.packets.push(Vec::new());
            self.packets.len() as u32 - 1
        });
        let bytes = &mut self.packets[packet as usize];
        bytes.clear();
        bytes.extend_from_slice(datagram);
        packet
    }

    /// Over the next link; returns how many came out of it. The datagram's bytes go on with the
    /// first of them.
    fn hop(
        &mut self,
        now: Instant,
        transit: Transit,
        mut schedule: impl FnMut(Instant, Transit),
    ) -> usize {
        let link = self.leg(transit.from, transit.to, transit.hops.into());
        let Some(link) = link.map(|l| &mut self.links[l]) else {
            self.release(transit);
            return 0;
        };
        let arrivals = link.offer(now, self.packets[transit.packet as usize].len(), transit.ecn);
        let second = arrivals[1].map(|_| {
            let copy = self.packets[transit.packet as usize].clone();
            self.store(&copy)
        });
        let packets = [Some(transit.packet), second];
        let mut copies = 0;
        for (arrival, packet) in arrivals.into_iter().zip(packets) {
            let (Some(arrival), Some(packet)) = (arrival, packet) else { continue };
            if let Some(bit) = arrival.corrupt {
                self.packets[packet as usize][bit / 8] ^= 1 << (bit % 8);
            }
            copies += 1;
            let hops = transit.hops + 1;
            schedule(arrival.at, Transit { ecn: arrival.ecn, hops, packet, ..transit });
        }
        if copies == 0 {
            self.release(transit);
        }
        copies
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    const HOP: LinkSpec =
        LinkSpec { rate_bps: 8_000_000, delay_us: 1000, framing_bytes: 0, ..LinkSpec::PLAIN };

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    /// Sends 1000 bytes; gives when it arrives at its host.
    fn arrival(net: &mut Network, now: Instant, from: usize, to: usize) -> Option<Instant> {
        let mut next = None;
        net.send(now, from, to, &[7; 1000], 0, |at, t| next = Some((at, t)));
        while let Some((now, transit)) = next.take() {
            if let Some(here) = net.arrive(now, transit, |at, t| next = Some((at, t))) {
                assert_eq!(net.bytes(here), [7; 1000]);
                net.release(here);
                return Some(now);
            }
        }
        None
    }

    #[test]
    fn two_pairs_share_a_link_and_wait_for_each_other() {
        let mut net = Network::new(1);
        let (shared, own) = (net.add_link(HOP), net.add_link(HOP));
        net.set_route(0, 1, &[shared]);
        net.set_route(2, 3, &[own, shared]);
        assert_eq!(arrival(&mut net, at(0), 0, 1), Some(at(2000)));
        // 1 ms each on two links of 1 ms; the shared one is free again by then.
        assert_eq!(arrival(&mut net, at(0), 2, 3), Some(at(4000)));
        assert_eq!(arrival(&mut net, at(2500), 0, 1), Some(at(5000)), "behind the other's");
        assert_eq!(arrival(&mut net, at(0), 1, 0), None, "no way back");
    }

    #[test]
    fn no_packet_is_kept_once_its_way_is_over() {
        let mut net = Network::new(1);
        let link = net.add_link(LinkSpec { duplicate_ppm: 300_000, loss_ppm: 300_000, ..HOP });
        net.set_route(0, 1, &[link]);
        let seen = Rc::new(Cell::new(0));
        let count = seen.clone();
        net.set_tap(Box::new(move |sent| count.set(count.get() + sent.copies)));
        let mut arrived = 0;
        for n in 0..1000 {
            let mut ways = Vec::new();
            net.send(at(n * 2000), 0, 1, &[1; 500], 2, |at, t| ways.push((at, t)));
            for (now, transit) in ways {
                let here = net.arrive(now, transit, |_, _| unreachable!()).unwrap();
                assert_eq!((net.bytes(here).len(), here.ecn), (500, 2));
                net.release(here);
                arrived += 1;
            }
        }
        assert!(arrived > 800 && arrived == seen.get(), "{arrived}");
        assert_eq!(net.packets.len(), 2);
        assert_eq!(net.free.len(), 2);
    }
}
