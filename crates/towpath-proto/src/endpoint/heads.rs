//! Reserved channels: which associations have heads to tell of.

use towpath_wire::{ChannelId, Instant, LinkId};

use super::core::{Endpoint, SlotState};
use crate::egress::Head;
use crate::id::AssociationId;

impl Endpoint {
    /// Reserves a channel on a link, or on none any more, see
    /// [`Association::reserve`](crate::Association::reserve).
    pub fn reserve_channel(
        &mut self,
        id: AssociationId,
        channel: ChannelId,
        link: Option<LinkId>,
    ) -> bool {
        let done = self.open_mut(id).is_some_and(|a| a.reserve(channel, link));
        self.touch(id);
        done
    }

    /// [`Association::mark_promised`](crate::Association::mark_promised).
    pub fn mark_promised(&mut self, id: AssociationId, channel: ChannelId) {
        if let Some(association) = self.open_mut(id) {
            association.mark_promised(channel);
        }
    }

    /// What reserved channels of an association have is news on these links.
    pub(super) fn note_heads(&mut self, id: AssociationId) {
        let Some(slot) = self.slots.get_mut(id.index()).filter(|s| s.id == id) else { return };
        let SlotState::Open(association) = &mut slot.state else { return };
        for link in association.heads_on() {
            self.heads.add(link, id, &mut slot.headed);
        }
    }

    /// The next of them on a link.
    pub(super) fn next_head(&mut self, now: Instant, link: LinkId) -> Option<Head> {
        for _ in 0..self.heads.len(link) {
            let id = self.heads.pop(link)?;
            if let Some(head) = self.open_mut(id).and_then(|a| a.poll_head(now, link)) {
                self.heads.again(link, id);
                return Some(head);
            }
            if let Some(slot) = self.slots.get_mut(id.index()).filter(|s| s.id == id) {
                self.heads.done(link, &mut slot.headed);
            }
        }
        None
    }
}
