//! A host that has unique tasks makes sure that it is part of the virtual machine.

use core::time::Duration;

use towpath_vm::Message;
use towpath_vm::control::Command;
use towpath_vm::message::Confirm;
use towpath_wire::{HostId, Instant};

use super::Node;
use crate::commit::Waiting;

impl Node {
    /// Asks the leader as long as there are unique tasks here, and ends them where nobody has
    /// answered for too long.
    pub(crate) fn settle_unique(&mut self, now: Instant) {
        let lost_after = self.lost_after();
        let Some(tasks) = &mut self.tasks else { return };
        let certainty = &mut self.jobs.certainty;
        #[cfg(plant)]
        if self.config.proto.plant == towpath_proto::config::Plant::UniqueGoesOn {
            tasks.set_sure(now, Instant::NEVER);
            return;
        }
        if tasks.has_unique() && certainty.is_over(now) {
            tasks.end_unique(now);
        }
        if !tasks.has_unique() {
            certainty.rest();
            tasks.set_sure(now, Instant::ZERO);
            return;
        }
        let Some(number) = certainty.asks(now, lost_after) else { return };
        let Some((leader, me)) = self.leader().zip(self.me) else { return };
        if leader != me {
            self.tell(now, leader, Message::Confirm(Confirm { number }));
        } else if self.leads() {
            self.confirm(now, me, number);
        }
    }

    /// A host asks whether it is part of the virtual machine.
    pub(crate) fn handle_confirm(&mut self, now: Instant, from: HostId, number: u64) {
        // Who does not lead says nothing: it is asked no more once another one is known.
        if self.leads() && self.is_up(from) {
            self.confirm(now, from, number);
        }
    }

    fn confirm(&mut self, now: Instant, host: HostId, number: u64) {
        // Before it is decided: the answer may be on its way when this host looks at that one next.
        self.lead.unique.asked.insert(host, now);
        self.propose_for(now, Command::Unique(host), Waiting::Confirm(host, number));
    }

    /// It is decided that a host was part of it when it asked.
    pub(super) fn tell_confirmed(&mut self, now: Instant, host: HostId, number: u64) {
        if self.me == Some(host) {
            self.is_confirmed(now, number);
        } else {
            self.tell(now, host, Message::Confirmed(Confirm { number }));
        }
    }

    /// The leader says that this host was part of the virtual machine when it asked.
    pub(crate) fn handle_confirmed(&mut self, now: Instant, from: HostId, number: u64) {
        if self.leader() == Some(from) && self.me != Some(from) {
            self.is_confirmed(now, number);
        }
    }

    fn is_confirmed(&mut self, now: Instant, number: u64) {
        let until = self.jobs.certainty.hears(number, self.lost_after());
        if let (Some(until), Some(tasks)) = (until, &mut self.tasks) {
            tasks.set_sure(now, until);
        }
    }

    /// How long a host must not be declared lost yet, where it may have unique tasks that run, and
    /// its end is not known.
    pub(super) fn may_run_unique(&self, now: Instant, host: HostId) -> Option<Duration> {
        let may = self.log.as_ref().is_some_and(|log| log.may_have_unique(host));
        if !may && !self.lead.unique.asked.contains_key(&host) || self.voting.ended.contains(&host)
        {
            return None;
        }
        let not_before = self.lead.unique.not_before(host, self.lost_after())?;
        (now < not_before).then(|| not_before.since(now))
    }

    /// Unique tasks of this host that run.
    pub fn unique_running(&self) -> usize {
        self.tasks.as_ref().map_or(0, towpath_vm::Tasks::unique_running)
    }
}
