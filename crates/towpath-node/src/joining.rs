//! A join under way, or a return.

use core::net::SocketAddr;

use towpath_proto::{AssociationId, HostKey, Psk};
use towpath_wire::{Admission, Instant};

/// A join under way.
#[derive(Debug)]
pub(crate) struct Joining {
    /// The handshake or association with the leader, while there is one.
    pub(crate) id: Option<AssociationId>,
    /// When to try again.
    pub(crate) retry_at: Option<Instant>,
    pub(crate) addr: SocketAddr,
    pub(crate) key: HostKey,
    pub(crate) admission: Admission,
    pub(crate) psk: Psk,
    pub(crate) again: bool,
}

impl Joining {
    /// That of a host that the log has as lost.
    pub(crate) fn again(now: Instant, addr: SocketAddr, key: HostKey) -> Self {
        let (admission, psk) = (Admission::Member, Psk::MEMBER);
        Self { id: None, retry_at: Some(now), addr, key, admission, psk, again: true }
    }
}
