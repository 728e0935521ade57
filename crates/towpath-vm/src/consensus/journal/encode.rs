//! From writes to bytes.

use alloc::vec::Vec;

use crate::consensus::checksum::crc32c;
use crate::consensus::disk::{Record, Write};
use crate::consensus::entry::ReplicaId;

pub(super) const MAGIC: &[u8; 16] = b"towpath log 1\n\0\0";
/// Bytes before the first record.
pub const HEAD: usize = 48;
/// Bytes of a record before its body.
pub const RECORD_HEADER: usize = 24;

pub(super) mod kind {
    pub(crate) const BOOT: u8 = 1;
    pub(crate) const VOTE: u8 = 2;
    pub(crate) const ENTRY: u8 = 3;
    pub(crate) const SNAPSHOT: u8 = 4;
    pub(crate) const MARK: u8 = 5;
}

/// What a file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which life of the log it belongs to.
    pub generation: u64,
    /// Whose it is.
    pub id: ReplicaId,
    /// Drawn for this file, so that no record of another file passes for one of it.
    pub salt: u64,
}

impl Head {
    /// As bytes.
    pub fn encode(&self) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        out[..16].copy_from_slice(MAGIC);
        for (at, word) in [(16, self.generation), (24, self.id.0), (32, self.salt)] {
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = crc32c(0, &out[..44]);
        out[44..].copy_from_slice(&sum.to_le_bytes());
        out
    }
}

/// What each record's checksum begins with: that of the head before its own checksum, with which it
/// would be the same for all heads.
pub(super) fn seed(head: &[u8]) -> u32 {
    crc32c(0, &head[..HEAD - 4])
}

/// Writes one file. Invariant: `len` is a multiple of 8, and where the next record goes.
#[derive(Clone, Debug)]
pub struct Journal {
    /// Checksum of the head, that each record's begins with.
    pub(super) seed: u32,
    pub(super) number: u64,
    pub(super) len: u64,
}

impl Journal {
    /// A new file, and its first bytes: its head, and the boot that it belongs to.
    pub fn begin(head: &Head, boot: u32, life: u64) -> (Self, Vec<u8>) {
        let mut out = head.encode().to_vec();
        let mut journal = Self { seed: seed(&out), number: 0, len: HEAD as u64 };
        journal.boot(boot, life, &mut out);
        (journal, out)
    }

    /// Bytes of the file with all that was encoded.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is nothing but the head.
    pub const fn is_empty(&self) -> bool {
        self.number == 0
    }

    /// A replica was started.
    pub fn boot(&mut self, boot: u32, life: u64, out: &mut Vec<u8>) {
        let body = [&boot.to_le_bytes()[..], &life.to_le_bytes()];
        self.record(kind::BOOT, &body, out);
    }

    /// All that was written so far is on the disk.
    pub fn mark(&mut self, out: &mut Vec<u8>) {
        let place = self.len.to_le_bytes();
        self.record(kind::MARK, &[&place], out);
    }

    /// What a replica wants written; where it [replaces](Write::replaces) the file, this is that
    /// of the new one.
    pub fn write(&mut self, write: &Write, out: &mut Vec<u8>) {
        for record in &write.records {
            match record {
                Record::Vote { term, vote } => {
                    let vote = vote.map_or(0, |id| id.0);
                    self.record(kind::VOTE, &[&term.to_le_bytes(), &vote.to_le_bytes()], out);
                }
                Record::Entry(entry) => {
                    let mut bytes = Vec::with_capacity(entry.size());
                    entry.encode(&mut bytes);
                    self.record(kind::ENTRY, &[&entry.index.to_le_bytes(), &bytes], out);
                }
                Record::Snapshot(s) => {
                    let place = [s.index.to_le_bytes(), s.term.to_le_bytes()].concat();
                    self.record(kind::SNAPSHOT, &[&place, &s.members.to_bytes(), &s.state], out);
                }
            }
        }
    }

    pub(super) fn record(&mut self, kind: u8, body: &[&[u8]], out: &mut Vec<u8>) {
        self.number += 1;
        let len: usize = body.iter().map(|part| part.len()).sum();
        let mut head = [0; RECORD_HEADER];
        head[4..8].copy_from_slice(&(len as u32).to_le_bytes());
        head[8..16].copy_from_slice(&self.number.to_le_bytes());
        head[16] = kind;
        let sum = body.iter().fold(crc32c(self.seed, &head[4..]), |sum, part| crc32c(sum, part));
        head[..4].copy_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&head);
        for part in body {
            out.extend_from_slice(part);
        }
        let padded = len.next_multiple_of(8);
        out.resize(out.len() + padded - len, 0);
        self.len += (RECORD_HEADER + padded) as u64;
    }
}
