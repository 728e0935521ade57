//! Ends of tasks that teams depend on.

use std::collections::HashMap;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use towpath_vm::talk::WatchEvent;
use towpath_wire::TaskId;

use crate::parts::words::Words;

/// Ends of tasks that teams depend on; programs do not hear of these watches.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Tasks that have not ended, by watch.
    pub(crate) watches: HashMap<u64, TaskId>,
    /// Whether each of them is over, as the teams that it is a member of see it.
    pub(crate) watched: HashMap<TaskId, Weak<AtomicBool>>,
    /// How many have ended.
    pub(crate) over: u64,
    /// Teams by list of members, so that the next one of the same gets another context.
    pub(crate) listed: HashMap<u64, u32>,
    /// For teams that meet without messages.
    pub(crate) words: Words,
}

impl Ends {
    /// Tasks of which something is kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.watches.len() + self.watched.len()
    }

    /// Takes note of an event, if it is for a team.
    pub(crate) fn notice(&mut self, watch: u64, event: &WatchEvent) -> bool {
        let Some(task) = self.watches.get(&watch) else { return false };
        if matches!(event, WatchEvent::TaskEnded { .. }) {
            if let Some(over) = self.watched.remove(task).and_then(|over| over.upgrade()) {
                over.store(true, Ordering::Relaxed);
            }
            self.over += 1;
            self.watches.remove(&watch);
        }
        true
    }
}
