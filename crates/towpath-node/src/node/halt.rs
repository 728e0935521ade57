//! The end of the whole virtual machine, asked for by a task.

use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::Message;
use towpath_vm::control::Command;
use towpath_vm::message::Halt;
use towpath_vm::talk::Answer;
use towpath_wire::{HostId, Instant, TaskId};

use super::Node;
use crate::commit::Waiting;
use crate::event::NodeEvent;

/// How long the leader waits for the others to be gone before it ends.
const HALT_GRACE: Duration = Duration::from_secs(1);

impl Node {
    /// The leader was asked to end everything: it does once that is decided, so that one which has
    /// lost most of those that keep the log ends nobody.
    pub(crate) fn halt(&mut self, now: Instant, asker: TaskId, number: u64) {
        let waiting = Waiting::Task(asker, number, Answer::Done);
        self.propose_for(now, Command::Halt(asker), waiting);
    }

    /// It is decided that everything ends.
    pub(crate) fn begin_halt(&mut self, now: Instant) {
        if self.lead.halt_at.is_some() {
            return;
        }
        self.lead.halt_at = Some(now + HALT_GRACE);
        let others: Vec<HostId> = self
            .log
            .iter()
            .flat_map(|l| l.table().up())
            .map(|h| h.id)
            .filter(|h| Some(*h) != self.me)
            .collect();
        for host in others {
            self.tell(now, host, Message::Halt(Halt {}));
        }
        self.settle_halt(now);
    }

    /// The leader ends once it is alone, or has waited long enough.
    pub(crate) fn settle_halt(&mut self, now: Instant) {
        let Some(at) = self.lead.halt_at else { return };
        let alone = self.log.as_ref().is_none_or(|l| l.table().up().count() <= 1);
        if at != Instant::NEVER && (alone || at <= now) {
            self.lead.halt_at = Some(Instant::NEVER);
            self.events.push_back(NodeEvent::Halt);
        }
    }

    /// The leader says that everything ends.
    pub(crate) fn handle_halt(&mut self, from: HostId) {
        if self.leader() == Some(from) {
            self.events.push_back(NodeEvent::Halt);
        } else {
            self.malformed += 1;
        }
    }
}
