//! Which packet scheduler an egress has, as far as admission must know it.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

/// A scheduler's name in a topology file: as [`scheduler`](crate::scheduler) calls it, or the same
/// with underscores, and by what it was called before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisciplineName {
    /// First come, first served. It bounds delay only where nothing unreserved is sent.
    Fcfs,
    /// Static priority, not preemptive.
    #[serde(alias = "priority", alias = "static-priority")]
    StaticPriority,
    /// Rate-controlled static priority.
    Rcsp,
    /// Earliest deadline first (delay-EDD).
    Edf,
    /// Earliest deadline first behind a jitter regulator (jitter-EDD).
    #[serde(alias = "jitter-edd", alias = "jitter_edd", alias = "jitter-edf")]
    JitterEdf,
    /// Hierarchical fair service curve.
    Hfsc,
    /// Weighted fair queueing.
    Wfq,
    /// Worst-case fair weighted fair queueing.
    #[serde(alias = "wf2q", alias = "wf2q-plus")]
    Wf2qPlus,
    /// Virtual Clock.
    #[serde(alias = "virtual-clock")]
    VirtualClock,
    /// Class-based queueing.
    Cbq,
    /// Deficit round robin.
    Drr,
    /// Self-clocked fair queueing.
    Scfq,
}

impl fmt::Display for DisciplineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fcfs => "fcfs",
            Self::StaticPriority => "priority",
            Self::Rcsp => "rcsp",
            Self::Edf => "edf",
            Self::JitterEdf => "jitter-edd",
            Self::Hfsc => "hfsc",
            Self::Wfq => "wfq",
            Self::Wf2qPlus => "wf2q",
            Self::VirtualClock => "virtual-clock",
            Self::Cbq => "cbq",
            Self::Drr => "drr",
            Self::Scfq => "scfq",
        })
    }
}

/// A scheduler by what it can promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// One delay for all: the budget in ns.
    Fcfs(u64),
    /// A delay per priority, budgets in ns rising from the most urgent level.
    StaticPriority(Vec<u64>),
    /// As static priority, each channel reshaped before.
    Rcsp(Vec<u64>),
    /// A delay per channel; whether each is held until its last hop's deadline first.
    Edf {
        /// Jitter-EDD.
        hold: bool,
    },
    /// A service curve per channel.
    Hfsc,
    /// A rate per channel; latency `L_channel/g + L_max/C`: WFQ, WF²Q+ and Virtual Clock.
    RateBased,
    /// Deficit round robin with quanta that are multiples of the port's largest piece: most of
    /// them in a round, one of them the unreserved traffic's.
    Drr {
        /// Σ weights at most, 2 to [`SESSIONS_MAX`](super::SESSIONS_MAX).
        weights_max: u32,
    },
    /// Self-clocked fair queueing: a rate per channel, and most channels, the unreserved traffic
    /// counted as one.
    Scfq {
        /// 2 to [`SESSIONS_MAX`](super::SESSIONS_MAX).
        channels_max: u32,
    },
    /// A rate per channel and no bound on delay: CBQ.
    ShareOnly,
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use serde::de::IntoDeserializer;
    use serde::de::value::Error;

    use super::*;
    use crate::scheduler;

    fn named(name: &str) -> Option<DisciplineName> {
        DisciplineName::deserialize(IntoDeserializer::<Error>::into_deserializer(name)).ok()
    }

    #[test]
    fn a_scheduler_goes_by_either_of_its_names_everywhere() {
        for [name, other] in [
            ["priority", "static_priority"],
            ["jitter-edd", "jitter_edf"],
            ["wf2q", "wf2q_plus"],
            ["virtual-clock", "virtual_clock"],
        ] {
            let is = named(name).expect("the name that is written");
            assert_eq!((named(other), is.to_string().as_str()), (Some(is), name));
            let there = scheduler::Discipline::by_name(name);
            assert!(there.is_some() && scheduler::Discipline::by_name(other) == there, "{name}");
        }
        assert_eq!(named("lifo"), None);
    }
}
