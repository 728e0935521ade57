//! Which sums of what came are the members that did not.

use super::field::{coefficient, inverse, product};
use super::kind::{MEMBERS_MAX, PARITIES_MAX};

/// For one missing member, how often each symbol is in it.
pub(super) type Row = [u8; MEMBERS_MAX];

/// What each missing member is: `rows[a][i]` times member `i`, where that is there, and
/// `rows[a][missing[b]]` times parity `parities[b]`, in the place of a member that is not.
///
/// `missing` and `parities` have the same length, at most [`PARITIES_MAX`], and no number twice.
pub(super) fn solve(members: usize, missing: &[usize], parities: &[usize]) -> [Row; PARITIES_MAX] {
    assert_eq!(missing.len(), parities.len(), "a parity for each that is missing");
    let inverted = invert(missing, parities);
    let mut rows = [[0; MEMBERS_MAX]; PARITIES_MAX];
    for (row, from) in rows.iter_mut().zip(&inverted).take(missing.len()) {
        for (member, place) in row.iter_mut().enumerate().take(members) {
            *place = match missing.iter().position(|m| *m == member) {
                Some(b) => from[b],
                // The parity without this member is what the missing ones add up to.
                None => (0..parities.len())
                    .map(|b| product(from[b], coefficient(parities[b], member)))
                    .fold(0, |sum, p| sum ^ p),
            };
        }
    }
    rows
}

type Square = [[u8; PARITIES_MAX]; PARITIES_MAX];

/// The inverse of the coefficients of the `missing` in the `parities`, by Gauss and Jordan. No
/// pivot is 0: every leading part of a Cauchy matrix can be inverted, too.
fn invert(missing: &[usize], parities: &[usize]) -> Square {
    let n = missing.len();
    let (mut left, mut right): (Square, Square) = Default::default();
    for b in 0..n {
        for (a, member) in missing.iter().enumerate() {
            left[b][a] = coefficient(parities[b], *member);
        }
        right[b][b] = 1;
    }
    for at in 0..n {
        let scale = inverse(left[at][at]);
        for column in 0..n {
            left[at][column] = product(left[at][column], scale);
            right[at][column] = product(right[at][column], scale);
        }
        for row in (0..n).filter(|row| *row != at) {
            let times = left[row][at];
            for column in 0..n {
                left[row][column] ^= product(times, left[at][column]);
                right[row][column] ^= product(times, right[at][column]);
            }
        }
    }
    right
}
