//! Questions: how far each model is from what was paid, by this and that.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rusqlite::Row;
use rusqlite::types::Value;
use serde_json::json;
use towpath_report::plot::{Column, Table};

use super::file::{DatabaseError, File, Limits, MIB_DEFAULT};
use crate::exchange::Exchange;
use crate::report::Report;

/// Rows of an answer at most.
const ROWS_MAX: usize = 10_000;

/// A row for each price of a model: `error` is the price less what was paid.
const ERRORS: &str = "WITH errors AS (
  SELECT *, 'BS' AS model, 1 AS place, bs - paid AS error FROM prices WHERE run = ?1
  UNION ALL SELECT *, 'AMC', 2, amc - paid FROM prices WHERE run = ?1
  UNION ALL SELECT *, 'EUS', 3, eus - paid FROM prices WHERE run = ?1 AND eus IS NOT NULL
  UNION ALL SELECT *, 'AMS', 4, ams - paid FROM prices WHERE run = ?1 AND ams IS NOT NULL),
shared AS (SELECT * FROM errors WHERE eus IS NOT NULL AND ams IS NOT NULL) ";

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Query {
    /// Runs that are kept
    Runs,
    /// Errors of each model
    Models,
    /// Errors by the stock's price over the strike, in steps of 0.05
    Moneyness,
    /// Errors by years to maturity, in steps of 0.05
    Maturity,
    /// Errors day by day
    Days,
    /// Of each series the model that errs least, of those that priced all its trades
    Series,
    /// The same of all models, over those trades alone that all of them priced
    Best,
    /// The twenty prices that are farthest off
    Worst,
    /// Volatility day by day
    Volatility,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct QueryArgs {
    /// A database that `market --database` wrote
    pub(super) file: PathBuf,
    /// What is asked
    #[arg(value_enum, default_value = "models")]
    pub(super) name: Query,
    /// Of which run [default: the last]
    #[arg(long)]
    pub(super) run: Option<i64>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV instead of a table
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
}

/// How a column's values are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Words,
    Count,
    Figure,
    /// The square root of what the database says.
    Root,
}

type Heading = (&'static str, &'static str, Kind);

const TRADES: Heading = ("trades", "trades", Kind::Count);
const MEAN: Heading = ("mean error", "error_mean", Kind::Figure);
const RMS: Heading = ("RMS error", "error_rms", Kind::Root);
const MODEL: Heading = ("model", "model", Kind::Words);
const SERIES: Heading = ("series", "series", Kind::Count);
const STRIKE: Heading = ("strike", "strike", Kind::Figure);
const DAY: Heading = ("day", "day", Kind::Count);

impl Query {
    const fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Models => "models",
            Self::Moneyness => "moneyness",
            Self::Maturity => "maturity",
            Self::Days => "days",
            Self::Series => "series",
            Self::Best => "best",
            Self::Worst => "worst",
            Self::Volatility => "volatility",
        }
    }

    const fn columns(self) -> &'static [Heading] {
        match self {
            Self::Runs => &[
                ("run", "run", Kind::Count),
                ("begun, s since 1970", "at_unix_s", Kind::Count),
                ("trades from", "source", Kind::Words),
                ("seed", "seed", Kind::Words),
                ("weight", "weight", Kind::Figure),
                TRADES,
            ],
            Self::Models => &[MODEL, TRADES, MEAN, RMS],
            Self::Moneyness => {
                &[("S/K from", "moneyness_from", Kind::Figure), MODEL, TRADES, MEAN, RMS]
            }
            Self::Maturity => {
                &[("years from", "maturity_from_years", Kind::Figure), MODEL, TRADES, MEAN, RMS]
            }
            Self::Days => &[DAY, MODEL, TRADES, MEAN, RMS],
            Self::Series | Self::Best => &[SERIES, STRIKE, MODEL, TRADES, MEAN, RMS],
            Self::Worst => &[
                ("trade", "trade", Kind::Count),
                SERIES,
                DAY,
                MODEL,
                ("paid", "paid", Kind::Figure),
                ("error", "error", Kind::Figure),
            ],
            Self::Volatility => {
                &[DAY, ("known", "known", Kind::Figure), ("seen", "seen", Kind::Figure)]
            }
        }
    }

    /// All take a run as ?1.
    fn sql(self) -> String {
        let by = |what: &str| {
            format!(
                "{ERRORS} SELECT {what} AS part, model, count(*), avg(error), avg(error * error)
                 FROM errors GROUP BY part, place ORDER BY part, place"
            )
        };
        let least = |of: &str| {
            format!(
                "{ERRORS}, scores AS (
                   SELECT series, min(strike) AS strike, model, place, count(*) AS trades,
                     avg(error) AS mean, avg(error * error) AS square
                   FROM {of} GROUP BY series, place),
                 ranks AS (SELECT *, row_number() OVER (PARTITION BY series
                   ORDER BY trades DESC, square, place) AS rank FROM scores)
                 SELECT series, strike, model, trades, mean, square FROM ranks WHERE rank = 1
                 ORDER BY series"
            )
        };
        match self {
            Self::Runs => "SELECT id, at_unix_s, source, coalesce(seed, ''), weight, trades
                           FROM runs WHERE id > 0 OR id = ?1 ORDER BY id"
                .to_owned(),
            Self::Models => format!(
                "{ERRORS} SELECT model, count(*), avg(error), avg(error * error) FROM errors
                 GROUP BY place ORDER BY place"
            ),
            Self::Moneyness => by("CAST(spot / strike * 20 AS INTEGER) / 20.0"),
            Self::Maturity => by("CAST(maturity_years * 20 AS INTEGER) / 20.0"),
            Self::Days => by("day"),
            Self::Series => least("errors"),
            Self::Best => least("shared"),
            Self::Worst => format!(
                "{ERRORS} SELECT trade, series, day, model, paid, error FROM errors
                 ORDER BY abs(error) DESC, trade, place LIMIT 20"
            ),
            Self::Volatility => {
                "SELECT day, known, seen FROM volatility WHERE run = ?1 ORDER BY day".to_owned()
            }
        }
    }
}

