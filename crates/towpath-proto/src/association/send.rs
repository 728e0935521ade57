//! The sending half of a channel: messages waiting, under way, to be repeated, and given up.

use alloc::collections::VecDeque;

use towpath_wire::Instant;
use towpath_wire::frame::{DATA_OVERHEAD, MESSAGE_CHARGE, Reliability, SKIP_LEN};

use crate::memory::Block;
use crate::range_set::RangeSet;

/// Data is not cut into pieces smaller than this when the packet has other content already.
pub(super) const PIECE_MIN: usize = 64;

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Sent, and repaired where pieces are lost.
    Open,
    /// Nothing more is sent of it; what is under way may still complete it.
    Closing,
    /// Given up, and its owner was told: the peer is to be told to skip it.
    Abandoned,
    /// The peer knows that it is to be skipped.
    Skipped,
    /// Acknowledged whole.
    Done,
}

/// One message. Invariants: `sent ≤ len`; acknowledged ranges lie below `sent`; its block is its
/// owner's again once it is abandoned.
#[derive(Debug)]
struct Outgoing {
    block: Block,
    len: u32,
    sent: u32,
    /// Pieces under way. A piece that counted as lost and arrived after all was taken off twice;
    /// then the message may be given up a little early.
    flying: u32,
    acked: RangeSet,
    deadline: Instant,
    fate: Fate,
    /// It was charged against the credit: a piece of it was sent.
    charged: bool,
    /// What completed it arrived after its deadline.
    late: bool,
}

/// What the documentation of the crate states for a message that waits, less deadline and lists.
const _: () = assert!(size_of::<Outgoing>() <= 72);

impl Outgoing {
    fn charge(&self) -> u64 {
        u64::from(self.len) + MESSAGE_CHARGE
    }
}

/// A range to be sent again.
#[derive(Clone, Copy, Debug)]
struct Repair {
    message: u64,
    offset: u32,
    len: u32,
    /// It is the second copy of a last repair.
    copy: bool,
}

/// A piece to put into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) message: u64,
    pub(super) message_len: u32,
    pub(super) block: Block,
    pub(super) offset: u32,
    pub(super) len: u16,
    /// It was sent before.
    pub(super) repair: bool,
    /// A copy of it waits for [`SendHalf::copy_last_repairs`].
    pub(super) twice: bool,
}

/// What to put into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Piece(Piece),
    /// The peer is to skip a message that was charged so much.
    Skip {
        message: u64,
        charge: u64,
    },
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Sent { number: u64, block: Block, len: u32, late: bool },
    Abandoned { number: u64, block: Block },
}

/// Why a message cannot be sent.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SendError {
    /// Longer than the credit of a channel can ever cover.
    #[error("message of {len} bytes, limit {limit} (the channel's window)")]
    TooLong {
        /// Its length.
        len: u32,
        /// The limit.
        limit: u32,
    },
    /// Too many messages wait already.
    #[error("{waiting} messages wait in the channel, limit {limit}: wait for `Sent` events")]
    QueueFull {
        /// Messages waiting.
        waiting: usize,
        /// The limit.
        limit: u32,
    },
    /// A deadline on a channel that repairs without regard to time, or not at all.
    #[error("a message with a deadline, but the channel is not timely")]
    NotTimely,
    /// No such channel, or this side may not send on it, or it is finished.
    #[error("the channel is not open for sending")]
    NotOpen,
    /// The association has ended.
    #[error("the association has ended")]
    Ended,
}

