//! What a receiver knows of a source: RFC 3550 §6.4.1 and appendix A.

use towpath_wire::Instant;

use super::header::Header;
use super::rtcp::{Block, Sent};

/// Numbers and times of a source's datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reception {
    ssrc: Option<u32>,
    first: u32,
    highest: u32,
    received: u64,
    /// At the last report.
    expected_before: u64,
    received_before: u64,
    /// 16 times the jitter, 90 kHz.
    jitter: u32,
    transit: Option<u32>,
    report: Option<(u32, Instant)>,
}

impl Reception {
    /// A datagram came at `now`. Another source starts anew.
    pub fn took(&mut self, now: Instant, header: &Header) {
        let number = u32::from(header.sequence);
        if self.ssrc != Some(header.ssrc) {
            *self = Self { ssrc: Some(header.ssrc), ..Self::default() };
            (self.first, self.highest) = (number, number);
        }
        // The nearest number to the highest one, over wraps.
        let ahead = header.sequence.wrapping_sub(self.highest as u16).cast_signed();
        if ahead > 0 {
            self.highest = self.highest.wrapping_add(ahead.unsigned_abs().into());
        }
        self.received += 1;
        let arrival = (u128::from(now.as_nanos()) * 9 / 100_000) as u32;
        let transit = arrival.wrapping_sub(header.timestamp);
        if let Some(before) = self.transit.replace(transit) {
            let difference = transit.wrapping_sub(before).cast_signed().unsigned_abs();
            let grown = u64::from(self.jitter) + u64::from(difference);
            self.jitter = (grown - ((u64::from(self.jitter) + 8) >> 4)).min(u32::MAX.into()) as u32;
        }
    }

    /// Its report came.
    pub fn reported(&mut self, now: Instant, sent: &Sent) {
        if self.ssrc == Some(sent.ssrc) {
            self.report = Some(((sent.ntp >> 16) as u32, now));
        }
    }

    /// Datagrams that should have come.
    pub const fn expected(&self) -> u64 {
        match self.ssrc {
            Some(_) => self.highest.wrapping_sub(self.first) as u64 + 1,
            None => 0,
        }
    }

    /// What is reported now; the next report counts loss from here.
    pub fn block(&mut self, now: Instant) -> Option<Block> {
        let ssrc = self.ssrc?;
        let expected = self.expected();
        let step = expected.saturating_sub(self.expected_before);
        let came = self.received - self.received_before;
        let lost_step = step.saturating_sub(came);
        (self.expected_before, self.received_before) = (expected, self.received);
        let fraction = (lost_step * 256).checked_div(step).map_or(0, |share| share.min(255));
        let (last_report, delay) = self.report.map_or((0, 0), |(middle, at)| {
            (middle, (now.since(at).as_nanos() * 65_536 / 1_000_000_000) as u32)
        });
        let lost = expected.cast_signed() - self.received.cast_signed();
        Some(Block {
            ssrc,
            fraction_lost: fraction as u8,
            lost: lost.clamp(-(1 << 23), (1 << 23) - 1) as i32,
            highest: self.highest,
            jitter: self.jitter >> 4,
            last_report,
            delay,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_counted_over_a_wrap_and_late_ones_are_not_lost() {
        let mut reception = Reception::default();
        assert_eq!((reception.expected(), reception.block(Instant::ZERO)), (0, None));
        let mut take = |sequence: u16, ms: u64| {
            let timestamp = (ms * 90) as u32;
            let header = Header { marker: false, payload_type: 33, sequence, timestamp, ssrc: 5 };
            reception.took(Instant::from_nanos(ms * 1_000_000), &header);
            reception
        };
        take(65_534, 0);
        take(65_535, 1);
        take(1, 2);
        let mut now = take(0, 3);
        assert_eq!(now.expected(), 4);
        assert_eq!(now.block(Instant::ZERO).map(|b| (b.lost, b.jitter)), Some((0, 0)));
        let mut now = take(9, 4);
        let block = now.block(Instant::ZERO).expect("a source");
        assert_eq!((block.lost, block.highest, block.fraction_lost), (7, 65_536 + 9, 149));
    }

    #[test]
    fn a_second_report_counts_loss_from_the_first() {
        let mut reception = Reception::default();
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let take = |reception: &mut Reception, sequence: u16, ms: u64, ssrc| {
            let timestamp = (ms * 90) as u32;
            let header = Header { marker: false, payload_type: 33, sequence, timestamp, ssrc };
            reception.took(at(ms), &header);
        };
        (0..10).for_each(|n| take(&mut reception, n, n.into(), 5));
        let sent =
            Sent { ssrc: 5, ntp: 0x1234_5678_9ABC_DEF0, timestamp: 0, packets: 0, octets: 0 };
        reception.reported(at(3), &Sent { ssrc: 6, ntp: 1, ..sent });
        let block = reception.block(at(10)).expect("a source");
        assert_eq!((block.lost, block.fraction_lost, block.last_report, block.delay), (0, 0, 0, 0));
        reception.reported(at(100), &sent);
        // Of ten more, five are missing.
        (15..20).for_each(|n| take(&mut reception, n, n.into(), 5));
        let block = reception.block(at(600)).expect("a source");
        assert_eq!((block.lost, block.fraction_lost, block.highest), (5, 128, 19));
        // The middle of the time of sending, and half a second in 65536ths.
        assert_eq!((block.last_report, block.delay), (0x5678_9ABC, 32_768));
        let block = reception.block(at(600)).expect("a source");
        assert_eq!((block.lost, block.fraction_lost), (5, 0), "nothing since");
        // Doubles are more than there should be.
        (0..7).for_each(|_| take(&mut reception, 19, 19, 5));
        assert_eq!(reception.block(at(600)).map(|b| b.lost), Some(-2));
        take(&mut reception, 900, 0, 6);
        assert_eq!((reception.expected(), reception.block(at(600)).map(|b| b.ssrc)), (1, Some(6)));
    }

    #[test]
    fn jitter_is_a_sixteenth_of_each_difference() {
        let mut reception = Reception::default();
        let mut take = |late_ms: u64| {
            let header =
                Header { marker: false, payload_type: 33, sequence: 0, timestamp: 0, ssrc: 5 };
            reception.took(Instant::from_nanos(late_ms * 1_000_000), &header);
            reception.block(Instant::ZERO).map(|block| block.jitter)
        };
        // J += (|D| - J) / 16, in ticks of 90 kHz: 1440, 0 and 2880 of them.
        assert_eq!(
            (take(0), take(16), take(16), take(48)),
            (Some(0), Some(90), Some(84), Some(259))
        );
    }
}
