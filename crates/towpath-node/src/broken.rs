//! Two hosts that cannot reach each other while the leader reaches both: one of them has to go,
//! because what was under way between them has an unknown outcome. The two try to reach each
//! other again, and the leader waits for that, and long enough to find a dead host dead by itself.
//! Then it makes sure that both are there and had the time to say that they reach each other: it
//! asks all for a sign of life, and only of two that give one does it declare one lost, the one
//! that has most broken connections.

use alloc::collections::{BTreeMap, BTreeSet};

use towpath_wire::{HostId, Instant};

/// A connection that was said to be broken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// When it is looked at.
    pub(crate) at: Instant,
    /// The two were asked for a sign of life then; before, it was not broken for long enough.
    pub(crate) asked: Option<Instant>,
}

/// Connections that were said to be broken, and when they are looked at.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    /// By who said so, and whom it cannot reach.
    pub(crate) between: BTreeMap<(HostId, HostId), Look>,
    pub(crate) at: Option<Instant>,
    /// Hosts that the leader heard of from us that we cannot reach.
    pub(crate) told: BTreeSet<HostId>,
}

impl Broken {
    pub(crate) fn arm(&mut self) {
        self.at = self.between.values().map(|look| look.at).min();
    }
}

pub(crate) fn pair(a: HostId, b: HostId) -> (HostId, HostId) {
    (a.min(b), a.max(b))
}
