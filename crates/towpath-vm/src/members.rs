//! Tasks of this host as parts of the virtual machine: who they are, how far they came from being
//! started to having left, with whom they exchange data and what they wait for.
//!
//! ```text
//! starting ──enrol──> enrolled ──socket ends──> left ──process ends, or LEAVE_GRACE──> gone
//!     └──────────── process ends ──────────────────────────────────────────────────────┘
//! ```

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound;
use core::time::Duration;

use towpath_wire::{HostId, Instant, TaskId};

use crate::credit::{Budget, FIRST_MAX, WINDOW_FAR, WINDOW_NEAR, Window};
use crate::data::Class;
use crate::parted::Parted;
use crate::talk::{CREDIT_FIRST, Claim, Subject};
use crate::task::Ending;

/// How long a task whose connection ended is waited for to end as a process, so that those who
/// watch it can be told how.
pub const LEAVE_GRACE: Duration = Duration::from_secs(2);

/// Where a task comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Secret of a task started here; `None`: it came by itself.
    pub cookie: Option<u64>,
    /// Who spawned it.
    pub parent: Option<TaskId>,
    /// The host that asked for it and its number for the request; 0: nobody did.
    pub root: (HostId, u64),
    /// Context to begin with.
    pub context: u32,
    /// The root's number for the question that it came of: it has siblings.
    pub family: Option<u64>,
}

/// How far a task came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its process is being started, or runs and has not enrolled.
    Starting,
    /// It enrolled and waits to hear who its siblings are.
    Welcomed,
    /// It takes part.
    Enrolled,
    /// Its connection ended; its process may end until then.
    Left(Instant),
}

/// What a task exchanges with another one, as its daemon sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Charged bytes that the task sent to the other.
    pub sent: u64,
    /// Charged bytes that it may have sent.
    pub limit: u64,
    /// It was granted some of that, and sends nothing unasked any more.
    pub granted: bool,
    /// Something of it went by way of other hosts, or by another channel than what came before:
    /// from then on every piece says its place.
    pub placed: bool,
    /// How the last piece went.
    class: Option<Class>,
    /// What the other may send to it.
    pub window: Window,
    /// The other is in the task's [`Member::queue`].
    queued: bool,
}

impl Default for Pair {
    fn default() -> Self {
        let window = Window::default();
        let (granted, placed, queued) = (false, false, false);
        Self { sent: 0, limit: CREDIT_FIRST, granted, placed, class: None, window, queued }
    }
}

impl Pair {
    /// The next piece goes by `class`. One that goes by another class than those before it may
    /// overtake them.
    pub fn goes_by(&mut self, class: Class) {
        self.placed |= self.class.replace(class).is_some_and(|before| before != class);
    }
}

/// One task.
#[derive(Clone, Debug)]
pub struct Member {
    /// Where it comes from.
    pub origin: Origin,
    /// How far it came.
    pub state: State,
    /// Who was spawned with it, once that is known.
    pub siblings: Option<Vec<TaskId>>,
    /// With whom it exchanges data.
    pub pairs: BTreeMap<TaskId, Pair>,
    /// With whom it exchanges none any more, since it was told that they are gone.
    pub parted: Parted,
    /// The sender that has its loan ([`crate::credit::LOAN_MAX`]).
    loan: Option<TaskId>,
    /// Those that wait for it, in order.
    queue: VecDeque<TaskId>,
    /// To whom it has a direct route, or asked for one.
    pub direct: BTreeSet<TaskId>,
    /// Hosts to be told of its end.
    pub told: BTreeSet<HostId>,
    /// What it watches, by its own numbers.
    pub watches: BTreeMap<u64, Subject>,
    /// Questions that wait, and who is to answer.
    pub questions: BTreeMap<u64, HostId>,
    /// It catches the output of the tasks that it spawns.
    pub catches: bool,
    /// It asked the leader about groups or mailboxes.
    pub registered: bool,
    /// Its process ended like this.
    pub ending: Option<Ending>,
}

impl Member {
    /// Whether it was told that `peer` is gone: nothing goes between them any more.
    pub fn is_parted(&self, peer: TaskId) -> bool {
        // The first is empty, and so costs nothing, for nearly every task.
        self.parted.has(peer) && !self.pairs.contains_key(&peer)
    }
}

/// Charged bytes that a daemon grants to senders that ask, loans aside.
pub const GRANTED_MAX: u64 = 192 << 20;

