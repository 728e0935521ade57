//! Messages of tasks: sent, relayed, delivered.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use towpath_proto::memory::BLOCK_COST;
use towpath_proto::{AssociationId, Block, Memory};
use towpath_vm::data::{Class, Continued, To};
use towpath_vm::members::{Pair, State};
use towpath_vm::talk::ToTask;
use towpath_vm::{Message, data};
use towpath_wire::talk::{HEADER_LEN, Header, MULTICAST_MAX, PIECE_MAX};
use towpath_wire::{ChannelId, HostId, Instant, TaskId};

use super::Node;
use crate::data::{Credit, Delivery, Early, OUTGOING_MAX, charge, check_piece, has_repeats};
use crate::event::NodeEvent;

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
