//! How far ahead the next tick is that may bring something: whoever drives a replica need not wake
//! up for those before it, if it counts them before it tells the replica anything else.

use super::entry::ReplicaId;
use super::replica::{Replica, Role};

impl Replica {
    /// In how many ticks one may bring something, if nothing else comes. Where a beat is overdue,
    /// or anything is under way, it is the next one.
    pub fn ticks_ahead(&self) -> u32 {
        if self.disk.waits() {
            return 1;
        }
        let (beat, election) = (self.config.beat_ticks, self.config.election_ticks);
        let ahead = match (&self.role, self.timeout) {
            (Role::Leader(lead), _) => lead.ticks_ahead(beat, election),
            (Role::Follower { leader: Some(_) }, Some(timeout)) => {
                timeout.min(beat + 1).saturating_sub(self.elapsed)
            }
            _ => 1,
        };
        ahead.max(1)
    }

    /// Whether a follower is known to have all entries.
    pub fn is_level(&self, id: ReplicaId) -> bool {
        let last = self.last_index();
        self.followers().any(|(follower, matched)| follower == id && matched == last)
    }
}
