//! Kernels of x86-64.

use std::arch::is_x86_feature_detected as has;
use std::arch::x86_64::{
    __m256i, __m512i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_gf2p8mul_epi8, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_storeu_si256, _mm256_xor_si256,
    _mm512_gf2p8mul_epi8, _mm512_loadu_si512, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8,
    _mm512_set1_epi8, _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
};

use towpath_proto::coding::field::halves;
use towpath_proto::coding::{Kernel, PLAIN};

use super::checked::{Pass, SOURCES_MAX, each_pass};

/// A way to multiply, once the processor was seen to have it: only [`all`] makes one.
#[derive(Debug)]
enum X86 {
    Gfni512,
    Gfni256,
    Avx2,
}

/// Those that run here, the best first.
pub(super) fn all() -> impl Iterator<Item = &'static dyn Kernel> {
    let gfni = has!("gfni");
    let wide = gfni && has!("avx512f") && has!("avx512bw");
    let known: [(bool, &'static dyn Kernel); 3] =
        [(wide, &X86::Gfni512), (gfni && has!("avx2"), &X86::Gfni256), (has!("avx2"), &X86::Avx2)];
    known.into_iter().filter(|(runs, _)| *runs).map(|(_, kernel)| kernel)
}

impl Kernel for X86 {
    fn name(&self) -> &'static str {
        match self {
            Self::Gfni512 => "gfni-512",
            Self::Gfni256 => "gfni-256",
            Self::Avx2 => "avx2",
        }
    }

    fn add(&self, coefficients: &[&[u8]], sources: &[&[u8]], outs: &mut [&mut [u8]]) {
        each_pass(coefficients, sources, outs, |pass, outs| {
            let plain = pass.is_first_plain();
            match (self, outs.len(), plain) {
                (Self::Gfni512, 1, true) => by::<Wide, 1, true>(pass, outs),
                (Self::Gfni512, 1, false) => by::<Wide, 1, false>(pass, outs),
                (Self::Gfni512, 2, true) => by::<Wide, 2, true>(pass, outs),
                (Self::Gfni512, 2, false) => by::<Wide, 2, false>(pass, outs),
                (Self::Gfni512, 3, true) => by::<Wide, 3, true>(pass, outs),
                (Self::Gfni512, 3, false) => by::<Wide, 3, false>(pass, outs),
                (Self::Gfni512, _, true) => by::<Wide, 4, true>(pass, outs),
                (Self::Gfni512, _, false) => by::<Wide, 4, false>(pass, outs),
                (Self::Gfni256, 1, true) => by::<Narrow, 1, true>(pass, outs),
                (Self::Gfni256, 1, false) => by::<Narrow, 1, false>(pass, outs),
                (Self::Gfni256, 2, true) => by::<Narrow, 2, true>(pass, outs),
                (Self::Gfni256, 2, false) => by::<Narrow, 2, false>(pass, outs),
                (Self::Gfni256, 3, true) => by::<Narrow, 3, true>(pass, outs),
                (Self::Gfni256, 3, false) => by::<Narrow, 3, false>(pass, outs),
                (Self::Gfni256, _, true) => by::<Narrow, 4, true>(pass, outs),
                (Self::Gfni256, _, false) => by::<Narrow, 4, false>(pass, outs),
                (Self::Avx2, 1, true) => by::<Shuffled, 1, true>(pass, outs),
                (Self::Avx2, 1, false) => by::<Shuffled, 1, false>(pass, outs),
                (Self::Avx2, 2, true) => by::<Shuffled, 2, true>(pass, outs),
                (Self::Avx2, 2, false) => by::<Shuffled, 2, false>(pass, outs),
                (Self::Avx2, 3, true) => by::<Shuffled, 3, true>(pass, outs),
                (Self::Avx2, 3, false) => by::<Shuffled, 3, false>(pass, outs),
                (Self::Avx2, _, true) => by::<Shuffled, 4, true>(pass, outs),
                (Self::Avx2, _, false) => by::<Shuffled, 4, false>(pass, outs),
            }
        });
    }
}

