//! The sending side: which packet joins which group, and the parity of each.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_wire::coding::{SYMBOL_HEAD, emit_symbol_head};
use towpath_wire::{Instant, PathId};

use super::field::coefficient;
use super::kernel::Kernel;
use super::kind::{Coding, MEMBERS_MAX};
use crate::association::PATHS_MAX;

/// Groups that are open at once: as many as a train has packets.
const OPEN_MAX: usize = 64;
/// Groups whose parity waits for its path; beyond it the oldest's is dropped.
const CLOSED_MAX: usize = 64;
/// A group that is as old closes where nothing waits to be sent, and else takes packets of any
/// path; parity that has waited as long goes by any path.
pub(crate) const PATIENCE: Duration = Duration::from_millis(2);
/// A group that is as old closes with what it has.
const OLD: Duration = Duration::from_millis(8);

/// What a sender counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncoderStats {
    /// Groups that were closed.
    pub groups: u64,
    /// Parities that went.
    pub sent: u64,
    /// Parities that were dropped: too many waited, or no path took datagrams as long.
    pub dropped: u64,
}

/// Where a packet goes that is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its group.
    pub group: u32,
    /// Its place in that.
    pub index: u8,
    /// Members that the group is to have.
    pub members: u8,
    coding: Coding,
}

/// A parity that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parity {
    /// Its group.
    pub group: u32,
    /// Members that the group has.
    pub members: u8,
    /// Which of the group's parities it is.
    pub index: u8,
    /// The sum of the members' symbols.
    pub symbol: Vec<u8>,
}

/// How many symbols of a group went by each path.
type Spread = [u8; PATHS_MAX];

/// A group that takes members. Invariants: `count < coding.members()`, the sum of `spread` is
/// `count`; there are `coding.parities()` sums, each as long as the longest symbol.
#[derive(Clone, Debug)]
struct Open {
    id: u32,
    coding: Coding,
    began: Instant,
    /// It is older than [`PATIENCE`].
    overdue: bool,
    count: u8,
    spread: Spread,
    sums: Vec<Vec<u8>>,
}

/// A group whose parity waits.
#[derive(Clone, Debug)]
struct Closed {
    id: u32,
    count: u8,
    coding: Coding,
    since: Instant,
    /// It has waited for longer than [`PATIENCE`].
    overdue: bool,
    spread: Spread,
    /// Those that have not gone, by their index.
    left: Vec<(u8, Vec<u8>)>,
}

/// Groups of one association's packets. Invariants: `open` and `closed` are in the order of their
/// beginnings and ends, at most 64 of each.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    open: VecDeque<Open>,
    closed: VecDeque<Closed>,
    next: u32,
    stats: EncoderStats,
    /// A deliberate bug: a wrong coefficient behind the symbols' heads.
    #[cfg(plant)]
    pub plant: bool,
}

/// Symbols of a group that a path may take where there are `paths`: as many as may be lost or,
/// where there are too few paths for that, an equal share.
fn share(coding: Coding, paths: usize) -> usize {
    let all = coding.members() + coding.parities();
    all.div_ceil(paths.max(1)).max(coding.parities())
}

fn on(spread: &Spread, path: PathId) -> usize {
    spread.get(usize::from(path.0)).copied().unwrap_or_default().into()
}

impl Encoder {
    /// What it has counted.
    pub const fn stats(&self) -> &EncoderStats {
        &self.stats
    }

    /// The group that the next packet of `path`, one of `paths`, joins: the oldest that it may.
    pub fn seat(&self, path: PathId, paths: usize, coding: Coding) -> Seat {
        let most = share(coding, paths);
        let takes = |g: &&Open| g.overdue || on(&g.spread, path) < most;
        let mut alike = self.open.iter().filter(|g| g.coding == coding);
        let full = self.open.len() >= OPEN_MAX;
        let joined = alike.clone().find(takes).or_else(|| alike.find(|_| full));
        let (group, index) = joined.map_or((self.next, 0), |g| (g.id, g.count));
        Seat { group, index, members: coding.members() as u8, coding }
    }

