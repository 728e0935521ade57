//! Direct routes between tasks: rings on one host, streams between hosts. The node says who may
//! have one; the owner makes rings, the tasks themselves open streams.

use towpath_wire::TaskId;

/// Most pairs of tasks of this host that have a ring.
pub const RINGS_MAX: usize = 4096;
/// Most direct routes of one task.
pub const ROUTES_MAX: usize = 256;

/// How a ring between two tasks of this host stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    /// It was given to both.
    Stands,
    /// One of them cannot use it.
    Failed,
}

/// Both tasks of a ring as [`crate::node::Local::rings`] has them.
pub(crate) fn ordered(a: TaskId, b: TaskId) -> (TaskId, TaskId) {
    if a < b { (a, b) } else { (b, a) }
}
