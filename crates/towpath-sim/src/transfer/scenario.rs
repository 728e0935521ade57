//! The experiment as a file; `scenarios/transfer` holds examples.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use towpath_proto::Config;
use towpath_proto::congestion::CongestionKind;
use towpath_qos::file;
use towpath_wire::frame::MESSAGE_CHARGE;

use crate::link::LinkSpec;
use crate::scenario::{BYTES_MAX, ScenarioError};

/// Simulated seconds at most.
const SECONDS_MAX: u64 = 36_000;
/// Samples of all flows together at most.
const SAMPLES_MAX: u64 = 1_000_000;
/// Links, flows, changes and stops at most, each.
const ENTRIES_MAX: usize = 256;

/// Links, and flows over them. The file says `kind = "transfer"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransferScenario {
    /// What kind of file this is: `transfer`.
    pub kind: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// Feeds every random draw.
    pub seed: u64,
    /// Simulated seconds at most; flows without `bytes` run so long.
    pub seconds_max: u64,
    /// Time between two samples.
    pub sample_ms: u64,
    /// Messages are made of real bytes, each compared; otherwise of a descriptor per packet.
    pub real_bytes: bool,
    /// Links, one direction each, by name.
    pub link: BTreeMap<String, LinkSpec>,
    /// Flows.
    pub flow: Vec<FlowSpec>,
    /// Changes of links.
    pub change: Vec<Change>,
    /// Hosts that stand still.
    pub stop: Vec<Stop>,
    /// Clocks that jump ahead.
    pub step: Vec<ClockStep>,
}

impl Default for TransferScenario {
    fn default() -> Self {
        Self {
            kind: "transfer".into(),
            about: String::new(),
            seed: 1,
            seconds_max: 60,
            sample_ms: 100,
            real_bytes: false,
            link: BTreeMap::new(),
            flow: Vec::new(),
            change: Vec::new(),
            stop: Vec::new(),
            step: Vec::new(),
        }
    }
}

/// One association, and what is sent over it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlowSpec {
    /// Its name in reports.
    pub name: String,
    /// Names of the links from sender to receiver, in order.
    pub forward: Vec<String>,
    /// Names of the links back.
    pub backward: Vec<String>,
    /// Congestion controller, see [`congestion`]; absent: the transport's default.
    pub congestion: Option<String>,
    /// Bytes to send; absent: as much as there is time for.
    pub bytes: Option<u64>,
    /// Length of each message but the last.
    pub message_bytes: u32,
    /// When it begins to connect.
    pub start_ms: u64,
    /// Credit of the channel.
    pub window_bytes: u32,
    /// Largest datagram.
    pub datagram_bytes: u16,
    /// Both hosts wake up late: by a time drawn evenly from twice this, one time in a hundred by
    /// ten times that.
    pub wake_us: u64,
    /// They know when a datagram reached their sockets, as kernels tell.
    pub stamps: bool,
    /// The receiver sends each message back, and the sender waits for it before the next one.
    pub echo: bool,
}

impl Default for FlowSpec {
    fn default() -> Self {
        let config = Config::default();
        Self {
            name: String::new(),
            forward: Vec::new(),
            backward: Vec::new(),
            congestion: None,
            bytes: None,
            message_bytes: 65_536,
            start_ms: 0,
            window_bytes: config.window,
            datagram_bytes: config.datagram,
            wake_us: 0,
            stamps: true,
            echo: false,
        }
    }
}

/// A link changes; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// When.
    pub at_ms: u64,
    /// Which link, by name.
    pub link: String,
    /// New rate.
    pub rate_bps: Option<u64>,
    /// New delay.
    pub delay_us: Option<u64>,
    /// New limit of the queue.
    pub queue_bytes: Option<u64>,
    /// New loss.
    pub loss_ppm: Option<u32>,
    /// New largest datagram.
    pub datagram_bytes_max: Option<u32>,
    /// Cut (`false`) or restored (`true`).
    pub up: Option<bool>,
}

