//! Tasks that keep no rules against one node: see `towpath_sim::vm::hostile`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| towpath_sim::vm::hostile(bytes));
