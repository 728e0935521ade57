//! What the leader asks its log for, and what follows once that is committed: nothing before.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use towpath_proto::AssociationId;
use towpath_vm::control::{Command, Commits, Leave, Ticket};
use towpath_vm::registry::{Kept, Serial};
use towpath_vm::talk::{Answer, Fault};
use towpath_wire::{HostId, TaskId};

use crate::invitations::INVITATIONS_MAX;

/// Questions of tasks that wait for the log at once: a log that commits nothing is not filled by
/// those who go on asking. What nobody waits for is proposed anyway, see [`Fact`].
pub(crate) const PROPOSALS_MAX: usize = 16_384;

/// Of these, those of one host: a daemon that asks in the name of tasks that it makes up leaves
/// three quarters to the others.
pub(crate) const HOST_PROPOSALS_MAX: usize = PROPOSALS_MAX / 4;

/// And those of one task: it leaves as much of its host's share to the other tasks there.
pub(crate) const TASK_PROPOSALS_MAX: usize = HOST_PROPOSALS_MAX / 4;

/// Newcomers that wait at once: as many as a virtual machine has hosts. They are counted apart, so
/// that no task keeps a host out.
pub(crate) const NEWCOMERS_MAX: usize = 4096;

/// Tokens whose issue or end waits at once: as many as are good at once.
pub(crate) const OWNERS_MAX: usize = INVITATIONS_MAX;

/// What a command says that nobody waits for. One that is not decided yet is not proposed again,
/// so there are at most four for each host, one for each task that the registry knows, and two for
/// each question that waits ([`Proposals::asks`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fact {
    Lost(HostId),
    Left(HostId, bool),
    TaskOver(TaskId),
    ForgetWaits(HostId),
}

impl Fact {
    const fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Lost(host) => Some(Self::Lost(*host)),
            Command::Leave(Leave { host, deleted }) => Some(Self::Left(*host, *deleted)),
            Command::TaskOver(task) => Some(Self::TaskOver(*task)),
            Command::ForgetWaits(host) => Some(Self::ForgetWaits(*host)),
            Command::Join(_)
            | Command::Ask(_)
            | Command::Lead(_)
            | Command::Voters(_)
            | Command::Keeps(_)
            | Command::Unique(_)
            | Command::Invite(_)
            | Command::Revoke(_)
            | Command::Network(_)
            | Command::Promise(_)
            | Command::Again(_)
            | Command::Release(_)
            | Command::Holds(_)
            | Command::FreeOrphans(_)
            | Command::Drain(_)
            | Command::Halt(_) => None,
        }
    }
}

/// Who waits for what it was asked for. Invariants: `by_task`, `by_host`, `newcomers` and `owners`
/// count `waiting`, and have nobody at zero; what is proposed behind a fact does not
/// depend on it.
#[derive(Debug, Default)]
pub(crate) struct Proposals {
    waiting: BTreeMap<Ticket, Waiting>,
    by_task: BTreeMap<TaskId, usize>,
    by_host: BTreeMap<HostId, usize>,
    newcomers: usize,
    owners: usize,
    /// Facts that are not decided, by their tickets.
    facts: BTreeMap<Ticket, Fact>,
    /// The tickets of those that need not be proposed again.
    stated: BTreeMap<Fact, Ticket>,
    /// Facts that were not proposed again.
    pub(crate) repeated: u64,
    /// Asked for when too many waited: never proposed.
    pub(crate) refused: u64,
    /// Something is being carried out: what it asks for comes after it.
    pub(crate) busy: bool,
}

impl Proposals {
    /// Tasks that asked the registry and wait for that to be committed.
    pub(crate) fn askers(&self) -> impl Iterator<Item = TaskId> {
        self.waiting.values().filter_map(|waiting| match waiting {
            Waiting::Asker(task, ..) => Some(*task),
            _ => None,
        })
    }

