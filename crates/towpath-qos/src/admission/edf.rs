//! Exact schedulability of non-preemptive EDF, as a pure function of a set of flows.
//!
//! Liebeherr, Wrege and Ferrari 1996: a set is schedulable on a link of rate C iff for all
//! t ≥ min d: `Σ_j A_j(t − d_j) + max_{d_k > t} s_k ≤ C·t` (`A_j` counts closed windows, is zero
//! before zero; the blocking term is zero from the largest deadline on), and Σ rates ≤ C.
//! Deadlines run from a packet's arrival to the end of its transmission.
//!
//! A live port keeps a profile of the same condition; this is what it is
//! checked against, and what answers for sets of flows given as such.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Arrivals of one flow, in units that the caller chooses: amounts, and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// `size` at 0, period, 2·period, ...
    Periodic {
        /// Time between two packets; not 0.
        period: u64,
        /// Largest packet.
        size: u64,
    },
    /// `burst + rate·t`, in packets of at most `size`.
    Bucket {
        /// Amount at once.
        burst: u64,
        /// Amount per unit of time.
        rate: u64,
        /// Largest packet.
        size: u64,
    },
}

impl Arrivals {
    const fn size(self) -> u64 {
        match self {
            Self::Periodic { size, .. } | Self::Bucket { size, .. } => size,
        }
    }

    fn amount(self, window: u64) -> u128 {
        match self {
            Self::Periodic { period, size } => {
                u128::from(size).saturating_mul(u128::from(window / period.max(1)) + 1)
            }
            Self::Bucket { burst, rate, .. } => {
                (u128::from(rate) * u128::from(window)).saturating_add(u128::from(burst))
            }
        }
    }
}

/// A flow with its local deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// What arrives.
    pub arrivals: Arrivals,
    /// From arrival to the end of transmission.
    pub deadline: u64,
}

/// Whether a set is schedulable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every deadline holds, whatever arrives.
    Schedulable,
    /// Some arrivals within the specification miss a deadline.
    Misses {
        /// The first time at which more is due than can be sent.
        at: u64,
        /// How much more.
        excess: u128,
    },
    /// More arrives in the long run than the link carries.
    Overload,
    /// Not decided within [`STEPS_MAX`] test points: to be refused.
    Undecided,
}

/// Most test points of periodic flows. A set whose utilisation is exactly one repeats only after
/// the least common multiple of its periods, which may be beyond any time.
pub const STEPS_MAX: usize = 1 << 20;

/// Tests a set on a link of `rate` per unit of time, exactly.
///
/// Cost: O(n log n) for buckets; with periodic flows, a step per packet up to the horizon.
pub fn schedulable(flows: &[Flow], rate: u64) -> Verdict {
    let Some(horizon) = horizon(flows, rate) else { return Verdict::Overload };
    let mut order: Vec<&Flow> = flows.iter().collect();
    order.sort_by_key(|flow| flow.deadline);
    // Largest packet of the flows from each place in the order on.
    let mut larger: Vec<u64> = order.iter().map(|flow| flow.arrivals.size()).collect();
    for i in (1..larger.len()).rev() {
        larger[i - 1] = larger[i - 1].max(larger[i]);
    }
    // Points at which the demand jumps: each deadline, then each further packet's.
    let mut points: BinaryHeap<Reverse<(u64, usize)>> =
        order.iter().enumerate().map(|(i, flow)| Reverse((flow.deadline, i))).collect();
    // Active flows stand before `active` in the order.
    let (mut demand, mut slope, mut at, mut active) = (0_u128, 0_u128, 0_u64, 0_usize);
    for _ in 0..STEPS_MAX {
        let Some(&Reverse((next, _))) = points.peek() else { return Verdict::Schedulable };
        demand = demand.saturating_add(slope.saturating_mul(u128::from(next - at)));
        at = next;
        while let Some(&Reverse((t, i))) = points.peek()
            && t == at
        {
            points.pop();
            let flow = order[i];
            if t == flow.deadline {
                active += 1;
            }
            match flow.arrivals {
                Arrivals::Periodic { period, size } => {
                    demand = demand.saturating_add(u128::from(size));
                    let again = t.saturating_add(period.max(1));
                    if u128::from(again) <= horizon && again < u64::MAX {
                        points.push(Reverse((again, i)));
                    }
                }
                Arrivals::Bucket { burst, rate, .. } => {
                    demand = demand.saturating_add(u128::from(burst));
                    slope += u128::from(rate);
                }
            }
        }
        let blocking = u128::from(larger.get(active).copied().unwrap_or(0));
        let sent = u128::from(rate) * u128::from(at);
        let due = demand.saturating_add(blocking);
        if due > sent {
            return Verdict::Misses { at, excess: due - sent };
        }
    }
    Verdict::Undecided
}

