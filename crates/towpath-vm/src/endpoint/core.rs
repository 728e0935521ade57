//! All peers of a task, and the messages that wait to be received.

use alloc::collections::VecDeque;
use alloc::sync::Weak;
use alloc::vec::Vec;

use towpath_wire::talk::Header;
use towpath_wire::{HostId, TaskId};

use super::peer::{BadPiece, Peer, Spares, charge};
use super::peers::Peers;
use crate::matching::{
    Key, Limits, Number, Pattern, Posted, PostedFull, Store, Ticket, Waiting, Wanted,
};

/// Receives that one task may have posted.
pub const POSTED_MAX: usize = 4096;

/// Ended tasks remembered, so that sending to them is an error at once.
const ENDED_MAX: usize = 1024;

/// Where a message's bytes are: in this task's own memory, or where its route has them.
#[derive(Debug)]
pub enum Body<P> {
    /// Here.
    Own(Vec<u8>),
    /// There.
    Route(P),
}

/// What waits to be received beside its key and length.
#[derive(Debug)]
pub struct Parcel<P> {
    /// How its sender says it is to be read.
    pub format: u32,
    /// The bytes.
    pub body: Body<P>,
}

impl<P> Parcel<P> {
    fn own_bytes(&self) -> u64 {
        match &self.body {
            Body::Own(bytes) => bytes.len() as u64,
            Body::Route(_) => 0,
        }
    }
}

/// One task's end of all its conversations. `P` is how other routes than the daemons' hand
/// messages over. Invariants: `held` counts the bytes of private memory that messages take, half,
/// early, waiting or claimed; no task in `ended` is in `peers`; nothing in `store` matches a
/// receive that is in `posted`.
#[derive(Debug)]
pub struct Endpoint<P> {
    peers: Peers,
    ended: VecDeque<TaskId>,
    store: Store<Parcel<P>>,
    /// Receives that wait for their message, by their caller's number, as long as they live.
    posted: Posted<(u32, Weak<()>)>,
    /// Messages that have come for one.
    claimed: VecDeque<(u32, Waiting<Parcel<P>>)>,
    spares: Spares,
    held: u64,
    arrived: u64,
    /// Hosts to whose tasks nothing goes by the daemons without having been asked for.
    ask_first: Vec<HostId>,
    /// Charged bytes sent unasked in all.
    unasked: u64,
}

impl<P> Endpoint<P> {
    /// With no peers. `seed` is any random number ([`Store::new`]).
    pub fn new(seed: u64) -> Self {
        let limits = Limits { messages: u32::MAX, bytes: u64::MAX };
        Self {
            peers: Peers::default(),
            ended: VecDeque::new(),
            store: Store::new(limits, seed),
            posted: Posted::new(POSTED_MAX),
            claimed: VecDeque::new(),
            spares: Spares::default(),
            held: 0,
            arrived: 0,
            ask_first: Vec::new(),
            unasked: 0,
        }
    }

    // Sending.

    /// True when `task` has ended, as far as is known here.
    #[inline]
    pub fn has_ended(&self, task: TaskId) -> bool {
        !self.ended.is_empty() && self.ended.contains(&task)
    }

    /// The number of the next message to `to`.
    #[inline]
    pub fn next_number(&mut self, to: TaskId) -> u32 {
        self.peer(to).next
    }

    /// The number of the next message to `to`, which is used with that.
    #[inline]
    pub fn take_number(&mut self, to: TaskId) -> u32 {
        self.peer(to).take_number()
    }

    /// Bytes of payload, at most `left`, that the next piece to `to` through the daemons may
    /// have; `None`: wait for credit.
    pub fn room(&mut self, to: TaskId, left: usize) -> Option<usize> {
        let ask_first = self.ask_first.contains(&to.host());
        let peer = self.peer(to);
        if ask_first && peer.is_unasked() { None } else { peer.room(left) }
    }

