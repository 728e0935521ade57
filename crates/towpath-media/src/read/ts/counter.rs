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

#[cfg(test)]
mod tests {
    use super::super::packet::PACKET;
    use super::*;
    use alloc::vec::Vec;

    fn packet(counter: u8) -> [u8; PACKET] {
        let mut bytes = [0xFF; PACKET];
        bytes[..4].copy_from_slice(&[0x47, 1, 0, 0x10 | counter]);
        bytes
    }

    fn orders(packets: &[[u8; PACKET]]) -> Vec<Order> {
        let mut counter = Counter::default();
        packets.iter().map(|bytes| counter.check(Packet { bytes }, false)).collect()
    }

    #[test]
    fn a_packet_may_come_twice_and_not_more_often() {
        let [five, six] = [5, 6].map(packet);
        let expected = [Order::Next, Order::Repeat, Order::RepeatAgain, Order::Next];
        assert_eq!(orders(&[five, five, five, six]), expected);
        let expected = [Order::Next, Order::Repeat, Order::Next, Order::Repeat];
        assert_eq!(orders(&[five, five, six, six]), expected);
        assert_eq!(orders(&[five, packet(7)]), [Order::Next, Order::Gap]);
    }

    /// Fifteen packets are lost: the counter is the same, and some byte is not.
    #[test]
    fn a_packet_of_the_same_counter_and_other_bytes_is_another() {
        let before = packet(5);
        for at in (1..PACKET).filter(|at| *at != 3) {
            for bit in 0..8 {
                let mut other = before;
                other[at] ^= 1 << bit;
                assert_eq!(orders(&[before, other]), [Order::Next, Order::Gap], "{at} {bit}");
            }
        }
    }

    #[test]
    fn a_packet_sent_again_may_tell_its_clock_anew() {
        let mut before = packet(5);
        before[3] |= 0x20;
        before[4..12].copy_from_slice(&[7, 0x10, 1, 2, 3, 4, 0x7E, 6]);
        for at in 6..12 {
            let mut again = before;
            again[at] ^= 0x55;
            assert_eq!(orders(&[before, again]), [Order::Next, Order::Repeat], "{at}");
        }
        let mut other = before;
        other[12] ^= 1;
        assert_eq!(orders(&[before, other]), [Order::Next, Order::Gap]);
        other = before;
        other[5] ^= 0x40;
        assert_eq!(orders(&[before, other]), [Order::Next, Order::Gap]);
    }
}
