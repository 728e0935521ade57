//! Drifting clocks: a host's time is a linear function of simulated time.

use towpath_wire::Instant;

/// A host's clock. Invariant: strictly increasing, |drift| < 10⁶ ppm.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset_ns: u64,
    drift_ppm: i32,
}

const MILLION: i128 = 1_000_000;

impl Clock {
    /// A clock that shows `offset_ns` at simulated zero and gains `drift_ppm`.
    pub fn new(offset_ns: u64, drift_ppm: i32) -> Self {
        assert!(drift_ppm.abs() < 100_000, "a clock drifts by less than a tenth");
        Self { offset_ns, drift_ppm }
    }

    /// What it shows at simulated time `at`.
    pub fn local(&self, at: Instant) -> Instant {
        let t = i128::from(at.as_nanos());
        let local = i128::from(self.offset_ns) + t + t * i128::from(self.drift_ppm) / MILLION;
        Instant::from_nanos(local.clamp(0, u64::MAX.into()) as u64)
    }

    /// The simulated time at which it shows at least `local`.
    pub fn global(&self, local: Instant) -> Instant {
        if local == Instant::NEVER {
            return Instant::NEVER;
        }
        let t = (i128::from(local.as_nanos()) - i128::from(self.offset_ns)) * MILLION;
        let global = t / (MILLION + i128::from(self.drift_ppm)) + 2;
        Instant::from_nanos(global.clamp(0, u64::MAX.into()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_timer_never_fires_early_and_hardly_late(
            offset in 0..1u64 << 50,
            drift in -500..500i32,
            at in 0..1u64 << 45,
        ) {
            let clock = Clock::new(offset, drift);
            let local = clock.local(Instant::from_nanos(at));
            let back = clock.global(local);
            prop_assert!(clock.local(back) >= local);
            prop_assert!(back.as_nanos().abs_diff(at) <= 5);
        }
    }
}
