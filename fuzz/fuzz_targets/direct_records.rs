//! Records of the direct route between two sessions. See [`towpath_fuzz::direct`].
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::direct::{Operation, run};

fuzz_target!(|operations: Vec<Operation>| run(&operations));
