//! Messages between libraries, by which tasks that do a part of the system's work are asked.
//!
//! In PVM a resource manager, hoster or tasker talks to daemons and to the libraries of other
//! tasks in messages with reserved tags. Here they come from and go to libraries, in a context of
//! the library's own, where no receive or handler of a program finds them. The receiver's library
//! makes of them what the program expects: a message with a reserved tag, of a task or daemon.
//!
//! ```text
//! 0 kind | 4 tag | 8 wait id | 12 host | 16 the message's own bytes
//! kind   0 question, 1 question of a daemon, 2 answer, 3 tasks to start for who asked, 4 those,
//!        5 siblings of tasks that were placed one by one
//! ```
//! The ints are little-endian. Who asks chooses the wait id; the answer has the same.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::handlers::{OWN_CONTEXT, OWN_TAG};
use super::session::{Library, Session};
use super::waiting::Wait;
use crate::code::{Code, Outcome};
use crate::message::{Encoding, Info, Message, Received};
use crate::tid;
use crate::vm::{Envelope, Vm, Watched};

/// First and last of PVM's tags for this.
const FIRST: i32 = 0x8004_0001_u32.cast_signed();
pub(super) const SPAWN: i32 = FIRST;
pub(super) const EXEC: i32 = FIRST + 1;
pub(super) const EXEC_ACK: i32 = FIRST + 2;
pub(super) const TASKS: i32 = FIRST + 3;
pub(super) const CONFIG: i32 = FIRST + 4;
pub(super) const ADD_HOST: i32 = FIRST + 5;
pub(super) const DELETE_HOST: i32 = FIRST + 6;
pub(super) const ADD: i32 = FIRST + 7;
pub(super) const ADD_ACK: i32 = FIRST + 8;
pub(super) const NOTIFY: i32 = FIRST + 9;
pub(super) const TASK_OVER: i32 = FIRST + 10;
pub(super) const HOST_OVER: i32 = FIRST + 11;
pub(super) const HAND_OFF: i32 = FIRST + 12;
pub(super) const SCHEDULE: i32 = FIRST + 13;
/// A hoster starts hosts, and says what came of them.
pub(super) const START_HOST: i32 = FIRST + 14;
pub(super) const HOST_ACK: i32 = FIRST + 15;
/// A tasker starts a task.
pub(super) const START_TASK: i32 = FIRST + 16;
pub(super) const LAST: i32 = START_TASK;

/// Tag of the messages between libraries: one that handlers of programs cannot be for.
const TAG: i32 = OWN_TAG + 3;
const HEADER: usize = 16;
/// Questions to this task that may wait for an answer; older ones are forgotten.
const QUESTIONS_MAX: usize = 65_536;

/// What a message between libraries is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Kind {
    Question = 0,
    /// The program shall see a daemon's.
    OfDaemon = 1,
    Answer = 2,
    /// To a task that waits for an answer: start these, and go on waiting.
    Start = 3,
    /// Those that were started.
    Started = 4,
    /// To tasks that were placed one by one: who was spawned together.
    Siblings = 5,
}

/// What stands in front of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) tag: i32,
    pub(super) wait: i32,
    pub(super) host: i32,
}

impl Header {
    fn bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let ints = [self.kind as i32, self.tag, self.wait, self.host];
        for (place, int) in bytes.chunks_exact_mut(4).zip(ints) {
            place.copy_from_slice(&int.to_le_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = bytes.split_at_checked(HEADER)?;
        let int = |at: usize| header[at..at + 4].try_into().map(i32::from_le_bytes).ok();
        let kinds = [
            Kind::Question,
            Kind::OfDaemon,
            Kind::Answer,
            Kind::Start,
            Kind::Started,
            Kind::Siblings,
        ];
        let kind = *kinds.get(usize::try_from(int(0)?).ok()?)?;
        Some((Self { kind, tag: int(4)?, wait: int(8)?, host: int(12)? }, rest))
    }
}

/// A question to this task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) from: i32,
    pub(super) tag: i32,
    pub(super) wait: i32,
    /// The task that is to be started, where one is.
    about: i32,
}

