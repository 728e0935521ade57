//! Tasks' messages: from a task's connection to the receiver's, by way of another daemon where the
//! receiver is not here. The node takes each piece in once, into message memory, and hands it on
//! from there.
//!
//! Memory: for its own tasks a daemon holds what it granted to their senders
//! ([`towpath_vm::credit`]). On the way to other hosts it holds at most [`OUTGOING_MAX`]; at that
//! it takes in nothing more for other hosts. That empties without any task's doing, because
//! whoever granted it has the room for it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use towpath_proto::memory::BLOCK_COST;
use towpath_proto::{AssociationId, Block, Memory};
use towpath_vm::data::{Class, Continued, To};
use towpath_vm::members::{Pair, State};
use towpath_vm::talk::ToTask;
use towpath_vm::{Message, data};
use towpath_wire::talk::{HEADER_LEN, Header, MULTICAST_MAX, PIECE_CHARGE, PIECE_MAX};
use towpath_wire::{ChannelId, HostId, Instant, TaskId};

use crate::event::NodeEvent;
use crate::node::Node;
use crate::relay::Relays;
use crate::room::Arriving;

/// Bytes on their way to other hosts, at which a daemon takes in no more.
pub const OUTGOING_MAX: u64 = 128 << 20;

/// A piece for a task of this host: `len` bytes of `block` from `at` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its header; `dst` is the task.
    pub header: Header,
    /// Where it is; several deliveries may share a block.
    pub block: Block,
    /// Where it begins there.
    pub at: u32,
    /// Its length in bytes.
    pub len: u32,
    /// What it takes of its sender's credit, in charged bytes.
    pub charge: u32,
}

/// What waits for a task to enrol.
#[derive(Debug)]
enum Early {
    Piece(Delivery),
    Say(ToTask),
}

/// Tasks' data under way through this host.
#[derive(Debug, Default)]
pub(crate) struct Data {
    /// For tasks that have not enrolled yet, in order.
    early: BTreeMap<TaskId, Vec<Early>>,
    /// Blocks that several deliveries share: how many still do.
    shared: BTreeMap<u32, u32>,
    /// Blocks for tasks of this host that are gone.
    pub(crate) dropped: Vec<Block>,
    /// What goes along chains of hosts.
    pub(crate) relays: Relays,
    /// Bytes in blocks for tasks of this host.
    pub(crate) inside: u64,
    /// The most there ever were.
    pub(crate) inside_max: u64,
    /// Bytes in blocks for other hosts.
    pub(crate) outgoing: u64,
    /// The most there ever were.
    pub(crate) outgoing_max: u64,
    /// What has begun to arrive for tasks of this host.
    pub(crate) arriving: Arriving,
    /// Other hosts whose tasks are not to be sent anything unasked.
    pub(crate) ask_first: BTreeSet<HostId>,
    /// Pieces taken from tasks, handed to tasks, and for tasks that are not there.
    pub(crate) taken: u64,
    pub(crate) given: u64,
    pub(crate) stray: u64,
    /// Pieces refused because their receiver was told that their sender is gone.
    pub(crate) parted: u64,
}

impl Data {
    /// Bytes of message memory that tasks have, what is still arriving aside.
    pub(crate) const fn held(&self) -> u64 {
        self.inside + self.outgoing
    }

    pub(crate) fn hold_inside(&mut self, len: u32) {
        self.inside += u64::from(len) + BLOCK_COST;
        self.inside_max = self.inside_max.max(self.inside);
    }

    /// A block for another host is message memory's now.
    pub(crate) fn hold_outgoing(&mut self, len: u32) {
        self.outgoing += u64::from(len) + BLOCK_COST;
        self.outgoing_max = self.outgoing_max.max(self.outgoing);
    }
}

pub(crate) fn charge(payload: usize) -> u64 {
    payload as u64 + PIECE_CHARGE
}

/// Whether a task may send a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credit {
    Enough,
    /// Not to a receiver from which it never had credit; but perhaps to one that has ended
    /// since, or was parted from it, of which it has not read yet.
    Late,
    /// It keeps no rules.
    Spent,
}

