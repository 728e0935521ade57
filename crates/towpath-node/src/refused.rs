//! Questions of tasks that were refused for now: their hosts ask them again, and what the same task
//! asked behind them, and may be on its way, is not to overtake them.

use alloc::collections::{BTreeMap, BTreeSet};

use towpath_vm::registry::Serial;
use towpath_wire::{HostId, TaskId};

use crate::commit::PROPOSALS_MAX;

/// So often others are refused for the sake of one that is not asked again: its host may have given
/// it up. It asks twice a second.
const TURNS_MAX: u32 = 6;

/// Serials by task, and how often others were refused for them. Invariants: no task has none;
/// `count` counts them.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    by_task: BTreeMap<TaskId, (BTreeSet<u64>, u32)>,
    count: usize,
}

impl Refused {
    /// A question was refused. Of more than so many it is not known any more.
    pub(crate) fn add(&mut self, task: TaskId, serial: Serial) {
        if serial.this != 0 && self.count < PROPOSALS_MAX {
            self.count += usize::from(self.by_task.entry(task).or_default().0.insert(serial.this));
        }
    }

    /// A task asks. Whether it is to ask something else first, which it does not know yet.
    pub(crate) fn comes_first(&mut self, task: TaskId, serial: Serial) -> bool {
        let of_task = self.by_task.get_mut(&task).filter(|_| serial.this != 0);
        let Some((refused, turns)) = of_task else { return false };
        // What it does not wait for any more, it has an answer to.
        let waits = refused.split_off(&serial.open);
        self.count -= refused.len();
        *refused = waits;
        if refused.remove(&serial.this) {
            self.count -= 1;
        }
        let first = refused.range(..serial.this).next().is_some();
        *turns = if first { *turns + 1 } else { 0 };
        if refused.is_empty() {
            self.by_task.remove(&task);
        } else if *turns > TURNS_MAX {
            self.forget_task(task);
            return false;
        }
        first
    }

    /// A task is over.
    pub(crate) fn forget_task(&mut self, task: TaskId) {
        self.count -= self.by_task.remove(&task).map_or(0, |(refused, _)| refused.len());
    }

    /// The connection to a host is over: it asks all anew.
    pub(crate) fn forget_host(&mut self, host: HostId) {
        if self.count > 0 {
            self.by_task.retain(|task, _| task.host() != host);
            self.count = self.by_task.values().map(|(refused, _)| refused.len()).sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(n: u32) -> TaskId {
        HostId::new(2, 1).and_then(|host| host.task(n)).expect("a task")
    }

    const fn serial(this: u64, open: u64) -> Serial {
        Serial { this, open }
    }

    #[test]
    fn what_was_asked_behind_a_refused_one_waits_until_that_is_asked_again() {
        let mut refused = Refused::default();
        refused.add(task(1), serial(4, 4));
        assert!(!refused.comes_first(task(2), serial(5, 5)), "that is another one's");
        assert!(!refused.comes_first(task(1), serial(3, 3)), "it was asked before");
        assert!(refused.comes_first(task(1), serial(7, 4)));
        refused.add(task(1), serial(7, 4));
        assert!(!refused.comes_first(task(1), serial(4, 4)));
        assert!(refused.comes_first(task(1), serial(8, 4)), "behind the other one");
        assert!(!refused.comes_first(task(1), serial(7, 4)));
        assert!(!refused.comes_first(task(1), serial(9, 9)));
        assert_eq!((refused.by_task.len(), refused.count), (0, 0));
    }

    #[test]
    fn what_has_an_answer_meanwhile_is_not_waited_for() {
        let mut refused = Refused::default();
        refused.add(task(1), serial(4, 4));
        refused.add(task(1), serial(4, 4));
        assert_eq!(refused.count, 1);
        // It was given up.
        assert!(!refused.comes_first(task(1), serial(9, 5)));
        assert_eq!((refused.by_task.len(), refused.count), (0, 0));
        // What is asked once has no place among those.
        refused.add(task(1), serial(0, 0));
        assert_eq!(refused.count, 0);
        refused.add(task(1), serial(4, 4));
        assert!(!refused.comes_first(task(1), serial(0, 0)));
        refused.forget_host(task(1).host());
        assert_eq!((refused.by_task.len(), refused.count), (0, 0));
        refused.add(task(1), serial(4, 4));
        refused.forget_task(task(1));
        assert_eq!((refused.by_task.len(), refused.count), (0, 0));
    }

    #[test]
    fn what_is_never_asked_again_does_not_keep_others_out() {
        let mut refused = Refused::default();
        refused.add(task(1), serial(4, 3));
        let asks = (0..1000).take_while(|_| refused.comes_first(task(1), serial(9, 3))).count();
        assert_eq!((asks as u32, refused.count), (TURNS_MAX, 0));
    }

    #[test]
    fn so_many_are_known_and_no_more() {
        let mut refused = Refused::default();
        (1..=PROPOSALS_MAX as u64 + 5).for_each(|n| refused.add(task(1), serial(n, 1)));
        assert_eq!(refused.count, PROPOSALS_MAX);
        assert!(!refused.comes_first(task(1), serial(u64::MAX, u64::MAX)));
        assert_eq!(refused.count, 0);
    }
}
