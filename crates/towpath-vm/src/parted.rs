//! Of whom a task was told that they are gone, though only the way to them was: they may live, and
//! not know it. What is told is never taken back, so it hears nothing of them any more.
//!
//! Memory: [`PARTED_MAX`] tasks by name, and one number for each host beyond.

use alloc::collections::{BTreeMap, BTreeSet};

use towpath_wire::id::TASK_MAX;
use towpath_wire::{HostId, TaskId};

/// Tasks that one task remembers by name. Beyond that all of the host that has most of them count
/// as parted from it, up to the last that was; those that begin there later do not.
pub const PARTED_MAX: usize = 256;

/// Those of one task. Invariants: `by_name` has at most [`PARTED_MAX`], none of which `up_to` has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parted {
    by_name: BTreeSet<TaskId>,
    /// By host, the last number that counts as parted.
    up_to: BTreeMap<HostId, u32>,
}

impl Parted {
    /// The task was told that `peer` is gone.
    pub fn add(&mut self, peer: TaskId) {
        if !self.has(peer) {
            self.by_name.insert(peer);
        }
        if self.by_name.len() > PARTED_MAX
            && let Some(host) = self.fullest()
        {
            let last = self.range(host).next_back().map_or(0, TaskId::number);
            self.by_name.retain(|peer| peer.host() != host);
            self.up_to.insert(host, last);
        }
    }

    /// Whether it was, or counts as if it had been.
    pub fn has(&self, peer: TaskId) -> bool {
        let passed = || self.up_to.get(&peer.host()).is_some_and(|last| peer.number() <= *last);
        self.by_name.contains(&peer) || passed()
    }

    /// Nothing of `host` can come any more.
    pub fn forget(&mut self, host: HostId) {
        self.by_name.retain(|peer| peer.host() != host);
        self.up_to.remove(&host);
    }

    fn range(&self, host: HostId) -> impl DoubleEndedIterator<Item = TaskId> + '_ {
        let ends = [1, TASK_MAX].map(|n| host.task(n).expect("both are task numbers"));
        self.by_name.range(ends[0]..=ends[1]).copied()
    }

    fn fullest(&self) -> Option<HostId> {
        let mut counts: BTreeMap<HostId, usize> = BTreeMap::new();
        for peer in &self.by_name {
            *counts.entry(peer.host()).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(host, _)| host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(slot: u16, n: u32) -> TaskId {
        HostId::new(slot, 7).unwrap().task(n).unwrap()
    }

    #[test]
    fn beyond_the_limit_all_of_one_host_count_up_to_the_last() {
        let mut parted = Parted::default();
        let names = u32::try_from(PARTED_MAX).unwrap();
        parted.add(task(3, 5));
        for n in (2..2 * names).step_by(2) {
            parted.add(task(2, n));
        }
        assert!(parted.has(task(2, 2)) && !parted.has(task(2, 3)), "by name");
        assert_eq!(parted.by_name.len(), PARTED_MAX);
        parted.add(task(2, 2 * names));
        assert_eq!(parted.by_name.len(), 1, "those of the other host stay as they are");
        assert!(parted.has(task(2, 3)) && parted.has(task(2, 2 * names)));
        assert!(!parted.has(task(2, 2 * names + 1)), "who begins later is not meant");
        assert!(parted.has(task(3, 5)) && !parted.has(task(3, 4)));
    }

    #[test]
    fn a_host_that_is_gone_is_forgotten_and_no_other() {
        let mut parted = Parted::default();
        parted.add(task(2, 1));
        parted.add(task(3, 1));
        parted.up_to.insert(HostId::new(2, 7).unwrap(), 9);
        parted.forget(HostId::new(2, 7).unwrap());
        assert!(!parted.has(task(2, 1)) && !parted.has(task(2, 9)) && parted.has(task(3, 1)));
    }
}
