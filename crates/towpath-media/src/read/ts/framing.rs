//! Packets out of bytes: rhythm, loss of sync and its recovery.

use super::packet::{PACKET, SYNC};
use crate::read::fault::FaultKind;

/// Packets in a row that must start right before a lost rhythm counts as found (TR 101 290 1.1).
const GOOD_TO_REGAIN: usize = 5;
/// Longest distance between packets.
const STRIDE_MAX: usize = 204;
/// Bytes that wait for more: enough for a search.
const WINDOW: usize = GOOD_TO_REGAIN * STRIDE_MAX * 2;

/// Takes packets and what is wrong between them.
pub(crate) trait Packets {
    fn packet(&mut self, offset: u64, packet: &[u8; PACKET]);
    fn fault(&mut self, kind: FaultKind, offset: u64);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next byte should be 0x47.
    Locked,
    /// It was not: the byte a packet later decides whether the rhythm is lost.
    Doubt,
    /// Looking for five in a row.
    Lost,
}

/// Cuts bytes into packets. What it does depends on the bytes alone, not on how they are cut.
#[derive(Debug)]
pub(crate) struct Framing {
    stride: usize,
    state: State,
    /// Offset in the file of the first waiting byte.
    offset: u64,
    /// Bytes to pass before the first packet.
    lead: usize,
    /// The first packet, where there are bytes before it that belong to none; told once.
    headless: Option<u64>,
    waiting: [u8; WINDOW],
    len: usize,
}

