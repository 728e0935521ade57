//! Tasks of this host, and jobs that began here.

use crate::direct::Ring;
use crate::question::Questions;
use crate::unique::Certainty;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use towpath_vm::Ending;
use towpath_vm::catching::Catching;
use towpath_vm::members::Members;
use towpath_vm::place::Loads;
use towpath_vm::spawning::Spawning;
use towpath_vm::talk::StreamOffer;
use towpath_vm::ties::Ties;
use towpath_wire::TaskId;

/// Tasks of this host as parts of the virtual machine.
#[derive(Debug, Default)]
pub(crate) struct Local {
    pub(crate) members: Members,
    pub(crate) ties: Ties,
    pub(crate) questions: Questions,
    /// Watches of hosts, by task.
    pub(crate) host_watches: BTreeSet<(TaskId, u64)>,
    /// Rings, by both tasks, the smaller first.
    pub(crate) rings: BTreeMap<(TaskId, TaskId), Ring>,
    /// Streams asked for, by who connects and who is to listen.
    pub(crate) offers: BTreeMap<(TaskId, TaskId), StreamOffer>,
    /// Their own channels.
    pub(crate) channels: crate::channels::Ends,
    /// What these need of the network.
    pub(crate) promising: crate::promising::Promising,
    /// How the last of our tasks ended, for who asks too late.
    pub(crate) endings: VecDeque<(TaskId, Ending)>,
}

/// What tasks of jobs that began here spawn.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) spawning: Spawning,
    pub(crate) catching: Catching,
    /// The task that each request that runs became.
    pub(crate) started_as: BTreeMap<u64, TaskId>,
    /// What hosts said of tasks that others asked for there.
    pub(crate) loads: Loads,
    /// Slot of the host chosen last.
    pub(crate) last_placed: u16,
    /// Whether this host may run unique ones.
    pub(crate) certainty: Certainty,
}
