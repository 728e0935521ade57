//! The receiving side: what came of each group, and what is rebuilt of it.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use towpath_wire::PathId;
use towpath_wire::coding::{Coded, SYMBOL_HEAD, emit_symbol_head, symbol};

use super::kernel::Kernel;
use super::kind::{MEMBERS_MAX, PARITIES_MAX};
use super::solve::solve;

/// Groups that are remembered, from the oldest to the newest.
const GROUPS_MAX: usize = 2048;
/// What a symbol costs beside its bytes.
const SYMBOL_COST: usize = 64;

/// What a receiver counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecoderStats {
    /// Parities that came.
    pub received: u64,
    /// Packets that were rebuilt.
    pub rebuilt: u64,
    /// Groups that were forgotten while a member was known to be missing.
    pub unrebuilt: u64,
    /// Groups that were forgotten for lack of memory.
    pub forgotten: u64,
    /// Symbols that contradict their group, and rebuilt ones that are none.
    pub garbage: u64,
}

/// A packet that did not come, or not yet, and what it held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// The path that it was sent on.
    pub path: PathId,
    /// Its number there.
    pub number: u64,
    /// Its frames, but for those before its `CODED`.
    pub frames: Vec<u8>,
}

/// What came of a group that is not whole. Invariants: `planned` and `members` are at most
/// [`MEMBERS_MAX`]; no member has a place from `members` on; parities are equally long, and no
/// member is longer.
#[derive(Clone, Debug)]
struct Group {
    /// Members that it was to have.
    planned: usize,
    /// Those that it has, once a parity said so.
    members: Option<usize>,
    came: [Option<Vec<u8>>; MEMBERS_MAX],
    parities: [Option<Vec<u8>>; PARITIES_MAX],
}

impl Group {
    const fn new(planned: usize) -> Self {
        const NONE: Option<Vec<u8>> = None;
        let (came, parities) = ([NONE; MEMBERS_MAX], [NONE; PARITIES_MAX]);
        Self { planned, members: None, came, parities }
    }

    fn symbols(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.came.iter().chain(&self.parities).flatten()
    }

    fn cost(&self) -> usize {
        self.symbols().map(|s| s.len() + SYMBOL_COST).sum::<usize>() + size_of::<Self>()
    }

    fn missing(&self, of: usize) -> impl Iterator<Item = usize> + '_ {
        (0..of).filter(|n| self.came[*n].is_none())
    }

    /// How long the group's parities are, once one came.
    fn sum_len(&self) -> Option<usize> {
        self.parities.iter().flatten().next().map(Vec::len)
    }

    /// Whether a member has certainly not come: a parity says how many there are, or a later one
    /// came.
    fn is_short(&self) -> bool {
        let last = self.came.iter().rposition(Option::is_some).map_or(0, |n| n + 1);
        self.missing(self.members.unwrap_or(last)).next().is_some()
    }
}

#[derive(Clone, Debug)]
enum Slot {
    Unseen,
    /// Some of it is here.
    Here(Box<Group>),
    /// Nothing more is wanted of it.
    Over,
}

/// What came of a peer's groups. Invariants: `slots[n]` is group `base + n`; `used` is what those
/// that are here cost, at most `memory` after each call.
#[derive(Clone, Debug)]
pub struct Decoder {
    slots: VecDeque<Slot>,
    base: u32,
    used: usize,
    memory: usize,
    stats: DecoderStats,
}

impl Decoder {
    /// A decoder that keeps symbols within so many bytes.
    pub fn new(memory: u32) -> Self {
        let (slots, stats) = (VecDeque::new(), DecoderStats::default());
        Self { slots, base: 0, used: 0, memory: memory as usize, stats }
    }

    /// What it has counted.
    pub const fn stats(&self) -> &DecoderStats {
        &self.stats
    }

    /// Bytes that are kept.
    pub const fn used(&self) -> usize {
        self.used
    }

    /// A member came on `path`, as packet `number`; what can be rebuilt now.
    pub fn member(
        &mut self,
        coded: &Coded<'_>,
        (path, number): (PathId, u64),
        kernel: &dyn Kernel,
    ) -> Vec<Rebuilt> {
        let (index, planned) = (usize::from(coded.index), usize::from(coded.members));
        if planned == 0 || planned > MEMBERS_MAX || index >= planned {
            self.stats.garbage += 1;
            return Vec::new();
        }
        let Some(at) = self.find(coded.group) else { return Vec::new() };
        let Some(group) = self.group(at, planned) else { return Vec::new() };
        let len = SYMBOL_HEAD + coded.frames.len();
        let beyond = index >= group.members.unwrap_or(planned) || group.planned != planned;
        if beyond || group.sum_len().is_some_and(|most| len > most) {
            return self.contradicts(at);
        }
        if group.came[index].is_none() {
            let mut bytes = vec![0; len];
            emit_symbol_head(&mut bytes, coded.frames.len(), path, number);
            bytes[SYMBOL_HEAD..].copy_from_slice(coded.frames);
            let cost = bytes.len() + SYMBOL_COST;
            group.came[index] = Some(bytes);
            self.used += cost;
        }
        self.look(at, kernel)
    }

