//! One option by all models, and how its price depends on spot and volatility.

use clap::Args;
use towpath_report::plot::{Column, Table};

use super::american::{Exercise, exact, tree, with_dividend};
use super::black_scholes::{Columns, calls, greeks};
use super::contract::{Contract, Dividend, Kind};
use super::heston::{Heston, HestonError, heston};
use super::monte_carlo::{conditional, plain};
use super::stochastic::{LEVEL, Variance, american, european};
use crate::exchange::{Exchange, share, share_counts};
use crate::picture::Field;
use crate::report::Report;

/// Blocks of 2048 pairs of paths.
const BLOCKS: usize = 64;
/// Prices of the surface: so many each way.
pub(crate) const SIDE: usize = 100;

#[derive(Clone, Debug, Args)]
pub(crate) struct OptionsArgs {
    /// Price of the stock
    #[arg(long, default_value_t = 90.0)]
    pub(crate) spot: f64,
    /// Strike price
    #[arg(long, default_value_t = 100.0)]
    pub(crate) strike: f64,
    /// Interest, continuously compounded, a year
    #[arg(long, default_value_t = 0.15, allow_negative_numbers = true)]
    pub(crate) rate: f64,
    /// Years to maturity
    #[arg(long, default_value_t = 0.25)]
    pub(crate) maturity: f64,
    /// Volatility of the stock
    #[arg(long, default_value_t = 0.3)]
    pub(crate) volatility: f64,
    /// Cash dividend
    #[arg(long, default_value_t = 1.1)]
    pub(crate) dividend: f64,
    /// Years to the dividend
    #[arg(long, default_value_t = 0.125)]
    pub(crate) dividend_time: f64,
    /// Volatility of the stock's variance
    #[arg(long, default_value_t = 1.0)]
    pub(crate) psi: f64,
    /// Correlation of stock and variance
    #[arg(long, default_value_t = -0.5, allow_negative_numbers = true)]
    pub(crate) correlation: f64,
    /// Of the random paths
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Heston: how fast the variance returns to its level, a year
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) heston_speed: f64,
    /// Heston: the level [default: the first variance]
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) heston_level: Option<f64>,
    /// Heston: volatility of the variance [default: psi times the volatility, as noisy at first]
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) heston_noise: Option<f64>,
}

impl OptionsArgs {
    /// What is priced, checked.
    pub(crate) fn contract(&self) -> anyhow::Result<(Contract, Dividend, Variance)> {
        let contract = Contract {
            kind: Kind::Call,
            spot: self.spot,
            strike: self.strike,
            rate: self.rate,
            carry: 0.0,
            volatility: self.volatility,
            maturity: self.maturity,
        };
        let contract = contract.checked()?;
        let dividend = Dividend { amount: self.dividend, time: self.dividend_time };
        let variance = Variance {
            start: self.volatility * self.volatility,
            drift: 0.0,
            volatility: self.psi,
            correlation: self.correlation,
        };
        Ok((contract, dividend.checked(&contract)?, variance.checked()?))
    }
}

impl OptionsArgs {
    /// Heston's variance. What is not said is as in the model of 1992: at first dV = V ψ dW there,
    /// σ √V dW here, so that σ = ψ √V(0); V(0) is the level.
    fn heston(&self) -> anyhow::Result<Heston> {
        let start = self.volatility * self.volatility;
        let heston = Heston {
            start,
            speed: self.heston_speed,
            level: self.heston_level.unwrap_or(start),
            noise: self.heston_noise.unwrap_or(self.psi * self.volatility),
            correlation: self.correlation,
        };
        Ok(heston.checked()?)
    }
}

/// Spots of half to one and a half times the strike across, volatilities from 5 to 105 % down: the
/// prices, at the root.
pub(crate) fn surface(
    exchange: &mut dyn Exchange,
    of: &Contract,
) -> crate::exchange::Result<Option<Vec<f64>>> {
    let rows = share(SIDE, exchange.rank(), exchange.size());
    let spots: Vec<f64> =
        (0..SIDE).map(|x| of.strike * (0.5 + x as f64 / (SIDE - 1) as f64)).collect();
    let mut own = vec![0.0; rows.len() * SIDE];
    for (row, out) in rows.zip(own.chunks_exact_mut(SIDE)) {
        let volatility = 0.05 + row as f64 / (SIDE - 1) as f64;
        let columns = Columns {
            spot: &spots,
            strike: &[of.strike; SIDE],
            maturity: &[of.maturity; SIDE],
            volatility: &[volatility; SIDE],
        };
        calls(&columns, of.rate, out);
    }
    exchange.gather_counts(0, &own, &share_counts(SIDE, exchange.size(), SIDE))
}

