//! What those that keep the log say where most of them have started again.

use alloc::collections::BTreeMap;

use towpath_wire::{HostId, Instant};

use crate::restore::KeptTo;

/// What was said, and what this host keeps to. It is over with a life of the log.
#[derive(Debug, Default)]
pub(crate) struct Over {
    /// Hosts that vote as this one knows it, and have started again: their lives here are over.
    pub(crate) lives: BTreeMap<HostId, KeptTo>,
    /// Those that still run, and have said when that they decide nothing.
    pub(crate) outnumbered: BTreeMap<HostId, (KeptTo, Instant)>,
    /// Until then this host decides nothing with those that still run: others count on that.
    pub(crate) silent_until: Option<Instant>,
}