impl Change {
    /// The link as it is from then on.
    pub fn apply(&self, spec: &LinkSpec) -> LinkSpec {
        LinkSpec {
            rate_bps: self.rate_bps.unwrap_or(spec.rate_bps),
            delay_us: self.delay_us.unwrap_or(spec.delay_us),
            queue_bytes: self.queue_bytes.unwrap_or(spec.queue_bytes),
            loss_ppm: self.loss_ppm.unwrap_or(spec.loss_ppm),
            datagram_bytes_max: self.datagram_bytes_max.unwrap_or(spec.datagram_bytes_max),
            ..*spec
        }
    }
}

/// Which host of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The one that sends.
    #[default]
    Sender,
    /// The one that receives.
    Receiver,
}

/// A host's monotonic clock jumps ahead, as after a suspension that the clock counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClockStep {
    /// When.
    pub at_ms: u64,
    /// By how much.
    pub ahead_ms: u64,
    /// Whose host, by the flow's name.
    pub flow: String,
    /// Which of its two.
    pub side: Side,
}

/// A host stands still: it neither receives nor wakes. Its socket holds 256 datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stop {
    /// When.
    pub at_ms: u64,
    /// For how long.
    pub for_ms: u64,
    /// Whose host, by the flow's name.
    pub flow: String,
    /// Which of its two.
    pub side: Side,
}

/// A congestion controller by name: `tolerant`, `aimd`, `cubic`, or `fixed:BYTES` (a constant
/// window). `None`: there is no such one.
pub fn congestion(name: &str) -> Option<CongestionKind> {
    match name {
        "tolerant" => Some(CongestionKind::Tolerant),
        "cubic" => Some(CongestionKind::Cubic),
        "aimd" => Some(CongestionKind::Aimd),
        _ => name.strip_prefix("fixed:")?.parse().ok().map(CongestionKind::Fixed),
    }
}

fn range(field: impl Into<String>, value: &impl ToString, must: &'static str) -> ScenarioError {
    ScenarioError::Range { field: field.into(), value: value.to_string(), must }
}

impl TransferScenario {
    /// Reads a scenario from TOML.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = file::read(text, BYTES_MAX)?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Whether every value is in range and every name known.
    pub fn check(&self) -> Result<(), ScenarioError> {
        if self.kind != "transfer" {
            return Err(range("kind", &self.kind, "\"transfer\""));
        }
        let (links, flows) = (self.link.len(), self.flow.len());
        for (field, count) in [
            ("link", links),
            ("flow", flows),
            ("change", self.change.len()),
            ("stop", self.stop.len()),
            ("step", self.step.len()),
        ] {
            if count > ENTRIES_MAX {
                return Err(range(format!("number of [{field}]"), &count, "at most 256"));
            }
        }
        if flows == 0 {
            return Err(range("number of [[flow]]", &0, "at least 1"));
        }
        if self.seconds_max == 0 || self.seconds_max > SECONDS_MAX {
            return Err(range("seconds_max", &self.seconds_max, "between 1 and 36000"));
        }
        let samples = self.seconds_max * 1000 / self.sample_ms.max(1) * flows as u64;
        if self.sample_ms == 0 || samples > SAMPLES_MAX {
            let must = "above 0, and such that all flows have at most 1000000 samples";
            return Err(range("sample_ms", &self.sample_ms, must));
        }
        for (name, spec) in &self.link {
            if let Some((field, value, must)) = spec.out_of_range() {
                return Err(range(format!("link.{name}.{field}"), &value, must));
            }
        }
        self.flow.iter().try_for_each(|flow| self.check_flow(flow))?;
        self.check_events()
    }