/// One of the three bodies.
trait Body {
    /// Adds to `M` sums. `PLAIN`: the first row is all ones.
    ///
    /// # Safety
    /// The processor has what the body needs; `pass` keeps its invariants, with `M` rows; `outs`
    /// are valid for reading and writing `pass.len` bytes each, which overlap nothing else.
    unsafe fn run<const M: usize, const PLAIN: bool>(pass: &Pass<'_>, outs: [*mut u8; M]);
    /// Bytes that it takes at once: what is left at the end is done by others.
    const STEP: usize;
}

fn by<B: Body, const M: usize, const FIRST: bool>(pass: &Pass<'_>, outs: &mut [&mut [u8]]) {
    let enough = pass.sources.iter().all(|s| s.len() >= pass.len);
    assert!(enough && pass.sources.len() <= SOURCES_MAX && pass.rows.len() == M);
    assert!(pass.rows.iter().all(|row| row.len() == pass.sources.len()));
    assert!(outs.len() == M && outs.iter().all(|out| out.len() >= pass.len));
    let mut pointers = [std::ptr::null_mut(); M];
    for (pointer, out) in pointers.iter_mut().zip(outs.iter_mut()) {
        *pointer = out.as_mut_ptr();
    }
    // SAFETY: a kernel is given out only where the processor has what its body needs. Lengths and
    // numbers were checked just now; `outs` are borrowed for writing, so that nothing overlaps.
    unsafe { B::run::<M, FIRST>(pass, pointers) };
    let done = pass.len - pass.len % B::STEP;
    if done < pass.len {
        for (row, out) in pass.rows.iter().zip(outs) {
            for (coefficient, source) in row.iter().zip(pass.sources) {
                let rest = &source[done..pass.len];
                PLAIN.add(&[&[*coefficient]], &[rest], &mut [&mut out[done..]]);
            }
        }
    }
}

/// GFNI on 64 bytes.
struct Wide;

impl Body for Wide {
    /// Its last step is masked.
    const STEP: usize = 1;

    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    unsafe fn run<const M: usize, const PLAIN: bool>(pass: &Pass<'_>, outs: [*mut u8; M]) {
        let mut times = [[_mm512_setzero_si512(); SOURCES_MAX]; M];
        for (times, row) in times.iter_mut().zip(pass.rows) {
            for (times, coefficient) in times.iter_mut().zip(*row) {
                *times = _mm512_set1_epi8(coefficient.cast_signed());
            }
        }
        let add = |sums: &mut [__m512i; M], n: usize, source: __m512i| {
            for j in 0..M {
                let product = if PLAIN && j == 0 {
                    source
                } else {
                    _mm512_gf2p8mul_epi8(source, times[j][n])
                };
                sums[j] = _mm512_xor_si512(sums[j], product);
            }
        };
        let mut at = 0;
        // Two at a time: sums of one alone would wait for each other.
        while at + 128 <= pass.len {
            let (mut sums, mut next) = ([_mm512_setzero_si512(); M], [_mm512_setzero_si512(); M]);
            for j in 0..M {
                // SAFETY: 128 bytes from `at` on lie within the sum, by this function's contract.
                (sums[j], next[j]) = unsafe {
                    let from = outs[j].add(at);
                    (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(64).cast()))
                };
            }
            for (n, source) in pass.sources.iter().enumerate() {
                // SAFETY: each source has `pass.len` bytes, and `at + 128` is not beyond.
                let (one, two) = unsafe {
                    let from = source.as_ptr().add(at);
                    (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(64).cast()))
                };
                add(&mut sums, n, one);
                add(&mut next, n, two);
            }
            for j in 0..M {
                // SAFETY: as it was read.
                unsafe {
                    let to = outs[j].add(at);
                    _mm512_storeu_si512(to.cast(), sums[j]);
                    _mm512_storeu_si512(to.add(64).cast(), next[j]);
                }
            }
            at += 128;
        }
        // What is left, and of the last step as many bytes as there are.
        while at < pass.len {
            let mask = u64::MAX >> (64 - (pass.len - at).min(64));
            let mut sums = [_mm512_setzero_si512(); M];
            for j in 0..M {
                // SAFETY: only bytes whose bit is set are touched, those before `pass.len`.
                sums[j] = unsafe { _mm512_maskz_loadu_epi8(mask, outs[j].add(at).cast()) };
            }
            for (n, source) in pass.sources.iter().enumerate() {
                // SAFETY: the same.
                let part = unsafe { _mm512_maskz_loadu_epi8(mask, source.as_ptr().add(at).cast()) };
                add(&mut sums, n, part);
            }
            for j in 0..M {
                // SAFETY: the same.
                unsafe { _mm512_mask_storeu_epi8(outs[j].add(at).cast(), mask, sums[j]) };
            }
            at += 64;
        }
    }
}

