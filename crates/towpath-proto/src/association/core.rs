//! The association itself: what its owner calls, what time brings.

use ::core::net::SocketAddr;
use ::core::time::Duration;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use towpath_wire::{ChannelId, Instant, LinkId, PathId};

use super::channel::{ChannelStats, Opening, PeerLimits};
use super::channels::Channels;
use super::deadline::Deadlines;
use super::flight::Item;
use super::path::{Outcome, Path};
use super::send::{SendError, SendHalf};
use crate::config::Config;
use crate::crypto::PacketKey;
use crate::endpoint::AssociationId;
use crate::machine::{PathChange, TimerKind};
use crate::memory::{Block, Memory};
use crate::stripe::FirstUsable;

/// What an association tells its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssociationEvent {
    /// The peer opened a channel.
    Opened {
        /// Its number.
        channel: ChannelId,
        /// The label that the peer gave it.
        label: u16,
    },
    /// A message arrived. Its owner releases `block` and calls [`Association::consumed`].
    Message {
        /// The channel.
        channel: ChannelId,
        /// The channel's label.
        label: u16,
        /// Message number in its channel and direction, from 0.
        number: u64,
        /// Its bytes.
        block: Block,
        /// Its length in bytes.
        len: u32,
    },
    /// A message of ours was acknowledged whole, and every one before it on its channel was, too,
    /// or was given up; its block belongs to the owner again.
    Sent {
        /// The channel.
        channel: ChannelId,
        /// Message number.
        number: u64,
        /// Its bytes.
        block: Block,
    },
    /// A message of ours was given up: its time was over, or a piece of it was lost where nothing
    /// is repaired. Its block belongs to the owner again. It may have arrived nevertheless.
    Abandoned {
        /// The channel.
        channel: ChannelId,
        /// Message number.
        number: u64,
        /// Its bytes.
        block: Block,
    },
    /// The peer sends nothing more on this channel, and everything it sent was delivered
    /// or given up.
    Ended {
        /// The channel.
        channel: ChannelId,
    },
    /// The association is over. Blocks of unsent and half-received messages were released.
    Over(End),
}

/// Why an association ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// We closed it.
    Closed,
    /// The peer closed it.
    ByPeer {
        /// The peer's reason as a number.
        reason: u16,
        /// The peer's reason for people.
        text: String,
    },
    /// The peer was silent for too long.
    Silent {
        /// How long, own stalls subtracted.
        for_: Duration,
    },
    /// The peer broke the protocol.
    Fault(&'static str),
}

/// Reason number of an association ended by a protocol fault. Numbers above 255 belong to the
/// layers above.
pub const REASON_FAULT: u16 = 1;

/// Counters since the association began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssociationStats {
    /// Datagrams sent.
    pub packets_sent: u64,
    /// Bytes of datagrams sent.
    pub bytes_sent: u64,
    /// Datagrams received and authenticated.
    pub packets_received: u64,
    /// Bytes of them.
    pub bytes_received: u64,
    /// Datagrams dropped: same number as one received before.
    pub duplicates: u64,
    /// Datagrams dropped: did not authenticate, or an unknown path or epoch.
    pub forged: u64,
    /// Datagrams not acknowledged because memory or bookkeeping was full.
    pub refused: u64,
    /// Datagrams of ours that counted as lost.
    pub packets_lost: u64,
    /// Of those, how many had arrived after all.
    pub spurious: u64,
    /// Data packets sent that held at least one piece sent before.
    pub repaired: u64,
    /// Times that nothing was acknowledged in time.
    pub probes: u64,
    /// Messages delivered to the owner.
    pub messages_received: u64,
    /// Messages of ours acknowledged whole.
    pub messages_sent: u64,
    /// Longest time by which our own timer was late.
    pub late_max: Duration,
}

/// What the handshake settled.
pub struct Identity {
    /// Which of the endpoint's associations this is.
    pub id: AssociationId,
    /// We started the handshake.
    pub initiator: bool,
    /// The index that the peer wants on packets to it.
    pub peer_index: u32,
    /// What the peer granted.
    pub peer: PeerLimits,
    /// Seals what we send.
    pub send: Box<dyn PacketKey>,
    /// Opens what we receive.
    pub receive: Box<dyn PacketKey>,
}

/// CLOSE is sent this often before a closed association is forgotten.
pub(super) const CLOSE_REPEATS: u8 = 3;
/// Time between two of them.
const CLOSE_INTERVAL: Duration = Duration::from_millis(30);
/// A timer later than this counts as our own stall.
const STALL: Duration = Duration::from_millis(5);

/// Where an association stands.
#[derive(Clone, Debug)]
pub(super) enum State {
    Open,
    /// We closed it: CLOSE goes out `left` more times, the next at `at`.
    Closing {
        reason: u16,
        text: String,
        left: u8,
        at: Instant,
        /// The next one is to go out when the driver asks.
        due: bool,
    },
    Over,
}

