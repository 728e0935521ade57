//! Service curves of two pieces, in integers, and the deadlines that follow from them.
//!
//! A concave curve is the lesser of two lines through its knee, and the paper's deadline curve,
//! the least of all the curves that began with a backlog (eq. 5), is the lesser of their first
//! lines and of their second ones. Lines of one slope never cross, so of each only the lowest
//! counts. A line that rises a byte each `cost` needs no more than the time at which it had risen
//! to what was served: a clock. Two clocks are then the whole deadline curve, exactly, whatever
//! number of backlogs came before; no crossing is computed, and nothing is rounded to bytes, which
//! at low rates are long: at 175 kbit/s one byte lasts 46 µs.
//!
//! A convex curve is here flat up to its knee. Its second line alone sets deadlines, as every
//! byte lies behind the knee, and the same line begun at once (the paper's eligible curve) says
//! which packets are eligible. The comparison of two such curves is that of these lines too, not
//! of the flat pieces: those meet at no byte.

use core::time::Duration;

use towpath_wire::units::nanos;
use towpath_wire::{ByteSize, Rate};

use crate::scheduler::contract::{ConfigError, DELAY_MAX, QueueConfig, RATE_MAX, within};
use crate::scheduler::fixed::{FRACTION, Fine, cost_per_byte};

/// A service curve of two pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceCurve {
    /// Time per byte on the first line, 2⁻⁴⁰ ns; zero where that sets no deadline: the curve is
    /// convex or straight.
    first_cost: u64,
    /// Time per byte on the second line, 2⁻⁴⁰ ns.
    second_cost: u64,
    /// Concave: how long before the start the second line is at zero. Else: how long behind it.
    /// 2⁻⁸ ns.
    shift: u64,
}

/// Fraction bits of a shift.
const SHIFT_FRACTION: u32 = 8;

/// A shift of `time`, in 2⁻⁴⁰ ns, rounded up where deadlines come earlier with it.
fn shift(time: u128) -> Result<u64, ConfigError> {
    let shift = time.div_ceil(1 << (FRACTION - SHIFT_FRACTION));
    let ns = u64::try_from(shift >> SHIFT_FRACTION).unwrap_or(u64::MAX);
    within("burst over rate in ns", ns, 0, SHIFT_MAX_NS)?;
    Ok(shift as u64)
}

/// Longest first piece, 4.9 hours, as long as any time in admission: what is due by then still has
/// its place in the order of keys.
const KNEE_MAX_NS: u64 = 1 << 44;

/// Longest time that a burst stands for at its rate, two years.
const SHIFT_MAX_NS: u64 = (1 << 56) - 1;

impl ServiceCurve {
    /// The curve of a queue: its `first` piece and then its `rate`; without one, from the paper's
    /// (umax, dmax, rate): `burst` bytes within `delay`, then `rate`; without burst, `rate`
    /// throughout.
    pub fn new(config: &QueueConfig) -> Result<Self, ConfigError> {
        match config.first {
            Some((first, knee)) => Self::from_knee(first, knee, config.rate),
            None => Self::from_burst(config.burst, config.delay, config.rate),
        }
    }

    fn from_knee(first: Rate, knee: Duration, rate: Rate) -> Result<Self, ConfigError> {
        let second_cost = cost_per_byte(rate)?;
        within("first piece in ns", nanos(knee), 0, KNEE_MAX_NS)?;
        let knee = u128::from(nanos(knee)) << FRACTION;
        let (first, rate) = (first.as_bps(), rate.as_bps());
        if first == 0 || first == rate {
            let shift = shift(if first == 0 { knee } else { 0 })?;
            return Ok(Self { first_cost: 0, second_cost, shift });
        }
        within("first piece in bit/s, unless it is 0,", first, rate, RATE_MAX.as_bps())?;
        // m1·x = m2·(x + shift); up, as a deadline must not be late.
        let shift = shift((knee * u128::from(first - rate)).div_ceil(u128::from(rate)))?;
        Ok(Self { first_cost: cost_per_byte(Rate::from_bps(first))?, second_cost, shift })
    }

    fn from_burst(burst: ByteSize, delay: Duration, rate: Rate) -> Result<Self, ConfigError> {
        let second_cost = cost_per_byte(rate)?;
        let bytes = burst.as_bytes();
        if bytes == 0 {
            return Ok(Self { first_cost: 0, second_cost, shift: 0 });
        }
        within("burst_bytes", bytes, 1, u64::from(u32::MAX))?;
        within("delay_ns", nanos(delay), 1, nanos(DELAY_MAX))?;
        let knee = u128::from(nanos(delay)) << FRACTION;
        let alone = u128::from(bytes) * u128::from(second_cost);
        if alone <= knee {
            return Ok(Self { first_cost: 0, second_cost, shift: shift(knee - alone)? });
        }
        let first_bps = u128::from(bytes) * 8_000_000_000 / u128::from(nanos(delay));
        let first_bps = u64::try_from(first_bps).unwrap_or(u64::MAX);
        within("burst_bytes / delay in bit/s", first_bps, 0, RATE_MAX.as_bps())?;
        let first_cost = knee.div_ceil(u128::from(bytes)) as u64;
        Ok(Self { first_cost, second_cost, shift: shift(alone - knee)? })
    }

