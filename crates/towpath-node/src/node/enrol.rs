//! Tasks of this host as they come, say what they want, and leave.

use alloc::format;
use alloc::string::String;

use towpath_proto::Memory;
use towpath_vm::members::{Origin, State};
use towpath_vm::message::{Asked, WatchTask};
use towpath_vm::registry::Serial;
use towpath_vm::talk::{Enrol, Fault, Question, Subject, TALK_VERSION, ToDaemon, ToTask};
use towpath_vm::talk::{WATCHES_MAX, WatchEvent, Welcome};
use towpath_vm::{Ending, HostState, Message, TaskInfo};
use towpath_wire::{HostId, Instant, TaskId};

use super::Node;

impl Node {
    /// A process wants to be a task. Its [`ToTask::Welcome`] follows as an event. The error is
    /// for the process: turn it away with it.
    pub fn task_enrol(
        &mut self,
        now: Instant,
        enrol: &Enrol,
        memory: &mut dyn Memory,
    ) -> Result<TaskId, String> {
        if enrol.version != TALK_VERSION {
            return Err(format!(
                "the task speaks version {}, its daemon {TALK_VERSION}\n\
                 hint: start the daemons anew, with the Towpath that the task's library is of",
                enrol.version
            ));
        }
        let (Some(me), Some(tasks)) = (self.me, &mut self.tasks) else {
            return Err("this host is not part of a virtual machine".into());
        };
        let claim = enrol.claim.filter(|c| self.local.members.claims(c));
        let id = if let Some(claim) = claim {
            claim.task
        } else {
            let id = tasks.adopt(now, enrol.pid, &enrol.command);
            let id = id.ok_or("too many tasks enrolled by themselves on this host")?;
            let root = (me, 0);
            let origin = Origin { cookie: None, parent: None, root, context: 0, family: None };
            self.local.members.add(id, origin);
            id
        };
        if let Some(member) = self.local.members.get_mut(id) {
            member.state = State::Welcomed;
        }
        self.welcome(now, id);
        self.pump(now, memory);
        Ok(id)
    }

    /// Welcomes a task that enrolled, once its siblings are known.
    pub(crate) fn welcome(&mut self, now: Instant, task: TaskId) {
        let ask_first = self.asked_first();
        let Some(member) = self.local.members.get_mut(task) else { return };
        let (State::Welcomed, Some(siblings)) = (&member.state, &member.siblings) else { return };
        let welcome = Welcome {
            you: task,
            parent: member.origin.parent,
            siblings: siblings.clone(),
            context: member.origin.context,
            segment_bytes: 0,
            ask_first,
        };
        member.state = State::Enrolled;
        self.say(task, ToTask::Welcome(welcome));
        self.deliver_early(task);
        self.offer_awaited(now, task);
    }

    /// A task's connection ended, and all that came on it was handed in.
    pub fn task_left(&mut self, now: Instant, task: TaskId, memory: &mut dyn Memory) {
        if self.local.members.connection_over(now, task) {
            self.task_over(now, task);
        }
        self.pump(now, memory);
    }

    /// A task says something. It is not heard where too much waits already for a host that it
    /// concerns, which is returned: say it again once [`Node::has_room`] for that one.
    pub fn task_says(
        &mut self,
        now: Instant,
        task: TaskId,
        say: ToDaemon,
        memory: &mut dyn Memory,
    ) -> Option<HostId> {
        let crowded = self.crowded(task, &say);
        if crowded.is_none() {
            self.hear(now, task, say);
        }
        self.pump(now, memory);
        crowded
    }

    /// Whether what waits for a host is so little that whatever concerns it can be heard.
    pub fn has_room(&self, host: HostId) -> bool {
        self.peers.has_room(host)
    }

