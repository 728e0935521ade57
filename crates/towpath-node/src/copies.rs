//! Two daemons with one key: somebody has started a copy of a host's directory. Who asks to be let
//! in while another daemon with its key answers is not; where both are not in contact at once, and
//! connections are replaced by newer ones again and again, each waits longer: two that answer each
//! replacement with another would keep everybody busy for ever.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use towpath_proto::{AssociationId, HostKey};
use towpath_wire::{Admission, HostId, Instant};

/// Replacements further apart have nothing to do with each other.
const FORGOTTEN: Duration = Duration::from_mins(1);
/// The wait after the third one; twice as much after each further one.
const WAIT: Duration = Duration::from_millis(100);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// So many in a row are no accident of two hosts that call each other.
pub(crate) const CERTAIN: u32 = 4;

/// Somebody who asks under the key of a host with which a connection stands to another daemon: that
/// one is asked for a sign of life.
#[derive(Debug)]
pub(crate) struct Doubt {
    pub(crate) id: AssociationId,
    pub(crate) key: HostKey,
    pub(crate) admission: Admission,
    pub(crate) remote: SocketAddr,
    pub(crate) hello: Vec<u8>,
    pub(crate) since: Instant,
    /// When this is looked at next.
    pub(crate) look_at: Instant,
}

/// By host, one entry for each of the table: memory does not grow with those who ask.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// Replacements in a row, and when the last one was.
    replaced: BTreeMap<HostId, (u32, Instant)>,
    /// Who waits until it is known.
    pub(crate) doubts: BTreeMap<HostId, Doubt>,
    /// Connections to hosts that were asked because of somebody who waited, and did not answer, and
    /// when they were heard last then.
    unanswered: BTreeMap<HostId, (AssociationId, Instant)>,
    /// When the owner was told last of one that was not let in.
    told: BTreeMap<HostId, Instant>,
}

impl Copies {
    /// A host closed our connection because a newer one took its place: how many times in a row.
    pub(crate) fn replaced(&mut self, now: Instant, host: HostId) -> u32 {
        let (count, at) = self.replaced.entry(host).or_insert((0, now));
        *count = if now.since(*at) < FORGOTTEN { count.saturating_add(1) } else { 1 };
        *at = now;
        *count
    }

    /// How long to wait before that host is called again.
    pub(crate) fn wait(&self, now: Instant, host: HostId) -> Duration {
        let last = self.replaced.get(&host).filter(|(_, at)| now.since(*at) < FORGOTTEN);
        let beyond = last.map_or(0, |(count, _)| count.saturating_sub(2));
        if beyond == 0 {
            Duration::ZERO
        } else {
            (WAIT * (1 << (beyond - 1).min(16))).min(WAIT_MAX)
        }
    }

    /// A host has not answered on a connection that was heard at that time last: nobody else waits
    /// for it. So whoever sends recorded handshakes keeps out nobody for longer.
    pub(crate) fn does_not_answer(&mut self, host: HostId, up: AssociationId, heard_at: Instant) {
        self.unanswered.insert(host, (up, heard_at));
    }

    /// Whether that is so, and it was not heard since.
    pub(crate) fn is_unanswered(&self, host: HostId, up: AssociationId, heard_at: Instant) -> bool {
        self.unanswered.get(&host) == Some(&(up, heard_at))
    }

    /// One that asked was not let in. Whether that is news.
    pub(crate) fn is_news(&mut self, now: Instant, host: HostId) -> bool {
        let told = self.told.insert(host, now);
        told.is_none_or(|told| now.since(told) >= FORGOTTEN)
    }

    /// A host is none any more. Who waits for it is judged as any other.
    pub(crate) fn forget(&mut self, host: HostId) {
        self.replaced.remove(&host);
        self.unanswered.remove(&host);
        self.told.remove(&host);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use towpath_wire::{HostId, Instant};

    use super::Copies;

    #[test]
    fn two_replacements_are_an_accident_and_each_further_one_waits_twice_as_long() {
        let (mut copies, host) = (Copies::default(), HostId::new(2, 2).expect("a host"));
        let mut now = Instant::ZERO + Duration::from_secs(1);
        let waits: [u64; 13] = core::array::from_fn(|n| {
            assert_eq!(copies.replaced(now, host), n as u32 + 1);
            let wait = copies.wait(now, host);
            now += wait;
            wait.as_millis() as u64
        });
        let expected = [0, 0, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000];
        assert_eq!(waits, expected);
        now += Duration::from_mins(1);
        assert_eq!((copies.wait(now, host), copies.replaced(now, host)), (Duration::ZERO, 1));
        copies.forget(host);
        assert_eq!(copies.replaced(now, host), 1);
    }

    #[test]
    fn replacements_a_minute_apart_have_nothing_to_do_with_each_other() {
        let (mut copies, host) = (Copies::default(), HostId::new(2, 2).expect("a host"));
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        for n in 1..=3 {
            assert_eq!(copies.replaced(at(5), host), n);
        }
        assert_eq!(copies.wait(at(5 + 59_999), host), Duration::from_millis(100));
        assert_eq!(copies.wait(at(5 + 60_000), host), Duration::ZERO);
        assert_eq!(copies.replaced(at(5 + 59_999), host), 4);
        assert_eq!(copies.replaced(at(5 + 59_999 + 60_000), host), 1);
        // However many there are, nobody waits for longer.
        let all: u32 = (0..99).map(|_| copies.replaced(at(0), host)).max().expect("some");
        assert_eq!((all, copies.wait(at(0), host)), (100, Duration::from_secs(30)));
    }
}
