//! Groups and mailboxes: the leader keeps them, and hears from each host which of the tasks that
//! asked about them have ended.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use towpath_vm::Message;
use towpath_vm::control::Command;
use towpath_vm::message::AnsweredAll;
use towpath_vm::registry::{Reply, Serial};
use towpath_vm::talk::{Answer, RegistryOp};
use towpath_wire::{HostId, Instant, TaskId};

use super::Node;
use crate::sharing::Held;

/// Askers in one message: with the longest answer it is below the limit of a message.
const ASKERS_MAX: usize = 4096;

impl Node {
    /// The leader is asked about groups or mailboxes.
    pub(crate) fn registry_ask(
        &mut self,
        now: Instant,
        asker: TaskId,
        (number, serial): (u64, Serial),
        op: RegistryOp,
    ) {
        if self.lead.refused.comes_first(asker, serial) {
            return self.refuse_for_now(now, asker, (number, serial));
        }
        let (Some(me), Some(log)) = (self.me, &self.log) else { return };
        self.voting.contents.begin(|| {
            let own = log.kept().into_iter().filter(|kept| kept.holder == me);
            own.map(|kept| kept.number).max().unwrap_or(0)
        });
        match self.voting.contents.take_in(me, op) {
            Ok((op, kept)) => self.ask_log(now, asker, Held { number, serial, op, kept }),
            Err(fault) => self.reply(now, asker, number, Err(fault)),
        }
    }

    /// Its host asks again, in the same order.
    pub(crate) fn refuse_for_now(
        &mut self,
        now: Instant,
        asker: TaskId,
        (number, serial): (u64, Serial),
    ) {
        self.lead.refused.add(asker, serial);
        let fault = self.frozen();
        self.reply(now, asker, number, Err(fault));
    }

    /// An answer of the registry goes to those who asked.
    pub(crate) fn registry_reply(&mut self, now: Instant, reply: Reply) {
        let Reply { askers, answer } = reply;
        let answer = answer.and_then(|a| self.voting.contents.give_out(a)).map(Answer::Registry);
        if let [(asker, number)] = askers[..] {
            return self.reply(now, asker, number, answer);
        }
        let mut by_host: BTreeMap<HostId, Vec<(TaskId, u64)>> = BTreeMap::new();
        for asker in askers {
            by_host.entry(asker.0.host()).or_default().push(asker);
        }
        for (host, askers) in by_host {
            for askers in askers.chunks(ASKERS_MAX) {
                let (askers, answer) = (askers.to_vec(), answer.clone());
                self.tell(now, host, Message::AnsweredAll(AnsweredAll { askers, answer }));
            }
        }
    }

    /// A task that asked about groups or mailboxes has ended.
    pub(crate) fn registry_task_over(&mut self, now: Instant, from: HostId, task: TaskId) {
        if task.host() != from {
            self.malformed += 1;
            return;
        }
        self.drop_held(now, |held| held == task);
        self.lead.refused.forget_task(task);
        if let Some(recovery) = &mut self.lead.recovery {
            // A host that has not said yet which of its tasks asked does not name this one then.
            recovery.registered.get_mut(&from).map(|tasks| tasks.remove(&task));
        } else if self.is_registered(from, Some(task)) {
            self.propose(now, Command::TaskOver(task));
        }
    }

    /// The connection to a host is over: what its tasks waited for cannot reach them.
    pub(crate) fn registry_forget_waits(&mut self, now: Instant, host: HostId) {
        self.drop_held(now, |held| held.host() == host);
        self.lead.refused.forget_host(host);
        if self.is_registered(host, None) {
            self.propose(now, Command::ForgetWaits(host));
        }
    }

    /// Whether a task of a host, or this one, asked the registry of this leader, be that committed
    /// or not.
    fn is_registered(&self, host: HostId, task: Option<TaskId>) -> bool {
        let Some(log) = self.log.as_ref().filter(|_| self.leads()) else {
            return false;
        };
        let known = match task {
            Some(task) => log.registered().contains(&task),
            None => !log.registered_of(host).is_empty(),
        };
        let meant = |asker: TaskId| task.map_or(asker.host() == host, |task| asker == task);
        known || self.lead.proposals.askers().any(meant)
    }
}
