//! The resource manager: a task that decides for all others where tasks run and which hosts there
//! are.
//!
//! While one stands in its mailbox, calls of other tasks about tasks and hosts become questions to
//! it. What it tells daemons to do, its library does, or has done by the task that asked: a task
//! that it places is started by its parent, and is so in every respect.

use super::machine::NAMES_MAX;
use super::roles::MANAGER;
use super::session::{Library, Session};
use super::system::{self, SIBLINGS_VAR, blank};
use crate::code::{Code, Outcome};
use crate::message::Message;
use crate::tid;
use crate::vm::{HostRow, MailWanted, Place, SpawnRequest, TaskRow, Vm};

/// Most tasks that one message of a manager may start, and arguments or variables of one.
const COUNT_MAX: i32 = 4096;
const TEXTS_MAX: i32 = 1 << 16;

/// What is to be started, as managers tell daemons.
///
/// ```text
/// parent | file | flags | count | n, n arguments | output: task, context, tag | trace: the same
///        | n, n variables
/// ```
struct Wanted {
    parent: i32,
    flags: i32,
    request: SpawnRequest,
}

impl Wanted {
    fn read(message: &mut Message, host: i32, context: i32) -> Result<Self, Code> {
        let parent = message.unpack_int()?;
        let program = message.unpack_text()?;
        let flags = message.unpack_int()?;
        let count = message.unpack_int()?;
        let count =
            if (1..=COUNT_MAX).contains(&count) { count } else { return Err(Code::BadMsg) };
        let args = texts(message)?;
        for _ in 0..6 {
            message.unpack_int()?;
        }
        let variable = |text: Vec<u8>| {
            let at = text.iter().position(|&byte| byte == b'=')?;
            Some((text[..at].to_vec(), text[at + 1..].to_vec()))
        };
        let env = texts(message)?.into_iter().filter_map(variable).collect();
        let (place, count) = (Place::On(host), count.cast_unsigned());
        let orphan = flags & super::spawn::ORPHAN != 0;
        let request = SpawnRequest { program, args, flags, env, place, count, context, orphan };
        Ok(Self { parent, flags, request })
    }
}

fn texts(message: &mut Message) -> Result<Vec<Vec<u8>>, Code> {
    let count = message.unpack_int()?;
    if !(0..=TEXTS_MAX).contains(&count) {
        return Err(Code::BadMsg);
    }
    (0..count).map(|_| message.unpack_text()).collect()
}

fn name_of(bytes: Vec<u8>) -> Result<String, Code> {
    String::from_utf8(bytes).map_err(|_| Code::BadMsg)
}

/// `count` and so many ints.
fn counted(ints: &[i32]) -> Result<Message, Code> {
    let mut message = blank();
    message.pack_int(ints.len() as i32)?;
    for &int in ints {
        message.pack_int(int)?;
    }
    Ok(message)
}

fn pack_host(message: &mut Message, row: &HostRow) -> Result<(), Code> {
    message.pack_int(row.tid)?;
    message.pack_text(row.name.as_bytes())?;
    message.pack_text(row.arch.as_bytes())?;
    message.pack_int(row.speed)?;
    message.pack_int(row.dsig)
}

pub(super) fn unpack_host(message: &mut Message) -> Result<HostRow, Code> {
    Ok(HostRow {
        tid: message.unpack_int()?,
        name: name_of(message.unpack_text()?)?,
        arch: name_of(message.unpack_text()?)?,
        speed: message.unpack_int()?,
        dsig: message.unpack_int().unwrap_or(crate::message::DSIG),
    })
}

fn pack_names(names: &[String]) -> Result<Message, Code> {
    let mut message = blank();
    message.pack_int(names.len() as i32)?;
    for name in names {
        message.pack_text(name.as_bytes())?;
    }
    Ok(message)
}

