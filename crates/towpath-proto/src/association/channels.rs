//! The channels of one association.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use core::time::Duration;

use towpath_wire::frame::{ChannelOpen, MESSAGE_CHARGE};
use towpath_wire::{ChannelId, Instant, LinkId};

use super::channel::{Channel, Opening, PeerLimits};
use super::ready::Ready;
use super::reserved::Reserved;
use super::send::SendHalf;
use crate::coding::Coding;
use crate::config::Config;
use crate::machine::{DSCP_PROMISED, DSCP_RESERVED};
use crate::range_set::RangeSet;
use crate::stripe::StripeKind;

/// So many channels that wait may share a packet with the first, as far as coding is concerned.
const CODED_LOOK: usize = 4;

/// Channels of one side's making and their windows together.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    count: u16,
    credit: u64,
}

/// All channels, sorted by number. Ids are never used twice; the handshake's initiator opens even
/// ones, its responder odd ones.
///
/// Invariants: a channel stands in `ready` at the rank it is `listed` with, unless it is reserved;
/// in `due` when it is `queued`; a reserved one in `noted` when it is that. All are brought up to
/// date by [`Channels::with`] after each change.
#[derive(Debug)]
pub(super) struct Channels {
    list: Vec<Channel>,
    /// Our next id.
    next: u32,
    /// Which ids (halved) the peer has opened.
    peer_opened: RangeSet,
    peers: Share,
    ours: Share,
    /// By how much all windows have grown. It is no part of a share: what the peer was told that it
    /// may open, it may, whatever we let grow.
    grown: u64,
    ready: Ready,
    due: VecDeque<ChannelId>,
    /// Reserved channels that are to be looked at: each once.
    noted: VecDeque<ChannelId>,
    /// The links of those noted since the last [`Channels::news`].
    news: Vec<LinkId>,
    /// Those that could not use what they were granted.
    refused: Vec<ChannelId>,
    /// Reserved channels.
    reserved: usize,
    /// Something of what is due is worth a packet of its own.
    presses: bool,
    /// A channel that asked to be coded was opened: others need not be looked at with each packet.
    codes: bool,
    /// The deliberate bug.
    #[cfg(plant)]
    pub(super) plant: crate::config::Plant,
}

/// What it takes to judge whether a window is to grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth<'a> {
    pub(super) now: Instant,
    /// The least round trip; zero before any is known.
    pub(super) trip: Duration,
    pub(super) config: &'a Config,
}

/// Why the peer's OPEN was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenRefused {
    /// Wrong parity, or a window that we do not offer.
    Fault,
    /// As many channels or as much credit as the configuration allows.
    TooMany,
}

impl Channels {
    pub(super) fn new(initiator: bool) -> Self {
        Self {
            list: Vec::new(),
            next: u32::from(!initiator),
            peer_opened: RangeSet::default(),
            peers: Share::default(),
            ours: Share::default(),
            grown: 0,
            ready: Ready::default(),
            due: VecDeque::new(),
            noted: VecDeque::new(),
            news: Vec::new(),
            refused: Vec::new(),
            reserved: 0,
            presses: false,
            codes: false,
            #[cfg(plant)]
            plant: crate::config::Plant::None,
        }
    }

    fn index(&self, id: ChannelId) -> Option<usize> {
        self.list.binary_search_by_key(&id, |c| c.open.channel).ok()
    }

    pub(super) fn get(&self, id: ChannelId) -> Option<&Channel> {
        self.list.get(self.index(id)?)
    }

    /// The sending half of a channel, for changes after which it has to send what it had before.
    pub(super) fn send_half(&mut self, id: ChannelId) -> Option<&mut SendHalf> {
        let index = self.index(id)?;
        self.list[index].send.as_mut()
    }

    /// Lets `change` act on a channel, and notes what it has to send after that.
    pub(super) fn with<R>(
        &mut self,
        id: ChannelId,
        change: impl FnOnce(&mut Channel) -> R,
    ) -> Option<R> {
        let index = self.index(id)?;
        let result = change(&mut self.list[index]);
        self.note(index);
        Some(result)
    }

