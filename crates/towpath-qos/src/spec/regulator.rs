//! Conformance and regulation of one channel, exact and without allocation per packet.
//!
//! Token buckets keep their level in nanobits (rate in bit/s × time in ns), so that a fraction of
//! a bit is never lost; RFC 2215's rule: tokens ← min(b, tokens + r·Δt), a packet conforms iff it
//! is no larger than the tokens. Memory: 64 B per bucket; 8 B per packet of one averaging
//! interval; 16 B per point of a schedule.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use towpath_wire::{ByteSize, Instant};

use super::buckets::Bucket;
use super::limits::NANO;
use super::tspec::TSpec;

/// What a packet is to its specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It conforms, and has been counted.
    Conforms,
    /// It would conform at this time, if nothing else is sent before. Not counted.
    Early(Instant),
    /// It is larger than any conforming packet. Not counted.
    TooLarge {
        /// The largest that conforms.
        limit: ByteSize,
    },
}

/// Checks and paces the packets of one channel. Instants must not go back; one that does counts
/// as the latest seen.
#[derive(Clone, Debug)]
pub struct Regulator {
    state: State,
    min_bits: u64,
    max_bits: u64,
}

#[derive(Clone, Debug)]
enum State {
    /// The common cases, without indirection: one bucket, or a peak and a sustained one.
    One(Tokens),
    Two([Tokens; 2]),
    Many(Vec<Tokens>),
    Spaced {
        xmin_ns: u64,
        next_ns: u64,
    },
    Averaged {
        xmin_ns: u64,
        interval_ns: u64,
        next_ns: u64,
        sent: VecDeque<u64>,
        most: usize,
    },
    /// A packet is planned for when the plan reaches its first bit, and leaves no sooner after
    /// the one before than planned: a late packet moves the rest of the plan with it.
    Plan {
        points: Vec<(u64, u64)>,
        ahead: usize,
        start_ns: Option<u64>,
        sent_bits: u64,
    },
}

/// One token bucket. Invariant: `level ≤ depth`, both in nanobits.
#[derive(Clone, Copy, Debug)]
struct Tokens {
    level: u128,
    depth: u128,
    rate_bps: u64,
    /// ⌊(2⁶⁴ − 1)/rate⌋: a multiplication where a division would cost more than all the rest.
    inverse: u64,
    at_ns: u64,
}

impl Tokens {
    const fn full(bucket: Bucket) -> Self {
        let depth = bucket.burst_bits as u128 * NANO;
        let rate_bps = if bucket.rate_bps == 0 { 1 } else { bucket.rate_bps };
        Self { level: depth, depth, rate_bps, inverse: u64::MAX / rate_bps, at_ns: 0 }
    }

    #[inline]
    fn refill(&mut self, now_ns: u64) {
        if now_ns <= self.at_ns {
            return;
        }
        let level = self.level + u128::from(now_ns - self.at_ns) * u128::from(self.rate_bps);
        self.level = if level < self.depth { level } else { self.depth };
        self.at_ns = now_ns;
    }

    /// When `need` nanobits will be there.
    #[inline]
    fn ready_ns(&self, need: u128) -> u64 {
        if need <= self.level {
            return self.at_ns;
        }
        let lack = need - self.level;
        let wait = match u64::try_from(lack) {
            Ok(lack) => self.wait_ns(lack),
            Err(_) => u64::try_from(lack.div_ceil(u128::from(self.rate_bps))).unwrap_or(u64::MAX),
        };
        self.at_ns.saturating_add(wait)
    }

    /// ⌈lack/rate⌉: the product with the inverse is less than two too small, as it drops less
    /// than lack/2⁶⁴ with the inverse's fraction and less than one with its own.
    #[inline]
    fn wait_ns(&self, lack: u64) -> u64 {
        let wait = ((u128::from(lack) * u128::from(self.inverse)) >> 64) as u64;
        let rest = lack - wait * self.rate_bps;
        wait + u64::from(rest > 0) + u64::from(rest > self.rate_bps)
    }
}

