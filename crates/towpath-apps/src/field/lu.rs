//! A dense complex system, by elimination with the largest pivot of a column.

use rustfft::num_complex::Complex64 as C;

/// x of A x = b, A by rows; none: A is singular.
pub(crate) fn solve(mut a: Vec<C>, mut b: Vec<C>) -> Option<Vec<C>> {
    let n = b.len();
    assert_eq!(a.len(), n * n, "a square matrix");
    for k in 0..n {
        let size = |i: &usize| a[i * n + k].norm_sqr();
        let pivot = (k..n).max_by(|i, j| size(i).total_cmp(&size(j)))?;
        let largest = a[pivot * n + k].norm_sqr();
        if largest == 0.0 || largest.is_nan() {
            return None;
        }
        if pivot != k {
            for column in k..n {
                a.swap(pivot * n + column, k * n + column);
            }
            b.swap(pivot, k);
        }
        let (above, below) = a.split_at_mut((k + 1) * n);
        let (row, inverse) = (&above[k * n + k..], above[k * n + k].inv());
        let rhs = b[k];
        for (line, value) in below.chunks_exact_mut(n).zip(&mut b[k + 1..]) {
            let factor = line[k] * inverse;
            for (cell, other) in line[k..].iter_mut().zip(row) {
                *cell -= factor * other;
            }
            *value -= factor * rhs;
        }
    }
    for k in (0..n).rev() {
        let sum: C = (k + 1..n).map(|j| a[k * n + j] * b[j]).sum();
        b[k] = (b[k] - sum) * a[k * n + k].inv();
    }
    Some(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_system_is_solved_and_a_singular_one_is_not() {
        let n = 12;
        let entry = |i: usize, j: usize| C::new(((i * 7 + j * 3) % 11) as f64, (i * j % 5) as f64);
        let mut a: Vec<C> = (0..n * n).map(|at| entry(at / n, at % n)).collect();
        for i in 0..n {
            a[i * n + i] += C::new(20.0, 1.0);
        }
        let x: Vec<C> = (0..n).map(|i| C::new(i as f64, -1.0)).collect();
        let b = (0..n).map(|i| (0..n).map(|j| a[i * n + j] * x[j]).sum()).collect();
        let got = solve(a, b).unwrap();
        assert!(got.iter().zip(&x).all(|(g, x)| (g - x).norm() < 1e-12));
        assert!(solve(vec![C::ONE; 4], vec![C::ONE; 2]).is_none());
    }
}
