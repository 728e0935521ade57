//! Majorities: what is on most voters' disks, and who has most votes.

use alloc::collections::BTreeMap;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::entry::ReplicaId;

/// The highest index that a majority has, where `index_of` tells what each voter has; `None` where
/// there are no voters.
pub(crate) fn held_by_most(
    voters: &BTreeSet<ReplicaId>,
    index_of: impl Fn(ReplicaId) -> u64,
) -> Option<u64> {
    let mut held: Vec<u64> = voters.iter().map(|id| index_of(*id)).collect();
    held.sort_unstable();
    // What the lower middle one has, n / 2 others or more have, too.
    let lower = held.len().checked_sub(1)? / 2;
    Some(held[lower])
}

/// Whether more than half of the voters are among those that `is` holds for.
pub(crate) fn most(voters: &BTreeSet<ReplicaId>, is: impl Fn(ReplicaId) -> bool) -> bool {
    2 * voters.iter().filter(|id| is(**id)).count() > voters.len()
}

/// What came of an election so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tally {
    /// A majority is for it.
    Won,
    /// No majority can be for it any more.
    Lost,
    /// Neither yet.
    Open,
}

/// Counts the votes of voters; others' do not count.
pub(crate) fn tally(voters: &BTreeSet<ReplicaId>, votes: &BTreeMap<ReplicaId, bool>) -> Tally {
    if most(voters, |id| votes.get(&id) == Some(&true)) {
        Tally::Won
    } else if most(voters, |id| votes.get(&id) != Some(&false)) {
        Tally::Open
    } else {
        Tally::Lost
    }
}
