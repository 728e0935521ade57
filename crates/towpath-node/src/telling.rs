//! How the leader tells the others of changes: the entries of one moment together.
//!
//! Every host has the whole host table, so the leader tells each of `H` hosts of each of `H` joins.
//! When hosts join in quick succession, entries are gathered, the longer the more hosts there are:
//! the leader sends at most [`TOLD_PER_S`] such messages a second, however many join. The first
//! change after a quiet time, and whatever is not a join, is told at once.

use alloc::vec::Vec;

use towpath_vm::Entry;
use towpath_wire::Instant;

/// Entries that were decided and not told yet (leader only). Invariant: `at` is set exactly when
/// there are some.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    pub(crate) entries: Vec<Entry>,
    /// When they are told.
    pub(crate) at: Option<Instant>,
    /// Before that time no more joins are told.
    pub(crate) quiet_until: Option<Instant>,
    /// Messages sent so far.
    pub(crate) messages: u64,
}
