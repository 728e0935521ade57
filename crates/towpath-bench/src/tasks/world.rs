//! A virtual machine of the bench's own, and members beside the measuring process. All of it is
//! gone when the bench ends.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use towpath::protocol::{Reply, Request};
use towpath::task::{Task, TaskId};
use towpath::{Client, Home, VmDir};
use towpath_report::interrupt::{INTERRUPTED, Interrupt};

use super::super::line::Line;
use super::super::machine;
use super::args::Common;
use super::counts::Sent;
use super::line::{self, Do, Said};
use super::spaces::{Spaces, address};

/// Longest wait for a member to start, in seconds.
const START_S: i64 = 20;
/// How long a daemon may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long the token lives that further hosts join with.
const TOKEN_S: u64 = 120;
/// Name of the virtual machine, in a home of its own.
const VM: &str = "bench";

/// The virtual machine and the members.
pub(super) struct World {
    dir: tempfile::TempDir,
    members: Vec<Member>,
    sockets: u32,
    /// The hosts' network namespaces, where they have some.
    spaces: Option<Spaces>,
    starting: Starting,
    interrupt: Arc<Interrupt>,
}

/// Held while daemons are being started or files made; by an interrupt for good, so that nothing
/// of it happens afterwards.
type Starting = Arc<Mutex<()>>;

/// A process that is the far end of everything.
pub(super) struct Member {
    line: Line<UnixStream>,
    host: u16,
    process: Process,
    /// Its tasks: the one without direct routes, the one with.
    tasks: Option<[TaskId; 2]>,
}