/// News of how much may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// `sender` may have sent `receiver`, a task of this host, so much.
    Limit {
        /// The receiver.
        receiver: TaskId,
        /// The sender.
        sender: TaskId,
        /// Charged bytes in all.
        limit: u64,
    },
    /// Whoever sends to a task of this host for the first time is to ask first, or not any more.
    AskFirst(bool),
}

/// All of them. Invariants: `leaving` has one entry for each in [`State::Left`]; `budget` is
/// what the windows of all pairs have; a member's `loan` is the one of its pairs that is on loan;
/// its `queue` has those of its pairs that are `queued`, and perhaps some that are over.
#[derive(Debug)]
pub struct Members {
    by_id: BTreeMap<TaskId, Member>,
    leaving: BTreeSet<(Instant, TaskId)>,
    budget: Budget,
    ask_first: bool,
    grants: VecDeque<Grant>,
}

impl Default for Members {
    fn default() -> Self {
        Self::with_budget(GRANTED_MAX)
    }
}

impl Members {
    fn with_budget(max: u64) -> Self {
        Self {
            by_id: BTreeMap::new(),
            leaving: BTreeSet::new(),
            budget: Budget::new(max),
            ask_first: false,
            grants: VecDeque::new(),
        }
    }

    /// A task that is about to be started here, or that comes by itself.
    pub fn add(&mut self, id: TaskId, origin: Origin) {
        let member = Member {
            origin,
            state: State::Starting,
            siblings: if origin.family.is_some() { None } else { Some(Vec::new()) },
            pairs: BTreeMap::new(),
            parted: Parted::default(),
            loan: None,
            queue: VecDeque::new(),
            direct: BTreeSet::new(),
            told: BTreeSet::new(),
            watches: BTreeMap::new(),
            questions: BTreeMap::new(),
            catches: false,
            registered: false,
            ending: None,
        };
        self.by_id.insert(id, member);
    }

    /// A task.
    pub fn get(&self, id: TaskId) -> Option<&Member> {
        self.by_id.get(&id)
    }

    /// A task, to change.
    pub fn get_mut(&mut self, id: TaskId) -> Option<&mut Member> {
        self.by_id.get_mut(&id)
    }

    /// A task that takes part.
    pub fn enrolled(&mut self, id: TaskId) -> Option<&mut Member> {
        self.by_id.get_mut(&id).filter(|m| m.state == State::Enrolled)
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The first task behind `last`, or of all.
    pub fn after(&self, last: Option<TaskId>) -> Option<(TaskId, &Member)> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_id.range((from, Bound::Unbounded)).next().map(|(id, member)| (*id, member))
    }

    /// Every task.
    pub fn ids(&self) -> Vec<TaskId> {
        self.by_id.keys().copied().collect()
    }

    /// Those that the leader knows of.
    pub fn registered(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.by_id.iter().filter(|(_, m)| m.registered).map(|(id, _)| *id)
    }

    /// Whether a claim is good: its task was started with this cookie and has not enrolled.
    pub fn claims(&self, claim: &Claim) -> bool {
        self.by_id
            .get(&claim.task)
            .is_some_and(|m| m.state == State::Starting && m.origin.cookie == Some(claim.cookie))
    }

    /// Its process ended. True when the task is over with that.
    pub fn process_over(&mut self, id: TaskId, ending: Ending) -> bool {
        let Some(member) = self.by_id.get_mut(&id) else { return false };
        member.ending = Some(ending);
        matches!(member.state, State::Starting | State::Left(_))
    }

    /// Its connection ended. True when the task is over with that.
    pub fn connection_over(&mut self, now: Instant, id: TaskId) -> bool {
        let Some(member) = self.by_id.get_mut(&id) else { return false };
        if !matches!(member.state, State::Welcomed | State::Enrolled) {
            return false;
        }
        if member.origin.cookie.is_none() || member.ending.is_some() {
            return true;
        }
        let until = now + LEAVE_GRACE;
        member.state = State::Left(until);
        self.leaving.insert((until, id));
        false
    }

