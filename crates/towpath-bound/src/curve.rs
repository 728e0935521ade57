//! Piecewise-linear curves of any shape, ultimately affine: the general form, for single servers
//! and for curves that are neither concave nor convex.
//!
//! Definitions: Le Boudec and Thiran, *Network Calculus* (2001), chapters 1 and 3; finite
//! representation: Bouillard and Thierry, *An algorithmic toolbox for network calculus* (2008).

use alloc::vec::Vec;

use super::envelope::{Envelope, RateLatency};
use super::rational::Rational;

/// The most pieces of a [`Curve`].
pub const CURVE_PIECES_MAX: usize = 10_000;

/// Why pieces are no curve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CurveError {
    /// No piece, or the first does not start at zero.
    #[error("a curve starts at time zero")]
    Start,
    /// Starts do not rise, or the curve falls: at the piece of this index.
    #[error("piece {0} of a curve: starts must rise and values must not fall")]
    Order(usize),
    /// More than [`CURVE_PIECES_MAX`] pieces.
    #[error("a curve of {0} pieces; the limit is {CURVE_PIECES_MAX}")]
    TooMany(usize),
}

/// A piece from `start` to the start of the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Time at which it starts.
    pub start: Rational,
    /// Value at exactly `start`.
    pub at: Rational,
    /// Limit just after `start`.
    pub after: Rational,
    /// Slope after `start`.
    pub slope: Rational,
}

/// A non-decreasing function of time t ≥ 0.
///
/// Invariants: the first piece starts at zero; starts strictly rise; values never fall; the last
/// piece goes on for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve(Vec<Piece>);

impl Curve {
    /// From pieces in order.
    pub fn new(pieces: Vec<Piece>) -> Result<Self, CurveError> {
        if pieces.len() > CURVE_PIECES_MAX {
            return Err(CurveError::TooMany(pieces.len()));
        }
        if !pieces.first().is_some_and(|piece| piece.start.is_zero()) {
            return Err(CurveError::Start);
        }
        for (index, piece) in pieces.iter().enumerate() {
            let falls = piece.slope.is_negative() || piece.after < piece.at;
            let out_of_order = index > 0 && {
                let before = &pieces[index - 1];
                piece.start <= before.start || piece.at < before.before(&piece.start)
            };
            if falls || out_of_order {
                return Err(CurveError::Order(index));
            }
        }
        Ok(Self(pieces))
    }

    /// Nothing at time zero, `burst + rate · t` after.
    pub fn token_bucket(rate: Rational, burst: Rational) -> Self {
        let start = Rational::ZERO;
        Self(alloc::vec![Piece { start, at: Rational::ZERO, after: burst, slope: rate }])
    }

    /// rate · max(0, t − latency).
    pub fn rate_latency(rate: Rational, latency: Rational) -> Self {
        let flat = |start: Rational, slope: Rational| Piece {
            start,
            at: Rational::ZERO,
            after: Rational::ZERO,
            slope,
        };
        if latency.is_zero() {
            return Self(alloc::vec![flat(latency, rate)]);
        }
        Self(alloc::vec![flat(Rational::ZERO, Rational::ZERO), flat(latency, rate)])
    }

    /// `size` at once every `period`, the first just after zero: the sporadic source (Xmin, Smax).
    /// Exact for `steps` periods, then the token bucket above it. `None` if the period or the
    /// number of steps is zero or beyond [`CURVE_PIECES_MAX`].
    pub fn staircase(size: &Rational, period: &Rational, steps: usize) -> Option<Self> {
        let rate = size.checked_div(period)?;
        if steps == 0 || steps >= CURVE_PIECES_MAX || period.is_negative() {
            return None;
        }
        let piece = |step: usize| {
            let step = Rational::whole(step as u64);
            let at = &step * size;
            let after = &at + size;
            Piece { start: &step * period, at, after, slope: Rational::ZERO }
        };
        let mut pieces: Vec<Piece> = (0..=steps).map(piece).collect();
        pieces[steps].slope = rate;
        Some(Self(pieces))
    }

    /// From pieces that are known to be in order.
    pub(super) fn from_pieces(pieces: Vec<Piece>) -> Self {
        Self(pieces)
    }

    /// Slope just after `time`.
    pub(super) fn slope_after(&self, time: &Rational) -> Rational {
        self.piece(time).slope.clone()
    }

