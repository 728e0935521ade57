//! The control log: every change of control state, in one order, decided by one host.
//!
//! The leader appends; the others apply what it sends, in order, without gaps. Where several hosts
//! vote, what it appends is what [the replicated log](crate::consensus) has committed, and another
//! of them leads in a later term when it is gone. Until then, and where nobody else votes, losing
//! the leader freezes changes, never traffic.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};
use towpath_wire::HostId;
use towpath_wire::bytes::ParseError;

use crate::consensus::entry::VOTERS_MAX;
use crate::host::{Host, HostState, HostTable};

/// A change of control state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A host joined (or rejoined under a new incarnation; its key's old entry goes).
    Added(Host),
    /// A host was silent for too long.
    Lost(HostId),
    /// A host left by itself or was deleted: its key is revoked.
    Left(HostId),
    /// These may come to lead, in ascending order.
    Voters(Vec<HostId>),
    /// Another host leads, in a term of its own: that of this entry.
    Leads(HostId),
    /// A host is given nothing new from here on, or is again.
    Drains(HostId, bool),
}

impl Change {
    /// Whether all that must be known of it is.
    pub fn check(&self) -> Result<(), ParseError> {
        match self {
            Self::Added(host) => host.fields.check(),
            Self::Voters(hosts) => check_voters(hosts),
            Self::Lost(_) | Self::Left(_) | Self::Leads(_) | Self::Drains(..) => Ok(()),
        }
    }
}

/// Whether so many may vote.
fn check_voters(hosts: &[HostId]) -> Result<(), ParseError> {
    // A learner is named before it votes.
    let limit = VOTERS_MAX as u64 + 1;
    match hosts.len() as u64 {
        value if value > limit => Err(ParseError::Limit { field: "voters", value, limit }),
        _ => Ok(()),
    }
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Counts leaders.
    pub term: u64,
    /// Counts entries, from 1.
    pub index: u64,
    /// What changes.
    pub change: Change,
}

/// Indices that a founder leaves out when it leads again: entries of its old life that only a
/// member out of reach knows are never numbered twice, nor is an incarnation given out twice.
pub const RESTART_GAP: u64 = 1 << 16;

/// Control state as of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Term of the last entry in it.
    pub term: u64,
    /// Index of the last entry in it.
    pub index: u64,
    /// Who leads.
    pub leader: HostId,
    /// A host that answers nothing for so long is silent, in milliseconds: the same for all.
    pub lost_after_ms: u32,
    /// Hosts that may come to lead: whoever leads, and those that keep the log with it.
    pub voters: Vec<HostId>,
    /// The host table.
    pub table: HostTable,
}

impl Snapshot {
    /// Whether all that must be known of it is.
    pub fn check(&self) -> Result<(), ParseError> {
        check_voters(&self.voters)?;
        self.table.check()
    }

    /// Whether others may come to lead: then no host may take the lead that it had in an earlier
    /// life.
    pub const fn is_shared(&self) -> bool {
        self.voters.len() > 1
    }

    /// Hosts that may lead, beside whoever does: those that vote first.
    pub fn others_that_may_lead(&self) -> impl Iterator<Item = &Host> {
        let voters = self.voters.iter().filter(|v| **v != self.leader);
        voters.filter_map(|voter| self.table.get(*voter)).filter(|h| h.state == HostState::Up)
    }

    /// Which of two states is the later one: terms count first.
    pub const fn place(&self) -> (u64, u64) {
        (self.term, self.index)
    }
}

/// An entry that does not follow on what was applied before.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum LogError {
    /// Entries are missing before it.
    #[error("log entry {got} follows on {have}")]
    Gap {
        /// Index of the last entry applied.
        have: u64,
        /// Index of the entry that came.
        got: u64,
    },
    /// It is of another leader's time.
    #[error("log entry of term {got} in term {have}")]
    Term {
        /// Term of the last entry applied.
        have: u64,
        /// Term of the entry that came.
        got: u64,
    },
}

/// A host's copy of the control state. Invariant: `snapshot` holds the effect of entries
/// 1 ..= `snapshot.index`, each applied once, in order.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlLog {
    snapshot: Snapshot,
}

impl ControlLog {
    /// The log of a virtual machine that `founder` founds and leads: one entry, itself.
    pub fn found(founder: Host, lost_after_ms: u32) -> Self {
        let leader = founder.id;
        let mut table = HostTable::default();
        table.insert(founder);
        let voters = [leader].into();
        Self { snapshot: Snapshot { term: 1, index: 1, leader, lost_after_ms, voters, table } }
    }

