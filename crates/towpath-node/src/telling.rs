//! How the leader tells the others of changes: the entries of one moment together.
//!
//! Every host has the whole host table, so the leader tells each of `H` hosts of each of `H` joins.
//! When hosts join in quick succession, entries are gathered, the longer the more hosts there are:
//! the leader sends at most [`TOLD_PER_S`] such messages a second, however many join. The first
//! change after a quiet time, and whatever is not a join, is told at once.

use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::message::Entries;
use towpath_vm::{Change, Entry, Message};
use towpath_wire::{HostId, Instant};

use crate::node::Node;

/// Messages about joins that the leader sends at most in a second, to all hosts together.
pub(crate) const TOLD_PER_S: u32 = 20_000;
/// Entries in one message at most: far below the longest message.
const ENTRIES_MAX: usize = 256;

/// Entries that were decided and not told yet (leader only). Invariant: `at` is set exactly when
/// there are some.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    entries: Vec<Entry>,
    /// When they are told.
    pub(crate) at: Option<Instant>,
    /// Before that time no more joins are told.
    quiet_until: Option<Instant>,
    /// Messages sent so far.
    pub(crate) messages: u64,
}

impl Node {
    /// Tells every host of an entry, now or with others soon.
    pub(crate) fn announce(&mut self, now: Instant, entry: Entry) {
        let is_join = matches!(entry.change, Change::Added(_));
        let telling = &mut self.lead.telling;
        telling.entries.push(entry);
        let waits = is_join && telling.entries.len() < ENTRIES_MAX;
        let later = telling.quiet_until.filter(|until| waits && *until > now);
        telling.at = Some(later.unwrap_or(now));
        self.tell_entries(now);
    }

    /// Tells what is due.
    pub(crate) fn tell_entries(&mut self, now: Instant) {
        if self.lead.telling.at.is_none_or(|at| at > now) {
            return;
        }
        self.lead.telling.at = None;
        let entries = core::mem::take(&mut self.lead.telling.entries);
        let Some(log) = &self.log else { return };
        let others = log.table().up().map(|h| h.id).filter(|h| Some(*h) != self.me);
        let others: Vec<HostId> = others.collect();
        let quiet = Duration::from_secs(1) * others.len() as u32 / TOLD_PER_S;
        self.lead.telling.quiet_until = Some(now + quiet);
        for host in others {
            // A host's incarnation is the entry that added it; its snapshot had what came before.
            let joined = u64::from(host.incarnation());
            let news: Vec<Entry> = entries.iter().filter(|e| e.index > joined).cloned().collect();
            if !news.is_empty() {
                self.lead.telling.messages += 1;
                self.tell(now, host, Message::Entries(Entries { entries: news }));
            }
        }
    }

    /// Messages about changes that this host has sent as the leader.
    pub const fn log_messages(&self) -> u64 {
        self.lead.telling.messages
    }
}