    /// Slope just before `time` > 0.
    pub(super) fn slope_before(&self, time: &Rational) -> Rational {
        let next = self.0.partition_point(|piece| piece.start < *time);
        self.0[next.max(1) - 1].slope.clone()
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// Value at exactly `time` ≥ 0.
    pub fn at(&self, time: &Rational) -> Rational {
        let piece = self.piece(time);
        if piece.start == *time { piece.at.clone() } else { piece.before(time) }
    }

    /// Limit just after `time` ≥ 0.
    pub fn after(&self, time: &Rational) -> Rational {
        self.piece(time).before(time)
    }

    /// The curve raised by a constant everywhere, also at zero.
    #[must_use]
    pub fn plus_constant(&self, constant: &Rational) -> Self {
        let raise = |piece: &Piece| Piece {
            at: &piece.at + constant,
            after: &piece.after + constant,
            ..piece.clone()
        };
        Self(self.0.iter().map(raise).collect())
    }

    /// The sum of two curves.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let piece = |start: Rational| Piece {
            at: &self.at(&start) + &other.at(&start),
            after: &self.after(&start) + &other.after(&start),
            slope: &self.piece(&start).slope + &other.piece(&start).slope,
            start,
        };
        Self(self.starts_with(other).into_iter().map(piece).collect())
    }

    /// The pointwise minimum: for concave curves that are zero at zero, their convolution.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        self.pointwise(other, |mine, others| mine < others)
    }

    /// The pointwise maximum.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        self.pointwise(other, |mine, others| mine > others)
    }

    /// The largest vertical distance sup f − g; `None` if infinite.
    pub fn vertical_deviation(&self, service: &Self) -> Option<Rational> {
        let starts = self.starts_with(service);
        let last = &starts[starts.len() - 1];
        if self.piece(last).slope > service.piece(last).slope {
            return None;
        }
        let mut most = Rational::ZERO;
        for (index, time) in starts.iter().enumerate() {
            most = most.max(&self.at(time) - &service.at(time));
            most = most.max(&self.after(time) - &service.after(time));
            if let Some(next) = starts.get(index + 1) {
                let left = &self.piece(time).before(next) - &service.piece(time).before(next);
                most = most.max(left);
            }
        }
        Some(most)
    }

    /// The largest horizontal distance: sup over t of the least d with f(t) ≤ g(t + d); `None` if
    /// infinite.
    pub fn horizontal_deviation(&self, service: &Self) -> Option<Rational> {
        let (own, other) = (self.last(), service.last());
        let unserved = other.slope.is_zero()
            && (own.slope.is_positive() || self.after(&own.start) > other.after);
        if own.slope > other.slope || unserved {
            return None;
        }
        let mut most = Rational::ZERO;
        let mut take = |time: &Rational, reached: Option<Rational>| {
            if let Some(reached) = reached {
                most = most.clone().max(&reached - time);
            }
        };
        let levels = service.levels();
        let mut times: Vec<Rational> =
            levels.iter().filter_map(|level| self.first_at(level)).collect();
        times.extend(self.0.iter().map(|piece| piece.start.clone()));
        for time in &times {
            take(time, service.first_at(&self.at(time)));
            let after = self.after(time);
            // Just after this time the curve is above `after` if it rises, at it if it is flat.
            let rises = self.piece(time).slope.is_positive();
            let reached =
                if rises { service.first_above(&after) } else { service.first_at(&after) };
            take(time, reached);
        }
        Some(most)
    }

    /// Values around every start: where the inverse of the curve bends or jumps.
    fn levels(&self) -> Vec<Rational> {
        let left = self.0.windows(2).map(|pair| pair[0].before(&pair[1].start));
        let right = self.0.iter().flat_map(|piece| [piece.at.clone(), piece.after.clone()]);
        left.chain(right).collect()
    }

    /// Least time at which the value is at least `level`; a limit counts as reached.
    fn first_at(&self, level: &Rational) -> Option<Rational> {
        self.first(level, |value, level| value >= level, |value, level| value > level)
    }

    /// Infimum of the times at which the value is above `level`.
    fn first_above(&self, level: &Rational) -> Option<Rational> {
        self.first(level, |value, level| value > level, |value, level| value > level)
    }

    fn first(
        &self,
        level: &Rational,
        enough: impl Fn(&Rational, &Rational) -> bool,
        above: impl Fn(&Rational, &Rational) -> bool,
    ) -> Option<Rational> {
        for (index, piece) in self.0.iter().enumerate() {
            if enough(&piece.at, level) || enough(&piece.after, level) {
                return Some(piece.start.clone());
            }
            let end = self.0.get(index + 1).map(|next| piece.before(&next.start));
            // The end of a piece belongs to the next one, so it must be passed, not just met.
            if piece.slope.is_positive() && end.is_none_or(|end| above(&end, level)) {
                let wait = &(level - &piece.after) / &piece.slope;
                return Some(&piece.start + &wait);
            }
        }
        None
    }

    fn last(&self) -> &Piece {
        &self.0[self.0.len() - 1]
    }

    /// The piece that holds `time` and what follows it.
    fn piece(&self, time: &Rational) -> &Piece {
        let next = self.0.partition_point(|piece| piece.start <= *time);
        &self.0[next.max(1) - 1]
    }

    fn starts_with(&self, other: &Self) -> Vec<Rational> {
        let mut starts: Vec<Rational> =
            self.0.iter().chain(&other.0).map(|piece| piece.start.clone()).collect();
        starts.sort();
        starts.dedup();
        starts
    }

    /// Takes from `self` where `mine(self, other)` holds, else from `other`.
    fn pointwise(&self, other: &Self, mine: impl Fn(&Rational, &Rational) -> bool) -> Self {
        let mut starts = self.starts_with(other);
        let mut crossings: Vec<Rational> = Vec::new();
        for (index, start) in starts.iter().enumerate() {
            let (a, b) = (self.piece(start), other.piece(start));
            let gap = &b.before(start) - &a.before(start);
            let closing = &a.slope - &b.slope;
            if let Some(wait) = gap.checked_div(&closing).filter(Rational::is_positive) {
                let crossing = start + &wait;
                if starts.get(index + 1).is_none_or(|next| crossing < *next) {
                    crossings.push(crossing);
                }
            }
        }
        starts.extend(crossings);
        starts.sort();
        let piece = |start: Rational| {
            let (a, b) = (self.piece(&start), other.piece(&start));
            let pick = |x: Rational, y: Rational| if mine(&x, &y) { x } else { y };
            let (after_a, after_b) = (a.before(&start), b.before(&start));
            // Where the limits are equal the slopes decide what follows.
            let slope = if after_a == after_b {
                pick(a.slope.clone(), b.slope.clone())
            } else if mine(&after_a, &after_b) {
                a.slope.clone()
            } else {
                b.slope.clone()
            };
            let at = pick(self.at(&start), other.at(&start));
            Piece { at, after: pick(after_a, after_b), slope, start }
        };
        Self(starts.into_iter().map(piece).collect())
    }
}