    /// A parity came; what can be rebuilt now.
    pub fn parity(
        &mut self,
        parity: &towpath_wire::coding::Parity<'_>,
        kernel: &dyn Kernel,
    ) -> Vec<Rebuilt> {
        self.stats.received += 1;
        let (index, members) = (usize::from(parity.index), usize::from(parity.members));
        let sound = (1..=MEMBERS_MAX).contains(&members)
            && index < PARITIES_MAX
            && parity.symbol.len() >= SYMBOL_HEAD;
        if !sound {
            self.stats.garbage += 1;
            return Vec::new();
        }
        let Some(at) = self.find(parity.group) else { return Vec::new() };
        let Some(group) = self.group(at, members) else { return Vec::new() };
        let beyond = group.came.iter().rposition(Option::is_some).is_some_and(|n| n >= members);
        let other = group.members.is_some_and(|m| m != members);
        let len = parity.symbol.len();
        let short = group.came.iter().flatten().any(|s| s.len() > len);
        if beyond || other || short || group.sum_len().is_some_and(|other| len != other) {
            return self.contradicts(at);
        }
        group.members = Some(members);
        if group.parities[index].is_none() {
            group.parities[index] = Some(parity.symbol.to_vec());
            self.used += parity.symbol.len() + SYMBOL_COST;
        }
        self.look(at, kernel)
    }

    /// The place of a group; `None`: it is too old to be remembered.
    fn find(&mut self, id: u32) -> Option<usize> {
        let ahead = id.wrapping_sub(self.base).cast_signed();
        if self.slots.is_empty() {
            self.base = id;
        } else if ahead < 0 && self.slots.len() + ahead.unsigned_abs() as usize <= GROUPS_MAX {
            for _ in 0..ahead.unsigned_abs() {
                self.slots.push_front(Slot::Unseen);
            }
            self.base = id;
        } else if ahead < 0 {
            return None;
        }
        let ahead = id.wrapping_sub(self.base) as usize;
        if ahead >= 2 * GROUPS_MAX {
            while self.forget_front() {}
            self.base = id;
        }
        while id.wrapping_sub(self.base) as usize >= GROUPS_MAX {
            self.forget_front();
        }
        let at = id.wrapping_sub(self.base) as usize;
        while self.slots.len() <= at {
            self.slots.push_back(Slot::Unseen);
        }
        Some(at)
    }

    /// What is here of a group; `None`: nothing more is wanted of it.
    fn group(&mut self, at: usize, planned: usize) -> Option<&mut Group> {
        if matches!(self.slots[at], Slot::Unseen) {
            self.slots[at] = Slot::Here(Box::new(Group::new(planned)));
            self.used += size_of::<Group>();
        }
        match &mut self.slots[at] {
            Slot::Here(group) => {
                // A parity may come first: of a group that closed early, it knows less than was
                // planned.
                group.planned = group.planned.max(planned);
                Some(group)
            }
            Slot::Unseen | Slot::Over => None,
        }
    }

    /// What came does not fit what came before: nothing of the group can be believed.
    fn contradicts(&mut self, at: usize) -> Vec<Rebuilt> {
        self.stats.garbage += 1;
        self.over(at);
        Vec::new()
    }

    fn over(&mut self, at: usize) {
        if let Slot::Here(group) = core::mem::replace(&mut self.slots[at], Slot::Over) {
            self.used -= group.cost();
        }
    }

    /// Forgets the oldest group; false where there is none.
    fn forget_front(&mut self) -> bool {
        let Some(slot) = self.slots.pop_front() else { return false };
        self.base = self.base.wrapping_add(1);
        if let Slot::Here(group) = slot {
            self.used -= group.cost();
            self.stats.unrebuilt += u64::from(group.is_short());
        }
        true
    }

    /// Something of a group came: it may be whole, or what is missing can be rebuilt.
    fn look(&mut self, at: usize, kernel: &dyn Kernel) -> Vec<Rebuilt> {
        let mut rebuilt = Vec::new();
        if let Slot::Here(group) = &self.slots[at] {
            let of = group.members.unwrap_or(group.planned);
            let missing = group.missing(of).count();
            if missing <= group.parities.iter().flatten().count() {
                let symbols = if missing > 0 { rebuild(group, of, kernel) } else { Vec::new() };
                for bytes in symbols {
                    match symbol(&bytes) {
                        Some((path, number, frames)) => {
                            rebuilt.push(Rebuilt { path, number, frames: frames.to_vec() });
                        }
                        None => self.stats.garbage += 1,
                    }
                }
                self.over(at);
            }
        }
        self.stats.rebuilt += rebuilt.len() as u64;
        while self.used > self.memory {
            self.stats.forgotten += u64::from(matches!(self.slots.front(), Some(Slot::Here(_))));
            self.forget_front();
        }
        rebuilt
    }
}

/// The members of a group that did not come, of `of`.
fn rebuild(group: &Group, of: usize, kernel: &dyn Kernel) -> Vec<Vec<u8>> {
    let missing: Vec<usize> = group.missing(of).collect();
    let known = group.parities.iter().enumerate().filter(|(_, p)| p.is_some());
    let parities: Vec<usize> = known.map(|(n, _)| n).take(missing.len()).collect();
    let rows = solve(of, &missing, &parities);
    let len = parities.iter().filter_map(|n| group.parities[*n].as_ref()).map(Vec::len).max();
    let mut outs = vec![vec![0; len.unwrap_or_default()]; missing.len()];
    let mut place: Vec<&mut [u8]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
    let rows: Vec<&[u8]> = rows[..missing.len()].iter().map(|row| &row[..of]).collect();
    let mut next = parities.iter();
    let symbols = (0..of).map(|n| {
        let symbol = group.came[n].as_ref();
        symbol.or_else(|| group.parities[*next.next()?].as_ref()).map_or(&[][..], Vec::as_slice)
    });
    let symbols: Vec<&[u8]> = symbols.collect();
    kernel.add(&rows, &symbols, &mut place);
    outs
}
