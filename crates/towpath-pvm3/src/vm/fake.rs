//! A virtual machine inside this process, for tests: tasks are threads, programs are functions.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use towpath_task::{Loan, Sealed};

use super::contract::{
    Answer, Envelope, Event, HostRow, Identity, Incoming, Mail, MailRules, MailWanted, Mailbox,
    Members, Nap, Place, Question, SpawnRequest, TaskRow, Vm, Watched,
};
use super::registry::Registry;
use crate::code::Code;
use crate::library::Library;
use crate::message::Received;
use crate::tid;

/// A program: what a task does, with its arguments.
pub(crate) type Program = fn(&Library, &[String]);

#[derive(Default)]
struct Inbox {
    identity: Option<Identity>,
    messages: VecDeque<Incoming>,
    events: VecDeque<Event>,
    catches: bool,
    caught_by: Option<i32>,
    bell: i32,
    came: u64,
    asked: BTreeMap<u64, Asked>,
}

/// A question that is open.
enum Asked {
    /// A barrier or a freezing, and its number.
    Meeting(String, u64, bool),
    Mail(String, MailWanted),
}

#[derive(Default)]
struct State {
    programs: BTreeMap<String, Program>,
    tasks: BTreeMap<i32, Inbox>,
    next_task: i32,
    next_watch: u64,
    next_question: u64,
    /// Watch, watcher, what.
    watches: Vec<(u64, i32, Watched)>,
    registry: Registry,
    signals: Vec<(i32, i32)>,
    /// How often somebody asked who is in a group.
    listings: usize,
    threads: Vec<JoinHandle<()>>,
    /// Done once, after the next look for an answer that is not there yet.
    meanwhile: Option<fn(&World)>,
}

/// A virtual machine of two hosts, `one` (slot 1) and `two` (slot 2).
#[derive(Clone, Default)]
pub(crate) struct World(Arc<(Mutex<State>, Condvar)>);

const HOSTS: [(&str, i32); 2] = [("one", 1 << 18), ("two", 2 << 18)];

thread_local! {
    /// What the task of this thread enters: a machine, and the task that it is to be.
    static ENTRY: RefCell<Option<(World, Option<i32>)>> = const { RefCell::new(None) };
}

fn connect() -> Result<Box<dyn Vm>, Code> {
    ENTRY.with_borrow_mut(|entry| {
        let (world, claim) = entry.as_mut().ok_or(Code::SysErr)?;
        let tid = claim.take().unwrap_or_else(|| world.add(HOSTS[0].1, None, Vec::new(), 0));
        Ok(Box::new(Member { world: world.clone(), tid }) as Box<dyn Vm>)
    })
}

