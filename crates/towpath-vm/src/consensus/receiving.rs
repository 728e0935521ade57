//! What a follower does with entries and snapshots from its leader.

use alloc::vec::Vec;

use super::checksum::crc32c;
use super::entry::{Entry, Members, ReplicaId};
use super::log::Snapshot;
use super::message::{Payload, Piece};
use super::replica::{Halt, Replica, Role};

/// A snapshot of which pieces have come. Invariant: `state.len() ≤ len`.
#[derive(Debug)]
pub(crate) struct Incoming {
    index: u64,
    term: u64,
    len: u64,
    checksum: u32,
    members: Members,
    state: Vec<u8>,
}

impl Incoming {
    fn begin(piece: &Piece) -> Self {
        let Piece { index, term, len, checksum, .. } = *piece;
        Self { index, term, len, checksum, members: piece.members.clone(), state: Vec::new() }
    }

    fn is_of(&self, piece: &Piece) -> bool {
        (self.index, self.term, self.len, self.checksum)
            == (piece.index, piece.term, piece.len, piece.checksum)
            && self.members == piece.members
    }
}

/// The checksum of a snapshot: of members and state.
pub(crate) fn checksum_of(members: &Members, state: &[u8]) -> u32 {
    crc32c(crc32c(0, &members.to_bytes()), state)
}

impl Replica {
    /// Somebody leads in this term. False where this cannot be: we do.
    pub(crate) fn heard(&mut self, from: ReplicaId) -> bool {
        match &mut self.role {
            Role::Leader(_) => return false,
            Role::Follower { leader } => {
                *leader = Some(from);
                self.elapsed = 0;
            }
            _ => self.follow(Some(from)),
        }
        true
    }

    pub(crate) fn append(
        &mut self,
        from: ReplicaId,
        (prev_index, prev_term): (u64, u64),
        commit: u64,
        entries: Vec<Entry>,
    ) {
        let told = core::iter::once((prev_index, prev_term));
        let told = told.chain(entries.iter().map(|e| (e.index, e.term)));
        for (index, term) in told.take_while(|(index, _)| *index <= self.commit) {
            if self.log.term_at(index).is_some_and(|own| own != term) {
                return self.stop(Halt::Contradicted { index, term: self.term });
            }
        }
        if prev_index < self.commit {
            let (after, matched) = (self.disk.last(), self.commit);
            return self.send(after, from, self.term, Payload::Appended { matched });
        }
        if self.log.term_at(prev_index) != Some(prev_term) {
            let hint_index = self.log.last_of_term(prev_index, prev_term);
            let hint_term = self.log.term_at(hint_index).unwrap_or(0);
            let voted = self.disk.voted();
            let refused = Payload::Refused { prev_index, hint_index, hint_term };
            return self.send(voted, from, self.term, refused);
        }
        let matched = prev_index + entries.len() as u64;
        for entry in entries {
            match self.log.term_at(entry.index) {
                Some(term) if term == entry.term => continue,
                Some(_) => {
                    self.log.truncate(entry.index - 1);
                    self.disk.truncate(entry.index - 1);
                }
                None => {}
            }
            self.disk.entry(entry.clone());
            self.log.push(entry);
        }
        self.commit_to(commit.min(matched));
        let after = self.disk.last();
        self.send(after, from, self.term, Payload::Appended { matched });
    }

    pub(crate) fn piece(&mut self, from: ReplicaId, piece: &Piece) {
        if piece.index <= self.commit {
            let (after, matched) = (self.disk.last(), self.commit);
            return self.send(after, from, self.term, Payload::Appended { matched });
        }
        let mut incoming = match self.incoming.take() {
            Some(incoming) if incoming.is_of(piece) => incoming,
            _ => Incoming::begin(piece),
        };
        if piece.offset == incoming.state.len() as u64 {
            incoming.state.extend_from_slice(&piece.bytes);
        }
        if (incoming.state.len() as u64) < incoming.len {
            let (index, offset) = (piece.index, incoming.state.len() as u64);
            self.incoming = Some(incoming);
            let voted = self.disk.voted();
            return self.send(voted, from, self.term, Payload::PieceAnswer { index, offset });
        }
        if checksum_of(&incoming.members, &incoming.state) != incoming.checksum {
            self.refused.damaged += 1;
            let (index, voted) = (piece.index, self.disk.voted());
            return self.send(voted, from, self.term, Payload::PieceAnswer { index, offset: 0 });
        }
        self.install(from, incoming);
    }

    fn install(&mut self, from: ReplicaId, incoming: Incoming) {
        let Incoming { index, term, members, state, .. } = incoming;
        if !self.log.install(Snapshot { index, term, members, state }) {
            // Nothing of what is on the disk is of this log.
            self.disk.truncate(0);
        }
        self.restore();
        self.disk.replace(&self.log, self.term, self.vote);
        let after = self.disk.last();
        self.send(after, from, self.term, Payload::Appended { matched: index });
    }
}
