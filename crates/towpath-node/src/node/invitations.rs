//! Tokens that are issued and revoked.

use alloc::vec::Vec;

use towpath_wire::Instant;

use super::Node;
use crate::config::{Invitation, token_psk};
use crate::invitations::{INVITATIONS_MAX, InviteError, Issued};

impl Node {
    /// Issues a token for any number of newcomers; `None` where this host does not hold the VM key,
    /// or has too many that are good.
    pub fn invite(&mut self, now: Instant, ttl_s: u64, nonce: [u8; 16]) -> Option<Invitation> {
        self.invite_for(now, ttl_s, nonce, None).ok()
    }

    /// Issues a token for at most so many newcomers.
    pub fn invite_for(
        &mut self,
        now: Instant,
        ttl_s: u64,
        nonce: [u8; 16],
        uses_max: Option<u32>,
    ) -> Result<Invitation, InviteError> {
        let now_s = self.unix_s(now);
        let vm_key = self.voting.vm_key.as_ref().filter(|_| self.leads());
        let vm_key = vm_key.ok_or(InviteError::NotFounder)?;
        let expiry_unix_s = now_s.saturating_add(ttl_s);
        let psk = token_psk(self.endpoint.crypto(), vm_key, expiry_unix_s, &nonce);
        let list = &mut self.lead.invitations;
        list.forget_expired(now_s);
        if list.by_nonce.len() >= INVITATIONS_MAX {
            return Err(InviteError::TooMany);
        }
        let issued = Issued { nonce, expiry_unix_s, uses_max, uses: 0 };
        list.by_nonce.insert(nonce, issued);
        list.changed = true;
        Ok(Invitation { expiry_unix_s, nonce, psk })
    }

    /// Whether it issues tokens: it holds the VM key, and leads.
    pub fn issues_tokens(&self) -> bool {
        self.voting.vm_key.is_some() && self.leads()
    }

    /// Tokens that have not expired.
    pub fn invitations(&self, now: Instant) -> Vec<Issued> {
        let now_s = self.unix_s(now);
        let all = self.lead.invitations.by_nonce.values();
        all.filter(|issued| issued.expiry_unix_s > now_s).cloned().collect()
    }

    /// A token admits nobody from now on; false where it did not anyway. Hosts that it has admitted
    /// stay.
    pub fn revoke(&mut self, nonce: &[u8; 16]) -> bool {
        let list = &mut self.lead.invitations;
        let revoked = list.by_nonce.remove(nonce).is_some();
        list.changed |= revoked;
        revoked
    }

    /// Whether the list has changed since this was asked last.
    pub const fn invitations_changed(&mut self) -> bool {
        core::mem::replace(&mut self.lead.invitations.changed, false)
    }

    /// The list as it was in an earlier life of this host, for a founder that begins.
    pub fn restore_invitations(&mut self, issued: impl IntoIterator<Item = Issued>) {
        let list = &mut self.lead.invitations;
        list.by_nonce =
            issued.into_iter().take(INVITATIONS_MAX).map(|issued| (issued.nonce, issued)).collect();
    }
}
