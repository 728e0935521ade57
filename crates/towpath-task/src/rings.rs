//! Rings in shared memory to tasks of the same host.
//!
//! A ring is used for sending once the peer has shown that it has its end, by a record of its
//! own (the *mark*): what goes into a ring is never lost because nobody reads it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use towpath_io::shared::{
    Arrival, Corrupt, Head, Home, Inbound, Kind, OpenError, Outbound, PairFds, PeerCard, View,
};
use towpath_vm::account::Account;
use towpath_vm::endpoint::{Body, Endpoint};
use towpath_vm::matching::{Key, Wanted};
use towpath_wire::TaskId;
use towpath_wire::talk::Header;

use crate::message::Received;

/// Rings of one task at most.
pub(crate) const RINGS_MAX: usize = 256;
/// Records taken from one ring before the others have their turn.
pub(crate) const QUOTA: usize = 64;
/// Messages received straight from one ring before the others have their turn.
const TURN: u64 = 8;
/// The context of marks; no program's message has it.
const MARK: u32 = u32::MAX;

/// One ring, both directions.
pub(crate) struct Ring {
    pub(crate) peer: TaskId,
    pub(crate) out: Outbound,
    pub(crate) card: PeerCard,
    /// What counts messages by it.
    pub(crate) line: Option<u16>,
    /// The peer has its end.
    pub(crate) open: bool,
    input: Inbound,
    /// A message at the head of the ring that its sender is still filling.
    filling: Option<(Header, View)>,
    /// Bytes of it that a receive which waits for it has copied out; it is received by that.
    copied: Option<usize>,
    /// Its head waits for a message by another route.
    held_back: bool,
}

/// What a look into a ring brought.
enum Step {
    /// Something was taken.
    Took,
    /// There is nothing that can be taken now.
    Nothing,
}

impl Ring {
    /// Whether [`Rings::take`] would bring something.
    #[inline]
    pub(crate) fn ready(&mut self) -> bool {
        match &self.filling {
            Some((_, view)) => view.filled() > self.copied.unwrap_or(view.len() - 1),
            None => !self.held_back && self.input.ready(),
        }
    }

    /// Whether its sender is filling a message that fits `wanted` and `room`.
    fn fills(&self, wanted: &Wanted, room: usize) -> bool {
        self.filling.as_ref().is_some_and(|(header, view)| {
            let Header { src, tag, context, .. } = *header;
            wanted.matches(&Key { source: src, tag, context }) && view.len() <= room
        })
    }

    /// Copies what there is of the message that is being filled; once that was all of it, its
    /// header.
    fn copy_some(&mut self, out: &mut [u8]) -> Option<Header> {
        let (_, view) = self.filling.as_ref()?;
        let copied = self.copied.get_or_insert(0);
        *copied += view.read(*copied, &mut out[*copied..view.len()]);
        if *copied < view.len() {
            return None;
        }
        self.copied = None;
        self.filling.take().map(|(header, _)| header)
    }

    /// Takes the arrival at its head into `out`, which is as long.
    #[inline]
    pub(crate) fn take_into(&mut self, arrival: &Arrival, out: &mut [u8]) {
        match arrival.kind {
            Kind::Short => self.input.take_short(out),
            Kind::Block => {
                self.input.take_block().read(0, out);
            }
        }
    }

    /// Takes the arrival at its head.
    #[inline]
    pub(crate) fn take_body(&mut self, arrival: &Arrival) -> Body<View> {
        match arrival.kind {
            Kind::Short => {
                let mut bytes = vec![0; arrival.len];
                self.input.take_short(&mut bytes);
                Body::Own(bytes)
            }
            Kind::Block => Body::Route(self.input.take_block()),
        }
    }

    /// A message of `len` bytes was pushed: its receiver is woken, and it is counted.
    #[inline]
    pub(crate) fn pushed(&self, home: &Home, len: usize) {
        self.out.wake();
        if let Some(line) = self.line {
            home.ledger().count(line, Account::BY_RING, len);
        }
    }

    /// Whether a record can be put into it now; also when it is broken, which the next try says.
    pub(crate) fn has_room(&mut self) -> bool {
        self.out.has_room().unwrap_or(true)
    }

