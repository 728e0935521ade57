//! What a founder keeps of its virtual machine: the host table, in one file of its directory.
//!
//! ```text
//! 0..16 "towpath table 1\n" | 16..24 FNV-1a of the rest (u64, little-endian)
//! 24.. what towpath_node::Saved encodes
//! ```
//! The file is written beside the old one, brought to the disk, and put in its place at once, by a
//! thread of its own: the engine never waits for a disk. Beside it, `term` has the last term that
//! the founder may have led in, as text: each life writes it before it begins. What a founder that was killed had not
//! yet kept, its members tell it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use towpath_node::{Node, Saved, SavedError};

use crate::log;

const MAGIC: &[u8; 16] = b"towpath table 1\n";
/// Where the last term is kept.
const TERM: &str = "term";
/// What stands before the table.
const HEAD: usize = 24;
/// Longest file that is read: 4095 hosts with eight addresses each take less than a half of it.
pub const TABLE_MAX: u64 = 8 << 20;
/// After a table could not be written, how long until it is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Why a kept table cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "the table of hosts in {path} cannot be used: {why}\n\
     hint: put back a copy of it; without one, move it away: the virtual machine then begins anew, \
     and hosts that still run have to be ended (`towpath down` there) and to join again"
)]
pub struct TableError {
    path: PathBuf,
    why: TableFault,
}

#[derive(Debug, thiserror::Error)]
enum TableFault {
    #[error(transparent)]
    System(#[from] io::Error),
    #[error("it has more than {TABLE_MAX} bytes")]
    Long,
    #[error("it is of another version of Towpath, or none at all")]
    Version,
    #[error("it is damaged: it has {0} bytes, and another checksum than they")]
    Damaged(usize),
    #[error(transparent)]
    Saved(#[from] SavedError),
}

/// Why a founder cannot begin a new life.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path}, the last term that this founder led in, cannot be kept: {why}\n\
     hint: make room and let this user write there: a life that left no trace would give out its \
     numbers twice"
)]
pub struct TermError {
    path: PathBuf,
    why: io::Error,
}

fn path(dir: &Path) -> PathBuf {
    dir.join("table")
}

/// FNV-1a, to tell a damaged file from a whole one.
fn checksum(bytes: &[u8]) -> [u8; 8] {
    let mix = |h: u64, byte: &u8| (h ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix).to_le_bytes()
}

/// Whether a founder in `dir` has kept a table.
pub fn is_kept(dir: &Path) -> bool {
    path(dir).exists()
}

/// What a founder in `dir` has kept; `None` where it has kept nothing.
pub(crate) fn read(dir: &Path) -> Result<Option<Saved>, TableError> {
    let path = path(dir);
    let read = || {
        let nofollow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(nofollow).open(&path)?;
        if file.metadata()?.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("it belongs to another user: remove it"));
        }
        let mut bytes = Vec::new();
        file.take(TABLE_MAX + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let decoded = match read() {
        Err(e) if io::Error::kind(&e) == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(TableFault::System).and_then(|bytes| decode(&bytes)),
    };
    decoded.map(Some).map_err(|why| TableError { path, why })
}

fn decode(bytes: &[u8]) -> Result<Saved, TableFault> {
    if bytes.len() as u64 > TABLE_MAX {
        return Err(TableFault::Long);
    }
    let Some(rest) = bytes.strip_prefix(MAGIC) else { return Err(TableFault::Version) };
    match rest.split_first_chunk::<8>() {
        Some((sum, table)) if *sum == checksum(table) => Ok(Saved::decode(table)?),
        _ => Err(TableFault::Damaged(bytes.len())),
    }
}

/// What a founder in `dir` has kept, for a new life of it. That this begins is on the disk before
/// it does, so that a later life does not take its numbers even if it could keep nothing else.
pub(crate) fn begin(dir: &Path, saved: Saved) -> Result<Saved, TermError> {
    let next = || {
        let led = last_term(dir)?.max(saved.term());
        put(dir, TERM, (led + 1).to_string().as_bytes())?;
        Ok(led)
    };
    let led = next().map_err(|why| TermError { path: dir.join(TERM), why })?;
    Ok(saved.led(led))
}

