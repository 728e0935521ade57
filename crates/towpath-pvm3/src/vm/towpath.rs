//! The virtual machine that this process is in, by towpath-task.
//!
//! PVM's 32-bit numbers are the low halves of Towpath's; the high half tells a host's lives
//! apart. Programs hand numbers about as ints, so the high halves are kept here, by slot.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use towpath_task as towpath;
use towpath_task::{
    HostId, HostState, Loan, RegistryOp, Sealed, SpawnTasks, Subject, Task, TaskId, Wanted,
    WatchEvent,
};

use super::codes::{of_fault, of_receive, of_send};
use super::contract::{
    Answer, Envelope, Event, HostRow, Identity, Incoming, Mail, MailRules, MailWanted, Mailbox,
    Members, Nap, Question, SpawnRequest, TaskRow, Vm, Watched,
};
use super::shapes::{
    asked, code_of, context_from, context_of, envelope_of, get_of, low, rules_of, slot_of,
    status_of, tag_from,
};
use super::start::Starter;
use super::{names, tasker};
use crate::code::Code;
use crate::complaint::complain;
use crate::message::{DSIG, Received};
use crate::tid;

/// Variables that a child finds as this task has them: without them it might not find the
/// library.
const PASSED_ON: [&str; 3] = ["LD_LIBRARY_PATH", "LD_PRELOAD", "PVM_PATH"];
/// Programs wait for descriptors by `select`, which knows none from 1024 on; the task layer's are
/// higher than theirs.
const LOWEST: i32 = 3;

/// Most tasks that one question may start.
const SPAWN_MAX: u32 = 4096;
/// How long `pvm_notify` waits for the notice about a task that is over: its last messages come
/// before it, and may be on their way. Later it comes, too, but its place is not that of PVM.
const NOTICE_TIME: Duration = Duration::from_secs(1);

/// A task of a virtual machine.
pub(super) struct Member {
    task: Task,
    /// The last known life of each slot's host.
    lives: HashMap<i32, Life>,
    events: VecDeque<Event>,
    /// The descriptor that the program has, a copy of the task layer's.
    shown: Option<OwnedFd>,
    pub(super) starter: Starter,
}

/// A host's life.
#[derive(Clone, Copy)]
struct Life {
    host: HostId,
    /// As far as is known; else it is asked for.
    is_there: bool,
}

/// Enters the virtual machine of this process.
pub(crate) fn connect() -> Result<Box<dyn Vm>, Code> {
    match Task::enrol() {
        Ok(task) => Ok(Box::new(Member::new(task))),
        Err(error) => {
            // PVM says why too.
            complain(format_args!("libpvm [pid{}] {error}\n", std::process::id()));
            Err(Code::SysErr)
        }
    }
}

impl Member {
    fn new(task: Task) -> Self {
        let (lives, events) = (HashMap::new(), VecDeque::new());
        let mut member = Self { task, lives, events, shown: None, starter: Starter::default() };
        let family = [member.task.id()].into_iter().chain(member.task.parent());
        let family: Vec<TaskId> = family.chain(member.task.siblings().iter().copied()).collect();
        for task in family {
            member.learn(task.host());
        }
        member
    }

    /// A host that is there, or was when it sent something: what comes late of an old life does
    /// not hide the new one, and revives nobody.
    fn learn(&mut self, host: HostId) {
        let life = Life { host, is_there: true };
        let known = self.lives.entry(slot_of(host)).or_insert(life);
        if known.host < host {
            *known = life;
        }
    }

    /// A host that is there no more, or may not be.
    fn doubt(&mut self, host: HostId) {
        self.learn(host);
        if let Some(known) = self.lives.get_mut(&slot_of(host)).filter(|known| known.host == host) {
            known.is_there = false;
        }
    }

    /// The host of a number: `None` where there is none.
    pub(super) fn host(&mut self, tid: i32) -> Result<Option<HostId>, Code> {
        let slot = tid::host_of(tid);
        if let Some(life) = self.lives.get(&slot).filter(|life| life.is_there) {
            return Ok(Some(life.host));
        }
        for host in asked(self.task.hosts())? {
            if host.state == HostState::Up {
                self.learn(host.id);
                if let Some(life) = self.lives.get_mut(&slot).filter(|life| life.host == host.id) {
                    life.is_there = true;
                }
            }
        }
        Ok(self.lives.get(&slot).filter(|life| life.is_there).map(|life| life.host))
    }

