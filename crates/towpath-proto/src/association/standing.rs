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
/// So many times that long is taken off for lateness of our own: one that is always late would
/// never leave a path.
const EXCUSED_MAX: u32 = 4;
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

/// A path on standby is asked so often whether it would carry: it is known before it is needed that
/// it would not, and what translates its address does not forget it.
const STANDBY_ASKED: Duration = Duration::from_secs(15);

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

/// What is known of the other paths while one waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// Nothing but what they do by themselves.
    Unasked,
    /// They were asked whether they get on.
    Asked,
    /// They do, and have said so while this one waited: it has the rest of its time, and no more.
    GetOn,
}

/// What comes of a path that has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// It waits on.
    Bears,
    /// The others are to be asked.
    Wonders,
    /// It is silent.
    IsSilent,
}

/// How a path stands. Invariants: a path is [fit](Self::is_fit) where it is up, proven and not
/// silent; one that is not proven has an address that is proving; `waiting` is meaningful only
/// while something is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Its link has a carrier, and it is not retired.
    pub(super) up: bool,
    /// It is on standby, and carries only while no other can that is not; it is to be asked then
    /// whether it would.
    standby: Option<Instant>,
    /// Since when what is under way waits, without any answer.
    waiting: Instant,
    /// What is known of the others in this wait.
    others: Others,
    /// What was taken off it for our own lateness.
    excused: Duration,
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
    pub(super) const fn new(standby: bool) -> Self {
        Self {
            up: true,
            standby: if standby { Some(Instant::ZERO) } else { None },
            waiting: Instant::ZERO,
            others: Others::Unasked,
            excused: Duration::ZERO,
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

    pub(super) const fn is_standby(&self) -> bool {
        self.standby.is_some()
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

    const fn waits_from(&mut self, now: Instant) {
        (self.waiting, self.others, self.excused) = (now, Others::Unasked, Duration::ZERO);
    }

    /// A packet that asks for an acknowledgement departs; it is the `only` one under way.
    pub(super) const fn departs(&mut self, now: Instant, only: bool) {
        if only {
            self.waits_from(now);
        }
        self.ask = false;
    }

    /// Something was acknowledged for the first time.
    pub(super) const fn progresses(&mut self, now: Instant) {
        self.progressed = Some(now);
        self.waits_from(now);
    }

    /// True where the peer, which acknowledges this packet, answers again.
    pub(super) fn answers(&self, acknowledged: u64) -> bool {
        self.silence.is_some_and(|s| acknowledged >= s.first)
    }

    /// When to ask a silent path again, or one on standby.
    fn ask_at(&self) -> Option<Instant> {
        let next = self.silence.map_or(self.standby.filter(|_| self.proven), |s| Some(s.next));
        next.filter(|_| self.up)
    }

    /// Its link has a carrier, or none.
    pub(super) const fn set_up(&mut self, up: bool) {
        (self.up, self.ask) = (up, up && self.is_silent());
    }

    /// Whether another path got on while this one waited, given when the last of them did.
    fn others_get_on(&self, patience: Duration, last: Option<Instant>) -> bool {
        last.is_some_and(|last| last >= self.waiting + patience / 2)
    }

    /// It has waited for as long as that is borne, and `late` longer, since we were late; `last`:
    /// when another path got on.
    fn look(
        &mut self,
        now: Instant,
        patience: Duration,
        last: Option<Instant>,
        late: Duration,
    ) -> Look {
        if late > LATE && self.excused < patience * EXCUSED_MAX {
            self.waiting += late;
            self.excused += late;
            return Look::Bears;
        }
        let get_on = self.others_get_on(patience, last);
        match self.others {
            Others::GetOn => Look::IsSilent,
            Others::Unasked if get_on => Look::IsSilent,
            Others::Unasked => {
                self.others = Others::Asked;
                Look::Wonders
            }
            // Perhaps nobody answered, and now all do: each has its time for that. Theirs may be
            // longer than this one's: what they have said holds.
            Others::Asked if get_on => {
                (self.waiting, self.others) = (now - patience / 2, Others::GetOn);
                Look::Bears
            }
            Others::Asked => Look::Bears,
        }
    }

    /// Asks a silent path, or one on standby, if it is time.
    fn ask_if_due(&mut self, now: Instant, timeout: Duration) {
        if self.ask_at().is_none_or(|next| next > now) {
            return;
        }
        if let Some(silence) = &mut self.silence {
            silence.asked = now;
            silence.next = now + asked_after(now.since(silence.since), timeout);
        } else {
            self.standby = Some(now + STANDBY_ASKED);
        }
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
            borne_until(p).filter(|_| {
                p.standing.others != Others::Asked || p.standing.others_get_on(patience(p), last)
            })
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
            let patience = patience(path);
            match path.standing.look(now, patience, last, late) {
                Look::Bears => {}
                Look::Wonders => wonder = true,
                Look::IsSilent => {
                    if !self.fall_silent(now, at) {
                        // Who got on is fit no more: the wait begins anew.
                        self.paths[at].standing.waits_from(now);
                    }
                }
            }
        }
        if wonder {
            let fit = self.paths.iter_mut().filter(|p| p.standing.is_fit());
            fit.for_each(|p| p.standing.ask |= p.standing.others != Others::Asked);
        }
    }

    /// What is under way on a path goes by the others; false where none is fit.
    pub(super) fn fall_silent(&mut self, now: Instant, at: usize) -> bool {
        let other = |(n, p): (usize, &Path)| n != at && p.standing.is_fit();
        if !self.paths.iter().enumerate().any(other) {
            return false;
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
        true
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use towpath_wire::Instant;

    use super::{EXCUSED_MAX, Look, Standing};

    const PATIENCE: Duration = Duration::from_millis(24);

    /// A path on which something has waited since one second.
    fn waits() -> (Standing, Instant) {
        let (mut path, since) = (Standing::new(false), Instant::ZERO + Duration::from_secs(1));
        path.departs(since, true);
        (path, since)
    }

    #[test]
    fn one_on_standby_is_asked_every_15_s_whether_it_would_carry() {
        let at = |s: f64| Instant::ZERO + Duration::from_secs_f64(s);
        let (mut rests, mut other) = (Standing::new(true), Standing::new(false));
        for now in [1.0, 16.0, 31.0] {
            for (path, asked) in [(&mut rests, true), (&mut other, false)] {
                path.ask_if_due(at(now), PATIENCE);
                assert_eq!(core::mem::take(&mut path.ask), asked, "{now} s");
                path.ask_if_due(at(now + 14.9), PATIENCE);
                assert!(!path.ask);
            }
        }
        assert_eq!((rests.ask_at(), other.ask_at()), (Some(at(46.0)), None));
        rests.set_up(false);
        assert_eq!(rests.ask_at(), None, "its link has no carrier");
    }

    #[test]
    fn a_path_is_left_though_the_others_take_longer_to_answer_than_it_may_wait() {
        let (mut path, since) = waits();
        let us = Duration::from_micros;
        let asked = since + PATIENCE;
        assert_eq!(path.look(asked, PATIENCE, None, us(80)), Look::Wonders);
        // They answer after 100 ms; we look a little later, as any clock that runs has it.
        let heard = asked + us(100_000);
        assert_eq!(path.look(heard + us(80), PATIENCE, Some(heard), us(80)), Look::Bears);
        let over = heard + us(80) + PATIENCE / 2;
        assert_eq!(path.look(over + us(80), PATIENCE, Some(heard), us(80)), Look::IsSilent);
        // Where it answers meanwhile, nothing comes of it.
        path.progresses(over);
        assert_eq!(path.look(over + PATIENCE, PATIENCE, Some(heard), us(0)), Look::Wonders);
    }

    #[test]
    fn a_path_is_left_at_once_where_another_got_on_in_the_later_half_and_not_before() {
        let half = PATIENCE / 2;
        for (last, look) in
            [(half, Look::IsSilent), (half.saturating_sub(Duration::from_nanos(1)), Look::Wonders)]
        {
            let (mut path, since) = waits();
            let got = path.look(since + PATIENCE, PATIENCE, Some(since + last), Duration::ZERO);
            assert_eq!(got, look);
        }
    }

    #[test]
    fn lateness_of_our_own_is_taken_off_and_one_that_is_always_late_leaves_all_the_same() {
        let (mut path, since) = waits();
        let (late, last) = (Duration::from_millis(10), since + Duration::from_secs(9));
        let mut looks = 0;
        while path.look(since + PATIENCE, PATIENCE, Some(last), late) == Look::Bears {
            looks += 1;
        }
        assert_eq!(looks, (PATIENCE * EXCUSED_MAX).as_millis().div_ceil(10));
    }
}
