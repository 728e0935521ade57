//! Any sequence of calls into any scheduler. See [`towpath_fuzz::qos`] for what is checked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::qos::{Call, run};

fuzz_target!(|input: (u8, u8, Vec<Call>)| run(input.0, input.1, &input.2));