    /// Whether there is none.
    pub(super) const fn is_none(&self) -> bool {
        self.second_cost == 0
    }

    #[inline]
    const fn is_concave(&self) -> bool {
        self.first_cost > 0
    }

    /// A time on the second line of a concave curve, from that of the line begun at zero.
    #[inline]
    const fn earlier(&self, time: Fine) -> Fine {
        Fine(time.0.saturating_sub(if self.is_concave() { self.shift() } else { 0 }))
    }

    #[inline]
    const fn shift(&self) -> u128 {
        (self.shift as u128) << (FRACTION - SHIFT_FRACTION)
    }

    /// Bytes promised within `ns` of the start of a backlog, rounded down.
    pub fn bytes_in(&self, ns: u64) -> u64 {
        let at = u128::from(ns) << FRACTION;
        let rise = |time: u128, cost: u64| (time / u128::from(cost.max(1))) as u64;
        if self.first_cost == 0 {
            rise(at.saturating_sub(self.shift()), self.second_cost)
        } else {
            rise(at, self.first_cost).min(rise(at + self.shift(), self.second_cost))
        }
    }
}

/// A leaf's deadline and eligible curves: when each line of its service curve, begun without its
/// shift, has risen to what real time served so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    first: Fine,
    second: Fine,
}

impl Lines {
    /// Of a curve that begins at `at`, nothing before it counting.
    pub fn new(at: Fine) -> Self {
        Self { first: at, second: at }
    }

    /// A backlog begins: the curve begun now is owed, where it is less than what was owed.
    #[inline]
    pub fn start(&mut self, at: Fine) {
        self.first = self.first.max(at);
        self.second = self.second.max(at);
    }

    /// From when on the head is eligible.
    #[inline]
    pub fn eligible(&self, of: &ServiceCurve) -> Fine {
        self.first.max(of.earlier(self.second))
    }

    /// When a head of `bytes` is due.
    #[inline]
    pub fn due(&self, of: &ServiceCurve, bytes: u32) -> Fine {
        let first = self.first.after(bytes, of.first_cost);
        let second = of.earlier(self.second.after(bytes, of.second_cost));
        Fine(first.max(second).0 + if of.is_concave() { 0 } else { of.shift() })
    }

