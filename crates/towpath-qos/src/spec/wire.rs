//! From messages to wire bits: the one table of overheads.
//!
//! | part | bytes | counted |
//! |---|---|---|
//! | preamble and start of frame | 8 | per frame |
//! | Ethernet header | 14 | per frame |
//! | 802.1Q tag | 4 | per frame, if tagged |
//! | padding | to 46 (42 if tagged) behind the header | short frames |
//! | frame check sequence | 4 | per frame |
//! | inter-frame gap | 12 | per frame |
//! | IPv4 or IPv6 header | 20 or 40 | per frame |
//! | UDP header | 8 | per frame |
//! | Towpath data header | 16 | per frame |
//! | Towpath tag | 16 | per frame |
//! | Towpath frame headers | up to [`FRAMES`] | per frame |
//!
//! The table is of a channel's own data, sent by grants of its own
//! (`towpath_proto::GrantKind::Data`): acknowledgements, probes and control have a share of the
//! link of their own, and nothing is filled up. It does not count what no specification does:
//! what is repaired after a loss, and the OPEN that goes along until the peer knows the channel. A
//! packet that any grant may send, as all are on links without reservations, can have up to eight
//! acknowledgement frames of 144 bytes beside, and padding.
//!
//! A message longer than a frame's payload is cut into full frames and a rest. With GSO the
//! frames of one train leave back to back and count as *one* packet: no scheduler can get
//! between them.

use towpath_wire::ByteSize;
use towpath_wire::frame::DATA_OVERHEAD;
use towpath_wire::packet::{DATA_HEADER, TAG};

use super::buckets::{BUCKETS_MAX, Bucket, Buckets};
use super::packets::Packets;
use super::tspec::TSpec;

/// Preamble, start-of-frame delimiter and inter-frame gap (IEEE 802.3 clause 4.4.2).
pub const GAP: u64 = 8 + 12;
/// Header and frame check sequence.
pub const ETHERNET: u64 = 14 + 4;
/// Shortest frame with its check sequence.
pub const FRAME_MIN: u64 = 64;
/// 802.1Q tag.
pub const VLAN: u64 = 4;
/// UDP header (RFC 768).
pub const UDP: u64 = 8;
/// Towpath's own frame headers inside the seal: a message's first, and that of the piece which the
/// end of a packet cut off. Messages that share packets are cut at most once for each packet, and
/// open no more packets together than they would alone, so two for each frame cover all of them.
pub const FRAMES: u64 = 2 * DATA_OVERHEAD as u64;

/// Which IP carries the datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ip {
    /// 20 bytes, no options.
    #[default]
    V4,
    /// 40 bytes, no extension headers.
    V6,
}

/// How messages become frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    ip: Ip,
    vlan: bool,
    payload: u64,
    train_frames: u64,
}

/// A packet size that cannot carry payload, or one beyond what a train may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The MTU leaves no room for payload.
    #[error("mtu_bytes is {mtu}, must be at least {least}")]
    Mtu {
        /// The MTU in bytes.
        mtu: u64,
        /// The least that carries a byte.
        least: u64,
    },
    /// The MTU or the train is beyond a datagram's or a kernel's limit.
    #[error("{what} is {value}, must be 1 to {limit}")]
    Range {
        /// `mtu_bytes` or `train_frames`.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The limit.
        limit: u64,
    },
}

/// Most frames of one GSO train (the kernel's limit of segments per send).
pub const TRAIN_FRAMES_MAX: u64 = 64;
/// Largest MTU.
pub const MTU_MAX: u64 = 65_535;

/// Bytes of headers around a datagram in its IP packet.
const fn headers(ip: Ip) -> u64 {
    let ip = match ip {
        Ip::V4 => 20,
        Ip::V6 => 40,
    };
    ip + UDP
}

/// Wire bytes of the frame that carries a UDP datagram of so many bytes, gap included.
pub const fn datagram_bytes(ip: Ip, vlan: bool, datagram: u64) -> u64 {
    let tag = if vlan { VLAN } else { 0 };
    let frame = ETHERNET + tag + headers(ip) + datagram;
    (if frame < FRAME_MIN { FRAME_MIN } else { frame }) + GAP
}

impl Framing {
    /// From the MTU (largest IP packet), and how many frames a GSO train holds at most (1: no
    /// trains).
    pub fn new(ip: Ip, vlan: bool, mtu: ByteSize, train_frames: u64) -> Result<Self, FramingError> {
        let mtu = mtu.as_bytes();
        let overhead = Self::inside(ip);
        if mtu > MTU_MAX {
            return Err(FramingError::Range { what: "mtu_bytes", value: mtu, limit: MTU_MAX });
        }
        if mtu <= overhead {
            return Err(FramingError::Mtu { mtu, least: overhead + 1 });
        }
        if train_frames == 0 || train_frames > TRAIN_FRAMES_MAX {
            let (what, value) = ("train_frames", train_frames);
            return Err(FramingError::Range { what, value, limit: TRAIN_FRAMES_MAX });
        }
        Ok(Self { ip, vlan, payload: mtu - overhead, train_frames })
    }

