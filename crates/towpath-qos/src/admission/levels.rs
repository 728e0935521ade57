//! Static priority and RCSP: a delay budget per level, fixed.

use alloc::vec;
use alloc::vec::Vec;

use super::load::Load;
use crate::spec::limits::NANO;

/// What each level holds. Budgets are constants of the port, so that no level's promise depends
/// on what is admitted later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Levels {
    /// Reshaped before the scheduler (RCSP), tested by windows; else static priority.
    rcsp: bool,
    budgets_ns: Vec<u64>,
    channels: Vec<u32>,
    /// Σ bursts per level.
    burst_bits: Vec<u128>,
    /// Σ sustained rates per level.
    rate_bps: Vec<u128>,
    /// RCSP: bits that levels up to this one bring in a window of this one's budget.
    window_bits: Vec<u128>,
}

impl Levels {
    pub(super) fn new(budgets_ns: &[u64], rcsp: bool) -> Self {
        let n = budgets_ns.len();
        Self {
            rcsp,
            budgets_ns: budgets_ns.to_vec(),
            channels: vec![0; n],
            burst_bits: vec![0; n],
            rate_bps: vec![0; n],
            window_bits: vec![0; n],
        }
    }

    /// The least urgent level that promises `budget_ns`.
    pub(super) fn level_for(&self, budget_ns: u64) -> Option<usize> {
        self.budgets_ns.iter().rposition(|&budget| budget <= budget_ns)
    }

    pub(super) fn budget_ns(&self, level: usize) -> u64 {
        self.budgets_ns[level]
    }

    /// The most urgent level whose test passes, with its budget: the least that can be promised.
    pub(super) fn least(&self, load: &Load, port: (u64, u64)) -> Option<u64> {
        let fits = |&level: &usize| self.fits(load, level, port);
        (0..self.budgets_ns.len()).find(fits).map(|level| self.budgets_ns[level])
    }

    /// Whether every level in use still keeps its budget with `load` in `level`. Levels above it
    /// are blocked by one packet as before. `port` is (rate, largest packet).
    pub(super) fn fits(&self, load: &Load, level: usize, port: (u64, u64)) -> bool {
        let rates: u128 = self.rate_bps.iter().sum();
        rates + u128::from(load.rate_bps()) <= u128::from(port.0)
            && self.each(load, level, port, |_, due, sent| due <= sent)
    }

    /// By how much a load that fits at no level does not, at the level where that is least: the
    /// budget that is not kept, the bits that are due within it and those that can be sent.
    pub(super) fn tightest(&self, load: &Load, port: (u64, u64)) -> (u64, u128, u128) {
        let worst = |level| {
            let mut worst = (0_u128, 0_u64, 0_u128);
            self.each(load, level, port, |budget_ns, due, sent| {
                worst = worst.max((due.saturating_sub(sent), budget_ns, sent));
                true
            });
            worst
        };
        let (over, budget_ns, sent) =
            (0..self.budgets_ns.len()).map(worst).min().unwrap_or_default();
        (budget_ns, (sent + over).div_ceil(NANO), sent / NANO)
    }

    /// Tells, for `level` and every level in use below it, the budget, and in nanobits what is
    /// due within it with `load` in `level` and what is sent; until `go_on` does not.
    ///
    /// Static priority, not preemptive: `Σ_{≤m} b + L + d·Σ_{<m} r ≤ C·d`. RCSP:
    /// `Σ_{≤m} A(d) + L ≤ C·d`.
    fn each(
        &self,
        load: &Load,
        level: usize,
        port: (u64, u64),
        mut go_on: impl FnMut(u64, u128, u128) -> bool,
    ) -> bool {
        let (rate, blocking) = (u128::from(port.0), u128::from(port.1));
        let mut above_rate = self.rate_bps[..level].iter().sum::<u128>();
        let mut bursts = self.burst_bits[..level].iter().sum::<u128>();
        bursts += u128::from(load.slow.burst_bits);
        for m in level..self.budgets_ns.len() {
            let budget = u128::from(self.budgets_ns[m]);
            bursts += self.burst_bits[m];
            let due = if self.rcsp {
                (self.window_bits[m] + load.bits_in(self.budgets_ns[m]) + blocking) * NANO
            } else {
                (bursts + blocking) * NANO + above_rate * budget
            };
            let used = m == level || self.channels[m] > 0;
            if used && !go_on(self.budgets_ns[m], due, rate * budget) {
                return false;
            }
            above_rate += self.rate_bps[m];
            if m == level {
                // It counts as above from the next level on.
                above_rate += u128::from(load.rate_bps());
            }
        }
        true
    }

