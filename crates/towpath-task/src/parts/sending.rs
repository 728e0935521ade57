//! Where a send stands that has not ended.

use std::collections::VecDeque;

use towpath_io::shared::Frozen;
use towpath_wire::TaskId;

/// Where a send stands that has not ended.
#[derive(Default)]
pub(crate) struct Sending {
    /// Tasks to which a message is partly out by the daemons.
    pub(crate) half: Vec<TaskId>,
    /// The ring with room in it that is waited for.
    pub(crate) wants_room: Option<TaskId>,
    /// Charged bytes sent unasked at which what the daemon says is looked at.
    pub(crate) look_at: u64,
    /// Blocks with pieces that the daemon has not taken yet, in the order in which they went.
    pub(crate) lent: VecDeque<Frozen>,
    /// The context of the team that it is for.
    pub(crate) team: Option<u32>,
    /// Multicasts that were not sent by streams because the daemons are sooner.
    pub(crate) kept_from_streams: u32,
}
