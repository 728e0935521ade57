//! A host and its leader, over silences: who it was it stays, until the log says otherwise.
//!
//! A host that lost its leader keeps its tasks and its other connections, and tries to reach the
//! leader until that answers. What it then says first is a [`Report`]; the answer, [`Resumed`], has
//! what it missed. A refusal ends nothing: a leader that does not know us may have lost its table.

use alloc::string::String;

use towpath_proto::AssociationId;
use towpath_wire::{HostId, Instant};

/// How a host stands with its leader.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The leader is out of contact: nothing can change.
    pub(crate) frozen: bool,
    /// Why the leader does not take us in, as told last.
    pub(crate) refused: Option<String>,
    /// A report is under way, on this association.
    pub(crate) reported: Option<AssociationId>,
    /// When it asked who leads, since it was told of one that it does not know.
    pub(crate) doubted: Option<Instant>,
    /// The leader has said that it leaves: whoever leads next is to know.
    pub(crate) left: Option<HostId>,
}

/// Whether a host with one id is a later life of one with another.
pub(crate) const fn is_later_life(id: HostId, than: HostId) -> bool {
    id.incarnation() > than.incarnation()
}
