//! Who keeps the log, by which names, and who is to: a function of the host table and of whom the
//! leader reaches.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;

use towpath_vm::consensus::ReplicaId;
use towpath_vm::{Host, HostState, Snapshot};
use towpath_wire::HostId;
use towpath_wire::id::TASK_MAX;

use crate::parting::Parting;

/// A replica is a host, and which of those that this host has been: it may be taken in again after
/// it was removed, with nothing of what it had.
pub(crate) const fn replica_of(host: HostId, which: u64) -> ReplicaId {
    ReplicaId(host.to_raw() | which & TASK_MAX as u64)
}

pub(crate) fn host_of(id: ReplicaId) -> Option<HostId> {
    HostId::try_from(id.0 & !u64::from(TASK_MAX)).ok()
}

pub(crate) fn hosts_of(ids: &BTreeSet<ReplicaId>) -> BTreeSet<HostId> {
    ids.iter().filter_map(|id| host_of(*id)).collect()
}

/// A life of the log, and one that keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogName {
    pub(crate) generation: u64,
    pub(crate) replica: u64,
}

impl LogName {
    /// Whether a host in its present life is meant.
    pub(crate) fn is_of(&self, host: Option<HostId>) -> bool {
        host.is_some() && host_of(ReplicaId(self.replica)) == host
    }
}

/// How the host that leads reaches others.
pub(crate) trait Reach {
    /// It is in contact.
    fn is_up(&self, host: HostId) -> bool;
    /// It was heard just now: one that is sent the log answers every beat.
    fn is_heard(&self, host: HostId) -> bool;
}

/// A change of who takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A host is to be sent the log.
    Learn(HostId),
    /// Every host is to know that these may come to lead.
    Name(BTreeSet<HostId>),
    /// One that is sent the log is to vote.
    Promote(HostId),
    /// A host takes part no longer.
    Remove(HostId),
}

/// Who takes part.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) voters: &'a BTreeSet<HostId>,
    pub(crate) learners: &'a BTreeSet<HostId>,
    /// Those that have said that they have something of the log: they keep it.
    pub(crate) acked: &'a BTreeSet<HostId>,
    pub(crate) wanted: u8,
    pub(crate) parting: &'a Parting,
}

/// One of one or two hosts, three of three or four, five of more; no more than are wanted.
const fn voters_of(hosts: usize, wanted: u8) -> usize {
    match (hosts, wanted) {
        (5.., 5..) => 5,
        (3.., 3..) => 3,
        _ => 1,
    }
}

/// What is to be changed about who takes part. Whoever is lost is replaced, never only removed:
/// the voters become fewer only where hosts leave, or end by themselves ([`Parting`]).
pub(crate) fn next_step(seen: &Seen<'_>, told: &Snapshot, reach: &dyn Reach) -> Option<Step> {
    let table = &told.table;
    let is_up = |host: &HostId| table.get(*host).is_some_and(|h| h.state == HostState::Up);
    let Seen { voters, learners, acked, wanted, parting } = *seen;
    if let Some(gone) = learners.iter().find(|host| !is_up(host)) {
        return Some(Step::Remove(*gone));
    }
    let up = table.up().count();
    let target = voters_of(up, wanted);
    let living = voters.iter().filter(|host| is_up(host)).count();
    let dead = voters.iter().find(|host| !is_up(host));
    // Whoever left is in the table no longer.
    if let Some(left) = dead.filter(|host| table.get(**host).is_none()) {
        return Some(Step::Remove(*left));
    }
    if let Some(host) = parting.takes_out(voters, &is_up) {
        return Some(Step::Remove(host));
    }
    let stays = |host: &HostId| !parting.hosts.contains_key(host);
    // Those that are to vote begin together: two that vote could decide less than one. With two
    // hosts, the second one holds everything, and does not vote.
    let lacking = target.saturating_sub(living);
    let learns = learners.len() < lacking.max((wanted > 1 && up == 2 && voters.len() == 1).into());
    let newcomer = || {
        let addresses: Vec<IpAddr> =
            voters.iter().filter_map(|v| table.get(*v)).map(|h| h.addr.ip()).collect();
        let is_new = |host| !voters.contains(&host) && !learners.contains(&host);
        let fit = table.up().filter(|h| is_new(h.id) && stays(&h.id) && reach.is_up(h.id));
        // Not one that is to be taken out; those on other machines, then those that have been here
        // longest.
        let order = |h: &&Host| (h.drains(), addresses.contains(&h.addr.ip()), h.id.incarnation());
        fit.min_by_key(order).map(|h| h.id)
    };
    if let Some(host) = learns.then(newcomer).flatten() {
        return Some(Step::Learn(host));
    }
    // One that votes, and has nothing to vote with, could never be outvoted.
    let is_ready = |host: &HostId| acked.contains(host) && reach.is_heard(*host) && stays(host);
    if lacking > 0 && learners.len() >= lacking && learners.iter().all(is_ready) {
        return learners.first().copied().map(Step::Promote);
    }
    // One is removed only where as many live as there are to be.
    if let Some(lost) = dead.filter(|_| living >= target.max(3)) {
        return Some(Step::Remove(*lost));
    }
    // Two that vote could decide less than one: of three, one has left.
    let fewer = up <= 2 && living == 2 && voters.len() == 2;
    let other = voters.iter().find(|host| **host != told.leader);
    other.copied().filter(|_| fewer).map(Step::Remove)
}

