//! Tasks' questions: who answers them, what the answers are, and that each has one.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::TaskInfo;
use towpath_vm::registry::Serial;
use towpath_vm::talk::RegistryOp;
use towpath_wire::{HostId, Instant, TaskId};

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

/// How long a question that nobody can answer now is kept: a new leader is there by then.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(30);
/// How often whoever leads is asked those that it could not answer before: nothing else says that
/// it can again. So many at once, the oldest first.
const AGAIN_EVERY: Duration = Duration::from_millis(500);
const AGAIN_MAX: usize = 1024;
/// One that cannot be answered so soon after it was asked again is held from when it was before.
const SAME_HOLD: Duration = Duration::from_secs(5);
/// Bytes of questions that are kept so that they can be asked again. One beyond that is asked once.
pub(crate) const KEPT_MAX: usize = 64 << 20;
/// What a question costs beside its content.
const OVERHEAD: usize = 512;

/// A question about groups or mailboxes that has no answer yet.
#[derive(Debug)]
struct Open {
    number: u64,
    /// `None`: it found no room.
    op: Option<RegistryOp>,
    /// Since when nobody has it to answer.
    held: Option<Instant>,
    /// Since when that was so until it was asked again, and when that was.
    before: Option<(Instant, Instant)>,
}

/// What tasks of this host asked about groups and mailboxes, to be asked again of the next leader.
/// Invariants: `by_number` names each of `open` once; `bytes` is what those in `open` cost; `held`
/// has those of them that are, the longest first; `ask_at` is when these are asked once more.
#[derive(Debug, Default)]
pub(crate) struct AskedAgain {
    open: BTreeMap<(TaskId, u64), Open>,
    by_number: BTreeMap<(TaskId, u64), u64>,
    held: BTreeSet<(Instant, TaskId, u64)>,
    ask_at: Option<Instant>,
    last: u64,
    bytes: usize,
}

fn cost(op: &RegistryOp) -> usize {
    OVERHEAD + if let RegistryOp::Put { content, .. } = op { content.len() } else { 0 }
}

impl AskedAgain {
    /// A task asks.
    /// `again`: it may have to be asked of another leader.
    pub(crate) fn ask(
        &mut self,
        task: TaskId,
        number: u64,
        (op, again): (&RegistryOp, bool),
    ) -> Serial {
        self.last += 1;
        let fits = again && self.bytes + cost(op) <= KEPT_MAX;
        let op = fits.then(|| op.clone());
        self.bytes += op.as_ref().map_or(0, cost);
        self.open.insert((task, self.last), Open { number, op, held: None, before: None });
        self.by_number.insert((task, number), self.last);
        if again { self.serial(task, self.last) } else { Serial::default() }
    }

    fn serial(&self, task: TaskId, this: u64) -> Serial {
        let first = self.open.range((task, 0)..).next();
        let open = first.filter(|((t, _), _)| *t == task).map_or(this, |((_, open), _)| *open);
        Serial { this, open }
    }

    /// It is answered, or nobody waits for that any more.
    pub(crate) fn done(&mut self, task: TaskId, number: u64) {
        if let Some(this) = self.by_number.remove(&(task, number))
            && let Some(open) = self.open.remove(&(task, this))
        {
            self.bytes -= open.op.as_ref().map_or(0, cost);
            if let Some(held) = open.held {
                self.held.remove(&(held, task, this));
            }
        }
    }

    /// Nobody can answer it now. Whether it is kept until somebody can.
    pub(crate) fn hold(&mut self, now: Instant, task: TaskId, number: u64) -> bool {
        let Some(this) = self.by_number.get(&(task, number)).copied() else { return false };
        let open = self.open.get_mut(&(task, this)).filter(|open| open.op.is_some());
        let Some(open) = open else { return false };
        if open.held.is_some() {
            return true;
        }
        let same = open.before.take().filter(|(_, asked)| now.since(*asked) <= SAME_HOLD);
        let since = same.map_or(now, |(since, _)| since);
        open.held = Some(since);
        if self.held.is_empty() {
            self.ask_at = Some(now + AGAIN_EVERY);
        }
        self.held.insert((since, task, this));
        true
    }

    /// Whether an earlier question of a task is held.
    pub(crate) fn holds_any_of(&self, task: TaskId) -> bool {
        !self.held.is_empty()
            && self.open.range((task, 0)..=(task, u64::MAX)).any(|(_, open)| open.held.is_some())
    }

    /// All that are open, to be asked of whoever leads now; whoever asks them has them in hand.
    pub(crate) fn again(&mut self) -> Vec<(TaskId, u64, Serial, RegistryOp)> {
        self.held.clear();
        self.open.values_mut().for_each(|open| open.held = None);
        let open = self.open.iter();
        open.filter_map(|((task, this), _)| self.asked(*task, *this)).collect()
    }

