//! What a founder brings to its disk while it works, and what its end leaves for its next life.

use towpath_wire::Instant;

use super::core::{Engine, HAND_OVER};
use crate::ledger::Ledger;
use crate::protocol::Reply;

/// Requests that wait at once for their effect; one beyond that is answered before it.
const UNANSWERED_MAX: usize = 4096;

impl Engine {
    fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        self.keeper.as_mut()?.ledger.as_mut()
    }

    /// A founder that leads alone has what it decides written down, and goes on with what is.
    pub(super) fn look_at_ledger(&mut self) {
        let now = self.clock.now();
        let Some(ledger) = self.keeper.as_mut().and_then(|keeper| keeper.ledger.as_mut()) else {
            return self.node.wrote(now, None, &mut self.memory);
        };
        ledger.look_at(now, &mut self.node, &mut self.memory);
        let (_, effective) = self.node.decided().unwrap_or((0, u64::MAX));
        let is_effective = |(mark, _): &mut (u64, u64)| *mark <= effective;
        let answered: Vec<_> = ledger.unanswered.extract_if(.., is_effective).collect();
        for (_, client) in answered {
            self.reply(client, &Reply::Done);
        }
    }

    /// What was decided since is handed over before the engine waits for something else.
    pub(super) fn hand_over_ledger(&mut self) {
        let now = self.clock.now();
        if let Some(ledger) = self.keeper.as_mut().and_then(|keeper| keeper.ledger.as_mut()) {
            ledger.hand_over(now, &mut self.node);
            // What is not written is gone on with in the next turn, for which nobody rings.
            let (asked, effective) = self.node.decided().unwrap_or_default();
            self.pending.rushed |= effective < asked && !ledger.is_well();
        }
    }

    /// Whether a client is answered once what it asked for has taken effect, and not before.
    pub(super) fn is_answered_later(&mut self, client: u64) -> bool {
        match (self.node.decided(), self.ledger_mut()) {
            (Some((asked, effective)), Some(ledger))
                if effective < asked && ledger.unanswered.len() < UNANSWERED_MAX =>
            {
                ledger.unanswered.push((asked, client));
                true
            }
            _ => false,
        }
    }

    /// When its disk is not waited for any more.
    pub(super) fn disk_stalls_at(&self) -> Option<Instant> {
        self.keeper.as_ref()?.ledger.as_ref()?.due()
    }

    /// Whether all that had been decided when it was told to end is written, as far as it can be.
    pub(super) fn has_written(&mut self) -> bool {
        match (self.node.decided(), self.ledger_mut()) {
            (Some((asked, effective)), Some(ledger)) => {
                effective >= *ledger.ends_at.get_or_insert(asked)
            }
            _ => true,
        }
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
