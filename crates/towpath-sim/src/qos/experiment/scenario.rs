//! The file format of an experiment.

use serde::{Deserialize, Serialize};
use towpath_qos::file::{self, FileError};
use towpath_qos::scheduler::Discipline;
use towpath_qos::spec::TSpecForm;

use crate::qos::network::{HostSpec, NetworkError, Pacing};
use crate::qos::signal::{Costs, SignalError};

/// An experiment. Names are unique over hosts and switches, and over channels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Short name.
    pub name: String,
    /// What it shows, and where it comes from.
    #[serde(default)]
    pub about: String,
    /// What the source found, and whether it is so here.
    #[serde(default)]
    pub finding: String,
    /// Simulated time.
    pub duration_ms: u64,
    /// Everything random follows from it.
    #[serde(default = "one")]
    pub seed: u64,
    /// Bytes on the wire beside a packet's payload: 66 are UDP, IPv4, Ethernet with preamble, FCS
    /// and gap.
    #[serde(default = "overhead")]
    pub overhead_bytes: u32,
    /// How channels come to their reservations.
    #[serde(default)]
    pub admission: Admission,
    /// What the messages of that cost.
    #[serde(default)]
    pub signalling: Costs,
    /// Hosts.
    #[serde(rename = "host")]
    pub hosts: Vec<HostNode>,
    /// Switches.
    #[serde(default, rename = "switch")]
    pub switches: Vec<SwitchNode>,
    /// Links, both ways each.
    #[serde(rename = "link")]
    pub links: Vec<LinkNode>,
    /// Channels.
    #[serde(rename = "channel")]
    pub channels: Vec<Channel>,
    /// What the source measured.
    #[serde(default, rename = "reference")]
    pub references: Vec<Reference>,
}

const fn one() -> u64 {
    1
}

const fn overhead() -> u32 {
    66
}

/// Who decides whether a channel may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admission {
    /// Nobody.
    #[default]
    None,
    /// The master of the sub-network, in two phases, by the rates asked for.
    TwoPhase,
    /// Each RSVP-speaking node for its own link.
    Rsvp,
}

/// A host: its processors, its port's scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostNode {
    /// Name.
    pub name: String,
    /// Scheduler of its ports, by the library's name.
    #[serde(default = "fcfs")]
    pub scheduler: String,
    /// Which packets share a queue.
    #[serde(default)]
    pub queues: Queues,
    /// Limit of each queue.
    #[serde(default = "hundred")]
    pub queue_packets: u32,
    /// Processors and packet costs.
    #[serde(default)]
    pub cpu: HostSpec,
}

/// A switch: store and forward, output queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchNode {
    /// Name.
    pub name: String,
    /// Scheduler of its ports, by the library's name.
    #[serde(default = "fcfs")]
    pub scheduler: String,
    /// Which packets share a queue.
    #[serde(default)]
    pub queues: Queues,
    /// Limit of each queue.
    #[serde(default = "hundred")]
    pub queue_packets: u32,
    /// Processing of a packet after it has come in whole.
    #[serde(default)]
    pub latency_ns: u64,
    /// Whether it speaks RSVP.
    #[serde(default = "yes")]
    pub rsvp: bool,
}

fn fcfs() -> String {
    "fcfs".into()
}

const fn hundred() -> u32 {
    100
}

const fn yes() -> bool {
    true
}

/// Which packets share a queue of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queues {
    /// Each channel has its own.
    #[default]
    Channel,
    /// All of one priority share one, as in an 802.1p switch.
    Class,
}

/// A full-duplex link between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkNode {
    /// Its two nodes.
    #[serde(deserialize_with = "towpath_qos::file::pair")]
    pub between: [String; 2],
    /// Rate each way.
    pub rate_bps: u64,
    /// Time on the wire.
    #[serde(default)]
    pub propagation_ns: u64,
}

/// When a channel's owner hands messages over. All sizes are payload; wire bytes are added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Send {
    /// Always has the next packet; needs blocking or window pacing.
    Saturating,
    /// All that a specification (of wire bytes) allows, as early as it allows.
    Greedy {
        /// The specification.
        spec: TSpecForm,
    },
    /// At a rate of payload, evenly, each packet up to `jitter_us` late.
    Periodic {
        /// Payload per time.
        rate_bps: u64,
        /// Greatest lateness.
        #[serde(default)]
        jitter_us: u64,
    },
    /// At a mean rate of payload, at random.
    Poisson {
        /// Payload per time, in the mean.
        rate_bps: u64,
    },
}

/// A channel and its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Name.
    pub name: String,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Payload of a packet.
    pub packet_bytes: u32,
    /// When packets are handed over.
    pub send: Send,
    /// What holds the sender back.
    #[serde(default)]
    pub pacing: Pacing,
    /// Most urgent 0; the class where classes share queues.
    #[serde(default)]
    pub priority: u8,
    /// Reserved share of the sender's link, per cent (`QOS_PRI` of the source).
    #[serde(default)]
    pub share_percent: u32,
    /// Local delay budget per port, for schedulers that order by deadline.
    #[serde(default = "ten_ms")]
    pub budget_us: u64,
    /// When it starts.
    #[serde(default)]
    pub start_us: u64,
    /// Packets passed over before [`Report`](super::Report) keeps each one.
    #[serde(default)]
    pub series_skip: u32,
    /// Packets kept one by one.
    #[serde(default = "series")]
    pub series_keep: u32,
}

const fn ten_ms() -> u64 {
    10_000
}

const fn series() -> u32 {
    256
}

/// What a table of the source tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// From sending to receiving.
    Delay,
    /// From one packet's receipt to the next.
    Gap,
}

