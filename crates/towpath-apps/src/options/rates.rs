//! What is timed.

use super::american::with_dividend;
use super::black_scholes::{Columns, calls};
use super::contract::{Contract, Dividend, Kind};
use super::stochastic::{LEVEL, Variance, american, european};

/// Prices of a batch.
pub(crate) const BATCH: usize = 4096;

const OF: Contract = Contract {
    kind: Kind::Call,
    spot: 90.0,
    strike: 100.0,
    rate: 0.15,
    carry: 0.0,
    volatility: 0.3,
    maturity: 0.25,
};
const DIVIDEND: Dividend = Dividend { amount: 1.1, time: 0.125 };
const VARIANCE: Variance = Variance { start: 0.09, drift: 0.0, volatility: 1.0, correlation: -0.5 };

/// A batch of Black-Scholes prices, the columns made once a thread.
pub(crate) fn batch() {
    thread_local! {
        static COLUMNS: [Vec<f64>; 4] = {
            let column = |f: fn(usize) -> f64| (0..BATCH).map(f).collect();
            [
                column(|i| 80.0 + (i % 41) as f64),
                column(|i| 90.0 + (i % 21) as f64),
                column(|i| 0.05 + (i % 97) as f64 / 97.0),
                column(|i| 0.1 + (i % 31) as f64 / 62.0),
            ]
        };
    }
    COLUMNS.with(|[spot, strike, maturity, volatility]| {
        let mut out = vec![0.0; BATCH];
        calls(&Columns { spot, strike, maturity, volatility }, 0.05, &mut out);
        std::hint::black_box(&out);
    });
}

pub(crate) fn eus() -> anyhow::Result<()> {
    std::hint::black_box(european(&OF, &VARIANCE, LEVEL)?);
    Ok(())
}

pub(crate) fn ams() -> anyhow::Result<()> {
    std::hint::black_box(american(&OF, DIVIDEND, &VARIANCE, LEVEL)?);
    Ok(())
}

/// 10 000 prices with a dividend.
#[allow(clippy::unnecessary_wraps)] // of the others' type
pub(crate) fn surface() -> anyhow::Result<()> {
    for at in 0..10_000 {
        let of = Contract {
            spot: 60.0 + 0.8 * f64::from(at % 100),
            volatility: 0.1 + 0.005 * f64::from(at / 100),
            ..OF
        };
        std::hint::black_box(with_dividend(&of, DIVIDEND));
    }
    Ok(())
}
