//! What replicas tell each other.
//!
//! ```text
//! 0 version (1) | 1 kind | 2..4 zero | 4..8 boot | 8..16 generation | 16..24 from | 24..32 to
//! 32..40 life | 40..48 term | then by kind, little-endian:
//!  1 PreVote, 2 Vote    0..8 last index | 8..16 last term | 16 handed over
//!  3, 4 their answers   0 granted
//!  5 Append             0..8 previous index | 8..16 previous term | 16..24 commit | 24..28 count,
//!                       then the entries
//!  6 Appended           0..8 matched
//!  7 Refused            0..8 previous index | 8..16 hint | 16..24 its term
//!  8 Beat               0..8 commit | 8..16 round
//!  9 BeatAnswer         0..8 round
//! 10 Piece              0..8 index | 8..16 term | 16..24 length | 24..32 offset | 32..36 checksum
//!                       | 36..40 bytes n | then the members, and n bytes
//! 11 PieceAnswer        0..8 index | 8..16 offset
//! 12 HandOver           nothing
//! 13 Superseded         0..4 boot | 4..12 life
//! ```
//! Then parameters. Kinds of messages and of parameters are critical or skippable by
//! [the rule of kinds](towpath_wire::parameter). `boot` counts the starts from one disk, `life` is
//! drawn at each: two of one identity that run at once differ in one of them.

use alloc::vec::Vec;

use towpath_wire::bytes::{ParseError, Reader};
use towpath_wire::parameter::{self, Parameters};

use super::config::{PIECE_MAX, STATE_MAX};
use super::entry::{Entry, Members, ReplicaId, limited};

const VERSION: u8 = 1;
/// Bytes before what a kind has of its own.
pub const MESSAGE_HEADER: usize = 48;
/// Most entries in one message.
pub const ENTRIES_MAX: usize = 4096;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which life of the log this belongs to.
    pub generation: u64,
    /// Who sends it.
    pub from: ReplicaId,
    /// Who is to have it.
    pub to: ReplicaId,
    /// How often the sender was started.
    pub boot: u32,
    /// Drawn when the sender was started.
    pub life: u64,
    /// The sender's term; of a pre-vote and a granted answer to it the term that is sought.
    pub term: u64,
    /// What it says.
    pub payload: Payload,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Would you elect me?
    PreVote {
        /// The last entry of who asks.
        last_index: u64,
        /// Its term.
        last_term: u64,
    },
    /// Elect me.
    Vote {
        /// The last entry of who asks.
        last_index: u64,
        /// Its term.
        last_term: u64,
        /// The leader itself gives way.
        handed_over: bool,
    },
    /// I would.
    PreVoteAnswer {
        /// Or would not.
        granted: bool,
    },
    /// I do.
    VoteAnswer {
        /// Or do not.
        granted: bool,
    },
    /// Entries that follow on a certain one.
    Append {
        /// The one before them.
        prev_index: u64,
        /// Its term.
        prev_term: u64,
        /// Up to where all is committed.
        commit: u64,
        /// They.
        entries: Vec<Entry>,
    },
    /// All up to here is as the leader has it, and on the disk.
    Appended {
        /// Here.
        matched: u64,
    },
    /// The entry before them is not there.
    Refused {
        /// Its index, as asked.
        prev_index: u64,
        /// The last that may be the same.
        hint_index: u64,
        /// Its term.
        hint_term: u64,
    },
    /// I lead.
    Beat {
        /// Up to where all is committed and known to match.
        commit: u64,
        /// Counts questions whether I still do.
        round: u64,
    },
    /// You do.
    BeatAnswer {
        /// The question.
        round: u64,
    },
    /// A piece of a snapshot.
    Piece(Piece),
    /// All before `offset` has come.
    PieceAnswer {
        /// Of the snapshot as of this entry.
        index: u64,
        /// Here.
        offset: u64,
    },
    /// Be elected now: I give way.
    HandOver,
    /// Another one with your identity runs: end.
    Superseded {
        /// Who is meant: the one of this boot
        boot: u32,
        /// and this life.
        life: u64,
    },
}

/// A piece of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The last entry in the snapshot.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// Bytes of the state in all, at most [`STATE_MAX`].
    pub len: u64,
    /// Where this piece begins.
    pub offset: u64,
    /// CRC-32C of members and state.
    pub checksum: u32,
    /// Who took part.
    pub members: Members,
    /// The piece, at most [`PIECE_MAX`] bytes.
    pub bytes: Vec<u8>,
}

