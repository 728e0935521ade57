//! From bytes to what a replica starts from.

use alloc::vec::Vec;

use towpath_wire::bytes::{ParseError, Reader};
use towpath_wire::parameter;

use super::encode::{HEAD, Head, Journal, MAGIC, RECORD_HEADER, kind, seed};
use crate::consensus::checksum::crc32c;
use crate::consensus::config::STATE_MAX;
use crate::consensus::entry::{Entry, Members, ReplicaId, limited};
use crate::consensus::log::Snapshot;
use crate::consensus::replica::Stored;

/// Longest body of a record: a snapshot's.
const RECORD_MAX: usize = STATE_MAX + 1024;

/// What a file holds.
#[derive(Debug)]
pub struct Recovered {
    /// What the file says of itself.
    pub head: Head,
    /// How often a replica was started from it.
    pub boot: u32,
    /// What to start from.
    pub stored: Stored,
    /// To go on writing: at [`Journal::len`], after the rest is cut off.
    pub journal: Journal,
    /// Bytes to be cut off: what had not reached the disk before the last end.
    pub torn: u64,
}

/// Why a file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Not even its first bytes.
    #[error("it is no log of Towpath, or of a later version: its first bytes say neither")]
    Foreign,
    /// Its head is damaged.
    #[error("its head is damaged: the checksum of the first {HEAD} bytes is another one")]
    Head,
    /// What was on the disk is not whole.
    #[error(
        "it is damaged at byte {at}: what follows at byte {witness} shows that {at} had reached \
         the disk"
    )]
    Damaged {
        /// Where.
        at: u64,
        /// The record that says so.
        witness: u64,
    },
    /// A record is whole and says what cannot be.
    #[error("the record at byte {at} cannot be used: {why}")]
    Record {
        /// Where.
        at: u64,
        /// Why.
        why: ParseError,
    },
    /// Entries do not follow on each other.
    #[error("entry {index} at byte {at} follows on entry {last}")]
    Gap {
        /// Where.
        at: u64,
        /// The entry.
        index: u64,
        /// The last before it.
        last: u64,
    },
    /// It was never begun.
    #[error("it holds no boot record")]
    Unbegun,
}

/// A record that is whole.
struct Whole<'a> {
    kind: u8,
    body: &'a [u8],
    /// Bytes with head and padding.
    size: usize,
}

/// Reads a file.
pub fn recover(bytes: &[u8]) -> Result<Recovered, JournalError> {
    let head = head(bytes)?;
    let seed = seed(bytes);
    let mut journal = Journal { seed, number: 0, len: HEAD as u64 };
    let mut found = Found::default();
    let mut at = HEAD;
    while let Some(record) = whole(bytes, at, seed, Some(journal.number + 1)) {
        found.take(at as u64, &record)?;
        journal.number += 1;
        at += record.size;
    }
    if let Some(witness) = witness(bytes, at, seed, journal.number) {
        return Err(JournalError::Damaged { at: at as u64, witness });
    }
    journal.len = at as u64;
    let Found { boot, mut stored, .. } = found;
    let boot = boot.ok_or(JournalError::Unbegun)?;
    let last = stored.entries.last().map_or(stored.snapshot.term, |e| e.term);
    if last > stored.term {
        (stored.term, stored.vote) = (last, None);
    }
    Ok(Recovered { head, boot, stored, journal, torn: (bytes.len() - at) as u64 })
}

fn head(bytes: &[u8]) -> Result<Head, JournalError> {
    if !bytes.starts_with(MAGIC) {
        return Err(JournalError::Foreign);
    }
    let parse = || -> Result<(Head, u32), ParseError> {
        let mut r = Reader::new(bytes);
        r.take(16)?;
        let (generation, id, salt) = (r.u64()?, ReplicaId(r.u64()?), r.u64()?);
        r.u32()?;
        Ok((Head { generation, id, salt }, r.u32()?))
    };
    match parse() {
        Ok((head, sum)) if sum == crc32c(0, &bytes[..44]) => Ok(head),
        _ => Err(JournalError::Head),
    }
}

