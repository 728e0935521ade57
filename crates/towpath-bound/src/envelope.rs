//! Concave arrival curves (minima of token buckets) and rate-latency service curves: the two forms
//! every network analysis here works on.
//!
//! Formulas: Le Boudec and Thiran, *Network Calculus* (2001), chapter 1. Units are the caller's,
//! but consistent: data, data per time, time.

use alloc::vec::Vec;

use super::rational::Rational;

/// The most pieces that an [`Envelope`] is built from.
pub const PIECES_MAX: usize = 256;

/// γ(r, b): at most `burst + rate · t` in any window of length t > 0, nothing in a window of
/// length 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// Sustained rate r ≥ 0, data per time.
    pub rate: Rational,
    /// Burst b ≥ 0, data.
    pub burst: Rational,
}

impl TokenBucket {
    /// From rate and burst.
    pub const fn new(rate: Rational, burst: Rational) -> Self {
        Self { rate, burst }
    }

    /// Value at a time t > 0.
    pub fn at(&self, time: &Rational) -> Rational {
        &self.burst + &(&self.rate * time)
    }
}

/// β(R, T): at least R · (t − T) served in a backlogged period of length t.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLatency {
    /// Rate R ≥ 0, data per time.
    pub rate: Rational,
    /// Latency T ≥ 0, time.
    pub latency: Rational,
}

impl RateLatency {
    /// From rate and latency.
    pub const fn new(rate: Rational, latency: Rational) -> Self {
        Self { rate, latency }
    }

    /// β₁ ⊗ β₂ = β(min R, T₁ + T₂).
    #[must_use]
    pub fn then(&self, next: &Self) -> Self {
        Self {
            rate: self.rate.clone().min(next.rate.clone()),
            latency: &self.latency + &next.latency,
        }
    }

    /// What is left of a blind (arbitrary order) strict server beside cross traffic:
    /// R′ = R − r, T′ = (R T + b) / (R − r). `None` if nothing is left.
    pub fn left_over_blind(&self, cross: &TokenBucket) -> Option<Self> {
        if cross.rate.is_zero() && cross.burst.is_zero() {
            return Some(self.clone());
        }
        let rate = &self.rate - &cross.rate;
        if !rate.is_positive() {
            return None;
        }
        let latency = &(&(&self.rate * &self.latency) + &cross.burst) / &rate;
        Some(Self { rate, latency })
    }

    /// What is left of a FIFO server beside cross traffic, for the free parameter θ = T + b / R:
    /// R′ = R − r, T′ = T + b / R (Le Boudec and Thiran, proposition 6.2.1). `None` if nothing is
    /// left.
    pub fn left_over_fifo(&self, cross: &TokenBucket) -> Option<Self> {
        let rate = &self.rate - &cross.rate;
        if !rate.is_positive() {
            return None;
        }
        let latency = &self.latency + &cross.burst.checked_div(&self.rate)?;
        Some(Self { rate, latency })
    }
}

/// A concave arrival curve: the minimum of token buckets.
///
/// Invariants: at least one piece; rates strictly fall and bursts strictly rise along the pieces;
/// every piece is the lowest one somewhere on t > 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope(Vec<TokenBucket>);

impl Envelope {
    /// One token bucket.
    pub fn token_bucket(rate: Rational, burst: Rational) -> Self {
        Self(alloc::vec![TokenBucket { rate, burst }])
    }

    /// Nothing at all.
    pub fn nothing() -> Self {
        Self::token_bucket(Rational::ZERO, Rational::ZERO)
    }

    /// The minimum of token buckets; `None` if there is none or more than [`PIECES_MAX`].
    pub fn min_of(pieces: Vec<TokenBucket>) -> Option<Self> {
        if pieces.is_empty() || pieces.len() > PIECES_MAX {
            return None;
        }
        Some(Self::lowest(pieces))
    }

    /// The pieces, by falling rate.
    pub fn pieces(&self) -> &[TokenBucket] {
        &self.0
    }

    /// The piece with the lowest rate: the tightest single token bucket for long windows.
    pub fn sustained(&self) -> &TokenBucket {
        &self.0[self.0.len() - 1]
    }

    /// The value just after zero.
    pub fn burst(&self) -> &Rational {
        &self.0[0].burst
    }

