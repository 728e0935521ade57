//! `bench barrier`: tasks that meet.

use std::fs::File;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;
use rustix::thread::futex;
use towpath::task::{Task, TaskId, Team};

use super::args::BarrierArgs;
use super::echo::shared;
use super::line::{Do, Meeting};
use super::metrics::Metrics;
use super::peers::{self, Mpi};
use super::pipe::{WORDS, sleep_on, spin_on};
use super::report::{Report, Row, chosen};
use super::sample::Sample;
use super::world::{Own, Process, World};
use crate::words::Words;

/// Word of those who came, and word of the barriers that are over.
const CAME: usize = 0;
const OVER: usize = WORDS / 2;
/// The group of the rows that ask the leader.
const GROUP: &str = "bench";

/// One member's place at a barrier.
pub(super) enum Place<'a> {
    Shared { words: Words, members: u32, sleeps: bool },
    Team { task: &'a mut Task, team: Box<Team> },
    Group { task: &'a mut Task, name: &'a str, members: u32 },
}

impl<'a> Place<'a> {
    pub(super) fn open(kind: &'a Meeting, own: Option<&'a mut Own>) -> anyhow::Result<Self> {
        let shared = |path, members, sleeps| -> anyhow::Result<Self> {
            let words = Words::open(&File::options().read(true).write(true).open(path)?)?;
            ensure!(words.len() >= WORDS, "{} shared words, {WORDS} are needed", words.len());
            Ok(Self::Shared { words, members, sleeps })
        };
        match kind {
            Meeting::Spin { words, members } => shared(words, *members, false),
            Meeting::Futex { words, members } => shared(words, *members, true),
            Meeting::Team { tasks, direct } => {
                let task = own.context("no task yet")?.task(*direct);
                let members = tasks.iter().map(|raw| TaskId::try_from(*raw));
                let team = task.team_of(&members.collect::<Result<Vec<_>, _>>()?)?;
                Ok(Self::Team { task, team: Box::new(team) })
            }
            Meeting::Group { name, members } => {
                let task = own.context("no task yet")?.task(false);
                task.join_group(name)?;
                Ok(Self::Group { task, name, members: *members })
            }
        }
    }

