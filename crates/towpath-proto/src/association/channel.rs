//! The channels of one association.

use alloc::vec::Vec;

use towpath_wire::frame::{ChannelOpen, Direction, Reliability};
use towpath_wire::{ChannelId, TrafficSpec};

use super::receive::ReceiveHalf;
use super::send::SendHalf;
use crate::config::Config;
use crate::range_set::RangeSet;

/// What a channel is opened with.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Who may send.
    pub direction: Direction,
    /// Larger goes first.
    pub priority: u16,
    /// What the two ends use it for.
    pub label: u16,
    /// Traffic specification, where one is given.
    pub tspec: Option<TrafficSpec>,
}

/// What the peer's handshake granted.
#[derive(Clone, Copy, Debug)]
pub struct PeerLimits {
    /// First credit for what we send on a channel that we open.
    pub window: u64,
    /// Channels of ours that it takes at once.
    pub channels_max: u16,
}

/// One channel. Invariant: a half exists exactly where `open.direction` allows it.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) open: ChannelOpen,
    /// We opened it.
    pub(super) ours: bool,
    /// The peer is known to know it.
    pub(super) known: bool,
    pub(super) open_due: bool,
    pub(super) limit_due: bool,
    pub(super) close_due: bool,
    /// Our end of sending was acknowledged.
    pub(super) close_acked: bool,
    pub(super) end_told: bool,
    pub(super) send: Option<SendHalf>,
    pub(super) receive: Option<ReceiveHalf>,
}

impl Channel {
    pub(super) fn new(open: ChannelOpen, ours: bool, peer_limit: u64, config: &Config) -> Self {
        let we_send = match open.direction {
            Direction::Both => true,
            Direction::Opener => ours,
            Direction::Acceptor => !ours,
        };
        let we_receive = open.direction == Direction::Both || !we_send;
        // No message can be longer than what either side grants a channel.
        let window = config.window.min(u32::try_from(peer_limit).unwrap_or(u32::MAX));
        let half = || SendHalf::new(peer_limit, window, config.messages_max);
        Self {
            open,
            ours,
            known: !ours,
            open_due: ours,
            limit_due: false,
            close_due: false,
            close_acked: false,
            end_told: false,
            send: we_send.then(half),
            receive: we_receive.then(|| ReceiveHalf::new(config.window)),
        }
    }

    /// Finished in both directions: the channel can be forgotten.
    pub(super) fn is_over(&self) -> bool {
        let sent = self.send.is_none() || self.close_acked;
        let received = self.receive.as_ref().is_none_or(|r| r.ended() && self.end_told);
        sent && received && self.known
    }

    /// True when our end may be announced: everything sent is acknowledged.
    pub(super) fn may_close(&self) -> bool {
        self.send.as_ref().is_some_and(|s| s.finish.is_some() && s.is_idle())
    }
}

/// All channels, sorted by number. Ids are never used twice; the handshake's initiator opens even
/// ones, its responder odd ones.
#[derive(Debug)]
pub(super) struct Channels {
    list: Vec<Channel>,
    /// Our next id.
    next: u32,
    /// Which ids (halved) the peer has opened.
    peer_opened: RangeSet,
    peer_count: u16,
    ours_count: u16,
    /// Where the round robin among equal priorities continues.
    pub(super) turn: usize,
}

/// Why the peer's OPEN was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenRefused {
    /// Wrong parity or a class that is not served.
    Fault,
    /// As many channels as the configuration allows.
    TooMany,
}

impl Channels {
    pub(super) fn new(initiator: bool) -> Self {
        Self {
            list: Vec::new(),
            next: u32::from(!initiator),
            peer_opened: RangeSet::default(),
            peer_count: 0,
            ours_count: 0,
            turn: 0,
        }
    }

    pub(super) fn get(&mut self, id: ChannelId) -> Option<&mut Channel> {
        let index = self.list.binary_search_by_key(&id, |c| c.open.channel).ok()?;
        self.list.get_mut(index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Channel> {
        self.list.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.list.iter_mut()
    }

    fn insert(&mut self, channel: Channel) {
        let id = channel.open.channel;
        let index = self.list.partition_point(|c| c.open.channel < id);
        self.list.insert(index, channel);
    }

    /// Opens a channel of ours; `None` when there are `channels_max` already.
    pub(super) fn open(
        &mut self,
        opening: Opening,
        peer: PeerLimits,
        config: &Config,
    ) -> Option<ChannelId> {
        if self.ours_count >= config.channels_max.min(peer.channels_max) {
            return None;
        }
        let id = ChannelId(self.next);
        self.next = self.next.checked_add(2)?;
        self.ours_count += 1;
        let open = ChannelOpen {
            channel: id,
            direction: opening.direction,
            reliability: Reliability::ReliableOrdered,
            priority: opening.priority,
            label: opening.label,
            limit: config.window.into(),
            tspec: opening.tspec,
        };
        self.insert(Channel::new(open, true, peer.window, config));
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
        if ours || open.reliability != Reliability::ReliableOrdered {
            return Err(OpenRefused::Fault);
        }
        if self.peer_opened.covers(half, half + 1) {
            return Ok(false);
        }
        if self.peer_count >= config.channels_max || !self.peer_opened.insert(half, half + 1) {
            return Err(OpenRefused::TooMany);
        }
        self.peer_count += 1;
        self.insert(Channel::new(open, false, open.limit, config));
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
        let Ok(index) = self.list.binary_search_by_key(&id, |c| c.open.channel) else { return };
        if self.list[index].is_over() {
            let channel = self.list.remove(index);
            let count = if channel.ours { &mut self.ours_count } else { &mut self.peer_count };
            *count -= 1;
        }
    }

    /// The channel whose data goes next: highest priority, round robin among equals.
    pub(super) fn pick(&mut self, only: Option<ChannelId>) -> Option<&mut Channel> {
        let n = self.list.len();
        let mut best: Option<(u16, usize)> = None;
        for i in 0..n {
            let index = (self.turn + i) % n;
            let c = &self.list[index];
            let ready = c.send.as_ref().is_some_and(SendHalf::ready);
            let wanted = only.is_none_or(|id| id == c.open.channel);
            if ready && wanted && best.is_none_or(|(priority, _)| c.open.priority > priority) {
                best = Some((c.open.priority, index));
            }
        }
        let (_, index) = best?;
        self.turn = index + 1;
        self.list.get_mut(index)
    }

    /// True when some channel has data to send.
    pub(super) fn has_data(&self, only: Option<ChannelId>) -> bool {
        self.list.iter().any(|c| {
            only.is_none_or(|id| id == c.open.channel)
                && c.send.as_ref().is_some_and(SendHalf::ready)
        })
    }
}
