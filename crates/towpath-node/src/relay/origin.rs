//! Chains as the host of a sender sees them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use towpath_proto::{Block, Memory};
use towpath_vm::Message;
use towpath_vm::data::{Class, PLACED_LEN, Placed};
use towpath_vm::message::{Numbers, Relay};
use towpath_wire::talk::{Header, PIECE_CHARGE};
use towpath_wire::{HostId, Instant, TaskId};

use super::table::{
    CHAIN_MAX, HELD_MAX, Held, LIST_MAX, Leg, Passing, RELAY_MIN, RELAY_PIECE, Relays, continued,
};
use crate::lanes::{Purpose, Waiting};
use crate::node::Node;

/// How a piece is to go along chains, with all blocks that it takes.
pub(crate) struct Plan {
    legs: Arc<Vec<Leg>>,
    pieces: Vec<Part>,
}

struct Part {
    header: Header,
    shift: u32,
    payload: Block,
    len: u32,
    /// For the first host of each chain, with their lengths.
    first: Vec<(Block, u32)>,
}

impl Plan {
    pub(crate) fn has(&self, host: HostId) -> bool {
        self.legs.iter().any(|leg| leg.host == host)
    }

    /// It is not carried out.
    pub(crate) fn release(self, memory: &mut dyn Memory) {
        for part in self.pieces {
            part.release(memory);
        }
    }
}

impl Part {
    /// A part with the blocks that it takes, if there is room for them.
    fn plan(
        legs: &[Leg],
        header: Header,
        shift: u32,
        (base, number, bytes): (u64, u64, &[u8]),
        memory: &mut dyn Memory,
    ) -> Option<Self> {
        let (payload, len) = (memory.put(bytes)?, bytes.len() as u32);
        let mut part = Self { header, shift, payload, len, first: Vec::new() };
        for chain in legs.chunks(CHAIN_MAX) {
            let receivers = chain.iter().flat_map(|leg| leg.receivers(shift)).collect();
            let placed = Placed { number, goes_on: shift > 0, receivers };
            let block = if shift == 0 {
                memory.put_parts(&[&placed.front(), &header.emit(), bytes])
            } else if let Some(front) = continued(&header, &placed, shift, base) {
                memory.put_parts(&[&front, bytes])
            } else {
                memory.put_parts(&[&placed.front(), &header.emit(), bytes])
            };
            let Some(block) = block else {
                part.release(memory);
                return None;
            };
            part.first.push((block, memory.len(block)));
        }
        Some(part)
    }

    fn release(self, memory: &mut dyn Memory) {
        memory.release(self.payload);
        for (block, _) in self.first {
            memory.release(block);
        }
    }
}

impl Node {
    /// Whether pieces for tasks of `host` may come to it by way of others; asks it at first.
    fn relay_ready(&mut self, now: Instant, host: HostId) -> bool {
        if self.peers.up(host).is_none() {
            return false;
        }
        if let Some(ready) = self.data.relays.ready.get(&host) {
            return *ready;
        }
        self.data.relays.ready.insert(host, false);
        let first = self.data.relays.last + 1;
        self.tell(now, host, Message::Relay(Relay { first }));
        false
    }

