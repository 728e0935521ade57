//! Any bytes as a program: they are looked at and done with, without memory of their own.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::allocation::{self, PeakAlloc};
use towpath_pvm::linkage;

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

/// What the reader may keep for itself, such as the places of sections.
const FACTOR: usize = 2;
const FLOOR: usize = 64 << 10;

fuzz_target!(|bytes: &[u8]| {
    let (_, heap) = allocation::during(|| linkage::of(bytes));
    assert!(heap <= FACTOR * bytes.len() + FLOOR, "{heap} B for {} B", bytes.len());
});
