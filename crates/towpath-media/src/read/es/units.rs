//! Units of a stream with start codes: the code's place and the first bytes after it.

use crate::read::event::{Codec, VideoInfo};
use crate::read::start_code::StartCodes;

/// Most bytes after a start code that anybody wants to see.
pub(super) const CAPTURE_MAX: usize = 320;

/// A start code with the first bytes that follow it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit<'a> {
    /// Byte of the elementary stream where 00 00 01 starts.
    pub(super) at: u64,
    /// A further zero byte precedes it.
    pub(super) long: bool,
    /// As many bytes as [`UnitCodec::wants`] asked for, fewer where the unit is shorter. Not empty.
    /// In a unit that is just too short the last ones may be the next start code's, as they would
    /// be for a decoder that does not look ahead.
    pub(super) bytes: &'a [u8],
}

impl Unit<'_> {
    /// Where the unit starts by Annex B of H.264 and H.265: a zero byte before belongs to it.
    pub(super) const fn start(&self) -> u64 {
        if self.long { self.at - 1 } else { self.at }
    }
}

/// What is different from codec to codec.
pub(super) trait UnitCodec {
    /// How many bytes of a unit to show, given its first; at most [`CAPTURE_MAX`].
    fn wants(first: u8) -> usize;
    /// A unit, in order.
    fn unit(&mut self, unit: Unit<'_>, access: &mut super::access::Access);
    /// What headers said, if it changed since the last call.
    fn take_video(&mut self) -> Option<(Codec, VideoInfo)>;
}

/// Cuts a stream into units.
#[derive(Debug)]
pub(super) struct Units {
    codes: StartCodes,
    /// Bytes of the stream before the piece at hand.
    position: u64,
    at: u64,
    long: bool,
    /// Bytes shown of the unit under way; 0: it was given out, or there is none yet.
    wanted: usize,
    captured: usize,
    capture: [u8; CAPTURE_MAX],
}

impl Units {
    pub(super) fn new() -> Self {
        Self {
            codes: StartCodes::default(),
            position: 0,
            at: 0,
            long: false,
            wanted: 0,
            captured: 0,
            capture: [0; CAPTURE_MAX],
        }
    }

    /// Takes a piece; `emit` gets each unit once its wanted bytes are there.
    pub(super) fn push<C: UnitCodec>(&mut self, piece: &[u8], mut emit: impl FnMut(Unit<'_>)) {
        let mut from = 0;
        while let Some(hit) = self.codes.next(piece, from) {
            self.capture::<C>(&piece[from..hit.next], &mut emit);
            let end = self.position + hit.next as u64;
            self.give_out(end - 3, &mut emit);
            self.at = end - 3;
            self.long = hit.long;
            self.captured = 0;
            self.wanted = 1;
            from = hit.next;
        }
        self.capture::<C>(&piece[from..], &mut emit);
        self.codes.leave(piece);
        self.position += piece.len() as u64;
    }

    /// The stream ended: the last unit is as short as it is.
    pub(super) fn finish(&mut self, mut emit: impl FnMut(Unit<'_>)) {
        self.give_out(self.position, &mut emit);
    }

    #[inline]
    fn capture<C: UnitCodec>(&mut self, bytes: &[u8], emit: &mut impl FnMut(Unit<'_>)) {
        if self.wanted == 0 || bytes.is_empty() {
            return;
        }
        if self.captured == 0 {
            self.wanted = C::wants(bytes[0]).min(CAPTURE_MAX);
        }
        let take = bytes.len().min(self.wanted - self.captured);
        self.capture[self.captured..self.captured + take].copy_from_slice(&bytes[..take]);
        self.captured += take;
        if self.captured == self.wanted {
            self.give_out(u64::MAX, emit);
        }
    }

    /// Gives out the unit under way, cut off before byte `end` of the stream.
    fn give_out(&mut self, end: u64, emit: &mut impl FnMut(Unit<'_>)) {
        if self.wanted == 0 {
            return;
        }
        self.wanted = 0;
        let length = self.captured.min(end.saturating_sub(self.at + 3) as usize);
        if length > 0 {
            emit(Unit { at: self.at, long: self.long, bytes: &self.capture[..length] });
        }
    }
}
