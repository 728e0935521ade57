//! Heston's model: dS/S = r dt + √V dW₁, dV = κ (θ - V) dt + σ √V dW₂, correlation ρ.
//!
//! A European option is one integral over the characteristic function φ of ln S(T) about its
//! forward (A. Lewis, Option Valuation under Stochastic Volatility, 2000, ch. 2):
//!
//! C = S e^(-qT) - √(S K) e^(-(r+q)T/2) / π ∫₀^∞ Re[e^(iuk) φ(u - i/2)] du / (u² + 1/4),
//! k = ln(S/K) + (r - q) T.
//!
//! φ has the form whose logarithm stays on its branch (H. Albrecher, P. Mayer, W. Schoutens,
//! J. Tistaert, The little Heston trap, 2007), written without differences of what is nearly equal:
//! it goes over into Black and Scholes's as σ goes to 0.

use rustfft::num_complex::Complex64;

use super::contract::{Contract, ContractError, Kind};
use super::quadrature::gauss20;

/// Halvings of a panel at most, and doublings of the range.
const HALVINGS: usize = 24;
const DOUBLINGS: usize = 48;
/// Of the integral, whose size is about 1.
const PRECISION: f64 = 1e-13;
/// Evaluations of φ for one price at most.
const WORK_MAX: usize = 400_000;

/// The variance of Heston's model. All finite; start > 0; the others as their limits say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Heston {
    /// V(0).
    pub(crate) start: f64,
    /// κ, how fast the variance returns, a year: 0 to 1000.
    pub(crate) speed: f64,
    /// θ, where it returns to: 0 to 10 000.
    pub(crate) level: f64,
    /// σ, volatility of the variance: 0 to 1000.
    pub(crate) noise: f64,
    /// ρ: -1 to 1.
    pub(crate) correlation: f64,
}

/// Why there is no price.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum HestonError {
    /// A value that the model cannot have.
    #[error(transparent)]
    Value(#[from] ContractError),
    /// The integral is not known to [`PRECISION`].
    #[error("Heston's integral needs more than {WORK_MAX} values of its function")]
    Unsettled,
}

impl Heston {
    pub(crate) fn checked(self) -> Result<Self, ContractError> {
        let within = |name, value: f64, good: bool, limit| match good {
            true => Ok(()),
            false => Err(ContractError { name, value, limit }),
        };
        let start = self.start;
        within("Heston's first variance", start, start > 0.0 && start <= 1e4, "0 to 10000, not 0")?;
        let from_0 = |name, value: f64, most: f64, limit| {
            within(name, value, (0.0..=most).contains(&value), limit)
        };
        from_0("Heston's speed", self.speed, 1e3, "from 0 to 1000")?;
        from_0("Heston's level", self.level, 1e4, "from 0 to 10000")?;
        from_0("Heston's noise", self.noise, 1e3, "from 0 to 1000")?;
        let rho = self.correlation;
        within("the correlation", rho, rho.abs() <= 1.0, "from -1 to 1")?;
        let level = self.level;
        let has_place = self.speed > 0.0 || level == start;
        within("Heston's level", level, has_place, "the first variance where the speed is 0")?;
        Ok(self)
    }

    /// The variance's mean over the time to `maturity`.
    #[cfg(test)]
    pub(crate) fn mean(&self, maturity: f64) -> f64 {
        let all = self.speed * maturity;
        let kept = if all > 0.0 { -(-all).exp_m1() / all } else { 1.0 };
        self.level + (self.start - self.level) * kept
    }

    /// φ(u - i/2).
    fn characteristic(&self, u: f64, maturity: f64) -> Complex64 {
        let Self { start, speed, level, noise, correlation } = *self;
        // z² + iz of z = u - i/2, and β = κ - ρσ i z.
        let square = u * u + 0.25;
        let beta = Complex64::new(speed - 0.5 * correlation * noise, -correlation * noise * u);
        let d = (beta * beta + noise * noise * square).sqrt();
        let sum = beta + d;
        if sum.norm() < 1e-150 {
            // κ = σ = 0: the variance stays what it is.
            return Complex64::new(-0.5 * start * square * maturity, 0.0).exp();
        }
        // (β - d) / σ² = -(z² + iz) / (β + d), without a difference.
        let ratio = -square / sum;
        let g = ratio * noise * noise / sum;
        let decayed = exp(-d * maturity);
        let gone = -exp_m1(-d * maturity);
        let of_start = ratio * gone / (1.0 - g * decayed);
        // ln((1 - g e^(-dT)) / (1 - g)) / σ² = ln(1 + σ² w) / σ².
        let w = ratio / sum * gone / (1.0 - g);
        let of_level = ratio * maturity - 2.0 * log_1p_over(w, noise * noise);
        exp(of_level * (speed * level) + of_start * start)
    }

