//! Hosts, interfaces, links and switches, and the routes over them.
//!
//! A [`Topology`] comes from TOML ([`Topology::parse`]) or a generator ([`tree`]). Each direction
//! of a link is a [`Port`]: the egress of one node towards another, with a packet scheduler.
//! Only switches forward. Routes are fixed: fewest hops, ties to the port that stands first in
//! the file. Cycles of switches are allowed: since each hop's delay budget is fixed at admission,
//! no bound depends on itself (`admission` says why).

mod build;
mod discipline;
mod form;
mod graph;
mod render;
#[cfg(test)]
mod tests;
pub mod tree;

pub use build::{
    FILE_BYTES_MAX, Fault, LEVELS_MAX, LINKS_MAX, NODES_MAX, SESSIONS_MAX, TopologyError,
};
pub use discipline::{Discipline, DisciplineName};
pub use form::{CpuForm, HostForm, LinkForm, PortForm, SwitchForm, TopologyForm};
pub use graph::{Cpu, HOPS_MAX, Node, NodeId, NodeKind, Port, PortId, Topology};
