//! Tokens that this host has issued, as the holder of the VM key: which are good, until when and
//! for how many newcomers. A token that is not in the list admits nobody: so it can be revoked.
//!
//! The list is small and changes seldom; its owner keeps it over restarts
//! ([`crate::Node::invitations_changed`], [`crate::Node::restore_invitations`]).

use alloc::collections::BTreeMap;

use towpath_proto::AssociationId;

use crate::config::refusal;

/// Most tokens that are good at once.
pub const INVITATIONS_MAX: usize = 1024;
/// Places of handshakes under way: the low 12 bits of an association's number.
pub(crate) const PLACES: u32 = 1 << 12;

/// A token that was issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Which; it goes over the network in clear.
    pub nonce: [u8; 16],
    /// When it ends, in seconds since the Unix epoch by this host's clock.
    pub expiry_unix_s: u64,
    /// Newcomers that it admits at most; `None`: any number.
    pub uses_max: Option<u32>,
    /// Newcomers that it has admitted.
    pub uses: u32,
}

impl Issued {
    fn is_used_up(&self) -> bool {
        self.uses_max.is_some_and(|max| self.uses >= max)
    }
}

/// Why a token cannot be issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InviteError {
    /// This host does not hold the VM key.
    #[error("only the daemon that leads the virtual machine can issue tokens")]
    NotFounder,
    /// So many are good.
    #[error("{INVITATIONS_MAX} tokens are good, the limit")]
    TooMany,
}

/// The list. Invariant: `asking` has at most [`PLACES`] entries, one of each place.
#[derive(Debug, Default)]
pub(crate) struct Invitations {
    pub(crate) by_nonce: BTreeMap<[u8; 16], Issued>,
    /// With which token handshakes under way ask to be let in, by their place.
    asking: BTreeMap<u32, (AssociationId, [u8; 16])>,
    pub(crate) changed: bool,
}

impl Invitations {
    /// Why a token does not admit anybody (any more).
    pub(crate) fn judge(
        &self,
        now_s: u64,
        nonce: &[u8; 16],
        expiry_unix_s: u64,
    ) -> Result<(), (u16, &'static str)> {
        if expiry_unix_s <= now_s {
            // It may not be in the list any more.
            return Err((refusal::EXPIRED, "the token has expired"));
        }
        match self.by_nonce.get(nonce) {
            None => Err((refusal::REVOKED, "the token has been revoked")),
            Some(issued) if issued.is_used_up() => {
                Err((refusal::USED, "the token has admitted as many hosts as it was good for"))
            }
            Some(_) => Ok(()),
        }
    }

    /// A handshake that is being answered came with this token.
    pub(crate) fn asks(&mut self, id: AssociationId, nonce: [u8; 16]) {
        self.asking.insert(id.0 % PLACES, (id, nonce));
    }

    /// The handshake is over: the token counts as used once more, if it is still good:
    /// which.
    pub(crate) fn take(&mut self, now_s: u64, id: AssociationId) -> Option<[u8; 16]> {
        let asked = self.asking.remove(&(id.0 % PLACES)).filter(|(asked, _)| *asked == id);
        let (_, nonce) = asked?;
        let good = |issued: &&mut Issued| issued.expiry_unix_s > now_s && !issued.is_used_up();
        self.by_nonce.get_mut(&nonce).filter(good)?.uses += 1;
        self.changed = true;
        Some(nonce)
    }

    /// Whom it admitted does not come in after all.
    pub(crate) fn give_back(&mut self, nonce: &[u8; 16]) {
        if let Some(issued) = self.by_nonce.get_mut(nonce) {
            issued.uses = issued.uses.saturating_sub(1);
            self.changed = true;
        }
    }

    pub(crate) fn forget_expired(&mut self, now_s: u64) {
        self.by_nonce.retain(|_, issued| issued.expiry_unix_s > now_s);
    }
}
