//! Any bytes parse as a schedule file or fail; what parses comes back from its file; and what is
//! allocated on the way is bounded by the bytes' length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::allocation::{self, PeakAlloc};
use towpath_media::schedule::{emit, parse};

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

/// A segment takes at least eight bytes of text and 32 of memory, doubled by growth.
const FACTOR: usize = 16;
/// Messages of errors, and the first growth.
const FLOOR: usize = 1 << 12;

fuzz_target!(|bytes: &[u8]| {
    let (schedule, allocated) = allocation::during(|| parse(bytes));
    assert!(allocated <= FACTOR * bytes.len() + FLOOR, "{allocated} B for {} B", bytes.len());
    let Ok(schedule) = schedule else { return };
    assert!(schedule.segments.iter().all(|segment| segment.rate <= schedule.peak));
    assert_eq!(parse(emit(&schedule).as_bytes()), Ok(schedule));
});
