//! Round trips, and messages one way, through a pipe: compared first, then timed.

use std::time::{Duration, Instant};

use anyhow::ensure;
use towpath_proto::Rng;

use super::pipe::Pipe;
use super::sample::{Sample, sleeps};

/// First byte of a message that comes back, and of the one that ends it all.
const GO_ON: u8 = 1;
const END: u8 = 0;
/// First byte of a message one way that is to be answered.
const ANSWER: u8 = 2;
/// Messages one way are answered each time that so many bytes, or so many messages, have gone.
const TURN_BYTES: usize = 16 << 20;
const TURN_MESSAGES: usize = 4096;
/// Buffers that take turns, so that no row lives on one warm piece of memory.
const BUFFERS: usize = 8;
/// Round trips whose bytes are compared before any is timed.
pub(super) const COMPARED: u64 = 8;
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

/// Sends back the messages that are compared, then takes in all that comes, and at each first byte
/// [`ANSWER`] says so by a message of that first byte.
pub(super) fn drain(pipe: &mut dyn Pipe, len: usize) -> anyhow::Result<()> {
    let mut bytes = vec![0; len];
    for _ in 0..COMPARED {
        pipe.receive(&mut bytes)?;
        pipe.send(&bytes)?;
    }
    loop {
        pipe.receive(&mut bytes)?;
        if bytes[0] == END {
            return Ok(());
        }
        if bytes[0] == ANSWER {
            pipe.send(&bytes)?;
        }
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

/// Random messages, and that they come back as they were.
fn compared(pipe: &mut dyn Pipe, len: usize) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut rng = Rng::new(len as u64, 1);
    let (mut buffers, mut back) = (vec![vec![0; len]; BUFFERS], vec![0; len]);
    for n in 0..COMPARED {
        for buffer in &mut buffers {
            fill(buffer, &mut rng);
        }
        let out = &buffers[n as usize % BUFFERS];
        back.fill(0);
        trip(pipe, out, &mut back)?;
        ensure!(*out == back, "a message of {len} bytes came back changed");
    }
    Ok(buffers)
}

/// Sends one way for `time`, after a first turn that does not count; then ends the far end. A turn
/// ends with an answer, so that what was sent has arrived; its time is told by the message.
pub(super) fn measure_one_way(
    pipe: &mut dyn Pipe,
    len: usize,
    time: Duration,
) -> anyhow::Result<Measured> {
    let mut buffers = compared(pipe, len)?;
    let per_turn = (TURN_BYTES / len).clamp(2, TURN_MESSAGES);
    let mut turn = || -> anyhow::Result<()> {
        let (last, others) = buffers.split_last_mut().expect("there are buffers");
        for n in 1..per_turn {
            pipe.send(&others[n % others.len()])?;
        }
        last[0] = ANSWER;
        pipe.send(last)?;
        pipe.receive(last)
    };
    turn()?;
    let slept = sleeps()?;
    let (begin, mut ns, mut last) = (Instant::now(), Vec::new(), Duration::ZERO);
    while last < time {
        turn()?;
        let now = begin.elapsed();
        ns.push((now.saturating_sub(last) / per_turn as u32).as_nanos() as u64);
        last = now;
    }
    let messages = (ns.len() * per_turn) as u64;
    let slept = sleeps()? - slept;
    buffers[0][0] = END;
    pipe.send(&buffers[0])?;
    let sample = Sample::of(ns).moving(len).sleeping(slept, messages);
    Ok(Measured { sample, trips: messages + per_turn as u64 + COMPARED })
}

/// Goes there and back for `time`, after a tenth of it that does not count and after messages of
/// random contents that must come back as they were; then ends the far end.
pub(super) fn measure(pipe: &mut dyn Pipe, len: usize, time: Duration) -> anyhow::Result<Measured> {
    let buffers = compared(pipe, len)?;
    let mut back = vec![0; len];
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
    fn messages_one_way_are_timed_with_their_arrival() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let draining = std::thread::spawn(move || drain(&mut far, 4096).unwrap());
        let measured = measure_one_way(&mut near, 4096, Duration::from_millis(5)).unwrap();
        draining.join().unwrap();
        assert!(measured.sample.bytes_per_s > Some(0.0) && measured.trips >= 4096);
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