    /// The integral in front of which the formula has 1/π.
    fn integral(&self, log_moneyness: f64, maturity: f64) -> Result<f64, HestonError> {
        let value = |u: f64| {
            let turned = exp(Complex64::new(0.0, u * log_moneyness));
            (turned * self.characteristic(u, maturity)).re / (u * u + 0.25)
        };
        let (mut sum, mut from, mut to, mut work) = (0.0, 0.0, 0.5, 0);
        for _ in 0..DOUBLINGS {
            sum += refined(&value, from, to, HALVINGS, &mut work)?;
            // What is left is less than |φ| / u, as |φ| falls.
            if self.characteristic(to, maturity).norm() / to < 0.1 * PRECISION {
                return Ok(sum);
            }
            (from, to) = (to, 2.0 * to);
        }
        Err(HestonError::Unsettled)
    }
}

fn exp(z: Complex64) -> Complex64 {
    let (sin, cos) = z.im.sin_cos();
    Complex64::new(cos, sin) * z.re.exp()
}

fn exp_m1(z: Complex64) -> Complex64 {
    let half = (0.5 * z.im).sin();
    let (sin, cos) = z.im.sin_cos();
    Complex64::new(z.re.exp_m1() * cos - 2.0 * half * half, z.re.exp() * sin)
}

/// ln(1 + s w) / s, as a series where s w is small; w for s = 0.
fn log_1p_over(w: Complex64, s: f64) -> Complex64 {
    let y = w * s;
    if y.norm() > 0.01 {
        return (1.0 + y).ln() / s;
    }
    // 1 - y/2 + y²/3 - …, from the last term that counts.
    let series = (1..=9).rev().fold(Complex64::ZERO, |sum, n| 1.0 / f64::from(n) - y * sum);
    w * series
}

fn gauss(value: &impl Fn(f64) -> f64, from: f64, to: f64, work: &mut usize) -> f64 {
    let (middle, half) = (f64::midpoint(from, to), 0.5 * (to - from));
    *work += gauss20().len();
    gauss20().iter().map(|(x, weight)| weight * value(middle + half * x)).sum::<f64>() * half
}

/// By Gauss's twenty points; halved until two halves say the same as the whole.
fn refined(
    value: &impl Fn(f64) -> f64,
    from: f64,
    to: f64,
    halvings: usize,
    work: &mut usize,
) -> Result<f64, HestonError> {
    let middle = f64::midpoint(from, to);
    let whole = gauss(value, from, to, work);
    let (left, right) = (gauss(value, from, middle, work), gauss(value, middle, to, work));
    if (whole - (left + right)).abs() < 0.01 * PRECISION {
        return Ok(left + right);
    }
    if halvings == 0 || *work > WORK_MAX {
        return Err(HestonError::Unsettled);
    }
    Ok(refined(value, from, middle, halvings - 1, work)?
        + refined(value, middle, to, halvings - 1, work)?)
}

/// The price of a European option; the contract's volatility is not used.
pub(crate) fn heston(of: &Contract, variance: &Heston) -> Result<f64, HestonError> {
    let variance = variance.checked()?;
    let Contract { kind, spot, strike, rate, carry, maturity, .. } = *of;
    let (grown, paid) = (spot * (-carry * maturity).exp(), strike * (-rate * maturity).exp());
    let integral = variance.integral((grown / paid).ln(), maturity)?;
    let call = grown - (grown * paid).sqrt() / std::f64::consts::PI * integral;
    // What no price can be is the integral's last digits.
    let call = call.clamp((grown - paid).max(0.0), grown);
    Ok(if kind == Kind::Call { call } else { call - grown + paid })
}

#[cfg(test)]
mod tests {
    use super::super::black_scholes::price;
    use super::super::monte_carlo::uniform;
    use super::super::normal::quantile;
    use super::*;

    fn contract(kind: Kind, strike: f64, rate: f64, carry: f64, maturity: f64) -> Contract {
        Contract { kind, spot: 100.0, strike, rate, carry, volatility: 1.0, maturity }
    }

