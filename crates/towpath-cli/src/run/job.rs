//! The tasks of a job from start to end: their output out, our input in, signals on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use towpath::client::{Client, ClientError};
use towpath::protocol::{Reply, Request, TaskEvent};
use towpath_vm::{Ending, TaskExit};

use super::input::Input;
use super::show::Show;
use super::summary::Member;

const SIGKILL: i32 = 9;
const SIGPIPE: i32 = 13;
/// How often signals and time are looked at when nothing else happens.
const TICK: Duration = Duration::from_millis(100);
/// Replies handled before output is shown and signals are looked at.
const REPLIES_PER_TURN: usize = 256;

/// How a job is to go on when a task fails.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The others go on.
    pub(super) keep_going: bool,
    /// From the polite signal to the firm one.
    pub(super) grace: Duration,
}

/// A job under way. Its tasks' tags are their ranks. Invariant: `running` counts the members
/// without `exit`.
pub(super) struct Job<'a> {
    pub(super) client: Client,
    pub(super) members: Vec<Member>,
    pub(super) show: Show,
    pub(super) input: Option<Input>,
    pub(super) rules: Rules,
    pub(super) signals: &'a mut Signals,
    running: usize,
    interrupts: u32,
    /// Exit status of the first task that failed.
    failed: Option<u8>,
    /// When to be firm with those that were told to end.
    firm_at: Option<Instant>,
    /// They were told to end: by us, or nobody reads what they say.
    ending: bool,
}

impl<'a> Job<'a> {
    pub(super) const fn new(
        client: Client,
        members: Vec<Member>,
        show: Show,
        input: Option<Input>,
        rules: Rules,
        signals: &'a mut Signals,
    ) -> Self {
        let running = members.len();
        Self {
            client,
            members,
            show,
            input,
            rules,
            signals,
            running,
            interrupts: 0,
            failed: None,
            firm_at: None,
            ending: false,
        }
    }

    /// Sees the job through; its exit status.
    pub(super) fn run(&mut self) -> Result<u8, ClientError> {
        while self.running > 0 {
            let mut dry = false;
            for _ in 0..REPLIES_PER_TURN {
                let Some(reply) = self.client.receiver.buffered()? else {
                    dry = true;
                    break;
                };
                self.reply(reply)?;
            }
            if self.show.flush().is_err() {
                self.output_closed()?;
            }
            self.take_signals()?;
            self.be_firm()?;
            if self.running > 0 && dry {
                self.wait()?;
            }
        }
        Ok(self.failed.unwrap_or(0))
    }

    /// Waits for the daemon, our input, a signal or the clock.
    fn wait(&mut self) -> Result<(), ClientError> {
        let limit = self.firm_at.map_or(TICK, |at| at.saturating_duration_since(Instant::now()));
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

    fn reply(&mut self, reply: Reply) -> Result<(), ClientError> {
        let Reply::Task { tag, event } = reply else { return Ok(()) };
        let rank = tag as usize;
        match event {
            TaskEvent::Started { task, pid } => self.members[rank].task = Some((task, pid)),
            TaskEvent::Output { stream, bytes } => {
                if self.show.write(rank, stream, &bytes).is_err() {
                    self.output_closed()?;
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

    fn ended(&mut self, rank: usize, exit: TaskExit) -> Result<(), ClientError> {
        if self.show.end(rank).is_err() {
            self.output_closed()?;
        }
        if rank == 0 {
            self.input = None;
        }
        self.running -= 1;
        if !exit.ending.is_success() {
            self.tell(rank, &exit.ending);
            if self.failed.is_none() {
                self.failed = Some(exit.ending.shell_status());
                if !self.rules.keep_going && !self.ending && self.running > 0 {
                    self.end_others(rank)?;
                }
            }
        }
        self.members[rank].exit = Some(exit);
        Ok(())
    }

    /// Says how a task failed: a lone one's exit status says enough.
    fn tell(&mut self, rank: usize, ending: &Ending) {
        let _ = self.show.flush();
        let host = &self.members[rank].host;
        match (self.members.len(), ending) {
            (1, Ending::Exited(_)) => {}
            (1, ending) => eprintln!("{}: {ending}", host.id),
            // We ended it ourselves, or the user did.
            (_, Ending::Signalled(_)) if self.ending => {}
            (_, ending) => eprintln!("towpath: task {rank} on {}: {ending}", host.name),
        }
    }

    fn end_others(&mut self, rank: usize) -> Result<(), ClientError> {
        eprintln!(
            "towpath: task {rank} failed: the other {} are ended (--keep-going lets them run)",
            self.running
        );
        self.ending = true;
        self.firm_at = Some(Instant::now() + self.rules.grace);
        self.signal(SIGTERM)
    }

    /// Nobody reads any more: as if the tasks had got the signal themselves.
    fn output_closed(&mut self) -> Result<(), ClientError> {
        if std::mem::replace(&mut self.ending, true) {
            return Ok(());
        }
        self.firm_at = Some(Instant::now() + self.rules.grace);
        self.signal(SIGPIPE)
    }

    fn take_signals(&mut self) -> Result<(), ClientError> {
        let came: Vec<i32> = self.signals.pending().collect();
        for signal in came {
            self.interrupts += 1;
            self.ending = true;
            let signal = if self.interrupts > 1 { SIGKILL } else { signal };
            self.signal(signal)?;
        }
        Ok(())
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
                self.client.sender.send(&Request::Kill { tag: rank as u64, signal })?;
            }
        }
        Ok(())
    }
}

/// Has signals wait until they are looked for.
pub(super) fn signals() -> io::Result<Signals> {
    Signals::new([SIGINT, SIGTERM, SIGHUP])
}