    /// Keeps the pieces that are lowest somewhere: the lower hull of the lines.
    fn lowest(mut pieces: Vec<TokenBucket>) -> Self {
        pieces.sort_by(|a, b| b.rate.cmp(&a.rate).then_with(|| b.burst.cmp(&a.burst)));
        let mut hull: Vec<TokenBucket> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            while let Some(last) = hull.last() {
                // A lower or equal rate that starts no higher makes the last piece useless.
                let useless = piece.burst <= last.burst
                    || hull.len() >= 2
                        && crossing(&hull[hull.len() - 2], &piece)
                            <= crossing(&hull[hull.len() - 2], last);
                if !useless {
                    break;
                }
                hull.pop();
            }
            hull.push(piece);
        }
        Self(hull)
    }

    /// The minimum with one more token bucket, for example a line's L + c t.
    #[must_use]
    pub fn capped(&self, cap: &TokenBucket) -> Self {
        let mut pieces = self.0.clone();
        pieces.push(cap.clone());
        Self::lowest(pieces)
    }

    /// The curve of two flows together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        if self.0.len() == 1 && other.0.len() == 1 {
            let (a, b) = (&self.0[0], &other.0[0]);
            return Self::token_bucket(&a.rate + &b.rate, &a.burst + &b.burst);
        }
        let (mut mine, mut theirs) = (0, 0);
        let mut pieces = Vec::with_capacity(self.0.len() + other.0.len());
        loop {
            let (a, b) = (&self.0[mine], &other.0[theirs]);
            pieces.push(TokenBucket::new(&a.rate + &b.rate, &a.burst + &b.burst));
            let (left, right) = (self.knee(mine), other.knee(theirs));
            let Some(next) = left.iter().chain(&right).min() else {
                return Self::lowest(pieces);
            };
            mine += usize::from(left.as_ref() == Some(next));
            theirs += usize::from(right.as_ref() == Some(next));
        }
    }

    /// The curve of all flows together, in one pass over their knees. Bursts are rounded up where
    /// they need long fractions ([`Rational::coarse_up`]); each piece is a sum of pieces, so that
    /// none is below what it stands for. Cost: O(n log n) in the pieces of all.
    #[must_use]
    pub fn sum<'a>(curves: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut first = TokenBucket::new(Rational::ZERO, Rational::ZERO);
        // Time, less rate, more burst.
        let mut knees: Vec<(Rational, Rational, Rational)> = Vec::new();
        for curve in curves {
            first.rate += &curve.0[0].rate;
            first.burst = (&first.burst + &curve.0[0].burst).coarse_up();
            knees.extend(curve.0.windows(2).map(|w| {
                (crossing(&w[0], &w[1]), &w[0].rate - &w[1].rate, &w[1].burst - &w[0].burst)
            }));
        }
        knees.sort_by(|a, b| a.0.cmp(&b.0));
        let mut pieces = Vec::with_capacity(knees.len() + 1);
        let mut last = first.clone();
        pieces.push(first);
        for (index, (at, fall, rise)) in knees.iter().enumerate() {
            last.rate = &last.rate - fall;
            last.burst = (&last.burst + rise).coarse_up();
            if knees.get(index + 1).is_none_or(|next| next.0 != *at) {
                pieces.push(last.clone());
            }
        }
        Self(pieces)
    }

    /// The same with at most `pieces` ≥ 2 pieces; leaving pieces out of a minimum only raises it.
    /// The first and the last (the burst and the sustained rate) stay.
    #[must_use]
    pub(super) fn thinned(mut self, pieces: usize) -> Self {
        let (count, last) = (self.0.len(), self.0.len() - 1);
        if count > pieces {
            let step = count.div_ceil(pieces - 1);
            let mut index = 0;
            self.0.retain(|_| {
                index += 1;
                (index - 1) % step == 0 || index - 1 == last
            });
        }
        self
    }

    /// α(t + delay): the curve of a flow after a server that holds each bit at most `delay`.
    #[must_use]
    pub fn delayed(&self, delay: &Rational) -> Self {
        let later = |piece: &TokenBucket| TokenBucket::new(piece.rate.clone(), piece.at(delay));
        Self::lowest(self.0.iter().map(later).collect())
    }

    /// α ⊘ β: the curve at the output of a server with service curve β. `None` if the output is
    /// unbounded (sustained rate above R).
    #[must_use]
    pub fn output(&self, service: &RateLatency) -> Option<Self> {
        let excess = self.excess(&service.rate)?;
        let mut pieces: Vec<TokenBucket> =
            self.0.iter().filter(|piece| piece.rate < service.rate).cloned().collect();
        pieces.push(TokenBucket::new(service.rate.clone(), excess));
        Some(Self::lowest(pieces).delayed(&service.latency))
    }

    /// The same with bursts rounded up where they need more than 128 bits.
    #[must_use]
    pub fn coarse_up(self) -> Self {
        let coarse = |piece: TokenBucket| TokenBucket::new(piece.rate, piece.burst.coarse_up());
        Self::lowest(self.0.into_iter().map(coarse).collect())
    }

    /// The largest horizontal distance to β: the delay of a FIFO server, or of a flow with this
    /// service to itself. `None` if unbounded.
    pub fn delay(&self, service: &RateLatency) -> Option<Rational> {
        let excess = self.excess(&service.rate)?;
        if excess.is_zero() && service.rate.is_zero() {
            return Some(service.latency.clone());
        }
        Some(&service.latency + &excess.checked_div(&service.rate)?)
    }

    /// The largest vertical distance to β: the backlog. `None` if unbounded.
    pub fn backlog(&self, service: &RateLatency) -> Option<Rational> {
        // It grows until the latency, then as long as more comes than is served.
        let index = self.0.iter().position(|piece| piece.rate <= service.rate)?;
        if let Some(before) = index.checked_sub(1) {
            let knee = crossing(&self.0[before], &self.0[index]);
            if knee > service.latency {
                let served = &service.rate * &(&knee - &service.latency);
                return Some(&self.0[index].at(&knee) - &served);
            }
        }
        Some(self.at(&service.latency))
    }

    /// The longest backlogged period: the first t > 0 with α(t) ≤ β(t), which bounds the delay in
    /// a strict server that serves in any order. `None` if it may never end.
    pub fn busy_period(&self, service: &RateLatency) -> Option<Rational> {
        let due = &service.rate * &service.latency;
        self.0
            .iter()
            .filter_map(|piece| {
                let rest = &service.rate - &piece.rate;
                rest.is_positive().then(|| &(&due + &piece.burst) / &rest)
            })
            .min()
    }

    /// Value at `time`; just after zero if `time` is zero.
    pub fn at(&self, time: &Rational) -> Rational {
        let values = self.0.iter().map(|piece| piece.at(time));
        values.min().unwrap_or(Rational::ZERO)
    }

    /// sup over t > 0 of α(t) − rate · t; `None` if infinite.
    fn excess(&self, rate: &Rational) -> Option<Rational> {
        let index = self.0.iter().position(|piece| piece.rate <= *rate)?;
        if index == 0 {
            return Some(self.0[0].burst.clone());
        }
        let knee = crossing(&self.0[index - 1], &self.0[index]);
        Some(&self.0[index].at(&knee) - &(rate * &knee))
    }

    /// Where piece `index` hands over to the next.
    fn knee(&self, index: usize) -> Option<Rational> {
        let next = self.0.get(index + 1)?;
        Some(crossing(&self.0[index], next))
    }
}

