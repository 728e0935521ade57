//! A received stream, sent on in the rhythm of its sender's clock.

use core::time::Duration;

use towpath_wire::Instant;

use super::receiver::{ReceiveConfig, Receiver};
use super::recovery::Recovery;
use crate::read::{PACKET, Packet};
use crate::rtp::Header;
use crate::send::{Config, DATAGRAM, Due, Sender, WINDOW_FILL};

/// How a stream is played out.
#[derive(Clone, Copy, Debug)]
pub struct PlayoutConfig {
    /// How it is received.
    pub receive: ReceiveConfig,
    /// How long each packet is kept: more than the network's jitter, and than a repair takes.
    pub delay: Duration,
}

/// How often its rhythm is corrected.
const TURN: Duration = Duration::from_secs(1);
/// In what time an error of the delay is worked off.
const WORKED_OFF_S: i64 = 30;
/// Most that its rhythm differs from the sender's to do so, in thousand-millionths.
const CORRECTION_MAX: i64 = 50_000;

/// Receives a stream and sends it on, de-jittered, for players and gateways.
///
/// Its seconds are made as long as the sender's, which [`Recovery`] finds; what is left of an error
/// of the delay is worked off by at most 50 millionths of the speed, so that the delay is the same
/// after a day.
#[derive(Debug)]
pub struct Playout {
    receiver: Receiver,
    sender: Sender,
    recovery: Recovery,
    pid: Option<u16>,
    delay: Duration,
    turned: Option<Instant>,
    /// Least and most of the stream's time that waited since the last turn.
    waited: Option<(Duration, Duration)>,
    /// What the middle of them should be: found when play-out is steady.
    aim: Option<Duration>,
}

impl Playout {
    /// Nothing came yet.
    pub fn new(config: PlayoutConfig) -> Self {
        let late_max = config.delay.max(Duration::from_millis(200));
        let sending = Config { delay: config.delay, late_max, ..Config::stored() };
        Self {
            receiver: Receiver::new(config.receive),
            sender: Sender::new(sending),
            recovery: Recovery::default(),
            pid: None,
            delay: config.delay,
            turned: None,
            waited: None,
            aim: None,
        }
    }

