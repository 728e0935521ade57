//! `bench echo`: a message there and back between two tasks.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use indicatif::ProgressBar;
use towpath::task::Route;

use super::super::figures::bytes;
use super::args::EchoArgs;
use super::line::{Do, Way};
use super::metrics::{Metrics, lengths};
use super::peers::{self, Mpi};
use super::pipe::{
    self, Arrays, Datagrams, End, Loans, Look, Messages, Pipe, SHORT, Shared, WORDS,
};
use super::report::{Report, Row, chosen};
use super::sample::Sample;
use super::trips::{self, Measured};
use super::world::{Own, World};
use crate::words::Words;

/// Messages that are lent, too: shorter ones are copied as fast.
const LOAN_MIN: usize = 1 << 20;

/// What a row goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chain {
    Spin,
    Futex,
    Unix,
    /// Unix streams through a process in between, as through a daemon.
    Relayed,
    /// A Unix stream, datagrams, a Unix stream, as through two daemons.
    Relayed2,
    Udp,
    Tcp,
    Tasks {
        direct: bool,
    },
    /// Messages that are arrays, held to the same as bytes.
    Arrays,
    /// Memory lent from task to task.
    Loan,
    /// What the MPI does that is installed.
    Mpi,
}

/// Members: the far end and, for floors, who stands where the daemons stand.
struct Members {
    far: usize,
    relays: [usize; 2],
}

struct Plan {
    rows: Vec<Row>,
    chains: Vec<Chain>,
}

impl Plan {
    fn add(&mut self, name: String, route: &'static str, chain: Chain, len: usize) -> usize {
        let processes = match chain {
            Chain::Relayed => 3,
            Chain::Relayed2 => 4,
            _ => 2,
        };
        self.rows.push(Row { name, route, bytes: len, processes, floor: None });
        self.chains.push(chain);
        self.rows.len() - 1
    }

    fn add_arrays(&mut self, bytes_row: usize, route: &'static str, len: usize) {
        if Arrays::has(len) {
            let name = format!("tasks, direct, as arrays, {}", bytes(len));
            let row = self.add(name, route, Chain::Arrays, len);
            self.rows[row].floor = Some(bytes_row);
        }
    }

    /// The rows for two tasks: floors before what is held to them.
    fn new(args: &EchoArgs, mpi: bool) -> Self {
        let mut plan = Self { rows: Vec::new(), chains: Vec::new() };
        let common = &args.common;
        let one_host = common.hosts == 1;
        let one_cpu = !common.list().is_empty() && common.cpu(0) == common.cpu(1);
        // One after another: floors that take turns cannot.
        let turns = !args.one_way;
        let mut trip_of_short = None;
        for &len in &args.sizes {
            let size = bytes(len);
            let floor = |what: &str| format!("floor: {what}, {size}");
            let short = len == SHORT && turns;
            if one_host {
                let spin = (short && !one_cpu).then(|| {
                    plan.add(floor("shared memory, spinning"), "memory", Chain::Spin, len)
                });
                let futex =
                    short.then(|| plan.add(floor("bare futex"), "memory", Chain::Futex, len));
                let unix = plan.add(floor("Unix stream, blocking"), "socket", Chain::Unix, len);
                let relayed = turns.then(|| {
                    plan.add(floor("Unix streams by a process"), "sockets", Chain::Relayed, len)
                });
                let direct = Chain::Tasks { direct: true };
                let row = plan.add(format!("tasks, direct, {size}"), "ring", direct, len);
                plan.rows[row].floor = spin.or(futex).or(Some(unix));
                if short {
                    trip_of_short = Some(row);
                }
                plan.add_arrays(row, "ring", len);
                if mpi {
                    let peer = plan.add(format!("peer: MPI, {size}"), "MPI", Chain::Mpi, len);
                    plan.rows[peer].floor = plan.rows[row].floor;
                }
                if turns && len >= LOAN_MIN {
                    let row = plan.add(format!("tasks, loan, {size}"), "ring", Chain::Loan, len);
                    plan.rows[row].floor = trip_of_short;
                }
                let daemon = Chain::Tasks { direct: false };
                let row = plan.add(format!("tasks, by the daemon, {size}"), "daemon", daemon, len);
                plan.rows[row].processes = 3;
                plan.rows[row].floor = relayed.or(Some(unix));
            } else {
                if short {
                    plan.add(floor("UDP, blocking"), "socket", Chain::Udp, len);
                }
                let tcp = plan.add(floor("TCP, blocking"), "socket", Chain::Tcp, len);
                let relayed = short.then(|| {
                    plan.add(
                        floor("Unix, UDP, Unix by two processes"),
                        "sockets",
                        Chain::Relayed2,
                        len,
                    )
                });
                let direct = Chain::Tasks { direct: true };
                let row = plan.add(format!("tasks, direct, {size}"), "stream, sealed", direct, len);
                plan.rows[row].floor = Some(tcp);
                plan.add_arrays(row, "stream, sealed", len);
                let daemon = Chain::Tasks { direct: false };
                let name = format!("tasks, by the daemons, {size}");
                let row = plan.add(name, "daemons, sealed", daemon, len);
                plan.rows[row].processes = 4;
                plan.rows[row].floor = relayed.or(Some(tcp));
            }
        }
        plan
    }
}

