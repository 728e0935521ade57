//! `bench exchange`: what the kernels of the suite tell each other, without their arithmetic.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use towpath::task::{Task, TaskId, Team, Wanted};

use super::args::ExchangeArgs;
use super::counts::{Counts, Sent};
use super::line::Do;
use super::metrics::Metrics;
use super::peers::{self, Mpi};
use super::pipe::TAG;
use super::report::{Report, Row, chosen};
use super::sample::{Sample, now_ns};
use super::world::{Own, World};

/// Exchanges one behind the other, without a barrier.
const TURN: u32 = 10;
/// Most bytes of one part of a step.
const PART_MAX: usize = 64 << 20;

/// One step of an exchange, the same at every member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    /// The root's bytes to all.
    Broadcast { root: u32, bytes: usize },
    /// Everyone's bytes to member 0.
    Gather { bytes: usize },
    /// Everyone's bytes to all.
    AllGather { bytes: usize },
    /// So many bytes from each to each.
    AllToAll { bytes: usize },
    /// Member 0 gives items to whoever is done with its last, and has an answer of each.
    HandOut { items: u32, bytes: usize },
}

impl Step {
    /// Payload bytes that members have of others.
    fn moved(self, n: usize) -> usize {
        match self {
            Self::Broadcast { bytes, .. } | Self::Gather { bytes } => (n - 1) * bytes,
            Self::AllGather { bytes } | Self::AllToAll { bytes } => n * (n - 1) * bytes,
            Self::HandOut { items, bytes } => 2 * items as usize * bytes,
        }
    }

    /// As the peer reads it.
    fn text(self) -> String {
        match self {
            Self::Broadcast { root, bytes } => format!("b:{bytes}:{root}"),
            Self::Gather { bytes } => format!("g:{bytes}:0"),
            Self::AllGather { bytes } => format!("a:{bytes}:0"),
            Self::AllToAll { bytes } => format!("t:{bytes}:0"),
            Self::HandOut { items, bytes } => format!("h:{bytes}:{items}"),
        }
    }
}

/// The rows `begin..end` of `all` that member `k` of `n` has, as the kernels share them.
const fn share(all: usize, k: usize, n: usize) -> (usize, usize) {
    (all * k / n, all * (k + 1) / n)
}

/// What a kernel of docs/applications.md exchanges among `n` tasks, at its default size; where
/// shares differ, the largest counts for all.
fn kernels(n: usize) -> Vec<(&'static str, Vec<Step>)> {
    let (f64s, complex) = (size_of::<f64>(), 2 * size_of::<f64>());
    let part = |all: usize| all.div_ceil(n);
    // A panel of 32 columns of 384 rows and as many pivots, of each owner in turn.
    let panel = |b: usize| Step::Broadcast { root: (b % n) as u32, bytes: 32 * 385 * f64s };
    let rows_of_b = |first: usize| {
        (0..n).filter_map(move |owner| {
            let (begin, end) = share(384, owner, n);
            let (from, to) = (begin.max(first), end.min(first + 128));
            let bytes = to.saturating_sub(from) * 384 * f64s;
            (bytes > 0).then_some(Step::Broadcast { root: owner as u32, bytes })
        })
    };
    vec![
        ("fft", vec![Step::AllToAll { bytes: part(512) * part(512) * complex }]),
        ("lu", (0..12).map(panel).collect()),
        ("matmul", (0..384).step_by(128).flat_map(rows_of_b).collect()),
        ("nbody", vec![Step::AllGather { bytes: part(1000) * 3 * f64s }; 2]),
        ("ep", vec![Step::AllGather { bytes: part(16) * 12 * f64s }]),
        (
            "sort",
            vec![
                Step::AllGather { bytes: n * f64s },
                Step::AllToAll { bytes: part(part(1_000_000)) * f64s },
            ],
        ),
        ("tsp", vec![Step::HandOut { items: 132, bytes: 14 * f64s }]),
        (
            "hough",
            vec![
                Step::AllToAll { bytes: part(180) * 1133 * f64s },
                Step::Gather { bytes: part(180) * 1133 * f64s },
            ],
        ),
    ]
}

/// One member's part of an exchange.
pub(super) struct Part<'a> {
    task: &'a mut Task,
    team: Team,
    steps: &'a [Step],
    /// What it gives in each step: every byte says who gives it.
    gives: Vec<Vec<u8>>,
    /// Room for what it has of others.
    gets: Vec<Vec<u8>>,
    /// In all turns, without what barriers take.
    sent: Sent,
}

