//! CUBIC that only losses beyond the path's own slow down.
//!
//! The window is CUBIC's (RFC 9438), so that it is as fair beside kernels' TCP as they are among
//! themselves. But CUBIC cuts it at every loss, and one in a hundred at random leaves it a
//! fifteenth of a link of 20 ms. Congestion differs from such losses in one thing: it comes with
//! a queue. So packets count apart, by the queue that stood when their fate became known
//! ([`super::queue`]): what is lost while it is low is the path's own; what is lost while it is
//! high cuts the window once it is more than that share explains ([`super::ambient`]). On a clean
//! path that is the first loss at a full queue, as for CUBIC.
//!
//! Where the least round trip is shorter than [`READABLE`] a queue fills and drains faster than
//! real hosts wake: its level cannot be told from their lateness, and every loss cuts, as with
//! CUBIC, unless there was no queue at all: lateness makes a round trip longer, never shorter.
//!
//! Where no queue shows (a policer, a tiny buffer), or much is lost though it seems low, all of
//! this is blind. There every loss cuts, as with CUBIC, until the cuts themselves tell: what a
//! smaller window loses as well as a larger one is the path's own ([`super::trial`]). Slow start,
//! which such losses do not end, ends where rounds lose much and deliver no more than those before.

use core::time::Duration;

use towpath_wire::Instant;

use super::ambient::Ambient;
use super::cubic::BETA;
use super::hystart::HyStart;
use super::queue::{Level, Queue};
use super::trial::Trial;
use super::{Congestion, Cubic, Loss, Sample};

/// The shortest least round trip at which losses are told apart. Through a real relay of 1 ms,
/// whose queue filled in 0.5 to 1 ms, all losses seemed the path's own, and kernels' TCP got
/// nothing.
const READABLE: Duration = Duration::from_millis(4);

/// What a mark leaves: less was amiss than with a loss (RFC 8511).
const BETA_ECN: f64 = 0.85;
/// Pacing in windows per smoothed round trip: in slow start, and later.
const GAIN_START: f64 = 2.0;
const GAIN: f64 = 1.25;

/// Slow start overflows a queue that does not show where more than this part of many datagrams is
/// lost and a round delivers less than so many times what the one before did.
const HEAVY: f64 = 0.03;
const GROWING: f64 = 1.25;
const MANY: f64 = 50.0;

/// What happened in the present round. Bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// It is over once a packet is acknowledged that was sent when so much was delivered.
    end: u64,
    acked: u64,
    lost: u64,
    /// Marks have cut the window.
    marked: bool,
}

/// Rounds of slow start taken together, until so much was acknowledged that their losses tell:
/// where many share a short path, one round of one of them is a few datagrams.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    rounds: u64,
    acked: u64,
    lost: u64,
    /// Acknowledged in a round of the span before.
    acked_before: u64,
}

/// A cut that may prove needless.
#[derive(Clone, Debug)]
struct Undo {
    before: Cubic,
    /// Bytes lost that it answers.
    blamed: u64,
}

/// CUBIC's window, cut only by losses that are more than the path has anyway: what is lost while
/// the queue is low, or sending less does not help against, is the path's own share, and what is
/// lost otherwise counts once it is more than that share explains.
#[derive(Clone, Debug)]
pub struct Tolerant {
    datagram: u64,
    curve: Cubic,
    start: HyStart,
    queue: Queue,
    ambient: Ambient,
    round: Round,
    span: Span,
    trial: Trial,
    smoothed: Option<Duration>,
    undo: Option<Undo>,
}

impl Tolerant {
    /// Starts at ten datagrams (RFC 6928).
    pub const fn new(datagram: u64) -> Self {
        Self {
            datagram,
            curve: Cubic::new(datagram),
            start: HyStart::new(),
            queue: Queue::new(),
            ambient: Ambient::new(),
            round: Round { end: 0, acked: 0, lost: 0, marked: false },
            span: Span { rounds: 0, acked: 0, lost: 0, acked_before: 0 },
            trial: Trial::new(),
            smoothed: None,
            undo: None,
        }
    }

    fn datagrams(&self, bytes: u64) -> f64 {
        bytes as f64 / self.datagram as f64
    }

    /// The level of the queue says something about losses here.
    fn sees(&self) -> bool {
        let is_sure = self.trial.is_own() || !self.ambient.is_doubtful();
        self.queue.least() >= READABLE && self.queue.shows() && is_sure
    }

    /// Nor does waiting: no queue, as far as can be seen.
    fn is_blind(&self) -> bool {
        !self.sees() && (self.queue.least() >= READABLE || self.queue.is_empty(self.datagram))
    }

    fn count(&mut self, sent: u64, lost: u64) {
        let (sent, lost) = (self.datagrams(sent), self.datagrams(lost));
        if self.sees() {
            match self.queue.level() {
                Level::Low => self.ambient.take_low(sent, lost),
                Level::Middle => {}
                Level::High => self.ambient.take_high(sent, lost),
            }
        } else if self.curve.in_slow_start() {
            self.ambient.take_low(sent, lost);
        } else {
            let window = self.curve.window();
            if self.queue.level() != Level::High {
                self.trial.take(window, sent, lost);
            }
            if !self.trial.is_smaller(window) {
                self.ambient.take_high(sent, lost);
            }
        }
    }

