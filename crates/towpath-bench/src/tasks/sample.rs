//! One measurement of a row, and medians of several.

use serde::Serialize;

use super::super::figures::{median, us_at};

/// What was measured; what does not belong to the row is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Sample {
    /// Median, in microseconds.
    pub(super) us_p50: Option<f64>,
    /// What one in ten exceeds.
    pub(super) us_p90: Option<f64>,
    /// What one in a hundred exceeds.
    pub(super) us_p99: Option<f64>,
    /// Payload bytes per second, both directions of a round trip counted.
    pub(super) bytes_per_s: Option<f64>,
    /// How often the measured processes slept each time.
    pub(super) sleeps: Option<f64>,
    /// Processor time of the measured processes each time, in microseconds.
    pub(super) cpu_us: Option<f64>,
}

impl Sample {
    /// Of durations in nanoseconds.
    pub(super) fn of(mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        let at = |share| us_at(&ns, share);
        Self { us_p50: at(0.5), us_p90: at(0.9), us_p99: at(0.99), ..Self::default() }
    }

    /// Each moved so many bytes of payload.
    pub(super) fn moving(mut self, bytes: usize) -> Self {
        self.bytes_per_s = self.us_p50.filter(|us| *us > 0.0).map(|us| bytes as f64 / us * 1e6);
        self
    }

    /// So many sleeps were seen in so many times.
    pub(super) fn sleeping(mut self, sleeps: u64, times: u64) -> Self {
        self.sleeps = (times > 0).then(|| sleeps as f64 / times as f64);
        self
    }

    /// Other processes slept, too.
    pub(super) fn also_slept(mut self, sleeps: u64, times: u64) -> Self {
        let more = Self::default().sleeping(sleeps, times).sleeps;
        self.sleeps = self.sleeps.zip(more).map(|(a, b)| a + b);
        self
    }

    /// Each figure's median over samples that have it.
    pub(super) fn median(samples: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> Option<f64>| median(samples.iter().filter_map(figure));
        Self {
            us_p50: of(|s| s.us_p50),
            us_p90: of(|s| s.us_p90),
            us_p99: of(|s| s.us_p99),
            bytes_per_s: of(|s| s.bytes_per_s),
            sleeps: of(|s| s.sleeps),
            cpu_us: of(|s| s.cpu_us),
        }
    }
}

/// How often this process has given its processor up to wait for something.
pub(super) fn sleeps() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
    Ok(line.unwrap_or("0").trim().parse()?)
}

/// Nanoseconds of the clock that all processes of this machine share.
pub(super) fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_what_was_seen() {
        let s = Sample::of((1..=1000).rev().map(|n| n * 1000).collect());
        assert_eq!((s.us_p50, s.us_p90, s.us_p99), (Some(501.0), Some(901.0), Some(991.0)));
        let s = s.moving(1002).sleeping(30, 10).also_slept(10, 10);
        assert_eq!((s.bytes_per_s, s.sleeps), (Some(2e6), Some(4.0)));
        assert_eq!(Sample::of(vec![]), Sample::default());
    }

    #[test]
    fn medians_are_of_what_is_there() {
        let some = |x| Sample { us_p50: Some(x), ..Sample::default() };
        assert_eq!(Sample::median(&[some(9.0), some(1.0), some(2.0)]).us_p50, Some(2.0));
        assert_eq!(Sample::median(&[some(1.0), some(2.0)]).us_p50, Some(1.5));
        assert_eq!(Sample::median(&[some(1.0)]).sleeps, None);
    }
}
