//! The machine under the measurement: processors, their time, what the kernel says of itself.

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Keeps this process on one processor.
pub(super) fn pin(processor: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(sched_setaffinity(None, &set)?)
}

/// Processor time that this process has used, in seconds.
pub(super) fn cpu_s() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// Processors of this machine, those that this process may not use included.
pub(super) fn processors() -> usize {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines().filter(|l| l.starts_with("processor")).count().max(1)
}

/// Processor's name, processors, kernel.
pub(super) fn description() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": "));
    let name = name.map_or("unknown processor", |(_, n)| n.trim());
    let count = processors();
    let kernel = rustix::system::uname();
    format!("{name}, {count} processors, Linux {}", kernel.release().to_string_lossy())
}