    fn take_rtt(&mut self, now: Instant, rtt: Duration) {
        self.smoothed = Some(self.smoothed.map_or(rtt, |s| (s * 7 + rtt) / 8));
        if self.queue.take(now, rtt) {
            self.ambient.forget_low();
        }
        if self.curve.in_slow_start() {
            self.start.take(rtt);
        }
    }

    fn end_round(&mut self, s: &Sample) {
        let Round { acked, lost, .. } = self.round;
        self.round = Round { end: s.delivered, ..Round::default() };
        self.queue.end_round(s.now);
        self.ambient.end_round();
        if self.curve.in_slow_start() {
            let overflow = self.overflow(acked, lost);
            if let Some(delivered) = overflow.filter(|_| s.limited && !self.sees()) {
                self.curve.land(delivered);
                self.ambient.forget_low();
                self.cut(s.now, BETA, u64::MAX);
            } else if self.start.end_round() {
                self.curve.leave_slow_start();
            }
        } else if !self.sees() && self.trial.end_round(s.now, self.curve.window()) {
            self.restore();
        }
    }

    /// Takes in what a round of slow start delivered and lost. What a round delivers, where the
    /// last of them lost much and delivered no more than those before.
    fn overflow(&mut self, acked: u64, lost: u64) -> Option<u64> {
        self.span.rounds += 1;
        self.span.acked += acked;
        self.span.lost += lost;
        if self.datagrams(self.span.acked) < MANY {
            return None;
        }
        let Span { rounds, acked, lost, acked_before } = self.span;
        let delivered = acked / rounds;
        self.span = Span { acked_before: delivered, ..Span::default() };
        let is_heavy = lost as f64 > HEAVY * (acked + lost) as f64;
        (is_heavy && (delivered as f64) < GROWING * acked_before as f64).then_some(delivered)
    }

    fn cut(&mut self, now: Instant, leaves: f64, blamed: u64) {
        self.undo = Some(Undo { before: self.curve.clone(), blamed });
        self.trial.cut(self.curve.window());
        self.curve.cut(now, leaves);
        self.ambient.forget_high();
    }

    /// Takes the last cut back.
    fn restore(&mut self) {
        if let Some(Undo { before, .. }) = self.undo.take()
            && before.window() > self.curve.window()
        {
            self.curve = before;
        }
    }
}

impl Congestion for Tolerant {
    fn window(&self) -> u64 {
        self.curve.window()
    }

    fn pacing(&self) -> Option<u64> {
        let rtt = self.smoothed.filter(|rtt| !rtt.is_zero())?;
        let gain = if self.curve.in_slow_start() { GAIN_START } else { GAIN };
        Some((gain * self.curve.window() as f64 / rtt.as_secs_f64()) as u64)
    }

    fn on_acked(&mut self, s: &Sample) {
        if let Some(rtt) = s.rtt {
            self.take_rtt(s.now, rtt);
        }
        self.round.acked += s.acked;
        if !self.curve.in_recovery(s.sent) {
            self.count(s.acked, 0);
            if s.congestion_met && !self.round.marked {
                self.cut(s.now, BETA_ECN, u64::MAX);
                self.round.marked = true;
            }
        }
        let part = if self.curve.in_slow_start() { self.start.part() } else { 1 };
        let own = Sample { acked: s.acked / part, congestion_met: false, ..*s };
        self.curve.on_acked(&own);
        if s.prior_delivered >= self.round.end {
            self.end_round(s);
        }
    }

    fn on_lost(&mut self, loss: &Loss) {
        self.round.lost += loss.bytes;
        if self.curve.in_recovery(loss.sent) {
            if let Some(undo) = &mut self.undo {
                undo.blamed = undo.blamed.saturating_add(loss.bytes);
            }
            return;
        }
        self.count(loss.bytes, loss.bytes);
        let is_told_apart = self.sees() || self.is_blind();
        let is_new = self.curve.in_slow_start();
        let is_ours = if self.sees() || is_new {
            self.ambient.exceeded(is_new)
        } else {
            self.ambient.exceeded_beside(&self.trial.own())
        };
        if !is_told_apart || is_ours {
            let blamed = (self.ambient.lost_high() * self.datagram as f64) as u64;
            let blamed = if is_told_apart { blamed } else { loss.bytes };
            self.cut(loss.now, BETA, blamed);
        }
    }

    fn on_spurious(&mut self, sent: Instant, bytes: u64) {
        self.round.lost = self.round.lost.saturating_sub(bytes);
        if !self.curve.in_recovery(sent) {
            self.ambient.take_back(self.datagrams(bytes));
            return;
        }
        // RFC 9438 §4.9: what the cut answered had not happened.
        if let Some(undo) = &mut self.undo {
            undo.blamed = undo.blamed.saturating_sub(bytes);
            if undo.blamed == 0 {
                self.restore();
            }
        }
    }

    fn on_silence(&mut self) {
        self.curve.on_silence();
        self.start = HyStart::new();
        self.span = Span::default();
        self.undo = None;
    }

    fn on_datagram(&mut self, bytes: u64) {
        self.datagram = bytes;
        self.curve.on_datagram(bytes);
        self.undo = None;
    }
}
