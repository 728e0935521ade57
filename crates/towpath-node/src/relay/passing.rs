//! Chains as hosts on the way, and those of receivers, see them.

use alloc::vec::Vec;

use towpath_proto::{Block, Memory};
use towpath_vm::data::{Continued, Placed, check};
use towpath_vm::message::{Numbers, RANGES_MAX, Relay};
use towpath_vm::{HostState, Message};
use towpath_wire::talk::{Header, PIECE_CHARGE};
use towpath_wire::{HostId, Instant, TaskId};

use super::table::{ACK_AFTER, ACKS, LIST_MAX, List, PASSING_MAX, Passing, continued};
use crate::data::{Delivery, charge};
use crate::lanes::{Purpose, Waiting};
use crate::node::Node;

/// What may stand in front of an early piece beside as much as it has itself: kind, number, one
/// receiver and header, and some more.
const FRONT_FREE: u32 = 128;

impl Node {
    /// Pieces of `origin` did not get past this host.
    pub(super) fn unrelayed(&mut self, now: Instant, origin: HostId, numbers: Vec<u64>) {
        // Without a contact it knows that it must send again.
        if self.peers.up(origin).is_some() {
            for ranges in Numbers::of(numbers).ranges.chunks(RANGES_MAX) {
                let ranges = ranges.to_vec();
                self.tell(now, origin, Message::Unrelayed(Numbers { ranges }));
            }
        }
    }

    /// `from` says which of its pieces belong to this association.
    pub(crate) fn handle_relay(&mut self, now: Instant, from: HostId, relay: Relay) {
        self.data.relays.first.insert(from, relay.first);
        self.tell(now, from, Message::RelayReady(relay));
    }

    /// `from` takes pieces by way of other hosts.
    pub(crate) fn handle_relay_ready(&mut self, from: HostId) {
        if let Some(ready) = self.data.relays.ready.get_mut(&from) {
            *ready = true;
        }
    }

    /// Passes a piece on to the next host that is there; false: there is no room for that, or this
    /// host cannot reach it, which the origin may.
    /// `base`: the piece that it goes on from.
    fn pass_on(
        &mut self,
        now: Instant,
        (header, placed, base): (&Header, Placed, Option<(u64, u32)>),
        payload: &[u8],
        memory: &mut dyn Memory,
    ) -> bool {
        let (origin, number) = (header.src.host(), placed.number);
        let up = |host: HostId| {
            let entry = self.log.as_ref().and_then(|l| l.table().get(host));
            entry.is_some_and(|h| h.state == HostState::Up)
        };
        let receivers: Vec<_> =
            placed.receivers.into_iter().skip_while(|(task, ..)| !up(task.host())).collect();
        let Some(next) = receivers.first().map(|(task, ..)| task.host()) else { return true };
        if self.is_out_of_reach(next) {
            return false;
        }
        let placed = Placed { receivers, ..placed };
        let room = self.data.relays.passing_bytes < PASSING_MAX;
        let known = self.data.relays.passed_on.get(&(next, origin)).copied();
        let base = base.filter(|(base, _)| known == Some(*base));
        let front = base.and_then(|(base, shift)| continued(header, &placed, shift, base));
        let front = front.unwrap_or_else(|| [&placed.front()[..], &header.emit()].concat());
        let Some(block) = room.then(|| memory.put_parts(&[&front, payload])).flatten() else {
            return false;
        };
        if !placed.goes_on {
            self.data.relays.passed_on.insert((next, origin), number);
        }
        let len = memory.len(block);
        let relays = &mut self.data.relays;
        relays.passed += 1;
        relays.passing_bytes += u64::from(len);
        let passing = Passing { origin, number, len };
        relays.passing.entry(next).or_default().insert(block.index, passing);
        self.data.hold_outgoing(len);
        self.queue_data(now, next, Purpose::Bulk, Waiting::Block(block, len));
        true
    }

