//! Monte Carlo: NAS Parallel Benchmarks, EP ("embarrassingly parallel"): sums of Gaussian pairs.

use crate::exchange::{Exchange, Result, map_all};

/// x' = a x mod 2^46.
const A: u64 = 1_220_703_125;
const SEED: u64 = 271_828_183;
const MASK: u64 = (1 << 46) - 1;
/// Pairs of a batch: 2^16.
const BATCH: u32 = 16;

fn power(mut exponent: u64) -> u64 {
    let (mut base, mut out) = (A, 1_u64);
    while exponent > 0 {
        if exponent & 1 == 1 {
            out = out.wrapping_mul(base) & MASK;
        }
        base = base.wrapping_mul(base) & MASK;
        exponent >>= 1;
    }
    out
}

/// Σx and Σy of 2^m pairs, and how many fell into each square ring.
pub(crate) fn sums(exchange: &mut dyn Exchange, m: u32) -> Result<(f64, f64, [f64; 10])> {
    assert!((BATCH..=40).contains(&m), "classes have 2^16 pairs at least");
    let batches = 1_usize << (m - BATCH);
    let all = map_all(exchange, batches, 12, |batch, out| {
        let mut x = SEED.wrapping_mul(power((batch as u64) << (BATCH + 1))) & MASK;
        let mut next = || {
            x = x.wrapping_mul(A) & MASK;
            2.0 * (x as f64 / (1_u64 << 46) as f64) - 1.0
        };
        let (mut sx, mut sy, mut rings) = (0.0, 0.0, [0.0; 10]);
        for _ in 0..1 << BATCH {
            let (a, b) = (next(), next());
            let square = a * a + b * b;
            if square <= 1.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                let (a, b) = (a * scale, b * scale);
                rings[a.abs().max(b.abs()) as usize] += 1.0;
                sx += a;
                sy += b;
            }
        }
        out.extend([sx, sy]);
        out.extend(rings);
    })?;
    let mut total = [0.0; 12];
    for batch in all.chunks_exact(12) {
        for (sum, part) in total.iter_mut().zip(batch) {
            *sum += part;
        }
    }
    let [sx, sy, rings @ ..] = total;
    Ok((sx, sy, rings))
}
