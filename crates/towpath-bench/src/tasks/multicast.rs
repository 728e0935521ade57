//! `bench multicast`: one message to many tasks.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;
use towpath::task::{Envelope, Task, TaskId, Wanted};
use towpath_proto::Rng;

use super::super::figures::bytes;
use super::args::MulticastArgs;
use super::line::{Do, Way};
use super::metrics::{Metrics, gains};
use super::peers::{self, Mpi};
use super::pipe::{self, Pipe, SHORT, TAG};
use super::report::{Report, Row, chosen};
use super::sample::{Sample, now_ns};
use super::world::{Own, World};

/// Buffers that take turns.
const BUFFERS: usize = 8;

/// Sum of all bytes, so that a receiver can say what it has.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum: u64, b| sum.rotate_left(5) ^ u64::from(*b))
}

/// A member's part: when each message was there, copied out; it answers what it has.
pub(super) fn receive(pipe: &mut dyn Pipe, len: usize, count: u32) -> anyhow::Result<Vec<u64>> {
    let (mut bytes, mut times) = (vec![0; len], Vec::with_capacity(count as usize));
    for _ in 0..count {
        pipe.receive(&mut bytes)?;
        times.push(now_ns());
        let mut answer = [0; SHORT];
        answer[..8].copy_from_slice(&checksum(&bytes).to_le_bytes());
        pipe.send(&answer)?;
    }
    Ok(times)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A Unix stream to each.
    Unix,
    /// A send to the first only.
    One { direct: bool },
    /// A send to each.
    Sends { direct: bool },
    /// One multicast.
    Multicast { direct: bool },
    /// What the MPI does that is installed.
    Mpi,
}

fn plan(args: &MulticastArgs, mpi: bool) -> Vec<(Row, Kind)> {
    let (n, daemons) = (usize::from(args.tasks) + 1, usize::from(args.common.hosts));
    let mut rows = Vec::new();
    for &len in &args.sizes {
        let size = bytes(len);
        let base = rows.len();
        let mut add = |name: String, route, processes, floor, kind| {
            rows.push((Row { name, route, bytes: len, processes, floor }, kind));
        };
        // Between hosts, what one receiver costs is the least for several.
        let (direct, floors) = if daemons == 1 {
            add(format!("floor: Unix streams, {size}"), "sockets", n, None, Kind::Unix);
            ("rings", [base, base])
        } else {
            let (direct, one) = ("rings and streams", Kind::One { direct: true });
            add(format!("floor: to one task, direct, {size}"), direct, 2, None, one);
            let (name, one) = ("floor: to one task, by the daemons", Kind::One { direct: false });
            add(format!("{name}, {size}"), "daemons", 4, None, one);
            (direct, [base + 1, base])
        };
        let kinds = [
            ("sends, direct", direct, n, Kind::Sends { direct: true }),
            ("multicast, direct", direct, n, Kind::Multicast { direct: true }),
            ("sends, by the daemons", "daemons", n + daemons, Kind::Sends { direct: false }),
            (
                "multicast, by the daemons",
                "daemons",
                n + daemons,
                Kind::Multicast { direct: false },
            ),
        ];
        for (name, route, processes, kind) in kinds {
            let is_direct =
                matches!(kind, Kind::Sends { direct: true } | Kind::Multicast { direct: true });
            let floor = Some(floors[usize::from(is_direct)]);
            add(format!("{name}, {size}"), route, processes, floor, kind);
        }
        if mpi {
            add(format!("peer: MPI_Bcast, {size}"), "MPI", n, Some(floors[1]), Kind::Mpi);
        }
    }
    rows
}

