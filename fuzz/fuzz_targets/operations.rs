//! Sequences of operations into two endpoints joined by an adversarial network. See
//! [`towpath_fuzz::operations`] for the invariants.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::allocation::PeakAlloc;
use towpath_fuzz::operations::{Operation, run};

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

fuzz_target!(|operations: Vec<Operation>| run(&operations));
