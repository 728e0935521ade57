//! Speed of reading: bytes per second of whole files in memory, pushed in blocks of 1 MiB.
//!
//! `cargo bench -p towpath-media --bench read [-- FILE...]`. Each line is the median of several
//! passes over at least 64 MiB: `frames` looks for every frame (start codes of all video payload
//! are scanned), `inspect` makes the whole report (checks, T-STD, statistics).

use std::fs;
use std::time::{Duration, Instant};

use towpath_media::inspect::Inspector;
use towpath_media::read::{Reader, Sink};

const BLOCK: usize = 1 << 20;
const BYTES_MIN: usize = 64 << 20;
const PASSES: usize = 9;

/// Where no file is given: the clip that comes with the project, MPEG-2 in a transport stream.
const CLIP: &[u8] = include_bytes!("../data/mpeg2.ts");

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    println!("{:>12} {:>14} {:>14}  file", "MiB", "frames GB/s", "inspect GB/s");
    for file in &files {
        match fs::read(file) {
            Ok(bytes) => measure(file, &bytes),
            Err(e) => eprintln!("{file}: {e}"),
        }
    }
    if files.is_empty() {
        measure("the clip of the project, repeated", &CLIP.repeat(BYTES_MIN / CLIP.len()));
    }
}

fn measure(name: &str, bytes: &[u8]) {
    let frames = speed(bytes, || ());
    let inspect = speed(bytes, Inspector::new);
    let mib = bytes.len() as f64 / f64::from(1 << 20);
    println!("{mib:>12.1} {frames:>14.2} {inspect:>14.2}  {name}");
}

/// Median of the passes in GB/s (10⁹ bytes).
fn speed<S: Sink>(bytes: &[u8], sink: impl Fn() -> S) -> f64 {
    let repeats = BYTES_MIN.div_ceil(bytes.len().max(1));
    let mut times: Vec<Duration> = (0..PASSES).map(|_| pass(bytes, repeats, &sink)).collect();
    times.sort_unstable();
    (bytes.len() * repeats) as f64 / times[PASSES / 2].as_secs_f64() / 1e9
}

fn pass<S: Sink>(bytes: &[u8], repeats: usize, sink: &impl Fn() -> S) -> Duration {
    let start = Instant::now();
    for _ in 0..repeats {
        let (mut reader, mut sink) = (Reader::new(), sink());
        for block in bytes.chunks(BLOCK) {
            reader.push(block, &mut sink).expect("the format is known");
        }
        reader.finish(&mut sink).expect("the format is known");
    }
    start.elapsed()
}
