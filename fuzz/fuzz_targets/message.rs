//! Any bytes decode as a message between daemons or fail; what decodes comes back from its
//! encoding; and what is allocated on the way is bounded by the bytes' length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::allocation::{self, PeakAlloc};
use towpath_vm::Message;

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

/// Bytes of memory per byte of input at most: an element of a list takes at least one byte, and
/// the largest element in memory (a host, with its key and names) 24 words, doubled by growth.
const FACTOR: usize = 512;
/// What serde reserves for a list before it has seen an element (`size_hint::cautious`).
const FLOOR: usize = 2 << 20;

fuzz_target!(|bytes: &[u8]| {
    let (message, allocated) = allocation::during(|| Message::decode(bytes));
    assert!(allocated <= FACTOR * bytes.len() + FLOOR, "{allocated} B for {} B", bytes.len());
    let Ok(message) = message else { return };
    assert_eq!(Message::decode(&message.encode()), Ok(message));
});