impl Session {
    /// The task that is the resource manager for this one.
    pub(super) fn manager(&self, vm: &mut dyn Vm) -> Result<Option<i32>, Code> {
        if self.roles.contains_key(MANAGER) {
            return Ok(None);
        }
        let first = MailWanted { later: true, ..MailWanted::default() };
        match vm.mail_get(MANAGER, first) {
            Ok(mail) => {
                let mut message = super::mailbox::unpack(&mail.content)?;
                message.begin_unpacking();
                let manager = message.unpack_int()?;
                Ok((tid::is_task(manager) && manager != self.tid()?).then_some(manager))
            }
            // Where nothing is known of mailboxes, as on a host that has lost the leader,
            // nobody manages.
            Err(_) => Ok(None),
        }
    }
}

impl Library {
    /// Asks the resource manager; `None`: there is none, or it ended over it.
    fn ask_manager(
        &self,
        tag: i32,
        question: impl FnOnce(&mut Session, &mut dyn Vm) -> Result<Message, Code>,
    ) -> Result<Option<Message>, Code> {
        let asks = self.enrolled(|session, vm| {
            let Some(manager) = session.manager(vm)? else { return Ok(None) };
            session.announce(vm, manager)?;
            Ok(Some((manager, question(session, vm)?)))
        })?;
        let Some((manager, question)) = asks else { return Ok(None) };
        let start = |host: i32, what: &mut Message| {
            let tids = self.start_as_told(host, what);
            tids.and_then(|tids| counted(&tids)).unwrap_or_else(|_| blank())
        };
        self.ask_task(manager, tag, &question, start)
    }

    /// Starts what a manager placed on a host.
    fn start_as_told(&self, host: i32, what: &mut Message) -> Result<Vec<i32>, Code> {
        self.enrolled(|session, vm| {
            let mut wanted = Wanted::read(what, host, session.context)?;
            let me = session.tid()?;
            wanted.request.orphan |= wanted.parent != me;
            wanted.request.env.push((SIBLINGS_VAR.into(), b"later".to_vec()));
            super::spawn::under_debugger(wanted.flags, &mut wanted.request);
            let tids = vm.spawn(&wanted.request)?;
            for &tid in tids.iter().filter(|&&tid| tid > 0) {
                session.begin_output(tid);
            }
            Ok(tids)
        })
    }

    /// `pvm_spawn` by the manager; `None`: there is none.
    pub(super) fn spawn_managed(
        &self,
        (program, args): (&[u8], &[&[u8]]),
        flags: i32,
        place: &[u8],
        count: i32,
    ) -> Result<Option<Vec<i32>>, Code> {
        let question = |session: &mut Session, vm: &mut dyn Vm| {
            let mut message = blank();
            message.pack_text(program)?;
            message.pack_int(flags)?;
            message.pack_text(place)?;
            message.pack_int(count)?;
            message.pack_int(args.len() as i32)?;
            for arg in args {
                message.pack_text(arg)?;
            }
            let child = session.options.child;
            for int in [
                child.output_tid,
                child.output_context,
                child.output_tag,
                child.trace_tid,
                child.trace_context,
                child.trace_tag,
            ] {
                message.pack_int(int)?;
            }
            let env = session.child_environment(vm);
            message.pack_int(env.len() as i32)?;
            for (name, value) in &env {
                message.pack_text(&[name.as_slice(), b"=", value].concat())?;
            }
            Ok(message)
        };
        let Some(mut answer) = self.ask_manager(system::SPAWN, question)? else {
            return Ok(None);
        };
        let tids = statuses(&mut answer, count as usize)?;
        self.enrolled(|_, vm| Session::tell_siblings(vm, &tids))?;
        Ok(Some(tids))
    }

    /// `pvm_config` by the manager.
    pub(super) fn hosts_managed(&self) -> Result<Option<Vec<HostRow>>, Code> {
        let Some(mut answer) = self.ask_manager(system::CONFIG, |_, _| Ok(blank()))? else {
            return Ok(None);
        };
        let count = answer.unpack_int()?;
        answer.unpack_int()?;
        if count < 0 || count as usize > NAMES_MAX {
            return Err(Code::from_number(count).unwrap_or(Code::BadMsg));
        }
        (0..count).map(|_| unpack_host(&mut answer)).collect::<Result<_, _>>().map(Some)
    }