/// Every byte of what member `k` gives in step `at`.
const fn mark(k: usize, at: usize) -> u8 {
    (k * 31 + at * 7 + 1) as u8
}

fn is_of(bytes: &[u8], len: usize, k: usize, at: usize) -> anyhow::Result<()> {
    let right = bytes.len() == len && bytes.iter().all(|byte| *byte == mark(k, at));
    ensure!(right, "step {at}: what member {k} gave came as something else");
    Ok(())
}

impl<'a> Part<'a> {
    pub(super) fn open(
        own: &'a mut Own,
        tasks: &[u64],
        direct: bool,
        steps: &'a [Step],
    ) -> anyhow::Result<Self> {
        let task = own.task(direct);
        let members = tasks.iter().map(|raw| TaskId::try_from(*raw));
        let team = task.team_of(&members.collect::<Result<Vec<_>, _>>()?)?;
        let (own, n) = (team.rank() as usize, tasks.len());
        let (mut gives, mut gets) = (Vec::new(), Vec::new());
        for (at, step) in steps.iter().enumerate() {
            // How many parts it gives, and gets.
            let (bytes, give, get) = match *step {
                Step::Broadcast { bytes, .. } => (bytes, 1, 1),
                Step::Gather { bytes } => (bytes, 1, if own == 0 { n } else { 0 }),
                Step::AllGather { bytes } => (bytes, 1, n),
                Step::AllToAll { bytes } => (bytes, n, n),
                Step::HandOut { bytes, .. } => (bytes, 1, 0),
            };
            ensure!(bytes <= PART_MAX, "{bytes} bytes in a step, at most {PART_MAX}");
            gives.push(vec![mark(own, at); give * bytes]);
            gets.push(vec![0; get * bytes]);
        }
        Ok(Self { task, team, steps, gives, gets, sent: Sent::default() })
    }

    /// Exchanges so many times, in turns of [`TURN`]; when each turn began and ended. What comes in
    /// the first, which does not count, is compared.
    pub(super) fn times(&mut self, count: u32) -> anyhow::Result<Vec<u64>> {
        let turns = count / TURN;
        let mut times = Vec::with_capacity(2 * turns as usize);
        for turn in 0..turns {
            self.team.barrier(self.task)?;
            let before = self.team.sent();
            times.push(now_ns());
            for _ in 0..TURN {
                for at in 0..self.steps.len() {
                    self.step(at, turn == 0)?;
                }
            }
            times.push(now_ns());
            let after = self.team.sent();
            let of = |after: u64, before: u64| (after - before) as f64;
            let messages = of(after.messages, before.messages);
            self.sent.add(Sent { messages, bytes: of(after.bytes, before.bytes) });
        }
        Ok(times)
    }

    /// What it sent in one of so many exchanges.
    pub(super) fn sent(&self, count: u32) -> Sent {
        self.sent.per(count / TURN * TURN)
    }

    fn step(&mut self, at: usize, compares: bool) -> anyhow::Result<()> {
        let (task, give, got) = (&mut *self.task, &self.gives[at], &mut self.gets[at]);
        let (own, n) = (self.team.rank(), self.team.size() as usize);
        let of = match self.steps[at] {
            Step::Broadcast { root, .. } if own == root => {
                self.team.broadcast_slice(task, root, &mut self.gives[at])?;
                return Ok(());
            }
            Step::Broadcast { root, .. } => {
                self.team.broadcast_slice(task, root, got)?;
                root as usize..root as usize + 1
            }
            Step::HandOut { items, .. } => return self.hand_out(at, items),
            Step::Gather { .. } => {
                let all = (own == 0).then_some(&mut got[..]);
                self.team.gather_into(task, 0, give, all)?;
                if own == 0 { 0..n } else { 0..0 }
            }
            Step::AllGather { .. } => {
                self.team.all_gather_slice(task, give, got)?;
                0..n
            }
            Step::AllToAll { .. } => {
                self.team.all_to_all_slice(task, give, got)?;
                0..n
            }
        };
        let len = got.len() / of.len().max(1);
        for (part, k) in got.chunks(len.max(1)).zip(of).filter(|_| compares) {
            is_of(part, len, k, at)?;
        }
        Ok(())
    }

