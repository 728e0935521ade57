//! The code's inner loop, which a driver may do better.

use super::field::{REDUCED, product};

/// Adds multiples of bytes to bytes. All of them give the same bytes.
pub trait Kernel: Sync + core::fmt::Debug {
    /// A name for people.
    fn name(&self) -> &'static str;

    /// `outs[j] += Σ coefficients[j][i] · sources[i]` in GF(256), where a source ends sooner than
    /// `outs[j]` as if zeros followed.
    ///
    /// # Panics
    /// Where a row of `coefficients` has not as many as there are sources, there are not as many
    /// rows as `outs`, or a source is longer than one of `outs`.
    fn add(&self, coefficients: &[&[u8]], sources: &[&[u8]], outs: &mut [&mut [u8]]);
}

/// What needs nothing of the processor. Sums without factors are left to the compiler, which uses
/// whatever vectors it knows of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

/// It has no state: one is enough for all.
pub static PLAIN: Plain = Plain;

impl Kernel for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn add(&self, coefficients: &[&[u8]], sources: &[&[u8]], outs: &mut [&mut [u8]]) {
        assert_eq!(coefficients.len(), outs.len(), "a row of coefficients for each sum");
        for (row, out) in coefficients.iter().zip(outs) {
            assert_eq!(row.len(), sources.len(), "a coefficient for each source");
            for (coefficient, source) in row.iter().zip(sources) {
                add_one(*coefficient, source, &mut out[..source.len()]);
            }
        }
    }
}

/// Bytes that are multiplied together.
const LANES: usize = 64;

fn add_one(coefficient: u8, source: &[u8], out: &mut [u8]) {
    match coefficient {
        0 => {}
        1 => out.iter_mut().zip(source).for_each(|(o, s)| *o ^= s),
        _ => {
            let (sources, rest) = source.as_chunks::<LANES>();
            let (outs, rest_out) = out.as_chunks_mut::<LANES>();
            for (source, out) in sources.iter().zip(outs) {
                add_lanes(coefficient, *source, out);
            }
            rest_out.iter_mut().zip(rest).for_each(|(o, s)| *o ^= product(coefficient, *s));
        }
    }
}

/// Bit by bit of the coefficient, in a form of which compilers make vectors.
fn add_lanes(coefficient: u8, mut source: [u8; LANES], out: &mut [u8; LANES]) {
    for bit in 0..8 {
        if coefficient >> bit & 1 == 1 {
            out.iter_mut().zip(&source).for_each(|(o, s)| *o ^= *s);
        }
        for s in &mut source {
            let carry = if s.cast_signed() < 0 { REDUCED } else { 0 };
            *s = s.wrapping_add(*s) ^ carry;
        }
    }
}