/// A table of the source beside a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Which table.
    pub label: String,
    /// The channel it is compared with.
    pub channel: String,
    /// What its values are.
    pub quantity: Quantity,
    /// The values, packet by packet.
    pub values_us: Vec<u64>,
    /// Values of at least so many are interruptions, which the source removed for another figure:
    /// the rest is compared once more.
    #[serde(default)]
    pub interruption_us: Option<u64>,
}

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Not TOML, a field that there is not, or too long.
    #[error(transparent)]
    Syntax(#[from] FileError),
    /// A name that stands for nothing.
    #[error("{place}: {what} {name:?} is not there")]
    Unknown {
        /// Where it is used.
        place: String,
        /// Node, channel, scheduler.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name used twice.
    #[error("{what} {name:?} is there twice")]
    Twice {
        /// Node, channel.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// No way from a channel's sender to its receiver.
    #[error("channel {channel:?}: no route from {from:?} to {to:?}")]
    NoRoute {
        /// The channel.
        channel: String,
        /// Its sender.
        from: String,
        /// Its receiver.
        to: String,
    },
    /// A value out of range.
    #[error("{place}: {field} is {value}, must be {must}")]
    Range {
        /// Where.
        place: String,
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        must: &'static str,
    },
    /// A specification that is none.
    #[error("channel {channel:?}: {error}")]
    Spec {
        /// The channel.
        channel: String,
        /// What is wrong.
        error: towpath_qos::spec::SpecError,
    },
    /// A network that cannot be built.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A set-up that cannot be made.
    #[error(transparent)]
    Signal(#[from] SignalError),
}

impl Scenario {
    /// Reads an experiment of at most [`file::BYTES_MAX`] from TOML and checks it.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = file::read(text, file::BYTES_MAX)?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Checks numbers and names.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let range = |place: &str, field, value, must| {
            Err(ScenarioError::Range { place: place.into(), field, value, must })
        };
        if !(1..=3_600_000).contains(&self.duration_ms) {
            return range(&self.name, "duration_ms", self.duration_ms, "1 to 3600000");
        }
        if self.overhead_bytes > 10_000 {
            let value = self.overhead_bytes.into();
            return range(&self.name, "overhead_bytes", value, "at most 10000");
        }
        let counts = [
            ("hosts", self.hosts.len(), 10_000),
            ("switches", self.switches.len(), 10_000),
            ("links", self.links.len(), 20_000),
            ("channels", self.channels.len(), 100_000),
        ];
        if let Some((field, n, _)) = counts.into_iter().find(|(_, n, most)| n > most) {
            return range(&self.name, field, n as u64, "fewer");
        }
        let hosts = self.hosts.iter().map(|h| (&h.name, &h.scheduler, h.queue_packets));
        let switches = self.switches.iter().map(|s| (&s.name, &s.scheduler, s.queue_packets));
        for (name, scheduler, packets) in hosts.chain(switches) {
            if Discipline::by_name(scheduler).is_none() {
                let (place, name) = (name.clone(), scheduler.clone());
                return Err(ScenarioError::Unknown { place, what: "scheduler", name });
            }
            if !(1..=100_000).contains(&packets) {
                return range(name, "queue_packets", packets.into(), "1 to 100000");
            }
        }
        for link in &self.links {
            let place = link.between.join("-");
            if !(1000..=10_000_000_000_000).contains(&link.rate_bps) {
                return range(&place, "rate_bps", link.rate_bps, "1000 to 10000000000000");
            }
            if link.propagation_ns > 1_000_000_000 {
                return range(&place, "propagation_ns", link.propagation_ns, "at most a second");
            }
        }
        self.channels.iter().try_for_each(check_channel)?;
        self.unique()
    }

    fn unique(&self) -> Result<(), ScenarioError> {
        let nodes = self.hosts.iter().map(|h| &h.name);
        let nodes = nodes.chain(self.switches.iter().map(|s| &s.name)).collect();
        let channels = self.channels.iter().map(|c| &c.name).collect();
        for (what, mut names) in [("node", nodes), ("channel", channels)] as [(_, Vec<_>); 2] {
            names.sort();
            if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(ScenarioError::Twice { what, name: pair[0].clone() });
            }
        }
        for r in &self.references {
            if !self.channels.iter().any(|c| c.name == r.channel) {
                let (place, name) = (r.label.clone(), r.channel.clone());
                return Err(ScenarioError::Unknown { place, what: "channel", name });
            }
        }
        Ok(())
    }
}

fn check_channel(c: &Channel) -> Result<(), ScenarioError> {
    let range = |field, value, must| {
        Err(ScenarioError::Range { place: format!("channel {:?}", c.name), field, value, must })
    };
    if !(1..=1_000_000).contains(&c.packet_bytes) {
        return range("packet_bytes", c.packet_bytes.into(), "1 to 1000000");
    }
    if c.priority > 7 {
        return range("priority", c.priority.into(), "0 to 7");
    }
    if c.share_percent > 1000 {
        return range("share_percent", c.share_percent.into(), "at most 1000");
    }
    if !(1..=4_000_000).contains(&c.budget_us) {
        return range("budget_us", c.budget_us, "1 to 4000000");
    }
    if c.series_keep > 1_000_000 {
        return range("series_keep", c.series_keep.into(), "at most 1000000");
    }
    match c.send {
        Send::Periodic { rate_bps, .. } | Send::Poisson { rate_bps }
            if !(1..=10_000_000_000_000).contains(&rate_bps) =>
        {
            range("rate_bps", rate_bps, "1 to 10000000000000")
        }
        Send::Periodic { jitter_us, .. } if jitter_us > 1_000_000_000 => {
            range("jitter_us", jitter_us, "at most 1000000000")
        }
        _ => Ok(()),
    }
}
