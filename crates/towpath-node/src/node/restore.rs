//! A founder that starts again asks its members, then leads.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::{Crypto, HostKey, Rng};
use towpath_vm::control::ControlState;
use towpath_vm::invitations::Invitations;
use towpath_vm::message::{Report, Resumed};
use towpath_vm::{ControlLog, Host, HostState, Message, Snapshot, Tasks};
use towpath_wire::{Admission, HostId, Instant};
use zeroize::Zeroizing;

use super::Node;
use crate::config::{JoinTarget, NodeConfig, reason, token_psk};
use crate::event::NodeEvent;
use crate::hello::Purpose;
use crate::joining::{Joining, Reason, Return};
use crate::restore::{Deleted, KeptTo, Recovery, Saved, SavedError};

/// How long members may take to say what they know.
const RECOVER_FOR: Duration = Duration::from_secs(2);
/// Where a term has the slot of a host that leads again alone: the bits below count leaders.
pub(super) const TERM_SLOT: u32 = 16;
/// How long the founder's own token is good, in seconds: longer than it takes to be let in.
const RETURN_TOKEN_S: u64 = 3600;
/// How long members that did not may take to be back.
pub(super) const RETURN_FOR: Duration = Duration::from_secs(10);

impl Node {
    /// A founder that was here before, with what it kept then: asks its members, then leads.
    pub fn found_again(
        now: Instant,
        config: NodeConfig,
        crypto: Box<dyn Crypto>,
        rng: Rng,
        vm_key: impl Into<Zeroizing<[u8; 32]>>,
        saved: Saved,
    ) -> Result<Self, SavedError> {
        let mut node = Self::new(config, crypto, rng);
        let snapshot = &saved.snapshot;
        let own = snapshot.table.by_key(&node.endpoint.public_key().0).map(|h| h.id);
        let others = snapshot.is_shared() || own != Some(snapshot.leader);
        // One that was deleted by others hears so from them.
        if own.is_none() && (saved.alone || !snapshot.is_shared()) {
            return Err(SavedError::OtherKey);
        }
        node.voting.vm_key = Some(vm_key.into());
        node.voting.founded = !saved.let_in;
        if others && !saved.alone {
            node.come_back(now, saved);
        } else {
            node.begin_again(now, saved);
        }
        Ok(node)
    }

    /// Leads again from what it kept, once it has asked the members.
    fn begin_again(&mut self, now: Instant, saved: Saved) {
        let Saved { mut snapshot, deleted, mut led, alone, state, .. } = saved;
        let own = snapshot.table.by_key(&self.endpoint.public_key().0).map(|h| h.id);
        if let Some(own) = own.filter(|_| alone) {
            snapshot.leader = own;
            snapshot.voters = [own].into();
            // Another one may be told the same.
            let apart = u64::from(own.slot()) << TERM_SLOT;
            snapshot.term += apart;
            led += apart;
        }
        let (waiting, registered) = (BTreeSet::new(), BTreeMap::new());
        let (until, copied) = (now + RECOVER_FOR, None);
        let recovery = Recovery { waiting, until, led, state, registered, copied };
        self.lead.recovery = Some(recovery);
        self.take_state(now, snapshot, deleted);
        self.settle_recovery(now);
    }

    /// How far what this host kept goes, where whoever asks for something is to hear that: those
    /// with a token, who may be as far, and hosts that take this one for what it was.
    pub(crate) fn says_it_returns(
        &mut self,
        now: Instant,
        key: &HostKey,
        admission: &Admission,
        purpose: Purpose,
    ) -> Option<KeptTo> {
        let joins = purpose == Purpose::Join && matches!(admission, Admission::Token { .. });
        let Some(back) = self.joining.as_ref().and_then(|joining| joining.back.as_ref()) else {
            // One that runs, and could decide nothing any more.
            return joins.then(|| self.ends_with_most(now)).flatten();
        };
        let calls = matches!(purpose, Purpose::Member(_) | Purpose::Lead { .. });
        let hears = joins || calls && back.saved.knows(key);
        let kept = back.saved.kept_to();
        if let Some(joining) = self.joining.as_mut().filter(|_| joins) {
            joining.heard_of(key);
        }
        (hears && self.log.is_none()).then_some(kept)
    }