    /// As `fits` for every level in use, with nothing new.
    pub(super) fn holds(&self, port: (u64, u64)) -> bool {
        let none = Load::default();
        let first = self.channels.iter().position(|&n| n > 0);
        first.is_none_or(|level| self.fits(&none, level, port))
    }

    pub(super) fn add(&mut self, load: &Load, level: usize) {
        self.channels[level] += 1;
        self.burst_bits[level] += u128::from(load.slow.burst_bits);
        self.rate_bps[level] += u128::from(load.rate_bps());
        for m in level..self.budgets_ns.len() {
            self.window_bits[m] += load.bits_in(self.budgets_ns[m]);
        }
    }

    pub(super) fn remove(&mut self, load: &Load, level: usize) {
        self.channels[level] -= 1;
        self.burst_bits[level] -= u128::from(load.slow.burst_bits);
        self.rate_bps[level] -= u128::from(load.rate_bps());
        for m in level..self.budgets_ns.len() {
            self.window_bits[m] -= load.bits_in(self.budgets_ns[m]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Bucket;

    const S: u64 = 1_000_000_000;

    fn load(burst_bits: u64, rate_bps: u64) -> Load {
        let bucket = Bucket { burst_bits, rate_bps };
        Load::two(bucket, bucket, burst_bits, burst_bits)
    }

    /// Case `sp-s1` of the netcalc set: C = 100, classes (10, 12 000) and (30, 36 000), L 12 000.
    /// The first has 240; the second (48 000 + L)/90, where the case's last class has no one
    /// below it to block (1600/3) and a live port always does (2000/3).
    #[test]
    fn netcalc_static_priority_case() {
        let port = (100, 12_000);
        let mut levels = Levels::new(&[240 * S, 667 * S], false);
        assert!(levels.fits(&load(12_000, 10), 0, port));
        levels.add(&load(12_000, 10), 0);
        assert!(levels.fits(&load(36_000, 30), 1, port));
        let mut tight = Levels::new(&[240 * S, 666 * S], false);
        tight.add(&load(12_000, 10), 0);
        assert!(!tight.fits(&load(36_000, 30), 1, port));
        let mut last = Levels::new(&[240 * S, 1600 * S / 3 + 1], false);
        last.add(&load(12_000, 10), 0);
        assert!(last.fits(&load(36_000, 30), 1, (100, 0)));
        // A later, more urgent channel must not break the level below it.
        levels.add(&load(36_000, 30), 1);
        assert!(!levels.fits(&load(1000, 1), 0, port), "its own level is full");
        assert!(!levels.fits(&load(100, 0), 0, port));
    }

    #[test]
    fn a_saturated_priority_is_refused_and_not_divided_by() {
        let mut levels = Levels::new(&[S, 1000 * S], false);
        levels.add(&load(10, 100), 0);
        assert!(!levels.fits(&load(1, 1), 1, (100, 10)));
    }

    /// Zhang and Ferrari 1993: (⌈2/1⌉ + 1)·10 + 10 ≤ 20·2, and no more.
    #[test]
    fn rcsp_counts_packets_in_the_budget() {
        let levels = Levels::new(&[2 * S], true);
        assert!(levels.fits(&load(10, 10), 0, (20, 10)));
        assert!(!levels.fits(&load(10, 10), 0, (20, 11)));
    }
}