    /// A piece with its place came from `from`, in `block` from `at` on.
    pub(crate) fn take_placed(
        &mut self,
        now: Instant,
        from: HostId,
        (header, placed): (Header, Placed),
        (block, at): (Block, u32),
        memory: &mut dyn Memory,
    ) {
        let Placed { number, goes_on, .. } = placed;
        // A list of a host that nobody knows would never be forgotten.
        let known = self.peers.up(header.src.host()).is_some();
        if number > 0 && !goes_on && known && placed.receivers.len() <= LIST_MAX {
            let receivers = placed.receivers.clone();
            let key = (from, header.src.host());
            self.data.relays.lists.insert(key, List { number, header, receivers });
        }
        self.take_relayed(now, from, (header, placed, None), (block, at), memory);
    }

    /// A piece came from `from` that goes on from one that came before.
    pub(crate) fn take_continued(
        &mut self,
        now: Instant,
        from: HostId,
        continued: Continued,
        block: Block,
        memory: &mut dyn Memory,
    ) {
        let Continued { number, src, back, shift } = continued;
        let base = number.saturating_sub(back.into());
        let list = self.data.relays.lists.get(&(from, src.host()));
        let list = list.filter(|list| list.number == base && list.header.src == src);
        let ahead = u64::from(shift).checked_sub(PIECE_CHARGE);
        let len = memory.len(block) as usize - Continued::LEN;
        let header = list.zip(ahead).map(|(list, ahead)| {
            let offset = list.header.offset.saturating_add(ahead);
            Header { offset, ..list.header }
        });
        let fits = |h: &Header| h.offset <= h.total && check(h, len).is_ok();
        let (Some(list), Some(header)) = (list, header.filter(fits)) else {
            self.written(block, memory);
            return self.unrelayed(now, src.host(), alloc::vec![number]);
        };
        let shifted = |(task, seq, at): &(TaskId, u32, u32)| (*task, *seq, at.wrapping_add(shift));
        let receivers = list.receivers.iter().map(shifted).collect();
        let placed = Placed { number, goes_on: true, receivers };
        let piece = (header, placed, Some((base, shift)));
        self.take_relayed(now, from, piece, (block, Continued::LEN as u32), memory);
    }

    fn take_relayed(
        &mut self,
        now: Instant,
        from: HostId,
        (header, placed, base): (Header, Placed, Option<(u64, u32)>),
        (block, at): (Block, u32),
        memory: &mut dyn Memory,
    ) {
        let (origin, len) = (header.src.host(), memory.len(block) - at);
        let Placed { number, goes_on, receivers } = placed;
        let (mine, rest): (Vec<_>, Vec<_>) =
            receivers.into_iter().partition(|(task, ..)| self.me == Some(task.host()));
        let known = if number == 0 {
            origin == from && rest.is_empty()
        } else {
            self.peers.up(origin).is_some()
                && self.data.relays.first.get(&origin).is_some_and(|first| *first <= number)
        };
        // One that none of ours is to have might go round for ever.
        if mine.is_empty() || self.me == Some(origin) || (goes_on && len == 0) {
            self.malformed += 1;
            return self.written(block, memory);
        }
        let mut passed = true;
        if !rest.is_empty() && number != 0 {
            let payload = memory.bytes(block)[at as usize..].to_vec();
            let placed = Placed { number, goes_on, receivers: rest };
            passed = self.pass_on(now, (&header, placed, base), &payload, memory);
        }
        if known {
            self.data.share(block, mine.len() + 1);
            let charge = if goes_on { u64::from(len) } else { charge(len as usize) };
            for (dst, seq, place) in mine {
                if self.is_late(dst, header.src) {
                    self.written(block, memory);
                } else if self.takes(dst, header.src) {
                    let header = Header { dst, seq, ..header };
                    let charge = charge as u32;
                    let granted =
                        self.place(Delivery { header, block, at, len, charge }, place, memory);
                    if !granted && origin == from {
                        self.peers.faulty.insert(from);
                    }
                } else {
                    self.unknown(now, dst, &header);
                    self.written(block, memory);
                }
            }
            if number != 0 {
                let whole = header.offset + u64::from(len) == header.total;
                // Before it is said that others do not have it: it is not to come here again.
                self.acknowledge(now, origin, number, whole || !passed);
            }
        }
        if !passed {
            self.unrelayed(now, origin, alloc::vec![number]);
        }
        self.written(block, memory);
    }

