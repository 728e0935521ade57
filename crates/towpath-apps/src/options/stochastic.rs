//! Options under stochastic variance, priced as in 1992: T. J. Finucane's binomial method, by which
//! a price is nearly linear in the correlation of stock and variance.
//!
//! dS/S = r dt + √V dW₁, dV/V = μ dt + ψ dW₂, correlation ρ. EUS is the European call; AMS the
//! American call with one cash dividend (escrowed). Each is priced at perfect correlation by a tree
//! of 2ⁿ paths, in which one coin moves both stock and variance, and at none by the mean over the
//! variance's 2ⁿ paths of the price at the path's total variance; between them it is interpolated.
//!
//! The variance recombines, so that what happens after step m depends only on how many of the m
//! moves went up: a path is a head and a tail, and all tails after k ups are a table. Loops run
//! over such tables.

use super::american::with_dividend;
use super::black_scholes::calls_of_variance;
use super::contract::{Contract, ContractError, Dividend, Kind};

/// Steps of the tree in 1992.
pub(crate) const LEVEL: usize = 17;
/// 2²² paths take 32 MiB.
pub(crate) const LEVEL_MAX: usize = 22;
/// Buckets of total variance for the American call.
const BUCKETS: usize = 64;

/// How the variance moves. Level: 2 ≤ n ≤ 22.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Variance {
    /// V now; the contract's volatility is not used.
    pub(crate) start: f64,
    /// μ.
    pub(crate) drift: f64,
    /// ψ.
    pub(crate) volatility: f64,
    /// ρ.
    pub(crate) correlation: f64,
}

/// A price by the method: at no correlation, at perfect correlation of ρ's sign, and between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interpolated {
    pub(crate) zero: f64,
    pub(crate) perfect: f64,
    pub(crate) price: f64,
}

impl Variance {
    pub(crate) fn checked(self) -> Result<Self, ContractError> {
        let check = |name, value: f64, good, limit| match good {
            true => Ok(()),
            false => Err(ContractError { name, value, limit }),
        };
        let start = self.start;
        check("the variance", start, start > 1e-8 && start < 1e4, "between 1e-8 and 1e4")?;
        check("the drift", self.drift, self.drift.abs() <= 10.0, "between -10 and 10")?;
        let volatility = self.volatility;
        let good = (0.0..=10.0).contains(&volatility);
        check("the variance's volatility", volatility, good, "between 0 and 10")?;
        let rho = self.correlation;
        check("the correlation", rho, rho.abs() <= 1.0, "between -1 and 1")?;
        Ok(self)
    }

    fn between(&self, zero: f64, perfect: f64) -> Interpolated {
        let rho = self.correlation.abs();
        Interpolated { zero, perfect, price: (1.0 - rho) * zero + rho * perfect }
    }
}

/// Equal steps from one variance on: for each step and number of ups before it what a move does.
struct Tree {
    /// V dt at step j after k ups.
    added: Vec<Vec<f64>>,
    /// Factors of the price, up and down.
    factors: Vec<Vec<(f64, f64)>>,
    /// V after the last step, by ups.
    ends: Vec<f64>,
}

impl Tree {
    fn new(start: f64, dt: f64, steps: usize, rate: f64, variance: &Variance) -> Self {
        let sign = if variance.correlation < 0.0 { -1.0 } else { 1.0 };
        let psi = variance.volatility;
        let drift = ((variance.drift - 0.5 * psi * psi) * dt).exp();
        let up = (psi * dt.sqrt()).exp();
        let (mut added, mut factors) = (Vec::new(), Vec::new());
        let mut values = vec![start];
        for _ in 0..steps {
            added.push(values.iter().map(|v| v * dt).collect());
            let factor = |v: &f64| {
                let q = (v * dt).sqrt();
                let grown = (rate * dt).exp() / q.cosh();
                (grown * (sign * q).exp(), grown * (-sign * q).exp())
            };
            factors.push(values.iter().map(factor).collect());
            let mut next: Vec<f64> = values.iter().map(|v| v * drift / up).collect();
            next.push(values.last().expect("one at least") * drift * up);
            values = next;
        }
        Self { added, factors, ends: values }
    }

    /// The price's factor along each path, grouped by the number of ups.
    fn growth(&self) -> Vec<Vec<f64>> {
        self.paths(1.0, |value, (up, down), _| (value * up, value * down))
    }

    /// The same for the total variance.
    fn totals(&self) -> Vec<Vec<f64>> {
        self.paths(0.0, |value, _, added| (value + added, value + added))
    }

    fn paths(
        &self,
        start: f64,
        moved: impl Fn(f64, (f64, f64), f64) -> (f64, f64),
    ) -> Vec<Vec<f64>> {
        let mut groups = vec![vec![start]];
        for (factors, added) in self.factors.iter().zip(&self.added) {
            let mut next: Vec<Vec<f64>> = vec![Vec::new(); groups.len() + 1];
            for (k, group) in groups.iter().enumerate() {
                let (factors, added) = (factors[k], added[k]);
                next[k].extend(group.iter().map(|value| moved(*value, factors, added).1));
                next[k + 1].extend(group.iter().map(|value| moved(*value, factors, added).0));
            }
            groups = next;
        }
        groups
    }
}

