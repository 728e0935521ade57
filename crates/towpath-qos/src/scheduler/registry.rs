//! The disciplines by name.

use alloc::boxed::Box;

use super::cbq::{AncestorsOnly, Cbq, Formal, TopLevel};
use super::cbq_source::CbqSource;
use super::contract::{ConfigError, PortConfig, Scheduler};
use super::drr::Drr;
use super::edf::{Edf, EdfCalendar};
use super::fcfs::Fcfs;
use super::heap::Heap;
use super::hfsc::Hfsc;
use super::jitter_edd::JitterEdd;
use super::port::{Policy, Port};
use super::priority::StaticPriority;
use super::priority_bitmap::PriorityBitmap;
use super::rcsp::Rcsp;
use super::scfq::Scfq;
use super::three_queue::ThreeQueue;
use super::virtual_clock::VirtualClock;
use super::wf2q::Wf2q;
use super::wfq::Wfq;

/// Every discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// First come, first served.
    Fcfs,
    /// Static priority.
    StaticPriority,
    /// Static priority, queues in turn.
    PriorityBitmap,
    /// Class-based queuing, formal link sharing.
    CbqFormal,
    /// Class-based queuing, ancestors-only link sharing.
    CbqAncestorsOnly,
    /// Class-based queuing, top-level link sharing.
    CbqTopLevel,
    /// Class-based queuing as the second source built it.
    CbqSource,
    /// Deficit round robin.
    Drr,
    /// Weighted fair queuing (PGPS).
    Wfq,
    /// WF²Q+.
    Wf2q,
    /// Self-clocked fair queuing.
    Scfq,
    /// Virtual Clock.
    VirtualClock,
    /// Delay-EDD, exact.
    Edf,
    /// Delay-EDD on a calendar.
    EdfCalendar,
    /// Jitter-EDD.
    JitterEdd,
    /// EDF in three queues.
    ThreeQueue,
    /// Rate-controlled static priority.
    Rcsp,
    /// Hierarchical fair service curve.
    Hfsc,
}

/// What a discipline promises, for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// As on the command line.
    pub name: &'static str,
    /// In words.
    pub title: &'static str,
    /// Sends whenever a packet waits.
    pub work_conserving: bool,
    /// Bound for a queue within (b, r), in the notation of its file; `None`: it has none.
    pub delay_bound: Option<&'static str>,
    /// Whether a greedy queue leaves the others their bound.
    pub isolates: bool,
    /// Per packet, V backlogged queues.
    pub cost: &'static str,
}

fn boxed<P: Policy + 'static>(port: &PortConfig) -> Result<Box<dyn Scheduler>, ConfigError> {
    Ok(Box::new(Port::<P>::new(port)?))
}

