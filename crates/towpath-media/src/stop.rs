//! The wish that a long computation end.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::schedule::ScheduleError;

/// Asked by long computations whether to end, at least every tenth of a second for the longest
/// trace that there may be: whoever sets the flag gets [`ScheduleError::Interrupted`].
#[derive(Clone, Copy, Debug)]
pub struct Stop<'a>(Option<&'a AtomicBool>);

impl<'a> Stop<'a> {
    /// Goes on to the end.
    pub const NEVER: Self = Self(None);

    /// Ends when this is set.
    pub const fn when(flag: &'a AtomicBool) -> Self {
        Self(Some(flag))
    }

    /// An error if it is set.
    pub fn check(self) -> Result<(), ScheduleError> {
        match self.0 {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(ScheduleError::Interrupted),
            _ => Ok(()),
        }
    }
}
