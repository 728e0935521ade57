//! Contents of mailbox entries, between the host that leads and the others that keep the log.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use towpath_vm::Message;
use towpath_vm::control::{Ask, Command};
use towpath_vm::message::{Content, Contents, Said};
use towpath_vm::registry::Kept;
use towpath_wire::{HostId, Instant, TaskId};

use super::Node;
use crate::commit::Waiting;
use crate::sharing::Held;

impl Node {
    /// The log is asked what a task asks, now or once most of those that vote have what it names.
    pub(crate) fn ask_log(&mut self, now: Instant, task: TaskId, asks: Held) {
        let voters = asks.kept.map_or_else(Vec::new, |_| self.voters().0);
        let voters: BTreeSet<HostId> = voters.into_iter().collect();
        let shared = asks.kept.filter(|_| !voters.is_empty());
        if let Some(kept) = shared {
            self.lead.sharing.is_new(kept, voters.len() > 1);
        }
        let sharing = &self.lead.sharing;
        #[cfg(plant)]
        let voters = if self.shares_nothing() { BTreeSet::new() } else { voters };
        let most = |kept: &Kept| voters.len() < 2 || sharing.is_with_most(kept, &voters);
        if !sharing.is_to_wait(task, &asks, most) {
            self.ask_log_now(now, task, asks);
            if shared.is_some() {
                self.share(now);
            }
            return;
        }
        match self.lead.sharing.room(task, asks.kept) {
            Ok(()) => {
                self.lead.sharing.hold(task, asks);
                self.share(now);
            }
            Err(limit) => {
                self.lead.proposals.refused += 1;
                let waiting = Waiting::Asker(task, (asks.number, asks.serial), asks.kept);
                self.dropped(now, Some(&waiting), limit);
            }
        }
    }

    fn ask_log_now(&mut self, now: Instant, asker: TaskId, asks: Held) {
        let Held { number, serial, op, kept } = asks;
        let ask = Command::Ask(Ask { asker, number, serial, op });
        self.propose_for(now, ask, Waiting::Asker(asker, (number, serial), kept));
    }

    /// Nobody needs the content any more.
    pub(crate) fn forget_content(&mut self, kept: &Kept) {
        self.voting.contents.forget(kept);
        self.lead.sharing.is_over(kept);
    }

    /// What was to be decided and is not, as far as is known here: who leads next may find that it
    /// was, and may need its content.
    pub(crate) fn content_dropped(&mut self, now: Instant, kept: &Kept) {
        if self.leads() || self.voting.voter.is_none() {
            self.content_withdrawn(now, kept);
        }
    }

    /// It was never proposed, and will not be.
    fn content_withdrawn(&mut self, now: Instant, kept: &Kept) {
        for host in self.lead.sharing.holders(kept) {
            self.say_contents(now, host, Said::Over, [*kept].into());
        }
        self.forget_content(kept);
    }

    /// These tasks are over, or their host asks again what they wait for.
    pub(crate) fn drop_held(&mut self, now: Instant, is_over: impl Fn(TaskId) -> bool) {
        for (_, asks) in self.lead.sharing.drop_of(is_over) {
            if let Some(kept) = asks.kept {
                self.content_withdrawn(now, &kept);
            }
        }
    }

    /// Whoever comes to lead looks for what the state names.
    pub(crate) fn begin_sharing(&mut self, now: Instant) {
        let Some(log) = &self.log else { return };
        let named = log.kept();
        self.share_no_more(now);
        self.voting.contents.retain(&named);
        self.lead.sharing.begin(now, named, &self.voting.contents);
        self.share(now);
    }

    /// Carries on with what those that vote are to have of contents.
    pub(crate) fn share(&mut self, now: Instant) {
        if self.lead.sharing.is_idle() {
            return;
        }
        if !self.leads() || self.voting.voter.is_none() {
            return self.share_no_more(now);
        }
        let Some(me) = self.me else { return };
        let (voters, learners) = self.voters();
        let voters: BTreeSet<HostId> = voters.into_iter().collect();
        let all = voters.iter().chain(&learners).filter(|host| **host != me);
        let up = all.filter_map(|host| Some((*host, self.peers.up(*host)?)));
        let up: BTreeMap<_, _> = up.collect();
        for host in self.lead.sharing.connect(now, &up) {
            let needed = self.lead.sharing.needed(&self.voting.contents);
            self.say_contents(now, host, Said::Needed, needed);
        }
        while let Some((host, kept)) = self.lead.sharing.next_to_send(&self.voting.contents) {
            #[cfg(plant)]
            if self.shares_nothing() {
                continue;
            }
            self.say_content(now, host, kept);
        }
        while let Some((host, kept)) = self.lead.sharing.next_to_ask(now) {
            self.say_contents(now, host, Said::Asked, [kept].into());
        }
        self.lead.sharing.give_up(now, voters.len() + learners.len());
        #[cfg(plant)]
        let voters = if self.shares_nothing() { BTreeSet::new() } else { voters };
        for (task, asks) in self.lead.sharing.ready(&voters) {
            self.ask_log_now(now, task, asks);
        }
    }

