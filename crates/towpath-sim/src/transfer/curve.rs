//! Sequence, acknowledgement and credit over time, as an analyser on the sender's wire draws them
//! (Hsieh 1997, Figure 3.15).

use std::collections::BTreeMap;

use serde::Serialize;
use towpath_wire::frame::{Ack, Frame, Frames, MESSAGE_CHARGE};
use towpath_wire::packet::{DATA_HEADER, Packet, TAG};
use towpath_wire::{ChannelId, Instant, PathId};

/// Points of one series at most; what comes later is counted in [`Curve::left_out`].
const POINTS_MAX: usize = 500_000;
/// Packets that are remembered at most: what their frames held, and whether they arrived.
const PACKETS_MAX: usize = 4_000_000;

/// When, and how many bytes of the stream of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Simulated time in nanoseconds.
    pub at_ns: u64,
    /// Bytes since the first message's first.
    pub bytes: u64,
}

/// What one sender's packets and those that answered them say. Positions count the bytes of all
/// messages one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Curve {
    /// The end of each piece sent for the first time.
    pub sent: Vec<Point>,
    /// The end of each piece sent again.
    pub repaired: Vec<Point>,
    /// The end of what each packet held that left and never arrived, when it left.
    pub lost: Vec<Point>,
    /// Everything below is acknowledged.
    pub acknowledged: Vec<Point>,
    /// What the receiver's credit allows to send, in whole messages.
    pub credit: Vec<Point>,
    /// Points beyond the limit of a series, and packets beyond what is remembered.
    pub left_out: u64,
}

/// Reads a [`Curve`] from packets whose frames are not encrypted.
#[derive(Debug)]
pub(super) struct CurveReader {
    curve: Curve,
    message_bytes: u64,
    /// Highest position sent so far.
    sent_to: u64,
    /// Everything below is acknowledged.
    acked_to: u64,
    /// Acknowledged beyond that: start and end of disjoint ranges.
    beyond: BTreeMap<u64, u64>,
    /// By packet number.
    held: Vec<Held>,
}

/// What is remembered of a packet.
#[derive(Clone, Debug, Default)]
struct Held {
    left: Instant,
    /// Where its last piece ended; 0: it held none.
    end: u64,
    arrived: bool,
    /// Its pieces' ranges, until acknowledged.
    ranges: Vec<(u64, u64)>,
}

impl CurveReader {
    /// For a stream of messages of this length, of which `credit` bytes may be sent at first.
    pub(super) fn new(message_bytes: u32, credit: u64) -> Self {
        let mut reader = Self {
            curve: Curve::default(),
            message_bytes: message_bytes.into(),
            sent_to: 0,
            acked_to: 0,
            beyond: BTreeMap::new(),
            held: Vec::new(),
        };
        reader.limit(Instant::ZERO, credit);
        reader
    }

    /// What left before the last packet that arrived and did not arrive itself was lost.
    pub(super) fn finish(mut self) -> Curve {
        let newest = self.held.iter().rposition(|h| h.arrived).unwrap_or(0);
        let Curve { lost, left_out, .. } = &mut self.curve;
        for h in self.held[..newest].iter().filter(|h| h.end > 0 && !h.arrived) {
            push(lost, left_out, h.left, h.end);
        }
        self.curve
    }

    /// A packet left the sender.
    pub(super) fn departed(&mut self, now: Instant, channel: ChannelId, datagram: &[u8]) {
        let Some((number, frames)) = opened(datagram) else { return };
        let mut ranges = Vec::new();
        for frame in frames.flatten() {
            let Frame::Data(piece) = frame else { continue };
            if piece.channel != channel {
                continue;
            }
            let start = piece.message * self.message_bytes + u64::from(piece.offset);
            let end = start + piece.bytes.len() as u64;
            ranges.push((start, end));
            let again = end <= self.sent_to;
            let series = if again { &mut self.curve.repaired } else { &mut self.curve.sent };
            push(series, &mut self.curve.left_out, now, end);
            self.sent_to = self.sent_to.max(end);
        }
        let Some((_, end)) = ranges.last().copied() else { return };
        let index = number as usize;
        if index >= PACKETS_MAX {
            self.curve.left_out += 1;
            return;
        }
        if self.held.len() <= index {
            self.held.resize(index + 1, Held::default());
        }
        self.held[index] = Held { left: now, end, arrived: false, ranges };
    }

    /// A packet of the sender arrived and authenticated.
    pub(super) fn taken(&mut self, datagram: &[u8]) {
        if let Some((number, _)) = opened(datagram)
            && let Some(held) = self.held.get_mut(number as usize)
        {
            held.arrived = true;
        }
    }