    /// An empty message says that there is no item left.
    fn hand_out(&mut self, at: usize, items: u32) -> anyhow::Result<()> {
        let (task, team, give) = (&mut *self.task, &self.team, &self.gives[at]);
        if team.rank() != 0 {
            let wanted = Wanted::any().from(team.member(0)).tag(TAG);
            while !task.recv(&wanted)?.bytes().is_empty() {
                task.send(team.member(0), TAG, give)?;
                self.sent.add(Sent { messages: 1.0, bytes: give.len() as f64 });
            }
            return Ok(());
        }
        let mut left = items;
        let mut next = |task: &mut Task, to: TaskId| {
            let item = if left > 0 { &give[..] } else { &[] };
            left = left.saturating_sub(1);
            self.sent.add(Sent { messages: 1.0, bytes: item.len() as f64 });
            task.send(to, TAG, item).map(|()| !item.is_empty())
        };
        let mut under_way = 0;
        for k in 1..team.size() {
            under_way += u32::from(next(task, team.member(k))?);
        }
        while under_way > 0 {
            let answer = task.recv(&Wanted::any().tag(TAG))?;
            under_way -= u32::from(!next(task, answer.about().src)?);
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Kind {
    Team { direct: bool },
    Mpi,
}

type Planned = (Row, Kind, Vec<Step>);

fn plan(args: &ExchangeArgs, mpi: bool) -> Vec<Planned> {
    let (n, daemons) = (usize::from(args.tasks), usize::from(args.common.hosts));
    let direct = if daemons == 1 { "rings" } else { "rings and streams" };
    let mut rows: Vec<Planned> = Vec::new();
    for (kernel, steps) in kernels(n) {
        let bytes = steps.iter().map(|step| step.moved(n)).sum();
        let peer = mpi.then_some(rows.len());
        let mut add = |name: String, route, processes, floor, kind| {
            rows.push((Row { name, route, bytes, processes, floor }, kind, steps.clone()));
        };
        if mpi {
            add(format!("peer: MPI, {kernel}"), "MPI", n, None, Kind::Mpi);
        }
        add(format!("{kernel}, direct"), direct, n, peer, Kind::Team { direct: true });
        if args.daemons {
            let name = format!("{kernel}, by the daemons");
            add(name, "daemons", n + daemons, peer, Kind::Team { direct: false });
        }
    }
    rows
}

pub(in super::super) fn exchange(args: &ExchangeArgs) -> anyhow::Result<ExitCode> {
    let (common, n) = (&args.common, usize::from(args.tasks));
    common.in_own_namespace()?;
    let mut world = World::start(common)?;
    for k in 0..n {
        let member = world.add(common.cpu(k), (k % usize::from(common.hosts)) as u16 + 1)?;
        world.enrol(member)?;
    }
    let (mpi, peers) = peers::find(common);
    let plan = plan(args, mpi.is_some());
    let rows: Vec<Row> = plan.iter().map(|(row, ..)| row.clone()).collect();
    let keep = chosen(&rows, common.only.as_deref())?;
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); rows.len()];
    let mut counts = Vec::new();
    let bar = ProgressBar::new(u64::from(common.runs));
    for run in 0..common.runs {
        for (at, planned) in plan.iter().enumerate().filter(|(at, _)| keep[*at]) {
            let sample = match (&mpi, &planned.1) {
                (Some(mpi), Kind::Mpi) => by_mpi(mpi, args, &planned.2),
                (_, Kind::Team { direct }) => {
                    let measured = measure(&mut world, n, *direct, &planned.2, args.exchanges);
                    measured.map(|(sample, ours)| {
                        if run == 0 {
                            counts.push(counted(&planned.0, ours, &planned.2, mpi.as_ref(), n));
                        }
                        sample
                    })
                }
                (None, Kind::Mpi) => bail!("there is no MPI"),
            };
            let sample = sample.with_context(|| format!("measuring {:?}", planned.0.name))?;
            samples[at].push(sample.moving(planned.0.bytes));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut notes = vec![
        format!("{n} tasks, {} exchanges each.", args.exchanges),
        "What each kernel of docs/applications.md exchanges, without its arithmetic: ten in a \
         turn, from when the first one begins, behind a barrier, until the last one has all. B: \
         payload that members have of others. `of floor`: of the peer."
            .to_string(),
    ];
    notes.extend(peers);
    let rows = rows.into_iter().zip(samples).collect();
    Report { what: "exchange", common, notes, rows, metrics: Metrics::Counts(counts) }.print()?;
    Ok(ExitCode::SUCCESS)
}

/// What an exchange sends, beside the peer's where it counts.
fn counted(row: &Row, ours: Sent, steps: &[Step], mpi: Option<&Mpi>, n: usize) -> Counts {
    let texts: Vec<String> = steps.iter().map(|step| step.text()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let peer = mpi.and_then(|mpi| mpi.sent(n as u32, TURN, &texts));
    Counts { name: row.name.clone(), ours, peer }
}

fn by_mpi(mpi: &Mpi, args: &ExchangeArgs, steps: &[Step]) -> anyhow::Result<Sample> {
    let count = args.exchanges.to_string();
    let steps: Vec<String> = steps.iter().map(|step| step.text()).collect();
    let words = ["exchange", &count].into_iter().chain(steps.iter().map(String::as_str));
    mpi.sample(args.tasks.into(), &words.collect::<Vec<_>>(), Duration::ZERO)
}

fn measure(
    world: &mut World,
    n: usize,
    direct: bool,
    steps: &[Step],
    count: u32,
) -> anyhow::Result<(Sample, Sent)> {
    let tasks = (0..n).map(|k| Ok(world.task(k, direct)?.to_raw()));
    let tasks = tasks.collect::<anyhow::Result<Vec<_>>>()?;
    for member in 0..n {
        let (tasks, steps) = (tasks.clone(), steps.to_vec());
        world.say(member, &Do::Exchange { tasks, direct, steps, count })?;
    }
    for member in 0..n {
        world.is_ready(member)?;
    }
    for member in 0..n {
        world.say(member, &Do::Go)?;
    }
    let (mut times, mut sent) = (Vec::with_capacity(n), Sent::default());
    for member in 0..n {
        let (of_member, its) = world.exchanged(member)?;
        times.push(of_member);
        sent.add(its);
    }
    Ok((Sample::of(durations(&times, count as usize)?), sent))
}

/// Of an exchange in each turn but the first: from the first to begin, behind a barrier, until the
/// last has all.
fn durations(times: &[Vec<u64>], count: usize) -> anyhow::Result<Vec<u64>> {
    let turns = count / TURN as usize;
    ensure!(times.iter().all(|t| t.len() == 2 * turns), "times of another number of exchanges");
    let of = |k: usize| {
        let begun = times.iter().map(|t| t[2 * k]).min().unwrap_or(0);
        let last = times.iter().map(|t| t[2 * k + 1]).max().unwrap_or(0);
        let took = last.checked_sub(begun).context("an exchange that ended before it began")?;
        Ok(took / u64::from(TURN))
    };
    (1..turns).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernels_exchange_is_theirs() {
        for n in [2, 3, 4, 7, 8] {
            let all = kernels(n);
            let of = |name: &str| &all.iter().find(|(kernel, _)| *kernel == name).unwrap().1;
            let moved = |name: &str| of(name).iter().map(|step| step.moved(n)).sum::<usize>();
            // All of B to all others; of a transposition each pair's blocks.
            assert_eq!(moved("matmul"), (n - 1) * 384 * 384 * 8);
            assert!(moved("fft") >= (n - 1) * 512 * 512 * 16 / n);
            assert_eq!(moved("lu"), 12 * (n - 1) * 32 * 385 * 8);
            assert_eq!(all.len(), 8);
        }
    }

    #[test]
    fn the_peer_is_told_the_same_steps() {
        assert_eq!(Step::Broadcast { root: 3, bytes: 9 }.text(), "b:9:3");
        assert_eq!(Step::HandOut { items: 132, bytes: 8 }.text(), "h:8:132");
        assert_eq!(Step::AllToAll { bytes: 5 }.moved(4), 60);
    }

    #[test]
    fn an_exchange_lasts_from_the_first_to_begin_to_the_last_to_have_all() {
        let times = [vec![5, 50, 60, 95], vec![40, 55, 70, 90]];
        let turn = TURN as usize;
        assert_eq!(durations(&times, 2 * turn).unwrap(), [3], "35 ns for ten");
        assert!(durations(&times, turn).is_err());
        assert!(durations(&[vec![1, 2, 9, 3]], 2 * turn).is_err());
    }

    #[test]
    fn other_bytes_are_seen() {
        assert!(is_of(&[mark(2, 1); 5], 5, 2, 1).is_ok());
        assert!(is_of(&[mark(2, 1); 4], 5, 2, 1).is_err());
        assert!(is_of(&[mark(1, 1); 5], 5, 2, 1).unwrap_err().to_string().contains("member 2"));
    }
}