    /// Begins again, where all that voted start again, and none of them has more. Others find it.
    pub(crate) fn begins_again(&mut self, now: Instant) -> bool {
        let own = self.endpoint.public_key().0;
        let begins = |joining: &mut Joining| {
            joining.back.as_mut().is_some_and(|back| back.begins(now, &own))
        };
        let Some(back) = self.joining.take_if(begins).and_then(|joining| joining.back) else {
            return false;
        };
        self.events.push_back(NodeEvent::Begins);
        self.begin_again(now, back.saved.alone());
        true
    }

    /// What a founder, or another one that may lead, is to keep; `None` elsewhere, and while it
    /// asks its members.
    pub fn saved(&self) -> Option<Saved> {
        let log = self.log.as_ref().filter(|_| self.leads() || self.keeps())?;
        if self.lead.recovery.is_some() {
            return None;
        }
        let (snapshot, deleted) = (log.snapshot().clone(), log.deleted().clone());
        let voters = self.voting.voter.as_ref().map_or(self.config.voters, |voter| voter.wanted);
        Some(Saved::new(snapshot, deleted, voters))
    }

    /// Others may lead by now: this host joins them, as whoever holds the VM key may.
    fn come_back(&mut self, now: Instant, mut saved: Saved) {
        let Some(vm_key) = &self.voting.vm_key else { return };
        let expiry_unix_s = self.unix_s(now) + RETURN_TOKEN_S;
        let mut nonce = [0; 16];
        let draws = [self.voting.rng.u64(), self.voting.rng.u64()];
        for (part, draw) in nonce.chunks_exact_mut(8).zip(draws) {
            part.copy_from_slice(&draw.to_le_bytes());
        }
        let psk = token_psk(self.endpoint.crypto(), vm_key, expiry_unix_s, &nonce);
        let admission = Admission::Token { expiry_unix_s, nonce };
        let own = self.endpoint.public_key().0;
        let snapshot = &saved.snapshot;
        let voters = snapshot.voters.iter().filter_map(|v| snapshot.table.get(*v));
        let rest = snapshot.table.up().filter(|h| !snapshot.voters.contains(&h.id));
        let all = voters.chain(rest).filter(|h| h.key != own);
        let known = all.map(|h| (self.addr_of(h), HostKey(h.key)));
        let mut others = VecDeque::new();
        let target = saved.target.take();
        let token = target.map(|target| {
            let JoinTarget { addr, key, others: more, invitation } = *target;
            let named = [(addr, key)].into_iter().chain(more);
            others.extend(named.filter(|(_, key)| key.0 != own));
            (invitation.admission(), invitation.psk)
        });
        let named = others.len();
        for (addr, key) in known {
            if others.iter().take(named).all(|(_, named)| *named != key) {
                others.push_back((addr, key));
            }
        }
        self.events.push_back(NodeEvent::Returning { hosts: others.len() });
        let Some((addr, key)) = others.pop_front() else { return };
        let (reason, again) = (Reason::Kept, Joining::again(now, addr, key));
        let back = Some(Box::new(Return::new(saved)));
        self.join_addr = Some(addr);
        self.joining = Some(Joining { others, admission, psk, reason, back, token, ..again });
        self.retry_joining(now);
    }

    /// The latest state known so far; calls the members that are new in it.
    fn take_state(&mut self, now: Instant, snapshot: Snapshot, deleted: Deleted) {
        let old = snapshot.leader;
        // Whoever we called by the id of an earlier life is that one in its present life.
        for host in self.peers.hosts() {
            let entry = self.log.as_ref().and_then(|l| l.table().get(host));
            let now_is = entry.and_then(|h| snapshot.table.by_key(&h.key)).map(|h| h.id);
            let Some(now_is) = now_is.filter(|id| *id != host) else { continue };
            let waiting = self.lead.recovery.as_mut().map(|r| &mut r.waiting);
            let waited = waiting.is_some_and(|w| w.remove(&host));
            if self.peers.up(host).is_none() {
                if let Some(id) = self.peers.remove(host) {
                    self.closing.push((id, reason::REPLACED));
                    self.cut_channels(id);
                }
                continue;
            }
            self.peers.rename(host, now_is);
            if let Some(recovery) = self.lead.recovery.as_mut().filter(|_| waited) {
                recovery.waiting.insert(now_is);
            }
        }
        let members = snapshot.table.up().map(|h| h.id).filter(|h| *h != old);
        let members: Vec<HostId> = members.collect();
        self.log = Some(ControlState::from_snapshot(snapshot).with_deleted(deleted));
        let Some(recovery) = &mut self.lead.recovery else { return };
        let known: BTreeSet<HostId> = self.peers.hosts().into_iter().collect();
        let new: Vec<HostId> = members.into_iter().filter(|h| !known.contains(h)).collect();
        recovery.waiting.extend(&new);
        for host in new {
            self.peers.try_at(now, host, now);
        }
        self.handle_retries(now);
    }