    const LEWIS: Heston =
        Heston { start: 0.04, speed: 4.0, level: 0.25, noise: 1.0, correlation: -0.5 };

    /// A. Lewis, "Heston model reference prices", financepress.com, 15 February 2019; also in
    /// QuantLib's test-suite/hestonmodel.cpp: strike, put, call.
    #[test]
    fn lewis_reference_prices() {
        for (strike, put, call) in [
            (80.0, 7.958878113256768, 26.774758743998854),
            (90.0, 12.017966707346305, 20.93334900059671),
            (100.0, 17.05527096127011, 16.070154917028834),
            (110.0, 23.0178258984428, 12.132211516709845),
            (120.0, 29.811026202682472, 9.024913483457836),
        ] {
            for (kind, right) in [(Kind::Put, put), (Kind::Call, call)] {
                let got = heston(&contract(kind, strike, 0.01, 0.02, 1.0), &LEWIS).unwrap();
                assert!((got - right).abs() < 1e-11, "{kind:?} at {strike}: {got}, not {right}");
            }
        }
    }

    /// QuantLib, test-suite/hestonmodel.cpp, testAnalyticVsCached (91 days of 2004 and 2005); and
    /// F. Fang, C. W. Oosterlee, SIAM J. Sci. Comput. 31 (2008), section 5.2.
    #[test]
    fn two_more_published_prices() {
        let variance =
            Heston { start: 0.1, speed: 3.16, level: 0.09, noise: 0.4, correlation: -0.2 };
        let of = contract(Kind::Call, 105.0, 0.0225, 0.02, 5.0 / 366.0 + 86.0 / 365.0);
        let got = heston(&of, &variance).unwrap();
        assert!((got / 100.0 - 0.0404774515).abs() < 1e-9, "{got}");
        let variance = Heston {
            start: 0.0175,
            speed: 1.5768,
            level: 0.0398,
            noise: 0.5751,
            correlation: -0.5711,
        };
        // The first is good to 2e-8: by QuantLib 1.x and others it is 5.785155434376.
        for (maturity, published, bound) in [(1.0, 5.785155450, 2e-8), (10.0, 22.318945791, 1e-9)] {
            let got = heston(&contract(Kind::Call, 100.0, 0.0, 0.0, maturity), &variance).unwrap();
            assert!((got - published).abs() < bound, "{maturity}: {got}");
        }
        let got = heston(&contract(Kind::Call, 100.0, 0.0, 0.0, 1.0), &variance).unwrap();
        assert!((got - 5.785155434376).abs() < 1e-11, "{got}");
    }

    #[test]
    fn without_noise_it_is_black_and_scholes_of_the_mean_variance() {
        for (speed, level) in [(0.0, 0.04), (1e-6, 0.3), (2.0, 0.3), (50.0, 0.01)] {
            for (strike, maturity) in [(60.0, 0.1), (100.0, 2.0), (140.0, 10.0)] {
                let still = Heston { start: 0.04, speed, level, noise: 0.0, correlation: -0.7 };
                for kind in [Kind::Call, Kind::Put] {
                    let of = contract(kind, strike, 0.03, 0.01, maturity);
                    let volatility = still.mean(maturity).sqrt();
                    let right = price(&Contract { volatility, ..of });
                    let got = heston(&of, &still).unwrap();
                    assert!((got - right).abs() < 1e-10, "{still:?} {of:?}: {got}, not {right}");
                    // The way there is smooth: an error of the order of the noise.
                    for noise in [1e-9, 1e-6, 1e-4] {
                        let near = heston(&of, &Heston { noise, ..still }).unwrap();
                        assert!((near - got).abs() < 1e3 * noise + 1e-11, "{noise}: {near}, {got}");
                    }
                }
            }
        }
    }

    #[test]
    fn parity_bounds_and_order_hold_far_out() {
        for correlation in [-0.99, -0.9, 0.0, 0.95, 0.99] {
            for noise in [0.1, 1.0, 4.0] {
                let variance = Heston { start: 0.09, speed: 0.5, level: 0.05, noise, correlation };
                let mut last = f64::MAX;
                for strike in [1.0, 50.0, 90.0, 100.0, 130.0, 400.0] {
                    for maturity in [0.02, 1.0, 20.0] {
                        let of = contract(Kind::Call, strike, 0.05, 0.02, maturity);
                        let call = heston(&of, &variance).unwrap();
                        let put = heston(&Contract { kind: Kind::Put, ..of }, &variance).unwrap();
                        let forward = 100.0 * (-0.02 * maturity).exp();
                        let paid = strike * (-0.05 * maturity).exp();
                        assert!((call - put - forward + paid).abs() < 1e-10);
                        assert!(put >= -1e-12 && call <= forward, "{of:?} {variance:?}");
                    }
                    let call = contract(Kind::Call, strike, 0.05, 0.02, 1.0);
                    let call = heston(&call, &variance).unwrap();
                    assert!(call < last + 1e-10, "{strike}: {call} after {last}");
                    last = call;
                }
            }
        }
    }

