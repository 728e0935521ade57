//! The table of associations, its timers, and the [`Machine`] face.

use ::core::cmp::Reverse;
use ::core::net::SocketAddr;
use ::core::time::Duration;
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, BinaryHeap, VecDeque};
use alloc::vec::Vec;

use towpath_wire::packet::Packet;
use towpath_wire::{ChannelId, Instant, LinkId};

use super::cookie::CookieJar;
use super::event::{EndpointEvent, EndpointStats};
use super::initiate::Initiating;
use super::ready::{Queued, ReadyLinks};
use super::respond::{Asking, HalfOpen};
use super::stamps::Stamps;
use crate::association::{Association, Opening, SendError};
use crate::config::Config;
use crate::crypto::{Crypto, HostKey};
use crate::egress::Head;
use crate::id::{AssociationId, INDEX_BITS};
use crate::machine::{Grant, GrantKind, Machine, PathChange, RxMeta, TimerKind, Transmit, TxBatch};
use crate::memory::{Block, Memory};
use crate::rng::Rng;

/// Handshake datagrams that wait for a link at most; beyond it the oldest is dropped.
const QUEUE_MAX: usize = 256;

pub(super) enum SlotState {
    Free,
    Reserved,
    Initiating(Box<Initiating>),
    Asking(Box<Asking>),
    HalfOpen(Box<HalfOpen>),
    Open(Box<Association>),
}

pub(super) struct Slot {
    pub(super) id: AssociationId,
    pub(super) state: SlotState,
    /// The timer set for it in `timers`; `NEVER` when none.
    pub(super) armed: Instant,
    /// That timer was set ahead of its time, as far as we know: who is late for it slept.
    pub(super) punctual: bool,
    /// What its deadline is for.
    pub(super) waits_for: TimerKind,
    /// Its owner did something since a driver's call last looked at its timer.
    pub(super) owners: bool,
    /// Where it stands in `ready`.
    pub(super) queued: Queued,
    /// Where it stands in `heads`.
    pub(super) headed: Queued,
}

/// All associations of one host. Invariants: a slot's `id.index()` is its place in `slots`;
/// `free` holds the places whose state is `Free`; `half_open` counts `Asking` and `HalfOpen`.
pub struct Endpoint {
    pub(super) config: Config,
    pub(super) crypto: Box<dyn Crypto>,
    pub(super) cookies: CookieJar,
    pub(super) stats: EndpointStats,
    pub(super) events: VecDeque<EndpointEvent>,
    pub(super) half_open: u16,
    pub(super) stamps: Stamps,
    /// Key of `mac1` on handshake packets to us.
    pub(super) own_mac1_key: [u8; 32],
    rng: Rng,
    pub(super) slots: Vec<Slot>,
    free: Vec<u16>,
    pub(super) timers: BinaryHeap<Reverse<(Instant, AssociationId)>>,
    /// The overdue timer by which a sleep of the host was last noticed.
    pub(super) slept: Instant,
    /// How late this host wakes, on the average of its last timers.
    pub(super) lag: Duration,
    /// The time, during a driver's call.
    pub(super) clock: Option<Instant>,
    pub(super) ready: ReadyLinks,
    /// Links that have no carrier: what is set up meanwhile begins without them.
    pub(super) dark: BTreeSet<LinkId>,
    /// Which associations have reserved channels that are to be told of, by link.
    pub(super) heads: ReadyLinks,
    queue: VecDeque<(LinkId, SocketAddr, Vec<u8>)>,
}

fn mac1_key(crypto: &dyn Crypto, key: &HostKey) -> [u8; 32] {
    crypto.derive(&key.0, b"towpath mac1")
}

