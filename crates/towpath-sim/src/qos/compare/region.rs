//! The schedulable region: which mixes of two classes meet every deadline.

use serde::{Deserialize, Serialize};
use towpath_qos::scheduler::Discipline;

use super::bench::Bench;
use super::load::{Load, LoadError};

/// So many channels of the first class still go with so many of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionPoint {
    /// Channels of the first class.
    pub first: u32,
    /// Most channels of the second.
    pub second: u32,
    /// Sum of their sustained rates, in millionths of the link.
    pub load_ppm: u64,
}

/// The border of the region, found by bisection. All bursts start at once, behind a bulk packet
/// that has just begun: the worst there is for one port. Sources are greedy, so a few bursts
/// decide; a run lasts ten of the longest deadlines.
pub(super) fn region(load: &Load, discipline: Discipline) -> Result<Vec<RegionPoint>, LoadError> {
    let [first_max, second_max] = load.region_max;
    let mut points = Vec::new();
    let mut most = second_max;
    let step = first_max.div_ceil(12).max(1);
    for first in (0..=first_max).step_by(step as usize) {
        if !meets(load, discipline, [first, 0])? {
            break;
        }
        // More of the first class never leaves room for more of the second.
        let (mut fits, mut fails) = (0, most + 1);
        while fails - fits > 1 {
            let middle = fits.midpoint(fails);
            if meets(load, discipline, [first, middle])? {
                fits = middle;
            } else {
                fails = middle;
            }
        }
        most = fits;
        let rates = [first, fits].into_iter().zip(&load.classes);
        let sum: u128 = rates.map(|(n, c)| u128::from(n) * u128::from(c.rate_bps)).sum();
        let load_ppm = (sum * 1_000_000 / u128::from(load.link_bps)) as u64;
        points.push(RegionPoint { first, second: fits, load_ppm });
    }
    Ok(points)
}

/// Whether so many channels of the first two classes meet all deadlines over one port.
fn meets(load: &Load, discipline: Discipline, channels: [u32; 2]) -> Result<bool, LoadError> {
    let queues = channels[0] + channels[1] + load.bulk_weights.len() as u32;
    let mut bench = Bench::new(load, discipline, 1, queues)?;
    for weight in &load.bulk_weights {
        bench.bulk(0, *weight)?;
    }
    let mut flows = Vec::new();
    let mut deadline_us = 0;
    for (n, class) in channels.into_iter().zip(&load.classes) {
        let mut class = class.clone();
        class.sending = super::Sending::Greedy;
        deadline_us = deadline_us.max(class.deadline_us);
        for _ in 0..n {
            flows.push(bench.channel(&class, 1, 1)?);
        }
    }
    bench.run_ms((deadline_us / 100).max(2));
    let met = |f: &u32| bench.stats(*f).is_some_and(|s| s.beyond == 0 && s.lost() == 0);
    Ok(flows.iter().all(met))
}
