//! Questions to the daemon that are open.

use std::collections::HashMap;

use towpath_vm::TaskInfo;
use towpath_vm::talk::{Answer, Fault};

/// Questions to the daemon.
#[derive(Default)]
pub(crate) struct Questions {
    /// Those whose answers were not taken.
    pub(crate) open: HashMap<u64, Asked>,
    /// The number of the next one, or of the next watch.
    pub(crate) next: u64,
}

/// A question and what came of it so far.
#[derive(Default)]
pub(crate) struct Asked {
    /// The first parts of a long answer.
    pub(crate) tasks: Vec<TaskInfo>,
    pub(crate) answer: Option<Result<Answer, Fault>>,
}
