//! Copies that leave the caches as they are.

use std::ptr;

/// Copies `from` to `to`; what is stored afterwards is seen after it.
///
/// # Safety
/// `to` may be written for as many bytes and does not overlap `from`.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn copy(from: &[u8], to: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const WORD: usize = size_of::<__m128i>();
    /// Shorter ones are not worth the fence.
    const LEAST: usize = 1024;
    let first = to.align_offset(WORD);
    if from.len() < LEAST || first >= from.len() {
        // SAFETY: the caller's promise.
        return unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }
    let words = (from.len() - first) / WORD;
    let last = first + words * WORD;
    // SAFETY: the three ranges make up `from` and `to`; the words of `to` are aligned.
    unsafe {
        ptr::copy_nonoverlapping(from.as_ptr(), to, first);
        for at in (first..last).step_by(WORD) {
            let word = _mm_loadu_si128(from.as_ptr().add(at).cast());
            _mm_stream_si128(to.add(at).cast(), word);
        }
        _mm_sfence();
        ptr::copy_nonoverlapping(from.as_ptr().add(last), to.add(last), from.len() - last);
    }
}

/// Copies `from` to `to`.
///
/// # Safety
/// `to` may be written for as many bytes and does not overlap `from`.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn copy(from: &[u8], to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied_and_no_other() {
        let from: Vec<u8> = (0..5000).map(|i| (i % 251) as u8 + 1).collect();
        for (at, len) in [(0, 4096), (3, 4999), (16, 1024), (1, 1023), (7, 1100), (0, 0), (15, 1)] {
            let mut to = vec![0; 6000];
            // SAFETY: `at + len` is within `to`.
            unsafe { copy(&from[..len], to.as_mut_ptr().add(at)) };
            let mut wanted = vec![0; 6000];
            wanted[at..at + len].copy_from_slice(&from[..len]);
            assert!(to == wanted, "{len} bytes at {at}");
        }
    }
}
