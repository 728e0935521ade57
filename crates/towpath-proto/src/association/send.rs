//! The sending half of a channel: messages waiting, under way, and to be repeated.

use alloc::collections::VecDeque;

use towpath_wire::frame::MESSAGE_CHARGE;

use crate::memory::Block;
use crate::range_set::RangeSet;

/// One message. Invariants: `sent ≤ len`; acknowledged ranges lie below `sent`.
#[derive(Debug)]
struct Outgoing {
    block: Block,
    len: u32,
    sent: u32,
    acked: RangeSet,
    /// All of it is acknowledged (an empty message has no range that could tell).
    done: bool,
}

/// A piece to put into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) message: u64,
    pub(super) message_len: u32,
    pub(super) block: Block,
    pub(super) offset: u32,
    pub(super) len: u16,
    /// It was sent before.
    pub(super) repair: bool,
}

/// Why a message cannot be sent.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SendError {
    /// Longer than the credit of a channel can ever cover.
    #[error("message of {len} bytes, limit {limit} (the channel's window)")]
    TooLong {
        /// Its length.
        len: u32,
        /// The limit.
        limit: u32,
    },
    /// Too many messages wait already.
    #[error("{waiting} messages wait in the channel, limit {limit}: wait for `Sent` events")]
    QueueFull {
        /// Messages waiting.
        waiting: usize,
        /// The limit.
        limit: u32,
    },
    /// No such channel, or this side may not send on it, or it is finished.
    #[error("the channel is not open for sending")]
    NotOpen,
    /// The association has ended.
    #[error("the association has ended")]
    Ended,
}

/// Invariants: `first ≤ fresh ≤ first + messages.len()`; `charged ≤ limit`.
#[derive(Debug)]
pub(super) struct SendHalf {
    messages: VecDeque<Outgoing>,
    /// Number of the message at the front of `messages`.
    first: u64,
    /// Number of the first message not sent whole.
    fresh: u64,
    /// Credit used since the channel opened.
    charged: u64,
    /// Credit given since the channel opened.
    limit: u64,
    lost: VecDeque<(u64, u32, u32)>,
    window: u32,
    messages_max: u32,
    pub(super) finish: Option<u16>,
}

impl SendHalf {
    pub(super) const fn new(limit: u64, window: u32, messages_max: u32) -> Self {
        Self {
            messages: VecDeque::new(),
            first: 0,
            fresh: 0,
            charged: 0,
            limit,
            lost: VecDeque::new(),
            window,
            messages_max,
            finish: None,
        }
    }

    /// Queues a message and returns its number.
    pub(super) fn push(&mut self, block: Block, len: u32) -> Result<u64, SendError> {
        let limit = self.window.saturating_sub(MESSAGE_CHARGE as u32);
        if len > limit {
            return Err(SendError::TooLong { len, limit });
        }
        if self.finish.is_some() {
            return Err(SendError::NotOpen);
        }
        if self.messages.len() >= self.messages_max as usize {
            let waiting = self.messages.len();
            return Err(SendError::QueueFull { waiting, limit: self.messages_max });
        }
        let acked = RangeSet::default();
        self.messages.push_back(Outgoing { block, len, sent: 0, acked, done: false });
        Ok(self.first + self.messages.len() as u64 - 1)
    }

    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Messages sent since the channel opened.
    pub(super) fn count(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    /// True when nothing waits and everything is acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn waiting(&self) -> usize {
        self.messages.len()
    }

    fn outgoing(&mut self, message: u64) -> Option<&mut Outgoing> {
        let index = message.checked_sub(self.first)?;
        self.messages.get_mut(index as usize)
    }

    fn fresh_ready(&self) -> bool {
        self.messages.get((self.fresh - self.first) as usize).is_some_and(|m| {
            m.sent > 0 || self.charged + u64::from(m.len) + MESSAGE_CHARGE <= self.limit
        })
    }

    /// True when there is something that may be sent now.
    pub(super) fn ready(&self) -> bool {
        !self.lost.is_empty() || self.fresh_ready()
    }

    /// True when only missing credit holds the next message back.
    pub(super) fn is_blocked(&self) -> bool {
        self.lost.is_empty()
            && !self.fresh_ready()
            && self.fresh < self.first + self.messages.len() as u64
    }

    /// The next piece of at most `room` bytes: repairs before fresh data.
    pub(super) fn next_piece(&mut self, room: usize) -> Option<Piece> {
        let room = room.min(u16::MAX.into()) as u32;
        while let Some((message, offset, len)) = self.lost.pop_front() {
            let Some(m) = self.outgoing(message) else { continue };
            if m.done || (len > 0 && m.acked.covers(offset, offset + len)) {
                continue;
            }
            let (message_len, block, take) = (m.len, m.block, len.min(room));
            if take < len {
                self.lost.push_front((message, offset + take, len - take));
            }
            let len = take as u16;
            return Some(Piece { message, message_len, block, offset, len, repair: true });
        }
        self.fresh_piece(room)
    }

