//! A model of the path: how fast it delivers, how long it takes when its queue is empty.
//!
//! Of the family of BBR (draft-ietf-ccwg-bbr): send at the largest rate that was delivered of
//! late, keep up to two rates times round trip under way, look for more now and then, drain what
//! that left in the queue. Where it differs, and why:
//! - **Loss alone says nothing.** BBR versions 2 and 3 bound what is under way once 2 % of a round
//!   are lost; at 5 % of random loss they would keep to the bound for ever. Here the share that is
//!   lost while the queue is empty counts as the path's own ([`Ambient`]); only more than that,
//!   lost while a queue stands, is congestion. What the path loses is sent on top of the rate.
//! - **Where others keep the queue filled, it competes as they do.** BBR's window of two products
//!   starves CUBIC in short queues and starves in long ones. Here a queue that our own draining
//!   does not empty means that others fill it: then CUBIC's window rules ([`super::Cubic`]), until
//!   the queue empties again.
//! - **Short round trips count as a millisecond**: below that, waking up takes longer than the
//!   path.

use core::time::Duration;

use towpath_wire::Instant;

use super::largest::Largest;
use super::policy::WINDOW_MAX;
use super::{Congestion, Cubic, Loss, Sample};

/// Pacing gain while the rate is unknown: 4 ln 2, draft-ietf-ccwg-bbr §5.6.1.
const STARTUP_GAIN: f64 = 2.77;
/// Pacing gain that drains what the start left in the queue.
const DRAIN_GAIN: f64 = 0.5;
/// Pacing gains while looking for more, and while draining what that left.
const UP_GAIN: f64 = 1.25;
const DOWN_GAIN: f64 = 0.75;
/// What may be under way, in rates times round trip: room for late and bundled acknowledgements.
const WINDOW_GAIN: f64 = 2.0;
/// The rate is known once it grew by less than a quarter in three rounds.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// How long the least round-trip time is believed, and how long a new one is looked for.
const MIN_RTT_AGE: Duration = Duration::from_secs(10);
const PROBE_RTT: Duration = Duration::from_millis(200);
/// Share of a rate times round trip under way while a new one is looked for.
const PROBE_RTT_GAIN: f64 = 0.5;
/// Round trips shorter than this count as this much.
const RTT_FLOOR: Duration = Duration::from_millis(1);
/// The largest rate is remembered for ten rounds, and within these limits.
const RATE_AGE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// Share of the bytes in flight that congestion leaves (RFC 9438 §4.6).
const BETA: f64 = 0.7;
/// Rounds with a queue that draining did not empty, before others are taken to fill it.
const CROWDED_ROUNDS: u32 = 5;
/// Rounds without a queue before they are taken to be gone, and the least time for that.
const FREE_ROUNDS: u32 = 3;
const FREE_TIME: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Doubling until the rate stops growing.
    Startup,
    /// Emptying the queue that the start has filled.
    Drain,
    /// Looking for more, since then.
    Up(Instant),
    /// Emptying the queue that this has filled, since then.
    Down(Instant),
    /// At the rate, until then.
    Cruise(Instant),
    /// Looking for the least round-trip time until then.
    ProbeRtt(Instant),
    /// Beside others, since then.
    Compete(Instant),
}

/// What happened in the present round.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// It is over once a packet is acknowledged that was sent when so much was delivered.
    end: u64,
    acked: u64,
    lost: u64,
    /// Most that was under way when a lost packet was sent.
    lost_in_flight: u64,
    /// Least round-trip time.
    rtt: Duration,
    /// Draining went on in it.
    down: bool,
    /// All of it passed at the rate itself.
    cruise: bool,
}

impl Round {
    const fn beginning(end: u64) -> Self {
        Self {
            end,
            acked: 0,
            lost: 0,
            lost_in_flight: 0,
            rtt: Duration::MAX,
            down: false,
            cruise: true,
        }
    }
}

/// The share of packets that the path loses whatever we do, in bytes seen and lost in rounds
/// without a queue. Old ones count half after `KEEP` bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Ambient {
    sent: f64,
    lost: f64,
}

impl Ambient {
    /// Datagrams after which what was seen counts half.
    const KEEP: f64 = 4000.0;
    /// What is assumed of a path not seen without a queue yet.
    const UNKNOWN: f64 = 0.02;
    /// More than this is never ascribed to the path.
    const MAX: f64 = 0.25;