    pub(super) fn meet(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Shared { words, members, sleeps } => {
                let over = words[OVER].load(Ordering::Acquire);
                // The last to come sees what all before it did.
                if words[CAME].fetch_add(1, Ordering::AcqRel) + 1 == *members {
                    words[CAME].store(0, Ordering::Relaxed);
                    words[OVER].store(over.wrapping_add(1), Ordering::Release);
                    if *sleeps {
                        futex::wake(&words[OVER], futex::Flags::empty(), u32::MAX >> 1)?;
                    }
                    return Ok(());
                }
                if *sleeps { sleep_on(&words[OVER], over) } else { spin_on(&words[OVER], over) }
            }
            Self::Team { task, team } => Ok(team.barrier(task)?),
            Self::Group { task, name, members } => Ok(task.group_barrier(name, *members)?),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Self::Group { task, name, .. } = self {
            let _ = task.leave_group(name);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Spin,
    Futex,
    Team { direct: bool },
    Group,
    Mpi,
}

fn plan(args: &BarrierArgs, mpi: bool) -> Vec<(Row, Kind)> {
    let n = usize::from(args.tasks);
    let daemons = usize::from(args.common.hosts);
    let row = |name: &str, route, processes, floor| Row {
        name: name.to_string(),
        route,
        bytes: 0,
        processes,
        floor,
    };
    let mut rows = Vec::new();
    let cpus = args.common.list();
    let distinct = cpus.iter().collect::<std::collections::BTreeSet<_>>().len();
    if n <= distinct {
        rows.push((row("floor: shared memory, spinning", "memory", n, None), Kind::Spin));
    }
    rows.push((row("floor: shared memory, bare futex", "memory", n, None), Kind::Futex));
    let floor = Some(rows.len() - 1);
    let direct = if daemons == 1 { "rings" } else { "rings and streams" };
    rows.push((row("team, direct", direct, n, floor), Kind::Team { direct: true }));
    let by = row("team, by the daemons", "daemons", n + daemons, floor);
    rows.push((by, Kind::Team { direct: false }));
    rows.push((row("group, asking the leader", "daemons", n + daemons, floor), Kind::Group));
    if mpi {
        rows.push((row("peer: MPI", "MPI", n, floor), Kind::Mpi));
    }
    rows
}

pub(in super::super) fn barrier(args: &BarrierArgs) -> anyhow::Result<ExitCode> {
    let (common, n) = (&args.common, usize::from(args.tasks));
    common.in_own_namespace()?;
    let mut world = World::start(common)?;
    for k in 0..n {
        let member = world.add(common.cpu(k), (k % usize::from(common.hosts)) as u16 + 1)?;
        world.enrol(member)?;
    }
    let exe = std::env::current_exe()?;
    let burn = |_| {
        let mut c = Command::new(&exe);
        c.args(["bench", "member", "--burn"]).stdin(Stdio::null());
        Ok(Process(c.spawn()?))
    };
    let (mpi, peers) = peers::find(common);
    let plan = plan(args, mpi.is_some());
    let rows: Vec<Row> = plan.iter().map(|(row, _)| row.clone()).collect();
    let keep = chosen(&rows, common.only.as_deref())?;
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); rows.len()];
    let _load = (0..args.load).map(burn).collect::<anyhow::Result<Vec<_>>>()?;
    let bar = ProgressBar::new(u64::from(common.runs));
    for _ in 0..common.runs {
        for (at, (row, kind)) in plan.iter().enumerate().filter(|(at, _)| keep[*at]) {
            let sample = match &mpi {
                Some(mpi) if *kind == Kind::Mpi => by_mpi(mpi, args),
                _ => measure(&mut world, *kind, n, args.barriers),
            };
            samples[at].push(sample.with_context(|| format!("measuring {:?}", row.name))?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut notes = vec![
        format!(
            "{n} tasks, {} barriers each; {} foreign processes compute.",
            args.barriers, args.load
        ),
        "From when the last one came until the last one left.".to_string(),
    ];
    notes.extend(peers);
    let rows = rows.into_iter().zip(samples).collect();
    Report { what: "barrier", common, notes, rows, metrics: Metrics::Nothing }.print()?;
    Ok(ExitCode::SUCCESS)
}

fn by_mpi(mpi: &Mpi, args: &BarrierArgs) -> anyhow::Result<Sample> {
    let count = args.barriers.to_string();
    mpi.sample(args.tasks.into(), &["barrier", &count], Duration::ZERO)
}

fn measure(world: &mut World, kind: Kind, n: usize, count: u32) -> anyhow::Result<Sample> {
    let (_words, _file, words) = shared(WORDS)?;
    let members = n as u32;
    let meeting = match kind {
        Kind::Spin => Meeting::Spin { words, members },
        Kind::Futex => Meeting::Futex { words, members },
        Kind::Team { direct } => {
            let tasks = (0..n).map(|k| Ok(world.task(k, direct)?.to_raw()));
            Meeting::Team { tasks: tasks.collect::<anyhow::Result<_>>()?, direct }
        }
        Kind::Group => Meeting::Group { name: GROUP.into(), members },
        Kind::Mpi => bail!("there is no MPI"),
    };
    for member in 0..n {
        world.say(member, &Do::Barrier { kind: meeting.clone(), count })?;
    }
    // A team needs everyone: nobody is ready before all were told.
    for member in 0..n {
        world.is_ready(member)?;
    }
    for member in 0..n {
        world.say(member, &Do::Go)?;
    }
    let times = (0..n).map(|member| world.times(member)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Sample::of(durations(&times, count as usize)?))
}

/// For each barrier: from the last to come until the last to leave. A tenth at the beginning does
/// not count.
fn durations(times: &[Vec<u64>], count: usize) -> anyhow::Result<Vec<u64>> {
    ensure!(times.iter().all(|t| t.len() == 2 * count), "times of another number of barriers");
    let last = |at: usize| times.iter().map(|t| t[at]).max().unwrap_or(0);
    (count / 10..count)
        .map(|k| {
            let first_left = times.iter().map(|t| t[2 * k + 1]).min().unwrap_or(0);
            let (came, left) = (last(2 * k), last(2 * k + 1));
            // The clock is read outside: whoever leaves first has seen everyone come.
            ensure!(first_left >= came, "barrier {k}: one left before another came");
            Ok(left - came)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_lasts_from_the_last_to_come_to_the_last_to_leave() {
        let times = [vec![0, 50, 60, 95], vec![40, 55, 70, 90]];
        assert_eq!(durations(&times, 2).unwrap(), [15, 25]);
        let broken = [vec![0, 30], vec![40, 55]];
        assert!(durations(&broken, 1).unwrap_err().to_string().contains("before another came"));
        assert!(durations(&broken, 2).is_err());
    }

    #[test]
    fn shared_words_let_nobody_through_early() {
        let (_words, _file, path) = shared(WORDS).unwrap();
        for sleeps in [true, false] {
            let path = path.clone();
            let kind = if sleeps {
                Meeting::Futex { words: path, members: 3 }
            } else {
                Meeting::Spin { words: path, members: 3 }
            };
            let times: Vec<Vec<u64>> = std::thread::scope(|scope| {
                let meet = || {
                    let mut place = Place::open(&kind, None).unwrap();
                    let mut times = Vec::new();
                    for _ in 0..50 {
                        times.push(super::super::sample::now_ns());
                        place.meet().unwrap();
                        times.push(super::super::sample::now_ns());
                    }
                    times
                };
                let threads: Vec<_> = (0..3).map(|_| scope.spawn(meet)).collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            assert_eq!(durations(&times, 50).unwrap().len(), 45);
        }
    }
}
