//! Schedulers, bounds and admission from outside.

mod bounds_hold;
mod netcalc;
mod schedulers;