    fn note(&mut self, index: usize) {
        let c = &mut self.list[index];
        let rank = c.rank();
        if let Some(reserved) = &mut c.reserved {
            c.listed = rank;
            if rank.is_some() && !reserved.noted {
                reserved.noted = true;
                #[cfg(plant)]
                if self.plant == crate::config::Plant::HeadAsleep
                    && c.send.as_ref().is_some_and(|s| s.count() % 7 == 3)
                {
                    return;
                }
                self.noted.push_back(c.open.channel);
                if !self.news.contains(&reserved.link) {
                    self.news.push(reserved.link);
                }
            }
        } else if rank != c.listed {
            self.ready.set(c.open.channel, c.listed, rank);
            c.listed = rank;
        }
        if c.due.any() && !c.queued {
            c.queued = true;
            self.due.push_back(c.open.channel);
        }
        self.presses |= c.due.is_pressing();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Channel> {
        self.list.iter()
    }

    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    /// Lets `change` act on every channel.
    pub(super) fn for_each(&mut self, mut change: impl FnMut(&mut Channel)) {
        for index in 0..self.list.len() {
            change(&mut self.list[index]);
            self.note(index);
        }
    }

    fn insert(&mut self, channel: Channel) {
        let id = channel.open.channel;
        let share = if channel.ours { &mut self.ours } else { &mut self.peers };
        share.count += 1;
        share.credit += channel.open.limit;
        let index = self.list.partition_point(|c| c.open.channel < id);
        self.list.insert(index, channel);
        self.note(index);
    }

    /// Opens a channel of ours; `None` when there are as many as either side allows already, or
    /// their windows leave no room for this one's.
    pub(super) fn open(
        &mut self,
        opening: Opening,
        peer: PeerLimits,
        config: &Config,
    ) -> Option<ChannelId> {
        let asked = opening.window.unwrap_or(config.window).min(config.window_max);
        let window = u64::from(asked).min(peer.window).max(MESSAGE_CHARGE);
        if self.ours.count >= config.channels_max.min(peer.channels_max)
            || self.ours.credit + window > config.credit_max.min(peer.credit)
        {
            return None;
        }
        let id = ChannelId(self.next);
        self.next = self.next.checked_add(2)?;
        let Opening { direction, reliability, priority, label, tspec, reservation, .. } = opening;
        let plain = ChannelOpen::new(id, direction, reliability, window);
        let open = ChannelOpen { priority, label, tspec, reservation, ..plain };
        let Opening { stripe, coding, .. } = opening;
        self.codes |= coding.is_some_and(Coding::is_on);
        self.insert(Channel { stripe, coding, ..Channel::new(open, true, config) });
        Some(id)
    }

    /// Takes the peer's OPEN; `Ok(true)` when it is a new channel.
    pub(super) fn opened(
        &mut self,
        open: ChannelOpen,
        config: &Config,
    ) -> Result<bool, OpenRefused> {
        let half = open.channel.0 / 2;
        let ours = open.channel.0 % 2 == self.next % 2;
        if ours || !(MESSAGE_CHARGE..=config.window_max.into()).contains(&open.limit) {
            return Err(OpenRefused::Fault);
        }
        if self.peer_opened.covers(half, half + 1) {
            return Ok(false);
        }
        if self.peers.count >= config.channels_max
            || self.peers.credit + open.limit > config.credit_max
            || !self.peer_opened.insert(half, half + 1)
        {
            return Err(OpenRefused::TooMany);
        }
        self.insert(Channel::new(open, false, config));
        Ok(true)
    }

    /// True when `id` was open once and is over now.
    pub(super) fn is_past(&self, id: ChannelId) -> bool {
        if id.0 % 2 == self.next % 2 {
            return id.0 < self.next;
        }
        self.peer_opened.covers(id.0 / 2, id.0 / 2 + 1)
    }

    /// Forgets a channel that is over in both directions.
    pub(super) fn forget(&mut self, id: ChannelId) {
        let Some(index) = self.index(id).filter(|i| self.list[*i].is_over()) else { return };
        let channel = self.list.remove(index);
        if channel.reserved.is_some() {
            self.reserved -= 1;
            self.noted.retain(|noted| *noted != id);
        } else {
            self.ready.set(id, channel.listed, None);
        }
        self.due.retain(|due| *due != id);
        let share = if channel.ours { &mut self.ours } else { &mut self.peers };
        share.count -= 1;
        share.credit -= channel.open.limit;
        self.grown -= channel.grown;
    }

    /// Lets a window of the usual size grow that holds the peer up; all together by half of
    /// [`Config::credit_max`] at most.
    fn let_grow(&mut self, index: usize, growth: Growth<'_>) {
        let Growth { now, trip, config } = growth;
        let c = &mut self.list[index];
        let Some(receive) = &mut c.receive else { return };
        let room = u64::from(config.window_max).saturating_sub(receive.window());
        let more = receive.wants(now, trip).min(room);
        let usual = c.open.limit == u64::from(config.window);
        if usual && self.grown + more <= config.credit_max / 2 {
            receive.grow(more);
            c.grown += more;
            self.grown += more;
        }
    }

    /// Reserves a channel on a link, or on none any more. False where we do not send on it. What it
    /// has is told, even where it was told under an earlier reservation.
    pub(super) fn reserve(&mut self, id: ChannelId, link: Option<LinkId>) -> bool {
        let Some(index) = self.index(id) else { return false };
        let c = &mut self.list[index];
        let Some(send) = &c.send else { return false };
        match (link, &mut c.reserved) {
            (Some(link), Some(reserved)) => {
                (reserved.link, reserved.told) = (link, false);
                if reserved.noted && !self.news.contains(&link) {
                    self.news.push(link);
                }
            }
            (Some(link), none) => {
                self.reserved += 1;
                *none = Some(Box::new(Reserved::new(link, send)));
                self.ready.set(id, c.listed.take(), None);
            }
            (None, some) => {
                if some.take().is_some() {
                    self.reserved -= 1;
                    c.listed = None;
                    self.noted.retain(|noted| *noted != id);
                }
            }
        }
        self.note(index);
        true
    }

    /// True when some channel has data to send, or is reserved and so will have.
    pub(super) fn carries(&self) -> bool {
        self.has_data(None) || self.reserved > 0
    }

    /// True when a channel's data goes by grants of its own.
    pub(super) fn is_reserved(&self, id: ChannelId) -> bool {
        self.get(id).is_some_and(|c| c.reserved.is_some())
    }

    /// A reserved channel that has something to send, of which its link's egress neither knows nor
    /// is to be told: it would sleep for ever.
    pub(super) fn asleep(&self) -> Option<ChannelId> {
        let asleep = |c: &&Channel| {
            let waits = c.listed.is_some() && c.reserved.as_ref().is_some_and(|r| !r.told);
            let id = c.open.channel;
            waits && !self.noted.contains(&id) && !self.refused.contains(&id)
        };
        self.list.iter().find(asleep).map(|c| c.open.channel)
    }

    /// Whether [`Channels::news`] has something.
    pub(super) const fn has_news(&self) -> bool {
        !self.news.is_empty() || !self.refused.is_empty()
    }

    /// The links on which reserved channels are to be looked at since it was asked last; something
    /// has happened, so that those which could use no grant may now.
    pub(super) fn news(&mut self) -> impl Iterator<Item = LinkId> + '_ {
        for id in core::mem::take(&mut self.refused) {
            self.with(id, |_| ());
        }
        self.news.drain(..)
    }