/// One authenticated conversation. See the [module's documentation](super).
pub struct Association {
    pub(super) config: Config,
    pub(super) identity: Identity,
    pub(super) state: State,
    pub(super) paths: Vec<Path>,
    pub(super) stripe: FirstUsable,
    pub(super) channels: Channels,
    pub(super) deadlines: Deadlines,
    pub(super) stats: AssociationStats,
    pub(super) last_sent: Instant,
    pub(super) ping_due: bool,
    pub(super) path_responses: VecDeque<u64>,
    pub(super) scratch: Vec<Item>,
    pub(super) last_heard: Instant,
    pub(super) outcome: Outcome,
    pub(super) events: VecDeque<AssociationEvent>,
}

impl Association {
    /// An association that has just finished its handshake with `remote`.
    pub fn new(
        now: Instant,
        identity: Identity,
        link: LinkId,
        remote: SocketAddr,
        config: &Config,
    ) -> Self {
        let initiator = identity.initiator;
        Self {
            config: config.clone(),
            identity,
            state: State::Open,
            paths: vec![Path::new(PathId(0), link, remote, config)],
            stripe: FirstUsable,
            channels: Channels::new(initiator),
            deadlines: Deadlines::default(),
            stats: AssociationStats::default(),
            last_sent: now,
            ping_due: initiator,
            path_responses: VecDeque::new(),
            scratch: Vec::new(),
            last_heard: now,
            outcome: Outcome::default(),
            events: VecDeque::new(),
        }
    }

    /// Counters.
    pub const fn stats(&self) -> &AssociationStats {
        &self.stats
    }

    /// Where the peer is reached (on its first path).
    pub fn remote(&self) -> SocketAddr {
        self.paths[0].remote
    }

    /// True unless both sides trust the link: packets are hidden and protected against change.
    pub fn is_sealed(&self) -> bool {
        self.identity.send.seals()
    }

    /// Smoothed round-trip time of the first path.
    pub fn rtt(&self) -> Duration {
        self.paths[0].rtt.smoothed()
    }

    /// True until it has ended or is being closed.
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// True when nothing more will come of it.
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Opens a channel; `None` when there are `channels_max` already, or their windows leave no
    /// room for another one's.
    pub fn open(&mut self, opening: Opening) -> Option<ChannelId> {
        self.channels.open(opening, self.identity.peer, &self.config)
    }

    /// Queues a message of `len` bytes and returns its number. The block stays ours until
    /// [`AssociationEvent::Sent`], [`AssociationEvent::Abandoned`] or [`AssociationEvent::Over`].
    /// On a timely channel it is repaired for as long as it takes: see [`Association::send_by`].
    pub fn send(&mut self, channel: ChannelId, block: Block, len: u32) -> Result<u64, SendError> {
        self.queue(channel, block, len, Instant::NEVER)
    }

    pub(super) fn queue(
        &mut self,
        channel: ChannelId,
        block: Block,
        len: u32,
        deadline: Instant,
    ) -> Result<u64, SendError> {
        if !self.is_open() {
            return Err(SendError::Ended);
        }
        let push = |send: &mut SendHalf| send.push(block, len, deadline);
        let pushed = self.channels.with(channel, |c| c.send.as_mut().map(push));
        pushed.flatten().ok_or(SendError::NotOpen)?
    }

    /// Counters of a channel, as long as it is open in either direction.
    pub fn channel_stats(&self, channel: ChannelId) -> Option<ChannelStats> {
        self.channels.get(channel).map(|c| c.stats)
    }

    /// Messages of a channel that wait for credit or acknowledgement.
    pub fn waiting(&self, channel: ChannelId) -> usize {
        self.channels.get(channel).and_then(|c| c.send.as_ref()).map_or(0, SendHalf::waiting)
    }

