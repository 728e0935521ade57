//! What the owner says of paths.

use ::core::net::SocketAddr;

use towpath_wire::{Instant, LinkId, PathId};

use super::core::Endpoint;
use crate::association::RetireError;
use crate::id::AssociationId;

impl Endpoint {
    /// Adds a path to an association: see
    /// [`Association::add_path`](crate::association::Association::add_path).
    pub fn add_path(
        &mut self,
        id: AssociationId,
        link: LinkId,
        remote: SocketAddr,
    ) -> Option<PathId> {
        let path = self.open_mut(id)?.add_path(link, remote);
        self.know_links(id);
        self.touch(id);
        path
    }

    /// Opens a path of an association that we started: see
    /// [`Association::open_path`](crate::association::Association::open_path).
    pub fn open_path(
        &mut self,
        now: Instant,
        id: AssociationId,
        link: LinkId,
        remote: SocketAddr,
    ) -> Option<PathId> {
        let path = self.open_mut(id)?.open_path(now, link, remote);
        self.know_links(id);
        self.touch(id);
        path
    }

    /// Tells a peer where we receive: see
    /// [`Association::offer_path`](crate::association::Association::offer_path).
    pub fn offer_path(&mut self, id: AssociationId, link: LinkId, remote: SocketAddr) -> bool {
        let offered = self.open_mut(id).is_some_and(|a| a.offer_path(link, remote));
        self.touch(id);
        offered
    }

    /// Uses a path of an association no more: see
    /// [`Association::retire_path`](crate::association::Association::retire_path).
    pub fn retire_path(
        &mut self,
        now: Instant,
        id: AssociationId,
        path: PathId,
        reason: u16,
    ) -> Result<(), RetireError> {
        let association = self.open_mut(id).ok_or(RetireError::Unknown(path))?;
        let retired = association.retire_path(now, path, reason);
        self.touch(id);
        retired
    }
}
