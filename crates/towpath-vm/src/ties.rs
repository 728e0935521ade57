//! Who of this host's tasks depends on whose end: by having exchanged data, or by watching.
//!
//! A task's end is told once to each that it is tied to. Ties to tasks of other hosts need no
//! word when they go: being told of an end that nobody waits for costs a message, no more.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use towpath_wire::id::TASK_MAX;
use towpath_wire::{HostId, TaskId};

/// What this host's tasks have to do with one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tie {
    /// Tasks that exchanged data with it, or have a direct route to it.
    pub partners: BTreeSet<TaskId>,
    /// Tasks that watch it, with their numbers for the watch.
    pub watches: BTreeSet<(TaskId, u64)>,
}

/// All ties by the task at their other end. Invariants: none of them is empty; `pairs` sums the
/// partners of each host's tasks, and none of it is zero.
#[derive(Debug, Default)]
pub struct Ties {
    by_peer: BTreeMap<TaskId, Tie>,
    /// Partners of the tasks of each host.
    pairs: BTreeMap<HostId, usize>,
}

impl Ties {
    /// `local` exchanges data with `peer`.
    pub fn tie(&mut self, local: TaskId, peer: TaskId) {
        if self.by_peer.entry(peer).or_default().partners.insert(local) {
            *self.pairs.entry(peer.host()).or_default() += 1;
        }
    }

    /// How many pairs there are of a task of this host and one of `host`.
    pub fn pairs_with(&self, host: HostId) -> usize {
        self.pairs.get(&host).copied().unwrap_or(0)
    }

    fn fewer(&mut self, host: HostId, partners: usize) {
        if let Some(pairs) = self.pairs.get_mut(&host) {
            *pairs -= partners;
            if *pairs == 0 {
                self.pairs.remove(&host);
            }
        }
    }

    /// `local` watches `peer`.
    pub fn watch(&mut self, local: TaskId, watch: u64, peer: TaskId) {
        self.by_peer.entry(peer).or_default().watches.insert((local, watch));
    }

    /// `local` has nothing more to do with `peer` than it watches it.
    pub fn untie(&mut self, local: TaskId, peer: TaskId) {
        let mut removed = false;
        self.change(peer, |t| removed = t.partners.remove(&local));
        if removed {
            self.fewer(peer.host(), 1);
        }
    }

    /// `local` does not watch `peer` any more.
    pub fn unwatch(&mut self, local: TaskId, watch: u64, peer: TaskId) {
        self.change(peer, |t| _ = t.watches.remove(&(local, watch)));
    }

    fn change(&mut self, peer: TaskId, change: impl FnOnce(&mut Tie)) {
        if let Some(tie) = self.by_peer.get_mut(&peer) {
            change(tie);
            if tie.partners.is_empty() && tie.watches.is_empty() {
                self.by_peer.remove(&peer);
            }
        }
    }

    /// `peer` has ended: who is to be told.
    pub fn take(&mut self, peer: TaskId) -> Option<Tie> {
        let tie = self.by_peer.remove(&peer)?;
        self.fewer(peer.host(), tie.partners.len());
        Some(tie)
    }

    /// Tasks of this host that have to do with `peer`, perhaps twice.
    pub fn all_of(&self, peer: TaskId) -> Vec<TaskId> {
        let tie = self.by_peer.get(&peer);
        let watchers = tie.into_iter().flat_map(|tie| tie.watches.iter().map(|(task, _)| *task));
        tie.into_iter().flat_map(|tie| tie.partners.iter().copied()).chain(watchers).collect()
    }

    fn range(&self, host: HostId) -> impl Iterator<Item = TaskId> + '_ {
        let ends = [1, TASK_MAX].map(|n| host.task(n).expect("both are task numbers"));
        self.by_peer.range(ends[0]..=ends[1]).map(|(peer, _)| *peer)
    }

    /// Tasks of `host` that something here is tied to.
    pub fn on(&self, host: HostId) -> Vec<TaskId> {
        self.range(host).collect()
    }

    /// True when something here is tied to a task of `host`.
    pub fn any_on(&self, host: HostId) -> bool {
        self.range(host).next().is_some()
    }

    /// Number of tasks that something here is tied to.
    pub fn len(&self) -> usize {
        self.by_peer.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.by_peer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(slot: u16, n: u32) -> TaskId {
        HostId::new(slot, 7).unwrap().task(n).unwrap()
    }

    #[test]
    fn ties_are_found_by_host_and_leave_nothing_behind() {
        let mut ties = Ties::default();
        let (a, b) = (task(1, 1), task(1, TASK_MAX));
        ties.tie(a, task(2, 1));
        ties.tie(a, task(2, TASK_MAX));
        ties.watch(b, 5, task(2, TASK_MAX));
        ties.tie(b, task(3, 1));
        let (host, other) = (HostId::new(2, 7).unwrap(), HostId::new(2, 8).unwrap());
        assert_eq!(ties.on(host), [task(2, 1), task(2, TASK_MAX)]);
        assert!(!ties.any_on(other), "another life of the same slot");
        ties.tie(a, task(2, 1));
        assert_eq!((ties.pairs_with(host), ties.pairs_with(other)), (2, 0), "each pair once");
        ties.untie(a, task(2, 1));
        ties.untie(b, task(2, 1));
        assert_eq!(ties.pairs_with(host), 1);
        let tie = ties.take(task(2, TASK_MAX)).unwrap();
        assert_eq!((tie.partners.len(), tie.watches.len()), (1, 1));
        assert!(!ties.any_on(host));
        ties.unwatch(b, 1, task(3, 1));
        ties.untie(b, task(3, 1));
        assert!(ties.is_empty() && ties.pairs.is_empty());
    }
}
