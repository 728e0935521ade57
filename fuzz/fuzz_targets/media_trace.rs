//! Any bytes parse as a list of frame sizes or fail, in either unit; what is allocated on the way
//! is bounded by the bytes' length; and what fits a trace has the sizes' sum.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::allocation::{self, PeakAlloc};
use towpath_media::trace::{BareUnit, FrameRate, Trace, parse};

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

/// A frame takes at least two bytes of text and nine of memory, doubled by growth.
const FACTOR: usize = 32;
/// Messages of errors, and the first growth.
const FLOOR: usize = 1 << 12;

fuzz_target!(|bytes: &[u8]| {
    for unit in [BareUnit::Bytes, BareUnit::Bits] {
        let (listing, allocated) = allocation::during(|| parse(bytes, unit));
        assert!(allocated <= FACTOR * bytes.len() + FLOOR, "{allocated} B for {} B", bytes.len());
        let Ok(listing) = listing else { continue };
        assert_eq!(listing.sizes.len(), listing.types.len());
        assert!(!listing.sizes.is_empty() && listing.sizes.len() <= bytes.len());
        let frame_rate = listing.frame_rate.unwrap_or(FrameRate::TWENTY_FIVE);
        let Ok(trace) = Trace::uniform(listing.sizes.iter().copied(), frame_rate) else { continue };
        assert_eq!(trace.total(), listing.sizes.iter().sum::<u64>());
        assert_eq!(trace.groups(), listing.sizes.len());
    }
});
