//! One host as the plan sees it.

use std::time::Duration;

use towpath_vm::Ending;
use towpath_wire::Instant;

/// Longest queue of work that a host holds behind its job slots.
const QUEUED_WORK: Duration = Duration::from_millis(250);
/// Pause after a first setback (refused, or lost); doubles with each further one.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// Doublings of a pause at most: 6.4 s.
const PAUSE_DOUBLINGS_MAX: u32 = 6;
/// A host that could not start the program so many times in a row is excluded.
const NOT_STARTED_MAX: u32 = 3;
/// Weight of a new measurement in the mean item time, as a right shift (1/8).
const MEAN_SHIFT: u32 = 3;

/// Whether a host takes part in the farm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStanding {
    /// It does.
    Up,
    /// It, or the connection to it, was lost; or it left.
    Lost,
    /// It could not start the program.
    Excluded,
}

/// What became of the attempts on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Items whose result is a success here.
    pub succeeded: u64,
    /// Items whose result is a failure here.
    pub failed: u64,
    /// Attempts that counted for nothing: the item ran again, or not at all.
    pub dropped: u64,
    /// Microseconds that its attempts ran, together.
    pub busy_us: u64,
}

/// Pause after so many setbacks in a row (1 or more).
pub(super) fn pause(setbacks: u32) -> Duration {
    PAUSE * (1 << (setbacks - 1).min(PAUSE_DOUBLINGS_MAX))
}

/// Load and standing of a host. Invariant: `slots >= 1`.
#[derive(Clone, Debug)]
pub(super) struct HostLoad {
    pub(super) standing: HostStanding,
    /// It is to be taken out: it gets nothing new.
    pub(super) drains: bool,
    pub(super) slots: u32,
    /// Exactly so many at once, without a queue.
    jobs: Option<u32>,
    pub(super) in_flight: u32,
    pub(super) counts: HostCounts,
    /// Moving mean of the time that an item ran.
    mean_us: Option<u64>,
    not_started_in_a_row: u32,
    /// Batches of attempts that it refused or lost since it last started one. While there are
    /// any, it gets one item at a time: its loss may not be known yet, and each item sent to it
    /// would use up one of its retries.
    setbacks_in_a_row: u32,
    pub(super) paused_until: Instant,
    /// It was told that it had no room.
    pub(super) no_room_told: bool,
}

impl HostLoad {
    pub(super) fn new(slots: u16, jobs: Option<u16>) -> Self {
        Self {
            standing: HostStanding::Up,
            drains: false,
            slots: u32::from(slots.max(1)),
            jobs: jobs.map(|j| u32::from(j.max(1))),
            in_flight: 0,
            counts: HostCounts::default(),
            mean_us: None,
            not_started_in_a_row: 0,
            setbacks_in_a_row: 0,
            paused_until: Instant::ZERO,
            no_room_told: false,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.standing == HostStanding::Up
    }

    /// Most items in flight while there are plenty.
    pub(super) fn limit(&self) -> u32 {
        self.jobs.unwrap_or_else(|| self.slots + self.prefetch())
    }

    /// Items in its queue: at most [`QUEUED_WORK`] of them, at least one, and one as long as
    /// nothing is known about how long they take.
    fn prefetch(&self) -> u32 {
        let most = (2 * self.slots).max(8);
        let Some(mean_us) = self.mean_us else { return 1 };
        let in_time = QUEUED_WORK.as_micros() as u64 * u64::from(self.slots) / mean_us.max(1);
        in_time.clamp(1, most.into()) as u32
    }

    /// Items that it may have in flight now. `tail`: few are left, nothing may queue.
    pub(super) fn allowed(&self, now: Instant, tail: bool) -> u32 {
        match self.jobs {
            _ if !self.is_up() || self.drains || self.paused_until > now => 0,
            _ if self.setbacks_in_a_row > 0 => 1,
            Some(jobs) => jobs,
            None if tail => self.slots,
            None => self.limit(),
        }
    }

    /// Items that it runs at once, which its load is measured against.
    pub(super) fn at_once(&self) -> u32 {
        self.jobs.unwrap_or(self.slots)
    }

    /// It is back: what it did before does not count against it.
    pub(super) fn back(&mut self) {
        self.standing = HostStanding::Up;
        self.setbacks_in_a_row = 0;
        self.paused_until = Instant::ZERO;
    }

    /// It started something.
    pub(super) fn started(&mut self) {
        self.not_started_in_a_row = 0;
        self.setbacks_in_a_row = 0;
    }

    /// An attempt ended there. True when the host is to be excluded, where `blame` says that a
    /// program which cannot be started is its fault.
    pub(super) fn ended(
        &mut self,
        now: Instant,
        ending: &Ending,
        wall_us: u64,
        blame: bool,
    ) -> bool {
        self.in_flight -= 1;
        self.counts.busy_us = self.counts.busy_us.saturating_add(wall_us);
        match ending {
            Ending::Exited(_) | Ending::Signalled(_) | Ending::TimedOut => {
                self.started();
                let mean = self.mean_us.unwrap_or(wall_us);
                self.mean_us = Some(mean - (mean >> MEAN_SHIFT) + (wall_us >> MEAN_SHIFT));
            }
            Ending::NotStarted { .. } if blame => self.not_started_in_a_row += 1,
            Ending::NotStarted { .. } => {}
            Ending::Refused(_) | Ending::HostLost | Ending::Unsure => self.set_back(now),
        }
        self.is_up() && self.not_started_in_a_row >= NOT_STARTED_MAX
    }

    /// It could not start an attempt for want of descriptors and the like. Alone it is never
    /// excluded for that.
    pub(super) fn ended_without_room(&mut self, now: Instant) {
        self.in_flight -= 1;
        self.set_back(now);
    }

    /// It has not started anything for more than so many pauses.
    pub(super) const fn lacks_room_for(&self, pauses: u32) -> bool {
        self.setbacks_in_a_row > pauses
    }

    /// One pause for all that came back together.
    fn set_back(&mut self, now: Instant) {
        if self.paused_until <= now {
            self.setbacks_in_a_row += 1;
            self.paused_until = now + pause(self.setbacks_in_a_row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(slots: u16, wall_us: u64) -> HostLoad {
        let mut host = HostLoad::new(slots, None);
        for _ in 0..100 {
            host.in_flight = 1;
            host.ended(Instant::ZERO, &Ending::Exited(0), wall_us, true);
        }
        host
    }

    #[test]
    fn the_queue_holds_a_quarter_of_a_second_of_work() {
        assert_eq!(HostLoad::new(2, None).limit(), 2 + 1, "unknown: one");
        assert_eq!(measured(2, 1_000).limit(), 2 + 8, "short items: 8 or twice the slots");
        assert_eq!(measured(16, 1_000).limit(), 16 + 32);
        assert_eq!(measured(4, 250_000).limit(), 4 + 4, "each slot has 250 ms of it");
        assert_eq!(measured(4, 10_000_000).limit(), 4 + 1);
    }

    #[test]
    fn explicit_jobs_are_exact() {
        let mut host = HostLoad::new(2, Some(5));
        assert_eq!((host.limit(), host.allowed(Instant::ZERO, true)), (5, 5));
        host.standing = HostStanding::Lost;
        assert_eq!(host.allowed(Instant::ZERO, false), 0);
    }

    #[test]
    fn pauses_double_up_to_a_limit() {
        assert_eq!(pause(1), PAUSE);
        assert_eq!(pause(3), PAUSE * 4);
        assert_eq!(pause(u32::MAX), PAUSE * 64);
    }
}