    /// Bytes of headers inside the IP packet, its own included.
    const fn inside(ip: Ip) -> u64 {
        headers(ip) + DATA_HEADER as u64 + TAG as u64 + FRAMES
    }

    /// Payload bytes of a full frame.
    pub const fn payload(&self) -> ByteSize {
        ByteSize::from_bytes(self.payload)
    }

    /// Wire bytes of one frame with at most a full payload.
    const fn frame(&self, payload: u64) -> u64 {
        let datagram = Self::inside(self.ip) - headers(self.ip) + payload;
        datagram_bytes(self.ip, self.vlan, datagram)
    }

    /// Wire bytes of a message: whole frames and the rest. An empty message takes a frame.
    pub const fn wire_bytes(&self, message: ByteSize) -> ByteSize {
        let (whole, rest) = (message.as_bytes() / self.payload, message.as_bytes() % self.payload);
        let full = whole.saturating_mul(self.frame(self.payload));
        let rest = if rest > 0 || whole == 0 { self.frame(rest) } else { 0 };
        ByteSize::from_bytes(full.saturating_add(rest))
    }

    /// Wire bytes of the largest thing that leaves in one piece, for messages up to `message`.
    pub fn packet_bytes(&self, message: ByteSize) -> ByteSize {
        let train = self.frame(self.payload) * self.train_frames;
        ByteSize::from_bytes(self.wire_bytes(message).as_bytes().min(train))
    }

    /// What a specification of messages is on the wire.
    ///
    /// Models that count packets grow exactly; the others by the worst ratio of wire to message
    /// bytes from the least counted message (`packet_counted`) on, which lies there or at the
    /// first byte of a new frame behind it.
    pub fn demand(&self, spec: &TSpec, message_min: ByteSize) -> Demand {
        let largest = spec.packet_max();
        let counted = spec.packet_counted(message_min);
        let (wire, message) = self.worst_ratio(counted.as_bytes(), largest.as_bytes());
        let grow = |bits: u64| {
            let grown = (u128::from(bits) * u128::from(wire)).div_ceil(u128::from(message));
            u64::try_from(grown).unwrap_or(u64::MAX)
        };
        let mut lines = [Bucket::default(); BUCKETS_MAX];
        let buckets = spec.buckets();
        for (line, b) in lines.iter_mut().zip(buckets.as_slice()) {
            *line = Bucket { burst_bits: grow(b.burst_bits), rate_bps: grow(b.rate_bps) };
        }
        let bits = |size: ByteSize| size.as_bytes().saturating_mul(8);
        let (packet_bits, message) =
            (bits(self.packet_bytes(largest)), bits(self.wire_bytes(largest)));
        let packets = spec.packets(message);
        let lines = Buckets::least(&lines[..buckets.as_slice().len()]);
        Demand {
            buckets: packets.map_or(lines, |packets| packets.buckets()),
            packets,
            kept_bits: match spec {
                TSpec::SigmaRho(_) => [grow(bits(largest.min(self.payload()))), 0],
                TSpec::PeakMean(_) => [grow(bits(largest)); 2],
                _ => [grow(bits(largest)), 0],
            },
            packet_bits,
            packet_min_bits: bits(ByteSize::from_bytes(self.frame(0))),
            counted_bits: bits(ByteSize::from_bytes(
                self.wire_bytes(counted).as_bytes().min(self.frame(self.payload)),
            )),
        }
    }

    /// The (wire, message) bytes of the message in `least..=most` with the largest ratio.
    fn worst_ratio(&self, least: u64, most: u64) -> (u64, u64) {
        let least = least.max(1);
        let wire = |n: u64| self.wire_bytes(ByteSize::from_bytes(n)).as_bytes();
        let next = (least.div_ceil(self.payload) * self.payload).saturating_add(1);
        let (a, b) = ((wire(least), least), (wire(next), next));
        let later_is_worse = u128::from(b.0) * u128::from(a.1) > u128::from(a.0) * u128::from(b.1);
        if next <= most && later_is_worse { b } else { a }
    }
}

impl Default for Framing {
    /// IPv4 over untagged Ethernet with an MTU of 1500, no trains.
    fn default() -> Self {
        Self { ip: Ip::V4, vlan: false, payload: 1500 - Self::inside(Ip::V4), train_frames: 1 }
    }
}

