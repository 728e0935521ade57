//! How well a stream was paced: when datagrams came, beside when its clock says they should.

use alloc::vec::Vec;

use serde::Serialize;

use crate::pace::PCR_WRAP;
use crate::read::{CLOCK_HZ, PACKET, Packet};

/// Errors that are kept of each kind; more are counted.
pub const SAMPLES_MAX: usize = 4_000_000;
/// Datagrams between two references at most: a stream with more has no clock.
const PENDING_MAX: usize = 100_000;
/// Datagrams that follow each other within so many ns came in a burst.
const BURST_NS: i64 = 50_000;

/// Errors about their median, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// How many.
    pub count: u64,
    /// Half are nearer to the median than this.
    pub p50_us: f64,
    /// 99 of 100.
    pub p99_us: f64,
    /// 999 of 1000.
    pub p999_us: f64,
    /// From the earliest to the latest: what a de-jitter buffer must hold.
    pub range_us: f64,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ArrivalReport {
    /// Datagrams that came.
    pub datagrams: u64,
    /// Each against the instant of its first byte, interpolated between references.
    pub datagram: Errors,
    /// Those with a reference, each against it.
    pub reference: Errors,
    /// Most datagrams that came one right after the other (less than 50 µs apart).
    pub burst_max: u64,
    /// Datagrams that came so, of 100.
    pub burst_percent: f64,
    /// References that broke the clock; errors across them are not told.
    pub breaks: u64,
}

/// Judges arrivals: datagrams without RTP's header, in the order in which they came.
#[derive(Debug, Default)]
pub struct Arrivals {
    pid: Option<u16>,
    /// The last reference: value, position in the stream, and ticks since the first one.
    last: Option<(u64, u64, i64)>,
    /// Where the current datagram starts.
    position: u64,
    /// Since the last reference: when it came, where it starts.
    pending: Vec<(i64, u64)>,
    datagrams: Vec<i64>,
    references: Vec<i64>,
    before: Option<i64>,
    burst: u64,
    report: ArrivalReport,
}

impl Arrivals {
    /// A datagram came at `came_ns`.
    pub fn take(&mut self, came_ns: i64, payload: &[u8]) {
        self.report.datagrams += 1;
        let close = self.before.is_some_and(|before| came_ns - before < BURST_NS);
        self.burst = if close { self.burst + 1 } else { 1 };
        self.report.burst_max = self.report.burst_max.max(self.burst);
        self.report.burst_percent += f64::from(u8::from(close));
        self.before = Some(came_ns);
        if self.pending.len() < PENDING_MAX {
            self.pending.push((came_ns, self.position));
        }
        for bytes in payload.chunks_exact(PACKET) {
            let Some(packet) = bytes.first_chunk().map(|bytes| Packet { bytes }) else { continue };
            let adaptation = packet.adaptation();
            if let Some(raw) = adaptation.clock
                && *self.pid.get_or_insert(packet.pid()) == packet.pid()
            {
                self.reference(came_ns, raw, adaptation.discontinuity);
            }
            self.position += PACKET as u64;
        }
    }

    fn reference(&mut self, came_ns: i64, raw: u64, announced: bool) {
        let Some((last, from, ticks)) = self.last else {
            self.last = Some((raw, self.position, 0));
            self.pending.retain(|(_, at)| *at >= self.position);
            keep(&mut self.references, came_ns);
            return;
        };
        let step = (raw + PCR_WRAP - last) % PCR_WRAP;
        if announced || step > CLOCK_HZ {
            // As if this reference came when it should.
            self.report.breaks += 1;
            let now = self.references.last().map_or(came_ns, |error| came_ns - error);
            self.last = Some((raw, self.position, now * 27 / 1000));
            self.pending.clear();
            return;
        }
        let bytes = (self.position - from).max(1).cast_signed();
        let step = step.cast_signed();
        for (came, at) in self.pending.extract_if(.., |(_, at)| *at < self.position) {
            let into = i128::from(step) * i128::from(at.cast_signed() - from.cast_signed());
            let expected = i128::from(ticks) + into / i128::from(bytes);
            keep(&mut self.datagrams, came - (expected * 1000 / 27) as i64);
        }
        let ticks = ticks + step;
        self.last = Some((raw, self.position, ticks));
        keep(&mut self.references, came_ns - (i128::from(ticks) * 1000 / 27) as i64);
    }

    /// Datagrams that came.
    pub const fn datagrams(&self) -> u64 {
        self.report.datagrams
    }

    /// What was found until now.
    pub fn report(&self) -> ArrivalReport {
        let count = self.report.datagrams.max(1) as f64;
        ArrivalReport {
            datagram: errors(&self.datagrams),
            reference: errors(&self.references),
            burst_percent: self.report.burst_percent * 100.0 / count,
            ..self.report
        }
    }
}

fn keep(errors: &mut Vec<i64>, error: i64) {
    if errors.len() < SAMPLES_MAX {
        errors.push(error);
    }
}

