//! Tasks that run on this host, for whoever asked.
//!
//! The driver starts and ends processes and reads their output; this table decides what it
//! should do, in [`Action`]s, and tells the requester what became of it.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_wire::id::TASK_MAX;
use towpath_wire::{HostId, Instant, TaskId};

use crate::message::{Credit, Exited, Input, Message, Output, Started};
use crate::task::{COMMAND_MAX, Ending, Stream, TaskExit, TaskInfo, TaskSpec};

/// Most tasks running at once.
pub const RUNNING_MAX: usize = 4096;
/// Most tasks at once that enrolled without having been started here.
pub const ADOPTED_MAX: usize = 4096;
/// Most tasks waiting for a job slot.
pub const QUEUED_MAX: usize = 16_384;
/// After a polite signal, how long until the firm one.
const GRACE: Duration = Duration::from_secs(2);
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start a process.
    Start {
        /// The task it is to be.
        task: TaskId,
        /// What to run.
        spec: TaskSpec,
        /// What proves to us that a process is this task.
        cookie: u64,
    },
    /// Send a signal to a task's process group.
    Signal {
        /// The task.
        task: TaskId,
        /// Signal number.
        signal: i32,
    },
    /// Send a signal to a process that enrolled by itself.
    SignalProcess {
        /// The process.
        pid: u32,
        /// Signal number.
        signal: i32,
    },
    /// For a task's standard input. What it cannot take at once waits; the driver says what it
    /// took with [`Tasks::input_taken`].
    Input {
        /// The task.
        task: TaskId,
        /// The bytes.
        bytes: Vec<u8>,
        /// Nothing comes after them: it is to see the end.
        end: bool,
    },
    /// So many more bytes of a task's output may be read.
    Credit {
        /// The task.
        task: TaskId,
        /// Bytes.
        bytes: u32,
    },
}

#[derive(Debug)]
struct Task {
    requester: HostId,
    request: u64,
    spec: TaskSpec,
    cookie: u64,
    /// It goes on when its requester is lost.
    alone: bool,
    accepted: Instant,
    started: Option<Instant>,
    pid: u32,
    /// Output that the driver may still hand in.
    room: u64,
    output_bytes: u64,
    /// Input that the requester may still send.
    input_room: u64,
    /// Input that came before the task runs.
    input: Vec<u8>,
    input_ended: bool,
    /// When to send the next signal of `end`.
    signal_at: Option<Instant>,
    /// It is being ended, for this reason if the signal succeeds.
    end: Option<Ending>,
    running: bool,
    /// Nobody wants to know any more.
    orphan: bool,
}

/// A task that was not started here: it enrolled.
#[derive(Debug)]
struct Adopted {
    pid: u32,
    since: Instant,
    command: String,
}

/// All tasks of this host. Invariants: `waiting` holds exactly the tasks that are not running;
/// `running` counts the others; `by_request` has one entry per task that is no orphan; `signals`
/// one per task with a `signal_at`; `held` has the ids that were given out and not released yet,
/// every one of `adopted` among them.
#[derive(Debug)]
pub struct Tasks {
    host: HostId,
    slots: u16,
    by_id: BTreeMap<TaskId, Task>,
    adopted: BTreeMap<TaskId, Adopted>,
    held: BTreeSet<TaskId>,
    by_request: BTreeMap<(HostId, u64), TaskId>,
    signals: BTreeSet<(Instant, TaskId)>,
    /// Tasks whose processes are over, for the owner to look at.
    over: VecDeque<(TaskId, Ending)>,
    waiting: VecDeque<TaskId>,
    /// Those that are unique, and are not being ended for it.
    unique: BTreeSet<TaskId>,
    /// Before then those may be started.
    sure_until: Instant,
    running: usize,
    /// Running tasks that hold a job slot.
    slots_used: u16,
    next: u32,
    actions: VecDeque<Action>,
    messages: VecDeque<(HostId, Message)>,
}

impl Tasks {
    /// An empty table for `host` with `slots` job slots.
    pub fn new(host: HostId, slots: u16) -> Self {
        Self {
            host,
            slots: slots.max(1),
            by_id: BTreeMap::new(),
            adopted: BTreeMap::new(),
            held: BTreeSet::new(),
            by_request: BTreeMap::new(),
            signals: BTreeSet::new(),
            over: VecDeque::new(),
            waiting: VecDeque::new(),
            unique: BTreeSet::new(),
            sure_until: Instant::ZERO,
            running: 0,
            slots_used: 0,
            next: 0,
            actions: VecDeque::new(),
            messages: VecDeque::new(),
        }
    }

