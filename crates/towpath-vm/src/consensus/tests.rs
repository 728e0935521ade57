//! Replicas that talk at once and without loss; what goes wrong is done by hand. Faults at random
//! are the simulator's.

mod ahead;
mod conformance;
mod elections;
mod leads;
mod members;
mod snapshots;
mod terms;
mod twins;
mod votes;

use alloc::vec::Vec;
use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Which life of the log all of it belongs to.
pub(super) const GENERATION: u64 = 3;

/// Replicas by id, and what is on its way.
pub(super) struct Net {
    pub(super) replicas: BTreeMap<u64, Replica>,
    /// Who is cut off.
    pub(super) cut: BTreeSet<u64>,
    /// Whose disks take nothing: the last write each of them waits for.
    pub(super) stalled: BTreeMap<u64, u64>,
    pub(super) decided: BTreeMap<u64, Vec<Entry>>,
    pub(super) reads: BTreeMap<u64, Vec<Read>>,
    pub(super) under_way: Vec<Message>,
}

pub(super) fn identity(id: u64) -> Identity {
    Identity { generation: GENERATION, id: ReplicaId(id), boot: 1, life: 100 + id }
}

pub(super) fn config() -> Config {
    Config { beat_ticks: 1, election_ticks: 3, disk_ticks: 6, ..Config::default() }
}

impl Net {
    /// Voters 1 to `n`.
    pub(super) fn of(n: u64) -> Self {
        let members = Members::of((1..=n).map(ReplicaId));
        let stored = || Stored::found(members.clone(), Vec::new());
        let replicas = (1..=n).map(|id| (id, Replica::new(config(), identity(id), stored())));
        Self {
            replicas: replicas.collect(),
            cut: BTreeSet::new(),
            stalled: BTreeMap::new(),
            decided: BTreeMap::new(),
            reads: BTreeMap::new(),
            under_way: Vec::new(),
        }
    }

    pub(super) fn at(&mut self, id: u64) -> &mut Replica {
        self.replicas.get_mut(&id).expect("it is there")
    }

    /// Takes what one wants done; its writes are on the disk at once, unless it stalls.
    pub(super) fn take(&mut self, id: u64) {
        loop {
            let taken = self.at(id).take();
            if let Some(write) = &taken.write {
                match self.stalled.get_mut(&id) {
                    Some(last) => *last = write.number,
                    None => self.at(id).durable(write.number),
                }
            }
            self.reads.entry(id).or_default().extend(&taken.reads);
            let any = taken.write.is_some() || !taken.messages.is_empty();
            self.under_way.extend(taken.messages);
            while let Some(decided) = self.at(id).decided() {
                if let Decided::Entry(entry) = decided {
                    self.decided.entry(id).or_default().push(entry);
                }
            }
            if !any {
                return;
            }
        }
    }

    /// Until nobody has anything to say.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            for id in self.replicas.keys().copied().collect::<Vec<_>>() {
                self.take(id);
            }
            if self.under_way.is_empty() {
                return;
            }
            for message in core::mem::take(&mut self.under_way) {
                let cut = self.cut.contains(&message.from.0) || self.cut.contains(&message.to.0);
                if let (false, Some(to)) = (cut, self.replicas.get_mut(&message.to.0)) {
                    let decoded = Message::decode(&message.encode()).expect("whole");
                    assert_eq!(decoded.as_ref(), Some(&message), "as it was sent");
                    to.step(message);
                }
            }
        }
        panic!("they never come to an end");
    }

    pub(super) fn tick(&mut self, id: u64, ticks: u32) {
        for _ in 0..ticks {
            self.at(id).tick(0);
            self.take(id);
        }
    }

    /// Ticks of all, each followed by what it brings.
    pub(super) fn ticks(&mut self, ticks: u32) {
        for _ in 0..ticks {
            for id in self.replicas.keys().copied().collect::<Vec<_>>() {
                self.tick(id, 1);
                self.settle();
            }
        }
    }

    pub(super) fn elect(&mut self, id: u64) {
        self.at(id).campaign();
        self.settle();
        assert_eq!(self.at(id).role(), RoleName::Leader, "replica {id}");
    }

    pub(super) fn propose(&mut self, id: u64, text: &str) -> Place {
        let command = Command { session: 1, number: 1, settled: 0, bytes: text.as_bytes().into() };
        self.at(id).propose(Proposal::Command(command)).expect("it leads")
    }

    /// The commands that one has given out.
    pub(super) fn commands(&self, id: u64) -> Vec<&str> {
        let entries = self.decided.get(&id).into_iter().flatten();
        let text = |e: &Entry| match &e.body {
            Body::Command(c) => Some(c.bytes.clone()),
            _ => None,
        };
        let all = entries.filter_map(text).map(|b| std::string::String::from_utf8(b).unwrap());
        all.map(|s| &*s.leak()).collect()
    }

    pub(super) fn disk_back(&mut self, id: u64) {
        let last = self.stalled.remove(&id).expect("it stalled");
        self.at(id).durable(last);
    }
}