    /// A packet for the sender arrived and authenticated.
    pub(super) fn arrived(&mut self, now: Instant, channel: ChannelId, datagram: &[u8]) {
        let Some((_, frames)) = opened(datagram) else { return };
        let before = self.acked_to;
        for frame in frames.flatten() {
            match frame {
                Frame::Ack(ack) if ack.path == PathId(0) => self.acknowledge(&ack),
                Frame::Limit { channel: c, limit } if c == channel => self.limit(now, limit),
                _ => {}
            }
        }
        if self.acked_to > before {
            let Curve { acknowledged, left_out, .. } = &mut self.curve;
            push(acknowledged, left_out, now, self.acked_to);
        }
    }

    fn limit(&mut self, now: Instant, limit: u64) {
        let messages = limit / (self.message_bytes + MESSAGE_CHARGE);
        let Curve { credit, left_out, .. } = &mut self.curve;
        push(credit, left_out, now, messages * self.message_bytes);
    }

    fn acknowledge(&mut self, ack: &Ack<'_>) {
        for (mut word, base) in ack.words().zip((0u64..).step_by(64)) {
            while word != 0 {
                let bit = u64::from(word.trailing_zeros());
                word &= word - 1;
                let number = ack.largest.checked_sub(base + bit).and_then(|n| n.try_into().ok());
                let held = number.and_then(|n: usize| self.held.get_mut(n));
                for range in held.map(|h| std::mem::take(&mut h.ranges)).unwrap_or_default() {
                    self.cover(range);
                }
            }
        }
    }

    fn cover(&mut self, (start, end): (u64, u64)) {
        let there = self.beyond.entry(start).or_insert(end);
        *there = end.max(*there);
        while let Some(first) = self.beyond.first_entry()
            && *first.key() <= self.acked_to
        {
            self.acked_to = self.acked_to.max(first.remove());
        }
    }
}

fn opened(datagram: &[u8]) -> Option<(u64, Frames<'_>)> {
    let Ok(Packet::Data(header)) = Packet::parse(datagram) else { return None };
    let content = &datagram[DATA_HEADER..datagram.len() - TAG];
    Some((header.number, Frames::new(content)))
}

fn push(series: &mut Vec<Point>, left_out: &mut u64, now: Instant, bytes: u64) {
    if series.len() < POINTS_MAX {
        series.push(Point { at_ns: now.as_nanos(), bytes });
    } else {
        *left_out += 1;
    }
}

#[cfg(test)]
mod tests {
    use towpath_wire::bytes::Writer;
    use towpath_wire::frame;
    use towpath_wire::packet::Data;

    use super::*;

    const CHANNEL: ChannelId = ChannelId(4);

    fn packet(number: u64, len: usize, emit: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut datagram = vec![0; DATA_HEADER + len + TAG];
        Data { epoch: 0, path: PathId(0), receiver: 0, number }.emit(&mut datagram);
        emit(&mut Writer::new(&mut datagram[DATA_HEADER..]));
        datagram
    }

    fn piece(number: u64, message: u64, offset: u32, len: u16) -> Vec<u8> {
        packet(number, 24 + usize::from(len), |w| {
            frame::emit_data_header(w, CHANNEL, message, 100, offset, len);
        })
    }

    fn ack(largest: u64, map: u64) -> Vec<u8> {
        packet(0, frame::ack_len(1), |w| frame::emit_ack(w, PathId(0), 0, largest, &[map]))
    }

    #[test]
    fn the_acknowledged_position_waits_for_what_is_missing() {
        let at = Instant::from_nanos;
        let mut reader = CurveReader::new(100, 328);
        for (n, message, offset) in [(0, 0, 0), (1, 0, 50), (2, 1, 0)] {
            reader.departed(at(n), CHANNEL, &piece(n, message, offset, 50));
        }
        for (n, message, offset) in [(0, 0, 0), (2, 1, 0)] {
            reader.taken(&piece(n, message, offset, 50));
        }
        reader.arrived(at(10), CHANNEL, &ack(2, 0b101));
        reader.departed(at(11), CHANNEL, &piece(3, 0, 50, 50));
        reader.departed(at(12), CHANNEL, &piece(4, 1, 50, 50));
        reader.arrived(at(20), CHANNEL, &ack(3, 0b1101));
        let curve = reader.finish();
        let points =
            |series: &[Point]| -> Vec<_> { series.iter().map(|p| (p.at_ns, p.bytes)).collect() };
        assert_eq!(points(&curve.sent), [(0, 50), (1, 100), (2, 150), (12, 200)]);
        // Packets 3 and 4 may still be under way.
        assert_eq!(points(&curve.lost), [(1, 100)]);
        assert_eq!(points(&curve.repaired), [(11, 100)]);
        assert_eq!(points(&curve.acknowledged), [(10, 50), (20, 150)]);
        // Two messages of 100 + 64 bytes.
        assert_eq!(points(&curve.credit), [(0, 200)]);
    }
}