/// The last term that a founder in `dir` may have led in, as far as is written beside the table.
fn last_term(dir: &Path) -> io::Result<u64> {
    match fs::read_to_string(dir.join(TERM)) {
        Ok(text) => text.trim().parse().map_err(|_| io::Error::other("it is no number: remove it")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(e) => Err(e),
    }
}

/// Puts a table in the place of the one that is there.
fn write(dir: &Path, table: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(HEAD + table.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&checksum(table));
    bytes.extend_from_slice(table);
    put(dir, "table", &bytes)
}

/// Replaces a file as a whole.
fn put(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = dir.join(format!("{name}.new"));
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&new, dir.join(name))?;
    File::open(dir)?.sync_all()
}

/// Forgets what was kept.
fn remove(dir: &Path) {
    // In vain only where there is none, or where the directory has gone.
    let _ = fs::remove_file(path(dir));
    let _ = fs::remove_file(dir.join(TERM));
}

/// Keeps the table of a founder, on a thread of its own.
pub(crate) struct Keeper {
    dir: PathBuf,
    /// The place in the log of what was handed over last.
    kept: u64,
    tables: Option<Sender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
    failing: Arc<AtomicBool>,
}

impl Keeper {
    /// One for the founder in `dir`.
    pub(crate) fn start(dir: &Path) -> io::Result<Self> {
        let (tables, receive) = channel();
        let failing = Arc::new(AtomicBool::new(false));
        let (own, path) = (Arc::clone(&failing), dir.to_path_buf());
        let work = move || keep(&path, &receive, &own);
        let thread = std::thread::Builder::new().name("keeper".into()).spawn(work)?;
        Ok(Self { dir: dir.into(), kept: 0, tables: Some(tables), thread: Some(thread), failing })
    }

    /// Has the table kept, where it has changed.
    pub(crate) fn look_at(&mut self, node: &Node) {
        if node.log_index() == self.kept {
            return;
        }
        if let Some(saved) = node.saved() {
            self.kept = node.log_index();
            if let Some(tables) = &self.tables {
                // The thread ends only when told to.
                let _ = tables.send(saved.encode());
            }
        }
    }

    /// True while the table cannot be written.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Waits for the last table to be kept; with `forget`, there is none any more.
    pub(crate) fn end(&mut self, forget: bool) {
        self.tables = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if forget {
            remove(&self.dir);
        }
    }
}

