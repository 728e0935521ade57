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

    /// What is left of it.
    pub(crate) fn left(self) -> Option<Timespec> {
        let left = self.0?.saturating_duration_since(Instant::now());
        let tv_sec = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
        Some(Timespec { tv_sec, tv_nsec: left.subsec_nanos().into() })
    }
}
