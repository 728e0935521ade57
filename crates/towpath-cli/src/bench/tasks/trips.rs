//! Round trips through a pipe: compared first, then timed.

use std::time::{Duration, Instant};

use anyhow::ensure;
use towpath_proto::Rng;

use super::pipe::Pipe;
use super::sample::{Sample, sleeps};

/// First byte of a message that comes back, and of the one that ends it all.
const GO_ON: u8 = 1;
const END: u8 = 0;
/// Buffers that take turns, so that no row lives on one warm piece of memory.
const BUFFERS: usize = 8;
/// Round trips whose bytes are compared before any is timed.
const COMPARED: u64 = 8;
/// Round trips remembered at most.
const TIMES_MAX: usize = 1 << 20;
/// What is shorter than this is timed in batches: looking at the clock takes its time, too.
const SHORT_TRIP: Duration = Duration::from_micros(4);
const BATCH: u32 = 32;

/// What was measured, and how many round trips the far end saw.
pub(super) struct Measured {
    pub(super) sample: Sample,
    pub(super) trips: u64,
}

/// Sends back whatever comes, until the end comes.
pub(super) fn serve(pipe: &mut dyn Pipe, len: usize) -> anyhow::Result<()> {
    let mut bytes = vec![0; len];
    loop {
        pipe.receive(&mut bytes)?;
        if bytes[0] == END {
            return Ok(());
        }
        pipe.send(&bytes)?;
    }
}

/// Passes messages on from left to right and answers back, until the end comes.
pub(super) fn relay(left: &mut dyn Pipe, right: &mut dyn Pipe, len: usize) -> anyhow::Result<()> {
    let mut bytes = vec![0; len];
    loop {
        left.receive(&mut bytes)?;
        right.send(&bytes)?;
        if bytes[0] == END {
            return Ok(());
        }
        right.receive(&mut bytes)?;
        left.send(&bytes)?;
    }
}

fn trip(pipe: &mut dyn Pipe, out: &[u8], back: &mut [u8]) -> anyhow::Result<()> {
    pipe.send(out)?;
    pipe.receive(back)
}

fn fill(bytes: &mut [u8], rng: &mut Rng) {
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&rng.u64().to_le_bytes()[..chunk.len()]);
    }
    bytes[0] = GO_ON;
}

/// Goes there and back for `time`, after a tenth of it that does not count and after messages of
/// random contents that must come back as they were; then ends the far end.
pub(super) fn measure(pipe: &mut dyn Pipe, len: usize, time: Duration) -> anyhow::Result<Measured> {
    let mut rng = Rng::new(len as u64, 1);
    let mut buffers = vec![vec![0; len]; BUFFERS];
    let mut back = vec![0; len];
    for n in 0..COMPARED {
        for buffer in &mut buffers {
            fill(buffer, &mut rng);
        }
        let out = &buffers[n as usize % BUFFERS];
        back.fill(0);
        trip(pipe, out, &mut back)?;
        ensure!(*out == back, "a message of {len} bytes came back changed");
    }
    let (begin, mut warm) = (Instant::now(), 0_u32);
    while warm < 2 || begin.elapsed() < time / 10 {
        trip(pipe, &buffers[warm as usize % BUFFERS], &mut back)?;
        warm += 1;
    }
    let batch = if begin.elapsed() / warm < SHORT_TRIP { BATCH } else { 1 };
    let slept = sleeps()?;
    let (begin, mut ns, mut trips) = (Instant::now(), Vec::new(), 0);
    let mut last = Duration::ZERO;
    while last < time && ns.len() < TIMES_MAX {
        for _ in 0..batch {
            trip(pipe, &buffers[trips % BUFFERS], &mut back)?;
            trips += 1;
        }
        let now = begin.elapsed();
        ns.push((now.saturating_sub(last) / batch).as_nanos() as u64);
        last = now;
    }
    let slept = sleeps()? - slept;
    back.fill(END);
    pipe.send(&back)?;
    let sample = Sample::of(ns).moving(2 * len).sleeping(slept, trips as u64);
    Ok(Measured { sample, trips: trips as u64 + u64::from(warm) + COMPARED })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_pipe_is_measured_and_a_far_end_that_lies_is_found_out() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let serving = std::thread::spawn(move || serve(&mut far, 64).unwrap());
        let sample = measure(&mut near, 64, Duration::from_millis(5)).unwrap().sample;
        serving.join().unwrap();
        assert!(sample.us_p50 > Some(0.0) && sample.bytes_per_s > Some(0.0));

        let (mut near, mut far) = UnixStream::pair().unwrap();
        let lying = std::thread::spawn(move || {
            let mut bytes = [0; 64];
            far.receive(&mut bytes).unwrap();
            bytes[63] ^= 1;
            far.send(&bytes).unwrap();
        });
        let e = measure(&mut near, 64, Duration::from_millis(5)).err().unwrap();
        assert!(e.to_string().contains("changed"), "{e}");
        lying.join().unwrap();
    }

    #[test]
    fn a_relay_passes_on_until_the_end() {
        let (mut near, mut left) = UnixStream::pair().unwrap();
        let (mut right, mut far) = UnixStream::pair().unwrap();
        let relaying = std::thread::spawn(move || relay(&mut left, &mut right, 16).unwrap());
        let serving = std::thread::spawn(move || serve(&mut far, 16).unwrap());
        measure(&mut near, 16, Duration::from_millis(5)).unwrap();
        relaying.join().unwrap();
        serving.join().unwrap();
    }
}