    /// Those that are held, where it is time to ask them once more: whoever asks them has them in
    /// hand. `can`: there is somebody to ask, who has taken what was said before.
    pub(crate) fn held_again(
        &mut self,
        now: Instant,
        can: bool,
    ) -> Vec<(TaskId, u64, Serial, RegistryOp)> {
        if self.ask_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let most = if can { AGAIN_MAX } else { 0 };
        let oldest: Vec<_> = self.held.iter().take(most).copied().collect();
        for at @ (since, task, this) in &oldest {
            self.held.remove(at);
            if let Some(open) = self.open.get_mut(&(*task, *this)) {
                (open.held, open.before) = (None, Some((*since, now)));
            }
        }
        self.ask_at = (!self.held.is_empty()).then(|| now + AGAIN_EVERY);
        oldest.into_iter().filter_map(|(_, task, this)| self.asked(task, this)).collect()
    }

    fn asked(&self, task: TaskId, this: u64) -> Option<(TaskId, u64, Serial, RegistryOp)> {
        let open = self.open.get(&(task, this))?;
        Some((task, open.number, self.serial(task, this), open.op.clone()?))
    }

    /// Those that cannot be asked again.
    pub(crate) fn lost(&self) -> Vec<(TaskId, u64)> {
        let lost = self.open.iter().filter(|(_, open)| open.op.is_none());
        lost.map(|((task, _), open)| (*task, open.number)).collect()
    }

    /// When one has been held for long enough, or those that are held are asked once more.
    pub(crate) fn due(&self) -> Option<Instant> {
        let over = self.held.first().map(|(held, ..)| *held + KEPT_FOR)?;
        Some(self.ask_at.map_or(over, |at| at.min(over)))
    }

    /// Those that have been.
    pub(crate) fn over(&self, now: Instant) -> Vec<(TaskId, u64)> {
        let over = self.held.iter().take_while(|(held, ..)| *held + KEPT_FOR <= now);
        over.filter_map(|(_, task, this)| Some((*task, self.open.get(&(*task, *this))?.number)))
            .collect()
    }

    fn clear(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }
}

