//! What arrives: packets, their frames, and what acknowledgements bring to the channels.

use core::time::Duration;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use towpath_wire::bytes::ParseError;
use towpath_wire::frame::{Ack, ChannelOpen, Frame, Frames, Piece};
use towpath_wire::packet::{DATA_HEADER, Data, TAG};
use towpath_wire::{ChannelId, Instant, PathId};

use super::arrivals::Asks;
use super::channel::Channel;
use super::channels::OpenRefused;
use super::core::{Association, AssociationEvent, State};
use super::end::End;
use super::flight::Item;
use super::keys::Opened;
use super::receive::{Refused, Taken};
use super::received::Seen;
use super::send::SendHalf;
use super::stats::AssociationStats;
use crate::machine::{RxMeta, nonce};
use crate::memory::{Arrival, Memory};

/// Probe time-outs of the slowest path for which packets of the previous key are still taken.
const KEPT_TIMEOUTS: u32 = 3;

/// Largest packet number accepted: at 10⁹ packets a second, 146 years of them.
const NUMBER_MAX: u64 = 1 << 62;

/// A datagram waited no longer than this, for us or for the peer, whatever driver or peer say.
pub(super) const LATE_MAX: Duration = Duration::from_secs(1);

/// What the peer is told of a frame that cannot be read; of what a later build may have sent, by
/// name.
const fn malformed(error: ParseError) -> &'static str {
    match error {
        ParseError::Unknown { field, .. } => match field.as_bytes() {
            b"frame type" => "frame of a critical type that is not known here",
            b"open parameter" => "OPEN with a critical parameter that is not known here",
            _ => "malformed frame",
        },
        _ => "malformed frame",
    }
}