    /// The task of a number: `None` where its host is not there.
    fn task(&mut self, tid: i32) -> Result<Option<TaskId>, Code> {
        let number = (tid & tid::LOCAL).cast_unsigned();
        Ok(self.host(tid)?.and_then(|host| host.task(number)))
    }

    /// Sends to the task of a number.
    fn send_by(
        &mut self,
        to: i32,
        mut send: impl FnMut(&mut Task, TaskId) -> Result<(), towpath::SendError>,
    ) -> Result<(), Code> {
        let Some(task) = self.task(to)? else { return Ok(()) };
        let outcome = send(&mut self.task, task);
        // Another host may have the number meanwhile.
        if matches!(outcome, Err(towpath::SendError::NoTask(_))) && task.host() != self.task.host()
        {
            self.doubt(task.host());
            if let Some(now) = self.task(to)?.filter(|now| *now != task) {
                return of_send(&send(&mut self.task, now));
            }
        }
        of_send(&outcome)
    }

    fn incoming(&mut self, message: towpath::Message) -> Incoming {
        let about = message.about();
        self.learn(about.src.host());
        let towpath::Received { src, tag, context, format, .. } = about;
        let envelope = Envelope { tag: tag_from(tag), context: context_from(context), format };
        Incoming { source: low(src), envelope, body: Received::Task(message) }
    }

    fn receive(
        &mut self,
        outcome: Result<Option<towpath::Message>, towpath::RecvError>,
    ) -> Result<Option<Incoming>, Code> {
        let message = outcome.map_err(|error| of_receive(&error))?;
        Ok(message.map(|message| self.incoming(message)))
    }

    /// Waits until a watch has told what is over already: behind what the task sent, and before
    /// whatever comes from now on.
    fn wait_for_notice(&mut self, wanted: u64) -> Result<(), Code> {
        let end = Instant::now() + NOTICE_TIME;
        loop {
            self.take_events();
            let is_it =
                |event: &Event| matches!(event, Event::Watched { watch, .. } if *watch == wanted);
            let left = end.saturating_duration_since(Instant::now());
            if self.events.iter().any(is_it) || left.is_zero() {
                return Ok(());
            }
            self.task.wait(Some(left)).map_err(|error| of_receive(&error))?;
        }
    }

    /// Takes events over as PVM's.
    pub(super) fn take_events(&mut self) {
        while let Some(event) = self.task.next_event() {
            match event {
                event if self.starter.takes(&event) => {}
                towpath::Event::Notice { watch, event } => {
                    let mut status = 0;
                    let tid = match event {
                        WatchEvent::TaskEnded { task, ending } => {
                            status = status_of(ending.as_ref());
                            low(task)
                        }
                        WatchEvent::HostGone { host, .. } => {
                            self.doubt(host);
                            slot_of(host)
                        }
                        WatchEvent::HostAdded(host) => {
                            self.learn(host.id);
                            slot_of(host.id)
                        }
                    };
                    self.events.push_back(Event::Watched { watch, tid, status });
                }
                towpath::Event::Output { task, bytes, .. } => {
                    self.events.push_back(Event::Output { tid: low(task), bytes });
                }
                // Calls that need the daemon fail from now on, as they do in PVM.
                towpath::Event::End(_) => {}
            }
        }
    }

    pub(super) const fn layer(&mut self) -> &mut Task {
        &mut self.task
    }

    fn members_of(&mut self, members: towpath::Members) -> Members {
        for task in members.members.iter().flatten() {
            self.learn(task.host());
        }
        members.members.into_iter().map(|member| member.map_or(0, low)).collect()
    }
}

impl Vm for Member {
    fn identity(&self) -> Identity {
        Identity {
            tid: low(self.task.id()),
            parent: self.task.parent().map(low),
            siblings: self.task.siblings().iter().copied().map(low).collect(),
            context: context_from(self.task.context()),
        }
    }

