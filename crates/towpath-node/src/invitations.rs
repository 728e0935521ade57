//! Which newcomer came with which token, at the host that leads. The list of tokens is part of the
//! [control state](towpath_vm::invitations): whoever comes to lead has it.
//!
//! A founder that leads alone keeps the list over its restarts: its owner does
//! ([`crate::Node::invitations_changed`], [`crate::Node::restore_invitations`]).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use towpath_proto::AssociationId;
use towpath_vm::invitations::NotGood;
pub use towpath_vm::invitations::{INVITATIONS_MAX, Issued, Secret};
use towpath_vm::talk::NOTHING_DECIDED;

use crate::config::refusal;
use crate::event::UNDECIDED;

/// Places of handshakes under way: the low 12 bits of an association's number.
pub(crate) const PLACES: u32 = 1 << 12;

/// Why a token is not issued or revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InviteError {
    /// This host does not lead.
    #[error("only the daemon that leads the virtual machine can issue tokens")]
    NotFounder,
    /// It led, and is in contact with too few to decide anything.
    #[error("{NOTHING_DECIDED}")]
    NothingDecided,
    /// So many are good.
    #[error("{INVITATIONS_MAX} tokens are good, the limit")]
    TooMany,
    /// There is no such token.
    #[error("there is no such token")]
    Unknown,
    /// This host does not lead any more, or the log takes no more: what becomes of it, is not known
    /// here.
    #[error("{UNDECIDED}")]
    Undecided,
}

/// The number by which a newcomer is told why its token does not admit it.
pub(crate) const fn code(why: NotGood) -> u16 {
    match why {
        NotGood::Expired => refusal::EXPIRED,
        NotGood::Revoked => refusal::REVOKED,
        NotGood::UsedUp => refusal::USED,
    }
}

/// What a host knows of tokens beside the list. Invariant: `asking` has at most [`PLACES`] entries,
/// one of each place.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// With which token handshakes under way ask to be let in, by their place.
    by_place: BTreeMap<u32, (AssociationId, [u8; 16])>,
    /// What a founder that starts again kept, until it leads.
    pub(crate) restored: Vec<Issued>,
    /// How many changes of the list its owner knows of.
    pub(crate) told: u64,
}

impl Asking {
    /// A handshake that is being answered came with this token.
    pub(crate) fn begins(&mut self, id: AssociationId, nonce: [u8; 16]) {
        self.by_place.insert(id.0 % PLACES, (id, nonce));
    }

    /// The handshake is over: with which token it came.
    pub(crate) fn take(&mut self, id: AssociationId) -> Option<[u8; 16]> {
        let asked = self.by_place.remove(&(id.0 % PLACES)).filter(|(asked, _)| *asked == id);
        asked.map(|(_, nonce)| nonce)
    }
}
