//! A member: does what the measuring process says.

use std::hint::black_box;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use towpath::task::{Task, TaskId, Wanted};

use super::super::line::Line;
use super::super::machine;
use super::args::MemberArgs;
use super::barrier::Place;
use super::exchange::Part;
use super::line::{self, Do, Said, Way};
use super::pipe::{self, Arrays, Datagrams, End, Loans, Look, Messages, Pipe, SHORT, Shared, TAG};
use super::sample::{now_ns, sleeps};
use super::world::Own;
use super::{multicast, trips};

pub(in super::super) fn member(args: &MemberArgs) -> anyhow::Result<ExitCode> {
    if args.task {
        return child_task();
    }
    // It ends with the process that measures.
    let signal = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(signal)?;
    if args.pipe {
        return child_pipe();
    }
    if args.burn {
        for n in 0_u64.. {
            black_box(n.wrapping_mul(n));
        }
    }
    let path = args.meet.as_ref().context("hint: `towpath bench` starts these processes")?;
    let mut member = Member { line: line::over(UnixStream::connect(path)?)?, own: None };
    while let Some(what) = member.line.hear()? {
        if let Err(e) = member.act(what) {
            member.line.say(&Said::Failed(format!("{e:#}")))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What `bench spawn` spawns: says something, hears something, ends.
fn child_task() -> anyhow::Result<ExitCode> {
    let mut task = Task::enrol()?;
    let parent = task.parent().context("nobody spawned this task")?;
    task.send(parent, TAG, &[1; SHORT])?;
    task.recv(&Wanted { source: Some(parent), tag: Some(TAG), context: 0 })?;
    task.leave()?;
    Ok(ExitCode::SUCCESS)
}

/// The same without being a task.
fn child_pipe() -> anyhow::Result<ExitCode> {
    std::io::stdout().write_all(&[1; SHORT])?;
    std::io::stdout().flush()?;
    // All children share the pipe: none may take more than its own.
    let heard = rustix::io::read(std::io::stdin(), &mut [0; SHORT])?;
    ensure!(heard == SHORT, "{heard} bytes instead of {SHORT}");
    Ok(ExitCode::SUCCESS)
}

struct Member {
    line: Line<UnixStream>,
    own: Option<Own>,
}

/// An end of a pipe that may wait for the other.
enum Pending {
    There(Box<dyn Pipe>),
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Pending {
    /// The end, and a port where it receives.
    fn begin(way: &Way) -> anyhow::Result<(Self, u16)> {
        let there = |pipe: Box<dyn Pipe>| (Self::There(pipe), 0);
        Ok(match way {
            Way::Spin(path) => there(Box::new(Shared::open(path, End::Far, Look::Awake)?)),
            Way::Futex(path) => there(Box::new(Shared::open(path, End::Far, Look::Asleep)?)),
            Way::Unix(path) => (Self::Unix(UnixListener::bind(path)?), 0),
            Way::UnixTo(path) => there(Box::new(pipe::unix_connect(path)?)),
            Way::Udp(at) => {
                let (pipe, port) = Datagrams::serve(*at)?;
                (Self::There(Box::new(pipe)), port)
            }
            Way::UdpTo(to) => there(Box::new(Datagrams::connect(*to)?)),
            Way::Tcp(at) => {
                let listener = TcpListener::bind((*at, 0))?;
                let port = listener.local_addr()?.port();
                (Self::Tcp(listener), port)
            }
            Way::Task { .. } | Way::Arrays { .. } | Way::Loan { .. } => {
                bail!("tasks are not in the middle")
            }
        })
    }

    fn meet(self) -> anyhow::Result<Box<dyn Pipe>> {
        Ok(match self {
            Self::There(pipe) => pipe,
            Self::Unix(listener) => Box::new(pipe::unix_accept(&listener)?),
            Self::Tcp(listener) => Box::new(pipe::tcp_accept(&listener)?),
        })
    }
}

impl Member {
    fn act(&mut self, what: Do) -> anyhow::Result<()> {
        match what {
            Do::Pin(cpu) => machine::pin(cpu),
            Do::Enrol(socket) => {
                let own = Own::enrol(&socket)?;
                let ids = own.ids().map(TaskId::to_raw);
                self.own = Some(own);
                self.line.say(&Said::Tasks(ids))
            }
            Do::Echo { way, len } => self.far_end(&way, |pipe| trips::serve(pipe, len)),
            Do::Drain { way, len } => self.far_end(&way, |pipe| trips::drain(pipe, len)),
            Do::Relay { left, right, len } => {
                let (right, _) = Pending::begin(&right)?;
                let (left, port) = Pending::begin(&left)?;
                self.line.say(&Said::Ready(port))?;
                let slept = sleeps()?;
                trips::relay(left.meet()?.as_mut(), right.meet()?.as_mut(), len)?;
                let sleeps = sleeps()? - slept;
                self.line.say(&Said::Did { sleeps })
            }
            Do::Receive { way, len, count } => {
                let mut times = Vec::new();
                self.with_pipe(&way, |pipe| {
                    times = multicast::receive(pipe, len, count)?;
                    Ok(())
                })?;
                self.line.say(&Said::Times(times))
            }
            Do::Barrier { kind, count } => self.barrier(&kind, count),
            Do::Exchange { tasks, direct, steps, count } => {
                let own = self.own.as_mut().context("no task yet")?;
                let mut part = Part::open(own, &tasks, direct, &steps)?;
                self.line.say(&Said::Ready(0))?;
                let Some(Do::Go) = self.line.hear()? else { bail!("nobody says when") };
                let times = part.times(count)?;
                self.line.say(&Said::Exchanged(times, part.sent(count)))
            }
            Do::Go => bail!("nothing was begun"),
        }
    }

    /// Does something with a pipe, and says how often it slept.
    fn far_end(
        &mut self,
        way: &Way,
        work: impl FnOnce(&mut dyn Pipe) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let slept = sleeps()?;
        self.with_pipe(way, work)?;
        let sleeps = sleeps()? - slept;
        self.line.say(&Said::Did { sleeps })
    }

    /// Says that it is ready, and does something with a pipe.
    fn with_pipe(
        &mut self,
        way: &Way,
        work: impl FnOnce(&mut dyn Pipe) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if let Way::Task { peer, direct } = way {
            let task = self.own.as_mut().context("no task yet")?.task(*direct);
            self.line.say(&Said::Ready(0))?;
            let peer = TaskId::try_from(*peer)?;
            return work(&mut Messages { task, peer });
        }
        if let Way::Arrays { peer } = way {
            let task = self.own.as_mut().context("no task yet")?.task(true);
            self.line.say(&Said::Ready(0))?;
            return work(&mut Arrays { task, peer: TaskId::try_from(*peer)? });
        }
        if let Way::Loan { peer } = way {
            let task = self.own.as_mut().context("no task yet")?.task(true);
            self.line.say(&Said::Ready(0))?;
            return work(&mut Loans::new(task, TaskId::try_from(*peer)?, trips::COMPARED));
        }
        let (pending, port) = Pending::begin(way)?;
        self.line.say(&Said::Ready(port))?;
        work(pending.meet()?.as_mut())
    }

    fn barrier(&mut self, kind: &super::line::Meeting, count: u32) -> anyhow::Result<()> {
        let mut place = Place::open(kind, self.own.as_mut())?;
        self.line.say(&Said::Ready(0))?;
        let Some(Do::Go) = self.line.hear()? else { bail!("nobody says when") };
        let mut times = Vec::with_capacity(2 * count as usize);
        for _ in 0..count {
            times.push(now_ns());
            place.meet()?;
            times.push(now_ns());
        }
        drop(place);
        self.line.say(&Said::Times(times))
    }
}
