//! A program's array: elements that stand `stride` elements apart.
//!
//! **Invariant:** the memory behind a [`Strided`] is the program's, and stays as its call found
//! it until the call returns. Everything else in the crate works on slices.

use std::marker::PhantomData;

use crate::code::Code;

/// Where elements are, or go. Element i begins `i × stride × size` bytes behind the first.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a> {
    base: *mut u8,
    count: usize,
    stride: isize,
    lent: PhantomData<&'a mut [u8]>,
}

impl<'a> Strided<'a> {
    /// Elements of a program. A null pointer is refused unless there are none.
    ///
    /// # Safety
    /// What the caller of the C interface promises: `count` elements, `stride` apart, of the size
    /// that the object is used with, may be read (to pack) or written (to unpack) at `base`.
    pub(crate) unsafe fn new(base: *mut u8, count: i32, stride: i32) -> Result<Self, Code> {
        let count = usize::try_from(count).map_err(|_| Code::BadParam)?;
        if base.is_null() && count > 0 {
            return Err(Code::BadParam);
        }
        Ok(Self { base, count, stride: stride as isize, lent: PhantomData })
    }

    /// Bytes that follow each other, to read from.
    pub(crate) fn bytes(bytes: &'a [u8]) -> Self {
        let base = bytes.as_ptr().cast_mut();
        Self { base, count: bytes.len(), stride: 1, lent: PhantomData }
    }

    /// Bytes that follow each other, to write to.
    pub(crate) fn bytes_mut(bytes: &'a mut [u8]) -> Self {
        Self { base: bytes.as_mut_ptr(), count: bytes.len(), stride: 1, lent: PhantomData }
    }

    /// How many elements.
    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// Where the elements are, when they follow each other.
    pub(crate) fn contiguous(self) -> Option<*const u8> {
        (self.stride == 1).then_some(self.base.cast_const())
    }

    fn element(self, index: usize, size: usize) -> *mut u8 {
        self.base.wrapping_offset(index as isize * self.stride * size as isize)
    }

    /// Hands out elements of `size` bytes: all at once where they follow each other, else one by
    /// one.
    pub(crate) fn gather(self, size: usize, mut put: impl FnMut(&[u8])) {
        if self.count == 0 {
            return;
        }
        if self.stride == 1 {
            // SAFETY: `new`'s promise for elements that follow each other.
            put(unsafe { std::slice::from_raw_parts(self.base, self.count * size) });
            return;
        }
        for index in 0..self.count {
            // SAFETY: `new`'s promise for element `index`.
            put(unsafe { std::slice::from_raw_parts(self.element(index, size), size) });
        }
    }

    /// The bytes of element `index`, which has `N` bytes.
    pub(crate) fn read<const N: usize>(self, index: usize) -> [u8; N] {
        assert!(index < self.count);
        // SAFETY: `new`'s promise for element `index`; bytes have no alignment.
        unsafe { self.element(index, N).cast::<[u8; N]>().read() }
    }

    /// Writes `bytes` over elements of `size` bytes, from element `first` on; the last may be
    /// written in part. More bytes than there are elements are a mistake of ours.
    pub(crate) fn scatter(self, size: usize, first: usize, bytes: &[u8]) {
        assert!(first + bytes.len().div_ceil(size) <= self.count);
        let step = if self.stride == 1 { bytes.len().max(1) } else { size };
        let per_step = step.div_ceil(size);
        for (index, part) in bytes.chunks(step).enumerate() {
            let to = self.element(first + index * per_step, size);
            // SAFETY: `new`'s promise for the elements that `part` covers; the source is ours
            // and does not overlap memory that the program lends for writing.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &mut [u16], count: i32, stride: i32) -> Strided<'_> {
        // SAFETY: the tests stay inside `values`.
        unsafe { Strided::new(values.as_mut_ptr().cast(), count, stride) }.unwrap()
    }

    #[test]
    fn elements_apart_and_backwards() {
        let mut values = [1_u16, 2, 3, 4, 5, 6];
        let mut out = Vec::new();
        of(&mut values, 3, 2).gather(2, |part| out.extend_from_slice(part));
        of(&mut values[5..], 2, -3).gather(2, |part| out.extend_from_slice(part));
        of(&mut values[4..], 3, 0).gather(2, |part| out.extend_from_slice(part));
        let got: Vec<u16> = out.chunks(2).map(|c| u16::from_ne_bytes([c[0], c[1]])).collect();
        assert_eq!(got, [1, 3, 5, 6, 3, 5, 5, 5]);
        assert_eq!(of(&mut values, 3, 2).read(2), 5_u16.to_ne_bytes());
    }

    #[test]
    fn scattered_bytes_may_end_inside_an_element() {
        let mut values = [0_u16; 6];
        of(&mut values, 3, 2).scatter(2, 1, &[1, 1, 2]);
        assert_eq!(values.map(u16::to_ne_bytes)[2], [1, 1]);
        assert_eq!(values.map(u16::to_ne_bytes)[4][0], 2);
        of(&mut values, 6, 1).scatter(2, 4, &[7, 7, 8]);
        assert_eq!(values.map(u16::to_ne_bytes)[4], [7, 7]);
        assert_eq!(values.map(u16::to_ne_bytes)[5], [8, 0]);
    }

    #[test]
    fn nothing_may_be_nowhere() {
        // SAFETY: no element is touched.
        let none = unsafe { Strided::new(std::ptr::null_mut(), 0, 1) };
        none.unwrap().gather(8, |_| panic!("there is none"));
        // SAFETY: refused.
        let refused = unsafe { Strided::new(std::ptr::null_mut(), 1, 1) };
        assert_eq!(refused.err(), Some(Code::BadParam));
        // SAFETY: refused.
        let negative = unsafe { Strided::new(std::ptr::null_mut(), -1, 1) };
        assert_eq!(negative.err(), Some(Code::BadParam));
    }
}