/// Loops over 32 bytes at a time; `$product` is what a source's vector gives for a sum.
macro_rules! by_32 {
    ($pass:ident, $outs:ident, $m:ident, $plain:ident, $prepare:expr, $product:expr) => {
        let mut at = 0;
        while at + 32 <= $pass.len {
            let mut sums = [_mm256_setzero_si256(); $m];
            for j in 0..$m {
                // SAFETY: 32 bytes from `at` on lie within the sum, by this function's contract.
                sums[j] = unsafe { _mm256_loadu_si256($outs[j].add(at).cast()) };
            }
            for (n, source) in $pass.sources.iter().enumerate() {
                // SAFETY: each source has `pass.len` bytes, and `at + 32` is not beyond.
                let source = unsafe { _mm256_loadu_si256(source.as_ptr().add(at).cast()) };
                let ready = $prepare(source);
                for j in 0..$m {
                    let product = if $plain && j == 0 { source } else { $product(ready, j, n) };
                    sums[j] = _mm256_xor_si256(sums[j], product);
                }
            }
            for j in 0..$m {
                // SAFETY: as it was read.
                unsafe { _mm256_storeu_si256($outs[j].add(at).cast(), sums[j]) };
            }
            at += 32;
        }
    };
}

/// GFNI on 32 bytes.
struct Narrow;

impl Body for Narrow {
    const STEP: usize = 32;

    #[target_feature(enable = "avx2,gfni")]
    unsafe fn run<const M: usize, const PLAIN: bool>(pass: &Pass<'_>, outs: [*mut u8; M]) {
        let mut times = [[_mm256_setzero_si256(); SOURCES_MAX]; M];
        for (times, row) in times.iter_mut().zip(pass.rows) {
            for (times, coefficient) in times.iter_mut().zip(*row) {
                *times = _mm256_set1_epi8(coefficient.cast_signed());
            }
        }
        let product =
            |source: __m256i, j: usize, n: usize| _mm256_gf2p8mul_epi8(source, times[j][n]);
        by_32!(pass, outs, M, PLAIN, |source: __m256i| source, product);
    }
}

/// AVX2: a product is the sum of those of a byte's halves, which are looked up (Plank, Greenan and
/// Miller, "Screaming fast Galois field arithmetic using Intel SIMD instructions", 2013).
struct Shuffled;

impl Body for Shuffled {
    const STEP: usize = 32;

    #[target_feature(enable = "avx2")]
    unsafe fn run<const M: usize, const PLAIN: bool>(pass: &Pass<'_>, outs: [*mut u8; M]) {
        let none = (_mm256_setzero_si256(), _mm256_setzero_si256());
        let mut tables = [[none; SOURCES_MAX]; M];
        for (tables, row) in tables.iter_mut().zip(pass.rows) {
            for (table, coefficient) in tables.iter_mut().zip(*row) {
                let (low, high) = halves(*coefficient);
                // SAFETY: an array of 16 bytes is read whole.
                let wide = |half: &[u8; 16]| unsafe { _mm_loadu_si128(half.as_ptr().cast()) };
                *table = (
                    _mm256_broadcastsi128_si256(wide(&low)),
                    _mm256_broadcastsi128_si256(wide(&high)),
                );
            }
        }
        let mask = _mm256_set1_epi8(15);
        let split = |source: __m256i| {
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(source), mask);
            (_mm256_and_si256(source, mask), high)
        };
        let product = |(low, high): (__m256i, __m256i), j: usize, n: usize| {
            let (of_low, of_high) = tables[j][n];
            _mm256_xor_si256(_mm256_shuffle_epi8(of_low, low), _mm256_shuffle_epi8(of_high, high))
        };
        by_32!(pass, outs, M, PLAIN, split, product);
    }
}
