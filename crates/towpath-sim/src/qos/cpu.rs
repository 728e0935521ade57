//! The processor of a host as packets see it: work first come, first served, between the times
//! in which something else holds the processor.
//!
//! The second source found that what broke its delays was not the network but the scheduler's
//! thread being switched out (Cui 1999, table 5.2). So the host model is what a packet waits for:
//! its own cost, the packets before it, and the times away.

use serde::{Deserialize, Serialize};
use towpath_proto::Rng;

use crate::scenario::between;

/// How the packet work shares its processor with everything else. Ranges are `[least, most]`,
/// drawn evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Sharing {
    /// Nothing else runs.
    #[default]
    Dedicated,
    /// An ordinary thread beside others: runs for a while, then is switched out for a while.
    TimeShared {
        /// How long it runs at a time.
        #[serde(deserialize_with = "towpath_qos::file::pair")]
        run_us: [u64; 2],
        /// How long the others hold the processor.
        #[serde(deserialize_with = "towpath_qos::file::pair")]
        away_us: [u64; 2],
    },
    /// Above all others, but kept out by sections that cannot be preempted.
    Priority {
        /// Time between two such sections.
        #[serde(deserialize_with = "towpath_qos::file::pair")]
        every_us: [u64; 2],
        /// Their length.
        #[serde(deserialize_with = "towpath_qos::file::pair")]
        blocking_us: [u64; 2],
    },
    /// A reservation: `runtime_us` in each period, somewhere in it. Never away for longer than
    /// 2·(period − runtime).
    Reserved {
        /// Processor time per period.
        runtime_us: u64,
        /// The period.
        period_us: u64,
    },
}

impl Sharing {
    /// What is wrong with it: field, and what it must be.
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        let ordered = |r: &[u64; 2]| r[0] <= r[1] && r[1] <= 3_600_000_000;
        match self {
            Self::Dedicated => None,
            Self::TimeShared { run_us, away_us } => {
                if !ordered(run_us) || run_us[1] == 0 {
                    return Some(("run_us", "[least, most], most above 0, at most an hour"));
                }
                (!ordered(away_us)).then_some(("away_us", "[least, most], at most an hour"))
            }
            Self::Priority { every_us, blocking_us } => {
                if !ordered(every_us) || every_us[1] == 0 {
                    return Some(("every_us", "[least, most], most above 0, at most an hour"));
                }
                (!ordered(blocking_us)).then_some(("blocking_us", "[least, most], at most an hour"))
            }
            Self::Reserved { runtime_us, period_us } => {
                (*runtime_us == 0 || runtime_us > period_us || *period_us > 3_600_000_000)
                    .then_some(("runtime_us", "above 0 and at most period_us, at most an hour"))
            }
        }
    }
}

/// One processor. Invariants: `free_at` never decreases; the time away under consideration ends
/// after `free_at`, or is the last one looked at.
#[derive(Debug)]
pub struct Cpu {
    sharing: Sharing,
    rng: Rng,
    /// When everything accepted so far will be done.
    free_at: u64,
    /// The next time away, `[start, end)`.
    away: (u64, u64),
    busy_ns: u64,
}

impl Cpu {
    /// A processor with its own stream of random numbers.
    pub fn new(sharing: Sharing, rng: Rng) -> Self {
        let mut cpu = Self { sharing, rng, free_at: 0, away: (0, 0), busy_ns: 0 };
        cpu.away = cpu.next_away(0);
        cpu
    }

    /// Takes work of `cost_ns` in at `now` (both ns) and says when it will be done.
    pub fn run(&mut self, now: u64, cost_ns: u64) -> u64 {
        let mut at = self.free_at.max(now);
        let mut left = cost_ns;
        self.busy_ns = self.busy_ns.saturating_add(cost_ns);
        loop {
            while self.away.1 <= at && self.away.0 != u64::MAX {
                self.away = self.next_away(self.away.1);
            }
            let (start, end) = self.away;
            if at < start && left <= start - at {
                self.free_at = at + left;
                return self.free_at;
            }
            left -= start.saturating_sub(at);
            at = end;
        }
    }

    /// When everything accepted so far will be done, ns.
    pub const fn free_at(&self) -> u64 {
        self.free_at
    }

    /// Processor time of all work accepted so far.
    pub const fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// The time away after one that ended at `from`.
    fn next_away(&mut self, from: u64) -> (u64, u64) {
        let mut draw = |range: [u64; 2]| between(&mut self.rng, range[0] * 1000, range[1] * 1000);
        match self.sharing {
            Sharing::Dedicated => (u64::MAX, u64::MAX),
            Sharing::TimeShared { run_us: run, away_us: away }
            | Sharing::Priority { every_us: run, blocking_us: away } => {
                let start = from + draw(run).max(1);
                (start, start + draw(away))
            }
            Sharing::Reserved { runtime_us, period_us } => {
                // `from` is the start of this period's runtime; the next lies in the next period.
                let (runtime, period) = (runtime_us * 1000, period_us * 1000);
                let next = (from / period + 1) * period;
                let offset = self.rng.below(period - runtime + 1);
                (from + runtime, next + offset)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_waits_for_the_work_before_it() {
        let mut cpu = Cpu::new(Sharing::Dedicated, Rng::new(1, 1));
        assert_eq!([cpu.run(10, 5), cpu.run(11, 5), cpu.run(30, 5)], [15, 20, 35]);
    }

    #[test]
    fn a_time_away_holds_up_what_runs_into_it() {
        let sharing = Sharing::TimeShared { run_us: [10, 10], away_us: [90, 90] };
        let mut cpu = Cpu::new(sharing, Rng::new(1, 1));
        // Runs 0-10, away 10-100, runs 100-110.
        assert_eq!(cpu.run(8_000, 1_000), 9_000);
        assert_eq!(cpu.run(9_000, 4_000), 103_000);
        assert_eq!(cpu.run(150_000, 1_000), 201_000);
    }

    #[test]
    fn a_reservation_gives_its_runtime_in_every_period_and_no_more() {
        let sharing = Sharing::Reserved { runtime_us: 300, period_us: 1000 };
        let mut cpu = Cpu::new(sharing, Rng::new(3, 1));
        let mut last = 0;
        for i in 1..2000u64 {
            let done = cpu.run(0, 300_000);
            // Work of one runtime ends in each period, so never more than 2(P - Q) + Q apart.
            assert!(done - last <= 1_700_000, "{i}: {last} {done}");
            assert!(done.abs_diff(i * 1_000_000) <= 1_000_000, "{i}: {done}");
            last = done;
        }
    }

    #[test]
    fn a_fault_names_the_field() {
        assert_eq!(
            Sharing::Reserved { runtime_us: 2, period_us: 1 }.fault().unwrap().0,
            "runtime_us"
        );
        let none = Sharing::TimeShared { run_us: [0, 0], away_us: [1, 1] };
        assert_eq!(none.fault().unwrap().0, "run_us");
        assert_eq!(Sharing::Dedicated.fault(), None);
    }
}