    /// A member says what it knows.
    pub(crate) fn handle_report_in_recovery(&mut self, now: Instant, from: HostId, report: Report) {
        if let Some(recovery) = &mut self.lead.recovery {
            recovery.waiting.remove(&from);
            recovery.registered.insert(from, report.registered.iter().copied().collect());
        }
        let have = self.log.as_ref().map(|l| l.snapshot().place());
        let own = self.endpoint.public_key().0;
        if let Some(snapshot) = report.snapshot
            && have.is_some_and(|have| snapshot.place() > have)
            && snapshot.table.get(snapshot.leader).is_some_and(|h| h.key == own)
        {
            let deleted = self.log.as_ref().map(|l| l.deleted().clone()).unwrap_or_default();
            self.take_state(now, snapshot, deleted);
        }
        self.settle_recovery(now);
    }

    /// A member cannot be reached, or does not know us.
    pub(crate) fn gone_in_recovery(&mut self, now: Instant, host: HostId) {
        if let Some(recovery) = &mut self.lead.recovery {
            recovery.waiting.remove(&host);
        }
        self.settle_recovery(now);
    }

    /// Leads, once all members have answered or have had time to.
    pub(crate) fn settle_recovery(&mut self, now: Instant) {
        let Some(recovery) = &self.lead.recovery else { return };
        if !recovery.waiting.is_empty() && now < recovery.until {
            return;
        }
        let Some(Recovery { led, state, registered, .. }) = self.lead.recovery.take() else {
            return;
        };
        let Some(log) = self.log.take() else { return };
        let (mut snapshot, deleted) = (log.snapshot().clone(), log.deleted().clone());
        snapshot.lost_after_ms = self.lost_after().as_millis() as u32;
        let slot = snapshot.leader.slot();
        let log = ControlLog::lead_again(snapshot, led, |life| {
            let id = HostId::new(slot, life).expect("the slot of a host");
            self.own_entry(id)
        });
        let me = log.leader();
        self.me = Some(me);
        self.tasks = Some(Tasks::new_after(me, self.config.slots));
        let snapshot = log.snapshot().clone();
        let restored = core::mem::take(&mut self.lead.asking.restored);
        let (issued, keepers) = match &state {
            // Its own list may be of a time when it kept the log, and others did after it; one that
            // did not found the virtual machine, and was the last that kept the log, has none.
            Some(before) if before.snapshot().is_shared() || !self.voting.founded => {
                (before.invitations().clone(), before.keepers().clone())
            }
            Some(before) => (before.invitations().clone().and(restored), before.keepers().clone()),
            // Nobody knows which of them kept the log.
            None if snapshot.is_shared() => {
                (Invitations::of(restored), snapshot.table.iter().map(|host| host.key).collect())
            }
            None => (Invitations::of(restored), BTreeSet::new()),
        };
        let log = ControlState::new(log).with_deleted(deleted);
        let log = log.with_invitations(issued, keepers);
        self.log = Some(match state {
            Some(before) => log.with_tasks_of(*before, |task| {
                registered.get(&task.host()).is_none_or(|tasks| tasks.contains(&task))
            }),
            None => log.without_tasks(),
        });
        self.lead.unique.leads(now);
        self.share_log(now);
        self.begin_sharing(now);
        self.events.push_back(NodeEvent::Joined { me, again: false });
        let others: Vec<Host> = snapshot.table.iter().filter(|h| h.id != me).cloned().collect();
        for host in others {
            let (id, state) = (host.id, host.state);
            self.events.push_back(NodeEvent::HostAdded(host));
            if state == HostState::Lost {
                self.events.push_back(NodeEvent::HostLost(id));
            } else if let Some(up) = self.peers.up(id) {
                // It knows this host as who it was.
                self.peers.greets(up);
                let snapshot = Some(snapshot.clone());
                self.tell(now, id, Message::Resumed(Resumed { snapshot }));
            } else {
                self.await_return(now, id, RETURN_FOR.max(self.lost_after() * 2));
            }
        }
    }
}
