//! The ring between network and consumer.

use alloc::collections::VecDeque;
use core::time::Duration;

use serde::Serialize;
use towpath_wire::Instant;

use super::marks::{Marks, When};
use super::order::{Order, OrderCounters};
use crate::read::PACKET;
use crate::rtp::{Header, Reception};
use crate::send::Feedback;

/// What datagrams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// Packets of a transport stream, or RTP: their first bytes tell.
    Either,
    /// RTP alone.
    Rtp,
}

/// How a stream is received.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveConfig {
    /// What datagrams are.
    pub framing: Framing,
    /// Bytes of the ring: the third source's is 1 MB.
    pub capacity: usize,
    /// The consumer gets nothing until so many bytes wait: time for a repair.
    pub start: usize,
    /// When the sender is asked for less.
    pub feedback: When,
    /// How long a datagram that others overtook is waited for.
    pub patience: Duration,
}

impl Default for ReceiveConfig {
    fn default() -> Self {
        Self {
            framing: Framing::Either,
            capacity: 1 << 20,
            start: 0,
            feedback: When::Before,
            patience: Duration::from_millis(30),
        }
    }
}

/// What a receiver counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReceiveCounters {
    /// Datagrams taken.
    pub datagrams: u64,
    /// Bytes of the stream in them.
    pub bytes: u64,
    /// Datagrams that were neither RTP nor whole packets.
    pub garbage: u64,
    /// Datagrams dropped because the ring was full.
    pub overflowed: u64,
    /// SLOWDOWN, SPEEDUP and NORMAL asked for.
    pub feedback: [u64; 3],
    /// By RTP's numbers; all zero without them.
    #[serde(flatten)]
    pub order: OrderCounters,
}

/// Receives one stream. Memory: the ring, and [`HELD_MAX`](super::HELD_MAX) datagrams that wait
/// for others.
///
/// Invariant: the ring holds whole packets, `capacity` bytes at most.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiveConfig,
    order: Order,
    reception: Reception,
    ring: VecDeque<u8>,
    marks: Marks,
    begun: bool,
    ended: bool,
    /// Something had no room since the marks were looked at.
    full: bool,
    ask: Option<Feedback>,
    counters: ReceiveCounters,
}

impl Receiver {
    /// Nothing came yet.
    pub fn new(config: ReceiveConfig) -> Self {
        let capacity = config.capacity.max(16 * PACKET);
        Self {
            config: ReceiveConfig { capacity, start: config.start.min(capacity / 2), ..config },
            order: Order::new(config.patience),
            reception: Reception::default(),
            ring: VecDeque::new(),
            marks: Marks::new(config.feedback, capacity),
            begun: false,
            ended: false,
            full: false,
            ask: None,
            counters: ReceiveCounters::default(),
        }
    }

