//! What only a leader has.

use crate::broken::Broken;
use crate::commit::Proposals;
use crate::invitations::Asking;
use crate::node::deleting::Turn;
use crate::node::promising::Orphans;
use crate::refused::Refused;
use crate::restore::Recovery;
use crate::sharing::Sharing;
use crate::suspects::Suspects;
use crate::telling::Telling;
use crate::unique::Unique;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use towpath_vm::control::{Alone, Commits};
use towpath_wire::{HostId, Instant};

/// What only the leader does.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) broken: Broken,
    pub(crate) suspects: Suspects,
    /// Hosts that the owner deleted while they were up, and that have not ended since.
    pub(crate) unheard: BTreeSet<HostId>,
    /// Hosts that are to be deleted once others that keep the log are out.
    pub(crate) turns: VecDeque<Turn>,
    /// Deleted hosts that still have to hear of it, and until when they are given time to.
    pub(crate) farewells: BTreeMap<HostId, Instant>,
    /// It has started again and asks its members first.
    pub(crate) recovery: Option<Recovery>,
    pub(crate) telling: Telling,
    /// The log of one that asks nobody.
    pub(crate) alone: Box<dyn Commits>,
    pub(crate) proposals: Proposals,
    pub(crate) sharing: Sharing,
    pub(crate) refused: Refused,
    pub(crate) asking: Asking,
    pub(crate) unique: Unique,
    /// Hosts that are gone, and when what was promised to them is over.
    pub(crate) orphans: Orphans,
    /// When those are asked again that have not said what they were promised.
    pub(crate) say_at: Option<Instant>,
    /// Since when there are any.
    pub(crate) unsure_since: Option<Instant>,
    /// The term in which it looks after what is promised.
    pub(crate) promises_in: Option<u64>,
    /// Asked to end everything: when it waits no longer for the others; `NEVER` when it ended.
    pub(crate) halt_at: Option<Instant>,
}

impl Lead {
    /// What it thought of others as a leader, or as one that led, is no longer so.
    pub(crate) fn forget_judgements(&mut self) {
        self.suspects = Suspects::default();
        self.orphans.clear();
        (self.say_at, self.unsure_since, self.promises_in) = (None, None, None);
        self.broken.forget_others();
        self.telling.entries.clear();
        self.telling.at = None;
    }
}

impl Default for Lead {
    fn default() -> Self {
        Self {
            broken: Broken::default(),
            suspects: Suspects::default(),
            unheard: BTreeSet::new(),
            turns: VecDeque::new(),
            farewells: BTreeMap::new(),
            recovery: None,
            telling: Telling::default(),
            alone: Box::new(Alone::default()),
            proposals: Proposals::default(),
            sharing: Sharing::default(),
            refused: Refused::default(),
            unique: Unique::default(),
            asking: Asking::default(),
            orphans: Orphans::new(),
            say_at: None,
            unsure_since: None,
            promises_in: None,
            halt_at: None,
        }
    }
}
