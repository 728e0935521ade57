//! Tasks' questions are answered.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use towpath_vm::message::{Answered, AnsweredAll, Asked, List};
use towpath_vm::registry::Serial;
use towpath_vm::talk::{
    Answer, Fault, MAIL_MAX, NAME_MAX, Place, Question, RegistryOp, SPAWN_MAX, SpawnTasks, ToTask,
    cut_answer,
};
use towpath_vm::{Host, HostState, Message, TaskInfo};
use towpath_wire::{HostId, Instant, TaskId};

use super::Node;
use crate::event::NodeEvent;
use crate::question::{Asker, Query};
/// Most bytes that a command with its environment may have.
const COMMAND_BYTES_MAX: usize = 512 << 10;
/// Most bytes that the commands of one spawn may have together: each task gets its own.
const SPAWN_BYTES_MAX: usize = 64 << 20;
/// Most hosts named by one question.
const HOSTS_MAX: usize = 4096;
/// Most lists of all hosts' tasks that one host's tasks wait for.
const GATHERS_MAX: usize = 256;
/// Tasks in one message of a list.
const LIST_PART: usize = 1000;

/// A list of tasks as the messages that it takes: all but the last, and the last.
pub(crate) fn parts_of(mut tasks: Vec<TaskInfo>) -> (Vec<Vec<TaskInfo>>, Vec<TaskInfo>) {
    let mut first = Vec::new();
    while tasks.len() > LIST_PART {
        let rest = tasks.split_off(LIST_PART);
        first.push(core::mem::replace(&mut tasks, rest));
    }
    (first, tasks)
}

fn limit(what: &str, limit: usize) -> Fault {
    Fault::Limit { what: what.into(), limit: limit as u64 }
}

fn name(what: &str, name: &str) -> Result<(), Fault> {
    if name.len() > NAME_MAX { Err(limit(what, NAME_MAX)) } else { Ok(()) }
}

/// Whether a spawn is within its limits. Hosts check what comes from others, too: a count that no
/// library would ask for is as many places in memory.
pub(crate) fn check_spawn(spawn: &SpawnTasks) -> Result<(), Fault> {
    let env = spawn.env.iter().map(|(k, v)| k.len() + v.len() + 20);
    let args = spawn.args.iter().map(|a| a.len() + 10);
    let bytes = spawn.program.len() + spawn.cwd.len() + args.chain(env).sum::<usize>();
    if bytes > COMMAND_BYTES_MAX {
        return Err(limit("bytes of a command", COMMAND_BYTES_MAX));
    }
    if spawn.count == 0 || spawn.count > SPAWN_MAX {
        return Err(Fault::Bad(format!("{} tasks, 1 to {SPAWN_MAX} at once", spawn.count)));
    }
    if bytes * spawn.count as usize > SPAWN_BYTES_MAX {
        return Err(limit("bytes of all commands of a spawn", SPAWN_BYTES_MAX));
    }
    match &spawn.place {
        Place::Name(n) | Place::Arch(n) => name("bytes of a name", n),
        _ => Ok(()),
    }
}

/// Whether a question is within its limits.
pub(crate) fn check(question: &Question) -> Result<(), Fault> {
    match question {
        Question::Spawn(spawn) => check_spawn(spawn),
        Question::DeleteHosts(hosts) if hosts.len() > HOSTS_MAX => {
            Err(limit("hosts at once", HOSTS_MAX))
        }
        Question::Registry(op) => match op {
            RegistryOp::Put { name: n, content, .. } => {
                if content.len() > MAIL_MAX {
                    return Err(limit("bytes of a mailbox entry", MAIL_MAX));
                }
                name("bytes of a name", n)
            }
            RegistryOp::Join(n)
            | RegistryOp::Leave(n)
            | RegistryOp::Members(n)
            | RegistryOp::Barrier { group: n, .. }
            | RegistryOp::Freeze { group: n, .. }
            | RegistryOp::Get { name: n, .. }
            | RegistryOp::Delete { name: n, .. }
            | RegistryOp::Mailboxes { pattern: n } => name("bytes of a name", n),
            RegistryOp::Groups => Ok(()),
        },
        _ => Ok(()),
    }
}

