//! What stands in frames of coding across paths (docs/decisions/0032).
//!
//! ```text
//! CODED    0 type=133 | 1 zero | 2..4 length n=8 | 4..8 group | 8 index | 9 members planned
//!          10..12 length of what is coded, which stands right behind
//! PARITY   0 type=134 | 1 zero | 2..4 length n | 4..8 group | 8 members | 9 index | 10..12 zero
//!          12..4+n symbol
//! REBUILT  0 type=135 | 1 zero | 2..4 length n=12 | 4..6 path | 6..8 zero | 8..16 packet number
//! (symbol) 0..2 length n of the frames | 2..4 path | 4..12 packet number | 12..12+n frames
//!          zeros, up to the longest of the group
//! ```
//! All three are skipped by who does not know them. A packet is coded from behind its CODED on, as
//! far as that says: frames before it, and padding behind, are not.

use crate::bytes::{ParseError, Reader, Writer};
use crate::frame::Frame;
use crate::id::PathId;

/// Bytes of a CODED frame.
pub const CODED_LEN: usize = 12;
/// Bytes of a PARITY frame before its symbol.
pub const PARITY_OVERHEAD: usize = 12;
/// Bytes of a REBUILT frame.
pub const REBUILT_LEN: usize = 16;
/// Bytes of a symbol before a packet's frames.
pub const SYMBOL_HEAD: usize = 12;

pub(crate) const CODED: u8 = 133;
pub(crate) const PARITY: u8 = 134;
pub(crate) const REBUILT: u8 = 135;

/// This packet is a member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coded<'a> {
    /// Number of the group, of the sender's own counting.
    pub group: u32,
    /// Place in the group, from 0.
    pub index: u8,
    /// Members that the group is to have; it may close with fewer.
    pub members: u8,
    /// What is coded: frames, which stand right behind in the packet and are read as such, too.
    pub frames: &'a [u8],
}

/// A sum of a group's symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity<'a> {
    /// Number of the group.
    pub group: u32,
    /// Members that the group has.
    pub members: u8,
    /// Which of the group's sums it is.
    pub index: u8,
    /// The sum.
    pub symbol: &'a [u8],
}

/// A packet that did not come and was rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// The path that it was sent on.
    pub path: PathId,
    /// Its number.
    pub number: u64,
}

/// Reads the body of a frame of these kinds; `behind` is what follows it in the packet.
pub(crate) fn parse<'a>(
    kind: u8,
    body: &mut Reader<'a>,
    behind: &'a [u8],
) -> Result<Frame<'a>, ParseError> {
    Ok(match kind {
        CODED => Frame::Coded(parse_coded(body, behind)?),
        PARITY => Frame::Parity(parse_parity(body)?),
        _ => {
            let path = PathId(body.u16()?);
            body.take(2)?;
            Frame::Rebuilt(Rebuilt { path, number: body.u64()? })
        }
    })
}

fn parse_coded<'a>(body: &mut Reader<'_>, behind: &'a [u8]) -> Result<Coded<'a>, ParseError> {
    let (group, index, members) = (body.u32()?, body.u8()?, body.u8()?);
    let len = usize::from(body.u16()?);
    let field = "coded length";
    let limit = behind.len() as u64;
    let frames = behind.get(..len).ok_or(ParseError::Limit { field, value: len as u64, limit })?;
    Ok(Coded { group, index, members, frames })
}

fn parse_parity<'a>(body: &mut Reader<'a>) -> Result<Parity<'a>, ParseError> {
    let (group, members, index) = (body.u32()?, body.u8()?, body.u8()?);
    body.take(2)?;
    Ok(Parity { group, members, index, symbol: body.rest() })
}

/// Writes CODED for `len` bytes that follow.
pub fn emit_coded(w: &mut Writer<'_>, group: u32, index: u8, members: u8, len: u16) {
    w.u8(CODED);
    w.u8(0);
    w.u16(CODED_LEN as u16 - 4);
    w.u32(group);
    w.u8(index);
    w.u8(members);
    w.u16(len);
}

/// Writes PARITY.
pub fn emit_parity(w: &mut Writer<'_>, parity: &Parity<'_>) {
    w.u8(PARITY);
    w.u8(0);
    w.u16((PARITY_OVERHEAD - 4 + parity.symbol.len()) as u16);
    w.u32(parity.group);
    w.u8(parity.members);
    w.u8(parity.index);
    w.u16(0);
    w.put(parity.symbol);
}

