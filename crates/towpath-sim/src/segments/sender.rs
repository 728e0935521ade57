//! The side that sends.

use towpath_proto::{Block, Memory};
use towpath_wire::Instant;

use super::packet::{DATA_HEADER, Data, SEGMENT_PACKETS, SegmentConfig, emit_data, parse_map};

/// A message is under way already.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("message {message} is still under way")]
pub struct Busy {
    /// Which.
    pub message: u32,
}

/// Every attempt at a segment failed.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("segment {segment} of message {message} did not arrive whole in {retries} repetitions")]
pub struct GaveUp {
    /// The message.
    pub message: u32,
    /// Its segment.
    pub segment: u32,
    /// Repetitions made: the limit.
    pub retries: u8,
}

/// What became of a message. Its block belongs to the owner again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEvent {
    /// Its number.
    pub message: u32,
    /// Its bytes.
    pub block: Block,
    /// It arrived whole, or the sender gave up.
    pub outcome: Result<(), GaveUp>,
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentStats {
    /// Data packets sent.
    pub packets: u64,
    /// Of those, how many were sent before.
    pub repeated: u64,
    /// Segments repeated whole because no map came.
    pub whole: u64,
    /// Maps received for the segment under way.
    pub maps: u64,
}

/// Invariants: `due` and `has` are within `whole`; `deadline` stands exactly while `due` is empty.
#[derive(Debug)]
struct Current {
    message: u32,
    block: Block,
    len: u32,
    segment: u32,
    /// Packets of the segment.
    whole: u64,
    /// Those to be sent in this round.
    due: u64,
    /// Those sent in some round.
    sent: u64,
    /// Those that the receiver is known to have.
    has: u64,
    retries_left: u8,
    deadline: Option<Instant>,
}

/// The side that sends, one message at a time.
#[derive(Debug)]
pub struct SegmentSender {
    config: SegmentConfig,
    next: u32,
    current: Option<Current>,
    event: Option<SegmentEvent>,
    stats: SegmentStats,
}

impl SegmentSender {
    /// A sender with nothing to send.
    pub fn new(config: SegmentConfig) -> Self {
        assert!(config.packet_bytes > 0, "packets hold something");
        Self { config, next: 0, current: None, event: None, stats: SegmentStats::default() }
    }

    /// Counters.
    pub const fn stats(&self) -> &SegmentStats {
        &self.stats
    }

    /// Starts a message of `len` bytes; returns its number. The block stays ours until the event.
    pub fn send(&mut self, block: Block, len: u32) -> Result<u32, Busy> {
        let under_way = self.current.as_ref().map(|c| c.message);
        if let Some(message) = under_way.or(self.event.map(|e| e.message)) {
            return Err(Busy { message });
        }
        let message = self.next;
        self.next = self.next.wrapping_add(1);
        let (segment, whole) = (0, self.config.whole(len, 0));
        self.current = Some(Current {
            message,
            block,
            len,
            segment,
            whole,
            due: whole,
            sent: 0,
            has: 0,
            retries_left: self.config.retries,
            deadline: None,
        });
        Ok(message)
    }

    /// Writes the next packet, if there is one to send now; returns its length. `out` holds at
    /// least [`DATA_HEADER`] and the packet's content.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        out: &mut [u8],
        memory: &dyn Memory,
    ) -> Option<usize> {
        let c = self.current.as_mut().filter(|c| c.due != 0)?;
        let bit = c.due.trailing_zeros();
        c.due &= c.due - 1;
        let asks = c.due == 0;
        if asks {
            c.deadline = Some(now + self.config.map_timeout);
        }
        self.stats.packets += 1;
        self.stats.repeated += c.sent >> bit & 1;
        c.sent |= 1 << bit;
        let packet = c.segment * SEGMENT_PACKETS + bit;
        let (offset, len) = self.config.range(c.len, packet);
        let (message, message_len) = (c.message, c.len);
        emit_data(out, &Data { asks, message, message_len, packet, bytes: &[] }, len);
        let end = DATA_HEADER + usize::from(len);
        memory.copy_out(c.block, offset, &mut out[DATA_HEADER..end]);
        Some(end)
    }

    /// Takes a map in; anything else is ignored.
    pub fn handle_datagram(&mut self, datagram: &[u8]) {
        let (Ok(map), Some(c)) = (parse_map(datagram), &mut self.current) else { return };
        if (map.message, map.segment) != (c.message, c.segment) {
            return;
        }
        self.stats.maps += 1;
        c.has |= map.map & c.whole;
        let missing = c.whole & !c.has;
        if missing == 0 {
            self.go_on();
        } else if c.due == 0 {
            self.repeat(missing);
        }
    }

    /// Repeats the whole segment when no map came in time.
    pub fn handle_timeout(&mut self, now: Instant) {
        let Some(c) = &self.current else { return };
        if c.deadline.is_some_and(|at| at <= now) {
            self.stats.whole += u64::from(c.retries_left > 0);
            self.repeat(c.whole);
        }
    }

    /// When [`SegmentSender::handle_timeout`] is wanted.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.current.as_ref().and_then(|c| c.deadline)
    }

    /// What became of the message.
    pub fn poll_event(&mut self) -> Option<SegmentEvent> {
        self.event.take()
    }

    /// To the next segment, or to the end of the message.
    fn go_on(&mut self) {
        let Some(c) = &mut self.current else { return };
        c.segment += 1;
        if c.segment == self.config.segments(c.len) {
            return self.end(Ok(()));
        }
        c.whole = self.config.whole(c.len, c.segment);
        (c.due, c.sent, c.has) = (c.whole, 0, 0);
        (c.retries_left, c.deadline) = (self.config.retries, None);
    }

    fn repeat(&mut self, packets: u64) {
        let Some(c) = &mut self.current else { return };
        let Some(left) = c.retries_left.checked_sub(1) else {
            let (message, segment, retries) = (c.message, c.segment, self.config.retries);
            return self.end(Err(GaveUp { message, segment, retries }));
        };
        (c.retries_left, c.due, c.deadline) = (left, packets, None);
    }

    fn end(&mut self, outcome: Result<(), GaveUp>) {
        if let Some(Current { message, block, .. }) = self.current.take() {
            self.event = Some(SegmentEvent { message, block, outcome });
        }
    }
}
