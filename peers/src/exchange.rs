//! The exchange of one task alone: there is nobody to tell anything.

use std::ops::Range;

/// As the applications have it; one task uses no more of it.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// The matrix has no factors.
    Machine(String),
}

impl std::fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::Machine(why) = self;
        f.write_str(why)
    }
}

impl std::error::Error for ExchangeError {}

pub(crate) type Result<T> = std::result::Result<T, ExchangeError>;

pub(crate) trait Exchange {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    /// All have the root's values.
    fn broadcast_slice(&mut self, _root: usize, _values: &mut [f64]) -> Result<()> {
        Ok(())
    }

    /// All values are the root's.
    fn gather_counts(
        &mut self,
        _root: usize,
        values: &[f64],
        _counts: &[usize],
    ) -> Result<Option<Vec<f64>>> {
        Ok(Some(values.to_vec()))
    }
}

/// The only task.
pub(crate) struct Alone;

impl Exchange for Alone {}

pub(crate) fn share(n: usize, _rank: usize, _size: usize) -> Range<usize> {
    0..n
}

/// How long a thread has worked.
pub(crate) mod record {
    use rustix::time::{ClockId, clock_gettime};

    /// Processor time of this thread, in nanoseconds.
    pub(crate) fn thread_ns() -> u64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}