    /// A datagram came at `now`.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) {
        self.listen(now, datagram);
        self.receiver.handle_datagram(now, datagram);
        self.pass(now);
    }

    /// Takes clock references as they come.
    fn listen(&mut self, now: Instant, datagram: &[u8]) {
        let payload = if datagram.first() == Some(&0x47) && datagram.len().is_multiple_of(PACKET) {
            datagram
        } else {
            Header::parse(datagram).map_or(&[][..], |(_, payload)| payload)
        };
        for bytes in payload.chunks_exact(PACKET) {
            let Some(packet) = bytes.first_chunk().map(|bytes| Packet { bytes }) else { continue };
            if let Some(raw) = packet.adaptation().clock
                && *self.pid.get_or_insert(packet.pid()) == packet.pid()
            {
                self.recovery.take(raw, now.as_nanos().cast_signed());
            }
        }
    }

    /// From the ring to where it is timed.
    fn pass(&mut self, now: Instant) {
        let mut block = [0; 8 * DATAGRAM];
        while self.sender.waiting() < WINDOW_FILL.max(self.receiver.level())
            || self.sender.room() > 0
        {
            let n = self.receiver.take(now, &mut block);
            if n == 0 {
                break;
            }
            self.sender.push(&block[..n]);
        }
        if self.receiver.is_finished() {
            self.sender.finish();
        }
        let waits = self.sender.waiting_time();
        let (least, most) = self.waited.unwrap_or((waits, waits));
        self.waited = Some((least.min(waits), most.max(waits)));
        if self.turned.is_none_or(|turned| now.since(turned) >= TURN) {
            self.turn(now);
        }
    }

    /// Corrects the rhythm.
    fn turn(&mut self, now: Instant) {
        self.turned = Some(now);
        let Some((least, most)) = self.waited.take() else { return };
        if !self.recovery.is_settled() {
            return;
        }
        let middle = (least + most) / 2;
        let aim = *self.aim.get_or_insert(middle);
        let error = (middle.as_nanos() as i64 - aim.as_nanos() as i64) / WORKED_OFF_S;
        // More waits than should: shorter seconds.
        let correction = error.clamp(-CORRECTION_MAX, CORRECTION_MAX);
        self.sender.set_drift(now, self.recovery.drift_ppb() - correction);
    }

    /// Nothing more comes.
    pub fn finish(&mut self, now: Instant) {
        self.receiver.finish();
        self.pass(now);
    }

    /// Gives up what was waited for too long, and looks after the rhythm.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.receiver.handle_timeout(now);
        self.pass(now);
    }

    /// The datagram that is due, written to `out`.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<Due> {
        self.sender.poll_transmit(now, out)
    }

    /// When something is to be done next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.sender.poll_timeout(), self.receiver.poll_timeout()].into_iter().flatten().min()
    }

    /// All went out.
    pub fn is_finished(&self) -> bool {
        self.sender.is_finished()
    }

    /// Its receiving half.
    pub const fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// The same, to be asked for feedback and reports.
    pub const fn receiver_mut(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    /// Its sending half.
    pub const fn sender(&self) -> &Sender {
        &self.sender
    }

    /// The sender's clock.
    pub const fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// How long packets are kept.
    pub const fn delay(&self) -> Duration {
        self.delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::When;
    use crate::send::testing::stream;
    use alloc::vec::Vec;

    /// Datagrams of one packet each 100 ms by a clock that is wrong by so many millionths, each
    /// delayed by up to 20 ms more than the least; how far apart arrive and leave are, at least
    /// and at most, in ms, from the second hour on.
    fn hours(ppm: i64, hours: u64) -> (u64, u64, Playout) {
        let receive = ReceiveConfig { feedback: When::Off, ..ReceiveConfig::default() };
        let delay = Duration::from_millis(500);
        let mut playout = Playout::new(PlayoutConfig { receive, delay });
        let (mut out, mut state, mut clock) = ([0; DATAGRAM], 1u64, Instant::ZERO);
        let (mut left, mut kept) = (0u64, (u64::MAX, 0));
        let sent = |k: u64| {
            let ns = k.cast_signed() * 100_000_000;
            (ns + ns / 1_000_000 * ppm).cast_unsigned()
        };
        for k in 0..hours * 36_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let came = Instant::from_nanos(sent(k) + 1_000_000 + (state >> 40) % 20_000_000);
            let mut now = playout.poll_timeout();
            while let Some(due) = now.map(|due| due.max(clock)).filter(|due| *due < came) {
                clock = due;
                playout.handle_timeout(due);
                while playout.poll_transmit(due, &mut out).is_some() {
                    if left > 36_000 {
                        let ms = (due.as_nanos() - sent(left)) / 1_000_000;
                        kept = (kept.0.min(ms), kept.1.max(ms));
                    }
                    left += 1;
                }
                now = playout.poll_timeout();
            }
            clock = came;
            playout.handle_datagram(came, &stream(&[(k * 2_700_000, 1)]));
        }
        (kept.0, kept.1, playout)
    }

    #[test]
    fn the_delay_is_the_same_after_a_day_of_drift() {
        for ppm in [-100, -30, 30, 100] {
            let (least, most, playout) = hours(ppm, 24);
            assert_eq!(playout.sender().counters().shifts, 0, "{ppm}: it never ran dry");
            // 100 millionths of a day are 8.6 s.
            assert!(most - least < 60, "{ppm}: kept for {least} to {most} ms");
        }
    }

    #[test]
    fn what_is_received_goes_out_as_it_was_sent() {
        let receive = ReceiveConfig { feedback: When::Off, ..ReceiveConfig::default() };
        let mut playout =
            Playout::new(PlayoutConfig { receive, delay: Duration::from_millis(100) });
        let groups: Vec<_> = (0..100).map(|k| (k * 540_000, 14)).collect();
        let file = stream(&groups);
        let (mut out, mut sent, mut dues) = ([0; DATAGRAM], Vec::new(), Vec::new());
        for (k, datagram) in file.chunks(DATAGRAM).enumerate() {
            // In bursts of ten.
            let now = Instant::from_nanos(k as u64 / 10 * 100_000_000);
            playout.handle_datagram(now, datagram);
            let until = now + Duration::from_millis(99);
            while let Some(due) = playout.poll_timeout().filter(|due| *due <= until) {
                while let Some(datagram) = playout.poll_transmit(due.max(now), &mut out) {
                    sent.extend_from_slice(&out[..datagram.len]);
                    dues.push(datagram.at);
                }
            }
        }
        playout.finish(Instant::from_nanos(2_000_000_000));
        while let Some(due) = playout.poll_timeout() {
            while let Some(datagram) = playout.poll_transmit(due, &mut out) {
                sent.extend_from_slice(&out[..datagram.len]);
                dues.push(datagram.at);
            }
        }
        assert!(playout.is_finished());
        assert_eq!(playout.delay(), Duration::from_millis(100));
        assert_eq!(sent, file);
        assert!(
            dues.windows(2).all(|pair| pair[1].since(pair[0]).as_micros().abs_diff(10_000) < 2)
        );
    }
}