impl Endpoint {
    /// An endpoint with the given cryptography and stream of random numbers.
    pub fn new(mut config: Config, mut crypto: Box<dyn Crypto>, rng: Rng) -> Self {
        config.coding.kernel = crypto.coding();
        let cookies = CookieJar::new(&mut *crypto);
        let own_mac1_key = mac1_key(&*crypto, &crypto.public_key());
        Self {
            config,
            crypto,
            cookies,
            stats: EndpointStats::default(),
            events: VecDeque::new(),
            half_open: 0,
            stamps: Stamps::default(),
            own_mac1_key,
            rng,
            slots: Vec::new(),
            free: Vec::new(),
            timers: BinaryHeap::new(),
            slept: Instant::NEVER,
            lag: Duration::ZERO,
            clock: None,
            ready: ReadyLinks::default(),
            dark: BTreeSet::new(),
            heads: ReadyLinks::default(),
            queue: VecDeque::new(),
        }
    }

    /// Counters.
    pub const fn stats(&self) -> &EndpointStats {
        &self.stats
    }

    /// Handshakes of others that wait for the owner's answer or the initiator's first packet.
    pub const fn half_open(&self) -> u16 {
        self.half_open
    }

    /// Our static public key.
    pub fn public_key(&self) -> HostKey {
        self.crypto.public_key()
    }

    /// The cryptography, for what the owner derives itself.
    pub fn crypto(&self) -> &dyn Crypto {
        &*self.crypto
    }

    /// Unpredictable bytes (predictable in a simulation).
    pub fn random(&mut self) -> [u8; 32] {
        self.crypto.random()
    }

    /// An established association.
    pub fn association(&self, id: AssociationId) -> Option<&Association> {
        match self.slot(id) {
            Some(Slot { state: SlotState::Open(a), .. }) => Some(a),
            _ => None,
        }
    }

    /// Every established association.
    pub fn associations(&self) -> impl Iterator<Item = (AssociationId, &Association)> {
        self.slots.iter().filter_map(|s| match &s.state {
            SlotState::Open(a) => Some((s.id, &**a)),
            _ => None,
        })
    }

    pub(super) fn open_mut(&mut self, id: AssociationId) -> Option<&mut Association> {
        match self.state_mut(id) {
            Some(SlotState::Open(a)) => Some(a),
            _ => None,
        }
    }

    /// Opens a channel; `None` when the association is gone or has as many as it may.
    pub fn open(&mut self, id: AssociationId, opening: Opening) -> Option<ChannelId> {
        let channel = self.open_mut(id)?.open(opening);
        self.touch(id);
        channel
    }

    /// Queues a message, see [`Association::send`].
    pub fn send(
        &mut self,
        id: AssociationId,
        channel: ChannelId,
        block: Block,
        len: u32,
    ) -> Result<u64, SendError> {
        let sent = self.open_mut(id).ok_or(SendError::Ended)?.send(channel, block, len);
        self.wake(id);
        self.arm_pace(id);
        sent
    }

    /// Queues a message that is to arrive by `deadline`, see [`Association::send_by`].
    pub fn send_by(
        &mut self,
        id: AssociationId,
        channel: ChannelId,
        block: Block,
        len: u32,
        deadline: Instant,
    ) -> Result<u64, SendError> {
        let association = self.open_mut(id).ok_or(SendError::Ended)?;
        let sent = association.send_by(channel, block, len, deadline);
        self.touch(id);
        sent
    }

    /// Says a few bytes once, see [`Association::note`].
    pub fn note(&mut self, id: AssociationId, bytes: Vec<u8>) -> bool {
        let noted = self.open_mut(id).is_some_and(|a| a.note(bytes));
        self.wake(id);
        noted
    }

    /// Gives credit back, see [`Association::consumed`].
    pub fn consumed(&mut self, id: AssociationId, channel: ChannelId, len: u32) {
        if let Some(a) = self.open_mut(id) {
            a.consumed(channel, len);
            self.wake(id);
        }
    }

    /// Ends our sending on a channel, see [`Association::finish`].
    pub fn finish_channel(&mut self, id: AssociationId, channel: ChannelId, reason: u16) {
        if let Some(a) = self.open_mut(id) {
            a.finish(channel, reason);
            self.touch(id);
        }
    }

    /// Messages that wait in a channel.
    pub fn waiting(&mut self, id: AssociationId, channel: ChannelId) -> usize {
        self.open_mut(id).map_or(0, |a| a.waiting(channel))
    }

