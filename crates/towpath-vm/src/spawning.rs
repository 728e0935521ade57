//! Spawns of several tasks under way: which of them were accepted, which run, which did not start.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use towpath_wire::{HostId, TaskId};

use crate::talk::Fault;
use crate::task::Ending;

/// What comes of a spawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spawned {
    /// Every host said which tasks it accepted: all of them are to hear who their siblings are.
    Placed {
        /// Number of the spawn.
        number: u64,
        /// Where they are.
        hosts: BTreeSet<HostId>,
        /// The tasks, in the order asked for.
        tasks: Vec<TaskId>,
    },
    /// Each of them runs or failed.
    Done {
        /// Who asked.
        asker: TaskId,
        /// Its number for the question.
        question: u64,
        /// One result each, in the order asked for.
        results: Vec<Result<TaskId, Fault>>,
    },
}

#[derive(Debug)]
struct Spawn {
    asker: TaskId,
    question: u64,
    hosts: BTreeSet<HostId>,
    accepted: Vec<Option<TaskId>>,
    unplaced: usize,
    results: Vec<Option<Result<TaskId, Fault>>>,
    open: usize,
}

/// All spawns under way. Invariant: `by_request` has each request that has no result yet.
#[derive(Debug, Default)]
pub struct Spawning {
    spawns: BTreeMap<u64, Spawn>,
    by_request: BTreeMap<u64, (u64, usize)>,
    next: u64,
    out: VecDeque<Spawned>,
}

/// Why a task that ended before it ran was not started.
fn fault(ending: Ending) -> Fault {
    match ending {
        Ending::HostLost => Fault::HostLost,
        Ending::NotStarted { errno, text } => Fault::NotStarted { errno, text },
        other => Fault::NotStarted { errno: 0, text: alloc::format!("{other}") },
    }
}

impl Spawning {
    /// A spawn of `count` tasks that `asker` asked for; its number.
    pub fn begin(&mut self, asker: TaskId, question: u64, count: usize) -> u64 {
        self.next += 1;
        let spawn = Spawn {
            asker,
            question,
            hosts: BTreeSet::new(),
            accepted: alloc::vec![None; count],
            unplaced: count,
            results: alloc::vec![None; count],
            open: count,
        };
        self.spawns.insert(self.next, spawn);
        self.next
    }

    /// `request` is to start task `index` of a spawn on `host`.
    pub fn asked(&mut self, number: u64, index: usize, request: u64, host: HostId) {
        if let Some(spawn) = self.spawns.get_mut(&number) {
            spawn.hosts.insert(host);
            self.by_request.insert(request, (number, index));
        }
    }

    /// Task `index` of a spawn could not even be asked for.
    pub fn refused(&mut self, number: u64, index: usize, fault: Fault) {
        self.placed(number, index, None);
        self.result(number, index, Err(fault));
    }

    /// A request was accepted.
    pub fn accepted(&mut self, request: u64, task: TaskId) {
        if let Some((number, index)) = self.by_request.get(&request).copied() {
            self.placed(number, index, Some(task));
        }
    }

    /// A request's task runs.
    pub fn started(&mut self, request: u64, task: TaskId) {
        if let Some((number, index)) = self.by_request.remove(&request) {
            self.placed(number, index, Some(task));
            self.result(number, index, Ok(task));
        }
    }

    /// A request ended; if its task never ran, that is its result.
    pub fn ended(&mut self, request: u64, ending: &Ending) {
        if let Some((number, index)) = self.by_request.remove(&request) {
            self.placed(number, index, None);
            self.result(number, index, Err(fault(ending.clone())));
        }
    }

    fn placed(&mut self, number: u64, index: usize, task: Option<TaskId>) {
        let Some(spawn) = self.spawns.get_mut(&number) else { return };
        // Once told, or when nothing is known yet and nothing came: count each index once.
        if spawn.unplaced == 0 || spawn.accepted[index].is_some() {
            return;
        }
        spawn.accepted[index] = task;
        spawn.unplaced -= 1;
        if spawn.unplaced == 0 {
            let tasks = spawn.accepted.iter().copied().flatten().collect();
            let hosts = core::mem::take(&mut spawn.hosts);
            self.out.push_back(Spawned::Placed { number, hosts, tasks });
        }
    }

    fn result(&mut self, number: u64, index: usize, result: Result<TaskId, Fault>) {
        let Some(spawn) = self.spawns.get_mut(&number) else { return };
        if spawn.results[index].replace(result).is_some() {
            return;
        }
        spawn.open -= 1;
        if spawn.open == 0
            && let Some(spawn) = self.spawns.remove(&number)
        {
            let results = spawn.results.into_iter().flatten().collect();
            let (asker, question) = (spawn.asker, spawn.question);
            self.out.push_back(Spawned::Done { asker, question, results });
        }
    }

    /// What came of spawns, in order.
    pub fn poll(&mut self) -> Option<Spawned> {
        self.out.pop_front()
    }

    /// Number of spawns under way.
    pub fn len(&self) -> usize {
        self.spawns.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.spawns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(slot: u16, n: u32) -> TaskId {
        HostId::new(slot, 1).unwrap().task(n).unwrap()
    }

    fn host(slot: u16) -> HostId {
        HostId::new(slot, 1).unwrap()
    }

    #[test]
    fn siblings_are_told_once_all_are_placed_and_results_once_all_have_one() {
        let mut s = Spawning::default();
        let n = s.begin(task(1, 1), 9, 4);
        s.asked(n, 0, 100, host(2));
        s.asked(n, 1, 101, host(3));
        s.asked(n, 2, 102, host(3));
        s.refused(n, 3, Fault::NoHost);
        s.accepted(101, task(3, 1));
        s.started(101, task(3, 1));
        s.accepted(100, task(2, 1));
        assert_eq!(s.poll(), None);
        s.ended(102, &Ending::Refused("full".into()));
        let placed = Spawned::Placed {
            number: n,
            hosts: [host(2), host(3)].into(),
            tasks: [task(2, 1), task(3, 1)].into(),
        };
        assert_eq!(s.poll(), Some(placed));
        assert_eq!(s.poll(), None);
        s.ended(100, &Ending::HostLost);
        let Some(Spawned::Done { asker, question, results }) = s.poll() else { panic!() };
        assert_eq!((asker, question), (task(1, 1), 9));
        assert!(matches!(
            &results[..],
            [Err(Fault::HostLost), Ok(_), Err(Fault::NotStarted { .. }), Err(Fault::NoHost)]
        ));
        s.started(100, task(2, 1));
        s.ended(101, &Ending::Exited(0));
        assert_eq!((s.poll(), s.len()), (None, 0));
        assert!(s.by_request.is_empty());
    }
}