/// Tasks that somebody else was told to start.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) by: i32,
    pub(super) wait: i32,
    pub(super) host: i32,
    /// How many.
    pub(super) count: i32,
    /// What the program's message had: its answer has it too.
    pub(super) asked: (i32, i32),
    watch: u64,
}

/// What comes of a question.
#[derive(Debug)]
enum Pending {
    Nothing,
    Start {
        host: i32,
        what: Message,
    },
    Answer(Message),
    /// Who was asked is there no more.
    Gone,
}

/// What a watch of the library's own is for.
#[derive(Clone, Copy, Debug)]
enum Watching {
    /// Who was asked the question with this wait id.
    Asked(i32),
    /// Who was told to start tasks.
    Starter(i32, i32),
    /// A task that this one had started.
    Task,
    Host,
    NewHosts,
}

/// Questions, asked and to be answered.
pub(super) struct System {
    last_wait: i32,
    /// The manager that knows of this task.
    announced: i32,
    /// The parent has still to tell who was spawned together with this task.
    pub(super) awaits_siblings: bool,
    asked: BTreeMap<i32, VecDeque<Pending>>,
    questions: VecDeque<Question>,
    starts: Vec<Start>,
    watches: BTreeMap<u64, Watching>,
}

impl System {
    pub(super) const fn new() -> Self {
        Self {
            last_wait: 0,
            announced: 0,
            awaits_siblings: false,
            asked: BTreeMap::new(),
            questions: VecDeque::new(),
            starts: Vec::new(),
            watches: BTreeMap::new(),
        }
    }

    /// Nothing is asked, told to be started or watched.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.starts.is_empty() && self.watches.is_empty()
    }

    fn take_question(&mut self, fits: impl Fn(&Question) -> bool) -> Option<Question> {
        let at = self.questions.iter().position(fits)?;
        self.questions.remove(at)
    }

    /// A question to this task that is to be answered.
    fn push_question(&mut self, question: Question) {
        if self.questions.len() == QUESTIONS_MAX {
            self.questions.pop_front();
        }
        self.questions.push_back(question);
    }

    fn take_start(&mut self, by: i32, wait: i32) -> Option<Start> {
        let at = self.starts.iter().position(|start| (start.by, start.wait) == (by, wait))?;
        let start = self.starts.remove(at);
        self.watches.remove(&start.watch);
        Some(start)
    }
}

/// Says to a task that its parent tells who its siblings are.
pub(super) const SIBLINGS_VAR: &str = "TOWPATH_PVM_SIBLINGS";
/// How long a task waits for that: its parent may have ended.
const SIBLINGS_TIME: Duration = Duration::from_secs(10);

/// Whether this task's parent tells it who its siblings are.
pub(super) fn told_later() -> bool {
    std::env::var_os(SIBLINGS_VAR).is_some()
}

/// An empty message to write a question or answer into.
pub(super) fn blank() -> Message {
    Message::new(Encoding::DEFAULT, Vec::new())
}

/// Whether a program's message with this tag concerns the system.
pub(super) const fn is_system(tag: i32) -> bool {
    FIRST <= tag && tag <= LAST
}

