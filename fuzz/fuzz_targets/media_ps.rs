//! Any bytes taken as a program stream are read the same in any cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::media;
use towpath_media::read::Format;

fuzz_target!(|bytes: &[u8]| media::read(Some(Format::ProgramStream), bytes));