    /// Somebody depends on a peer, or nobody does any more: see [`Association::watch`].
    pub fn watch(&mut self, now: Instant, id: AssociationId, on: bool) {
        if self.open_mut(id).is_some_and(|a| a.watch(now, on)) {
            self.touch(id);
        }
    }

    /// Other bounds for peers' silence hold from now on, on associations that stand, too.
    pub fn set_liveness(&mut self, bounds: crate::config::Liveness) {
        self.config.liveness = bounds;
        let open: Vec<AssociationId> = self.associations().map(|(id, _)| id).collect();
        for id in open {
            if let Some(a) = self.open_mut(id) {
                a.set_liveness(bounds);
                self.touch(id);
            }
        }
    }

    /// Asks a peer for a sign of life: see [`Association::ask`].
    pub fn ask(&mut self, now: Instant, id: AssociationId, gap: Option<Duration>) {
        if let Some(a) = self.open_mut(id) {
            a.ask(now, gap);
            self.touch(id);
        }
    }

    /// Closes an association, or gives a handshake up.
    pub fn close(
        &mut self,
        now: Instant,
        id: AssociationId,
        reason: u16,
        text: &str,
        memory: &mut dyn Memory,
    ) {
        match self.state_mut(id) {
            Some(SlotState::Open(a)) => {
                a.close(now, reason, text, memory);
                self.touch(id);
            }
            Some(_) => self.free(id),
            None => {}
        }
    }

    // The table.

    pub(super) fn slot(&self, id: AssociationId) -> Option<&Slot> {
        self.slots.get(id.index()).filter(|s| s.id == id)
    }

    pub(super) fn state_mut(&mut self, id: AssociationId) -> Option<&mut SlotState> {
        self.slots.get_mut(id.index()).filter(|s| s.id == id).map(|s| &mut s.state)
    }

    pub(super) fn half_open_places(&self) -> impl Iterator<Item = (AssociationId, &HalfOpen)> {
        self.slots.iter().filter_map(|s| match &s.state {
            SlotState::HalfOpen(h) => Some((s.id, &**h)),
            _ => None,
        })
    }

    pub(super) fn find(&self, wanted: impl Fn(&SlotState) -> bool) -> Option<AssociationId> {
        self.slots.iter().find(|s| wanted(&s.state)).map(|s| s.id)
    }

    /// Takes a free place and draws an id for it. Where none is left, an association that is
    /// over and only answers what still comes makes room.
    pub(super) fn reserve(&mut self) -> Option<AssociationId> {
        let limit = usize::from(self.config.associations_max);
        if self.free.is_empty()
            && self.slots.len() >= limit
            && let Some(id) = self.find(|s| matches!(s, SlotState::Open(a) if a.is_lingering()))
        {
            self.free(id);
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < limit => {
                let index = self.slots.len() as u16;
                let (id, state) = (AssociationId(index.into()), SlotState::Free);
                self.slots.push(Slot {
                    id,
                    state,
                    armed: Instant::NEVER,
                    punctual: false,
                    waits_for: TimerKind::Control,
                    owners: false,
                    queued: Queued::default(),
                    headed: Queued::default(),
                });
                index
            }
            None => return None,
        };
        let id = AssociationId(self.rng.u32() << INDEX_BITS | u32::from(index));
        let slot = &mut self.slots[usize::from(index)];
        slot.id = id;
        slot.state = SlotState::Reserved;
        slot.armed = Instant::NEVER;
        slot.queued = Queued::default();
        slot.headed = Queued::default();
        Some(id)
    }

    pub(super) fn fill(&mut self, id: AssociationId, state: SlotState) {
        let counts = |s: &SlotState| matches!(s, SlotState::Asking(_) | SlotState::HalfOpen(_));
        if let Some(slot) = self.state_mut(id) {
            let before = u16::from(counts(slot));
            let after = u16::from(counts(&state));
            *slot = state;
            self.half_open = self.half_open + after - before;
        }
        self.know_links(id);
        self.rearm(id);
    }

    /// Takes the state out; the place stays reserved.
    pub(super) fn take_state(&mut self, id: AssociationId) -> SlotState {
        let Some(slot) = self.state_mut(id) else { return SlotState::Free };
        let state = ::core::mem::replace(slot, SlotState::Reserved);
        if matches!(state, SlotState::Asking(_) | SlotState::HalfOpen(_)) {
            self.half_open -= 1;
        }
        state
    }

