//! Min-plus convolution and deconvolution of curves of any shape.
//!
//! Where both curves are affine the sum f(s) + g(t − s) is affine in s, so its extremes lie where
//! one of them starts a piece, from either side. The result is the least (or greatest) of one
//! candidate per start: Bouillard and Thierry, *An algorithmic toolbox for network calculus*
//! (2008), section 4. Cost: the product of the numbers of pieces, times the pieces of the result.

use alloc::vec::Vec;

use super::curve::{Curve, Piece};
use super::rational::Rational;

/// The most pieces, of both curves multiplied, that are convolved.
pub const PRODUCT_MAX: usize = 65_536;

impl Curve {
    /// (f ⊗ g)(t) = inf over 0 ≤ s ≤ t of f(s) + g(t − s): two servers in a row. `None` beyond
    /// [`PRODUCT_MAX`].
    pub fn convolve(&self, other: &Self) -> Option<Self> {
        if self.pieces().len().saturating_mul(other.pieces().len()) > PRODUCT_MAX {
            return None;
        }
        let first = self.pieces().iter().map(|piece| split_at(self, other, piece));
        let second = other.pieces().iter().map(|piece| split_at(other, self, piece));
        first.chain(second).reduce(|least, next| least.min(&next).joined())
    }

    /// (f ⊘ g)(t) = sup over s ≥ 0 of f(t + s) − g(s): what leaves a server with service g when f
    /// arrives. Its value at zero is the largest vertical distance. `None` if infinite, or beyond
    /// [`PRODUCT_MAX`].
    pub fn deconvolve(&self, service: &Self) -> Option<Self> {
        let last = |curve: &Self| curve.pieces()[curve.pieces().len() - 1].slope.clone();
        let product = self.pieces().len().saturating_mul(service.pieces().len());
        if product > PRODUCT_MAX || last(self) > last(service) {
            return None;
        }
        let shifted = service.pieces().iter().map(|piece| ahead_of(self, service, piece));
        let turned = self.pieces().iter().map(|piece| back_from(self, service, piece));
        shifted.chain(turned).reduce(|most, next| most.max(&next).joined())
    }

    /// Limit just before `time`; the value itself at zero.
    fn before(&self, time: &Rational) -> Rational {
        let index = self.pieces().partition_point(|piece| piece.start < *time);
        match index.checked_sub(1).map(|index| &self.pieces()[index]) {
            Some(piece) => &piece.after + &(&piece.slope * &(time - &piece.start)),
            None => self.at(time),
        }
    }

    /// Joins pieces that continue each other.
    fn joined(&self) -> Self {
        let mut pieces: Vec<Piece> = Vec::with_capacity(self.pieces().len());
        for piece in self.pieces() {
            let continues = pieces.last().is_some_and(|last: &Piece| {
                let reached = &last.after + &(&last.slope * &(&piece.start - &last.start));
                last.slope == piece.slope && reached == piece.at && reached == piece.after
            });
            if !continues {
                pieces.push(piece.clone());
            }
        }
        Self::from_pieces(pieces)
    }
}

/// f(a) + g(t − a) for t ≥ a, with the least of the limits on both sides; f(t) + g(0) before.
fn split_at(f: &Curve, g: &Curve, start: &Piece) -> Curve {
    let (a, origin) = (&start.start, g.at(&Rational::ZERO));
    let lowest = f.before(a);
    let raised = |piece: &Piece| Piece {
        at: &piece.at + &origin,
        after: &piece.after + &origin,
        ..piece.clone()
    };
    let mut pieces: Vec<Piece> =
        f.pieces().iter().filter(|piece| piece.start < *a).map(raised).collect();
    for piece in g.pieces() {
        let after = &lowest + &piece.after;
        let mut at = (&start.at + &piece.at).min(after.clone());
        if !piece.start.is_zero() {
            at = at.min(&start.after + &g.before(&piece.start));
        }
        pieces.push(Piece { start: a + &piece.start, at, after, slope: piece.slope.clone() });
    }
    Curve::from_pieces(pieces)
}

/// f(t + b) − g(b), with the greatest of the limits on both sides.
fn ahead_of(f: &Curve, g: &Curve, start: &Piece) -> Curve {
    let b = &start.start;
    let lowest = g.before(b);
    let value = |time: &Rational| {
        let from_right = &f.after(time) - &start.after;
        (&f.at(time) - &start.at).max(&f.before(time) - &lowest).max(from_right)
    };
    let later = f.pieces().iter().filter(|piece| piece.start > *b);
    let first = core::iter::once(b.clone());
    let pieces = first.chain(later.map(|piece| piece.start.clone())).map(|time| Piece {
        // At t = 0 the limit from the left does not exist for s = 0 only.
        at: if b.is_zero() && time.is_zero() { &f.at(&time) - &start.at } else { value(&time) },
        after: &f.after(&time) - &lowest,
        slope: f.slope_after(&time),
        start: &time - b,
    });
    Curve::from_pieces(pieces.collect())
}

