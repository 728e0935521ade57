//! `cargo xtask selfcheck`: proof that the checks can fail. A check that never fails proves
//! nothing; so one fault is planted for each, in a copy of the tree, and the check must name it.

mod copy;
mod faults;
mod run;

pub(crate) use run::run;
