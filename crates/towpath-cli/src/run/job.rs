//! The tasks of a job from start to end: their output out, our input in, signals on.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use towpath::client::{Client, ClientError};
use towpath::protocol::{ADOPTED_TAGS, Reply, Request, TaskEvent};
use towpath_report::text::visible;
use towpath_vm::{Ending, Host, TaskExit};
use towpath_wire::HostId;

use super::failures::{Failures, TOGETHER, Who};
use super::input::Input;
use super::show::Show;
use super::summary::{Member, Spawned};

const SIGKILL: i32 = 9;
const SIGPIPE: i32 = 13;
/// Error number "no such file".
const ENOENT: i32 = 2;
/// Exit status when the tasks' output could not be written.
const OUTPUT_FAILED: u8 = 255;
/// Exit status when the job's time was over, as of the tasks' own.
const TIMED_OUT: u8 = 124;
/// How often signals and time are looked at when nothing else happens.
const TICK: Duration = Duration::from_millis(100);
/// How long hosts may take to answer after the tasks were told to end.
const UNHEARD: Duration = Duration::from_millis(1500);
/// How a daemon begins to say that an answer does not fit.
const TOO_LONG: &str = "the answer does not fit";
/// Replies handled before output is shown and signals are looked at.
const REPLIES_PER_TURN: usize = 256;

/// How a job is to go on when a task fails.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The others go on.
    pub(super) go_on: bool,
    /// From the polite signal to the firm one.
    pub(super) grace: Duration,
    /// When what still runs, spawned tasks too, is ended.
    pub(super) until: Option<Instant>,
}

/// A job under way. The tags of the tasks that were asked for are their ranks; behind them in
/// `members` come those that they spawned. Invariants: `running` counts the members without
/// `exit`; `spawned` has the place of each member with a tag of the daemon's.
pub(super) struct Job<'a> {
    client: Client,
    pub(super) members: Vec<Member>,
    hosts: &'a [Host],
    show: Show,
    input: Option<Input>,
    rules: Rules,
    signals: &'a mut Signals,
    running: usize,
    spawned: HashMap<u64, usize>,
    interrupts: u32,
    /// Exit status of the first task that failed.
    failed: Option<u8>,
    /// It is one that a task chose, with which it ended by itself.
    is_stated: bool,
    /// When to end the others of a task that failed.
    end_at: Option<Instant>,
    /// When to be firm with those that were told to end.
    firm_at: Option<Instant>,
    /// They were told to end: by us, or nobody reads what they say.
    ending: bool,
    /// When hosts were asked last whether they are there, and which have answered since.
    asked: Option<(Instant, BTreeSet<HostId>)>,
    /// Ends that were not told yet.
    failures: Failures,
    /// What to say to a program that is not found.
    pub(super) hint: Option<String>,
    /// One was not found.
    is_absent: bool,
}

impl<'a> Job<'a> {
    pub(super) fn new(
        client: Client,
        hosts: &'a [Host],
        members: Vec<Member>,
        show: Show,
        input: Option<Input>,
        rules: Rules,
        signals: &'a mut Signals,
    ) -> Self {
        let running = members.len();
        Self {
            client,
            hosts,
            members,
            show,
            input,
            rules,
            signals,
            running,
            spawned: HashMap::new(),
            interrupts: 0,
            failed: None,
            is_stated: false,
            end_at: None,
            firm_at: None,
            ending: false,
            asked: None,
            failures: Failures::default(),
            hint: None,
            is_absent: false,
        }
    }

