//! Tasks that catch the output of tasks they spawned: whose goes to whom, and which credit comes
//! back for it.
//!
//! A catcher's daemon keeps what it has not read. That is at most [`CATCH_MAX`], shared among the
//! tasks whose output it catches, and [`WINDOW_MIN`] for each of them: the more there are, the less
//! each may write ahead. One whose output is taken may write more again, as long as there is room,
//! up to [`OUTPUT_WINDOW`].

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use towpath_wire::id::TASK_MAX;
use towpath_wire::{HostId, TaskId};

/// Output of a spawned task that may be under way at most, in bytes.
pub const OUTPUT_WINDOW: u32 = 32 << 10;
/// Output that may be under way to one task that catches it, in bytes, beside [`WINDOW_MIN`] for
/// each task that it catches the output of.
pub const CATCH_MAX: u32 = 4 << 20;
/// What each caught task may write although its catcher has no room left, in bytes.
pub const WINDOW_MIN: u32 = 64;

/// What a caught task may write.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// All that may be under way of it.
    window: u32,
    /// What may still come.
    open: u32,
}

/// Invariant: `room`, the windows of `requests` and what was `sent` of others make [`CATCH_MAX`].
#[derive(Debug)]
struct Catcher {
    requests: BTreeMap<u64, Share>,
    /// Output sent to it, by request, that it has not given credit for.
    sent: VecDeque<(u64, u32)>,
    /// What no request has; negative where each has the least.
    room: i64,
}

impl Default for Catcher {
    fn default() -> Self {
        Self { requests: BTreeMap::new(), sent: VecDeque::new(), room: CATCH_MAX.into() }
    }
}

impl Catcher {
    /// What one more request begins with: less and less, so that there is something for many.
    fn share(&self) -> u32 {
        (self.room / 64).clamp(WINDOW_MIN.into(), OUTPUT_WINDOW.into()) as u32
    }
}

/// All of them, at the host that asked for the tasks. Invariant: `by_request` and the `requests`
/// of the catchers say the same.
#[derive(Debug, Default)]
pub struct Catching {
    catchers: BTreeMap<TaskId, Catcher>,
    by_request: BTreeMap<u64, TaskId>,
}

impl Catching {
    /// What the next task whose output `by` catches may write to begin with.
    pub fn window(&self, by: TaskId) -> u32 {
        self.catchers.get(&by).map_or(OUTPUT_WINDOW, Catcher::share)
    }

