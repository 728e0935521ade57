//! Hosts that the leader lost contact with, before it says that they are lost.
//!
//! That a host is silent is the leader's own view: the leader may itself have been cut off, or have
//! stood still. A host that died is declared lost at once where the leader has proof that it is
//! itself in contact: others were heard while that one was silent, and they are more than those
//! that are silent, too. Whoever said itself that the connection is over lives. In every other case
//! the leader waits for the host to connect again, and goes on trying itself; decision 9 has the
//! times and what yields.

use alloc::collections::BTreeMap;

use towpath_wire::{HostId, Instant};

#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    /// It is lost then, if the leader is in contact with another host, or has no other.
    pub(crate) until: Instant,
    /// It is lost then in any case.
    pub(crate) latest: Instant,
    /// The others that keep the log have been asked whether they reach it: who has said that it
    /// does not, and who has said nothing yet.
    pub(crate) asked: Option<BTreeMap<HostId, bool>>,
}

/// Hosts that are up by the table and out of contact (leader only). Invariant: `at` is set where
/// there are some.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    pub(crate) by_host: BTreeMap<HostId, Suspect>,
    pub(crate) at: Option<Instant>,
    /// When the leader was last in contact with somebody again, having been so with nobody.
    pub(crate) back: Option<Instant>,
}

impl Suspects {
    /// Whether a host is out of contact.
    pub(crate) fn has(&self, host: HostId) -> bool {
        self.by_host.contains_key(&host)
    }

    /// Whether any host is.
    pub(crate) fn any(&self) -> bool {
        !self.by_host.is_empty()
    }

    /// A host is in contact again.
    pub(crate) fn clear(&mut self, host: HostId) {
        self.by_host.remove(&host);
    }

    /// None is lost before `until`.
    pub(crate) fn put_off(&mut self, until: Instant) {
        self.by_host.values_mut().for_each(|suspect| suspect.until = suspect.until.max(until));
        self.arm();
    }

    pub(crate) fn arm(&mut self) {
        self.at = self.by_host.values().map(|s| s.until.min(s.latest)).min();
    }
}

/// How the leader's other hosts answer at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Others {
    /// Heard since some time.
    pub(crate) heard: usize,
    /// Not in contact, or silent though asked.
    pub(crate) silent: usize,
    /// All of them.
    pub(crate) all: usize,
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn whoever_is_put_off_is_not_lost_before_that_and_no_later_than_at_the_latest() {
        let at = |s| Instant::ZERO + Duration::from_secs(s);
        let host = |slot| HostId::new(slot, 1).expect("a host");
        let mut suspects = Suspects::default();
        suspects.arm();
        assert_eq!((suspects.any(), suspects.at), (false, None));
        for (slot, until, latest) in [(1, 5, 9), (2, 7, 8), (3, 12, 11)] {
            let suspect = Suspect { until: at(until), latest: at(latest), asked: None };
            suspects.by_host.insert(host(slot), suspect);
        }
        suspects.arm();
        assert_eq!((suspects.any(), suspects.at), (true, Some(at(5))));
        suspects.put_off(at(10));
        let until = suspects.by_host.values().map(|suspect| suspect.until);
        assert!(until.eq([at(10), at(10), at(12)]));
        assert_eq!(suspects.at, Some(at(8)), "one is lost then in any case");
        suspects.clear(host(2));
        suspects.arm();
        assert_eq!((suspects.has(host(2)), suspects.has(host(1))), (false, true));
        assert_eq!(suspects.at, Some(at(9)));
    }
}
