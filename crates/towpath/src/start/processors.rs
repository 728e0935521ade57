//! How many processors this process may use.

/// Most processors that a host tells of.
const PROCESSORS_MAX: usize = 1024;

/// Processors that this process may use, at least 1: those it may run on, and no more than its
/// control groups grant it time for (`cpu.max`, or `cpu.cfs_quota_us` of version 1), in whole
/// processors. The standard library finds out both.
pub fn available() -> u16 {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    available.min(PROCESSORS_MAX) as u16
}
