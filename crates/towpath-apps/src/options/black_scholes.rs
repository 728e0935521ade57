//! Black, Scholes and Merton: European options in closed form, in batches and with Greeks.

use multiversion::multiversion;

use super::contract::{Contract, Kind};
use super::normal::{cdf, density, exp, ln};

/// Calls whose values lie in columns, all of one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<'a> {
    pub(crate) spot: &'a [f64],
    pub(crate) strike: &'a [f64],
    pub(crate) maturity: &'a [f64],
    pub(crate) volatility: &'a [f64],
}

/// Prices of calls at one rate.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+fma", "x86_64+avx2+fma"))]
pub(crate) fn calls(of: &Columns, rate: f64, out: &mut [f64]) {
    let n = out.len();
    let (spot, strike) = (&of.spot[..n], &of.strike[..n]);
    let (maturity, volatility) = (&of.maturity[..n], &of.volatility[..n]);
    for i in 0..n {
        let (s, k, t, v) = (spot[i], strike[i], maturity[i], volatility[i]);
        let q = v * t.sqrt();
        let d = ln(s / k).mul_add(1.0, v.mul_add(0.5 * v, rate) * t) / q;
        out[i] = s * cdf(d) - k * exp(-rate * t) * cdf(d - q);
    }
}

/// Prices of calls with one spot, strike and maturity, over total variances σ² T.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+fma", "x86_64+avx2+fma"))]
pub(crate) fn calls_of_variance(log_moneyness: f64, spot: f64, paid: f64, variances: &mut [f64]) {
    for variance in variances {
        let q = variance.sqrt();
        let d = log_moneyness / q + 0.5 * q;
        *variance = spot * cdf(d) - paid * cdf(d - q);
    }
}

/// A price and what it depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Greeks {
    pub(crate) price: f64,
    /// ∂/∂S.
    pub(crate) delta: f64,
    /// ∂²/∂S².
    pub(crate) gamma: f64,
    /// ∂/∂σ.
    pub(crate) vega: f64,
    /// ∂/∂t, a year.
    pub(crate) theta: f64,
    /// ∂/∂r.
    pub(crate) rho: f64,
}

/// Closed forms.
pub(crate) fn greeks(of: &Contract) -> Greeks {
    let Contract { kind, spot, strike, rate, carry, volatility, maturity } = *of;
    let root = maturity.sqrt();
    let q = volatility * root;
    let d1 = ((spot / strike).ln() + (rate - carry + 0.5 * volatility * volatility) * maturity) / q;
    let d2 = d1 - q;
    let (grown, paid) = (spot * (-carry * maturity).exp(), strike * (-rate * maturity).exp());
    let sign = match kind {
        Kind::Call => 1.0,
        Kind::Put => -1.0,
    };
    let (n1, n2) = (cdf(sign * d1), cdf(sign * d2));
    let bell = grown * density(d1);
    Greeks {
        price: sign * (grown * n1 - paid * n2),
        delta: sign * grown / spot * n1,
        gamma: bell / (spot * spot * q),
        vega: bell * root,
        theta: -bell * volatility / (2.0 * root) + sign * (carry * grown * n1 - rate * paid * n2),
        rho: sign * paid * maturity * n2,
    }
}

/// Only the price.
pub(crate) fn price(of: &Contract) -> f64 {
    greeks(of).price
}

/// The volatility at which the price is `price`, by Newton within a bracket; none: no volatility
/// up to 10 gives it.
pub(crate) fn implied(of: &Contract, price: f64) -> Option<f64> {
    let (mut low, mut high) = (1e-6, 10.0);
    let at = |volatility| greeks(&Contract { volatility, ..*of });
    if !(at(low).price <= price && price <= at(high).price) {
        return None;
    }
    let mut volatility = 0.3;
    for _ in 0..60 {
        let now = at(volatility);
        if now.price > price {
            high = volatility;
        } else {
            low = volatility;
        }
        let next = volatility - (now.price - price) / now.vega;
        let next = if next > low && next < high { next } else { f64::midpoint(low, high) };
        if (next - volatility).abs() < 1e-13 {
            break;
        }
        volatility = next;
    }
    Some(volatility)
}
