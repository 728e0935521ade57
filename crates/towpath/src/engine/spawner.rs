//! The control thread: starts processes, reads their output, reaps them.
//!
//! Each process leads a process group of its own, so that a signal reaches what it started. Its
//! output is read only within the credit that its requester gave. Its end is reported after its
//! last output.

use std::collections::HashMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdout};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, test_kill_process_group,
};
use towpath_io::Clock;
use towpath_task::place::{COOKIE_VAR, TASK_VAR};
use towpath_vm::{Ending, Stream, TaskSpec};
use towpath_wire::{Instant, TaskId};

use super::input::Input;
use super::launch::{Launch, not_started};
use super::poll::{Events, Poll, Waker};
use crate::start::limits::Descriptors;

/// What the engine wants of the spawner.
#[derive(Debug)]
pub(super) enum Order {
    Start { task: TaskId, spec: TaskSpec, cookie: u64 },
    Signal { task: TaskId, signal: i32 },
    Input { task: TaskId, bytes: Vec<u8>, end: bool },
    Credit { task: TaskId, bytes: u32 },
    Stop,
}

/// What the spawner tells the engine.
#[derive(Debug)]
pub(super) enum Report {
    Started { task: TaskId, pid: u32, at: Instant },
    Output { task: TaskId, stream: Stream, bytes: Vec<u8> },
    InputTaken { task: TaskId, bytes: u32 },
    Exited { task: TaskId, ending: Ending, at: Instant },
}

const KEY_WAKE: u64 = 0;
/// Kinds of descriptors of process `n`: key `4 n + kind`, n from 1.
const KIND_EXIT: u64 = 0;
const KIND_OUT: u64 = 1;
const KIND_ERR: u64 = 2;
const KIND_IN: u64 = 3;
/// Largest piece of output read at once.
const PIECE: usize = 64 * 1024;
/// After [`Order::Stop`]: how long processes may take to end politely.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// How often it is looked whether the group of a task that was ended is gone, and how long.
const LINGER_LOOK: Duration = Duration::from_millis(2);
const LINGER_MAX: Duration = Duration::from_secs(1);

/// A task whose process is gone, while what it started is on its way out.
struct Lingering {
    group: Pid,
    until: std::time::Instant,
    task: TaskId,
    ending: Ending,
    at: Instant,
}

struct Process {
    task: TaskId,
    child: Child,
    pid: Pid,
    exit: OwnedFd,
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    input: Input,
    credit: u64,
    /// Its pipes are being watched.
    watched: bool,
    exited: bool,
    signalled: bool,
}

/// The control thread's state.
pub(super) struct Spawner {
    orders: Receiver<Order>,
    reports: Sender<Report>,
    own: Waker,
    engine: Waker,
    clock: Clock,
    poll: Poll,
    processes: HashMap<u64, Process>,
    by_task: HashMap<TaskId, u64>,
    /// Their ends are told when nothing is left of them.
    lingering: Vec<Lingering>,
    next: u64,
    buf: Vec<u8>,
    reported: bool,
    launch: Launch,
    descriptors: Descriptors,
}

