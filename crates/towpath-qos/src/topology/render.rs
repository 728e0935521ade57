//! A topology as text.

use core::fmt;

use super::graph::{NodeKind, Topology};
use towpath_wire::{ByteSize, Rate};

impl fmt::Display for Topology {
    /// A line per node, and one per port below it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in self.nodes() {
            match &node.kind {
                NodeKind::Host { cpu: None } => writeln!(f, "host {}", node.name)?,
                NodeKind::Host { cpu: Some(cpu) } => writeln!(
                    f,
                    "host {}  cpu {} ns/packet, {} ps/byte, at most {} ppm",
                    node.name, cpu.packet_ns, cpu.byte_ps, cpu.limit_ppm
                )?,
                NodeKind::Switch { latency_ns, fabric_bps, memory_bits } => {
                    write!(f, "switch {}  latency {latency_ns} ns", node.name)?;
                    if let Some(bps) = fabric_bps {
                        write!(f, ", fabric {}", Rate::from_bps(*bps))?;
                    }
                    if let Some(bits) = memory_bits {
                        write!(f, ", memory {}", ByteSize::from_bytes(bits / 8))?;
                    }
                    writeln!(f)?;
                }
            }
            for &id in &node.ports {
                let port = &self.ports()[id.0 as usize];
                writeln!(
                    f,
                    "  {} -> {}  {}, {} ns, {}, queue {}",
                    port.name,
                    self.nodes()[port.peer.0 as usize].name,
                    Rate::from_bps(port.rate_bps),
                    port.delay_ns,
                    port.scheduler,
                    ByteSize::from_bytes(port.queue_bits / 8)
                )?;
            }
        }
        Ok(())
    }
}