    /// Whether a record goes into it now: not where it is broken.
    pub(crate) fn takes_now(&mut self) -> bool {
        !self.out.is_lost() && self.out.has_room() == Ok(true)
    }

    /// Whether what is at its head is due, whole and fits `wanted`.
    #[inline]
    fn has(&mut self, wanted: &Wanted, endpoint: &mut Endpoint<View>) -> bool {
        if self.filling.is_some() {
            return false;
        }
        let Ok(Some(Arrival { head, len, .. })) = self.input.peek() else { return false };
        let Head { tag, context, seq, offset, total, .. } = head;
        let fits = wanted.matches(&Key { source: self.peer, tag, context });
        let whole = offset == 0 && total == len as u64 && self.input.next_is_whole();
        fits && whole && endpoint.is_turn(self.peer, seq)
    }

    /// What is known of an arrival.
    #[inline]
    pub(crate) const fn about(&self, arrival: &Arrival) -> Received {
        let Head { tag, context, format, .. } = arrival.head;
        Received { src: self.peer, tag, context, format, len: arrival.len }
    }

    /// What is at its head, once a look found something there ([`Rings::find`]).
    #[inline]
    pub(crate) fn arrival(&self) -> Arrival {
        self.input.next().expect("a look found something")
    }

    fn step(&mut self, own: TaskId, endpoint: &mut Endpoint<View>) -> Result<Step, Corrupt> {
        if let Some((header, view)) = self.filling.take() {
            if !view.is_whole() || self.copied.is_some() {
                self.filling = Some((header, view));
                return Ok(Step::Nothing);
            }
            endpoint.arrive(&header, Body::Route(view));
            return Ok(Step::Took);
        }
        let Some(Arrival { head, len, kind }) = self.input.peek()? else {
            return Ok(Step::Nothing);
        };
        if !self.open && head.context == MARK && kind == Kind::Short && len == 0 {
            self.input.take_short(&mut []);
            self.open = true;
            return Ok(Step::Took);
        }
        if head.offset != 0 || head.total != len as u64 {
            return Err(Corrupt::Piece { len: len as u64, offset: head.offset, total: head.total });
        }
        if !endpoint.is_turn(self.peer, head.seq) {
            self.held_back = true;
            return Ok(Step::Nothing);
        }
        let header = head.between(self.peer, own);
        match self.take_body(&Arrival { head, len, kind }) {
            Body::Route(view) if !view.is_whole() => self.filling = Some((header, view)),
            body => endpoint.arrive(&header, body),
        }
        Ok(Step::Took)
    }
}

/// All rings. Invariant: `by_peer` has the place in `all` of each ring.
#[derive(Default)]
pub(crate) struct Rings {
    all: Vec<Ring>,
    by_peer: HashMap<TaskId, usize>,
    /// The one that was asked for last.
    last: usize,
    /// Where the next look begins.
    start: usize,
    /// [`Rings::taken`] when the ring there has had its turn.
    turn_over: u64,
    /// The sending ends of rings that were given up. Their peers may still read blocks of this
    /// task's arena: those are free when they come back, or the peer is gone.
    retired: Vec<(TaskId, Outbound)>,
    /// False: no ring has a message that is being filled.
    may_fill: bool,
    /// Peers of rings just given up because what was in them made no sense.
    pub(crate) corrupt: Vec<TaskId>,
    /// How many those were so far.
    pub(crate) corrupted: u64,
    /// Records taken.
    pub(crate) taken: u64,
}

