//! Hosts that keep the log and are about to end: which have to be taken out of it first.
//!
//! One that ends for now comes back, and keeps the log with the others again. As long as most of
//! those that vote stay, nothing is to be changed for that. Where too few would stay, they are
//! taken out one by one, first those that do not vote any more, and wait for that.

use alloc::collections::{BTreeMap, BTreeSet};

use towpath_proto::AssociationId;
use towpath_wire::HostId;

/// What is known of hosts that are about to end.
#[derive(Debug, Default)]
pub(crate) struct Parting {
    /// Those that said so, and whether they may: this host, which leads, has told them, or they
    /// have said that they do.
    pub(crate) hosts: BTreeMap<HostId, bool>,
    pub(crate) own: Own,
}

/// How far this host is, where it is about to end itself.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// It kept the log when it was to end.
    pub(crate) kept: bool,
    /// It led when it was to end, and asked another one to.
    pub(crate) handed: bool,
    /// Those that keep the log with it and were told, on which connections, and that it ends now.
    pub(crate) said: BTreeMap<HostId, (AssociationId, bool)>,
    /// The leader said that it may.
    pub(crate) may: bool,
}

impl Parting {
    /// Whether somebody waits to hear that it may end.
    pub(crate) fn waits(&self) -> bool {
        self.hosts.values().any(|told| !told)
    }

    /// Whether most of these would go on voting.
    fn suffices(&self, voters: &BTreeSet<HostId>, is_up: &dyn Fn(&HostId) -> bool) -> bool {
        let stays = |host: &&HostId| is_up(host) && !self.hosts.contains_key(*host);
        2 * voters.iter().filter(stays).count() > voters.len()
    }

    /// Who may end now, of those that wait: each is named once.
    pub(crate) fn may_end(
        &mut self,
        voters: &BTreeSet<HostId>,
        is_up: &dyn Fn(&HostId) -> bool,
    ) -> BTreeSet<HostId> {
        let suffices = self.suffices(voters, is_up);
        let untold = self.hosts.iter_mut().filter(|(_, told)| !**told);
        let may = untold.filter(|(host, _)| suffices || !voters.contains(host));
        may.map(|(host, told)| {
            *told = true;
            *host
        })
        .collect()
    }

    /// Who is to be taken out next, so that those that are about to end may: one that does not
    /// vote any more, or may end already, before one that still votes. `None`: nobody has to be,
    /// or nobody stays who could decide it.
    pub(crate) fn takes_out(
        &self,
        voters: &BTreeSet<HostId>,
        is_up: &dyn Fn(&HostId) -> bool,
    ) -> Option<HostId> {
        let parts = |told: bool| {
            voters.iter().find(|host| is_up(host) && self.hosts.get(*host) == Some(&told)).copied()
        };
        let stays = |host: &HostId| is_up(host) && !self.hosts.contains_key(host);
        let waits = parts(false)?;
        if self.suffices(voters, is_up) || !voters.iter().any(stays) {
            return None;
        }
        let gone = voters.iter().find(|host| !is_up(host)).copied();
        Some(gone.or_else(|| parts(true)).unwrap_or(waits))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    fn ids(slots: &[u16]) -> BTreeSet<HostId> {
        slots.iter().map(|slot| HostId::new(*slot, 1).expect("a host")).collect()
    }

    /// In which order they are taken out, and who may end after each: those that voted, those of
    /// them that are lost, those that may end already, those that wait.
    fn order(voters: &[u16], lost: &[u16], told: &[u16], wait: &[u16]) -> (Vec<u16>, Vec<u16>) {
        let (mut voters, lost) = (ids(voters), ids(lost));
        let is_up = |host: &HostId| !lost.contains(host);
        let told = ids(told).into_iter().map(|host| (host, true));
        let hosts = told.chain(ids(wait).into_iter().map(|host| (host, false))).collect();
        let mut parting = Parting { hosts, own: Own::default() };
        let (mut out, mut may) = (Vec::new(), Vec::new());
        loop {
            may.extend(parting.may_end(&voters, &is_up).into_iter().map(HostId::slot));
            let Some(host) = parting.takes_out(&voters, &is_up) else { break };
            assert!(voters.remove(&host));
            out.push(host.slot());
        }
        assert!(parting.may_end(&voters, &is_up).is_empty(), "told once");
        (out, may)
    }

    #[test]
    fn one_that_ends_changes_nothing_while_most_stay() {
        assert_eq!(order(&[1, 2, 3], &[], &[], &[3]), (vec![], vec![3]));
        assert_eq!(order(&[1, 2, 3, 4, 5], &[], &[], &[2, 3]), (vec![], vec![2, 3]));
        assert_eq!(order(&[1, 2, 3, 4, 5], &[4], &[], &[3]), (vec![], vec![3]));
        assert_eq!(order(&[1], &[], &[], &[2]), (vec![], vec![2]), "it does not vote");
    }

    #[test]
    fn who_votes_no_more_is_taken_out_before_who_does() {
        assert_eq!(order(&[1, 2, 3], &[], &[], &[2, 3]), (vec![2, 3], vec![2, 3]));
        assert_eq!(order(&[1, 2, 3], &[], &[3], &[2]), (vec![3, 2], vec![2]));
        assert_eq!(order(&[1, 2, 3], &[3], &[], &[2]), (vec![3, 2], vec![2]));
        assert_eq!(order(&[1, 2, 3, 4, 5], &[4, 5], &[], &[3]), (vec![4, 5], vec![3]));
        assert_eq!(order(&[1, 2, 3, 4, 5], &[5], &[4], &[3]), (vec![5, 4], vec![3]));
        assert_eq!(order(&[1, 2], &[], &[], &[2]), (vec![2], vec![2]));
    }

    #[test]
    fn nobody_is_taken_out_where_nobody_stays_to_decide_it() {
        assert_eq!(order(&[1, 2, 3], &[2, 3], &[], &[1]), (vec![], vec![]));
        assert_eq!(order(&[1, 2, 3], &[], &[2], &[1, 3]), (vec![], vec![]));
    }
}