/// Writes REBUILT.
pub fn emit_rebuilt(w: &mut Writer<'_>, path: PathId, number: u64) {
    w.u8(REBUILT);
    w.u8(0);
    w.u16(REBUILT_LEN as u16 - 4);
    w.u16(path.0);
    w.u16(0);
    w.u64(number);
}

/// Writes the head of a symbol into the first [`SYMBOL_HEAD`] bytes of `out`, for a packet with
/// `len` bytes of frames.
pub fn emit_symbol_head(out: &mut [u8], len: usize, path: PathId, number: u64) {
    let mut w = Writer::new(&mut out[..SYMBOL_HEAD]);
    w.u16(u16::try_from(len).expect("a packet has less than 64 KiB"));
    w.u16(path.0);
    w.u64(number);
}

/// The packet that a symbol stands for: its path, number and frames. `None`: it is no symbol.
pub fn symbol(bytes: &[u8]) -> Option<(PathId, u64, &[u8])> {
    let mut r = Reader::new(bytes);
    let (len, path, number) = (r.u16().ok()?, r.u16().ok()?, r.u64().ok()?);
    let (frames, filling) = r.rest().split_at_checked(len.into())?;
    filling.iter().all(|b| *b == 0).then_some((PathId(path), number, frames))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frames, emit_ping};
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn emitted(len: usize, emit: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let mut w = Writer::new(&mut bytes);
        emit(&mut w);
        assert_eq!(w.room(), 0);
        bytes
    }

    proptest! {
        #[test]
        fn frames_of_coding_come_back(
            (group, index, members, path) in any::<(u32, u8, u8, u16)>(),
            number in any::<u64>(),
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let parity = Parity { group, members, index, symbol: &bytes };
            let mut all = emitted(PARITY_OVERHEAD + bytes.len(), |w| emit_parity(w, &parity));
            all.extend(emitted(REBUILT_LEN, |w| emit_rebuilt(w, PathId(path), number)));
            let pings = bytes.len() as u16;
            all.extend(emitted(CODED_LEN, |w| emit_coded(w, group, index, members, pings)));
            all.extend(vec![1; bytes.len()]);
            all.push(0);
            let frames: Vec<_> = Frames::new(&all).collect::<Result<_, _>>().unwrap();
            let coded = &vec![1; bytes.len()][..];
            prop_assert_eq!(frames[0], Frame::Parity(parity));
            prop_assert_eq!(frames[1], Frame::Rebuilt(Rebuilt { path: PathId(path), number }));
            prop_assert_eq!(
                frames[2],
                Frame::Coded(Coded { group, index, members, frames: coded })
            );
            // What is coded is read as frames, too.
            prop_assert_eq!(frames.len(), 3 + bytes.len() + 1);
        }

        #[test]
        fn a_symbol_says_which_packet_it_was_and_nothing_else_is_one(
            (path, number) in any::<(u16, u64)>(),
            frames in proptest::collection::vec(any::<u8>(), 0..60),
            filling in 0..9_usize,
            place: proptest::sample::Index,
        ) {
            let mut bytes = vec![0; SYMBOL_HEAD];
            emit_symbol_head(&mut bytes, frames.len(), PathId(path), number);
            bytes.extend(&frames);
            bytes.extend(vec![0; filling]);
            prop_assert_eq!(symbol(&bytes), Some((PathId(path), number, &frames[..])));
            prop_assert_eq!(symbol(&bytes[..SYMBOL_HEAD - 1]), None);
            if filling > 0 {
                let at = bytes.len() - 1 - place.index(filling);
                bytes[at] = 1;
                prop_assert_eq!(symbol(&bytes), None, "what fills it up is zeros");
            }
        }
    }

    #[test]
    fn what_is_coded_ends_within_its_packet() {
        let mut bytes = emitted(CODED_LEN, |w| emit_coded(w, 1, 0, 3, 2));
        bytes.extend(emitted(1, emit_ping));
        let field = "coded length";
        let error = ParseError::Limit { field, value: 2, limit: 1 };
        assert_eq!(Frames::new(&bytes).next(), Some(Err(error)));
    }
}
