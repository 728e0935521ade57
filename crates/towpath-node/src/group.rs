//! Groups and mailboxes, kept by the leader.

use towpath_vm::talk::{Fault, RegistryOp};
use towpath_wire::{HostId, Instant, TaskId};

use crate::node::Node;

impl Node {
    pub(crate) fn registry_ask(
        &mut self,
        now: Instant,
        asker: TaskId,
        number: u64,
        _op: RegistryOp,
    ) {
        self.reply(now, asker, number, Err(Fault::Frozen));
    }

    pub(crate) fn registry_task_over(&mut self, _now: Instant, _from: HostId, _task: TaskId) {}

    pub(crate) fn registry_forget_waits(&mut self, _host: HostId) {}
}
