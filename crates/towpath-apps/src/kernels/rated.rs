//! Kernels beside libraries, on one task.

use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;

use super::alone::{factored, multiplied};
use super::fft;
use super::gemm::{matrix, matrix_mut, set_product};
use super::suite::noise;
use crate::rated::{Rated, Work};

/// Sides of matrices.
const SIDES: [(usize, &str, &str); 2] = [
    (512, "LU of 512 equations", "product of 512 x 512"),
    (1024, "LU of 1024 equations", "product of 1024 x 1024"),
];
/// A side of a transform: 2^16 points.
const POINTS: usize = 256;

fn cells(count: usize) -> Vec<f64> {
    (0..count).map(noise).collect()
}

/// What is rated; `peers/` at the top of the repository has LU and products beside faer.
pub(crate) fn rated() -> Vec<Rated> {
    let mut all = vec![transform()];
    for (side, lu, product) in SIDES {
        let cube = (side * side * side) as f64 / 1e9;
        let unit = "Gflop a second";
        let (ours, peers) = (factored(side, &cells(side * side)), Vec::new());
        all.push(Rated { what: lu, amount: 2.0 / 3.0 * cube, unit, ours, peers });
        let (ours, peers) =
            (multiplied(side, cells(side * side)), vec![("matrixmultiply", called_once(side))]);
        all.push(Rated { what: product, amount: 2.0 * cube, unit, ours, peers });
    }
    all
}

/// The two-dimensional transform beside the library's of as many points in one dimension, which is
/// as many operations.
fn transform() -> Rated {
    let count = POINTS * POINTS;
    let points: Vec<Complex64> = cells(count).iter().map(|x| Complex64::new(*x, 0.0)).collect();
    let given = points.clone();
    let ours: Work = Box::new(move |exchange| {
        std::hint::black_box(fft::transform(exchange, POINTS, given.clone())?);
        Ok(())
    });
    let plan = FftPlanner::new().plan_fft_forward(count);
    let mut room = vec![Complex64::ZERO; plan.get_inplace_scratch_len()];
    let library: Work = Box::new(move |_| {
        let mut points = points.clone();
        plan.process_with_scratch(&mut points, &mut room);
        std::hint::black_box(points);
        Ok(())
    });
    let amount = 5.0 * count as f64 * f64::from(count.ilog2()) / 1e9;
    let peers = vec![("rustfft", library)];
    Rated { what: "FFT of 256 x 256 points", amount, unit: "Gflop a second", ours, peers }
}

/// The library of our products, for the whole.
fn called_once(side: usize) -> Work {
    let all = cells(side * side);
    Box::new(move |_| {
        let mut out = vec![0.0; side * side];
        let of = matrix(&all, [side, side], side);
        set_product(&mut matrix_mut(&mut out, [side, side], side), &of, &of);
        std::hint::black_box(out);
        Ok(())
    })
}