impl Rings {
    /// Opens this task's end of a ring, and tells the peer.
    pub(crate) fn open(
        &mut self,
        home: &Home,
        peer: TaskId,
        line: Option<u16>,
        fds: PairFds,
    ) -> Result<(), OpenError> {
        let (mut out, input, card) = home.pair(fds)?;
        let mark = Head { tag: 0, context: MARK, seq: 0, format: 0, total: 0, offset: 0 };
        out.push(&mark, &[]).expect("an empty ring has room for its first record");
        out.wake();
        let (open, filling, held_back) = (false, None, false);
        self.by_peer.insert(peer, self.all.len());
        let copied = None;
        self.all.push(Ring { peer, out, card, line, open, input, filling, copied, held_back });
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.all.len() >= RINGS_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    #[inline]
    pub(crate) fn get(&mut self, peer: TaskId) -> Option<&mut Ring> {
        if self.all.get(self.last).is_none_or(|ring| ring.peer != peer) {
            self.last = self.seek(peer)?;
        }
        self.all.get_mut(self.last)
    }

    #[inline(never)]
    fn seek(&self, peer: TaskId) -> Option<usize> {
        self.by_peer.get(&peer).copied()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Ring> {
        self.all.iter_mut()
    }

    /// Hands what has come, and is due, to the endpoint, at most `quota` records of each ring;
    /// true when there was something.
    pub(crate) fn take(
        &mut self,
        own: TaskId,
        endpoint: &mut Endpoint<View>,
        quota: usize,
    ) -> bool {
        let count = self.all.len();
        let (mut any, mut broken) = (false, None);
        self.start = if self.start + 1 < count { self.start + 1 } else { 0 };
        self.may_fill = false;
        for i in 0..count {
            let at = if self.start + i < count { self.start + i } else { self.start + i - count };
            let ring = &mut self.all[at];
            ring.held_back = false;
            for _ in 0..quota {
                match ring.step(own, endpoint) {
                    Ok(Step::Took) => {
                        any = true;
                        self.taken += 1;
                    }
                    Ok(Step::Nothing) => break,
                    Err(_) => {
                        broken = Some(ring.peer);
                        break;
                    }
                }
            }
            self.may_fill |= ring.filling.is_some();
        }
        if let Some(peer) = broken {
            self.corrupted += 1;
            self.corrupt.push(peer);
            self.retire(peer);
        }
        any
    }

    /// Whether a message may still be being filled.
    #[inline]
    pub(crate) const fn may_fill(&self) -> bool {
        self.may_fill
    }

    /// No receive copies what fits `wanted` and is being filled any more: it stays whole where it
    /// is.
    #[inline]
    pub(crate) fn stop_copy(&mut self, wanted: &Wanted) {
        if self.may_fill {
            self.of(wanted).for_each(|ring| ring.copied = None);
        }
    }

    /// Copies what there is of a message that fits `wanted` and `out` and is still being filled;
    /// once that was all of it, its header. One message at a time: between calls, `out` and
    /// `wanted` must stay the same. A receive that gives up says so ([`Rings::stop_copy`]).
    pub(crate) fn copy_some(
        &mut self,
        wanted: &Wanted,
        out: &mut [u8],
        fits: impl Fn(&Header) -> bool,
    ) -> Option<Header> {
        if let Some(begun) = self.of(wanted).find(|ring| ring.copied.is_some()) {
            return begun.copy_some(out);
        }
        let ring = self.of(wanted).find(|ring| ring.fills(wanted, out.len()))?;
        if ring.filling.as_ref().is_none_or(|(header, _)| !fits(header)) {
            return None;
        }
        ring.copy_some(out)
    }

    /// The rings that a message which fits `wanted` may come by.
    #[inline]
    pub(crate) fn of(&mut self, wanted: &Wanted) -> impl Iterator<Item = &mut Ring> {
        let at = match wanted.source.map(|peer| self.get(peer).is_some()) {
            Some(true) => self.last..self.last + 1,
            Some(false) => 0..0,
            None => 0..self.all.len(),
        };
        self.all[at].iter_mut()
    }

    /// The ring with a message at its head ([`Ring::arrival`]) that fits `wanted`, is whole and
    /// due: it can be received without being put among those that wait, if none of those fits. Of
    /// several rings, each has its turn.
    #[inline]
    pub(crate) fn find(
        &mut self,
        wanted: &Wanted,
        endpoint: &mut Endpoint<View>,
    ) -> Option<&mut Ring> {
        if let Some(peer) = wanted.source {
            let ring = self.get(peer)?;
            return ring.has(wanted, endpoint).then_some(ring);
        }
        if self.taken >= self.turn_over {
            (self.start, self.turn_over) = (self.start + 1, self.taken + TURN);
        }
        let count = self.all.len();
        for _ in 0..count {
            self.start = if self.start < count { self.start } else { 0 };
            if self.all[self.start].has(wanted, endpoint) {
                return self.all.get_mut(self.start);
            }
            (self.start, self.turn_over) = (self.start + 1, self.taken + TURN);
        }
        None
    }

    /// Receives the message at the head of the ring of the source that `wanted` names if it is a
    /// tiny one, as most are, that fits, `check` too, and is due; what is known of it. `None`:
    /// [`Rings::find`] finds out what there is instead.
    #[inline]
    pub(crate) fn take_tiny(
        &mut self,
        wanted: &Wanted,
        endpoint: &mut Endpoint<View>,
        to: &mut [u8],
        check: impl Fn(&Received) -> bool,
    ) -> Option<Received> {
        let src = wanted.source?;
        let ring = self.get(src).filter(|ring| ring.filling.is_none())?;
        let head = ring.input.take_tiny(to, |head| {
            let Head { tag, context, seq, format, total, .. } = *head;
            wanted.matches(&Key { source: src, tag, context })
                && check(&Received { src, tag, context, format, len: total as usize })
                && endpoint.is_turn(src, seq)
        })?;
        endpoint.pass(src);
        self.taken += 1;
        let Head { tag, context, format, total, .. } = head;
        Some(Received { src, tag, context, format, len: total as usize })
    }

    /// Takes what a peer left in its ring, of which nothing more comes.
    pub(crate) fn drain(&mut self, peer: TaskId, own: TaskId, endpoint: &mut Endpoint<View>) {
        if let Some(ring) = self.get(peer) {
            // Copied in part or not: it goes where the next look finds it.
            ring.copied = None;
            while let Ok(Step::Took) = ring.step(own, endpoint) {}
        }
    }

    /// Gives up the ring of a peer that lives. What went into it and was not taken, as far as the
    /// peer has said so.
    pub(crate) fn retire(&mut self, peer: TaskId) -> Vec<(Head, Vec<u8>)> {
        let Some(mut ring) = self.remove(peer) else { return Vec::new() };
        let mut untaken = ring.out.untaken().unwrap_or_default();
        untaken.retain(|(head, bytes)| head.context != MARK || !bytes.is_empty());
        self.retired.push((peer, ring.out));
        untaken
    }

    /// A peer is gone, and with it what it held.
    pub(crate) fn forget(&mut self, peer: TaskId) {
        self.remove(peer);
        self.retired.retain(|(task, _)| *task != peer);
    }

    /// Peers whose rings were given up, and who may still hold blocks.
    #[cfg(test)]
    pub(crate) fn retired_peers(&self) -> Vec<TaskId> {
        self.retired.iter().map(|(peer, _)| *peer).collect()
    }

    fn remove(&mut self, peer: TaskId) -> Option<Ring> {
        let at = self.by_peer.remove(&peer)?;
        let ring = self.all.swap_remove(at);
        if let Some(moved) = self.all.get(at) {
            self.by_peer.insert(moved.peer, at);
        }
        Some(ring)
    }

    /// Takes back what the peer that was asked for last gave up; whether that peer is on this
    /// processor.
    pub(crate) fn reclaim_last(&mut self) -> bool {
        let Some(ring) = self.all.get_mut(self.last) else { return true };
        // What is wrong with it is found when something is sent there.
        let _ = ring.out.reclaim();
        ring.out.is_here()
    }

    /// Takes back what peers gave up; how many blocks.
    pub(crate) fn reclaim(&mut self) -> usize {
        let retired = self.retired.iter_mut().map(|(_, out)| out);
        let all = self.all.iter_mut().map(|ring| &mut ring.out).chain(retired);
        all.map(|out| out.reclaim().unwrap_or(0)).sum()
    }
}

/// The descriptors of a ring, in the order in which the daemon sends them.
pub(crate) fn pair_fds(mut next: impl FnMut() -> Option<OwnedFd>) -> Option<PairFds> {
    let (own_half, peer_half) = (next()?, next()?);
    let (peer_segment, peer_bell) = (next()?, next()?);
    Some(PairFds { own_half, peer_half, peer_segment, peer_bell })
}
