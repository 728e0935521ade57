//! The tracker from scene to report.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::Args;
use towpath_report::plot::{Axis, Chart, Shape, Unit};

use super::pairs::Target;
use super::plane::{Track, packed, unpacked};
use super::scene::{Plane, Scene};
use super::score::{Score, score};
use super::space::{Camera, EARTH, norm};
use super::{pairs, plane};
use crate::exchange::{Exchange, Part, Result, share};
use crate::picture::Field;
use crate::report::Report;

/// Estimates further from the truth than this are wrong, km.
const CUT: f64 = 10.0;
/// A file of measurements has at most so many bytes.
const FILE_MAX: u64 = 256 << 20;

/// Tag of what counterparts give each other.
const PAIRED: i32 = 1 << 21;

/// How tasks share the sensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sharing {
    /// All tasks work on one sensor after the other
    Ssdp,
    /// Half of the tasks work on each sensor
    Psdp,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TrackerArgs {
    /// Targets of a made-up scene
    #[arg(long, default_value_t = 100)]
    targets: usize,
    /// Of the made-up scene
    #[arg(long, default_value_t = 2)]
    seed: u64,
    /// False alarms of each sensor in each scan
    #[arg(long, default_value_t = 10.0)]
    false_alarms: f64,
    /// Probability of a target's being detected
    #[arg(long, default_value_t = 0.98)]
    detected: f64,
    /// Measurements from a file instead (scan,sensor,u_rad,v_rad)
    #[arg(long, value_name = "CSV")]
    file: Option<PathBuf>,
    /// How tasks share the sensors
    #[arg(long, value_enum, default_value_t = Sharing::Psdp)]
    sharing: Sharing,
}

impl TrackerArgs {
    /// How tasks share the sensors, in a word.
    pub(crate) fn sharing(&self) -> String {
        format!("{:?}", self.sharing).to_lowercase()
    }
}

/// The targets that are told of, scan by scan: the same at every task.
pub(super) fn track(
    exchange: &mut dyn Exchange,
    scene: &Scene,
    sharing: Sharing,
) -> Result<Vec<Vec<Target>>> {
    let cameras = [Camera::of(0), Camera::of(1)];
    let mut held: [Vec<Track>; 2] = Default::default();
    let (mut targets, mut told) = (Vec::new(), Vec::with_capacity(scene.scans.len()));
    for (scan, planes) in scene.scans.iter().enumerate() {
        let own = in_planes(exchange, &cameras, scan, planes, &mut held, sharing)?;
        targets = pairs::step(exchange, &cameras, [&own[0], &own[1]], &targets)?;
        told.push(targets.iter().copied().filter(Target::is_sure).collect());
    }
    Ok(told)
}

/// One scan in both focal planes; what the tasks need of it in space: each its part of the first
/// sensor's tracks, and all of the second's.
fn in_planes(
    exchange: &mut dyn Exchange,
    cameras: &[Camera; 2],
    scan: usize,
    planes: &[Plane; 2],
    held: &mut [Vec<Track>; 2],
    sharing: Sharing,
) -> Result<[Vec<Track>; 2]> {
    let parts = match sharing {
        Sharing::Psdp if exchange.size() > 1 => 2,
        _ => 1,
    };
    let mut step = |exchange: &mut dyn Exchange, sensor: usize| -> Result<()> {
        held[sensor] =
            plane::step(exchange, &cameras[sensor], scan, &planes[sensor], &held[sensor])?;
        Ok(())
    };
    if parts == 2 {
        let sensor = exchange.rank() % 2;
        let members = (sensor..exchange.size()).step_by(2).collect();
        let mut part = Part::new(exchange, members).expect("of one's own parity");
        step(&mut part, sensor)?;
        return in_pairs(exchange, held);
    }
    step(exchange, 0)?;
    step(exchange, 1)?;
    everything(exchange, held)
}

/// Of PSDP: who works on the first sensor gives half of its tracks to its counterpart at the
/// second, whose tracks everyone gets.
fn in_pairs(exchange: &mut dyn Exchange, held: &[Vec<Track>; 2]) -> Result<[Vec<Track>; 2]> {
    let (rank, size) = (exchange.rank(), exchange.size());
    let mut mine = held[0].clone();
    if rank % 2 == 1 {
        mine = unpacked(&exchange.recv(Some(rank - 1), PAIRED)?.1)?;
    } else if rank + 1 < size {
        let given = mine.split_off(mine.len().div_ceil(2));
        exchange.send(rank + 1, PAIRED, &packed(&given))?;
    }
    let mut second = Vec::new();
    for part in exchange.all_gather(packed(&held[1]))? {
        second.extend(unpacked(&part)?);
    }
    Ok([mine, second])
}

/// Of SSDP: the whole track file at every node, as the source has it.
fn everything(exchange: &mut dyn Exchange, held: &[Vec<Track>; 2]) -> Result<[Vec<Track>; 2]> {
    let mut message = (held[0].len() as u64).to_le_bytes().to_vec();
    message.extend(packed(&held[0]));
    message.extend(packed(&held[1]));
    let mut all: [Vec<Track>; 2] = Default::default();
    for part in exchange.all_gather(message)? {
        let malformed =
            crate::exchange::ExchangeError::Malformed { len: part.len(), what: "tracks" };
        let Some((count, rest)) = part.split_first_chunk::<8>() else { return Err(malformed) };
        let mut tracks = unpacked(rest)?;
        let second = tracks.split_off((u64::from_le_bytes(*count) as usize).min(tracks.len()));
        all[0].extend(tracks);
        all[1].extend(second);
    }
    for tracks in &mut all {
        tracks.sort_by_key(|track| track.last);
    }
    let [first, second] = all;
    let mine = first[share(first.len(), exchange.rank(), exchange.size())].to_vec();
    Ok([mine, second])
}

