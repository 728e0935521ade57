//! Which packet scheduler an egress has, as far as admission must know it.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

/// A scheduler's name in a topology file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisciplineName {
    /// First come, first served. It bounds delay only where nothing unreserved is sent.
    Fcfs,
    /// Static priority, not preemptive.
    StaticPriority,
    /// Rate-controlled static priority.
    Rcsp,
    /// Earliest deadline first (delay-EDD).
    Edf,
    /// Earliest deadline first behind a jitter regulator (jitter-EDD).
    JitterEdf,
    /// Hierarchical fair service curve.
    Hfsc,
    /// Weighted fair queueing.
    Wfq,
    /// Worst-case fair weighted fair queueing.
    Wf2qPlus,
    /// Virtual Clock.
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
            Self::StaticPriority => "static_priority",
            Self::Rcsp => "rcsp",
            Self::Edf => "edf",
            Self::JitterEdf => "jitter_edf",
            Self::Hfsc => "hfsc",
            Self::Wfq => "wfq",
            Self::Wf2qPlus => "wf2q_plus",
            Self::VirtualClock => "virtual_clock",
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
