//! Writing: one transaction for each run of a market.

use std::path::Path;

use rusqlite::params;

use super::super::market::{Priced, Trade};
use super::file::{DatabaseError, File, Limits};

/// What a run was asked for.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// When, in seconds since 1970 (UTC).
    pub(crate) at_unix_s: i64,
    /// The file of trades, or `made up`.
    pub(crate) source: String,
    /// Of made-up trades.
    pub(crate) seed: Option<u64>,
    /// Of a day in the running estimate.
    pub(crate) weight: f64,
    pub(crate) trades: usize,
}

/// A run in the middle of being written: nothing of it is in the file before its end.
pub(crate) struct Recording {
    file: File,
    run: i64,
    /// The next trade's number.
    next: i64,
}

impl Recording {
    /// Opens the file, or makes it, and keeps others from writing. What cannot be written is known
    /// from here, as far as it can be.
    pub(crate) fn begin(path: &Path, limits: Limits, about: &About) -> Result<Self, DatabaseError> {
        Self::into(File::to_write(path, limits)?, about)
    }

    pub(super) fn into(file: File, about: &About) -> Result<Self, DatabaseError> {
        let rows = file.number("SELECT coalesce(sum(trades), 0) FROM runs")? as u64;
        let (more, most) = (about.trades as u64, file.limits.rows);
        if rows.saturating_add(more) > most {
            return Err(DatabaseError::Rows { path: file.path.clone(), rows, more, most });
        }
        let sql = "INSERT INTO runs (at_unix_s, source, seed, weight, trades, program)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let values = params![
            about.at_unix_s,
            about.source,
            about.seed.map(|seed| seed.to_string()),
            about.weight,
            about.trades as i64,
            env!("CARGO_PKG_VERSION"),
        ];
        file.connection.execute(sql, values).map_err(|error| file.told(&error))?;
        let run = file.connection.last_insert_rowid();
        Ok(Self { file, run, next: 0 })
    }

    /// The next trades, with what the models say.
    pub(crate) fn prices(&mut self, trades: &[(Trade, Priced)]) -> Result<(), DatabaseError> {
        let insert = || {
            let sql = "INSERT INTO prices
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
            let mut statement = self.file.connection.prepare(sql)?;
            for (at, (trade, [bs, amc, eus, ams])) in trades.iter().enumerate() {
                statement.execute(params![
                    self.run,
                    self.next + at as i64,
                    trade.series as i64,
                    trade.day as i64,
                    trade.of.spot,
                    trade.of.strike,
                    trade.of.maturity,
                    trade.paid,
                    bs,
                    amc,
                    eus,
                    ams,
                ])?;
            }
            Ok(())
        };
        insert().map_err(|error| self.file.told(&error))?;
        self.next += trades.len() as i64;
        Ok(())
    }

    /// Each day's volatility, as known in the morning and as seen; and the run is in the file.
    pub(crate) fn finish(self, curve: &[(f64, f64)]) -> Result<(), DatabaseError> {
        let insert = || {
            let sql = "INSERT INTO volatility VALUES (?1, ?2, ?3, ?4)";
            let mut statement = self.file.connection.prepare(sql)?;
            for (day, (known, seen)) in curve.iter().enumerate() {
                statement.execute(params![self.run, day as i64, known, seen])?;
            }
            Ok(())
        };
        insert().map_err(|error| self.file.told(&error))?;
        self.file.commit()
    }
}