    /// The host for which there is no room for what follows from `say`.
    fn crowded(&self, task: TaskId, say: &ToDaemon) -> Option<HostId> {
        let root = || self.local.members.get(task).map(|m| m.origin.root.0);
        let host = match say {
            ToDaemon::Ask { question: Question::Tasks(None), .. } => return self.peers.crowded(),
            ToDaemon::Ask { question: Question::Spawn(_), .. } | ToDaemon::OutputCredit(_) => {
                root()
            }
            ToDaemon::Ask { question, .. } => self.who_answers(question).ok(),
            ToDaemon::Blocked { peer, .. }
            | ToDaemon::Direct { peer }
            | ToDaemon::CloseDirect { peer }
            | ToDaemon::Listening { peer, .. }
            | ToDaemon::OpenChannel { to: peer, .. }
            | ToDaemon::Watch { subject: Subject::Task(peer), .. } => Some(peer.host()),
            _ => None,
        };
        host.filter(|host| !self.has_room(*host))
    }

    // tidy: dispatch
    fn hear(&mut self, now: Instant, task: TaskId, say: ToDaemon) {
        if self.local.members.enrolled(task).is_none() {
            return;
        }
        match say {
            ToDaemon::Enrol(_) => self.cut_off(task, "it enrolled twice".into()),
            ToDaemon::Blocked { peer, need } => self.ask_credit(now, task, peer, need),
            ToDaemon::RingFailed { peer } => self.ring_failed(task, peer),
            ToDaemon::Direct { peer } => self.direct(now, task, peer),
            ToDaemon::CloseDirect { peer } => self.close_direct(now, task, peer),
            ToDaemon::Listening { peer, port } => self.listening(now, task, peer, port),
            ToDaemon::Ask { number, question } => self.ask(now, task, number, question),
            ToDaemon::Watch { watch, subject } => self.start_watch(now, task, watch, &subject),
            ToDaemon::Unwatch { watch } => self.stop_watch(task, watch),
            ToDaemon::CatchOutput(on) => {
                if let Some(member) = self.local.members.get_mut(task) {
                    member.catches = on;
                }
            }
            ToDaemon::OutputCredit(bytes) => self.pay_caught(now, task, bytes),
            ToDaemon::OpenChannel { number, to, spec } => {
                self.open_task_channel(now, task, number, to, spec);
            }
            ToDaemon::ChannelTaken { number, messages } => {
                self.channel_taken(task, number, messages);
            }
            ToDaemon::CloseChannel { number } => self.close_task_channel(task, number),
            ToDaemon::Leave => self.task_over(now, task),
            ToDaemon::Hold => {} // the owner's, who has the socket
        }
    }

    fn start_watch(&mut self, now: Instant, task: TaskId, watch: u64, subject: &Subject) {
        let Some(member) = self.local.members.get_mut(task) else { return };
        if member.watches.len() >= WATCHES_MAX || member.watches.contains_key(&watch) {
            let why = format!("watch {watch} is one too many, or in use (limit {WATCHES_MAX})");
            return self.cut_off(task, why);
        }
        member.watches.insert(watch, subject.clone());
        match *subject {
            Subject::Task(peer) if !self.may_be_up(peer.host()) => {
                if let Some(member) = self.local.members.get_mut(task) {
                    member.watches.remove(&watch);
                }
                let event = WatchEvent::TaskEnded { task: peer, ending: Some(Ending::HostLost) };
                self.say(task, ToTask::Notice { watch, event });
            }
            Subject::Task(peer) => {
                self.local.ties.watch(task, watch, peer);
                self.tell(now, peer.host(), Message::WatchTask(WatchTask { task: peer }));
            }
            Subject::Host(host) => {
                let entry = self.log.as_ref().and_then(|l| l.table().get(host));
                match entry.map(|h| h.state) {
                    Some(HostState::Up) => _ = self.local.host_watches.insert((task, watch)),
                    Some(HostState::Lost) => self.host_gone_for(task, watch, host, true),
                    None => self.host_gone_for(task, watch, host, false),
                }
            }
            Subject::NewHosts => _ = self.local.host_watches.insert((task, watch)),
        }
    }

    fn host_gone_for(&mut self, task: TaskId, watch: u64, host: HostId, lost: bool) {
        if let Some(member) = self.local.members.get_mut(task) {
            member.watches.remove(&watch);
        }
        self.local.host_watches.remove(&(task, watch));
        self.say(task, ToTask::Notice { watch, event: WatchEvent::HostGone { host, lost } });
    }

