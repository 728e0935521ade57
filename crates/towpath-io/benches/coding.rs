//! What coding across paths costs: bytes of payload a second on one core, in cache, for each kernel
//! that runs here, beside copying and reading the same bytes.
//! `cargo bench -p towpath-io --bench coding [-- SECONDS]`
//!
//! Rows are k members and m parities. Encoding adds all members to all parities in one pass;
//! decoding makes m members from the others and the parities. Both read and write the sums, which
//! are not cleared in between. The floors: `memcpy` copies the k members, `read` adds up their
//! words. Each figure is the median of 21 runs, and behind it the 90th percentile.

use std::hint::black_box;
use std::time::{Duration, Instant};

use towpath_io::coding::all;
use towpath_proto::coding::Kernel;
use towpath_proto::coding::field::coefficient;

const RUNS: usize = 21;
const CODES: [(usize, usize); 4] = [(3, 1), (4, 1), (6, 2), (10, 3)];
const SIZES: [usize; 2] = [1408, 16 << 10];

fn main() {
    let seconds: f64 = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(0.02);
    let time = Duration::from_secs_f64(seconds / RUNS as f64 * 5.0);
    println!("GB/s of payload, median / 90th percentile of {RUNS} runs of {time:?}");
    for size in SIZES {
        for (k, m) in CODES {
            println!("{k} + {m} of {size} B");
            let sources: Vec<Vec<u8>> = (0..k).map(|n| vec![n as u8 + 3; size]).collect();
            let payload = k * size;
            let mut copies = sources.clone();
            report("memcpy", payload, time, || {
                for (to, from) in copies.iter_mut().zip(&sources) {
                    to.copy_from_slice(black_box(from));
                }
                black_box(&mut copies);
            });
            report("read", payload, time, || {
                for source in &sources {
                    black_box(sum(black_box(source)));
                }
            });
            for kernel in all() {
                code(kernel, (k, m), &sources, time);
            }
        }
    }
}

fn sum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|w| u64::from_le_bytes(*w)).fold(0, u64::wrapping_add)
}

fn code(kernel: &dyn Kernel, (k, m): (usize, usize), sources: &[Vec<u8>], time: Duration) {
    let size = sources[0].len();
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let rows: Vec<Vec<u8>> = (0..m).map(|j| (0..k).map(|i| coefficient(j, i)).collect()).collect();
    // As many factors as a decoder has, none of them 1 where it has two parities or more.
    let back: Vec<Vec<u8>> = (0..m)
        .map(|j| (0..k).map(|i| if m == 1 { 1 } else { (2 + i + 16 * j) as u8 }).collect())
        .collect();
    for (what, rows) in [("encode", &rows), ("decode", &back)] {
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let mut sums = vec![vec![0; size]; m];
        let mut outs: Vec<&mut [u8]> = sums.iter_mut().map(Vec::as_mut_slice).collect();
        report(&format!("{} {what}", kernel.name()), k * size, time, || {
            kernel.add(black_box(&rows), black_box(&sources), black_box(&mut outs));
        });
    }
}

/// Bytes a second that one call of `work` makes of `payload` bytes.
fn report(name: &str, payload: usize, time: Duration, mut work: impl FnMut()) {
    let mut rates: Vec<f64> = (0..RUNS).map(|_| rate(payload, time, &mut work)).collect();
    rates.sort_by(f64::total_cmp);
    println!("  {name:16} {:6.1} / {:6.1}", rates[RUNS / 2], rates[RUNS * 9 / 10]);
}

fn rate(payload: usize, time: Duration, work: &mut impl FnMut()) -> f64 {
    let (begin, mut calls) = (Instant::now(), 0_u64);
    while begin.elapsed() < time {
        (0..64).for_each(|_| work());
        calls += 64;
    }
    calls as f64 * payload as f64 / begin.elapsed().as_secs_f64() / 1e9
}
