//! Whether a path carries: it has a carrier, and is not silent while others get on.
//!
//! **The rule.** A path on which something has waited longer for an answer than it ever should is
//! silent, *where another path got on in the later half of that time*; where none did, the others
//! are asked, and it is silent if they answer a half of that time before it. What was under way on
//! it goes out again by the others at once, without a word to any congestion controller. It is
//! asked on, less and less often, by packets on which nothing depends; the first answer to one of
//! those brings it back, with fresh data alone, at the rate of a new path. Where no other path gets
//! on, nothing happens here: that is a matter of the peer's liveness.
//!
//! Lateness of our own is taken off: what we read late was not answered late.

use core::time::Duration;

use towpath_wire::Instant;

use super::core::Association;
use super::path::Path;

/// A path is given this long at least.
const PATIENCE_MIN: Duration = Duration::from_millis(20);
/// A timer that comes later than this says that we ourselves were late.
const LATE: Duration = Duration::from_millis(1);
/// The next packet to a silent path goes out after this share of its silence so far: its return is
/// noticed so much later, at a cost that grows with the logarithm of the silence.
const ASKED_AFTER: u32 = 16;
/// But after so long at the latest.
const ASKED_MAX: Duration = Duration::from_secs(30);

/// A path that does not answer while others do.
#[derive(Clone, Copy, Debug)]
struct Silence {
    since: Instant,
    /// Packets from this number on were sent since: an answer to one of them ends it.
    first: u64,
    /// When to ask again.
    next: Instant,
}

/// How a path stands. Invariants: a path is [fit](Self::is_fit) where it is up and not silent;
/// `waiting` is meaningful only while something is under way.
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
        }
    }

    /// True where it may carry anything.
    pub(super) const fn is_fit(&self) -> bool {
        self.up && self.silence.is_none()
    }

    pub(super) const fn is_silent(&self) -> bool {
        self.silence.is_some()
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
        let wait = now.since(silence.since) / ASKED_AFTER;
        silence.next = now + wait.min(ASKED_MAX).max(timeout);
        self.ask = true;
    }

    pub(super) const fn fall_silent(&mut self, now: Instant, first: u64) {
        self.silence = Some(Silence { since: now, first, next: now });
    }

    pub(super) const fn come_back(&mut self, now: Instant) {
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
        if !path.standing.is_silent() {
            path.standing.fall_silent(now, path.next_number());
            self.stats.paths_silent += 1;
        }
        path.let_go(now, &mut self.outcome);
        self.outcome.packets_lost = lost;
        let trip = self.rtt();
        self.settle_outcome(trip);
    }
}