    fn stop_watch(&mut self, task: TaskId, watch: u64) {
        let Some(member) = self.local.members.get_mut(task) else { return };
        if let Some(Subject::Task(peer)) = member.watches.remove(&watch) {
            self.local.ties.unwatch(task, watch, peer);
        }
        self.local.host_watches.remove(&(task, watch));
    }

    /// A host joined, was lost (`Err(true)`) or left: tasks that wait for it are told.
    pub(crate) fn tell_host_watches(&mut self, news: &Result<towpath_vm::Host, (HostId, bool)>) {
        for (task, watch) in self.local.host_watches.clone() {
            let subject = self.local.members.get(task).and_then(|m| m.watches.get(&watch));
            match (news, subject) {
                (Ok(host), Some(Subject::NewHosts)) => {
                    let event = WatchEvent::HostAdded(host.clone());
                    self.say(task, ToTask::Notice { watch, event });
                }
                (Err((host, lost)), Some(Subject::Host(watched))) if watched == host => {
                    self.host_gone_for(task, watch, *host, *lost);
                }
                _ => {}
            }
        }
    }

    /// Tasks of this host as listed: with what the virtual machine knows of them.
    pub(crate) fn infos(&self, now: Instant) -> alloc::vec::Vec<TaskInfo> {
        let list = self.tasks.as_ref().map_or_else(alloc::vec::Vec::new, |t| t.list(now));
        list.into_iter().map(|info| self.with_member(info)).collect()
    }

    /// One of them.
    pub(crate) fn info(&self, now: Instant, task: TaskId) -> Option<TaskInfo> {
        let info = self.tasks.as_ref()?.info(now, task)?;
        Some(self.with_member(info))
    }

    fn with_member(&self, mut info: TaskInfo) -> TaskInfo {
        (info.channels, info.reserved_bps) = self.local.channels.summary(info.id);
        match self.local.members.get(info.id) {
            None => info,
            Some(member) => TaskInfo {
                parent: member.origin.parent,
                enrolled: matches!(member.state, State::Welcomed | State::Enrolled),
                ..info
            },
        }
    }

    /// A question of a task: what this host knows it answers, the rest goes to whoever does.
    pub(crate) fn ask(&mut self, now: Instant, task: TaskId, number: u64, question: Question) {
        use towpath_vm::talk::{Answer, QUESTIONS_MAX};
        let Some(member) = self.local.members.get(task) else { return };
        if member.questions.contains_key(&number) {
            return self.cut_off(task, format!("question {number} is asked already"));
        }
        if member.questions.len() >= QUESTIONS_MAX {
            let fault = Fault::Limit { what: "questions".into(), limit: QUESTIONS_MAX as u64 };
            return self.answer(task, number, Err(fault));
        }
        if let Err(fault) = super::question::check(&question) {
            return self.answer(task, number, Err(fault));
        }
        let to = match self.who_answers(&question) {
            Ok(to) => to,
            Err(fault) => return self.answer(task, number, Err(fault)),
        };
        match question {
            Question::Hosts => {
                let hosts = self.hosts().cloned().collect();
                self.answer(task, number, Ok(Answer::Hosts(hosts)));
            }
            Question::Channel(channel) => {
                let status = self.channel_status(task, channel);
                self.answer(task, number, status);
            }
            Question::Tasks(None) => self.ask_everyone(now, task, number),
            Question::Spawn(spawn) => self.ask_spawn(now, task, number, spawn),
            question => {
                self.wait_for(task, number, to);
                let mut serial = Serial::default();
                if let Question::Registry(op) = &question {
                    if let Some(member) = self.local.members.get_mut(task) {
                        member.registered = true;
                    }
                    let shared = !self.was_never_shared();
                    let again = &mut self.local.questions.again;
                    serial = again.ask(task, number, (op, shared));
                    // What a task asks first is not to be done after what it asks then.
                    let waits = self.standing.frozen || again.holds_any_of(task);
                    if waits && again.hold(now, task, number) {
                        return;
                    }
                }
                let asked = Asked { asker: task, number, serial, question };
                self.tell(now, to, Message::Asked(asked));
            }
        }
    }
}