#[cfg(test)]
pub(crate) mod tests {
    use alloc::format;

    use towpath_vm::{ControlLog, Fields};

    use super::*;

    pub(crate) fn id(slot: u16) -> HostId {
        HostId::new(slot, slot.into()).expect("a host")
    }

    pub(crate) fn host(slot: u16) -> Host {
        Host {
            id: id(slot),
            name: format!("h{slot}"),
            // Two of each machine.
            addr: ([10, 0, 0, slot as u8 / 2], 7000 + slot).into(),
            key: [slot as u8; 32],
            arch: "any".into(),
            speed: 1000,
            cpus: 1,
            slots: 1,
            state: HostState::Up,
            fields: Fields::default(),
        }
    }

    /// Everybody is reached, but for these.
    pub(crate) struct But(pub(crate) &'static [u16]);

    impl Reach for But {
        fn is_up(&self, host: HostId) -> bool {
            !self.0.contains(&host.slot())
        }

        fn is_heard(&self, host: HostId) -> bool {
            self.is_up(host)
        }
    }

    struct Case {
        up: &'static [u16],
        lost: &'static [u16],
        voters: &'static [u16],
        learners: &'static [u16],
        wanted: u8,
        unheard: &'static [u16],
        silent: &'static [u16],
    }

    const CASE: Case = Case {
        up: &[],
        lost: &[],
        voters: &[1],
        learners: &[],
        wanted: 3,
        unheard: &[],
        silent: &[],
    };

    fn step(case: &Case) -> Option<Step> {
        let mut all = case.up.iter().chain(case.lost).map(|slot| host(*slot));
        let mut log = ControlLog::found(all.next().expect("a host"), 1);
        for host in all {
            log.append(towpath_vm::Change::Added(host));
        }
        for slot in case.lost {
            log.append(towpath_vm::Change::Lost(id(*slot)));
        }
        let ids = |slots: &[u16]| slots.iter().map(|s| id(*s)).collect::<BTreeSet<_>>();
        let (voters, learners) = (ids(case.voters), ids(case.learners));
        let told = Snapshot { leader: id(1), ..log.snapshot().clone() };
        let acked = ids(case.learners).into_iter().filter(|id| !case.silent.contains(&id.slot()));
        let acked: BTreeSet<HostId> = acked.collect();
        let wanted = case.wanted;
        let parting = &Parting::default();
        let seen = Seen { voters: &voters, learners: &learners, acked: &acked, wanted, parting };
        super::next_step(&seen, &told, &But(case.unheard))
    }

    #[test]
    fn those_that_are_to_vote_are_sent_the_log_first_and_begin_together() {
        assert_eq!(step(&Case { up: &[1], ..CASE }), None);
        let two = Case { up: &[1, 2], ..CASE };
        assert_eq!(step(&two), Some(Step::Learn(id(2))), "it holds everything");
        assert_eq!(step(&Case { learners: &[2], ..two }), None, "and does not vote");
        let three = || Case { up: &[1, 2, 3], ..CASE };
        assert_eq!(step(&Case { learners: &[2], ..three() }), Some(Step::Learn(id(3))));
        let both = || Case { learners: &[2, 3], ..three() };
        assert_eq!(step(&both()), Some(Step::Promote(id(2))));
        assert_eq!(step(&Case { unheard: &[3], ..both() }), None, "it is silent");
        assert_eq!(step(&Case { silent: &[3], ..both() }), None, "it has nothing yet");
        let half = Case { voters: &[1, 2], learners: &[3], ..three() };
        assert_eq!(step(&half), Some(Step::Promote(id(3))));
        assert_eq!(step(&Case { voters: &[1, 2, 3], ..three() }), None);
        assert_eq!(step(&Case { wanted: 1, ..three() }), None);
        let five = Case { up: &[1, 2, 3, 4, 5], voters: &[1, 2, 3], wanted: 5, ..CASE };
        assert_eq!(step(&five), Some(Step::Learn(id(4))));
        let four = Case { up: &[1, 2, 3, 4], voters: &[1, 2, 3], wanted: 5, ..CASE };
        assert_eq!(step(&four), None, "four decide no more than three");
    }

    #[test]
    fn hosts_of_other_machines_vote_first_then_those_that_have_been_there_longest() {
        // The second and the third share a machine, the fourth has another.
        let case = Case { up: &[1, 2, 3, 4], learners: &[2], ..CASE };
        assert_eq!(step(&case), Some(Step::Learn(id(3))), "learners do not count yet");
        let case = Case { up: &[2, 3, 4, 6], lost: &[1], voters: &[1, 2, 4], ..CASE };
        assert_eq!(step(&case), Some(Step::Learn(id(6))), "3 shares a machine with 2");
        let case =
            Case { up: &[2, 3, 4, 6], unheard: &[6], lost: &[1], voters: &[1, 2, 4], ..CASE };
        assert_eq!(step(&case), Some(Step::Learn(id(3))));
    }

    #[test]
    fn who_is_lost_is_replaced_and_who_left_is_removed() {
        let lost = || Case { up: &[2, 3, 4], lost: &[1], voters: &[1, 2, 3], ..CASE };
        assert_eq!(step(&lost()), Some(Step::Learn(id(4))));
        assert_eq!(step(&Case { learners: &[4], ..lost() }), Some(Step::Promote(id(4))));
        let after = Case { voters: &[1, 2, 3, 4], ..lost() };
        assert_eq!(step(&after), Some(Step::Remove(id(1))));
        let nobody = Case { up: &[2, 3], ..lost() };
        assert_eq!(step(&nobody), None, "there is nobody in its place");
        let learner = Case { up: &[1, 3], lost: &[2], learners: &[2], ..CASE };
        assert_eq!(step(&learner), Some(Step::Remove(id(2))));
        // The table knows nothing of who left.
        let left = Case { up: &[1, 2, 4], voters: &[1, 2, 3], ..CASE };
        assert_eq!(step(&left), Some(Step::Remove(id(3))));
        let two = Case { up: &[1, 2], voters: &[1, 2], ..CASE };
        assert_eq!(step(&two), Some(Step::Remove(id(2))), "one of two decides alone");
    }

    #[test]
    fn nobody_is_sent_the_log_whom_it_does_not_need() {
        assert_eq!(step(&Case { up: &[1, 2], wanted: 1, ..CASE }), None);
        let enough = Case { up: &[1, 2, 3, 4], voters: &[1, 2, 3], ..CASE };
        assert_eq!(step(&enough), None, "a fourth one would decide nothing");
        let waits = Case { up: &[1, 2, 3], voters: &[1, 2], unheard: &[3], ..CASE };
        assert_eq!(step(&waits), None, "a third one will be there");
    }

    #[test]
    fn a_replica_is_a_host_and_which_of_those_that_it_has_been() {
        assert_eq!(replica_of(id(3), 5).0, id(3).to_raw() | 5);
        let last = u64::from(TASK_MAX);
        for which in [0, 5, last, last + 1, u64::MAX] {
            let name = LogName { generation: 1, replica: replica_of(id(3), which).0 };
            assert_eq!(host_of(ReplicaId(name.replica)), Some(id(3)), "{which}");
            let later = HostId::new(3, 9);
            for (host, is) in [(Some(id(3)), true), (Some(id(2)), false), (later, false)] {
                assert_eq!(name.is_of(host), is, "{host:?}");
            }
        }
        let nobody = LogName { generation: 1, replica: 0 };
        assert!(host_of(ReplicaId(0)).is_none() && !nobody.is_of(None));
    }
}
