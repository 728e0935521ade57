//! Tokens that are issued and revoked: by the host that leads, in the log of those that keep it.

use alloc::vec::Vec;
use core::net::SocketAddr;

use towpath_proto::{HostKey, Psk};
use towpath_vm::HostState;
use towpath_vm::control::{Command, ControlState, Invite};
use towpath_vm::invitations::{Invitations, NotGood, Secret, Shown};
use towpath_wire::{Admission, Instant};

use super::Node;
use crate::commit::Waiting;
use crate::config::{Invitation, refusal, token_psk};
use crate::event::NodeEvent;
use crate::invitations::{INVITATIONS_MAX, InviteError, Issued, code};

impl Node {
    /// Issues a token for any number of newcomers; `None` where this host does not lead, or has too
    /// many that are good.
    pub fn invite(&mut self, now: Instant, ttl_s: u64, nonce: [u8; 16]) -> Option<Invitation> {
        self.invite_for(now, ttl_s, nonce, None).ok()
    }

    /// Issues a token for at most so many newcomers. It is good once
    /// [`crate::NodeEvent::TokenDecided`] says so; where nobody else keeps the log, at once.
    pub fn invite_for(
        &mut self,
        now: Instant,
        ttl_s: u64,
        nonce: [u8; 16],
        uses_max: Option<u32>,
    ) -> Result<Invitation, InviteError> {
        let at_unix_s = self.unix_s(now);
        let lost_most = self.has_lost_most();
        let none = if lost_most { InviteError::NothingDecided } else { InviteError::NotFounder };
        let log = self.log.as_ref().filter(|_| self.issues_tokens()).ok_or(none)?;
        let list = log.invitations();
        if !list.has(&nonce) && !list.has_room(at_unix_s) {
            return Err(InviteError::TooMany);
        }
        let secret = self.endpoint.random();
        let expiry_unix_s = at_unix_s.saturating_add(ttl_s);
        let psk = token_psk(self.endpoint.crypto(), &secret, expiry_unix_s, &nonce);
        let (secret, revoked) = (Secret(secret), false);
        let issued = Issued { nonce, secret, expiry_unix_s, uses_max, uses: 0, revoked };
        let invite = Command::Invite(Invite { issued, at_unix_s });
        self.propose_for(now, invite, Waiting::Owner(nonce));
        Ok(Invitation { expiry_unix_s, nonce, psk })
    }

    /// Whether it issues tokens: it holds the VM key, and leads.
    pub fn issues_tokens(&self) -> bool {
        self.voting.vm_key.is_some() && self.leads()
    }

    /// Whether the list of tokens is here: this host leads, or keeps the log.
    pub fn keeps_invitations(&self) -> bool {
        self.token_list().is_some()
    }

    /// Tokens that are good and have not expired, as far as this host keeps the list.
    pub fn invitations(&self, now: Instant) -> Vec<Issued> {
        let now_s = self.unix_s(now);
        let all = self.token_list().into_iter().flat_map(Invitations::iter);
        all.filter(|issued| !issued.revoked && issued.expiry_unix_s > now_s).cloned().collect()
    }

    /// All that this host has in the list: what is to be kept.
    pub fn invitations_kept(&self) -> Vec<Issued> {
        self.token_list().into_iter().flat_map(Invitations::iter).cloned().collect()
    }

    /// What whoever comes with a token has to know, as far as this host knows it. A host that comes
    /// back ([`Node::found_again`]) has made one itself, of the key that all have who ever kept the
    /// log: it is no secret, and admits nobody.
    pub(crate) fn psk_of(&self, expiry_unix_s: u64, nonce: &[u8; 16]) -> Psk {
        let back = self.joining.as_ref().and_then(|joining| joining.back.as_ref());
        let back = back.and_then(|back| back.saved.state.as_deref());
        let recovered = self.lead.recovery.as_ref().and_then(|recovery| recovery.state.as_deref());
        let before = back.into_iter().chain(recovered).map(ControlState::invitations);
        let lists = self.token_list().into_iter().chain(before);
        let restored = self.lead.asking.restored.iter().find(|issued| issued.nonce == *nonce);
        let mut secrets = lists.filter_map(|list| list.secret(nonce));
        let secret = secrets.next().or_else(|| restored.map(|issued| &issued.secret));
        let key = secret.map(|secret| &secret.0).or(self.voting.vm_key.as_deref());
        key.map_or(Psk::MEMBER, |key| token_psk(self.endpoint.crypto(), key, expiry_unix_s, nonce))
    }

