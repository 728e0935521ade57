//! An experiment as a file: what is drawn at random lies between a least and a most.

use serde::{Deserialize, Serialize};
use towpath_proto::Rng;
use towpath_qos::file::{self, FileError};

use crate::link::LinkSpec;

/// A random experiment. Every field has a default; see `scenarios/swarm.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Fewest and most hosts.
    #[serde(deserialize_with = "towpath_qos::file::pair")]
    pub hosts: [usize; 2],
    /// Fewest and most links of a host, each to a network of its own. Every host of a run has as
    /// many as the others, numbered in one order or the other.
    #[serde(deserialize_with = "towpath_qos::file::pair")]
    pub links: [usize; 2],
    /// Fewest and most message flows between hosts.
    #[serde(deserialize_with = "towpath_qos::file::pair")]
    pub flows: [usize; 2],
    /// Bytes that all flows send together, at least and at most.
    #[serde(deserialize_with = "towpath_qos::file::pair")]
    pub flow_bytes: [u64; 2],
    /// Largest message.
    pub message_bytes_max: u32,
    /// Fewest and most tasks asked for.
    #[serde(deserialize_with = "towpath_qos::file::pair")]
    pub tasks: [usize; 2],
    /// Fewest and most faults.
    #[serde(deserialize_with = "towpath_qos::file::pair")]
    pub faults: [usize; 2],
    /// One run in so many codes what it sends across the links; 0: none.
    pub coded_every: u64,
    /// Largest clock drift, in parts per million.
    pub drift_ppm: u32,
    /// Links are at least like this.
    pub link_min: LinkSpec,
    /// Links are at most like this.
    pub link_max: LinkSpec,
    /// Simulated seconds after which everything must have come to its end.
    pub seconds_max: u64,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            hosts: [3, 5],
            links: [1, 1],
            flows: [3, 8],
            flow_bytes: [8_000_000, 10_000_000],
            message_bytes_max: 200_000,
            tasks: [10, 40],
            faults: [3, 7],
            coded_every: 3,
            drift_ppm: 200,
            link_min: LinkSpec {
                rate_bps: 50_000_000,
                delay_us: 50,
                queue_bytes: 64 * 1024,
                datagram_bytes_max: 1472,
                burst_leave_ppm: 50_000,
                ..LinkSpec::default()
            },
            link_max: LinkSpec {
                rate_bps: 1_000_000_000,
                delay_us: 5_000,
                queue_bytes: 512 * 1024,
                loss_ppm: 30_000,
                reorder_ppm: 50_000,
                reorder_us: 2_000,
                duplicate_ppm: 10_000,
                corrupt_ppm: 5_000,
                burst_enter_ppm: 3_000,
                ecn_mark_bytes: Some(60_000),
                ..LinkSpec::default()
            },
            seconds_max: 120,
        }
    }
}

/// Longest file of a scenario.
pub const BYTES_MAX: usize = 1 << 20;

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Not TOML, or a field that there is not.
    #[error(transparent)]
    Syntax(#[from] FileError),
    /// A value out of range.
    #[error("{field} is {value}, must be {must}")]
    Range {
        /// Field name.
        field: String,
        /// Its value.
        value: String,
        /// What it must be.
        must: &'static str,
    },
}