    fn fresh_piece(&mut self, room: u32) -> Option<Piece> {
        if !self.fresh_ready() {
            return None;
        }
        let message = self.fresh;
        let m = &mut self.messages[(message - self.first) as usize];
        if m.sent == 0 {
            self.charged += u64::from(m.len) + MESSAGE_CHARGE;
        }
        let (offset, len) = (m.sent, (m.len - m.sent).min(room));
        m.sent += len;
        let (message_len, block, len) = (m.len, m.block, len as u16);
        let piece = Piece { message, message_len, block, offset, len, repair: false };
        if m.sent == m.len {
            self.fresh += 1;
        }
        Some(piece)
    }

    /// A piece was acknowledged. Completed messages leave through [`SendHalf::pop_done`].
    pub(super) fn on_acked(&mut self, message: u64, offset: u32, len: u16) {
        let Some(m) = self.outgoing(message) else { return };
        // More than RANGES_MAX holes in what was acknowledged: forgetting one acknowledgement
        // only means that this piece may be repeated once more.
        m.acked.insert(offset, offset + u32::from(len));
        m.done = m.acked.covers(0, m.len);
    }

    /// A piece was lost: it goes out again.
    pub(super) fn on_lost(&mut self, message: u64, offset: u32, len: u16) {
        if self.outgoing(message).is_some_and(|m| !m.done) {
            self.lost.push_back((message, offset, len.into()));
        }
    }

    /// The oldest message, if it is acknowledged whole.
    pub(super) fn pop_done(&mut self) -> Option<(u64, Block)> {
        if self.first < self.fresh && self.messages.front().is_some_and(|m| m.done) {
            let m = self.messages.pop_front()?;
            self.first += 1;
            return Some((self.first - 1, m.block));
        }
        None
    }

    /// Every block still held, for release when the association ends.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Block> + '_ {
        self.lost.clear();
        self.messages.drain(..).map(|m| m.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Block = Block { index: 0, generation: 0 };

    fn half(limit: u64) -> SendHalf {
        SendHalf::new(limit, 1 << 20, 4)
    }

    #[test]
    fn a_message_waits_until_its_whole_length_is_covered_by_credit() {
        let mut h = half(163);
        h.push(BLOCK, 100).unwrap();
        assert!(!h.ready() && h.is_blocked());
        h.set_limit(164);
        assert_eq!(h.next_piece(60).map(|p| (p.offset, p.len)), Some((0, 60)));
        assert_eq!(h.next_piece(60).map(|p| (p.offset, p.len)), Some((60, 40)));
        assert_eq!(h.next_piece(60), None);
    }

    #[test]
    fn an_older_limit_does_not_take_credit_back() {
        let mut h = half(1000);
        h.set_limit(10);
        h.push(BLOCK, 900).unwrap();
        assert!(h.ready());
    }

    #[test]
    fn repairs_go_first_and_only_what_is_still_missing() {
        let mut h = half(10_000);
        h.push(BLOCK, 100).unwrap();
        while h.next_piece(10).is_some() {}
        h.on_acked(0, 0, 10);
        h.on_lost(0, 0, 10);
        h.on_lost(0, 30, 10);
        h.push(BLOCK, 5).unwrap();
        assert_eq!(h.next_piece(4).map(|p| (p.offset, p.len)), Some((30, 4)));
        assert_eq!(h.next_piece(50).map(|p| (p.offset, p.len)), Some((34, 6)));
        assert_eq!(h.next_piece(50).map(|p| (p.message, p.len)), Some((1, 5)));
    }

    #[test]
    fn an_empty_message_is_sent_and_done_like_any_other() {
        let mut h = half(64);
        h.push(BLOCK, 0).unwrap();
        assert_eq!(h.pop_done(), None);
        assert_eq!(h.next_piece(10).map(|p| p.len), Some(0));
        assert_eq!(h.next_piece(10), None);
        h.on_lost(0, 0, 0);
        assert_eq!(h.next_piece(10).map(|p| p.len), Some(0));
        h.on_acked(0, 0, 0);
        assert_eq!(h.pop_done(), Some((0, BLOCK)));
        assert!(h.is_idle());
    }

    #[test]
    fn limits_name_the_value_and_the_limit() {
        let mut h = half(64);
        let e = h.push(BLOCK, 1 << 20).unwrap_err();
        assert_eq!(e, SendError::TooLong { len: 1 << 20, limit: (1 << 20) - 64 });
        for _ in 0..4 {
            h.push(BLOCK, 1).unwrap();
        }
        assert_eq!(h.push(BLOCK, 1), Err(SendError::QueueFull { waiting: 4, limit: 4 }));
    }
}