    /// A token admits nobody from now on; false where it did not anyway, or this host does not
    /// lead. Otherwise [`crate::NodeEvent::TokenDecided`] says when that is so. Hosts that it has
    /// admitted stay.
    pub fn revoke(&mut self, now: Instant, nonce: &[u8; 16]) -> bool {
        let log = self.log.as_ref().filter(|_| self.leads());
        let is_there = log.is_some_and(|log| log.invitations().has(nonce));
        if is_there {
            self.propose_for(now, Command::Revoke(*nonce), Waiting::Owner(*nonce));
        }
        is_there
    }

    /// Whether the list has changed since this was asked last, as far as this host keeps it.
    pub fn invitations_changed(&mut self) -> bool {
        let Some(changes) = self.token_list().map(Invitations::changes) else { return false };
        core::mem::replace(&mut self.lead.asking.told, changes) != changes
    }

    /// The list as it was in an earlier life of this host, for a founder that begins. Where others
    /// may lead by now, theirs counts.
    pub fn restore_invitations(&mut self, now: Instant, issued: impl IntoIterator<Item = Issued>) {
        let issued = issued.into_iter().take(INVITATIONS_MAX);
        if !self.leads() {
            self.lead.asking.restored = issued.collect();
            return;
        }
        let at_unix_s = self.unix_s(now);
        for issued in issued {
            self.propose(now, Command::Invite(Invite { issued, at_unix_s }));
        }
    }

    /// Who may come to lead beside this host, and where they receive: for tokens.
    pub fn others_that_may_lead(&self) -> Vec<(HostKey, Vec<SocketAddr>)> {
        let may_lead = self.may_lead();
        let is_one = |h: &&towpath_vm::Host| {
            h.state == HostState::Up && Some(h.id) != self.me && may_lead.contains(&h.id)
        };
        // At every address of its machine is nowhere for others.
        let addrs = |h: &towpath_vm::Host| -> Vec<SocketAddr> {
            self.addrs_of(h).into_iter().filter(|addr| !addr.ip().is_unspecified()).collect()
        };
        let all = self.hosts().filter(is_one).map(|h| (HostKey(h.key), addrs(h)));
        all.filter(|(_, addrs)| !addrs.is_empty()).collect()
    }

    /// The list, where this host leads or keeps the log.
    fn token_list(&self) -> Option<&Invitations> {
        let own = self.log.as_ref().filter(|_| self.leads());
        // One that has just begun to keep the log has nothing yet.
        let kept = self.voting.voter.as_ref().map(|voter| voter.state());
        let kept = kept.filter(|state| state.snapshot().index > 0);
        own.or(kept).map(ControlState::invitations)
    }

    /// Whether a newcomer's token admits it, as the list is here.
    pub(crate) fn judge_token(
        &self,
        now: Instant,
        admission: &Admission,
    ) -> Result<(), (u16, &'static str)> {
        let Admission::Token { nonce, expiry_unix_s } = admission else {
            return Err((refusal::NOT_MEMBER, "joining needs a token"));
        };
        let at_unix_s = self.unix_s(now);
        let shown = Shown { nonce: *nonce, at_unix_s };
        let judged = match &self.log {
            // It may not be in the list any more.
            _ if *expiry_unix_s <= at_unix_s => Err(NotGood::Expired),
            Some(log) => log.invitations().judge(&shown),
            None => Err(NotGood::Revoked),
        };
        judged.map_err(|why| (code(why), why.words()))
    }

    /// The owner hears what came of a token that it had issued or revoked.
    pub(crate) fn token_decided(
        &mut self,
        token: Option<[u8; 16]>,
        outcome: Result<(), InviteError>,
    ) {
        let event = token.map(|nonce| NodeEvent::TokenDecided { nonce, outcome });
        self.events.extend(event);
    }
}
