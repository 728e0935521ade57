//! Paths to other hosts over each link.

use alloc::vec::Vec;

use towpath_proto::AssociationId;
use towpath_proto::association::{PathState, PathStatus};
use towpath_wire::{Instant, LinkId};

use super::Node;
use super::addresses::told;
use crate::paths::{Offer, pairs};

impl Node {
    /// A host has called: it hears where we receive.
    pub(crate) fn offer_paths(&mut self, id: AssociationId) {
        let addrs = self.config.links.addrs();
        if addrs.len() < 2 || self.endpoint.association(id).is_none_or(|a| a.peer_paths() < 2) {
            return;
        }
        for (at, addr) in addrs.iter().enumerate() {
            if !told([*addr].into()).is_empty() {
                let device = self.config.links.device(LinkId(at as u16));
                self.endpoint.offer_path(id, device, *addr);
            }
        }
    }

    /// A host that we called tells where it receives.
    pub(crate) fn offered(&mut self, id: AssociationId, offer: Offer) {
        if !told([offer.1].into()).is_empty() {
            self.peers.offers.note(id, offer);
        }
    }

    /// Opens paths to the hosts that have made offers.
    pub(crate) fn open_paths(&mut self, now: Instant) {
        while let Some((id, offers)) = self.peers.offers.poll() {
            let Some(association) = self.endpoint.association(id) else { continue };
            let used = |p: &PathStatus| p.state != PathState::Retired;
            let present: Vec<_> = association.paths().filter(used).collect();
            for (link, remote) in pairs(&self.config.links, &offers, &present) {
                self.endpoint.open_path(now, id, link, remote);
            }
        }
    }
}
