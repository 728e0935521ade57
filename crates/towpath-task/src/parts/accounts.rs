//! Which lines of the ledger that a daemon reads are whose.

use std::collections::HashMap;

use towpath_io::shared::LEDGER_LINES;
use towpath_wire::TaskId;

/// The line of all that are gone.
pub(crate) const GONE: u16 = 0;

/// Which lines are whose. Others have none: more direct routes than lines, or no shared memory.
#[derive(Debug)]
pub(crate) struct Accounts {
    pub(crate) lines: HashMap<TaskId, u16>,
    pub(crate) free: Vec<u16>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self { lines: HashMap::new(), free: (GONE + 1..LEDGER_LINES as u16).rev().collect() }
    }
}