/// The whole demonstration; the root gets the report.
pub(crate) fn options(
    exchange: &mut dyn Exchange,
    args: &OptionsArgs,
) -> anyhow::Result<Option<Report>> {
    let (of, dividend, variance) = args.contract()?;
    let heston_variance = args.heston()?;
    let random = plain(exchange, &of, BLOCKS, args.seed)?;
    let paths = conditional(exchange, &of, &variance, args.seed)?;
    let surface = surface(exchange, &of)?;
    // What follows the root alone computes, and it is not much.
    exchange.done();
    let Some(surface) = surface else { return Ok(None) };
    let mut report = Report::new(
        "Options",
        &format!(
            "A call on {} at {} in {} years, by the models of 1994 and by better ones; {} tasks",
            of.spot,
            of.strike,
            of.maturity,
            exchange.size()
        ),
    );
    let figures = Column::figures;
    let mut table = Table::new(&[
        Column::words("model", "model"),
        figures("price", "price"),
        figures("error", "error"),
    ]);
    let mut row = |model: &str, price: f64, error: Option<f64>| {
        let error = error.map_or(String::new(), |e| format!("{e:.6}"));
        let cell = |text: String| (text.clone(), text);
        table.push(vec![cell(model.to_owned()), cell(format!("{price:.6}")), cell(error)]);
    };
    let g = greeks(&of);
    row("BS, European, closed form", g.price, None);
    row("the same by 262 144 random paths", random.mean, Some(random.error));
    row("the same by a tree of 17 steps", tree(&of, Exercise::European, 17), None);
    let put = Contract { kind: Kind::Put, ..of };
    row("American put by a tree of 500 steps", tree(&put, Exercise::American, 500), None);
    row("American put at the same strike, exact", exact(&Contract { kind: Kind::Put, ..of }), None);
    row("AMC, American, one dividend, closed form", with_dividend(&of, dividend), None);
    let eus = european(&of, &variance, LEVEL)?;
    row("EUS, stochastic variance, method of 1992", eus.price, None);
    row("the same by conditional paths", paths.mean, Some(paths.error));
    row(
        "AMS, with dividend, method of 1992",
        american(&of, dividend, &variance, LEVEL)?.price,
        None,
    );
    let heston = match heston(&of, &heston_variance) {
        Err(HestonError::Value(error)) => return Err(error.into()),
        other => other,
    };
    if let Ok(price) = heston {
        row("Heston, European, by its characteristic function", price, None);
    }
    report.table("Prices", &table);
    if let Err(error) = heston {
        report.say("No price by Heston's model", &error.to_string());
    }
    report.say(
        "Greeks of BS",
        &format!(
            "delta {:.6}, gamma {:.6}, vega {:.6}, theta {:.6} a year, rho {:.6}",
            g.delta, g.gamma, g.vega, g.theta, g.rho
        ),
    );
    report.field("Price over spot (across) and volatility (down)", &Field::new(SIDE, surface));
    report.file("prices.csv", table.csv());
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::exchange::local;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: OptionsArgs,
    }

    fn shown(size: usize, words: &[&str]) -> anyhow::Result<String> {
        let args = Alone::parse_from(std::iter::once(&"options").chain(words)).args;
        let mut all = local::run(size, |exchange| options(exchange, &args));
        let report = all.swap_remove(0)?;
        Ok(report.expect("the root's").text().to_owned())
    }

    #[test]
    fn the_worked_example_is_the_same_for_any_number_of_tasks() {
        let one = shown(1, &[]).unwrap();
        for price in ["2.968976", "2.603888", "2.773326", "2.396271"] {
            assert!(one.contains(price), "{price} in {one}");
        }
        for size in [2, 3, 4, 7, 8] {
            let tasks = format!("{size} tasks");
            assert_eq!(shown(size, &[]).unwrap(), one.replace("1 tasks", &tasks));
        }
    }

    #[test]
    fn bad_values_are_named() {
        let said = shown(2, &["--volatility", "NaN"]).map(drop).unwrap_err().to_string();
        assert!(said.starts_with("the volatility is NaN"), "{said}");
        let said = shown(2, &["--heston-level", "0.1"]).map(drop).unwrap_err().to_string();
        assert!(said.starts_with("Heston's level is 0.1: it must be the first variance"), "{said}");
        let said = shown(2, &["--heston-noise", "-1"]).map(drop).unwrap_err().to_string();
        assert!(said.starts_with("Heston's noise is -1"), "{said}");
    }
}