/// Rows of an answer, and the run it is of.
pub(super) struct Answer {
    pub(super) run: i64,
    pub(super) rows: Vec<Vec<Value>>,
}

/// Asks the file; it is only read.
pub(super) fn ask(args: &QueryArgs, limits: Limits) -> Result<Answer, DatabaseError> {
    let file = File::to_read(&args.file, limits)?;
    let path = || args.file.clone();
    let last = file.number("SELECT coalesce(max(id), 0) FROM runs")?;
    if last == 0 {
        return Err(DatabaseError::NoRuns(path()));
    }
    let run = args.run.unwrap_or(last);
    if file.number(&format!("SELECT count(*) FROM runs WHERE id = {run}"))? == 0 {
        return Err(DatabaseError::NoRun { path: path(), run });
    }
    let columns = args.name.columns();
    let value = |row: &Row, at: usize| -> rusqlite::Result<Value> {
        Ok(match (columns[at].2, row.get(at)?) {
            (Kind::Root, Value::Real(square)) => Value::Real(square.sqrt()),
            (_, other) => other,
        })
    };
    let read = || {
        let mut statement = file.connection.prepare(&args.name.sql())?;
        let rows = statement
            .query_map([run], |row| (0..columns.len()).map(|at| value(row, at)).collect())?;
        rows.take(ROWS_MAX + 1).collect::<rusqlite::Result<Vec<Vec<Value>>>>()
    };
    let rows = read().map_err(|error| file.told(&error))?;
    match rows.len() > ROWS_MAX {
        true => Err(DatabaseError::Long { query: args.name.name(), most: ROWS_MAX }),
        false => Ok(Answer { run, rows }),
    }
}

/// For people, and for programs.
fn cell(kind: Kind, value: &Value) -> (String, String) {
    match (kind, value) {
        (_, Value::Text(text)) => (towpath_report::text::visible(text).into_owned(), text.clone()),
        (_, Value::Integer(number)) => (number.to_string(), number.to_string()),
        (Kind::Figure | Kind::Root, Value::Real(number)) => {
            (format!("{number:.6}"), number.to_string())
        }
        (_, Value::Real(number)) => (number.to_string(), number.to_string()),
        (_, Value::Null | Value::Blob(_)) => (String::new(), String::new()),
    }
}

fn as_json(args: &QueryArgs, answer: &Answer) -> String {
    let value = |value: &Value| match value {
        Value::Integer(number) => json!(number),
        Value::Real(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::Null | Value::Blob(_) => json!(null),
    };
    let object = |row: &Vec<Value>| {
        let pairs = args.name.columns().iter().zip(row);
        pairs.map(|((_, name, _), v)| ((*name).to_owned(), value(v))).collect()
    };
    let rows: Vec<serde_json::Map<_, _>> = answer.rows.iter().map(object).collect();
    format!("{}\n", json!({ "query": args.name.name(), "run": answer.run, "rows": rows }))
}

/// Answers, at the root.
pub(crate) fn query(
    exchange: &mut dyn Exchange,
    args: &QueryArgs,
) -> anyhow::Result<Option<Report>> {
    if exchange.rank() != 0 {
        return Ok(None);
    }
    let answer = ask(args, Limits::of_mib(MIB_DEFAULT))?;
    if args.json {
        return Ok(Some(Report::verbatim(as_json(args, &answer))));
    }
    let columns = args.name.columns();
    let head = |(heading, csv, kind): &Heading| match kind {
        Kind::Words => Column::words(heading, csv),
        _ => Column::figures(heading, csv),
    };
    let mut table = Table::new(&columns.iter().map(head).collect::<Vec<_>>());
    for row in &answer.rows {
        table.push(columns.iter().zip(row).map(|((_, _, kind), v)| cell(*kind, v)).collect());
    }
    if args.csv {
        return Ok(Some(Report::verbatim(table.csv())));
    }
    let mut report = Report::new("Market", &format!("Run {} of those kept", answer.run));
    report.table(args.name.name(), &table);
    report.file(&format!("{}.csv", args.name.name()), table.csv());
    Ok(Some(report))
}
