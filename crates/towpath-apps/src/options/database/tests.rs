//! Files that are written, asked, full, locked, cut off, and of others.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum as _;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

use super::super::market::{MarketArgs, market};
use super::file::{DatabaseError, File};
use super::query::{Query, ask};
use super::{About, Limits, QueryArgs, Recording, query};
use crate::exchange::local::run;

/// 256 KiB, and nobody is waited for.
const SMALL: Limits = Limits { size_bytes: 1 << 18, rows: 5000, wait: Duration::ZERO };

fn args(path: &Path, trades: usize) -> MarketArgs {
    let database = Some(path.to_path_buf());
    MarketArgs { trades, file: None, seed: 5, weight: 0.3, database, database_mib: 64 }
}

fn about(trades: usize) -> About {
    About { at_unix_s: 7, source: "made up".into(), seed: Some(u64::MAX), weight: 0.1, trades }
}

fn asked(file: &Path, name: Query) -> QueryArgs {
    QueryArgs { file: file.to_path_buf(), name, run: None, json: false, csv: false }
}

fn rows(file: &Path, name: Query) -> Vec<Vec<Value>> {
    ask(&asked(file, name), SMALL).unwrap().rows
}

fn real(value: &Value) -> f64 {
    match value {
        Value::Real(number) => *number,
        Value::Integer(number) => *number as f64,
        other => panic!("{other:?}"),
    }
}

fn home() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("market.db");
    (dir, path)
}

fn refused(path: &Path) -> DatabaseError {
    Recording::begin(path, SMALL, &about(1)).map(drop).unwrap_err()
}

/// A trade's errors by models, without the queries.
struct Error {
    series: f64,
    by: [Option<f64>; 4],
}

struct Errors(Vec<Error>);

impl Errors {
    fn of(path: &Path) -> Self {
        let connection = Connection::open(path).unwrap();
        let sql = "SELECT series, bs - paid, amc - paid, eus - paid, ams - paid FROM prices";
        let mut statement = connection.prepare(sql).unwrap();
        let error = |row: &rusqlite::Row| {
            let by = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
            Ok(Error { series: row.get::<_, i64>(0)? as f64, by })
        };
        Self(statement.query_map([], error).unwrap().map(Result::unwrap).collect())
    }

    fn rms(&self, of: impl Fn(&Error) -> bool, model: usize) -> f64 {
        let errors: Vec<f64> =
            self.0.iter().filter(|e| of(e)).filter_map(|e| e.by[model]).collect();
        (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt()
    }
}

#[test]
fn any_number_of_tasks_keeps_the_same_and_says_what_it_says_without() {
    let (dir, _) = home();
    let plain = {
        let args = MarketArgs { database: None, ..args(dir.path(), 3000) };
        let mut all = run(2, |exchange| market(exchange, &args));
        all.swap_remove(0).unwrap().unwrap().text().replace("by 2 tasks", "")
    };
    let mut first: Option<Vec<Vec<Vec<Value>>>> = None;
    for size in [1, 2, 3, 4, 7, 8] {
        let path = dir.path().join(format!("{size}.db"));
        let mut all = run(size, |exchange| market(exchange, &args(&path, 3000)));
        let said = all.swap_remove(0).unwrap().unwrap();
        assert_eq!(said.text().replace(&format!("by {size} tasks"), ""), plain);
        let kept = |name: &Query| *name != Query::Runs;
        let answers: Vec<_> =
            Query::value_variants().iter().filter(|n| kept(n)).map(|n| rows(&path, *n)).collect();
        assert_eq!(answers, *first.get_or_insert(answers.clone()), "{size} tasks");
    }
}

#[test]
fn queries_say_what_the_market_says_by_every_part() {
    let (_dir, path) = home();
    let mut all = run(2, |exchange| market(exchange, &args(&path, 5000)));
    let said = all.swap_remove(0).unwrap().unwrap();
    let models = rows(&path, Query::Models);
    assert_eq!(models.len(), 4);
    for row in &models {
        let Value::Text(model) = &row[0] else { panic!("{row:?}") };
        let [mean, rms] = [real(&row[2]), real(&row[3])].map(|figure| format!("{figure:.6}"));
        let line = said.text().lines().find(|line| line.starts_with(model.as_str())).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[1..], [&real(&row[1]).to_string(), &mean, &rms], "{line}");
    }
    assert_eq!(real(&models[0][1]), 5000.0);
    assert_eq!(real(&models[2][1]), 20.0);
    // Trades are numbered from 0, through all rounds.
    let raw = Connection::open(&path).unwrap();
    let numbers = "SELECT min(trade) || ' ' || max(trade) || ' ' || count(*) FROM prices";
    let numbers: String = raw.query_row(numbers, [], |row| row.get(0)).unwrap();
    assert_eq!(numbers, "0 4999 5000");
    // Parts make the whole.
    for name in [Query::Moneyness, Query::Maturity, Query::Days] {
        let parts = rows(&path, name);
        for whole in &models {
            let own: Vec<_> = parts.iter().filter(|row| row[1] == whole[0]).collect();
            let trades: f64 = own.iter().map(|row| real(&row[2])).sum();
            let mean = own.iter().map(|row| real(&row[2]) * real(&row[3])).sum::<f64>() / trades;
            let square = own.iter().map(|row| real(&row[2]) * real(&row[4]).powi(2)).sum::<f64>();
            assert_eq!(trades, real(&whole[1]), "{name:?}");
            assert!((mean - real(&whole[2])).abs() < 1e-12, "{name:?}");
            assert!(((square / trades).sqrt() - real(&whole[3])).abs() < 1e-12, "{name:?}");
        }
    }
    let series = rows(&path, Query::Series);
    assert_eq!(series.len(), 13);
    let errors = Errors::of(&path);
    for row in &series {
        assert_eq!(real(&row[1]), 80.0 + 2.5 * real(&row[0]));
        let [bs, amc] = [0, 1].map(|model| errors.rms(|e| e.series == real(&row[0]), model));
        let least = if bs <= amc { "BS" } else { "AMC" };
        assert_eq!(row[2], Value::Text(least.into()), "{row:?}: {bs}, {amc}");
        assert!((real(&row[5]) - bs.min(amc)).abs() < 1e-12, "{row:?}: {bs}, {amc}");
    }
    for row in rows(&path, Query::Best) {
        let of = |e: &Error| e.series == real(&row[0]) && e.by[2].is_some();
        let least = (0..4).map(|model| errors.rms(of, model)).fold(f64::MAX, f64::min);
        assert!((real(&row[5]) - least).abs() < 1e-12, "{row:?}: {least}");
    }
    let worst = rows(&path, Query::Worst);
    let farthest = errors.0.iter().flat_map(|e| e.by).flatten().fold(0.0, |m, e| e.abs().max(m));
    assert_eq!((worst.len(), real(&worst[0][5]).abs()), (20, farthest));
    assert_eq!(rows(&path, Query::Volatility).len(), 120);
}