    pub(super) fn free(&mut self, id: AssociationId) {
        if self.slot(id).is_none_or(|s| matches!(s.state, SlotState::Free)) {
            return;
        }
        if let Some(SlotState::Open(a)) = self.slot(id).map(|slot| &slot.state) {
            let counted = *a.stats();
            self.stats.over.add(&counted);
        }
        self.fill(id, SlotState::Free);
        self.free.push(id.index() as u16);
    }

    /// Key of `mac1` on handshake packets to the holder of `key`.
    pub(super) fn mac1_key(&self, key: &HostKey) -> [u8; 32] {
        mac1_key(&*self.crypto, key)
    }

    /// Queues a handshake datagram.
    pub(super) fn queue(&mut self, link: LinkId, remote: SocketAddr, datagram: Vec<u8>) {
        if self.queue.len() >= QUEUE_MAX {
            self.queue.pop_front();
            self.stats.queue_full += 1;
        }
        self.queue.push_back((link, remote, datagram));
    }

    /// After any change to an association: collect its events, let it send, set its timer.
    pub(super) fn touch(&mut self, id: AssociationId) {
        let Some(slot) = self.slots.get_mut(id.index()).filter(|s| s.id == id) else { return };
        let SlotState::Open(association) = &mut slot.state else { return };
        while let Some(event) = association.poll_event() {
            self.events.push_back(EndpointEvent::Association { id, event });
        }
        if association.is_over() {
            self.free(id);
            return;
        }
        if association.wants_keys() {
            association.replenish(&*self.crypto);
        }
        if association.wants_tokens() {
            association.give_tokens(self.crypto.random());
        }
        self.wake(id);
        self.rearm(id);
    }

    /// Whether [`Machine::poll_event`] has something.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    fn handle_data(
        &mut self,
        now: Instant,
        rx: RxMeta,
        header: towpath_wire::packet::Data,
        data: &mut [u8],
        memory: &mut dyn Memory,
    ) {
        let id = AssociationId(header.receiver);
        match self.state_mut(id) {
            Some(SlotState::Open(a)) => {
                a.handle_packet(now, rx, header, data, memory);
            }
            Some(SlotState::HalfOpen(h)) => {
                if !h.association.handle_packet(now, rx, header, data, memory) {
                    return;
                }
                let SlotState::HalfOpen(h) = self.take_state(id) else { return };
                let (key, hello) = (h.key, h.hello);
                self.fill(id, SlotState::Open(h.association));
                let connected = EndpointEvent::Connected { id, key, hello, initiator: false };
                self.events.push_back(connected);
            }
            _ => {
                self.stats.unknown += 1;
                return;
            }
        }
        self.touch(id);
    }

    fn transmit_handshake(&mut self, link: LinkId, out: &mut TxBatch<'_>) -> Option<Transmit> {
        let index = self.queue.iter().position(|(l, _, _)| *l == link)?;
        let (link, remote, datagram) = self.queue.remove(index)?;
        out.plain(&datagram);
        let (segment, len, not_before) = (datagram.len(), datagram.len(), Instant::ZERO);
        Some(Transmit { link, remote, segment, len, tos: 0, not_before })
    }

    fn transmit_one(
        &mut self,
        now: Instant,
        id: AssociationId,
        grant: Grant,
        out: &mut TxBatch<'_>,
    ) -> Option<Transmit> {
        let transmit = self.open_mut(id)?.poll_transmit(now, grant, out);
        self.pass_turn(id);
        if let Some(Slot { state: SlotState::Open(a), .. }) = self.slots.get_mut(id.index())
            && a.wants_keys()
        {
            a.replenish(&*self.crypto);
        }
        if self.association(id).is_some_and(Association::is_over) {
            self.free(id);
            return transmit;
        }
        // What a reserved channel has behind what it sent is news.
        if grant.kind.channel().is_some() && transmit.is_some() {
            self.note_heads(id);
        }
        // Where nothing went out since a driver's call looked at its timer, that stands.
        if transmit.is_some() || self.slot(id).is_some_and(|slot| slot.owners) {
            self.rearm(id);
        }
        transmit
    }

    /// The next train of whoever has something to send.
    fn transmit(&mut self, now: Instant, grant: Grant, out: &mut TxBatch<'_>) -> Option<Transmit> {
        if grant.association.is_none()
            && grant.kind.has_control()
            && let Some(transmit) = self.transmit_handshake(grant.link, out)
        {
            return Some(transmit);
        }
        if let Some(id) = grant.association {
            return self.transmit_one(now, id, grant, out);
        }
        for _ in 0..self.ready.len(grant.link) {
            let Some(id) = self.ready.pop(grant.link) else { break };
            if let Some(transmit) = self.transmit_one(now, id, grant, out) {
                // There may be more: to the end of the queue, so that everyone gets a turn.
                if self.slot(id).is_some() {
                    self.ready.again(grant.link, id);
                }
                return Some(transmit);
            }
            let Some(slot) = self.slots.get_mut(id.index()).filter(|s| s.id == id) else {
                continue;
            };
            // What the grant leaves out still waits, and nobody would tell of it again.
            let left = match (grant.kind, &slot.state) {
                (GrantKind::Control, SlotState::Open(a)) => a.backlog().next().is_some(),
                (kind, _) => kind != GrantKind::All,
            };
            if left {
                self.ready.again(grant.link, id);
            } else {
                self.ready.done(grant.link, &mut slot.queued);
            }
        }
        None
    }
}