/// Invariants: `first ≤ fresh ≤ first + messages.len()`; `charged ≤ limit`; messages up to `fresh`
/// are sent whole, given up, or skipped.
#[derive(Debug)]
pub(super) struct SendHalf {
    class: Reliability,
    messages: VecDeque<Outgoing>,
    /// Number of the message at the front of `messages`.
    first: u64,
    /// Number of the first message that has something to be sent for the first time.
    fresh: u64,
    /// Credit used since the channel opened.
    charged: u64,
    /// Credit given since the channel opened.
    limit: u64,
    lost: VecDeque<Repair>,
    /// Second copies of last repairs, until their first copy's packet is finished.
    copies: VecDeque<Repair>,
    /// Charged messages that the peer is to skip.
    skips: VecDeque<u64>,
    /// Given up, and not yet told.
    abandoned: VecDeque<(u64, Block)>,
    window: u64,
    messages_max: u32,
    pub(super) finish: Option<u16>,
}

impl SendHalf {
    pub(super) const fn new(window: u64, class: Reliability, messages_max: u32) -> Self {
        Self {
            class,
            messages: VecDeque::new(),
            first: 0,
            fresh: 0,
            charged: 0,
            limit: window,
            lost: VecDeque::new(),
            copies: VecDeque::new(),
            skips: VecDeque::new(),
            abandoned: VecDeque::new(),
            window,
            messages_max,
            finish: None,
        }
    }

