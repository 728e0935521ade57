//! The association itself: what its owner calls, what time brings.

use ::core::net::SocketAddr;
use ::core::time::Duration;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec::Vec;

use towpath_wire::frame::{self, ChannelOpen};
use towpath_wire::histogram::Histogram;
use towpath_wire::packet::{DATA_HEADER, TAG};
use towpath_wire::{ChannelId, Instant, LinkId, PathId};

use super::build::HEAD_MIN;
use super::channel::{ChannelStats, Opening, PeerLimits};
use super::channels::Channels;
use super::coding::Code;
use super::deadline::Deadlines;
use super::end::{Closing, End, LINGER, REASON_FAULT, REASON_LOST};
use super::flight::Item;
use super::keys::Keys;
use super::liveness::Liveness;
use super::path::{Outcome, Path};
use super::paths::Paths;
use super::send::{SendError, SendHalf};
use super::stats::AssociationStats;
use super::striping::Striping;
use crate::config::Config;
use crate::crypto::Crypto;
use crate::egress::Head;
use crate::id::AssociationId;
use crate::machine::{PathChange, TimerKind};
use crate::memory::{Block, Memory};

/// What an association tells its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssociationEvent {
    /// The peer opened a channel, and says all this of it.
    Opened(Box<ChannelOpen>),
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
    /// The peer receives at one more address: who started the association may
    /// [open a path](Association::open_path) to it.
    PathOffered {
        /// Number of the offer, from 1 on.
        path: PathId,
        /// Its network attachment: addresses of one of them share what that carries.
        link: LinkId,
        /// Where it receives.
        remote: SocketAddr,
    },
    /// The peer uses a path no more, and neither do we.
    PathRetired {
        /// Its number.
        path: PathId,
        /// Why, as a number that the two ends agree on.
        reason: u16,
    },
    /// The peer said this, once. Nobody says it again where it is lost.
    Noted(Vec<u8>),
    /// The peer leaves what asks it for an answer unanswered, for
    /// [`silent_after`](crate::config::Liveness::silent_after) by now. That ends nothing.
    Silent,
    /// It was silent, and is heard again.
    Heard,
    /// The association is over. Blocks of unsent and half-received messages were released.
    Over(End),
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
    /// Seal what we send and open what we receive.
    pub keys: Keys,
}

/// Where an association stands.
#[derive(Clone, Debug)]
pub(super) enum State {
    Open,
    Closing(Closing),
    Over,
}