    /// In datagrams.
    fn take(&mut self, sent: f64, lost: f64) {
        self.sent += sent;
        self.lost += lost;
        if self.sent > Self::KEEP {
            self.sent /= 2.0;
            self.lost /= 2.0;
        }
    }

    fn is_known(&self) -> bool {
        self.sent >= 100.0
    }

    fn share(&self) -> f64 {
        if self.is_known() { (self.lost / self.sent).min(Self::MAX) } else { 0.0 }
    }

    /// More was lost of `sent` datagrams than chance explains (three standard deviations; four
    /// where the path is not known).
    fn exceeded_by(&self, sent: f64, lost: f64) -> bool {
        let (p, z) = if self.is_known() { (self.share(), 3.0) } else { (Self::UNKNOWN, 4.0) };
        let excess = lost - p * sent;
        lost > 0.0 && excess > 0.0 && excess * excess > z * z * p * (1.0 - p) * sent
    }
}

/// Acknowledgements that come in bundles.
#[derive(Clone, Copy, Debug)]
struct Bundles {
    since: Instant,
    acked: u64,
    extra: Largest,
}

/// Invariant: `4 · datagram ≤ window ≤ WINDOW_MAX`.
#[derive(Clone, Debug)]
pub struct Model {
    datagram: u64,
    phase: Phase,
    rate: Largest,
    /// Rate of the last round that grew, and rounds since.
    full: (u64, u32),
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    /// Largest of the rounds' least round-trip times.
    high_rtt: Largest,
    round: Round,
    ambient: Ambient,
    bundles: Bundles,
    /// Window while the rate is unknown.
    startup: u64,
    /// Most that may be under way, since more met congestion.
    bound: Option<u64>,
    /// Rounds with a queue in a row, and whether one of them was to drain it.
    crowded: (u32, bool),
    /// The last round passed at the rate itself and without a queue.
    calm: bool,
    /// Rounds without a queue in a row.
    free: u32,
    /// When congestion was last seen.
    congested: Instant,
    /// The window while competing.
    rival: Cubic,
}

impl Model {
    /// Starts at ten datagrams (RFC 6928).
    pub fn new(datagram: u64) -> Self {
        let bundles = Bundles { since: Instant::ZERO, acked: 0, extra: Largest::default() };
        Self {
            datagram,
            phase: Phase::Startup,
            rate: Largest::default(),
            full: (0, 0),
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            high_rtt: Largest::default(),
            round: Round::beginning(0),
            ambient: Ambient::default(),
            bundles,
            startup: 10 * datagram,
            bound: None,
            crowded: (0, false),
            calm: false,
            free: 0,
            congested: Instant::ZERO,
            rival: Cubic::new(datagram),
        }
    }

    fn turn(&self) -> Duration {
        self.min_rtt.unwrap_or(RTT_FLOOR).max(RTT_FLOOR)
    }

    /// One rate times round trip.
    fn product(&self) -> u64 {
        (u128::from(self.rate.get()) * self.turn().as_nanos() / 1_000_000_000) as u64
    }

    /// What goes out in one turn of the driver.
    fn quantum(&self) -> u64 {
        (self.rate.get() / 1000).clamp(2 * self.datagram, 64 * 1024)
    }