/// The time after which nothing new can go wrong; `None` where more arrives than is carried.
///
/// Beyond the largest deadline the demand is at most `Σ(S_j − u_j·d_j) + U·t`, so that it stays
/// below `C·t` from `Σ(S_j − u_j·d_j)⁺/(C − U)` on; at U = C it repeats after the least common
/// multiple of the periods. Rates are compared as exact fractions of the periods' product, which
/// saturates: a saturated sum counts as U = C, never as less.
fn horizon(flows: &[Flow], rate: u64) -> Option<u128> {
    let deadline = flows.iter().map(|flow| flow.deadline).max().unwrap_or(0);
    let period = |flow: &Flow| match flow.arrivals {
        Arrivals::Periodic { period, .. } => u128::from(period.max(1)),
        Arrivals::Bucket { .. } => 1,
    };
    let mut common = 1_u128;
    let mut saturated = false;
    for p in flows.iter().map(period) {
        match common.checked_mul(p / gcd(common, p)) {
            Some(multiple) if multiple < 1 << 62 => common = multiple,
            _ => saturated = true,
        }
    }
    if saturated {
        // Utilisation in parts of 2⁶⁴ of a unit, rounded up for the horizon and down for refusal.
        let part = |flow: &Flow, up: bool| match flow.arrivals {
            Arrivals::Periodic { period, size } => {
                let (size, period) = (u128::from(size) << 64, u128::from(period.max(1)));
                if up { size.div_ceil(period) } else { size / period }
            }
            Arrivals::Bucket { rate, .. } => u128::from(rate) << 64,
        };
        let sum = |up| flows.iter().map(|f| part(f, up)).fold(0_u128, u128::saturating_add);
        let capacity = u128::from(rate) << 64;
        if sum(false) > capacity {
            return None;
        }
        let room = capacity.saturating_sub(sum(true));
        if room == 0 {
            return Some(u128::MAX);
        }
        let ahead = flows.iter().map(ahead).fold(0_u128, u128::saturating_add);
        let beyond =
            (ahead.saturating_mul(1 << 32).div_ceil((room >> 32).max(1))).saturating_add(1);
        return Some(beyond.max(u128::from(deadline)));
    }
    // Everything that comes in one common multiple of the periods, against what is carried.
    let comes = flows
        .iter()
        .map(|flow| match flow.arrivals {
            Arrivals::Periodic { size, .. } => {
                u128::from(size).saturating_mul(common / period(flow))
            }
            Arrivals::Bucket { rate, .. } => u128::from(rate).saturating_mul(common),
        })
        .fold(0_u128, u128::saturating_add);
    let carried = u128::from(rate) * common;
    match carried.checked_sub(comes)? {
        0 => Some(u128::from(deadline) + common),
        room => {
            let ahead = flows.iter().map(ahead).fold(0_u128, u128::saturating_add);
            let beyond = ahead.saturating_mul(common).div_ceil(room);
            Some(beyond.min(u128::from(deadline) + common).max(u128::from(deadline)))
        }
    }
}

/// What a flow may be ahead of its rate: its burst, whatever its deadline.
fn ahead(flow: &Flow) -> u128 {
    match flow.arrivals {
        Arrivals::Periodic { size, .. } => u128::from(size),
        Arrivals::Bucket { burst, .. } => u128::from(burst),
    }
}