    /// A piece with so many bytes of payload went out through the daemons.
    pub fn wrote(&mut self, to: TaskId, payload: usize) {
        let peer = self.peer(to);
        peer.wrote(payload);
        if peer.is_unasked() {
            self.unasked += charge(payload);
        }
    }

    /// Charged bytes that were sent without having been asked for, to all peers together.
    pub const fn unasked(&self) -> u64 {
        self.unasked
    }

    /// Whether credit is to be asked for before anything goes to a task of `host` through the
    /// daemons.
    pub fn ask_first(&mut self, host: HostId, on: bool) {
        self.ask_first.retain(|other| *other != host);
        if on {
            self.ask_first.push(host);
        }
    }

    /// The daemons take more for `to`.
    pub fn credit(&mut self, to: TaskId, limit: u64) {
        if let Some(peer) = self.peers.get(to) {
            peer.raise(limit);
        }
    }

    /// There is no credit for `to`; true when the daemon must be told so, once for each limit.
    pub fn blocked(&mut self, to: TaskId) -> bool {
        self.peer(to).blocked()
    }

    // What comes.

    /// A piece came through the daemons. Messages that are whole and due wait from now on.
    pub fn piece(&mut self, header: &Header, payload: &[u8]) -> Result<(), BadPiece> {
        let src = header.src;
        if !self.peers.contains(src) {
            if header.seq != 0 || header.offset != 0 {
                // Something late of a peer that was given up.
                return Ok(());
            }
            // A new life of this id, if it had one before.
            self.ended.retain(|t| *t != src);
        }
        self.held += self.peers.of(src).piece(header, payload, &mut self.spares)?;
        self.hand_on(src);
        Ok(())
    }

    /// A stream to `task` may bring its first messages: what comes by the daemons meanwhile is
    /// not late.
    pub fn meet(&mut self, task: TaskId) {
        self.peer(task);
    }

    /// A piece is at the head of a stream. True: it was taken in, or is here already; false: it
    /// is not due, and must come again later.
    pub fn stream_piece(&mut self, header: &Header, payload: &[u8]) -> Result<bool, BadPiece> {
        let peer = self.peers.of(header.src);
        let kept = peer.stream_piece(header, payload, &mut self.spares)?;
        self.held += kept.unwrap_or(0);
        self.hand_on(header.src);
        Ok(kept.is_some())
    }

    /// Whether message `seq` of `src`, at the head of another route, is due.
    #[inline]
    pub fn is_turn(&mut self, src: TaskId, seq: u32) -> bool {
        self.peer(src).expected == seq
    }

    /// Takes a message that is due from another route.
    pub fn arrive(&mut self, header: &Header, body: Body<P>) {
        let Header { src, tag, context, format, total, seq, .. } = *header;
        let peer = self.peer(src);
        assert_eq!(peer.expected, seq, "only a message that is due may be taken from a route");
        peer.advance();
        self.post(Key { source: src, tag, context }, total, Parcel { format, body });
        self.hand_on(src);
    }

    /// The message of `src` that is due was received straight from another route.
    #[inline]
    pub fn pass(&mut self, src: TaskId) {
        let peer = self.peer(src);
        peer.advance();
        if peer.has_early() {
            self.hand_on(src);
        }
    }

    /// Puts a message among the waiting ones, whoever is to be seen as its sender; or claims it for
    /// the receive that was posted for it.
    pub fn post(&mut self, key: Key, len: u64, parcel: Parcel<P>) {
        self.arrived += 1;
        self.held += parcel.own_bytes();
        while !self.posted.is_empty()
            && let Some((slot, life)) = self.posted.claim(&key)
        {
            if life.strong_count() > 0 {
                self.claimed.push_back((slot, Waiting { key, bytes: len, payload: parcel }));
                return;
            }
        }
        let kept = self.store.insert(key, len, parcel);
        kept.unwrap_or_else(|_| unreachable!("the store has no limit that memory has not"));
    }