impl Piece {
    /// Limit just before `time` (after `start`), or just after it if `time` is the start.
    fn before(&self, time: &Rational) -> Rational {
        &self.after + &(&self.slope * &(time - &self.start))
    }
}

impl From<&Envelope> for Curve {
    fn from(envelope: &Envelope) -> Self {
        let buckets = envelope.pieces().iter();
        let curves =
            buckets.map(|bucket| Self::token_bucket(bucket.rate.clone(), bucket.burst.clone()));
        curves.reduce(|a, b| a.min(&b)).expect("an envelope has a piece")
    }
}

impl From<&RateLatency> for Curve {
    fn from(service: &RateLatency) -> Self {
        Self::rate_latency(service.rate.clone(), service.latency.clone())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn r(value: i64) -> Rational {
        Rational::integer(value)
    }

    fn q(quarters: i128) -> Rational {
        Rational::new(quarters, 4).unwrap()
    }

    #[test]
    fn malformed_curves_are_refused() {
        let piece = |start, at, after, slope| Piece {
            start: r(start),
            at: r(at),
            after: r(after),
            slope: r(slope),
        };
        assert_eq!(Curve::new(alloc::vec![]), Err(CurveError::Start));
        assert_eq!(Curve::new(alloc::vec![piece(1, 0, 0, 1)]), Err(CurveError::Start));
        let falls = alloc::vec![piece(0, 0, 5, 1), piece(2, 6, 6, 1)];
        assert_eq!(Curve::new(falls), Err(CurveError::Order(1)));
        assert_eq!(Curve::new(alloc::vec![piece(0, 0, 0, -1)]), Err(CurveError::Order(0)));
        assert_eq!(Curve::staircase(&r(1), &r(0), 5), None);
    }

    #[test]
    fn a_staircase_waits_for_its_worst_step() {
        // 3 units every 4 against a server of rate 1 and latency 2: each step is done after 5.
        let stairs = Curve::staircase(&r(3), &r(4), 20).unwrap();
        let service = Curve::rate_latency(r(1), r(2));
        assert_eq!(stairs.horizontal_deviation(&service), Some(r(5)));
        assert_eq!(stairs.vertical_deviation(&service), Some(r(4)), "just after t = 4: 6 − 2");
    }

    #[test]
    fn flat_service_delays_what_comes_on_the_step() {
        // Time slots: 4 units in [3, 4), [7, 8), ...: nothing served in between.
        let slot = |start| Curve::rate_latency(r(4), r(start));
        let capped = slot(3).min(&Curve::token_bucket(r(0), r(4)));
        let second = capped.plus(&slot(7));
        // Nearly no data at all may wait for the second slot once the first is used up.
        let source = Curve::token_bucket(r(1), r(3));
        assert_eq!(source.horizontal_deviation(&second), Some(r(6)), "level 4 at t = 1 until 7");
    }

    fn curve() -> impl Strategy<Value = Curve> {
        proptest::collection::vec((1_i64..4, 0_i64..4, 0_i64..4, 0_i64..4), 1..5).prop_map(
            |steps| {
                let (mut start, mut level) = (r(0), r(0));
                let mut pieces = Vec::new();
                for (length, jump, rise, slope) in steps {
                    let at = &level + &r(jump);
                    let after = &at + &r(rise);
                    level = &after + &r(slope * length);
                    let next = &start + &r(length);
                    pieces.push(Piece { start, at, after, slope: r(slope) });
                    start = next;
                }
                Curve::new(pieces).unwrap()
            },
        )
    }

    proptest! {
        #[test]
        fn pointwise_operations_hold_everywhere(a in curve(), b in curve()) {
            let (low, high, sum) = (a.min(&b), a.max(&b), a.plus(&b));
            for time in (0..80).map(q) {
                prop_assert_eq!(low.at(&time), a.at(&time).min(b.at(&time)));
                prop_assert_eq!(high.at(&time), a.at(&time).max(b.at(&time)));
                prop_assert_eq!(sum.at(&time), &a.at(&time) + &b.at(&time));
                prop_assert_eq!(low.after(&time), a.after(&time).min(b.after(&time)));
            }
            prop_assert!(Curve::new(low.pieces().to_vec()).is_ok());
        }

        /// Deviations against their definitions: no sample exceeds them, and a slightly smaller
        /// one is exceeded by some sample near a breakpoint.
        #[test]
        fn deviations_are_the_least_upper_bounds(a in curve(), b in curve()) {
            let near = Rational::new(1, 1_000_000).unwrap();
            let mut times: Vec<Rational> = (0..120).map(q).collect();
            times.extend(b.levels().iter().filter_map(|level| a.first_at(level)));
            let close = times.iter().flat_map(|time| [time + &near, time - &near]);
            let close: Vec<Rational> = close.filter(|time| !time.is_negative()).collect();
            times.extend(close);
            if let Some(backlog) = a.vertical_deviation(&b) {
                let worst = times.iter().map(|time| &a.at(time) - &b.at(time));
                let worst = worst.max().unwrap().max(r(0));
                prop_assert!(worst <= backlog);
                prop_assert!(&worst + &(&near * &r(20)) >= backlog);
            }
            if let Some(delay) = a.horizontal_deviation(&b) {
                let wait = |time: &Rational| {
                    let level = a.at(time);
                    b.first_at(&level).map(|reached| &reached - time)
                };
                let worst = times.iter().filter_map(wait).max().unwrap().max(r(0));
                prop_assert!(worst <= delay, "{} > {}", worst, delay);
                prop_assert!(&worst + &(&near * &r(20)) >= delay, "{} ≪ {}", worst, delay);
            }
        }
    }
}
