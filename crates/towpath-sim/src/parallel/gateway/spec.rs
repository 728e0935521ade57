//! What it is made of.

use serde::{Deserialize, Serialize};

use crate::parallel::bus::RingSpec;
use crate::parallel::within::Within;

/// Where segments, or packets, go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Nowhere else.
    Fixed,
    /// To the right neighbour, too.
    Adaptive,
}

/// A row of gateways. The peer is alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayNode {
    /// Gateways, a ring each.
    pub gateways: Within<2, 64>,
    /// What all generators together offer.
    pub offered_kbps: Within<1, 100_000_000>,
    /// Share of the first generator; all others have as much as each other.
    pub hot_percent: Within<1, 99>,
    /// To which processor a segment goes.
    pub segments: Way,
    /// On which ring a packet goes.
    pub packets: Way,
    /// Window of a connection; a packet is no longer than it.
    pub window_bytes: Within<512, 1_000_000>,
    /// A queue is full with so many segments.
    pub high_segments: Within<1, 10_000>,
    /// A queue that was full wants more below so many.
    pub low_segments: Within<1, 10_000>,
    /// A segment to the neighbour.
    pub hop_us: Within<1, 1_000_000>,
    /// A processor's time to send a packet, and the peer's to take and acknowledge it.
    pub send_us: Within<0, 1_000_000>,
    /// See `send_us`.
    pub take_us: Within<0, 1_000_000>,
    /// Rings that are overloaded, from the first one.
    pub overloaded: Within<0, 64>,
    /// Others' share of those.
    pub overload_percent: Within<0, 90>,
    /// The adaptive choice of a ring: what a packet that waits there counts.
    pub queue_us: Within<0, 100_000>,
    /// The same: what the token's last rotation counts, in per cent.
    pub rotation_percent: Within<0, 1000>,
    /// The rings.
    pub ring: RingSpec,
}

impl GatewayNode {
    /// Bytes of a packet, and how many of them a window holds.
    pub(super) fn packets_of_window(&self) -> (u64, usize) {
        let window = self.window_bytes.value();
        let packet = window.min(4500);
        (packet, (window / packet) as usize)
    }

    /// Segments that a generator makes in a second.
    pub(super) fn segments_per_second(&self, generator: usize) -> f64 {
        let hot = self.hot_percent.value() as f64 / 100.0;
        let others = (self.gateways.value() - 1) as f64;
        let share = if generator == 0 { hot } else { (1.0 - hot) / others };
        let (bytes, _) = self.packets_of_window();
        self.offered_kbps.value() as f64 * 1000.0 * share / (bytes * 8) as f64
    }
}