impl Node {
    /// The host that answers a question.
    pub(crate) fn who_answers(&self, question: &Question) -> Result<HostId, Fault> {
        let (Some(me), Some(log)) = (self.me, &self.log) else { return Err(Fault::NotJoined) };
        let up = |host: HostId| {
            let known = log.table().get(host).is_some_and(|h| h.state == HostState::Up);
            known && !self.is_out_of_reach(host)
        };
        match question {
            Question::Hosts | Question::Tasks(None) | Question::Spawn(_) | Question::Channel(_) => {
                Ok(me)
            }
            Question::Tasks(Some(host)) | Question::Clock(host) => {
                if up(*host) {
                    Ok(*host)
                } else {
                    Err(Fault::NoHost)
                }
            }
            Question::Task(task) | Question::Signal { task, .. } => {
                if up(task.host()) {
                    Ok(task.host())
                } else {
                    Err(Fault::NoTask)
                }
            }
            // Of whoever leads next, where there may be one.
            Question::Registry(_) if !self.was_never_shared() => Ok(log.leader()),
            Question::Registry(_) | Question::DeleteHosts(_) | Question::Halt => {
                if self.standing.frozen { Err(self.frozen()) } else { Ok(log.leader()) }
            }
        }
    }

    /// `task` waits for `host` to answer.
    pub(crate) fn wait_for(&mut self, task: TaskId, number: u64, host: HostId) {
        if let Some(member) = self.local.members.get_mut(task) {
            member.questions.insert(number, host);
            self.local.questions.by_host.entry(host).or_default().insert((task, number));
            self.peers.look_at(host);
        }
    }

    /// Answers a task of this host.
    pub(crate) fn answer(&mut self, task: TaskId, number: u64, answer: Result<Answer, Fault>) {
        let Some(member) = self.local.members.get_mut(task) else { return };
        if let Some(host) = member.questions.remove(&number) {
            self.local.questions.remove(host, task, number);
        }
        self.local.questions.again.done(task, number);
        let answer = match answer {
            Ok(Answer::Tasks(tasks)) => Ok(Answer::Tasks(self.parts(task, number, tasks))),
            other => other,
        };
        self.say(task, ToTask::Answer { number, answer });
    }

    /// Tells a long list of tasks in parts; gives the last one.
    fn parts(&mut self, task: TaskId, number: u64, tasks: Vec<TaskInfo>) -> Vec<TaskInfo> {
        let (first, last) = parts_of(tasks);
        for tasks in first {
            self.say(task, ToTask::Part { number, tasks });
        }
        last
    }

    /// It led, and another one may lead, or nobody: too few are in contact to know.
    pub fn has_lost_most(&self) -> bool {
        self.standing.frozen && self.me.is_some() && self.me == self.leader()
    }

    /// What only the leader can do cannot be done here now.
    pub(crate) fn frozen(&self) -> Fault {
        let leader = self.log.as_ref().and_then(|log| log.table().get(log.leader()));
        let other = leader.filter(|leader| self.me != Some(leader.id));
        Fault::Frozen(other.map(|Host { name, addr, .. }| format!("{name} at {addr}")))
    }

    /// Somebody leads again: it is asked what its tasks asked of the one before.
    pub(crate) fn ask_again(&mut self, now: Instant) {
        let Some(leader) = self.leader().filter(|_| !self.was_never_shared()) else { return };
        for (task, number) in self.local.questions.again.lost() {
            let fault = self.frozen();
            self.answer(task, number, Err(fault));
        }
        for open in self.local.questions.again.again() {
            self.ask_once_more(now, leader, open);
        }
    }

