//! What a farm did, for people and programs.

use std::time::Duration;

use serde::Serialize;
use towpath_vm::{Ending, TaskExit};
use towpath_wire::HostId;

use super::plan::{HostCounts, HostStanding};

/// Failed items listed one by one.
pub const FAILED_LISTED_MAX: usize = 100;

/// What a farm did. Invariant: `items = skipped + succeeded + failed + not_run`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Items of the list.
    pub items: u64,
    /// Left out, because the job log tells that they succeeded before.
    pub skipped: u64,
    /// Items whose command exited with status 0.
    pub succeeded: u64,
    /// Items with another result.
    pub failed: u64,
    /// Items without a result: the farm was interrupted, or could not go on.
    pub not_run: u64,
    /// Attempts that were repeated because they failed, or could not be started on a host.
    pub retried: u64,
    /// Attempts that were repeated because their host was lost or refused them.
    pub host_lost_reruns: u64,
    /// A signal ended it.
    pub interrupted: bool,
    /// The rule after which nothing more was started; none where no rule ended it.
    pub halted: Option<String>,
    /// Why Towpath could not go on; none if it could.
    pub error: Option<String>,
    /// Time that it took.
    pub elapsed_s: f64,
    /// Results per second.
    pub items_per_s: f64,
    /// Time that commands ran: median.
    pub wall_us_p50: u64,
    /// Time that commands ran: 99 % took less.
    pub wall_us_p99: u64,
    /// Time that commands ran: the longest.
    pub wall_us_max: u64,
    /// Each host that took part.
    pub hosts: Vec<HostReport>,
    /// The first failed items, at most [`FAILED_LISTED_MAX`].
    pub failures: Vec<Failure>,
}

/// What a host did.
#[derive(Clone, Debug, Serialize)]
pub struct HostReport {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// `up`, `lost` or `excluded`.
    pub standing: &'static str,
    /// Items that succeeded there.
    pub succeeded: u64,
    /// Items that failed there.
    pub failed: u64,
    /// Attempts there that counted for nothing.
    pub dropped: u64,
    /// Time that commands ran there, together.
    pub busy_s: f64,
}

/// A failed item.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// Its number from 1.
    pub seq: u64,
    /// The item, as text.
    pub item: String,
    /// Where it had its result.
    pub host: String,
    /// Exit status as a shell would give it.
    pub exit: u8,
    /// How it ended.
    pub ending: String,
    /// Attempts that it took.
    pub attempts: u32,
}

impl HostReport {
    pub(crate) fn new(name: &str, id: HostId, standing: HostStanding, counts: HostCounts) -> Self {
        Self {
            name: name.to_string(),
            id: id.to_string(),
            standing: match standing {
                HostStanding::Up => "up",
                HostStanding::Lost => "lost",
                HostStanding::Excluded => "excluded",
            },
            succeeded: counts.succeeded,
            failed: counts.failed,
            dropped: counts.dropped,
            busy_s: Duration::from_micros(counts.busy_us).as_secs_f64(),
        }
    }
}

impl Report {
    /// Exit status of the farm: 0 when all succeeded, or as many as were enough; 1–100 so many
    /// failed, 101 more than 100 failed, 130 interrupted, 255 Towpath could not go on.
    pub fn exit_status(&self) -> u8 {
        if self.error.is_some() {
            255
        } else if self.interrupted {
            130
        } else if self.halted.as_ref().is_some_and(|rule| rule.contains("success")) {
            0
        } else {
            self.failed.min(101) as u8
        }
    }

    /// Lists a failed item, if there is room.
    pub(crate) fn list(&mut self, failure: Failure) {
        if self.failures.len() < FAILED_LISTED_MAX {
            self.failures.push(failure);
        }
    }

    pub(crate) fn dropped(&mut self, ending: &Ending) {
        match ending {
            Ending::HostLost | Ending::Unsure | Ending::Refused(_) => self.host_lost_reruns += 1,
            _ => self.retried += 1,
        }
    }
}

/// Times in buckets of equal ratio: a quantile is off by at most 1/16.
#[derive(Debug)]
pub(crate) struct WallTimes {
    buckets: Vec<u64>,
    count: u64,
    max_us: u64,
}

/// Buckets per power of two.
const PER_OCTAVE: u64 = 16;

impl WallTimes {
    pub(crate) fn new() -> Self {
        Self { buckets: vec![0; (PER_OCTAVE * 61) as usize], count: 0, max_us: 0 }
    }

    pub(crate) fn add(&mut self, exit: &TaskExit) {
        if matches!(exit.ending, Ending::NotStarted { .. } | Ending::HostLost | Ending::Refused(_))
        {
            return;
        }
        self.buckets[bucket(exit.wall_us)] += 1;
        self.count += 1;
        self.max_us = self.max_us.max(exit.wall_us);
    }

    /// Time that a share of `percent` does not exceed.
    pub(crate) fn quantile_us(&self, percent: u64) -> u64 {
        let wanted = (self.count * percent).div_ceil(100);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                return bucket_max_us(index as u64).min(self.max_us);
            }
        }
        0
    }

    pub(crate) fn fill(&self, report: &mut Report) {
        report.wall_us_p50 = self.quantile_us(50);
        report.wall_us_p99 = self.quantile_us(99);
        report.wall_us_max = self.max_us;
    }
}

fn bucket(us: u64) -> usize {
    if us < PER_OCTAVE {
        return us as usize;
    }
    let octave = u64::from(us.ilog2()) - 3;
    let within = (us >> (octave - 1)) - PER_OCTAVE;
    (octave * PER_OCTAVE + within) as usize
}

/// The longest time that falls into a bucket.
fn bucket_max_us(index: u64) -> u64 {
    let (octave, within) = (index / PER_OCTAVE, index % PER_OCTAVE);
    if octave == 0 {
        return within;
    }
    let next = u128::from(PER_OCTAVE + within + 1) << (octave - 1);
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exit(wall_us: u64) -> TaskExit {
        TaskExit { ending: Ending::Exited(0), wall_us }
    }

    #[test]
    fn the_exit_status_tells_how_many_failed() {
        let failed = |failed| Report { failed, ..Report::default() }.exit_status();
        assert_eq!(
            [failed(0), failed(1), failed(100), failed(101), failed(9999)],
            [0, 1, 100, 101, 101]
        );
        assert_eq!(Report { interrupted: true, failed: 3, ..Report::default() }.exit_status(), 130);
        let error = Some(String::from("disk full"));
        assert_eq!(Report { error, interrupted: true, ..Report::default() }.exit_status(), 255);
    }

    #[test]
    fn quantiles_of_nothing_are_zero() {
        assert_eq!(WallTimes::new().quantile_us(50), 0);
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_a_sixteenth(
            mut all in proptest::collection::vec(any::<u64>(), 1..60), p in 1u64..=100,
        ) {
            let mut times = WallTimes::new();
            for us in &all {
                times.add(&exit(*us));
            }
            all.sort_unstable();
            let exact = all[(all.len() as u64 * p).div_ceil(100) as usize - 1];
            let found = times.quantile_us(p);
            prop_assert!(found >= exact && u128::from(found) <= u128::from(exact) * 17 / 16 + 1);
        }
    }
}
