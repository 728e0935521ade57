//! Groups and mailboxes: the leader keeps them, and hears from each host which of the tasks that
//! asked about them have ended.

use towpath_vm::talk::{Answer, RegistryOp};
use towpath_wire::id::TASK_MAX;
use towpath_wire::{HostId, Instant, TaskId};

use crate::node::Node;

impl Node {
    /// The leader is asked about groups or mailboxes.
    pub(crate) fn registry_ask(&mut self, asker: TaskId, number: u64, op: RegistryOp) {
        self.lead.registered.insert(asker);
        self.lead.registry.apply(asker, number, op);
    }

    /// The registry's answers go to those who asked.
    pub(crate) fn handle_registry(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((asker, number, answer)) = self.lead.registry.poll() {
            any = true;
            self.reply(now, asker, number, answer.map(Answer::Registry));
        }
        any
    }

    /// A task that asked about groups or mailboxes has ended.
    pub(crate) fn registry_task_over(&mut self, from: HostId, task: TaskId) {
        if task.host() != from {
            self.malformed += 1;
        } else if self.lead.registered.remove(&task) {
            self.lead.registry.task_over(task);
        }
    }

    fn registered_of(&self, host: HostId) -> alloc::vec::Vec<TaskId> {
        let ends = [1, TASK_MAX].map(|n| host.task(n).expect("both are task numbers"));
        self.lead.registered.range(ends[0]..=ends[1]).copied().collect()
    }

    /// The connection to a host is over: what its tasks waited for cannot reach them.
    pub(crate) fn registry_forget_waits(&mut self, host: HostId) {
        for task in self.registered_of(host) {
            self.lead.registry.forget_waits(task);
        }
    }

    /// A host is gone, and all its tasks with it.
    pub(crate) fn registry_host_over(&mut self, host: HostId) {
        for task in self.registered_of(host) {
            self.registry_task_over(host, task);
        }
    }
}
