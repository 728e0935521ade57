//! Building packets: what goes in, in which order.

use alloc::vec::Vec;

use towpath_wire::Instant;
use towpath_wire::frame::{
    self, ACK_WORDS_MAX, CLOSE_CHANNEL_LEN, DATA_OVERHEAD, LIMIT_LEN, PATH_ADD_LEN,
    PATH_RETIRE_LEN, PATH_TOKEN_LEN, SKIP_LEN,
};
use towpath_wire::packet::{DATA_HEADER, Data, TAG};

use super::channel::Channel;
use super::channels::Growth;
use super::core::{Association, State};
use super::end::Closing;
use super::flight::Item;
use super::path::{Departure, Path};
use super::send::{Next, PIECE_MIN, Piece, SendHalf};
use super::striping::Picked;
use crate::endpoint::cut_text;
use crate::machine::{Grant, GrantKind, PACKET_MIN, PacketWriter, Transmit, TxBatch};

/// The shortest packet that a reserved channel's head can state.
pub(super) const HEAD_MIN: usize = DATA_HEADER + DATA_OVERHEAD + 1 + TAG;
/// Most frames that must not be lost in one packet.
const ITEMS_MAX: usize = 64;

impl Association {
    /// Writes the next train for the grant's link, within the grant and the batch.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        grant: Grant,
        out: &mut TxBatch<'_>,
    ) -> Option<Transmit> {
        let mut train = self.build_train(now, grant, out);
        #[cfg(plant)]
        if let (crate::config::Plant::WrongLink, Some(train)) = (self.config.plant, &mut train) {
            train.link = grant.link;
        }
        if let Some(channel) = grant.kind.channel() {
            let dscp = self.channels.granted(channel, train.is_some());
            if let Some(train) = &mut train {
                train.tos |= dscp << 2;
            }
        }
        train
    }

    fn build_train(
        &mut self,
        now: Instant,
        grant: Grant,
        out: &mut TxBatch<'_>,
    ) -> Option<Transmit> {
        let Grant { bytes, mut kind, .. } = grant;
        match &self.state {
            State::Closing(_) if !kind.has_control() => return None,
            State::Closing(Closing { due: true, .. }) => return self.build_close(now, grant, out),
            State::Closing(_) | State::Over => return None,
            State::Open => {}
        }
        if self.deadline_passed(now) || self.identity.keys.send.is_spent(&self.config.rekey) {
            return None; // `handle_timeout` comes first: nothing is sent beyond its time
        }
        if kind.has_control() && self.challenge_on(grant.link).is_some() {
            return self.build_challenge(now, grant, out);
        }
        let path = self.path_with_work(now, grant, &mut kind)?;
        if kind.has_control() && self.channels.carries() && self.build_trial(now, path, bytes, out)
        {
            return Some(self.transmit(path, out));
        }
        // A head has said how much it needs; everything else may have to carry control.
        let least = if kind.has_control() { PACKET_MIN } else { HEAD_MIN };
        let grant = Grant { kind, ..grant };
        while self.has_work(now, path, kind) && (out.used() == 0 || self.goes_on(now, grant, path))
        {
            let used = out.used();
            let most = usize::from(self.paths[path].datagram).min(bytes - used);
            let max = most.min(self.paths[path].standing.allowance().try_into().unwrap_or(most));
            if max < least || !out.takes(max) {
                break;
            }
            self.build_packet(now, path, max, kind, out);
            if out.used() == used {
                break; // what waited fits into no packet as short as this
            }
        }
        if kind.has_data() && !self.channels.has_data(None) {
            self.paths[path].starved();
        }
        (out.datagrams() > 0).then(|| self.transmit(path, out))
    }

    pub(super) fn transmit(&self, path: usize, out: &TxBatch<'_>) -> Transmit {
        let tos = self.paths[path].codepoint();
        let Path { link, remote, .. } = self.paths[path];
        let (segment, len, not_before) = (out.segment(), out.used(), Instant::ZERO);
        Transmit { link, remote, segment, len, tos, not_before }
    }

    /// The path that the next packet goes out on, of those on the grant's link; no data goes by it
    /// that is to go by another.
    fn path_with_work(
        &mut self,
        now: Instant,
        grant: Grant,
        kind: &mut GrantKind,
    ) -> Option<usize> {
        let link = grant.link;
        #[cfg(plant)]
        if self.config.plant == crate::config::Plant::WrongLink {
            return (0..self.paths.len()).find(|p| self.has_work(now, *p, *kind));
        }
        match self.pick_path(now, grant) {
            Picked::Here(path) => return Some(path),
            Picked::Elsewhere if kind.has_control() => *kind = GrantKind::Control,
            Picked::Elsewhere | Picked::Nowhere => {}
        }
        let on = |p: &usize| self.paths[*p].link == link && self.has_work(now, *p, *kind);
        (0..self.paths.len()).find(on)
    }

    /// Bytes of data that a grant may put on a path: what was admitted does not ask its window.
    pub(super) fn room(&self, now: Instant, path: &Path, kind: GrantKind) -> u64 {
        match kind {
            GrantKind::Data(channel) if self.channels.is_reserved(channel) => path.room_reserved(),
            _ => self.data_room(now, path),
        }
    }

    /// What is promised goes by its link, on standby or not.
    fn may_carry(&self, path: usize, kind: GrantKind) -> bool {
        let promised = kind.channel().is_some() && self.paths[path].standing.is_fit();
        promised || self.paths.may_carry(path)
    }

    fn has_work(&self, now: Instant, path: usize, kind: GrantKind) -> bool {
        let p = &self.paths[path];
        if p.standing.allowance() < PACKET_MIN as u64 {
            return false;
        }
        let carries = self.may_carry(path, kind);
        let copies = || kind.has_control() && self.striping.owes_copies(p.id);
        let parity = || kind.has_control() && self.owes_parity(path);
        let waits = || self.channels.has_data(kind.channel()) || copies() || parity();
        // What most trains are made of first.
        if kind.has_data() && carries && waits() && self.room(now, p, kind) > 0 {
            return true;
        }
        let control = || p.owes_probe() || self.control_due();
        let answers = || p.standing.up && self.owes_response(p.id);
        kind.has_control()
            && (p.arrivals.is_due(now)
                || p.standing.ask
                || (carries && control())
                || answers()
                || self.code.tells_on(p.id))
    }

    fn control_due(&self) -> bool {
        let asks = self.liveness.wants_ask() || self.note.is_some();
        asks || self.paths.has_news() || self.channels.has_control()
    }

    /// Puts a padded packet alone into the train, when the path wants to know whether such long
    /// ones pass.
    fn build_trial(
        &mut self,
        now: Instant,
        path: usize,
        bytes: usize,
        out: &mut TxBatch<'_>,
    ) -> bool {
        let p = &mut self.paths[path];
        let fits = |size: &u16| usize::from(*size) <= bytes && out.takes(usize::from(*size));
        let Some(size) = p.trial(now).filter(fits) else { return false };
        p.trial_departs(size);
        let mut w = out.packet(size.into(), self.identity.keys.send.key.seals());
        w.frame(1, frame::emit_ping);
        w.pad();
        let departure = Departure { eliciting: true, ..Departure::at(now) };
        self.depart(now, path, &mut w, departure, &[]);
        true
    }

    fn build_packet(
        &mut self,
        now: Instant,
        path: usize,
        max: usize,
        kind: GrantKind,
        out: &mut TxBatch<'_>,
    ) {
        if self.build_parity(now, path, max, kind, out) {
            return;
        }
        let coding = self.coding_of(now, path, kind);
        // What is coded is read once more.
        let hidden = coding.is_on() || self.identity.keys.send.key.seals();
        let mut w = out.packet(max, hidden);
        let control = kind.has_control();
        let mut acked_up_to = None;
        if control {
            acked_up_to = write_acks(now, &self.paths[path], &mut w);
            let id = self.paths[path].id;
            while w.room() >= PATH_TOKEN_LEN
                && let Some(token) = self.take_response(id)
            {
                w.frame(PATH_TOKEN_LEN, |w| frame::emit_path_response(w, token));
            }
            self.code.write_rebuilt(id, &mut w);
        }
        let member = self.begin_member(path, coding, &mut w);
        let mut items = ::core::mem::take(&mut self.scratch);
        items.clear();
        // Nothing may depend on what goes by one that may not carry.
        let carries = self.may_carry(path, kind);
        let mut eliciting = false;
        if control && carries {
            eliciting = self.write_control(now, &mut w, &mut items);
        }
        let p = &self.paths[path];
        let (probing, mut copied) = (p.owes_probe(), items.len());
        if kind.has_data() && carries && (probing || self.room(now, p, kind) > 0) {
            if control && self.channels.carries() {
                write_ack_rate(now, &mut self.paths[path], &mut w);
            }
            if control {
                self.write_copies(path, &mut w, &mut items);
            }
            copied = items.len();
            self.write_data(now, kind, &mut w, &mut items);
        }
        eliciting |= !items.is_empty();
        let p = &mut self.paths[path];
        let asks = control && core::mem::take(&mut p.standing.ask);
        // An old key is not renewed before one of its packets is acknowledged.
        let old = self.identity.keys.send.is_old(now, &self.config.rekey);
        let wants = asks || (carries && (probing || old)) || p.wants_ping();
        if control && !eliciting && w.room() > 0 && wants {
            w.frame(1, frame::emit_ping);
            eliciting = carries || p.standing.is_fit();
        }
        if let Some(member) = member {
            self.end_member(now, path, member, &mut w);
        }
        // Nothing in it: what waited turned out to be acknowledged already.
        if !w.is_empty() {
            let reserved = kind.channel().is_some_and(|c| self.channels.is_reserved(c));
            let departure = Departure { now, bytes: 0, eliciting, reserved, acked_up_to };
            let bytes = self.depart(now, path, &mut w, departure, &items);
            self.data_went(now, (path, bytes), &items[copied..]);
        }
        self.scratch = items;
    }

    pub(super) fn depart(
        &mut self,
        now: Instant,
        path: usize,
        w: &mut PacketWriter<'_, '_>,
        departure: Departure,
        items: &[Item],
    ) -> u64 {
        self.renew_key(now);
        let p = &mut self.paths[path];
        let (receiver, keys) = (self.identity.peer_index, &mut self.identity.keys.send);
        let header = Data { epoch: keys.epoch, path: p.id, receiver, number: p.next_number() };
        #[cfg(plant)]
        let header = if self.config.plant == crate::config::Plant::NonceReused {
            Data { number: header.number - u64::from(header.number % 97 == 13), ..header }
        } else {
            header
        };
        keys.count();
        let len = w.seal(&*keys.key, header);
        p.depart(Departure { bytes: len as u32, ..departure }, items);
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += len as u64;
        if departure.eliciting {
            self.liveness.asked(now);
        }
        if !items.is_empty() {
            self.liveness.active();
        }
        len as u64
    }

    /// Goes on to the next key when the present one has served its time and the peer has it.
    fn renew_key(&mut self, now: Instant) {
        let keys = &mut self.identity.keys.send;
        let has_it = |p: &Path| keys.confirmed(p.id, p.largest_acked());
        if keys.is_old(now, &self.config.rekey) && self.paths.iter().any(has_it) {
            keys.renew(now, self.paths.iter().map(|p| (p.id, p.next_number())));
            self.stats.keys_sent += 1;
        }
    }

    /// Writes what keeps the conversation going; true when some of it asks for acknowledgement.
    fn write_control(
        &mut self,
        now: Instant,
        w: &mut PacketWriter<'_, '_>,
        items: &mut Vec<Item>,
    ) -> bool {
        let mut eliciting = false;
        while w.room() >= PATH_ADD_LEN
            && let Some((number, link, remote)) = self.paths.poll_offer()
        {
            w.frame(PATH_ADD_LEN, |w| frame::emit_path_add(w, number, link, remote));
            items.push(Item::PathAdd(number));
            eliciting = true;
        }
        while w.room() >= PATH_RETIRE_LEN
            && let Some((path, reason)) = self.paths.poll_news()
        {
            w.frame(PATH_RETIRE_LEN, |w| frame::emit_path_retire(w, path, reason));
            items.push(Item::PathRetire(path));
            eliciting = true;
        }
        if self.liveness.wants_ask() && w.room() > 0 {
            w.frame(1, frame::emit_ping);
            eliciting = true;
        }
        if self.channels.is_due() {
            let growth = Growth { now, trip: self.paths.least_trip(), config: &self.config };
            while self.channels.write_control(growth, |c| write_due(now, c, w, items)) {}
        }
        self.write_note(w);
        eliciting
    }

    fn write_data(
        &mut self,
        now: Instant,
        kind: GrantKind,
        w: &mut PacketWriter<'_, '_>,
        items: &mut Vec<Item>,
    ) {
        // What was promised to a channel has no bytes for the comfort of the train.
        let (only, pads) = (kind.channel(), kind.has_control());
        let last_chance = self.last_chance(now);
        // A head's grant is filled to its last byte.
        let least = if pads { PIECE_MIN + DATA_OVERHEAD } else { DATA_OVERHEAD };
        let (mut repaired, mut twice) = (false, false);
        while items.len() + 1 < ITEMS_MAX {
            if !w.is_empty() && w.room() < least {
                if pads && self.channels.has_data(only) {
                    w.pad(); // so that the train may go on
                }
                break;
            }
            let Some(id) = self.channels.pick(only) else { break };
            match self.channels.with(id, |c| write_next(c, last_chance, pads, w, items)) {
                Some(Wrote::Full) | None => break,
                Some(Wrote::Nothing) => {}
                Some(Wrote::Piece { repair, copy }) => {
                    repaired |= repair;
                    twice |= copy;
                }
            }
        }
        if twice {
            // The second copies, for another packet.
            self.channels.for_each(|c| _ = c.send.as_mut().map(SendHalf::copy_last_repairs));
        }
        self.stats.repaired += u64::from(repaired);
    }

    fn build_close(
        &mut self,
        now: Instant,
        grant: Grant,
        out: &mut TxBatch<'_>,
    ) -> Option<Transmit> {
        let State::Closing(Closing { reason, text, .. }) = &self.state else { return None };
        let path = self.paths.on(grant.link).filter(|path| self.paths.may_carry(*path))?;
        let max = usize::from(self.paths[path].datagram).min(grant.bytes);
        if max < PACKET_MIN || !out.takes(max) {
            return None;
        }
        let mut w = out.packet(max, self.identity.keys.send.key.seals());
        let text = cut_text(text, (w.room() - 4).min(255)).as_bytes();
        w.frame(4 + text.len(), |w| frame::emit_close(w, *reason, text));
        let departure = Departure::at(now);
        self.depart(now, path, &mut w, departure, &[]);
        self.close_sent(now);
        Some(self.transmit(path, out))
    }
}

