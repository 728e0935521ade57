//! A video trace or delivery schedule: how much has been sent by when.

use core::time::Duration;

use alloc::vec::Vec;

use towpath_wire::ByteSize;
use towpath_wire::units::nanos;

use super::buckets::{BUCKETS_MAX, Bucket, Buckets};
use super::limits::{self, NANO, SpecError};

/// Most points of a schedule.
pub const POINTS_MAX: usize = 1 << 20;

/// Points (time, cumulative bits): the plan is straight between them, and jumps where two have
/// the same time. It is sent once, in packets of at most `packet` bits, each planned for when the
/// plan reaches its first bit, in whole ns. A late packet moves the rest with it.
///
/// `A(t) = max over windows of t + 1 ns of the plan's rise + packet`. Invariants: 2 to
/// [`POINTS_MAX`] points;
/// times and amounts do not fall; the last amount is above the first, which is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// (time in ns, cumulative bits).
    pub(super) points: Vec<(u64, u64)>,
    pub(super) packet_bits: u64,
    buckets: Buckets,
}

impl Schedule {
    /// From points (time since the start, bytes sent until then) and the largest packet.
    pub fn new(points: &[(Duration, ByteSize)], packet_max: ByteSize) -> Result<Self, SpecError> {
        if points.len() < 2 || points.len() > POINTS_MAX {
            let (what, count) = ("points", points.len());
            return Err(SpecError::Count { what, count, least: 2, most: POINTS_MAX });
        }
        let packet_bits = limits::size("max_bytes", packet_max)?;
        let mut plan: Vec<(u64, u64)> = Vec::with_capacity(points.len());
        for (index, &(at, sent)) in points.iter().enumerate() {
            let (at_ns, bytes) = (nanos(at), sent.as_bytes());
            for (what, value, limit) in [
                ("time_ns", at_ns, limits::INTERVAL_NS_MAX),
                ("cumulative bytes", bytes, limits::SIZE_BITS_MAX / 8),
            ] {
                if value > limit {
                    return Err(SpecError::TooLarge { what, value: value.into(), limit });
                }
            }
            let (before_ns, before) = plan.last().copied().unwrap_or((0, 0));
            for (what, value, before) in
                [("time_ns", at_ns, before_ns), ("cumulative bytes", bytes, before / 8)]
            {
                if value < before {
                    return Err(SpecError::Order { what, index, value, before });
                }
            }
            plan.push((at_ns, bytes * 8));
        }
        if plan[0].1 != 0 {
            // Whatever is there at once is a jump at the first instant.
            plan.insert(0, (plan[0].0, 0));
        }
        let &[(start_ns, _), .., (end_ns, total)] = &plan[..] else {
            return Err(SpecError::Zero { what: "cumulative bytes" });
        };
        if total == 0 {
            return Err(SpecError::Zero { what: "cumulative bytes" });
        }
        let buckets = hull(&plan, packet_bits, total, end_ns - start_ns);
        Ok(Self { points: plan, packet_bits, buckets })
    }

    /// Most bits in any window: exact, in time linear in the points.
    pub(super) fn bits_in(&self, window_ns: u64) -> u128 {
        let window = window_ns.saturating_add(1);
        // The rise over a window is piecewise linear in its start, so that it is largest where
        // the window starts or ends at a point.
        let (mut most, mut ahead, mut behind) = (0, Cursor::default(), Cursor::default());
        for &(at, bits) in &self.points {
            let until = ahead.upper(&self.points, at.saturating_add(window));
            most = most.max(until.saturating_sub(nano(bits)));
            if at >= window {
                let since = behind.lower(&self.points, at - window);
                most = most.max(nano(bits).saturating_sub(since));
            } else {
                most = most.max(nano(bits));
            }
        }
        most.div_ceil(NANO) + u128::from(self.packet_bits)
    }

    pub(super) fn buckets(&self) -> Buckets {
        self.buckets
    }

    /// Nanobits that the plan has reached by `at_ns`.
    #[cfg(test)]
    fn reached(&self, at_ns: u64) -> u128 {
        Cursor::default().upper(&self.points, at_ns)
    }
}

const fn nano(bits: u64) -> u128 {
    bits as u128 * NANO
}

/// Walks the plan forwards. Amounts between points are in nanobits.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    next: usize,
}

impl Cursor {
    /// Nanobits at `at_ns`, rounded up, after any jump there. Calls must not go back in time.
    fn upper(&mut self, plan: &[(u64, u64)], at_ns: u64) -> u128 {
        while plan.get(self.next).is_some_and(|p| p.0 <= at_ns) {
            self.next += 1;
        }
        self.between(plan, at_ns, true)
    }

    /// Nanobits at `at_ns`, rounded down, before any jump there.
    fn lower(&mut self, plan: &[(u64, u64)], at_ns: u64) -> u128 {
        while plan.get(self.next).is_some_and(|p| p.0 < at_ns) {
            self.next += 1;
        }
        self.between(plan, at_ns, false)
    }

