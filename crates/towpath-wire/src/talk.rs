//! Messages of tasks: the header that stands in front of each piece on every route, and the
//! frames on a task's connection to its daemon.
//!
//! ```text
//! header  0..8 src | 8..16 dst | 16..24 tag (i64) | 24..28 context | 28..32 seq | 32..36 format
//!         | 36..40 zero | 40..48 total | 48..56 offset
//! frame   0..4 len of the body | 4 kind | 5..8 zero | 8..8+len body
//! kinds   0 control (postcard) | 1 data: header, payload
//!         | 2 multicast: 0..2 count n (u16) | n × (dst u64, seq u32) | header | payload
//!         | 3 lent: header | 56..60 page | 60..64 len
//!         | 4 channel: 0..4 number | 4..8 zero | 8..16 left, in ns | payload
//! ```
//! `seq` counts the messages of one (src, dst) pair from 0, over all routes, and wraps: the
//! receiver takes message after message, whatever routes they come on. The pieces of a message
//! (`offset`, of `total` bytes in all) come one after another on one route. In a multicast, `dst`
//! and `seq` of the header mean nothing. A lent piece is one whose payload stands in an arena block
//! of its sender's, from `page` on, until the daemon has said that it took it.

use core::time::Duration;

use crate::bytes::{ParseError, Reader, Writer};
use crate::id::TaskId;

/// Length of a [`Header`], in bytes.
pub const HEADER_LEN: usize = 56;
/// Length of a [`FrameHead`], in bytes.
pub const FRAME_HEAD_LEN: usize = 8;
/// Longest body of a frame, in bytes.
pub const FRAME_BODY_MAX: usize = 1 << 20;
/// Longest payload of a piece between a task and its daemon, and between daemons, in bytes.
pub const PIECE_MAX: usize = 64 << 10;
/// What a piece costs of a sender's credit beside its payload, in bytes: what keeping it costs.
pub const PIECE_CHARGE: u64 = 64;
/// Most receivers of one multicast frame.
pub const MULTICAST_MAX: usize = 4096;
/// Contexts from here on belong to the library.
pub const CONTEXT_OWN: u32 = 1 << 31;
/// So many of them from the first on are no team's.
pub const CONTEXTS_KEPT: u32 = 16;

/// What receivers select messages by: all 64 bits are the program's. Signed, so that the tags of 32
/// bits that PVM's and most programs have are the same number here; a library whose tags are bits
/// takes them as `u64`, with [`i64::cast_unsigned`].
pub type Tag = i64;

/// What stands in front of each piece of a message. Invariant: `offset` ≤ `total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who sends.
    pub src: TaskId,
    /// Who is to receive.
    pub dst: TaskId,
    /// Chosen by the program; what receivers select by.
    pub tag: Tag,
    /// Separates what must not meet; 0 unless a program asks for another.
    pub context: u32,
    /// Number of the message of its pair.
    pub seq: u32,
    /// Says how the payload is to be read; means nothing on the way.
    pub format: u32,
    /// Bytes of the whole message.
    pub total: u64,
    /// Where in the message this piece begins.
    pub offset: u64,
}

impl Header {
    /// Takes a header apart.
    pub fn parse(bytes: &[u8; HEADER_LEN]) -> Result<Self, ParseError> {
        let mut r = Reader::new(bytes);
        let task = |field, value| {
            TaskId::try_from(value).map_err(|_| ParseError::Unknown { field, value })
        };
        let header = Self {
            src: task("src", r.u64()?)?,
            dst: task("dst", r.u64()?)?,
            tag: r.u64()?.cast_signed(),
            context: r.u32()?,
            seq: r.u32()?,
            format: r.u32()?,
            total: match r.u32()? {
                0 => r.u64()?,
                value => return Err(ParseError::Unknown { field: "zero", value: value.into() }),
            },
            offset: r.u64()?,
        };
        if header.offset > header.total {
            let (value, limit) = (header.offset, header.total);
            return Err(ParseError::Limit { field: "offset", value, limit });
        }
        Ok(header)
    }

    /// The header's bytes.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let mut w = Writer::new(&mut out);
        w.u64(self.src.to_raw());
        w.u64(self.dst.to_raw());
        w.u64(self.tag.cast_unsigned());
        w.u32(self.context);
        w.u32(self.seq);
        w.u32(self.format);
        w.u32(0);
        w.u64(self.total);
        w.u64(self.offset);
        out
    }
}

/// Where the payload of a lent piece stands in its sender's arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// The first page of its block.
    pub page: u32,
    /// Its length in bytes.
    pub len: u32,
}

impl Lent {
    /// Length in a frame, in bytes.
    pub const LEN: usize = 8;

    /// Takes the end of a lent frame apart.
    pub fn parse(bytes: &[u8; Self::LEN]) -> Result<Self, ParseError> {
        let mut r = Reader::new(bytes);
        Ok(Self { page: r.u32()?, len: r.u32()? })
    }

    /// Its bytes.
    pub fn emit(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        let mut w = Writer::new(&mut out);
        w.u32(self.page);
        w.u32(self.len);
        out
    }
}

/// What stands in front of a message on a channel of a task's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelFront {
    /// The channel, by its number at this task.
    pub number: u32,
    /// For how long the message is of use from now on; `None`: for ever.
    pub left: Option<Duration>,
}

impl ChannelFront {
    /// Its length, in bytes.
    pub const LEN: usize = 16;

