//! How far the heap grows.

pub use peak_alloc::PeakAlloc;

/// Runs `work`; tells by how many bytes the heap grew at its peak. The target has [`PeakAlloc`] as
/// its allocator; others do without, because it fills what is asked for as zero.
///
/// # Panics
/// When the target has another allocator.
pub fn during<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = PeakAlloc.current_usage();
    assert!(before > 0, "the target's allocator does not count");
    PeakAlloc.reset_peak_usage();
    let done = work();
    (done, PeakAlloc.peak_usage().saturating_sub(before))
}
