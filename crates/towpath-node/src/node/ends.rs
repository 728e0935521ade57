//! Ends of tasks: who is told, and what goes with them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use towpath_vm::control::ControlState;
use towpath_vm::members::Member;
use towpath_vm::message::{Parted, TaskEnded, TaskOver, WatchTask};
use towpath_vm::talk::{Subject, ToTask, WatchEvent};
use towpath_vm::ties::Tie;
use towpath_vm::{Ending, Message, Tasks};
use towpath_wire::{HostId, Instant, TaskId};

use super::Node;

/// Ends that a host can still tell how they came.
const ENDINGS_KEPT: usize = 256;

impl Node {
    /// The processes that are over, and tasks that left long enough ago.
    pub(crate) fn handle_ends(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((task, ending)) = self.tasks.as_mut().and_then(Tasks::poll_over) {
            any = true;
            if self.local.members.process_over(task, ending) {
                self.task_over(now, task);
            }
        }
        while let Some(task) = self.local.members.poll_over(now) {
            any = true;
            self.task_over(now, task);
        }
        any
    }

    /// A task of this host takes part no longer.
    pub(crate) fn task_over(&mut self, now: Instant, task: TaskId) {
        #[allow(unused_mut)] // only the planted bug changes it
        let Some(mut member) = self.local.members.remove(task) else { return };
        self.drop_early(task);
        self.data.relays.part_all(task, &mut self.data.dropped);
        self.untie_all(task, &member);
        for (number, host) in &member.questions {
            self.local.questions.remove(*host, task, *number);
            self.local.questions.again.done(task, *number);
        }
        self.forget_routes(task, &member);
        self.close_channels_of(task);
        if member.registered
            && let Some(leader) = self.leader()
        {
            self.tell(now, leader, Message::TaskOver(TaskOver { task }));
        }
        #[cfg(plant)]
        if self.plant() == towpath_proto::config::Plant::NoticeOneTooFew {
            member.told.pop_last();
        }
        for host in member.told {
            if !self.is_up(host) && !self.peers.by_host.contains_key(&host) {
                continue;
            }
            self.peers.look_at(host);
            let ended = TaskEnded { task, ending: member.ending.clone() };
            if self.data.relays.may_end(host, &ended) {
                self.tell(now, host, Message::TaskEnded(ended));
            }
        }
        self.peer_over(now, task, member.ending.as_ref());
        if let Some(ending) = member.ending {
            let endings = &mut self.local.endings;
            endings.truncate(ENDINGS_KEPT - 1);
            endings.push_front((task, ending));
        }
        self.release_id(task);
    }

    fn untie_all(&mut self, task: TaskId, member: &Member) {
        for peer in member.pairs.keys() {
            self.local.ties.untie(task, *peer);
        }
        for (watch, subject) in &member.watches {
            match subject {
                Subject::Task(peer) => self.local.ties.unwatch(task, *watch, *peer),
                _ => _ = self.local.host_watches.remove(&(task, *watch)),
            }
        }
    }

    /// A task, here or elsewhere, has ended or cannot be reached any more: those of this host that
    /// had to do with it are told.
    pub(crate) fn peer_over(&mut self, now: Instant, peer: TaskId, ending: Option<&Ending>) {
        self.uncatch(now, peer);
        let Some(Tie { partners, watches }) = self.local.ties.take(peer) else { return };
        // Of one that may go on, what comes is answered.
        if ending != Some(&Ending::HostLost) {
            self.data.relays.end(peer);
        }
        for task in partners {
            self.unpair(task, peer);
        }
        for (task, watch) in watches {
            if let Some(member) = self.local.members.get_mut(task) {
                member.watches.remove(&watch);
                let event = WatchEvent::TaskEnded { task: peer, ending: ending.cloned() };
                self.say(task, ToTask::Notice { watch, event });
            }
        }
    }

    /// A host wants to know of a task's end.
    pub(crate) fn handle_watch_task(&mut self, now: Instant, from: HostId, watch: WatchTask) {
        let task = watch.task;
        match self.local.members.get_mut(task) {
            Some(_) if self.me == Some(from) => {}
            Some(member) => _ = member.told.insert(from),
            None => self.tell_not_here(now, from, task),
        }
    }

