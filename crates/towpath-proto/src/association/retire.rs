//! Paths that are used no more.
//!
//! What was under way on a retired path goes out again by the others at once, without a word to
//! any congestion controller: nothing was lost. It takes in what still comes, and acknowledges it,
//! but carries nothing that waits for an answer. Its number and its place stay taken.

use towpath_wire::{Instant, PathId};

use super::core::{Association, AssociationEvent};
use super::paths::RetireError;

impl Association {
    /// Uses a path no more, and tells the peer why: `reason` is a number that the two ends agree
    /// on. A path that is retired already stays so.
    pub fn retire_path(
        &mut self,
        now: Instant,
        path: PathId,
        reason: u16,
    ) -> Result<(), RetireError> {
        self.retire(now, path, Some(reason)).map(|_| ())
    }

    /// The peer uses a path no more. One that there is not may be one that our owner has yet to
    /// add, and without the last one nothing could be said: both are counted, and change nothing.
    pub(super) fn handle_retire(&mut self, now: Instant, path: PathId, reason: u16) {
        match self.retire(now, path, None) {
            Ok(true) => self.events.push_back(AssociationEvent::PathRetired { path, reason }),
            Ok(false) => {}
            Err(_) => self.stats.misretired += 1,
        }
    }

    /// True where it was in use until now.
    fn retire(
        &mut self,
        now: Instant,
        path: PathId,
        telling: Option<u16>,
    ) -> Result<bool, RetireError> {
        let Some(retired) = self.paths.retire(path, telling)? else { return Ok(false) };
        let lost = self.outcome.packets_lost;
        retired.retire(now, &mut self.outcome);
        self.outcome.packets_lost = lost;
        self.drop_copies(path);
        let trip = self.rtt();
        self.settle_outcome(trip);
        Ok(true)
    }
}
