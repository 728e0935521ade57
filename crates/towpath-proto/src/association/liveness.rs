//! Whether the peer lives: when to ask it, and when to give it up.
//!
//! A packet that asks for an acknowledgement is an *ask*. A peer that leaves asks unanswered for
//! `silent_after` is *silent*: that is told, and ends nothing; so is its first word afterwards.
//! Three rules end an association:
//!
//! - *lost*: asks have been under way for `lost_after`, enough of them, and nothing was heard
//!   since the first of them left;
//! - *no progress*: for `no_progress_after` nothing of ours was acknowledged, though asked for;
//! - *unsent*: for `no_progress_after` an ask was due and our own link let nothing out.
//!
//! Time counts from when an ask really left, and less what we ourselves were late meanwhile.

use ::core::time::Duration;

use towpath_wire::Instant;

use super::end::End;
use crate::config::Liveness as Bounds;
use crate::machine::TimerKind;

/// A timer later than this counts as our own stall.
const STALL: Duration = Duration::from_millis(5);
/// A silent peer is waited for so many times longer than the host wakes late at present ...
const LAG_TIMES: u32 = 4;
/// ... where that is no less than this: an idle machine's hosts wake within a millisecond.
const LAG_MIN: Duration = Duration::from_millis(10);
/// An unwatched responder asks after so many of the initiator's longest intervals.
const INTERVALS_MISSED: u32 = 3;

/// Something that we wait for, since when, and how much of that is our own fault.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Instant,
    excused: Duration,
}

impl Wait {
    const fn new(since: Instant) -> Self {
        Self { since, excused: Duration::ZERO }
    }

    fn lasted(&self, now: Instant) -> Duration {
        now.since(self.since).saturating_sub(self.excused)
    }

    fn ends(&self, bound: Duration) -> Instant {
        self.since + self.excused + bound
    }

    /// We did not run from `from` to `to`. All such times together excuse `most`, and the longest
    /// of them besides: a host that is late again and again finds out, too.
    fn excuse(&mut self, from: Instant, to: Instant, most: Duration) {
        let late = to.since(from.max(self.since));
        self.excused = (self.excused + late).min(most + late).max(self.excused);
    }
}

/// Invariants: `silence` is set while something that asks has left since the last packet was
/// heard; `asks` counts those, and is zero without it; `unsent` is set while an ask is due.
#[derive(Clone, Debug)]
pub(super) struct Liveness {
    bounds: Bounds,
    /// Time between asks while nothing is heard: two more than needed fit into `silent_after`.
    gap: Duration,
    initiator: bool,
    watched: bool,
    /// When an authentic and new packet last came.
    heard: Instant,
    /// When an ask last left.
    asked: Instant,
    silence: Option<Wait>,
    asks: u32,
    /// It was told that the peer is silent.
    told: bool,
    /// When the peer was heard again after that.
    returned: Option<Instant>,
    /// When the last of `asks` left.
    counted: Instant,
    /// Since when nothing of what is under way was acknowledged.
    progress: Option<Wait>,
    /// Since when an ask has been due.
    unsent: Option<Wait>,
    /// The present time between keep-alives of an unwatched initiator.
    interval: Duration,
    /// Own lateness up to here is accounted for.
    late_up_to: Instant,
    /// How late the host wakes at present, [`Liveness::set_lag`].
    lag: Duration,
    #[cfg(plant)]
    pub(super) plant: crate::config::Plant,
}

impl Liveness {
    pub(super) fn new(now: Instant, initiator: bool, bounds: Bounds) -> Self {
        Self {
            bounds,
            gap: bounds.silent_after / (bounds.asks + 2),
            initiator,
            watched: false,
            heard: now,
            asked: now,
            silence: None,
            asks: 0,
            told: false,
            returned: None,
            counted: now,
            progress: None,
            // The first packet tells the responder that we hold the keys.
            unsent: initiator.then_some(Wait::new(now)),
            interval: bounds.keepalive,
            late_up_to: now,
            lag: Duration::ZERO,
            #[cfg(plant)]
            plant: crate::config::Plant::None,
        }
    }

    /// When a packet that was not known before last came.
    pub(super) const fn heard_at(&self) -> Instant {
        self.heard
    }