    /// Paths of the variance by Milstein's scheme with its drift at a step's end; given one, what
    /// is left of the stock is lognormal (G. Romano, N. Touzi, 1997), as in
    /// `monte_carlo::conditional`.
    #[test]
    fn random_paths_say_the_same() {
        const PATHS: u64 = 10_000;
        const STEPS: u64 = 100;
        let variance =
            Heston { start: 0.04, speed: 2.0, level: 0.09, noise: 0.3, correlation: -0.6 };
        let Heston { start, speed, level, noise, correlation } = variance;
        let of = contract(Kind::Call, 105.0, 0.03, 0.0, 1.0);
        let dt = of.maturity / STEPS as f64;
        let price_along = |path: u64| {
            let (mut v, mut total) = (start, 0.0);
            for step in 0..STEPS {
                // Each path has its mirror.
                let z = quantile(uniform(3, path / 2 * STEPS + step));
                let z = if path.is_multiple_of(2) { z } else { -z };
                let moved = v
                    + speed * level * dt
                    + noise * (v * dt).sqrt() * z
                    + 0.25 * noise * noise * dt * (z * z - 1.0);
                let next = (moved / (1.0 + speed * dt)).max(0.0);
                total += 0.5 * (v + next) * dt;
                v = next;
            }
            let driven = (v - start - speed * level * of.maturity + speed * total) / noise;
            let moved = correlation * driven - 0.5 * correlation * correlation * total;
            let left = (1.0 - correlation * correlation) * total / of.maturity;
            price(&Contract { spot: of.spot * moved.exp(), volatility: left.sqrt(), ..of })
        };
        let mean = (0..PATHS).map(price_along).sum::<f64>() / PATHS as f64;
        let got = heston(&of, &variance).unwrap();
        assert!((mean - got).abs() < 0.05, "{mean} by paths, {got}");
    }

    /// At perfect correlation φ hardly falls: a price that is not known to its precision is none.
    #[test]
    fn perfect_correlation_has_a_price_near_the_money_and_is_refused_far_out() {
        let variance = Heston { correlation: -1.0, ..LEWIS };
        let near = |correlation: f64| {
            let of = contract(Kind::Call, 100.0, 0.01, 0.02, 1.0);
            heston(&of, &Heston { correlation, ..variance }).unwrap()
        };
        assert!((near(-1.0) - near(-0.9999)).abs() < 1e-3, "{}, {}", near(-1.0), near(-0.9999));
        let far = Heston { start: 0.09, speed: 0.5, level: 0.05, ..variance };
        let far = heston(&contract(Kind::Call, 1.0, 0.05, 0.02, 0.02), &far).unwrap_err();
        let said = "Heston's integral needs more than 400000 values of its function";
        assert_eq!(far.to_string(), said);
    }

    #[test]
    fn what_the_model_cannot_have_is_named() {
        let said = |variance: Heston| {
            heston(&contract(Kind::Call, 100.0, 0.0, 0.0, 1.0), &variance).unwrap_err().to_string()
        };
        let nan = said(Heston { speed: f64::NAN, ..LEWIS });
        assert_eq!(nan, "Heston's speed is NaN: it must be from 0 to 1000");
        assert!(said(Heston { noise: -1.0, ..LEWIS }).starts_with("Heston's noise is -1:"));
        assert!(said(Heston { level: -0.1, ..LEWIS }).starts_with("Heston's level is -0.1:"));
        assert!(said(Heston { start: 0.0, ..LEWIS }).starts_with("Heston's first variance is 0:"));
        let rho = said(Heston { correlation: 1.5, ..LEWIS });
        assert_eq!(rho, "the correlation is 1.5: it must be from -1 to 1");
        let idle = said(Heston { speed: 0.0, ..LEWIS });
        let limit = "it must be the first variance where the speed is 0";
        assert_eq!(idle, format!("Heston's level is 0.25: {limit}"));
    }
}
