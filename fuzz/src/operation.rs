//! What the target `operations` may do.

use arbitrary::Arbitrary;

use crate::hostile::Hostile;

/// One step. `side` is false for the host that started the association.
#[derive(Arbitrary, Debug)]
pub enum Operation {
    /// Opens a channel.
    Open { side: bool, direction: u8, reliability: u8, priority: u8 },
    /// Sends a message on one of the channels.
    Send { side: bool, channel: u8, len: u16 },
    /// Sends a message that is to arrive within so many milliseconds.
    SendBy { side: bool, channel: u8, len: u16, within_ms: u8 },
    /// Ends the sending on one of the channels.
    Finish { side: bool, channel: u8 },
    /// Takes the oldest message that waits.
    Consume { side: bool, all: bool },
    /// Closes the association.
    Close { side: bool },
    /// Takes a host's datagrams, `bytes` of them at a time.
    Transmit { side: bool, bytes: u16 },
    /// Delivers a datagram; `keep` leaves a copy under way.
    Deliver { index: u8, keep: bool },
    /// Delivers everything under way, in order.
    DeliverAll,
    /// Loses a datagram.
    Drop { index: u8 },
    /// Changes one of its bits.
    Corrupt { index: u8, bit: u16 },
    /// A packet that authenticates, towards `side`. `number`: 0 the sender's own next ones,
    /// 1 far ahead, 2 the very last.
    Forge { side: bool, number: u8, frames: Vec<Hostile> },
    /// A datagram that does not authenticate.
    Garbage { side: bool, bytes: Vec<u8> },
    /// Time passes and timers fire: 1 us to 1 s.
    Advance { step: u8 },
    /// A link changes.
    Path { side: bool, change: u8 },
    /// The host that started the association opens a path on the second link; the other one tells
    /// its address there.
    OpenPath { side: bool },
    /// A host uses a path no more.
    RetirePath { side: bool, path: u8 },
    /// A link carries nothing, or does again.
    Silence { link: bool },
}