/// Writes the control frames of a channel that fit.
fn write_due(now: Instant, c: &mut Channel, w: &mut PacketWriter<'_, '_>, items: &mut Vec<Item>) {
    let id = c.open.channel;
    if c.due.open && w.room() >= frame::open_len(&c.open) {
        write_open(c, w, items);
    }
    if c.due.limit && w.room() >= LIMIT_LEN {
        if let Some(receive) = &mut c.receive {
            let limit = receive.renew(now);
            w.frame(LIMIT_LEN, |w| frame::emit_limit(w, id, limit));
            items.push(Item::Limit(id));
        }
        (c.due.limit, c.due.patient) = (false, false);
    }
    if c.due.close && w.room() >= CLOSE_CHANNEL_LEN {
        let end = c.send.as_ref().map(|s| (s.finish.unwrap_or(0), s.count()));
        if let Some((reason, count)) = end {
            w.frame(CLOSE_CHANNEL_LEN, |w| frame::emit_close_channel(w, id, reason, count));
            items.push(Item::CloseChannel(id));
        }
        c.due.close = false;
    }
}

pub(super) fn write_open(c: &mut Channel, w: &mut PacketWriter<'_, '_>, items: &mut Vec<Item>) {
    w.frame(frame::open_len(&c.open), |w| frame::emit_open(w, &c.open));
    c.due.open = false;
    items.push(Item::Open(c.open.channel));
}

