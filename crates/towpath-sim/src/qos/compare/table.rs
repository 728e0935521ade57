//! A row per discipline.

use serde::{Deserialize, Serialize};
use towpath_qos::scheduler::Discipline;

use super::bench::Bench;
use super::churn::{Churn, churn};
use super::load::{Load, LoadError, Sending};
use super::region::{RegionPoint, region};
use crate::qos::histogram::{Histogram, Summary};

/// All disciplines under one load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// The load.
    pub load: Load,
    /// One row each.
    pub rows: Vec<Row>,
}

/// A discipline's figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its name on the command line.
    pub name: String,
    /// In words.
    pub title: String,
    /// Sends whenever a packet waits.
    pub work_conserving: bool,
    /// Its bound for a queue within (b, r); none where it has none.
    pub delay_bound: Option<String>,
    /// Its cost per packet, V queues backlogged.
    pub cost: String,
    /// One per class of the load.
    pub classes: Vec<ClassRow>,
    /// Shares of saturating queues.
    pub fairness: Fairness,
    /// What a rival that breaks its word does to the others.
    pub isolation: Isolation,
    /// Border of the schedulable region.
    pub region: Vec<RegionPoint>,
    /// Time per packet.
    pub churn: Vec<Churn>,
}

/// A class over all ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassRow {
    /// The class.
    pub class: String,
    /// Its deadline over all ports.
    pub deadline_ns: u64,
    /// Delay over all ports, all its channels together.
    pub delay: Summary,
    /// Greatest of any channel: its greatest delay minus its least.
    pub jitter_ns: u64,
    /// Packets beyond the deadline.
    pub beyond: u64,
    /// Packets lost.
    pub lost: u64,
}

/// Shares of queues that always have a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fairness {
    /// What each got, in millionths of the link.
    pub shares_ppm: Vec<u64>,
    /// What each should get by its weight.
    pub ideal_ppm: Vec<u64>,
    /// Greatest deviation from the ideal, in millionths of the ideal.
    pub error_ppm_max: u64,
}

/// Worst delay of the first class's channels beside one more of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// Which keeps its specification.
    pub calm_ns_max: u64,
    /// Which sends eight times as much.
    pub hostile_ns_max: u64,
    /// Packets of the others lost beside the hostile one.
    pub lost: u64,
}

/// Runs every discipline of `disciplines` under the load. Deterministic but for [`Row::churn`],
/// which `clock` (nanoseconds) measures and which is empty where there is none.
pub fn compare(
    load: &Load,
    disciplines: &[Discipline],
    mut clock: Option<&mut dyn FnMut() -> u64>,
) -> Result<Comparison, LoadError> {
    load.check()?;
    let mut rows = Vec::new();
    for discipline in disciplines.iter().copied() {
        let facts = discipline.facts();
        let mut churns = Vec::new();
        if let Some(clock) = &mut clock {
            for queues in &load.queues {
                let packets = u64::from(*queues).clamp(20_000, 200_000);
                churns.push(churn(discipline, *queues, packets, &mut **clock)?);
            }
        }
        rows.push(Row {
            name: facts.name.into(),
            title: facts.title.into(),
            work_conserving: facts.work_conserving,
            delay_bound: facts.delay_bound.map(Into::into),
            cost: facts.cost.into(),
            classes: classes(load, discipline)?,
            fairness: fairness(load, discipline)?,
            isolation: isolation(load, discipline)?,
            region: region(load, discipline)?,
            churn: churns,
        });
    }
    Ok(Comparison { load: load.clone(), rows })
}

fn classes(load: &Load, discipline: Discipline) -> Result<Vec<ClassRow>, LoadError> {
    let channels: u32 = load.classes.iter().map(|c| c.channels).sum();
    let queues = channels + load.hops * load.bulk_weights.len() as u32;
    let mut bench = Bench::new(load, discipline, load.hops, queues)?;
    let mut flows = Vec::new();
    for class in &load.classes {
        let mut of_class = Vec::new();
        for i in 0..u64::from(class.channels) {
            let phase_us = if class.sending == Sending::Greedy { 0 } else { i * 137 };
            of_class.push(bench.channel(class, phase_us, 1)?);
        }
        flows.push(of_class);
    }
    for port in 0..load.hops as usize {
        for weight in &load.bulk_weights {
            bench.bulk(port, *weight)?;
        }
    }
    bench.run_ms(load.duration_ms);
    let row = |(class, of_class): (&super::Class, &Vec<u32>)| {
        let mut delay = Histogram::new();
        let (mut jitter_ns, mut beyond, mut lost) = (0, 0, 0);
        for s in of_class.iter().filter_map(|f| bench.stats(*f)) {
            delay.merge(&s.delay);
            jitter_ns = s.jitter_ns().max(jitter_ns);
            beyond += s.beyond;
            lost += s.lost();
        }
        ClassRow {
            class: class.name.clone(),
            deadline_ns: class.deadline_us * 1000 * u64::from(load.hops),
            delay: delay.summary(),
            jitter_ns,
            beyond,
            lost,
        }
    };
    Ok(load.classes.iter().zip(&flows).map(row).collect())
}

fn fairness(load: &Load, discipline: Discipline) -> Result<Fairness, LoadError> {
    let alone = Load { classes: Vec::new(), ..load.clone() };
    let mut bench = Bench::new(&alone, discipline, 1, alone.bulk_weights.len() as u32)?;
    let weights = &alone.bulk_weights;
    let flows = weights.iter().map(|w| bench.bulk(0, *w)).collect::<Result<Vec<_>, _>>()?;
    bench.run_ms(load.duration_ms);
    let bytes = flows.iter().map(|f| bench.stats(*f).map_or(0, |s| s.delivered_bytes));
    let bytes: Vec<u64> = bytes.collect();
    let (sum, total): (u64, u64) =
        (bytes.iter().sum(), weights.iter().map(|w| u64::from(*w)).sum());
    let shares_ppm: Vec<u64> = bytes.iter().map(|b| b * 1_000_000 / sum.max(1)).collect();
    let ideal_ppm: Vec<u64> = weights.iter().map(|w| u64::from(*w) * 1_000_000 / total).collect();
    let errors = shares_ppm.iter().zip(&ideal_ppm).map(|(a, b)| a.abs_diff(*b) * 1_000_000 / b);
    let error_ppm_max = errors.max().unwrap_or(0);
    Ok(Fairness { shares_ppm, ideal_ppm, error_ppm_max })
}

fn isolation(load: &Load, discipline: Discipline) -> Result<Isolation, LoadError> {
    let Some(class) = load.classes.first() else {
        return Ok(Isolation { calm_ns_max: 0, hostile_ns_max: 0, lost: 0 });
    };
    let mut worst = [(0, 0); 2];
    for (times, worst) in [1, 8].into_iter().zip(&mut worst) {
        let mut bench = Bench::new(load, discipline, 1, class.channels + 1)?;
        let mut flows = Vec::new();
        for i in 0..class.channels {
            flows.push(bench.channel(class, u64::from(i) * 137, 1)?);
        }
        bench.channel(class, 0, times)?;
        bench.run_ms(load.duration_ms);
        for s in flows.iter().filter_map(|f| bench.stats(*f)) {
            *worst = (worst.0.max(s.delay.max()), worst.1 + s.lost());
        }
    }
    let [(calm_ns_max, _), (hostile_ns_max, lost)] = worst;
    Ok(Isolation { calm_ns_max, hostile_ns_max, lost })
}
