//! Against values of other programs: data/options (QuantLib 1.44; see its README).

use super::american::{Exercise, exact, tree, with_dividend};
use super::black_scholes::{Columns, calls, greeks, implied};
use super::contract::{Contract, Dividend, Kind};
use super::monte_carlo::{conditional, plain};
use super::normal::bivariate;
use super::stochastic::{LEVEL, Variance, american, european};
use crate::exchange::local;

/// The rows of a table as functions from a column's name to its value.
fn rows(csv: &'static str) -> Vec<impl Fn(&str) -> f64> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &'static str| {
        let (names, cells) = (names.clone(), line.split(',').collect::<Vec<_>>());
        move |name: &str| {
            let at = names.iter().position(|n| *n == name).unwrap_or_else(|| panic!("{name}"));
            if cells[at] == "put" { 1.0 } else { cells[at].parse().unwrap_or(0.0) }
        }
    };
    lines.map(row).collect()
}

const BS_AMC: &str = include_str!("../../data/options/bs_amc.csv");
const DIVIDENDS: &str = include_str!("../../data/options/div.csv");
const STOCHASTIC: &str = include_str!("../../data/options/sv.csv");

fn near(got: f64, right: f64, bound: f64, what: &str) {
    assert!((got - right).abs() <= bound, "{what}: {got}, not {right} (bound {bound})");
}

fn plain_contract(row: &impl Fn(&str) -> f64) -> Contract {
    let of = Contract {
        kind: if row("type") > 0.5 { Kind::Put } else { Kind::Call },
        spot: row("S"),
        strike: row("K"),
        rate: row("r"),
        carry: row("q"),
        volatility: row("sigma"),
        maturity: row("T"),
    };
    of.checked().unwrap()
}

#[test]
fn closed_forms_and_greeks() {
    for row in rows(BS_AMC) {
        let of = plain_contract(&row);
        let got = greeks(&of);
        near(got.price, row("bs_price"), 1e-10, "price");
        near(got.delta, row("delta"), 1e-10, "delta");
        near(got.gamma, row("gamma"), 1e-10, "gamma");
        near(got.vega, row("vega"), 1e-9, "vega");
        near(got.theta, row("theta_per_year"), 1e-9, "theta");
        near(got.rho, row("rho"), 1e-9, "rho");
        if let Some(volatility) = implied(&of, got.price).filter(|_| got.vega > 1e-3) {
            near(volatility, of.volatility, 1e-9, "implied volatility");
        }
        if of.kind == Kind::Call && of.carry == 0.0 {
            let columns = Columns {
                spot: &[of.spot; 3],
                strike: &[of.strike; 3],
                maturity: &[of.maturity; 3],
                volatility: &[of.volatility; 3],
            };
            let mut out = [0.0; 3];
            calls(&columns, of.rate, &mut out);
            near(out[2], row("bs_price"), 1e-10, "a batch's price");
        }
    }
}

#[test]
fn american_options() {
    for row in rows(BS_AMC) {
        let of = plain_contract(&row);
        near(exact(&of), row("american_exact"), 1e-6, "exact");
        let of_tree = |exercise, steps| tree(&of, exercise, steps);
        let european = row("crr17_european");
        near(of_tree(Exercise::European, 17), european, 1e-8, "European tree");
        near(of_tree(Exercise::American, 17), row("crr17_american"), 1e-8, "tree of 17 steps");
        near(of_tree(Exercise::American, 500), row("crr500_american"), 1e-8, "tree of 500");
    }
}

#[test]
fn one_cash_dividend() {
    for row in rows(DIVIDENDS) {
        let of = Contract {
            kind: Kind::Call,
            spot: row("S"),
            strike: row("K"),
            rate: row("r"),
            carry: 0.0,
            volatility: row("sigma"),
            maturity: row("days") / 365.0,
        };
        let dividend = Dividend { amount: row("div"), time: row("div_day") / 365.0 };
        near(with_dividend(&of, dividend), row("escrowed_rgw"), 1e-8, "Roll, Geske, Whaley");
    }
    assert!(bivariate(0.1, 0.2, -0.99).is_finite());
}

fn stochastic(row: &impl Fn(&str) -> f64) -> (Contract, Dividend, Variance) {
    let of = Contract {
        kind: Kind::Call,
        spot: row("S"),
        strike: row("K"),
        rate: row("r"),
        carry: 0.0,
        volatility: 0.3,
        maturity: row("T"),
    };
    let variance = Variance {
        start: row("V0"),
        drift: row("mu"),
        volatility: row("psi"),
        correlation: row("rho"),
    };
    (of, Dividend { amount: row("div"), time: row("td") }, variance)
}

#[test]
fn stochastic_variance_by_the_method_of_1992() {
    for row in rows(STOCHASTIC) {
        let (of, dividend, variance) = stochastic(&row);
        let relative = |got: f64, name: &str| near(got / row(name), 1.0, 1e-8, name);
        let eus = european(&of, &variance, LEVEL).unwrap();
        relative(eus.zero, "eus_alg17_rho0");
        relative(eus.price, "eus_alg17");
        let ams = american(&of, dividend, &variance, LEVEL).unwrap();
        relative(ams.zero, "ams_alg17_rho0");
        relative(ams.price, "ams_alg17");
        if variance.correlation != 0.0 {
            relative(eus.perfect, "eus_alg17_perfect");
            relative(ams.perfect, "ams_alg17_perfect");
        }
    }
    let bad = Variance { start: f64::NAN, drift: 0.0, volatility: 1.0, correlation: 0.0 };
    let (of, ..) = stochastic(&rows(STOCHASTIC)[0]);
    assert_eq!(european(&of, &bad, LEVEL).unwrap_err().name, "the variance");
    let said = european(&of, &Variance { start: 0.09, ..bad }, 60).unwrap_err().to_string();
    assert_eq!(said, "the tree's level is 60: it must be from 2 to 22");
}

#[test]
fn the_continuous_model_by_conditional_paths() {
    for row in rows(STOCHASTIC).iter().step_by(7) {
        let (of, _, variance) = stochastic(row);
        let all = local::run(1, |exchange| Ok(conditional(exchange, &of, &variance, 1)?));
        let got = all[0].as_ref().unwrap();
        near(got.mean, row("eus_model"), 3e-3, "EUS");
        assert!(got.error < 1e-3, "{got:?}");
    }
}

#[test]
fn random_paths_are_the_same_for_any_number_of_tasks() {
    let row = &rows(BS_AMC)[2];
    let of = plain_contract(row);
    let estimate = |size| {
        let all = local::run(size, |exchange| Ok(plain(exchange, &of, 24, 3)?));
        let all: Vec<_> = all.into_iter().map(Result::unwrap).collect();
        assert!(all.iter().all(|estimate| *estimate == all[0]), "all ranks know it");
        all[0]
    };
    let one = estimate(1);
    near(one.mean, row("bs_price"), 4.0 * one.error, "mean");
    for size in [2, 3, 4, 7, 8] {
        assert_eq!(estimate(size), one);
    }
}