    /// A datagram came.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) {
        let plain = is_packets(datagram) && self.config.framing == Framing::Either;
        let Self { order, reception, ring, full, counters, config, .. } = self;
        let mut deliver = |payload: &[u8]| enter(ring, config.capacity, full, counters, payload);
        if plain {
            deliver(datagram);
        } else {
            match Header::parse(datagram) {
                Ok((header, payload)) if is_packets(payload) => {
                    let named = (header.ssrc, header.sequence);
                    if order.take(now, named, payload, &mut deliver) {
                        reception.took(now, &header);
                    }
                }
                _ => {
                    counters.garbage += 1;
                    return;
                }
            }
        }
        self.counters.datagrams += 1;
        self.look(now);
    }

    /// Gives up what was waited for too long.
    pub fn handle_timeout(&mut self, now: Instant) {
        let Self { order, ring, full, counters, config, .. } = self;
        order.handle_timeout(now, &mut |payload| {
            enter(ring, config.capacity, full, counters, payload);
        });
        self.look(now);
    }

    /// Nothing more comes: what waits goes out.
    pub fn finish(&mut self) {
        let Self { order, ring, full, counters, config, .. } = self;
        order.finish(&mut |payload| enter(ring, config.capacity, full, counters, payload));
        self.ended = true;
    }

    /// When something is given up next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.order.poll_timeout()
    }

    /// Something waits outside, since the ring has no room for it.
    pub fn press(&mut self, now: Instant) {
        self.full = true;
        self.look(now);
    }

    /// Looks at the marks, also where nothing comes or goes; at least each second.
    pub fn look(&mut self, now: Instant) {
        let full = core::mem::take(&mut self.full);
        if let Some(ask) = self.marks.look(now, self.ring.len(), full) {
            self.counters.feedback[ask as usize] += 1;
            self.ask = Some(ask);
        }
    }

    /// What to ask the sender for now.
    pub fn poll_feedback(&mut self) -> Option<Feedback> {
        self.ask.take()
    }

    /// The consumer takes up to so many bytes, in whole packets. Nothing before the start rule is
    /// met.
    pub fn take(&mut self, now: Instant, out: &mut [u8]) -> usize {
        self.begun |= self.ring.len() >= self.config.start.max(1) || self.ended;
        if !self.begun {
            return 0;
        }
        let n = self.ring.len().min(out.len()) / PACKET * PACKET;
        let (front, back) = self.ring.as_slices();
        let split = front.len().min(n);
        out[..split].copy_from_slice(&front[..split]);
        out[split..n].copy_from_slice(&back[..n - split]);
        self.ring.drain(..n);
        self.look(now);
        n
    }

    /// Bytes in the ring.
    pub fn level(&self) -> usize {
        self.ring.len()
    }

    /// Bytes it could take.
    pub fn room(&self) -> usize {
        self.config.capacity - self.ring.len()
    }

    /// Nothing more comes, and all is taken.
    pub fn is_finished(&self) -> bool {
        self.ended && self.ring.is_empty()
    }

    /// What a receiver's report tells.
    pub fn block(&mut self, now: Instant) -> Option<crate::rtp::Block> {
        self.reception.block(now)
    }

    /// The sender's report came.
    pub fn reported(&mut self, now: Instant, sent: &crate::rtp::Sent) {
        self.reception.reported(now, sent);
    }

    /// What it counted.
    pub fn counters(&self) -> ReceiveCounters {
        ReceiveCounters { order: *self.order.counters(), ..self.counters }
    }
}

/// Whole packets, each with its first byte.
fn is_packets(bytes: &[u8]) -> bool {
    let mut packets = bytes.chunks(PACKET);
    !bytes.is_empty() && packets.all(|p| p.len() == PACKET && p[0] == 0x47)
}

