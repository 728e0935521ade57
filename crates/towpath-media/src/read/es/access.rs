//! The access unit under way, and the time stamps that wait for one.

use crate::read::event::{Frame, FrameType};

/// Time stamps that can wait. More PES packets than these without a picture keep the newest.
const STAMPS_MAX: usize = 16;

/// PTS and DTS of a PES packet with the byte of the elementary stream where its payload starts.
#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    at: u64,
    pts: Option<i64>,
    dts: Option<i64>,
    base: u16,
}

/// The frame under way. Positions are bytes of the elementary stream.
#[derive(Debug, Default)]
pub(super) struct Access {
    frame: Frame,
    begun: bool,
    stamps: [Stamp; STAMPS_MAX],
    stamps_len: usize,
    ended: [Frame; 2],
    ended_len: usize,
}

impl Access {
    pub(super) fn new(stream: u16) -> Self {
        Self { frame: Frame { stream, ..Frame::default() }, ..Self::default() }
    }

    /// The next byte starts a PES packet with these stamps.
    pub(super) fn stamp(&mut self, at: u64, (pts, dts): (Option<i64>, Option<i64>), base: u16) {
        if self.stamps_len == STAMPS_MAX {
            self.stamps.rotate_left(1);
            self.stamps_len -= 1;
        }
        self.stamps[self.stamps_len] = Stamp { at, pts, dts, base };
        self.stamps_len += 1;
    }

    /// A picture begins at this byte: it gets the stamps of the PES packet that holds the byte,
    /// if it is the first to begin in it (§2.4.3.7).
    pub(super) fn begin(&mut self, at: u64) {
        if self.begun {
            return;
        }
        self.begun = true;
        let before = self.stamps[..self.stamps_len].iter().take_while(|s| s.at <= at).count();
        if before > 0 {
            let stamp = self.stamps[before - 1];
            self.frame.pts = stamp.pts;
            self.frame.dts = stamp.dts;
            self.frame.base = stamp.base;
            self.stamps.copy_within(before..self.stamps_len, 0);
            self.stamps_len -= before;
        }
    }

    pub(super) fn kind(&mut self, kind: FrameType) {
        self.frame.kind = kind;
    }

    /// One slice of several: the type that needs most wins.
    pub(super) fn slice(&mut self, kind: FrameType) {
        self.frame.kind = self.frame.kind.max(kind);
    }

    pub(super) fn key(&mut self) {
        self.frame.key = true;
    }

    /// The picture's `vbv_delay`; its start code ends before byte `code_end` of the stream.
    pub(super) fn vbv_delay(&mut self, delay: u16, code_end: u64) {
        self.frame.vbv_delay = Some(delay);
        self.frame.head = u32::try_from(code_end - self.frame.start).unwrap_or(u32::MAX);
    }

    /// What was under way is no frame: the next one starts at this byte at the earliest.
    pub(super) fn discard(&mut self, before: u64) {
        let Frame { stream, damaged, .. } = self.frame;
        self.frame = Frame { stream, damaged, start: before, ..Frame::default() };
        self.begun = false;
    }

    pub(super) fn damaged(&mut self) {
        self.frame.damaged = true;
    }

    /// The frame ends before this byte. Nothing happens if it has no bytes.
    pub(super) fn end(&mut self, at: u64) {
        if at <= self.frame.start {
            return;
        }
        let size = at - self.frame.start;
        let next = Frame { stream: self.frame.stream, start: at, ..Frame::default() };
        let ended = core::mem::replace(&mut self.frame, next);
        self.ended[self.ended_len] = Frame { size, ..ended };
        self.ended_len += 1;
        self.begun = false;
    }

    /// Whether frames ended since the last call of [`Self::take_ended`].
    #[inline]
    pub(super) const fn has_ended(&self) -> bool {
        self.ended_len > 0
    }

    /// Frames that ended since the last call; at most two per unit.
    pub(super) fn take_ended(&mut self) -> impl Iterator<Item = Frame> + use<> {
        let len = core::mem::take(&mut self.ended_len);
        self.ended.into_iter().take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(access: &mut Access, n: u64) {
        access.stamp(10 * n, (Some(n.cast_signed()), None), n as u16);
    }

    #[test]
    fn of_many_stamps_the_newest_wait() {
        // Of those at 0, 10 and so on, the first six are gone.
        for (at, pts) in [(59, None), (60, Some(6)), (69, Some(6)), (210, Some(21))] {
            let mut access = Access::new(3);
            (0..STAMPS_MAX as u64 + 6).for_each(|n| stamped(&mut access, n));
            access.begin(at);
            access.end(1000);
            let frame = access.take_ended().next().expect("a frame");
            assert_eq!(frame.pts, pts, "{at}");
        }
        // A stamp is one picture's: the next one has none before the next packet.
        let mut access = Access::new(3);
        (0..3).for_each(|n| stamped(&mut access, n));
        for (at, pts) in [(12, Some(1)), (15, None), (20, Some(2)), (30, None)] {
            access.begin(at);
            access.begin(99);
            access.end(at + 1);
            let frame = access.take_ended().next().expect("a frame");
            assert_eq!((frame.pts, frame.stream), (pts, 3), "{at}");
        }
        assert!(!access.has_ended());
    }

    #[test]
    fn what_is_no_frame_leaves_the_damage() {
        let mut access = Access::new(3);
        access.key();
        access.slice(FrameType::P);
        access.damaged();
        access.discard(7);
        access.end(7);
        assert!(!access.has_ended(), "it has no bytes");
        access.end(9);
        let frame = access.take_ended().next().expect("a frame");
        assert_eq!((frame.start, frame.size, frame.stream), (7, 2, 3));
        assert!(frame.damaged && !frame.key);
        access.end(20);
        assert!(!access.take_ended().next().expect("a frame").damaged, "of one frame");
    }

    #[test]
    fn the_slice_that_needs_most_tells_the_kind_and_a_header_stands_where_it_ends() {
        let mut access = Access::new(3);
        access.end(5);
        assert_eq!(access.take_ended().count(), 1);
        for kind in [FrameType::I, FrameType::B, FrameType::P] {
            access.slice(kind);
        }
        access.vbv_delay(7, 17);
        access.end(30);
        let frame = access.take_ended().next().expect("a frame");
        assert_eq!((frame.kind, frame.vbv_delay, frame.head), (FrameType::B, Some(7), 12));
    }
}