    /// Whether a piece comes once more behind the end of its sender: it would begin a new pair.
    fn is_late(&self, dst: TaskId, src: TaskId) -> bool {
        let member = self.local.members.get(dst);
        member.is_some_and(|member| !member.pairs.contains_key(&src))
            && self.data.relays.is_over(src)
    }

    /// Hands a piece on if it is its turn, keeps it if it is early, drops it if it was there.
    /// False: it was its turn, and more than was granted.
    pub(crate) fn place(&mut self, delivery: Delivery, at: u32, memory: &mut dyn Memory) -> bool {
        let Header { src, dst, .. } = delivery.header;
        let received = self.pair(dst, src).map_or(0, |pair| pair.window.received());
        let ahead = at.wrapping_sub(received as u32).cast_signed();
        match u64::try_from(ahead) {
            Ok(0) => return self.deliver(delivery),
            Ok(ahead) => self.keep_early(delivery, received + ahead, memory),
            Err(_) => self.data.dropped.push(delivery.block),
        }
        true
    }

    /// Keeps a piece that came before its turn, if it is within what was granted.
    fn keep_early(&mut self, delivery: Delivery, place: u64, memory: &mut dyn Memory) {
        let Header { src, dst, .. } = delivery.header;
        let charge = u64::from(delivery.charge);
        let pair = self.local.members.get(dst).and_then(|m| m.pairs.get(&src));
        let fits = pair.is_some_and(|pair| pair.window.may_come(place, charge));
        // Early pieces do not overlap, so that all together are within what was granted.
        let early = self.data.relays.early.get(&(dst, src));
        let before = early.and_then(|e| e.range(..place + charge).next_back());
        let apart = before.is_none_or(|(at, d)| at + u64::from(d.charge) <= place);
        if !(fits && apart) {
            return self.data.dropped.push(delivery.block);
        }
        let delivery = self.alone(delivery, memory);
        self.data.relays.early.entry((dst, src)).or_default().insert(place, delivery);
    }

    /// A piece without what stood in front of it, where that is so long that it would take more
    /// message memory than its sender is charged.
    fn alone(&mut self, delivery: Delivery, memory: &mut dyn Memory) -> Delivery {
        let Delivery { block, at, len, .. } = delivery;
        if memory.len(block) <= 2 * len + FRONT_FREE {
            return delivery;
        }
        let payload = memory.bytes(block)[at as usize..(at + len) as usize].to_vec();
        let Some(own) = memory.put(&payload) else { return delivery };
        self.data.hold_inside(len);
        self.data.dropped.push(block);
        Delivery { block: own, at: 0, ..delivery }
    }

    /// The piece whose turn it is, if it was early.
    pub(crate) fn next_in_turn(&mut self, dst: TaskId, src: TaskId) -> Option<Delivery> {
        let early = self.data.relays.early.get_mut(&(dst, src))?;
        let received = self.local.members.get(dst)?.pairs.get(&src)?.window.received();
        let delivery = early.remove(&received);
        if early.is_empty() {
            self.data.relays.early.remove(&(dst, src));
        }
        delivery
    }

    fn acknowledge(&mut self, now: Instant, origin: HostId, number: u64, whole: bool) {
        let relays = &mut self.data.relays;
        let acks = relays.acks.entry(origin).or_default();
        acks.push(number);
        if whole || acks.len() >= ACKS {
            self.tell_acks(now, origin);
        } else {
            relays.ack_at.get_or_insert(now + ACK_AFTER);
        }
    }

    fn tell_acks(&mut self, now: Instant, origin: HostId) {
        if let Some(acks) = self.data.relays.acks.remove(&origin) {
            self.tell(now, origin, Message::Relayed(Numbers::of(acks)));
        }
    }

    /// Tells what was to be told together and waited long enough.
    pub(crate) fn settle_acks(&mut self, now: Instant) {
        if self.data.relays.ack_at.is_some_and(|at| at <= now) {
            self.data.relays.ack_at = None;
            let origins: Vec<HostId> = self.data.relays.acks.keys().copied().collect();
            for origin in origins {
                self.tell_acks(now, origin);
            }
        }
    }
}
