//! Pieces whose arrival a task's end waits for, counted.

use alloc::collections::BTreeMap;

use towpath_wire::{HostId, TaskId};

/// Entries without a piece that keep their place, beside as many as have one: a task that sends one
/// message after the other needs no heap for each.
const IDLE_MAX: usize = 256;

/// How many pieces of a task are on their way to a host. Invariants: `idle` counts the entries of
/// none; there are at most [`IDLE_MAX`] more of these than of others.
#[derive(Debug, Default)]
pub(super) struct Open {
    counts: BTreeMap<(HostId, TaskId), u32>,
    idle: usize,
}

impl Open {
    /// So many pieces more are on their way.
    pub(super) fn add(&mut self, host: HostId, task: TaskId, pieces: u32) {
        let mut new = false;
        let count = self.counts.entry((host, task)).or_insert_with(|| {
            new = true;
            0
        });
        self.idle -= usize::from(!new && *count == 0 && pieces > 0);
        self.idle += usize::from(new && pieces == 0);
        *count += pieces;
    }

    /// One of them is there. True: it was the last.
    pub(super) fn settle(&mut self, host: HostId, task: TaskId) -> bool {
        let Some(count) = self.counts.get_mut(&(host, task)).filter(|count| **count > 0) else {
            return false;
        };
        *count -= 1;
        let last = *count == 0;
        self.idle += usize::from(last);
        if self.idle > self.counts.len() - self.idle + IDLE_MAX {
            self.counts.retain(|_, count| *count > 0);
            self.idle = 0;
        }
        last
    }

    pub(super) fn has(&self, host: HostId, task: TaskId) -> bool {
        self.counts.get(&(host, task)).is_some_and(|count| *count > 0)
    }

    /// Whether something is on its way to a host.
    pub(super) fn any_for(&self, host: HostId) -> bool {
        let of = self.counts.range((host, TaskId::MIN)..).take_while(|((h, _), _)| *h == host);
        of.into_iter().any(|(_, count)| *count > 0)
    }

    /// A host is out of contact.
    pub(super) fn forget(&mut self, host: HostId) {
        self.counts.retain(|(h, _), count| *h != host && *count > 0);
        self.idle = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_counted_by_host_and_task_and_nothing_is_left_of_many() {
        let host = |n| HostId::new(n, 1).expect("a slot");
        let task = |n| host(9).task(n).expect("a number");
        let mut open = Open::default();
        open.add(host(1), task(1), 2);
        open.add(host(2), task(1), 1);
        assert!(!open.settle(host(1), task(1)) && open.has(host(1), task(1)));
        assert!(open.settle(host(1), task(1)) && !open.has(host(1), task(1)));
        assert!(!open.settle(host(1), task(1)) && !open.settle(host(1), task(2)), "none is");
        assert_eq!([1, 2, 3].map(|n| open.any_for(host(n))), [false, true, false]);
        for n in 1..=1000 {
            open.add(host(3), task(n), 1);
        }
        for n in 1..=1000 {
            assert!(open.settle(host(3), task(n)));
        }
        assert!(!open.any_for(host(3)) && open.counts.len() <= IDLE_MAX + 2);
        open.add(host(3), task(7), 1);
        open.forget(host(3));
        assert!(!open.any_for(host(3)) && open.any_for(host(2)));
        assert_eq!((open.counts.len(), open.idle), (1, 0));
    }

    #[test]
    fn what_has_no_piece_keeps_its_place_until_there_is_too_much_of_it() {
        let host = |n| HostId::new(n, 1).expect("a slot");
        let task = |n| host(9).task(n).expect("a number");
        let mut open = Open::default();
        let most = IDLE_MAX as u32;
        for n in 1..=most {
            open.add(host(1), task(n), 1);
            assert!(open.settle(host(1), task(n)));
        }
        assert_eq!((open.counts.len(), open.idle), (IDLE_MAX, IDLE_MAX), "they keep their place");
        for (pieces, idle) in [(0, IDLE_MAX), (2, IDLE_MAX - 1), (1, IDLE_MAX - 1)] {
            open.add(host(1), task(1), pieces);
            assert_eq!((open.counts.len(), open.idle), (IDLE_MAX, idle));
        }
        open.add(host(2), task(1), 0);
        open.add(host(2), task(1), 0);
        assert_eq!((open.counts.len(), open.idle, open.any_for(host(2))), {
            (IDLE_MAX + 1, IDLE_MAX, false)
        });
        for n in [1, 2] {
            open.add(host(3), task(n), 1);
        }
        assert!(open.settle(host(3), task(1)));
        assert_eq!((open.counts.len(), open.idle), (IDLE_MAX + 3, IDLE_MAX + 1), "two have some");
        assert!(open.settle(host(3), task(2)));
        assert_eq!((open.counts.len(), open.idle), (1, 0), "one has");
        open.add(host(3), task(1), 1);
        assert!(open.settle(host(3), task(1)));
        open.forget(host(2));
        assert_eq!((open.counts.len(), open.idle), (1, 0), "they go with any host");
        open.add(host(1), task(2), 1);
        assert!(open.settle(host(1), task(2)) && open.has(host(1), task(1)));
    }
}