/// Mean payoff of the paths below one node, undiscounted: Σ max(s f - K, 0) / number.
fn below(spot: f64, tails: &[Vec<f64>], strike: f64) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for tail in tails {
        sum += payoffs(spot, tail, strike);
        count += tail.len();
    }
    sum / f64::from(count as u32)
}

/// Σ max(s f - K, 0), eight sums beside each other.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+fma", "x86_64+avx2+fma"))]
fn payoffs(spot: f64, factors: &[f64], strike: f64) -> f64 {
    let mut sums = [0.0; 8];
    let (blocks, rest) = factors.as_chunks::<8>();
    for block in blocks {
        for (sum, factor) in sums.iter_mut().zip(block) {
            *sum += spot.mul_add(*factor, -strike).max(0.0);
        }
    }
    let rest: f64 = rest.iter().map(|f| spot.mul_add(*f, -strike).max(0.0)).sum();
    sums.iter().sum::<f64>() + rest
}

fn check_level(level: usize) -> Result<(), ContractError> {
    match (2..=LEVEL_MAX).contains(&level) {
        true => Ok(()),
        false => {
            let limit = "from 2 to 22";
            Err(ContractError { name: "the tree's level", value: level as f64, limit })
        }
    }
}

/// EUS: a European call by a tree of `level` steps.
pub(crate) fn european(
    of: &Contract,
    variance: &Variance,
    level: usize,
) -> Result<Interpolated, ContractError> {
    check_level(level)?;
    let (of, variance) = (of.checked()?, variance.checked()?);
    let dt = of.maturity / level as f64;
    let head = level / 2;
    let heads = Tree::new(variance.start, dt, head, of.rate, &variance);
    let paid = of.strike * (-of.rate * of.maturity).exp();
    let (mut perfect, mut zero) = (0.0, 0.0);
    let mut prices = Vec::new();
    let groups = heads.growth().into_iter().zip(heads.totals());
    for ((growths, totals), start) in groups.zip(&heads.ends) {
        let tails = Tree::new(*start, dt, level - head, of.rate, &variance);
        let (tail_growth, tail_totals) = (tails.growth(), tails.totals());
        for growth in growths {
            perfect += below(of.spot * growth, &tail_growth, of.strike);
        }
        for total in totals {
            prices.clear();
            prices.extend(tail_totals.iter().flatten().map(|tail| total + tail));
            calls_of_variance((of.spot / paid).ln(), of.spot, paid, &mut prices);
            zero += prices.iter().sum::<f64>();
        }
    }
    let perfect = perfect / (1_u64 << head) as f64 * (-of.rate * of.maturity).exp();
    Ok(variance.between(zero / (1_u64 << level) as f64, perfect))
}

/// AMS: an American call with one cash dividend.
pub(crate) fn american(
    of: &Contract,
    dividend: Dividend,
    variance: &Variance,
    level: usize,
) -> Result<Interpolated, ContractError> {
    check_level(level)?;
    let (of, variance) = (of.checked()?, variance.checked()?);
    let dividend = dividend.checked(&of)?;
    let (td, t) = (dividend.time, of.maturity);
    let before = ((level as f64 * td / t + 0.5).floor() as usize).clamp(1, level - 1);
    let (dt, later_dt) = (td / before as f64, (t - td) / (level - before) as f64);
    let heads = Tree::new(variance.start, dt, before, of.rate, &variance);
    let spot = dividend.escrowed(&of);
    let later = (-of.rate * (t - td)).exp();
    let mut perfect = 0.0;
    for (growths, start) in heads.growth().into_iter().zip(&heads.ends) {
        let tails = Tree::new(*start, later_dt, level - before, of.rate, &variance);
        let tail_growth = tails.growth();
        for growth in growths {
            let s = spot * growth;
            let kept = below(s, &tail_growth, of.strike) * later;
            perfect += kept.max(s + dividend.amount - of.strike);
        }
    }
    let perfect = perfect / (1_u64 << before) as f64 * (-of.rate * td).exp();
    // Without correlation the stock's tree plays no part: the variance's steps are equal.
    let even = Tree::new(variance.start, t / level as f64, level, of.rate, &variance);
    let zero = by_buckets(&of, dividend, even.totals().concat());
    Ok(variance.between(zero, perfect))
}

/// At no correlation: total variances in buckets of equal count, each at its mean.
fn by_buckets(of: &Contract, dividend: Dividend, mut totals: Vec<f64>) -> f64 {
    totals.sort_unstable_by(f64::total_cmp);
    let buckets = BUCKETS.min(totals.len());
    let mut sum = 0.0;
    for bucket in 0..buckets {
        let range = crate::exchange::share(totals.len(), bucket, buckets);
        let mean = totals[range.clone()].iter().sum::<f64>() / range.len() as f64;
        let volatility = (mean / of.maturity).sqrt();
        sum += with_dividend(&Contract { volatility, kind: Kind::Call, ..*of }, dividend);
    }
    sum / buckets as f64
}