impl Library {
    /// Asks a task, and waits for the answer. What it says has to be started meanwhile, `start`
    /// does. `None`: it ended without one.
    pub(super) fn ask_task(
        &self,
        to: i32,
        tag: i32,
        question: &Message,
        mut start: impl FnMut(i32, &mut Message) -> Message,
    ) -> Result<Option<Message>, Code> {
        let wait = self.enrolled(|session, vm| {
            let watch = vm.watch(Watched::Task(to))?;
            let system = &mut session.system;
            system.last_wait = system.last_wait.wrapping_add(1).max(1);
            let wait = system.last_wait;
            system.asked.insert(wait, VecDeque::new());
            system.watches.insert(watch, Watching::Asked(wait));
            let host = tid::host_of(session.tid()?);
            let header = Header { kind: Kind::Question, tag, wait, host };
            Session::send_system(vm, to, header, question)?;
            Ok(wait)
        })?;
        let outcome = loop {
            let seen = self.seen()?;
            self.take_all_in()?;
            let next = self.inside(|session, _| {
                // The question is gone with the task that asked it.
                let pending = session.system.asked.get_mut(&wait).ok_or(Code::SysErr)?;
                Ok(pending.pop_front().unwrap_or(Pending::Nothing))
            })?;
            match next {
                Pending::Answer(answer) => break Ok(Some(answer)),
                Pending::Gone => break Ok(None),
                Pending::Start { host, mut what } => {
                    let started = start(host, &mut what);
                    let header = Header { kind: Kind::Started, tag: EXEC_ACK, wait, host };
                    self.inside(|_, vm| Session::send_system(vm, to, header, &started))?;
                }
                Pending::Nothing => {
                    self.wait(Wait::Forever, seen)?;
                }
            }
        };
        self.inside(|session, vm| {
            session.system.asked.remove(&wait);
            let is_it =
                |watching: &Watching| matches!(watching, Watching::Asked(of) if *of == wait);
            let mut watches = session.system.watches.iter();
            if let Some(watch) = watches.find(|(_, what)| is_it(what)).map(|(&watch, _)| watch) {
                session.system.watches.remove(&watch);
                // Who has ended is watched no more.
                let _ = vm.unwatch(watch);
            }
            Ok(())
        })?;
        outcome
    }
}

impl Library {
    /// Waits until the parent has told who the siblings are, if it does.
    pub(super) fn wait_for_siblings(&self) -> Result<(), Code> {
        let until = Instant::now() + SIBLINGS_TIME;
        while self.with(|session| session.system.awaits_siblings) {
            let seen = self.seen()?;
            self.take_all_in()?;
            let still = self.with(|session| session.system.awaits_siblings);
            if still && self.wait(Wait::Until(until), seen)? {
                self.with(|session| session.system.awaits_siblings = false);
            }
        }
        Ok(())
    }
}

impl Session {
    /// Sends a message to a library.
    fn send_system(
        vm: &mut dyn Vm,
        to: i32,
        header: Header,
        message: &Message,
    ) -> Result<(), Code> {
        let format = message.encoding().format();
        let envelope = Envelope { tag: TAG, context: OWN_CONTEXT, format };
        let header = header.bytes();
        message.with_parts(|parts| {
            let mut all: Vec<&[u8]> = vec![&header];
            all.extend_from_slice(parts);
            vm.send(to, envelope, &all)
        })
    }

    /// A message of another library.
    pub(super) const fn is_system_message(info: &Info) -> bool {
        info.tag == TAG && info.context == OWN_CONTEXT
    }

    /// Tells a task something that has no answer.
    pub(super) fn tell_system(
        vm: &mut dyn Vm,
        to: i32,
        tag: i32,
        message: &Message,
    ) -> Result<(), Code> {
        Self::send_system(vm, to, Header { kind: Kind::Question, tag, wait: 0, host: 0 }, message)
    }

    /// A task that nobody placed is announced to the manager once, before it asks anything.
    pub(super) fn announce(&mut self, vm: &mut dyn Vm, manager: i32) -> Result<(), Code> {
        let placed = self.identity.as_ref().is_some_and(|identity| identity.parent.is_some());
        if placed || self.system.announced == manager {
            return Ok(());
        }
        self.system.announced = manager;
        let mut message = blank();
        message.pack_int(1)?;
        message.pack_int(self.tid()?)?;
        let host = tid::host_of(self.tid()?);
        let header = Header { kind: Kind::OfDaemon, tag: EXEC_ACK, wait: 0, host };
        Self::send_system(vm, manager, header, &message)
    }