/// Time at which two buckets of different rates are equal; `a` has the higher rate.
fn crossing(a: &TokenBucket, b: &TokenBucket) -> Rational {
    &(&b.burst - &a.burst) / &(&a.rate - &b.rate)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn r(text: &str) -> Rational {
        text.parse().unwrap()
    }

    fn tb(rate: &str, burst: &str) -> TokenBucket {
        TokenBucket::new(r(rate), r(burst))
    }

    fn rl(rate: &str, latency: &str) -> RateLatency {
        RateLatency::new(r(rate), r(latency))
    }

    /// min(10 + 20 t, 25 + 5 t) meets at t = 1.
    fn bent() -> Envelope {
        Envelope::min_of(alloc::vec![tb("5", "25"), tb("20", "10"), tb("30", "40")]).unwrap()
    }

    #[test]
    fn only_the_lowest_pieces_stay() {
        assert_eq!(bent().pieces(), [tb("20", "10"), tb("5", "25")]);
        let three = Envelope::min_of(alloc::vec![tb("9", "1"), tb("5", "9"), tb("1", "10")]);
        assert_eq!(three.unwrap().pieces(), [tb("9", "1"), tb("1", "10")], "5 t + 9 never lowest");
        assert_eq!(Envelope::min_of(alloc::vec![]), None);
    }

    #[test]
    fn deviations_by_hand() {
        // Knee at (1, 30): beyond the first piece of slope 20 > 10, before the second.
        let service = rl("10", "2");
        assert_eq!(bent().delay(&service), Some(r("4")), "2 + 30/10 − 1");
        assert_eq!(bent().backlog(&service), Some(r("35")), "25 + 5 · 2 at t = 2");
        assert_eq!(bent().busy_period(&service), Some(r("9")), "25 + 5 t = 10 t − 20");
        assert_eq!(bent().output(&service).unwrap().pieces(), [tb("5", "35")]);
        let short = rl("10", "1/2");
        assert_eq!(bent().output(&short).unwrap().pieces(), [tb("10", "25"), tb("5", "55/2")]);
        assert_eq!(bent().delay(&rl("4", "0")), None);
        let blind = service.left_over_blind(&tb("5", "25")).unwrap();
        assert_eq!(blind, rl("5", "9"));
        assert_eq!(service.left_over_fifo(&tb("5", "25")).unwrap(), rl("5", "9/2"));
        assert_eq!(service.left_over_fifo(&tb("10", "0")), None);
    }

    #[test]
    fn thinning_keeps_both_ends_and_only_raises() {
        let bucket = |step: i64| {
            TokenBucket::new(Rational::integer(100 - step), Rational::integer(step * step))
        };
        let full = Envelope::min_of((0..50).map(bucket).collect()).unwrap();
        let thin = full.clone().thinned(8);
        assert!(thin.0.len() <= 8, "{}", thin.0.len());
        assert_eq!((&thin.0[0], thin.sustained()), (&full.0[0], full.sustained()));
        for time in 0..200 {
            let time = Rational::new(time, 4).unwrap();
            assert!(thin.at(&time) >= full.at(&time));
        }
    }

    fn envelope() -> impl Strategy<Value = Envelope> {
        proptest::collection::vec((0_i64..20, 0_i64..40), 1..5).prop_map(|pieces| {
            let bucket =
                |(rate, burst)| TokenBucket::new(Rational::integer(rate), Rational::integer(burst));
            Envelope::min_of(pieces.into_iter().map(bucket).collect()).unwrap()
        })
    }

    proptest! {
        /// Every operation against its definition on a grid of quarter steps. The grid only
        /// samples the supremum, so the exact value is at least the sample, and is met where all
        /// knees are on the grid.
        #[test]
        fn operations_meet_their_definitions(
            a in envelope(), b in envelope(), rate in 1_i64..25, latency in 0_i64..6,
        ) {
            let service = RateLatency::new(Rational::integer(rate), Rational::integer(latency));
            let grid: Vec<Rational> =
                (1..240).map(|quarter| Rational::new(quarter, 4).unwrap()).collect();
            let served = |t: &Rational| {
                (&service.rate * &(t - &service.latency)).max(Rational::ZERO)
            };
            let together = a.plus(&b);
            prop_assert_eq!(&Envelope::sum([&a, &b]), &together);
            for t in &grid {
                prop_assert_eq!(together.at(t), &a.at(t) + &b.at(t));
            }
            let Some(delay) = a.delay(&service) else {
                prop_assert!(a.sustained().rate > service.rate);
                return Ok(());
            };
            let backlog = a.backlog(&service).unwrap();
            let output = a.output(&service).unwrap();
            let mut attained = false;
            for t in &grid {
                prop_assert!(a.at(t) <= served(&(t + &delay)));
                prop_assert!(&a.at(t) - &served(t) <= backlog);
                for s in grid.iter().step_by(7) {
                    prop_assert!(&a.at(&(t + s)) - &served(s) <= output.at(t));
                }
            }
            // The supremum is attained at zero, at the latency or at a knee.
            let mut times = alloc::vec![Rational::ZERO, service.latency.clone()];
            times.extend((0..a.0.len()).filter_map(|index| a.knee(index)));
            for t in &times {
                attained |= &a.at(t) - &served(t) == backlog;
            }
            prop_assert!(attained);
            prop_assert_eq!(output.burst(), &backlog);
        }
    }
}
