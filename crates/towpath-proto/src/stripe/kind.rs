//! The choice of a stripe scheduler.

use alloc::boxed::Box;

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
    /// In proportion to what links are worth.
    Weighted,
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
        Self::Weighted,
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
            Self::Weighted => "weighted",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
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
            Self::Weighted => Box::new(Weighted::default()),
        }
    }
}