    /// Looks at the reserved channels that were noted on a link, up to the first with a head that
    /// is to be told: the channel, since when that waits, and `len` of it.
    pub(super) fn poll_head(
        &mut self,
        now: Instant,
        link: LinkId,
        len: impl Fn(&Channel, &SendHalf) -> usize,
    ) -> Option<(ChannelId, Instant, usize)> {
        for _ in 0..self.noted.len() {
            let id = self.noted.pop_front()?;
            let index = self.index(id)?;
            let c = &mut self.list[index];
            let (Some(mut reserved), Some(send)) = (c.reserved.take(), &c.send) else { continue };
            let here = reserved.link == link;
            let head = here.then(|| {
                let since = reserved.look(now, send);
                reserved.noted = false;
                let is_news = c.listed.is_some() && !reserved.told;
                reserved.told |= is_news;
                is_news.then(|| (id, since, len(c, send)))
            });
            c.reserved = Some(reserved);
            match head {
                None => self.noted.push_back(id),
                Some(Some(head)) => return Some(head),
                Some(None) => {}
            }
        }
        None
    }

    /// A grant for a reserved channel was used, and what it has next is news; or nothing came of
    /// it, and what it has is told again with the next [`Channels::news`]. What it is marked with.
    pub(super) fn granted(&mut self, id: ChannelId, used: bool) -> u8 {
        let Some(index) = self.index(id) else { return 0 };
        let Some(reserved) = &mut self.list[index].reserved else { return 0 };
        let dscp = if reserved.promised { DSCP_PROMISED } else { DSCP_RESERVED };
        let told = core::mem::take(&mut reserved.told);
        if used {
            self.note(index);
        } else if told {
            self.refused.push(id);
        }
        dscp
    }