    fn between(self, plan: &[(u64, u64)], at_ns: u64, up: bool) -> u128 {
        let Some(&(from_ns, from)) = self.next.checked_sub(1).and_then(|i| plan.get(i)) else {
            return 0;
        };
        let Some(&(to_ns, to)) = plan.get(self.next) else { return nano(from) };
        let (part, whole) = (u128::from(at_ns - from_ns), u128::from(to_ns - from_ns));
        let risen = nano(to - from) / whole.max(1) * part;
        let rest = nano(to - from) % whole.max(1) * part;
        let rest = if up { rest.div_ceil(whole.max(1)) } else { rest / whole.max(1) };
        nano(from) + risen + rest
    }
}

/// Buckets around the plan: σ(ρ) for rates between mean and peak.
fn hull(plan: &[(u64, u64)], packet_bits: u64, total: u64, length_ns: u64) -> Buckets {
    // From one time to the next with what jumps there: a plan of nothing but jumps has a rate.
    let mut after = plan.chunk_by(|a, b| a.0 == b.0).filter_map(|same| same.last());
    let (mut before, mut peak) = (after.next().copied().unwrap_or_default(), 1);
    for &point in after {
        peak = limits::rate_of(point.1 - before.1, point.0 - before.0).max(peak);
        before = point;
    }
    let mean = limits::rate_of(total, length_ns).clamp(1, peak);
    let mut lines = [Bucket::default(); BUCKETS_MAX];
    for (step, line) in lines.iter_mut().enumerate() {
        // Rates on a quadratic scale, dense near the mean where σ changes most.
        let (step, last) = (step as u128, BUCKETS_MAX as u128 - 1);
        let rate = u128::from(mean) + u128::from(peak - mean) * step * step / (last * last);
        let rate_bps = rate as u64;
        *line = Bucket { burst_bits: sigma(plan, rate_bps).saturating_add(packet_bits), rate_bps };
        // The window's rounding: one nanosecond more.
        line.burst_bits = u64::try_from(line.bits_in(1)).unwrap_or(u64::MAX);
    }
    Buckets::least(&lines)
}

/// The least σ with `A(t) ≤ σ + ρ·t` for a plan: one pass (Cruz 1991).
fn sigma(plan: &[(u64, u64)], rho_bps: u64) -> u64 {
    let mut lowest = i128::MAX;
    let mut sigma = 0;
    for &(at_ns, bits) in plan {
        let given = i128::from(rho_bps) * i128::from(at_ns);
        let over = i128::from(bits) * NANO.cast_signed() - given;
        lowest = lowest.min(over);
        sigma = sigma.max(over - lowest);
    }
    u64::try_from(sigma.unsigned_abs().div_ceil(NANO)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(points: &[(u64, u64)], packet: u64) -> Schedule {
        let points: Vec<_> = points
            .iter()
            .map(|&(t, b)| (Duration::from_nanos(t), ByteSize::from_bytes(b)))
            .collect();
        Schedule::new(&points, ByteSize::from_bytes(packet)).expect("valid")
    }

    #[test]
    fn a_jump_counts_whole_and_a_slope_in_part() {
        let plan = schedule(&[(0, 0), (1000, 100), (1000, 300), (2000, 400)], 10);
        assert_eq!(plan.bits_in(0), 200 * 8 + 80 + 1);
        assert_eq!(plan.bits_in(500), (200 + 50) * 8 + 80 + 1);
        assert_eq!(plan.bits_in(10_000), 400 * 8 + 80);
    }

    /// 1000 bytes at once each ms for a second: 8 Mbit/s, however few of them may be sent.
    #[test]
    fn jumps_alone_have_a_rate() {
        let jump = |k: u64| [(k * 1_000_000, k * 1000), (k * 1_000_000, (k + 1) * 1000)];
        let points: std::vec::Vec<_> = (0..1000).flat_map(jump).collect();
        let plan = schedule(&points, 1000);
        let slowest = plan.buckets().slowest();
        assert!((8_000_000..8_010_000).contains(&slowest.rate_bps), "{slowest:?}");
        assert!(slowest.burst_bits <= 3 * 8000, "{slowest:?}");
    }

    #[test]
    fn a_first_amount_is_a_jump() {
        assert_eq!(schedule(&[(5, 7), (10, 7)], 1).bits_in(0), 7 * 8 + 8);
    }

    proptest! {
        #[test]
        fn windows_and_buckets_bound_the_plan(
            steps in proptest::collection::vec((0u64..50, 0u64..200), 2..12),
            from in 0u64..400, window in 0u64..400,
        ) {
            let (mut t, mut sent) = (0, 0);
            let mut points = std::vec![(0, 0)];
            for (dt, more) in steps {
                (t, sent) = (t + dt, sent + more);
                points.push((t, sent));
            }
            prop_assume!(sent > 0);
            let plan = schedule(&points, 1);
            let before = if from == 0 { 0 } else { plan.reached(from - 1) };
            let rise = plan.reached(from + window) - before;
            prop_assert!(plan.bits_in(window) * NANO >= rise);
            prop_assert!(plan.buckets().bits_in(window) >= plan.bits_in(window));
        }
    }
}