fn enter(
    ring: &mut VecDeque<u8>,
    capacity: usize,
    full: &mut bool,
    counters: &mut ReceiveCounters,
    payload: &[u8],
) {
    if ring.len() + payload.len() > capacity {
        counters.overflowed += 1;
        *full = true;
    } else {
        counters.bytes += payload.len() as u64;
        ring.extend(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::When;
    use crate::rtp::{Header, Sent};

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn packets(count: usize, fill: u8) -> alloc::vec::Vec<u8> {
        let mut packet = [fill; PACKET];
        packet[0] = 0x47;
        packet.repeat(count)
    }

    fn rtp(sequence: u16, payload: &[u8]) -> alloc::vec::Vec<u8> {
        let header = Header { marker: false, payload_type: 33, sequence, timestamp: 0, ssrc: 5 };
        [&header.emit()[..], payload].concat()
    }

    #[test]
    fn a_ring_is_filled_to_its_last_byte_and_no_further() {
        let capacity = 20 * PACKET;
        let mut receiver = Receiver::new(ReceiveConfig { capacity, ..ReceiveConfig::default() });
        for fill in [1, 2] {
            receiver.handle_datagram(at(0), &packets(10, fill));
        }
        assert_eq!((receiver.level(), receiver.room()), (capacity, 0));
        receiver.handle_datagram(at(0), &packets(1, 3));
        let counters = receiver.counters();
        assert_eq!((counters.datagrams, counters.overflowed, counters.garbage), (3, 1, 0));
        assert_eq!(counters.bytes, capacity as u64);
        let mut out = alloc::vec![0; 11 * PACKET];
        assert_eq!(receiver.take(at(0), &mut out), out.len());
        assert_eq!(out, [packets(10, 1), packets(1, 2)].concat());
        receiver.handle_datagram(at(0), &packets(12, 4));
        assert_eq!(receiver.counters().overflowed, 2, "there is room for eleven");
        receiver.handle_datagram(at(0), &packets(11, 4));
        assert_eq!(receiver.level(), capacity);
    }

    #[test]
    fn what_is_no_stream_is_counted_and_dropped() {
        let mut receiver = Receiver::new(ReceiveConfig::default());
        let short = &packets(2, 1)[..300];
        let mut odd = packets(2, 1);
        odd[PACKET] = 0x48;
        for garbage in [&[][..], short, &odd, &rtp(0, short), &rtp(1, &[])] {
            receiver.handle_datagram(at(0), garbage);
        }
        let counters = receiver.counters();
        assert_eq!((counters.garbage, counters.datagrams, counters.bytes), (5, 0, 0));
        receiver.handle_datagram(at(0), &rtp(2, &packets(7, 1)));
        assert_eq!((receiver.counters().datagrams, receiver.level()), (1, 7 * PACKET));
    }

    #[test]
    fn a_gap_is_waited_for_as_long_as_patience_lasts() {
        let mut receiver = Receiver::new(ReceiveConfig::default());
        receiver.handle_datagram(at(0), &rtp(7, &packets(1, 7)));
        receiver.handle_datagram(at(1), &rtp(9, &packets(1, 9)));
        assert_eq!((receiver.level(), receiver.poll_timeout()), (PACKET, Some(at(31))));
        receiver.handle_timeout(at(30));
        assert_eq!(receiver.level(), PACKET);
        receiver.handle_timeout(at(31));
        assert_eq!((receiver.level(), receiver.poll_timeout()), (2 * PACKET, None));
        // One that comes in time is put where it belongs.
        receiver.handle_datagram(at(40), &rtp(11, &packets(1, 11)));
        receiver.handle_datagram(at(41), &rtp(10, &packets(1, 10)));
        let mut out = alloc::vec![0; 4 * PACKET];
        assert_eq!(receiver.take(at(41), &mut out), out.len());
        assert_eq!(
            out.chunks(PACKET).map(|p| p[1]).collect::<alloc::vec::Vec<_>>(),
            [7, 9, 10, 11]
        );
        receiver.handle_datagram(at(50), &rtp(13, &packets(1, 13)));
        receiver.finish();
        assert_eq!(receiver.level(), PACKET);
        assert!(!receiver.is_finished());
        receiver.take(at(50), &mut out);
        assert!(receiver.is_finished());
    }

    #[test]
    fn a_receiver_asks_for_less_when_it_is_full_and_says_what_it_got() {
        let (capacity, feedback) = (20 * PACKET, When::Before);
        let config = ReceiveConfig { capacity, feedback, ..ReceiveConfig::default() };
        let mut receiver = Receiver::new(config);
        assert_eq!((receiver.block(at(0)), receiver.poll_feedback()), (None, None));
        receiver.handle_datagram(at(0), &rtp(7, &packets(10, 1)));
        assert_eq!(receiver.poll_feedback(), None);
        receiver.handle_datagram(at(0), &rtp(8, &packets(10, 1)));
        assert_eq!(receiver.poll_feedback(), Some(Feedback::SlowDown));
        assert_eq!(receiver.poll_feedback(), None, "once");
        receiver.handle_datagram(at(500), &rtp(10, &packets(1, 1)));
        let sent = Sent { ssrc: 5, ntp: 0x1_2345_6789, ..Sent::default() };
        receiver.reported(at(600), &sent);
        let block = receiver.block(at(1100)).expect("there is a source");
        assert_eq!((block.ssrc, block.lost, block.highest), (5, 1, 10));
        assert_eq!((block.last_report, block.delay), (0x12345, 1 << 15), "half a second ago");
    }

    #[test]
    fn what_waits_outside_counts_as_full() {
        let (capacity, feedback) = (20 * PACKET, When::After);
        let config = ReceiveConfig { capacity, feedback, ..ReceiveConfig::default() };
        for is_pressed in [false, true] {
            let mut receiver = Receiver::new(config);
            receiver.handle_datagram(at(0), &packets(20, 1));
            for ms in (0..7000).step_by(500) {
                if is_pressed {
                    receiver.press(at(ms));
                } else {
                    receiver.look(at(ms));
                }
            }
            assert_eq!(receiver.poll_feedback().is_some(), is_pressed);
            assert_eq!(receiver.counters().feedback[0] > 0, is_pressed);
        }
    }
}
