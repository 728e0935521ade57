//! The continuity counter (§2.4.3.3).

use super::packet::Packet;

/// The counter of a PID.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter {
    seen: bool,
    last: u8,
    repeats: u8,
    print: u64,
}

/// What a counter says of a packet with payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Next,
    /// The packet came once more: allowed once (§2.4.3.3).
    Repeat,
    RepeatAgain,
    Gap,
}

impl Counter {
    #[inline]
    pub(super) fn check(&mut self, packet: Packet<'_>, discontinuity: bool) -> Order {
        let counter = packet.continuity();
        let print = packet.print();
        let before =
            core::mem::replace(self, Self { seen: true, last: counter, repeats: 0, print });
        if !before.seen || discontinuity || counter == (before.last + 1) & 15 {
            return Order::Next;
        }
        if counter == before.last && print == before.print {
            self.repeats = 1;
            return if before.repeats == 0 { Order::Repeat } else { Order::RepeatAgain };
        }
        Order::Gap
    }
}
