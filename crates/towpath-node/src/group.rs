//! Groups and mailboxes: the leader keeps them, and hears from each host which of the tasks that
//! asked about them have ended.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use towpath_vm::Message;
use towpath_vm::message::AnsweredAll;
use towpath_vm::registry::Reply;
use towpath_vm::talk::{Answer, RegistryOp};
use towpath_wire::id::TASK_MAX;
use towpath_wire::{HostId, Instant, TaskId};

use crate::node::Node;

/// Askers in one message: with the longest answer it is below the limit of a message.
const ASKERS_MAX: usize = 4096;

impl Node {
    /// The leader is asked about groups or mailboxes.
    pub(crate) fn registry_ask(&mut self, asker: TaskId, number: u64, op: RegistryOp) {
        self.lead.registered.insert(asker);
        self.lead.registry.apply(asker, number, op);
    }

    /// The registry's answers go to those who asked.
    pub(crate) fn handle_registry(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(Reply { askers, answer }) = self.lead.registry.poll() {
            any = true;
            let answer = answer.map(Answer::Registry);
            if let [(asker, number)] = askers[..] {
                self.reply(now, asker, number, answer);
                continue;
            }
            let mut by_host: BTreeMap<HostId, Vec<(TaskId, u64)>> = BTreeMap::new();
            for asker in askers {
                by_host.entry(asker.0.host()).or_default().push(asker);
            }
            for (host, askers) in by_host {
                for askers in askers.chunks(ASKERS_MAX) {
                    let (askers, answer) = (askers.to_vec(), answer.clone());
                    let all = AnsweredAll { askers, answer };
                    self.tell(now, host, Message::AnsweredAll(all));
                }
            }
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

    pub(crate) fn registered_of(&self, host: HostId) -> Vec<TaskId> {
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
