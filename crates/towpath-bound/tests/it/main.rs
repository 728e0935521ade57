//! Bounds from outside: published figures, and networks that are simulated against theirs.

mod bounds_hold;
mod netcalc;