/// The machine that a thread has entered; without one the process' own.
pub(crate) fn connect_either() -> Result<Box<dyn Vm>, Code> {
    if ENTRY.with_borrow(Option::is_some) { connect() } else { super::towpath::connect() }
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap()
    }

    /// A program that can be spawned.
    pub(crate) fn program(&self, name: &str, program: Program) {
        self.state().programs.insert(name.to_owned(), program);
    }

    /// A task of this thread, not enrolled yet.
    pub(crate) fn library(&self) -> Library {
        self.enter();
        Library::new(connect)
    }

    /// Whatever library this thread uses enters this machine.
    pub(crate) fn enter(&self) {
        ENTRY.set(Some((self.clone(), None)));
    }

    /// Signals sent so far: task, signal.
    pub(crate) fn signals(&self) -> Vec<(i32, i32)> {
        self.state().signals.clone()
    }

    /// How often somebody asked who is in a group.
    pub(crate) fn listings(&self) -> usize {
        self.state().listings
    }

    /// What somebody else does just after the next look for an answer that is not there yet.
    pub(crate) fn meanwhile(&self, done: fn(&Self)) {
        self.state().meanwhile = Some(done);
    }

    /// Somebody joins a group and comes to its barrier.
    pub(crate) fn another_arrives(&self, group: &str, count: u32) {
        let other = self.add(HOSTS[1].1, None, Vec::new(), 0);
        let mut state = self.state();
        state.registry.join(group, other).unwrap();
        state.registry.arrive(group, other, count, false).unwrap();
        self.changed(&mut state);
    }

    /// A host joins, for those who watch.
    pub(crate) fn add_host(&self, host: i32) {
        let mut state = self.state();
        let watchers: Vec<(u64, i32)> = state
            .watches
            .iter()
            .filter(|(_, _, what)| *what == Watched::NewHosts)
            .map(|(watch, watcher, _)| (*watch, *watcher))
            .collect();
        for (watch, watcher) in watchers {
            self.event(&mut state, watcher, Event::Watched { watch, tid: host, status: 0 });
        }
    }

    /// A host is lost, for those who watch.
    pub(crate) fn lose_host(&self, host: i32) {
        let mut state = self.state();
        let is_it = |what: &Watched| *what == Watched::Host(host);
        let (told, rest) = state.watches.drain(..).partition(|(_, _, what)| is_it(what));
        state.watches = rest;
        let told: Vec<(u64, i32, Watched)> = told;
        for (watch, watcher, _) in told {
            self.event(&mut state, watcher, Event::Watched { watch, tid: host, status: 0 });
        }
    }

    /// What a task prints goes to whoever catches it.
    pub(crate) fn print(&self, tid: i32, text: &str) {
        let mut state = self.state();
        if let Some(catcher) = state.tasks.get(&tid).and_then(|task| task.caught_by) {
            let bytes = text.as_bytes().to_vec();
            self.event(&mut state, catcher, Event::Output { tid, bytes });
        }
    }

    /// Waits for all spawned tasks; a panic in one is one here.
    pub(crate) fn finish(&self) {
        loop {
            let thread = self.state().threads.pop();
            match thread {
                Some(thread) => thread.join().expect("a spawned task failed"),
                None => return,
            }
        }
    }

    fn add(&self, host: i32, parent: Option<i32>, siblings: Vec<i32>, context: i32) -> i32 {
        let mut state = self.state();
        state.next_task += 1;
        let tid = host | state.next_task;
        // SAFETY: makes a descriptor.
        let bell = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        let identity = Some(Identity { tid, parent, siblings, context });
        let caught_by = parent.filter(|parent| state.tasks[parent].catches);
        state.tasks.insert(tid, Inbox { identity, caught_by, bell, ..Inbox::default() });
        tid
    }

    fn ring(&self, inbox: &mut Inbox) {
        inbox.came += 1;
        // SAFETY: eight bytes of ours to a descriptor of ours.
        unsafe { libc::write(inbox.bell, (&raw const ONE).cast(), 8) };
        self.0.1.notify_all();
    }

    /// Groups or mailboxes are not what they were.
    fn changed(&self, state: &mut State) {
        state.tasks.values_mut().for_each(|inbox| self.ring(inbox));
    }

    fn event(&self, state: &mut State, to: i32, event: Event) {
        if let Some(inbox) = state.tasks.get_mut(&to) {
            inbox.events.push_back(event);
            self.ring(inbox);
        }
    }

    fn deliver(&self, from: i32, to: i32, envelope: Envelope, parts: &[&[u8]]) {
        let body = Received::Shared(parts.concat().into());
        if let Some(inbox) = self.state().tasks.get_mut(&to) {
            inbox.messages.push_back(Incoming { source: from, envelope, body });
            self.ring(inbox);
        }
    }

    fn ended(&self, tid: i32) {
        let mut state = self.state();
        let Some(inbox) = state.tasks.remove(&tid) else { return };
        // SAFETY: a descriptor of ours that nobody uses any more.
        unsafe { libc::close(inbox.bell) };
        state.registry.ended(tid);
        if let Some(catcher) = inbox.caught_by {
            self.event(&mut state, catcher, Event::Output { tid, bytes: Vec::new() });
        }
        let (told, rest) =
            state.watches.drain(..).partition(|(_, _, what)| *what == Watched::Task(tid));
        state.watches = rest;
        for (watch, watcher, _) in told {
            self.event(&mut state, watcher, Event::Watched { watch, tid, status: 0 });
        }
        self.changed(&mut state);
    }
}