/// A header from `task` and the length of its payload make sense.
fn check_piece(task: TaskId, header: &[u8; HEADER_LEN], len: usize) -> Result<Header, String> {
    let header = Header::parse(header).map_err(|e| format!("{e}"))?;
    if header.src != task {
        return Err(format!("it said to be {}", header.src));
    }
    if len > PIECE_MAX {
        return Err(format!("a piece of {len} bytes, limit {PIECE_MAX}"));
    }
    data::check(&header, len).map_err(|e| format!("{e}"))?;
    Ok(header)
}

/// Whether a receiver is there twice: its credit would count once for two pieces.
fn has_repeats(to: &[(TaskId, u32)]) -> bool {
    let mut seen = BTreeSet::new();
    !to.is_sorted_by(|(a, _), (b, _)| a < b) && !to.iter().all(|(id, _)| seen.insert(*id))
}

impl Node {
    /// Whether data for other hosts may be taken in.
    pub const fn task_budget_left(&self) -> bool {
        self.data.outgoing < OUTGOING_MAX
    }

    /// A piece of a message came on `task`'s connection. False: there is no room for it now; hand
    /// it in again once [`Node::task_budget_left`].
    pub fn task_data(
        &mut self,
        now: Instant,
        task: TaskId,
        header: &[u8; HEADER_LEN],
        payload: &[u8],
        memory: &mut dyn Memory,
    ) -> bool {
        if self.local.members.enrolled(task).is_none() {
            return true;
        }
        let done = match check_piece(task, header, payload.len()) {
            Ok(piece) => match self.judge_credit(task, piece.dst, charge(payload.len())) {
                Credit::Enough => self.forward(now, task, &piece, header, payload, memory),
                Credit::Late => {
                    self.stray(task, piece.dst);
                    true
                }
                Credit::Spent => {
                    self.cut_off(task, format!("it sent {} more than it may", piece.dst));
                    true
                }
            },
            Err(why) => {
                self.cut_off(task, why);
                true
            }
        };
        self.pump(now, memory);
        done
    }

    /// A piece of a message for several receivers, each with its message number.
    pub fn task_multicast(
        &mut self,
        now: Instant,
        task: TaskId,
        to: &[(TaskId, u32)],
        header: &[u8; HEADER_LEN],
        payload: &[u8],
        memory: &mut dyn Memory,
    ) -> bool {
        if self.local.members.enrolled(task).is_none() {
            return true;
        }
        let (mut in_time, mut late, mut broke) = (Vec::with_capacity(to.len()), Vec::new(), None);
        for (dst, seq) in to {
            match self.judge_credit(task, *dst, charge(payload.len())) {
                Credit::Enough => in_time.push((*dst, *seq)),
                Credit::Late => late.push(*dst),
                Credit::Spent => _ = broke.get_or_insert(dst),
            }
        }
        let fault = match (check_piece(task, header, payload.len()), broke) {
            (Err(why), _) => Some(why),
            _ if to.len() > MULTICAST_MAX => Some(format!("{} receivers at once", to.len())),
            _ if has_repeats(to) => Some("a receiver twice in one multicast".into()),
            (_, Some(dst)) => Some(format!("it sent {dst} more than it may")),
            (Ok(piece), None) => {
                let done = self.spread(now, task, &in_time, &piece, payload, memory);
                for dst in late.into_iter().filter(|_| done) {
                    self.stray(task, dst);
                }
                self.pump(now, memory);
                return done;
            }
        };
        if let Some(why) = fault {
            self.cut_off(task, why);
        }
        true
    }

    fn judge_credit(&self, task: TaskId, dst: TaskId, cost: u64) -> Credit {
        let member = self.local.members.get(task);
        let pair = member.and_then(|m| m.pairs.get(&dst)).copied();
        // Only with whom it has no pair can it be parted.
        let is_parted = pair.is_none() && member.is_some_and(|m| m.is_parted(dst));
        let pair = pair.unwrap_or_default();
        if is_parted {
            Credit::Late
        } else if pair.sent + cost <= pair.limit {
            Credit::Enough
        } else if !(pair.granted || self.me == Some(dst.host()) && self.receives(dst)) {
            Credit::Late
        } else {
            Credit::Spent
        }
    }

