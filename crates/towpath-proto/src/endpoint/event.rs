//! What an endpoint tells its owner, and what it counts.

use ::core::net::SocketAddr;
use alloc::vec::Vec;

use towpath_wire::Admission;

use super::initiate::ConnectFailure;
use crate::association::{AssociationEvent, AssociationStats};
use crate::crypto::HostKey;
use crate::id::AssociationId;

/// What an endpoint tells its owner.
#[derive(Debug)]
pub enum EndpointEvent {
    /// Somebody asks to be let in: answer with [`Endpoint::answer`](super::Endpoint::answer).
    Incoming {
        /// The handshake.
        id: AssociationId,
        /// Its proven static key.
        key: HostKey,
        /// Its ground for being let in.
        admission: Admission,
        /// Its address.
        remote: SocketAddr,
        /// What it says of itself.
        hello: Vec<u8>,
    },
    /// An association stands: both sides have shown that they hold the keys.
    Connected {
        /// The association.
        id: AssociationId,
        /// The peer's static key.
        key: HostKey,
        /// What the peer says of itself.
        hello: Vec<u8>,
        /// We started it.
        initiator: bool,
    },
    /// A handshake that we started failed.
    ConnectFailed {
        /// The handshake.
        id: AssociationId,
        /// The key that it was meant for.
        key: HostKey,
        /// Why.
        failure: ConnectFailure,
    },
    /// Something happened in an association.
    Association {
        /// The association.
        id: AssociationId,
        /// What.
        event: AssociationEvent,
    },
}

/// Counters of what came to no association, and of the associations that are over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStats {
    /// Datagrams that are not ours at all.
    pub garbage: u64,
    /// Datagrams for an association that does not exist (any more).
    pub unknown: u64,
    /// Handshake datagrams that did not authenticate.
    pub forged: u64,
    /// Handshakes answered with a request for proof of address.
    pub cookies: u64,
    /// Handshakes dropped because a table was full.
    pub turned_away: u64,
    /// Half-open associations dropped for a newcomer from a network that held fewer of them.
    pub evicted: u64,
    /// Handshakes refused by the owner.
    pub refused: u64,
    /// Handshake datagrams dropped because the link did not take them.
    pub queue_full: u64,
    /// What associations that are over had counted.
    pub over: AssociationStats,
}
