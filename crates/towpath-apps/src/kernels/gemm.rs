//! Products of matrices in columns, by tiles that stay in registers.
//!
//! A number of the product is one sum in one order, whatever the matrix is cut into: the same bits
//! for any split over tasks.

use multiversion::multiversion;

/// Rows and columns of a tile.
const ROWS: usize = 16;
const COLUMNS: usize = 4;

/// A matrix, column by column.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) cells: &'a [f64],
    pub(crate) rows: usize,
    /// From a column to the next.
    pub(crate) stride: usize,
}

/// Where a product is added to: rows from `first` on.
pub(crate) struct Target<'a> {
    pub(crate) cells: &'a mut [f64],
    pub(crate) first: usize,
    pub(crate) stride: usize,
}

/// C += scale A B for so many columns of B; A has as many columns as B has rows.
pub(crate) fn gemm(a: Matrix<'_>, b: Matrix<'_>, columns: usize, scale: f64, c: &mut Target<'_>) {
    let depth = b.rows;
    // Strips of A are packed once, each tile of B when its turn comes.
    let mut strips = vec![[0.0; ROWS]; a.rows.div_ceil(ROWS) * depth];
    for (at, strip) in strips.chunks_exact_mut(depth.max(1)).enumerate() {
        let (top, height) = (at * ROWS, ROWS.min(a.rows - at * ROWS));
        for (k, part) in strip.iter_mut().enumerate() {
            let begin = k * a.stride + top;
            part[..height].copy_from_slice(&a.cells[begin..begin + height]);
        }
    }
    let mut few = vec![[0.0; COLUMNS]; depth];
    for first in (0..columns).step_by(COLUMNS) {
        let width = COLUMNS.min(columns - first);
        for (k, row) in few.iter_mut().enumerate() {
            let cell = |j: usize| b.cells[(first + j) * b.stride + k] * scale;
            *row = std::array::from_fn(|j| if j < width { cell(j) } else { 0.0 });
        }
        for (at, strip) in strips.chunks_exact(depth.max(1)).enumerate() {
            let (top, height) = (at * ROWS, ROWS.min(a.rows - at * ROWS));
            let sums = tile(strip, &few);
            for (j, sums) in sums.iter().enumerate().take(width) {
                let begin = (first + j) * c.stride + c.first + top;
                for (cell, sum) in c.cells[begin..begin + height].iter_mut().zip(sums) {
                    *cell += sum;
                }
            }
        }
    }
}

/// y += factor x.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma"))]
pub(crate) fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = x.mul_add(factor, *y);
    }
}

/// Σ over k of column k of A times row k of B.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma"))]
fn tile(a: &[[f64; ROWS]], b: &[[f64; COLUMNS]]) -> [[f64; ROWS]; COLUMNS] {
    let mut sums = [[0.0; ROWS]; COLUMNS];
    for (a, b) in a.iter().zip(b) {
        for (sums, factor) in sums.iter_mut().zip(b) {
            for (sum, x) in sums.iter_mut().zip(a) {
                *sum = x.mul_add(*factor, *sum);
            }
        }
    }
    sums
}