    /// What `task` exchanges with `peer`, begun if it is new.
    pub(crate) fn pair(&mut self, task: TaskId, peer: TaskId) -> Option<&mut Pair> {
        let member = self.local.members.get_mut(task)?;
        let known = member.pairs.contains_key(&peer);
        if !known {
            self.local.ties.tie(task, peer);
            if self.me != Some(peer.host()) {
                member.told.insert(peer.host());
            }
        }
        if !known {
            member.pairs.insert(peer, Pair::default());
        }
        member.pairs.get_mut(&peer)
    }

    fn pay(&mut self, task: TaskId, dst: TaskId, cost: u64) {
        if let Some(pair) = self.pair(task, dst) {
            pair.sent += cost;
        }
    }

    fn forward(
        &mut self,
        now: Instant,
        task: TaskId,
        piece: &Header,
        header: &[u8; HEADER_LEN],
        payload: &[u8],
        memory: &mut dyn Memory,
    ) -> bool {
        let here = self.me == Some(piece.dst.host());
        if self.is_nowhere(piece.dst) {
            self.stray(task, piece.dst);
            return true;
        }
        if !here && !self.task_budget_left() {
            return false;
        }
        let class = Class::of(piece.total);
        let place = if here { None } else { self.goes_by(task, piece.dst, class) };
        let placed = place.map(|at| data::front_at(piece.dst, piece.seq, at));
        let front = placed.as_ref().map_or(&data::FRONT_ONE[..], |placed| placed);
        let whole: [&[u8]; 3] = [front, header, payload];
        let parts = if here { &whole[2..] } else { &whole[..] };
        let Some(block) = memory.put_parts(parts) else { return false };
        let len = memory.len(block);
        self.data.taken += 1;
        self.pay(task, piece.dst, charge(payload.len()));
        if here {
            self.data.hold_inside(len);
            let charge = charge(payload.len()) as u32;
            self.deliver(Delivery { header: *piece, block, at: 0, len, charge });
        } else {
            self.queue_piece(now, piece.dst.host(), (task, class), block, len);
        }
        true
    }

    /// As [`Node::forward`], for all receivers or, for want of room, for none.
    fn spread(
        &mut self,
        now: Instant,
        task: TaskId,
        to: &[(TaskId, u32)],
        piece: &Header,
        payload: &[u8],
        memory: &mut dyn Memory,
    ) -> bool {
        if !self.task_budget_left() {
            return false;
        }
        let mut by_host: BTreeMap<HostId, Vec<(TaskId, u32)>> = BTreeMap::new();
        for (dst, seq) in to {
            if self.is_nowhere(*dst) {
                self.stray(task, *dst);
            } else {
                by_host.entry(dst.host()).or_default().push((*dst, *seq));
            }
        }
        let plan = self.plan_relay(now, piece, &by_host, payload, memory);
        by_host.retain(|host, _| !plan.as_ref().is_some_and(|plan| plan.has(*host)));
        let mut blocks = Vec::with_capacity(by_host.len());
        for (host, receivers) in &by_host {
            let block = if self.me == Some(*host) {
                memory.put(payload)
            } else {
                let front = self.front(task, receivers, Class::of(piece.total));
                memory.put_parts(&[&front, &piece.emit(), payload])
            };
            let Some(block) = block else {
                for block in blocks {
                    memory.release(block);
                }
                if let Some(plan) = plan {
                    plan.release(memory);
                }
                return false;
            };
            blocks.push(block);
        }
        self.data.taken += 1;
        let cost = charge(payload.len());
        if let Some(plan) = plan {
            self.relay(now, plan, cost);
        }
        for ((host, receivers), block) in by_host.into_iter().zip(blocks) {
            let len = memory.len(block);
            for (dst, _) in &receivers {
                self.pay(task, *dst, cost);
            }
            if self.me == Some(host) {
                self.data.hold_inside(len);
                self.data.share(block, receivers.len());
                for (dst, seq) in receivers {
                    let header = Header { dst, seq, ..*piece };
                    let charge = cost as u32;
                    self.deliver(Delivery { header, block, at: 0, len, charge });
                }
            } else {
                self.queue_piece(now, host, (task, Class::of(piece.total)), block, len);
            }
        }
        true
    }

