//! Whether a path carries: it has a carrier, and is not silent while others get on.
//!
//! **The rule.** A path on which something has waited longer for an answer than it ever should is
//! silent, *where another path got on in the later half of that time*; where none did, the others
//! are asked, and it is silent if they answer a half of that time before it. What was under way on
//! it goes out again by the others at once, without a word to any congestion controller. It is
//! asked on, by packets on which nothing depends; the first answer to one of those brings it back,
//! with fresh data alone, at the rate of a new path. Where no other path gets on, nothing happens
//! here: that is a matter of the peer's liveness.
//!
//! **Its return** is noticed within a quarter of a second where it was silent for a minute at most,
//! and a 240th of the silence later; at once where the peer asks first.
//!
//! Lateness of our own is taken off: what we read late was not answered late.

use core::time::Duration;

use towpath_wire::Instant;

use super::core::Association;
use super::path::Path;
use super::proving::Proving;

/// A path is given this long at least.
const PATIENCE_MIN: Duration = Duration::from_millis(20);
/// A timer that comes later than this says that we ourselves were late.
const LATE: Duration = Duration::from_millis(1);
/// The next packet to a silent path goes out after this share of its silence so far, and no more
/// than [`ASKED_SOON`]: its return is noticed so much later. A path that was silent for longer than
/// a minute is asked after a smaller share of that, so that the cost grows with the logarithm of
/// the silence alone: four packets a second in the first minute, 1150 in the two hours after it,
/// two a minute from then on.
const ASKED_AFTER: u32 = 16;
const ASKED_SOON: Duration = Duration::from_millis(250);
const ASKED_AFTER_LONG: u32 = 240;
/// But after so long at the latest.
const ASKED_MAX: Duration = Duration::from_secs(30);

/// How long after a packet to a path that has been silent for `silence` the next one goes out.
fn asked_after(silence: Duration, timeout: Duration) -> Duration {
    let most = ASKED_SOON.max(silence / ASKED_AFTER_LONG).min(ASKED_MAX);
    (silence / ASKED_AFTER).min(most).max(timeout)
}

/// A path that does not answer while others do.
#[derive(Clone, Copy, Debug)]
struct Silence {
    since: Instant,
    /// Packets from this number on were sent since: an answer to one of them ends it.
    first: u64,
    /// When it was asked last.
    asked: Instant,
    /// When to ask again.
    next: Instant,
}

/// How a path stands. Invariants: a path is [fit](Self::is_fit) where it is up, proven and not
/// silent; one that is not proven has an address that is proving; `waiting` is meaningful only
/// while something is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Its link has a carrier, and it is not retired.
    pub(super) up: bool,
    /// Since when what is under way waits, without any answer.
    waiting: Instant,
    /// The others were asked about this wait.
    others_asked: bool,
    /// When something was last acknowledged for the first time.
    progressed: Option<Instant>,
    /// A packet that asks for an acknowledgement is wanted: of a silent path to see whether it is
    /// back, of another to see whether that gets on.
    pub(super) ask: bool,
    silence: Option<Silence>,
    /// Times that it was left because it was silent or lost its carrier.
    pub(super) left: u64,
    /// Times that it carried again.
    pub(super) returned: u64,
    /// Its peer has shown that it receives where the path leads to.
    proven: bool,
    /// The address that is asked for that proof: the path's own, or, where that has given it,
    /// another that the peer may have moved to.
    proving: Option<Proving>,
}

impl Standing {
    pub(super) const fn new() -> Self {
        Self {
            up: true,
            waiting: Instant::ZERO,
            others_asked: false,
            progressed: None,
            ask: false,
            silence: None,
            left: 0,
            returned: 0,
            proven: true,
            proving: None,
        }
    }

    /// True where it may carry anything.
    pub(super) const fn is_fit(&self) -> bool {
        self.up && self.proven && self.silence.is_none()
    }

