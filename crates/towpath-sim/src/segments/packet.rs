//! Bytes and measures that both sides share.

use std::time::Duration;

use towpath_wire::bytes::{ParseError, Reader, Writer};

/// Packets of a segment: as many as a map has bits.
pub const SEGMENT_PACKETS: u32 = 64;
/// Bytes before a data packet's content.
pub const DATA_HEADER: usize = 16;
/// Bytes of a map packet.
pub const MAP_LEN: usize = 24;

const KIND_DATA: u8 = 1;
const KIND_MAP: u8 = 2;

/// What both sides agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentConfig {
    /// Content bytes of a packet; above 0.
    pub packet_bytes: u16,
    /// Repetitions per segment, of either kind, before the sender gives up.
    pub retries: u8,
    /// How long the sender waits for a map.
    pub map_timeout: Duration,
    /// How long the receiver waits for the next packet of a segment.
    pub gap_timeout: Duration,
}

impl Default for SegmentConfig {
    /// The source's sizes; it gives no times and no number of retries.
    fn default() -> Self {
        Self {
            packet_bytes: 4096,
            retries: 16,
            map_timeout: Duration::from_millis(200),
            gap_timeout: Duration::from_millis(100),
        }
    }
}

impl SegmentConfig {
    /// Packets of a message; an empty one has one.
    pub(super) fn packets(&self, len: u32) -> u32 {
        len.div_ceil(self.packet_bytes.into()).max(1)
    }

    /// Segments of a message.
    pub(super) fn segments(&self, len: u32) -> u32 {
        self.packets(len).div_ceil(SEGMENT_PACKETS)
    }

    /// The packets of a segment as a map.
    pub(super) fn whole(&self, len: u32, segment: u32) -> u64 {
        let before = u64::from(segment) * u64::from(SEGMENT_PACKETS);
        match u64::from(self.packets(len)).saturating_sub(before) {
            0 => 0,
            n @ 1..64 => (1 << n) - 1,
            _ => u64::MAX,
        }
    }

    /// Where a packet's content stands in its message: offset and length.
    pub(super) fn range(&self, len: u32, packet: u32) -> (u32, u16) {
        let offset = packet * u32::from(self.packet_bytes);
        (offset, (len - offset).min(self.packet_bytes.into()) as u16)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Data<'a> {
    pub(super) asks: bool,
    pub(super) message: u32,
    pub(super) message_len: u32,
    pub(super) packet: u32,
    pub(super) bytes: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MapPacket {
    pub(super) message: u32,
    pub(super) segment: u32,
    pub(super) map: u64,
}

pub(super) fn emit_data(out: &mut [u8], data: &Data<'_>, len: u16) {
    let mut w = Writer::new(out);
    w.u8(KIND_DATA);
    w.u8(u8::from(data.asks));
    w.u16(len);
    w.u32(data.message);
    w.u32(data.message_len);
    w.u32(data.packet);
}

pub(super) fn parse_data<'a>(
    config: &SegmentConfig,
    datagram: &'a [u8],
) -> Result<Data<'a>, ParseError> {
    let mut r = Reader::new(datagram);
    expect(r.u8()?, KIND_DATA)?;
    let asks = match r.u8()? {
        0 => false,
        1 => true,
        value => return Err(ParseError::Unknown { field: "asks", value: value.into() }),
    };
    let n = r.u16()?;
    let (message, message_len, packet) = (r.u32()?, r.u32()?, r.u32()?);
    let packets = config.packets(message_len);
    if packet >= packets {
        let (value, limit) = (packet.into(), u64::from(packets) - 1);
        return Err(ParseError::Limit { field: "packet", value, limit });
    }
    let (_, len) = config.range(message_len, packet);
    if n != len {
        return Err(ParseError::Limit { field: "length", value: n.into(), limit: len.into() });
    }
    Ok(Data { asks, message, message_len, packet, bytes: r.take(n.into())? })
}

pub(super) fn emit_map(out: &mut [u8], map: &MapPacket) {
    let mut w = Writer::new(out);
    w.u32(u32::from(KIND_MAP));
    w.u32(map.message);
    w.u32(map.segment);
    w.u32(0);
    w.u64(map.map);
}

pub(super) fn parse_map(datagram: &[u8]) -> Result<MapPacket, ParseError> {
    let mut r = Reader::new(datagram);
    expect(r.u8()?, KIND_MAP)?;
    r.take(3)?;
    let (message, segment) = (r.u32()?, r.u32()?);
    r.take(4)?;
    Ok(MapPacket { message, segment, map: r.u64()? })
}

fn expect(kind: u8, expected: u8) -> Result<(), ParseError> {
    if kind == expected {
        Ok(())
    } else {
        Err(ParseError::Unknown { field: "packet kind", value: kind.into() })
    }
}
