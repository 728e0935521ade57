//! The same application with different numbers of ranks over one network.

use serde::Serialize;

use super::outcome::Outcome;

/// One number of ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Ranks.
    pub ranks: usize,
    /// When the last had done all.
    pub makespan_ns: u64,
    /// One rank's time over this one's; none without a record of one rank.
    pub speed_up: Option<f64>,
    /// Speed-up over ranks. It is the share of work in `shares_ppm` over `work_growth`.
    pub efficiency: Option<f64>,
    /// Work of all ranks over one rank's.
    pub work_growth: Option<f64>,
    /// Work, overhead of messages, and waiting, of all processors' time, in parts per million.
    pub shares_ppm: [u64; 3],
}

/// Why outcomes make no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScalingError {
    /// Two applications.
    #[error("records are of {first:?} and of {second:?}: a table is of one application")]
    Applications {
        /// One of them.
        first: String,
        /// Another.
        second: String,
    },
    /// Twice the same number of ranks.
    #[error("two records are of {ranks} ranks: a table has each number once")]
    Twice {
        /// How many.
        ranks: usize,
    },
}

/// A row for each outcome, by number of ranks.
///
/// # Errors
/// Outcomes of two applications, or two of as many ranks.
pub fn scaling(outcomes: &[Outcome]) -> Result<Vec<Row>, ScalingError> {
    let mut sorted: Vec<&Outcome> = outcomes.iter().collect();
    sorted.sort_by_key(|outcome| outcome.ranks.len());
    for pair in sorted.windows(2) {
        let [a, b] = [pair[0], pair[1]];
        if a.application != b.application {
            let (first, second) = (a.application.clone(), b.application.clone());
            return Err(ScalingError::Applications { first, second });
        }
        if a.ranks.len() == b.ranks.len() {
            return Err(ScalingError::Twice { ranks: a.ranks.len() });
        }
    }
    let one = sorted.first().filter(|first| first.ranks.len() == 1);
    let row = |outcome: &&Outcome| {
        let ranks = outcome.ranks.len();
        let ratio = |over: u64, under: u64| over as f64 / under.max(1) as f64;
        let speed_up = one.map(|one| ratio(one.makespan_ns, outcome.makespan_ns));
        Row {
            ranks,
            makespan_ns: outcome.makespan_ns,
            speed_up,
            efficiency: speed_up.map(|speed_up| speed_up / ranks as f64),
            work_growth: one.map(|one| ratio(outcome.busy_ns(), one.busy_ns())),
            shares_ppm: outcome.shares_ppm(),
        }
    };
    Ok(sorted.iter().map(row).collect())
}