fn scene(exchange: &mut dyn Exchange, args: &TrackerArgs) -> anyhow::Result<Scene> {
    let Some(path) = &args.file else {
        return Scene::made_up(args.targets, args.seed, args.false_alarms, args.detected);
    };
    let text = match exchange.rank() {
        0 => {
            let len = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
            ensure!(len <= FILE_MAX, "{} has {len} bytes, at most {FILE_MAX}", path.display());
            Some(std::fs::read(path)?)
        }
        _ => None,
    };
    let text = exchange.broadcast(0, text)?;
    Scene::read(std::str::from_utf8(&text).context("the measurements are not text")?)
}

/// Mean distances over the scans in which there is something, but the first and last few.
pub(super) fn scores(scene: &Scene, told: &[Vec<Target>]) -> Vec<(f64, Score)> {
    let both = scene.truth.iter().zip(told).enumerate();
    let of = |(scan, (truth, told)): (usize, (&Vec<_>, &Vec<Target>))| {
        let estimates: Vec<_> = told.iter().map(|target| target.at).collect();
        Some((scan as f64, score(truth, &estimates, CUT)?))
    };
    both.filter_map(of).filter(|(scan, _)| (8.0..=55.0).contains(scan)).collect()
}

/// The whole demonstration; the root gets the report.
pub(crate) fn tracker(
    exchange: &mut dyn Exchange,
    args: &TrackerArgs,
) -> anyhow::Result<Option<Report>> {
    let scene = scene(exchange, args)?;
    let begun = Instant::now();
    exchange.begin();
    let told = track(exchange, &scene, args.sharing)?;
    exchange.done();
    let seconds = begun.elapsed().as_secs_f64();
    if exchange.rank() != 0 {
        return Ok(None);
    }
    let lead = format!(
        "{} measurements of two sensors in {} scans; {:?}, {} tasks",
        scene.measurements(),
        scene.scans.len(),
        args.sharing,
        exchange.size()
    );
    let mut report = Report::new("Tracker", &lead);
    let most = told.iter().map(Vec::len).max().unwrap_or(0);
    let rate = scene.measurements() as f64 / seconds;
    let mut words = format!("{most} targets at once at most; {rate:.0} measurements a second");
    let scores = scores(&scene, &told);
    if !scores.is_empty() {
        let n = scores.len() as f64;
        let ospa = scores.iter().map(|(_, s)| s.ospa).sum::<f64>() / n;
        let gospa = scores.iter().map(|(_, s)| s.gospa).sum::<f64>() / n;
        words += &format!("\nmean OSPA {ospa:.3} km, GOSPA {gospa:.3} km (cut-off {CUT} km)");
        let points = scores.iter().map(|(scan, s)| (*scan, s.ospa)).collect();
        let axis = |label| Axis::new(label, Unit::Count);
        let chart = Chart::new("Distance from the truth", axis("scan"), axis("OSPA in km")).with(
            "OSPA",
            Shape::Line,
            points,
        );
        report.chart("Accuracy", &chart);
    }
    report.say("Found", &words);
    report.field("Where targets were, seen from sensor 0", &map(&told));
    report.file("tracks.csv", csv(&told));
    Ok(Some(report))
}

/// All positions in the focal plane, the later the lighter.
fn map(told: &[Vec<Target>]) -> Field {
    const COLUMNS: usize = 120;
    const ROWS: usize = 80;
    let camera = Camera::of(0);
    let all =
        || told.iter().enumerate().flat_map(|(scan, list)| list.iter().map(move |t| (scan, t)));
    let seen: Vec<(usize, [f64; 2])> = all().map(|(s, t)| (s, camera.project(t.at))).collect();
    let bound = |axis: usize, start: f64, f: fn(f64, f64) -> f64| {
        seen.iter().map(|(_, p)| p[axis]).fold(start, f)
    };
    let mut values = vec![0.0; COLUMNS * ROWS];
    for (scan, p) in &seen {
        let part = |axis: usize| {
            let (low, high) = (bound(axis, f64::MAX, f64::min), bound(axis, f64::MIN, f64::max));
            (p[axis] - low) / (high - low).max(1.0)
        };
        let x = (part(0) * (COLUMNS - 1) as f64) as usize;
        let y = ((1.0 - part(1)) * (ROWS - 1) as f64) as usize;
        values[y * COLUMNS + x] = (scan + 10) as f64;
    }
    Field::new(COLUMNS, values)
}

/// For a globe: scan, name, position, height.
fn csv(told: &[Vec<Target>]) -> String {
    let mut out = "scan,first_0,first_1,x_km,y_km,z_km,height_km\n".to_owned();
    for (scan, list) in told.iter().enumerate() {
        for target in list {
            let ([a, b], [x, y, z]) = (target.firsts, target.at);
            let height = norm(target.at) - EARTH;
            out += &format!("{scan},{a},{b},{x:.4},{y:.4},{z:.4},{height:.3}\n");
        }
    }
    out
}

/// What is timed: a scene of 100 targets, by one task.
pub(crate) struct Hundred(Scene);

/// Made once.
pub(crate) fn hundred() -> anyhow::Result<Hundred> {
    Ok(Hundred(Scene::made_up(100, 2, 10.0, 0.98)?))
}

impl Hundred {
    pub(crate) fn measurements(&self) -> f64 {
        self.0.measurements() as f64
    }

    pub(crate) fn track(&self) -> anyhow::Result<()> {
        let told =
            crate::exchange::local::run(1, |exchange| Ok(track(exchange, &self.0, Sharing::Ssdp)?));
        told.into_iter().try_for_each(|told| told.map(|told| drop(std::hint::black_box(told))))
    }
}