    /// Since when asks have been under way without a word from the peer.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        self.silence.map(|w| w.since)
    }

    /// How late this host wakes at present, on the average: where it is late, its peers, on the
    /// same machine or as busy, will be, too.
    pub(super) fn set_lag(&mut self, lag: Duration) {
        self.lag = lag;
    }

    /// When the peer was last heard again after it had been silent.
    pub(super) const fn returned_at(&self) -> Option<Instant> {
        self.returned
    }

    /// How long a silent peer is waited for, if for `bound` on a machine that has time.
    fn patience(&self, bound: Duration) -> Duration {
        let lag = if self.lag < LAG_MIN { Duration::ZERO } else { self.lag * LAG_TIMES };
        (bound + lag).min(self.bounds.no_progress_after.max(bound))
    }

    /// Whether the peer has left enough unanswered for so long.
    fn is_quiet_for(&self, now: Instant, bound: Duration) -> bool {
        let over = |w: Wait| w.lasted(now) >= self.patience(bound);
        self.asks >= self.bounds.asks && self.silence.is_some_and(over)
    }

    /// Whether the peer is silent.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        self.told || self.is_quiet_for(now, self.bounds.silent_after)
    }

    /// True once where the peer has become silent.
    pub(super) fn falls_silent(&mut self, now: Instant) -> bool {
        !self.told && self.is_silent(now) && {
            self.told = true;
            true
        }
    }

    /// Other bounds hold from now on.
    pub(super) fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        self.gap = bounds.silent_after / (bounds.asks + 2);
        self.interval = self.interval.clamp(bounds.keepalive, bounds.keepalive_max);
    }

    /// When a packet that asks for an answer last left.
    pub(super) const fn asked_at(&self) -> Instant {
        self.asked
    }

    /// True while a packet that asks for an answer should go out.
    pub(super) const fn wants_ask(&self) -> bool {
        self.unsent.is_some()
    }

    /// The next packet is to ask.
    pub(super) fn want_ask(&mut self, now: Instant) {
        self.unsent.get_or_insert(Wait::new(now));
    }

    /// Somebody depends on the peer, or nobody does any more; false if that is no news.
    pub(super) fn watch(&mut self, now: Instant, on: bool) -> bool {
        let changed = self.watched != on;
        if changed {
            self.watched = on;
            self.interval = self.bounds.keepalive;
            if on {
                self.ask(now);
            }
        }
        changed
    }

    /// Asks at once, unless the peer was heard or asked just now.
    pub(super) fn ask(&mut self, now: Instant) {
        if now >= self.heard.max(self.asked) + self.bounds.keepalive {
            self.want_ask(now);
        }
    }

    /// The same, whenever it was heard, unless it was asked within `gap`.
    pub(super) fn ask_again(&mut self, now: Instant, gap: Duration) {
        if now >= self.asked + gap {
            self.want_ask(now);
        }
    }

    /// An authentic packet came that never came before. True where the peer had been silent.
    pub(super) fn heard(&mut self, now: Instant) -> bool {
        self.heard = now;
        let was_silent = core::mem::take(&mut self.told);
        if was_silent {
            self.returned = Some(now);
        }
        #[cfg(plant)]
        match self.plant {
            crate::config::Plant::AsksKept => {
                self.silence = None;
                return was_silent;
            }
            crate::config::Plant::SilenceKept => return was_silent,
            _ => {}
        }
        self.silence = None;
        self.asks = 0;
        was_silent
    }

    /// More was said in either direction than signs of life.
    pub(super) fn active(&mut self) {
        self.interval = self.bounds.keepalive;
    }

    /// A packet that asks for an acknowledgement left.
    pub(super) fn asked(&mut self, now: Instant) {
        let waits = self.silence.is_some() && self.progress.is_some();
        if self.asked == now && self.unsent.is_none() && waits {
            return; // as the packet before it
        }
        self.asked = now;
        self.unsent = None;
        self.progress.get_or_insert(Wait::new(now));
        if self.silence.is_none() || now >= self.counted + self.gap / 2 {
            self.asks += 1;
            self.counted = now;
        }
        self.silence.get_or_insert(Wait::new(now));
    }

    /// Something of ours was acknowledged; `more` of it is still under way.
    pub(super) fn progressed(&mut self, now: Instant, more: bool) {
        self.progress = more.then_some(Wait::new(now));
    }

    /// Nothing is under way any more: what was, later packets overtook.
    pub(super) fn settled(&mut self) {
        self.progress = None;
    }

    /// Time without a word after which we ask.
    fn quiet(&self) -> Duration {
        match (self.watched, self.initiator) {
            (true, _) => self.bounds.keepalive,
            (false, true) => self.interval,
            (false, false) => self.bounds.keepalive_max * INTERVALS_MISSED,
        }
    }

    fn ask_at(&self) -> Instant {
        match self.silence {
            Some(_) if self.told => self.counted + self.bounds.keepalive,
            Some(_) => self.counted + self.gap,
            None => self.heard.max(self.asked) + self.quiet(),
        }
    }

    /// We should have run at `due` and did at `now`; returns by how much we were late.
    pub(super) fn ran(&mut self, due: Instant, now: Instant) -> Duration {
        let late = now.since(due);
        if late > STALL {
            let (from, most) = (due.max(self.late_up_to), self.bounds.no_progress_after);
            let waits = [&mut self.silence, &mut self.progress, &mut self.unsent];
            waits.into_iter().flatten().for_each(|w| w.excuse(from, now, most));
            self.late_up_to = now;
        }
        late
    }

    /// Whether it is time to give the peer up.
    pub(super) fn verdict(&self, now: Instant) -> Option<End> {
        let Bounds { lost_after, no_progress_after, .. } = self.bounds;
        let over = |w: Option<Wait>, bound| w.filter(|w| w.lasted(now) >= bound);
        if let Some(w) = self.silence
            && self.is_quiet_for(now, lost_after)
        {
            let (for_, excused) = (w.lasted(now), w.excused);
            return Some(End::Silent { for_, asks: self.asks, excused });
        }
        if let Some(w) = over(self.progress, no_progress_after) {
            return Some(End::NoProgress { for_: w.lasted(now), excused: w.excused });
        }
        let w = over(self.unsent, no_progress_after)?;
        Some(End::Unsent { for_: w.lasted(now), excused: w.excused })
    }

    /// Asks if it is time to.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.wants_ask() || now < self.ask_at() {
            return;
        }
        if self.silence.is_none() {
            self.interval = (self.interval * 2).min(self.bounds.keepalive_max);
        }
        self.want_ask(now);
    }

    /// When [`Liveness::verdict`] or [`Liveness::handle_timeout`] may have something to say.
    pub(super) fn poll_timeout(&self) -> (Instant, TimerKind) {
        let Bounds { lost_after, silent_after, asks, no_progress_after, .. } = self.bounds;
        let mut end = Instant::NEVER;
        if let Some(w) = self.silence.filter(|_| self.asks >= asks) {
            let bound = if self.told { lost_after } else { silent_after };
            end = w.ends(self.patience(bound));
        }
        for w in self.progress.iter().chain(&self.unsent) {
            end = end.min(w.ends(no_progress_after));
        }
        if !self.wants_ask() {
            let at = self.ask_at();
            if at < end {
                return (at, TimerKind::KeepAlive);
            }
        }
        (end, TimerKind::Silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Instant {
        Instant::ZERO + MS * ms
    }

    /// A watched initiator that asked at 0 and is always asked on time until it gives up.
    fn asked_at_zero() -> Liveness {
        let mut l = Liveness::new(at(0), true, Bounds::default());
        l.watch(at(0), true);
        l.asked(at(0));
        l
    }

    /// Lets asks leave as soon as they are due; returns when and how it ends.
    fn run(l: &mut Liveness, until: Instant) -> Option<(Instant, End)> {
        loop {
            let (due, _) = l.poll_timeout();
            if due > until {
                return None;
            }
            l.ran(due, due);
            if let Some(end) = l.verdict(due) {
                return Some((due, end));
            }
            l.handle_timeout(due);
            if l.wants_ask() {
                l.asked(due);
            }
        }
    }

    #[test]
    fn a_peer_that_is_waited_for_for_long_is_silent_first_and_may_be_heard_again() {
        let mut l = Liveness::new(at(0), true, Bounds::after(10_000 * MS));
        l.watch(at(0), true);
        l.asked(at(0));
        assert_eq!(run(&mut l, at(1499)), None);
        assert!(!l.is_silent(at(1499)) && l.is_silent(at(1500)));
        assert_eq!(l.poll_timeout(), (at(1500), TimerKind::Silence));
        assert!(l.falls_silent(at(1500)) && !l.falls_silent(at(1500)), "told once");
        let asks = l.asks;
        assert_eq!(run(&mut l, at(4500)), None);
        assert_eq!(l.asks - asks, 8, "every 375 ms from then on");
        assert!(l.heard(at(4501)) && !l.heard(at(4502)));
        assert_eq!((l.returned_at(), l.is_silent(at(4502))), (Some(at(4501)), false));
        l.asked(at(5000));
        l.progressed(at(5000), true);
        while !l.falls_silent(at(6500)) {
            assert_eq!(run(&mut l, at(6499)), None);
        }
        let (when, end) = run(&mut l, at(60_000)).unwrap();
        assert!(matches!(end, End::Silent { .. }), "{end:?}");
        assert_eq!(when, at(15_000), "ten seconds from the first ask");
    }

    #[test]
    fn bounds_follow_from_how_long_a_peer_is_waited_for() {
        for (lost_after, silent_after, no_progress) in [
            (200, 200, 2000),
            (2000, 2000, 20_000),
            (2999, 2999, 20_000),
            (3000, 1500, 20_000),
            (10_000, 1500, 20_000),
            (600_000, 1500, 1_200_000),
        ] {
            let b = Bounds::after(lost_after * MS);
            assert_eq!((b.silent_after, b.keepalive), (silent_after * MS, silent_after * MS / 4));
            assert_eq!(b.no_progress_after, no_progress * MS, "{lost_after}");
        }
    }

    #[test]
    fn a_dead_peer_is_silent_after_lost_after_from_the_first_ask() {
        let (when, end) = run(&mut asked_at_zero(), at(60_000)).unwrap();
        assert_eq!(when, at(2000));
        let End::Silent { for_, asks, excused } = end else { panic!("{end:?}") };
        assert_eq!((for_, excused), (2000 * MS, Duration::ZERO));
        assert_eq!(asks, 13);
    }

    #[test]
    fn a_host_that_wakes_late_is_more_patient_and_not_for_ever() {
        for (lag, lost_after) in [(0, 2000), (9, 2000), (10, 2040), (250, 3000), (9000, 20_000)] {
            let mut l = asked_at_zero();
            l.set_lag(lag * MS);
            let (when, end) = run(&mut l, at(60_000)).unwrap();
            assert_eq!(when, at(lost_after), "late by {lag} ms");
            assert!(matches!(end, End::Silent { .. }) || lag == 9000, "{end:?}");
        }
    }

    #[test]
    fn one_that_was_heard_just_now_is_asked_again_only_where_that_is_wanted() {
        let mut l = asked_at_zero();
        l.heard(at(1));
        l.ask(at(100));
        l.ask_again(at(49), Duration::from_millis(50));
        assert!(!l.wants_ask());
        l.ask_again(at(50), Duration::from_millis(50));
        assert!(l.wants_ask());
    }

    #[test]
    fn asks_in_a_burst_count_once() {
        let mut l = asked_at_zero();
        (0..100).for_each(|_| l.asked(at(1)));
        assert_eq!(l.asks, 1);
        l.asked(at(84));
        assert_eq!(l.asks, 2);
    }

    #[test]
    fn a_peer_that_is_heard_is_never_silent_but_must_acknowledge() {
        let mut l = asked_at_zero();
        let mut end = None;
        for n in 1..100 {
            l.heard(at(n * 300));
            end = run(&mut l, at(n * 300 + 299));
            if end.is_some() {
                break;
            }
        }
        let (when, end) = end.expect("given up");
        assert_eq!(
            (when, end),
            (at(20_000), End::NoProgress { for_: 20_000 * MS, excused: Duration::ZERO },)
        );
    }

    #[test]
    fn late_intervals_count_once_and_up_to_a_bound() {
        let mut l = asked_at_zero();
        // Two timers of one stall, and one within it.
        l.ran(at(100), at(1100));
        l.ran(at(200), at(1100));
        l.ran(at(900), at(1150));
        assert_eq!(l.silence.unwrap().excused, 1050 * MS);
        let mut late = |from: u32, ms: u32| {
            l.ran(at(from), at(from + ms));
            l.silence.unwrap().excused
        };
        for n in 0..1000 {
            late(1200 + 100 * n, 50);
        }
        assert_eq!(late(102_000, 50), Bounds::default().no_progress_after + 50 * MS);
        // One long sleep is excused whole.
        assert_eq!(late(103_000, 600_000), Bounds::default().no_progress_after + 600_000 * MS);
    }

    #[test]
    fn what_was_late_before_an_ask_left_excuses_nothing() {
        let mut l = Liveness::new(at(0), false, Bounds::default());
        l.asked(at(5000));
        l.ran(at(1000), at(5010));
        assert_eq!(l.silence.unwrap().excused, 10 * MS);
    }

    #[test]
    fn after_a_long_sleep_a_peer_still_gets_ten_asks() {
        let mut l = asked_at_zero();
        let (due, _) = l.poll_timeout();
        l.ran(due, at(600_000));
        assert_eq!(l.verdict(at(600_000)), None);
        l.handle_timeout(at(600_000));
        l.asked(at(600_000));
        let (when, _) = run(&mut l, at(700_000)).unwrap();
        assert!(when >= at(601_300), "{when}");
    }

    #[test]
    fn an_ask_that_our_own_link_does_not_let_out_ends_otherwise() {
        let mut l = asked_at_zero();
        l.heard(at(1));
        l.progressed(at(1), false);
        let (due, kind) = l.poll_timeout();
        assert_eq!((due, kind), (at(501), TimerKind::KeepAlive));
        l.handle_timeout(due);
        let (due, _) = l.poll_timeout();
        assert_eq!(
            l.verdict(due),
            Some(End::Unsent { for_: 20_000 * MS, excused: Duration::ZERO })
        );
        assert_eq!(due, at(20_501));
    }

    #[test]
    fn an_unwatched_initiator_backs_off_and_activity_ends_that() {
        let mut l = asked_at_zero();
        l.watch(at(0), false);
        let mut gaps = std::vec::Vec::new();
        let mut now = at(0);
        for _ in 0..9 {
            l.heard(now);
            l.progressed(now, false);
            let (due, _) = l.poll_timeout();
            gaps.push(due.since(now).as_millis());
            l.handle_timeout(due);
            l.asked(due);
            now = due;
        }
        assert_eq!(gaps, [500, 1000, 2000, 4000, 8000, 16_000, 25_000, 25_000, 25_000]);
        l.active();
        l.heard(now);
        assert_eq!(l.poll_timeout().0, now + 500 * MS);
    }

    #[test]
    fn an_unwatched_responder_asks_after_three_intervals_and_watching_asks_at_once() {
        let mut l = Liveness::new(at(0), false, Bounds::default());
        assert_eq!(l.poll_timeout(), (at(75_000), TimerKind::KeepAlive));
        l.watch(at(400), true);
        assert!(!l.wants_ask(), "heard just now");
        l.watch(at(400), false);
        l.watch(at(9000), true);
        assert!(l.wants_ask());
    }

    #[test]
    fn asks_before_the_peer_was_heard_do_not_count_against_it() {
        let mut l = asked_at_zero();
        // Eleven asks, and then it answers.
        for n in 1..=10 {
            l.asked(at(170 * n));
        }
        assert_eq!(l.asks, 11);
        l.heard(at(1800));
        assert_eq!((l.asks, l.silence.is_some()), (0, false));
        // One more that nobody answers for longer than `lost_after`: it is one of ten.
        l.asked(at(1900));
        assert_eq!(l.verdict(at(4500)), None);
        let (when, end) = run(&mut l, at(60_000)).expect("given up");
        assert!(when >= at(3900), "{when}");
        let End::Silent { asks, .. } = end else { panic!("{end:?}") };
        assert!(asks >= 10);
    }
}