    /// Queues a message and returns its number. `deadline`: when it must have arrived, by our
    /// clock; `NEVER` where there is none.
    pub(super) fn push(
        &mut self,
        block: Block,
        len: u32,
        deadline: Instant,
    ) -> Result<u64, SendError> {
        let limit = (self.window - MESSAGE_CHARGE) as u32;
        if len > limit {
            return Err(SendError::TooLong { len, limit });
        }
        if self.finish.is_some() {
            return Err(SendError::NotOpen);
        }
        if deadline != Instant::NEVER && self.class != Reliability::Timely {
            return Err(SendError::NotTimely);
        }
        if self.messages.len() >= self.messages_max as usize {
            let waiting = self.messages.len();
            return Err(SendError::QueueFull { waiting, limit: self.messages_max });
        }
        let (acked, fate) = (RangeSet::default(), Fate::Open);
        let (sent, flying, charged, late) = (0, 0, false, false);
        let message = Outgoing { block, len, sent, flying, acked, deadline, fate, charged, late };
        self.messages.push_back(message);
        Ok(self.count() - 1)
    }

    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Messages sent since the channel opened.
    pub(super) fn count(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    /// True when nothing waits and the fate of everything is known to the peer.
    pub(super) fn is_idle(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn waiting(&self) -> usize {
        self.messages.len()
    }

    /// True while a message may still be given up at its deadline.
    pub(super) fn awaits_deadline(&self, message: u64) -> bool {
        let index = message.checked_sub(self.first);
        let m = index.and_then(|i| self.messages.get(i as usize));
        m.is_some_and(|m| m.fate == Fate::Open)
    }

    fn outgoing(&mut self, message: u64) -> Option<&mut Outgoing> {
        let index = message.checked_sub(self.first)?;
        self.messages.get_mut(index as usize)
    }

    /// The message at `fresh`, if it may be sent (or skipped) now. The receiver keeps no more
    /// message numbers than its window has room for, and knows of none below `first`.
    fn fresh_ready(&self) -> bool {
        let ahead = self.fresh - self.first;
        ahead < self.window / MESSAGE_CHARGE
            && self.messages.get(ahead as usize).is_some_and(|m| {
                m.charged || m.fate == Fate::Abandoned || self.charged + m.charge() <= self.limit
            })
    }

    /// Number of the first message that has something to be sent for the first time.
    pub(super) const fn fresh(&self) -> u64 {
        self.fresh
    }

    /// Bytes that what goes out next takes in a packet with `room` for it, frames included. At
    /// most: what of the repairs is not needed any more costs nothing.
    pub(super) fn next_len(&self, room: usize) -> usize {
        let mut used = self.skips.len().saturating_mul(SKIP_LEN).min(room / SKIP_LEN * SKIP_LEN);
        let repairs = self.lost.iter().map(|r| r.len);
        let whole = !self.repairs_all();
        let (ahead, mut credit) = ((self.fresh - self.first) as usize, self.limit - self.charged);
        let most = (self.window / MESSAGE_CHARGE) as usize;
        let fresh = self.messages.iter().take(most).skip(ahead).map_while(|m| {
            if !m.charged {
                credit = credit.checked_sub(m.charge())?;
            }
            Some(m.len - m.sent)
        });
        for len in repairs.chain(fresh) {
            let (left, len) = (room - used, len as usize);
            let own = whole && left < DATA_OVERHEAD + len && DATA_OVERHEAD + len <= room;
            if left <= DATA_OVERHEAD || (used > 0 && (own || left < PIECE_MIN + DATA_OVERHEAD)) {
                break;
            }
            used += DATA_OVERHEAD + len.min(left - DATA_OVERHEAD);
        }
        used
    }

    /// True when something was sent before, or waits to be skipped.
    pub(super) fn repairs_wait(&self) -> bool {
        !self.lost.is_empty() || !self.skips.is_empty()
    }

    /// True when there is something that may be sent now.
    pub(super) fn ready(&self) -> bool {
        self.repairs_wait() || self.fresh_ready()
    }

    /// True when only missing credit holds the next message back.
    pub(super) fn is_blocked(&self) -> bool {
        !self.ready() && self.fresh < self.count()
    }

    const fn repairs_all(&self) -> bool {
        matches!(self.class, Reliability::ReliableOrdered | Reliability::ReliableUnordered)
    }

    /// True when what goes out next would be cut at `room` bytes, and would not be in a packet of
    /// its own, with room for `most`. Where not all is repaired, a piece in two packets is lost
    /// about twice as often, so it is worth ending a packet early.
    pub(super) fn wants_own_packet(&self, room: usize, most: usize) -> bool {
        if self.repairs_all() || !self.skips.is_empty() {
            return false;
        }
        let rest = self.rest();
        room < rest && rest <= most
    }

    /// Bytes of the message or repair that goes next; 0 for a SKIP.
    pub(super) fn rest(&self) -> usize {
        let fresh = || self.messages.get((self.fresh - self.first) as usize);
        (match self.lost.front() {
            _ if !self.skips.is_empty() => 0,
            Some(repair) => repair.len,
            None => fresh().map_or(0, |m| m.len - m.sent),
        }) as usize
    }

    /// What goes out next, with at most `room` bytes of a message: skips and repairs before fresh
    /// data. A repair is the last one that can be in time when its message's deadline is not
    /// after `last_chance`; it goes out twice. `None` does not mean that nothing is left.
    #[inline] // what it returns is looked at piece by piece
    pub(super) fn next(&mut self, room: usize, last_chance: Instant) -> Option<Next> {
        let room = room.min(u16::MAX.into()) as u32;
        while let Some(message) = self.skips.pop_front() {
            if let Some(m) = self.outgoing(message)
                && m.fate == Fate::Abandoned
            {
                let charge = if m.charged { m.charge() } else { 0 };
                return Some(Next::Skip { message, charge });
            }
        }
        while let Some(repair) = self.lost.pop_front() {
            if let Some(piece) = self.repair(repair, room, last_chance) {
                return Some(Next::Piece(piece));
            }
        }
        self.fresh_piece(room)
    }

    fn repair(&mut self, r: Repair, room: u32, last_chance: Instant) -> Option<Piece> {
        let Repair { message, offset, len, copy } = r;
        let m = self.outgoing(message)?;
        if m.fate != Fate::Open || (len > 0 && m.acked.covers(offset, offset + len)) {
            return None;
        }
        let (message_len, block, take) = (m.len, m.block, len.min(room));
        let twice = !copy && m.deadline <= last_chance;
        m.flying += 1;
        if take < len {
            self.lost.push_front(Repair { offset: offset + take, len: len - take, ..r });
        }
        if twice {
            self.copies.push_back(Repair { message, offset, len: take, copy: true });
        }
        let len = take as u16;
        Some(Piece { message, message_len, block, offset, len, repair: true, twice })
    }

    #[inline]
    fn fresh_piece(&mut self, room: u32) -> Option<Next> {
        if !self.fresh_ready() {
            return None;
        }
        let message = self.fresh;
        let m = &mut self.messages[(message - self.first) as usize];
        if m.fate == Fate::Abandoned {
            self.fresh += 1;
            return Some(Next::Skip { message, charge: 0 });
        }
        if !m.charged {
            m.charged = true;
            self.charged += m.charge();
        }
        let (offset, len) = (m.sent, (m.len - m.sent).min(room));
        m.sent += len;
        m.flying += 1;
        let (message_len, block, len) = (m.len, m.block, len as u16);
        if m.sent == m.len {
            self.fresh += 1;
        }
        let (repair, twice) = (false, false);
        Some(Next::Piece(Piece { message, message_len, block, offset, len, repair, twice }))
    }

    /// A piece that is under way, to go by one more path; `None` where it has arrived, or its
    /// message is given up.
    pub(super) fn again(&mut self, message: u64, offset: u32, len: u16) -> Option<Piece> {
        let m = self.outgoing(message)?;
        let end = offset + u32::from(len);
        if m.fate != Fate::Open || (len > 0 && m.acked.covers(offset, end)) {
            return None;
        }
        m.flying += 1;
        let (message_len, block) = (m.len, m.block);
        Some(Piece { message, message_len, block, offset, len, repair: false, twice: false })
    }

    /// Bytes that wait to be sent, counted up to `most`, or fewer where they are of very many
    /// messages: `most` of these.
    pub(super) fn backlog(&self, most: u64) -> u64 {
        const COUNTED: usize = 32;
        let ahead = (self.fresh - self.first) as usize;
        if self.messages.len() - ahead > COUNTED || self.lost.len() > COUNTED {
            return most;
        }
        let fresh = self.messages.iter().skip(ahead).map(|m| m.len - m.sent);
        let bytes: u64 = fresh.chain(self.lost.iter().map(|r| r.len)).map(u64::from).sum();
        bytes.min(most)
    }

    /// A packet is finished: second copies may go into the next one.
    pub(super) fn copy_last_repairs(&mut self) {
        self.lost.extend(self.copies.drain(..));
    }

    /// A piece was acknowledged; it arrived at about `at`. What that settles leaves through
    /// [`SendHalf::pop_settled`]. False when nothing is settled and nothing more to be sent: the
    /// rest of the message is to come.
    pub(super) fn on_acked(&mut self, message: u64, offset: u32, len: u16, at: Instant) -> bool {
        let class = self.class;
        let Some(m) = self.outgoing(message) else { return false };
        m.flying = m.flying.saturating_sub(1);
        if !matches!(m.fate, Fate::Open | Fate::Closing) {
            return false;
        }
        let len = u32::from(len);
        if len == m.len || (m.acked.insert(offset, offset + len) && m.acked.covers(0, m.len)) {
            m.fate = Fate::Done;
            m.late = at > m.deadline;
        } else if m.acked.covers(offset, offset + len) {
            if m.fate == Fate::Open {
                return false;
            }
        } else if class == Reliability::Unreliable {
            self.close(message);
        } else if m.fate == Fate::Open {
            // More holes than are kept track of: it must be acknowledged once more, later.
            self.lost.push_back(Repair { message, offset, len, copy: false });
        }
        self.abandon_if_hopeless(message);
        true
    }

    /// A piece was lost: it goes out again, where the channel's class repairs.
    pub(super) fn on_lost(&mut self, message: u64, offset: u32, len: u16) {
        let class = self.class;
        let Some(m) = self.outgoing(message) else { return };
        m.flying = m.flying.saturating_sub(1);
        if class == Reliability::Unreliable {
            self.close(message);
        } else if m.fate == Fate::Open {
            self.lost.push_back(Repair { message, offset, len: len.into(), copy: false });
        }
        self.abandon_if_hopeless(message);
    }

    /// A piece goes out once more, where the channel's class repairs, though nothing says that it
    /// is lost.
    pub(super) fn on_probed(&mut self, message: u64, offset: u32, len: u16) {
        let repairs = self.class != Reliability::Unreliable;
        if self.outgoing(message).is_some_and(|m| repairs && m.fate == Fate::Open) {
            self.lost.push_back(Repair { message, offset, len: len.into(), copy: false });
        }
    }

    /// A message's time is over: nothing more is sent of it, and once nothing of it is under way
    /// it is given up.
    pub(super) fn expire(&mut self, message: u64) {
        self.close(message);
        self.abandon_if_hopeless(message);
    }

    fn close(&mut self, message: u64) {
        let fresh = self.fresh;
        let Some(m) = self.outgoing(message).filter(|m| m.fate == Fate::Open) else { return };
        m.fate = Fate::Closing;
        // The rest of a message that is half out is never sent.
        if message == fresh && m.charged {
            self.fresh += 1;
        }
    }

    fn abandon_if_hopeless(&mut self, message: u64) {
        let Some(m) = self.outgoing(message) else { return };
        if m.fate != Fate::Closing || m.flying > 0 {
            return;
        }
        m.fate = Fate::Abandoned;
        m.acked = RangeSet::default();
        let (block, charged) = (m.block, m.charged);
        self.abandoned.push_back((message, block));
        if charged {
            self.skips.push_back(message);
        }
    }

    /// The peer knows that it is to skip a message.
    pub(super) fn on_skip_acked(&mut self, message: u64) {
        if let Some(m) = self.outgoing(message).filter(|m| m.fate == Fate::Abandoned) {
            m.fate = Fate::Skipped;
        }
    }

    /// The peer is to be told once more.
    pub(super) fn on_skip_lost(&mut self, message: u64) {
        if self.outgoing(message).is_some_and(|m| m.fate == Fate::Abandoned) {
            self.skips.push_back(message);
        }
    }

    /// The next message whose fate is settled: given up, or acknowledged whole and the oldest.
    pub(super) fn pop_settled(&mut self) -> Option<Settled> {
        if let Some((number, block)) = self.abandoned.pop_front() {
            return Some(Settled::Abandoned { number, block });
        }
        while matches!(self.messages.front()?.fate, Fate::Done | Fate::Skipped) {
            let m = self.messages.pop_front()?;
            let number = self.first;
            self.first += 1;
            if m.fate == Fate::Done {
                let Outgoing { block, len, late, .. } = m;
                return Some(Settled::Sent { number, block, len, late });
            }
        }
        None
    }

    /// Credit used since the channel opened.
    #[cfg(test)]
    pub(super) const fn charged(&self) -> u64 {
        self.charged
    }

    /// Every block still held, for release when the association ends.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Block> + '_ {
        self.lost.clear();
        let held =
            |m: Outgoing| (!matches!(m.fate, Fate::Abandoned | Fate::Skipped)).then_some(m.block);
        let untold = self.abandoned.drain(..).map(|(_, block)| block);
        untold.chain(self.messages.drain(..).filter_map(held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Block = Block { index: 0, generation: 0 };
    const NEVER: Instant = Instant::NEVER;

    fn of(class: Reliability, limit: u64) -> SendHalf {
        let mut h = SendHalf::new(1 << 20, class, 4);
        h.limit = limit;
        h
    }

    fn half(limit: u64) -> SendHalf {
        of(Reliability::ReliableOrdered, limit)
    }

    fn at(n: u64) -> Instant {
        Instant::from_nanos(n)
    }

    fn piece(h: &mut SendHalf, room: usize) -> Option<(u64, u32, u16)> {
        match h.next(room, Instant::ZERO)? {
            Next::Piece(p) => Some((p.message, p.offset, p.len)),
            Next::Skip { .. } => panic!("a piece, not a skip"),
        }
    }

    #[test]
    fn where_not_all_is_repaired_a_piece_that_fits_into_a_packet_has_one_of_its_own() {
        let filled = |class| {
            let mut h = of(class, 1 << 20);
            h.push(BLOCK, 100, NEVER).unwrap();
            h
        };
        let h = filled(Reliability::Unreliable);
        assert!(h.wants_own_packet(60, 200) && h.wants_own_packet(99, 100));
        assert!(!h.wants_own_packet(100, 200), "it fits");
        assert!(!h.wants_own_packet(60, 99), "it will be cut anyway");
        assert!(!filled(Reliability::ReliableOrdered).wants_own_packet(60, 200));
    }

    #[test]
    fn a_message_waits_until_its_whole_length_is_covered_by_credit() {
        let mut h = half(163);
        h.push(BLOCK, 100, NEVER).unwrap();
        assert!(!h.ready() && h.is_blocked());
        h.set_limit(164);
        assert_eq!(piece(&mut h, 60), Some((0, 0, 60)));
        assert_eq!(piece(&mut h, 60), Some((0, 60, 40)));
        assert_eq!(piece(&mut h, 60), None);
    }

    #[test]
    fn an_older_limit_does_not_take_credit_back() {
        let mut h = half(1000);
        h.set_limit(10);
        h.push(BLOCK, 900, NEVER).unwrap();
        assert!(h.ready());
    }

    #[test]
    fn repairs_go_first_and_only_what_is_still_missing() {
        let mut h = half(10_000);
        h.push(BLOCK, 100, NEVER).unwrap();
        while h.next(10, Instant::ZERO).is_some() {}
        h.on_acked(0, 0, 10, Instant::ZERO);
        h.on_lost(0, 0, 10);
        h.on_lost(0, 30, 10);
        h.push(BLOCK, 5, NEVER).unwrap();
        assert!(h.repairs_wait());
        assert_eq!(piece(&mut h, 4), Some((0, 30, 4)));
        assert_eq!(piece(&mut h, 50), Some((0, 34, 6)));
        assert_eq!(piece(&mut h, 50), Some((1, 0, 5)));
    }

    #[test]
    fn an_empty_message_is_sent_and_done_like_any_other() {
        let mut h = half(64);
        h.push(BLOCK, 0, NEVER).unwrap();
        assert_eq!(h.pop_settled(), None);
        assert_eq!(piece(&mut h, 10), Some((0, 0, 0)));
        assert_eq!(piece(&mut h, 10), None);
        h.on_lost(0, 0, 0);
        assert_eq!(piece(&mut h, 10), Some((0, 0, 0)));
        h.on_acked(0, 0, 0, Instant::ZERO);
        let sent = Settled::Sent { number: 0, block: BLOCK, len: 0, late: false };
        assert_eq!(h.pop_settled(), Some(sent));
        assert!(h.is_idle());
    }

    #[test]
    fn limits_name_the_value_and_the_limit() {
        let mut h = half(64);
        let e = h.push(BLOCK, 1 << 20, NEVER).unwrap_err();
        assert_eq!(e, SendError::TooLong { len: 1 << 20, limit: (1 << 20) - 64 });
        for _ in 0..4 {
            h.push(BLOCK, 1, NEVER).unwrap();
        }
        let full = SendError::QueueFull { waiting: 4, limit: 4 };
        assert_eq!(h.push(BLOCK, 1, NEVER), Err(full));
        assert_eq!(half(64).push(BLOCK, 1, at(5)), Err(SendError::NotTimely));
    }

    #[test]
    fn an_unreliable_message_ends_at_its_first_loss_once_nothing_of_it_is_under_way() {
        let mut h = of(Reliability::Unreliable, 10_000);
        h.push(BLOCK, 30, NEVER).unwrap();
        h.push(BLOCK, 10, NEVER).unwrap();
        assert_eq!(piece(&mut h, 10), Some((0, 0, 10)));
        assert_eq!(piece(&mut h, 10), Some((0, 10, 10)));
        h.on_lost(0, 0, 10);
        assert_eq!(h.pop_settled(), None, "a piece is under way");
        assert_eq!(piece(&mut h, 10), Some((1, 0, 10)), "its rest is never sent");
        h.on_acked(0, 10, 10, Instant::ZERO);
        assert_eq!(h.pop_settled(), Some(Settled::Abandoned { number: 0, block: BLOCK }));
        assert_eq!(h.next(10, Instant::ZERO), Some(Next::Skip { message: 0, charge: 94 }));
        assert_eq!(h.next(10, Instant::ZERO), None);
        h.on_skip_lost(0);
        assert_eq!(h.next(10, Instant::ZERO), Some(Next::Skip { message: 0, charge: 94 }));
        h.on_acked(1, 0, 10, Instant::ZERO);
        assert_eq!(h.pop_settled(), None, "told in order");
        h.on_skip_acked(0);
        let sent = Settled::Sent { number: 1, block: BLOCK, len: 10, late: false };
        assert_eq!(h.pop_settled(), Some(sent));
        assert!(h.is_idle());
    }

    #[test]
    fn what_expires_before_it_is_sent_needs_no_credit_to_be_skipped() {
        let mut h = of(Reliability::Timely, 0);
        h.push(BLOCK, 10, at(5)).unwrap();
        h.push(BLOCK, 10, at(9)).unwrap();
        assert!(!h.ready());
        h.expire(1);
        assert_eq!(h.pop_settled(), Some(Settled::Abandoned { number: 1, block: BLOCK }));
        assert!(!h.ready(), "skips of what was never sent keep their place");
        h.expire(0);
        assert_eq!(h.pop_settled(), Some(Settled::Abandoned { number: 0, block: BLOCK }));
        assert_eq!(h.next(10, Instant::ZERO), Some(Next::Skip { message: 0, charge: 0 }));
        assert_eq!(h.next(10, Instant::ZERO), Some(Next::Skip { message: 1, charge: 0 }));
        assert_eq!(h.charged, 0);
    }

    #[test]
    fn the_last_repair_goes_twice_and_not_into_one_packet() {
        let mut h = of(Reliability::Timely, 1000);
        h.push(BLOCK, 10, at(50)).unwrap();
        assert_eq!(piece(&mut h, 10), Some((0, 0, 10)));
        h.on_lost(0, 0, 10);
        assert!(matches!(h.next(10, at(49)), Some(Next::Piece(p)) if !p.twice));
        h.on_lost(0, 0, 10);
        assert!(matches!(h.next(10, at(50)), Some(Next::Piece(p)) if p.twice));
        assert_eq!(h.next(10, at(50)), None, "not in this packet");
        h.copy_last_repairs();
        assert!(matches!(h.next(10, at(50)), Some(Next::Piece(p)) if !p.twice && p.repair));
        h.expire(0);
        h.on_lost(0, 0, 10);
        assert_eq!(h.pop_settled(), None, "the copy is under way");
        h.on_acked(0, 0, 10, at(51));
        let sent = Settled::Sent { number: 0, block: BLOCK, len: 10, late: true };
        assert_eq!(h.pop_settled(), Some(sent));
    }

    #[test]
    fn numbers_run_no_further_ahead_than_the_receiver_keeps_places_for() {
        let mut h = SendHalf::new(128, Reliability::ReliableUnordered, 10);
        for _ in 0..3 {
            h.push(BLOCK, 0, NEVER).unwrap();
        }
        assert_eq!(piece(&mut h, 10), Some((0, 0, 0)));
        assert_eq!(piece(&mut h, 10), Some((1, 0, 0)));
        h.set_limit(1000);
        h.on_acked(1, 0, 0, Instant::ZERO);
        assert_eq!((h.pop_settled(), piece(&mut h, 10)), (None, None), "0 is still open");
        h.on_acked(0, 0, 0, Instant::ZERO);
        while h.pop_settled().is_some() {}
        assert_eq!(piece(&mut h, 10), Some((2, 0, 0)));
    }
}
