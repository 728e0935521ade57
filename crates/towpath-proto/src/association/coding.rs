//! Coding across paths: which packets are members of a group, when parity goes, and what becomes of
//! what is rebuilt (docs/decisions/0032).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_wire::coding::{
    self, CODED_LEN, Coded, PARITY_OVERHEAD, Parity, REBUILT_LEN, SYMBOL_HEAD, emit_coded,
    emit_parity, emit_rebuilt,
};
use towpath_wire::frame::{DATA_OVERHEAD, Frame, Frames};
use towpath_wire::packet::{DATA_HEADER, TAG};
use towpath_wire::{Instant, PathId};

use super::core::Association;
use super::flight::Item;
use super::path::Departure;
use super::paths::PATHS_MAX;
use super::receive::Refused;
use super::send::PIECE_MIN;
use crate::coding::{Coding, Decoder, Encoder, PATIENCE, Rebuilt, Seat};
use crate::machine::{GrantKind, PacketWriter, TxBatch};
use crate::memory::Memory;

/// Rebuilt packets of which the peer is to be told at most; the oldest goes untold, and comes
/// again.
const TELLING_MAX: usize = 256;
/// What counts as lost waits so long for the peer to rebuild it: a group's patience.
const HELD: Duration = PATIENCE;
/// So many pieces of messages wait for that at most; what is beyond goes again at once.
const HELD_MAX: usize = 4096;
/// A path's losses are looked at after so many packets.
const LOOK_PACKETS: u64 = 128;
/// A member has room for so much at least.
const ROOM_MIN: usize = DATA_OVERHEAD + PIECE_MIN;

/// What a path had counted at the last look, and the share that it has lost of late.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    sent: u64,
    lost: u64,
    ppm: u32,
}

impl Losses {
    /// Half of what is new, half of what was.
    fn look(&mut self, sent: u64, lost: u64) {
        let packets = sent.saturating_sub(self.sent);
        if packets >= LOOK_PACKETS {
            let ppm = lost.saturating_sub(self.lost).min(packets) * 1_000_000 / packets;
            *self = Self { sent, lost, ppm: self.ppm / 2 + ppm as u32 / 2 };
        }
    }
}

/// What is coded, of both directions. Invariants: at most [`TELLING_MAX`] wait to be told, and at
/// most [`HELD_MAX`] to be sent again.
#[derive(Debug, Default)]
pub(super) struct Code {
    encoder: Option<Box<Encoder>>,
    decoder: Option<Box<Decoder>>,
    /// Packets that were rebuilt, by path and number, behind the path that the peer is told on.
    telling: VecDeque<(PathId, PathId, u64)>,
    losses: [Losses; PATHS_MAX],
    /// What counts as lost and goes again at that time, unless the peer rebuilds it first.
    held: VecDeque<(Instant, Item)>,
}

impl Code {
    /// When groups are to be looked at; `waits`: there is data to be sent.
    pub(super) fn poll_timeout(&self, waits: bool) -> Option<Instant> {
        let groups = self.encoder.as_ref().and_then(|e| e.poll_timeout(waits));
        groups.into_iter().chain(self.held.front().map(|(at, _)| *at)).min()
    }

    /// Whether the peer is to be told on a path of packets that were rebuilt.
    pub(super) fn tells_on(&self, path: PathId) -> bool {
        self.telling.iter().any(|(on, _, _)| *on == path)
    }

    /// Writes which packets were rebuilt, as far as that fits.
    pub(super) fn write_rebuilt(&mut self, on: PathId, w: &mut PacketWriter<'_, '_>) {
        while w.room() >= REBUILT_LEN
            && let Some(at) = self.telling.iter().position(|(path, _, _)| *path == on)
            && let Some((_, path, number)) = self.telling.remove(at)
        {
            w.frame(REBUILT_LEN, |w| emit_rebuilt(w, path, number));
        }
    }
}

/// A member that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    seat: Seat,
    /// Where its CODED stands.
    at: usize,
    /// Where its packet's room ends.
    end: usize,
}

impl Association {
    /// How many paths groups are laid across.
    fn coded_paths(&self) -> usize {
        self.paths.carriers().count()
    }

    /// Whether some parity may go by a path.
    pub(super) fn owes_parity(&self, path: usize) -> bool {
        let owes = |e: &Encoder| e.owes(self.paths[path].id, self.coded_paths());
        self.code.encoder.as_ref().is_some_and(|e| e.owes_any() && owes(e))
    }

