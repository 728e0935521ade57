//! A founder that starts again: from the table that it kept, as the same host in a new life.
//!
//! What it kept may be behind what it had decided, so it decides nothing before it has asked the
//! members for the place of their last entry: the latest state that any of them has is taken. It
//! calls them, since it may receive elsewhere now. Then it leads in a new term, with a gap in the
//! indices, so that nothing that a member out of reach has heard of is numbered twice.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use towpath_proto::{Crypto, Rng};
use towpath_vm::control::ControlState;
use towpath_vm::message::{Report, Resumed};
use towpath_vm::{ControlLog, Host, HostState, Message, Snapshot, Tasks};
use towpath_wire::bytes::ParseError;
use towpath_wire::id::SLOT_MAX;
use towpath_wire::{HostId, Instant};
use zeroize::Zeroizing;

use crate::config::{NodeConfig, reason};
use crate::event::NodeEvent;
use crate::node::Node;

/// How long members may take to say what they know.
const RECOVER_FOR: Duration = Duration::from_secs(2);
/// How long members that did not may take to be back.
const RETURN_FOR: Duration = Duration::from_secs(10);
/// Deleted hosts that are remembered, so that they are told when they come back.
pub(crate) const REMOVED_MAX: usize = 1024;

/// What a founder keeps on its disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    snapshot: Snapshot,
    /// Keys of deleted hosts, and who they were.
    removed: Vec<([u8; 32], HostId)>,
    /// The last term that any life of the founder may have led in, kept or not.
    #[serde(skip)]
    led: u64,
}

/// Why a kept table is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedError {
    /// It does not decode.
    #[error("it does not decode")]
    Malformed,
    /// It holds more than a table may.
    #[error("it has {hosts} hosts, limit {SLOT_MAX}")]
    TooMany {
        /// How many.
        hosts: usize,
    },
    /// It says what must be known, and is not.
    #[error("{0}")]
    Refused(ParseError),
    /// It is another host's.
    #[error("it belongs to a host with another key")]
    OtherKey,
}

impl Saved {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("a vector takes any body")
    }

    /// Takes bytes apart.
    pub fn decode(bytes: &[u8]) -> Result<Self, SavedError> {
        let Ok((saved, [])) = postcard::take_from_bytes::<Self>(bytes) else {
            return Err(SavedError::Malformed);
        };
        let hosts = saved.snapshot.table.len();
        if hosts > usize::from(SLOT_MAX) {
            return Err(SavedError::TooMany { hosts });
        }
        saved.snapshot.table.check().map_err(SavedError::Refused)?;
        Ok(saved)
    }

    /// Where the founder received, as its hosts know.
    pub fn addr(&self) -> Option<SocketAddr> {
        self.snapshot.table.get(self.snapshot.leader).map(|h| h.addr)
    }

    /// The term of what was kept.
    pub const fn term(&self) -> u64 {
        self.snapshot.term
    }

    /// How long silent hosts were waited for, in milliseconds.
    pub const fn lost_after_ms(&self) -> u32 {
        self.snapshot.lost_after_ms
    }

    /// The same, where the founder may have led in terms up to this one without keeping anything:
    /// what it decided then is not numbered again.
    #[must_use]
    pub fn led(self, led: u64) -> Self {
        Self { led, ..self }
    }

    /// True when there is nobody to come back to: no other host is up.
    pub fn is_alone(&self) -> bool {
        self.snapshot.table.up().count() <= 1
    }

    /// True when it names deleted hosts, so that they are told when they come back.
    pub const fn names_deleted(&self) -> bool {
        !self.removed.is_empty()
    }
}

/// A founder that asks its members before it leads again.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// Members that have not answered.
    waiting: BTreeSet<HostId>,
    pub(crate) until: Instant,
    /// The last term that it may have led in.
    led: u64,
}

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
        let Saved { snapshot, removed, led } = saved;
        let mut node = Self::new(config, crypto, rng);
        let own = snapshot.table.get(snapshot.leader).map(|h| h.key);
        if own != Some(node.endpoint.public_key().0) {
            return Err(SavedError::OtherKey);
        }
        node.vm_key = Some(vm_key.into());
        node.lead.removed = removed.into_iter().take(REMOVED_MAX).collect();
        let recovery = Recovery { waiting: BTreeSet::new(), until: now + RECOVER_FOR, led };
        node.lead.recovery = Some(recovery);
        node.take_state(now, snapshot);
        node.settle_recovery(now);
        Ok(node)
    }

    /// What a founder is to keep; `None` elsewhere, and while it asks its members.
    pub fn saved(&self) -> Option<Saved> {
        let log = self.log.as_ref().filter(|l| self.me == Some(l.leader()))?;
        Some(Saved {
            snapshot: log.snapshot().clone(),
            removed: self.lead.removed.iter().map(|(key, host)| (*key, *host)).collect(),
            led: 0,
        })
    }

    /// The latest state known so far; calls the members that are new in it.
    fn take_state(&mut self, now: Instant, snapshot: Snapshot) {
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
        self.log = Some(ControlState::from_snapshot(snapshot));
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
        }
        let have = self.log.as_ref().map(|l| l.snapshot().place());
        let own = self.endpoint.public_key().0;
        if let Some(snapshot) = report.snapshot
            && have.is_some_and(|have| snapshot.place() > have)
            && snapshot.table.get(snapshot.leader).is_some_and(|h| h.key == own)
        {
            self.take_state(now, snapshot);
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
        let led = recovery.led;
        self.lead.recovery = None;
        let Some(mut snapshot) = self.log.take().map(|l| l.snapshot().clone()) else { return };
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
        self.log = Some(ControlState::new(log));
        self.events.push_back(NodeEvent::Joined { me, again: false });
        let others: Vec<Host> = snapshot.table.iter().filter(|h| h.id != me).cloned().collect();
        for host in others {
            let (id, state) = (host.id, host.state);
            self.events.push_back(NodeEvent::HostAdded(host));
            if state == HostState::Lost {
                self.events.push_back(NodeEvent::HostLost(id));
            } else if self.peers.up(id).is_some() {
                let snapshot = Some(snapshot.clone());
                self.tell(now, id, Message::Resumed(Resumed { snapshot }));
            } else {
                self.await_return(now, id, RETURN_FOR.max(self.lost_after() * 2));
            }
        }
    }
}

/// Keys of deleted hosts, and who they were.
pub(crate) type Removed = BTreeMap<[u8; 32], HostId>;