    /// Sees the job through; its exit status.
    pub(super) fn run(&mut self) -> anyhow::Result<u8> {
        while self.running > 0 {
            let mut dry = false;
            for _ in 0..REPLIES_PER_TURN {
                let Some(reply) = self.client.receiver.buffered()? else {
                    dry = true;
                    break;
                };
                self.reply(reply)?;
            }
            if let Err(e) = self.show.flush() {
                self.output_closed(&e)?;
            }
            self.take_signals()?;
            self.be_in_time()?;
            self.be_done()?;
            self.be_firm()?;
            self.look_who_answers()?;
            if dry && self.failures.are_due(Instant::now()) {
                self.tell_failures();
            }
            if self.running > 0 && dry {
                self.wait()?;
            }
        }
        self.tell_failures();
        Ok(self.failed.unwrap_or(0))
    }

    /// Waits for the daemon, our input, a signal or the clock.
    fn wait(&mut self) -> Result<(), ClientError> {
        let due = [self.firm_at, self.end_at].into_iter().flatten().min();
        let limit = due.map_or(TICK, |at| at.saturating_duration_since(Instant::now()));
        let limit = Timespec::try_from(limit.min(TICK)).map_err(io::Error::other)?;
        let daemon = PollFd::from_borrowed_fd(self.client.receiver.as_fd(), PollFlags::IN);
        let stdin: Option<BorrowedFd<'_>> = self.input.as_ref().and_then(Input::fd);
        let stdin = stdin.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = std::iter::once(daemon).chain(stdin).collect();
        match poll(&mut fds, Some(&limit)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(e) => return Err(ClientError::Io(e.into())),
        }
        let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        let (daemon, stdin) = (ready(0), ready(1));
        if stdin && let Some(input) = &mut self.input {
            let (bytes, end) = input.read();
            self.client.sender.send(&Request::Input { tag: 0, bytes, end })?;
        }
        if daemon {
            self.client.receiver.fill()?;
        }
        Ok(())
    }

