//! All resources of a sub-network: ports, processors, switches.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::cpu::CpuState;
use super::plan::{Ask, Totals};
use super::port::{PortState, Slot, SlotKind};
use super::refusal::{Resource, Shortage};
use crate::topology::{NodeKind, Topology};

/// A switch's shared resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SwitchState {
    fabric_bps: Option<u64>,
    memory_bits: Option<u64>,
    used_bps: u64,
    used_bits: u64,
}

/// What is reserved of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Network {
    ports: Vec<PortState>,
    /// By port: the node it belongs to, and what comes before and behind its queue in ns.
    node: Vec<u32>,
    fixed_ns: Vec<u64>,
    cpus: Vec<CpuState>,
    switches: Vec<Option<SwitchState>>,
}

impl Network {
    pub(super) fn new(topology: &Topology) -> Self {
        let nodes = topology.nodes();
        let latency = |node: u32| match nodes[node as usize].kind {
            NodeKind::Switch { latency_ns, .. } => latency_ns,
            NodeKind::Host { .. } => 0,
        };
        let ports = topology.ports();
        Self {
            ports: ports.iter().map(PortState::new).collect(),
            node: ports.iter().map(|port| port.node.0).collect(),
            fixed_ns: ports.iter().map(|port| latency(port.node.0) + port.delay_ns).collect(),
            cpus: nodes
                .iter()
                .map(|node| match node.kind {
                    NodeKind::Host { cpu } => CpuState::new(cpu),
                    NodeKind::Switch { .. } => CpuState::new(None),
                })
                .collect(),
            switches: nodes
                .iter()
                .map(|node| match node.kind {
                    NodeKind::Switch { fabric_bps, memory_bits, .. } => {
                        Some(SwitchState { fabric_bps, memory_bits, used_bps: 0, used_bits: 0 })
                    }
                    NodeKind::Host { .. } => None,
                })
                .collect(),
        }
    }

    pub(super) fn port(&self, port: u32) -> &PortState {
        &self.ports[port as usize]
    }

    pub(super) fn cpu(&self, node: u32) -> &CpuState {
        &self.cpus[node as usize]
    }

    /// Switch latency before, and propagation behind, the queue.
    pub(super) fn fixed_ns(&self, port: u32) -> u64 {
        self.fixed_ns[port as usize]
    }

    fn switch(&self, port: u32) -> Option<&SwitchState> {
        self.switches[self.node[port as usize] as usize].as_ref()
    }

    /// Memory for one more, of the port and of its switch.
    pub(super) fn free_memory_bits(&self, port: u32) -> u64 {
        let own = self.port(port).free_memory_bits();
        let shared = self.switch(port).and_then(|s| Some(s.memory_bits? - s.used_bits));
        own.min(shared.unwrap_or(u64::MAX))
    }

    /// Rate of a switch's fabric that is free.
    pub(super) fn free_fabric_bps(&self, port: u32) -> u64 {
        let free = self.switch(port).and_then(|s| Some(s.fabric_bps?.saturating_sub(s.used_bps)));
        free.unwrap_or(u64::MAX)
    }

    /// Rate that a rate-based run may reserve at a port.
    pub(super) fn free_for_run(&self, port: u32) -> u64 {
        let state = self.port(port);
        state.free_for_hard_bps().min(state.free_in_turns_bps()).min(self.free_fabric_bps(port))
    }

    /// Reserves a plan.
    pub(super) fn add(&mut self, ask: &Ask, totals: &Totals, slots: &[Slot]) {
        self.cpus[ask.from as usize].add(totals.source_work);
        self.cpus[ask.to as usize].add(totals.destination_work);
        for slot in slots {
            let load = ask.load.after(slot.jitter_ns);
            self.ports[slot.port as usize].add(slot, &load);
            if let Some(switch) = &mut self.switches[self.node[slot.port as usize] as usize] {
                switch.used_bps += rate_of(slot);
                switch.used_bits += slot.memory_bits;
            }
        }
    }

    /// Takes away what `add` reserved.
    pub(super) fn remove(&mut self, ask: &Ask, totals: &Totals, slots: &[Slot]) {
        self.cpus[ask.from as usize].remove(totals.source_work);
        self.cpus[ask.to as usize].remove(totals.destination_work);
        for slot in slots {
            let load = ask.load.after(slot.jitter_ns);
            self.ports[slot.port as usize].remove(slot, &load);
            if let Some(switch) = &mut self.switches[self.node[slot.port as usize] as usize] {
                switch.used_bps -= rate_of(slot);
                switch.used_bits -= slot.memory_bits;
            }
        }
    }

    /// Whether every port's condition holds; the first that does not.
    pub(super) fn broken_port(&self) -> Option<u32> {
        self.ports.iter().position(|port| !port.holds_true()).map(|port| port as u32)
    }

    /// A shortage's resource, by name.
    pub(super) fn resource(&self, topology: &Topology, port: u32, shortage: &Shortage) -> Resource {
        let name = topology.port_name(crate::topology::PortId(port)).to_string();
        let node = || topology.nodes()[self.node[port as usize] as usize].name.clone();
        match *shortage {
            Shortage::MemoryBits { asked, .. } => {
                let own = asked > self.port(port).free_memory_bits();
                Resource::Memory(if own { name } else { node() })
            }
            Shortage::RateBps { asked, .. } => {
                let state = self.port(port);
                let own = asked > state.free_bps().min(state.free_in_turns_bps());
                if own { Resource::Port(name) } else { Resource::Fabric(node()) }
            }
            _ => Resource::Port(name),
        }
    }
}

/// What a slot takes of a switch's fabric.
const fn rate_of(slot: &Slot) -> u64 {
    match slot.kind {
        SlotKind::Bounded | SlotKind::Share => slot.rate_bps,
        SlotKind::Statistical(member) => member.mean_bps,
    }
}