const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The least deadline with which a new flow of token-bucket arrivals keeps a set of such flows
/// schedulable (Firoiu, Kurose and Towsley 1997); `None` where no deadline does, up to the latest
/// at which the set itself still matters.
///
/// Not monotone: a *later* deadline lets the new flow's packets block more of the others, so that
/// each candidate is tested with the whole set. Candidates are, for each segment between
/// deadlines, the least that its own condition leaves. Cost O(n² log n).
pub fn least_deadline(flows: &[Flow], arrivals: Arrivals, rate: u64) -> Option<u64> {
    let mut set: Vec<Flow> = flows.to_vec();
    set.push(Flow { arrivals, deadline: 0 });
    let Arrivals::Bucket { burst, rate: growth, size } = arrivals else {
        return None;
    };
    let largest = flows.iter().map(|f| f.arrivals.size()).max().unwrap_or(0).max(size);
    let mut deadlines: Vec<u64> = flows.iter().map(|f| f.deadline).collect();
    deadlines.push(0);
    deadlines.sort_unstable();
    deadlines.dedup();
    let mut candidates: Vec<u64> = deadlines.clone();
    for (i, &from) in deadlines.iter().enumerate() {
        let to = deadlines.get(i + 1).copied().unwrap_or(u64::MAX);
        let due = |t: u64| -> u128 {
            let before = flows.iter().filter(|f| f.deadline <= from);
            before
                .map(|f| f.arrivals.amount(t.saturating_sub(f.deadline)))
                .fold(0, u128::saturating_add)
        };
        // Own condition: demand(d) + burst + blocking ≤ C·d, with and without blocking.
        let slope = due(from.saturating_add(1)).saturating_sub(due(from));
        let gain = u128::from(rate).saturating_sub(slope);
        let later = flows.iter().filter(|f| f.deadline > from).map(|f| f.arrivals.size()).max();
        for blocking in [later.unwrap_or(0), largest, 0] {
            let need = due(from).saturating_add(u128::from(burst) + u128::from(blocking));
            let lack = need.saturating_sub(u128::from(rate) * u128::from(from));
            if gain > 0 {
                let wait = u64::try_from(lack.div_ceil(gain)).unwrap_or(u64::MAX);
                candidates.push(from.saturating_add(wait));
            }
        }
        // Later points: burst + growth·(t − d) ≤ slack(t), at t = `to`.
        if to < u64::MAX && growth > 0 {
            let all: u128 = flows
                .iter()
                .filter(|f| f.deadline <= to)
                .map(|f| f.arrivals.amount(to - f.deadline))
                .fold(0, u128::saturating_add);
            let beyond = flows.iter().filter(|f| f.deadline > to).map(|f| f.arrivals.size()).max();
            let used = all.saturating_add(u128::from(beyond.unwrap_or(0)) + u128::from(burst));
            if let Some(spare) = (u128::from(rate) * u128::from(to)).checked_sub(used) {
                let back = u64::try_from(spare / u128::from(growth)).unwrap_or(u64::MAX);
                candidates.push(to.saturating_sub(back));
            }
        }
    }
    candidates.extend(deadlines.iter().map(|d| d.saturating_add(1)));
    candidates.sort_unstable();
    candidates.dedup();
    let last = set.len() - 1;
    candidates.into_iter().find(|&deadline| {
        set[last].deadline = deadline;
        schedulable(&set, rate) == Verdict::Schedulable
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    fn periodic(period: u64, size: u64, deadline: u64) -> Flow {
        Flow { arrivals: Arrivals::Periodic { period, size }, deadline }
    }

    fn bucket(burst: u64, rate: u64, size: u64, deadline: u64) -> Flow {
        Flow { arrivals: Arrivals::Bucket { burst, rate, size }, deadline }
    }

    /// Cases `edf-s1` to `edf-s3` of the netcalc set (Liebeherr-Wrege-Ferrari condition,
    /// evaluated over a hyperperiod).
    #[test]
    fn netcalc_cases() {
        let s1 = [periodic(1000, 10_000, 500), periodic(1000, 10_000, 900)];
        let s2 = [periodic(200, 12_000, 200), periodic(200, 8000, 200)];
        let s3 = [periodic(200, 12_000, 200), periodic(400, 8000, 100)];
        assert_eq!(schedulable(&s1, 100), Verdict::Schedulable);
        assert_eq!(schedulable(&s2, 100), Verdict::Schedulable, "utilisation is exactly one");
        assert!(matches!(schedulable(&s3, 100), Verdict::Misses { at: 100, .. }));
    }

    #[test]
    fn a_hair_more_is_refused() {
        let set = |size| [periodic(200, 12_000, 200), periodic(200, size, 200)];
        assert_eq!(schedulable(&set(8001), 100), Verdict::Overload);
        let set = |deadline| [bucket(100, 10, 50, deadline), bucket(40, 10, 40, 100)];
        // 100 + 40 of blocking at 10 per unit from 14 on.
        assert_eq!(schedulable(&set(14), 10 * 2), Verdict::Schedulable);
        assert_eq!(schedulable(&set(14), 20), Verdict::Schedulable);
        assert_eq!(schedulable(&set(6), 20), Verdict::Misses { at: 6, excess: 20 });
    }

    #[test]
    fn absurd_periods_end() {
        let set = [
            periodic(u64::MAX, u64::MAX, u64::MAX),
            periodic(u64::MAX - 1, u64::MAX, 0),
            bucket(u64::MAX, u64::MAX, 1, 7),
        ];
        // The bucket alone brings as much as the link carries.
        assert_eq!(schedulable(&set, u64::MAX), Verdict::Overload);
        // A packet each in 2⁶⁴ and the largest of the others in its way: the first deadline is 0.
        let rare = schedulable(&set[..2], u64::MAX);
        assert!(matches!(rare, Verdict::Misses { at: 0, .. }), "{rare:?}");
        let primes =
            [periodic(999_983, 999_983, 10_000_000), periodic(999_979, 999_979, 9_999_999)];
        // Exactly one in utilisation, and no repetition in sight.
        assert_eq!(schedulable(&primes, 2), Verdict::Undecided);
    }

    /// Every packet of synchronous greedy sources, blocked by the largest packet with a later
    /// deadline that started just before: what EDF must survive, and (Liebeherr et al.) what
    /// suffices. Demand is summed per unit of time, without any of the above's shortcuts.
    fn brute_force(flows: &[Flow], rate: u64, until: u64) -> bool {
        let first = flows.iter().map(|f| f.deadline).min().unwrap_or(0);
        (first..=until).all(|t| {
            let due: u128 = flows
                .iter()
                .filter(|f| f.deadline <= t)
                .map(|f| f.arrivals.amount(t - f.deadline))
                .sum();
            let blocking = flows.iter().filter(|f| f.deadline > t).map(|f| f.arrivals.size()).max();
            due + u128::from(blocking.unwrap_or(0)) <= u128::from(rate) * u128::from(t)
        })
    }

    fn any_flow() -> impl Strategy<Value = Flow> {
        prop_oneof![
            (1u64..12, 1u64..20, 1u64..40).prop_map(|(p, s, d)| periodic(p, s, d)),
            (0u64..20, 0u64..4, 1u64..20, 1u64..40).prop_map(|(b, r, s, d)| bucket(b + s, r, s, d)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn as_brute_force(flows in proptest::collection::vec(any_flow(), 1..6), rate in 1u64..30) {
            let verdict = schedulable(&flows, rate);
            // 27 720 is the least common multiple of 1 to 11.
            let rates: u64 = flows.iter().map(|f| match f.arrivals {
                Arrivals::Periodic { period, size } => size * 27_720 / period,
                Arrivals::Bucket { rate, .. } => rate * 27_720,
            }).sum();
            if rates > rate * 27_720 {
                prop_assert_eq!(verdict, Verdict::Overload);
            } else {
                let expected = brute_force(&flows, rate, 2000);
                prop_assert_eq!(verdict == Verdict::Schedulable, expected, "{:?}", verdict);
            }
        }

        #[test]
        fn the_least_deadline_is_least(
            flows in proptest::collection::vec(
                (0u64..20, 0u64..4, 1u64..20, 1u64..40)
                    .prop_map(|(b, r, s, d)| bucket(b + s, r, s, d)),
                0..5,
            ),
            new in (0u64..20, 0u64..4, 1u64..20),
            rate in 1u64..30,
        ) {
            let arrivals = Arrivals::Bucket { burst: new.0 + new.2, rate: new.1, size: new.2 };
            let passes = |deadline| {
                let mut set = flows.clone();
                set.push(Flow { arrivals, deadline });
                schedulable(&set, rate) == Verdict::Schedulable
            };
            let brute = (0..200).find(|&d| passes(d));
            let least = least_deadline(&flows, arrivals, rate);
            prop_assert_eq!(least.filter(|&d| d < 200), brute);
        }

        #[test]
        fn nothing_panics(
            raw in proptest::collection::vec(any::<(bool, u64, u64, u64, u64)>(), 0..6),
            rate: u64,
        ) {
            let flows: vec::Vec<Flow> = raw.iter().map(|&(p, a, b, c, d)| if p {
                periodic(a.max(1 << 50), b, d)
            } else {
                bucket(a, b, c, d)
            }).collect();
            let verdict = schedulable(&flows, rate);
            if let Verdict::Misses { excess, .. } = verdict {
                prop_assert!(excess > 0);
            }
            // One that takes all of the link: room only where nothing else comes.
            let arrivals = Arrivals::Bucket { burst: rate, rate, size: rate };
            let mut more = flows.clone();
            if let Some(deadline) = least_deadline(&flows, arrivals, rate) {
                more.push(Flow { arrivals, deadline });
                prop_assert_eq!(verdict, Verdict::Schedulable);
                prop_assert_eq!(schedulable(&more, rate), Verdict::Schedulable);
            }
        }
    }
}