    fn ask_once_more(
        &mut self,
        now: Instant,
        leader: HostId,
        (asker, number, serial, op): (TaskId, u64, Serial, RegistryOp),
    ) {
        let Some(member) = self.local.members.get_mut(asker) else { return };
        if let Some(before) = member.questions.remove(&number) {
            self.local.questions.remove(before, asker, number);
        }
        self.wait_for(asker, number, leader);
        #[cfg(plant)]
        let serial = match self.plant() {
            towpath_proto::config::Plant::AskedTwice => <_>::default(),
            _ => serial,
        };
        let question = Question::Registry(op);
        self.tell(now, leader, Message::Asked(Asked { asker, number, serial, question }));
    }

    /// Whoever leads is asked once more what it could not answer; what nobody could for too long is
    /// answered so.
    pub(crate) fn settle_held(&mut self, now: Instant) {
        // Where the leader is in contact, it is not what is missing.
        let fault = if self.standing.frozen { self.frozen() } else { Fault::Frozen(None) };
        for (task, number) in self.local.questions.again.over(now) {
            let fault = fault.clone();
            self.answer(task, number, Err(fault));
        }
        // Who hears a leader again asks it all that is open.
        let leader = self.leader().filter(|_| !self.was_never_shared() && !self.standing.frozen);
        let leader = leader.filter(|leader| {
            let up = self.me == Some(*leader) || self.peers.up(*leader).is_some();
            up && self.peers.waiting(*leader) == 0
        });
        for held in self.local.questions.again.held_again(now, leader.is_some()) {
            if let Some(leader) = leader {
                self.ask_once_more(now, leader, held);
            }
        }
    }

    /// Why a question that `host` was to answer has no answer.
    pub(crate) fn lost_fault(&self, host: HostId) -> Fault {
        if self.leader() == Some(host) { self.frozen() } else { Fault::HostLost }
    }

    /// Another host, or ourselves, answers a question.
    pub(crate) fn handle_answered(&mut self, now: Instant, from: HostId, answered: Answered) {
        let Answered { asker, number, mut answer, more } = answered;
        cut_answer(&mut answer);
        let waits =
            self.local.members.get(asker).and_then(|m| m.questions.get(&number)) == Some(&from);
        match answer {
            _ if !waits => {}
            Ok(Answer::Tasks(tasks)) if more => self.say(asker, ToTask::Part { number, tasks }),
            Err(Fault::Frozen(_)) if self.local.questions.again.hold(now, asker, number) => {}
            answer => self.answer(asker, number, answer),
        }
    }

    /// Another host, or ourselves, has the same answer for several tasks.
    pub(crate) fn handle_answered_all(&mut self, now: Instant, from: HostId, all: AnsweredAll) {
        for (asker, number) in all.askers {
            let answer = all.answer.clone();
            self.handle_answered(now, from, Answered { asker, number, answer, more: false });
        }
    }

    /// Answers a task of any host.
    pub(crate) fn reply(
        &mut self,
        now: Instant,
        asker: TaskId,
        number: u64,
        answer: Result<Answer, Fault>,
    ) {
        let mut tell = |answer, more| {
            let answered = Answered { asker, number, answer, more };
            self.tell(now, asker.host(), Message::Answered(answered));
        };
        match answer {
            Ok(Answer::Tasks(tasks)) => {
                let (first, last) = parts_of(tasks);
                for tasks in first {
                    tell(Ok(Answer::Tasks(tasks)), true);
                }
                tell(Ok(Answer::Tasks(last)), false);
            }
            answer => tell(answer, false),
        }
    }

