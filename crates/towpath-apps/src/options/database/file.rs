//! The file: what is in it, how large it may be, and what can be wrong with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

/// Says in the file's header whose it is: "TowM".
const APPLICATION: i32 = 0x546f_774d;
/// Of the tables below.
const SCHEMA: i32 = 1;
pub(crate) const MIB_DEFAULT: u32 = 1024;
pub(crate) const MIB_MAX: u32 = 65_536;
/// SQLite's `SQLITE_READONLY_ROLLBACK`: a write was cut off, and cannot be undone by a reader.
const CUT_OFF: i32 = 776;

/// Prices stand in the order of trades; a model that did not price a trade has none. A series is a
/// made-up market's number, or that of a strike in the order of a file.
const TABLES: &str = "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, at_unix_s INTEGER NOT NULL, source TEXT NOT NULL, seed TEXT,
    weight REAL NOT NULL, trades INTEGER NOT NULL, program TEXT NOT NULL);
CREATE TABLE prices (
    run INTEGER NOT NULL REFERENCES runs(id), trade INTEGER NOT NULL, series INTEGER NOT NULL,
    day INTEGER NOT NULL, spot REAL NOT NULL, strike REAL NOT NULL, maturity_years REAL NOT NULL,
    paid REAL NOT NULL, bs REAL, amc REAL, eus REAL, ams REAL,
    PRIMARY KEY (run, trade)) WITHOUT ROWID;
CREATE TABLE volatility (
    run INTEGER NOT NULL REFERENCES runs(id), day INTEGER NOT NULL, known REAL NOT NULL,
    seen REAL NOT NULL, PRIMARY KEY (run, day)) WITHOUT ROWID;
";

/// How large a database gets, and how long another process is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Of the file.
    pub(crate) size_bytes: u64,
    /// Prices of trades, in all runs.
    pub(crate) rows: u64,
    pub(crate) wait: Duration,
}

impl Limits {
    /// For a file of so many MiB.
    pub(crate) const fn of_mib(mib: u32) -> Self {
        let (rows, wait) = (100_000_000, Duration::from_secs(5));
        Self { size_bytes: mib as u64 * (1 << 20), rows, wait }
    }
}

/// Why nothing was written, or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DatabaseError {
    #[error("{0} is no database")]
    NoDatabase(PathBuf),
    #[error("{0} is a database of another program")]
    Foreign(PathBuf),
    #[error("{path} has tables of version {version}: this program knows up to {SCHEMA}")]
    Newer { path: PathBuf, version: i32 },
    #[error("{0} cannot be written")]
    ReadOnly(PathBuf),
    #[error(
        "a write to {0} was cut off\nhint: `market --database` undoes it before it writes its own"
    )]
    CutOff(PathBuf),
    #[error("{path} is in use by another process, for more than {wait_ms} ms")]
    Locked { path: PathBuf, wait_ms: u128 },
    #[error(
        "{path} is full: at most {size_bytes} bytes, or its disk; nothing of this run is kept\n\
         hint: --database-mib"
    )]
    Full { path: PathBuf, size_bytes: u64 },
    #[error("{path} has {rows} trades: with {more} more there would be over {most}")]
    Rows { path: PathBuf, rows: u64, more: u64, most: u64 },
    #[error("{path} has no run {run}")]
    NoRun { path: PathBuf, run: i64 },
    #[error("{0} has no run yet")]
    NoRuns(PathBuf),
    #[error("the query {query} has more than {most} rows")]
    Long { query: &'static str, most: usize },
    #[error("{path}: {why}")]
    Other { path: PathBuf, why: String },
}

/// A database that is open, and what its errors need to know.
pub(super) struct File {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) limits: Limits,
}