    /// An empty table for a host in a later life on the same slot. Its numbers begin elsewhere,
    /// since what PVM's programs see of an id does not tell lives apart.
    pub fn new_after(host: HostId, slots: u16) -> Self {
        Self { next: (host.incarnation() >> 4) % TASK_MAX, ..Self::new(host, slots) }
    }

    /// What the driver is to do next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What to tell a requester next.
    pub fn poll_message(&mut self) -> Option<(HostId, Message)> {
        self.messages.pop_front()
    }

    /// When [`Tasks::handle_timeout`] is wanted.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.signals.first().map(|(at, _)| *at)
    }

    /// A task whose process is over (or never was), each once. Its id is used again only after
    /// [`Tasks::release`].
    pub fn poll_over(&mut self) -> Option<(TaskId, Ending)> {
        self.over.pop_front()
    }

    /// An id from [`Tasks::spawn`] or [`Tasks::adopt`] may be used again.
    pub fn release(&mut self, id: TaskId) {
        self.adopted.remove(&id);
        self.held.remove(&id);
    }

    /// A number for a task that enrolled by itself; `None` when there are [`ADOPTED_MAX`].
    pub fn adopt(&mut self, now: Instant, pid: u32, command: &str) -> Option<TaskId> {
        if self.adopted.len() >= ADOPTED_MAX {
            return None;
        }
        let id = self.free_id()?;
        let mut end = command.len().min(COMMAND_MAX);
        while !command.is_char_boundary(end) {
            end -= 1;
        }
        let command = command[..end].into();
        self.adopted.insert(id, Adopted { pid, since: now, command });
        self.held.insert(id);
        Some(id)
    }

    /// For whom a task runs: the host that asked, and its number for the request.
    pub fn requester(&self, id: TaskId) -> Option<(HostId, u64)> {
        self.by_id.get(&id).filter(|t| !t.orphan).map(|t| (t.requester, t.request))
    }

    /// Number of tasks that are running or about to, or enrolled by themselves.
    pub fn load(&self) -> usize {
        self.running + self.adopted.len()
    }

    /// Whether there are unique tasks, running or waiting to be.
    pub fn has_unique(&self) -> bool {
        !self.unique.is_empty()
    }

    /// How many of those run.
    pub fn unique_running(&self) -> usize {
        self.unique.iter().filter(|id| self.by_id.get(id).is_some_and(|t| t.running)).count()
    }

    /// Until when this host knows that it is part of the virtual machine: unique tasks are started
    /// before, and not later, however late this is looked at.
    pub fn set_sure(&mut self, now: Instant, until: Instant) {
        self.sure_until = until;
        self.fill_slots(now);
    }

    /// All unique tasks end at once.
    pub fn end_unique(&mut self, now: Instant) {
        self.sure_until = Instant::ZERO;
        for id in core::mem::take(&mut self.unique) {
            let Some(t) = self.by_id.get_mut(&id) else { continue };
            if t.running {
                t.end = Some(Ending::Unsure);
                self.signal_at(id, None);
                self.actions.push_back(Action::Signal { task: id, signal: SIGKILL });
            } else {
                self.waiting.retain(|w| *w != id);
                self.exited(now, id, Ending::Unsure);
            }
        }
    }

    /// Sends a signal to a task; false when there is no such task.
    pub fn signal(&mut self, now: Instant, id: TaskId, signal: i32) -> bool {
        if let Some(adopted) = self.adopted.get(&id) {
            self.actions.push_back(Action::SignalProcess { pid: adopted.pid, signal });
            return true;
        }
        self.end_by(now, id, signal)
    }

    /// Number of tasks, waiting ones included.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// True when `requester` waits for one of them.
    pub fn any_for(&self, requester: HostId) -> bool {
        self.by_request.range((requester, 0)..=(requester, u64::MAX)).next().is_some()
    }

    /// Every task.
    pub fn list(&self, now: Instant) -> Vec<TaskInfo> {
        let ids = self.by_id.keys().chain(self.adopted.keys());
        ids.filter_map(|id| self.info(now, *id)).collect()
    }

    /// One task.
    pub fn info(&self, now: Instant, id: TaskId) -> Option<TaskInfo> {
        let started = self.by_id.get(&id);
        let (requester, pid, since, command) = if let Some(t) = started {
            (t.requester, t.pid, t.accepted, t.spec.command())
        } else {
            let t = self.adopted.get(&id)?;
            (self.host, t.pid, t.since, t.command.clone())
        };
        let age_us = now.since(since).as_micros() as u64;
        let (parent, enrolled, started) = (None, false, started.is_some());
        let (channels, reserved_bps) = (0, 0);
        Some(TaskInfo {
            id,
            requester,
            pid,
            age_us,
            command,
            parent,
            enrolled,
            started,
            channels,
            reserved_bps,
        })
    }

    /// A request to run something; its number, unless it is refused. A repeated request is
    /// ignored. With `alone`, the task goes on when its requester is lost.
    pub fn spawn(
        &mut self,
        now: Instant,
        requester: HostId,
        request: u64,
        spec: TaskSpec,
        cookie: u64,
        alone: bool,
    ) -> Option<TaskId> {
        if self.by_request.contains_key(&(requester, request)) {
            return None;
        }
        let full = if spec.queued || spec.unique && now >= self.sure_until {
            (self.waiting.len() >= QUEUED_MAX).then_some(("queue", QUEUED_MAX))
        } else {
            (self.running >= RUNNING_MAX).then_some(("table", RUNNING_MAX))
        };
        let Some(id) = self.free_id().filter(|_| full.is_none()) else {
            let (what, limit) = full.unwrap_or(("table", TASK_MAX as usize));
            let why = format!("{limit} tasks in the {what} of {}, the limit", self.host);
            self.tell_end(requester, request, TaskExit::without_run(Ending::Refused(why)), 0);
            return None;
        };
        let (queued, unique) = (spec.queued, spec.unique);
        let task = Task {
            requester,
            request,
            room: spec.output_window.into(),
            input_room: spec.input_window.into(),
            input: Vec::new(),
            input_ended: false,
            spec,
            cookie,
            alone,
            accepted: now,
            started: None,
            pid: 0,
            output_bytes: 0,
            signal_at: None,
            end: None,
            running: false,
            orphan: false,
        };
        self.by_id.insert(id, task);
        self.held.insert(id);
        self.by_request.insert((requester, request), id);
        self.unique.extend(unique.then_some(id));
        if queued || unique && now >= self.sure_until {
            self.waiting.push_back(id);
            self.fill_slots(now);
        } else {
            self.start(id);
        }
        Some(id)
    }

    fn free_id(&mut self) -> Option<TaskId> {
        for _ in 0..=self.held.len() + self.by_id.len() {
            self.next = self.next % TASK_MAX + 1;
            let id = self.host.task(self.next)?;
            if !self.held.contains(&id) && !self.by_id.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }

    fn fill_slots(&mut self, now: Instant) {
        // Where no slot is free, only what needs none can be started: that waits until it is sure.
        let unslotted = |t: &Self| {
            let waits = |id| t.by_id.get(id).is_some_and(|t| !t.running && !t.spec.queued);
            now < t.sure_until && t.unique.iter().any(waits)
        };
        let waits = |t: &Task, tasks: &Self| {
            t.spec.unique && now >= tasks.sure_until
                || t.spec.queued && tasks.slots_used >= tasks.slots
        };
        let mut from = 0;
        while self.running < RUNNING_MAX {
            if self.slots_used >= self.slots && !unslotted(self) {
                break;
            }
            let mut rest = self.waiting.iter().skip(from);
            let next = rest.position(|id| self.by_id.get(id).is_none_or(|t| !waits(t, self)));
            let Some(at) = next.map(|at| from + at) else { break };
            let Some(id) = self.waiting.remove(at) else { break };
            from = at;
            let queued = self.by_id.get(&id).is_some_and(|t| t.spec.queued);
            self.slots_used += u16::from(queued);
            self.start(id);
        }
    }

    fn start(&mut self, id: TaskId) {
        if let Some(task) = self.by_id.get_mut(&id) {
            task.running = true;
            self.running += 1;
            self.actions.push_back(Action::Start {
                task: id,
                spec: task.spec.clone(),
                cookie: task.cookie,
            });
            let (bytes, end) = (core::mem::take(&mut task.input), task.input_ended);
            if end || !bytes.is_empty() {
                self.actions.push_back(Action::Input { task: id, bytes, end });
            }
        }
    }

    /// The driver started it.
    pub fn started(&mut self, now: Instant, id: TaskId, pid: u32) {
        let Some(t) = self.by_id.get_mut(&id) else { return };
        t.pid = pid;
        t.started = Some(now);
        let limit = Duration::from_millis(t.spec.timeout_ms.into());
        if !limit.is_zero() && t.end.is_none() {
            self.signal_at(id, Some(now + limit));
        }
        let Some(t) = self.by_id.get(&id) else { return };
        if !t.orphan {
            let (requester, request) = (t.requester, t.request);
            let started = Message::Started(Started { request, task: id, pid });
            self.messages.push_back((requester, started));
        }
    }

    fn signal_at(&mut self, id: TaskId, at: Option<Instant>) {
        let Some(t) = self.by_id.get_mut(&id) else { return };
        if let Some(old) = core::mem::replace(&mut t.signal_at, at) {
            self.signals.remove(&(old, id));
        }
        self.signals.extend(at.map(|at| (at, id)));
    }

    /// The driver read output of it. More than was allowed is our own bug, and asserts.
    pub fn output(&mut self, id: TaskId, stream: Stream, bytes: Vec<u8>) {
        let Some(t) = self.by_id.get_mut(&id) else { return };
        assert!(bytes.len() as u64 <= t.room, "the driver reads no more than it was allowed");
        t.room -= bytes.len() as u64;
        t.output_bytes += bytes.len() as u64;
        if !t.orphan {
            let output = Message::Output(Output { request: t.request, stream, bytes });
            self.messages.push_back((t.requester, output));
        }
    }

    /// The driver saw it end, after its last output.
    pub fn exited(&mut self, now: Instant, id: TaskId, ending: Ending) {
        let Some(t) = self.remove(id) else { return };
        let wall_us = t.started.map_or(0, |s| now.since(s).as_micros() as u64);
        let ending = match (t.end, ending) {
            (
                Some(reason @ (Ending::TimedOut | Ending::Unsure)),
                Ending::Signalled(_) | Ending::Exited(_),
            ) => reason,
            (_, ending) => ending,
        };
        if t.running {
            self.running -= 1;
            self.slots_used -= u16::from(t.spec.queued);
        }
        self.over.push_back((id, ending.clone()));
        if !t.orphan {
            self.by_request.remove(&(t.requester, t.request));
            let exit = TaskExit { ending, wall_us };
            self.tell_end(t.requester, t.request, exit, t.output_bytes);
        }
        self.fill_slots(now);
    }

    fn remove(&mut self, id: TaskId) -> Option<Task> {
        self.signal_at(id, None);
        self.unique.remove(&id);
        self.by_id.remove(&id)
    }

    fn tell_end(&mut self, requester: HostId, request: u64, exit: TaskExit, output_bytes: u64) {
        let exited = Message::Exited(Exited { request, exit, output_bytes });
        self.messages.push_back((requester, exited));
    }

    /// The requester wants a signal sent. One that waits for a slot ends at once.
    pub fn kill(&mut self, now: Instant, requester: HostId, request: u64, signal: i32) {
        if let Some(id) = self.by_request.get(&(requester, request)).copied() {
            self.end_by(now, id, signal);
        }
    }

    fn end_by(&mut self, now: Instant, id: TaskId, signal: i32) -> bool {
        let Some(t) = self.by_id.get(&id) else { return false };
        if t.running {
            self.actions.push_back(Action::Signal { task: id, signal });
        } else {
            self.waiting.retain(|w| *w != id);
            self.exited(now, id, Ending::Signalled(signal));
        }
        true
    }

    /// The requester takes more output.
    pub fn credit(&mut self, requester: HostId, request: u64, bytes: u32) {
        let Some(id) = self.by_request.get(&(requester, request)).copied() else { return };
        if let Some(t) = self.by_id.get_mut(&id) {
            t.room = t.room.saturating_add(bytes.into());
            self.actions.push_back(Action::Credit { task: id, bytes });
        }
    }

    /// The requester sends standard input. What is beyond its window, or comes after the end, is
    /// not taken.
    pub fn input(&mut self, requester: HostId, input: Input) {
        let Some(id) = self.by_request.get(&(requester, input.request)).copied() else { return };
        let Some(t) = self.by_id.get_mut(&id) else { return };
        let Input { mut bytes, end, .. } = input;
        let room = t.input_room.checked_sub(bytes.len() as u64);
        let (Some(room), false) = (room, t.input_ended) else { return };
        t.input_room = room;
        t.input_ended = end;
        if t.running {
            self.actions.push_back(Action::Input { task: id, bytes, end });
        } else {
            t.input.append(&mut bytes);
        }
    }

    /// The driver handed so many bytes of input on, or threw them away because the task takes
    /// none any more.
    pub fn input_taken(&mut self, id: TaskId, bytes: u32) {
        let Some(t) = self.by_id.get_mut(&id) else { return };
        t.input_room += u64::from(bytes);
        if !t.orphan {
            let taken = Message::InputTaken(Credit { request: t.request, bytes });
            self.messages.push_back((t.requester, taken));
        }
    }

    /// The requester is gone: its tasks end unless they are to go on, and nobody is told.
    pub fn requester_lost(&mut self, now: Instant, requester: HostId) {
        let theirs = self.by_request.range((requester, 0)..=(requester, u64::MAX));
        let theirs: Vec<TaskId> = theirs.map(|(_, id)| *id).collect();
        self.orphan(now, &theirs, false);
    }

    /// This host is no longer who it was: everything ends.
    pub fn end_all(&mut self, now: Instant) {
        let all: Vec<TaskId> =
            self.by_id.iter().filter(|(_, t)| !t.orphan || t.alone).map(|(id, _)| *id).collect();
        self.orphan(now, &all, true);
    }

    fn orphan(&mut self, now: Instant, ids: &[TaskId], all: bool) {
        for id in ids {
            let Some(t) = self.by_id.get_mut(id) else { continue };
            t.orphan = true;
            self.by_request.remove(&(t.requester, t.request));
            if t.running {
                // Nobody takes its output any more: let it run dry instead of blocking.
                t.room = u64::MAX;
                if all || !t.alone {
                    t.end = Some(Ending::HostLost);
                    self.signal_at(*id, Some(now + GRACE));
                    self.actions.push_back(Action::Signal { task: *id, signal: SIGTERM });
                }
                self.actions.push_back(Action::Credit { task: *id, bytes: u32::MAX });
            } else {
                self.waiting.retain(|w| w != id);
                self.remove(*id);
                self.over.push_back((*id, Ending::HostLost));
            }
        }
    }

    /// Sends the signals that are due: polite first, firm after a grace period.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, id)) = self.signals.first().copied().filter(|(at, _)| *at <= now) {
            let Some(t) = self.by_id.get_mut(&id) else { break };
            let (signal, next) =
                if t.end.is_some() { (SIGKILL, None) } else { (SIGTERM, Some(now + GRACE)) };
            t.end.get_or_insert(Ending::TimedOut);
            self.signal_at(id, next);
            self.actions.push_back(Action::Signal { task: id, signal });
        }
    }

    /// Becomes the table of a new incarnation. Tasks of the old one were ended with
    /// [`Tasks::end_all`] and leave as they exit. What was known of the old one counts no longer.
    pub fn rename(&mut self, host: HostId) {
        self.host = host;
        self.sure_until = Instant::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    const ME: u16 = 1;

    fn host(slot: u16) -> HostId {
        HostId::new(slot, 1).unwrap()
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn spec(queued: bool, timeout_ms: u32) -> TaskSpec {
        TaskSpec {
            program: b"p".to_vec(),
            queued,
            timeout_ms,
            output_window: 10,
            ..Default::default()
        }
    }

    fn starts(t: &mut Tasks) -> Vec<TaskId> {
        let mut out = vec![];
        while let Some(action) = t.poll_action() {
            if let Action::Start { task, .. } = action {
                out.push(task);
            }
        }
        out
    }

    fn ends(t: &mut Tasks) -> Vec<(u64, Ending)> {
        let mut out = vec![];
        while let Some((_, message)) = t.poll_message() {
            if let Message::Exited(e) = message {
                out.push((e.request, e.exit.ending));
            }
        }
        out
    }

    #[test]
    fn queued_tasks_start_as_slots_become_free() {
        let mut t = Tasks::new(host(ME), 2);
        for request in 0..4 {
            t.spawn(at(0), host(2), request, spec(true, 0), 0, false);
        }
        let first = starts(&mut t);
        assert_eq!(first.len(), 2);
        t.exited(at(1), first[0], Ending::Exited(0));
        assert_eq!(starts(&mut t).len(), 1);
        assert_eq!(ends(&mut t), [(0, Ending::Exited(0))]);
    }

    #[test]
    fn a_repeated_request_runs_once() {
        let mut t = Tasks::new(host(ME), 2);
        t.spawn(at(0), host(2), 7, spec(false, 0), 0, false);
        t.spawn(at(0), host(2), 7, spec(false, 0), 0, false);
        assert_eq!(starts(&mut t).len(), 1);
    }

    #[test]
    fn a_time_out_signals_politely_then_firmly() {
        let mut t = Tasks::new(host(ME), 2);
        t.spawn(at(0), host(2), 1, spec(false, 100), 0, false);
        let id = starts(&mut t)[0];
        t.started(at(0), id, 42);
        t.handle_timeout(at(99));
        assert_eq!(t.poll_action(), None);
        t.handle_timeout(at(100));
        assert_eq!(t.poll_action(), Some(Action::Signal { task: id, signal: SIGTERM }));
        assert_eq!(t.poll_timeout(), Some(at(2100)));
        t.handle_timeout(at(2100));
        assert_eq!(t.poll_action(), Some(Action::Signal { task: id, signal: SIGKILL }));
        assert_eq!(t.poll_timeout(), None);
        t.exited(at(2101), id, Ending::Signalled(SIGKILL));
        assert_eq!(ends(&mut t), [(1, Ending::TimedOut)]);
    }

    #[test]
    fn a_lost_requester_ends_its_tasks_and_nobody_is_told() {
        let mut t = Tasks::new(host(ME), 1);
        t.spawn(at(0), host(2), 1, spec(true, 0), 0, false);
        t.spawn(at(0), host(2), 2, spec(true, 0), 0, false);
        t.spawn(at(0), host(3), 3, spec(true, 0), 0, false);
        let id = starts(&mut t)[0];
        t.requester_lost(at(1), host(2));
        assert_eq!(t.poll_action(), Some(Action::Signal { task: id, signal: SIGTERM }));
        t.exited(at(2), id, Ending::Signalled(SIGTERM));
        assert_eq!(ends(&mut t), []);
        assert_eq!(starts(&mut t).len(), 1, "the other requester's task has its turn");
        assert_eq!(t.len(), 1);
    }

    #[test]
    fn killing_a_waiting_task_ends_it_without_a_process() {
        let mut t = Tasks::new(host(ME), 1);
        t.spawn(at(0), host(2), 1, spec(true, 0), 0, false);
        t.spawn(at(0), host(2), 2, spec(true, 0), 0, false);
        starts(&mut t);
        t.kill(at(1), host(2), 2, 2);
        assert_eq!(ends(&mut t), [(2, Ending::Signalled(2))]);
    }

    #[test]
    fn input_waits_for_the_task_and_stays_within_its_window() {
        let mut t = Tasks::new(host(ME), 1);
        let input = |request, bytes: &[u8], end| Input { request, bytes: bytes.to_vec(), end };
        t.spawn(at(0), host(2), 1, spec(true, 0), 0, false);
        t.spawn(at(0), host(2), 2, TaskSpec { input_window: 4, ..spec(true, 0) }, 0, false);
        let first = starts(&mut t)[0];
        t.input(host(2), input(2, b"abc", false));
        t.input(host(2), input(2, b"de", false)); // one byte too many: not taken
        t.input(host(2), input(1, b"x", false)); // no window at all
        assert_eq!(t.poll_action(), None);
        t.exited(at(1), first, Ending::Exited(0));
        let Some(Action::Start { task, .. }) = t.poll_action() else { panic!("its turn") };
        let given = |bytes: &[u8], end| Some(Action::Input { task, bytes: bytes.to_vec(), end });
        assert_eq!(t.poll_action(), given(b"abc", false));
        t.input_taken(task, 3);
        t.input(host(2), input(2, b"defg", true));
        t.input_taken(task, 4);
        t.input(host(2), input(2, b"h", false)); // after the end
        assert_eq!(t.poll_action(), given(b"defg", true));
        assert_eq!(t.poll_action(), None);
        let mut taken = vec![];
        while let Some((_, message)) = t.poll_message() {
            if let Message::InputTaken(c) = message {
                taken.push((c.request, c.bytes));
            }
        }
        assert_eq!(taken, [(2, 3), (2, 4)]);
    }

    #[test]
    fn a_full_table_refuses_and_says_so() {
        let mut t = Tasks::new(host(ME), 1);
        for request in 0..=RUNNING_MAX as u64 {
            t.spawn(at(0), host(2), request, spec(false, 0), 0, false);
        }
        let ends = ends(&mut t);
        assert!(matches!(&ends[..], [(4096, Ending::Refused(why))] if why.contains("4096")));
    }

    #[test]
    fn an_id_in_use_is_not_given_out_again() {
        let mut t = Tasks::new(host(ME), 2);
        let first = t.adopt(at(0), 1, "first").expect("there is room");
        let second = t.spawn(at(0), host(2), 1, spec(false, 0), 0, false).expect("it is taken");
        let third = t.adopt(at(0), 1, "third").expect("there is room");
        assert_eq!([first, second, third].map(TaskId::number), [1, 2, 3]);
        // Numbers come round.
        t.next = TASK_MAX;
        let fourth = t.adopt(at(0), 1, "fourth").expect("there is room");
        assert_eq!(fourth.number(), 4, "the first that is free");
        // One whose process is over is in use until it is released.
        t.exited(at(1), second, Ending::Exited(0));
        t.release(first);
        t.next = TASK_MAX;
        let fifth = t.spawn(at(0), host(2), 2, spec(false, 0), 0, false).expect("it is taken");
        assert_eq!(fifth.number(), 1);
        let sixth = t.spawn(at(0), host(2), 3, spec(false, 0), 0, false).expect("it is taken");
        assert_eq!(sixth.number(), 5);
        t.release(second);
        // Released while it runs: it is in use still.
        t.release(fifth);
        t.next = TASK_MAX;
        assert_eq!(t.adopt(at(0), 1, "seventh").map(TaskId::number), Some(2));
    }

    #[test]
    fn so_many_wait_and_enrol_by_themselves_and_no_more() {
        let mut t = Tasks::new(host(ME), 1);
        for request in 0..=QUEUED_MAX as u64 {
            assert!(t.spawn(at(0), host(2), request, spec(true, 0), 0, false).is_some());
        }
        assert_eq!(t.len(), QUEUED_MAX + 1, "one runs");
        assert_eq!(t.spawn(at(0), host(2), 99_999, spec(true, 0), 0, false), None);
        let ends = ends(&mut t);
        assert!(matches!(&ends[..], [(99_999, Ending::Refused(why))] if why.contains("16384")));
        for _ in 0..ADOPTED_MAX {
            assert!(t.adopt(at(0), 1, "c").is_some());
        }
        assert_eq!(t.adopt(at(0), 1, "c"), None);
        assert_eq!(t.load(), 1 + ADOPTED_MAX);
    }

    #[test]
    fn the_table_of_running_tasks_bounds_queued_ones_too() {
        let mut t = Tasks::new(host(ME), u16::MAX);
        for request in 0..RUNNING_MAX as u64 {
            t.spawn(at(0), host(2), request, spec(false, 0), 0, false);
        }
        let running = starts(&mut t);
        assert_eq!(running.len(), RUNNING_MAX);
        t.spawn(at(0), host(2), 9999, spec(true, 0), 0, false);
        assert_eq!(starts(&mut t), [], "it waits although there are slots");
        t.exited(at(1), running[0], Ending::Exited(0));
        assert_eq!(starts(&mut t).len(), 1);
    }

    #[test]
    fn who_asked_and_what_runs_is_known() {
        let mut t = Tasks::new(host(ME), 1);
        let command = TaskSpec { args: vec![b"x".to_vec()], ..spec(false, 0) };
        let id = t.spawn(at(5), host(2), 7, command, 1, false).expect("it is taken");
        let own = t.adopt(at(6), 33, &"\u{e9}".repeat(101)).expect("there is room");
        assert_eq!(t.requester(id), Some((host(2), 7)));
        assert_eq!(t.requester(own), None);
        assert!(t.any_for(host(2)) && !t.any_for(host(3)));
        t.started(at(8), id, 44);
        let info = t.info(at(15), id).expect("it runs");
        assert_eq!((info.requester, info.pid, info.age_us), (host(2), 44, 10_000));
        assert_eq!((&info.command[..], info.started), ("p x", true));
        let info = t.info(at(15), own).expect("it is there");
        assert_eq!((info.requester, info.pid, info.age_us), (host(ME), 33, 9000));
        assert_eq!((info.command.len(), info.started), (200, false));
        assert_eq!(t.list(at(15)).len(), 2);
        assert!(t.signal(at(15), own, 5) && t.signal(at(15), id, 6));
        let signals: std::vec::Vec<_> = core::iter::from_fn(|| t.poll_action()).skip(1).collect();
        assert_eq!(
            signals,
            [Action::SignalProcess { pid: 33, signal: 5 }, Action::Signal { task: id, signal: 6 }]
        );
        t.requester_lost(at(20), host(2));
        assert_eq!((t.requester(id), t.any_for(host(2))), (None, false));
        t.exited(at(30), id, Ending::Exited(0));
        assert!(!t.signal(at(31), id, 6) && t.info(at(31), id).is_none());
    }

    #[test]
    fn a_task_that_goes_on_alone_outlives_its_requester_and_not_its_host() {
        let mut t = Tasks::new(host(ME), 1);
        let id = t.spawn(at(0), host(2), 1, spec(false, 0), 0, true).expect("it is taken");
        t.requester_lost(at(1), host(2));
        let mut signals = || {
            let actions: std::vec::Vec<_> = core::iter::from_fn(|| t.poll_action()).collect();
            t.end_all(at(2));
            actions.iter().filter(|a| matches!(a, Action::Signal { .. })).count()
        };
        assert_eq!((signals(), signals()), (0, 1));
        assert_eq!(t.poll_timeout(), Some(at(2002)));
        let _ = id;
    }

    #[test]
    fn unique_tasks_wait_until_their_host_is_sure_and_end_when_it_is_not() {
        let mut t = Tasks::new(host(ME), 1);
        let unique = |queued| TaskSpec { unique: true, ..spec(queued, 0) };
        let starts = |t: &mut Tasks| {
            let mut started = Vec::new();
            while let Some(action) = t.poll_action() {
                if let Action::Start { task, .. } = action {
                    started.push(task);
                }
            }
            started
        };
        let now = t.spawn(at(0), host(2), 1, unique(false), 0, false).unwrap();
        let queued = t.spawn(at(0), host(2), 2, unique(true), 0, false).unwrap();
        // Others do not wait for them, and a slot is not kept for one that may not start.
        let plain = t.spawn(at(0), host(2), 3, spec(true, 0), 0, false).unwrap();
        assert_eq!(starts(&mut t), [plain]);
        assert!(t.has_unique() && t.unique_running() == 0);
        t.set_sure(at(0), at(9));
        assert_eq!((starts(&mut t), t.unique_running()), (vec![now], 1));
        t.exited(at(1), plain, Ending::Exited(0));
        assert_eq!((starts(&mut t), t.unique_running()), (vec![queued], 2));
        t.exited(at(2), queued, Ending::Exited(0));
        let waits = t.spawn(at(3), host(2), 4, spec(true, 0), 0, false).unwrap();
        let last = t.spawn(at(3), host(2), 5, unique(true), 0, false).unwrap();
        assert_eq!(starts(&mut t), [waits]);
        while t.poll_over().is_some() {}
        t.end_unique(at(4));
        assert_eq!(t.poll_action(), Some(Action::Signal { task: now, signal: SIGKILL }));
        assert_eq!((t.poll_action(), t.has_unique()), (None, false));
        assert_eq!(t.poll_over(), Some((last, Ending::Unsure)), "it never ran");
        t.exited(at(5), now, Ending::Signalled(SIGKILL));
        assert_eq!(t.poll_over(), Some((now, Ending::Unsure)));
        t.exited(at(6), waits, Ending::Exited(0));
        assert_eq!(t.poll_over(), Some((waits, Ending::Exited(0))), "it is none of them");
        // A host that stood still has not looked at the time since.
        t.set_sure(at(7), at(9));
        t.spawn(at(7), host(2), 6, spec(true, 0), 0, false).unwrap();
        t.spawn(at(7), host(2), 7, unique(true), 0, false).unwrap();
        t.spawn(at(9), host(2), 8, unique(false), 0, false).unwrap();
        let [first] = starts(&mut t)[..] else { panic!("one") };
        t.exited(at(9), first, Ending::Exited(0));
        assert_eq!((starts(&mut t), t.unique_running()), (vec![], 0));
    }
}
