//! Sequences of operations into two endpoints joined by an adversarial network. See
//! [`towpath_fuzz::operations`] for the invariants.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::operations::{Operation, run};

fuzz_target!(|operations: Vec<Operation>| run(&operations));
