//! What is run.

use std::time::Duration;

use serde::Serialize;

use super::timer::Timer;

/// Who keeps timers and repeats packets, and who acknowledges (§2.2, Figure 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Each sending processor, and each receiving one to it: separate connections.
    Drda,
    /// One processor of the sender, one of the receiver.
    Crca,
    /// Each sending processor; one of the receiver.
    Drca,
    /// One processor of the sender; each receiving one.
    Crda,
}

impl Policy {
    /// All, in the source's order.
    pub const ALL: [Self; 4] = [Self::Drda, Self::Crca, Self::Drca, Self::Crda];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drda => "drda",
            Self::Crca => "crca",
            Self::Drca => "drca",
            Self::Crda => "crda",
        }
    }

    /// One processor keeps all timers.
    pub const fn central_timers(self) -> bool {
        matches!(self, Self::Crca | Self::Crda)
    }

    /// One processor acknowledges everything.
    pub const fn central_acks(self) -> bool {
        matches!(self, Self::Crca | Self::Drca)
    }
}

/// Which ring a processor's next packet takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheduler {
    /// In turn, each processor by itself, all in the same order.
    RoundRobin,
    /// In turn, each processor in an order of its own.
    Permuted,
    /// The least of queue and last rotation of the token.
    Adaptive,
}

impl Scheduler {
    /// All.
    pub const ALL: [Self; 3] = [Self::RoundRobin, Self::Permuted, Self::Adaptive];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "rr",
            Self::Permuted => "permuted",
            Self::Adaptive => "adaptive",
        }
    }
}

/// One run. The default is the source's 2-bus node under even load (Tables 1 and 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ParallelSpec {
    /// Protocol processors of a node.
    pub processors: usize,
    /// Rings.
    pub links: usize,
    /// Who keeps timers and acknowledges.
    pub policy: Policy,
    /// Which ring is next.
    pub scheduler: Scheduler,
    /// How long is waited for an acknowledgement.
    pub timer: Timer,
    /// Others' load changes by steps of a tenth, on half of the rings up where it goes down on the
    /// others; otherwise it is 30 % everywhere.
    pub uneven: bool,
    /// Packets lost on the rings.
    pub loss_ppm: u32,
    /// Packets that a processor may have under way; with central timers all together so many times
    /// as many as there are processors.
    pub window: usize,
    /// A time-out of a packet of which no copy was lost repeats it; otherwise it is only counted,
    /// as the source's computed time-outs.
    pub repeats: bool,
    /// Packets that leave at each visit of a ring's token at most.
    pub packets_per_token: usize,
    /// Instructions per microsecond of a processor.
    pub mips: u32,
    /// What it costs a processor to tell another one of its node something, or to be told.
    pub tell_instructions: u32,
    /// Rates of the two buses of a node: application to processors, processors to rings.
    pub bus_bps: u64,
    /// How long is measured, after a fifth of that.
    pub measured: Duration,
    /// Feeds every random draw.
    pub seed: u64,
}

/// Limits of a run.
const PROCESSORS_MAX: usize = 64;
const LINKS_MAX: usize = 64;

impl Default for ParallelSpec {
    fn default() -> Self {
        Self::TWO_BUS
    }
}

impl ParallelSpec {
    /// The source's 2-bus node under even load.
    pub const TWO_BUS: Self = Self {
        processors: 4,
        links: 6,
        policy: Policy::Drda,
        scheduler: Scheduler::RoundRobin,
        timer: Timer::Source,
        uneven: false,
        loss_ppm: 0,
        window: 6,
        repeats: false,
        packets_per_token: 1,
        mips: 25,
        tell_instructions: 100,
        bus_bps: 800_000_000,
        measured: Duration::from_secs(1),
        seed: 1,
    };

    /// What the source printed for this run, whatever the seed, the time-outs and how long is
    /// measured: Mbit/s and microseconds of a round trip (Table 3, 2-bus). One digit of the first
    /// row's rate cannot be read ("3*i"): 301 agrees with the other rows by Little's law.
    pub fn source(&self) -> Option<(u64, u64)> {
        let Self { scheduler, timer, uneven, repeats, measured, seed, .. } = *self;
        let tables = Self { scheduler, timer, uneven, repeats, measured, seed, ..Self::default() };
        match (scheduler, uneven) {
            _ if *self != tables => None,
            (Scheduler::RoundRobin, false) => Some((301, 2253)),
            (Scheduler::RoundRobin, true) => Some((268, 2601)),
            (Scheduler::Adaptive, true) => Some((302, 2245)),
            _ => None,
        }
    }

    /// The first field that is out of range: its name, its value, what it must be.
    pub fn out_of_range(&self) -> Option<(&'static str, String, &'static str)> {
        let bounds = [
            ("processors", self.processors as u64, 1, PROCESSORS_MAX as u64, "between 1 and 64"),
            ("links", self.links as u64, 1, LINKS_MAX as u64, "between 1 and 64"),
            ("loss_ppm", self.loss_ppm.into(), 0, 500_000, "at most 500000"),
            ("window", self.window as u64, 1, 1000, "between 1 and 1000"),
            ("packets_per_token", self.packets_per_token as u64, 1, 1000, "between 1 and 1000"),
            ("mips", self.mips.into(), 1, 100_000, "between 1 and 100000"),
            ("tell_instructions", self.tell_instructions.into(), 0, 100_000, "at most 100000"),
            ("bus_bps", self.bus_bps, 1_000_000, 1 << 44, "between 10^6 and 2^44"),
        ];
        let beyond = bounds.into_iter().find(|(_, v, lo, hi, _)| !(lo..=hi).contains(&v));
        if let Some((field, value, _, _, must)) = beyond {
            return Some((field, value.to_string(), must));
        }
        let time = Duration::from_millis(10)..=Duration::from_mins(1);
        let measured = format!("{:?}", self.measured);
        (!time.contains(&self.measured)).then_some(("measured", measured, "between 10ms and 60s"))
    }
}