/// Questions that wait: who is to answer which ones of whom; lists that hosts were asked for; and
/// lists of all hosts' tasks, with the queries that each still waits for.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    pub(crate) queries: BTreeMap<u64, Query>,
    pub(crate) next_query: u64,
    pub(crate) by_host: BTreeMap<HostId, BTreeSet<(TaskId, u64)>>,
    pub(crate) gathers: BTreeMap<(TaskId, u64), BTreeSet<u64>>,
    pub(crate) again: AskedAgain,
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
        self.again.clear();
    }

    /// Those that `host` was to answer.
    pub(crate) fn of(&self, host: HostId) -> Vec<(TaskId, u64)> {
        self.by_host.get(&host).into_iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_vm::talk::MailRules;

    fn task(slot: u16, n: u32) -> TaskId {
        HostId::new(slot, 1).expect("a host").task(n).expect("a task")
    }

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    fn put(len: usize) -> RegistryOp {
        let (name, rules) = ("m".into(), MailRules::default());
        RegistryOp::Put { name, index: None, rules, format: 0, content: alloc::vec![0; len] }
    }

    fn join() -> RegistryOp {
        RegistryOp::Join("g".into())
    }

    #[test]
    fn what_finds_no_room_is_asked_once_and_room_is_there_again_when_one_is_answered() {
        let mut all = AskedAgain::default();
        let half = put(KEPT_MAX / 2 - OVERHEAD);
        all.ask(task(1, 1), 10, (&half, true));
        all.ask(task(1, 2), 20, (&half, true));
        all.ask(task(1, 1), 11, (&join(), true));
        assert_eq!(all.lost(), [(task(1, 1), 11)]);
        all.done(task(1, 2), 20);
        all.done(task(1, 1), 11);
        all.ask(task(1, 1), 12, (&put(KEPT_MAX / 2 - 2 * OVERHEAD), true));
        all.ask(task(1, 1), 13, (&join(), true));
        all.ask(task(1, 1), 14, (&join(), true));
        assert_eq!(all.lost(), [(task(1, 1), 14)], "to the byte");
        for number in [10, 12, 13, 14] {
            all.done(task(1, 1), number);
        }
        assert_eq!((all.bytes, all.open.len(), all.by_number.len()), (0, 0, 0));
    }

    #[test]
    fn a_question_says_which_of_its_tasks_is_the_first_that_is_open() {
        let mut all = AskedAgain::default();
        let ask = |all: &mut AskedAgain, task, number| {
            let Serial { this, open } = all.ask(task, number, (&join(), true));
            (this, open)
        };
        assert_eq!(ask(&mut all, task(1, 1), 7), (1, 1));
        assert_eq!(ask(&mut all, task(1, 2), 7), (2, 2));
        assert_eq!(ask(&mut all, task(1, 1), 8), (3, 1));
        assert_eq!(all.ask(task(1, 1), 9, (&join(), false)), Serial::default());
        all.done(task(1, 1), 7);
        assert_eq!(ask(&mut all, task(1, 1), 10), (5, 3));
        let again: Vec<_> =
            all.again().into_iter().map(|(t, n, s, _)| (t, n, s.this, s.open)).collect();
        let (one, two) = (task(1, 1), task(1, 2));
        assert_eq!(again, [(one, 8, 3, 3), (one, 10, 5, 3), (two, 7, 2, 2)]);
        assert_eq!(all.lost(), [(one, 9)], "it is for one leader only");
    }

    #[test]
    fn a_question_is_held_for_so_long_from_when_nobody_had_it_at_first() {
        let mut all = AskedAgain::default();
        for (n, again) in [(1, true), (2, true), (3, false)] {
            all.ask(task(1, n), 7, (&join(), again));
        }
        let held = [3, 2, 1, 4].map(|n| all.hold(at(10 - u64::from(n)), task(1, n), 7));
        assert_eq!(held, [false, true, true, false]);
        assert!(all.hold(at(20), task(1, 1), 7), "since before");
        assert_eq!([1, 2, 3, 4].map(|n| all.holds_any_of(task(1, n))), [true, true, false, false]);
        // Until then whoever leads is asked at times, in the order of the first asking.
        assert_eq!(all.due(), Some(at(8) + AGAIN_EVERY));
        assert!(all.held_again(at(8), true).is_empty(), "not yet");
        let asked = |all: &mut AskedAgain, now| -> Vec<TaskId> {
            all.held_again(now, true).into_iter().map(|(task, ..)| task).collect()
        };
        assert!(all.held_again(at(9), false).is_empty(), "there is nobody to ask");
        assert_eq!(all.due(), Some(at(9) + AGAIN_EVERY));
        assert_eq!(asked(&mut all, at(10)), [task(1, 2), task(1, 1)], "the oldest first");
        assert_eq!((all.due(), all.holds_any_of(task(1, 1))), (None, false), "somebody has them");
        assert_eq!(asked(&mut all, at(20)), []);
        // Nor can they be answered now.
        assert!([1, 2].iter().all(|n| all.hold(at(15), task(1, *n), 7)));
        assert_eq!(all.due(), Some(at(15) + AGAIN_EVERY));
        assert!(all.held_again(at(38) - AGAIN_EVERY / 2, false).is_empty());
        assert_eq!(all.due(), Some(at(38)), "from when they were held at first");
        assert_eq!(all.over(at(37)), []);
        assert_eq!(all.over(at(38)), [(task(1, 2), 7)]);
        assert_eq!(all.over(at(39)), [(task(1, 2), 7), (task(1, 1), 7)]);
        all.done(task(1, 2), 7);
        assert_eq!(all.over(at(39)), [(task(1, 1), 7)]);
        assert_eq!(asked(&mut all, at(39)), [task(1, 1)]);
        // It had it for a while: that is over when it is held again.
        all.hold(at(45), task(1, 1), 7);
        assert_eq!((all.over(at(74)), all.over(at(75))), ([].into(), [(task(1, 1), 7)].into()));
        assert_eq!(all.again().len(), 1);
        assert_eq!(all.due(), None, "somebody has it");
        all.hold(at(50), task(1, 1), 7);
        assert_eq!(all.due(), Some(at(50) + AGAIN_EVERY), "not before, whenever it was last");
        all.held_again(at(80) - AGAIN_EVERY / 2, false);
        assert_eq!(all.due(), Some(at(80)));
        all.clear();
        assert_eq!((all.due(), all.lost().len()), (None, 0));
        assert_eq!(all.ask(task(1, 1), 9, (&join(), true)).this, 4, "no number is used again");
    }

    #[test]
    fn what_a_host_is_to_answer_is_forgotten_one_by_one_or_at_once() {
        let (one, two) = (HostId::new(1, 1).expect("a host"), HostId::new(2, 1).expect("a host"));
        let mut all = Questions::default();
        for (host, n) in [(one, 1), (one, 2), (two, 1)] {
            all.by_host.entry(host).or_default().insert((task(3, n), 7));
        }
        all.gathers.insert((task(3, 1), 7), [4].into());
        let (host, asker) = (one, Asker::Owner);
        all.queries.insert(4, Query { host, asker, tasks: Vec::new() });
        assert_eq!((all.len(), all.of(one).len(), all.of(two).len()), (4, 2, 1));
        all.remove(one, task(3, 1), 7);
        assert!(all.gathers.is_empty() && all.any_of(one));
        all.remove(one, task(3, 2), 7);
        assert_eq!((all.len(), all.any_of(one), all.any_of(two)), (2, false, true));
        all.remove(two, task(3, 1), 7);
        assert!(!all.is_empty());
        all.queries.clear();
        assert_eq!((all.len(), all.is_empty()), (0, true));
        all.by_host.entry(two).or_default().insert((task(3, 1), 8));
        all.gathers.insert((task(3, 1), 8), [4].into());
        all.clear();
        assert!(all.is_empty() && all.gathers.is_empty());
    }
}
