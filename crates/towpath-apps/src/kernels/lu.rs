//! LU with partial pivoting: blocks of columns in turn, a panel broadcast for each.
//!
//! Updates go block by block, so that each number comes from the same operations for any number of
//! ranks.

use super::gemm::{Matrix, Target, add_scaled, gemm};
use crate::exchange::{Exchange, ExchangeError, Result, bytes};

/// Columns of a block.
pub(crate) const BLOCK: usize = 32;

/// A rank's blocks of columns of an n × n matrix, each column by column: block b is with rank b mod
/// size.
pub(crate) struct Blocks {
    n: usize,
    blocks: Vec<(usize, Vec<f64>)>,
}

/// Which columns a block is.
fn columns(n: usize, block: usize) -> std::ops::Range<usize> {
    block * BLOCK..((block + 1) * BLOCK).min(n)
}

/// The factors, and the rows that were exchanged, in order.
pub(crate) struct Factors {
    pub(crate) n: usize,
    /// Column by column: L below the diagonal, U from it on.
    pub(crate) columns: Vec<f64>,
    pub(crate) pivots: Vec<usize>,
}

impl Blocks {
    pub(crate) fn new(
        n: usize,
        rank: usize,
        size: usize,
        entry: impl Fn(usize, usize) -> f64,
    ) -> Self {
        let block = |b: usize| {
            let cells = columns(n, b).flat_map(|column| (0..n).map(move |row| (row, column)));
            (b, cells.map(|(row, column)| entry(row, column)).collect())
        };
        let own = (0..n.div_ceil(BLOCK)).filter(|b| b % size == rank);
        Self { n, blocks: own.map(block).collect() }
    }

    /// Factors the matrix together; every rank hears the pivots. An error names the column in which
    /// there is no pivot.
    pub(crate) fn factor(&mut self, exchange: &mut dyn Exchange) -> Result<Vec<usize>> {
        let n = self.n;
        let mut pivots = Vec::with_capacity(n);
        for b in 0..n.div_ceil(BLOCK) {
            let (first, owner) = (b * BLOCK, b % exchange.size());
            let panel = self.blocks.iter_mut().find(|(block, _)| *block == b);
            let message = panel.map(|(_, panel)| {
                let swaps = panel_factor(panel, n, first);
                let mut words: Vec<f64> = swaps.iter().map(|row| *row as f64).collect();
                words.extend_from_slice(panel);
                bytes::of_f64(&words)
            });
            let words = bytes::to_f64(&exchange.broadcast(owner, message)?)?;
            let width = columns(n, b).len();
            if words.len() != width * (n + 1) {
                return Err(ExchangeError::Malformed { len: 8 * words.len(), what: "a panel" });
            }
            let (swaps, panel) = words.split_at(width);
            let swaps: Vec<usize> = swaps.iter().map(|row| *row as usize).collect();
            if swaps.iter().any(|row| *row >= n) {
                return Err(ExchangeError::Machine("the matrix is singular".into()));
            }
            for (block, cells) in &mut self.blocks {
                if *block != b {
                    exchange_rows(cells, n, first, &swaps);
                }
                if *block > b {
                    update(cells, panel, n, first, width);
                }
            }
            pivots.extend(swaps);
        }
        Ok(pivots)
    }

    /// All blocks at the root.
    pub(crate) fn collect(
        &self,
        exchange: &mut dyn Exchange,
        pivots: Vec<usize>,
    ) -> Result<Option<Factors>> {
        let own: Vec<f64> = self.blocks.iter().flat_map(|(_, cells)| cells).copied().collect();
        let Some(parts) = exchange.gather(0, bytes::of_f64(&own))? else { return Ok(None) };
        let (n, size) = (self.n, exchange.size());
        let mut all = vec![0.0; n * n];
        for (rank, part) in parts.iter().enumerate() {
            let cells = bytes::to_f64(part)?;
            let mut rest = &cells[..];
            for b in (0..n.div_ceil(BLOCK)).filter(|b| b % size == rank) {
                let range = columns(n, b);
                let malformed = ExchangeError::Malformed { len: part.len(), what: "blocks" };
                let (block, after) = rest.split_at_checked(range.len() * n).ok_or(malformed)?;
                all[range.start * n..range.end * n].copy_from_slice(block);
                rest = after;
            }
        }
        Ok(Some(Factors { n, columns: all, pivots }))
    }
}