    /// When [`Members::poll_over`] may have something.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.leaving.first().map(|(at, _)| *at)
    }

    /// A task that has left while its process goes on.
    pub fn poll_over(&mut self, now: Instant) -> Option<TaskId> {
        self.leaving.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }

    fn window(&mut self, receiver: TaskId, sender: TaskId) -> Option<(&mut Window, &mut Budget)> {
        let pair = self.by_id.get_mut(&receiver)?.pairs.get_mut(&sender)?;
        Some((&mut pair.window, &mut self.budget))
    }

    /// A piece for `receiver` came from a task that it has a pair with; false when it was more
    /// than allowed.
    pub fn arrive(&mut self, receiver: TaskId, sender: TaskId, charge: u64) -> bool {
        let arrived =
            self.window(receiver, sender).is_some_and(|(w, budget)| w.arrive(charge, budget));
        self.watch_first();
        arrived
    }

    /// A piece was written to `receiver`. News for senders wait in [`Members::poll_grant`].
    pub fn written(&mut self, receiver: TaskId, sender: TaskId, charge: u64) {
        let Some((window, budget)) = self.window(receiver, sender) else { return };
        let limit = window.written(charge, budget);
        self.granted_to(receiver, sender, limit);
        self.watch_first();
    }

    /// `sender`, which has sent `sent`, wants to send `need` more. News for senders wait in
    /// [`Members::poll_grant`].
    pub fn blocked(&mut self, receiver: TaskId, sender: TaskId, (sent, need): (u64, u64)) {
        let max = if sender.host() == receiver.host() { WINDOW_NEAR } else { WINDOW_FAR };
        let Some((window, budget)) = self.window(receiver, sender) else { return };
        let limit = window.blocked((sent, need), max, budget);
        self.granted_to(receiver, sender, limit);
    }

    /// Tells a new limit, or puts a sender of which nothing is kept among those that wait for the
    /// receiver's loan.
    fn granted_to(&mut self, receiver: TaskId, sender: TaskId, limit: Option<u64>) {
        if let Some(limit) = limit {
            self.grants.push_back(Grant::Limit { receiver, sender, limit });
        }
        let Some(member) = self.by_id.get_mut(&receiver) else { return };
        let Some(pair) = member.pairs.get_mut(&sender) else { return };
        if pair.window.waits() && pair.window.held() == 0 && !pair.queued {
            pair.queued = true;
            member.queue.push_back(sender);
        }
        if member.loan == Some(sender) && pair.window.on_loan() == 0 {
            member.loan = None;
        }
        self.lend(receiver);
    }

    /// Gives the loan of `receiver`, if nobody has it, to the first who waits for it.
    fn lend(&mut self, receiver: TaskId) {
        let Some(member) = self.by_id.get_mut(&receiver) else { return };
        while member.loan.is_none()
            && let Some(sender) = member.queue.pop_front()
        {
            let Some(pair) = member.pairs.get_mut(&sender) else { continue };
            pair.queued = false;
            if pair.window.waits()
                && let Some(limit) = pair.window.lend(&mut self.budget)
            {
                member.loan = (pair.window.on_loan() > 0).then_some(sender);
                self.grants.push_back(Grant::Limit { receiver, sender, limit });
            }
        }
    }

    /// Notes whether there is too much that came unasked, or not any more.
    fn watch_first(&mut self) {
        let limit = if self.ask_first { FIRST_MAX / 2 } else { FIRST_MAX };
        if (self.budget.first > limit) != self.ask_first {
            self.ask_first = !self.ask_first;
            self.grants.push_back(Grant::AskFirst(self.ask_first));
        }
    }

    /// What senders are to be told next.
    pub fn poll_grant(&mut self) -> Option<Grant> {
        self.grants.pop_front()
    }

    /// Whether there is something to tell senders.
    pub fn has_grants(&self) -> bool {
        !self.grants.is_empty()
    }

    /// Whether whoever sends to a task of this host for the first time is to ask first.
    pub const fn asks_first(&self) -> bool {
        self.ask_first
    }

    /// `task` was told that `peer` of another host is gone, though it may go on.
    pub fn remember_parted(&mut self, task: TaskId, peer: TaskId) {
        if let Some(member) = self.by_id.get_mut(&task) {
            member.parted.add(peer);
        }
    }

    /// Whether `task` was told that `peer` is gone: nothing goes between them any more.
    pub fn are_parted(&self, task: TaskId, peer: TaskId) -> bool {
        self.by_id.get(&task).is_some_and(|m| m.is_parted(peer))
    }

    /// A host is gone, with all of its tasks.
    pub fn forget_parted(&mut self, host: HostId) {
        for member in self.by_id.values_mut() {
            member.parted.forget(host);
        }
    }

    /// `task` has nothing more to do with `peer`.
    pub fn part(&mut self, task: TaskId, peer: TaskId) {
        if let Some(member) = self.by_id.get_mut(&task) {
            member.direct.remove(&peer);
            if let Some(pair) = member.pairs.remove(&peer) {
                pair.window.over(&mut self.budget);
                self.watch_first();
            }
            self.loan_over(task, peer);
        }
    }

    fn loan_over(&mut self, task: TaskId, peer: TaskId) {
        if let Some(member) = self.by_id.get_mut(&task)
            && member.loan == Some(peer)
        {
            member.loan = None;
            self.lend(task);
        }
    }

    /// Charged bytes granted, or come unasked and kept.
    pub const fn granted(&self) -> u64 {
        self.budget.used + self.budget.first
    }

    /// Forgets a task that is over.
    pub fn remove(&mut self, id: TaskId) -> Option<Member> {
        let member = self.by_id.remove(&id)?;
        for pair in member.pairs.values() {
            pair.window.over(&mut self.budget);
        }
        self.watch_first();
        if let State::Left(until) = member.state {
            self.leaving.remove(&(until, id));
        }
        Some(member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u32) -> TaskId {
        HostId::new(1, 1).unwrap().task(n).unwrap()
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn origin(cookie: Option<u64>) -> Origin {
        let root = (HostId::new(1, 1).unwrap(), 1);
        Origin { cookie, parent: None, root, context: 0, family: None }
    }

    fn members() -> Members {
        let mut m = Members::default();
        m.add(id(1), origin(Some(77)));
        m.add(id(2), origin(None));
        m
    }

    #[test]
    fn who_was_told_that_another_is_gone_is_parted_from_it_until_they_meet_again() {
        let mut m = members();
        let [one, two] = [1, 2].map(|n| HostId::new(2, 1).unwrap().task(n).unwrap());
        assert!(!m.are_parted(id(1), one));
        m.remember_parted(id(1), one);
        m.remember_parted(id(9), one);
        assert!(m.are_parted(id(1), one) && m.get(id(1)).unwrap().is_parted(one));
        assert!(
            !m.are_parted(id(1), two) && !m.are_parted(id(2), one) && !m.are_parted(id(9), one)
        );
        m.forget_parted(HostId::new(3, 1).unwrap());
        assert!(m.are_parted(id(1), one), "that is another host");
        m.forget_parted(one.host());
        assert!(!m.are_parted(id(1), one));
    }

    #[test]
    fn tasks_are_listed_one_after_the_other() {
        let m = members();
        let next = |last| m.after(last).map(|(id, _)| id);
        assert_eq!(
            [next(None), next(Some(id(1))), next(Some(id(2)))],
            [Some(id(1)), Some(id(2)), None]
        );
        assert!(!m.has_grants(), "nobody asked");
    }

    #[test]
    fn a_claim_is_good_once_and_with_its_cookie_only() {
        let mut m = members();
        let claim = Claim { task: id(1), cookie: 77 };
        assert!(m.claims(&claim));
        assert!(!m.claims(&Claim { cookie: 78, ..claim }));
        assert!(!m.claims(&Claim { task: id(2), ..claim }));
        m.get_mut(id(1)).unwrap().state = State::Enrolled;
        assert!(!m.claims(&claim), "used");
    }

    #[test]
    fn a_spawned_task_is_over_when_connection_and_process_are() {
        let mut m = members();
        m.get_mut(id(1)).unwrap().state = State::Enrolled;
        assert!(!m.process_over(id(1), Ending::Exited(3)), "its connection may hold more");
        assert!(m.connection_over(at(0), id(1)));

        let mut m = members();
        m.get_mut(id(1)).unwrap().state = State::Enrolled;
        assert!(!m.connection_over(at(10), id(1)));
        assert_eq!((m.poll_timeout(), m.poll_over(at(2009))), (Some(at(2010)), None));
        assert!(m.process_over(id(1), Ending::Exited(3)));
        m.remove(id(1));
        assert_eq!(m.poll_timeout(), None);
    }

    #[test]
    fn one_that_leaves_and_lives_on_is_over_after_a_moment() {
        let mut m = members();
        m.get_mut(id(1)).unwrap().state = State::Enrolled;
        assert!(!m.connection_over(at(10), id(1)));
        assert_eq!(m.poll_over(at(2010)), Some(id(1)));
        assert!(!m.connection_over(at(10), id(1)), "once");
    }

    #[test]
    fn one_that_never_enrols_is_over_with_its_process_and_one_of_its_own_with_its_connection() {
        let mut m = members();
        assert!(!m.connection_over(at(0), id(1)), "it has none");
        assert!(m.process_over(id(1), Ending::Exited(0)));
        m.get_mut(id(2)).unwrap().state = State::Enrolled;
        assert!(m.connection_over(at(0), id(2)));
    }
    /// Charged bytes of the largest piece that a sender may send unasked.
    const FIRST: u64 = CREDIT_FIRST;

    /// Receivers that hold what `senders` sent them unasked, and what was told then.
    fn crowd(budget: u64, receivers: u32, senders: u32) -> (Members, Vec<Grant>) {
        let mut m = Members::with_budget(budget);
        let mut told = Vec::new();
        for r in 0..receivers {
            m.add(id(1 + r), origin(None));
            for s in 0..senders {
                let from = id(10_000 + s);
                m.get_mut(id(1 + r)).unwrap().pairs.entry(from).or_default();
                if !m.asks_first() {
                    assert!(m.arrive(id(1 + r), from, FIRST));
                }
                told.extend(core::iter::from_fn(|| m.poll_grant()));
            }
        }
        (m, told)
    }

    #[test]
    fn pairs_whose_receivers_never_read_hold_no_more_than_is_stated() {
        let budget = 64 * FIRST;
        let (mut m, told) = crowd(budget, 50, 100);
        assert_eq!(told, [Grant::AskFirst(true)], "once");
        assert_eq!(m.granted(), FIRST_MAX + FIRST);
        // Everybody asks, and sends what is granted, until nobody may send anything.
        let mut waiting: Vec<(TaskId, TaskId, u64)> = Vec::new();
        for r in 0..50 {
            for s in 0..100 {
                let (r, s) = (id(1 + r), id(10_000 + s));
                waiting.push((r, s, m.get(r).unwrap().pairs[&s].window.received()));
            }
        }
        let mut held = m.granted();
        while !waiting.is_empty() {
            for (r, s, sent) in waiting.drain(..) {
                m.blocked(r, s, (sent, FIRST));
            }
            while let Some(grant) = m.poll_grant() {
                let Grant::Limit { receiver, sender, limit } = grant else { panic!("{grant:?}") };
                let sent = m.get(receiver).unwrap().pairs[&sender].window.received();
                assert!(m.arrive(receiver, sender, limit - sent));
                held += limit - sent;
                waiting.push((receiver, sender, limit));
            }
        }
        assert!(held <= budget + FIRST_MAX + FIRST + 50 * crate::credit::LOAN_MAX, "{held}");
        // One that comes now and reads is sent as much as one likes, by many.
        let reader = id(9000);
        m.add(reader, origin(None));
        let mut sent = [0_u64; 5];
        for (s, sent) in (0..).zip(&sent) {
            m.get_mut(reader).unwrap().pairs.entry(id(500 + s)).or_default();
            m.blocked(reader, id(500 + s), (*sent, 3000));
        }
        for turn in 0..1000 {
            let Some(Grant::Limit { receiver, sender, limit }) = m.poll_grant() else {
                panic!("turn {turn}: nobody may send");
            };
            assert_eq!(receiver, reader);
            let sent = &mut sent[sender.number() as usize - 500];
            m.arrive(reader, sender, limit - *sent);
            m.written(reader, sender, limit - *sent);
            *sent = limit;
            m.blocked(reader, sender, (limit, 3000));
        }
        assert!(sent.iter().all(|sent| *sent == 200 * 3000), "in turn: {sent:?}");
    }

    #[test]
    fn the_loan_of_a_sender_that_ends_goes_to_the_next() {
        let (mut m, _) = crowd(0, 1, 0);
        for s in [20, 21, 22] {
            m.get_mut(id(1)).unwrap().pairs.entry(id(s)).or_default();
            m.blocked(id(1), id(s), (0, 100));
        }
        let lent = |m: &mut Members| match m.poll_grant() {
            Some(Grant::Limit { sender, .. }) => Some(sender),
            _ => None,
        };
        assert_eq!((lent(&mut m), lent(&mut m)), (Some(id(20)), None));
        m.part(id(1), id(21));
        assert_eq!(lent(&mut m), None);
        m.part(id(1), id(20));
        assert_eq!((lent(&mut m), lent(&mut m)), (Some(id(22)), None));
        m.remove(id(1));
        assert_eq!(m.granted(), 0);
    }

    #[test]
    fn senders_need_not_ask_any_more_once_half_was_read() {
        let (mut m, _) = crowd(0, 50, 100);
        let pairs: Vec<_> = m.get(id(1)).unwrap().pairs.keys().copied().collect();
        let mut told = Vec::new();
        for r in 1..=50 {
            for s in &pairs {
                m.written(id(r), *s, FIRST);
                while let Some(grant) = m.poll_grant() {
                    told.push((grant, m.granted()));
                }
            }
        }
        assert_eq!(told, [(Grant::AskFirst(false), FIRST_MAX / 2)]);
    }
}
