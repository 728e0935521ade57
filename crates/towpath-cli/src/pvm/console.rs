//! The console's loop: commands in, and what happens meanwhile.

use std::io::{IsTerminal, Write, stdin, stdout};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use towpath::pvm::hostfile::PvmHost;
use towpath::task::AskError;
use towpath::{Event, Task, VmDir, Wanted};
use towpath_report::text::causes;
use towpath_vm::{Host, HostState};

use super::help;
use super::input::Input;
use super::jobs::{Jobs, TRACE_CONTEXT};
use super::mask::Mask;
use super::settings::Settings;
use super::tids::Tid;
use super::words;
use crate::up::ListedArgs;

const PROMPT: &str = "pvm> ";
/// How often the console asks after tasks whose output may go elsewhere.
const ASK_AFTER: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
/// Most words that aliases make of a line.
const ALIASES_MAX: usize = 16;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    On,
    Quit,
}

/// A task with a person, or a script, that tells it what to do.
pub(super) struct Console<'a> {
    pub(super) task: Task,
    pub(super) vm: &'a VmDir,
    pub(super) start: &'a ListedArgs,
    /// Hosts that the host file describes and did not start.
    pub(super) described: Vec<PvmHost>,
    pub(super) jobs: Jobs,
    pub(super) settings: Settings,
    /// What of tasks is traced.
    pub(super) mask: Mask,
    /// It was said that programs do not get our library.
    pub(super) library_told: bool,
    /// Why the virtual machine is over.
    end: Option<String>,
}

impl<'a> Console<'a> {
    pub(super) fn new(
        task: Task,
        vm: &'a VmDir,
        start: &'a ListedArgs,
        described: Vec<PvmHost>,
        settings: Settings,
    ) -> Self {
        let (jobs, mask) = (Jobs::default(), Mask::default());
        let (library_told, end) = (false, None);
        Self { task, vm, start, described, jobs, settings, mask, library_told, end }
    }

    /// Takes commands to their end.
    pub(super) fn run(&mut self, mut input: Input) -> anyhow::Result<()> {
        let shown = stdin().is_terminal();
        let (mut asked, mut quiet) = (false, false);
        loop {
            self.take_events()?;
            if let Some(why) = &self.end {
                bail!("the virtual machine has ended: {why}");
            }
            if let Some(line) = input.next() {
                asked = false;
                if self.line(&line)? == Next::Quit {
                    return Ok(());
                }
                continue;
            }
            // Of tasks that have ended something may be on its way that belongs to a trace.
            let over = !self.jobs.any() && (quiet || !self.jobs.any_traced());
            if input.is_over() && (shown || over) {
                // Behind the prompt.
                return if shown { say(b"\n") } else { Ok(()) };
            }
            if shown && !std::mem::replace(&mut asked, true) {
                say(PROMPT.as_bytes())?;
            }
            quiet = self.wait(&mut input)?;
        }
    }