/// The record at a place, if it is whole and, where that is asked for, has this number.
fn whole(bytes: &[u8], at: usize, seed: u32, number: Option<u64>) -> Option<Whole<'_>> {
    let mut r = Reader::new(bytes.get(at..)?);
    let (sum, len) = (r.u32().ok()?, r.u32().ok()? as usize);
    let own = r.u64().ok()?;
    if len > RECORD_MAX || own == 0 || number.is_some_and(|number| number != own) {
        return None;
    }
    let kind = r.u8().ok()?;
    r.take(7).ok()?;
    let body = r.take(len).ok()?;
    let summed = &bytes[at + 4..at + RECORD_HEADER + len];
    let padded = len.next_multiple_of(8);
    let is_padded = r.take(padded - len).is_ok_and(|rest| rest.iter().all(|byte| *byte == 0));
    let is_whole = is_padded && crc32c(seed, summed) == sum;
    is_whole.then_some(Whole { kind, body, size: RECORD_HEADER + padded })
}

/// The first whole record after `at` by which what is at `at` had reached the disk: a mark of a
/// later place, or anything that a later start has written.
fn witness(bytes: &[u8], at: usize, seed: u32, number: u64) -> Option<u64> {
    let later = (at + 8..bytes.len()).step_by(8);
    later.filter_map(|place| Some((place, plausible(bytes, place, seed, number)?))).find_map(
        |(place, record)| {
            let marked = match record.kind {
                kind::MARK => Reader::new(record.body).u64().is_ok_and(|mark| mark > at as u64),
                kind::BOOT => true,
                _ => false,
            };
            marked.then_some(place as u64)
        },
    )
}

/// A whole record that may be one of this file after record `number`. Only marks and boots are
/// looked at, which are short: no sum is made of what a damaged length says.
fn plausible(bytes: &[u8], at: usize, seed: u32, number: u64) -> Option<Whole<'_>> {
    let head = bytes.get(at..at + RECORD_HEADER)?;
    let is_short = matches!(head[16], kind::MARK | kind::BOOT) && head[5..8] == [0; 3];
    let own = u64::from_le_bytes(head[8..16].try_into().ok()?);
    if is_short && own > number { whole(bytes, at, seed, None) } else { None }
}

struct Found {
    boot: Option<u32>,
    stored: Stored,
}

impl Default for Found {
    fn default() -> Self {
        Self { boot: None, stored: Stored::empty() }
    }
}

impl Found {
    fn take(&mut self, at: u64, record: &Whole<'_>) -> Result<(), JournalError> {
        let wrong = |why| JournalError::Record { at, why };
        let mut r = Reader::new(record.body);
        match record.kind {
            kind::BOOT => self.boot = Some(r.u32().map_err(wrong)?),
            kind::VOTE => {
                self.stored.term = r.u64().map_err(wrong)?;
                let vote = r.u64().map_err(wrong)?;
                self.stored.vote = (vote != 0).then_some(ReplicaId(vote));
            }
            kind::ENTRY => {
                let index = r.u64().map_err(wrong)?;
                let entry = Entry::decode(&mut r, index).map_err(wrong)?;
                self.entry(at, entry)?;
            }
            kind::SNAPSHOT => {
                self.stored.snapshot = snapshot(&mut r).map_err(wrong)?;
                self.stored.entries.clear();
            }
            kind::MARK => {}
            kind => parameter::unknown("record of a log", kind).map_err(wrong)?,
        }
        Ok(())
    }

    fn entry(&mut self, at: u64, entry: Entry) -> Result<(), JournalError> {
        let first = self.stored.snapshot.index + 1;
        let last = self.stored.snapshot.index + self.stored.entries.len() as u64;
        let index = entry.index;
        if index < first || index > last + 1 {
            return Err(JournalError::Gap { at, index, last });
        }
        self.stored.entries.truncate((index - first) as usize);
        self.stored.entries.push(entry);
        Ok(())
    }
}

fn snapshot(r: &mut Reader<'_>) -> Result<Snapshot, ParseError> {
    let (index, term) = (r.u64()?, r.u64()?);
    let members = Members::decode(r)?;
    let state = r.rest();
    limited(state.len(), STATE_MAX, "bytes of a snapshot")?;
    Ok(Snapshot { index, term, members, state: Vec::from(state) })
}