    /// `pvm_tasks` by the manager.
    pub(super) fn tasks_managed(&self, which: i32) -> Result<Option<Vec<TaskRow>>, Code> {
        let question = |_: &mut Session, _: &mut dyn Vm| {
            let mut message = blank();
            message.pack_int(which)?;
            Ok(message)
        };
        let Some(mut answer) = self.ask_manager(system::TASKS, question)? else {
            return Ok(None);
        };
        let code = answer.unpack_int()?;
        if code < 0 {
            return Err(Code::from_number(code).unwrap_or(Code::SysErr));
        }
        let mut rows = Vec::new();
        while let Ok(task) = answer.unpack_int() {
            let (parent, host) = (answer.unpack_int()?, answer.unpack_int()?);
            let _flag = answer.unpack_int()?;
            let program = name_of(answer.unpack_text()?)?;
            rows.push(TaskRow { tid: task, parent, host, program, pid: answer.unpack_int()? });
        }
        Ok(Some(rows))
    }

    /// `pvm_addhosts` by the manager: for each a host or a code.
    pub(super) fn add_hosts_managed(&self, names: &[String]) -> Result<Option<Vec<i32>>, Code> {
        let question = |_: &mut Session, _: &mut dyn Vm| pack_names(names);
        let Some(mut answer) = self.ask_manager(system::ADD_HOST, question)? else {
            return Ok(None);
        };
        let count = answer.unpack_int()?;
        if count < 0 {
            return Err(Code::from_number(count).unwrap_or(Code::SysErr));
        }
        if count as usize != names.len() {
            return Err(Code::OutOfRes);
        }
        answer.unpack_int()?;
        (0..count)
            .map(|_| unpack_host(&mut answer).map(|row| row.tid))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// `pvm_delhosts` by the manager: for each 0 or a code.
    pub(super) fn delete_hosts_managed(&self, names: &[String]) -> Result<Option<Vec<i32>>, Code> {
        let question = |_: &mut Session, _: &mut dyn Vm| pack_names(names);
        let Some(mut answer) = self.ask_manager(system::DELETE_HOST, question)? else {
            return Ok(None);
        };
        statuses(&mut answer, names.len()).map(Some)
    }

    /// `pvm_notify` by the manager, who answers by the notices alone. `None`: there is none.
    pub(super) fn notify_managed(
        &self,
        what: i32,
        tag: i32,
        count: i32,
        about: &[i32],
    ) -> Result<Option<()>, Code> {
        self.enrolled(|session, vm| {
            let Some(manager) = session.manager(vm)? else { return Ok(None) };
            session.announce(vm, manager)?;
            let mut message = blank();
            for &int in [what, session.context, tag, count].iter().chain(about) {
                message.pack_int(int)?;
            }
            Session::tell_system(vm, manager, system::NOTIFY, &message)?;
            Ok(Some(()))
        })
    }

    /// Asks the manager that is there whether this task may be one: its host, as it says.
    pub(super) fn ask_to_manage(&self) -> Result<Option<i32>, Code> {
        let Some(mut answer) = self.ask_manager(system::SCHEDULE, |_, _| Ok(blank()))? else {
            return Ok(None);
        };
        match answer.unpack_int()? {
            code @ 0.. => Ok(Some(code)),
            code => Err(Code::from_number(code).unwrap_or(Code::Denied)),
        }
    }

    /// A program's message with a reserved tag: `Some` when it was an answer, or for a daemon.
    pub(super) fn send_of_system(&self, to: i32, tag: i32) -> Result<Option<i32>, Code> {
        if to & tid::DAEMON == 0 {
            return self.enrolled(|session, vm| session.send_answer(vm, to, tag));
        }
        if let system::HOST_ACK | system::TASK_OVER = tag {
            return self.enrolled(|session, vm| session.report_start(vm, tag)).map(Some);
        }
        let copy = self.enrolled(|session, _| {
            let sending = session.buffers.sending()?;
            let format = sending.encoding().format();
            let body = sending.with_parts(|parts| parts.concat());
            let bytes = crate::message::Received::Shared(body.into());
            let mut copy = Message::received(format, bytes, sending.info);
            copy.begin_unpacking();
            Ok(copy)
        })?;
        match tag {
            system::EXEC => self.start_for_manager(tid::host_of(to), copy).map(Some),
            system::ADD => self.add_for_manager(copy).map(Some),
            system::HAND_OFF => self.hand_off(copy).map(Some),
            _ => Ok(Some(0)),
        }
    }

    /// A manager tells a daemon to start tasks: who asked it for them does, or its own library.
    fn start_for_manager(&self, host: i32, mut what: Message) -> Outcome {
        self.enrolled(|session, vm| {
            let asked = (session.context, what.info.wait);
            let host = if host == 0 { tid::host_of(session.tid()?) } else { host };
            let Ok(wanted) = Wanted::read(&mut what, host, session.context) else {
                // PVM's daemon says so in its log, and answers nothing.
                return Err(Code::BadMsg);
            };
            if let Some(question) = session.question_of(wanted.parent, system::SPAWN) {
                let count = wanted.request.count.cast_signed();
                return session.pass_start_on(vm, question, (host, count), &what);
            }
            let mut request = wanted.request;
            request.orphan |= wanted.parent != session.tid()?;
            super::spawn::under_debugger(wanted.flags, &mut request);
            let tids = vm.spawn(&request)?;
            let mut message = counted(&tids)?;
            message.begin_unpacking();
            session.watch_started(vm, &mut message);
            session.answer_as_daemon(counted(&tids)?, system::EXEC_ACK, host, asked);
            Ok(0)
        })
    }

    /// A manager tells the first daemon to add hosts.
    fn add_for_manager(&self, mut what: Message) -> Outcome {
        let names = texts(&mut what)?.into_iter().map(name_of).collect::<Result<Vec<_>, _>>()?;
        let outcomes = self.add_hosts(&names)?;
        let hosts = self.hosts()?;
        let mut archs: Vec<&str> = hosts.iter().map(|row| row.arch.as_str()).collect();
        archs.sort_unstable();
        archs.dedup();
        let mut message = blank();
        message.pack_int(outcomes.len() as i32)?;
        message.pack_int(archs.len() as i32)?;
        for &outcome in &outcomes {
            let (name, arch) = (String::new(), String::new());
            let none = HostRow { tid: outcome, name, arch, speed: 0, dsig: 0 };
            pack_host(&mut message, hosts.iter().find(|row| row.tid == outcome).unwrap_or(&none))?;
        }
        let first = hosts.iter().map(|row| row.tid).min().unwrap_or(0);
        self.with(|session| {
            let asked = (session.context, what.info.wait);
            session.answer_as_daemon(message, system::ADD_ACK, first, asked);
        });
        Ok(0)
    }

    /// The manager that is now names another.
    fn hand_off(&self, mut what: Message) -> Outcome {
        let next = what.unpack_int()?;
        self.enrolled(|session, vm| {
            let Some(place) = session.roles.remove(MANAGER) else { return Err(Code::Denied) };
            session.unwatch_hosts(vm);
            vm.mail_delete(MANAGER, place)?;
            if next != 0 {
                let content = super::mailbox::content_of(&[next])?;
                vm.mail_put(MANAGER, place, super::roles::rules(true), content)?;
            }
            Ok(0)
        })
    }
}

/// As many codes as were asked for, behind their number.
fn statuses(answer: &mut Message, expected: usize) -> Result<Vec<i32>, Code> {
    let count = answer.unpack_int()?;
    if count < 0 {
        return Err(Code::from_number(count).unwrap_or(Code::SysErr));
    }
    if count as usize != expected {
        return Err(Code::OutOfRes);
    }
    (0..count).map(|_| answer.unpack_int()).collect()
}

#[cfg(test)]
#[path = "manager_tests.rs"]
mod tests;