    /// Whether what is reserved for a channel was promised of the whole way.
    pub(super) fn promise(&mut self, id: ChannelId, promised: bool) {
        let reserved = self.index(id).and_then(|index| self.list[index].reserved.as_mut());
        if let Some(reserved) = reserved {
            reserved.promised = promised;
        }
    }

    /// The channel whose data goes next: repairs before fresh data, then the highest priority,
    /// round robin among equals.
    pub(super) fn pick(&mut self, only: Option<ChannelId>) -> Option<ChannelId> {
        match only {
            Some(id) => self.get(id)?.listed.map(|_| id),
            None => self.ready.turn(),
        }
    }

    /// How the channel whose turn it is wants its data to be striped, or as `usual`, and how much
    /// waits in those that have data, counted up to `most`.
    pub(super) fn next_up(&self, most: u64, usual: StripeKind) -> (StripeKind, u64) {
        let mut waiting = self.ready.iter().filter_map(|id| self.get(id));
        let Some(first) = waiting.next() else { return (usual, 0) };
        let backlog = |c: &Channel| c.send.as_ref().map_or(0, |s| s.backlog(most));
        // What is more urgent goes first: only its like, and what is behind it, waits with it.
        let equals = waiting.take(2).filter(|c| c.open.priority == first.open.priority);
        let bytes = backlog(first) + equals.map(backlog).sum::<u64>();
        (first.stripe.unwrap_or(usual), bytes.min(most))
    }

    /// How the next packet is to be coded: as one of the first channels that have data asks for.
    pub(super) fn next_coding(&self, usual: Coding) -> Coding {
        if !self.codes && !usual.is_on() {
            return Coding::OFF;
        }
        let waiting = self.ready.iter().take(CODED_LOOK).filter_map(|id| self.get(id));
        let codings = waiting.map(|c| c.coding.unwrap_or(usual));
        codings.into_iter().find(|c| c.is_on()).unwrap_or(Coding::OFF)
    }

    /// True when some channel has data to send.
    pub(super) fn has_data(&self, only: Option<ChannelId>) -> bool {
        match only {
            Some(id) => self.get(id).is_some_and(|c| c.listed.is_some()),
            None => !self.ready.is_empty(),
        }
    }

    /// The channels that have data to send.
    pub(super) fn with_data(&self) -> impl Iterator<Item = ChannelId> + '_ {
        self.ready.iter()
    }

    /// True when some channel has a control frame to send.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// True when some channel has a control frame to send that is worth a packet.
    pub(super) fn has_control(&self) -> bool {
        self.presses && !self.due.is_empty()
    }

    /// Lets `write` put out the next channel's control frames; what is left afterwards waits in
    /// front. False when there is nothing, or something was left.
    pub(super) fn write_control(
        &mut self,
        growth: Growth<'_>,
        write: impl FnOnce(&mut Channel),
    ) -> bool {
        let Some(id) = self.due.front().copied() else { return false };
        let left = self.index(id).is_some_and(|index| {
            if self.list[index].due.limit {
                self.let_grow(index, growth);
            }
            let c = &mut self.list[index];
            write(c);
            c.queued = c.due.any();
            c.queued
        });
        if !left {
            self.due.pop_front();
        }
        // What finds no room now does not wait for another acknowledgement.
        self.presses &= !self.due.is_empty();
        self.presses |= left;
        !left
    }
}
