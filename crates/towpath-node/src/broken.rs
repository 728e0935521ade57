//! Two hosts that cannot reach each other while others reach both. Both stay: that reach is not
//! transitive ends nothing but what needed those two, which both have given up with their
//! connection. They go on calling each other, are given nothing new by each other, and the leader
//! knows of it, so that people can be told.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use towpath_wire::HostId;

/// How soon a host that was called in vain is called again, the second time and at the latest.
const CALL_AFTER: Duration = Duration::from_secs(1);
const CALL_AFTER_MOST: Duration = Duration::from_secs(8);

/// Who cannot reach whom, as a leader knows it at most; of more it tells nobody.
pub(crate) const APART_MAX: usize = 16_384;

/// Which hosts cannot reach each other.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    /// By who said so, and whom it cannot reach (leader only).
    between: BTreeSet<(HostId, HostId)>,
    /// Hosts that this one cannot reach, and how often it has called them in vain.
    unreached: BTreeMap<HostId, u32>,
    /// Times that one was told that is one too many.
    pub(crate) untold: u64,
}

impl Broken {
    /// A host cannot be reached from here: after what time it is to be called again.
    pub(crate) fn cannot_reach(&mut self, host: HostId) -> Duration {
        let vain = self.unreached.entry(host).and_modify(|n| *n = n.saturating_add(1)).or_default();
        let Some(more) = vain.checked_sub(1) else { return Duration::ZERO };
        CALL_AFTER.saturating_mul(1 << more.min(8)).min(CALL_AFTER_MOST)
    }

    /// It can. True if it could not.
    pub(crate) fn reaches(&mut self, host: HostId) -> bool {
        self.unreached.remove(&host).is_some()
    }

    /// Hosts that cannot be reached from here.
    pub(crate) fn unreached(&self) -> impl Iterator<Item = HostId> + '_ {
        self.unreached.keys().copied()
    }

    /// Another host says that it cannot reach a third.
    pub(crate) fn parts(&mut self, from: HostId, host: HostId) {
        if self.between.len() < APART_MAX || self.between.contains(&(from, host)) {
            self.between.insert((from, host));
        } else {
            self.untold += 1;
        }
    }

    /// Two reach each other, as one of them says.
    pub(crate) fn joins(&mut self, from: HostId, host: HostId) {
        self.between.remove(&(from, host));
        self.between.remove(&(host, from));
    }

    /// What this one has said is said anew.
    pub(crate) fn forget_of(&mut self, from: HostId) {
        self.between.retain(|(by, _)| *by != from);
    }

    /// A host is gone.
    pub(crate) fn forget(&mut self, host: HostId) {
        self.between.retain(|(a, b)| *a != host && *b != host);
        self.unreached.remove(&host);
    }

    /// This host is another one now.
    pub(crate) fn forget_all(&mut self) {
        self.forget_others();
        self.unreached.clear();
    }

    /// This host leads no longer, or has not led before.
    pub(crate) fn forget_others(&mut self) {
        self.between.clear();
    }

    /// Pairs that cannot reach each other, once each, the lower one first.
    pub(crate) fn apart(&self) -> BTreeSet<(HostId, HostId)> {
        self.between.iter().map(|(a, b)| (*a.min(b), *a.max(b))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u16) -> HostId {
        HostId::new(slot, slot.into()).expect("a host")
    }

    #[test]
    fn one_that_is_called_in_vain_is_called_less_and_less_often() {
        let mut broken = Broken::default();
        let waits: [u64; 7] = core::array::from_fn(|_| broken.cannot_reach(id(2)).as_secs());
        assert_eq!(waits, [0, 1, 2, 4, 8, 8, 8]);
        assert_eq!(broken.cannot_reach(id(3)), Duration::ZERO, "another one");
        assert!(broken.unreached().eq([2, 3].map(id)));
        assert!(broken.reaches(id(2)) && !broken.reaches(id(2)));
        assert_eq!(broken.cannot_reach(id(2)), Duration::ZERO, "it was there meanwhile");
        broken.forget(id(3));
        assert!(broken.unreached().eq([id(2)]));
    }

    #[test]
    fn a_pair_is_apart_until_either_says_otherwise_or_is_gone() {
        let mut broken = Broken::default();
        for (from, host) in [(3, 2), (2, 3), (4, 2), (5, 6)] {
            broken.parts(id(from), id(host));
        }
        let apart = |broken: &Broken| -> alloc::vec::Vec<_> {
            broken.apart().into_iter().map(|(a, b)| (a.slot(), b.slot())).collect()
        };
        assert_eq!(apart(&broken), [(2, 3), (2, 4), (5, 6)]);
        broken.forget_of(id(3));
        assert_eq!(apart(&broken), [(2, 3), (2, 4), (5, 6)], "the other one said it, too");
        broken.joins(id(3), id(2));
        broken.joins(id(4), id(3));
        assert_eq!(apart(&broken), [(2, 4), (5, 6)]);
        broken.forget(id(6));
        assert_eq!(apart(&broken), [(2, 4)]);
        broken.cannot_reach(id(2));
        broken.forget_others();
        assert_eq!((apart(&broken).len(), broken.unreached().count()), (0, 1));
        broken.untold = 3;
        broken.forget_all();
        assert_eq!((broken.unreached().count(), broken.untold), (0, 3), "what is counted stays");
    }

    #[test]
    fn a_leader_is_told_of_so_many_pairs_and_no_more() {
        let mut broken = Broken::default();
        for n in 0..APART_MAX as u16 {
            broken.parts(id(1 + n / 4000), id(10 + n % 4000));
        }
        assert_eq!((broken.apart().len(), broken.untold), (APART_MAX, 0));
        broken.parts(id(1), id(10));
        assert_eq!(broken.untold, 0, "one that is known");
        broken.parts(id(9), id(8));
        assert_eq!((broken.apart().len(), broken.untold), (APART_MAX, 1));
        broken.joins(id(10), id(1));
        broken.parts(id(9), id(8));
        assert_eq!((broken.apart().len(), broken.untold), (APART_MAX, 1));
    }
}