    /// A task asks something that this host answers.
    pub(crate) fn handle_asked(&mut self, now: Instant, from: HostId, asked: Asked) {
        let Asked { asker, number, serial, question } = asked;
        if asker.host() != from {
            self.malformed += 1;
            return;
        }
        if let Err(fault) = check(&question).and_then(|()| self.peers.glut(from)) {
            return self.reply(now, asker, number, Err(fault));
        }
        let leads = self.leads();
        let answer = match question {
            Question::Registry(_) if !leads => {
                return self.refuse_for_now(now, asker, (number, serial));
            }
            // What is the leader's to decide, nobody else does, whoever asks.
            Question::DeleteHosts(_) | Question::Halt if !leads => Err(self.frozen()),
            Question::Tasks(_) => Ok(Answer::Tasks(self.infos(now))),
            Question::Task(task) => match self.info(now, task) {
                Some(info) => Ok(Answer::Tasks(alloc::vec![info])),
                None => Err(Fault::NoTask),
            },
            Question::Signal { task, signal } => {
                let sent = self.tasks.as_mut().is_some_and(|t| t.signal(now, task, signal));
                if sent { Ok(Answer::Done) } else { Err(Fault::NoTask) }
            }
            Question::Clock(_) => Ok(Answer::Clock(self.unix_us(now))),
            Question::Registry(op) => {
                return self.registry_ask(now, asker, (number, serial), op);
            }
            Question::DeleteHosts(hosts) => return self.delete_hosts(now, asker, number, hosts),
            Question::Halt => return self.halt(now, asker, number),
            Question::Hosts | Question::Spawn(_) | Question::Channel(_) => {
                Err(Fault::Bad("asked of this host".into()))
            }
        };
        self.reply(now, asker, number, answer);
    }

    /// Wall clock, in microseconds since 1970.
    pub(crate) const fn unix_us(&self, now: Instant) -> u64 {
        self.config.unix_us_at_zero.saturating_add(now.as_nanos() / 1000)
    }

    pub(crate) const fn unix_s(&self, now: Instant) -> u64 {
        self.unix_us(now) / 1_000_000
    }

    /// Asks every host for its tasks.
    pub(crate) fn ask_everyone(&mut self, now: Instant, task: TaskId, number: u64) {
        let Some(me) = self.me else { return };
        if self.local.questions.gathers.len() >= GATHERS_MAX {
            let fault = limit("lists of all tasks at once", GATHERS_MAX);
            return self.answer(task, number, Err(fault));
        }
        let hosts = self.log.iter().flat_map(|l| l.table().up()).map(|h| h.id);
        let hosts: Vec<HostId> = hosts.filter(|h| *h != me && !self.is_out_of_reach(*h)).collect();
        let mut open = BTreeSet::new();
        for host in hosts {
            open.insert(self.query(host, Asker::Task(task, number)));
        }
        self.wait_for(task, number, me);
        let own = self.infos(now);
        let own = self.parts(task, number, own);
        self.say(task, ToTask::Part { number, tasks: own });
        self.local.questions.gathers.insert((task, number), open.clone());
        for request in &open {
            let Some(query) = self.local.questions.queries.get(request) else { continue };
            self.tell(now, query.host, Message::List(List { request: *request }));
        }
        self.gathered(task, number, None);
    }

    pub(crate) fn query(&mut self, host: HostId, asker: Asker) -> u64 {
        self.local.questions.next_query += 1;
        self.local
            .questions
            .queries
            .insert(self.local.questions.next_query, Query { host, asker, tasks: Vec::new() });
        self.local.questions.next_query
    }

    /// A query is done, or will not be.
    pub(crate) fn query_done(&mut self, query: u64, failed: Option<&str>) {
        let Some(Query { host, asker, tasks }) = self.local.questions.queries.remove(&query) else {
            return;
        };
        match asker {
            Asker::Owner => {
                let tasks = failed.map_or(Ok(tasks), |why| Err(why.into()));
                self.events.push_back(NodeEvent::Tasks { query, host, tasks });
            }
            Asker::Task(task, number) => {
                let tasks = self.parts(task, number, tasks);
                if self.local.questions.gathers.contains_key(&(task, number)) && !tasks.is_empty() {
                    self.say(task, ToTask::Part { number, tasks });
                }
                self.gathered(task, number, Some(query));
            }
        }
    }

    /// One host less to wait for; a host that is lost has no tasks.
    fn gathered(&mut self, task: TaskId, number: u64, query: Option<u64>) {
        let Some(open) = self.local.questions.gathers.get_mut(&(task, number)) else { return };
        if let Some(query) = query {
            open.remove(&query);
        }
        if open.is_empty() {
            self.local.questions.gathers.remove(&(task, number));
            self.answer(task, number, Ok(Answer::Tasks(Vec::new())));
        }
    }
}