fn errors(errors: &[i64]) -> Errors {
    let mut sorted = errors.to_vec();
    sorted.sort_unstable();
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
        return Errors::default();
    };
    let range_us = (last - first) as f64 / 1e3;
    let median = sorted[sorted.len() / 2];
    for error in &mut sorted {
        *error = (*error - median).abs();
    }
    sorted.sort_unstable();
    let share = |thousandths: usize| {
        let at = (sorted.len() * thousandths).div_ceil(1000).saturating_sub(1);
        sorted[at.min(sorted.len() - 1)] as f64 / 1e3
    };
    let count = sorted.len() as u64;
    Errors { count, p50_us: share(500), p99_us: share(990), p999_us: share(999), range_us }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::DATAGRAM;
    use crate::send::testing::stream;

    #[test]
    fn what_came_on_time_has_no_error_and_what_came_late_is_told() {
        let groups: Vec<_> = (0..101).map(|k| (k * 540_000, 14)).collect();
        let file = stream(&groups);
        let run = |late: &dyn Fn(i64) -> i64| {
            let mut arrivals = Arrivals::default();
            for (k, datagram) in file.chunks(DATAGRAM).enumerate() {
                let k = i64::try_from(k).expect("few");
                arrivals.take(1_000_000_000 + k * 10_000_000 + late(k), datagram);
            }
            arrivals.report()
        };
        let exact = run(&|_| 0);
        assert_eq!((exact.datagrams, exact.datagram.count, exact.reference.count), (202, 200, 101));
        assert!(exact.datagram.range_us < 0.1 && exact.reference.range_us < 0.1, "{exact:?}");
        assert_eq!((exact.burst_max, exact.breaks), (1, 0));
        // Every second reference 3 ms late; then each pair together.
        let late = run(&|k| if k % 4 == 0 { 3_000_000 } else { 0 });
        assert!((late.reference.p99_us - 3000.0).abs() < 0.1, "{late:?}");
        assert!((late.datagram.range_us - 3000.0).abs() < 0.1 && late.datagram.p50_us < 0.1);
        let pairs = run(&|k| if k % 2 == 0 { 10_000_000 } else { 0 });
        assert_eq!(pairs.burst_max, 2);
        assert!((pairs.burst_percent - 50.0).abs() < 0.5);
    }

    /// A packet with a clock reference.
    fn packet(pid: u16, ticks: u64, announced: bool) -> [u8; PACKET] {
        let mut packet = [0xFF; PACKET];
        let (base, extension) = (ticks / 300 % (1 << 33), ticks % 300);
        let flags = 0x10 | if announced { 0x80 } else { 0 };
        packet[..6].copy_from_slice(&[0x47, (pid >> 8) as u8, pid as u8, 0x20, 183, flags]);
        let bits = base << 15 | 0x3F << 9 | extension;
        packet[6..12].copy_from_slice(&bits.to_be_bytes()[2..]);
        packet
    }

    const SECOND: u64 = CLOCK_HZ;

    #[test]
    fn datagrams_are_of_a_burst_when_they_come_close_together() {
        let mut arrivals = Arrivals::default();
        let mut at = 0;
        for step in [0, 49_999, 50_000, 49_999, 49_999, 60_000] {
            at += step;
            arrivals.take(at, &[]);
        }
        let report = arrivals.report();
        assert_eq!((report.burst_max, report.datagrams, arrivals.datagrams()), (3, 6, 6));
        assert!((report.burst_percent - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_clock_that_breaks_is_gone_on_with_from_there() {
        let run = |second: u64, announced: bool| {
            let mut arrivals = Arrivals::default();
            arrivals.take(0, &packet(256, 0, false));
            arrivals.take(1_000_000_000, &packet(256, second, announced));
            // Another clock's references are none.
            arrivals.take(1_400_000_000, &packet(257, 5, false));
            // Half a second after the second, 2 ms late.
            arrivals.take(1_502_000_000, &packet(256, second + SECOND / 2, false));
            let report = arrivals.report();
            (report.breaks, report.reference.count, report.reference.range_us)
        };
        assert_eq!(run(SECOND, false), (0, 3, 2000.0), "a second is no break");
        assert_eq!(run(SECOND + 27, false).0, 1);
        assert_eq!(run(SECOND, true), (1, 2, 2000.0));
        assert_eq!(run(9 * SECOND, false), (1, 2, 2000.0));
        // Over the wrap of its 33 bits.
        let mut arrivals = Arrivals::default();
        arrivals.take(0, &packet(256, PCR_WRAP - SECOND / 10, false));
        arrivals.take(200_000_000, &packet(256, SECOND / 10, false));
        let report = arrivals.report();
        assert_eq!((report.breaks, report.reference.range_us), (0, 0.0));
    }

    #[test]
    fn shares_are_of_sorted_distances_from_the_middle() {
        let of = |all: &[i64]| {
            let Errors { count, p50_us, p99_us, p999_us, range_us } = errors(all);
            (count, p50_us, p99_us, p999_us, range_us)
        };
        assert_eq!(of(&[]), (0, 0.0, 0.0, 0.0, 0.0));
        assert_eq!(of(&[7000]), (1, 0.0, 0.0, 0.0, 0.0));
        assert_eq!(of(&[9000, -1000, 2000]), (3, 3.0, 7.0, 7.0, 10.0));
        // 0 to 1999 µs, and one far out: the middle is 1000.
        let many: Vec<i64> = (0..2000).map(|n| n * 1000).chain([5_000_000]).collect();
        assert_eq!(of(&many), (2001, 500.0, 990.0, 999.0, 5000.0));
    }
}
