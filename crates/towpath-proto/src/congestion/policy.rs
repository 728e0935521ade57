//! What a congestion controller is, and the choice of one.

use core::time::Duration;

use alloc::boxed::Box;
use towpath_wire::Instant;

use super::{Aimd, Cubic, Fixed, Tolerant};

/// What one acknowledgement told of a path. Sizes are bytes of datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it arrived.
    pub now: Instant,
    /// Round-trip time of the newest packet that it newly acknowledged, the peer's own delay
    /// subtracted; `None` where that packet had counted as lost.
    pub rtt: Option<Duration>,
    /// Bytes newly acknowledged.
    pub acked: u64,
    /// When the newest packet among them was sent.
    pub sent: Instant,
    /// The window, not the application, held the sender back when that packet was sent.
    pub limited: bool,
    /// Bytes acknowledged on the path since it began, these included.
    pub delivered: u64,
    /// The same count at the time when that packet was sent: what lies between is one round trip.
    pub prior_delivered: u64,
    /// Some of these packets met congestion, as ECN tells.
    pub congestion_met: bool,
}

/// A loss. Sizes are bytes of datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// When it was noticed.
    pub now: Instant,
    /// When the newest lost packet was sent.
    pub sent: Instant,
    /// Bytes lost.
    pub bytes: u64,
}

/// A congestion controller of one path. Sizes are bytes of datagrams.
pub trait Congestion: Send {
    /// Bytes that may be under way.
    fn window(&self) -> u64;

    /// Bytes per second at which to send; `None`: as fast as the window allows.
    fn pacing(&self) -> Option<u64> {
        None
    }

    /// Packets were acknowledged. Losses that the same acknowledgement shows are told afterwards.
    fn on_acked(&mut self, sample: &Sample);

    /// Packets count as lost.
    fn on_lost(&mut self, loss: &Loss);

    /// A packet of `bytes`, sent at `sent`, had only been late when it counted as lost.
    fn on_spurious(&mut self, sent: Instant, bytes: u64) {
        let _ = (sent, bytes);
    }

    /// All packets sent over several probe time-outs were lost (RFC 9002 §7.6).
    fn on_silence(&mut self);

    /// The path takes datagrams of this size from now on.
    fn on_datagram(&mut self, bytes: u64) {
        let _ = bytes;
    }
}

/// Which controller a path gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionKind {
    /// CUBIC that only losses beyond the path's own slow down: shared links.
    Tolerant,
    /// Additive increase, multiplicative decrease (`NewReno`): the reference.
    Aimd,
    /// CUBIC, as kernels use it: the competitor in simulations.
    Cubic,
    /// A constant window in bytes: reserved channels, which nothing but the reservation limits.
    Fixed(u64),
}

impl CongestionKind {
    /// A fresh controller for datagrams of `datagram` bytes.
    pub fn build(self, datagram: u64) -> Box<dyn Congestion> {
        match self {
            Self::Tolerant => Box::new(Tolerant::new(datagram)),
            Self::Aimd => Box::new(Aimd::new(datagram)),
            Self::Cubic => Box::new(Cubic::new(datagram)),
            Self::Fixed(bytes) => Box::new(Fixed::new(bytes)),
        }
    }
}

/// Largest window of any policy: what a receiver's packet map can still tell apart at 1472 bytes,
/// with room to spare.
pub(super) const WINDOW_MAX: u64 = 12 << 20;
