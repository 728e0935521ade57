//! What must hold at every instant of a run.

use std::collections::BTreeMap;

use towpath_vm::consensus::{Decided, Entry, Replica, ReplicaId, RoleName};

use super::host::Host;
use crate::hash::Trace;

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Checks {
    leaders: BTreeMap<u64, ReplicaId>,
    /// What was committed at each index: its term, and the hash of what it says.
    committed: BTreeMap<u64, (u64, u64)>,
    /// The state after each entry, as a hash.
    states: BTreeMap<u64, u64>,
    pub(super) violations: Vec<String>,
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hash = Trace::new(0);
    hash.bytes(bytes);
    hash.value()
}

fn hash_of(entry: &Entry) -> u64 {
    hash(format!("{:?}", entry.body).as_bytes())
}

impl Checks {
    pub(super) fn broken(&mut self, what: String) {
        // One cause shows in many places.
        if self.violations.len() < 8 {
            self.violations.push(what);
        }
    }

    pub(super) fn elections(&self) -> u64 {
        self.leaders.len() as u64
    }

    pub(super) fn last_committed(&self) -> u64 {
        self.committed.last_key_value().map_or(0, |(index, _)| *index)
    }

    /// Looks at a host after it has taken a step. True if it was elected in it.
    pub(super) fn look(&mut self, host: &Host) -> bool {
        let Some(replica) = &host.replica else { return false };
        if let Some(why) = replica.halt() {
            self.broken(format!("replica {} has ended itself: {why}", host.id));
        }
        if replica.role() == RoleName::Leader {
            let (term, id) = (replica.term(), host.id);
            match self.leaders.insert(term, id) {
                None => {
                    self.elected(replica);
                    return true;
                }
                Some(other) if other != id => {
                    self.broken(format!("two leaders in term {term}: replicas {other} and {id}"));
                }
                Some(_) => {}
            }
        }
        false
    }

    /// A new leader has all that was committed before its term. One that is elected only now in a
    /// term that is over already need not have what later leaders committed.
    fn elected(&mut self, replica: &Replica) {
        if self.leaders.last_key_value().is_some_and(|(term, _)| *term > replica.term()) {
            return;
        }
        let lost =
            self.committed.iter().rev().take(64).find_map(|(index, (term, _))| {
                match replica.term_at(*index) {
                    Some(own) if own != *term => Some((*index, own)),
                    None if *index > replica.last_index() => Some((*index, 0)),
                    _ => None,
                }
            });
        if let Some((index, _)) = lost {
            let (term, last) = (replica.term(), replica.last_index());
            self.broken(format!(
                "committed entry {index} is lost: the leader of term {term} has another or none \
                 (its last is {last})"
            ));
        }
    }

    /// Looks at what a host has applied last; its state is as of that.
    pub(super) fn applied(&mut self, host: &Host, decided: &Decided) {
        let index = match decided {
            Decided::Entry(entry) => {
                let says = (entry.term, hash_of(entry));
                let first = *self.committed.entry(entry.index).or_insert(says);
                if first != says {
                    self.broken(format!(
                        "committed entry {} is changed: it was of term {}, replica {} has one of \
                         term {}",
                        entry.index, first.0, host.id, entry.term
                    ));
                }
                return;
            }
            Decided::Snapshot(snapshot) => snapshot.index,
        };
        if index > 1 && !self.states.contains_key(&index) {
            self.broken(format!("a snapshot as of entry {index}, which nobody has applied"));
        }
    }

    /// Looks at a host's state: all that hold the same entries hold the same state.
    pub(super) fn state(&mut self, host: &Host) {
        let (index, state) = (host.machine.index(), hash(&host.machine.save()));
        let first = *self.states.entry(index).or_insert(state);
        if first != state {
            self.broken(format!("the state after entry {index} differs at replica {}", host.id));
        }
    }

    /// Two logs with the same term at an index are the same up to there.
    pub(super) fn match_logs(&mut self, hosts: &[Host]) {
        let up: Vec<&Replica> = hosts.iter().filter_map(|h| h.replica.as_ref()).collect();
        for (n, a) in up.iter().enumerate() {
            for b in &up[n + 1..] {
                let mut index = a.last_index().min(b.last_index());
                let mut same = false;
                while let (Some(x), Some(y)) = (a.entry(index), b.entry(index)) {
                    if same && x != y {
                        let (a, b) = (a.identity().id, b.identity().id);
                        self.broken(format!("logs of replicas {a} and {b} differ at {index}"));
                        break;
                    }
                    same |= x.term == y.term;
                    if same && x != y {
                        let (a, b) = (a.identity().id, b.identity().id);
                        self.broken(format!("entry {index} differs at replicas {a} and {b}"));
                        break;
                    }
                    index -= 1;
                }
            }
        }
    }
}
