//! The choice of a stripe scheduler.

use alloc::boxed::Box;

use towpath_wire::LinkId;

use super::policy::StripeScheduler;
use super::{Adaptive, Earliest, Fcfs, Permuted, Redundant, RoundRobin, ShortestQueue, Weighted};

/// Which scheduler an association, or a channel, has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StripeKind {
    /// The path by which a packet arrives first.
    #[default]
    Earliest,
    /// Whichever link asks first.
    Fcfs,
    /// The next in turn.
    RoundRobin,
    /// The next in turn, in an order of each sender's own.
    Permuted,
    /// The fewest bytes under way.
    ShortestQueue,
    /// The least queue and last service time.
    Adaptive,
    /// All of them.
    Redundant,
    /// In proportion to what the first links are worth.
    Weighted([u16; 8]),
}

impl StripeKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Earliest,
        Self::Fcfs,
        Self::RoundRobin,
        Self::Permuted,
        Self::ShortestQueue,
        Self::Adaptive,
        Self::Redundant,
        Self::Weighted([1; 8]),
    ];

    /// Its name, as in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Fcfs => "fcfs",
            Self::RoundRobin => "round-robin",
            Self::Permuted => "permuted",
            Self::ShortestQueue => "shortest-queue",
            Self::Adaptive => "adaptive",
            Self::Redundant => "redundant",
            Self::Weighted(_) => "weighted",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What a link is worth beside the others.
    pub(crate) fn weight(self, link: LinkId) -> u32 {
        match self {
            Self::Weighted(weights) => {
                weights.get(usize::from(link.0)).copied().unwrap_or(1).into()
            }
            _ => 1,
        }
    }

    /// A fresh scheduler; `seed` tells senders apart.
    pub fn build(self, seed: u64) -> Box<dyn StripeScheduler> {
        match self {
            Self::Earliest => Box::new(Earliest::default()),
            Self::Fcfs => Box::new(Fcfs),
            Self::RoundRobin => Box::new(RoundRobin::default()),
            Self::Permuted => Box::new(Permuted::new(seed)),
            Self::ShortestQueue => Box::new(ShortestQueue),
            Self::Adaptive => Box::new(Adaptive),
            Self::Redundant => Box::new(Redundant),
            Self::Weighted(_) => Box::new(Weighted::default()),
        }
    }
}