impl Discipline {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Fcfs,
        Self::StaticPriority,
        Self::PriorityBitmap,
        Self::CbqFormal,
        Self::CbqAncestorsOnly,
        Self::CbqTopLevel,
        Self::CbqSource,
        Self::Drr,
        Self::Wfq,
        Self::Wf2q,
        Self::Scfq,
        Self::VirtualClock,
        Self::Edf,
        Self::EdfCalendar,
        Self::JitterEdd,
        Self::ThreeQueue,
        Self::Rcsp,
        Self::Hfsc,
    ];

    /// The one of that name, which may have underscores for hyphens, or be another that topology
    /// files have for it.
    pub fn by_name(name: &str) -> Option<Self> {
        let name = name.replace('_', "-");
        let name = match name.as_str() {
            "static-priority" => "priority",
            "jitter-edf" => "jitter-edd",
            "wf2q-plus" => "wf2q",
            name => name,
        };
        Self::ALL.iter().copied().find(|discipline| discipline.facts().name == name)
    }

    /// A port under it, without queues.
    pub fn build(self, port: &PortConfig) -> Result<Box<dyn Scheduler>, ConfigError> {
        match self {
            Self::Fcfs => boxed::<Fcfs>(port),
            Self::StaticPriority => boxed::<StaticPriority>(port),
            Self::PriorityBitmap => boxed::<PriorityBitmap>(port),
            Self::CbqFormal => boxed::<Cbq<Formal>>(port),
            Self::CbqAncestorsOnly => boxed::<Cbq<AncestorsOnly>>(port),
            Self::CbqTopLevel => boxed::<Cbq<TopLevel>>(port),
            Self::CbqSource => boxed::<CbqSource>(port),
            Self::Drr => boxed::<Drr>(port),
            Self::Wfq => boxed::<Wfq>(port),
            Self::Wf2q => boxed::<Wf2q>(port),
            Self::Scfq => boxed::<Scfq>(port),
            Self::VirtualClock => boxed::<VirtualClock>(port),
            Self::Edf => boxed::<Edf<Heap>>(port),
            Self::EdfCalendar => boxed::<EdfCalendar>(port),
            Self::JitterEdd => boxed::<JitterEdd>(port),
            Self::ThreeQueue => boxed::<ThreeQueue>(port),
            Self::Rcsp => boxed::<Rcsp>(port),
            Self::Hfsc => boxed::<Hfsc>(port),
        }
    }

    /// What it promises.
    // tidy: dispatch
    pub const fn facts(self) -> &'static Facts {
        match self {
            Self::Fcfs => &Facts {
                name: "fcfs",
                title: "first come, first served",
                work_conserving: true,
                delay_bound: Some("Σb/C"),
                isolates: false,
                cost: "O(1)",
            },
            Self::StaticPriority => &Facts {
                name: "priority",
                title: "static priority",
                work_conserving: true,
                delay_bound: Some("(Σ_{q≤p} b + L)/(C − Σ_{q<p} r)"),
                isolates: false,
                cost: "O(1)",
            },
            Self::PriorityBitmap => &Facts {
                name: "priority-bitmap",
                title: "static priority, queues in turn",
                work_conserving: true,
                delay_bound: Some("(Σ_{q≤p} b + L)/(C − Σ_{q≤p} r)"),
                isolates: false,
                cost: "O(1)",
            },
            Self::CbqFormal => &Facts {
                name: "cbq-formal",
                title: "class-based queuing, formal sharing",
                work_conserving: false,
                delay_bound: None,
                isolates: true,
                cost: "O(depth · log V), O(V) where inner classes are limited",
            },
            Self::CbqAncestorsOnly => &Facts {
                name: "cbq-ancestors",
                title: "class-based queuing, ancestors only",
                work_conserving: false,
                delay_bound: None,
                isolates: false,
                cost: "O(depth), O(V) where inner classes are limited",
            },
            Self::CbqTopLevel => &Facts {
                name: "cbq-top-level",
                title: "class-based queuing, top level",
                work_conserving: false,
                delay_bound: None,
                isolates: true,
                cost: "O(depth + log V), O(V) where inner classes are limited",
            },
            Self::CbqSource => &Facts {
                name: "cbq-source",
                title: "class-based queuing of the second source",
                work_conserving: true,
                delay_bound: None,
                isolates: true,
                cost: "O(1)",
            },
            Self::Drr => &Facts {
                name: "drr",
                title: "deficit round robin",
                work_conserving: true,
                delay_bound: Some("b/r + (3F − 2Q)/C, r = Q/F·C"),
                isolates: true,
                cost: "O(1)",
            },
            Self::Wfq => &Facts {
                name: "wfq",
                title: "weighted fair queuing (PGPS)",
                work_conserving: true,
                delay_bound: Some("b/r + L/C"),
                isolates: true,
                cost: "O(log V)",
            },
            Self::Wf2q => &Facts {
                name: "wf2q",
                title: "worst-case fair weighted fair queuing (WF²Q+)",
                work_conserving: true,
                delay_bound: Some("b/r + L/C"),
                isolates: true,
                cost: "O(log V)",
            },
            Self::Scfq => &Facts {
                name: "scfq",
                title: "self-clocked fair queuing",
                work_conserving: true,
                delay_bound: Some("b/r + Lᵢ/r + (V − 1)·L/C"),
                isolates: true,
                cost: "O(log V)",
            },
            Self::VirtualClock => &Facts {
                name: "virtual-clock",
                title: "Virtual Clock",
                work_conserving: true,
                delay_bound: Some("b/r + L/C"),
                isolates: true,
                cost: "O(log V)",
            },
            Self::Edf => &Facts {
                name: "edf",
                title: "earliest deadline first (delay-EDD)",
                work_conserving: true,
                delay_bound: Some("d"),
                isolates: true,
                cost: "O(log V)",
            },
            Self::EdfCalendar => &Facts {
                name: "edf-calendar",
                title: "earliest deadline first on a calendar",
                work_conserving: true,
                delay_bound: Some("d + granule"),
                isolates: true,
                cost: "O(1)",
            },
            Self::JitterEdd => &Facts {
                name: "jitter-edd",
                title: "earliest deadline first behind regulators",
                work_conserving: false,
                delay_bound: Some("d, jitter d"),
                isolates: true,
                cost: "O(log V)",
            },
            Self::ThreeQueue => &Facts {
                name: "three-queue",
                title: "deterministic, statistical, best effort",
                work_conserving: true,
                delay_bound: Some("d (deterministic)"),
                isolates: true,
                cost: "O(log V)",
            },
            Self::Rcsp => &Facts {
                name: "rcsp",
                title: "rate-controlled static priority",
                work_conserving: false,
                delay_bound: Some("d of the level + granule"),
                isolates: true,
                cost: "O(1)",
            },
            Self::Hfsc => &Facts {
                name: "hfsc",
                title: "hierarchical fair service curve",
                work_conserving: true,
                delay_bound: Some("h(α, S) + L/C"),
                isolates: true,
                cost: "O(depth · log V)",
            },
        }
    }
}