    /// Takes the front of a message apart.
    pub fn parse(bytes: &[u8; Self::LEN]) -> Result<Self, ParseError> {
        let mut r = Reader::new(bytes);
        let (number, zero, left) = (r.u32()?, r.u32()?, r.u64()?);
        if zero != 0 {
            return Err(ParseError::Unknown { field: "zero", value: zero.into() });
        }
        let left = (left != u64::MAX).then(|| Duration::from_nanos(left));
        Ok(Self { number, left })
    }

    /// A frame's body as its front and the message.
    pub fn split(body: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let mut r = Reader::new(body);
        let front = r.array::<{ Self::LEN }>()?;
        Ok((Self::parse(&front)?, &body[Self::LEN..]))
    }

    /// Its bytes. A time that is too long to be said is for ever.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let nanos = |left: Duration| u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        let mut out = [0; Self::LEN];
        let mut w = Writer::new(&mut out);
        w.u32(self.number);
        w.u32(0);
        w.u64(self.left.map_or(u64::MAX, nanos));
        out
    }
}

/// What a frame's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Something for the daemon or the library itself.
    Control,
    /// A piece of a message.
    Data,
    /// A piece of a message for several receivers.
    Multicast,
    /// A piece of a message whose payload stands in its sender's arena.
    Lent,
    /// A message on a channel of the task's own.
    Channel,
}

/// The front of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// What the body is.
    pub kind: FrameKind,
    /// Length of the body, at most [`FRAME_BODY_MAX`].
    pub len: usize,
}

impl FrameHead {
    /// Takes the front of a frame apart.
    pub fn parse(bytes: &[u8; FRAME_HEAD_LEN]) -> Result<Self, ParseError> {
        let mut r = Reader::new(bytes);
        let len = r.u32()? as usize;
        let kind = match r.u32()? {
            0 => FrameKind::Control,
            1 => FrameKind::Data,
            2 => FrameKind::Multicast,
            3 => FrameKind::Lent,
            4 => FrameKind::Channel,
            kind => return Err(ParseError::Unknown { field: "kind", value: kind.into() }),
        };
        if len > FRAME_BODY_MAX {
            let (value, limit) = (len as u64, FRAME_BODY_MAX as u64);
            return Err(ParseError::Limit { field: "len", value, limit });
        }
        Ok(Self { kind, len })
    }

    /// Its bytes.
    pub fn emit(self) -> [u8; FRAME_HEAD_LEN] {
        let mut out = [0; FRAME_HEAD_LEN];
        let kind: u32 = match self.kind {
            FrameKind::Control => 0,
            FrameKind::Data => 1,
            FrameKind::Multicast => 2,
            FrameKind::Lent => 3,
            FrameKind::Channel => 4,
        };
        out[..4].copy_from_slice(&(self.len as u32).to_le_bytes());
        out[4..].copy_from_slice(&kind.to_le_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::HostId;
    use proptest::prelude::*;

    fn header(total: u64, offset: u64) -> Header {
        let host = HostId::new(3, 9).unwrap();
        let (src, dst) = (host.task(1).unwrap(), host.task(2).unwrap());
        Header { src, dst, tag: -7, context: 5, seq: u32::MAX, format: 2, total, offset }
    }

    /// What is written down in docs/vm.md, and the longest body of a frame.
    #[test]
    fn limits_are_what_they_are_said_to_be() {
        assert_eq!((PIECE_MAX, FRAME_BODY_MAX, CONTEXT_OWN), (65_536, 1_048_576, 2_147_483_648));
        let parsed = |len| FrameHead::parse(&FrameHead { kind: FrameKind::Lent, len }.emit());
        let head = |len| FrameHead { kind: FrameKind::Lent, len };
        assert_eq!([0, 1, 1_048_576].map(parsed), [0, 1, 1_048_576].map(|len| Ok(head(len))));
        let (field, value, limit) = ("len", 1_048_577, 1_048_576);
        assert_eq!(parsed(1_048_577), Err(ParseError::Limit { field, value, limit }));
    }

    proptest! {
        #[test]
        fn headers_come_back(total: u64, offset: u64) {
            let h = header(total, offset);
            let parsed = Header::parse(&h.emit());
            prop_assert_eq!(parsed.is_ok(), offset <= total);
            prop_assert!(parsed.is_err() || parsed == Ok(h));
        }

        #[test]
        fn any_bytes_give_a_header_or_an_error(bytes: [u8; HEADER_LEN]) {
            if let Ok(h) = Header::parse(&bytes) {
                prop_assert_eq!(h.emit(), bytes);
            }
        }

        #[test]
        fn any_bytes_give_a_place_in_an_arena(bytes: [u8; Lent::LEN]) {
            prop_assert_eq!(Lent::parse(&bytes).map(Lent::emit), Ok(bytes));
        }

        #[test]
        fn any_bytes_give_the_front_of_a_channels_message_or_an_error(
            bytes: [u8; ChannelFront::LEN],
        ) {
            let parsed = ChannelFront::parse(&bytes);
            prop_assert_eq!(parsed.is_ok(), bytes[4..8] == [0; 4]);
            if let Ok(front) = parsed {
                prop_assert_eq!(front.emit(), bytes);
            }
        }

        #[test]
        fn any_bytes_give_a_frame_head_or_an_error(bytes: [u8; FRAME_HEAD_LEN]) {
            if let Ok(head) = FrameHead::parse(&bytes) {
                prop_assert!(head.len <= FRAME_BODY_MAX);
                prop_assert_eq!(head.emit(), bytes);
            }
        }
    }
}