    #[cfg(plant)]
    fn shares_nothing(&self) -> bool {
        self.plant() == towpath_proto::config::Plant::ContentAlone
    }

    /// This host leads no longer: what waits is asked of whoever leads next.
    fn share_no_more(&mut self, now: Instant) {
        let why = self.frozen();
        for (task, asks) in core::mem::take(&mut self.lead.sharing).drop_of(|_| true) {
            let waiting = Waiting::Asker(task, (asks.number, asks.serial), asks.kept);
            self.dropped(now, Some(&waiting), why.clone());
        }
    }

    fn say_content(&mut self, now: Instant, host: HostId, kept: Kept) {
        if let Some(bytes) = self.voting.contents.get(&kept).map(<[u8]>::to_vec) {
            self.tell(now, host, Message::Content(Content { kept, bytes }));
        }
    }

    fn say_contents(&mut self, now: Instant, host: HostId, of: Said, which: Vec<Kept>) {
        self.tell(now, host, Message::Contents(Contents { of, which }));
    }

    /// Whether another one leads those that keep the log, as far as is known here.
    fn is_led_by(&self, from: HostId) -> bool {
        // Those know first who was elected.
        let Some(voter) = self.voting.voter.as_ref().filter(|_| self.me != Some(from)) else {
            return false;
        };
        voter.follows().or(self.leader()) == Some(from)
    }

    /// The content of an entry comes: from the leader, to be kept, or back.
    pub(crate) fn handle_content(&mut self, now: Instant, from: HostId, content: Content) {
        #[cfg(test)]
        if self.lead.sharing.mute {
            return;
        }
        let Content { kept, bytes } = content;
        if self.leads() && self.lead.sharing.asked_of(from, &kept) {
            self.malformed += u64::from(!self.voting.contents.take(kept, bytes));
            self.lead.sharing.found(now, &kept);
            self.share(now);
        } else if self.is_led_by(from) {
            let taken = self.voting.contents.take(kept, bytes);
            // It has to be told what is needed, or what it was told is not that.
            let of = if taken { Said::Stored } else { Said::Lacking };
            self.malformed += u64::from(!taken);
            self.say_contents(now, from, of, [kept].into());
        } else {
            self.malformed += u64::from(self.is_strange(from));
        }
    }

    /// Whether nobody had anything to say of contents. The leader may be heard before what has this
    /// host keep the log, which goes another way.
    fn is_strange(&self, from: HostId) -> bool {
        self.was_never_shared() && self.leader() != Some(from)
    }

    /// Something is said of contents.
    pub(crate) fn handle_contents(&mut self, now: Instant, from: HostId, said: Contents) {
        #[cfg(test)]
        if self.lead.sharing.mute {
            return;
        }
        let Contents { of, which } = said;
        let to_leader = matches!(of, Said::Lacking | Said::Stored);
        let may = if to_leader { self.leads() } else { self.is_led_by(from) };
        if !may || which.len() > Contents::MAX {
            let is_long = which.len() > Contents::MAX;
            self.malformed += u64::from(is_long || self.is_strange(from));
            return;
        }
        match of {
            Said::Needed => {
                let needed: BTreeSet<Kept> = which.into_iter().collect();
                self.voting.contents.retain(&needed);
                let lacks = needed.into_iter().filter(|kept| !self.voting.contents.has(kept));
                let lacks = lacks.collect();
                self.say_contents(now, from, Said::Lacking, lacks);
            }
            Said::Over => which.iter().for_each(|kept| self.voting.contents.forget(kept)),
            Said::Asked => {
                for kept in which {
                    if self.voting.contents.has(&kept) {
                        self.say_content(now, from, kept);
                    } else {
                        self.say_contents(now, from, Said::Lacking, [kept].into());
                    }
                }
            }
            Said::Lacking => {
                self.lead.sharing.lacks(now, from, &which, &self.voting.contents);
                self.share(now);
            }
            Said::Stored => {
                let over = self.lead.sharing.stored(from, &which, &self.voting.contents);
                if !over.is_empty() {
                    self.say_contents(now, from, Said::Over, over);
                }
                self.share(now);
            }
        }
    }
}