    /// Real time serves `bytes`.
    #[inline]
    pub fn serve(&mut self, of: &ServiceCurve, bytes: u32) {
        self.first = self.first.after(bytes, of.first_cost);
        self.second = self.second.after(bytes, of.second_cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use towpath_wire::Instant;

    fn curve(mbps: u64, burst: u64, delay_ms: u64) -> ServiceCurve {
        let (burst, delay) = (ByteSize::from_bytes(burst), Duration::from_millis(delay_ms));
        ServiceCurve::from_burst(burst, delay, Rate::from_mbps(mbps)).unwrap()
    }

    fn knee(first_bps: u64, knee_ns: u64, bps: u64) -> ServiceCurve {
        let first = Some((Rate::from_bps(first_bps), Duration::from_nanos(knee_ns)));
        let config = QueueConfig { first, rate: Rate::from_bps(bps), ..QueueConfig::default() };
        ServiceCurve::new(&config).unwrap()
    }

    fn at(ns: u64) -> Fine {
        Fine::from_instant(Instant::from_nanos(ns))
    }

    #[test]
    fn concave_and_convex_from_burst_delay_and_rate() {
        // 10 000 B in 5 ms are 16 Mbit/s, then 8 Mbit/s = 1 B/µs.
        let concave = curve(8, 10_000, 5);
        assert_eq!(concave.bytes_in(2_500_001), 5_000);
        assert_eq!(concave.bytes_in(5_000_001), 10_000);
        assert_eq!(concave.bytes_in(6_000_001), 11_000);
        // 1000 B alone take 1 ms: nothing for 4 ms, then 8 Mbit/s.
        let convex = curve(8, 1_000, 5);
        assert_eq!(convex.bytes_in(4_000_000), 0);
        assert_eq!(convex.bytes_in(5_000_001), 1_000);
    }

    #[test]
    fn both_forms_of_a_curve_are_one() {
        assert_eq!(knee(16_000_000, 5_000_000, 8_000_000), curve(8, 10_000, 5));
        assert_eq!(knee(0, 4_000_000, 8_000_000), curve(8, 1_000, 5));
        assert_eq!(knee(8_000_000, 4_000_000, 8_000_000), curve(8, 0, 0));
        let first = Some((Rate::from_bps(7_999_999), Duration::from_nanos(1)));
        let config = QueueConfig { first, rate: Rate::from_mbps(8), ..QueueConfig::default() };
        let refused = ServiceCurve::new(&config).unwrap_err();
        let value = 7_999_999;
        let (min, max) = (8_000_000, RATE_MAX.as_bps());
        let name = "first piece in bit/s, unless it is 0,";
        assert_eq!(refused, ConfigError::OutOfRange { name, value, min, max });
    }

    #[test]
    fn deadlines_by_hand() {
        // 16 Mbit/s (2 B/µs) for 5 ms, then 8 (1 B/µs).
        let of = curve(8, 10_000, 5);
        let mut lines = Lines::new(at(1_000_000));
        assert_eq!(lines.due(&of, 5_000), at(3_500_000));
        assert_eq!(lines.due(&of, 11_000), at(7_000_000));
        lines.serve(&of, 10_000);
        assert_eq!((lines.eligible(&of), lines.due(&of, 1_000)), (at(6_000_000), at(7_000_000)));
        // Idle to 8 ms: 2000 B of the burst are back, as at 8 Mbit/s, then it is 8 again.
        lines.start(at(8_000_000));
        assert_eq!(lines.due(&of, 2_000), at(9_000_000));
        assert_eq!(lines.due(&of, 4_000), at(10_000_000));
        assert_eq!(lines.due(&of, 6_000), at(12_000_000));
    }

    /// Two packets of 64 B within a bucket of 542 bits at 175 342 bit/s: the second one comes when
    /// 61.7 B of the burst are back, 2.3 B short, which are due at the second line: 22 µs after
    /// the arrival, 1 µs later than at the first slope. Curves whose knees were rounded to bytes
    /// said 66 µs, and up to a byte, 46 µs, more with each such backlog: 610 µs with the twelfth
    /// here. That was one packet of ten million behind its promise in the simulator.
    #[test]
    fn backlogs_before_leave_no_rounding_behind() {
        let of = knee(24_611_752, 22_022, 175_342);
        let arrivals = [
            0, 2_748_914, 5_826_221, 8_709_898, 11_508_937, 14_442_294, 17_348_953, 20_268_961,
            23_290_566, 26_268_715, 29_199_776, 31_948_992,
        ];
        let mut lines = Lines::new(at(0));
        for (k, now) in arrivals.into_iter().enumerate() {
            lines.start(at(now));
            let late = lines.due(&of, 64).0 - at(now).0;
            assert!(late <= at(22_022).0, "packet {k} due after {} ns", late >> FRACTION);
            // 512 bits at the first slope take 20 803.07 ns, none is due before.
            assert!(late >= at(20_803).0, "packet {k} due after {} ns", late >> FRACTION);
            lines.serve(&of, 64);
        }
    }

    /// The deadline curve of a flat-then-rising curve that begins anew: what was served ahead of
    /// it counts, and the later flat piece does too.
    #[test]
    fn a_convex_curve_begins_anew_behind_what_was_served_early() {
        // Nothing for 10 ms, then 1 B/µs. 1000 B at 0, served at once; 1000 B at 8 ms.
        let of = knee(0, 10_000_000, 8_000_000);
        let mut lines = Lines::new(at(0));
        assert_eq!((lines.eligible(&of), lines.due(&of, 1_000)), (at(0), at(11_000_000)));
        lines.serve(&of, 1_000);
        lines.start(at(8_000_000));
        // The first backlog's curve would give its 2000th byte at 12 ms, but the second one owes
        // nothing before 18 ms: 19 ms for its 1000.
        assert_eq!(lines.due(&of, 1_000), at(19_000_000));
        assert_eq!(lines.eligible(&of), at(8_000_000));
    }

    fn any_curve() -> impl Strategy<Value = ServiceCurve> {
        (1_000_000u64..50_000_000, 0u64..3, 1u64..50_000_000, 0u64..20_000_000).prop_map(
            |(bps, kind, more, knee_ns)| match kind {
                0 => knee(0, knee_ns, bps),
                1 => knee(bps, knee_ns, bps),
                _ => knee(bps + more, knee_ns, bps),
            },
        )
    }

    proptest! {
        /// Deadlines are those of the least of all curves begun so far, and a concave curve's head
        /// is eligible when that curve has reached what was served.
        #[test]
        fn two_lines_are_the_least_of_all_curves(
            of in any_curve(),
            starts in prop::collection::vec((0u64..20_000_000, 0u32..20_000), 1..12),
            bytes in 1u32..20_000,
        ) {
            let (mut now, mut served) = (0u64, 0u64);
            let mut all: Vec<(u64, u64)> = Vec::new();
            let mut lines = Lines::default();
            for (later, more) in starts {
                now += later;
                lines.start(at(now));
                all.push((now, served));
                let due = (lines.due(&of, bytes).0 >> FRACTION) as u64;
                let least = |t: u64| {
                    let each = all.iter().map(|(x, y)| y + of.bytes_in(t.saturating_sub(*x)));
                    each.min().unwrap_or(0)
                };
                // `bytes_in` rounds down to bytes: one of them on either side.
                prop_assert!(least(due.saturating_sub(1)) <= served + u64::from(bytes));
                prop_assert!(least(due + 1) + 1 >= served + u64::from(bytes));
                let from = (lines.eligible(&of).0 >> FRACTION) as u64;
                if of.first_cost > 0 && from > now {
                    prop_assert!(least(from.saturating_sub(1)) <= served);
                    prop_assert!(least(from + 1) + 1 >= served);
                }
                lines.serve(&of, more);
                served += u64::from(more);
            }
        }
    }
}