/// f(a) − g(a − t) for t ≤ a, with the greatest of the limits on both sides; constant after.
fn back_from(f: &Curve, g: &Curve, start: &Piece) -> Curve {
    let a = &start.start;
    let mut pieces: Vec<Piece> = Vec::new();
    let inner = g.pieces().iter().filter(|piece| piece.start < *a && !piece.start.is_zero());
    let mut times: Vec<Rational> = inner.map(|piece| a - &piece.start).collect();
    times.extend([Rational::ZERO, a.clone()]);
    times.sort();
    times.dedup();
    for time in times {
        let rest = a - &time;
        let at = (&start.at - &g.at(&rest)).max(&start.after - &g.after(&rest));
        let at = if rest.is_zero() { at } else { at.max(&f.before(a) - &g.before(&rest)) };
        let (after, slope) = if rest.is_zero() {
            (at.clone(), Rational::ZERO)
        } else {
            (&start.after - &g.before(&rest), g.slope_before(&rest))
        };
        pieces.push(Piece { start: time, at, after, slope });
    }
    Curve::from_pieces(pieces)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::envelope::{Envelope, RateLatency};
    use super::*;

    fn r(value: i64) -> Rational {
        Rational::integer(value)
    }

    fn curve() -> impl Strategy<Value = Curve> {
        proptest::collection::vec((1_i64..4, 0_i64..4, 0_i64..4, 0_i64..4), 1..4).prop_map(
            |steps| {
                let (mut start, mut level) = (r(0), r(0));
                let mut pieces = Vec::new();
                for (length, jump, rise, slope) in steps {
                    let at = if pieces.is_empty() { r(0) } else { &level + &r(jump) };
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

    /// Values at, just before and just after `time`, limits included by a very small step.
    fn around(time: &Rational) -> Vec<Rational> {
        let near = Rational::new(1, 1_000_000).unwrap();
        [time - &near, time.clone(), time + &near].into()
    }

    #[test]
    fn known_shapes() {
        let service = Curve::rate_latency(r(10), r(2));
        let two = service.convolve(&Curve::rate_latency(r(5), r(3))).unwrap();
        assert_eq!(two, Curve::rate_latency(r(5), r(5)));
        let concave = Curve::token_bucket(r(3), r(4)).convolve(&Curve::token_bucket(r(1), r(9)));
        assert_eq!(
            concave,
            Some(Curve::token_bucket(r(3), r(4)).min(&Curve::token_bucket(r(1), r(9))))
        );
        let source = Curve::token_bucket(r(3), r(4));
        let output = source.deconvolve(&service).unwrap();
        assert_eq!((output.at(&r(0)), output.at(&r(7))), (r(10), r(31)), "4 + 3 (t + 2)");
        assert_eq!(Curve::token_bucket(r(11), r(0)).deconvolve(&service), None);
    }

    proptest! {
        #[test]
        fn convolution_meets_its_definition(f in curve(), g in curve()) {
            let both = f.convolve(&g).unwrap();
            prop_assert!(Curve::new(both.pieces().to_vec()).is_ok());
            let slack = Rational::new(1, 10_000).unwrap();
            for time in (0..40).map(|half| Rational::new(half, 2).unwrap()) {
                let starts = f.pieces().iter().map(|piece| piece.start.clone());
                let others = g.pieces().iter().map(|piece| &time - &piece.start);
                let splits = starts.chain(others).flat_map(|split| around(&split));
                let splits = splits.chain([r(0), time.clone()]);
                let inside = splits.filter(|split| !split.is_negative() && *split <= time);
                let sums = inside.map(|split| &f.at(&split) + &g.at(&(&time - &split)));
                let least = sums.min().unwrap();
                let found = both.at(&time);
                prop_assert!(found <= least, "{} > {} at {}", found, least, time);
                prop_assert!(&least - &slack <= found, "{} ≪ {} at {}", found, least, time);
            }
        }

        #[test]
        fn deconvolution_meets_its_definition(f in curve(), g in curve()) {
            let Some(output) = f.deconvolve(&g) else { return Ok(()) };
            prop_assert!(Curve::new(output.pieces().to_vec()).is_ok());
            prop_assert_eq!(
                output.at(&r(0)).max(r(0)), f.vertical_deviation(&g).unwrap().max(r(0))
            );
            let slack = Rational::new(1, 10_000).unwrap();
            for time in (0..40).map(|half| Rational::new(half, 2).unwrap()) {
                let starts = g.pieces().iter().map(|piece| piece.start.clone());
                let others = f.pieces().iter().map(|piece| &piece.start - &time);
                let steps = starts.chain(others).flat_map(|step| around(&step)).chain([r(0)]);
                let values = steps
                    .filter(|step| !step.is_negative())
                    .map(|step| &f.at(&(&time + &step)) - &g.at(&step));
                let most = values.max().unwrap();
                let found = output.at(&time);
                prop_assert!(found >= most, "{} < {} at {}", found, most, time);
                prop_assert!(&most + &slack >= found, "{} ≫ {} at {}", found, most, time);
            }
        }

        /// The short form that networks use is the same function.
        #[test]
        fn the_envelope_form_agrees(
            rate in 0_i64..9, burst in 0_i64..9, other in 0_i64..9, more in 0_i64..9,
            served in 1_i64..12, latency in 0_i64..5,
        ) {
            let bucket = |rate, burst| Envelope::token_bucket(r(rate), r(burst));
            let envelope = bucket(rate, burst).capped(bucket(other, more).sustained());
            let service = RateLatency::new(r(served), r(latency));
            let short = envelope.output(&service);
            let long = Curve::from(&envelope).deconvolve(&Curve::from(&service));
            prop_assert_eq!(short.is_some(), long.is_some());
            if let (Some(short), Some(long)) = (short, long) {
                for time in 0..20 {
                    prop_assert_eq!(short.at(&r(time)), long.after(&r(time)));
                }
            }
        }
    }
}