    /// Tells `host` that a task of ours that it had to do with takes part no longer. Where a
    /// message of that task is still on its way there along a chain, its end is told behind it
    /// anyway, and nothing of it may be known before. Of an earlier life of this host, which that
    /// one does not know yet to be over, the log tells.
    pub(crate) fn tell_not_here(&mut self, now: Instant, host: HostId, task: TaskId) {
        if self.me == Some(task.host()) && !self.data.relays.is_open(host, task) {
            let known = self.local.endings.iter().find(|(ended, _)| *ended == task);
            let ending = known.map(|(_, ending)| ending.clone());
            self.tell(now, host, Message::TaskEnded(TaskEnded { task, ending }));
        }
    }

    /// A host says that a task of its own has ended.
    pub(crate) fn handle_task_ended(&mut self, now: Instant, from: HostId, ended: TaskEnded) {
        let TaskEnded { task, mut ending } = ended;
        if task.host() == from {
            ending.iter_mut().for_each(Ending::cut);
            self.peer_over(now, task, ending.as_ref());
        } else {
            self.malformed += 1;
        }
    }

    /// Tells the host of `peer` that our `task` takes nothing of it any more.
    pub(crate) fn tell_parted(&mut self, now: Instant, task: TaskId, peer: TaskId) {
        self.tell(now, peer.host(), Message::Parted(Parted { task, peer }));
    }

    /// A task of `from` was told that one of ours is gone, and ours sends to it: it, too, is told
    /// that the other is gone, once.
    pub(crate) fn handle_parted(&mut self, from: HostId, parted: Parted) {
        let Parted { task: peer, peer: task } = parted;
        if peer.host() != from || self.me != Some(task.host()) || self.me == Some(from) {
            self.malformed += 1;
            return;
        }
        // Only who has sent can have been refused.
        let pairs = self.local.members.get(task).map(|m| &m.pairs);
        if !self.receives(task) || pairs.is_none_or(|pairs| !pairs.contains_key(&peer)) {
            return;
        }
        self.part(task, peer);
        self.peers.look_at(from);
    }

    /// `task` of this host and `peer` of another have nothing more to do with each other, and
    /// will not have.
    fn part(&mut self, task: TaskId, peer: TaskId) {
        self.local.ties.untie(task, peer);
        self.unpair(task, peer);
        self.local.members.remember_parted(task, peer);
    }

    /// `task` hears that `peer` is gone.
    fn unpair(&mut self, task: TaskId, peer: TaskId) {
        self.local.members.part(task, peer);
        self.data.relays.part(task, peer, &mut self.data.dropped);
        self.local.offers.remove(&(task, peer));
        self.say(task, ToTask::Gone { peer });
    }

    /// The connection to a host is over, and so is what its tasks had to do with ours. They may
    /// go on, and know nothing of ours: what they send them from now on is refused.
    pub(crate) fn give_up_ties(&mut self, now: Instant, host: HostId) {
        for peer in self.local.ties.on(host) {
            if self.may_be_up(host) {
                for task in self.local.ties.all_of(peer) {
                    self.local.members.remember_parted(task, peer);
                }
            }
            self.peer_over(now, peer, Some(&Ending::HostLost));
        }
        for by in self.jobs.catching.on(host) {
            self.uncatch(now, by);
        }
        // Whoever waits to hear from there who its siblings are has none any more.
        for task in self.local.members.ids() {
            if let Some(member) = self.local.members.get_mut(task)
                && member.origin.root.0 == host
                && member.siblings.is_none()
            {
                member.siblings = Some(alloc::vec![task]);
                self.welcome(now, task);
            }
        }
        for (task, number) in self.local.questions.of(host) {
            if self.local.questions.again.hold(now, task, number) {
                continue;
            }
            let fault = self.lost_fault(host);
            self.answer(task, number, Err(fault));
        }
    }

