//! Which links have a carrier.

use towpath_wire::{Instant, LinkId};

use super::core::{Endpoint, SlotState};
use crate::id::AssociationId;
use crate::machine::PathChange;

impl Endpoint {
    /// A link changed: all associations are told.
    pub(super) fn change_link(&mut self, now: Instant, link: LinkId, change: PathChange) {
        _ = match change {
            PathChange::Down => self.dark.insert(link),
            PathChange::Up => self.dark.remove(&link),
            PathChange::Longest { .. } => false,
        };
        for index in 0..self.slots.len() {
            if let SlotState::Open(a) = &mut self.slots[index].state {
                a.handle_path(now, link, change);
                self.touch(self.slots[index].id);
            }
        }
    }

    /// An association stands, or has a path more: it learns what it was not told.
    pub(super) fn know_links(&mut self, id: AssociationId) {
        if self.dark.is_empty() {
            return;
        }
        let dark = core::mem::take(&mut self.dark);
        if let Some(SlotState::Open(a)) = self.state_mut(id) {
            for link in &dark {
                a.lose_link(*link);
            }
        }
        self.dark = dark;
    }
}