pub(in super::super) fn multicast(args: &MulticastArgs) -> anyhow::Result<ExitCode> {
    let (common, n) = (&args.common, usize::from(args.tasks));
    common.in_own_namespace()?;
    let mut world = World::start(common)?;
    let mut own = Own::enrol(&world.task_socket(1)?)?;
    for k in 0..n {
        // The sender is on the first host.
        let host = ((k + 1) % usize::from(common.hosts)) as u16 + 1;
        let member = world.add(common.cpu(k + 1), host)?;
        world.enrol(member)?;
    }
    let (mpi, peers) = peers::find(common);
    let plan = plan(args, mpi.is_some());
    let rows: Vec<Row> = plan.iter().map(|(row, _)| row.clone()).collect();
    let keep = chosen(&rows, common.only.as_deref())?;
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); rows.len()];
    let bar = ProgressBar::new(u64::from(common.runs));
    for _ in 0..common.runs {
        for (at, (row, kind)) in plan.iter().enumerate().filter(|(at, _)| keep[*at]) {
            let sample = match &mpi {
                Some(mpi) if *kind == Kind::Mpi => by_mpi(mpi, args, row.bytes),
                _ => measure(&mut world, &mut own, n, *kind, (row.bytes, args.casts)),
            };
            samples[at].push(sample.with_context(|| format!("measuring {:?}", row.name))?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut notes = vec![
        format!("to {n} tasks, {} messages each.", args.casts),
        "From the start until the last receiver has copied it out; receivers answer with a \
         checksum that is compared. GB/s counts every receiver."
            .to_string(),
    ];
    notes.extend(peers);
    let rows: Vec<_> = rows.into_iter().zip(samples).collect();
    let metrics = Metrics::Gains(args.tasks, gains(&rows));
    Report { what: "multicast", common, notes, rows, metrics }.print()?;
    Ok(ExitCode::SUCCESS)
}

/// The sender's end.
enum Sender<'a> {
    Unix(Vec<UnixStream>),
    Tasks { task: &'a mut Task, to: Vec<TaskId>, once: bool },
}

impl Sender<'_> {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Unix(streams) => {
                for stream in streams {
                    stream.write_all(bytes)?;
                }
            }
            Self::Tasks { task, to, once: true } => {
                task.multicast(to, Envelope::tag(TAG), &[bytes])?;
            }
            Self::Tasks { task, to, once: false } => {
                for receiver in to {
                    task.send(*receiver, TAG, bytes)?;
                }
            }
        }
        Ok(())
    }

    /// What every receiver says that it has.
    fn answers(&mut self, sum: u64) -> anyhow::Result<()> {
        let mut answer = [0; SHORT];
        let check = |answer: &[u8; SHORT]| {
            ensure!(answer[..8] == sum.to_le_bytes(), "a receiver has other bytes than were sent");
            Ok(())
        };
        match self {
            Self::Unix(streams) => {
                for stream in streams {
                    stream.read_exact(&mut answer)?;
                    check(&answer)?;
                }
            }
            Self::Tasks { task, to, .. } => {
                for receiver in to {
                    let wanted = Wanted { source: Some(*receiver), tag: Some(TAG), context: 0 };
                    task.recv_into(&wanted, &mut answer)?;
                    check(&answer)?;
                }
            }
        }
        Ok(())
    }
}

fn by_mpi(mpi: &Mpi, args: &MulticastArgs, len: usize) -> anyhow::Result<Sample> {
    let (ranks, size, count) = (u32::from(args.tasks) + 1, len.to_string(), args.casts.to_string());
    let sample = mpi.sample(ranks, &["bcast", &size, &count], Duration::ZERO)?;
    Ok(sample.moving(usize::from(args.tasks) * len))
}

fn measure(
    world: &mut World,
    own: &mut Own,
    n: usize,
    kind: Kind,
    (len, casts): (usize, u32),
) -> anyhow::Result<Sample> {
    let n = if matches!(kind, Kind::One { .. }) { 1 } else { n };
    let mut sender = match kind {
        Kind::Unix => {
            let mut streams = Vec::new();
            for member in 0..n {
                let path = world.path();
                let way = Way::Unix(path.clone());
                world.ready(member, &Do::Receive { way, len, count: casts })?;
                streams.push(pipe::unix_connect(&path)?);
            }
            Sender::Unix(streams)
        }
        Kind::Mpi => bail!("there is no MPI"),
        Kind::One { direct } | Kind::Sends { direct } | Kind::Multicast { direct } => {
            let peer = own.ids()[usize::from(direct)].to_raw();
            let mut to = Vec::new();
            for member in 0..n {
                let way = Way::Task { peer, direct };
                world.ready(member, &Do::Receive { way, len, count: casts })?;
                to.push(world.task(member, direct)?);
            }
            let once = matches!(kind, Kind::Multicast { .. });
            Sender::Tasks { task: own.task(direct), to, once }
        }
    };
    let mut rng = Rng::new(len as u64, 2);
    let mut buffers = vec![vec![0; len]; BUFFERS];
    for chunk in buffers.iter_mut().flat_map(|b| b.chunks_mut(8)) {
        chunk.copy_from_slice(&rng.u64().to_le_bytes()[..chunk.len()]);
    }
    let sums: Vec<u64> = buffers.iter().map(|b| checksum(b)).collect();
    let mut starts = Vec::new();
    for k in 0..casts as usize {
        starts.push(now_ns());
        sender.send(&buffers[k % BUFFERS])?;
        sender.answers(sums[k % BUFFERS])?;
    }
    let mut last = vec![0; starts.len()];
    for member in 0..n {
        let times = world.times(member)?;
        ensure!(times.len() == last.len(), "times of another number of messages");
        for (last, time) in last.iter_mut().zip(times) {
            *last = time.max(*last);
        }
    }
    let ns = starts.iter().zip(&last).skip(starts.len() / 10).map(|(s, e)| e.saturating_sub(*s));
    Ok(Sample::of(ns.collect()).moving(n * len))
}
