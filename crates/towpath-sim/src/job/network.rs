//! The network of a replay as a file; `scenarios/job` holds examples.

use serde::{Deserialize, Serialize};
use towpath_qos::file;

use crate::link::LinkSpec;
use crate::scenario::{BYTES_MAX, ScenarioError};

/// Longest frame: what a link of the simulator carries.
const FRAME_BYTES_MAX: u32 = 65_507;
/// Slowest processor, as a factor.
const SLOWER_MAX: f64 = 1e6;

/// What hosts are joined by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Medium {
    /// One medium for all: one frame at a time, first come, first served.
    Shared,
    /// A switch with a port for each host, both ways at once, store and forward.
    Switched,
}

/// How collectives are made of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Collectives {
    /// A message from each to each that needs something of it, as programs wrote it over PVM's
    /// sends.
    Linear,
    /// Broadcast and gather by binomial trees, all-gather in ⌈log₂ n⌉ rounds (Bruck et al., 1997),
    /// all-to-all in n - 1 rounds of pairs.
    #[default]
    Tree,
}

/// What a frame costs on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkCost {
    /// Bits per second of the medium, or of each direction of a port.
    pub rate_bps: u64,
    /// From one end to the other, in microseconds; through a switch there are two links.
    pub delay_us: u64,
    /// Bytes of messages in a frame at most.
    pub frame_bytes_max: u32,
    /// What each frame costs beside them: headers, preamble, gap.
    pub frame_overhead_bytes: u64,
}

impl Default for LinkCost {
    /// Ethernet: frames of 1518 bytes, 38 of preamble, header, check and gap, 40 of TCP and IP.
    fn default() -> Self {
        Self {
            rate_bps: 1_000_000_000,
            delay_us: 0,
            frame_bytes_max: 1460,
            frame_overhead_bytes: 78,
        }
    }
}

/// What messages cost processors, and how fast these work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessorCost {
    /// Recorded work takes so many times as long; absent: once.
    pub slower: Option<f64>,
    /// The sender's, of each message, in nanoseconds.
    pub send_message_ns: u64,
    /// The sender's, of each byte, in picoseconds.
    pub send_byte_ps: u64,
    /// The receiver's, of each message, in nanoseconds.
    pub receive_message_ns: u64,
    /// The receiver's, of each byte, in picoseconds.
    pub receive_byte_ps: u64,
}

/// What a replay runs over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobNetwork {
    /// What hosts are joined by.
    pub kind: Medium,
    /// What it stands for, in a sentence.
    #[serde(default)]
    pub about: String,
    /// How collectives are made of messages.
    #[serde(default)]
    pub collectives: Collectives,
    /// What a frame costs.
    #[serde(default)]
    pub link: LinkCost,
    /// What a message costs.
    #[serde(default)]
    pub processor: ProcessorCost,
}

impl JobNetwork {
    /// Reads a network from TOML.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let network: Self = file::read(text, BYTES_MAX)?;
        match network.out_of_range() {
            None => Ok(network),
            Some((field, value, must)) => {
                Err(ScenarioError::Range { field: field.into(), value, must })
            }
        }
    }

    /// How many times longer recorded work takes.
    pub fn slower(&self) -> f64 {
        self.processor.slower.unwrap_or(1.0)
    }

    /// The first field that is out of range: its name, its value, what it must be.
    pub fn out_of_range(&self) -> Option<(&'static str, String, &'static str)> {
        let (link, cpu) = (&self.link, &self.processor);
        let frame = u64::from(link.frame_bytes_max);
        let bounds = [
            ("link.rate_bps", link.rate_bps, 1000, 1_000_000_000_000, "between 1000 and 10^12"),
            ("link.delay_us", link.delay_us, 0, 1_000_000, "at most 1000000"),
            ("link.frame_bytes_max", frame, 1, FRAME_BYTES_MAX.into(), "between 1 and 65507"),
            ("link.frame_overhead_bytes", link.frame_overhead_bytes, 0, 10_000, "at most 10000"),
            ("processor.send_message_ns", cpu.send_message_ns, 0, 1 << 30, "at most 2^30"),
            ("processor.send_byte_ps", cpu.send_byte_ps, 0, 1 << 30, "at most 2^30"),
            ("processor.receive_message_ns", cpu.receive_message_ns, 0, 1 << 30, "at most 2^30"),
            ("processor.receive_byte_ps", cpu.receive_byte_ps, 0, 1 << 30, "at most 2^30"),
        ];
        let slower = self.slower();
        if !(slower > 0.0 && slower <= SLOWER_MAX) {
            let must = "above 0 and at most 1000000";
            return Some(("processor.slower", slower.to_string(), must));
        }
        let beyond = bounds.into_iter().find(|(_, v, lo, hi, _)| !(lo..=hi).contains(&v));
        beyond.map(|(field, value, _, _, must)| (field, value.to_string(), must))
    }

    /// A link of it. Nothing that a replay may send overflows its queue.
    pub(super) const fn link_spec(&self) -> LinkSpec {
        LinkSpec {
            rate_bps: self.link.rate_bps,
            delay_us: self.link.delay_us,
            queue_bytes: 1 << 32,
            datagram_bytes_max: FRAME_BYTES_MAX,
            framing_bytes: self.link.frame_overhead_bytes,
            ..LinkSpec::PLAIN
        }
    }
}

impl ProcessorCost {
    /// The sender's part of a message, in nanoseconds.
    pub(super) const fn send_ns(&self, bytes: u64) -> u64 {
        self.send_message_ns + bytes * self.send_byte_ps / 1000
    }

    /// The receiver's part.
    pub(super) const fn receive_ns(&self, bytes: u64) -> u64 {
        self.receive_message_ns + bytes * self.receive_byte_ps / 1000
    }
}
