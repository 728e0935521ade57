//! Nodes, ports and routes after the checks.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use super::discipline::{Discipline, DisciplineName};

/// A host or switch: its place in the file, hosts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

/// A direction of a link: the egress of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortId(pub u32);

/// What traffic costs a host's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Time per packet in ns.
    pub packet_ns: u64,
    /// Time per byte in ps.
    pub byte_ps: u64,
    /// Share of one processor that may be reserved, in parts per million.
    pub limit_ppm: u32,
    /// Longest time for which something else keeps the processor, in ns.
    pub blocking_ns: u64,
    /// Delay promised to each channel, in ns.
    pub budget_ns: u64,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Starts and ends channels.
    Host {
        /// `None`: processor time is not tested.
        cpu: Option<Cpu>,
    },
    /// Forwards.
    Switch {
        /// From a packet's last bit to its place in the output queue, in ns.
        latency_ns: u64,
        /// What all ports together forward.
        fabric_bps: Option<u64>,
        /// Memory shared by the ports' queues, in bits.
        memory_bits: Option<u64>,
    },
}

/// A host or switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Its egress ports, in the order of the links in the file.
    pub ports: Vec<PortId>,
}

/// The egress of a node towards another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The node it belongs to.
    pub node: NodeId,
    /// Unique within its node.
    pub name: String,
    /// The node at the other end.
    pub peer: NodeId,
    /// Slowest of link and both interfaces, in bit/s.
    pub rate_bps: u64,
    /// Propagation in ns.
    pub delay_ns: u64,
    /// Scheduler by name.
    pub scheduler: DisciplineName,
    /// Scheduler by what it promises.
    pub discipline: Discipline,
    /// Queue memory in bits.
    pub queue_bits: u64,
    /// Largest piece that is sent without interruption, in wire bits: blocks at most this long.
    pub packet_bits: u64,
}

/// A checked sub-network. Invariants: names are unique; every host reaches every other; hosts
/// stand before switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pub(super) nodes: Vec<Node>,
    pub(super) ports: Vec<Port>,
    pub(super) hosts: usize,
    /// `next[host][node]`: the port from the node towards the host; `u32::MAX` at the host.
    pub(super) next: Vec<Vec<u32>>,
}

/// Most ports on a route.
pub const HOPS_MAX: usize = 32;

impl Topology {
    /// The same with other ports of hosts: for who knows what their hosts do.
    #[must_use]
    pub fn with_host_ports(mut self, change: impl Fn(&mut Port)) -> Self {
        let hosts = self.hosts as u32;
        self.ports.iter_mut().filter(|port| port.node.0 < hosts).for_each(change);
        self
    }

    /// All nodes, hosts first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All ports.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// The hosts.
    pub fn hosts(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.hosts as u32).map(NodeId)
    }

    /// A node; `None` if it is not of this topology.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    /// A port; `None` if it is not of this topology.
    pub fn port(&self, id: PortId) -> Option<&Port> {
        self.ports.get(id.0 as usize)
    }

    /// A host by name.
    pub fn host_named(&self, name: &str) -> Option<NodeId> {
        self.hosts().find(|id| self.nodes[id.0 as usize].name == name)
    }

    /// `node:port`.
    pub fn port_name(&self, id: PortId) -> PortName<'_> {
        PortName { topology: self, id }
    }

    /// The ports from one host to another, in order. Empty from a host to itself and for ids that
    /// are not hosts of this topology.
    pub fn route(&self, from: NodeId, to: NodeId) -> Route<'_> {
        let known = (from.0 as usize) < self.hosts && (to.0 as usize) < self.hosts;
        Route { topology: self, at: if known { from } else { to }, to }
    }

    /// The next port from a node towards a host.
    fn towards(&self, at: NodeId, to: NodeId) -> Option<PortId> {
        let port = *self.next.get(to.0 as usize)?.get(at.0 as usize)?;
        (port != u32::MAX).then_some(PortId(port))
    }
}

/// Iterates over the ports of a route.
#[derive(Clone, Debug)]
pub struct Route<'a> {
    topology: &'a Topology,
    at: NodeId,
    to: NodeId,
}

impl Iterator for Route<'_> {
    type Item = PortId;

    fn next(&mut self) -> Option<PortId> {
        if self.at == self.to {
            return None;
        }
        let port = self.topology.towards(self.at, self.to)?;
        self.at = self.topology.ports[port.0 as usize].peer;
        Some(port)
    }
}

/// Displays as `node:port`.
#[derive(Clone, Copy, Debug)]
pub struct PortName<'a> {
    topology: &'a Topology,
    id: PortId,
}

impl fmt::Display for PortName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(port) = self.topology.port(self.id) else {
            return write!(f, "port {}", self.id.0);
        };
        write!(f, "{}:{}", self.topology.nodes[port.node.0 as usize].name, port.name)
    }
}