    /// What a message of another library is for the program; `None`: nothing.
    pub(super) fn take_system(&mut self, vm: &mut dyn Vm, message: &Message) -> Option<Message> {
        let from = message.info.source;
        let (header, body) = Header::read(message.bytes())?;
        let Header { kind, tag, wait, host } = header;
        let format = message.encoding().format();
        let info = Info { tag, wait, source: from, context: 0, ..message.info };
        let mut message = Message::received(format, Received::Shared(body.into()), info);
        message.begin_unpacking();
        match kind {
            Kind::Question | Kind::OfDaemon => {
                if tag == EXEC_ACK {
                    // A task that enrolled by itself.
                    self.watch_started(vm, &mut message);
                } else if tag != NOTIFY {
                    let about =
                        if tag == START_TASK { message.unpack_int().unwrap_or(0) } else { 0 };
                    self.system.push_question(Question { from, tag, wait, about });
                }
                if kind == Kind::OfDaemon {
                    message.info.source = self.daemon_of(host);
                }
                message.rewind();
                Some(message)
            }
            Kind::Answer => self.pending(wait, Pending::Answer(message)),
            Kind::Start => self.pending(wait, Pending::Start { host, what: message }),
            Kind::Siblings => {
                self.take_siblings(from, &mut message);
                None
            }
            Kind::Started => {
                let start = self.system.take_start(from, wait)?;
                // That the watch stays for a moment does no harm.
                let _ = vm.unwatch(start.watch);
                self.watch_started(vm, &mut message);
                message.rewind();
                self.info_of_start(&start, &mut message);
                Some(message)
            }
        }
    }

    fn take_siblings(&mut self, from: i32, message: &mut Message) {
        let count = message.unpack_int().unwrap_or(0);
        let siblings = (0..count).map_while(|_| message.unpack_int().ok()).collect();
        if let Some(identity) = &mut self.identity
            && identity.parent == Some(from)
        {
            identity.siblings = siblings;
            self.system.awaits_siblings = false;
        }
    }

    /// Tells tasks that were placed one by one that they were spawned together.
    pub(super) fn tell_siblings(vm: &mut dyn Vm, tids: &[i32]) -> Result<(), Code> {
        let started: Vec<i32> = tids.iter().copied().filter(|&tid| tid::is_task(tid)).collect();
        let mut message = blank();
        message.pack_int(started.len() as i32)?;
        for &tid in &started {
            message.pack_int(tid)?;
        }
        let header = Header { kind: Kind::Siblings, tag: 0, wait: 0, host: 0 };
        started.iter().try_for_each(|&tid| Self::send_system(vm, tid, header, &message))
    }

    fn pending(&mut self, wait: i32, what: Pending) -> Option<Message> {
        // Nobody waits for what comes too late.
        self.system.asked.get_mut(&wait)?.push_back(what);
        None
    }

    /// A host's daemon, as it is the source of messages: that of this host is the one without a
    /// host.
    fn daemon_of(&self, host: i32) -> i32 {
        let own = self.tid().map_or(0, tid::host_of);
        tid::DAEMON | if host == own { 0 } else { host }
    }

    fn info_of_start(&self, start: &Start, message: &mut Message) {
        let (context, wait) = start.asked;
        let source = self.daemon_of(start.host);
        let destination = self.tid().unwrap_or(-1);
        message.info =
            Info { tag: EXEC_ACK, context, wait, source, destination, ..Info::default() };
    }

    /// The end of tasks that this one had started is told of: `message` has their number and
    /// numbers.
    pub(super) fn watch_started(&mut self, vm: &mut dyn Vm, message: &mut Message) {
        let count = message.unpack_int().unwrap_or(0);
        for _ in 0..count {
            let Ok(task) = message.unpack_int() else { return };
            if tid::is_task(task)
                && let Ok(watch) = vm.watch(Watched::Task(task))
            {
                self.system.watches.insert(watch, Watching::Task);
            }
        }
    }

