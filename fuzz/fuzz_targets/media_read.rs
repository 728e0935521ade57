//! Any file: its format is found out, and it is read the same in any cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::media;

fuzz_target!(|bytes: &[u8]| media::read(None, bytes));
