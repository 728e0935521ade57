//! Processor time of a host, for what it sends and what it receives.
//!
//! A channel brings work of `burst + rate·t` like its bits: each counted packet costs so much per
//! packet and per byte. The engine's thread serves it first come first served, with at most the
//! reserved share of one processor, and something else may keep the processor for `blocking`. So
//! every channel's delay is at most the budget iff `Σ work burst ≤ (budget − blocking)·share`.

use super::load::Load;
use super::refusal::Shortage;
use crate::topology::Cpu;

/// Work in picoseconds of processor time; rates in ps per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    burst_ps: u128,
    rate_ps: u128,
}

/// What is reserved of a host's processor, and what may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuLoad {
    /// Share of one processor that is reserved, in parts per million, rounded up.
    pub reserved_ppm: u64,
    /// Share that may be.
    pub limit_ppm: u64,
    /// Processor time of all bursts at once in ns, rounded up.
    pub burst_ns: u64,
    /// What fits the delay budget beside what else keeps the processor, in ns.
    pub burst_limit_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuState {
    limits: Option<Cpu>,
    used: Work,
}

impl CpuState {
    pub(super) const fn new(limits: Option<Cpu>) -> Self {
        Self { limits, used: Work { burst_ps: 0, rate_ps: 0 } }
    }

    /// What a load costs here, its packets being at least `counted_bits` each: rounded up.
    pub(super) fn work(&self, load: &Load, counted_bits: u64) -> Work {
        let Some(cpu) = self.limits else { return Work::default() };
        let counted = u128::from(counted_bits.max(1));
        let bytes = counted.div_ceil(8);
        let packet = u128::from(cpu.packet_ns) * 1000 + bytes * u128::from(cpu.byte_ps);
        let of = |bits: u64| u128::from(bits).saturating_mul(packet).div_ceil(counted);
        Work { burst_ps: of(load.slow.burst_bits), rate_ps: of(load.rate_bps()) }
    }

    /// What is reserved; `None` where the processor is not modelled.
    pub(super) fn load(&self) -> Option<CpuLoad> {
        let limits = self.limits?;
        let up = |ps: u128, unit| u64::try_from(ps.div_ceil(unit)).unwrap_or(u64::MAX);
        Some(CpuLoad {
            reserved_ppm: up(self.used.rate_ps, 1_000_000),
            limit_ppm: limits.limit_ppm.into(),
            burst_ns: up(self.used.burst_ps, 1000),
            burst_limit_ns: u64::try_from(within_ps(&limits) / 1000).unwrap_or(u64::MAX),
        })
    }

    /// The delay promised here; 0 where the processor is not modelled.
    pub(super) fn budget_ns(&self) -> u64 {
        self.limits.map_or(0, |cpu| cpu.budget_ns)
    }

    pub(super) fn check(&self, work: Work) -> Result<(), Shortage> {
        let Some(cpu) = self.limits else { return Ok(()) };
        // A share in ppm is as many µs per second: 10⁶ ps.
        let limit = u128::from(cpu.limit_ppm) * 1_000_000;
        let free = limit.saturating_sub(self.used.rate_ps);
        if work.rate_ps > free {
            let ppm = |ps: u128| u64::try_from(ps / 1_000_000).unwrap_or(u64::MAX);
            return Err(Shortage::CpuPpm {
                asked: ppm(work.rate_ps.saturating_add(999_999)),
                free: ppm(free),
            });
        }
        let free = within_ps(&cpu).saturating_sub(self.used.burst_ps);
        if work.burst_ps > free {
            let ns = |ps: u128| u64::try_from(ps / 1000).unwrap_or(u64::MAX);
            return Err(Shortage::CpuBurstNs {
                asked: ns(work.burst_ps.saturating_add(999)),
                free: ns(free),
            });
        }
        Ok(())
    }

    pub(super) const fn add(&mut self, work: Work) {
        self.used.burst_ps += work.burst_ps;
        self.used.rate_ps += work.rate_ps;
    }

    pub(super) const fn remove(&mut self, work: Work) {
        self.used.burst_ps -= work.burst_ps;
        self.used.rate_ps -= work.rate_ps;
    }
}

/// Work that is done within a budget in ps: what the share gives beside the blocking.
fn within_ps(cpu: &Cpu) -> u128 {
    u128::from(cpu.budget_ns - cpu.blocking_ns) * u128::from(cpu.limit_ppm) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Bucket;

    /// 1000-byte packets at 2 µs + 1 ns/B cost 3 µs each: 1000 a second are 3000 ppm.
    #[test]
    fn processor_time_by_hand() {
        let cpu = Cpu {
            packet_ns: 2000,
            byte_ps: 1000,
            limit_ppm: 950_000,
            blocking_ns: 50_000,
            budget_ns: 1_050_000,
        };
        let mut state = CpuState::new(Some(cpu));
        let bucket = Bucket { burst_bits: 80_000, rate_bps: 8_000_000 };
        let channel = Load::two(bucket, bucket, 8000, 8000);
        let work = state.work(&channel, 8000);
        assert_eq!(work, Work { burst_ps: 30_000_000, rate_ps: 3_000_000_000 });
        // Bursts of 30 µs in 950 µs: 31 channels.
        for _ in 0..31 {
            assert_eq!(state.check(work), Ok(()));
            state.add(work);
        }
        assert_eq!(state.check(work), Err(Shortage::CpuBurstNs { asked: 30_000, free: 20_000 }));
        let load = CpuLoad {
            reserved_ppm: 93_000,
            limit_ppm: 950_000,
            burst_ns: 930_000,
            burst_limit_ns: 950_000,
        };
        assert_eq!(state.load(), Some(load));
        assert_eq!(CpuState::new(None).load(), None);
        let busy = Bucket { burst_bits: 8000, rate_bps: 8_000_000 * 300 };
        let load = Load { fast: busy, slow: busy, ..channel };
        let work = state.work(&load, 8000);
        assert_eq!(state.check(work), Err(Shortage::CpuPpm { asked: 900_000, free: 857_000 }));
    }
}
