//! Direct routes that a task has, wants, or was refused.

use std::collections::HashMap;
use std::time::Duration;

use towpath_wire::{Instant as Time, TaskId};

use crate::parts::accounts::Accounts;

/// How long a long message waits for the peer's end of a new ring, and for blocks that peers
/// hold, before it goes by the daemons.
pub(crate) const PATIENCE: Duration = Duration::from_millis(1);
/// How long a stream that was not to be had is not asked for; twice as long each time, up to
/// [`PUT_OFF_MAX`].
pub(crate) const PUT_OFF: Duration = Duration::from_secs(2);
pub(crate) const PUT_OFF_MAX: Duration = Duration::from_secs(64);

/// How far the direct route to a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// So many messages went by the daemons.
    Not(u32),
    Asked,
    /// Offered; the ring says whether the peer has its end.
    There,
    /// There is none now; it may be asked for again then.
    PutOff(Time),
    Refused,
}

/// Which way messages to a task go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To this task itself.
    Own,
    /// Through the daemons.
    Daemon,
    /// Through shared memory.
    Ring,
    /// Over a TCP connection to a task of another host.
    Stream,
}

/// What is known of direct routes.
#[derive(Default)]
pub(crate) struct Directs {
    pub(crate) stages: HashMap<TaskId, Stage>,
    /// For how long those were put off last that were.
    put_off: HashMap<TaskId, Duration>,
    pub(crate) refused_by_us: bool,
    /// Sends must look before they take the ring: this task takes none, or something waits to be
    /// sent.
    pub(crate) detour: bool,
    pub(crate) accounts: Accounts,
}

impl Directs {
    pub(crate) fn forget(&mut self, peer: TaskId) {
        self.stages.remove(&peer);
        self.put_off.remove(&peer);
    }

    pub(crate) fn asked(&mut self, peer: TaskId) {
        self.stages.insert(peer, Stage::Asked);
    }

    pub(crate) fn is_asked(&self, peer: TaskId) -> bool {
        self.stages.get(&peer) == Some(&Stage::Asked)
    }

    /// There is none to be had at the moment.
    pub(crate) fn put_off(&mut self, peer: TaskId, now: Time) {
        let wait = self.put_off.get(&peer).map_or(PUT_OFF, |last| (2 * *last).min(PUT_OFF_MAX));
        self.put_off.insert(peer, wait);
        self.stages.insert(peer, Stage::PutOff(now + wait));
    }

    pub(crate) fn stands(&mut self, peer: TaskId) {
        self.put_off.remove(&peer);
        self.stages.insert(peer, Stage::There);
    }

    pub(crate) fn refused(&mut self, peer: TaskId) {
        self.stages.insert(peer, Stage::Refused);
    }
}

/// What a task did so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) ring: u64,
    pub(crate) daemon: u64,
    pub(crate) own: u64,
    pub(crate) multicast: u64,
    pub(crate) sleeps: u64,
}