    /// For each channel with data ready to be sent: what a packet scheduler chooses from.
    pub fn backlog(&self) -> impl Iterator<Item = ChannelId> + '_ {
        self.channels.with_data()
    }

    /// For each channel whose next message waits for the peer's credit alone.
    pub fn blocked(&self) -> impl Iterator<Item = ChannelId> + '_ {
        self.channels
            .iter()
            .filter(|c| c.send.as_ref().is_some_and(SendHalf::is_blocked))
            .map(|c| c.open.channel)
    }

    /// The owner of a delivered message of `len` bytes is done with it.
    pub fn consumed(&mut self, channel: ChannelId, len: u32) {
        self.channels.with(channel, |c| {
            if let Some(receive) = &mut c.receive {
                receive.release(len);
                c.due.limit |= receive.may_renew();
            }
        });
    }

    /// Nothing more will be sent on `channel`; the peer learns it after everything arrived.
    pub fn finish(&mut self, channel: ChannelId, reason: u16) {
        self.channels.with(channel, |c| {
            if let Some(send) = &mut c.send
                && send.finish.is_none()
            {
                send.finish = Some(reason);
                c.due.close = c.may_close();
            }
        });
    }

    /// Ends the association: the peer is told, whatever was not acknowledged is dropped.
    pub fn close(&mut self, now: Instant, reason: u16, text: &str, memory: &mut dyn Memory) {
        if self.is_open() {
            let left = CLOSE_REPEATS;
            self.end(End::Closed, memory);
            let text = text.into();
            self.state = State::Closing { reason, text, left, at: now, due: true };
        }
    }

    pub(super) fn end(&mut self, end: End, memory: &mut dyn Memory) {
        self.state = State::Over;
        self.channels.for_each(|c| {
            if let Some(send) = &mut c.send {
                send.drain().for_each(|b| memory.release(b));
            }
            if let Some(receive) = &mut c.receive {
                receive.drain().for_each(|b| memory.release(b));
            }
        });
        self.events.push_back(AssociationEvent::Over(end));
    }

    pub(super) fn fault(&mut self, now: Instant, what: &'static str, memory: &mut dyn Memory) {
        if self.is_open() {
            self.end(End::Fault(what), memory);
            let (text, left) = (what.into(), CLOSE_REPEATS);
            let reason = REASON_FAULT;
            self.state = State::Closing { reason, text, left, at: now, due: true };
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant, memory: &mut dyn Memory) {
        if let State::Closing { left, at, due, .. } = &mut self.state {
            if *at <= now && *left == 0 {
                self.state = State::Over;
            } else if *at <= now {
                *due = true;
            }
            return;
        }
        if !self.is_open() {
            return;
        }
        self.subtract_stall(now);
        let silent = now.since(self.last_heard);
        if silent >= self.config.lost_after {
            self.end(End::Silent { for_: silent }, memory);
            return;
        }
        for path in &mut self.paths {
            path.arrivals.acknowledge_if_due(now);
            path.pace(now);
            if path.loss_at.is_some_and(|t| t <= now) {
                path.detect_losses(now, &mut self.outcome);
            }
            if path.probe_at(&self.config).is_some_and(|t| t <= now) {
                path.probe(now, &mut self.outcome);
                self.stats.probes += 1;
            }
        }
        self.expire(now);
        self.settle_outcome();
        if now >= self.last_sent + self.config.keepalive {
            self.ping_due = true;
        }
    }

    /// When we woke late ourselves, the peer's silence was partly ours.
    fn subtract_stall(&mut self, now: Instant) {
        let Some((due, _)) = self.poll_timeout() else { return };
        let late = now.since(due);
        self.stats.late_max = self.stats.late_max.max(late);
        if late > STALL {
            self.last_heard = (self.last_heard + late).min(now);
        }
    }

    /// Takes note of a change of a link.
    pub fn handle_path(&mut self, link: LinkId, change: PathChange) {
        for path in self.paths.iter_mut().filter(|p| p.link == link) {
            match change {
                PathChange::Up => path.up = true,
                PathChange::Down => path.up = false,
                PathChange::Datagram(bytes) => path.datagram = bytes.max(DATAGRAM_MIN),
            }
        }
    }

    /// When [`Association::handle_timeout`] is wanted next, and why.
    pub fn poll_timeout(&self) -> Option<(Instant, TimerKind)> {
        match &self.state {
            State::Over | State::Closing { due: true, .. } => return None,
            State::Closing { at, .. } => return Some((*at, TimerKind::Control)),
            State::Open => {}
        }
        let mut next = (self.last_heard + self.config.lost_after, TimerKind::Silence);
        let mut earlier = |at: Option<Instant>, kind| {
            if let Some(at) = at
                && at < next.0
            {
                next = (at, kind);
            }
        };
        if !self.ping_due {
            earlier(Some(self.last_sent + self.config.keepalive), TimerKind::KeepAlive);
        }
        earlier(self.deadline_at(), TimerKind::Deadline);
        let waiting = self.channels.has_data(None);
        for path in &self.paths {
            earlier(path.arrivals.due_at(), TimerKind::Acknowledge);
            earlier(path.loss_at, TimerKind::Loss);
            if waiting {
                earlier(path.pace_at(), TimerKind::Pace);
            }
            earlier(path.probe_at(&self.config), TimerKind::Probe);
        }
        Some(next)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<AssociationEvent> {
        self.events.pop_front()
    }

    /// One CLOSE has gone out.
    pub(super) fn close_sent(&mut self, now: Instant) {
        if let State::Closing { left, at, due, .. } = &mut self.state {
            *left -= 1;
            *due = false;
            // After the last one, linger a little to answer a peer that has not understood.
            *at = now + if *left == 0 { 10 * CLOSE_INTERVAL } else { CLOSE_INTERVAL };
        }
    }
}

/// Smallest datagram that a link may be limited to (IPv6's minimum MTU less headers).
const DATAGRAM_MIN: u16 = 1232;
