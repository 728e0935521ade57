//! The paths of an association, and which of them speaks for it.

use core::net::SocketAddr;
use core::time::Duration;

use alloc::vec;
use alloc::vec::Vec;

use towpath_wire::{LinkId, PathId};

use super::path::Path;

/// Paths of an association at most.
pub(crate) const PATHS_MAX: usize = 16;

/// A path that is used no more, and what the peer knows of it.
struct Retired {
    path: PathId,
    /// Why, where the peer is to be told: who was told first need not be told again.
    telling: Option<u16>,
    /// It is to be told now.
    due: bool,
}

/// An address of ours that the peer is told.
struct Offer {
    number: PathId,
    link: LinkId,
    remote: SocketAddr,
    /// It is to be told now.
    due: bool,
}

/// Why a path was not retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetireError {
    /// There is none of this number.
    #[error("there is no path {0}")]
    Unknown(PathId),
    /// Nothing would be left to speak by: the association is to be closed instead.
    #[error("path {0} is the last one")]
    Last(PathId),
}

/// All paths, in the order of their numbers. Numbers are never used twice. Invariants: there is one
/// at least, and [`PATHS_MAX`] at most, retired ones among them, which still take in what comes;
/// one at least is proven and not retired.
pub(super) struct Paths {
    list: Vec<Path>,
    retired: Vec<Retired>,
    /// Bit `n`: the peer has made offer `n`.
    offered: u16,
    /// Ours, of the numbers from 1 on.
    offers: Vec<Offer>,
}

impl Paths {
    pub(super) fn new(first: Path) -> Self {
        Self { list: vec![first], retired: Vec::new(), offered: 1, offers: Vec::new() }
    }

    /// Adds a path under the next number; `None`: there are as many as may be, here or at the peer,
    /// which holds `peer_max`.
    pub(super) fn add(
        &mut self,
        peer_max: usize,
        path: impl FnOnce(PathId) -> Path,
    ) -> Option<PathId> {
        let id = PathId(self.list.last()?.id.0.checked_add(1)?);
        (self.list.len() < PATHS_MAX.min(peer_max)).then(|| {
            self.list.push(path(id));
            id
        })
    }

    /// Whether a path of this number, which there is not yet, could be added.
    pub(super) fn may_insert(&self, id: PathId) -> bool {
        let room = self.list.len() < PATHS_MAX && usize::from(id.0) < PATHS_MAX;
        room && self.position(id).is_none()
    }

    /// Adds one that the peer has numbered; returns its place.
    pub(super) fn insert(&mut self, path: Path) -> Option<usize> {
        if !self.may_insert(path.id) {
            return None;
        }
        let at = self.list.partition_point(|p| p.id < path.id);
        self.list.insert(at, path);
        Some(at)
    }

    /// Tells the peer of an address of ours; false: of too many already.
    pub(super) fn offer(&mut self, link: LinkId, remote: SocketAddr) -> bool {
        let number = PathId(self.offers.len() as u16 + 1);
        let fits = usize::from(number.0) < PATHS_MAX;
        if fits {
            self.offers.push(Offer { number, link, remote, due: true });
        }
        fits
    }

    /// An offer that is told with the packet being written.
    pub(super) fn poll_offer(&mut self) -> Option<(PathId, LinkId, SocketAddr)> {
        let offer = self.offers.iter_mut().find(|o| o.due)?;
        offer.due = false;
        Some((offer.number, offer.link, offer.remote))
    }

    /// The packet that told of it was lost.
    pub(super) fn offer_again(&mut self, number: PathId) {
        if let Some(offer) = self.offers.iter_mut().find(|o| o.number == number) {
            offer.due = true;
        }
    }

    /// The one that was there first, of those in use.
    pub(super) fn first(&self) -> &Path {
        self.list.iter().find(|p| !self.is_retired(p.id)).unwrap_or(&self.list[0])
    }

    pub(super) fn is_retired(&self, id: PathId) -> bool {
        self.retired.iter().any(|r| r.path == id)
    }

    /// Uses a path no more; the peer is told why where there is `telling`. Returns it, or `None`
    /// where it was retired before.
    pub(super) fn retire(
        &mut self,
        id: PathId,
        telling: Option<u16>,
    ) -> Result<Option<&mut Path>, RetireError> {
        let at = self.position(id).ok_or(RetireError::Unknown(id))?;
        if self.is_retired(id) {
            return Ok(None);
        }
        let other = |p: &Path| p.id != id && p.standing.is_proven() && !self.is_retired(p.id);
        if !self.list.iter().any(other) {
            return Err(RetireError::Last(id));
        }
        self.retired.push(Retired { path: id, telling, due: telling.is_some() });
        let path = &mut self.list[at];
        path.standing.set_up(false);
        Ok(Some(path))
    }

