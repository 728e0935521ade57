//! The paths of an association, and which of them speaks for it.

use core::time::Duration;

use alloc::vec;
use alloc::vec::Vec;

use towpath_wire::{LinkId, PathId};

use super::path::Path;

/// Paths of an association at most.
pub(crate) const PATHS_MAX: usize = 16;

/// All paths, in the order of their numbers. Numbers are never used twice. Invariant: there is one
/// at least, and [`PATHS_MAX`] at most.
pub(super) struct Paths {
    list: Vec<Path>,
}

impl Paths {
    pub(super) fn new(first: Path) -> Self {
        Self { list: vec![first] }
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

    /// The one that was there first.
    pub(super) fn first(&self) -> &Path {
        &self.list[0]
    }

    pub(super) fn position(&self, id: PathId) -> Option<usize> {
        self.list.iter().position(|p| p.id == id)
    }

    pub(super) fn by_id(&mut self, id: PathId) -> Option<&mut Path> {
        self.list.iter_mut().find(|p| p.id == id)
    }

    /// The first that goes out on `link`.
    pub(super) fn on(&self, link: LinkId) -> Option<usize> {
        self.list.iter().position(|p| p.link == link)
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

    /// Whether a path may carry data and control frames: any that is up, or any where none is.
    pub(super) fn may_carry(&self, path: usize) -> bool {
        self.list[path].up || !self.list.iter().any(|p| p.up)
    }

    /// Those that can be counted on: the ones that are up, or all where none is.
    fn living(&self) -> impl Iterator<Item = &Path> {
        let none = !self.list.iter().any(|p| p.up);
        self.list.iter().filter(move |p| p.up || none)
    }

    /// The smoothed round trip of the quickest path that is up: what is late for it is late.
    pub(super) fn rtt(&self) -> Duration {
        self.living().map(|p| p.rtt.smoothed()).min().unwrap_or_default()
    }

    /// The least round trip of any path; zero before one is known.
    pub(super) fn least_trip(&self) -> Duration {
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
    use crate::config::Config;
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
        paths[0].up = false;
        assert_eq!((paths.rtt(), paths.least_trip()), (ms(20), ms(20)));
        assert!(!paths.may_carry(0) && paths.may_carry(1));
        paths[1].up = false;
        assert!(paths.may_carry(0) && paths.may_carry(1));
        assert_eq!(paths.rtt(), ms(5));
    }
}