    /// How a piece goes to tasks of several hosts, if it is worth a chain and there is room.
    pub(crate) fn plan_relay(
        &mut self,
        now: Instant,
        piece: &Header,
        by_host: &BTreeMap<HostId, Vec<(TaskId, u32)>>,
        payload: &[u8],
        memory: &mut dyn Memory,
    ) -> Option<Plan> {
        let held = self.data.relays.held_bytes + payload.len() as u64;
        if piece.total < RELAY_MIN || payload.is_empty() || held > HELD_MAX || by_host.len() < 2 {
            return None;
        }
        let hosts = by_host.keys().copied().filter(|h| self.me != Some(*h));
        let hosts: Vec<HostId> = hosts.collect();
        let ready: Vec<HostId> = hosts.into_iter().filter(|h| self.relay_ready(now, *h)).collect();
        if ready.len() < 2 {
            return None;
        }
        let pairs = self.local.members.get(piece.src).map(|m| &m.pairs)?;
        let sent = |task: &TaskId| pairs.get(task).map_or(0, |p| p.sent) as u32;
        let leg = |host: HostId| {
            let receivers = by_host[&host].iter().map(|(task, seq)| (*task, *seq, sent(task)));
            Leg { host, receivers: receivers.collect() }
        };
        let legs: Arc<Vec<Leg>> = Arc::new(ready.into_iter().map(leg).collect());
        let list = legs.iter().map(|leg| leg.receivers.len() * PLACED_LEN).sum::<usize>();
        let mut plan = Plan { legs, pieces: Vec::new() };
        let (mut at, mut number) = (0, self.data.relays.last);
        let base = number + 1;
        let least = if list <= LIST_MAX * PLACED_LEN { 0 } else { 16 * list };
        for bytes in payload.chunks(RELAY_PIECE.max(least)) {
            number += 1;
            let header = Header { offset: piece.offset + at as u64, ..*piece };
            let shift = if at == 0 { 0 } else { at as u32 + PIECE_CHARGE as u32 };
            let Some(part) = Part::plan(&plan.legs, header, shift, (base, number, bytes), memory)
            else {
                plan.release(memory);
                return None;
            };
            plan.pieces.push(part);
            at += bytes.len();
        }
        Some(plan)
    }

    /// Carries a plan out: nothing was sent since it was made.
    pub(crate) fn relay(&mut self, now: Instant, plan: Plan, cost: u64) {
        let Plan { legs, pieces } = plan;
        let Some(src) = pieces.first().map(|p| p.header.src) else { return };
        for leg in legs.iter() {
            for (task, ..) in &leg.receivers {
                if let Some(pair) = self.pair(src, *task) {
                    pair.sent += cost;
                    pair.goes_by(Class::Bulk);
                    pair.placed = true;
                }
            }
            self.data.relays.open.add(leg.host, src, pieces.len() as u32);
            self.peers.look_at(leg.host);
        }
        let heads: Vec<HostId> = legs.chunks(CHAIN_MAX).map(|chain| chain[0].host).collect();
        for Part { header, shift, payload, len, first } in pieces {
            let relays = &mut self.data.relays;
            relays.last += 1;
            let (legs, open) = (Arc::clone(&legs), legs.iter().map(|leg| leg.host).collect());
            relays.held.insert(relays.last, Held { payload, len, header, shift, legs, open });
            relays.held_bytes += u64::from(len);
            self.data.hold_outgoing(len);
            for (host, (block, len)) in heads.iter().zip(first) {
                self.data.hold_outgoing(len);
                self.queue_data(now, *host, Purpose::Bulk, Waiting::Block(block, len));
            }
        }
    }

    /// `host` has a piece, or is done for it.
    fn relay_done(&mut self, now: Instant, number: u64, host: HostId) {
        let relays = &mut self.data.relays;
        let Some(held) = relays.held.get_mut(&number) else { return };
        if !held.open.remove(&host) {
            return;
        }
        relays.again.remove(&(number, host));
        let src = held.header.src;
        if held.open.is_empty()
            && let Some(held) = relays.held.remove(&number)
        {
            relays.held_bytes -= u64::from(held.len);
            self.peers.freed.push(held.payload);
        }
        self.piece_arrived(now, host, src);
    }

    /// A piece of `src`'s whose arrival its end waits for is at `host`.
    pub(crate) fn piece_arrived(&mut self, now: Instant, host: HostId, src: TaskId) {
        let (key, relays) = ((host, src), &mut self.data.relays);
        if !relays.open.settle(host, src) {
            return;
        }
        self.peers.look_at(host);
        if let Some(ended) = self.data.relays.ended.remove(&key) {
            let task = ended.task;
            if self.peers.up(host).is_some() {
                self.tell(now, host, Message::TaskEnded(ended));
            }
            self.release_id(task);
        }
    }

    /// The id of a task that is over may be used again, unless its end is still to be told.
    pub(crate) fn release_id(&mut self, task: TaskId) {
        let to_tell = self.data.relays.ended.keys().any(|(_, t)| *t == task);
        if let Some(tasks) = self.tasks.as_mut().filter(|_| !to_tell) {
            tasks.release(task);
        }
    }

