//! Straight lines in a picture: every point votes for the lines through it.

use crate::exchange::{Exchange, ExchangeError, Result, share, share_counts};

/// Directions, a degree each.
const THETAS: usize = 180;

/// Votes by direction and distance.
pub(crate) struct Votes {
    /// Distances go from -far to far, in pixels.
    pub(crate) far: usize,
    pub(crate) counts: Vec<u64>,
}

impl Votes {
    /// The line with most votes: degrees, distance, votes.
    pub(crate) fn best(&self) -> (usize, i64, u64) {
        let width = 2 * self.far + 1;
        let first = self.counts.iter().enumerate().rev().max_by_key(|(_, votes)| **votes);
        let (at, votes) = first.expect("some line");
        (at / width, (at % width) as i64 - self.far as i64, *votes)
    }
}

/// All points' votes, at the root. ρ = x cos θ + y sin θ, to the nearest pixel.
pub(crate) fn votes(
    exchange: &mut dyn Exchange,
    [width, height]: [usize; 2],
    points: &[[usize; 2]],
) -> Result<Option<Votes>> {
    let far = width.max(1).isqrt().max((width * width + height * height).isqrt() + 1);
    let line = 2 * far + 1;
    let mut counts = vec![0_u64; THETAS * line];
    let turns: Vec<(f64, f64)> = (0..THETAS).map(|t| (t as f64).to_radians().sin_cos()).collect();
    for [x, y] in &points[share(points.len(), exchange.rank(), exchange.size())] {
        for (row, (sin, cos)) in counts.chunks_exact_mut(line).zip(&turns) {
            let rho = (*x as f64 * cos + *y as f64 * sin).round_ties_even() as i64;
            row[(rho + far as i64) as usize] += 1;
        }
    }
    // Each adds everyone's votes for its share of the directions, so that nobody receives more than
    // a table, whatever the number of ranks.
    let (rank, size) = (exchange.rank(), exchange.size());
    let shares = share_counts(THETAS, size, line);
    let mut own = vec![0; shares[rank]];
    for part in exchange.all_to_all_counts(&counts, &shares)? {
        if part.len() != own.len() {
            return Err(ExchangeError::Malformed { len: 8 * part.len(), what: "votes" });
        }
        own.iter_mut().zip(part).for_each(|(sum, votes)| *sum += votes);
    }
    let counts = exchange.gather_counts(0, &own, &shares)?;
    Ok(counts.map(|counts| Votes { far, counts }))
}