    /// What this host still keeps because of tasks: nothing, once none is left anywhere and what
    /// was told of them has arrived. For those who look for leaks.
    pub fn remains(&self) -> Vec<String> {
        // Whoever keeps the log with a leader has all that it has.
        let kept = self.voting.voter.as_ref().map(|voter| voter.state());
        let kept = kept.or(self.log.as_ref());
        let (groups, entries) = kept.map_or((0, 0), |l| l.registry().len());
        [
            ("tasks", self.local.members.len()),
            ("processes", self.tasks.as_ref().map_or(0, Tasks::len)),
            ("ties", self.local.ties.len()),
            ("questions", self.local.questions.len()),
            ("host watches", self.local.host_watches.len()),
            ("rings", self.local.rings.len()),
            ("channels of tasks", self.local.channels.len()),
            ("promises", self.local.promising.len()),
            ("promises of the network", kept.map_or(0, |l| l.promises().len())),
            ("streams asked for", self.local.offers.len()),
            ("requests", self.requests.len()),
            ("spawns", self.jobs.spawning.len()),
            ("catchers", self.jobs.catching.len()),
            ("tasks started", self.jobs.started_as.len()),
            ("registered tasks", kept.map_or(0, |l| l.registered().len())),
            ("answers of the registry", kept.map_or(0, ControlState::answers_kept)),
            ("proposals", self.lead.proposals.len()),
            ("groups", groups),
            ("mailbox entries", entries),
            ("contents of mailbox entries", self.voting.contents.len()),
            ("questions that wait for contents", self.lead.sharing.len()),
            ("granted bytes", self.local.members.granted() as usize),
            ("bytes for tasks here", self.data.inside as usize),
            ("bytes for other hosts", self.data.outgoing as usize),
            ("bytes that arrive for tasks", self.data.arriving.bytes() as usize),
        ]
        .into_iter()
        .chain(self.data.relays.remains().map(|(what, n)| (what, n as usize)))
        .filter(|(_, n)| *n > 0)
        .map(|(what, n)| format!("{n} {what}"))
        .collect()
    }

    /// Hosts to whom a reserved channel has something to send that its link's egress will never
    /// hear of: there are none. For those who look for lost wake-ups.
    pub fn asleep(&self) -> Vec<HostId> {
        let asleep = |host: &HostId| {
            let id = self.peers.up(*host)?;
            self.endpoint.association(id)?.asleep()
        };
        self.peers.hosts().into_iter().filter(|host| asleep(host).is_some()).collect()
    }

    /// What holds up the associations that have something under way, or waiting. For those who
    /// wonder why something [remains](Node::remains).
    pub fn flows(&self, now: Instant) -> Vec<String> {
        let flow = |host: HostId| {
            let flow = self.endpoint.association(self.peers.up(host)?)?;
            let channels = flow.backlog().chain(flow.blocked());
            let waiting: usize = channels.map(|channel| flow.waiting(channel)).sum();
            let (window, in_flight) = (flow.window(), flow.in_flight());
            let pacer = flow.paced_until().since(now);
            (in_flight > 0 || waiting > 0).then(|| {
                format!(
                    "{waiting} messages that wait for {host}: {in_flight} bytes in flight, window \
                     {window}, pacer waits {pacer:?}"
                )
            })
        };
        self.peers.hosts().into_iter().filter_map(flow).collect()
    }

    /// This host is no longer who it was: every task is told to end.
    pub(crate) fn end_tasks(&mut self, why: &str) {
        for task in self.local.members.ids() {
            #[allow(unused_mut)] // only the planted bug changes it
            let mut ends = self.local.members.enrolled(task).is_some();
            #[cfg(plant)]
            {
                ends &= self.plant() != towpath_proto::config::Plant::LostGoesOn;
            }
            if ends {
                self.say(task, ToTask::End(why.into()));
            }
            self.drop_early(task);
            self.data.relays.part_all(task, &mut self.data.dropped);
            self.close_channels_of(task);
            if let Some(member) = self.local.members.remove(task) {
                self.untie_all(task, &member);
            }
            if let Some(tasks) = &mut self.tasks {
                tasks.release(task);
            }
        }
        self.local.questions.clear();
        self.local.rings.clear();
        self.local.offers.clear();
    }
}
