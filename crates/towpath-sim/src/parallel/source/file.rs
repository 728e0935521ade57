//! The file.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use towpath_qos::file;

use super::outcome::{Measured, RunOutcome};
use crate::parallel::bus::{self, BusNode, Choice, Load};
use crate::parallel::gateway::{self, GatewayNode, Way};
use crate::parallel::within::Within;
use crate::scenario::{BYTES_MAX, ScenarioError};

/// Entries of each kind in a file at most.
const ENTRIES_MAX: usize = 256;
/// Simulated time of all runs with all seeds together at most, and packets that the rings could
/// carry in it: both bound the work, the second one what is kept, too.
const MEASURED_MS_MAX: u64 = 1_000_000;
const PACKETS_MAX: u64 = 20_000_000;

/// A table of the source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeTable {
    /// Its name in the source.
    pub table: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// Each run has the mean of so many seeds.
    pub seeds: Within<1, 32>,
    /// How long is measured, after a fifth of that.
    pub measured_ms: Within<10, 60_000>,
    /// Nodes of §3, by name.
    #[serde(default)]
    pub workstation: BTreeMap<String, BusNode>,
    /// Nodes of §4, by name.
    #[serde(default)]
    pub gateway: BTreeMap<String, GatewayNode>,
    /// What is run.
    #[serde(default)]
    pub run: Vec<RunSpec>,
    /// What is computed.
    #[serde(default)]
    pub division: Vec<Division>,
}

/// A run of a node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Its name, as in "20 ns".
    pub name: String,
    /// The node, by name.
    pub node: String,
    /// Cells of one row must be in the source's order.
    #[serde(default)]
    pub row: String,
    /// What is otherwise than at the node.
    #[serde(default)]
    pub change: Change,
    /// What was printed of it.
    pub cell: Vec<CellSpec>,
}

/// What a run has otherwise; absent: as the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// A workstation's memory.
    pub memory_ns: Option<Within<1, 100_000>>,
    /// A workstation's processors.
    pub mips: Option<Within<1, 100_000>>,
    /// A workstation's choice of an interface.
    pub choice: Option<Choice>,
    /// Others' load on a workstation's rings.
    pub load: Option<Load>,
    /// A gateway's way of segments.
    pub segments: Option<Way>,
    /// A gateway's way of packets.
    pub packets: Option<Way>,
    /// A gateway's window.
    pub window_bytes: Option<Within<512, 1_000_000>>,
    /// Overloaded rings of gateways.
    pub overloaded: Option<Within<0, 64>>,
    /// The rings' length.
    pub km: Option<Within<1, 10_000>>,
    /// Others' share of the rings.
    pub background_percent: Option<Within<0, 90>>,
    /// Length of others' frames.
    pub background_frame_bits: Option<Within<512, 36_000>>,
    /// Room of a workstation's interface behind its multiplexer.
    pub interface_packets: Option<Within<1, 1000>>,
    /// Whether acknowledgements wait for the token.
    pub acks_on_ring: Option<bool>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Content that arrived.
    ThroughputMbps,
    /// From a segment's birth to its last acknowledgement: the source's round trip.
    LatencyUs,
    /// An access of shared memory.
    AccessUs,
    /// Work of processors.
    BusyPercent,
}

impl Measure {
    /// Its name and unit.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ThroughputMbps => "Mbit/s",
            Self::LatencyUs => "us",
            Self::AccessUs => "us an access",
            Self::BusyPercent => "% busy",
        }
    }
}

/// What is expected of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// It comes out within a tenth.
    #[default]
    Reproducible,
    /// It is in order with the others of its row.
    Trend,
    /// As trend; it has no unit.
    Order,
    /// Nothing: the source contradicts itself.
    Contradictory,
}

/// A cell of a run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// What is measured.
    pub measure: Measure,
    /// What was printed.
    pub printed: f64,
    /// What is expected.
    #[serde(default)]
    pub mark: Mark,
    /// What there is to know of it.
    #[serde(default)]
    pub note: String,
}

/// A speed-up that is computed: (parallel + serial) / serial.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Division {
    /// Its name.
    pub name: String,
    /// The part that many processors share.
    pub parallel_us: f64,
    /// The part that one does at a time.
    pub serial_us: f64,
    /// What was printed.
    pub printed: f64,
    /// What there is to know of it.
    #[serde(default)]
    pub note: String,
}

fn range(field: impl Into<String>, value: &impl ToString, must: &'static str) -> ScenarioError {
    ScenarioError::Range { field: field.into(), value: value.to_string(), must }
}

