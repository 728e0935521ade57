//! American options: trees as in 1992, closed forms for one cash dividend, and the exact value.

use super::black_scholes::price as european;
use super::contract::{Contract, Dividend, Kind};
use super::normal::{bivariate, cdf};
use super::quadrature::gauss;

/// When a tree's holder may exercise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exercise {
    European,
    American,
}

/// Cox, Ross, Rubinstein (1979): u = e^{σ √dt}, `steps` of them.
pub(crate) fn tree(of: &Contract, exercise: Exercise, steps: usize) -> f64 {
    let Contract { kind, spot, strike, rate, carry, volatility, maturity } = *of;
    let dt = maturity / steps as f64;
    let up = (volatility * dt.sqrt()).exp();
    let p = (((rate - carry) * dt).exp() - 1.0 / up) / (up - 1.0 / up);
    let discount = (-rate * dt).exp();
    let value = |s: f64| match kind {
        Kind::Call => (s - strike).max(0.0),
        Kind::Put => (strike - s).max(0.0),
    };
    let at = |step: usize, ups: usize| spot * up.powi(2 * ups as i32 - step as i32);
    let mut values: Vec<f64> = (0..=steps).map(|ups| value(at(steps, ups))).collect();
    for step in (0..steps).rev() {
        for ups in 0..=step {
            let kept = discount * (p * values[ups + 1] + (1.0 - p) * values[ups]);
            values[ups] = match exercise {
                Exercise::European => kept,
                Exercise::American => kept.max(value(at(step, ups))),
            };
        }
    }
    values[0]
}

/// An American call with one cash dividend, escrowed: R. Roll (1977), R. Geske (1979), R. Whaley
/// (1981).
pub(crate) fn with_dividend(of: &Contract, dividend: Dividend) -> f64 {
    let (d, td) = (dividend.amount, dividend.time);
    let Contract { strike: k, rate: r, volatility: v, maturity: t, .. } = *of;
    let spot = dividend.escrowed(of);
    let escrowed = Contract { spot, kind: Kind::Call, carry: 0.0, ..*of };
    if d <= k * (1.0 - (-r * (t - td)).exp()) {
        return european(&escrowed); // it is never right to exercise early
    }
    let Some(critical) = critical_price(&escrowed, dividend) else { return european(&escrowed) };
    let a1 = ((spot / k).ln() + (r + 0.5 * v * v) * t) / (v * t.sqrt());
    let a2 = a1 - v * t.sqrt();
    let b1 = ((spot / critical).ln() + (r + 0.5 * v * v) * td) / (v * td.sqrt());
    let b2 = b1 - v * td.sqrt();
    let rho = -(td / t).sqrt();
    spot * (cdf(b1) + bivariate(a1, -b1, rho))
        - k * (-r * t).exp() * bivariate(a2, -b2, rho)
        - (k - d) * (-r * td).exp() * cdf(b2)
}

/// The price just before the dividend from which on exercise is right: c(S, T - td) = S + D - K.
fn critical_price(of: &Contract, dividend: Dividend) -> Option<f64> {
    let maturity = of.maturity - dividend.time;
    let kept = |spot| european(&Contract { spot, maturity, ..*of });
    let gain = |spot: f64| spot + dividend.amount - of.strike - kept(spot);
    let (mut low, mut high) = ((of.strike - dividend.amount).max(1e-9), of.strike);
    while gain(high) < 0.0 {
        high *= 2.0;
        if high > of.strike * 1e6 {
            return None;
        }
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if gain(middle) < 0.0 { low = middle } else { high = middle }
    }
    Some(high)
}

/// Points of the exercise boundary, and of quadrature along it.
const BOUNDARY: usize = 32;
const ALONG: usize = 64;
const ITERATIONS: usize = 60;

/// The exact American price with continuous yield: the boundary as a fixed point, at Chebyshev's
/// points of √τ (L. Andersen, M. Lake, D. Offengenden, High-performance American option pricing,
/// 2016, equations (27)-(30) for the scheme they call FP-B).
pub(crate) fn exact(of: &Contract) -> f64 {
    match of.kind {
        Kind::Put => put(of),
        // A call is a put with roles exchanged (R. McDonald, M. Schroder, 1998).
        Kind::Call => put(&Contract {
            kind: Kind::Put,
            spot: of.strike,
            strike: of.spot,
            rate: of.carry,
            carry: of.rate,
            ..*of
        }),
    }
}