    /// The log of a founder that leads again, from the latest state that it or any member it
    /// reached knows: a new term, later than any that it led in (`led`), and one entry, itself in
    /// the life that `founder` makes of its incarnation. Lives of which nothing but their terms is
    /// known have left gaps, too.
    pub fn lead_again(mut snapshot: Snapshot, led: u64, founder: impl FnOnce(u32) -> Host) -> Self {
        // The upper half counts founders that led again whoever led meanwhile: a few lives each.
        let ahead = led.saturating_sub(snapshot.term);
        let lives = (ahead >> 32) * 16 + (ahead & u64::from(u32::MAX)) + 1;
        snapshot.term = snapshot.term.max(led) + 1;
        snapshot.index += lives * RESTART_GAP;
        let host = founder(snapshot.index as u32);
        snapshot.leader = host.id;
        snapshot.voters = [host.id].into();
        snapshot.table.insert(host);
        Self { snapshot }
    }

    /// The log where one of its hosts goes on alone in this term: with a gap behind whatever the
    /// others may have been told.
    #[must_use]
    pub fn go_on(self, term: u64, leader: HostId) -> Self {
        let mut snapshot = self.snapshot;
        (snapshot.term, snapshot.leader) = (term, leader);
        snapshot.index += RESTART_GAP;
        snapshot.voters = [leader].into();
        Self { snapshot }
    }

    /// The incarnation of the host that the next entry adds: the index of that entry, so that none
    /// is used twice.
    pub const fn next_incarnation(&self) -> u32 {
        self.snapshot.index as u32 + 1
    }

    /// A copy that continues from a snapshot.
    pub const fn from_snapshot(snapshot: Snapshot) -> Self {
        Self { snapshot }
    }

    /// The state and its place in the log.
    pub const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The host table.
    pub const fn table(&self) -> &HostTable {
        &self.snapshot.table
    }

    /// Who leads.
    pub const fn leader(&self) -> HostId {
        self.snapshot.leader
    }

    /// Decides a change (leader only) and applies it; the entry is to be sent to everyone.
    pub fn append(&mut self, change: Change) -> Entry {
        let begins = matches!(change, Change::Leads(_));
        let term = self.snapshot.term + u64::from(begins);
        let entry = Entry { term, index: self.snapshot.index + 1, change };
        self.change(&entry);
        entry
    }

    /// Applies an entry from the leader; one applied before is ignored.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), LogError> {
        if entry.index <= self.snapshot.index {
            return Ok(());
        }
        let begins = matches!(entry.change, Change::Leads(_));
        if entry.term != self.snapshot.term + u64::from(begins) {
            return Err(LogError::Term { have: self.snapshot.term, got: entry.term });
        }
        if entry.index != self.snapshot.index + 1 {
            return Err(LogError::Gap { have: self.snapshot.index, got: entry.index });
        }
        self.change(entry);
        Ok(())
    }

    fn change(&mut self, entry: &Entry) {
        match &entry.change {
            Change::Added(host) => self.snapshot.table.insert(host.clone()),
            Change::Lost(id) => self.snapshot.table.set_lost(*id),
            Change::Left(id) => self.snapshot.table.remove(*id),
            Change::Voters(hosts) => self.snapshot.voters.clone_from(hosts),
            Change::Leads(host) => self.snapshot.leader = *host,
            Change::Drains(host, on) => _ = self.snapshot.table.set_drains(*host, *on),
        }
        self.snapshot.term = entry.term;
        self.snapshot.index = entry.index;
    }
}

