//! The links of hosts, the networks that they lead to, and the addresses there.

use std::net::SocketAddr;

use towpath_node::egress::LinkEgress;
use towpath_proto::{Free, Machine, PathChange, Transmit};
use towpath_wire::{Instant, LinkId};

use super::{SimHost, World};
use crate::link::LinkSpec;
use crate::network::Network;

/// A link of a simulated host.
pub(crate) struct SimLink {
    /// The network that it leads to.
    pub(super) fabric: u8,
    /// Who decides what it sends next.
    pub(super) egress: LinkEgress,
    /// Before then its egress lets nothing go, by the host's clock.
    pub(super) held_until: Option<Instant>,
    /// A train that may not leave yet.
    pub(super) held: Option<Held>,
    /// It has a carrier.
    pub(super) up: bool,
}

/// A train that leaves later ([`Transmit::not_before`]).
pub(super) struct Held {
    pub(super) train: Transmit,
    pub(super) bytes: Vec<u8>,
}

impl SimLink {
    pub(super) fn new(fabric: u8) -> Self {
        // Its number comes with the rate, when a node boots.
        let egress = LinkEgress::Free(Free::new(LinkId(0)));
        Self { fabric, egress, held_until: None, held: None, up: true }
    }
}

impl SimHost {
    /// Channels that are reserved on its links.
    pub(crate) fn reserved(&self) -> usize {
        self.links.iter().map(|l| l.egress.reserved()).sum()
    }

    /// Its link to a network.
    pub(super) fn link_to(&self, fabric: u8) -> Option<LinkId> {
        self.links.iter().position(|l| l.fabric == fabric).map(|at| LinkId(at as u16))
    }
}

/// The address of host `index` on the first network.
pub fn address(index: usize) -> SocketAddr {
    address_on(0, index)
}

/// The address of host `index` on a network.
pub fn address_on(fabric: u8, index: usize) -> SocketAddr {
    ([10, fabric, (index >> 8) as u8, index as u8], 7077).into()
}

pub(crate) fn index_of(addr: SocketAddr) -> Option<usize> {
    place_of(addr).map(|(_, index)| index)
}

/// Of which host on which network an address is.
pub(crate) fn place_of(addr: SocketAddr) -> Option<(u8, usize)> {
    match addr {
        SocketAddr::V4(a) => {
            let [_, fabric, hi, lo] = a.ip().octets();
            Some((fabric, usize::from(hi) << 8 | usize::from(lo)))
        }
        SocketAddr::V6(_) => None,
    }
}

impl World {
    /// Adds a network between all hosts that there are, with `spec` of (from, to): each has one
    /// more link, numbered behind those it has, or, where `first` says so, before them. To be
    /// called before nodes boot. Returns the network's number.
    ///
    /// # Panics
    /// For network 256.
    pub fn add_fabric(
        &mut self,
        mut spec: impl FnMut(usize, usize) -> LinkSpec,
        first: impl FnMut(usize) -> bool,
    ) -> u8 {
        let mut network = self.new_fabric(first);
        for from in 0..self.hosts.len() {
            for to in 0..self.hosts.len() {
                let link = network.add_link(spec(from, to));
                network.set_route(from, to, &[link]);
            }
        }
        self.push_fabric(network)
    }

    /// The same, a star: each host has a link to its middle, and one back.
    ///
    /// # Panics
    /// For network 256.
    pub fn add_star_fabric(&mut self, spec: LinkSpec, first: impl FnMut(usize) -> bool) -> u8 {
        let mut network = self.new_fabric(first);
        self.hosts.iter().for_each(|_| network.add_ray(spec, spec));
        self.push_fabric(network)
    }

    /// The next network, to which each host has a link.
    fn new_fabric(&mut self, mut first: impl FnMut(usize) -> bool) -> Network {
        let number = u8::try_from(self.fabrics.len()).expect("a world of 256 networks at most");
        for (host, h) in self.hosts.iter_mut().enumerate() {
            let at = if first(host) { 0 } else { h.links.len() };
            h.links.insert(at, SimLink::new(number));
        }
        Network::fabric(self.seed, number)
    }

    fn push_fabric(&mut self, network: Network) -> u8 {
        self.fabrics.push(network);
        (self.fabrics.len() - 1) as u8
    }

    /// How many networks there are.
    pub const fn fabrics(&self) -> usize {
        self.fabrics.len()
    }

    /// Where a host receives: its address on each of its links.
    pub fn addresses(&self, host: usize) -> Vec<SocketAddr> {
        self.hosts[host].links.iter().map(|l| address_on(l.fabric, host)).collect()
    }

    /// The link of a host to a network.
    ///
    /// # Panics
    /// Where it stands on no such network.
    pub fn link_to(&self, host: usize, fabric: u8) -> LinkId {
        self.hosts[host].link_to(fabric).expect("a network that the host stands on")
    }

    /// A host's link loses its carrier, or has it again, and its node is told.
    pub fn set_carrier(&mut self, host: usize, fabric: u8, up: bool) {
        let link = self.link_to(host, fabric);
        self.hosts[host].links[usize::from(link.0)].up = up;
        let change = if up { PathChange::Up } else { PathChange::Down };
        self.with(host, |node, now, _| node.handle_path(now, link, change));
    }

    /// Datagrams that came to the links of each network.
    pub fn offered(&self) -> Vec<u64> {
        let of = |n: &Network| n.links().iter().map(|l| l.stats.offered).sum();
        self.fabrics.iter().map(of).collect()
    }
}
