//! A journal of the replicated log: read or refused; what is read goes on, and is read again as it
//! was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::allocation::{self, PeakAlloc};
use towpath_vm::consensus::journal::recover;

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

/// Bytes of memory per byte of input at most: the shortest entry takes 40 bytes on the disk.
const FACTOR: usize = 16;
const FLOOR: usize = 16 << 10;

fuzz_target!(|bytes: &[u8]| {
    let (found, heap) = allocation::during(|| recover(bytes));
    assert!(heap <= FACTOR * bytes.len() + FLOOR, "{heap} B for {} B", bytes.len());
    let Ok(mut found) = found else { return };
    assert_eq!(found.journal.len() + found.torn, bytes.len() as u64);
    let mut more = bytes[..found.journal.len() as usize].to_vec();
    found.journal.boot(found.boot.wrapping_add(1), 7, &mut more);
    let again = recover(&more).expect("what was read goes on");
    assert_eq!((again.boot, again.torn), (found.boot.wrapping_add(1), 0));
    assert_eq!(again.stored, found.stored);
});
