//! What a founder brings to its disk while it works, and what its end leaves for its next life.

use towpath_wire::Instant;

use super::core::{Engine, HAND_OVER};
use crate::ledger::Ledger;

impl Engine {
    fn ledger(&self) -> Option<&Ledger> {
        self.keeper.as_ref()?.ledger.as_ref()
    }

    /// A founder that leads alone has what it decides written down, and goes on with what is.
    pub(super) fn look_at_ledger(&mut self) {
        let now = self.clock.now();
        match self.keeper.as_mut().and_then(|keeper| keeper.ledger.as_mut()) {
            Some(ledger) => ledger.look_at(now, &mut self.node, &mut self.memory),
            None => self.node.wrote(now, None, &mut self.memory),
        }
    }

    /// When its disk is not waited for any more, if that is to come.
    pub(super) fn disk_stalls_at(&self) -> Option<Instant> {
        self.ledger().and_then(Ledger::due).filter(|at| *at > self.clock.now())
    }

    /// Whether all that was decided here is written, as far as it can be.
    pub(super) fn has_written(&self) -> bool {
        self.ledger().is_none() || !self.node.waits_to_be_written()
    }

    /// Where no other host is left there is nobody to come back to, unless somebody was deleted who
    /// may not have heard of it. A virtual machine that is over may leave lost hosts behind, too.
    pub(super) fn has_nobody_to_come_back_to(&self) -> bool {
        let sole = self.node.hosts().count() == 1;
        match self.node.saved() {
            // Another one leads: this host comes back to it, unless that one has deleted it.
            Some(_) if self.is_over && !self.node.leads() && !self.node.is_frozen() => {
                self.pending.is_deleted || !self.node.is_listed()
            }
            Some(saved) if self.is_over => saved.is_alone() && self.node.unheard().is_empty(),
            Some(saved) => sole && !saved.names_deleted(),
            None => sole,
        }
    }

    /// Where another host may lead, it does before this one ends, if it can within a moment.
    pub(super) fn has_handed_over(&mut self) -> bool {
        let now = self.clock.now();
        if let Some(by) = self.pending.ends_by {
            return now >= by || !self.node.leads() && !self.node.is_frozen();
        }
        let hands = self.node.hand_lead_over(now, &mut self.memory);
        self.pending.ends_by = Some(if hands { now + HAND_OVER } else { now });
        !hands
    }
}
