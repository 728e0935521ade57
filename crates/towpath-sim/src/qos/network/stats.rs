//! What became of a flow's packets.

use serde::{Deserialize, Serialize};

use crate::qos::histogram::Histogram;

/// One packet's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Its number in the flow, from 0.
    pub packet: u64,
    /// When it was delivered.
    pub at_ns: u64,
    /// From release to delivery.
    pub delay_ns: u64,
    /// Since the flow's delivery before.
    pub gap_ns: u64,
}

/// A packet that broke its promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Miss {
    /// Its number in the flow, from 0.
    pub packet: u64,
    /// When it was released.
    pub released_ns: u64,
    /// Its delay.
    pub delay_ns: u64,
    /// What had been promised.
    pub bound_ns: u64,
}

/// Counts and times of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowStats {
    /// Packets handed to the network.
    pub released: u64,
    /// Packets that arrived.
    pub delivered: u64,
    /// Their bytes on the wire.
    pub delivered_bytes: u64,
    /// Packets dropped by a full queue.
    pub lost_queue: u64,
    /// Packets dropped because too much work waited for a processor.
    pub lost_host: u64,
    /// Packets later than promised.
    pub beyond: u64,
    /// The first of them.
    pub first_miss: Option<Miss>,
    /// From release to delivery.
    pub delay: Histogram,
    /// From the source's having a packet to its release: regulator and blocked sender.
    pub shaping: Histogram,
    /// Between two deliveries.
    pub gap: Histogram,
    /// The packets that were to be kept one by one.
    pub series: Vec<Point>,
    /// When the first and the last packet were delivered.
    pub first_ns: u64,
    /// The last delivery.
    pub last_ns: u64,
}

impl FlowStats {
    /// Wire rate between the first delivery and the last, bit/s; 0 with fewer than two.
    pub fn rate_bps(&self) -> u64 {
        let span = self.last_ns.saturating_sub(self.first_ns);
        if self.delivered < 2 || span == 0 {
            return 0;
        }
        let mean = u128::from(self.delivered_bytes) / u128::from(self.delivered);
        let bits = (u128::from(self.delivered_bytes) - mean) * 8;
        (bits * 1_000_000_000 / u128::from(span)) as u64
    }

    /// Greatest delay minus least.
    pub const fn jitter_ns(&self) -> u64 {
        self.delay.max() - self.delay.min()
    }

    /// Packets lost anywhere.
    pub const fn lost(&self) -> u64 {
        self.lost_queue + self.lost_host
    }
}