#[test]
fn answers_are_tables_json_and_csv_and_runs_add_up() {
    let (_dir, path) = home();
    for trades in [600, 700] {
        run(2, |exchange| market(exchange, &args(&path, trades))).swap_remove(0).unwrap();
    }
    let said = |args: QueryArgs| {
        let mut all = run(2, |exchange| query(exchange, &args));
        assert!(all.pop().unwrap().unwrap().is_none());
        Ok::<_, anyhow::Error>(all.pop().unwrap()?.unwrap().text().to_owned())
    };
    let json = said(QueryArgs { json: true, ..asked(&path, Query::Models) }).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["run"].as_i64(), json["rows"][1]["trades"].as_i64()), (Some(2), Some(700)));
    assert!(json["rows"][1]["error_rms"].as_f64().unwrap() > 0.0);
    let first = QueryArgs { run: Some(1), csv: true, ..asked(&path, Query::Models) };
    let csv = said(first).unwrap();
    assert!(csv.starts_with("model,trades,error_mean,error_rms\nBS,600,"), "{csv}");
    let table = said(asked(&path, Query::Runs)).unwrap();
    assert!(table.contains("made up") && table.contains("600") && table.contains("700"));
    let none = said(QueryArgs { run: Some(3), ..asked(&path, Query::Days) }).unwrap_err();
    assert_eq!(none.to_string(), format!("{} has no run 3", path.display()));
}

#[test]
fn what_fills_or_is_cut_off_leaves_the_file_as_it_was() {
    let (_dir, path) = home();
    run(1, |exchange| market(exchange, &args(&path, 600))).swap_remove(0).unwrap();
    let before = std::fs::read(&path).unwrap();
    // 256 KiB are not enough for 4000 trades: SQLite says so as it does where a disk is full.
    let mut recording = Recording::begin(&path, SMALL, &about(4000)).unwrap();
    let walk = vec![rows_of(1); 4000];
    let error = recording.prices(&walk).and_then(|()| recording.finish(&[])).unwrap_err();
    let full = DatabaseError::Full { path: path.clone(), size_bytes: SMALL.size_bytes };
    assert_eq!(error, full);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // A run that does not come to its end.
    let mut recording = Recording::begin(&path, SMALL, &about(10)).unwrap();
    recording.prices(&[rows_of(1)]).unwrap();
    drop(recording);
    assert_eq!(rows(&path, Query::Runs).len(), 1);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let rows = Recording::begin(&path, SMALL, &about(4401)).map(drop).unwrap_err().to_string();
    let said =
        format!("{} has 600 trades: with 4401 more there would be over 5000", path.display());
    assert_eq!(rows, said);
}

