//! Pricing of options: the models of the 1994 report (BS, AMC, EUS, AMS) beside exact values.
//!
//! A market's trades are independent: they are split over tasks in blocks. A single price by Monte
//! Carlo is split by blocks of paths.

mod american;
mod black_scholes;
mod contract;
#[cfg(feature = "database")]
mod database;
mod demo;
mod heston;
mod market;
mod monte_carlo;
mod normal;
mod quadrature;
pub(crate) mod rates;
mod stochastic;
#[cfg(test)]
mod tests;

pub(crate) use black_scholes::{greeks, price};
pub(crate) use contract::{Contract, Kind};
#[cfg(feature = "database")]
pub(crate) use database::{QueryArgs, query};
pub(crate) use demo::{OptionsArgs, SIDE, options, surface};
pub(crate) use market::{MarketArgs, market};
pub(crate) use monte_carlo::{splitmix, uniform};
pub(crate) use normal::quantile;
#[cfg(test)]
pub(crate) use quadrature::gauss;