    /// `task` sent to one that is not there, or that it was told is gone.
    pub(crate) fn stray(&mut self, task: TaskId, dst: TaskId) {
        self.data.stray += 1;
        self.say(task, ToTask::Gone { peer: dst });
    }

    /// Hands a piece to its receiver, which [`Node::receives`], now or when it enrols, and those
    /// behind it that were early. False: it was more than was granted, and is dropped.
    pub(crate) fn deliver(&mut self, delivery: Delivery) -> bool {
        let Header { src, dst, .. } = delivery.header;
        if !self.deliver_one(delivery) {
            return false;
        }
        while let Some(delivery) = self.next_in_turn(dst, src) {
            self.deliver_one(delivery);
        }
        true
    }

    fn deliver_one(&mut self, delivery: Delivery) -> bool {
        let Header { src, dst, .. } = delivery.header;
        self.pair(dst, src);
        if !self.local.members.arrive(dst, src, delivery.charge.into()) {
            // Its daemon should have seen to that.
            self.malformed += 1;
            self.data.dropped.push(delivery.block);
            return false;
        }
        if self.local.members.enrolled(dst).is_some() {
            self.data.given += 1;
            self.events.push_back(NodeEvent::Deliver(delivery));
        } else {
            self.data.early.entry(dst).or_default().push(Early::Piece(delivery));
        }
        true
    }

    /// A task takes part now: it gets what came before.
    pub(crate) fn deliver_early(&mut self, task: TaskId) {
        for early in self.data.early.remove(&task).unwrap_or_default() {
            let event = match early {
                Early::Piece(delivery) => {
                    self.data.given += 1;
                    NodeEvent::Deliver(delivery)
                }
                Early::Say(say) => NodeEvent::ToTask { task, say },
            };
            self.events.push_back(event);
        }
    }

    /// A task will not take part any more: what came for it is dropped.
    pub(crate) fn drop_early(&mut self, task: TaskId) {
        let early = self.data.early.remove(&task).unwrap_or_default();
        self.data.dropped.extend(early.into_iter().filter_map(|early| match early {
            Early::Piece(delivery) => Some(delivery.block),
            Early::Say(_) => None,
        }));
    }

    /// A delivery was written to its task's connection, or will not be: its block goes back, and
    /// its sender may send more.
    pub fn task_written(&mut self, now: Instant, delivery: &Delivery, memory: &mut dyn Memory) {
        self.written(delivery.block, memory);
        let Header { src, dst, .. } = delivery.header;
        self.local.members.written(dst, src, delivery.charge.into());
        if self.local.members.has_grants() {
            self.pump(now, memory);
        }
    }

    /// One delivery of a block less.
    pub(crate) fn written(&mut self, block: Block, memory: &mut dyn Memory) {
        if let Some(count) = self.data.shared.get_mut(&block.index) {
            *count -= 1;
            if *count > 0 {
                return;
            }
            self.data.shared.remove(&block.index);
        }
        self.data.inside -= u64::from(memory.len(block)) + BLOCK_COST;
        memory.release(block);
    }

    /// A block for another host arrived there, or will not be sent.
    pub(crate) fn sent(&mut self, block: Block, memory: &mut dyn Memory) {
        self.data.outgoing -= u64::from(memory.len(block)) + BLOCK_COST;
        memory.release(block);
    }

    /// Gives back the blocks that nobody wants any more.
    pub(crate) fn release_dropped(&mut self, memory: &mut dyn Memory) {
        while let Some(block) = self.data.dropped.pop() {
            self.written(block, memory);
        }
        while let Some(block) = self.peers.freed.pop() {
            self.sent(block, memory);
        }
        self.data.outgoing -= core::mem::take(&mut self.peers.gone);
    }