impl Machine for Endpoint {
    type Event = EndpointEvent;

    fn handle_datagram(
        &mut self,
        now: Instant,
        rx: RxMeta,
        data: &mut [u8],
        memory: &mut dyn Memory,
    ) {
        self.clock = Some(now);
        self.notice_sleep(now);
        match Packet::parse(data) {
            Ok(Packet::Data(header)) => self.handle_data(now, rx, header, data, memory),
            Ok(Packet::Initiation(i)) => self.handle_initiation(now, rx, &i),
            Ok(Packet::Response(r)) => self.handle_response(now, &r),
            Ok(Packet::Cookie(c)) => self.handle_cookie(&c),
            Ok(Packet::Versions(v)) => self.handle_versions(v.receiver, v.versions),
            Err(_) => self.stats.garbage += 1,
        }
        self.clock = None;
    }

    fn handle_timeout(&mut self, now: Instant, memory: &mut dyn Memory) {
        self.clock = Some(now);
        self.notice_sleep(now);
        // However many timers stood: the first of them was the latest.
        let mut noted = false;
        while let Some(Reverse((at, id))) = self.timers.peek().copied() {
            if at > now {
                break;
            }
            self.timers.pop();
            let Some(slot) = self.slots.get_mut(id.index()).filter(|s| s.id == id) else {
                continue;
            };
            if slot.armed == at {
                let (due, punctual) = if slot.punctual { (at, true) } else { (now, false) };
                slot.armed = Instant::NEVER;
                if punctual && !noted {
                    noted = true;
                    self.note_lag(now.since(at));
                }
                self.fire(now, due, id, memory);
            }
        }
        self.tidy_timers();
        self.clock = None;
    }

    fn handle_path(&mut self, now: Instant, link: LinkId, change: PathChange) {
        self.change_link(now, link, change);
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        grant: Grant,
        out: &mut TxBatch<'_>,
    ) -> Option<Transmit> {
        self.clock = Some(now);
        let mut transmit = self.transmit(now, grant, out);
        self.clock = None;
        if let Some(train) = &mut transmit {
            train.not_before = grant.not_before;
        }
        transmit
    }

    fn poll_head(&mut self, now: Instant, link: LinkId) -> Option<Head> {
        self.next_head(now, link)
    }

    fn poll_timeout(&self) -> Option<(Instant, TimerKind)> {
        let Reverse((at, id)) = self.timers.peek()?;
        Some((*at, self.slot(*id).map_or(TimerKind::Control, |slot| slot.waits_for)))
    }

    fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.events.pop_front()
    }
}
