//! The reference of 1997: selective retransmission by segments, as the project's first source
//! describes it (Hsieh 1997, §2.3.4.1). It stands beside the association so that what the
//! association gains can be measured on the same links; nothing in the daemon uses it.
//!
//! A message goes out in segments of 64 packets (64 × 4 KiB = 256 KiB). After the last packet of
//! a segment, or of the message, the sender waits. The receiver answers that packet with a map of
//! 64 bits, one per packet that it has; the sender repeats what is missing and waits again. When
//! no map comes in time, it repeats the whole segment. Each of the two costs one of `retries`
//! attempts, which every segment has anew; with none left the sender gives up. The receiver sends
//! its map also when it has waited too long for the next packet of a segment.
//!
//! What the source leaves open, and how it is read here:
//! - "the last packet" of a repetition is the last one that the sender repeats: it carries a flag
//!   that asks for the map.
//! - The source starts a timer per message, too, and does not say what it does; here the retries
//!   bound a message's time.
//! - No map is sent more often than `retries` times without a packet in between.
//!
//! One message is under way at a time, one way. There is no handshake, no encryption and no
//! congestion control, as there was none.
//!
//! ```text
//! DATA  0 kind=1 | 1 asks for a map (0, 1) | 2..4 length n | 4..8 message | 8..12 message length
//!       12..16 packet number p within the message: segment p / 64, bit p % 64
//!       16..16+n bytes from offset p * packet_bytes
//! MAP   0 kind=2 | 1..4 zero | 4..8 message | 8..12 segment | 12..16 zero
//!       16..24 map: bit i set = packet i of the segment was received
//! ```

mod packet;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use packet::{DATA_HEADER, MAP_LEN, SEGMENT_PACKETS, SegmentConfig};
pub use receiver::{Received, SegmentReceiver};
pub use sender::{Busy, GaveUp, SegmentEvent, SegmentSender, SegmentStats};