    /// A packet was written into its seat.
    pub fn add(
        &mut self,
        now: Instant,
        seat: Seat,
        (path, number): (PathId, u64),
        frames: &[u8],
        kernel: &dyn Kernel,
    ) {
        let at = self.open.iter().position(|g| g.id == seat.group);
        let at = at.unwrap_or_else(|| self.begin(now, seat));
        let group = &mut self.open[at];
        let len = SYMBOL_HEAD + frames.len();
        let mut head = [0; SYMBOL_HEAD];
        emit_symbol_head(&mut head, frames.len(), path, number);
        let member = usize::from(group.count);
        for (parity, sum) in group.sums.iter_mut().enumerate() {
            if sum.len() < len {
                sum.resize(len, 0);
            }
            let times = [coefficient(parity, member)];
            let (first, rest) = sum.split_at_mut(SYMBOL_HEAD);
            kernel.add(&[&times], &[&head], &mut [first]);
            #[cfg(plant)]
            let times = [times[0] ^ u8::from(self.plant && member == 1)];
            kernel.add(&[&times], &[frames], &mut [rest]);
        }
        if let Some(n) = group.spread.get_mut(usize::from(path.0)) {
            *n += 1;
        }
        group.count += 1;
        if usize::from(group.count) == group.coding.members() {
            self.close(now, at);
        }
    }

    fn begin(&mut self, now: Instant, seat: Seat) -> usize {
        if self.open.len() >= OPEN_MAX {
            self.close(now, 0); // of another coding
        }
        self.next = self.next.wrapping_add(1);
        self.open.push_back(Open {
            id: seat.group,
            coding: seat.coding,
            began: now,
            overdue: false,
            count: 0,
            spread: [0; PATHS_MAX],
            sums: alloc::vec![Vec::new(); seat.coding.parities()],
        });
        self.open.len() - 1
    }

    fn close(&mut self, now: Instant, at: usize) {
        let Some(Open { id, coding, count, spread, sums, .. }) = self.open.remove(at) else {
            return;
        };
        self.stats.groups += 1;
        if self.closed.len() == CLOSED_MAX
            && let Some(oldest) = self.closed.pop_front()
        {
            self.stats.dropped += oldest.left.len() as u64;
        }
        let left = (0..).zip(sums).collect();
        let overdue = false;
        self.closed.push_back(Closed { id, count, coding, since: now, overdue, spread, left });
    }

    /// Closes the groups that have waited; `waits`: there are packets to be sent that may still
    /// join them.
    pub fn handle_timeout(&mut self, now: Instant, waits: bool) {
        let mut at = 0;
        while let Some(group) = self.open.get_mut(at) {
            let age = now.since(group.began);
            group.overdue |= age >= PATIENCE;
            if age >= OLD || (group.overdue && !waits) {
                self.close(now, at);
            } else {
                at += 1;
            }
        }
        for group in &mut self.closed {
            group.overdue |= now.since(group.since) >= PATIENCE;
        }
    }

    /// When [`Encoder::handle_timeout`] is wanted next.
    pub fn poll_timeout(&self, waits: bool) -> Option<Instant> {
        let age = |g: &Open| if g.overdue && waits { OLD } else { PATIENCE };
        let open = self.open.iter().map(|g| g.began + age(g));
        let closed = self.closed.iter().filter(|g| !g.overdue).map(|g| g.since + PATIENCE);
        open.chain(closed).min()
    }

    fn waiting(&self, path: PathId, paths: usize) -> Option<usize> {
        let takes = |g: &Closed| g.overdue || on(&g.spread, path) < share(g.coding, paths);
        self.closed.iter().position(takes)
    }

    /// Whether some parity may go by `path`, one of `paths`.
    pub fn owes(&self, path: PathId, paths: usize) -> bool {
        self.waiting(path, paths).is_some()
    }

    /// Whether any parity waits.
    pub fn owes_any(&self) -> bool {
        !self.closed.is_empty()
    }

    /// The next parity that may go by `path`, one of `paths`, if its symbol has at most `room`
    /// bytes. One that is longer stays for another path, and is dropped where it is overdue.
    pub fn take(&mut self, path: PathId, paths: usize, room: usize) -> Option<Parity> {
        let at = self.waiting(path, paths)?;
        let group = &mut self.closed[at];
        let (index, symbol) = group.left.pop()?;
        if symbol.len() > room {
            if group.overdue {
                self.stats.dropped += 1;
            } else {
                group.left.push((index, symbol));
                // Not by this one.
                if let Some(n) = group.spread.get_mut(usize::from(path.0)) {
                    *n = MEMBERS_MAX as u8;
                }
            }
            self.forget_empty(at);
            return None;
        }
        self.stats.sent += 1;
        let parity = Parity { group: group.id, members: group.count, index, symbol };
        if let Some(n) = group.spread.get_mut(usize::from(path.0)) {
            *n += 1;
        }
        self.forget_empty(at);
        Some(parity)
    }

    fn forget_empty(&mut self, at: usize) {
        if self.closed[at].left.is_empty() {
            self.closed.remove(at);
        }
    }
}
