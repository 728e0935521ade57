//! Building packets: what goes in, in which order.

use alloc::vec::Vec;

use towpath_wire::frame::{
    self, ACK_WORDS_MAX, CLOSE_CHANNEL_LEN, DATA_OVERHEAD, LIMIT_LEN, PATH_TOKEN_LEN,
};
use towpath_wire::packet::Data;
use towpath_wire::{ChannelId, Instant};

use super::core::{Association, State};
use super::path::{Departure, Item, Path};
use crate::endpoint::cut_text;
use crate::machine::{PacketWriter, Transmit, TxBatch};
use crate::stripe::{PathView, StripeScheduler};

/// Data is not cut into pieces smaller than this when the packet has other content already.
const PIECE_MIN: usize = 64;
/// Most frames that must not be lost in one packet.
const ITEMS_MAX: usize = 64;
/// Smallest datagram that a grant can limit us to.
const PACKET_MIN: usize = 128;

impl Association {
    /// Writes the next train within `bytes` and the batch; only `channel`'s data if one is given.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        bytes: usize,
        channel: Option<ChannelId>,
        out: &mut TxBatch<'_>,
    ) -> Option<Transmit> {
        match self.state {
            State::Closing { due: true, .. } => return self.build_close(now, bytes, out),
            State::Closing { .. } | State::Over => return None,
            State::Open => {}
        }
        let path = self.path_with_work(now, channel)?;
        while self.has_work(now, path, channel) {
            let max = usize::from(self.paths[path].datagram).min(bytes - out.used());
            if max < PACKET_MIN || !out.takes(max) {
                break;
            }
            self.build_packet(now, path, max, channel, out);
        }
        if channel.is_none() && !self.channels.has_data(None) {
            self.paths[path].starved();
        }
        (out.datagrams() > 0).then(|| self.transmit(path, out))
    }

    fn transmit(&self, path: usize, out: &TxBatch<'_>) -> Transmit {
        let Path { link, remote, .. } = self.paths[path];
        Transmit { link, remote, segment: out.segment(), len: out.used(), ecn: 0 }
    }

    /// The path that the next packet goes out on.
    fn path_with_work(&mut self, now: Instant, channel: Option<ChannelId>) -> Option<usize> {
        if self.channels.has_data(channel) {
            let mut views = [PathView { id: towpath_wire::PathId(0), room: 0, up: false }; 16];
            let n = self.paths.len().min(views.len());
            for (view, path) in views.iter_mut().zip(&self.paths) {
                *view = PathView { id: path.id, room: path.room(now), up: path.up };
            }
            if let Some(path) = self.stripe.pick(&views[..n]) {
                return Some(path);
            }
        }
        (0..self.paths.len()).find(|p| self.has_work(now, *p, channel))
    }

    fn has_work(&self, now: Instant, path: usize, channel: Option<ChannelId>) -> bool {
        let p = &self.paths[path];
        p.arrivals.is_due(now)
            || p.owes_probe()
            || self.control_due(path)
            || (p.room(now) > 0 && self.channels.has_data(channel))
    }

    fn control_due(&self, path: usize) -> bool {
        path == 0
            && (self.ping_due
                || !self.path_responses.is_empty()
                || self.channels.iter().any(|c| c.open_due || c.limit_due || c.close_due))
    }

    fn build_packet(
        &mut self,
        now: Instant,
        path: usize,
        max: usize,
        channel: Option<ChannelId>,
        out: &mut TxBatch<'_>,
    ) {
        let mut w = out.packet(max);
        let acked_up_to = write_acks(now, &self.paths[path], &mut w);
        let mut items = ::core::mem::take(&mut self.scratch);
        items.clear();
        let mut eliciting = false;
        if path == 0 {
            eliciting = self.write_control(&mut w, &mut items);
        }
        let p = &self.paths[path];
        let probing = p.owes_probe();
        if probing || p.room(now) > 0 {
            self.write_data(channel, &mut w, &mut items);
        }
        eliciting |= !items.is_empty();
        let p = &self.paths[path];
        if !eliciting && w.room() > 0 && (probing || p.wants_ping()) {
            w.frame(1, frame::emit_ping);
            eliciting = true;
        }
        // Nothing in it: what waited turned out to be acknowledged already.
        if !w.is_empty() {
            self.depart(now, path, w, Departure { now, bytes: 0, eliciting, acked_up_to }, &items);
        }
        self.scratch = items;
    }

    fn depart(
        &mut self,
        now: Instant,
        path: usize,
        w: PacketWriter<'_, '_>,
        departure: Departure,
        items: &[Item],
    ) {
        let p = &mut self.paths[path];
        let receiver = self.identity.peer_index;
        let header = Data { epoch: 0, path: p.id, receiver, number: p.next_number() };
        let len = w.seal(&*self.identity.send, header);
        p.depart(Departure { bytes: len as u32, ..departure }, items);
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += len as u64;
        if departure.eliciting {
            self.last_sent = now;
            self.ping_due = false;
        }
    }

    /// Writes what keeps the conversation going; true when some of it asks for acknowledgement.
    fn write_control(&mut self, w: &mut PacketWriter<'_, '_>, items: &mut Vec<Item>) -> bool {
        let mut eliciting = false;
        while w.room() >= PATH_TOKEN_LEN
            && let Some(token) = self.path_responses.pop_front()
        {
            w.frame(PATH_TOKEN_LEN, |w| frame::emit_path_response(w, token));
            eliciting = true;
        }
        if self.ping_due && w.room() > 0 {
            w.frame(1, frame::emit_ping);
            eliciting = true;
        }
        for c in self.channels.iter_mut() {
            let id = c.open.channel;
            if c.open_due && w.room() >= frame::open_len(&c.open) {
                w.frame(frame::open_len(&c.open), |w| frame::emit_open(w, &c.open));
                c.open_due = false;
                items.push(Item::Open(id));
            }
            if c.limit_due && w.room() >= LIMIT_LEN {
                if let Some(receive) = &mut c.receive {
                    let limit = receive.renew();
                    w.frame(LIMIT_LEN, |w| frame::emit_limit(w, id, limit));
                    items.push(Item::Limit(id));
                }
                c.limit_due = false;
            }
            if c.close_due && w.room() >= CLOSE_CHANNEL_LEN {
                let end = c.send.as_ref().map(|s| (s.finish.unwrap_or(0), s.count()));
                if let Some((reason, count)) = end {
                    w.frame(CLOSE_CHANNEL_LEN, |w| {
                        frame::emit_close_channel(w, id, reason, count);
                    });
                    items.push(Item::CloseChannel(id));
                }
                c.close_due = false;
            }
        }
        eliciting
    }

    fn write_data(
        &mut self,
        only: Option<ChannelId>,
        w: &mut PacketWriter<'_, '_>,
        items: &mut Vec<Item>,
    ) {
        let mut repaired = false;
        while items.len() + 1 < ITEMS_MAX {
            let Some(c) = self.channels.pick(only) else { break };
            let id = c.open.channel;
            let open_len = if c.known || items.contains(&Item::Open(id)) {
                0
            } else {
                frame::open_len(&c.open)
            };
            let least = if w.is_empty() { 1 } else { PIECE_MIN };
            if w.room() < open_len + DATA_OVERHEAD + least {
                // More is waiting: fill up, so that the train may go on.
                if w.room() < PIECE_MIN + DATA_OVERHEAD {
                    w.pad();
                }
                break;
            }
            let Some(send) = &mut c.send else { break };
            let Some(piece) = send.next_piece(w.room() - open_len - DATA_OVERHEAD) else {
                continue;
            };
            if open_len > 0 {
                w.frame(open_len, |w| frame::emit_open(w, &c.open));
                c.open_due = false;
                items.push(Item::Open(id));
            }
            let (message, len) = (piece.message, piece.len);
            w.frame(DATA_OVERHEAD, |w| {
                let total = piece.message_len;
                frame::emit_data_header(w, id, message, total, piece.offset, len);
            });
            w.body(piece.block, piece.offset, len.into());
            repaired |= piece.repair;
            items.push(Item::Data { channel: id, message, offset: piece.offset, len });
        }
        self.stats.repaired += u64::from(repaired);
    }

    fn build_close(
        &mut self,
        now: Instant,
        bytes: usize,
        out: &mut TxBatch<'_>,
    ) -> Option<Transmit> {
        let State::Closing { reason, text, .. } = &self.state else { return None };
        let max = usize::from(self.paths[0].datagram).min(bytes);
        if max < PACKET_MIN || !out.takes(max) {
            return None;
        }
        let mut w = out.packet(max);
        let text = cut_text(text, (w.room() - 4).min(255)).as_bytes();
        w.frame(4 + text.len(), |w| frame::emit_close(w, *reason, text));
        let departure = Departure { now, bytes: 0, eliciting: false, acked_up_to: None };
        self.depart(now, 0, w, departure, &[]);
        self.close_sent(now);
        Some(self.transmit(0, out))
    }
}

/// Writes the path's acknowledgement map, in as many frames as it takes (at most four); returns
/// the largest packet acknowledged.
fn write_acks(now: Instant, path: &Path, w: &mut PacketWriter<'_, '_>) -> Option<u64> {
    let (largest, low, delay_us) = path.arrivals.range(now)?;
    let mut map = [0; ACK_WORDS_MAX];
    let mut top = largest;
    for _ in 0..4 {
        let fits = w.room().saturating_sub(frame::ack_len(0)) / 8;
        let words = path.arrivals.received.map(top, low, &mut map).min(fits);
        if words == 0 {
            break;
        }
        let map = &map[..words];
        w.frame(frame::ack_len(words), |w| frame::emit_ack(w, path.id, delay_us, top, map));
        let span = 64 * words as u64;
        if top - low < span {
            break;
        }
        top -= span;
    }
    Some(largest)
}