static ONE: u64 = 1;

/// A task of the machine.
struct Member {
    world: World,
    tid: i32,
}

impl Member {
    fn with_inbox<R>(&self, step: impl FnOnce(&mut Inbox) -> R) -> Result<R, Code> {
        self.world.state().tasks.get_mut(&self.tid).map(step).ok_or(Code::SysErr)
    }

    /// A change of groups or mailboxes.
    fn change<R>(&self, step: impl FnOnce(&mut Registry) -> R) -> R {
        let mut state = self.world.state();
        let result = step(&mut state.registry);
        self.world.changed(&mut state);
        result
    }
}

impl Vm for Member {
    fn identity(&self) -> Identity {
        self.with_inbox(|inbox| inbox.identity.clone()).unwrap().unwrap()
    }

    fn leave(self: Box<Self>) {
        self.world.ended(self.tid);
    }

    fn descriptor(&mut self) -> i32 {
        self.with_inbox(|inbox| inbox.bell).unwrap()
    }

    fn arm(&mut self) -> Result<bool, Code> {
        self.with_inbox(|inbox| inbox.messages.is_empty() && inbox.events.is_empty())
    }

    fn is_armed(&self) -> bool {
        true
    }

    fn settle(&mut self) -> Result<Option<Nap>, Code> {
        if self.has_event() {
            return Ok(None);
        }
        let descriptor = self.descriptor();
        let mut count = 0_u64;
        // SAFETY: eight bytes of ours from a descriptor of ours.
        unsafe { libc::read(descriptor, (&raw mut count).cast(), 8) };
        Ok(Some(Nap { descriptor, until: None }))
    }

    fn came(&self) -> u64 {
        self.with_inbox(|inbox| inbox.came).unwrap()
    }

    fn ask(&mut self, question: Question<'_>) -> Result<u64, Code> {
        let tid = self.tid;
        let asked = match question {
            Question::Barrier { group, count } => {
                let number = self.change(|registry| registry.arrive(group, tid, count, false))?;
                Asked::Meeting(group.to_owned(), number, false)
            }
            Question::Freeze { group, count } => {
                let number = self.change(|registry| registry.arrive(group, tid, count, true))?;
                Asked::Meeting(group.to_owned(), number, true)
            }
            Question::Mail { name, wanted } => Asked::Mail(name.to_owned(), wanted),
        };
        let mut state = self.world.state();
        state.next_question += 1;
        let number = state.next_question;
        state.tasks.get_mut(&tid).ok_or(Code::SysErr)?.asked.insert(number, asked);
        Ok(number)
    }

    fn answer(&mut self, number: u64) -> Option<Result<Answer, Code>> {
        let mut guard = self.world.state();
        let state = &mut *guard;
        let asked = &mut state.tasks.get_mut(&self.tid)?.asked;
        let answer = match asked.get(&number)? {
            Asked::Meeting(group, number, freeze) => {
                if state.registry.passed(group).is_some_and(|now| now <= *number) {
                    let meanwhile = state.meanwhile.take();
                    drop(guard);
                    meanwhile.inspect(|done| done(&self.world));
                    return None;
                }
                let members = |members| Ok(Answer::Members(members));
                if *freeze {
                    state.registry.members(group).and_then(members)
                } else {
                    Ok(Answer::Passed)
                }
            }
            Asked::Mail(name, wanted) => match state.registry.get(name, self.tid, *wanted) {
                Err(Code::NotFound) if wanted.wait => return None,
                outcome => outcome.map(Answer::Mail),
            },
        };
        asked.remove(&number);
        Some(answer)
    }

