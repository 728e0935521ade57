//! What a workstation node is made of.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::parallel::ring::{Shape, half_way};
use crate::parallel::within::Within;

/// Bits of a packet: an FDDI frame's 4500 bytes.
pub(in crate::parallel) const PACKET_BITS: u64 = 36_000;

/// How processors, memory and rings hang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// Shared memory, a multiplexer before the rings.
    OneBus,
    /// Memory of each processor; a bus to the application, one to the rings.
    TwoBus,
    /// As one bus, with one processor that waits while its memory works.
    Serial,
}

/// Which ring's interface is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// In turn.
    Rr,
    /// The least of queue and last rotation of the token.
    Adaptive,
}

/// Others' load over the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// The same everywhere, always.
    Even,
    /// Six steps of a tenth, up on one half of the rings and down on the other.
    Uneven,
}

/// Rings, all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingSpec {
    /// Its rate.
    pub mbps: Within<1, 100_000>,
    /// Its length.
    pub km: Within<1, 10_000>,
    /// Others' share.
    pub background_percent: Within<0, 90>,
    /// Length of others' frames.
    pub background_frame_bits: Within<512, 36_000>,
    /// Frames that a station sends at most while it has the token.
    pub frames_per_token: Within<1, 1000>,
    /// Acknowledgements wait for the token, too.
    pub acks_on_ring: bool,
}

impl RingSpec {
    pub(in crate::parallel) fn time_of(&self, bits: u64) -> Duration {
        Duration::from_nanos(bits * 1000 / self.mbps.value())
    }

    pub(in crate::parallel) fn shape(&self) -> Shape {
        Shape {
            frame: self.time_of(PACKET_BITS),
            others_frame: self.time_of(self.background_frame_bits.value()),
            half_way: half_way(self.km.value()),
        }
    }
}

/// What the source does not print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusCosts {
    /// Instructions that send a packet, or take one.
    pub send_instructions: Within<0, 1_000_000>,
    /// Instructions of an acknowledgement.
    pub ack_instructions: Within<0, 1_000_000>,
    /// Passes over a packet's words in memory, in per cent of one.
    pub passes_percent: Within<1, 1000>,
    /// Words of one access of shared memory.
    pub access_words: Within<16, 2000>,
    /// The adaptive choice: what a packet that waits at an interface counts.
    pub queue_us: Within<0, 100_000>,
    /// The adaptive choice: what the token's last rotation counts, in per cent.
    pub rotation_percent: Within<0, 1000>,
}

/// A workstation node. Its peer is alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusNode {
    /// How its parts hang together.
    pub architecture: Architecture,
    /// Protocol processors.
    pub processors: Within<1, 64>,
    /// Interfaces, one ring each.
    pub interfaces: Within<1, 64>,
    /// Instructions per microsecond of a processor.
    pub mips: Within<1, 100_000>,
    /// Time of a word of 32 bits in memory.
    pub memory_ns: Within<1, 100_000>,
    /// Rate of each bus.
    pub bus_mbps: Within<10, 1_000_000>,
    /// Window of a processor's connection.
    pub window_kbit: Within<36, 360_000>,
    /// Packets of a segment.
    pub segment_packets: Within<1, 64>,
    /// Which interface is next.
    pub choice: Choice,
    /// Others' load.
    pub load: Load,
    /// Segments that wait for a window to open; their round trip runs already.
    pub waiting_segments: Within<0, 64>,
    /// Packets that the node has room for, whatever the windows are.
    pub packets_max: Within<1, 100_000>,
    /// Packets that an interface has room for behind the multiplexer.
    pub interface_packets: Within<1, 1000>,
    /// What is not printed.
    pub costs: BusCosts,
    /// The rings.
    pub ring: RingSpec,
}

impl BusNode {
    /// Packets of a processor's window.
    pub(super) fn window(&self) -> usize {
        (self.window_kbit.value() * 1000 / PACKET_BITS) as usize
    }

    /// A processor's time for so many instructions.
    pub(super) const fn work(&self, instructions: u64) -> Duration {
        Duration::from_nanos(instructions * 1000 / self.mips.value())
    }

    /// A bus' time.
    pub(super) const fn bus(&self, bits: u64) -> Duration {
        Duration::from_nanos(bits * 1000 / self.bus_mbps.value())
    }

    /// Words that a packet moves in memory.
    pub(super) const fn words(&self) -> u64 {
        PACKET_BITS / 32 * self.costs.passes_percent.value() / 100
    }

    /// Memory's time for so many words.
    pub(super) const fn memory(&self, words: u64) -> Duration {
        Duration::from_nanos(words * self.memory_ns.value())
    }
}