/// In words of our own.
pub(super) fn said(path: &Path, limits: &Limits, error: &rusqlite::Error) -> DatabaseError {
    let path = path.to_path_buf();
    let code = error.sqlite_error().map(|e| (e.code, e.extended_code));
    match code {
        Some((_, CUT_OFF)) => DatabaseError::CutOff(path),
        Some((ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt, _)) => {
            DatabaseError::NoDatabase(path)
        }
        Some((ErrorCode::ReadOnly | ErrorCode::PermissionDenied, _)) => {
            DatabaseError::ReadOnly(path)
        }
        Some((ErrorCode::DiskFull, _)) => {
            DatabaseError::Full { path, size_bytes: limits.size_bytes }
        }
        Some((ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _)) => {
            DatabaseError::Locked { path, wait_ms: limits.wait.as_millis() }
        }
        _ => DatabaseError::Other { path, why: error.to_string() },
    }
}

impl File {
    /// To read; the file is there.
    pub(super) fn to_read(path: &Path, limits: Limits) -> Result<Self, DatabaseError> {
        let file = Self::open(path, limits, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        match file.standing()? {
            Standing::Empty => Err(DatabaseError::NoRuns(path.to_path_buf())),
            Standing::Known => Ok(file),
        }
    }

    /// To write: made where there is none. What is written counts from [`File::commit`] on; a file
    /// that is dropped before is as it was.
    pub(super) fn to_write(path: &Path, limits: Limits) -> Result<Self, DatabaseError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        Self::open(path, limits, flags)?.begun()
    }

    /// With a transaction begun, and tables.
    pub(super) fn begun(self) -> Result<Self, DatabaseError> {
        let page = self.number("PRAGMA page_size")?.max(512) as u64;
        let pages = (self.limits.size_bytes / page).clamp(1, u64::from(u32::MAX) - 1);
        self.number(&format!("PRAGMA max_page_count = {pages}"))?;
        self.execute("BEGIN IMMEDIATE")?;
        if let Standing::Empty = self.standing()? {
            self.execute(TABLES)?;
            self.execute(&format!("PRAGMA application_id = {APPLICATION}"))?;
            self.execute(&format!("PRAGMA user_version = {SCHEMA}"))?;
        }
        Ok(self)
    }

    pub(super) fn commit(self) -> Result<(), DatabaseError> {
        self.execute("COMMIT")
    }

    pub(super) fn open(
        path: &Path,
        limits: Limits,
        flags: OpenFlags,
    ) -> Result<Self, DatabaseError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(limits.wait)?;
            // A file from elsewhere runs nothing of its own.
            connection.execute_batch("PRAGMA trusted_schema = OFF")?;
            Ok(connection)
        };
        let connection = open().map_err(|error| said(path, &limits, &error))?;
        Ok(Self { connection, path: path.to_path_buf(), limits })
    }

    pub(super) fn told(&self, error: &rusqlite::Error) -> DatabaseError {
        said(&self.path, &self.limits, error)
    }

    fn execute(&self, sql: &str) -> Result<(), DatabaseError> {
        self.connection.execute_batch(sql).map_err(|error| self.told(&error))
    }

    pub(super) fn number(&self, sql: &str) -> Result<i64, DatabaseError> {
        let row = self.connection.query_row(sql, [], |row| row.get(0));
        row.map_err(|error| self.told(&error))
    }

    /// Whether the tables are ours.
    fn standing(&self) -> Result<Standing, DatabaseError> {
        let tables = self.number("SELECT count(*) FROM sqlite_schema")?;
        let application = self.number("PRAGMA application_id")?;
        let version = self.number("PRAGMA user_version")? as i32;
        match (tables, application == i64::from(APPLICATION)) {
            (0, false) if application == 0 && version == 0 => Ok(Standing::Empty),
            (_, true) if version > SCHEMA => {
                Err(DatabaseError::Newer { path: self.path.clone(), version })
            }
            (1.., true) => Ok(Standing::Known),
            _ => Err(DatabaseError::Foreign(self.path.clone())),
        }
    }
}

enum Standing {
    Empty,
    Known,
}
