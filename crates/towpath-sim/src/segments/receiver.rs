//! The side that receives.

use std::collections::VecDeque;

use towpath_proto::{Arrival, AssociationId, Block, Memory};
use towpath_wire::{ChannelId, Instant};

use super::packet::{
    Data, MAP_LEN, MapPacket, SEGMENT_PACKETS, SegmentConfig, emit_map, parse_data,
};

/// Maps that wait to be sent at most; beyond it the oldest is dropped.
const MAPS_MAX: usize = 8;

/// A message that arrived whole. Its owner releases the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub message: u32,
    /// Its bytes.
    pub block: Block,
    /// Its length in bytes.
    pub len: u32,
}

/// Invariants: segments before `segment` are whole; `map` speaks of `segment` and is not whole.
#[derive(Debug)]
struct Current {
    block: Block,
    len: u32,
    segment: u32,
    map: u64,
    deadline: Option<Instant>,
    /// Maps that may still be sent without being asked.
    maps_left: u8,
}

/// The side that receives, messages in order.
#[derive(Debug)]
pub struct SegmentReceiver {
    config: SegmentConfig,
    /// For what message memory is asked for.
    label: u16,
    /// The message expected or under way.
    next: u32,
    current: Option<Current>,
    maps: VecDeque<MapPacket>,
    events: VecDeque<Received>,
    duplicates: u64,
}

impl SegmentReceiver {
    /// A receiver that expects message 0; memory is asked for under `label`.
    pub fn new(config: SegmentConfig, label: u16) -> Self {
        let (maps, events) = (VecDeque::new(), VecDeque::new());
        Self { config, label, next: 0, current: None, maps, events, duplicates: 0 }
    }

    /// Data packets that brought nothing new.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Takes a data packet in; anything else is ignored.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8], memory: &mut dyn Memory) {
        let Ok(data) = parse_data(&self.config, datagram) else { return };
        let segment = data.packet / SEGMENT_PACKETS;
        // How far message and segment lie behind what is expected.
        let behind = self.next.wrapping_sub(data.message).cast_signed();
        if behind == 0 && self.current.is_none() {
            self.begin(&data, memory);
        }
        match &self.current {
            Some(c) if behind == 0 && c.len == data.message_len && c.segment == segment => {
                self.place(now, &data, memory);
            }
            Some(c) if behind == 0 && (c.len != data.message_len || c.segment < segment) => {}
            None if behind == 0 => {}
            // Whole already, but the map that said so was lost.
            _ if behind >= 0 => {
                self.duplicates += 1;
                if data.asks {
                    let map = self.config.whole(data.message_len, segment);
                    self.answer(MapPacket { message: data.message, segment, map });
                }
            }
            _ => {}
        }
    }

    /// Sends the map unasked when the next packet did not come in time.
    pub fn handle_timeout(&mut self, now: Instant) {
        let Some(c) = self.current.as_mut().filter(|c| c.deadline.is_some_and(|at| at <= now))
        else {
            return;
        };
        c.maps_left -= 1;
        c.deadline = (c.maps_left > 0).then(|| now + self.config.gap_timeout);
        let map = MapPacket { message: self.next, segment: c.segment, map: c.map };
        self.answer(map);
    }

    /// When [`SegmentReceiver::handle_timeout`] is wanted.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.current.as_ref().and_then(|c| c.deadline)
    }

    /// Writes the next map to the first [`MAP_LEN`] bytes of `out`, if one is due.
    pub fn poll_transmit(&mut self, out: &mut [u8]) -> Option<usize> {
        let map = self.maps.pop_front()?;
        emit_map(out, &map);
        Some(MAP_LEN)
    }

    /// The next message that arrived whole.
    pub fn poll_event(&mut self) -> Option<Received> {
        self.events.pop_front()
    }

    /// Room for the message expected; without it the sender will repeat.
    fn begin(&mut self, data: &Data<'_>, memory: &mut dyn Memory) {
        let arrival = Arrival {
            association: AssociationId(0),
            channel: ChannelId(0),
            label: self.label,
            message: data.message.into(),
            len: data.message_len,
        };
        self.current = memory.alloc(&arrival).map(|block| Current {
            block,
            len: data.message_len,
            segment: 0,
            map: 0,
            deadline: None,
            maps_left: self.config.retries,
        });
    }

    fn place(&mut self, now: Instant, data: &Data<'_>, memory: &mut dyn Memory) {
        let Some(c) = &mut self.current else { return };
        let bit = 1 << (data.packet % SEGMENT_PACKETS);
        if c.map & bit != 0 {
            self.duplicates += 1;
        } else {
            let (offset, _) = self.config.range(c.len, data.packet);
            memory.place(c.block, offset, data.bytes);
            c.map |= bit;
        }
        let (message, segment, map) = (self.next, c.segment, c.map);
        c.maps_left = self.config.retries;
        c.deadline = (c.maps_left > 0).then(|| now + self.config.gap_timeout);
        if c.map == self.config.whole(c.len, c.segment) {
            (c.segment, c.map, c.deadline) = (c.segment + 1, 0, None);
            if c.segment == self.config.segments(c.len) {
                self.events.push_back(Received { message, block: c.block, len: c.len });
                self.next = self.next.wrapping_add(1);
                self.current = None;
            }
        }
        if data.asks {
            self.answer(MapPacket { message, segment, map });
        }
    }

    fn answer(&mut self, map: MapPacket) {
        if self.maps.len() == MAPS_MAX {
            self.maps.pop_front();
        }
        self.maps.push_back(map);
    }
}