    fn check_flow(&self, flow: &FlowSpec) -> Result<(), ScenarioError> {
        let field = |what: &str| format!("{what} of flow {:?}", flow.name);
        if self.flow.iter().filter(|f| f.name == flow.name).count() > 1 {
            return Err(range("name of a flow", &format!("{:?}", flow.name), "given once"));
        }
        for (what, route) in [("forward", &flow.forward), ("backward", &flow.backward)] {
            if route.is_empty() || route.len() > 16 {
                return Err(range(field(what), &route.len(), "1 to 16 links"));
            }
            if let Some(link) = route.iter().find(|l| !self.link.contains_key(*l)) {
                return Err(range(field(what), &format!("{link:?}"), "the name of a [link]"));
            }
        }
        if let Some(name) = flow.congestion.as_ref().filter(|name| congestion(name).is_none()) {
            let must = "tolerant, cubic, aimd or fixed:BYTES";
            return Err(range(field("congestion"), &format!("{name:?}"), must));
        }
        if !(1 << 12..=1 << 30).contains(&flow.window_bytes) {
            return Err(range(field("window_bytes"), &flow.window_bytes, "between 2^12 and 2^30"));
        }
        let fits = u64::from(flow.message_bytes) + MESSAGE_CHARGE <= flow.window_bytes.into();
        if flow.message_bytes < 12 || !fits {
            let must = "at least 12, and 64 less than window_bytes";
            return Err(range(field("message_bytes"), &flow.message_bytes, must));
        }
        if flow.bytes.is_some_and(|b| b == 0 || b > 1 << 40) {
            let value = flow.bytes.unwrap_or(0);
            return Err(range(field("bytes"), &value, "between 1 and 2^40"));
        }
        if flow.datagram_bytes < 1232 {
            return Err(range(field("datagram_bytes"), &flow.datagram_bytes, "at least 1232"));
        }
        if flow.wake_us > 50_000 {
            return Err(range(field("wake_us"), &flow.wake_us, "at most 50000"));
        }
        self.within(field("start_ms"), flow.start_ms)
    }

    fn check_events(&self) -> Result<(), ScenarioError> {
        for change in &self.change {
            let Some(spec) = self.link.get(&change.link) else {
                let value = format!("{:?}", change.link);
                return Err(range("link of a change", &value, "the name of a [link]"));
            };
            self.within("at_ms of a change".into(), change.at_ms)?;
            if let Some((field, value, must)) = change.apply(spec).out_of_range() {
                return Err(range(format!("{field} of a change"), &value, must));
            }
        }
        for stop in &self.stop {
            if !self.flow.iter().any(|f| f.name == stop.flow) {
                let value = format!("{:?}", stop.flow);
                return Err(range("flow of a stop", &value, "the name of a flow"));
            }
            self.within("at_ms of a stop".into(), stop.at_ms)?;
            self.within("for_ms of a stop".into(), stop.for_ms)?;
        }
        for step in &self.step {
            if !self.flow.iter().any(|f| f.name == step.flow) {
                let value = format!("{:?}", step.flow);
                return Err(range("flow of a step", &value, "the name of a flow"));
            }
            self.within("at_ms of a step".into(), step.at_ms)?;
            if step.ahead_ms > 86_400_000 {
                return Err(range("ahead_ms of a step", &step.ahead_ms, "at most 86400000"));
            }
        }
        Ok(())
    }

    fn within(&self, field: String, ms: u64) -> Result<(), ScenarioError> {
        if ms > self.seconds_max * 1000 {
            return Err(range(field, &ms, "within seconds_max"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
kind = 'transfer'
[link.there]
[link.back]
[[flow]]
forward = ['there']
backward = ['back']
";

    #[test]
    fn a_file_needs_no_more_than_links_and_a_flow() {
        let s = TransferScenario::parse(GOOD).unwrap();
        assert_eq!(s.link["there"], LinkSpec::PLAIN);
        assert_eq!(s.flow[0].bytes, None);
    }

    #[test]
    fn errors_name_the_field_the_value_and_the_limit() {
        let with = |old: &str, new: &str| {
            TransferScenario::parse(&GOOD.replace(old, new)).unwrap_err().to_string()
        };
        assert_eq!(
            with("['there']", "['their']"),
            "forward of flow \"\" is \"their\", must be the name of a [link]"
        );
        assert_eq!(
            with("[link.there]", "[link.there]\nloss_ppm = 1000001"),
            "link.there.loss_ppm is 1000001, must be at most 1000000"
        );
        assert_eq!(
            with("[[flow]]", "[[flow]]\ncongestion = 'fast'"),
            "congestion of flow \"\" is \"fast\", must be tolerant, cubic, aimd or fixed:BYTES"
        );
        assert_eq!(
            with("[[flow]]", "[[flow]]\nmessage_bytes = 1048576"),
            "message_bytes of flow \"\" is 1048576, \
             must be at least 12, and 64 less than window_bytes"
        );
        let error = with("[[flow]]", "sample = 3\n[[flow]]");
        assert!(error.starts_with("line 5: unknown field `sample`"), "{error}");
        assert_eq!(congestion("fixed:4096"), Some(CongestionKind::Fixed(4096)));
    }
}