fn keep(dir: &Path, tables: &Receiver<Vec<u8>>, failing: &AtomicBool) {
    let mut left: Option<Vec<u8>> = None;
    loop {
        let wait = if left.is_some() { AGAIN } else { Duration::MAX };
        let last = match tables.recv_timeout(wait) {
            Ok(table) => {
                left = Some(tables.try_iter().last().unwrap_or(table));
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        let Some(table) = &left else {
            if last {
                return;
            }
            continue;
        };
        let failed = write(dir, table);
        let before = failing.swap(failed.is_err(), Ordering::Relaxed);
        match failed {
            Ok(()) => {
                left = None;
                if before {
                    log!("the table of hosts is kept again");
                }
            }
            Err(why) if !before => log!("{}: {why}", NOT_KEPT),
            Err(_) => {}
        }
        if last {
            return;
        }
    }
}

/// What is wrong while the table cannot be written.
pub(crate) const NOT_KEPT: &str = "the table of hosts cannot be written: should this daemon be \
                                   killed now, it may not know all hosts again";

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_io::RealCrypto;

    #[test]
    fn a_table_is_replaced_as_a_whole_and_a_damaged_one_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(read(dir).unwrap().is_none() && !is_kept(dir));
        // Not a table of ours, but a whole file.
        for content in [&b"first"[..], b"second, longer"] {
            write(dir, content).unwrap();
            let error = read(dir).unwrap_err().to_string();
            assert!(error.contains("it does not decode") && error.contains("hint:"), "{error}");
        }
        assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "nothing is left beside it");
        let whole = fs::read(path(dir)).unwrap();
        let told = |bytes: &[u8]| {
            fs::write(path(dir), bytes).unwrap();
            read(dir).unwrap_err().to_string()
        };
        for at in MAGIC.len()..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(told(&changed).contains("it is damaged"), "byte {at}");
            assert!(told(&whole[..at]).contains("it is damaged"), "cut at {at}");
        }
        assert!(told(b"").contains("another version"));
        assert!(told(b"towpath table 2\nabcdefgh").contains("another version"));
        assert!(told(&vec![0; TABLE_MAX as usize + 1]).contains("more than 8388608 bytes"));
        remove(dir);
        assert!(!is_kept(dir));
    }

    /// A founder.
    fn founded() -> Node {
        let config = towpath_node::NodeConfig {
            name: "h".into(),
            build: "test".into(),
            links: towpath_node::Links::one(([127, 0, 0, 1], 7077).into()),
            arch: "any".into(),
            speed: 1000,
            cpus: 1,
            slots: 1,
            unix_us_at_zero: 0,
            proto: towpath_proto::Config::default(),
        };
        let crypto = RealCrypto::new(RealCrypto::generate_secret());
        Node::found(config, Box::new(crypto), towpath_proto::Rng::new(1, 1), [7; 32])
    }

    #[test]
    fn each_life_leads_in_a_later_term_even_if_it_keeps_no_table() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let saved = founded().saved().unwrap();
        write(dir, &saved.encode()).unwrap();
        for life in 0..3 {
            let begun = begin(dir, read(dir).unwrap().unwrap()).unwrap();
            assert_eq!(begun, saved.clone().led(saved.term() + life), "life {life}");
        }
        // As on a full disk: nothing new can be made there.
        fs::create_dir(dir.join("term.new")).unwrap();
        let why = begin(dir, saved.clone()).unwrap_err().to_string();
        assert!(why.contains("/term, the last term") && why.contains("hint: make room"), "{why}");
        fs::remove_dir(dir.join("term.new")).unwrap();
        fs::write(dir.join("term"), "4x").unwrap();
        let why = begin(dir, saved.clone()).unwrap_err().to_string();
        assert!(why.contains("it is no number"), "{why}");
        remove(dir);
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "a new virtual machine begins anew");
    }

    #[test]
    fn a_table_is_read_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("other"), "x").unwrap();
        std::os::unix::fs::symlink("other", path(dir.path())).unwrap();
        assert!(read(dir.path()).is_err());
        write(dir.path(), b"x").unwrap();
        assert_eq!(fs::read(dir.path().join("other")).unwrap(), b"x");
        assert!(fs::symlink_metadata(path(dir.path())).unwrap().is_file());
    }

    #[test]
    fn a_table_that_cannot_be_written_is_told_tried_again_and_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        write(dir, b"before").unwrap();
        let before = fs::read(path(dir)).unwrap();
        // As on a full disk: nothing new can be made there.
        fs::create_dir(dir.join("table.new")).unwrap();
        let (tables, receive) = channel();
        let failing = Arc::new(AtomicBool::new(false));
        let (own, there) = (Arc::clone(&failing), dir.to_path_buf());
        let thread = std::thread::spawn(move || keep(&there, &receive, &own));
        tables.send(b"first".to_vec()).unwrap();
        while !failing.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        assert_eq!(fs::read(path(dir)).unwrap(), before, "the last whole one is there");
        fs::remove_dir(dir.join("table.new")).unwrap();
        tables.send(b"second".to_vec()).unwrap();
        drop(tables);
        thread.join().unwrap();
        assert!(!failing.load(Ordering::Relaxed));
        assert!(fs::read(path(dir)).unwrap().ends_with(b"second"));
    }
}