    /// How the next packet of a path is coded.
    pub(super) fn coding_of(&mut self, now: Instant, path: usize, kind: GrantKind) -> Coding {
        let usual = self.config.coding.usual;
        let coding = if matches!(kind, GrantKind::All) {
            self.channels.next_coding(usual)
        } else {
            Coding::OFF
        };
        let p = &self.paths[path];
        if !coding.is_on() || !self.paths.may_carry(path) || self.room(now, p, kind) == 0 {
            return Coding::OFF;
        }
        let mut worst = 0;
        for (path, seen) in self.paths.iter().zip(&mut self.code.losses) {
            let counted = path.counted();
            seen.look(counted.packets_sent, counted.packets_lost);
            worst = worst.max(if self.paths.carries(path) { seen.ppm } else { 0 });
        }
        coding.at_loss(worst)
    }

    /// What a member may hold: as much as a parity can carry on every path in use.
    fn coded_room(&self) -> usize {
        let least = self.paths.carriers().map(|p| p.datagram).min().unwrap_or_default();
        usize::from(least).saturating_sub(DATA_HEADER + TAG + PARITY_OVERHEAD + SYMBOL_HEAD)
    }

    /// What is written from here on into a packet is coded.
    pub(super) fn begin_member(
        &mut self,
        path: usize,
        coding: Coding,
        w: &mut PacketWriter<'_, '_>,
    ) -> Option<Member> {
        let most = self.coded_room();
        if !coding.is_on() || most.min(w.room().saturating_sub(CODED_LEN)) < ROOM_MIN {
            return None;
        }
        let (id, paths) = (self.paths[path].id, self.coded_paths());
        #[cfg(plant)]
        let plant = self.config.plant == crate::config::Plant::WrongCoefficient;
        let encoder = self.code.encoder.get_or_insert_default();
        #[cfg(plant)]
        {
            encoder.plant = plant;
        }
        let seat = encoder.seat(id, paths, coding);
        let at = w.place();
        w.frame(CODED_LEN, |w| emit_coded(w, seat.group, seat.index, seat.members, 0));
        Some(Member { seat, at, end: w.narrow(CODED_LEN, most) })
    }

    /// A packet is written but for its seal: its group has one member more, unless nothing was
    /// written behind its CODED.
    pub(super) fn end_member(
        &mut self,
        now: Instant,
        path: usize,
        member: Member,
        w: &mut PacketWriter<'_, '_>,
    ) {
        let Member { seat, at, end } = member;
        w.widen(end);
        let from = at + CODED_LEN;
        let len = w.written(from).len() as u16;
        if len == 0 {
            w.rewind(at);
            return;
        }
        let p = &self.paths[path];
        let packet = (p.id, p.next_number());
        w.rewrite(at, CODED_LEN, |w| emit_coded(w, seat.group, seat.index, seat.members, len));
        if let Some(encoder) = &mut self.code.encoder {
            encoder.add(now, seat, packet, w.written(from), self.config.coding.kernel);
        }
        if w.room() < ROOM_MIN && self.channels.has_data(None) {
            w.pad(); // so that the train may go on
        }
        self.pass_parity();
    }

    /// Parity waits: a link by which it may go is asked.
    fn pass_parity(&mut self) {
        let takes = |n: &usize| self.paths.carries(&self.paths[*n]) && self.owes_parity(*n);
        if let Some(path) = (0..self.paths.len()).find(takes) {
            let link = self.paths[path].link;
            self.striping.ask(link);
        }
        self.count_coded();
    }

    /// Writes a packet with a parity, where one waits that may go by this path.
    pub(super) fn build_parity(
        &mut self,
        now: Instant,
        path: usize,
        max: usize,
        kind: GrantKind,
        out: &mut TxBatch<'_>,
    ) -> bool {
        if !matches!(kind, GrantKind::All)
            || !self.owes_parity(path)
            || !self.paths.may_carry(path)
            || self.room(now, &self.paths[path], kind) == 0
        {
            return false;
        }
        let (id, paths) = (self.paths[path].id, self.coded_paths());
        let room = max.saturating_sub(DATA_HEADER + TAG + PARITY_OVERHEAD);
        let parity = self.code.encoder.as_mut().and_then(|e| e.take(id, paths, room));
        self.count_coded();
        let Some(parity) = parity else { return false };
        let mut w = out.packet(max, self.identity.keys.send.key.seals());
        let crate::coding::Parity { group, members, index, symbol } = &parity;
        let frame = Parity { group: *group, members: *members, index: *index, symbol };
        w.frame(PARITY_OVERHEAD + symbol.len(), |w| emit_parity(w, &frame));
        if w.room() < ROOM_MIN {
            w.pad();
        }
        let departure = Departure { eliciting: true, ..Departure::at(now) };
        let bytes = self.depart(now, path, &mut w, departure, &[]);
        self.parity_went(now, path, bytes);
        self.pass_parity();
        true
    }

