//! Tasks that catch the output of tasks they spawned: whose goes to whom, and which credit comes
//! back for it.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use towpath_wire::id::TASK_MAX;
use towpath_wire::{HostId, TaskId};

#[derive(Debug, Default)]
struct Catcher {
    requests: BTreeSet<u64>,
    /// Output sent to it, by request, that it has not given credit for.
    sent: VecDeque<(u64, u32)>,
}

/// All of them, at the host that asked for the tasks. Invariant: `by_request` and the `requests`
/// of the catchers say the same.
#[derive(Debug, Default)]
pub struct Catching {
    catchers: BTreeMap<TaskId, Catcher>,
    by_request: BTreeMap<u64, TaskId>,
}

impl Catching {
    /// The output of a request goes to `by`. True when that task catches nothing else yet.
    pub fn catch(&mut self, request: u64, by: TaskId) -> bool {
        self.by_request.insert(request, by);
        let new = !self.catchers.contains_key(&by);
        self.catchers.entry(by).or_default().requests.insert(request);
        new
    }

    /// Who catches the output of a request.
    pub fn catcher(&self, request: u64) -> Option<TaskId> {
        self.by_request.get(&request).copied()
    }

    /// So much output of a request was sent to the one that catches it.
    pub fn sent(&mut self, request: u64, bytes: u32) {
        let by = self.by_request.get(&request).and_then(|by| self.catchers.get_mut(by));
        if let Some(catcher) = by {
            catcher.sent.push_back((request, bytes));
        }
    }

    /// `by` has taken so much: which requests get how much credit back.
    pub fn paid(&mut self, by: TaskId, mut bytes: u32) -> Vec<(u64, u32)> {
        let mut out = Vec::new();
        let Some(catcher) = self.catchers.get_mut(&by) else { return out };
        while bytes > 0 {
            let Some((request, open)) = catcher.sent.front_mut() else { break };
            let part = bytes.min(*open);
            out.push((*request, part));
            (bytes, *open) = (bytes - part, *open - part);
            if *open == 0 {
                catcher.sent.pop_front();
            }
        }
        out
    }

    /// A request has ended. The credit that it still has out means nothing any more.
    pub fn ended(&mut self, request: u64) {
        let Some(by) = self.by_request.remove(&request) else { return };
        if let Some(catcher) = self.catchers.get_mut(&by) {
            catcher.requests.remove(&request);
            if catcher.requests.is_empty() && catcher.sent.is_empty() {
                self.catchers.remove(&by);
            }
        }
    }

    /// Tasks of a host that catch output.
    pub fn on(&self, host: HostId) -> Vec<TaskId> {
        let ends = [1, TASK_MAX].map(|n| host.task(n).expect("both are task numbers"));
        self.catchers.range(ends[0]..=ends[1]).map(|(by, _)| *by).collect()
    }

    /// Number of tasks that catch output.
    pub fn len(&self) -> usize {
        self.catchers.len()
    }

    /// True when none does.
    pub fn is_empty(&self) -> bool {
        self.catchers.is_empty()
    }

    /// `by` has ended: what it still had is given back, and its requests' output goes elsewhere.
    pub fn over(&mut self, by: TaskId) -> Vec<(u64, u32)> {
        let Some(catcher) = self.catchers.remove(&by) else { return Vec::new() };
        for request in &catcher.requests {
            self.by_request.remove(request);
        }
        catcher.sent.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(n: u32) -> TaskId {
        HostId::new(1, 1).unwrap().task(n).unwrap()
    }

    #[test]
    fn credit_goes_back_in_the_order_of_the_output() {
        let mut c = Catching::default();
        assert!(c.catch(1, task(9)));
        assert!(!c.catch(2, task(9)));
        c.sent(1, 10);
        c.sent(2, 5);
        assert_eq!(c.paid(task(9), 12), [(1, 10), (2, 2)]);
        c.ended(2);
        c.sent(2, 7);
        assert_eq!(c.paid(task(9), 100), [(2, 3)], "and never more than was sent");
        c.sent(1, 4);
        assert_eq!(c.over(task(9)), [(1, 4)]);
        assert_eq!(c.catcher(1), None);
        assert!(c.catchers.is_empty() && c.by_request.is_empty());
    }
}