impl Regulator {
    /// A regulator that has sent nothing yet: every bucket is full.
    pub fn new(spec: &TSpec) -> Self {
        let bits = |size: ByteSize| size.as_bytes() * 8;
        let state = match spec {
            TSpec::Spaced(s) => State::Spaced { xmin_ns: s.xmin_ns, next_ns: 0 },
            TSpec::Averaged(s) => State::Averaged {
                xmin_ns: s.xmin_ns,
                interval_ns: s.interval_ns,
                next_ns: 0,
                sent: VecDeque::with_capacity(s.packets() as usize),
                most: s.packets() as usize,
            },
            TSpec::Schedule(s) => {
                State::Plan { points: s.points.clone(), ahead: 0, start_ns: None, sent_bits: 0 }
            }
            TSpec::SigmaRho(_) | TSpec::TokenBucket(_) | TSpec::DBind(_) | TSpec::PeakMean(_) => {
                let buckets = spec.buckets();
                let full: Vec<Tokens> =
                    buckets.as_slice().iter().copied().map(Tokens::full).collect();
                match full[..] {
                    [one] => State::One(one),
                    [peak, sustained] => State::Two([peak, sustained]),
                    _ => State::Many(full),
                }
            }
        };
        let min_bits = match spec {
            TSpec::TokenBucket(s) => s.min_bits,
            _ => 0,
        };
        Self { state, min_bits, max_bits: bits(spec.packet_max()) }
    }

    /// Counts a packet if it conforms at `now`.
    #[inline]
    pub fn offer(&mut self, now: Instant, size: ByteSize) -> Verdict {
        let Some(bits) = self.counted(size) else {
            return Verdict::TooLarge { limit: ByteSize::from_bytes(self.max_bits / 8) };
        };
        let at = self.ready_ns(now.as_nanos(), bits);
        if at > now.as_nanos() {
            return Verdict::Early(Instant::from_nanos(at));
        }
        self.take(now.as_nanos(), bits);
        Verdict::Conforms
    }

    /// Counts a packet and tells when it may leave: the earliest conforming time from `now` on.
    /// `None` for a packet that never conforms; it is not counted.
    #[inline]
    pub fn reserve(&mut self, now: Instant, size: ByteSize) -> Option<Instant> {
        let bits = self.counted(size)?;
        let at = self.ready_ns(now.as_nanos(), bits).max(now.as_nanos());
        if at == u64::MAX {
            return None;
        }
        self.take(at, bits);
        Some(Instant::from_nanos(at))
    }

    /// Bits that a packet counts for; `None` above the largest.
    #[inline]
    fn counted(&self, size: ByteSize) -> Option<u64> {
        let bits = size.as_bytes().checked_mul(8)?;
        (bits <= self.max_bits).then_some(bits.max(self.min_bits))
    }

    #[inline]
    fn ready_ns(&mut self, now_ns: u64, bits: u64) -> u64 {
        let need = u128::from(bits) * NANO;
        match &mut self.state {
            State::One(one) => {
                one.refill(now_ns);
                one.ready_ns(need)
            }
            State::Two(two) => {
                two[0].refill(now_ns);
                two[1].refill(now_ns);
                two[0].ready_ns(need).max(two[1].ready_ns(need))
            }
            State::Many(many) => {
                let mut at = 0;
                for tokens in many {
                    tokens.refill(now_ns);
                    at = tokens.ready_ns(need).max(at);
                }
                at
            }
            State::Spaced { next_ns, .. } => *next_ns,
            State::Averaged { interval_ns, next_ns, sent, most, .. } => match sent.front() {
                Some(first) if sent.len() == *most => {
                    first.saturating_add(*interval_ns).max(*next_ns)
                }
                _ => *next_ns,
            },
            State::Plan { points, ahead, start_ns, sent_bits } => {
                let planned = plan_ns(points, ahead, *sent_bits);
                match *start_ns {
                    Some(_) if planned == u64::MAX => u64::MAX,
                    Some(start) => start.saturating_add(planned),
                    None => 0,
                }
            }
        }
    }

    /// Counts a packet that leaves at `at_ns`, at or after `ready_ns`.
    #[inline]
    fn take(&mut self, at_ns: u64, bits: u64) {
        let need = u128::from(bits) * NANO;
        match &mut self.state {
            State::One(one) => {
                one.refill(at_ns);
                one.level = one.level.saturating_sub(need);
            }
            State::Two(two) => {
                for tokens in two {
                    tokens.refill(at_ns);
                    tokens.level = tokens.level.saturating_sub(need);
                }
            }
            State::Many(many) => {
                for tokens in many {
                    tokens.refill(at_ns);
                    tokens.level = tokens.level.saturating_sub(need);
                }
            }
            State::Spaced { xmin_ns, next_ns } => {
                *next_ns = at_ns.max(*next_ns).saturating_add(*xmin_ns);
            }
            State::Averaged { xmin_ns, next_ns, sent, most, .. } => {
                if sent.len() == *most {
                    sent.pop_front();
                }
                sent.push_back(at_ns);
                *next_ns = at_ns.max(*next_ns).saturating_add(*xmin_ns);
            }
            State::Plan { points, ahead, start_ns, sent_bits } => {
                let planned = plan_ns(points, ahead, *sent_bits);
                *start_ns = Some(at_ns.saturating_sub(planned));
                *sent_bits = sent_bits.saturating_add(bits);
            }
        }
    }
}

