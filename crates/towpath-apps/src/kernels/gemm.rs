//! Products of matrices in columns: `matrixmultiply`, by way of `ndarray`.
//!
//! A number of the product is one sum in one order, whatever the matrix is cut into: the same bits
//! for any split over tasks. For `matrixmultiply` that holds as long as a product is added or
//! taken away as it is: its kernels multiply and add in the order of k, 256 of them at a time, in
//! one register for each number; where C is cut decides only in which tile that register is. Bits
//! differ from machine to machine by their instructions: with fused multiply and add or without.

use multiversion::multiversion;
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder as _};

/// A matrix, column by column: `stride` from one to the next.
pub(crate) fn matrix(
    cells: &[f64],
    [rows, columns]: [usize; 2],
    stride: usize,
) -> ArrayView2<'_, f64> {
    let shape = (rows, columns).strides((1, stride));
    ArrayView2::from_shape(shape, cells).expect("columns within the cells")
}

/// The same, to be changed.
pub(crate) fn matrix_mut(
    cells: &mut [f64],
    [rows, columns]: [usize; 2],
    stride: usize,
) -> ArrayViewMut2<'_, f64> {
    let shape = (rows, columns).strides((1, stride));
    ArrayViewMut2::from_shape(shape, cells).expect("columns within the cells")
}

/// C = A B.
pub(crate) fn set_product(
    c: &mut ArrayViewMut2<'_, f64>,
    a: &ArrayView2<'_, f64>,
    b: &ArrayView2<'_, f64>,
) {
    general_mat_mul(1.0, a, b, 0.0, c);
}

/// C += A B.
pub(crate) fn add_product(
    c: &mut ArrayViewMut2<'_, f64>,
    a: &ArrayView2<'_, f64>,
    b: &ArrayView2<'_, f64>,
) {
    general_mat_mul(1.0, a, b, 1.0, c);
}

/// C -= A B.
pub(crate) fn take_product(
    c: &mut ArrayViewMut2<'_, f64>,
    a: &ArrayView2<'_, f64>,
    b: &ArrayView2<'_, f64>,
) {
    general_mat_mul(-1.0, a, b, 1.0, c);
}

/// y += factor x.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma"))]
pub(crate) fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = x.mul_add(factor, *y);
    }
}

/// The place of the first of the largest absolute values, of finite numbers; one that is not
/// finite counts as larger than any.
pub(crate) fn largest(x: &[f64]) -> Option<usize> {
    let most = largest_bits(x);
    x.iter().position(|x| x.abs().to_bits() == most)
}

/// Absolute values are in the order of their bits.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma"))]
fn largest_bits(x: &[f64]) -> u64 {
    x.iter().fold(0, |most, x| most.max(x.abs().to_bits()))
}

#[cfg(test)]
mod tests {
    use super::super::suite::noise;
    use super::*;

    /// More than a tile, a panel and a block of the library each way.
    #[test]
    fn a_part_of_a_product_has_the_bits_that_it_has_in_the_whole() {
        let [m, k, n] = [150, 300, 70];
        let cells = |count: usize, seed: usize| -> Vec<f64> {
            (0..count).map(|at| noise(at + seed)).collect()
        };
        let (a, b, begun) = (cells(m * k, 0), cells(k * n, 1 << 20), cells(m * n, 1 << 21));
        let (a, b) = (matrix(&a, [m, k], m), matrix(&b, [k, n], k));
        let whole = |subtract: bool| {
            let mut c = begun.clone();
            let mut view = matrix_mut(&mut c, [m, n], m);
            if subtract {
                take_product(&mut view, &a, &b);
            } else {
                add_product(&mut view, &a, &b);
            }
            c
        };
        let right = whole(false);
        assert_ne!(right, whole(true));
        for (rows, columns) in [(1, 1), (1, 70), (150, 1), (3, 5), (8, 8), (64, 7), (149, 69)] {
            let mut c = begun.clone();
            for top in (0..m).step_by(rows) {
                for left in (0..n).step_by(columns) {
                    let (bottom, end) = ((top + rows).min(m), (left + columns).min(n));
                    let mut view = matrix_mut(&mut c, [m, n], m);
                    let mut part = view.slice_mut(ndarray::s![top..bottom, left..end]);
                    let (a, b) = (
                        a.slice(ndarray::s![top..bottom, ..]),
                        b.slice(ndarray::s![.., left..end]),
                    );
                    add_product(&mut part, &a, &b);
                }
            }
            assert!(c == right, "parts of {rows} x {columns}");
            // And where both lie by rows.
            let mut turned: Vec<f64> = (0..m * n).map(|at| begun[at % n * m + at / n]).collect();
            let mut view = matrix_mut(&mut turned, [n, m], n).reversed_axes();
            add_product(&mut view, &a, &b);
            assert!((0..m * n).all(|at| turned[at] == right[at % n * m + at / n]));
        }
    }

    #[test]
    fn the_first_of_the_largest_is_found() {
        assert_eq!(largest(&[]), None);
        assert_eq!(largest(&[0.0, -0.0]), Some(0));
        let mut many: Vec<f64> = (0..40).map(|at| f64::from(at % 7)).collect();
        assert_eq!(largest(&many), Some(6));
        many[30] = -6.5;
        assert_eq!(largest(&many), Some(30));
        many[35] = f64::NAN;
        assert_eq!(largest(&many), Some(35));
    }
}