/// A child that ends with its owner at the latest.
pub(super) struct Process(pub(super) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended by itself unless something went wrong.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This process's part in the virtual machine: a task that never asks for direct routes, and one
/// that does.
pub(super) struct Own {
    pub(super) plain: Task,
    pub(super) direct: Task,
}

impl Own {
    pub(super) fn enrol(socket: &std::path::Path) -> anyhow::Result<Self> {
        let enrol = || Task::enrol_at(socket, None);
        let (mut plain, direct) = (enrol()?, enrol()?);
        plain.allow_direct(false);
        Ok(Self { plain, direct })
    }

    pub(super) fn task(&mut self, direct: bool) -> &mut Task {
        if direct { &mut self.direct } else { &mut self.plain }
    }

    pub(super) fn ids(&self) -> [TaskId; 2] {
        [self.plain.id(), self.direct.id()]
    }
}

impl World {
    /// Starts the virtual machine; each host's daemon stays on a processor of its own, in turn.
    pub(super) fn start(common: &Common) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("tpbench").tempdir()?;
        let starting = Starting::default();
        let interrupt = Arc::new(Interrupt::lasting()?);
        end_when_interrupted(interrupt.clone(), dir.path().into(), starting.clone());
        let members = Vec::new();
        let mut world = Self { dir, members, sockets: 0, spaces: None, starting, interrupt };
        if common.inside {
            world.spaces = Some(Spaces::make(common.hosts, common.rate.as_deref())?);
            let at = SocketAddr::new(address(1), 0).to_string();
            world.bring_up(1, &["up", "--listen", &at], common)?;
            let token = world.token()?;
            for host in 2..=common.hosts {
                world.bring_up(host, &["join", &token], common)?;
            }
        } else {
            world.bring_up(1, &["up", "--hosts", &common.hosts.to_string()], common)?;
        }
        for host in 1..=usize::from(common.hosts) {
            let daemon = Client::connect(&world.vm()?.host(host).join("sock"))?.info()?.pid;
            if let Some(cpu) = common.cpu(host - 1) {
                pin_process(daemon, cpu)?;
            }
        }
        if let Some(cpu) = common.cpu(0) {
            machine::pin(cpu)?;
        }
        Ok(world)
    }

    /// What further hosts join with.
    fn token(&self) -> anyhow::Result<String> {
        let request = Request::Invite { ttl_s: TOKEN_S, uses: None };
        match Client::connect(&self.vm()?.host(1).join("sock"))?.ask(&request, ANSWER)? {
            Reply::Token(token) => Ok(token),
            _ => bail!("the daemon answers something else than was asked"),
        }
    }

    /// Starts daemons by a command of ours on a host.
    fn bring_up(&self, host: u16, args: &[&str], common: &Common) -> anyhow::Result<()> {
        let _held = self.starting.lock();
        let mut command = towpath(self.command(host)?, self.dir.path(), args);
        if let Some(rate) = common.link_rate {
            command.args(["--link-rate", &rate.as_bps().to_string()]);
        }
        let out = command.output()?;
        if !out.status.success() {
            bail!("cannot start a virtual machine: {}", String::from_utf8_lossy(&out.stderr));
        }
        Ok(())
    }

    /// This very program, on a host.
    fn command(&self, host: u16) -> anyhow::Result<Command> {
        let exe = std::env::current_exe()?;
        Ok(match &self.spaces {
            Some(spaces) => spaces.command(host, exe),
            None => Command::new(exe),
        })
    }

    /// Where a host's sockets are.
    pub(super) fn address(&self, host: u16) -> IpAddr {
        match &self.spaces {
            Some(_) => address(host),
            None => Ipv4Addr::LOCALHOST.into(),
        }
    }

    fn vm(&self) -> anyhow::Result<VmDir> {
        Ok(Home::at(self.dir.path().into()).vm(VM)?)
    }

    /// The socket for tasks of host `n`, from 1.
    pub(super) fn task_socket(&self, n: u16) -> anyhow::Result<PathBuf> {
        Ok(self.vm()?.host(n.into()).join(towpath::task::place::SOCKET_NAME))
    }

    /// A path that nobody uses yet.
    pub(super) fn path(&mut self) -> PathBuf {
        self.sockets += 1;
        self.dir.path().join(format!("p{}", self.sockets))
    }

    /// Starts a member on a processor of a host, counted from 1.
    pub(super) fn add(&mut self, cpu: Option<usize>, host: u16) -> anyhow::Result<usize> {
        let path = self.path();
        let held = self.starting.lock();
        let listener = UnixListener::bind(&path)?;
        drop(held);
        let mut c = self.command(host)?;
        c.args(["bench", "member", "--meet"]).arg(&path).stdin(Stdio::null());
        let process = Process(c.stdout(Stdio::null()).spawn().context("cannot start a process")?);
        let time = Timespec { tv_sec: START_S, tv_nsec: 0 };
        let came = poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&time))?;
        ensure!(came > 0, "a process of the bench does not start");
        let line = line::over(listener.accept()?.0)?;
        self.members.push(Member { line, host, process, tasks: None });
        let n = self.members.len() - 1;
        if let Some(cpu) = cpu {
            self.say(n, &Do::Pin(cpu))?;
        }
        Ok(n)
    }

    pub(super) fn say(&mut self, member: usize, what: &Do) -> anyhow::Result<()> {
        self.members[member].line.say(what)
    }

    pub(super) fn hear(&mut self, member: usize) -> anyhow::Result<Said> {
        let pid = self.members[member].process.0.id();
        match self.members[member].line.hear()? {
            Some(Said::Failed(why)) => bail!("process {pid} of the bench: {why}"),
            Some(said) => Ok(said),
            None => bail!("process {pid} of the bench has ended"),
        }
    }

    /// The host that a member is on.
    pub(super) fn host(&self, member: usize) -> u16 {
        self.members[member].host
    }

    /// Has a member become a task of its host.
    pub(super) fn enrol(&mut self, member: usize) -> anyhow::Result<()> {
        let socket = self.task_socket(self.host(member))?;
        self.say(member, &Do::Enrol(socket))?;
        match self.hear(member)? {
            Said::Tasks(raw) => {
                let id = |raw| TaskId::try_from(raw).context("no id of a task");
                self.members[member].tasks = Some([id(raw[0])?, id(raw[1])?]);
                Ok(())
            }
            other => bail!("it said {other:?}, not who it is"),
        }
    }

    /// A member's task, with or without direct routes.
    pub(super) fn task(&self, member: usize, direct: bool) -> anyhow::Result<TaskId> {
        let tasks = self.members[member].tasks.context("a member that is no task")?;
        Ok(tasks[usize::from(direct)])
    }

    /// Has a member do something, and waits until it is ready for it; the port that it named.
    pub(super) fn ready(&mut self, member: usize, what: &Do) -> anyhow::Result<u16> {
        self.say(member, what)?;
        self.is_ready(member)
    }

    /// Waits until a member is ready for what it was told; the port that it named.
    pub(super) fn is_ready(&mut self, member: usize) -> anyhow::Result<u16> {
        match self.hear(member)? {
            Said::Ready(port) => Ok(port),
            other => bail!("it said {other:?}, not that it is ready"),
        }
    }

    /// How often a member slept in what it did.
    pub(super) fn slept(&mut self, member: usize) -> anyhow::Result<u64> {
        match self.hear(member)? {
            Said::Did { sleeps } => Ok(sleeps),
            other => bail!("it said {other:?}, not what it did"),
        }
    }

    pub(super) fn times(&mut self, member: usize) -> anyhow::Result<Vec<u64>> {
        match self.hear(member)? {
            Said::Times(times) => Ok(times),
            other => bail!("it said {other:?}, not its times"),
        }
    }

    pub(super) fn exchanged(&mut self, member: usize) -> anyhow::Result<(Vec<u64>, Sent)> {
        match self.hear(member)? {
            Said::Exchanged(times, sent) => Ok((times, sent)),
            other => bail!("it said {other:?}, not what it exchanged"),
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // What an interrupt ends fails here: that is no result, and who ends it also cleans up.
        while self.interrupt.is_set() {
            std::thread::park();
        }
        self.members.clear();
        down(self.dir.path());
    }
}

/// The command on the bench's own virtual machine.
fn towpath(mut c: Command, home: &Path, args: &[&str]) -> Command {
    c.args(args).env("TOWPATH_HOME", home).env("TOWPATH_VM", VM).stdin(Stdio::null());
    c
}

fn down(home: &Path) {
    let exe = std::env::current_exe().unwrap_or_else(|_| "towpath".into());
    let _ = towpath(Command::new(exe), home, &["down"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// An interrupt ends the virtual machine and its files, then this process: whatever it measures
/// is not asked, since it may be waiting for a member.
fn end_when_interrupted(interrupt: Arc<Interrupt>, home: PathBuf, starting: Starting) {
    std::thread::spawn(move || {
        while !interrupt.is_set() {
            let _ = poll(&mut [PollFd::new(&*interrupt, PollFlags::IN)], None);
        }
        let _held = starting.lock();
        down(&home);
        let _ = fs::remove_dir_all(&home);
        std::process::exit(INTERRUPTED.into());
    });
}

/// Keeps all threads of a process on a processor.
fn pin_process(pid: u32, cpu: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = thread?.file_name();
        let thread = name.to_str().and_then(|n| n.parse().ok()).and_then(Pid::from_raw);
        sched_setaffinity(thread, &set)?;
    }
    Ok(())
}