/// Which way messages between tasks really went, and how many processes that takes.
fn went(route: Route, hosts: u16) -> (&'static str, usize) {
    match (route, hosts) {
        (Route::Ring, _) => ("shared memory", 2),
        (Route::Daemon, 1) => ("daemon", 3),
        (Route::Daemon, _) => ("daemons, sealed", 4),
        _ => ("stream, sealed", 2),
    }
}

pub(in super::super) fn echo(args: &EchoArgs) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    common.in_own_namespace()?;
    let mut world = World::start(common)?;
    let mut own = Own::enrol(&world.task_socket(1)?)?;
    let last = common.hosts;
    let far = world.add(common.cpu(1), last)?;
    world.enrol(far)?;
    // A relay stands where the daemon of its host does.
    let cpu = common.cpu(usize::from(last) - 1);
    let relays = [world.add(common.cpu(0), 1)?, world.add(cpu, last)?];
    let (mpi, peers) = peers::find(common);
    let members = Members { far, relays };
    let mut plan = Plan::new(args, mpi.is_some());
    let keep = chosen(&plan.rows, common.only.as_deref())?;
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); plan.rows.len()];
    let bar = ProgressBar::new(u64::from(common.runs) * keep.iter().filter(|k| **k).count() as u64);
    for _ in 0..common.runs {
        for n in (0..plan.rows.len()).filter(|n| keep[*n]) {
            let (row, chain) = (&mut plan.rows[n], plan.chains[n]);
            let measured = match &mpi {
                Some(mpi) if chain == Chain::Mpi => by_mpi(mpi, args, row.bytes),
                _ => measure(&mut world, &mut own, &members, chain, (row.bytes, args)),
            };
            let measured = measured.with_context(|| format!("measuring {:?}", row.name));
            let (sample, route) = measured?;
            if let Some(route) = route {
                (row.route, row.processes) = went(route, common.hosts);
            }
            samples[n].push(sample);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let seconds = args.seconds.as_secs_f64();
    let mut notes = vec![
        if args.one_way {
            format!("{seconds} s each; one way, answered now and then; times are by the message.")
        } else {
            format!("{seconds} s each; a trip is there and back; GB/s counts both ways.")
        },
        "Messages are copied in and out at both ends; 8 buffers take turns.".to_string(),
        "Arrays are of 64-bit numbers and held to the same messages as bytes.".to_string(),
        "Loans are not copied: a line of memory at each of their ends is; they are held to 16 B."
            .to_string(),
    ];
    notes.extend(peers);
    let rows: Vec<_> = plan.rows.into_iter().zip(samples).collect();
    let metrics = if args.one_way { Metrics::Nothing } else { Metrics::Lengths(lengths(&rows)) };
    let what = if args.one_way { "messages one way" } else { "echo between two tasks" };
    Report { what, common, notes, rows, metrics }.print()?;
    Ok(ExitCode::SUCCESS)
}

/// A file of shared words, by a path that members open.
pub(super) fn shared(len: usize) -> anyhow::Result<(Words, OwnedFd, PathBuf)> {
    let (words, file) = Words::create(len)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    Ok((words, file, path.into()))
}

/// Has relays join a path to listen at to one that is listened at.
fn relay(
    world: &mut World,
    relays: &[usize],
    (from, to): (&Path, PathBuf),
    len: usize,
) -> anyhow::Result<()> {
    let (left, right) = (Way::Unix(from.into()), Way::UnixTo(to));
    let [first, second] = *relays else {
        world.ready(relays[0], &Do::Relay { left, right, len })?;
        return Ok(());
    };
    let at = world.address(world.host(second));
    let port = world.ready(second, &Do::Relay { left: Way::Udp(at), right, len })?;
    let right = Way::UdpTo(SocketAddr::new(at, port));
    world.ready(first, &Do::Relay { left, right, len })?;
    Ok(())
}

fn by_mpi(mpi: &Mpi, args: &EchoArgs, len: usize) -> anyhow::Result<(Sample, Option<Route>)> {
    let (what, both) = if args.one_way { ("oneway", 1) } else { ("echo", 2) };
    let (size, seconds) = (len.to_string(), args.seconds.as_secs_f64().to_string());
    let sample = mpi.sample(2, &[what, &size, &seconds], args.seconds)?;
    Ok((sample.moving(both * len), None))
}

fn measure(
    world: &mut World,
    own: &mut Own,
    members: &Members,
    chain: Chain,
    (len, args): (usize, &EchoArgs),
) -> anyhow::Result<(Sample, Option<Route>)> {
    let far = members.far;
    let at = world.address(world.host(far));
    let (mut relays, mut route): (&[usize], _) = (&[], None);
    let time = args.seconds;
    let run = |pipe: &mut dyn Pipe| {
        let measure = if args.one_way { trips::measure_one_way } else { trips::measure };
        measure(pipe, len, time)
    };
    let served = |way| if args.one_way { Do::Drain { way, len } } else { Do::Echo { way, len } };
    let Measured { sample, trips } = match chain {
        Chain::Spin | Chain::Futex => {
            let (words, _file, path) = shared(WORDS)?;
            let (way, look) = match chain {
                Chain::Spin => (Way::Spin(path), Look::Awake),
                _ => (Way::Futex(path), Look::Asleep),
            };
            world.ready(far, &served(way))?;
            run(&mut Shared::new(words, End::Near, look)?)?
        }
        Chain::Unix => {
            let path = world.path();
            world.ready(far, &served(Way::Unix(path.clone())))?;
            run(&mut pipe::unix_connect(&path)?)?
        }
        Chain::Relayed | Chain::Relayed2 => {
            let count = if chain == Chain::Relayed { 1 } else { 2 };
            relays = &members.relays[..count];
            let (a, b) = (world.path(), world.path());
            world.ready(far, &served(Way::Unix(b.clone())))?;
            relay(world, relays, (&a, b), len)?;
            run(&mut pipe::unix_connect(&a)?)?
        }
        Chain::Udp => {
            let port = world.ready(far, &served(Way::Udp(at)))?;
            run(&mut Datagrams::connect(SocketAddr::new(at, port))?)?
        }
        Chain::Tcp => {
            let port = world.ready(far, &served(Way::Tcp(at)))?;
            run(&mut pipe::tcp_connect(SocketAddr::new(at, port))?)?
        }
        Chain::Mpi => bail!("there is no MPI"),
        Chain::Tasks { .. } | Chain::Arrays | Chain::Loan => {
            let (measured, went) = between_tasks(world, own, far, chain, &served, &run)?;
            route = Some(went);
            measured
        }
    };
    let mut slept = world.slept(far)?;
    for relay in relays {
        slept += world.slept(*relay)?;
    }
    Ok((sample.also_slept(slept, trips), route))
}

/// Messages of tasks, as bytes, arrays or loans; and which way they went.
fn between_tasks(
    world: &mut World,
    own: &mut Own,
    far: usize,
    chain: Chain,
    served: &dyn Fn(Way) -> Do,
    run: &dyn Fn(&mut dyn Pipe) -> anyhow::Result<Measured>,
) -> anyhow::Result<(Measured, Route)> {
    let direct = chain != Chain::Tasks { direct: false };
    let peer = own.ids()[usize::from(direct)].to_raw();
    let way = match chain {
        Chain::Loan => Way::Loan { peer },
        Chain::Arrays => Way::Arrays { peer },
        _ => Way::Task { peer, direct },
    };
    world.ready(far, &served(way))?;
    let peer = world.task(far, direct)?;
    let task = own.task(direct);
    let measured = match chain {
        Chain::Loan => run(&mut Loans::new(&mut *task, peer, trips::COMPARED))?,
        Chain::Arrays => run(&mut Arrays { task: &mut *task, peer })?,
        _ => run(&mut Messages { task: &mut *task, peer })?,
    };
    Ok((measured, task.route(peer)))
}
