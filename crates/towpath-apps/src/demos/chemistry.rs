//! Transport with chemistry: two substances drift, spread and react on a torus.
//!
//! ∂a/∂t + u ∂a/∂x + v ∂a/∂y = D ∇²a - k a b + f, ∂b/∂t + … = D ∇²b - k a b + g, with f and g such
//! that a = 2 + sin(x - t) cos y and b = 2 + cos(x + y - t) solve it. Central differences, Heun's
//! steps. Tasks have bands of rows, and exchange the rows at their borders twice a step.

use anyhow::ensure;
use clap::Args;

use crate::exchange::{Exchange, Result, bytes, share, share_counts};
use crate::picture::Field;
use crate::report::Report;

const U: f64 = 1.0;
const V: f64 = 0.5;
const SPREAD: f64 = 0.1;
const RATE: f64 = 0.7;
const UPWARDS: i32 = 1;
const DOWNWARDS: i32 = 2;
const SIDE_MAX: usize = 2048;
/// When the result is looked at.
const END: f64 = 0.5;

#[derive(Clone, Debug, Args)]
pub(crate) struct ChemistryArgs {
    /// Points of the torus each way
    #[arg(long, default_value_t = 64)]
    side: usize,
}

/// The two substances by the solution that was chosen.
fn chosen(x: f64, y: f64, t: f64) -> [f64; 2] {
    [2.0 + (x - t).sin() * y.cos(), 2.0 + (x + y - t).cos()]
}

/// What must be added for that.
fn sources(x: f64, y: f64, t: f64) -> [f64; 2] {
    let [a, b] = chosen(x, y, t);
    let (sin, cos) = (x - t).sin_cos();
    let (s, c) = (x + y - t).sin_cos();
    let reaction = RATE * a * b;
    [
        (U - 1.0) * cos * y.cos() - V * sin * y.sin() + 2.0 * SPREAD * sin * y.cos() + reaction,
        (1.0 - U - V) * s + 2.0 * SPREAD * c + reaction,
    ]
}

/// A band of rows with one more above and below; two substances a point.
struct Band {
    n: usize,
    first: usize,
    rows: usize,
    cells: Vec<[f64; 2]>,
}

impl Band {
    fn new(n: usize, rank: usize, size: usize) -> Self {
        let own = share(n, rank, size);
        let mut band = Self { n, first: own.start, rows: own.len(), cells: Vec::new() };
        band.cells = vec![[0.0; 2]; (own.len() + 2) * n];
        for row in 0..band.rows {
            for column in 0..n {
                let [x, y] = band.place(row, column);
                band.cells[(row + 1) * n + column] = chosen(x, y, 0.0);
            }
        }
        band
    }

    fn place(&self, row: usize, column: usize) -> [f64; 2] {
        let h = std::f64::consts::TAU / self.n as f64;
        [column as f64 * h, (self.first + row) as f64 * h]
    }

    /// Rows at the borders, from the neighbours that have rows.
    fn exchange(&mut self, exchange: &mut dyn Exchange) -> Result<()> {
        let (rank, size, n) = (exchange.rank(), exchange.size(), self.n);
        let with_rows = |rank: &usize| !share(n, *rank, size).is_empty();
        if !with_rows(&rank) {
            return Ok(());
        }
        let up = (1..=size).map(|away| (rank + size - away) % size).find(with_rows).unwrap_or(rank);
        let down = (1..=size).map(|away| (rank + away) % size).find(with_rows).unwrap_or(rank);
        let row = |row: usize| row * n..(row + 1) * n;
        exchange.send(up, UPWARDS, &bytes::of(&self.cells[row(1)]))?;
        exchange.send(down, DOWNWARDS, &bytes::of(&self.cells[row(self.rows)]))?;
        let (_, below) = exchange.recv(Some(down), UPWARDS)?;
        bytes::fill(&mut self.cells[row(self.rows + 1)], &below)?;
        let (_, above) = exchange.recv(Some(up), DOWNWARDS)?;
        bytes::fill(&mut self.cells[row(0)], &above)
    }

