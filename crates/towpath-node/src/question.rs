//! Tasks' questions: who answers them, what the answers are, and that each has one.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use towpath_vm::TaskInfo;
use towpath_wire::{HostId, TaskId};

/// Who wants a host's list of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The owner.
    Owner,
    /// A task, that asked all hosts.
    Task(TaskId, u64),
}

/// A list of tasks that comes from another host.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) host: HostId,
    pub(crate) asker: Asker,
    pub(crate) tasks: Vec<TaskInfo>,
}

/// Questions that wait: who is to answer which ones of whom; lists that hosts were asked for; and
/// lists of all hosts' tasks, with the queries that each still waits for.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    pub(crate) queries: BTreeMap<u64, Query>,
    pub(crate) next_query: u64,
    pub(crate) by_host: BTreeMap<HostId, BTreeSet<(TaskId, u64)>>,
    pub(crate) gathers: BTreeMap<(TaskId, u64), BTreeSet<u64>>,
}

impl Questions {
    pub(crate) fn any_of(&self, host: HostId) -> bool {
        self.by_host.contains_key(&host)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_host.is_empty() && self.queries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_host.values().map(BTreeSet::len).sum::<usize>() + self.queries.len()
    }

    pub(crate) fn remove(&mut self, host: HostId, task: TaskId, number: u64) {
        if let Some(set) = self.by_host.get_mut(&host) {
            set.remove(&(task, number));
            if set.is_empty() {
                self.by_host.remove(&host);
            }
        }
        self.gathers.remove(&(task, number));
    }

    pub(crate) fn clear(&mut self) {
        self.by_host.clear();
        self.gathers.clear();
    }

    /// Those that `host` was to answer.
    pub(crate) fn of(&self, host: HostId) -> Vec<(TaskId, u64)> {
        self.by_host.get(&host).into_iter().flatten().copied().collect()
    }
}
