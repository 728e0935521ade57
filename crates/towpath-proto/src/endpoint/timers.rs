//! When each association wants to be asked again, and what a timer that is long overdue tells.

use ::core::cmp::Reverse;
use ::core::time::Duration;

use towpath_wire::Instant;

use super::core::{Endpoint, SlotState};
use crate::id::AssociationId;
use crate::machine::TimerKind;
use crate::memory::Memory;

/// Timers that may have been replaced, beside four for each place, before they are dropped.
const TIMERS_MIN: usize = 64;
/// A timer whose deadline has moved away by more than this moves, too: it would wake the host for
/// nothing. By less it stays, since that of a busy association moves with every packet; and so
/// does one that is overdue, which shows how late the host is.
const MOVED: Duration = Duration::from_millis(20);
/// Times that timers were due, over which lateness is averaged.
const LAG_OF: u32 = 16;

impl Endpoint {
    fn deadline(state: &SlotState) -> Option<(Instant, TimerKind)> {
        match state {
            SlotState::Free | SlotState::Reserved | SlotState::Asking(_) => None,
            SlotState::Initiating(i) => Some((i.next_at, TimerKind::Handshake)),
            SlotState::HalfOpen(h) => Some((h.until, TimerKind::Handshake)),
            SlotState::Open(a) => a.poll_timeout(),
        }
    }

    /// Makes sure that a timer stands at the slot's deadline, or a little before it.
    pub(super) fn rearm(&mut self, id: AssociationId) {
        if let Some(slot) = self.slots.get_mut(id.index()).filter(|s| s.id == id)
            && let Some((at, kind)) = Self::deadline(&slot.state)
        {
            slot.waits_for = kind;
            let overdue = self.clock.is_none_or(|now| now >= slot.armed);
            if at < slot.armed || (at > slot.armed + MOVED && !overdue) {
                slot.armed = at;
                slot.punctual = false;
                self.timers.push(Reverse((at, id)));
            }
            // What the owner does is timed when its packets go out.
            slot.punctual |= self.clock.is_some_and(|now| now < slot.armed);
            slot.owners = self.clock.is_none();
        }
        self.tidy_timers();
    }

    /// A message was queued: of all deadlines, only a pacer's may be new.
    pub(super) fn arm_pace(&mut self, id: AssociationId) {
        if let Some(slot) = self.slots.get_mut(id.index()).filter(|s| s.id == id)
            && let SlotState::Open(association) = &slot.state
            && let Some(at) = association.pace_at().filter(|at| *at < slot.armed)
        {
            (slot.armed, slot.punctual, slot.waits_for) = (at, false, TimerKind::Pace);
            self.timers.push(Reverse((at, id)));
            self.tidy_timers();
        }
    }

    /// Drops timers that an earlier one of their slot has replaced: the first at once, since it
    /// would wake the host for nothing, and all when they are many.
    pub(super) fn tidy_timers(&mut self) {
        let slots = &self.slots;
        let stands = |Reverse((at, id)): &Reverse<(Instant, AssociationId)>| {
            slots.get(id.index()).is_some_and(|s| s.id == *id && s.armed == *at)
        };
        while self.timers.peek().is_some_and(|first| !stands(first)) {
            self.timers.pop();
        }
        if self.timers.len() > 4 * slots.len() + TIMERS_MIN {
            self.timers.retain(stands);
        }
    }

    /// Where a timer that is long overdue shows that the whole host slept, every peer may have
    /// given us up meanwhile.
    pub(super) fn notice_sleep(&mut self, now: Instant) {
        let long = |due: Instant| now.since(due) > self.config.liveness.lost_after;
        // The first of them may be an old one, which was moved away.
        if !self.timers.peek().is_some_and(|Reverse((first, _))| long(*first)) {
            return;
        }
        let punctual = self.slots.iter().filter(|s| s.punctual).map(|s| s.armed);
        let Some(due) = punctual.min().filter(|due| long(*due) && *due != self.slept) else {
            return;
        };
        self.slept = due;
        for index in 0..self.slots.len() {
            if let SlotState::Open(a) = &mut self.slots[index].state {
                a.slept(now);
                self.touch(self.slots[index].id);
            }
        }
    }

    /// The first of the timers that are due was late by so much. One long sleep says little of how
    /// the host runs: it counts as a half of `silent_after`.
    pub(super) fn note_lag(&mut self, late: Duration) {
        let late = late.min(self.config.liveness.silent_after / 2);
        self.lag = self.lag * (LAG_OF - 1) / LAG_OF + late / LAG_OF;
    }

    /// How late this host's timers are at present, on the average of the last of them.
    pub const fn lag(&self) -> Duration {
        self.lag
    }

    /// Does what was due at `due`.
    pub(super) fn fire(
        &mut self,
        now: Instant,
        due: Instant,
        id: AssociationId,
        memory: &mut dyn Memory,
    ) {
        let lag = self.lag;
        match self.state_mut(id) {
            // The timer may be an old one, set before the deadline moved away.
            Some(SlotState::Open(a)) if a.poll_timeout().is_some_and(|(at, _)| at <= now) => {
                a.set_lag(lag);
                a.handle_timeout(due, now, memory);
                self.touch(id);
            }
            Some(SlotState::Initiating(_)) => self.repeat_initiation(now, id),
            Some(SlotState::HalfOpen(h)) if h.until <= now => self.free(id),
            _ => {}
        }
        self.rearm(id);
    }
}