impl Scenario {
    /// Reads a scenario from TOML.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let s: Self = file::read(text, BYTES_MAX)?;
        let fail = |field: &str, value: String, must| {
            Err(ScenarioError::Range { field: field.into(), value, must })
        };
        if s.hosts[0] < 2 || s.hosts[1] < s.hosts[0] || s.hosts[1] > 1000 {
            return fail("hosts", format!("{:?}", s.hosts), "[least, most] between 2 and 1000");
        }
        if s.links[0] < 1 || s.links[1] < s.links[0] || s.links[1] > 8 {
            return fail("links", format!("{:?}", s.links), "[least, most] between 1 and 8");
        }
        let pairs = [("flows", s.flows), ("tasks", s.tasks), ("faults", s.faults)];
        if let Some((field, pair)) = pairs.into_iter().find(|(_, p)| p[1] < p[0] || p[1] > 100_000)
        {
            return fail(field, format!("{pair:?}"), "[least, most], at most 100000");
        }
        if s.flow_bytes[1] < s.flow_bytes[0] || s.flow_bytes[1] > 1 << 40 {
            return fail(
                "flow_bytes",
                format!("{:?}", s.flow_bytes),
                "[least, most], at most 2^40",
            );
        }
        if s.message_bytes_max == 0 || s.message_bytes_max > (1 << 20) - 64 {
            let value = s.message_bytes_max.to_string();
            return fail("message_bytes_max", value, "between 1 and 1048512");
        }
        if s.drift_ppm > 10_000 {
            return fail("drift_ppm", s.drift_ppm.to_string(), "at most 10000");
        }
        for (name, link) in [("link_min", &s.link_min), ("link_max", &s.link_max)] {
            if let Some((field, value, must)) = link.out_of_range() {
                return fail(&format!("{name}.{field}"), value, must);
            }
        }
        Ok(s)
    }

    /// A link between least and most; a third of the links are clean.
    pub fn draw_link(&self, rng: &mut Rng) -> LinkSpec {
        let (a, b) = (&self.link_min, &self.link_max);
        let clean = rng.below(3) == 0;
        let mut faults = |lo: u32, hi: u32| {
            if clean { lo } else { between(rng, lo.into(), hi.into()) as u32 }
        };
        let (loss_ppm, reorder_ppm) =
            (faults(a.loss_ppm, b.loss_ppm), faults(a.reorder_ppm, b.reorder_ppm));
        let (duplicate_ppm, corrupt_ppm) =
            (faults(a.duplicate_ppm, b.duplicate_ppm), faults(a.corrupt_ppm, b.corrupt_ppm));
        // A third of the links that are not clean loses in bursts, a third of all mark.
        let bursts = rng.below(3) == 0 && !clean;
        let burst_enter_ppm = if bursts {
            between(rng, a.burst_enter_ppm.into(), b.burst_enter_ppm.into()) as u32
        } else {
            a.burst_enter_ppm
        };
        let marks = rng.below(3) == 0;
        LinkSpec {
            burst_enter_ppm,
            burst_leave_ppm: between(rng, a.burst_leave_ppm.into(), b.burst_leave_ppm.into())
                as u32,
            ecn_mark_bytes: if marks { b.ecn_mark_bytes } else { a.ecn_mark_bytes },
            datagram_bytes_max: between(
                rng,
                a.datagram_bytes_max.into(),
                b.datagram_bytes_max.into(),
            ) as u32,
            rate_bps: between(rng, a.rate_bps, b.rate_bps),
            delay_us: between(rng, a.delay_us, b.delay_us),
            queue_bytes: between(rng, a.queue_bytes, b.queue_bytes),
            loss_ppm,
            reorder_ppm,
            reorder_us: between(rng, a.reorder_us, b.reorder_us),
            duplicate_ppm,
            corrupt_ppm,
            framing_bytes: a.framing_bytes,
            ..*a
        }
    }
}

/// A number from `lo` to `hi`, both included; `lo` when they are the wrong way round.
pub fn between(rng: &mut Rng, lo: u64, hi: u64) -> u64 {
    lo + rng.below(hi.saturating_sub(lo) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_field_the_value_and_the_limit() {
        let error = Scenario::parse("hosts = [1, 3]").unwrap_err().to_string();
        assert_eq!(error, "hosts is [1, 3], must be [least, most] between 2 and 1000");
        let error = Scenario::parse("links = [0, 1]").unwrap_err().to_string();
        assert_eq!(error, "links is [0, 1], must be [least, most] between 1 and 8");
        let error = Scenario::parse("tasks = [1, 3, 5]").unwrap_err().to_string();
        assert!(error.starts_with("line 1: invalid length 3, expected two"), "{error}");
        let error = Scenario::parse("\nhost = 3").unwrap_err().to_string();
        assert!(error.starts_with("line 2: unknown field `host`"), "{error}");
        let error = Scenario::parse("hosts = 3").unwrap_err().to_string();
        assert!(error.starts_with("line 1: invalid type: integer `3`"), "{error}");
        assert_eq!(Scenario::parse("").unwrap(), Scenario::default());
        let error = Scenario::parse("[link_max]\nloss_ppm = 2000000").unwrap_err().to_string();
        assert_eq!(error, "link_max.loss_ppm is 2000000, must be at most 1000000");
    }

    #[test]
    fn the_file_that_comes_along_is_the_built_in_scenario() {
        let file = include_str!("../../../scenarios/swarm.toml");
        assert_eq!(Scenario::parse(file).unwrap(), Scenario::default());
    }

    #[test]
    fn the_file_of_two_links_differs_in_nothing_else() {
        let file = include_str!("../../../scenarios/two-links.toml");
        let two = Scenario { links: [2, 2], ..Scenario::default() };
        assert_eq!(Scenario::parse(file).unwrap(), two);
    }

    #[test]
    fn every_kind_of_link_is_drawn() {
        let (scenario, mut rng) = (Scenario::default(), Rng::new(1, 1));
        let links: Vec<LinkSpec> = (0..300).map(|_| scenario.draw_link(&mut rng)).collect();
        assert!(links.iter().all(|l| l.out_of_range().is_none()));
        let share = |is: fn(&LinkSpec) -> bool| links.iter().filter(|l| is(l)).count();
        assert!((70..130).contains(&share(|l| l.loss_ppm == 0)), "clean");
        assert!((40..100).contains(&share(|l| l.burst_enter_ppm > 0)), "in bursts");
        assert!((70..130).contains(&share(|l| l.ecn_mark_bytes.is_some())), "marking");
    }
}