/// Factors a panel in place; the row exchanged with each of its rows, n where there is no pivot.
fn panel_factor(panel: &mut [f64], n: usize, first: usize) -> Vec<usize> {
    let width = panel.len() / n;
    let mut swaps = Vec::with_capacity(width);
    for j in 0..width {
        let row = first + j;
        let column = &panel[j * n..(j + 1) * n];
        let larger = |a: &usize, b: &usize| column[*a].abs().total_cmp(&column[*b].abs());
        // The first of the largest.
        let pivot = (row..n).rev().max_by(larger).expect("a row at least");
        if column[pivot] == 0.0 || !column[pivot].is_finite() {
            swaps.resize(width, n);
            return swaps;
        }
        swaps.push(pivot);
        for k in 0..width {
            panel.swap(k * n + row, k * n + pivot);
        }
        let inverse = 1.0 / panel[j * n + row];
        for cell in &mut panel[j * n + row + 1..(j + 1) * n] {
            *cell *= inverse;
        }
        let (left, right) = panel.split_at_mut((j + 1) * n);
        let factors = &left[j * n + row + 1..(j + 1) * n];
        for other in right.chunks_exact_mut(n) {
            let top = other[row];
            add_scaled(&mut other[row + 1..], -top, factors);
        }
    }
    swaps
}

fn exchange_rows(cells: &mut [f64], n: usize, first: usize, swaps: &[usize]) {
    for column in cells.chunks_exact_mut(n) {
        for (at, row) in swaps.iter().enumerate() {
            column.swap(first + at, *row);
        }
    }
}

/// U₁₂ = L₁₁⁻¹ A₁₂, then A₂₂ -= L₂₁ U₁₂, of one block.
fn update(cells: &mut [f64], panel: &[f64], n: usize, first: usize, width: usize) {
    for column in cells.chunks_exact_mut(n) {
        for j in 0..width {
            let top = column[first + j];
            for i in j + 1..width {
                column[first + i] -= panel[j * n + first + i] * top;
            }
        }
    }
    let below = first + width;
    let columns = cells.len() / n;
    let upper: Vec<f64> =
        cells.chunks_exact(n).flat_map(|column| &column[first..below]).copied().collect();
    gemm(
        Matrix { cells: &panel[below.min(panel.len())..], rows: n - below, stride: n },
        Matrix { cells: &upper, rows: width, stride: width },
        columns,
        -1.0,
        &mut Target { cells, first: below, stride: n },
    );
}

impl Factors {
    /// x of A x = b.
    pub(crate) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let n = self.n;
        let mut x = b.to_vec();
        for (at, row) in self.pivots.iter().enumerate() {
            x.swap(at, *row);
        }
        for k in 0..n {
            let top = x[k];
            for (value, l) in x[k + 1..].iter_mut().zip(&self.columns[k * n + k + 1..]) {
                *value -= l * top;
            }
        }
        for k in (0..n).rev() {
            x[k] /= self.columns[k * n + k];
            let top = x[k];
            for (value, u) in x[..k].iter_mut().zip(&self.columns[k * n..]) {
                *value -= u * top;
            }
        }
        x
    }

    /// ln |det A|.
    #[cfg(test)]
    pub(crate) fn log_determinant(&self) -> f64 {
        (0..self.n).map(|k| self.columns[k * self.n + k].abs().ln()).sum()
    }
}

/// HPL's: ‖A x - b‖ / (‖A‖ ‖x‖ n ε), infinity norms; below 16 is right.
pub(crate) fn residual(n: usize, entry: impl Fn(usize, usize) -> f64, x: &[f64], b: &[f64]) -> f64 {
    let (mut worst, mut norm) = (0.0_f64, 0.0_f64);
    for row in 0..n {
        let line = || (0..n).map(|column| entry(row, column));
        let sum: f64 = line().zip(x).map(|(a, x)| a * x).sum();
        worst = worst.max((sum - b[row]).abs());
        norm = norm.max(line().map(f64::abs).sum());
    }
    let largest = x.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    worst / (norm * largest * n as f64 * f64::EPSILON)
}