impl Spawner {
    pub(super) fn new(
        orders: Receiver<Order>,
        reports: Sender<Report>,
        [own, engine]: [Waker; 2],
        clock: Clock,
        launch: Launch,
        descriptors: Descriptors,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&own, KEY_WAKE)?;
        Ok(Self {
            orders,
            reports,
            own,
            engine,
            clock,
            poll,
            processes: HashMap::new(),
            by_task: HashMap::new(),
            lingering: Vec::new(),
            next: 0,
            buf: vec![0; PIECE],
            reported: false,
            launch,
            descriptors,
        })
    }

    /// Works until told to stop or the engine is gone.
    pub(super) fn run(mut self) {
        let mut events = Events::new();
        loop {
            if std::mem::take(&mut self.reported) {
                self.engine.wake();
            }
            let wait = self.lingering.first().map(|_| LINGER_LOOK);
            if self.poll.wait(&mut events, wait).is_err() {
                return;
            }
            self.see_off();
            for r in (0..).map_while(|i| events.get(i)) {
                match (r.key / 4, r.key % 4) {
                    (0, _) => {
                        self.own.reset();
                        if !self.obey() {
                            self.stop();
                            return;
                        }
                    }
                    (n, KIND_EXIT) => self.exited(n),
                    (n, KIND_IN) => self.feed(n),
                    (n, _) => self.read(n),
                }
            }
        }
    }

    fn report(&mut self, report: Report) {
        // The engine is gone only when the whole daemon is about to be.
        let _ = self.reports.send(report);
        self.reported = true;
    }

    /// Carries out waiting orders; false when it is time to stop.
    fn obey(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Start { task, spec, cookie }) => self.start(task, &spec, cookie),
                Ok(Order::Signal { task, signal }) => self.signal(task, signal),
                Ok(Order::Input { task, bytes, end }) => self.input(task, bytes, end),
                Ok(Order::Credit { task, bytes }) => self.credit(task, bytes),
                Ok(Order::Stop) | Err(std::sync::mpsc::TryRecvError::Disconnected) => return false,
                Err(std::sync::mpsc::TryRecvError::Empty) => return true,
            }
        }
    }

    fn start(&mut self, task: TaskId, spec: &TaskSpec, cookie: u64) {
        let at = self.clock.now();
        match self.try_start(task, spec, cookie) {
            Ok(pid) => self.report(Report::Started { task, pid, at }),
            Err(e) => {
                let ending = not_started(spec, &e);
                self.report(Report::Exited { task, ending, at });
            }
        }
    }

    fn try_start(&mut self, task: TaskId, spec: &TaskSpec, cookie: u64) -> io::Result<u32> {
        let mut command = self.launch.command(spec)?;
        command.env(TASK_VAR, task.to_raw().to_string()).env(COOKIE_VAR, cookie.to_string());
        let mut child = self.descriptors.spawn(&mut command)?;
        let pid = child.id();
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let input = Input::new(child.stdin.take());
        self.next += 1;
        let n = self.next;
        let pipes = [out.as_ref().map(AsFd::as_fd), err.as_ref().map(AsFd::as_fd), input.fd()];
        let (own_pid, exit) = match self.look_after(n, pid, pipes) {
            Ok(found) => found,
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(e);
            }
        };
        let credit = spec.output_window.into();
        let (watched, exited, signalled) = (false, false, false);
        let process = Process {
            task,
            child,
            pid: own_pid,
            exit,
            out,
            err,
            input,
            credit,
            watched,
            exited,
            signalled,
        };
        self.processes.insert(n, process);
        self.by_task.insert(task, n);
        self.watch(n);
        Ok(pid)
    }

    /// Has process `n` tell of its end, and its pipes never block us.
    fn look_after(
        &self,
        n: u64,
        pid: u32,
        pipes: [Option<BorrowedFd<'_>>; 3],
    ) -> io::Result<(Pid, OwnedFd)> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidData)?;
        let exit = pidfd_open(pid, PidfdFlags::empty())?;
        for pipe in pipes.into_iter().flatten() {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        self.poll.add(&exit, 4 * n + KIND_EXIT)?;
        Ok((pid, exit))
    }

    /// Watches the pipes of a process while it has credit, and only then: a pipe whose writers
    /// are gone is always ready.
    fn watch(&mut self, n: u64) {
        let Some(p) = self.processes.get_mut(&n) else { return };
        let wanted = p.credit > 0;
        if wanted == p.watched {
            return;
        }
        p.watched = wanted;
        if let Some(out) = &p.out {
            let _ =
                if wanted { self.poll.add(out, 4 * n + KIND_OUT) } else { self.poll.remove(out) };
        }
        if let Some(err) = &p.err {
            let _ =
                if wanted { self.poll.add(err, 4 * n + KIND_ERR) } else { self.poll.remove(err) };
        }
    }

    fn read(&mut self, n: u64) {
        self.read_stream(n, Stream::Out);
        self.read_stream(n, Stream::Err);
        self.watch(n);
    }

    /// Reads one pipe until it is dry, at its end, or the credit is used up.
    fn read_stream(&mut self, n: u64, stream: Stream) {
        loop {
            let Some(p) = self.processes.get_mut(&n) else { return };
            let max = usize::try_from(p.credit).unwrap_or(PIECE).min(PIECE);
            if max == 0 {
                return;
            }
            let result = match stream {
                Stream::Out => p.out.as_mut().map(|f| f.read(&mut self.buf[..max])),
                Stream::Err => p.err.as_mut().map(|f| f.read(&mut self.buf[..max])),
            };
            match result {
                None => return,
                Some(Ok(0)) => return close(p, stream),
                Some(Ok(len)) => {
                    p.credit -= len as u64;
                    let (task, bytes) = (p.task, self.buf[..len].to_vec());
                    self.report(Report::Output { task, stream, bytes });
                }
                Some(Err(e)) if e.kind() == io::ErrorKind::WouldBlock => return,
                Some(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Some(Err(_)) => return close(p, stream),
            }
        }
    }

    fn exited(&mut self, n: u64) {
        if let Some(p) = self.processes.get_mut(&n).filter(|p| !p.exited) {
            p.exited = true;
            let _ = self.poll.remove(&p.exit);
        }
        self.finish(n);
    }

    /// Reports the end of an exited process once its output is read, as far as it was written.
    fn finish(&mut self, n: u64) {
        self.read(n);
        let Some(p) = self.processes.get(&n) else { return };
        let unread = p.credit == 0 && (p.out.is_some() || p.err.is_some());
        if !p.exited || unread {
            return;
        }
        let Some(mut p) = self.processes.remove(&n) else { return };
        self.by_task.remove(&p.task);
        let at = self.clock.now();
        if p.signalled {
            // What it started and did not end with it, ends now; its group id is still its own,
            // as it was not reaped yet.
            let _ = kill_process_group(p.pid, Signal::KILL);
        }
        let ending = match p.child.wait() {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Ending::Exited(code),
                (None, signal) => Ending::Signalled(signal.unwrap_or(0)),
            },
            Err(e) => Ending::NotStarted {
                errno: e.raw_os_error().unwrap_or(0),
                text: format!("its end is not known: {e}"),
            },
        };
        let (task, group) = (p.task, p.pid);
        if p.signalled && test_kill_process_group(group).is_ok() {
            let until = std::time::Instant::now() + LINGER_MAX;
            self.lingering.push(Lingering { group, until, task, ending, at });
            return;
        }
        self.report(Report::Exited { task, ending, at });
    }

    /// Reports ends whose groups are gone by now.
    fn see_off(&mut self) {
        let now = std::time::Instant::now();
        let is_over =
            |l: &mut Lingering| l.until <= now || test_kill_process_group(l.group).is_err();
        let over: Vec<Lingering> = self.lingering.extract_if(.., is_over).collect();
        for Lingering { task, ending, at, .. } in over {
            self.report(Report::Exited { task, ending, at });
        }
    }

    fn signal(&mut self, task: TaskId, signal: i32) {
        let n = self.by_task.get(&task);
        let Some(p) = n.and_then(|n| self.processes.get_mut(n)) else { return };
        if let Some(signal) = Signal::from_named_raw(signal) {
            let ends = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::KILL];
            p.signalled |= ends.contains(&signal);
            let _ = kill_process_group(p.pid, signal);
        }
    }

    fn credit(&mut self, task: TaskId, bytes: u32) {
        let Some(n) = self.by_task.get(&task).copied() else { return };
        if let Some(p) = self.processes.get_mut(&n) {
            p.credit += u64::from(bytes);
        }
        self.watch(n);
        self.finish(n);
    }

    /// Standard input came for a task.
    fn input(&mut self, task: TaskId, bytes: Vec<u8>, end: bool) {
        let Some(n) = self.by_task.get(&task).copied() else { return };
        if let Some(p) = self.processes.get_mut(&n) {
            p.input.add(bytes, end);
        }
        self.feed(n);
    }

    /// Hands a task as much of its input as it takes now.
    fn feed(&mut self, n: u64) {
        let Some(p) = self.processes.get_mut(&n) else { return };
        let taken = p.input.feed(&self.poll, 4 * n + KIND_IN);
        let task = p.task;
        if taken > 0 {
            self.report(Report::InputTaken { task, bytes: taken });
        }
    }

    /// Ends every process: politely, then firmly.
    fn stop(&mut self) {
        let all = |s: &Self, signal| {
            for p in s.processes.values() {
                let _ = kill_process_group(p.pid, signal);
            }
        };
        all(self, Signal::TERM);
        let deadline = std::time::Instant::now() + STOP_GRACE;
        let mut events = Events::new();
        let alive = |s: &mut Self| {
            s.processes.values_mut().any(|p| {
                // Still running as far as we can tell.
                matches!(p.child.try_wait(), Ok(None))
            })
        };
        while alive(self) {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                break;
            }
            // An exit wakes us; output does as well, and is of no interest any more.
            let _ = self.poll.wait(&mut events, Some(left.min(Duration::from_millis(20))));
        }
        all(self, Signal::KILL);
        for p in self.processes.values_mut() {
            let _ = p.child.wait();
        }
    }
}

fn close(p: &mut Process, stream: Stream) {
    match stream {
        Stream::Out => p.out = None,
        Stream::Err => p.err = None,
    }
}