    /// What counts as lost of an association that codes waits a little, since it may be rebuilt.
    pub(super) fn hold_lost(&mut self, now: Instant) {
        if self.code.encoder.is_none() {
            return;
        }
        let (lost, held) = (&mut self.outcome.lost, &mut self.code.held);
        let count = lost.len().min(HELD_MAX - held.len());
        held.extend(lost.drain(..count).map(|item| (now + HELD, item)));
    }

    /// Closes the groups that have waited, and has sent again what was not rebuilt.
    pub(super) fn close_groups(&mut self, now: Instant) {
        while let Some((_, item)) = self.code.held.pop_front_if(|(at, _)| *at <= now) {
            self.item_lost(item);
        }
        let waits = self.channels.has_data(None);
        if let Some(encoder) = &mut self.code.encoder {
            encoder.handle_timeout(now, waits);
            self.count_coded();
        }
    }

    fn count_coded(&mut self) {
        let stats = &mut self.stats.paths.coding;
        if let Some(encoder) = &self.code.encoder {
            stats.encoder = *encoder.stats();
        }
        if let Some(decoder) = &self.code.decoder {
            stats.decoder = *decoder.stats();
        }
    }

    /// A member of a group came, or a parity.
    pub(super) fn handle_coded(
        &mut self,
        now: Instant,
        (path, number): (usize, u64),
        (coded, parity): (Option<Coded<'_>>, Option<Parity<'_>>),
        memory: &mut dyn Memory,
    ) {
        let (bytes, kernel) = (self.config.coding.memory, self.config.coding.kernel);
        if bytes == 0 || !self.is_open() {
            return;
        }
        let id = self.paths[path].id;
        let decoder = self.code.decoder.get_or_insert_with(|| Box::new(Decoder::new(bytes)));
        let mut rebuilt = Vec::new();
        if let Some(coded) = coded {
            rebuilt.extend(decoder.member(&coded, (id, number), kernel));
        }
        if let Some(parity) = parity {
            rebuilt.extend(decoder.parity(&parity, kernel));
        }
        self.count_coded();
        for packet in rebuilt {
            if self.is_open() {
                self.take_rebuilt(now, id, &packet, memory);
            }
        }
    }

    /// Takes in what a rebuilt packet held, and has the peer told of it on path `on`.
    fn take_rebuilt(
        &mut self,
        now: Instant,
        on: PathId,
        packet: &Rebuilt,
        memory: &mut dyn Memory,
    ) {
        let Rebuilt { path, number, frames } = packet;
        let at = self.paths.position(*path).unwrap_or_default();
        let mut refused = false;
        for frame in Frames::new(frames) {
            let Ok(frame) = frame else {
                self.stats.paths.coding.malformed += 1;
                return;
            };
            // All that must not be lost; what else there was is over.
            let lasts = matches!(
                frame,
                Frame::Data(_)
                    | Frame::Skip { .. }
                    | Frame::Open(_)
                    | Frame::Limit { .. }
                    | Frame::CloseChannel { .. }
                    | Frame::PathAdd { .. }
                    | Frame::PathRetire { .. }
            );
            if !lasts {
                continue;
            }
            refused |= self.take_frame(now, at, frame, memory);
            if !self.is_open() {
                return;
            }
        }
        if refused {
            self.stats.paths.coding.refused += 1;
            return;
        }
        if self.code.telling.len() == TELLING_MAX {
            self.code.telling.pop_front();
        }
        #[cfg(plant)]
        let number = &match self.config.plant {
            crate::config::Plant::RebuiltOffByOne => number.saturating_sub(1),
            _ => *number,
        };
        self.code.telling.push_back((on, *path, *number));
    }

    /// The peer has rebuilt a packet of ours.
    pub(super) fn handle_rebuilt(
        &mut self,
        now: Instant,
        coding::Rebuilt { path, number }: coding::Rebuilt,
        memory: &mut dyn Memory,
    ) -> Result<(), Refused> {
        let Some(path) = self.paths.by_id(path) else { return Err(Refused::Fault) };
        let before = self.outcome.acked.len();
        if !path.on_rebuilt(number, &mut self.outcome) {
            self.fault(now, "has rebuilt a packet never sent", memory);
            return Ok(());
        }
        let trip = path.rtt.smoothed();
        let rebuilt = &self.outcome.acked[before..];
        self.code.held.retain(|(_, item)| !rebuilt.contains(item));
        self.stats.paths.coding.delivered += u64::from(self.outcome.acked.len() > before);
        if self.outcome.progress {
            self.liveness.progressed(now, self.paths.iter().any(|p| p.in_flight() > 0));
        }
        self.settle_outcome(trip);
        Ok(())
    }
}