    fn hand_on(&mut self, src: TaskId) {
        while let Some(due) = self.peers.get(src).and_then(Peer::due) {
            let Header { tag, context, format, total, .. } = due.header;
            self.held -= due.bytes.len() as u64;
            let parcel = Parcel { format, body: Body::Own(due.bytes) };
            self.post(Key { source: src, tag, context }, total, parcel);
        }
    }

    /// `task` is gone, and everything of it was taken from every route: what it left half is
    /// dropped; what was whole stays.
    pub fn gone(&mut self, task: TaskId) {
        if let Some(peer) = self.peers.remove(task) {
            self.held -= peer.held();
        }
        if !self.has_ended(task) {
            if self.ended.len() == ENDED_MAX {
                self.ended.pop_front();
            }
            self.ended.push_back(task);
        }
    }

    // Receiving.

    /// Shows the message that arrived first of all that match.
    #[inline]
    pub fn probe(&self, wanted: &Wanted) -> Option<(Ticket, &Waiting<Parcel<P>>)> {
        if self.store.is_empty() { None } else { self.store.probe(wanted) }
    }

    /// Takes the message that arrived first of all that match.
    #[inline]
    pub fn take(&mut self, wanted: &Wanted) -> Option<Waiting<Parcel<P>>> {
        if self.store.is_empty() {
            return None;
        }
        let taken = self.store.take(wanted);
        self.taken(taken)
    }

    /// Takes one message out of turn.
    pub fn take_ticket(&mut self, ticket: Ticket) -> Option<Waiting<Parcel<P>>> {
        let taken = self.store.take_ticket(ticket);
        self.taken(taken)
    }

    fn taken(&mut self, taken: Option<Waiting<Parcel<P>>>) -> Option<Waiting<Parcel<P>>> {
        if let Some(waiting) = &taken {
            self.held -= waiting.payload.own_bytes();
        }
        taken
    }

    /// Posts a receive, which `slot` names for the caller: the message that arrived first of all
    /// that match, or the next to arrive, is claimed for it ([`Self::claimed`]), unless `life` is
    /// over by then. The number is for [`Self::cancel`]; there is none where a message was here.
    pub fn post_receive(
        &mut self,
        pattern: Pattern,
        slot: u32,
        life: Weak<()>,
    ) -> Result<Option<Number>, PostedFull> {
        if let Some((ticket, _)) = self.store.probe_pattern(&pattern) {
            let waiting = self.store.take_ticket(ticket).expect("it was just seen");
            self.claimed.push_back((slot, waiting));
            return Ok(None);
        }
        self.posted.post(pattern, (slot, life)).map(Some)
    }

    /// Takes a posted receive back; false: its message has come.
    pub fn cancel(&mut self, number: Number) -> bool {
        self.posted.cancel(number).is_some()
    }

    /// The next message that came for a posted receive, and whose it is; in the order in which
    /// they came.
    pub fn claimed(&mut self) -> Option<(u32, Waiting<Parcel<P>>)> {
        let (slot, waiting) = self.claimed.pop_front()?;
        self.held -= waiting.payload.own_bytes();
        Some((slot, waiting))
    }

    /// Receives that are posted and whose message has not come.
    pub const fn posted(&self) -> usize {
        self.posted.len()
    }

    /// What a message that was taken had its bytes in is not needed any more: the next long one
    /// may have it. At most two buffers of 1 MiB are kept.
    pub fn reuse(&mut self, body: Body<P>) {
        if let Body::Own(bytes) = body {
            self.spares.keep(bytes);
        }
    }

    /// The messages that wait.
    pub const fn store(&self) -> &Store<Parcel<P>> {
        &self.store
    }

    /// Bytes of private memory that messages take.
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Messages that have arrived so far.
    pub const fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Number of peers.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    #[inline]
    fn peer(&mut self, task: TaskId) -> &mut Peer {
        self.peers.of(task)
    }
}