/// When the plan reaches `sent_bits`, from its first point on, rounded up; `u64::MAX` at its end.
/// `ahead` is the first point there or behind, as far as it was looked for.
#[inline]
fn plan_ns(points: &[(u64, u64)], ahead: &mut usize, sent_bits: u64) -> u64 {
    let (start_ns, (_, total)) = (points[0].0, points[points.len() - 1]);
    if sent_bits >= total {
        return u64::MAX;
    }
    while points[*ahead].1 < sent_bits {
        *ahead += 1;
    }
    let Some(before) = ahead.checked_sub(1) else { return 0 };
    let ((from_ns, from), (to_ns, to)) = (points[before], points[*ahead]);
    let part = u128::from(sent_bits - from) * u128::from(to_ns - from_ns);
    from_ns - start_ns + part.div_ceil(u128::from(to - from)) as u64
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::vec::Vec;

    use proptest::prelude::*;
    use towpath_wire::Rate;

    use super::super::{Averaged, DBind, PeakMean, Schedule, SigmaRho, Spaced, TokenBucket};
    use super::*;

    const S: u64 = 1_000_000_000;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    fn bytes(n: u64) -> ByteSize {
        ByteSize::from_bytes(n)
    }

    /// Case `tb-s1` of the netcalc set (own evaluation of the definition), units as bytes and
    /// seconds: rate 1, burst 5, (0, 3) (1, 3) conform, (2, 3) does not, (8, 5) does.
    #[test]
    fn case_tb_s1() {
        let spec = SigmaRho::new(bytes(5), Rate::from_bps(8)).expect("valid");
        let mut regulator = Regulator::new(&TSpec::SigmaRho(spec));
        assert_eq!(regulator.offer(at(0), bytes(3)), Verdict::Conforms);
        assert_eq!(regulator.offer(at(S), bytes(3)), Verdict::Conforms);
        // One token was left over from the refill: two more take two seconds.
        assert_eq!(regulator.offer(at(2 * S), bytes(3)), Verdict::Early(at(4 * S)));
        assert_eq!(regulator.offer(at(8 * S), bytes(5)), Verdict::Conforms);
        assert_eq!(regulator.offer(at(8 * S), bytes(1)), Verdict::Early(at(9 * S)));
        assert_eq!(regulator.offer(at(9 * S), bytes(6)), Verdict::TooLarge { limit: bytes(5) });
    }

    #[test]
    fn a_small_packet_counts_as_the_policed_unit() {
        let r = Rate::from_bps(800);
        let spec = TokenBucket::new(r, bytes(200), r, bytes(100), bytes(200)).expect("valid");
        let mut regulator = Regulator::new(&TSpec::TokenBucket(spec));
        assert_eq!(regulator.reserve(at(0), bytes(1)), Some(at(0)));
        assert_eq!(regulator.reserve(at(0), bytes(1)), Some(at(0)));
        assert_eq!(regulator.reserve(at(0), bytes(1)), Some(at(S)));
    }

    #[test]
    fn the_average_holds_in_every_window() {
        let ms = Duration::from_millis;
        let spec = Averaged::new(ms(1), ms(3), ms(10), bytes(10)).expect("valid");
        assert_eq!(spec.packets(), 3);
        let mut regulator = Regulator::new(&TSpec::Averaged(spec));
        let times: Vec<u64> = (0..7)
            .map(|_| regulator.reserve(at(0), bytes(1)).expect("fits").as_nanos() / 1_000_000)
            .collect();
        assert_eq!(times, [0, 1, 2, 10, 11, 12, 20]);
    }

    #[test]
    fn a_plan_is_followed_from_its_first_packet_on_and_ends() {
        let ns = Duration::from_nanos;
        let points = [(ns(0), bytes(0)), (ns(1000), bytes(10)), (ns(1000), bytes(30))];
        let spec = Schedule::new(&points, bytes(10)).expect("valid");
        let mut regulator = Regulator::new(&TSpec::Schedule(spec));
        let times: Vec<_> = (0..5).map(|_| regulator.reserve(at(500), bytes(10))).collect();
        assert_eq!(
            times,
            [Some(at(500)), Some(at(1500)), Some(at(1500)), None, None],
            "the second packet's first bit is planned for 1000, the third's in the jump there"
        );
    }

    fn specs() -> Vec<TSpec> {
        let (us, bps) = (Duration::from_micros, Rate::from_bps);
        let points: Vec<_> =
            (0..40).map(|i| (us(i * 40), bytes(i * i * 5 % 300 + i * 300))).collect();
        std::vec![
            TSpec::Spaced(Spaced::new(us(7), bytes(100)).expect("valid")),
            TSpec::Averaged(Averaged::new(us(3), us(11), us(100), bytes(90)).expect("valid")),
            TSpec::SigmaRho(SigmaRho::new(bytes(400), bps(77_777_777)).expect("valid")),
            TSpec::TokenBucket(
                TokenBucket::new(
                    bps(3_333_333),
                    bytes(500),
                    bps(99_999_999),
                    bytes(20),
                    bytes(150)
                )
                .expect("valid")
            ),
            TSpec::DBind(
                DBind::hull(
                    &[
                        (bps(90_000_000), us(50)),
                        (bps(50_000_000), us(100)),
                        (bps(30_000_000), us(300))
                    ],
                    bytes(100)
                )
                .expect("valid")
            ),
            TSpec::PeakMean(
                PeakMean::new(bps(80_000_000), bps(9_999_999), bytes(600), bytes(120))
                    .expect("valid")
            ),
            TSpec::Schedule(Schedule::new(&points, bytes(50)).expect("valid")),
        ]
    }

    proptest! {
        #[test]
        fn a_wait_is_the_quotient_rounded_up(
            lack: u64, rate in 1u64..=1 << 50, small in 1u64..100,
        ) {
            for rate in [rate, small, 1] {
                let tokens = Tokens::full(Bucket { burst_bits: 1, rate_bps: rate });
                prop_assert_eq!(tokens.wait_ns(lack), lack.div_ceil(rate));
            }
        }

        /// What a regulator lets through never exceeds its specification in any window, and a
        /// greedy source is never made to wait longer than it must: one nanosecond earlier the
        /// packet does not conform.
        #[test]
        fn what_passes_is_within_the_specification(
            packets in proptest::collection::vec((0u64..30_000, 1u64..50), 1..60),
        ) {
            for spec in specs() {
                let mut regulator = Regulator::new(&spec);
                let (mut now, mut passed) = (0, Vec::<(u64, u64)>::new());
                for &(gap, size) in &packets {
                    now += gap;
                    let mut early = regulator.clone();
                    let Some(when) = regulator.reserve(at(now), bytes(size)) else { break };
                    if when.as_nanos() > now {
                        let before = at(when.as_nanos() - 1);
                        prop_assert_eq!(early.offer(before, bytes(size)), Verdict::Early(when));
                    }
                    now = when.as_nanos();
                    passed.push((now, size * 8));
                }
                for (i, &(from, _)) in passed.iter().enumerate() {
                    let mut bits = 0;
                    for &(to, more) in &passed[i..] {
                        bits += more;
                        let most = spec.bits_in(to - from);
                        prop_assert!(u128::from(bits) <= most, "{spec:?}: {bits} > {most}");
                        prop_assert!(spec.buckets().bits_in(to - from) >= most);
                    }
                }
            }
        }

        #[test]
        fn absurd_times_do_no_harm(
            times in proptest::collection::vec(any::<u64>(), 1..20), size: u64,
        ) {
            for spec in specs() {
                let mut regulator = Regulator::new(&spec);
                for &t in &times {
                    match regulator.offer(at(t), bytes(size)) {
                        Verdict::Conforms => prop_assert!(size <= spec.packet_max().as_bytes()),
                        Verdict::Early(then) => prop_assert!(then > at(t)),
                        Verdict::TooLarge { limit } => {
                            prop_assert!(limit == spec.packet_max() && bytes(size) > limit);
                        }
                    }
                    // Never earlier than asked for; none where no time is left.
                    let then = regulator.reserve(at(t), bytes(1));
                    prop_assert!(then.is_none_or(|then| then >= at(t) && then < Instant::NEVER));
                }
                prop_assert!(spec.bits_in(u64::MAX) >= spec.bits_in(0));
                prop_assert!(spec.bits_in(0) >= u128::from(spec.packet_max().as_bytes()) * 8);
                let after = spec.buckets().after(u64::MAX, u64::MAX, u64::MAX);
                prop_assert!(after.bits_in(u64::MAX) >= spec.buckets().bits_in(u64::MAX));
            }
        }
    }
}