/// The boundary as H(√τ) = ln²(B(τ)/X) in Chebyshev's polynomials.
struct Boundary {
    /// B(0+).
    start: f64,
    maturity: f64,
    coefficients: [f64; BOUNDARY],
}

impl Boundary {
    /// τ at Chebyshev's extremal point i; i = 0 is the maturity, the last one 0.
    fn tau(maturity: f64, i: usize) -> f64 {
        let x = (std::f64::consts::PI * i as f64 / (BOUNDARY - 1) as f64).cos();
        maturity * (0.5 * (1.0 + x)).powi(2)
    }

    fn through(start: f64, maturity: f64, values: &[f64; BOUNDARY]) -> Self {
        let n = BOUNDARY - 1;
        let mut coefficients = [0.0; BOUNDARY];
        for (k, c) in coefficients.iter_mut().enumerate() {
            for (i, b) in values.iter().enumerate() {
                let h = (b / start).ln().powi(2);
                let ends = |at: usize| if at == 0 || at == n { 0.5 } else { 1.0 };
                let cos = (std::f64::consts::PI * (i * k) as f64 / n as f64).cos();
                *c += 2.0 / n as f64 * ends(i) * ends(k) * h * cos;
            }
        }
        Self { start, maturity, coefficients }
    }

    fn at(&self, tau: f64) -> f64 {
        let x = 2.0 * (tau / self.maturity).sqrt() - 1.0;
        let (mut b1, mut b2) = (0.0, 0.0);
        for c in self.coefficients[1..].iter().rev() {
            (b1, b2) = (2.0 * x * b1 - b2 + c, b1);
        }
        let h = x * b1 - b2 + self.coefficients[0];
        self.start * (-h.max(0.0).sqrt()).exp()
    }
}

/// A point of 0..τ, what is left to τ, and its weight: u = τ sin² φ takes the square roots out of
/// both ends.
fn along(tau: f64, y: f64, w: f64) -> (f64, f64, f64) {
    let (sin, cos) = (std::f64::consts::FRAC_PI_4 * (1.0 + y)).sin_cos();
    let weight = w * std::f64::consts::FRAC_PI_2 * tau * sin * cos;
    (tau * sin * sin, tau * cos * cos, weight)
}

fn put(of: &Contract) -> f64 {
    let Contract { spot, strike, rate: r, carry: q, volatility: v, maturity, .. } = *of;
    if r <= 0.0 {
        return european(of); // waiting costs no interest
    }
    let start = if q > r { strike * r / q } else { strike };
    let points = gauss(ALONG);
    let d = |tau: f64, z: f64, sign: f64| {
        (z.ln() + (r - q + sign * 0.5 * v * v) * tau) / (v * tau.sqrt())
    };
    let mut values = [start; BOUNDARY];
    for _ in 0..ITERATIONS {
        let boundary = Boundary::through(start, maturity, &values);
        for (i, value) in values[..BOUNDARY - 1].iter_mut().enumerate() {
            let tau = Boundary::tau(maturity, i);
            let b = boundary.at(tau).max(1e-12 * strike);
            let mut upper = cdf(d(tau, b / strike, -1.0));
            let mut lower = cdf(d(tau, b / strike, 1.0));
            for (y, w) in &points {
                let (u, left, weight) = along(tau, *y, *w);
                let z = b / boundary.at(u);
                upper += weight * r * (r * u).exp() * cdf(d(left, z, -1.0));
                lower += weight * q * (q * u).exp() * cdf(d(left, z, 1.0));
            }
            let next = strike * (-(r - q) * tau).exp() * upper / lower;
            *value = next.clamp(1e-12 * strike, start);
        }
    }
    let boundary = Boundary::through(start, maturity, &values);
    if spot <= boundary.at(maturity) {
        return strike - spot;
    }
    let mut premium = 0.0;
    for (y, w) in &points {
        let (u, left, weight) = along(maturity, *y, *w);
        let z = spot / boundary.at(u);
        let earned = r * strike * (-r * left).exp() * cdf(-d(left, z, -1.0));
        premium += weight * (earned - q * spot * (-q * left).exp() * cdf(-d(left, z, 1.0)));
    }
    european(of) + premium
}