    pub(super) const fn is_proven(&self) -> bool {
        self.proven
    }

    /// Nothing may depend on what goes by it.
    pub(super) const fn is_idle(&self) -> bool {
        self.silence.is_some() || !self.proven
    }

    /// Asks an address for a proof; the path's present one goes on meanwhile where it has given it.
    pub(super) const fn prove(&mut self, proving: Proving, proven: bool) {
        (self.proving, self.proven) = (Some(proving), proven);
    }

    pub(super) const fn proving(&self) -> Option<&Proving> {
        self.proving.as_ref()
    }

    pub(super) const fn proving_mut(&mut self) -> Option<&mut Proving> {
        self.proving.as_mut()
    }

    /// The address that was asked has answered.
    pub(super) const fn proven(&mut self, now: Instant) {
        (self.proven, self.proving) = (true, None);
        self.progresses(now);
    }

    /// Bytes that may go out on it: those to an address that has proven nothing are counted.
    pub(super) fn allowance(&self) -> u64 {
        let proving = self.proving.as_ref().filter(|_| !self.proven);
        proving.map_or(u64::MAX, Proving::allowance)
    }

    /// So many bytes went where the path leads to.
    pub(super) const fn went(&mut self, bytes: u64) {
        if let Some(proving) = self.proving.as_mut()
            && !self.proven
        {
            proving.went(bytes);
        }
    }

    /// When its address is to be challenged again.
    pub(super) fn challenge_at(&self) -> Option<Instant> {
        self.proving.as_ref().filter(|_| self.up).and_then(Proving::next_at)
    }

    pub(super) fn challenge_if_due(&mut self, now: Instant) {
        let (moves, up) = (self.proven, self.up);
        self.proving.take_if(|p| up && p.handle_timeout(now, moves));
    }

    /// The peer asks on a silent path: it may be back.
    pub(super) fn heard(&mut self, timeout: Duration) {
        if let Some(silence) = &mut self.silence {
            silence.next = silence.next.min(silence.asked + timeout);
        }
    }

    pub(super) const fn is_silent(&self) -> bool {
        self.silence.is_some()
    }

    /// Since when it has been silent.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        self.silence.map(|s| s.since)
    }

    /// A packet that asks for an acknowledgement departs; it is the `only` one under way.
    pub(super) const fn departs(&mut self, now: Instant, only: bool) {
        if only {
            (self.waiting, self.others_asked) = (now, false);
        }
        self.ask = false;
    }

    /// Something was acknowledged for the first time.
    pub(super) const fn progresses(&mut self, now: Instant) {
        self.progressed = Some(now);
        (self.waiting, self.others_asked) = (now, false);
    }

    /// True where the peer, which acknowledges this packet, answers again.
    pub(super) fn answers(&self, acknowledged: u64) -> bool {
        self.silence.is_some_and(|s| acknowledged >= s.first)
    }

    /// When to ask a silent path again.
    fn ask_at(&self) -> Option<Instant> {
        self.silence.filter(|_| self.up).map(|s| s.next)
    }

    /// Its link has a carrier, or none.
    pub(super) const fn set_up(&mut self, up: bool) {
        (self.up, self.ask) = (up, up && self.is_silent());
    }

    /// Asks a silent path, if it is time.
    fn ask_if_due(&mut self, now: Instant, timeout: Duration) {
        let Some(silence) = self.silence.as_mut().filter(|s| self.up && s.next <= now) else {
            return;
        };
        silence.asked = now;
        silence.next = now + asked_after(now.since(silence.since), timeout);
        self.ask = true;
    }

    pub(super) const fn fall_silent(&mut self, now: Instant, first: u64) {
        self.left += 1;
        self.silence = Some(Silence { since: now, first, asked: now, next: now });
    }

    pub(super) const fn come_back(&mut self, now: Instant) {
        self.returned += self.silence.is_some() as u64;
        (self.silence, self.ask) = (None, false);
        self.progresses(now);
    }
}

