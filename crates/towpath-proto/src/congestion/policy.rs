//! What a congestion controller is, and the choice of one.

use core::time::Duration;

use alloc::boxed::Box;
use towpath_wire::Instant;

use super::{Aimd, Fixed};

/// A congestion controller of one path. Sizes are bytes of datagrams.
pub trait Congestion: Send {
    /// Bytes that may be under way.
    fn window(&self) -> u64;

    /// `bytes` sent at `sent` were acknowledged. `limited`: the window, not the application,
    /// held the sender back.
    fn on_acked(&mut self, now: Instant, sent: Instant, bytes: u64, rtt: Duration, limited: bool);

    /// `bytes`, the newest of them sent at `sent`, count as lost.
    fn on_lost(&mut self, now: Instant, sent: Instant, bytes: u64);

    /// Nothing was acknowledged for several probe time-outs.
    fn on_silence(&mut self);
}

/// Which controller a path gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionKind {
    /// Additive increase, multiplicative decrease: shared links.
    Aimd,
    /// A constant window in bytes: reserved channels, which nothing but the reservation limits.
    Fixed(u64),
}

impl CongestionKind {
    /// A fresh controller for datagrams of `datagram` bytes.
    pub fn build(self, datagram: u64) -> Box<dyn Congestion> {
        match self {
            Self::Aimd => Box::new(Aimd::new(datagram)),
            Self::Fixed(bytes) => Box::new(Fixed::new(bytes)),
        }
    }
}