    /// The end of hosts is told of, from now on.
    pub(super) fn watch_hosts(&mut self, vm: &mut dyn Vm) -> Result<(), Code> {
        let new = vm.watch(Watched::NewHosts)?;
        self.system.watches.insert(new, Watching::NewHosts);
        for host in vm.hosts()? {
            self.watch_host(vm, host.tid)?;
        }
        Ok(())
    }

    /// It is told of no more.
    pub(super) fn unwatch_hosts(&mut self, vm: &mut dyn Vm) {
        let of_hosts = |what: &Watching| matches!(what, Watching::Host | Watching::NewHosts);
        let watches = self.system.watches.iter().filter(|(_, what)| of_hosts(what));
        let watches: Vec<u64> = watches.map(|(&watch, _)| watch).collect();
        for watch in watches {
            self.system.watches.remove(&watch);
            // That a watch stays for a moment does no harm.
            let _ = vm.unwatch(watch);
        }
    }

    fn watch_host(&mut self, vm: &mut dyn Vm, host: i32) -> Result<(), Code> {
        let watch = vm.watch(Watched::Host(host))?;
        self.system.watches.insert(watch, Watching::Host);
        Ok(())
    }

    /// An event that a watch of the library's own is for; `false`: it is none of these.
    pub(super) fn system_watched(
        &mut self,
        vm: &mut dyn Vm,
        watch: u64,
        about: i32,
        status: i32,
    ) -> bool {
        let Some(&watching) = self.system.watches.get(&watch) else { return false };
        match watching {
            Watching::NewHosts => {
                // A host that is gone again is no loss.
                let _ = self.watch_host(vm, about);
                return true;
            }
            Watching::Asked(wait) => drop(self.pending(wait, Pending::Gone)),
            Watching::Starter(by, wait) => {
                if let Some(start) = self.system.take_start(by, wait) {
                    let mut message = blank();
                    let failed = (0..start.count).map(|_| Code::NoTask.number());
                    // A message of a few ints has room.
                    let _ = [start.count]
                        .into_iter()
                        .chain(failed)
                        .try_for_each(|int| message.pack_int(int));
                    self.info_of_start(&start, &mut message);
                    self.notices.push_told(message);
                }
            }
            Watching::Task => {
                self.tell_of_daemon(TASK_OVER, tid::host_of(about), &[about, status, 0, 0, 0, 0]);
            }
            Watching::Host => {
                let about = tid::host_of(about);
                self.tell_of_daemon(HOST_OVER, 0, &[about | tid::DAEMON]);
            }
        }
        self.system.watches.remove(&watch);
        true
    }

    /// A message of a daemon to this task alone.
    fn tell_of_daemon(&mut self, tag: i32, host: i32, ints: &[i32]) {
        let mut message = blank();
        for &int in ints {
            // A message of a few ints has room.
            let _ = message.pack_int(int);
        }
        self.answer_as_daemon(message, tag, host, (0, 0));
    }

    /// The daemon's answer to this task.
    pub(super) fn answer_as_daemon(
        &mut self,
        mut message: Message,
        tag: i32,
        host: i32,
        (context, wait): (i32, i32),
    ) {
        let source = self.daemon_of(host);
        let destination = self.tid().unwrap_or(-1);
        message.info = Info { context, tag, wait, source, destination, ..Info::default() };
        self.notices.push_told(message);
    }

    /// The oldest question of a task with this tag that has no answer yet.
    pub(super) fn question_of(&self, from: i32, tag: i32) -> Option<Question> {
        self.system.questions.iter().find(|one| (one.from, one.tag) == (from, tag)).copied()
    }

    /// Tells a task that waits to start tasks on a host itself.
    pub(super) fn pass_start_on(
        &mut self,
        vm: &mut dyn Vm,
        to: Question,
        (host, count): (i32, i32),
        what: &Message,
    ) -> Outcome {
        let watch = vm.watch(Watched::Task(to.from))?;
        self.system.watches.insert(watch, Watching::Starter(to.from, to.wait));
        let asked = (self.context, what.info.wait);
        let start = Start { by: to.from, wait: to.wait, host, count, asked, watch };
        self.system.starts.push(start);
        let header = Header { kind: Kind::Start, tag: EXEC, wait: to.wait, host };
        Self::send_system(vm, to.from, header, what).map(|()| 0)
    }

