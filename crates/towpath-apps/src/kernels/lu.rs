//! LU with partial pivoting: blocks of columns in turn, a panel broadcast for each.
//!
//! All that a rank has to the right of a panel is updated at once. A number comes from the same
//! operations for any number of ranks, as parts of products have the bits that they have in the
//! whole ([`gemm`](super::gemm)).

use multiversion::multiversion;
use ndarray::{ArrayView2, ArrayViewMut2, Axis, s};

use super::gemm::{add_scaled, largest, matrix, matrix_mut, take_product};
use crate::exchange::{Exchange, ExchangeError, Result};

/// Columns of a block.
pub(crate) const BLOCK: usize = 64;
/// So few columns of a panel are factored, and so few rows solved for, without products.
const FEW: usize = 8;

/// A rank's blocks of columns of an n × n matrix: block b is with rank b mod size.
#[derive(Clone)]
pub(crate) struct Blocks {
    n: usize,
    /// Which blocks, in order.
    numbers: Vec<usize>,
    /// Their columns, one behind the other.
    cells: Vec<f64>,
}

/// Which columns a block is.
fn columns(n: usize, block: usize) -> std::ops::Range<usize> {
    block * BLOCK..((block + 1) * BLOCK).min(n)
}

fn blocks_of(n: usize, rank: usize, size: usize) -> impl Iterator<Item = usize> {
    (rank..n.div_ceil(BLOCK)).step_by(size)
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
        let numbers: Vec<usize> = blocks_of(n, rank, size).collect();
        let columns = numbers.iter().flat_map(|block| columns(n, *block));
        let cells = columns.flat_map(|column| (0..n).map(move |row| (row, column)));
        let cells = cells.map(|(row, column)| entry(row, column)).collect();
        Self { n, numbers, cells }
    }

    /// Factors the matrix together; every rank hears the pivots. An error says that there is no
    /// pivot for some column.
    pub(crate) fn factor(&mut self, exchange: &mut dyn Exchange) -> Result<Vec<usize>> {
        let n = self.n;
        let mut pivots = Vec::with_capacity(n);
        // The exchanged rows, then the panel from its first row on.
        let mut words = Vec::new();
        for b in 0..n.div_ceil(BLOCK) {
            let (first, width, owner) = (b * BLOCK, columns(n, b).len(), b % exchange.size());
            words.clear();
            // Where the blocks before this one end here, and where this one does.
            let before = self.numbers.partition_point(|block| *block < b) * BLOCK * n;
            let mut after = before;
            if owner == exchange.rank() {
                after += width * n;
                let panel = &mut self.cells[before..after];
                let swaps = panel_factor(panel, n, first);
                words.extend(swaps.iter().map(|row| *row as f64));
                panel.chunks_exact(n).for_each(|column| words.extend_from_slice(&column[first..]));
            }
            words.resize(width * (n - first + 1), 0.0);
            exchange.broadcast_slice(owner, &mut words)?;
            let (swaps, panel) = words.split_at(width);
            let swaps: Vec<usize> = swaps.iter().map(|row| *row as usize).collect();
            if swaps.iter().any(|row| *row >= n) {
                return Err(ExchangeError::Machine("the matrix is singular".into()));
            }
            exchange_rows(&mut self.cells[..before], n, first, &swaps);
            exchange_rows(&mut self.cells[after..], n, first, &swaps);
            update(&mut self.cells[after..], panel, n, first, width);
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
        let (n, size) = (self.n, exchange.size());
        let width = |rank| blocks_of(n, rank, size).map(|b| columns(n, b).len()).sum::<usize>();
        let counts: Vec<usize> = (0..size).map(|rank| width(rank) * n).collect();
        let Some(cells) = exchange.gather_counts(0, &self.cells, &counts)? else {
            return Ok(None);
        };
        let mut all = vec![0.0; n * n];
        let mut rest = &cells[..];
        for b in (0..size).flat_map(|rank| blocks_of(n, rank, size)) {
            let range = columns(n, b);
            let (block, after) = rest.split_at(range.len() * n);
            all[range.start * n..range.end * n].copy_from_slice(block);
            rest = after;
        }
        Ok(Some(Factors { n, columns: all, pivots }))
    }
}

