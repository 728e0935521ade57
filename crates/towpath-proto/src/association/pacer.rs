//! Spreads a path's packets over time.

use core::time::Duration;

use towpath_wire::Instant;

/// What may go out at once after a pause: a millisecond's worth, so much, and an eighth of the
/// window, whichever is least; but two datagrams in any case.
const BURST: Duration = Duration::from_millis(1);
const BURST_BYTES: u64 = 64 << 10;
const BURST_PART: u64 = 8;
const BURST_DATAGRAMS: u64 = 2;
/// Whoever had to wait waits for this part of a burst.
const TURN_PART: u32 = 2;
/// Whoever was woken late may make good for that, but for this part of the window at most.
const LATE_PART: u64 = 4;
/// Bursts that take less time are not spread at all: waking up for each would cost more than the
/// queue that they fill.
const WORTH_WAITING: Duration = Duration::from_micros(50);

/// A leaky bucket as a meter (ITU-T I.371, the virtual scheduling algorithm): each packet moves
/// `next` on by the time that it takes at the rate, and packets may go while `next` is not more
/// than a burst ahead of now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    /// Nanoseconds per byte, times 2^20; 0: nobody waits.
    byte_time: u64,
    burst: Duration,
    late_max: Duration,
    next: Instant,
    /// How late the last time-out came, while that is not made good.
    late: Duration,
    /// A time-out has come since the last packet: the driver has only to ask.
    woken: bool,
}

impl Pacer {
    pub(crate) const fn new() -> Self {
        let zero = Duration::ZERO;
        let (burst, late_max, late) = (zero, zero, zero);
        Self { byte_time: 0, burst, late_max, next: Instant::ZERO, late, woken: false }
    }

