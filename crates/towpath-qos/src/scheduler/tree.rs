//! What hierarchical disciplines share: where a class may hang.

use super::contract::{ConfigError, QueueId};
use super::store::{Kind, NONE, Table};

/// Most classes above a leaf.
const DEPTH_MAX: u32 = 16;

/// The parent a class is to have, or [`NONE`] for the link; checked to exist, to hold no packets,
/// to be no deeper than allowed, and to be `old` unless the class is new.
pub(super) fn parent<S: Copy + Default>(
    table: &Table<S>,
    queue: u32,
    wanted: Option<QueueId>,
    old: u32,
    parent_of: impl Fn(&S) -> u32,
) -> Result<u32, ConfigError> {
    let new = table.kind(queue) == Kind::Absent;
    let parent = wanted.map_or(NONE, |wanted| wanted.0);
    let refuse = |reason| {
        let (queue, parent) = (QueueId(queue), QueueId(parent));
        Err(ConfigError::Parent { queue, parent, reason })
    };
    if !new {
        return if parent == old { Ok(old) } else { refuse("a class stays where it was added") };
    }
    if parent == NONE {
        return Ok(NONE);
    }
    match table.queues.get(parent as usize) {
        Some(above) if table.kind(parent) != Kind::Absent => {
            if above.fifo.packets > 0 {
                return refuse("it holds packets");
            }
        }
        _ => return refuse("it does not exist"),
    }
    let mut depth = 0;
    let mut at = parent;
    while at != NONE {
        depth += 1;
        at = parent_of(table.peek_state(at));
    }
    if depth > DEPTH_MAX { refuse("the tree would be deeper than 16 classes") } else { Ok(parent) }
}
