//! By which of two channels tasks' messages go to another host, and what keeps a pair's order over
//! both: a piece that may overtake others says its place among them.

use alloc::vec::Vec;

use towpath_proto::{Block, Memory};
use towpath_vm::data::{self, Class, Piece, Placed, To};
use towpath_wire::talk::Header;
use towpath_wire::{HostId, Instant, TaskId};

use super::Node;
use crate::data::{Delivery, charge};
use crate::lanes::Waiting;

impl Node {
    /// Queues a piece of `task`'s for another host.
    pub(crate) fn queue_piece(
        &mut self,
        now: Instant,
        host: HostId,
        (task, class): (TaskId, Class),
        block: Block,
        len: u32,
    ) {
        self.data.hold_outgoing(len);
        // Its end is told on the channel of short messages.
        let waiting = if class == Class::Bulk {
            #[cfg(plant)]
            if self.plant() == towpath_proto::config::Plant::EndOvertakes {
                return self.queue_data(now, host, class.into(), Waiting::Block(block, len));
            }
            self.data.relays.departs(host, task);
            Waiting::Of(task, block, len)
        } else {
            Waiting::Block(block, len)
        };
        self.queue_data(now, host, class.into(), waiting);
    }

    /// What `task` sends `dst` next goes by `class`: its place, where it must be said.
    pub(crate) fn goes_by(&mut self, task: TaskId, dst: TaskId, class: Class) -> Option<u32> {
        #[cfg(plant)]
        if self.plant() == towpath_proto::config::Plant::PlaceUnsaid {
            return None;
        }
        let pair = self.pair(task, dst)?;
        pair.goes_by(class);
        pair.placed.then_some(pair.sent as u32)
    }

    /// What stands in front of a piece for several tasks of one host.
    pub(crate) fn front(&mut self, task: TaskId, to: &[(TaskId, u32)], class: Class) -> Vec<u8> {
        let mut placed = false;
        for (dst, _) in to {
            placed |= self.goes_by(task, *dst, class).is_some();
        }
        if !placed {
            return data::front_several(to);
        }
        let pairs = self.local.members.get(task).map(|m| &m.pairs);
        let sent = |dst| pairs.and_then(|p| p.get(dst)).map_or(0, |p| p.sent) as u32;
        Placed::straight(to.iter().map(|(dst, seq)| (*dst, *seq, sent(dst))).collect()).front()
    }

    /// A piece came that says its place.
    pub(crate) fn take_at(
        &mut self,
        now: Instant,
        piece: &Piece,
        block: Block,
        len: u32,
        memory: &mut dyn Memory,
    ) {
        let To::At(dst, seq, place) = piece.to else { return };
        if !self.takes(dst, piece.header.src) {
            self.unknown(now, dst, &piece.header);
            return self.written(block, memory);
        }
        let (header, at) = (Header { dst, seq, ..piece.header }, piece.at as u32);
        let len = len - at;
        let charge = charge(len as usize) as u32;
        if !self.place(Delivery { header, block, at, len, charge }, place, memory) {
            self.peers.faulty.insert(header.src.host());
        }
    }
}