    /// The program's message is an answer to a question: `Some` when it was, and was sent.
    pub(super) fn send_answer(
        &mut self,
        vm: &mut dyn Vm,
        to: i32,
        tag: i32,
    ) -> Result<Option<i32>, Code> {
        let wait = self.buffers.sending()?.info.wait;
        let fits = |one: &Question| (one.from, one.tag) == (to, tag);
        let exact = self.system.take_question(|one| fits(one) && one.wait == wait);
        let Some(question) = exact.or_else(|| self.system.take_question(fits)) else {
            return Ok(None);
        };
        self.answer(vm, question).map(Some)
    }

    /// The program's message is the answer.
    fn answer(&mut self, vm: &mut dyn Vm, question: Question) -> Outcome {
        let Question { from, tag, wait, .. } = question;
        let header = Header { kind: Kind::Answer, tag, wait, host: 0 };
        Self::send_system(vm, from, header, self.buffers.sending()?).map(|()| 0)
    }

    /// A hoster or tasker tells the daemon what came of what it was asked to start. As in PVM,
    /// what nobody asked for is passed over.
    pub(super) fn report_start(&mut self, vm: &mut dyn Vm, tag: i32) -> Outcome {
        let message = self.buffers.sending()?;
        let wait = message.info.wait;
        let about = message.first_int();
        let question = if tag == HOST_ACK {
            let exact = self.system.take_question(|one| one.tag == START_HOST && one.wait == wait);
            exact.or_else(|| self.system.take_question(|one| one.tag == START_HOST))
        } else {
            self.system.take_question(|one| one.tag == START_TASK && Some(one.about) == about)
        };
        question.map_or(Ok(0), |question| self.answer(vm, question))
    }
}

#[cfg(test)]
#[path = "system_tests.rs"]
mod answers;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Element;
    use crate::strided::Strided;
    use crate::vm::fake::World;

    #[test]
    fn headers_come_back() {
        let header = Header { kind: Kind::Start, tag: EXEC, wait: 7, host: 0x4_0000 };
        let bytes = [header.bytes().as_slice(), b"rest"].concat();
        assert_eq!(Header::read(&bytes), Some((header, b"rest".as_slice())));
        assert_eq!(Header::read(&bytes[..HEADER - 1]), None);
        assert_eq!(Header::read(&[9; HEADER]), None);
    }

    #[test]
    fn who_manages_no_more_hears_nothing_of_hosts() {
        let world = World::default();
        let library = world.library();
        library.become_manager().unwrap();
        world.add_host(3 << 18);
        library.take_all_in().unwrap();
        let watched = || library.with(|session| session.system.watches.len());
        assert_eq!(watched(), 4);
        library.set_option(11, 1).unwrap();
        library.init_send(0).unwrap();
        library.pack(Element::Byte, Strided::bytes(&[0; 4])).unwrap();
        assert_eq!(library.send(tid::DAEMON, HAND_OFF), Ok(0));
        assert_eq!(watched(), 0);
    }

    #[test]
    fn the_oldest_questions_are_forgotten() {
        let mut system = System::new();
        let question = |wait| Question { from: 1, tag: SPAWN, wait, about: 0 };
        let last = QUESTIONS_MAX as i32;
        (0..=last).for_each(|wait| system.push_question(question(wait)));
        assert_eq!(system.take_question(|one| one.wait == 0), None);
        for wait in [1, last] {
            assert_eq!(system.take_question(|one| one.wait == wait), Some(question(wait)));
        }
    }

    #[test]
    fn tags_are_those_of_pvm() {
        assert!(is_system(SPAWN) && is_system(LAST) && !is_system(LAST + 1) && !is_system(5));
        assert_eq!(SCHEDULE.cast_unsigned(), 0x8004_000e);
    }
}