/// A channel's load in wire bits: what admission and bounds work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Arrival curve at the sender's egress, or token buckets above it.
    pub buckets: Buckets,
    /// The curve itself, where the model counts packets.
    pub packets: Option<Packets>,
    /// What less traffic of the kind has as well, grown as bursts are. No burst is below the first:
    /// the largest message, or, where a burst may be any number of packets (σ, ρ), the payload of
    /// the largest packet. The second is beside the burst that the model scales: the largest packet
    /// of peak and mean, else nothing.
    pub kept_bits: [u64; 2],
    /// Largest piece that no scheduler can interrupt.
    pub packet_bits: u64,
    /// Smallest packet: what the fastest one takes on a link.
    pub packet_min_bits: u64,
    /// Least wire bits that a counted packet stands for: bounds packets per bit, so processor time.
    pub counted_bits: u64,
}

impl Demand {
    /// A specification that is already in wire bits; what its model does not know of its packets'
    /// sizes is at least `assumed`.
    pub fn of_spec(spec: &TSpec, assumed: ByteSize) -> Self {
        let (max, counted) = (spec.packet_max(), spec.packet_counted(assumed));
        let packets = spec.packets(max.as_bytes().saturating_mul(8));
        let buckets = packets.map_or_else(|| spec.buckets(), |packets| packets.buckets());
        let wire = Self::of_wire(buckets, counted, max);
        let beside = if matches!(spec, TSpec::PeakMean(_)) { wire.packet_bits } else { 0 };
        Self { packets, kept_bits: [wire.packet_bits, beside], ..wire }
    }

    /// A load that is already in wire bits, of packets from `min` to `max`.
    pub fn of_wire(buckets: Buckets, min: ByteSize, max: ByteSize) -> Self {
        let bits = |size: ByteSize| size.as_bytes().saturating_mul(8).max(1);
        Self {
            buckets,
            packets: None,
            kept_bits: [bits(max), 0],
            packet_bits: bits(max),
            packet_min_bits: bits(min.min(max)),
            counted_bits: bits(min.min(max)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SigmaRho, Spaced};
    use super::*;
    use core::time::Duration;
    use proptest::prelude::*;
    use towpath_wire::Rate;

    fn bytes(n: u64) -> ByteSize {
        ByteSize::from_bytes(n)
    }

    #[test]
    fn a_frame_by_hand() {
        // 1000 B: + 48 + 16 + 16 + 8 + 20 in the IP packet, + 18 Ethernet, + 20 gap.
        assert_eq!(Framing::default().wire_bytes(bytes(1000)), bytes(1146));
        let v6 = Framing::new(Ip::V6, true, bytes(1500), 1).expect("valid");
        assert_eq!(v6.wire_bytes(bytes(1000)), bytes(1170));
        // 1392 B of payload in a full frame: 1538 B, the largest untagged one.
        assert_eq!(Framing::default().payload(), bytes(1392));
        assert_eq!(Framing::default().wire_bytes(bytes(1392)), bytes(1538));
        assert_eq!(Framing::default().wire_bytes(bytes(1393)), bytes(1538 + 147));
    }

    #[test]
    fn a_train_is_one_packet() {
        let trains = Framing::new(Ip::V4, false, bytes(1500), 16).expect("valid");
        assert_eq!(trains.packet_bytes(bytes(1 << 20)), bytes(16 * 1538));
        assert_eq!(trains.packet_bytes(bytes(100)), bytes(246));
    }

    #[test]
    fn counted_packets_grow_exactly() {
        let spec = Spaced::new(Duration::from_millis(1), bytes(1000)).expect("valid");
        let demand = Framing::default().demand(&TSpec::Spaced(spec), bytes(1));
        assert_eq!(demand.buckets.as_slice(), [Bucket { burst_bits: 9168, rate_bps: 9_168_000 }]);
    }

    #[test]
    fn an_mtu_without_payload_is_refused() {
        let refused = Framing::new(Ip::V4, false, bytes(100), 1);
        assert_eq!(refused, Err(FramingError::Mtu { mtu: 100, least: 109 }));
    }

    proptest! {
        #[test]
        fn no_message_grows_more_than_the_ratio(
            least in 1u64..5000, size in 1u64..20_000, mtu in 109u64..9000,
        ) {
            let framing = Framing::new(Ip::V4, false, bytes(mtu), 1).expect("valid");
            let spec = SigmaRho::new(bytes(20_000), Rate::from_bps(8_000_000)).expect("valid");
            let demand = framing.demand(&TSpec::SigmaRho(spec), bytes(least));
            let size = size.max(least);
            let wire = framing.wire_bytes(bytes(size)).as_bytes();
            let sustained = u128::from(demand.buckets.sustained_bps());
            prop_assert!(sustained * u128::from(size) >= 8_000_000 * u128::from(wire));
        }
    }
}
