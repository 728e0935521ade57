//! `cargo xtask tidy`: the rules of the house that a program can check. One check per file; all
//! read the same [`tree::Tree`], none knows another.

mod binaries;
mod edges;
mod fuzz_targets;
mod leftovers;
mod modules;
mod packages;
mod ratchet;
mod run;
mod sans_io;
mod shape;
mod sizes;
mod sleeping;
mod source;
mod tree;
mod unsafe_code;

pub(crate) use run::run;
