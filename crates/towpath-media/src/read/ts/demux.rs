//! What belongs to whom: continuity, clocks, tables, PES.

use alloc::vec::Vec;

use super::counter::Order;
use super::framing::{Framing, Packets};
use super::packet::{Adaptation, CLOCK_BYTE, NULL_PID, PACKET, Packet};
use super::programs::{Pid, Programs, Role, Stream};
use super::section::Found;
use crate::read::clock::Clock;
use crate::read::crc::crc32;
use crate::read::event::{CLOCK_HZ, ClockReference, NO_STREAM, PacketSeen, Sink, TableSeen};
use crate::read::fault::FaultKind;
use crate::read::pes::Step;

/// `table_id`s of DVB that have no CRC: TDT, RST, stuffing (EN 300 468 §5.1.3).
const WITHOUT_CRC: [u8; 3] = [0x70, 0x71, 0x72];
/// The one with a CRC but without `section_syntax_indicator`: TOT.
const TIME_OFFSET_TABLE: u8 = 0x73;

/// Longest step from a PCR to the next (§2.7.2).
const STEP_MAX: i64 = CLOCK_HZ.cast_signed() / 10;
/// PIDs that may carry a clock.
const CLOCKS_MAX: usize = 256;

/// Reads a transport stream.
///
/// Memory, whatever the file: 16 KiB and up to 8192 PIDs of 32 bytes, 256 clocks of 40 bytes, at
/// most 1024 streams of 2 KiB, and a section of at most 4 KiB for each PID of tables (7, and
/// those that an association names). A multiplex of 20 programs of 3 streams takes 0.2 MiB; a
/// file made to hurt, with a section under way on every PID, 35 MiB.
#[derive(Debug)]
pub(in crate::read) struct TransportStream {
    framing: Framing,
    demux: Demux,
}

impl TransportStream {
    pub(in crate::read) fn new(stride: usize, lead: usize) -> Self {
        Self { framing: Framing::new(stride, lead), demux: Demux::new(stride) }
    }

    pub(in crate::read) fn push(&mut self, bytes: &[u8], sink: &mut impl Sink) {
        self.framing.push(bytes, &mut Taker { demux: &mut self.demux, sink });
    }

    pub(in crate::read) fn finish(&mut self, sink: &mut impl Sink) {
        self.framing.finish(&mut Taker { demux: &mut self.demux, sink });
        for stream in &mut self.demux.programs.streams {
            stream.elementary.finish(sink);
        }
    }
}

struct Taker<'a, S> {
    demux: &'a mut Demux,
    sink: &'a mut S,
}

impl<S: Sink> Packets for Taker<'_, S> {
    #[inline]
    fn packet(&mut self, offset: u64, packet: &[u8; PACKET]) {
        self.demux.packet(offset, Packet { bytes: packet }, self.sink);
    }

    fn fault(&mut self, kind: FaultKind, offset: u64) {
        self.sink.fault(kind, offset);
    }
}

#[derive(Debug)]
struct Demux {
    stride: u64,
    index: u64,
    clocks: Vec<(u16, Clock)>,
    programs: Programs,
}

impl Demux {
    fn new(stride: usize) -> Self {
        Self { stride: stride as u64, index: 0, clocks: Vec::new(), programs: Programs::new() }
    }

    #[inline]
    fn packet(&mut self, offset: u64, packet: Packet<'_>, sink: &mut impl Sink) {
        let mut seen = PacketSeen {
            index: self.index,
            offset,
            pid: packet.pid(),
            stream: NO_STREAM,
            payload: 0,
            carried: 0,
            scrambled: packet.scrambled(),
            clock: false,
        };
        self.index += 1;
        if packet.error() {
            sink.fault(FaultKind::TransportError, offset);
        } else if seen.pid != NULL_PID {
            self.used(packet, &mut seen, sink);
        }
        sink.packet(&seen);
    }

