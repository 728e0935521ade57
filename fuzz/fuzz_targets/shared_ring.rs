//! A peer that writes anything into its shared pages. See [`towpath_fuzz::shared`].
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::shared::{Step, run};

fuzz_target!(|steps: Vec<Step>| run(&steps));