    /// The output of a request, which has such a window, goes to `by`. True when that task catches
    /// nothing else yet.
    pub fn catch(&mut self, request: u64, by: TaskId, window: u32) -> bool {
        self.by_request.insert(request, by);
        let new = !self.catchers.contains_key(&by);
        let catcher = self.catchers.entry(by).or_default();
        catcher.requests.insert(request, Share { window, open: window });
        catcher.room -= i64::from(window);
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
            if let Some(share) = catcher.requests.get_mut(&request) {
                share.open = share.open.saturating_sub(bytes);
            }
        }
    }

    /// `by` has taken so much: which requests get how much credit. Whoever's output is taken gets
    /// more than that, as long as there is room.
    pub fn paid(&mut self, by: TaskId, mut bytes: u32) -> Vec<(u64, u32)> {
        let mut out = Vec::new();
        let Some(catcher) = self.catchers.get_mut(&by) else { return out };
        while bytes > 0 {
            let Some((request, open)) = catcher.sent.front_mut() else { break };
            let (request, part) = (*request, bytes.min(*open));
            (bytes, *open) = (bytes - part, *open - part);
            if *open == 0 {
                catcher.sent.pop_front();
            }
            let Some(share) = catcher.requests.get_mut(&request) else {
                catcher.room += i64::from(part);
                continue;
            };
            let most = share.window.min(OUTPUT_WINDOW - share.window);
            let more = (catcher.room / 16).clamp(0, most.into()) as u32;
            share.window += more;
            share.open += part + more;
            catcher.room -= i64::from(more);
            out.push((request, part + more));
        }
        out
    }

    /// A request has ended. The credit that it still has out means nothing any more.
    pub fn ended(&mut self, request: u64) {
        let Some(by) = self.by_request.remove(&request) else { return };
        if let Some(catcher) = self.catchers.get_mut(&by) {
            if let Some(share) = catcher.requests.remove(&request) {
                catcher.room += i64::from(share.open);
            }
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

    /// `by` has ended: each of its requests gets credit for what it had not taken, and for a whole
    /// window. Their output goes elsewhere.
    pub fn over(&mut self, by: TaskId) -> Vec<(u64, u32)> {
        let Some(catcher) = self.catchers.remove(&by) else { return Vec::new() };
        for request in catcher.requests.keys() {
            self.by_request.remove(request);
        }
        let credit = |(request, share): (u64, Share)| (request, OUTPUT_WINDOW - share.open);
        catcher.requests.into_iter().map(credit).filter(|(_, bytes)| *bytes > 0).collect()
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
        assert!(c.catch(1, task(9), OUTPUT_WINDOW));
        assert!(!c.catch(2, task(9), OUTPUT_WINDOW));
        c.sent(1, 10);
        c.sent(2, 5);
        assert_eq!(c.paid(task(9), 12), [(1, 10), (2, 2)]);
        c.ended(2);
        c.sent(2, 7);
        assert_eq!(c.paid(task(9), 100), [], "nothing to one that ended");
        c.sent(1, 4);
        assert_eq!(c.over(task(9)), [(1, 4)]);
        assert_eq!(c.catcher(1), None);
        assert!(c.catchers.is_empty() && c.by_request.is_empty());
    }

    /// All that the requests may write, and have written, beyond what was taken.
    fn under_way(c: &Catching) -> u64 {
        let catcher = &c.catchers[&task(9)];
        let open: u64 = catcher.requests.values().map(|share| u64::from(share.open)).sum();
        open + catcher.sent.iter().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>()
    }

    #[test]
    fn a_catcher_that_reads_late_is_sent_no_more_than_one_window() {
        const TASKS: u64 = 3000;
        let mut c = Catching::default();
        let mut room: Vec<u32> = Vec::new();
        for request in 0..TASKS {
            room.push(c.window(task(9)));
            c.catch(request, task(9), c.window(task(9)));
        }
        assert_eq!(room[0], OUTPUT_WINDOW, "a single one has what it had before");
        assert!(room[100] > 4 << 10 && *room.last().unwrap() == WINDOW_MIN);
        let bound = u64::from(CATCH_MAX) + TASKS * u64::from(WINDOW_MIN);
        assert!(under_way(&c) <= bound, "{}", under_way(&c));
        // Each writes all that it may; all but one end.
        for (request, room) in (0..).zip(&mut room) {
            c.sent(request, *room);
            *room = 0;
            if request != 2999 {
                c.ended(request);
            }
        }
        assert!(under_way(&c) <= bound);
        // One that goes on writing while all is read has the largest window soon.
        let mut last = 0;
        for _ in 0..200 {
            for (request, bytes) in c.paid(task(9), 64 << 10) {
                room[request as usize] += bytes;
            }
            last = room[2999];
            c.sent(2999, last);
            room[2999] = 0;
            assert!(under_way(&c) <= bound);
        }
        assert_eq!(last, OUTPUT_WINDOW);
    }

    #[test]
    fn what_a_catcher_was_short_of_comes_back_as_its_tasks_end() {
        let mut c = Catching::default();
        c.catch(0, task(9), OUTPUT_WINDOW);
        for request in 1..2000 {
            let window = c.window(task(9));
            c.catch(request, task(9), window);
            c.sent(request, window / 2);
        }
        for request in 1..2000 {
            c.ended(request);
        }
        while !c.catchers[&task(9)].sent.is_empty() {
            c.paid(task(9), 1000);
        }
        assert_eq!(c.catchers[&task(9)].room, i64::from(CATCH_MAX - OUTPUT_WINDOW));
    }
}