    /// Paces at `rate` bytes per second from now on, beside a window of `window` bytes.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Option<u64>, window: u64, datagram: u64) {
        let before = self.byte_time;
        self.set_byte_time(rate, window, datagram);
        // What went ahead of the old rate are so many bytes: they are waited for at the new one.
        // A wait that a slow rate began would else outlast it, however long that is.
        if before > 0 && self.byte_time != before && self.next > now {
            let ahead = self.next.since(now).as_nanos() as f64;
            let ratio = self.byte_time as f64 / before as f64;
            self.next = now + Duration::from_nanos((ahead * ratio) as u64);
        }
    }

    fn set_byte_time(&mut self, rate: Option<u64>, window: u64, datagram: u64) {
        let Some(rate) = rate else {
            self.byte_time = 0;
            return;
        };
        let rate = rate.max(1);
        let byte_time = (1_000_000_000 << 20) / rate;
        let least = BURST_DATAGRAMS * datagram;
        let most = (window / BURST_PART).clamp(least, BURST_BYTES.max(least));
        let time = |bytes: u64| Duration::from_nanos((bytes * byte_time) >> 20);
        self.burst = time(most).min(BURST).max(time(BURST_DATAGRAMS * datagram));
        self.late_max = time(window / LATE_PART);
        let whole = time(BURST_BYTES.min(window / BURST_PART));
        self.byte_time = if whole < WORTH_WAITING { 0 } else { byte_time };
    }

    /// When the next packet may go.
    pub(crate) fn ready_at(&self) -> Instant {
        if self.byte_time == 0 { Instant::ZERO } else { self.next - self.burst }
    }

    /// When to wake whoever had to wait at `ready_at`, unless that has happened.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        (self.byte_time > 0 && !self.woken).then(|| self.next - self.burst + self.burst / TURN_PART)
    }

    /// The time-out came.
    pub(crate) fn wake(&mut self, now: Instant) {
        if let Some(due) = self.wake_at()
            && due <= now
        {
            self.woken = true;
            self.late = now.since(due).min(self.late_max);
        }
    }

    /// A packet went out.
    pub(crate) fn spend(&mut self, now: Instant, bytes: u64) {
        self.woken = false;
        let cost = Duration::from_nanos((bytes * self.byte_time) >> 20);
        self.next = self.next.max(now - self.late) + cost;
        if self.next >= now {
            self.late = Duration::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_a_megabyte_per_second(window: u64) -> Pacer {
        let mut p = Pacer::new();
        p.set_rate(Instant::ZERO, Some(1_000_000), window, 1000);
        p
    }

    #[test]
    fn after_the_burst_packets_go_at_the_rate() {
        let mut p = at_a_megabyte_per_second(100_000);
        let (mut now, mut sent) = (Instant::ZERO, 0u64);
        while sent < 1_002_000 {
            now = now.max(p.ready_at());
            p.spend(now, 1000);
            sent += 1000;
        }
        let seconds = now.as_nanos() as f64 / 1e9;
        assert!((0.998..1.001).contains(&seconds), "2 datagrams at once, 1 MB in {seconds} s");
    }

    #[test]
    fn a_pause_earns_no_more_than_the_burst() {
        for (rate, window, burst) in [
            (1_000_000, 100_000, 2),      // two datagrams
            (10_000_000, 100_000, 10),    // a millisecond
            (10_000_000, 40_000, 5),      // an eighth of the window
            (1_000_000_000, 1 << 20, 65), // 64 KiB
        ] {
            let mut p = Pacer::new();
            p.set_rate(Instant::ZERO, Some(rate), window, 1000);
            let now = Instant::from_nanos(3_600_000_000_000);
            let mut sent = 0;
            while p.ready_at() <= now {
                p.spend(now, 1000);
                sent += 1;
            }
            assert_eq!(sent - 1, burst, "{rate} B/s, window {window}");
        }
    }

    #[test]
    fn nobody_waits_without_a_rate_nor_for_less_than_waking_up_takes() {
        let mut p = Pacer::new();
        for rate in [None, Some(5_000_000_000)] {
            p.set_rate(Instant::ZERO, rate, 10 << 20, 1472);
            p.spend(Instant::ZERO, 1 << 30);
            assert_eq!((p.ready_at(), p.wake_at()), (Instant::ZERO, None));
        }
    }

    #[test]
    fn what_went_ahead_of_a_rate_is_waited_for_at_the_next_one() {
        let now = Instant::from_nanos(3_600_000_000_000);
        for (rate, wait_us) in [(10, 200_000_000), (2_000_000, 1000), (20_000_000, 0)] {
            let mut p = Pacer::new();
            p.set_rate(now, Some(1_000), 100_000, 1000);
            // Two datagrams at once, and two more.
            (0..4).for_each(|_| p.spend(now, 1000));
            assert_eq!(p.ready_at(), now + Duration::from_secs(2));
            p.set_rate(now, Some(rate), 100_000, 1000);
            let wait = p.ready_at().since(now);
            let expected = Duration::from_micros(wait_us);
            assert!(wait.abs_diff(expected) <= expected / 1000, "{rate} B/s: {wait:?}");
        }
        let mut p = Pacer::new();
        p.set_rate(now, Some(1_000), 100_000, 1000);
        p.spend(now, 100_000);
        p.set_rate(now, None, 100_000, 1000);
        p.set_rate(now, Some(1_000_000), 100_000, 1000);
        assert!(p.ready_at() <= now, "there was no rate to wait for");
    }

    #[test]
    fn who_waits_is_woken_once() {
        let mut p = at_a_megabyte_per_second(100_000);
        let start = Instant::from_nanos(1_000_000);
        (0..3).for_each(|_| p.spend(start, 1000));
        assert_eq!(p.ready_at(), start + Duration::from_millis(1));
        let wake = start + Duration::from_millis(2);
        assert_eq!(p.wake_at(), Some(wake));
        p.wake(start);
        assert_eq!(p.wake_at(), Some(wake), "too early");
        p.wake(wake);
        assert_eq!(p.wake_at(), None);
    }

    #[test]
    fn who_is_woken_late_makes_good_for_a_quarter_of_the_window_at_most() {
        for (late_ms, sent) in [(0, 2), (10, 12), (1000, 28)] {
            let mut p = at_a_megabyte_per_second(100_000);
            (0..3).for_each(|_| p.spend(Instant::ZERO, 1000));
            let now = p.wake_at().unwrap() + Duration::from_millis(late_ms);
            p.wake(now);
            let mut made_good = 0;
            while p.ready_at() <= now {
                p.spend(now, 1000);
                made_good += 1;
            }
            // A burst of two, the one that goes while there is any room, 25 of the window.
            assert_eq!(made_good, sent, "{late_ms} ms late");
        }
    }
}
