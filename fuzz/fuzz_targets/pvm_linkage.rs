//! Any bytes as a program: they are looked at and done with, without memory of their own.
//!
//! The source is taken in as it stands: see the `client` target.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::allocation::{self, PeakAlloc};

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

#[path = "../../crates/towpath/src/pvm/linkage.rs"]
#[allow(dead_code, unreachable_pub, reason = "only the reader is driven")]
mod linkage;

/// What the reader may keep for itself, such as the places of sections.
const FACTOR: usize = 2;
const FLOOR: usize = 64 << 10;

fuzz_target!(|bytes: &[u8]| {
    let (_, heap) = allocation::during(|| linkage::of(bytes));
    assert!(heap <= FACTOR * bytes.len() + FLOOR, "{heap} B for {} B", bytes.len());
});