    fn leave(self: Box<Self>) {
        // A daemon that is gone has let the task go.
        let _ = self.task.leave();
    }

    fn descriptor(&mut self) -> i32 {
        if self.shown.is_none() {
            let own = self.task.descriptor().as_raw_fd();
            // SAFETY: copies a descriptor.
            let copy = unsafe { libc::fcntl(own, libc::F_DUPFD_CLOEXEC, LOWEST) };
            if copy < 0 {
                return own;
            }
            // SAFETY: it was just made, and is nobody else's.
            self.shown = Some(unsafe { OwnedFd::from_raw_fd(copy) });
        }
        self.shown.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    fn arm(&mut self) -> Result<bool, Code> {
        let nothing = self.task.arm().map_err(|error| of_receive(&error))?;
        self.take_events();
        Ok(nothing && self.events.is_empty())
    }

    fn is_armed(&self) -> bool {
        self.task.is_armed()
    }

    fn settle(&mut self) -> Result<Option<Nap>, Code> {
        let nothing = self.task.settle().map_err(|error| of_receive(&error))?;
        self.take_events();
        if !nothing || !self.events.is_empty() {
            return Ok(None);
        }
        let descriptor = self.task.descriptor().as_raw_fd();
        Ok(Some(Nap { descriptor, until: self.task.wakes_at() }))
    }

    fn came(&self) -> u64 {
        self.task.came()
    }

    fn ask(&mut self, question: Question<'_>) -> Result<u64, Code> {
        let op = match question {
            Question::Barrier { group, count } => {
                RegistryOp::Barrier { group: group.to_owned(), count }
            }
            Question::Freeze { group, count } => {
                RegistryOp::Freeze { group: group.to_owned(), count }
            }
            Question::Mail { name, wanted } => get_of(name, wanted),
        };
        asked(self.task.ask_begin(towpath::Question::Registry(op)))
    }

    fn answer(&mut self, number: u64) -> Option<Result<Answer, Code>> {
        use towpath::RegistryAnswer::{Done, Mail as Entry, Members};
        Some(match self.task.answer(number)? {
            Ok(towpath::Answer::Registry(Done)) => Ok(Answer::Passed),
            Ok(towpath::Answer::Registry(Members { members, version, context })) => {
                let members = towpath::Members { members, version, context };
                Ok(Answer::Members(self.members_of(members)))
            }
            Ok(towpath::Answer::Registry(Entry { index, content, .. })) => {
                Ok(Answer::Mail(Mail { index: index.cast_signed(), content }))
            }
            Ok(_) => Err(Code::DSysErr),
            Err(fault) => Err(of_fault(&fault)),
        })
    }

    fn send(&mut self, to: i32, envelope: Envelope, parts: &[&[u8]]) -> Result<(), Code> {
        let envelope = envelope_of(envelope);
        self.send_by(to, |task, to| task.send_parts(to, envelope, parts))
    }

    fn loan(&mut self, len: usize) -> Option<Loan> {
        self.task.spare_loan(len)
    }

    fn send_sealed(&mut self, to: i32, envelope: Envelope, sealed: &Sealed) -> Result<(), Code> {
        let envelope = envelope_of(envelope);
        self.send_by(to, |task, to| task.send_sealed(to, envelope, sealed))
    }

    fn multicast(&mut self, to: &[i32], envelope: Envelope, parts: &[&[u8]]) -> Result<(), Code> {
        let mut tasks = Vec::with_capacity(to.len());
        for &tid in to {
            tasks.extend(self.task(tid)?);
        }
        of_send(&self.task.multicast(&tasks, envelope_of(envelope), parts))
    }

    fn take(&mut self) -> Result<Option<Incoming>, Code> {
        let taken = self.task.recv_first();
        let taken = self.receive(taken);
        self.take_events();
        taken
    }

    fn take_matching(
        &mut self,
        source: Option<i32>,
        tag: Option<i32>,
        context: i32,
    ) -> Result<Option<Incoming>, Code> {
        let source = match source {
            None => None,
            Some(source) => match self.task(source)? {
                None => return Ok(None),
                found => found,
            },
        };
        let wanted = Wanted { source, tag: tag.map(Into::into), context: context_of(context) };
        let taken = self.task.recv_at_hand(&wanted);
        let taken = self.receive(taken);
        self.take_events();
        taken
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Code> {
        self.task.wait(timeout).map_err(|error| of_receive(&error))?;
        self.take_events();
        Ok(())
    }

    fn event(&mut self) -> Option<Event> {
        self.take_events();
        self.events.pop_front()
    }

    fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    fn hosts(&mut self) -> Result<Vec<HostRow>, Code> {
        let hosts = asked(self.task.hosts())?;
        let mut rows = Vec::with_capacity(hosts.len());
        for host in hosts.into_iter().filter(|host| host.state == HostState::Up) {
            self.learn(host.id);
            rows.push(HostRow {
                tid: slot_of(host.id),
                arch: names::to_pvm(&host.arch).to_owned(),
                name: host.name,
                speed: host.speed.cast_signed(),
                // Every machine that Towpath runs on has the formats of this one.
                dsig: DSIG,
            });
        }
        Ok(rows)
    }

    fn add_hosts(&mut self, names: &[String]) -> Result<Vec<i32>, Code> {
        self.add(names)
    }

    fn delete_hosts(&mut self, hosts: &[i32]) -> Result<Vec<i32>, Code> {
        let mut ids = Vec::with_capacity(hosts.len());
        for &host in hosts {
            ids.push(self.host(host)?.ok_or(Code::NoHost)?);
        }
        let outcomes = asked(self.task.delete_hosts(ids))?;
        Ok(outcomes.iter().map(|one| one.as_ref().map_or_else(code_of, |()| 0)).collect())
    }

    fn clock(&mut self, host: i32) -> Result<u64, Code> {
        let host = self.host(host)?.ok_or(Code::NoHost)?;
        asked(self.task.clock(host))
    }

    fn halt(&mut self) -> Result<(), Code> {
        asked(self.task.halt())
    }

    fn tasks(&mut self, host: i32) -> Result<Vec<TaskRow>, Code> {
        let host = if host == 0 { None } else { Some(self.host(host)?.ok_or(Code::NoHost)?) };
        let tasks = asked(self.task.tasks(host))?;
        // What was started by `towpath run` and is no task yet is none of PVM's.
        let starters = tasker::starters(&tasks);
        let of_vm = tasks.into_iter().filter(|task| task.enrolled || task.parent.is_some());
        let of_vm = of_vm.filter(|task| !tasker::only_asks(task, &starters));
        let row = |task: towpath::TaskInfo| TaskRow {
            tid: low(task.id),
            parent: task.parent.map_or(0, low),
            host: slot_of(task.id.host()),
            program: tasker::shown(&task.command).to_owned(),
            pid: task.pid.cast_signed(),
        };
        Ok(of_vm.map(row).collect())
    }

    fn runs(&mut self, tid: i32) -> Result<bool, Code> {
        let Some(task) = self.task(tid)? else { return Ok(false) };
        match asked(self.task.task(task)) {
            // One that has left may still run, as another program does.
            Ok(info) => Ok(info.enrolled || info.parent.is_some()),
            Err(Code::NoTask | Code::NoHost | Code::HostFail) => Ok(false),
            Err(code) => Err(code),
        }
    }

    fn signal(&mut self, tid: i32, signal: i32) -> Result<(), Code> {
        let task = self.task(tid)?.ok_or(Code::NoTask)?;
        asked(self.task.signal(task, signal))
    }

    fn spawn(&mut self, request: &SpawnRequest) -> Result<Vec<i32>, Code> {
        if request.count > SPAWN_MAX {
            return Err(Code::OutOfRes);
        }
        let Some(place) = self.place(&request.place)? else {
            return Ok(vec![Code::NoHost.number(); request.count as usize]);
        };
        if request.program.is_empty() {
            // No folder has a file without a name.
            return Ok(vec![Code::NoFile.number(); request.count as usize]);
        }
        let mut env = request.env.clone();
        for name in PASSED_ON {
            if let Some(value) = std::env::var_os(name) {
                env.push((name.into(), std::os::unix::ffi::OsStringExt::into_vec(value)));
            }
        }
        let (program, args) = self.with_taskers(names::program(&request.program), request);
        let tasks = SpawnTasks {
            program,
            args,
            env,
            cwd: Vec::new(),
            place,
            count: request.count,
            context: context_of(request.context),
            orphan: request.orphan,
            unique: false,
        };
        let outcomes = asked(self.task.spawn(tasks))?;
        let mut tids = Vec::with_capacity(outcomes.len());
        for outcome in outcomes {
            tids.push(match outcome {
                Ok(task) => {
                    self.learn(task.host());
                    low(task)
                }
                Err(fault) => code_of(&fault),
            });
        }
        Ok(tids)
    }

    fn catch_output(&mut self, on: bool) -> Result<(), Code> {
        asked(self.task.catch_output(on))
    }

    fn watch(&mut self, what: Watched) -> Result<u64, Code> {
        let subject = match what {
            Watched::Task(tid) => self.task(tid)?.map(Subject::Task),
            Watched::Host(tid) => self.host(tid)?.map(Subject::Host),
            Watched::NewHosts => Some(Subject::NewHosts),
        };
        match (subject, what) {
            (Some(subject), Watched::Task(tid)) => {
                let watch = asked(self.task.watch(subject))?;
                if !self.runs(tid)? {
                    self.wait_for_notice(watch)?;
                }
                Ok(watch)
            }
            (Some(subject), _) => asked(self.task.watch(subject)),
            // It is gone already. The number of a watch that is over is nobody else's.
            (None, Watched::Task(tid) | Watched::Host(tid)) => {
                let watch = asked(self.task.watch(Subject::NewHosts))?;
                asked(self.task.unwatch(watch))?;
                self.events.push_back(Event::Watched { watch, tid, status: 0 });
                Ok(watch)
            }
            (None, Watched::NewHosts) => Err(Code::SysErr),
        }
    }

    fn unwatch(&mut self, watch: u64) -> Result<(), Code> {
        asked(self.task.unwatch(watch))
    }

    fn join(&mut self, group: &str) -> Result<i32, Code> {
        asked(self.task.join_group(group)).map(u32::cast_signed)
    }

    fn leave_group(&mut self, group: &str) -> Result<(), Code> {
        asked(self.task.leave_group(group))
    }

    fn members(&mut self, group: &str) -> Result<Members, Code> {
        let members = asked(self.task.group_members(group))?;
        Ok(self.members_of(members))
    }

    fn mail_put(
        &mut self,
        name: &str,
        index: i32,
        rules: MailRules,
        content: Vec<u8>,
    ) -> Result<i32, Code> {
        // Many entries: the first free place. One: this place.
        let place = (!rules.many || index > 0).then_some(index.cast_unsigned());
        let put = asked(self.task.mail_put(name, place, rules_of(rules), 0, content));
        let place = put.map_err(|code| if code == Code::Exists { Code::Denied } else { code })?;
        Ok(place.cast_signed())
    }

    fn mail_get(&mut self, name: &str, wanted: MailWanted) -> Result<Mail, Code> {
        let mail = asked(self.task.mail_get(get_of(name, wanted)))?;
        Ok(Mail { index: mail.index.cast_signed(), content: mail.content })
    }

    fn mail_delete(&mut self, name: &str, index: i32) -> Result<(), Code> {
        asked(self.task.mail_delete(name, index.cast_unsigned()))
    }

    fn mailboxes(&mut self, pattern: &str) -> Result<Vec<Mailbox>, Code> {
        let entry = |(index, owner, rules): &(u32, Option<TaskId>, towpath::MailRules)| {
            let towpath::MailRules { persistent, many, overwritable } = *rules;
            (
                index.cast_signed(),
                owner.map_or(0, low),
                MailRules { persistent, many, overwritable },
            )
        };
        let boxes = asked(self.task.mailboxes(pattern))?;
        Ok(boxes
            .iter()
            .map(|one| (one.name.clone(), one.entries.iter().map(entry).collect()))
            .collect())
    }
}

#[cfg(test)]
#[path = "towpath_tests.rs"]
mod tests;
