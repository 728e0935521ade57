//! Symbols of groups in any order, some changed, repeated or made up, into a decoder: it keeps no
//! more than it may, rebuilds no more than a group has, and of an honest group to the byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::coding::{Script, run};

fuzz_target!(|script: Script| run(script));