    /// True while the peer is to be told of a path that is retired, or of an address.
    pub(super) fn has_news(&self) -> bool {
        self.retired.iter().any(|r| r.due) || self.offers.iter().any(|o| o.due)
    }

    /// A path of whose end the peer is told with the packet being written, and why it is.
    pub(super) fn poll_news(&mut self) -> Option<(PathId, u16)> {
        let retired = self.retired.iter_mut().find(|r| r.due)?;
        retired.due = false;
        Some((retired.path, retired.telling?))
    }

    /// The packet that told of it was lost.
    pub(super) fn tell_again(&mut self, id: PathId) {
        if let Some(retired) = self.retired.iter_mut().find(|r| r.path == id) {
            retired.due = true;
        }
    }

    /// The peer offers a path; false where it is none that we could hold, or was offered before.
    pub(super) fn offered(&mut self, id: PathId) -> bool {
        let Some(bit) = 1u16.checked_shl(id.0.into()) else { return false };
        let news = self.offered & bit == 0;
        self.offered |= bit;
        news
    }

    /// A link came up or went down.
    pub(super) fn set_up(&mut self, link: LinkId, up: bool) {
        for at in 0..self.list.len() {
            if self.list[at].link == link {
                let up = up && !self.is_retired(self.list[at].id);
                self.list[at].standing.set_up(up);
            }
        }
    }

    /// Whether data goes by this path: it is fit, and no other makes its standby needless.
    pub(super) fn carries(&self, path: &Path) -> bool {
        let first = |p: &Path| p.standing.is_fit() && !p.standing.is_standby();
        path.standing.is_fit() && (!path.standing.is_standby() || !self.list.iter().any(first))
    }

    /// Those by which data goes.
    pub(super) fn carriers(&self) -> impl Iterator<Item = &Path> {
        self.list.iter().filter(|p| self.carries(p))
    }

    /// Whether more than one may carry, so that there is a choice.
    pub(super) fn are_several(&self) -> bool {
        self.list.len() > 1 && self.carriers().nth(1).is_some()
    }

    pub(super) fn position(&self, id: PathId) -> Option<usize> {
        self.list.iter().position(|p| p.id == id)
    }

    pub(super) fn by_id(&mut self, id: PathId) -> Option<&mut Path> {
        self.list.iter_mut().find(|p| p.id == id)
    }

    /// The first in use that goes out on `link`.
    pub(super) fn on(&self, link: LinkId) -> Option<usize> {
        self.list.iter().position(|p| p.link == link && !self.is_retired(p.id))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.list.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.list.iter_mut()
    }

    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether a path may carry data and control frames: any by which data goes, or any in use that
    /// is proven where there is none.
    pub(super) fn may_carry(&self, path: usize) -> bool {
        let none = || self.carriers().next().is_none();
        let p = &self.list[path];
        self.carries(p) || (p.standing.is_proven() && none() && !self.is_retired(p.id))
    }

    /// Those that can be counted on: the ones that data goes by, or all in use where there is none.
    fn living(&self) -> impl Iterator<Item = &Path> {
        let none = self.carriers().next().is_none();
        let used = move |p: &Path| p.standing.is_proven() && !self.is_retired(p.id);
        self.list.iter().filter(move |p| self.carries(p) || (none && used(p)))
    }

    /// The smoothed round trip of the quickest path that is up: what is late for it is late.
    pub(super) fn rtt(&self) -> Duration {
        if let [only] = self.list.as_slice() {
            return only.rtt.smoothed();
        }
        self.living().map(|p| p.rtt.smoothed()).min().unwrap_or_default()
    }

    /// The least round trip of any path; zero before one is known.
    pub(super) fn least_trip(&self) -> Duration {
        if let [only] = self.list.as_slice() {
            return only.rtt.min();
        }
        let known = self.living().map(|p| p.rtt.min()).filter(|trip| !trip.is_zero());
        known.min().unwrap_or_default()
    }
}

impl core::ops::Index<usize> for Paths {
    type Output = Path;
    fn index(&self, at: usize) -> &Path {
        &self.list[at]
    }
}

