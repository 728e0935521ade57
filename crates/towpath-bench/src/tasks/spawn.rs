//! `bench spawn`: tasks that say something, hear something and end.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;
use towpath::task::{Event, Place, SpawnTasks, Subject, Task, Wanted, WatchEvent};

use super::args::SpawnArgs;
use super::metrics::Metrics;
use super::peers::{self, Mpi};
use super::pipe::{SHORT, TAG};
use super::report::{Report, Row, chosen};
use super::sample::Sample;
use super::world::{Own, World};

/// More ranks than this are not asked of an MPI: they would spin on few processors for minutes.
const RANKS_MAX: u32 = 64;

/// Nanoseconds from the request until the last first message, and until the last end is known.
struct Times {
    first: u64,
    reaped: u64,
}

/// What the operating system does: the same program, started one after the other.
fn bare(count: u32) -> anyhow::Result<Times> {
    let exe = std::env::current_exe()?;
    let (said_out, said_in) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (heard_out, heard_in) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let begin = Instant::now();
    let mut children: Vec<Child> = Vec::new();
    for _ in 0..count {
        let mut c = Command::new(&exe);
        c.args(["bench", "member", "--pipe"]).stderr(Stdio::null());
        c.stdin(heard_out.try_clone()?).stdout(said_in.try_clone()?);
        children.push(c.spawn().context("cannot start a process")?);
    }
    // A child that fails to start leaves nobody to write: the pipe ends instead of waiting.
    drop((said_in, heard_out));
    let (mut said, mut answer) = (File::from(said_out), File::from(heard_in));
    for _ in 0..count {
        said.read_exact(&mut [0; SHORT]).context("a process ended without a word")?;
        answer.write_all(&[1; SHORT])?;
    }
    let first = begin.elapsed().as_nanos() as u64;
    for mut child in children {
        ensure!(child.wait()?.success(), "a process failed");
    }
    Ok(Times { first, reaped: begin.elapsed().as_nanos() as u64 })
}

fn tasks(task: &mut Task, count: u32) -> anyhow::Result<Times> {
    let program = std::env::current_exe()?.into_os_string().into_encoded_bytes();
    let args = ["bench", "member", "--task"].map(|a| a.as_bytes().to_vec()).to_vec();
    let (env, cwd, place) = (Vec::new(), Vec::new(), Place::Any);
    let begin = Instant::now();
    let spawn = SpawnTasks {
        program,
        args,
        env,
        cwd,
        place,
        count,
        context: 0,
        orphan: false,
        unique: false,
    };
    let mut ids = Vec::new();
    for result in task.spawn(spawn)? {
        ids.push(result?);
    }
    ensure!(ids.len() == count as usize, "{} tasks, {count} were asked for", ids.len());
    for id in &ids {
        task.watch(Subject::Task(*id))?;
    }
    let wanted = Wanted { source: None, tag: Some(TAG), context: 0 };
    for _ in 0..count {
        let said = task.recv(&wanted)?;
        let from = said.src();
        drop(said);
        task.send(from, TAG, &[1; SHORT])?;
    }
    let first = begin.elapsed().as_nanos() as u64;
    let mut left = ids.len();
    while left > 0 {
        match task.next_event() {
            Some(Event::Notice { event: WatchEvent::TaskEnded { ending, .. }, .. }) => {
                if let Some(ending) = ending.filter(|e| !e.is_success()) {
                    bail!("a task failed: {ending}");
                }
                left -= 1;
            }
            Some(_) => {}
            None => {
                task.wait(None)?;
            }
        }
    }
    Ok(Times { first, reaped: begin.elapsed().as_nanos() as u64 })
}

/// `mpirun`, until its first process has heard of all others, and until it has ended.
fn by_mpi(mpi: &Mpi, count: u32) -> anyhow::Result<Times> {
    let ran = mpi.run(count, &["start"], Duration::ZERO)?;
    let first = ran.ns[0].saturating_sub(ran.begin);
    Ok(Times { first, reaped: ran.end.saturating_sub(ran.begin) })
}

#[derive(Clone, Copy)]
enum Kind {
    Bare,
    Tasks,
    Mpi,
}

pub(in super::super) fn spawn(args: &SpawnArgs) -> anyhow::Result<ExitCode> {
    let common = &args.common.loose();
    common.in_own_namespace()?;
    let world = World::start(common)?;
    let mut own = Own::enrol(&world.task_socket(1)?)?;
    let daemons = usize::from(common.hosts);
    let (mpi, peers) = peers::find(common);
    // Each kind and number has two rows: until the first messages, and until all are reaped.
    let (mut rows, mut kinds) = (Vec::new(), Vec::new());
    for &count in &args.counts {
        let (n, base) = (count as usize, rows.len());
        let mut add = |name: &str, route, processes, floor: Option<usize>, kind| {
            for (at, what) in ["first message", "reaped"].into_iter().enumerate() {
                let (name, floor) = (format!("{name}, {count}, {what}"), floor.map(|f| f + at));
                rows.push(Row { name, route, bytes: SHORT, processes, floor });
            }
            kinds.push((kind, count));
        };
        add("floor: posix_spawn", "pipe", n + 1, None, Kind::Bare);
        add("tasks", "daemon", n + 1 + daemons, Some(base), Kind::Tasks);
        if mpi.is_some() && (2..=RANKS_MAX).contains(&count) {
            add("peer: mpirun", "MPI", n + 1, Some(base), Kind::Mpi);
        }
    }
    let keep = chosen(&rows, common.only.as_deref())?;
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); rows.len()];
    let bar = ProgressBar::new(u64::from(common.runs));
    for _ in 0..common.runs {
        for (at, &(kind, count)) in kinds.iter().enumerate().map(|(k, kind)| (2 * k, kind)) {
            if !keep[at] && !keep[at + 1] {
                continue;
            }
            let times = match (kind, &mpi) {
                (Kind::Mpi, Some(mpi)) => by_mpi(mpi, count),
                (Kind::Bare, _) => bare(count),
                _ => tasks(&mut own.plain, count),
            };
            let times = times.with_context(|| format!("measuring {:?}", rows[at].name))?;
            for (at, ns) in [(at, times.first), (at + 1, times.reaped)] {
                if keep[at] {
                    samples[at].push(Sample::of(vec![ns]));
                }
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut notes = vec![
        "Figures are of all of them together, from asking for them.".to_string(),
        "Both start this same program; a task also becomes one.".to_string(),
        format!("An MPI is asked for 2 to {RANKS_MAX} processes."),
    ];
    notes.extend(peers);
    let rows = rows.into_iter().zip(samples).collect();
    Report { what: "spawn", common, notes, rows, metrics: Metrics::Nothing }.print()?;
    Ok(ExitCode::SUCCESS)
}