    fn send(&mut self, to: i32, envelope: Envelope, parts: &[&[u8]]) -> Result<(), Code> {
        self.world.deliver(self.tid, to, envelope, parts);
        Ok(())
    }

    fn loan(&mut self, len: usize) -> Option<Loan> {
        Some(Loan::own(len))
    }

    fn send_sealed(&mut self, to: i32, envelope: Envelope, sealed: &Sealed) -> Result<(), Code> {
        self.send(to, envelope, &[sealed])
    }

    fn multicast(&mut self, to: &[i32], envelope: Envelope, parts: &[&[u8]]) -> Result<(), Code> {
        for &to in to {
            self.world.deliver(self.tid, to, envelope, parts);
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Incoming>, Code> {
        self.with_inbox(|inbox| inbox.messages.pop_front())
    }

    fn take_matching(
        &mut self,
        source: Option<i32>,
        tag: Option<i32>,
        context: i32,
    ) -> Result<Option<Incoming>, Code> {
        self.with_inbox(|inbox| {
            let at = inbox.messages.iter().position(|message| {
                source.is_none_or(|source| source == message.source)
                    && tag.is_none_or(|tag| tag == message.envelope.tag)
                    && context == message.envelope.context
            })?;
            inbox.messages.remove(at)
        })
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Code> {
        let mut state = self.world.state();
        let bell = state.tasks.get(&self.tid).ok_or(Code::SysErr)?.bell;
        let mut count = 0_u64;
        // SAFETY: eight bytes of ours from a descriptor of ours.
        unsafe { libc::read(bell, (&raw mut count).cast(), 8) };
        if timeout.is_none() && count == 0 {
            state = self.world.0.1.wait(state).unwrap();
        }
        drop(state);
        Ok(())
    }

    fn event(&mut self) -> Option<Event> {
        self.with_inbox(|inbox| inbox.events.pop_front()).ok().flatten()
    }

    fn has_event(&self) -> bool {
        self.with_inbox(|inbox| !inbox.events.is_empty()).unwrap_or(false)
    }

    fn hosts(&mut self) -> Result<Vec<HostRow>, Code> {
        let row = |(name, tid): &(&str, i32)| HostRow {
            tid: *tid,
            name: (*name).to_owned(),
            arch: "LINUX64".to_owned(),
            speed: 1000,
            dsig: crate::message::DSIG,
        };
        Ok(HOSTS.iter().map(row).collect())
    }

    fn add_hosts(&mut self, names: &[String]) -> Result<Vec<i32>, Code> {
        let come = |name: &String| HOSTS.iter().find(|(host, _)| host == name).map(|host| host.1);
        Ok(names.iter().map(|name| come(name).unwrap_or(Code::CantStart.number())).collect())
    }

    fn delete_hosts(&mut self, hosts: &[i32]) -> Result<Vec<i32>, Code> {
        Ok(hosts.iter().map(|_| 0).collect())
    }

    fn clock(&mut self, host: i32) -> Result<u64, Code> {
        if HOSTS.iter().any(|(_, tid)| *tid == host) { Ok(1_000_000) } else { Err(Code::NoHost) }
    }

    fn halt(&mut self) -> Result<(), Code> {
        Ok(())
    }

    fn tasks(&mut self, host: i32) -> Result<Vec<TaskRow>, Code> {
        let state = self.world.state();
        let on_host = state.tasks.keys().filter(|&&tid| host == 0 || tid::host_of(tid) == host);
        let row = |&tid: &i32| TaskRow {
            tid,
            parent: state.tasks[&tid].identity.as_ref().and_then(|task| task.parent).unwrap_or(0),
            host: tid::host_of(tid),
            program: String::new(),
            pid: 1,
        };
        Ok(on_host.map(row).collect())
    }

    fn runs(&mut self, tid: i32) -> Result<bool, Code> {
        Ok(self.world.state().tasks.contains_key(&tid))
    }

    fn signal(&mut self, tid: i32, signal: i32) -> Result<(), Code> {
        let mut state = self.world.state();
        if !state.tasks.contains_key(&tid) {
            return Err(Code::NoTask);
        }
        state.signals.push((tid, signal));
        Ok(())
    }

    fn spawn(&mut self, request: &SpawnRequest) -> Result<Vec<i32>, Code> {
        let fail = |code: Code| Ok(vec![code.number(); request.count as usize]);
        let name = String::from_utf8_lossy(&request.program).into_owned();
        let Some(&program) = self.world.state().programs.get(&name) else {
            return fail(Code::NoFile);
        };
        let host = match &request.place {
            Place::Named(name) => HOSTS.iter().find(|(host, _)| host == name).map(|host| host.1),
            Place::On(tid) => HOSTS.iter().find(|(_, host)| host == tid).map(|host| host.1),
            Place::Arch(arch) => (arch == "LINUX64").then_some(HOSTS[0].1),
            _ => Some(HOSTS[0].1),
        };
        let Some(host) = host else { return fail(Code::NoHost) };
        let parent = (!request.orphan).then_some(self.tid);
        let add = |_| self.world.add(host, parent, Vec::new(), request.context);
        let tids: Vec<i32> = (0..request.count).map(add).collect();
        for &tid in &tids {
            let mut state = self.world.state();
            let identity = state.tasks.get_mut(&tid).and_then(|task| task.identity.as_mut());
            identity.unwrap().siblings.clone_from(&tids);
            let world = self.world.clone();
            let args: Vec<String> =
                request.args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
            state.threads.push(std::thread::spawn(move || {
                ENTRY.set(Some((world.clone(), Some(tid))));
                let library = Library::new(connect);
                program(&library, &args);
                world.ended(tid);
            }));
        }
        Ok(tids)
    }

    fn catch_output(&mut self, on: bool) -> Result<(), Code> {
        self.with_inbox(|inbox| inbox.catches = on)
    }

    fn watch(&mut self, what: Watched) -> Result<u64, Code> {
        let mut state = self.world.state();
        state.next_watch += 1;
        let watch = state.next_watch;
        match what {
            Watched::Task(tid) if !state.tasks.contains_key(&tid) => {
                self.world.event(&mut state, self.tid, Event::Watched { watch, tid, status: 0 });
            }
            _ => state.watches.push((watch, self.tid, what)),
        }
        Ok(watch)
    }

    fn unwatch(&mut self, watch: u64) -> Result<(), Code> {
        self.world.state().watches.retain(|(number, _, _)| *number != watch);
        Ok(())
    }

    fn join(&mut self, group: &str) -> Result<i32, Code> {
        self.change(|registry| registry.join(group, self.tid))
    }

    fn leave_group(&mut self, group: &str) -> Result<(), Code> {
        self.change(|registry| registry.leave(group, self.tid))
    }

    fn members(&mut self, group: &str) -> Result<Members, Code> {
        let mut state = self.world.state();
        state.listings += 1;
        state.registry.members(group)
    }

    fn mail_put(
        &mut self,
        name: &str,
        index: i32,
        rules: MailRules,
        content: Vec<u8>,
    ) -> Result<i32, Code> {
        self.change(|registry| registry.put(name, self.tid, index, rules, content))
    }

    fn mail_get(&mut self, name: &str, wanted: MailWanted) -> Result<Mail, Code> {
        self.world.state().registry.get(name, self.tid, wanted)
    }

    fn mail_delete(&mut self, name: &str, index: i32) -> Result<(), Code> {
        self.change(|registry| registry.delete(name, self.tid, index))
    }

    fn mailboxes(&mut self, pattern: &str) -> Result<Vec<Mailbox>, Code> {
        Ok(self.world.state().registry.mailboxes(pattern))
    }
}