/// One authenticated conversation. See the [module's documentation](super).
pub struct Association {
    pub(super) config: Config,
    pub(super) identity: Identity,
    pub(super) state: State,
    pub(super) paths: Paths,
    pub(super) striping: Striping,
    pub(super) code: Code,
    pub(super) channels: Channels,
    pub(super) deadlines: Deadlines,
    pub(super) stats: AssociationStats,
    /// Round trips, in microseconds.
    pub(super) trips: Histogram,
    /// What paths' peers asked to be sent back.
    pub(super) path_responses: VecDeque<(PathId, u64)>,
    /// What the owner says once, until it leaves.
    pub(super) note: Option<Vec<u8>>,
    pub(super) scratch: Vec<Item>,
    pub(super) liveness: Liveness,
    pub(super) outcome: Outcome,
    pub(super) events: VecDeque<AssociationEvent>,
    /// How long ago the packet that is being taken in reached the machine.
    pub(super) late: Duration,
    /// Nothing is told before a packet of a path from this one on is acknowledged.
    pub(super) held: Option<Vec<(PathId, u64)>>,
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
        let (initiator, seed) = (identity.initiator, identity.id.0.into());
        #[allow(unused_mut)] // only the planted bug changes it
        let mut liveness = Liveness::new(now, initiator, config.liveness);
        #[cfg(plant)]
        {
            liveness.plant = config.plant;
        }
        #[allow(unused_mut)] // only the planted bug changes it
        let mut channels = Channels::new(initiator);
        #[cfg(plant)]
        {
            channels.plant = config.plant;
        }
        Self {
            config: config.clone(),
            identity,
            state: State::Open,
            paths: Paths::new(Path::new(PathId(0), link, remote, config)),
            striping: Striping::new(config.paths.stripe, seed),
            code: Code::default(),
            channels,
            deadlines: Deadlines::default(),
            stats: AssociationStats::default(),
            trips: Histogram::new(),
            path_responses: VecDeque::new(),
            note: None,
            scratch: Vec::new(),
            liveness,
            outcome: Outcome::default(),
            events: VecDeque::new(),
            late: Duration::ZERO,
            held: None,
        }
    }

    /// Round trips of packets of all paths, in microseconds, without what the peer says that it
    /// waited before it acknowledged.
    pub const fn trips(&self) -> &Histogram {
        &self.trips
    }

    /// Counters.
    pub const fn stats(&self) -> &AssociationStats {
        &self.stats
    }

    /// Where the peer is reached (on its first path).
    pub fn remote(&self) -> SocketAddr {
        self.paths.first().remote
    }

    /// The link that its first path goes out on.
    pub fn link(&self) -> LinkId {
        self.paths.first().link
    }

    /// Adds a path to `remote` on `link`, which the owners of both sides have agreed on by other
    /// means than [`Association::open_path`]. It is used at once; its number is the same on both
    /// sides where both add their paths in the same order. `None`: there are as many as we can
    /// hold, 16, or as many as [the peer](Association::peer_paths) can.
    pub fn add_path(&mut self, link: LinkId, remote: SocketAddr) -> Option<PathId> {
        let Self { paths, config, identity, .. } = self;
        paths.add(identity.peer.paths.into(), |id| Path::new(id, link, remote, config))
    }

    /// How many paths the peer said that it can hold.
    pub const fn peer_paths(&self) -> u16 {
        self.identity.peer.paths
    }

    /// Names the links that its paths go out on.
    pub(crate) fn each_link(&self, mut name: impl FnMut(LinkId)) {
        for path in self.paths.iter() {
            name(path.link);
            if let Some(moving) = path.standing.proving() {
                name(moving.link);
            }
        }
    }

    /// True unless both sides trust the link: packets are hidden and protected against change.
    pub fn is_sealed(&self) -> bool {
        self.identity.keys.send.key.seals()
    }

    /// Until when packets sealed with the peer's previous key are still opened: for a few round
    /// trips after it went on to the next. `None` once that key is gone.
    pub fn opens_previous_until(&self) -> Option<Instant> {
        self.identity.keys.receive.forget_at()
    }

    /// Length of the datagrams that the first path takes, as far as it is known, in bytes.
    pub fn datagram(&self) -> u16 {
        self.paths.first().datagram
    }

    /// The least round-trip time of late of any path; zero before one is known.
    pub fn least_trip(&self) -> Duration {
        self.paths.least_trip()
    }

    /// Smoothed round-trip time of the quickest path that is up.
    pub fn rtt(&self) -> Duration {
        self.paths.rtt()
    }

    /// Bytes that may be under way at once.
    pub fn window(&self) -> u64 {
        self.paths.iter().map(Path::window).sum()
    }

    /// Bytes that are under way.
    pub fn in_flight(&self) -> u64 {
        self.paths.iter().map(Path::in_flight).sum()
    }

    /// Until when the pacers hold data back on every path.
    pub fn paced_until(&self) -> Instant {
        self.paths.iter().map(Path::paced_until).min().unwrap_or(Instant::NEVER)
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

    /// Number of open channels, of either side's making.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }

    /// Messages of a channel that wait for credit or acknowledgement.
    pub fn waiting(&self, channel: ChannelId) -> usize {
        self.channels.get(channel).and_then(|c| c.send.as_ref()).map_or(0, SendHalf::waiting)
    }

    /// Reserves a channel on a link, or on none any more. While it is reserved its data goes by
    /// grants for it alone ([`GrantKind::Data`](crate::machine::GrantKind::Data)), which that
    /// link's [`Egress`](crate::egress::Egress) gives, which is told first; a link that does not
    /// know of it would never send it. False where we do not send on it.
    pub fn reserve(&mut self, channel: ChannelId, link: Option<LinkId>) -> bool {
        self.channels.reserve(channel, link)
    }

    /// What is reserved for a channel was promised of the whole way to the peer: switches are told
    /// by its mark.
    pub fn mark_promised(&mut self, channel: ChannelId) {
        self.channels.promise(channel, true);
    }

    /// A reserved channel whose egress would never hear that it has something to send: there is
    /// none. For those who look for lost wake-ups.
    pub fn asleep(&self) -> Option<ChannelId> {
        self.channels.asleep()
    }

    /// Whether an egress is to be told of reserved channels.
    pub(crate) const fn has_heads(&self) -> bool {
        self.channels.has_news()
    }

    /// The links whose egress is to be told of reserved channels.
    pub(crate) fn heads_on(&mut self) -> impl Iterator<Item = LinkId> + '_ {
        self.channels.news()
    }

    /// What the next reserved channel on a link would send, where that is news.
    pub(crate) fn poll_head(&mut self, now: Instant, link: LinkId) -> Option<Head> {
        let association = self.identity.id;
        let on = self.paths.on(link).unwrap_or_default();
        let room = usize::from(self.paths[on].datagram) - DATA_HEADER - TAG;
        let (channel, since, len) = self.channels.poll_head(now, link, |c, send| {
            let open_len = if c.known { 0 } else { frame::open_len(&c.open) };
            open_len + send.next_len(room - open_len)
        })?;
        let bytes = (DATA_HEADER + len + TAG).max(HEAD_MIN) as u32;
        Some(Head { association, channel, bytes, since })
    }

    /// For each channel with data ready to be sent that is not reserved.
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
        let along = self.paths.iter().any(|p| p.arrivals.awaits_telling());
        self.channels.with(channel, |c| {
            if let Some(receive) = &mut c.receive {
                receive.release(len);
                c.due.renew(receive.renewal(), along);
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
            self.end(End::Closed, memory);
            self.state = State::Closing(Closing::new(now, reason, text.into(), LINGER));
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
        if self.held.take().is_some() {
            self.forget_held(memory);
        }
        self.events.push_back(AssociationEvent::Over(end));
    }

    pub(super) fn fault(&mut self, now: Instant, what: &'static str, memory: &mut dyn Memory) {
        if self.is_open() {
            self.end(End::Fault(what), memory);
            self.state = State::Closing(Closing::new(now, REASON_FAULT, what.into(), LINGER));
        }
    }

    /// Gives the peer up. Should it be heard again, it is told.
    fn give_up(&mut self, now: Instant, end: End, memory: &mut dyn Memory) {
        let text = end.to_string();
        self.end(end, memory);
        let linger = self.config.liveness.no_progress_after;
        self.state = State::Closing(Closing::new(now, REASON_LOST, text, linger));
    }

    /// True when it has ended, and only answers what still comes.
    pub const fn is_lingering(&self) -> bool {
        matches!(self.state, State::Closing(_))
    }

    /// Somebody depends on the peer (or nobody does any more): while it is watched, it is asked
    /// for a sign of life every [`Liveness::keepalive`](crate::config::Liveness::keepalive), at
    /// once if that is due; else ever less often, and only by the initiator. An unwatched peer
    /// that is gone is still found out within the ordinary time once something is sent to it.
    /// Returns false if that is no news.
    pub fn watch(&mut self, now: Instant, on: bool) -> bool {
        self.liveness.watch(now, on)
    }

    /// When an authentic packet last came that had not come before.
    pub const fn heard_at(&self) -> Instant {
        self.liveness.heard_at()
    }

    /// Since when the peer has been asked without a word from it; `None` where it was heard since,
    /// or was not asked.
    pub fn silent_since(&self) -> Option<Instant> {
        self.liveness.silent_since()
    }

    /// Whether the peer has left everything unanswered for
    /// [`silent_after`](crate::config::Liveness::silent_after).
    pub fn is_silent(&self, now: Instant) -> bool {
        self.liveness.is_silent(now)
    }

    /// When the peer was last heard again after it had been silent.
    pub const fn returned_at(&self) -> Option<Instant> {
        self.liveness.returned_at()
    }

    /// A sign of life came.
    pub(super) fn is_heard(&mut self, now: Instant) {
        if self.liveness.heard(now) {
            self.events.push_back(AssociationEvent::Heard);
        }
    }

    /// How late the host wakes at present: a silent peer is waited for that much longer, times
    /// four.
    pub(crate) fn set_lag(&mut self, lag: Duration) {
        self.liveness.set_lag(lag);
    }

    /// Other bounds for the peer's silence hold from now on.
    pub fn set_liveness(&mut self, bounds: crate::config::Liveness) {
        self.config.liveness = bounds;
        self.liveness.set_bounds(bounds);
    }

    /// Asks the peer for a sign of life, unless it gave one or was asked within
    /// [`Liveness::keepalive`](crate::config::Liveness::keepalive); with a `gap` whenever it gave
    /// one, unless it was asked within that.
    pub fn ask(&mut self, now: Instant, gap: Option<Duration>) {
        match gap {
            Some(gap) => self.liveness.ask_again(now, gap),
            None => self.liveness.ask(now),
        }
    }

    /// True when [`Association::replenish`] is wanted.
    pub fn wants_keys(&self) -> bool {
        self.is_open() && self.identity.keys.is_short()
    }

    /// Makes the keys of the next epochs ahead of their use.
    pub fn replenish(&mut self, crypto: &dyn Crypto) {
        self.identity.keys.replenish(crypto);
    }

    /// Does what is due. We should have been asked at `due`: later than that, we ourselves were
    /// late.
    pub fn handle_timeout(&mut self, due: Instant, now: Instant, memory: &mut dyn Memory) {
        if let State::Closing(closing) = &mut self.state {
            if !closing.handle_timeout(now) {
                self.state = State::Over;
            }
            return;
        }
        if !self.is_open() {
            return;
        }
        self.stats.late_max = self.stats.late_max.max(self.liveness.ran(due, now));
        if let Some(end) = self.liveness.verdict(now) {
            self.give_up(now, end, memory);
            return;
        }
        if self.liveness.falls_silent(now) {
            self.events.push_back(AssociationEvent::Silent);
        }
        if self.identity.keys.send.is_spent(&self.config.rekey) {
            self.fault(now, "acknowledges no packet of a key that has served its time", memory);
            return;
        }
        self.identity.keys.receive.forget(now);
        self.challenge_if_due(now);
        self.close_groups(now);
        let mut overtaken = false;
        for path in self.paths.iter_mut() {
            path.arrivals.acknowledge_if_due(now);
            path.pace(now);
            if path.loss_at.is_some_and(|t| t <= now) {
                path.detect_losses(now, &mut self.outcome);
                overtaken = true;
            }
            if path.probe_at(&self.config).is_some_and(|t| t <= now) {
                path.probe(now, &mut self.outcome);
                self.stats.probes += 1;
            }
        }
        self.notice_silence(due, now);
        if overtaken && self.paths.iter().all(|p| p.in_flight() == 0) {
            self.liveness.settled();
        }
        self.expire(now);
        let trip = self.rtt();
        self.hold_lost(now);
        self.settle_outcome(trip);
        self.liveness.handle_timeout(now);
    }

    /// A link has no carrier.
    pub(crate) fn lose_link(&mut self, link: LinkId) {
        self.paths.set_up(link, false);
    }

    /// Takes note of a change of a link.
    pub fn handle_path(&mut self, now: Instant, link: LinkId, change: PathChange) {
        match change {
            PathChange::Up => self.paths.set_up(link, true),
            PathChange::Down => {
                for at in 0..self.paths.len() {
                    if self.paths[at].link == link && self.paths[at].standing.up {
                        self.fall_silent(now, at);
                    }
                }
                self.lose_link(link);
            }
            PathChange::Longest { remote, bytes } => {
                let told = |p: &&mut Path| p.link == link && p.remote == remote;
                self.paths.iter_mut().filter(told).for_each(|p| p.longest_told(now, bytes));
            }
        }
    }

    /// When [`Association::handle_timeout`] is wanted next, and why.
    pub fn poll_timeout(&self) -> Option<(Instant, TimerKind)> {
        match &self.state {
            State::Over => return None,
            State::Closing(closing) => return Some((closing.poll_timeout(), TimerKind::Control)),
            State::Open => {}
        }
        let mut next = self.liveness.poll_timeout();
        let mut earlier = |at: Option<Instant>, kind| {
            if let Some(at) = at
                && at < next.0
            {
                next = (at, kind);
            }
        };
        earlier(self.deadline_at(), TimerKind::Deadline);
        earlier(self.silence_at(), TimerKind::Probe);
        earlier(self.code.poll_timeout(self.channels.has_data(None)), TimerKind::Control);
        earlier(self.identity.keys.receive.forget_at(), TimerKind::Control);
        if self.identity.keys.send.is_spent(&self.config.rekey) {
            earlier(Some(self.liveness.asked_at()), TimerKind::Control);
        }
        let waiting = self.channels.has_data(None);
        for path in self.paths.iter() {
            earlier(path.arrivals.due_at(), TimerKind::Acknowledge);
            earlier(path.loss_at, TimerKind::Loss);
            let challenge = path.standing.challenge_at();
            #[cfg(plant)]
            let challenge =
                challenge.filter(|_| self.config.plant != crate::config::Plant::ChallengedOnce);
            earlier(challenge, TimerKind::Probe);
            if waiting {
                earlier(path.pace_at(), TimerKind::Pace);
            }
            earlier(path.probe_at(&self.config), TimerKind::Probe);
        }
        Some(next)
    }

    /// When a pacer lets data go on that waits; that alone changes when a message is queued.
    pub(crate) fn pace_at(&self) -> Option<Instant> {
        let waiting = self.channels.has_data(None);
        self.paths.iter().filter(|_| waiting).filter_map(Path::pace_at).min()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<AssociationEvent> {
        if self.held.is_some() { None } else { self.events.pop_front() }
    }

    /// We did not run for so long that the peer may have given us up: what it said before must
    /// not have effects any more. Until it answers, nothing is told; if it has given us up,
    /// nothing but that.
    pub fn slept(&mut self, now: Instant) {
        self.paths.iter_mut().for_each(|path| path.slept(now));
        if self.is_open() && self.held.is_none() {
            self.held = Some(self.paths.iter().map(|p| (p.id, p.next_number())).collect());
            self.liveness.want_ask(now);
        }
    }

    /// What the peer said is not told any more; what we said is.
    fn forget_held(&mut self, memory: &mut dyn Memory) {
        self.events.retain(|event| match event {
            AssociationEvent::Message { block, .. } => {
                memory.release(*block);
                false
            }
            AssociationEvent::Opened(_)
            | AssociationEvent::PathOffered { .. }
            | AssociationEvent::PathRetired { .. }
            | AssociationEvent::Noted(_)
            | AssociationEvent::Ended { .. } => false,
            _ => true,
        });
    }

    /// One CLOSE has gone out.
    pub(super) fn close_sent(&mut self, now: Instant) {
        if let State::Closing(closing) = &mut self.state {
            closing.sent(now);
        }
    }
}
