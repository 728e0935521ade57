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

use towpath_proto::Block;
use towpath_proto::memory::BLOCK_COST;
use towpath_vm::data;
use towpath_vm::talk::ToTask;
use towpath_wire::talk::{HEADER_LEN, Header, PIECE_CHARGE, PIECE_MAX};
use towpath_wire::{HostId, TaskId};

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
pub(crate) enum Early {
    Piece(Delivery),
    Say(ToTask),
}

/// Tasks' data under way through this host.
#[derive(Debug, Default)]
pub(crate) struct Data {
    /// For tasks that have not enrolled yet, in order.
    pub(crate) early: BTreeMap<TaskId, Vec<Early>>,
    /// Blocks that several deliveries share: how many still do.
    pub(crate) shared: BTreeMap<u32, u32>,
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
pub(crate) enum Credit {
    Enough,
    /// Not to a receiver from which it never had credit; but perhaps to one that has ended
    /// since, or was parted from it, of which it has not read yet.
    Late,
    /// It keeps no rules.
    Spent,
}

/// A header from `task` and the length of its payload make sense.
pub(crate) fn check_piece(
    task: TaskId,
    header: &[u8; HEADER_LEN],
    len: usize,
) -> Result<Header, String> {
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
pub(crate) fn has_repeats(to: &[(TaskId, u32)]) -> bool {
    let mut seen = BTreeSet::new();
    !to.is_sorted_by(|(a, _), (b, _)| a < b) && !to.iter().all(|(id, _)| seen.insert(*id))
}

impl Data {
    pub(crate) fn share(&mut self, block: Block, count: usize) {
        if count > 1 {
            self.shared.insert(block.index, count as u32);
        }
    }
}