    fn reply(&mut self, reply: Reply) -> anyhow::Result<()> {
        let (tag, event) = match reply {
            Reply::Task { tag, event } => (tag, event),
            Reply::Adopted { tag, host, program, .. } => return self.adopt(tag, host, program),
            Reply::Tasks { host, tasks, .. } => {
                // A list that is too long for one answer is one.
                let answers = tasks.map_or_else(|why| why.starts_with(TOO_LONG), |_| true);
                if let (true, Some((_, heard))) = (answers, &mut self.asked) {
                    heard.insert(host);
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        let rank = if tag < ADOPTED_TAGS {
            tag as usize
        } else {
            let Some(at) = self.spawned.get(&tag) else { return Ok(()) };
            *at
        };
        match event {
            TaskEvent::Started { task, pid } => self.members[rank].task = Some((task, pid)),
            TaskEvent::Output { stream, bytes } => {
                if let Err(e) = self.show.write(rank, stream, &bytes) {
                    self.output_closed(&e)?;
                }
                self.client.sender.send(&Request::Credit { tag, bytes: bytes.len() as u32 })?;
            }
            TaskEvent::InputTaken(bytes) => {
                if let Some(input) = &mut self.input {
                    input.taken(bytes);
                }
            }
            TaskEvent::Ended(exit) => self.ended(rank, exit)?,
        }
        Ok(())
    }

    /// A task spawned a task: it is part of the job, under a name of its own.
    fn adopt(&mut self, tag: u64, host: HostId, program: String) -> anyhow::Result<()> {
        let name = self.hosts.iter().find(|h| h.id == host).map(|h| h.name.clone());
        let name = name.unwrap_or_else(|| host.to_string());
        let number = format!("+{}", self.spawned.len() + 1);
        self.show.add(format!("[{number} {}] ", visible(&name)), &number)?;
        self.spawned.insert(tag, self.members.len());
        let spawned = Some(Spawned { tag, program });
        self.members.push(Member { host, name, spawned, task: None, exit: None });
        self.running += 1;
        if self.ending {
            self.client.sender.send(&Request::Kill { tag, signal: SIGTERM })?;
        }
        Ok(())
    }

    fn ended(&mut self, rank: usize, exit: TaskExit) -> Result<(), ClientError> {
        if let Err(e) = self.show.end(rank) {
            self.output_closed(&e)?;
        }
        if rank == 0 {
            self.input = None;
        }
        self.running -= 1;
        if !exit.ending.is_success() {
            self.note(rank, &exit.ending);
            if self.members[rank].spawned.is_none() {
                self.fail(rank, &exit.ending)?;
            }
        }
        self.members[rank].exit = Some(exit);
        if rank == 0 {
            // It has said what it says.
            self.end_at = self.end_at.map(|_| Instant::now());
        }
        Ok(())
    }

    /// A task failed: the first that does gives the job's status, unless it only states one and the
    /// first task, which speaks for the job, states another before they are ended.
    fn fail(&mut self, rank: usize, ending: &Ending) -> Result<(), ClientError> {
        let status = ending.shell_status();
        let states = matches!(ending, Ending::Exited(_));
        if self.failed.is_some() {
            if rank == 0 && states && self.is_stated && !self.ending {
                self.failed = Some(status);
            }
            return Ok(());
        }
        (self.failed, self.is_stated) = (Some(status), states);
        if self.rules.go_on || self.ending || self.running == 0 {
            return Ok(());
        }
        if states && self.members[0].exit.is_none() && rank != 0 {
            self.end_at = Some(Instant::now() + TOGETHER);
            return Ok(());
        }
        self.end_others()
    }

    /// Ends the others once the first task has had its time to fail, too.
    fn be_done(&mut self) -> Result<(), ClientError> {
        if self.end_at.take_if(|at| *at <= Instant::now()).is_none() {
            return Ok(());
        }
        if self.ending || self.running == 0 { Ok(()) } else { self.end_others() }
    }

    /// Keeps how a task failed until it is told: a lone one's exit status says enough, that of a
    /// spawned one is for the task that spawned it, which also knows what it ended on purpose and
    /// what could not be started.
    fn note(&mut self, rank: usize, ending: &Ending) {
        let Member { host, name, spawned, .. } = &self.members[rank];
        let alone = self.members.len() == 1;
        let who = match (ending, spawned) {
            (
                Ending::Exited(_)
                | Ending::NotStarted { .. }
                | Ending::Refused(_)
                | Ending::Signalled(SIGTERM),
                Some(_),
            ) => return,
            (Ending::Exited(_), None) if alone => return,
            (_, None) if alone => Who::Alone(host.to_string()),
            // We ended it ourselves, or the user did.
            (Ending::Signalled(_), _) if self.ending => return,
            (_, None) => Who::Task(rank),
            (_, Some(s)) => Who::Program(s.program.clone()),
        };
        let absent = matches!(ending, Ending::NotStarted { errno: ENOENT, .. });
        self.is_absent |= absent && spawned.is_none();
        self.failures.add(Instant::now(), who, name, ending.to_string());
    }

    fn tell_failures(&mut self) {
        if !self.failures.is_empty() {
            let _ = self.show.flush();
        }
        for line in self.failures.take() {
            eprintln!("{line}");
        }
        if self.is_absent
            && let Some(hint) = self.hint.take()
        {
            eprintln!("hint: {hint}");
        }
    }

    fn end_others(&mut self) -> Result<(), ClientError> {
        self.tell_failures();
        eprintln!(
            "towpath: the other {} are ended (--on-failure go-on lets them run)",
            self.running
        );
        self.ending = true;
        self.firm_at = Some(Instant::now() + self.rules.grace);
        self.signal(SIGTERM)
    }

    /// Nobody reads any more, or there is no room for more: as if the tasks had got the signal
    /// themselves.
    fn output_closed(&mut self, why: &io::Error) -> Result<(), ClientError> {
        if std::mem::replace(&mut self.ending, true) {
            return Ok(());
        }
        if why.kind() != io::ErrorKind::BrokenPipe {
            eprintln!("error: output cannot be written: {why}; the tasks are ended");
            self.failed.get_or_insert(OUTPUT_FAILED);
        }
        self.firm_at = Some(Instant::now() + self.rules.grace);
        self.signal(SIGPIPE)
    }

    fn take_signals(&mut self) -> Result<(), ClientError> {
        let came: Vec<i32> = self.signals.pending().collect();
        for signal in came {
            self.interrupts += 1;
            self.ending = true;
            if self.interrupts > 2 {
                // Nobody ends the tasks for us: whoever serves them does when we are gone.
                return Err(ClientError::Failed(
                    "left before the tasks had ended: they end with the connection".into(),
                ));
            }
            let signal = if self.interrupts > 1 { SIGKILL } else { signal };
            self.signal(signal)?;
            self.ask_hosts()?;
        }
        Ok(())
    }

    /// Hosts with tasks that run.
    fn busy(&self) -> BTreeSet<HostId> {
        self.members.iter().filter(|m| m.exit.is_none()).map(|m| m.host).collect()
    }

    /// Has each host with tasks say something: what does not reach it ends nothing there.
    fn ask_hosts(&mut self) -> Result<(), ClientError> {
        self.asked = Some((Instant::now(), BTreeSet::new()));
        for host in self.busy() {
            self.client.sender.send(&Request::Tasks { tag: host.to_raw(), host })?;
        }
        Ok(())
    }

    /// Nobody who wants this to end waits for hosts that do not answer: their tasks end once they
    /// can be reached, or with what they have lost.
    fn look_who_answers(&mut self) -> Result<(), ClientError> {
        let Some((at, heard)) = &self.asked else { return Ok(()) };
        if self.running == 0 || at.elapsed() < UNHEARD {
            return Ok(());
        }
        let busy = self.busy();
        if busy.iter().any(|host| heard.contains(host)) {
            return Ok(());
        }
        self.tell_failures();
        let silent: Vec<String> = busy.iter().map(ToString::to_string).collect();
        let (hosts, do_not) = if silent.len() == 1 { ("host", "does") } else { ("hosts", "do") };
        let tasks = if self.running == 1 { "task" } else { "tasks" };
        Err(ClientError::Failed(format!(
            "{hosts} {} {do_not} not answer: left with {} {tasks} there, to be ended once it can \
             be\nhint: see `towpath hosts`",
            silent.join(", "),
            self.running
        )))
    }

    /// Tasks that were asked for have a limit of their own at their hosts, which has not ended
    /// those that they spawned.
    fn be_in_time(&mut self) -> Result<(), ClientError> {
        let is_over = self.rules.until.is_some_and(|at| at <= Instant::now());
        let spawned = self.members.iter().any(|m| m.spawned.is_some() && m.exit.is_none());
        if !is_over || !spawned || self.ending {
            return Ok(());
        }
        eprintln!("towpath: the time is over: the {} that still run are ended", self.running);
        self.failed.get_or_insert(TIMED_OUT);
        self.ending = true;
        self.firm_at = Some(Instant::now() + self.rules.grace);
        self.signal(SIGTERM)
    }

    fn be_firm(&mut self) -> Result<(), ClientError> {
        if self.firm_at.is_some_and(|at| at <= Instant::now()) {
            self.firm_at = None;
            self.signal(SIGKILL)?;
        }
        Ok(())
    }

    /// Sends a signal to every task that runs.
    fn signal(&mut self, signal: i32) -> Result<(), ClientError> {
        for (rank, member) in self.members.iter().enumerate() {
            if member.exit.is_none() {
                let tag = member.spawned.as_ref().map_or(rank as u64, |s| s.tag);
                self.client.sender.send(&Request::Kill { tag, signal })?;
            }
        }
        Ok(())
    }
}

/// Has signals wait until they are looked for.
pub(super) fn signals() -> io::Result<Signals> {
    Signals::new([SIGINT, SIGTERM, SIGHUP])
}