    /// A packet that is neither stuffing nor corrupt.
    #[inline]
    fn used(&mut self, packet: Packet<'_>, seen: &mut PacketSeen, sink: &mut impl Sink) {
        let Pid { role, counter } = self.programs.pids.get(seen.pid);
        let role = *role;
        seen.stream = role.stream();
        let Some(payload) = packet.payload() else {
            sink.fault(FaultKind::AdaptationField, seen.offset);
            return;
        };
        let adaptation = packet.adaptation();
        let order = if packet.has_payload() {
            counter.check(packet, adaptation.discontinuity)
        } else {
            Order::Next
        };
        if adaptation != Adaptation::default() {
            self.adaptation(adaptation, seen, sink);
        }
        if !packet.has_payload() {
            return;
        }
        match order {
            Order::Next => {}
            Order::Repeat => return,
            Order::RepeatAgain => return sink.fault(FaultKind::Repeated, seen.offset),
            Order::Gap => {
                sink.fault(FaultKind::Continuity, seen.offset);
                self.lost(role);
            }
        }
        seen.carried = payload.len() as u8;
        if packet.scrambled() {
            return;
        }
        match role {
            Role::Unknown => {}
            Role::Table(reader) => {
                self.tables(reader, payload, packet.starts_unit(), seen, sink);
            }
            Role::Stream(_) => self.stream(payload, packet.starts_unit(), seen, sink),
        }
    }

    #[cold]
    fn lost(&mut self, role: Role) {
        match role {
            Role::Unknown => {}
            Role::Table(reader) => self.programs.sections[usize::from(reader)].lost(),
            Role::Stream(index) => {
                let stream = &mut self.programs.streams[usize::from(index)];
                stream.pes.lost();
                stream.elementary.lost();
            }
        }
    }

    fn adaptation(&mut self, adaptation: Adaptation, seen: &mut PacketSeen, sink: &mut impl Sink) {
        let known = self.clocks.iter().position(|(pid, _)| *pid == seen.pid);
        if adaptation.discontinuity
            && let Some(at) = known
        {
            self.clocks[at].1.announce();
        }
        if adaptation.bad_clock {
            sink.fault(FaultKind::ClockExtension, seen.offset);
        }
        let Some(raw) = adaptation.clock else { return };
        if known.is_none() && self.clocks.len() == CLOCKS_MAX {
            return sink.fault(FaultKind::Limit, seen.offset);
        }
        let at = known.unwrap_or_else(|| {
            self.clocks.push((seen.pid, Clock::default()));
            self.clocks.len() - 1
        });
        let step = self.clocks[at].1.take(raw, STEP_MAX);
        if step.jump {
            sink.fault(FaultKind::ClockJump, seen.offset);
        }
        seen.clock = true;
        sink.clock(&ClockReference {
            pid: seen.pid,
            raw_ticks: raw,
            ticks: step.ticks,
            offset: seen.offset + CLOCK_BYTE,
            position: seen.offset / self.stride * PACKET as u64 + CLOCK_BYTE,
            discontinuity: step.discontinuity,
            base: step.base,
        });
    }

    fn tables(
        &mut self,
        reader: u16,
        payload: &[u8],
        starts: bool,
        seen: &PacketSeen,
        sink: &mut impl Sink,
    ) {
        let reader = usize::from(reader);
        let mut sections = core::mem::take(&mut self.programs.sections[reader]);
        sections.push(payload, starts, |found| {
            let Found::Section(section) = found else {
                return sink.fault(FaultKind::Section, seen.offset);
            };
            let table_id = section[0];
            let has_crc = section[1] & 0x80 != 0 && !WITHOUT_CRC.contains(&table_id)
                || table_id == TIME_OFFSET_TABLE;
            let crc_ok = !has_crc || crc32(section) == 0;
            sink.table(&TableSeen { pid: seen.pid, table_id, crc_ok, offset: seen.offset });
            if !crc_ok {
                sink.fault(FaultKind::SectionCrc, seen.offset);
            } else if !self.programs.section(seen.pid, section, seen.offset, sink) {
                sink.fault(FaultKind::Section, seen.offset);
            }
        });
        self.programs.sections[reader] = sections;
    }

    #[inline]
    fn stream(
        &mut self,
        payload: &[u8],
        starts: bool,
        seen: &mut PacketSeen,
        sink: &mut impl Sink,
    ) {
        let Stream { elementary, pes, clock_pid } =
            &mut self.programs.streams[usize::from(seen.stream)];
        if starts && !pes.start() {
            sink.fault(FaultKind::PesLength, seen.offset);
            elementary.lost();
        }
        let clocks = &self.clocks;
        pes.push(payload, |step| match step {
            Step::Payload(bytes) => {
                seen.payload += bytes.len() as u8;
                elementary.push(bytes, sink);
            }
            Step::Header(header) => {
                let clock = clocks.iter().find(|(pid, _)| pid == clock_pid);
                let clock = clock.map_or(Clock::default(), |(_, clock)| *clock);
                elementary.pes((header.pts, header.dts), clock, seen.offset, sink);
            }
            Step::BadHeader => sink.fault(FaultKind::PesHeader, seen.offset),
            Step::TooLong => sink.fault(FaultKind::PesLength, seen.offset),
        });
    }
}