impl Association {
    /// Takes a data packet in. Returns true when it was authentic.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        rx: RxMeta,
        header: Data,
        datagram: &mut [u8],
        memory: &mut dyn Memory,
    ) -> bool {
        let known = self.paths.position(header.path);
        if header.number > NUMBER_MAX || (known.is_none() && !self.may_open(header.path)) {
            self.stats.forged += 1;
            return false;
        }
        let seen = |at: usize| self.paths[at].arrivals.status(header.number) != Seen::Fresh;
        if known.is_some_and(seen) {
            self.stats.duplicates += 1;
            return false;
        }
        let (aad, content) = datagram.split_at_mut(DATA_HEADER);
        let nonce = nonce(header.path, header.number);
        let place = (header.epoch, header.path, header.number);
        match self.identity.keys.receive.open(place, nonce, aad, content) {
            Opened::Present => self.is_heard(now),
            // It left before the newest that we know of: no sign of life.
            Opened::Previous => {}
            Opened::Next => {
                let timeouts =
                    self.paths.iter().map(|p| p.rtt.probe_timeout(self.config.ack_delay));
                let slowest = timeouts.max().unwrap_or_default();
                self.identity.keys.receive.retire(now + slowest * KEPT_TIMEOUTS);
                #[cfg(plant)]
                if self.config.plant == crate::config::Plant::KeyKept {
                    self.identity.keys.receive.retire(Instant::NEVER);
                }
                self.stats.keys_received += 1;
                self.is_heard(now);
            }
            Opened::Failed | Opened::Refused => {
                self.stats.forged += 1;
                if self.identity.keys.receive.is_spent(&self.config.rekey) {
                    self.fault(now, "too many packets did not authenticate", memory);
                }
                return false;
            }
        }
        let Some(path) = known.or_else(|| self.opened_by_peer(now, rx, header.path)) else {
            return false;
        };
        self.late = rx.late.min(LATE_MAX);
        let came = (path, datagram.len() as u64);
        let newest = self.paths[path].arrivals.received.largest().is_none_or(|n| header.number > n);
        self.note_source(now, rx, came, newest);
        let met_congestion = rx.ecn & 3 == 3;
        self.stats.packets_marked += u64::from(met_congestion);
        self.paths[path].arrivals.marked += u64::from(met_congestion);
        self.stats.packets_received += 1;
        self.stats.bytes_received += datagram.len() as u64;
        let content = &datagram[DATA_HEADER..datagram.len() - TAG];
        self.handle_content(now, path, header.number, content, memory);
        true
    }

    fn handle_content(
        &mut self,
        now: Instant,
        path: usize,
        number: u64,
        content: &[u8],
        memory: &mut dyn Memory,
    ) {
        if let State::Closing(closing) = &mut self.state {
            if matches!(Frames::new(content).next(), Some(Ok(Frame::Close { .. }))) {
                self.state = State::Over; // it knows
            } else {
                closing.answer(now);
            }
            return;
        }
        let (mut asks, mut refused, mut coded) = (Asks::Nothing, false, (None, None));
        self.paths[path].note_heard();
        for frame in Frames::new(content) {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    self.fault(now, malformed(error), memory);
                    return;
                }
            };
            asks = asks.max(match frame {
                Frame::Pad
                | Frame::Ack(_)
                | Frame::Marks { .. }
                | Frame::Note(_)
                | Frame::Coded(_)
                | Frame::Rebuilt(_)
                | Frame::Close { .. } => Asks::Nothing,
                Frame::Limit { .. } => Asks::Patiently,
                _ => Asks::Acknowledgement,
            });
            match frame {
                Frame::Coded(c) => coded.0 = Some(c),
                Frame::Parity(p) => coded.1 = Some(p),
                _ => {}
            }
            let says = !matches!(frame, Frame::Pad | Frame::Ack(_) | Frame::Marks { .. });
            if says && !matches!(frame, Frame::Ping | Frame::Note(_) | Frame::Rebuilt(_)) {
                self.liveness.active();
            }
            refused |= self.take_frame(now, path, frame, memory);
            if !self.is_open() {
                return;
            }
        }
        if refused {
            self.stats.refused += 1;
        } else {
            let (came, delay) = (now - self.late, self.config.ack_delay);
            self.paths[path].arrivals.arrived(came, number, asks, delay);
        }
        if let (Some(_), _) | (_, Some(_)) = coded {
            self.handle_coded(now, (path, number), coded, memory);
        }
    }

    /// Handles a frame; true: there was no room for it. One that breaks a rule ends all.
    pub(super) fn take_frame(
        &mut self,
        now: Instant,
        path: usize,
        frame: Frame<'_>,
        memory: &mut dyn Memory,
    ) -> bool {
        match self.handle_frame(now, path, frame, memory) {
            Ok(()) => false,
            Err(Refused::NoRoom) => true,
            Err(Refused::Fault) => {
                self.fault(now, "message beyond its credit or length", memory);
                false
            }
        }
    }

    // tidy: dispatch
    fn handle_frame(
        &mut self,
        now: Instant,
        path: usize,
        frame: Frame<'_>,
        memory: &mut dyn Memory,
    ) -> Result<(), Refused> {
        match frame {
            // What is coded is looked at with its packet as a whole.
            Frame::Pad | Frame::Ping | Frame::Coded(_) | Frame::Parity(_) | Frame::Extension(_) => {
                Ok(())
            }
            Frame::Rebuilt(rebuilt) => self.handle_rebuilt(now, rebuilt, memory),
            Frame::Ack(ack) => self.handle_ack(now, &ack, memory),
            Frame::Note(bytes) => {
                self.handle_note(bytes);
                Ok(())
            }
            Frame::Marks { path, marked } => {
                if let Some(path) = self.paths.by_id(path) {
                    path.on_marks(marked);
                }
                Ok(())
            }
            Frame::AckRate { path, every, delay_us } => {
                let delay = Duration::from_micros(delay_us.into());
                if let Some(path) = self.paths.by_id(path) {
                    path.arrivals.asked(every, delay);
                }
                Ok(())
            }
            Frame::PathAdd { path, link, remote } => {
                if self.paths.offered(path) {
                    let offered = AssociationEvent::PathOffered { path, link, remote };
                    self.events.push_back(offered);
                }
                Ok(())
            }
            Frame::PathRetire { path, reason } => {
                self.handle_retire(now, path, reason);
                Ok(())
            }
            Frame::Data(piece) => self.handle_piece(&piece, memory),
            Frame::Open(ChannelOpen { one_to_many: true, .. }) => {
                self.fault(now, "OPEN of a one-to-many channel, which is not served here", memory);
                Ok(())
            }
            Frame::Open(ChannelOpen { duplex: true, .. }) => {
                self.fault(now, "OPEN of a duplex channel, which is not served here", memory);
                Ok(())
            }
            Frame::Open(open) => match self.channels.opened(open, &self.config) {
                Ok(true) => {
                    self.events.push_back(AssociationEvent::Opened(Box::new(open)));
                    Ok(())
                }
                Ok(false) => Ok(()),
                Err(OpenRefused::TooMany) => Err(Refused::NoRoom),
                Err(OpenRefused::Fault) => Err(Refused::Fault),
            },
            Frame::Limit { channel, limit } => {
                let raise = |c: &mut Channel| c.send.as_mut().map(|s| s.set_limit(limit));
                self.channels.with(channel, raise);
                Ok(())
            }
            Frame::CloseChannel { channel, messages, .. } => {
                let close = |c: &mut Channel| {
                    c.receive.as_mut().map_or(Ok(()), |receive| receive.set_last(messages))
                };
                let Some(closed) = self.channels.with(channel, close) else {
                    return self.past_or_unknown(channel);
                };
                closed?;
                self.deliver(channel);
                Ok(())
            }
            Frame::Skip { channel, message, charge } => {
                self.handle_skip(channel, message, charge, memory)
            }
            Frame::Close { reason, text } => {
                let text = String::from_utf8_lossy(text).into_owned();
                self.end(End::ByPeer { reason, text }, memory);
                Ok(())
            }
            Frame::PathChallenge(token) => {
                self.handle_challenge(path, token);
                Ok(())
            }
            Frame::PathResponse(token) => {
                self.handle_response(now, path, token);
                Ok(())
            }
        }
    }

    fn handle_piece(&mut self, piece: &Piece<'_>, memory: &mut dyn Memory) -> Result<(), Refused> {
        let association = self.identity.id;
        let (events, stats) = (&mut self.events, &mut self.stats);
        let taken = self.channels.with(piece.channel, |c| {
            let Some(receive) = &mut c.receive else { return Err(Refused::Fault) };
            let (channel, label) = (piece.channel, c.open.label);
            let (message, len) = (piece.message, piece.message_len);
            let arrival = Arrival { association, channel, label, message, len };
            let taken = receive.accept(piece, &arrival, memory)?;
            c.stats.stale += u64::from(taken == Taken::Stale);
            let ready = taken == Taken::New && receive.is_ready();
            Ok(ready && tell_ready(c, events, stats))
        });
        let Some(ended) = taken else { return self.past_or_unknown(piece.channel) };
        if ended? {
            self.tell_ended(piece.channel);
        }
        Ok(())
    }

    fn handle_skip(
        &mut self,
        channel: ChannelId,
        message: u64,
        charge: u64,
        memory: &mut dyn Memory,
    ) -> Result<(), Refused> {
        let skipped = self.channels.with(channel, |c| {
            let Some(receive) = &mut c.receive else { return Err(Refused::Fault) };
            c.stats.dropped += u64::from(receive.skip(message, charge, memory)?);
            c.due.renew(receive.renewal(), false);
            Ok(())
        });
        skipped.unwrap_or_else(|| self.past_or_unknown(channel))
    }

    /// A frame for a channel that is not there. Over already: the peer has not heard our
    /// acknowledgement. Not yet open: its OPEN was refused or is late, so the packet must come
    /// again.
    fn past_or_unknown(&self, channel: ChannelId) -> Result<(), Refused> {
        if self.channels.is_past(channel) { Ok(()) } else { Err(Refused::NoRoom) }
    }

    fn deliver(&mut self, channel: ChannelId) {
        let (events, stats) = (&mut self.events, &mut self.stats);
        let ended = self.channels.with(channel, |c| tell_ready(c, events, stats));
        if ended == Some(true) {
            self.tell_ended(channel);
        }
    }

    /// Nothing more will come on a channel.
    fn tell_ended(&mut self, channel: ChannelId) {
        self.events.push_back(AssociationEvent::Ended { channel });
        self.channels.forget(channel);
    }

    fn handle_ack(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        memory: &mut dyn Memory,
    ) -> Result<(), Refused> {
        let Some(path) = self.paths.by_id(ack.path) else {
            return Err(Refused::Fault);
        };
        if !path.on_ack(now, self.late, ack, &mut self.outcome) {
            self.fault(now, "acknowledges a packet never sent", memory);
            return Ok(());
        }
        if path.standing.answers(ack.largest) {
            path.come_back(now, &self.config);
            self.stats.paths.returned += 1;
        }
        // It answered something that we sent since we woke: it has not given us up.
        let (id, answered, trip) = (path.id, path.largest_acked(), path.rtt.smoothed());
        let since = |from: &mut Vec<(PathId, u64)>| {
            from.iter().any(|(path, from)| *path == id && answered.is_some_and(|n| n >= *from))
        };
        self.held.take_if(since);
        if self.outcome.progress {
            self.liveness.progressed(now, self.paths.iter().any(|p| p.in_flight() > 0));
        }
        if let Some(trip) = self.outcome.trip.take() {
            self.trips.record(u64::try_from(trip.as_micros()).unwrap_or(u64::MAX));
        }
        self.hold_lost(now);
        self.settle_outcome(trip);
        Ok(())
    }

    /// Brings what a path with round trips of `trip` learned to the channels.
    pub(super) fn settle_outcome(&mut self, trip: Duration) {
        let mut outcome = ::core::mem::take(&mut self.outcome);
        self.stats.packets_lost += outcome.packets_lost;
        self.stats.spurious += outcome.spurious;
        // The packet that acknowledges was heard just now.
        let arrived = self.liveness.heard_at() - trip / 2;
        for item in outcome.acked.drain(..) {
            self.item_acked(item, arrived);
        }
        for item in outcome.lost.drain(..) {
            self.item_lost(item);
        }
        for item in outcome.probed.drain(..) {
            match item {
                Item::Data { channel, message, offset, len } => {
                    let probed = |s: &mut SendHalf| s.on_probed(message, offset, len);
                    self.channels.with(channel, |c| c.send.as_mut().map(probed));
                }
                other => self.item_lost(other),
            }
        }
        self.prune_deadlines();
        (outcome.packets_lost, outcome.spurious, outcome.progress) = (0, 0, false);
        self.outcome = outcome;
    }

    fn item_acked(&mut self, item: Item, arrived: Instant) {
        match item {
            Item::Data { channel, message, offset, len } => {
                let half = self.channels.send_half(channel);
                if half.is_some_and(|s| s.on_acked(message, offset, len, arrived)) {
                    self.tell_settled(channel);
                }
            }
            Item::Skip { channel, message } => {
                let acked = |s: &mut SendHalf| s.on_skip_acked(message);
                self.channels.with(channel, |c| c.send.as_mut().map(acked));
                self.tell_settled(channel);
            }
            Item::Open(id) => {
                self.channels.with(id, |c| {
                    c.known = true;
                    c.due.open = false;
                });
                self.channels.forget(id);
            }
            Item::CloseChannel(id) => {
                self.channels.with(id, |c| {
                    c.close_acked = true;
                    c.due.close = false;
                });
                self.channels.forget(id);
            }
            Item::Limit(_) | Item::PathRetire(_) | Item::PathAdd(_) | Item::Rebuilt => {}
        }
    }

    pub(super) fn item_lost(&mut self, item: Item) {
        match item {
            Item::Data { channel, message, offset, len } => {
                let lost = |s: &mut SendHalf| s.on_lost(message, offset, len);
                self.channels.with(channel, |c| c.send.as_mut().map(lost));
                self.tell_settled(channel);
            }
            Item::Skip { channel, message } => {
                #[cfg(plant)]
                if self.config.plant == crate::config::Plant::ForgottenSkip {
                    return;
                }
                let lost = |s: &mut SendHalf| s.on_skip_lost(message);
                self.channels.with(channel, |c| c.send.as_mut().map(lost));
            }
            Item::Open(id) => _ = self.channels.with(id, |c| c.due.open = !c.known),
            Item::PathRetire(id) => self.paths.tell_again(id),
            Item::PathAdd(number) => {
                #[cfg(plant)]
                if self.config.plant == crate::config::Plant::OfferForgotten {
                    return;
                }
                self.paths.offer_again(number);
            }
            Item::Limit(id) => _ = self.channels.with(id, |c| c.due.limit = true),
            Item::CloseChannel(id) => {
                self.channels.with(id, |c| c.due.close = !c.close_acked);
            }
            Item::Rebuilt => {}
        }
    }
}

/// Tells of the messages of a channel whose turn it is; true where none will follow, once.
fn tell_ready(
    c: &mut Channel,
    events: &mut VecDeque<AssociationEvent>,
    stats: &mut AssociationStats,
) -> bool {
    let (channel, label) = (c.open.channel, c.open.label);
    let Some(receive) = &mut c.receive else { return false };
    while let Some((number, block, len)) = receive.pop_ready() {
        stats.messages_received += 1;
        c.stats.messages_received += 1;
        c.stats.bytes_received += u64::from(len);
        events.push_back(AssociationEvent::Message { channel, label, number, block, len });
    }
    receive.ended() && !::core::mem::replace(&mut c.end_told, receive.ended())
}