/// Factors a panel of columns in place, from row `first` on; the row exchanged with each of its
/// rows, n where there is no pivot. By halves of the columns, so that most of it is products.
fn panel_factor(panel: &mut [f64], n: usize, first: usize) -> Vec<usize> {
    let width = panel.len() / n;
    if width <= FEW {
        return few_factored(panel, n, first);
    }
    let half = (width / 2).next_multiple_of(FEW);
    let (left, right) = panel.split_at_mut(half * n);
    let mut swaps = panel_factor(left, n, first);
    if swaps.contains(&n) {
        swaps.resize(width, n);
        return swaps;
    }
    exchange_rows(right, n, first, &swaps);
    let factors = matrix(&left[first..], [n - first, half], n);
    update_by(matrix_mut(&mut right[first..], [n - first, width - half], n), &factors);
    let more = panel_factor(right, n, first + half);
    if !more.contains(&n) {
        exchange_rows(left, n, first + half, &more);
    }
    swaps.extend(more);
    swaps
}

/// The same, a column after the other.
fn few_factored(panel: &mut [f64], n: usize, first: usize) -> Vec<usize> {
    let width = panel.len() / n;
    let mut swaps = Vec::with_capacity(width);
    for j in 0..width {
        let row = first + j;
        let column = &panel[j * n..(j + 1) * n];
        let pivot = row + largest(&column[row..]).expect("a row at least");
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

/// What is right of a panel, whose rows begin at `first`.
fn update(cells: &mut [f64], panel: &[f64], n: usize, first: usize, width: usize) {
    let (rows, columns) = (n - first, cells.len() / n);
    if columns > 0 {
        let panel = matrix(panel, [rows, width], rows);
        update_by(matrix_mut(&mut cells[first..], [rows, columns], n), &panel);
    }
}

/// U₁₂ = L₁₁⁻¹ A₁₂, then A₂₂ -= L₂₁ U₁₂, of all these columns. `panel` is L₁₁ above L₂₁.
fn update_by(cells: ArrayViewMut2<'_, f64>, panel: &ArrayView2<'_, f64>) {
    let width = panel.ncols();
    let (mut upper, mut lower) = cells.split_at(Axis(0), width);
    let (left, below) = panel.view().split_at(Axis(0), width);
    solve_lower(upper.view_mut(), &left);
    take_product(&mut lower, &below, &upper.view());
}

/// L⁻¹ of these columns, L with ones on its diagonal; by halves of the rows.
fn solve_lower(mut cells: ArrayViewMut2<'_, f64>, l: &ArrayView2<'_, f64>) {
    let rows = l.nrows();
    if rows > FEW {
        let half = (rows / 2).next_multiple_of(FEW);
        let (left, below) = l.view().split_at(Axis(0), half);
        let (mut upper, mut lower) = cells.split_at(Axis(0), half);
        let (below, right) = below.split_at(Axis(1), half);
        solve_lower(upper.view_mut(), &left.slice_move(s![.., ..half]));
        take_product(&mut lower, &below, &upper.view());
        return solve_lower(lower, &right);
    }
    // With zeros from the diagonal up.
    let mut factors = [[0.0; FEW]; FEW];
    for (j, factors) in factors.iter_mut().enumerate().take(rows) {
        (j + 1..rows).for_each(|i| factors[i] = l[(i, j)]);
    }
    for mut column in cells.columns_mut() {
        let mut few = [0.0; FEW];
        few.iter_mut().zip(&column).for_each(|(few, cell)| *few = *cell);
        few_solved(&mut few, &factors);
        column.iter_mut().zip(few).for_each(|(cell, few)| *cell = few);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma"))]
fn few_solved(column: &mut [f64; FEW], factors: &[[f64; FEW]; FEW]) {
    for (j, factors) in factors.iter().enumerate() {
        let top = column[j];
        for (cell, factor) in column.iter_mut().zip(factors) {
            *cell = factor.mul_add(-top, *cell);
        }
    }
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