    /// A message on a channel of `from` for tasks' data.
    pub(crate) fn handle_data(
        &mut self,
        now: Instant,
        from: HostId,
        via: (AssociationId, ChannelId),
        block: Block,
        memory: &mut dyn Memory,
    ) {
        let len = memory.len(block);
        let continued = Continued::parse(memory.bytes(block));
        match data::parse(memory.bytes(block)) {
            None if let Some(Ok(continued)) = continued
                && len as usize - Continued::LEN <= PIECE_MAX =>
            {
                self.data.hold_inside(len);
                self.take_continued(now, from, continued, block, memory);
            }
            None => {
                let decoded = Message::decode(memory.bytes(block));
                memory.release(block);
                match decoded {
                    Ok(message) if message.label() == towpath_vm::message::LABEL_SMALL => {
                        self.handle_message(now, from, message);
                    }
                    _ => self.malformed += 1,
                }
            }
            Some(Ok(piece)) if len as usize - piece.at > PIECE_MAX => {
                memory.release(block);
                self.malformed += 1;
                self.peers.faulty.insert(from);
            }
            Some(Ok(data::Piece { header, to: To::Placed(placed), at })) => {
                self.data.hold_inside(len);
                self.take_placed(now, from, (header, placed), (block, at as u32), memory);
            }
            Some(Ok(piece)) if piece.header.src.host() == from => {
                self.data.hold_inside(len);
                match piece.to {
                    To::At(..) => self.take_at(now, &piece, block, len, memory),
                    _ => self.take_piece(now, piece, block, len, memory),
                }
            }
            Some(_) => {
                memory.release(block);
                self.malformed += 1;
            }
        }
        self.endpoint.consumed(via.0, via.1, len);
    }

    /// Hands on what its sender's own daemon sent. One that sends what it was not granted sends
    /// nothing more.
    fn deliver_granted(&mut self, delivery: Delivery) {
        let host = delivery.header.src.host();
        if !self.deliver(delivery) {
            self.peers.faulty.insert(host);
        }
    }

    fn take_piece(
        &mut self,
        now: Instant,
        piece: data::Piece,
        block: Block,
        len: u32,
        memory: &mut dyn Memory,
    ) {
        let (first, at) = (piece.header, piece.at as u32);
        let len = len - at;
        let charge = charge(len as usize) as u32;
        let To::Several(receivers) = piece.to else {
            if self.takes(first.dst, first.src) {
                return self.deliver_granted(Delivery { header: first, block, at, len, charge });
            }
            self.unknown(now, first.dst, &first);
            return self.written(block, memory);
        };
        // Ours as well, until the last of them has it.
        self.data.share(block, receivers.len() + 1);
        for (dst, seq) in receivers {
            if self.takes(dst, first.src) {
                let header = Header { dst, seq, ..first };
                self.deliver_granted(Delivery { header, block, at, len, charge });
            } else {
                self.unknown(now, dst, &first);
                self.written(block, memory);
            }
        }
        self.written(block, memory);
    }

    /// A piece came for a task that is not here (any more), or that was told that its sender is
    /// gone: the sender is told, with its first.
    pub(crate) fn unknown(&mut self, now: Instant, task: TaskId, piece: &Header) {
        let here = self.receives(task);
        *(if here { &mut self.data.parted } else { &mut self.data.stray }) += 1;
        if piece.offset != 0 {
            return;
        }
        if here {
            self.tell_parted(now, task, piece.src);
        } else {
            self.tell_not_here(now, piece.src.host(), task);
        }
    }

    /// The owner is to cut a task off that does not keep the rules.
    pub(crate) fn cut_off(&mut self, task: TaskId, why: String) {
        self.events.push_back(NodeEvent::CutOff { task, why });
    }

    /// Something to say to a task of this host, behind what waits for it to enrol.
    pub(crate) fn say(&mut self, task: TaskId, say: ToTask) {
        let Some(say) = self.in_a_frame(say) else { return };
        let Some(member) = self.local.members.get(task) else { return };
        if matches!(member.state, State::Starting | State::Welcomed) {
            self.data.early.entry(task).or_default().push(Early::Say(say));
        } else {
            self.events.push_back(NodeEvent::ToTask { task, say });
        }
    }
}

impl Data {
    pub(crate) fn share(&mut self, block: Block, count: usize) {
        if count > 1 {
            self.shared.insert(block.index, count as u32);
        }
    }
}