    fn gain(&self) -> f64 {
        match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => DRAIN_GAIN,
            Phase::Up(_) | Phase::Compete(_) => UP_GAIN,
            Phase::Down(_) => DOWN_GAIN,
            Phase::Cruise(_) | Phase::ProbeRtt(_) => 1.0,
        }
    }

    fn rate_age(&self) -> Duration {
        (self.turn() * 10).clamp(RATE_AGE.0, RATE_AGE.1)
    }

    fn take_rtt(&mut self, s: &Sample) {
        let Some(rtt) = s.rtt else { return };
        self.round.rtt = self.round.rtt.min(rtt);
        let old = s.now.since(self.min_rtt_at) > MIN_RTT_AGE;
        let searching = matches!(self.phase, Phase::ProbeRtt(_));
        if self.min_rtt.is_none_or(|m| rtt <= m) || (old && searching) {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = s.now;
        }
    }

    fn take_bundle(&mut self, s: &Sample) {
        let age = self.rate_age();
        let most = self.rate.get() / 50;
        let b = &mut self.bundles;
        let time = s.now.since(b.since).as_nanos();
        let expected = (u128::from(self.rate.get()) * time / 1_000_000_000) as u64;
        if b.acked <= expected {
            (b.since, b.acked) = (s.now, s.acked);
            return;
        }
        b.acked = (b.acked + s.acked).min(WINDOW_MAX);
        b.extra.update(s.now, (b.acked.saturating_sub(expected)).min(most), age);
    }

    /// How high the queue stood in the round, as a share of the range seen lately.
    fn queue(&self) -> Option<f64> {
        let least = self.min_rtt?;
        if self.round.rtt == Duration::MAX {
            return None;
        }
        let high = Duration::from_nanos(self.high_rtt.get()).max(self.round.rtt);
        let slack = Duration::from_micros(100).max(least / 32);
        let above = self.round.rtt.saturating_sub(least);
        if above < slack {
            return Some(0.0);
        }
        Some(above.as_secs_f64() / high.saturating_sub(least).as_secs_f64())
    }

    fn end_round(&mut self, s: &Sample) {
        let r = self.round;
        let datagrams = |bytes: u64| bytes as f64 / self.datagram as f64;
        let (sent, lost) = (datagrams(r.acked + r.lost), datagrams(r.lost));
        let queue = self.queue();
        let low = queue.is_some_and(|q| q < 0.1);
        let high = queue.is_some_and(|q| q > 0.5);
        // What was lost in this round was sent in the one before.
        let calm = low && r.cruise;
        if calm && self.calm {
            self.ambient.take(sent, lost);
        }
        self.calm = calm;
        let excess = self.ambient.exceeded_by(sent, lost);
        if excess && high {
            self.congestion(s, r.lost_in_flight.max(s.in_flight));
        } else if let Some(bound) = self.bound {
            // A sixteenth more each round, until the bound bounds no more.
            let more = bound + (bound / 16).max(self.datagram);
            self.bound = (more < self.target()).then_some(more);
        }
        self.crowd(s, low);
        if r.rtt != Duration::MAX {
            self.high_rtt.update(s.now, r.rtt.as_nanos() as u64, MIN_RTT_AGE);
        }
        if self.phase == Phase::Startup {
            self.look_for_full(s, excess && high);
        }
        self.round = Round::beginning(s.delivered);
    }

    fn congestion(&mut self, s: &Sample, in_flight: u64) {
        self.congested = s.now;
        let most = self.bound.map_or(in_flight, |b| b.min(in_flight));
        self.bound = Some(((most as f64 * BETA) as u64).max(4 * self.datagram));
        if let Phase::Compete(_) = self.phase {
            let (now, sent, bytes) = (s.now, s.now, 0);
            let prior_in_flight = in_flight;
            self.rival.on_lost(&Loss { now, sent, bytes, in_flight, prior_in_flight });
        }
    }

    /// Do others fill the queue?
    fn crowd(&mut self, s: &Sample, low: bool) {
        let (rounds, drained) = self.crowded;
        self.crowded = if low { (0, false) } else { (rounds + 1, drained | self.round.down) };
        self.free = if low { self.free + 1 } else { 0 };
        match self.phase {
            Phase::Up(_) | Phase::Down(_) | Phase::Cruise(_)
                if self.crowded.0 >= CROWDED_ROUNDS && self.crowded.1 =>
            {
                self.rival = Cubic::resuming(self.datagram, s.in_flight);
                self.phase = Phase::Compete(s.now);
            }
            Phase::Compete(since)
                if self.free >= FREE_ROUNDS
                    && s.now.since(since.max(self.congested)) > FREE_TIME =>
            {
                self.bound = None;
                self.crowded = (0, false);
                self.phase = Phase::Cruise(s.now);
            }
            _ => {}
        }
    }

    fn look_for_full(&mut self, s: &Sample, congested: bool) {
        if congested {
            self.phase = Phase::Drain;
        }
        if !s.limited {
            return;
        }
        let rate = self.rate.get();
        if rate as f64 >= self.full.0 as f64 * FULL_GROWTH {
            self.full = (rate, 0);
        } else {
            self.full.1 += 1;
            if self.full.1 >= FULL_ROUNDS {
                self.phase = Phase::Drain;
            }
        }
    }

    fn advance(&mut self, s: &Sample) {
        let turn = self.turn();
        let product = self.product();
        match self.phase {
            Phase::Startup => self.startup = (self.startup + s.acked).min(WINDOW_MAX),
            Phase::Drain if s.in_flight <= product => self.phase = self.cruise(s),
            Phase::Up(since) if s.now.since(since) > turn => self.phase = Phase::Down(s.now),
            Phase::Down(since) if s.in_flight <= product || s.now.since(since) > turn => {
                self.phase = self.cruise(s);
            }
            Phase::Cruise(until) if s.now >= until => self.phase = Phase::Up(s.now),
            Phase::ProbeRtt(until) if s.now >= until => self.phase = self.cruise(s),
            Phase::Compete(_) => self.rival.on_acked(s),
            _ => {}
        }
        self.round.down |= matches!(self.phase, Phase::Down(_));
        self.round.cruise &= matches!(self.phase, Phase::Cruise(_));
        let old = s.now.since(self.min_rtt_at) > MIN_RTT_AGE;
        if old && s.limited && matches!(self.phase, Phase::Cruise(_)) {
            self.phase = Phase::ProbeRtt(s.now + PROBE_RTT.min(turn * 10).max(turn));
        }
    }

    /// Four to eight turns at the rate; how many, differs between senders and times.
    fn cruise(&self, s: &Sample) -> Phase {
        let turns = 4 + (s.delivered / self.datagram * 0x9e37_79b9 >> 16) % 5;
        Phase::Cruise(s.now + self.turn() * turns as u32)
    }

    fn target(&self) -> u64 {
        let gained = self.product() as f64 * WINDOW_GAIN / (1.0 - self.ambient.share());
        gained as u64 + self.bundles.extra.get() + 3 * self.quantum()
    }
}

