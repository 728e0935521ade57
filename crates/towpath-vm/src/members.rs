//! Tasks of this host as parts of the virtual machine: who they are, how far they came from being
//! started to having left, with whom they exchange data and what they wait for.
//!
//! ```text
//! starting ──enrol──> enrolled ──socket ends──> left ──process ends, or LEAVE_GRACE──> gone
//!     └──────────── process ends ──────────────────────────────────────────────────────┘
//! ```

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use towpath_wire::{HostId, Instant, TaskId};

use crate::credit::{Budget, WINDOW_FAR, WINDOW_NEAR, Window};
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
    /// Something of it went by way of other hosts: from then on every piece says its place.
    pub placed: bool,
    /// What the other may send to it.
    pub window: Window,
}

impl Default for Pair {
    fn default() -> Self {
        Self { sent: 0, limit: CREDIT_FIRST, placed: false, window: Window::default() }
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

/// Charged bytes that all pairs of a daemon may have beyond their first ones.
pub const GRANTED_MAX: u64 = 256 << 20;

/// All of them. Invariants: `leaving` has one entry for each in [`State::Left`]; `budget.used` is
/// what the windows of all pairs have.
#[derive(Debug)]
pub struct Members {
    by_id: BTreeMap<TaskId, Member>,
    leaving: BTreeSet<(Instant, TaskId)>,
    budget: Budget,
}

impl Default for Members {
    fn default() -> Self {
        let budget = Budget { max: GRANTED_MAX, used: 0 };
        Self { by_id: BTreeMap::new(), leaving: BTreeSet::new(), budget }
    }
}

impl Members {
    /// A task that is about to be started here, or that comes by itself.
    pub fn add(&mut self, id: TaskId, origin: Origin) {
        let member = Member {
            origin,
            state: State::Starting,
            siblings: if origin.family.is_some() { None } else { Some(Vec::new()) },
            pairs: BTreeMap::new(),
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

    /// Every task.
    pub fn ids(&self) -> Vec<TaskId> {
        self.by_id.keys().copied().collect()
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
        self.window(receiver, sender).is_some_and(|(w, _)| w.arrive(charge))
    }

    /// A piece was written to `receiver`: the sender's new limit, if it is to hear of one.
    pub fn written(&mut self, receiver: TaskId, sender: TaskId, charge: u64) -> Option<u64> {
        let (window, budget) = self.window(receiver, sender)?;
        window.written(charge, budget)
    }

    /// `sender` wants to send more: its new limit, if there is one now.
    pub fn blocked(&mut self, receiver: TaskId, sender: TaskId) -> Option<u64> {
        let (window, budget) = self.window(receiver, sender)?;
        let far = sender.host() != receiver.host();
        window.blocked(if far { WINDOW_FAR } else { WINDOW_NEAR }, budget)
    }

    /// `task` has nothing more to do with `peer`.
    pub fn part(&mut self, task: TaskId, peer: TaskId) {
        if let Some(member) = self.by_id.get_mut(&task) {
            member.direct.remove(&peer);
            if let Some(pair) = member.pairs.remove(&peer) {
                pair.window.over(&mut self.budget);
            }
        }
    }

    /// Charged bytes granted beyond first ones.
    pub const fn granted(&self) -> u64 {
        self.budget.used
    }

    /// Forgets a task that is over.
    pub fn remove(&mut self, id: TaskId) -> Option<Member> {
        let member = self.by_id.remove(&id)?;
        for pair in member.pairs.values() {
            pair.window.over(&mut self.budget);
        }
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
}
