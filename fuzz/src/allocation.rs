//! A global allocator that counts.

use peak_alloc::PeakAlloc;

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

/// Runs `work`; tells by how many bytes the heap grew at its peak.
pub fn during<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = COUNTING.current_usage();
    COUNTING.reset_peak_usage();
    let done = work();
    (done, COUNTING.peak_usage().saturating_sub(before))
}