    /// How fast the band's own cells change.
    fn slopes(&self, t: f64) -> Vec<[f64; 2]> {
        let n = self.n;
        let h = std::f64::consts::TAU / n as f64;
        let mut out = Vec::with_capacity(self.rows * n);
        for row in 0..self.rows {
            for column in 0..n {
                let at = (row + 1) * n;
                let here = self.cells[at + column];
                let (west, east) =
                    (self.cells[at + (column + n - 1) % n], self.cells[at + (column + 1) % n]);
                let (north, south) = (self.cells[at - n + column], self.cells[at + n + column]);
                let [x, y] = self.place(row, column);
                let source = sources(x, y, t);
                let reaction = RATE * here[0] * here[1];
                out.push(std::array::from_fn(|k| {
                    let drift = U * (east[k] - west[k]) + V * (south[k] - north[k]);
                    let curve = east[k] + west[k] + north[k] + south[k] - 4.0 * here[k];
                    SPREAD * curve / (h * h) - drift / (2.0 * h) - reaction + source[k]
                }));
            }
        }
        out
    }

    fn step(&mut self, exchange: &mut dyn Exchange, t: f64, dt: f64) -> Result<()> {
        let own = self.n..(self.rows + 1) * self.n;
        self.exchange(exchange)?;
        let before = self.cells[own.clone()].to_vec();
        let first = self.slopes(t);
        for (cell, slope) in self.cells[own.clone()].iter_mut().zip(&first) {
            *cell = std::array::from_fn(|k| cell[k] + dt * slope[k]);
        }
        self.exchange(exchange)?;
        let second = self.slopes(t + dt);
        let slopes = first.iter().zip(&second);
        for ((cell, before), (a, b)) in self.cells[own].iter_mut().zip(before).zip(slopes) {
            *cell = std::array::from_fn(|k| before[k] + 0.5 * dt * (a[k] + b[k]));
        }
        Ok(())
    }
}

/// Both substances at the end at the root, point by point.
fn run(exchange: &mut dyn Exchange, n: usize) -> Result<Option<Vec<[f64; 2]>>> {
    let mut band = Band::new(n, exchange.rank(), exchange.size());
    let h = std::f64::consts::TAU / n as f64;
    // Stable for Heun's method: D dt / h² ≤ 1/4, and no more than a third of a cell a step.
    let steps = (END / (0.2 * h * h / SPREAD).min(0.3 * h)).ceil() as usize;
    let dt = END / steps as f64;
    for step in 0..steps {
        band.step(exchange, step as f64 * dt, dt)?;
    }
    let own = &band.cells[n..(band.rows + 1) * n];
    let counts = share_counts(n, exchange.size(), 2 * n);
    let all = exchange.gather_counts(0, own.as_flattened(), &counts)?;
    Ok(all.map(|all| all.as_chunks::<2>().0.to_vec()))
}

/// The largest difference from the chosen solution.
fn error(n: usize, cells: &[[f64; 2]]) -> f64 {
    let h = std::f64::consts::TAU / n as f64;
    let off = |(at, cell): (usize, &[f64; 2])| {
        let right = chosen((at % n) as f64 * h, (at / n) as f64 * h, END);
        (cell[0] - right[0]).abs().max((cell[1] - right[1]).abs())
    };
    cells.iter().enumerate().map(off).fold(0.0, f64::max)
}

/// The whole demonstration; the root gets the report.
pub(crate) fn chemistry(
    exchange: &mut dyn Exchange,
    args: &ChemistryArgs,
) -> anyhow::Result<Option<Report>> {
    let n = args.side;
    ensure!((4..=SIDE_MAX).contains(&n), "{n} points: from 4 to {SIDE_MAX}");
    let Some(cells) = run(exchange, n)? else { return Ok(None) };
    let lead = format!("{n} x {n} points, {} tasks", exchange.size());
    let mut report = Report::new("Transport with chemistry", &lead);
    let off = error(n, &cells);
    report.say("Largest difference from the solution", &format!("{off:.3e}"));
    for (what, heading) in ["First substance", "Second substance"].into_iter().enumerate() {
        let values = cells.iter().map(|cell| cell[what]).collect();
        report.field(heading, &Field::new(n, values));
    }
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::local;

    fn solved(size: usize, n: usize) -> Vec<[f64; 2]> {
        local::run(size, |exchange| Ok(run(exchange, n)?)).swap_remove(0).unwrap().unwrap()
    }

    #[test]
    fn half_the_distance_is_a_quarter_of_the_error() {
        let errors = [16, 32, 64].map(|n| error(n, &solved(2, n)));
        for pair in errors.windows(2) {
            let ratio = pair[0] / pair[1];
            assert!((3.5..4.5).contains(&ratio), "{errors:?}");
        }
    }

    #[test]
    fn any_number_of_tasks_gives_the_same_bits_even_more_than_rows() {
        let one = solved(1, 6);
        for size in [2, 3, 4, 7, 8] {
            assert_eq!(solved(size, 6), one, "{size} tasks");
        }
    }
}
