//! Prices by random paths: plain, and conditional on the variance's path.
//!
//! Paths come in blocks that know their number and nothing else; blocks are summed in order: the
//! same bits whoever computes which.

use super::contract::{Contract, Kind};
use super::normal::{cdf, quantile};
use super::stochastic::Variance;
use crate::exchange::{Exchange, Result, map_all};

/// Points of the lattice: a power of two.
const POINTS: usize = 1 << 12;
/// Independent shifts of it; their spread tells the error.
const SHIFTS: usize = 16;
const BLOCK: usize = 1 << 11;
/// Steps of the variance's path: a power of two.
const STEPS: usize = 64;
/// Of a rank-1 lattice of Korobov's form (generating vector 1, a, a², …).
const KOROBOV: u64 = 1_571;

/// A mean, and the standard deviation of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    pub(crate) error: f64,
}

/// S. Vigna's splitmix64 as a function of a counter.
pub(crate) const fn splitmix(counter: u64) -> u64 {
    let mut z = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// 0 < u < 1 of a stream's place.
pub(crate) fn uniform(stream: u64, place: u64) -> f64 {
    let bits = splitmix(splitmix(stream.wrapping_add(1)) ^ splitmix(place.wrapping_add(77)));
    ((bits >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// The price of a European option by plain Monte Carlo over its end, `blocks` of 2048 pairs.
pub(crate) fn plain(
    exchange: &mut dyn Exchange,
    of: &Contract,
    blocks: usize,
    seed: u64,
) -> Result<Estimate> {
    let Contract { kind, spot, strike, rate, carry, volatility, maturity } = *of;
    let q = volatility * maturity.sqrt();
    let drift = (rate - carry - 0.5 * volatility * volatility) * maturity;
    let discount = (-rate * maturity).exp();
    let payoff = |z: f64| {
        let s = spot * (drift + q * z).exp();
        discount * if kind == Kind::Call { s - strike } else { strike - s }.max(0.0)
    };
    let sums = map_all(exchange, blocks, 2, |block, out| {
        let (mut sum, mut square) = (0.0, 0.0);
        for path in 0..BLOCK {
            let z = quantile(uniform(seed, (block * BLOCK + path) as u64));
            // Each path with its mirror.
            let value = 0.5 * (payoff(z) + payoff(-z));
            sum += value;
            square += value * value;
        }
        out.extend([sum, square]);
    })?;
    let n = (blocks * BLOCK) as f64;
    let total = |at: usize| sums.chunks_exact(2).map(|pair| pair[at]).sum::<f64>();
    let mean = total(0) / n;
    let error = ((total(1) / n - mean * mean).max(0.0) / n).sqrt();
    Ok(Estimate { mean, error })
}

/// A European call under stochastic variance: given the variance's path, what is left of the
/// stock's is lognormal (G. Romano, N. Touzi, 1997), and the call has a closed form:
///
/// S' = S exp(ρ ∫√V dW₂ - ρ²/2 ∫V dt), variance (1 - ρ²) ∫V dt.
///
/// Paths come from a shifted lattice by way of Brownian bridges; the stock itself, whose mean is
/// known, is the control variate.
pub(crate) fn conditional(
    exchange: &mut dyn Exchange,
    of: &Contract,
    variance: &Variance,
    seed: u64,
) -> Result<Estimate> {
    let per_shift = POINTS / BLOCK;
    let mut generators = [0_u64; STEPS];
    let mut power = 1;
    for generator in &mut generators {
        *generator = power;
        power = power * KOROBOV % POINTS as u64;
    }
    let sums = map_all(exchange, SHIFTS * per_shift, 5, |block, out| {
        let (shift, first) = (block / per_shift, block % per_shift * BLOCK);
        let mut sums = [0.0; 5];
        let mut normals = [0.0; STEPS];
        for point in first..first + BLOCK {
            for (dim, (normal, generator)) in normals.iter_mut().zip(&generators).enumerate() {
                let lattice = (point as u64 * generator % POINTS as u64) as f64 / POINTS as f64;
                let moved = lattice + uniform(seed, (shift * STEPS + dim) as u64);
                *normal = quantile(moved.fract().clamp(1e-16, 1.0 - 1e-16));
            }
            let (price, stock) = along(of, variance, &normals);
            for (sum, value) in
                sums.iter_mut().zip([price, stock, price * stock, stock * stock, 1.0])
            {
                *sum += value;
            }
        }
        out.extend(sums);
    })?;
    let means: Vec<f64> = sums
        .chunks_exact(5 * per_shift)
        .map(|shift| {
            let total = |at: usize| shift.iter().skip(at).step_by(5).sum::<f64>();
            let n = total(4);
            let (price, stock) = (total(0) / n, total(1) / n);
            let spread = total(3) / n - stock * stock;
            let together = total(2) / n - price * stock;
            let slope = if spread > 1e-14 { together / spread } else { 0.0 };
            price - slope * (stock - of.spot)
        })
        .collect();
    let mean = means.iter().sum::<f64>() / SHIFTS as f64;
    let square = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>();
    Ok(Estimate { mean, error: (square / (SHIFTS * (SHIFTS - 1)) as f64).sqrt() })
}

/// The call's price given one path of the variance, and the stock's effective price.
fn along(of: &Contract, variance: &Variance, normals: &[f64; STEPS]) -> (f64, f64) {
    let Variance { start, drift, volatility: psi, correlation: rho } = *variance;
    let dt = of.maturity / STEPS as f64;
    let path = bridge(normals, of.maturity);
    let (mut v, mut w) = (start, 0.0);
    let (mut total, mut driven) = (0.0, 0.0);
    for (step, w_next) in path.iter().enumerate() {
        let time = (step + 1) as f64 * dt;
        let v_next = start * ((drift - 0.5 * psi * psi) * time + psi * w_next).exp();
        total += 0.5 * (v + v_next) * dt;
        // ∫√V dW₂ is exact by d√V = √V (μ/2 - ψ²/8) dt + ψ/2 √V dW₂ where ψ > 0.
        driven += v.sqrt() * (w_next - w);
        (v, w) = (v_next, *w_next);
    }
    if psi > 1e-3 {
        let roots = mean_root(start, &path, variance, dt);
        driven = 2.0 / psi * (v.sqrt() - start.sqrt() - (0.5 * drift - psi * psi / 8.0) * roots);
    }
    let stock = of.spot * (rho * driven - 0.5 * rho * rho * total).exp();
    let paid = of.strike * (-of.rate * of.maturity).exp();
    let q = ((1.0 - rho * rho) * total).max(0.0).sqrt();
    if q < 1e-9 {
        return ((stock - paid).max(0.0), stock);
    }
    let d = (stock / paid).ln() / q + 0.5 * q;
    (stock * cdf(d) - paid * cdf(d - q), stock)
}

/// ∫√V dt by the trapezium.
fn mean_root(start: f64, path: &[f64; STEPS], variance: &Variance, dt: f64) -> f64 {
    let psi = variance.volatility;
    let root = |step: usize| {
        let time = (step + 1) as f64 * dt;
        (start * ((variance.drift - 0.5 * psi * psi) * time + psi * path[step]).exp()).sqrt()
    };
    let mut sum = 0.5 * (start.sqrt() + root(STEPS - 1));
    for step in 0..STEPS - 1 {
        sum += root(step);
    }
    sum * dt
}

/// W at the ends of the steps: the end first, then middles, so that a lattice's best dimensions do
/// most of the work.
fn bridge(normals: &[f64; STEPS], maturity: f64) -> [f64; STEPS] {
    let mut path = [0.0; STEPS];
    path[STEPS - 1] = maturity.sqrt() * normals[0];
    let (mut width, mut next) = (STEPS, 1);
    while width > 1 {
        let half = width / 2;
        let spread = (maturity / STEPS as f64 * half as f64 / 2.0).sqrt();
        for left in (0..STEPS).step_by(width) {
            let before = if left == 0 { 0.0 } else { path[left - 1] };
            let middle = f64::midpoint(before, path[left + width - 1]);
            path[left + half - 1] = middle + spread * normals[next];
            next += 1;
        }
        width = half;
    }
    path
}