impl core::ops::IndexMut<usize> for Paths {
    fn index_mut(&mut self, at: usize) -> &mut Path {
        &mut self.list[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, PathsConfig};
    use towpath_wire::Instant;

    fn path(id: u16, link: u16) -> Path {
        let remote = ([10, 0, 0, 1], 1).into();
        Path::new(PathId(id), LinkId(link), remote, &Config::default())
    }

    #[test]
    fn numbers_are_never_used_twice_and_paths_are_bounded() {
        let mut paths = Paths::new(path(0, 0));
        for n in 1..PATHS_MAX as u16 {
            assert_eq!(paths.add(PATHS_MAX, |id| path(id.0, n)), Some(PathId(n)));
        }
        assert_eq!(paths.add(99, |id| path(id.0, 99)), None);
        let mut few = Paths::new(path(0, 0));
        assert_eq!(few.add(1, |id| path(id.0, 1)), None, "the peer holds one");
        assert_eq!(few.add(2, |id| path(id.0, 1)), Some(PathId(1)));
        assert_eq!(few.add(2, |id| path(id.0, 2)), None);
        assert_eq!(
            (paths.len(), paths.position(PathId(5)), paths.on(LinkId(7))),
            (16, Some(5), Some(7))
        );
        assert_eq!((paths.position(PathId(16)), paths.on(LinkId(99))), (None, None));
    }

    #[test]
    fn all_but_one_can_be_retired_and_none_of_them_comes_back_into_use() {
        let mut paths = Paths::new(path(0, 0));
        assert_eq!(paths.retire(PathId(0), None).err(), Some(RetireError::Last(PathId(0))));
        for n in 1..3 {
            paths.add(PATHS_MAX, |id| path(id.0, n));
        }
        assert_eq!(paths.retire(PathId(3), None).err(), Some(RetireError::Unknown(PathId(3))));
        assert!(paths.retire(PathId(0), Some(7)).is_ok_and(|p| p.is_some()));
        assert!(paths.retire(PathId(0), Some(8)).is_ok_and(|p| p.is_none()), "again");
        assert_eq!((paths.first().id, paths.on(LinkId(0))), (PathId(1), None));
        paths.set_up(LinkId(0), true);
        (1..3).for_each(|link| paths.set_up(LinkId(link), false));
        assert_eq!([0, 1, 2].map(|n| paths.may_carry(n)), [false, true, true]);
        assert!(paths.retire(PathId(1), None).is_ok_and(|p| p.is_some()));
        assert_eq!(paths.retire(PathId(2), None).err(), Some(RetireError::Last(PathId(2))));
        // The peer is told of the one that we retired, until it knows.
        assert_eq!((paths.has_news(), paths.poll_news()), (true, Some((PathId(0), 7))));
        assert_eq!((paths.has_news(), paths.poll_news()), (false, None));
        paths.tell_again(PathId(0));
        assert_eq!((paths.poll_news(), paths.poll_news()), (Some((PathId(0), 7)), None));
        assert_eq!(paths.add(PATHS_MAX, |id| path(id.0, 9)), Some(PathId(3)), "a new number");
    }

    #[test]
    fn what_is_on_standby_carries_while_nothing_else_does() {
        let paths = PathsConfig { standby: 0b110, ..PathsConfig::default() };
        assert!(!paths.is_standby(LinkId(0)) && paths.is_standby(LinkId(2)));
        assert!(!paths.is_standby(LinkId(16)), "no bit is left for it");
        let config = Config { paths, ..Config::default() };
        let path = |id: PathId| Path::new(id, LinkId(id.0), ([10, 0, 0, 1], 1).into(), &config);
        let mut paths = Paths::new(path(PathId(0)));
        (1..3).for_each(|_| _ = paths.add(PATHS_MAX, path));
        let ms = Duration::from_millis;
        for (n, trip) in [(0, ms(9)), (1, ms(2)), (2, ms(3))] {
            paths[n].rtt.sample(Instant::ZERO, trip, Duration::ZERO);
        }
        let carry = |paths: &Paths| {
            let data: Vec<u16> = paths.carriers().map(|p| p.id.0).collect();
            assert!((0..3).all(|n| paths.may_carry(n) == data.contains(&(n as u16))), "{data:?}");
            data
        };
        assert_eq!((carry(&paths), paths.are_several()), (vec![0], false));
        assert_eq!((paths.rtt(), paths.least_trip()), (ms(9), ms(9)), "of what carries");
        paths.set_up(LinkId(0), false);
        assert_eq!((carry(&paths), paths.are_several()), (vec![1, 2], true));
        assert_eq!(paths.rtt(), ms(2));
        paths.set_up(LinkId(0), true);
        assert_eq!(carry(&paths), [0]);
    }

    #[test]
    fn what_is_sent_goes_by_any_path_that_is_up_and_the_quickest_of_them_sets_the_time() {
        let mut paths = Paths::new(path(0, 0));
        paths.add(PATHS_MAX, |id| path(id.0, 1));
        assert_eq!(paths.least_trip(), Duration::ZERO);
        let ms = Duration::from_millis;
        for (n, trip) in [(0, ms(5)), (1, ms(20))] {
            paths[n].rtt.sample(Instant::ZERO, trip, Duration::ZERO);
        }
        assert_eq!((paths.rtt(), paths.least_trip()), (ms(5), ms(5)));
        assert!(paths.may_carry(0) && paths.may_carry(1));
        paths[0].standing.up = false;
        assert_eq!((paths.rtt(), paths.least_trip()), (ms(20), ms(20)));
        assert!(!paths.may_carry(0) && paths.may_carry(1));
        paths[1].standing.up = false;
        assert!(paths.may_carry(0) && paths.may_carry(1));
        assert_eq!(paths.rtt(), ms(5));
    }
}
