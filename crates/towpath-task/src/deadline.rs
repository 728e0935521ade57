//! Until when a call waits.

use std::time::{Duration, Instant};

use rustix::event::Timespec;

/// When a wait is over; `None`: never.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(pub(crate) Option<Instant>);

impl Deadline {
    pub(crate) const NEVER: Self = Self(None);

    /// `timeout` from now; one too far to be counted is none.
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|t| Instant::now().checked_add(t)))
    }

    pub(crate) fn is_over(self) -> bool {
        self.0.is_some_and(|at| at <= Instant::now())
    }

    /// Whether more than `time` is left of it.
    pub(crate) fn is_beyond(self, time: Duration) -> bool {
        self.0.is_none_or(|at| at.saturating_duration_since(Instant::now()) > time)
    }

    /// What is left of it.
    pub(crate) fn left(self) -> Option<Timespec> {
        let left = self.0?.saturating_duration_since(Instant::now());
        let tv_sec = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
        Some(Timespec { tv_sec, tv_nsec: left.subsec_nanos().into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_time_is_told_to_the_nanosecond() {
        assert!(Deadline::NEVER.left().is_none() && !Deadline::NEVER.is_over());
        let now = Instant::now();
        let past = Deadline(Some(now));
        let left = past.left().unwrap();
        assert_eq!((left.tv_sec, left.tv_nsec, past.is_over()), (0, 0, true));
        let long = Deadline::after(Some(Duration::from_hours(2)));
        let left = long.left().unwrap();
        assert!((7100..7200).contains(&left.tv_sec) && left.tv_nsec < 1_000_000_000);
        assert!(!long.is_over());
        let hour = Duration::from_hours(1);
        assert!(long.is_beyond(hour) && Deadline::NEVER.is_beyond(hour));
        assert!(!long.is_beyond(3 * hour) && !past.is_beyond(Duration::ZERO));
        assert!(Deadline::after(None).0.is_none());
        assert!(Deadline::after(Some(Duration::MAX)).0.is_none(), "that is never");
    }
}