fn put(out: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

impl Message {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(2 * MESSAGE_HEADER);
        out.extend_from_slice(&[VERSION, self.payload.kind(), 0, 0]);
        out.extend_from_slice(&self.boot.to_le_bytes());
        put(&mut out, &[self.generation, self.from.0, self.to.0, self.life, self.term]);
        self.payload.encode(&mut out);
        out
    }

    /// Takes bytes apart; `None` for a skippable kind of a later build.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, ParseError> {
        let mut r = Reader::new(bytes);
        let version = r.u8()?;
        if version != VERSION {
            let field = "version of a message between replicas";
            return Err(ParseError::Unknown { field, value: version.into() });
        }
        let kind = r.u8()?;
        r.u16()?;
        let boot = r.u32()?;
        let (generation, from, to) = (r.u64()?, ReplicaId(r.u64()?), ReplicaId(r.u64()?));
        let (life, term) = (r.u64()?, r.u64()?);
        let Some(payload) = Payload::decode(kind, &mut r)? else { return Ok(None) };
        for parameter in Parameters::new(r.rest()) {
            let (kind, _) = parameter?;
            parameter::unknown("parameter of a message between replicas", kind)?;
        }
        Ok(Some(Self { generation, from, to, boot, life, term, payload }))
    }
}

impl Payload {
    const fn kind(&self) -> u8 {
        match self {
            Self::PreVote { .. } => 1,
            Self::Vote { .. } => 2,
            Self::PreVoteAnswer { .. } => 3,
            Self::VoteAnswer { .. } => 4,
            Self::Append { .. } => 5,
            Self::Appended { .. } => 6,
            Self::Refused { .. } => 7,
            Self::Beat { .. } => 8,
            Self::BeatAnswer { .. } => 9,
            Self::Piece(_) => 10,
            Self::PieceAnswer { .. } => 11,
            Self::HandOver => 12,
            Self::Superseded { .. } => 13,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::PreVote { last_index, last_term } => {
                put(out, &[*last_index, *last_term]);
                out.push(0);
            }
            Self::Vote { last_index, last_term, handed_over } => {
                put(out, &[*last_index, *last_term]);
                out.push((*handed_over).into());
            }
            Self::PreVoteAnswer { granted } | Self::VoteAnswer { granted } => {
                out.push((*granted).into());
            }
            Self::Append { prev_index, prev_term, commit, entries } => {
                put(out, &[*prev_index, *prev_term, *commit]);
                out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
                for entry in entries {
                    entry.encode(out);
                }
            }
            Self::Appended { matched } => put(out, &[*matched]),
            Self::Refused { prev_index, hint_index, hint_term } => {
                put(out, &[*prev_index, *hint_index, *hint_term]);
            }
            Self::Beat { commit, round } => put(out, &[*commit, *round]),
            Self::BeatAnswer { round } => put(out, &[*round]),
            Self::Piece(piece) => piece.encode(out),
            Self::PieceAnswer { index, offset } => put(out, &[*index, *offset]),
            Self::HandOver => {}
            Self::Superseded { boot, life } => {
                out.extend_from_slice(&boot.to_le_bytes());
                put(out, &[*life]);
            }
        }
    }

    fn decode(kind: u8, r: &mut Reader<'_>) -> Result<Option<Self>, ParseError> {
        Ok(Some(match kind {
            1 | 2 => {
                let (last_index, last_term, handed_over) = (r.u64()?, r.u64()?, yes(r)?);
                if kind == 1 {
                    Self::PreVote { last_index, last_term }
                } else {
                    Self::Vote { last_index, last_term, handed_over }
                }
            }
            3 => Self::PreVoteAnswer { granted: yes(r)? },
            4 => Self::VoteAnswer { granted: yes(r)? },
            5 => Self::append(r)?,
            6 => Self::Appended { matched: r.u64()? },
            7 => Self::Refused { prev_index: r.u64()?, hint_index: r.u64()?, hint_term: r.u64()? },
            8 => Self::Beat { commit: r.u64()?, round: r.u64()? },
            9 => Self::BeatAnswer { round: r.u64()? },
            10 => Self::Piece(Piece::decode(r)?),
            11 => Self::PieceAnswer { index: r.u64()?, offset: r.u64()? },
            12 => Self::HandOver,
            13 => Self::Superseded { boot: r.u32()?, life: r.u64()? },
            kind => {
                parameter::unknown("message between replicas", kind)?;
                return Ok(None);
            }
        }))
    }

    fn append(r: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (prev_index, prev_term, commit) = (r.u64()?, r.u64()?, r.u64()?);
        let count = limited(r.u32()? as usize, ENTRIES_MAX, "entries of a message")?;
        let limit = u64::MAX - ENTRIES_MAX as u64;
        if prev_index > limit {
            return Err(ParseError::Limit { field: "index of an entry", value: prev_index, limit });
        }
        let (mut entries, mut term) = (Vec::new(), prev_term);
        for n in 1..=count as u64 {
            let entry = Entry::decode(r, prev_index + n)?;
            if entry.term < term {
                return Err(ParseError::Unknown { field: "falling term", value: entry.term });
            }
            term = entry.term;
            entries.push(entry);
        }
        Ok(Self::Append { prev_index, prev_term, commit, entries })
    }
}