    /// The pieces of ours among these. None of what no daemon of ours would say.
    fn held_in(&mut self, numbers: &Numbers) -> BTreeSet<u64> {
        if !numbers.is_plain() {
            self.malformed += 1;
            return BTreeSet::new();
        }
        let held = &self.data.relays.held;
        let in_range = |(first, last): &(u64, u64)| *first..=*last;
        numbers.ranges.iter().flat_map(|r| held.range(in_range(r))).map(|(n, _)| *n).collect()
    }

    /// `from` has these pieces.
    pub(crate) fn handle_relayed(&mut self, now: Instant, from: HostId, numbers: &Numbers) {
        for number in self.held_in(numbers) {
            self.relay_done(now, number, from);
        }
    }

    /// `from` could not pass these pieces on.
    pub(crate) fn handle_unrelayed(&mut self, from: HostId, numbers: &Numbers) {
        for number in self.held_in(numbers) {
            let relays = &mut self.data.relays;
            let behind = Relays::from_on(&relays.held[&number], from);
            relays.again.extend(behind.into_iter().map(|host| (number, host)));
        }
    }

    /// Sends again, straight to their hosts, what did not get there by others.
    pub(crate) fn send_again(&mut self, now: Instant, memory: &mut dyn Memory) {
        while self.task_budget_left()
            && let Some((number, host)) = self.data.relays.again.first().copied()
        {
            if let Some(held) = self.data.relays.held.get(&number)
                && let Some(leg) = held.legs.iter().find(|leg| leg.host == host)
            {
                let receivers = leg.receivers(held.shift).collect();
                let placed = Placed { number, goes_on: held.shift > 0, receivers };
                let payload = memory.bytes(held.payload).to_vec();
                let parts: [&[u8]; 3] = [&placed.front(), &held.header.emit(), &payload];
                let Some(block) = memory.put_parts(&parts) else { return };
                let len = memory.len(block);
                self.data.relays.repeated += 1;
                self.data.hold_outgoing(len);
                self.queue_data(now, host, Purpose::Bulk, Waiting::Block(block, len));
            }
            self.data.relays.again.remove(&(number, host));
        }
    }

    /// The association to `host` is over, and with it all that depended on it.
    pub(crate) fn relays_over(&mut self, now: Instant, host: HostId) {
        let relays = &mut self.data.relays;
        relays.ready.remove(&host);
        relays.first.remove(&host);
        relays.acks.remove(&host);
        relays.lists.retain(|(from, origin), _| *from != host && *origin != host);
        relays.passed_on.retain(|(next, origin), _| *next != host && *origin != host);
        // It is told of no end any more: its daemon knows that all of this host is over.
        let ends: Vec<(HostId, TaskId)> =
            relays.ended.keys().copied().filter(|(h, _)| *h == host).collect();
        for key in ends {
            self.data.relays.ended.remove(&key);
            self.release_id(key.1);
        }
        let relays = &mut self.data.relays;
        let with = |held: &Held| held.legs.iter().any(|leg| leg.host == host);
        let numbers: Vec<u64> =
            relays.held.iter().filter(|(_, held)| with(held)).map(|(n, _)| *n).collect();
        for number in numbers {
            let relays = &mut self.data.relays;
            #[allow(unused_mut)] // only the planted bug changes it
            let mut behind = Relays::from_on(&relays.held[&number], host);
            #[cfg(plant)]
            if self.config.proto.plant == towpath_proto::config::Plant::ChainCutShort {
                behind.pop();
            }
            relays.again.extend(behind.into_iter().map(|host| (number, host)));
            self.relay_done(now, number, host);
        }
        self.data.relays.open.forget(host);
        let passing = self.data.relays.passing.remove(&host).unwrap_or_default();
        let mut by_origin: BTreeMap<HostId, Vec<u64>> = BTreeMap::new();
        for Passing { origin, number, len } in passing.into_values() {
            self.data.relays.passing_bytes -= u64::from(len);
            by_origin.entry(origin).or_default().push(number);
        }
        for (origin, numbers) in by_origin {
            self.unrelayed(now, origin, numbers);
        }
    }
}