impl Framing {
    /// `lead` bytes stand before the first packet.
    pub(crate) fn new(stride: usize, lead: usize) -> Self {
        // The arrival time before a packet of 192 bytes belongs to it.
        let natural = if stride == 192 { 4 } else { 0 };
        let headless = (lead != natural && lead != 0).then_some(lead as u64);
        let (state, offset, len) = (State::Locked, 0, 0);
        Self { stride, state, offset, lead, headless, waiting: [0; WINDOW], len }
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8], out: &mut impl Packets) {
        if let Some(first) = self.headless.take() {
            out.fault(FaultKind::Headless, first);
        }
        let lead = self.lead.min(bytes.len());
        self.lead -= lead;
        self.offset += lead as u64;
        bytes = &bytes[lead..];
        while !bytes.is_empty() {
            if self.len == 0 && self.state == State::Locked {
                bytes = self.in_place(bytes, out);
            }
            // A locked rhythm needs the rest of one packet to be back on the fast way.
            let room = match self.state {
                State::Locked => self.stride.saturating_sub(self.len),
                State::Doubt | State::Lost => WINDOW - self.len,
            };
            let take = room.min(bytes.len());
            self.waiting[self.len..self.len + take].copy_from_slice(&bytes[..take]);
            self.len += take;
            bytes = &bytes[take..];
            self.drain(false, out);
        }
    }

    /// The file ends: what waits is all there is.
    pub(crate) fn finish(&mut self, out: &mut impl Packets) {
        self.drain(true, out);
        if self.len > 0 {
            out.fault(FaultKind::Truncated, self.offset);
        }
    }

    /// Whole packets of a piece, without a copy; gives back what is left.
    fn in_place<'a>(&mut self, bytes: &'a [u8], out: &mut impl Packets) -> &'a [u8] {
        let mut packets = bytes.chunks_exact(self.stride);
        let mut offset = self.offset;
        let mut taken = 0;
        for chunk in packets.by_ref() {
            let Some(packet) = chunk.first_chunk::<PACKET>() else { break };
            if packet[0] != SYNC {
                self.state = State::Doubt;
                break;
            }
            out.packet(offset, packet);
            offset += self.stride as u64;
            taken += self.stride;
        }
        self.offset = offset;
        &bytes[taken..]
    }

    fn drain(&mut self, ended: bool, out: &mut impl Packets) {
        let mut at = 0;
        loop {
            let left = self.len - at;
            match self.state {
                State::Locked if left == 0 => break,
                // The last packet of a file may lack what stands between packets.
                State::Locked if left >= self.stride || ended && left >= PACKET => {
                    if self.waiting[at] == SYNC {
                        let packet = self.waiting[at..].first_chunk().expect("it is long enough");
                        out.packet(self.offset + at as u64, packet);
                        at += self.stride.min(left);
                    } else {
                        self.state = State::Doubt;
                    }
                }
                State::Doubt if left > self.stride => {
                    let offset = self.offset + at as u64;
                    if self.waiting[at + self.stride] == SYNC {
                        out.fault(FaultKind::SyncByte, offset);
                        at += self.stride;
                        self.state = State::Locked;
                    } else {
                        out.fault(FaultKind::SyncLoss, offset);
                        at += 1;
                        self.state = State::Lost;
                    }
                }
                State::Lost
                    if left > self.stride * (if ended { 1 } else { GOOD_TO_REGAIN - 1 }) =>
                {
                    let starts = self.waiting[at..self.len].iter().step_by(self.stride);
                    if starts.take(GOOD_TO_REGAIN).all(|&b| b == SYNC) {
                        self.state = State::Locked;
                    } else {
                        at += 1;
                    }
                }
                _ => break,
            }
        }
        self.waiting.copy_within(at..self.len, 0);
        self.len -= at;
        self.offset += at as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[derive(Debug, Default, PartialEq)]
    struct Log {
        packets: Vec<(u64, u8)>,
        faults: Vec<(FaultKind, u64)>,
    }

    impl Packets for Log {
        fn packet(&mut self, offset: u64, packet: &[u8; PACKET]) {
            assert_eq!(packet[0], SYNC);
            self.packets.push((offset, packet[1]));
        }
        fn fault(&mut self, kind: FaultKind, offset: u64) {
            self.faults.push((kind, offset));
        }
    }

    /// Packets numbered in their second byte, the rest zero.
    fn stream(stride: usize, count: u8) -> Vec<u8> {
        let mut bytes = std::vec![0; stride * usize::from(count)];
        for i in 0..count {
            bytes[usize::from(i) * stride] = SYNC;
            bytes[usize::from(i) * stride + 1] = i;
        }
        bytes
    }

    fn run(bytes: &[u8], stride: usize, cuts: &[usize]) -> Log {
        let mut framing = Framing::new(stride, 0);
        let mut log = Log::default();
        let (mut at, mut cuts) = (0, cuts.iter().cycle());
        while at < bytes.len() {
            let end = (at + cuts.next().expect("it cycles")).min(bytes.len());
            framing.push(&bytes[at..end], &mut log);
            at = end;
        }
        framing.finish(&mut log);
        log
    }

    fn numbers(log: &Log) -> Vec<u8> {
        log.packets.iter().map(|p| p.1).collect()
    }

    #[test]
    fn one_bad_sync_byte_costs_one_packet() {
        let mut bytes = stream(188, 12);
        bytes[3 * 188] = 0;
        let log = run(&bytes, 188, &[1 << 20]);
        assert_eq!(numbers(&log), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(log.faults, [(FaultKind::SyncByte, 564)]);
    }

    #[test]
    fn inserted_bytes_cost_no_packet_behind_them() {
        let mut bytes = stream(204, 12);
        bytes.splice(3 * 204..3 * 204, [1; 77]);
        let log = run(&bytes, 204, &[1 << 20]);
        assert_eq!(numbers(&log), (0..12).collect::<Vec<u8>>());
        assert_eq!(log.faults, [(FaultKind::SyncLoss, 612)]);
    }

    #[test]
    fn a_last_packet_without_its_parity_counts_and_a_stump_is_told() {
        let bytes = stream(204, 3);
        let log = run(&bytes[..2 * 204 + 188], 204, &[50]);
        assert_eq!((numbers(&log), log.faults), (std::vec![0, 1, 2], Vec::new()));
        let log = run(&bytes[..2 * 204 + 187], 204, &[50]);
        assert_eq!(log.faults, [(FaultKind::Truncated, 408)]);
    }

    #[test]
    fn a_file_that_begins_inside_a_packet_is_told_where_the_first_one_starts() {
        for (stride, lead, told) in
            [(188, 0, None), (192, 4, None), (188, 1, Some(1)), (192, 100, Some(100))]
        {
            let mut framing = Framing::new(stride, lead);
            let mut log = Log::default();
            let bytes = [std::vec![0; lead], stream(stride, 3)].concat();
            for piece in bytes.chunks(7) {
                framing.push(piece, &mut log);
            }
            let told: Vec<_> = told.into_iter().map(|at| (FaultKind::Headless, at)).collect();
            assert_eq!((numbers(&log), log.faults), (std::vec![0, 1, 2], told), "{stride} {lead}");
        }
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same(
            stride in prop_oneof![Just(188_usize), Just(192), Just(204)],
            damage in prop::collection::vec((0_usize..8000, 0_usize..400), 0..4),
            cuts in prop::collection::vec(1_usize..700, 1..8),
        ) {
            let mut bytes = stream(stride, 40);
            for (at, len) in damage {
                let at = at.min(bytes.len());
                let end = (at + len).min(bytes.len());
                bytes.drain(at..end);
            }
            prop_assert_eq!(run(&bytes, stride, &cuts), run(&bytes, stride, &[1 << 20]));
        }
    }
}
