//! The topology file, as it stands in TOML.
//!
//! ```toml
//! [[host]]
//! name = "h1"
//! cpu = { packet_ns = 2000, byte_ps = 500 }
//!
//! [[host]]
//! name = "h2"
//!
//! [[switch]]
//! name = "s1"
//! scheduler = "edf"
//!
//! [[link]]
//! ends = ["h1", "s1"]
//! rate_bps = 100_000_000
//!
//! [[link]]
//! ends = ["h2", "s1:uplink"]
//! rate_bps = 1_000_000_000
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::discipline::DisciplineName;

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyForm {
    /// Hosts.
    #[serde(default)]
    pub host: Vec<HostForm>,
    /// Switches.
    #[serde(default)]
    pub switch: Vec<SwitchForm>,
    /// Links.
    #[serde(default)]
    pub link: Vec<LinkForm>,
}

/// A host: where channels start and end. It does not forward.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostForm {
    /// Unique among hosts and switches.
    pub name: Spanned<String>,
    /// What traffic costs its processor; absent: processor time is not tested.
    pub cpu: Option<CpuForm>,
    /// Settings of interfaces that are named in links.
    #[serde(default)]
    pub interface: Vec<PortForm>,
    /// Scheduler of interfaces without one of their own; default `edf`.
    pub scheduler: Option<DisciplineName>,
}

/// A switch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchForm {
    /// Unique among hosts and switches.
    pub name: Spanned<String>,
    /// From a packet's last bit in to its place in the output queue; default 0.
    #[serde(default)]
    pub latency_ns: u64,
    /// What all ports together can forward; absent: not limited.
    pub fabric_bps: Option<u64>,
    /// Memory that the ports' queues share; absent: each has its own only.
    pub memory_bytes: Option<u64>,
    /// Settings of ports that are named in links.
    #[serde(default)]
    pub port: Vec<PortForm>,
    /// Scheduler of ports without one of their own; default `edf`.
    pub scheduler: Option<DisciplineName>,
    /// Delay budgets of ports with neither of their own, as [`PortForm::budgets_ns`].
    pub budgets_ns: Option<Vec<u64>>,
}

/// An interface of a host or a port of a switch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortForm {
    /// Unique within its node.
    pub name: Spanned<String>,
    /// Slower than its link: limits both directions. Absent: the link's rate.
    pub rate_bps: Option<u64>,
    /// Its scheduler; absent: the node's.
    pub scheduler: Option<DisciplineName>,
    /// Delay budgets in ns: one for `fcfs`, 1 to 16 rising for `priority` and `rcsp`.
    /// Absent: what the queue takes to drain, halved from level to level.
    pub budgets_ns: Option<Vec<u64>>,
    /// `scfq`: most channels; `drr`: most quanta in a round, each a multiple of `packet_bytes`.
    /// The unreserved traffic counts as one. This constant is what makes a bound on delay
    /// possible there, and the bound grows with it. Default 64.
    pub sessions_max: Option<u32>,
    /// Queue memory; default 1 MiB.
    pub queue_bytes: Option<u64>,
    /// Wire bytes of the largest piece that anyone sends here without interruption, reserved or
    /// not, GSO trains included: what may be in the way of an urgent packet. Default 1538, a full
    /// frame. Larger pieces are refused at admission.
    pub packet_bytes: Option<u64>,
}

/// What traffic costs a host's processor, at either end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuForm {
    /// Time per packet in ns.
    pub packet_ns: u64,
    /// Time per byte in ps (1000 ps = 1 ns).
    pub byte_ps: u64,
    /// Share of one processor that may be reserved, in parts per million.
    #[serde(default = "limit_ppm")]
    pub limit_ppm: u32,
    /// Longest time for which something else keeps the processor, in ns.
    #[serde(default = "blocking_ns")]
    pub blocking_ns: u64,
    /// Delay that each channel is promised at most, in ns.
    #[serde(default = "budget_ns")]
    pub budget_ns: u64,
}

/// The kernel lets real-time threads have 950 ms of each second (`sched_rt_runtime_us`).
const fn limit_ppm() -> u32 {
    950_000
}

const fn blocking_ns() -> u64 {
    50_000
}

const fn budget_ns() -> u64 {
    1_000_000
}

/// A full-duplex link between two nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkForm {
    /// `node` or `node:port`.
    pub ends: Spanned<Vec<String>>,
    /// Rate of each direction.
    pub rate_bps: u64,
    /// Propagation; default 0.
    #[serde(default)]
    pub delay_ns: u64,
}