/// What [`write_next`] did.
enum Wrote {
    /// It did not fit.
    Full,
    /// What waited needs no sending any more, or was a SKIP.
    Nothing,
    Piece {
        repair: bool,
        /// A copy of it waits for another packet.
        copy: bool,
    },
}

/// Writes the next piece or SKIP of a channel, and its OPEN where the peer may not know it yet.
fn write_next(
    c: &mut Channel,
    last_chance: Instant,
    pads: bool,
    w: &mut PacketWriter<'_, '_>,
    items: &mut Vec<Item>,
) -> Wrote {
    let id = c.open.channel;
    let open_len =
        if c.known || items.contains(&Item::Open(id)) { 0 } else { frame::open_len(&c.open) };
    let least = match &c.send {
        _ if w.is_empty() => 1,
        Some(send) if !pads => send.rest().min(PIECE_MIN),
        _ => PIECE_MIN,
    };
    if w.room() < open_len + DATA_OVERHEAD + least {
        return Wrote::Full;
    }
    let Some(send) = &mut c.send else { return Wrote::Nothing };
    let (room, most) =
        (w.room() - open_len - DATA_OVERHEAD, w.room_max() - open_len - DATA_OVERHEAD);
    if send.wants_own_packet(room, most) {
        // Filling up a little lets the train go on; filling up a lot would cost more than that.
        if pads && room < most / 4 {
            w.pad();
        }
        return Wrote::Full;
    }
    let Some(next) = send.next(room, last_chance) else {
        return Wrote::Nothing;
    };
    if open_len > 0 {
        write_open(c, w, items);
    }
    match next {
        Next::Skip { message, charge } => {
            w.frame(SKIP_LEN, |w| frame::emit_skip(w, id, message, charge));
            items.push(Item::Skip { channel: id, message });
            Wrote::Nothing
        }
        Next::Piece(piece) => {
            let Piece { message, offset, len, .. } = piece;
            w.frame(DATA_OVERHEAD, |w| {
                frame::emit_data_header(w, id, message, piece.message_len, offset, len);
            });
            w.body(piece.block, offset, len.into());
            items.push(Item::Data { channel: id, message, offset, len });
            c.stats.repaired += u64::from(piece.repair);
            Wrote::Piece { repair: piece.repair, copy: piece.twice }
        }
    }
}

/// Writes how often we want to hear from the peer, when that is news.
fn write_ack_rate(now: Instant, path: &mut Path, w: &mut PacketWriter<'_, '_>) {
    if let Some((every, delay_us)) = path.ack_rate.news(now)
        && w.room() >= 2 * frame::ACK_RATE_LEN + DATA_OVERHEAD + PIECE_MIN
    {
        w.frame(frame::ACK_RATE_LEN, |w| frame::emit_ack_rate(w, path.id, every, delay_us));
        path.ack_rate.told(now);
    }
}

/// Writes the path's acknowledgement map, in as many frames as it takes (at most eight: 8192
/// packets); returns the largest packet acknowledged.
pub(super) fn write_acks(now: Instant, path: &Path, w: &mut PacketWriter<'_, '_>) -> Option<u64> {
    let (largest, low, delay_us) = path.arrivals.range(now)?;
    let mut map = [0; ACK_WORDS_MAX];
    let mut top = largest;
    let marked = path.arrivals.marked;
    if marked > 0 && w.room() >= frame::MARKS_LEN + frame::ack_len(1) {
        w.frame(frame::MARKS_LEN, |w| frame::emit_marks(w, path.id, marked));
    }
    for _ in 0..8 {
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