impl NodeTable {
    /// Reads it from TOML.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let table: Self = file::read(text, BYTES_MAX)?;
        table.check()?;
        Ok(table)
    }

    fn check(&self) -> Result<(), ScenarioError> {
        let counts = [
            ("workstation", self.workstation.len()),
            ("gateway", self.gateway.len()),
            ("run", self.run.len()),
            ("division", self.division.len()),
            ("run.cell", self.run.iter().map(|run| run.cell.len()).max().unwrap_or(0)),
        ];
        if let Some((of, count)) = counts.into_iter().find(|(_, count)| *count > ENTRIES_MAX) {
            return Err(range(format!("number of [{of}]"), &count, "at most 256"));
        }
        if self.run.is_empty() && self.division.is_empty() {
            return Err(range("number of [[run]] and [[division]]", &0, "at least 1"));
        }
        let all = self.measured_ms.value() * self.seeds.value() * self.run.len() as u64;
        if all > MEASURED_MS_MAX {
            let must = "such that it is at most 1000000 with all runs and seeds";
            return Err(range("measured_ms", &self.measured_ms.value(), must));
        }
        for (name, node) in &self.gateway {
            if node.low_segments.value() > node.high_segments.value() {
                let field = format!("gateway.{name}.low_segments");
                return Err(range(field, &node.low_segments.value(), "at most high_segments"));
            }
        }
        self.run.iter().try_for_each(|run| self.check_run(run))?;
        let packets: u64 = self.run.iter().map(|run| self.packets(run)).sum();
        if packets > PACKETS_MAX {
            let must = "such that all rings, runs and seeds carry at most 20000000 packets in it";
            return Err(range("measured_ms", &self.measured_ms.value(), must));
        }
        let printed = self.division.iter().flat_map(|of| {
            let fields = [of.parallel_us, of.serial_us, of.printed];
            fields.map(|value| (&of.name, value))
        });
        let cells = self.run.iter().flat_map(|r| r.cell.iter().map(|c| (&r.name, c.printed)));
        for (name, value) in printed.chain(cells) {
            if !(1e-6..=1e9).contains(&value) {
                return Err(range(format!("a number of {name:?}"), &value, "10^-6 to 10^9"));
            }
        }
        Ok(())
    }

    fn check_run(&self, run: &RunSpec) -> Result<(), ScenarioError> {
        let (bus, gateway) = (self.workstation.get(&run.node), self.gateway.get(&run.node));
        if bus.is_some() == gateway.is_some() {
            let must = "the name of one [workstation] or [gateway]";
            return Err(range(format!("node of run {:?}", run.name), &run.node, must));
        }
        let c = &run.change;
        let of_gateways = c.segments.is_some()
            || c.packets.is_some()
            || c.window_bytes.is_some()
            || c.overloaded.is_some();
        let of_workstations = c.memory_ns.is_some()
            || c.mips.is_some()
            || c.choice.is_some()
            || c.load.is_some()
            || c.interface_packets.is_some();
        if (bus.is_some() && of_gateways) || (gateway.is_some() && of_workstations) {
            let must = "without keys of the other kind of node";
            return Err(range("change", &format!("that of run {:?}", run.name), must));
        }
        Ok(())
    }

    /// Packets that a run's rings could carry at most, with all seeds.
    fn packets(&self, run: &RunSpec) -> u64 {
        let ms = self.measured_ms.value() * self.seeds.value() * 6 / 5;
        let (rings, mbps, bits) = if let Some(node) = self.workstation.get(&run.node) {
            (node.interfaces.value(), node.ring.mbps.value(), bus::PACKET_BITS)
        } else {
            let node = run.change.gateway(&self.gateway[&run.node]);
            let bits = node.window_bytes.value().min(4500) * 8;
            (node.gateways.value(), node.ring.mbps.value(), bits)
        };
        rings * (mbps * 1000 * ms / bits)
    }

    /// Runs one of its runs, by number, with every seed.
    ///
    /// # Panics
    /// Where there is no such run.
    pub fn run(&self, number: usize) -> RunOutcome {
        let seeds = (1..=self.seeds.value()).map(|seed| self.one(number, seed));
        RunOutcome { seeds: seeds.collect() }
    }

    fn one(&self, number: usize, seed: u64) -> Measured {
        let run = &self.run[number];
        let measured = Duration::from_millis(self.measured_ms.value());
        if let Some(node) = self.workstation.get(&run.node) {
            return bus::run(&run.change.workstation(node), measured, seed);
        }
        gateway::run(&run.change.gateway(&self.gateway[&run.node]), measured, seed)
    }
}

impl Change {
    fn ring(&self, of: bus::RingSpec) -> bus::RingSpec {
        bus::RingSpec {
            km: self.km.unwrap_or(of.km),
            background_percent: self.background_percent.unwrap_or(of.background_percent),
            background_frame_bits: self.background_frame_bits.unwrap_or(of.background_frame_bits),
            acks_on_ring: self.acks_on_ring.unwrap_or(of.acks_on_ring),
            ..of
        }
    }

    fn workstation(&self, of: &BusNode) -> BusNode {
        BusNode {
            memory_ns: self.memory_ns.unwrap_or(of.memory_ns),
            mips: self.mips.unwrap_or(of.mips),
            choice: self.choice.unwrap_or(of.choice),
            load: self.load.unwrap_or(of.load),
            interface_packets: self.interface_packets.unwrap_or(of.interface_packets),
            ring: self.ring(of.ring),
            ..*of
        }
    }

    fn gateway(&self, of: &GatewayNode) -> GatewayNode {
        GatewayNode {
            segments: self.segments.unwrap_or(of.segments),
            packets: self.packets.unwrap_or(of.packets),
            window_bytes: self.window_bytes.unwrap_or(of.window_bytes),
            overloaded: self.overloaded.unwrap_or(of.overloaded),
            ring: self.ring(of.ring),
            ..*of
        }
    }
}