    /// Whether it is not decided yet that a host is deleted, and will be.
    pub(crate) fn deletes(&self, host: HostId) -> bool {
        self.stated.contains_key(&Fact::Left(host, true))
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether one more may wait; else the limit that it meets.
    pub(crate) fn room(&self, waiting: &Waiting) -> Result<(), Fault> {
        let shares = match waiting {
            Waiting::Newcomer(_) => {
                Vec::from([("newcomers that wait for the log", self.newcomers, NEWCOMERS_MAX)])
            }
            Waiting::Owner(_) | Waiting::Network(_) | Waiting::Table(_) => {
                Vec::from([("changes of the owner that wait for the log", self.owners, OWNERS_MAX)])
            }
            Waiting::Promise(host, _) | Waiting::Holds(host) | Waiting::Confirm(host, _) => {
                let of_host = self.by_host.get(host).copied().unwrap_or(0);
                Vec::from([
                    ("changes of one host that wait for the log", of_host, HOST_PROPOSALS_MAX),
                    ("changes that wait for the log", self.of_hosts(), PROPOSALS_MAX),
                ])
            }
            Waiting::Task(task, ..) | Waiting::Asker(task, ..) => {
                let of_task = self.by_task.get(task).copied().unwrap_or(0);
                let of_host = self.by_host.get(&task.host()).copied().unwrap_or(0);
                let all = self.of_hosts();
                Vec::from([
                    ("changes of one task that wait for the log", of_task, TASK_PROPOSALS_MAX),
                    ("changes of one host that wait for the log", of_host, HOST_PROPOSALS_MAX),
                    ("changes that wait for the log", all, PROPOSALS_MAX),
                ])
            }
        };
        match shares.into_iter().find(|(_, has, most)| has >= most) {
            Some((what, _, most)) => Err(Fault::Limit { what: what.into(), limit: most as u64 }),
            None => Ok(()),
        }
    }

    /// How many wait that are neither newcomers nor owners.
    fn of_hosts(&self) -> usize {
        self.waiting.len() - self.newcomers - self.owners
    }

    /// Asks the log for what nobody waits for, unless that is asked for already.
    pub(crate) fn state(&mut self, log: &mut dyn Commits, command: Command) {
        let fact = Fact::of(&command);
        if fact.is_some_and(|fact| self.stated.contains_key(&fact)) {
            self.repeated += 1;
            return;
        }
        let ticket = log.propose(command);
        if let Some(fact) = fact {
            self.facts.insert(ticket, fact);
            self.stated.insert(fact, ticket);
        }
    }

    /// What `task` asks stands behind its end, and behind what its host's connection ended: these
    /// are to be stated anew.
    fn asks(&mut self, task: TaskId) {
        for fact in [Fact::TaskOver(task), Fact::ForgetWaits(task.host())] {
            self.stated.remove(&fact);
        }
    }

    pub(crate) fn wait(&mut self, ticket: Ticket, waiting: Waiting) {
        match &waiting {
            Waiting::Newcomer(_) => self.newcomers += 1,
            Waiting::Owner(_) | Waiting::Network(_) | Waiting::Table(_) => self.owners += 1,
            Waiting::Promise(host, _) | Waiting::Holds(host) | Waiting::Confirm(host, _) => {
                *self.by_host.entry(*host).or_default() += 1;
            }
            Waiting::Task(task, ..) | Waiting::Asker(task, ..) => {
                self.asks(*task);
                *self.by_task.entry(*task).or_default() += 1;
                *self.by_host.entry(task.host()).or_default() += 1;
            }
        }
        self.waiting.insert(ticket, waiting);
    }

    /// Who waited for a proposal, about which it is decided now.
    pub(crate) fn decided(&mut self, ticket: Ticket) -> Option<Waiting> {
        if let Some(fact) = self.facts.remove(&ticket)
            && self.stated.get(&fact) == Some(&ticket)
        {
            self.stated.remove(&fact);
        }
        let waiting = self.waiting.remove(&ticket)?;
        match &waiting {
            Waiting::Newcomer(_) => self.newcomers -= 1,
            Waiting::Owner(_) | Waiting::Network(_) | Waiting::Table(_) => self.owners -= 1,
            Waiting::Promise(host, _) | Waiting::Holds(host) | Waiting::Confirm(host, _) => {
                one_less(&mut self.by_host, *host);
            }
            Waiting::Task(task, ..) | Waiting::Asker(task, ..) => {
                one_less(&mut self.by_task, *task);
                one_less(&mut self.by_host, task.host());
            }
        }
        Some(waiting)
    }
}

pub(crate) fn one_less<K: Copy + Ord>(counts: &mut BTreeMap<K, usize>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

/// Who waits for a command.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A newcomer, by its connection.
    Newcomer(AssociationId),
    /// This host's owner, who issued or revoked the token of this nonce.
    Owner([u8; 16]),
    /// This host's owner, who said what the network is, by its number for that.
    Network(u64),
    /// This host's owner, who changed the host table, by its number for that.
    Table(u64),
    /// A host that asked for a promise: its answer is an effect.
    Promise(HostId, u64),
    /// A host that says which promises it has, or has not.
    Holds(HostId),
    /// A host that asks whether it is a member, by its number for that: its answer is an effect.
    Confirm(HostId, u64),
    /// A task, with what it is answered then.
    Task(TaskId, u64, Answer),
    /// A task that asked the registry: its answer is an effect. What is kept of its question is the
    /// state's once that is committed.
    Asker(TaskId, (u64, Serial), Option<Kept>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_vm::control::{Alone, Outcome};

    fn host(slot: u16) -> HostId {
        HostId::new(slot, 1).expect("a host")
    }

    fn task(slot: u16, n: u32) -> TaskId {
        host(slot).task(n).expect("a task")
    }

    /// How many may wait until there is no room, and what is said then.
    fn fill(all: &mut Proposals, tickets: &mut u64, of: impl Fn(u64) -> Waiting) -> (usize, Fault) {
        let before = all.len();
        loop {
            *tickets += 1;
            let waiting = of(*tickets);
            if let Err(fault) = all.room(&waiting) {
                return (all.len() - before, fault);
            }
            all.wait(Ticket(*tickets), waiting);
        }
    }

    #[test]
    fn tasks_and_hosts_have_shares_and_newcomers_and_owners_are_counted_apart() {
        let (mut all, mut n) = (Proposals::default(), 0);
        let limit =
            |what: &str, limit: usize| Fault::Limit { what: what.into(), limit: limit as u64 };
        let of_task = limit("changes of one task that wait for the log", 1024);
        let of_host = limit("changes of one host that wait for the log", 4096);
        let asks = |slot, t| move |n| Waiting::Task(task(slot, t), n, Answer::Done);
        assert_eq!(fill(&mut all, &mut n, asks(1, 1)), (1024, of_task.clone()));
        for t in 2..=4 {
            assert_eq!(fill(&mut all, &mut n, asks(1, t)), (1024, of_task.clone()));
        }
        let asker = |n| Waiting::Asker(task(1, 5), (n, Serial::default()), None);
        assert_eq!(fill(&mut all, &mut n, asker), (0, of_host.clone()));
        assert_eq!(fill(&mut all, &mut n, |_| Waiting::Holds(host(1))), (0, of_host.clone()));
        for _ in 0..3 {
            n += 1;
            all.wait(Ticket(n), Waiting::Network(n));
        }
        let promise = |slot| move |n| Waiting::Promise(host(slot), n);
        for slot in 2..=4 {
            assert_eq!(fill(&mut all, &mut n, promise(slot)), (4096, of_host.clone()));
        }
        let full = limit("changes that wait for the log", 16_384);
        assert_eq!(fill(&mut all, &mut n, promise(5)), (0, full.clone()));
        assert_eq!(fill(&mut all, &mut n, asks(5, 1)), (0, full));
        let newcomers = limit("newcomers that wait for the log", 4096);
        let newcomer = |n: u64| Waiting::Newcomer(AssociationId(n as u32));
        assert_eq!(fill(&mut all, &mut n, newcomer), (4096, newcomers));
        let owners = limit("changes of the owner that wait for the log", OWNERS_MAX);
        let owner = |n: u64| Waiting::Owner([n as u8; 16]);
        assert_eq!(fill(&mut all, &mut n, owner), (OWNERS_MAX - 3, owners.clone()));
        assert_eq!(fill(&mut all, &mut n, Waiting::Table), (0, owners.clone()));
        assert_eq!(fill(&mut all, &mut n, Waiting::Network), (0, owners));
        // The first asker is answered: it may ask once more, and so may its host.
        assert!(matches!(all.decided(Ticket(1)), Some(Waiting::Task(t, 1, _)) if t == task(1, 1)));
        assert_eq!(fill(&mut all, &mut n, asks(1, 1)).0, 1);
        for ticket in 1..=n {
            all.decided(Ticket(ticket));
        }
        assert_eq!((all.len(), all.newcomers, all.owners), (0, 0, 0));
        assert!(all.by_task.is_empty() && all.by_host.is_empty());
    }

    #[test]
    fn what_nobody_waits_for_is_proposed_once_until_it_is_decided() {
        let (mut all, mut log) = (Proposals::default(), Alone::default());
        let decided = |all: &mut Proposals, log: &mut Alone| {
            let mut count = 0;
            while let Some(Outcome::Committed(_, ticket, _)) = log.poll() {
                assert!(all.decided(ticket).is_none());
                count += 1;
            }
            count
        };
        let leave = |slot, deleted| Command::Leave(Leave { host: host(slot), deleted });
        let facts = [
            Command::Lost(host(1)),
            leave(1, false),
            leave(2, true),
            Command::TaskOver(task(1, 1)),
            Command::ForgetWaits(host(1)),
        ];
        for command in facts.iter().chain(&facts) {
            all.state(&mut log, command.clone());
        }
        assert_eq!(all.repeated, 5);
        assert_eq!([1, 2].map(|slot| all.deletes(host(slot))), [false, true]);
        // What a task asks stands behind its end, which is to be said anew.
        all.asks(task(1, 1));
        for command in &facts {
            all.state(&mut log, command.clone());
        }
        assert_eq!(all.repeated, 8);
        assert_eq!(decided(&mut all, &mut log), 7);
        assert!(!all.deletes(host(2)) && all.facts.is_empty() && all.stated.is_empty());
        // Whoever comes to lead is said every time.
        for command in [Command::Lead(host(1)), Command::Lead(host(1)), facts[0].clone()] {
            all.state(&mut log, command);
        }
        assert_eq!((all.repeated, decided(&mut all, &mut log)), (8, 3));
    }

    #[test]
    fn a_fact_that_was_said_anew_is_not_forgotten_with_the_first() {
        let (mut all, mut log) = (Proposals::default(), Alone::default());
        let over = Command::TaskOver(task(1, 1));
        all.state(&mut log, over.clone());
        all.wait(Ticket(99), Waiting::Asker(task(1, 1), (1, Serial::default()), None));
        all.state(&mut log, over.clone());
        let Some(Outcome::Committed(_, first, _)) = log.poll() else { panic!("it is decided") };
        all.decided(first);
        all.state(&mut log, over);
        assert_eq!(all.repeated, 1, "the second is not decided yet");
        assert!(all.askers().eq([task(1, 1)]));
    }
}