fn rows_of(series: usize) -> (super::super::market::Trade, super::super::market::Priced) {
    use super::super::contract::{Contract, Dividend, Kind};
    let of = Contract {
        kind: Kind::Call,
        spot: 90.0,
        strike: 100.0,
        rate: 0.1,
        carry: 0.0,
        volatility: 0.3,
        maturity: 0.25,
    };
    let dividend = Dividend { amount: 1.0, time: 0.1 };
    let trade = super::super::market::Trade { series, day: 0, of, dividend, paid: 2.0 };
    (trade, [Some(2.1), Some(1.9), None, None])
}

/// What a machine that stops leaves: the file and its journal, as they are in the middle of a run
/// that has outgrown SQLite's memory.
#[test]
fn what_a_stopped_machine_leaves_is_not_read_and_undone_by_the_next_run() {
    let (dir, path) = home();
    run(1, |exchange| market(exchange, &args(&path, 600))).swap_remove(0).unwrap();
    let large = Limits { size_bytes: 1 << 26, rows: 1_000_000, ..SMALL };
    let mut recording = Recording::begin(&path, large, &about(60_000)).unwrap();
    recording.prices(&vec![rows_of(1); 60_000]).unwrap();
    let left = dir.path().join("left.db");
    for end in ["", "-journal"] {
        let from = format!("{}{end}", path.display());
        std::fs::copy(from, format!("{}{end}", left.display())).unwrap();
    }
    let refused = ask(&asked(&left, Query::Runs), SMALL).map(drop).unwrap_err();
    assert_eq!(refused, DatabaseError::CutOff(left.clone()));
    drop(recording);
    Recording::begin(&left, SMALL, &about(0)).unwrap().finish(&[]).unwrap();
    let trades: Vec<_> = rows(&left, Query::Runs).into_iter().map(|row| row[5].clone()).collect();
    assert_eq!(trades, [Value::Integer(600), Value::Integer(0)]);
    assert_eq!(rows(&left, Query::Runs)[..1], rows(&path, Query::Runs));
}

#[test]
fn a_market_that_fills_its_database_says_so_and_keeps_nothing() {
    let (_dir, path) = home();
    let args = MarketArgs { database_mib: 1, ..args(&path, 20_000) };
    for size in [1, 3] {
        let all = run(size, |exchange| market(exchange, &args));
        let said = all[0].as_ref().map(drop).unwrap_err().to_string();
        let full = format!("{} is full: at most 1048576 bytes", path.display());
        assert!(said.starts_with(&full), "{said}");
        assert_eq!(ask(&asked(&path, Query::Runs), SMALL).map(|a| a.run).unwrap_err(), {
            DatabaseError::NoRuns(path.clone())
        });
    }
}

#[test]
fn who_writes_keeps_others_from_writing_but_not_from_reading() {
    let (_dir, path) = home();
    run(1, |exchange| market(exchange, &args(&path, 600))).swap_remove(0).unwrap();
    let mut first = Recording::begin(&path, SMALL, &about(1)).unwrap();
    assert_eq!(refused(&path), DatabaseError::Locked { path: path.clone(), wait_ms: 0 });
    first.prices(&[rows_of(2)]).unwrap();
    assert_eq!(rows(&path, Query::Runs).len(), 1);
    first.finish(&[(0.2, 0.3)]).unwrap();
    let runs = rows(&path, Query::Runs);
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[1][3], Value::Text(u64::MAX.to_string()));
}

#[test]
fn files_of_others_of_later_times_and_without_writing_are_refused() {
    let (dir, path) = home();
    let missing = ask(&asked(&path, Query::Models), SMALL).map(drop).unwrap_err().to_string();
    assert!(missing.contains("unable to open"), "{missing}");
    let text = dir.path().join("text");
    std::fs::write(&text, "spot,strike\n".repeat(200)).unwrap();
    assert_eq!(refused(&text), DatabaseError::NoDatabase(text.clone()));
    let said = ask(&asked(&text, Query::Models), SMALL).map(drop).unwrap_err().to_string();
    assert_eq!(said, format!("{} is no database", text.display()));
    let other = dir.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert_eq!(refused(&other), DatabaseError::Foreign(other.clone()));
    run(1, |exchange| market(exchange, &args(&path, 600))).swap_remove(0).unwrap();
    // A reader's connection cannot write, whoever runs the test.
    let readable = File::open(&path, SMALL, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let error = readable.begun().and_then(|file| Recording::into(file, &about(1))).map(drop);
    assert_eq!(error.unwrap_err(), DatabaseError::ReadOnly(path.clone()));
    let later = Connection::open(&path).unwrap();
    later.execute_batch("PRAGMA user_version = 2").unwrap();
    let newer = DatabaseError::Newer { path: path.clone(), version: 2 };
    assert_eq!(refused(&path), newer);
    assert_eq!(ask(&asked(&path, Query::Models), SMALL).map(drop).unwrap_err(), newer);
    let nowhere = refused(&dir.path().join("no/such/directory"));
    assert!(nowhere.to_string().contains("unable to open"), "{nowhere}");
}
