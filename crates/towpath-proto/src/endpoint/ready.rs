//! Which associations may have something to send, by link.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use towpath_wire::LinkId;

use super::core::{Endpoint, SlotState};
use crate::id::AssociationId;

/// A queue for each link. An association stands in the queue of each of its links until it was
/// asked and had nothing for that one: what it has for another is not forgotten with it.
#[derive(Debug, Default)]
pub(super) struct ReadyLinks {
    queues: Vec<(LinkId, VecDeque<AssociationId>)>,
}

/// In which of the queues an association stands, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Queued(u64);

/// Links of an endpoint at most: a bit each.
const LINKS_MAX: usize = 64;

impl ReadyLinks {
    /// # Panics
    /// For link 65: links are the owner's, who has a driver for each.
    fn place(&mut self, link: LinkId) -> usize {
        let known = self.queues.iter().position(|(l, _)| *l == link);
        known.unwrap_or_else(|| {
            assert!(self.queues.len() < LINKS_MAX, "an endpoint has {LINKS_MAX} links at most");
            self.queues.push((link, VecDeque::new()));
            self.queues.len() - 1
        })
    }

    /// An association may have something for a link: it goes to the end of that queue, if it does
    /// not stand there.
    pub(super) fn add(&mut self, link: LinkId, id: AssociationId, queued: &mut Queued) {
        let place = self.place(link);
        if queued.0 & 1 << place == 0 {
            queued.0 |= 1 << place;
            self.queues[place].1.push_back(id);
        }
    }

    /// How many wait for a link.
    pub(super) fn len(&mut self, link: LinkId) -> usize {
        let place = self.place(link);
        self.queues[place].1.len()
    }

    /// Whose turn it is on a link; it still counts as queued.
    pub(super) fn pop(&mut self, link: LinkId) -> Option<AssociationId> {
        let place = self.place(link);
        self.queues[place].1.pop_front()
    }

    /// To the end of a link's queue: it may have more.
    pub(super) fn again(&mut self, link: LinkId, id: AssociationId) {
        let place = self.place(link);
        self.queues[place].1.push_back(id);
    }

    /// It had nothing for a link.
    pub(super) fn done(&mut self, link: LinkId, queued: &mut Queued) {
        queued.0 &= !(1 << self.place(link));
    }
}

impl Endpoint {
    /// After a change that tells the owner nothing and moves no timer: an association may have more
    /// to send, and is asked.
    pub(super) fn wake(&mut self, id: AssociationId) {
        let Some(slot) = self.slots.get_mut(id.index()).filter(|s| s.id == id) else { return };
        let SlotState::Open(association) = &mut slot.state else { return };
        slot.owners |= self.clock.is_none();
        let (ready, queued) = (&mut self.ready, &mut slot.queued);
        #[cfg(plant)]
        let (asleep, mut named) = (self.config.plant == crate::config::Plant::LinkAsleep, 0);
        association.each_link(|link| {
            #[cfg(plant)]
            if asleep && core::mem::replace(&mut named, 1) > 0 {
                return;
            }
            ready.add(link, id, queued);
        });
        if association.has_heads() {
            self.note_heads(id);
        }
    }

    /// What an association would rather send by another link than the one that asked waits there.
    pub(super) fn pass_turn(&mut self, id: AssociationId) {
        if let Some(slot) = self.slots.get_mut(id.index()).filter(|s| s.id == id)
            && let SlotState::Open(a) = &mut slot.state
            && let Some(link) = a.take_turn()
        {
            self.ready.add(link, id, &mut slot.queued);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_association_has_for_one_link_is_not_forgotten_with_another() {
        let (mut ready, mut queued) = (ReadyLinks::default(), Queued::default());
        let (one, two, id) = (LinkId(3), LinkId(9), AssociationId(7));
        for link in [one, two, one] {
            ready.add(link, id, &mut queued);
        }
        assert_eq!((ready.len(one), ready.len(two)), (1, 1));
        assert_eq!(ready.pop(one), Some(id));
        ready.done(one, &mut queued);
        assert_eq!((ready.pop(one), ready.len(two)), (None, 1));
        ready.add(two, id, &mut queued);
        assert_eq!(ready.len(two), 1, "it stands there already");
        assert_eq!(ready.pop(two), Some(id));
        ready.again(two, id);
        ready.add(one, id, &mut queued);
        assert_eq!((ready.len(one), ready.len(two)), (1, 1));
    }

    #[test]
    fn each_of_64_links_has_a_queue_of_its_own() {
        let (mut ready, mut queued) = (ReadyLinks::default(), Queued::default());
        let (links, id) = ((0..LINKS_MAX as u16).map(LinkId), AssociationId(1));
        links.clone().for_each(|link| ready.add(link, id, &mut queued));
        ready.done(LinkId(63), &mut queued);
        links.for_each(|link| ready.add(link, id, &mut queued));
        assert_eq!((ready.len(LinkId(62)), ready.len(LinkId(63))), (1, 2));
    }
}