impl fmt::Debug for ControlLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ControlLog {{ index: {}, hosts: {} }}", self.snapshot.index, self.table().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;
    use std::vec::Vec;

    fn host(slot: u16, incarnation: u32, key: u8) -> Host {
        Host {
            id: HostId::new(slot, incarnation).unwrap(),
            name: format!("host{key}"),
            addr: ([127, 0, 0, 1], 7000 + u16::from(key)).into(),
            key: [key; 32],
            arch: "x86_64-linux".into(),
            speed: 1000,
            cpus: 2,
            slots: 2,
            state: HostState::Up,
            fields: crate::Fields::default(),
        }
    }

    #[test]
    fn who_may_lead_beside_the_leader_are_the_voters_that_are_up() {
        let mut log = ControlLog::found(host(1, 1, 0), 2000);
        assert!(!log.snapshot().is_shared());
        assert_eq!(log.snapshot().others_that_may_lead().count(), 0);
        for slot in 2..=4 {
            let index = log.snapshot().index as u32 + 1;
            log.append(Change::Added(host(slot, index, slot as u8)));
        }
        let ids: Vec<HostId> = log.table().iter().map(|h| h.id).collect();
        let mut snapshot = log.snapshot().clone();
        snapshot.voters = ids[..3].to_vec();
        assert!(snapshot.is_shared());
        let others = |snapshot: &Snapshot| -> Vec<HostId> {
            snapshot.others_that_may_lead().map(|h| h.id).collect()
        };
        assert_eq!(others(&snapshot), ids[1..3], "the fourth has no vote");
        snapshot.leader = ids[1];
        assert_eq!(others(&snapshot), [ids[0], ids[2]]);
        snapshot.voters = ids[..1].to_vec();
        assert!(!snapshot.is_shared());
    }

    #[test]
    fn so_many_hosts_may_vote_and_one_that_learns_is_named_before() {
        let hosts: Vec<HostId> = (1..20).map(|slot| HostId::new(slot, 1).unwrap()).collect();
        for count in 0..hosts.len() {
            let told = check_voters(&hosts[..count]);
            assert_eq!(told.is_ok(), count <= VOTERS_MAX + 1, "{count} of {VOTERS_MAX}");
        }
    }

    proptest! {
        #[test]
        fn a_follower_that_applies_every_entry_ends_like_the_leader(
            ops in proptest::collection::vec((0..3u8, 0..6u8), 0..60),
            from in 0..60usize,
        ) {
            let mut leader = ControlLog::found(host(1, 1, 0), 2000);
            let mut follower = leader.clone();
            for (i, (op, key)) in ops.iter().enumerate() {
                if i == from {
                    follower = ControlLog::from_snapshot(leader.snapshot().clone());
                }
                let known = leader.table().by_key(&[*key; 32]).map(|h| h.id);
                let change = match (op, known) {
                    (0, _) => {
                        let slot = leader.table().free_slot().unwrap();
                        Change::Added(host(slot, leader.snapshot().index as u32 + 1, *key))
                    }
                    (1, Some(id)) => Change::Lost(id),
                    (2, Some(id)) => Change::Left(id),
                    _ => continue,
                };
                let entry = leader.append(change);
                prop_assert_eq!(follower.apply(&entry), Ok(()));
                prop_assert_eq!(follower.apply(&entry), Ok(()), "twice is once");
                let keys: Vec<_> = leader.table().iter().map(|h| h.key).collect();
                let mut unique = keys.clone();
                unique.sort_unstable();
                unique.dedup();
                prop_assert_eq!(keys.len(), unique.len());
            }
            prop_assert_eq!(leader, follower);
        }
    }

    #[test]
    fn a_gap_is_refused() {
        let mut leader = ControlLog::found(host(1, 1, 0), 2000);
        let mut follower = leader.clone();
        leader.append(Change::Added(host(2, 2, 1)));
        let late = leader.append(Change::Added(host(3, 3, 2)));
        assert_eq!(follower.apply(&late), Err(LogError::Gap { have: 1, got: 3 }));
    }

    #[test]
    fn a_rejoining_key_replaces_its_old_entry() {
        let mut log = ControlLog::found(host(1, 1, 0), 2000);
        log.append(Change::Added(host(2, 2, 1)));
        log.append(Change::Lost(HostId::new(2, 2).unwrap()));
        let slot = log.table().free_slot().unwrap();
        assert_eq!(slot, 3, "slots are reused last");
        log.append(Change::Added(host(slot, 4, 1)));
        assert_eq!(log.table().len(), 2);
        assert_eq!(log.table().get(HostId::new(2, 2).unwrap()), None, "the old life is fenced");
    }

    #[test]
    fn an_entry_of_another_leaders_time_is_refused() {
        let mut leader = ControlLog::found(host(1, 1, 0), 2000);
        let mut follower = leader.clone();
        let old = leader.append(Change::Added(host(2, 2, 1)));
        let entry = Entry { term: 2, ..old };
        assert_eq!(follower.apply(&entry), Err(LogError::Term { have: 1, got: 2 }));
        assert_eq!(follower.table().len(), 1);
    }

    #[test]
    fn a_founder_that_leads_again_uses_no_index_and_no_incarnation_twice() {
        let mut before = ControlLog::found(host(1, 1, 0), 2000);
        before.append(Change::Added(host(2, 2, 1)));
        let saved = before.snapshot().clone();
        // What only a member out of reach has heard of.
        for key in 2..100 {
            let incarnation = before.next_incarnation();
            before.append(Change::Added(host(
                before.table().free_slot().unwrap(),
                incarnation,
                key,
            )));
        }
        let after = ControlLog::lead_again(saved.clone(), 0, |life| host(1, life, 0));
        let (leader, table) = (after.leader(), after.table());
        assert!(after.snapshot().place() > before.snapshot().place());
        assert!(after.snapshot().index > before.snapshot().index);
        assert!(before.table().iter().all(|h| h.id.incarnation() < leader.incarnation()));
        assert!(after.next_incarnation() > leader.incarnation());
        assert_eq!((table.len(), table.by_key(&[0; 32]).map(|h| h.id)), (2, Some(leader)));
        let again = ControlLog::lead_again(after.snapshot().clone(), 0, |life| host(1, life, 0));
        assert!(again.leader().incarnation() > leader.incarnation());
        // A life that kept nothing: only its term is known.
        let third = ControlLog::lead_again(saved, 2, |life| host(1, life, 0));
        assert_eq!(third.snapshot().term, 3);
        assert!(
            third.leader().incarnation() > after.leader().incarnation() + RESTART_GAP as u32 - 1
        );
    }
}