fn yes(r: &mut Reader<'_>) -> Result<bool, ParseError> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(ParseError::Unknown { field: "yes or no", value: value.into() }),
    }
}

impl Piece {
    fn encode(&self, out: &mut Vec<u8>) {
        put(out, &[self.index, self.term, self.len, self.offset]);
        out.extend_from_slice(&self.checksum.to_le_bytes());
        out.extend_from_slice(&(self.bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.members.to_bytes());
        out.extend_from_slice(&self.bytes);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (index, term) = (r.u64()?, r.u64()?);
        let len = limited(r.u64()? as usize, STATE_MAX, "bytes of a snapshot")? as u64;
        let offset = r.u64()?;
        let checksum = r.u32()?;
        let n = limited(r.u32()? as usize, PIECE_MAX, "bytes of a piece")?;
        let members = Members::decode(r)?;
        let bytes = r.take(n)?.into();
        if offset.checked_add(n as u64).is_none_or(|end| end > len) {
            return Err(ParseError::Limit {
                field: "offset of a piece",
                value: offset,
                limit: len,
            });
        }
        Ok(Self { index, term, len, offset, checksum, members, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consensus::entry::{Body, Command};
    use proptest::prelude::*;

    fn of(payload: Payload) -> Message {
        let [from, to] = [ReplicaId(2), ReplicaId(3)];
        Message { generation: 1, from, to, boot: 4, life: 5, term: 6, payload }
    }

    fn append() -> Message {
        let command = Command { session: 1, number: 2, settled: 1, bytes: b"abc".into() };
        let mut members = Members::of([1, 2, 9].map(ReplicaId));
        members.learners.insert(ReplicaId(4));
        let bodies = [
            Body::Empty,
            Body::Open { nonce: 7 },
            Body::Command(command),
            Body::Members(members),
            Body::Other { kind: 200, bytes: b"later".into() },
        ];
        let entry = |(n, body)| Entry { term: 5, index: 11 + n as u64, body };
        let entries = bodies.into_iter().enumerate().map(entry).collect();
        of(Payload::Append { prev_index: 10, prev_term: 5, commit: 9, entries })
    }

    fn piece() -> Message {
        let members = Members::of([ReplicaId(1)]);
        let bytes = b"piece".into();
        let (index, term, len, offset, checksum) = (4, 3, 20, 15, 8);
        of(Payload::Piece(Piece { index, term, len, offset, checksum, members, bytes }))
    }

    #[test]
    fn messages_come_back_and_a_cut_one_is_refused() {
        for message in [append(), piece(), of(Payload::Superseded { boot: 1, life: 2 })] {
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes), Ok(Some(message)));
            for cut in 0..bytes.len() {
                assert!(Message::decode(&bytes[..cut]).is_err(), "{cut}");
            }
        }
    }

    #[test]
    fn what_a_later_build_adds_is_passed_over_or_refused_as_its_kind_says() {
        let mut bytes = of(Payload::HandOver).encode();
        bytes.extend_from_slice(&[130, 2, 0, 0]);
        assert_eq!(Message::decode(&bytes), Ok(Some(of(Payload::HandOver))));
        bytes[MESSAGE_HEADER] = 2;
        assert!(Message::decode(&bytes).is_err(), "a critical parameter");
        bytes.truncate(MESSAGE_HEADER);
        for (kind, known) in [(140, Ok(None)), (99, Err(())), (0, Err(()))] {
            bytes[1] = kind;
            assert_eq!(Message::decode(&bytes).map_err(|_| ()), known, "{kind}");
        }
        bytes[..2].copy_from_slice(&[2, 12]);
        let refused = std::format!("{}", Message::decode(&bytes).unwrap_err());
        assert!(refused.contains("version of a message between replicas has value 2"), "{refused}");
    }

    #[test]
    fn each_limit_is_kept() {
        let mut bytes = piece().encode();
        let at = MESSAGE_HEADER + 16;
        for (len, fits) in [(20, true), (19, false), (STATE_MAX as u64 + 1, false)] {
            bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(len));
            assert_eq!(Message::decode(&bytes).is_ok(), fits, "{len}");
        }
        let mut message = append();
        let Payload::Append { entries, .. } = &mut message.payload else { unreachable!() };
        entries[1].term = 4;
        assert!(Message::decode(&message.encode()).is_err(), "terms do not fall");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            kind in 0..14u8,
            rest in proptest::collection::vec(any::<u8>(), 0..90),
        ) {
            let mut bytes = of(Payload::HandOver).encode();
            bytes[1] = kind;
            bytes.extend_from_slice(&rest);
            if let Ok(Some(message)) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(Some(message)));
            }
        }
    }
}
