//! A timer among what a task's descriptor stands for: programs that wait on their own sleep
//! without a deadline.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use towpath_io::shared::{Interest, Waiter, aside};

/// Key of the timer among what is waited for.
const ALARM: u64 = 3;

/// The timer, made when it is first needed. Invariant: it runs, or has run out, exactly while
/// `is_set`.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    timer: Option<OwnedFd>,
    is_set: bool,
}

impl Alarm {
    /// Has `waiter` report something at `at`, and never by itself where that is `None`. Where
    /// there are no descriptors left, nothing is reported.
    pub(crate) fn set(&mut self, waiter: &Waiter, at: Option<Instant>) {
        if at.is_none() && !self.is_set {
            return;
        }
        if self.timer.is_none() {
            self.timer = timer(waiter);
        }
        let Some(timer) = &self.timer else { return };
        // Zero would stop it.
        let left = at.map(|at| at.saturating_duration_since(Instant::now()).as_nanos().max(1));
        let left = left.unwrap_or(0);
        let it_value = Timespec {
            tv_sec: i64::try_from(left / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (left % 1_000_000_000) as i64,
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let time = Itimerspec { it_interval, it_value };
        let set = timerfd_settime(timer, TimerfdTimerFlags::empty(), &time);
        self.is_set = set.is_ok() && at.is_some();
    }
}

fn timer(waiter: &Waiter) -> Option<OwnedFd> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = aside(timerfd_create(TimerfdClockId::Monotonic, flags).ok()?);
    let read = Interest { readable: true, writable: false };
    waiter.watch(&timer, ALARM, read).ok()?;
    Some(timer)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::time::timerfd_gettime;
    use towpath_io::shared::Bell;

    use super::*;

    #[test]
    fn it_runs_as_long_as_it_was_set_for_and_stops() {
        let waiter = Waiter::new(Bell::new().unwrap()).unwrap();
        let mut alarm = Alarm::default();
        alarm.set(&waiter, None);
        assert!(alarm.timer.is_none(), "nothing is made for nothing");
        let left = |alarm: &Alarm| {
            let left = timerfd_gettime(alarm.timer.as_ref().unwrap()).unwrap().it_value;
            Duration::new(left.tv_sec as u64, left.tv_nsec as u32)
        };
        let exact = Duration::from_millis(90_500);
        let begin = Instant::now();
        alarm.set(&waiter, Some(begin + exact));
        let least = exact.saturating_sub(begin.elapsed());
        let rest = left(&alarm);
        assert!(alarm.is_set && rest <= exact, "{rest:?}");
        assert!(rest + Duration::from_millis(1) >= least.saturating_sub(begin.elapsed()));
        alarm.set(&waiter, None);
        assert!(!alarm.is_set && left(&alarm).is_zero());
        // What is over already runs out at once, and does not stop it.
        alarm.set(&waiter, Some(begin));
        assert!(alarm.is_set);
    }
}
