//! Whom this host watches: the peers that something here depends on. The others cost next to
//! nothing while they are quiet, and are found dead when something is sent to them.

use alloc::collections::BTreeSet;

use towpath_proto::AssociationId;
use towpath_wire::{HostId, Instant};

/// Who waits for news of hosts.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Our owner does.
    pub(crate) owner: bool,
    /// Leader: these hosts do.
    pub(crate) others: BTreeSet<HostId>,
    /// The leader knows that we do, by this association.
    pub(crate) told: Option<AssociationId>,
    /// Something here waited when this was looked at last.
    pub(crate) waited: bool,
    /// Every host was asked for a sign of life: all are watched until then, so that the leader can
    /// tell one that is silent from a cable that is out.
    pub(crate) asking_until: Option<Instant>,
    /// Hosts that leave everything unanswered, or that lead and cannot be reached, as the owner was
    /// told.
    pub(crate) silent: BTreeSet<HostId>,
}