/// How long something may wait on a path for its answer: DESIGN's
/// `max(20 ms, 2·SRTT + 4·RTTVAR)`, and how long the peer may think about it.
fn patience(path: &Path) -> Duration {
    let trips = path.rtt.smoothed() + path.rtt.probe_timeout(path.ack_rate.delay());
    trips.max(PATIENCE_MIN)
}

/// Until when its wait is borne, if something waits: on one that is not fit, what was sent while
/// none was.
fn borne_until(path: &Path) -> Option<Instant> {
    (path.in_flight() > 0).then(|| path.standing.waiting + patience(path))
}

/// Whether another path got on while this one waited, given when the last of them did.
fn others_get_on(path: &Path, last: Option<Instant>) -> bool {
    last.is_some_and(|last| last >= path.standing.waiting + patience(path) / 2)
}

impl Association {
    /// When the last path got on, of those that are fit. One that waits got on before it waited.
    fn got_on(&self) -> Option<Instant> {
        let fit = self.paths.iter().filter(|p| p.standing.is_fit());
        fit.filter_map(|p| p.standing.progressed).max()
    }

    /// When [`Association::notice_silence`] is wanted next.
    pub(super) fn silence_at(&self) -> Option<Instant> {
        if self.paths.len() == 1 {
            return None;
        }
        let last = self.got_on();
        let waits = |p: &Path| {
            borne_until(p).filter(|_| !p.standing.others_asked || others_get_on(p, last))
        };
        let next = |p: &Path| waits(p).into_iter().chain(p.standing.ask_at()).min();
        self.paths.iter().filter_map(next).min()
    }

    /// Looks for paths that are silent while others get on, and asks those that are. We should
    /// have looked at `due`.
    pub(super) fn notice_silence(&mut self, due: Instant, now: Instant) {
        if self.paths.len() == 1 {
            return;
        }
        let (late, last) = (now.since(due), self.got_on());
        let mut wonder = false;
        for at in 0..self.paths.len() {
            let path = &mut self.paths[at];
            let timeout = path.rtt.probe_timeout(path.ack_rate.delay());
            #[cfg(plant)]
            let timeout = match self.config.plant {
                crate::config::Plant::SilentUnasked => Duration::from_hours(1),
                _ => timeout,
            };
            path.standing.ask_if_due(now, timeout);
            if borne_until(path).is_none_or(|until| until > now) {
                continue;
            }
            if late > LATE {
                path.standing.waiting += late;
            } else if !others_get_on(path, last) {
                wonder |= !path.standing.others_asked;
                path.standing.others_asked = true;
            } else if path.standing.others_asked {
                // Perhaps nobody answered, and now all do: each has its time for that.
                let half = patience(path) / 2;
                (path.standing.waiting, path.standing.others_asked) = (now - half, false);
            } else {
                self.fall_silent(now, at);
            }
        }
        if wonder {
            let fit = self.paths.iter_mut().filter(|p| p.standing.is_fit());
            fit.for_each(|p| p.standing.ask |= !p.standing.others_asked);
        }
    }

    /// What is under way on a path goes by the others, if there are any that are fit.
    pub(super) fn fall_silent(&mut self, now: Instant, at: usize) {
        let other = |(n, p): (usize, &Path)| n != at && p.standing.is_fit();
        if !self.paths.iter().enumerate().any(other) {
            return;
        }
        let (path, lost) = (&mut self.paths[at], self.outcome.packets_lost);
        if !path.standing.is_idle() {
            path.standing.fall_silent(now, path.next_number());
            self.stats.paths_silent += 1;
        }
        path.let_go(now, &mut self.outcome);
        self.outcome.packets_lost = lost;
        let id = path.id;
        self.drop_copies(id);
        let trip = self.rtt();
        self.settle_outcome(trip);
    }
}
