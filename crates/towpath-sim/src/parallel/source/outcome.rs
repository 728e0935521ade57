//! What came of it.

use serde::Serialize;

use super::file::{Mark, Measure};

/// One run with one seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Content that arrived, 10^6 bit/s.
    pub throughput_mbps: f64,
    /// From a segment's birth to its last acknowledgement, mean.
    pub latency_us: f64,
    /// One access of shared memory, with what it waited, mean.
    pub access_us: f64,
    /// Share of their time that the sender's processors worked.
    pub busy_percent: f64,
    /// What arrived when, as a hash.
    pub trace: u64,
}

impl Measured {
    pub(super) const fn of(&self, measure: Measure) -> f64 {
        match measure {
            Measure::ThroughputMbps => self.throughput_mbps,
            Measure::LatencyUs => self.latency_us,
            Measure::AccessUs => self.access_us,
            Measure::BusyPercent => self.busy_percent,
        }
    }
}

/// One run with every seed.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    /// In the order of the seeds.
    pub seeds: Vec<Measured>,
}

impl RunOutcome {
    /// The mean of all seeds.
    pub fn mean(&self, measure: Measure) -> f64 {
        let sum: f64 = self.seeds.iter().map(|seed| seed.of(measure)).sum();
        sum / self.seeds.len().max(1) as f64
    }
}

/// What is to be said of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within a tenth of what was printed.
    Within,
    /// Not that, but in the same order with all other cells of its row.
    Trend,
    /// The source contradicts itself there: nothing has to agree with it.
    Contradictory,
    /// Neither.
    Off,
}

impl Verdict {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Within => "within 10 %",
            Self::Trend => "trend",
            Self::Contradictory => "contradictory",
            Self::Off => "off",
        }
    }
}

/// One cell of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellOutcome {
    /// Its run.
    pub run: String,
    /// What was measured, with its unit.
    pub measure: &'static str,
    /// What the source printed.
    pub printed: f64,
    /// The mean of all seeds.
    pub ours: f64,
    /// Ours beside the source's; absent where that has no unit.
    pub difference_percent: Option<f64>,
    /// What was expected.
    pub mark: Mark,
    /// What came of it.
    pub verdict: Verdict,
    /// What there is to know of it.
    pub note: String,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableOutcome {
    /// Its name in the source.
    pub table: String,
    /// What it shows.
    pub about: String,
    /// Seeds of each run.
    pub seeds: u64,
    /// Its cells, in the file's order.
    pub cells: Vec<CellOutcome>,
    /// Of all runs with all seeds.
    pub trace_hash: String,
}