    /// Waits for input or for something to happen; whether nothing did.
    fn wait(&mut self, input: &mut Input) -> anyhow::Result<bool> {
        if !self.task.arm()? {
            return Ok(false);
        }
        let mut descriptors = vec![PollFd::from_borrowed_fd(self.task.descriptor(), PollFlags::IN)];
        let stdin = input.fd();
        descriptors.extend(stdin.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let ask = self.jobs.any_silent() || input.is_over() && !self.jobs.any();
        let until = ask.then_some(&ASK_AFTER);
        let nothing = match poll(&mut descriptors, until) {
            Ok(ready) => ready == 0,
            Err(rustix::io::Errno::INTR) => false,
            Err(e) => return Err(e).context("waiting"),
        };
        let typed = descriptors.get(1).is_some_and(|fd| !fd.revents().is_empty());
        drop(descriptors);
        if typed {
            input.read().context("reading commands")?;
        }
        self.task.poll()?;
        if nothing {
            let (tasks, mut out) = (self.task.tasks(None)?, Vec::new());
            let runs = |task| tasks.iter().any(|info| info.id == task);
            self.jobs.asked_after(runs, &mut out)?;
            say(&out)?;
        }
        Ok(nothing)
    }

    /// Shows what came of jobs.
    pub(super) fn take_events(&mut self) -> anyhow::Result<()> {
        let mut out = Vec::new();
        // Before the ends of tasks, which they come before.
        self.take_traces(&mut out)?;
        while let Some(event) = self.task.next_event() {
            match event {
                Event::Output { task, bytes, .. } => {
                    if bytes.is_empty() && self.jobs.is_last(task) {
                        // A job goes on as long as children of its tasks.
                        for child in self.task.tasks(None)? {
                            self.jobs.add_child(child.id, child.parent);
                        }
                    } else if !bytes.is_empty() && !self.jobs.knows(task) {
                        // Where it has ended, the job is not known any more.
                        let info = self.task.task(task).ok();
                        self.jobs.adopt(task, info.and_then(|info| info.parent));
                    }
                    self.jobs.output(task, &bytes, &mut out)?;
                }
                Event::End(why) => self.end = Some(why),
                Event::Notice { .. } => {}
            }
        }
        say(&out)
    }

    /// Writes down what traced tasks have told.
    fn take_traces(&mut self, out: &mut Vec<u8>) -> anyhow::Result<()> {
        let wanted = Wanted { source: None, tag: None, context: TRACE_CONTEXT };
        while let Some(message) = self.task.try_recv(&wanted).context("traces")? {
            self.jobs.traced(message.tag(), message.src(), message.bytes(), out)?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> anyhow::Result<Next> {
        let words = match words::split(line) {
            Ok(words) => self.settings.unaliased(words, ALIASES_MAX),
            Err(e) => {
                say(format!("{e}\n").as_bytes())?;
                return Ok(Next::On);
            }
        };
        let Some((name, args)) = words.split_first() else { return Ok(Next::On) };
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.command(name, &args)
    }

    fn command(&mut self, name: &str, args: &[&str]) -> anyhow::Result<Next> {
        let text = match name {
            "add" => self.add(args),
            "alias" => Ok(self.settings.alias(args)),
            "conf" if args.is_empty() => self.conf(),
            "delete" => self.delete(args),
            "echo" => Ok(format!("{}\n", args.join(" "))),
            "export" => Ok(self.settings.export(args)),
            "getopt" => self.settings.getopt(args),
            "halt" if args.is_empty() => return self.halt(),
            "help" | "?" => Ok(help::text(args)),
            "id" if args.is_empty() => Ok(format!("t{:x}\n", Tid::from(self.task.id()))),
            "idump" | "tickle" => Ok(help::without_meaning(name)),
            "insert" => self.insert(args),
            "jobs" => self.list_jobs(args),
            "kill" => self.kill(args),
            "lookup" => self.lookup(args),
            "mstat" => self.mstat(args),
            "names" => self.names(args),
            "ps" => self.ps(args),
            "pstat" => self.pstat(args),
            "put" => self.put(args),
            "quit" if args.is_empty() => return Ok(Next::Quit),
            "remove" => self.remove(args),
            "reset" => self.reset(args),
            "setenv" => self.settings.setenv(args),
            "setopt" => self.settings.setopt(args),
            "sig" => self.sig(args),
            "spawn" => self.spawn(args),
            "trace" => self.mask.command(args),
            "unalias" => self.settings.unalias(args),
            "unexport" => Ok(self.settings.unexport(args)),
            "version" if args.is_empty() => Ok(format!("3.4.6 (Towpath {})\n", towpath::VERSION)),
            "conf" | "halt" | "id" | "quit" | "version" => wrong_args(),
            _ => Ok(format!("{name}: not found\n")),
        };
        match text {
            Ok(text) => say(text.as_bytes())?,
            // Without a daemon nothing works any more.
            Err(e) if matches!(e.downcast_ref(), Some(AskError::Lost(_))) => return Err(e),
            Err(e) => say(format!("{name}: {}\n", causes(e.chain())).as_bytes())?,
        }
        Ok(Next::On)
    }

    /// The hosts that are up.
    pub(super) fn hosts(&mut self) -> anyhow::Result<Vec<Host>> {
        let mut hosts = self.task.hosts()?;
        hosts.retain(|host| host.state == HostState::Up);
        hosts.sort_by_key(|host| host.id.slot());
        Ok(hosts)
    }
}

/// What PVM says to a command with the wrong number of arguments.
pub(super) fn wrong_args<T>() -> anyhow::Result<T> {
    bail!("wrong #args")
}

fn say(text: &[u8]) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text).and_then(|()| out.flush()).context("cannot write output")
}
