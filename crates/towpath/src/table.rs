//! What a founder keeps of its virtual machine: the host table, in one file of its directory.
//!
//! ```text
//! 0..16 "towpath table 3\n" | 16..24 FNV-1a of the rest (u64, little-endian)
//! 24.. what towpath_node::Saved encodes
//! ```
//! The keeper writes it. Beside it, `term` has the last term that the founder may have led in, as
//! text: each life writes it before it begins. What a founder that was killed had not yet kept, its
//! members tell it.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use towpath_node::{Saved, SavedError};

use crate::keeper::{Kept, replace};
use crate::private::{Dir, PrivateError};

const MAGIC: &[u8; 16] = b"towpath table 3\n";
/// Where the last term is kept.
const TERM: &str = "term";
/// More than a number has.
const TERM_BYTES_MAX: u64 = 32;
/// What stands before the table.
const HEAD: usize = 24;
/// Longest file that is read: 4095 hosts with eight addresses each take less than a half of it.
pub const TABLE_MAX: u64 = 8 << 20;

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

/// Where a table is kept.
pub fn path(dir: &Path) -> PathBuf {
    dir.join(Kept::Table.name())
}

/// FNV-1a, to tell a damaged file from a whole one.
pub(crate) fn checksum(bytes: &[u8]) -> [u8; 8] {
    let mix = |h: u64, byte: &u8| (h ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix).to_le_bytes()
}

/// Whether a host in `dir` has kept a table.
pub fn is_kept(dir: &Path) -> bool {
    path(dir).exists()
}

/// What a founder in `dir` has kept; `None` where it has kept nothing.
pub(crate) fn read(dir: &Path) -> Result<Option<Saved>, TableError> {
    let path = path(dir);
    let decoded = match contents(dir, Kept::Table.name(), TABLE_MAX) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(TableFault::System).and_then(|bytes| decode(&bytes)),
    };
    decoded.map(Some).map_err(|why| TableError { path, why })
}

/// A file of ours, up to a byte more than `most`.
fn contents(dir: &Path, name: &str, most: u64) -> io::Result<Vec<u8>> {
    let opened = Dir::make(dir).and_then(|dir| dir.file(name, OFlags::RDONLY));
    let file = opened.map_err(|why| match why {
        PrivateError::System { why, .. } => why,
        exposed @ PrivateError::Exposed { .. } => io::Error::other(exposed),
    })?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
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
        let led = last_term(dir)?.max(saved.before());
        replace(dir, TERM, (led + 1).to_string().as_bytes())?;
        Ok(led)
    };
    let led = next().map_err(|why| TermError { path: dir.join(TERM), why })?;
    Ok(saved.led(led))
}

/// The last term that a founder in `dir` may have led in, as far as is written beside the table.
fn last_term(dir: &Path) -> io::Result<u64> {
    match contents(dir, TERM, TERM_BYTES_MAX) {
        Ok(bytes) => {
            let number = str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok());
            number.ok_or_else(|| io::Error::other("it is no number: remove it"))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(e) => Err(e),
    }
}

/// Puts a table in the place of the one that is there.
pub(crate) fn write(dir: &Path, table: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(HEAD + table.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&checksum(table));
    bytes.extend_from_slice(table);
    replace(dir, Kept::Table.name(), &bytes)
}

/// Forgets the table, and the term beside it.
pub(crate) fn remove_table(dir: &Path) -> io::Result<()> {
    crate::keeper::remove(&path(dir))?;
    crate::keeper::remove(&dir.join(TERM))
}

/// Forgets what was kept.
pub(crate) fn remove(dir: &Path) {
    // In vain only where there is none, or where the directory has gone.
    let _ = remove_table(dir);
    let _ = fs::remove_file(dir.join(Kept::Key.name()));
    crate::ledger::remove(dir);
}

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
        assert!(told(b"towpath table 1\nabcdefgh").contains("another version"));
        assert!(told(&vec![0; TABLE_MAX as usize + 1]).contains("more than 8388608 bytes"));
        remove(dir);
        assert!(!is_kept(dir));
    }

    /// A founder.
    fn founded() -> towpath_node::Node {
        let config = towpath_node::NodeConfig {
            name: "h".into(),
            build: "test".into(),
            links: towpath_node::Links::one(([127, 0, 0, 1], 7077).into()),
            arch: "any".into(),
            speed: 1000,
            cpus: 1,
            slots: 1,
            unix_us_at_zero: 0,
            paced: false,
            voters: 1,
            keeps_table: false,
            life: 0,
            proto: towpath_proto::Config::default(),
        };
        let crypto = RealCrypto::new(RealCrypto::generate_secret());
        towpath_node::Node::found(config, Box::new(crypto), towpath_proto::Rng::new(1, 1), [7; 32])
    }

    #[test]
    fn each_life_leads_in_a_later_term_even_if_it_keeps_no_table() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let saved = founded().saved().unwrap();
        write(dir, &saved.encode()).unwrap();
        for life in 0..3 {
            let begun = begin(dir, read(dir).unwrap().unwrap()).unwrap();
            assert_eq!(begun, saved.clone().led(saved.before() + life), "life {life}");
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
        std::os::unix::fs::symlink("other", dir.path().join(TERM)).unwrap();
        assert!(last_term(dir.path()).is_err());
        write(dir.path(), b"x").unwrap();
        assert_eq!(fs::read(dir.path().join("other")).unwrap(), b"x");
        assert!(fs::symlink_metadata(path(dir.path())).unwrap().is_file());
    }
}
