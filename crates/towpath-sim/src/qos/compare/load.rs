//! The loads that all disciplines are put under.

use serde::{Deserialize, Serialize};
use towpath_qos::file::{self, FileError};

/// How a class's channels send, within their specification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sending {
    /// All that the specification allows, all bursts at once.
    #[default]
    Greedy,
    /// Bursts after pauses, phases drawn at random.
    OnOff,
    /// Evenly.
    Periodic,
}

/// Channels of one kind. Sizes are wire bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Name.
    pub name: String,
    /// How many channels.
    pub channels: u32,
    /// Sustained rate ρ of each.
    pub rate_bps: u64,
    /// Burst σ of each; at least a packet.
    pub burst_bytes: u64,
    /// Packet size.
    pub packet_bytes: u32,
    /// Deadline over one port.
    pub deadline_us: u64,
    /// How they send.
    #[serde(default)]
    pub sending: Sending,
}

/// A set of classes, ports in a row, and what fills the ports up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// Rate of every port.
    pub link_bps: u64,
    /// Ports in a row.
    pub hops: u32,
    /// Simulated time of a run.
    pub duration_ms: u64,
    /// Everything random follows from it.
    pub seed: u64,
    /// Weights of the saturating bulk channels at each port.
    pub bulk_weights: Vec<u16>,
    /// Packet size of bulk channels.
    pub bulk_packet_bytes: u32,
    /// Classes with deadlines; the schedulable region is spanned by the first two.
    pub classes: Vec<Class>,
    /// Most channels of each axis of the schedulable region, and the step along the first.
    #[serde(deserialize_with = "towpath_qos::file::pair")]
    pub region_max: [u32; 2],
    /// Queues of the scalability runs.
    pub queues: Vec<u32>,
}

impl Default for Load {
    fn default() -> Self {
        let class =
            |name: &str, channels, rate_bps, burst_bytes, packet_bytes, deadline_us| Class {
                name: name.into(),
                channels,
                rate_bps,
                burst_bytes,
                packet_bytes,
                deadline_us,
                sending: Sending::OnOff,
            };
        Self {
            link_bps: 100_000_000,
            hops: 3,
            duration_ms: 1000,
            seed: 1,
            bulk_weights: vec![1, 2, 3, 4],
            bulk_packet_bytes: 1538,
            classes: vec![
                class("video", 6, 4_000_000, 15_380, 1538, 12_000),
                class("voice", 20, 96_000, 300, 300, 3_000),
                class("control", 4, 200_000, 1_200, 300, 1_000),
            ],
            region_max: [24, 400],
            queues: vec![10, 1000, 100_000],
        }
    }
}

/// Why a load cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Not TOML, a field that there is not, or too long.
    #[error(transparent)]
    Syntax(#[from] FileError),
    /// A value out of range.
    #[error("{place}: {field} is {value}, must be {must}")]
    Range {
        /// Class, or the load.
        place: String,
        /// Field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        must: &'static str,
    },
    /// A scheduler refused what it was given.
    #[error("{discipline}: {error}")]
    Scheduler {
        /// Its name.
        discipline: &'static str,
        /// What the network said.
        error: crate::qos::network::NetworkError,
    },
}

impl Load {
    /// Reads a load of at most [`file::BYTES_MAX`] from TOML and checks it.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        let load: Self = file::read(text, file::BYTES_MAX)?;
        load.check()?;
        Ok(load)
    }

    /// Checks every number.
    pub fn check(&self) -> Result<(), LoadError> {
        let within = |place: &str, field, value: u64, least: u64, most: u64, must| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(LoadError::Range { place: place.into(), field, value, must })
        };
        let rate = "1000000 to 400000000000";
        within("load", "link_bps", self.link_bps, 1_000_000, 400_000_000_000, rate)?;
        within("load", "hops", self.hops.into(), 1, 16, "1 to 16")?;
        within("load", "duration_ms", self.duration_ms, 1, 600_000, "1 to 600000")?;
        let size = u64::from(self.bulk_packet_bytes);
        within("load", "bulk_packet_bytes", size, 64, 65_536, "64 to 65536")?;
        let bulk = self.bulk_weights.len() as u64;
        within("load", "number of bulk_weights", bulk, 1, 64, "1 to 64")?;
        for weight in &self.bulk_weights {
            within("load", "bulk_weights", u64::from(*weight), 1, 1000, "1 to 1000")?;
        }
        let classes = self.classes.len() as u64;
        within("load", "number of classes", classes, 2, 16, "2 to 16")?;
        for most in self.region_max {
            within("load", "region_max", most.into(), 1, 10_000, "1 to 10000")?;
        }
        for queues in &self.queues {
            within("load", "queues", u64::from(*queues), 1, 1_000_000, "1 to 1000000")?;
        }
        for c in &self.classes {
            let (packet, burst) = (u64::from(c.packet_bytes), c.burst_bytes);
            within(&c.name, "channels", c.channels.into(), 0, 10_000, "at most 10000")?;
            within(&c.name, "rate_bps", c.rate_bps, 1000, self.link_bps, "1000 to link_bps")?;
            within(&c.name, "packet_bytes", packet, 64, 65_536, "64 to 65536")?;
            within(&c.name, "burst_bytes", burst, packet, 1 << 24, "a packet to 16777216")?;
            within(&c.name, "deadline_us", c.deadline_us, 1, 1_000_000, "1 to 1000000")?;
        }
        Ok(())
    }
}