impl Congestion for Model {
    fn window(&self) -> u64 {
        let window = match self.phase {
            Phase::Startup => self.startup.max(self.target()),
            Phase::ProbeRtt(_) => (self.product() as f64 * PROBE_RTT_GAIN) as u64,
            Phase::Compete(_) => self.rival.window(),
            _ => self.target().min(self.bound.unwrap_or(u64::MAX)),
        };
        window.clamp(4 * self.datagram, WINDOW_MAX)
    }

    fn pacing(&self) -> Option<u64> {
        if let Phase::Compete(_) = self.phase {
            let rtt = Duration::from_nanos(self.high_rtt.get()).max(RTT_FLOOR);
            let rate = self.rival.window() as f64 / rtt.as_secs_f64();
            return Some((UP_GAIN * rate.max(self.rate.get() as f64)) as u64);
        }
        let rate = self.rate.get();
        // Below one datagram in a second there is nothing to go by.
        let gain = self.gain() / (1.0 - self.ambient.share());
        (rate > self.datagram).then(|| (rate as f64 * gain) as u64)
    }

    fn on_acked(&mut self, s: &Sample) {
        self.round.acked += s.acked;
        if let Some(rate) = s.rate
            && (!s.starved || rate >= self.rate.get())
        {
            self.rate.update(s.now, rate, self.rate_age());
        }
        self.take_rtt(s);
        self.take_bundle(s);
        if s.prior_delivered >= self.round.end {
            self.end_round(s);
        }
        self.advance(s);
    }

    fn on_lost(&mut self, loss: &Loss) {
        self.round.lost += loss.bytes;
        self.round.lost_in_flight = self.round.lost_in_flight.max(loss.prior_in_flight);
    }

    fn on_spurious(&mut self, _sent: Instant, bytes: u64) {
        self.round.lost = self.round.lost.saturating_sub(bytes);
    }

    fn on_silence(&mut self) {
        // The path may be another one now.
        let rtt = (self.min_rtt, self.min_rtt_at);
        *self = Self::new(self.datagram);
        (self.min_rtt, self.min_rtt_at) = rtt;
        self.startup = 4 * self.datagram;
    }

    fn state(&self) -> alloc::string::String {
        alloc::format!(
            "window {} {:?} rate {:.2} min {:?} high {:.2} bound {:?} q {:?} ambient {:.4} crowded {:?}",
            self.window() / 1472,
            self.phase,
            self.rate.get() as f64 / 12.5e6,
            self.min_rtt,
            self.high_rtt.get() as f64 / 1e6,
            self.bound.map(|b| b / 1472),
            self.queue(),
            self.ambient.share(),
            self.crowded
        )
    }

    fn on_datagram(&mut self, bytes: u64) {
        self.datagram = bytes;
        self.rival.on_datagram(bytes);
    }
}
