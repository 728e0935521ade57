//! What a host keeps of chains.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::Block;
use towpath_vm::data::{Continued, Placed};
use towpath_vm::message::TaskEnded;
use towpath_wire::talk::Header;
use towpath_wire::{HostId, Instant, TaskId};

use super::open::Open;
use crate::data::Delivery;

/// Messages of so many bytes go along a chain; shorter ones would gain less than they wait.
pub const RELAY_MIN: u64 = 8 << 10;
/// Bytes of a piece on its way along a chain, unless its list of receivers is long: with what
/// stands in front, two datagrams of an Ethernet. Each host of a chain adds the time of a piece.
pub const RELAY_PIECE: usize = 2600;
/// Hosts of a chain; further ones have a chain of their own.
pub const CHAIN_MAX: usize = 16;
/// Bytes of pieces that an origin keeps until they have arrived everywhere.
pub const HELD_MAX: u64 = 16 << 20;
/// Bytes of pieces on their way through a host.
pub const PASSING_MAX: u64 = 64 << 20;
/// Receivers of a list that hosts on the way remember; longer ones come with each piece.
pub(super) const LIST_MAX: usize = 64;
/// Pieces that are acknowledged together, and how long the first of them waits.
pub(super) const ACKS: usize = 16;
pub(super) const ACK_AFTER: Duration = Duration::from_millis(2);

/// Senders whose end is remembered, the last ones.
const OVER_MAX: usize = 1024;

/// The receivers of one host.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) host: HostId,
    /// With the number of the message and the place of the piece that was charged.
    pub(super) receivers: Vec<(TaskId, u32, u32)>,
}

impl Leg {
    pub(super) fn receivers(&self, shift: u32) -> impl Iterator<Item = (TaskId, u32, u32)> + '_ {
        self.receivers.iter().map(move |(task, seq, at)| (*task, *seq, at.wrapping_add(shift)))
    }
}

/// A piece of ours that has not arrived everywhere.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) payload: Block,
    pub(super) len: u32,
    pub(super) header: Header,
    /// Charged bytes of the piece that was charged which come before it.
    pub(super) shift: u32,
    /// All hosts, in chains of [`CHAIN_MAX`].
    pub(super) legs: Arc<Vec<Leg>>,
    /// Those that have not answered.
    pub(super) open: BTreeSet<HostId>,
}

/// Whom the pieces that go on from a piece are for, and what they are part of.
#[derive(Debug)]
pub(super) struct List {
    pub(super) number: u64,
    pub(super) header: Header,
    pub(super) receivers: Vec<(TaskId, u32, u32)>,
}

/// A block on its way through this host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing {
    pub(super) origin: HostId,
    pub(super) number: u64,
    pub(super) len: u32,
}

/// Invariants: `open` counts, for each host and sender, the pieces of `held` whose `open` has the
/// host, and the long messages' pieces that wait or are under way to it; `ended` has keys of `open`
/// only; `passing_bytes` sums `passing`.
#[derive(Debug, Default)]
pub(crate) struct Relays {
    // As an origin.
    pub(super) last: u64,
    pub(super) held: BTreeMap<u64, Held>,
    pub(super) held_bytes: u64,
    /// Hosts that were told what to take, and whether they answered.
    pub(super) ready: BTreeMap<HostId, bool>,
    pub(super) open: Open,
    /// Ends of tasks to be told once nothing of theirs is on the way.
    pub(super) ended: BTreeMap<(HostId, TaskId), TaskEnded>,
    pub(super) again: BTreeSet<(u64, HostId)>,
    // As a host on the way, by the next host.
    pub(super) passing: BTreeMap<HostId, BTreeMap<u32, Passing>>,
    pub(crate) passing_bytes: u64,
    /// The last list that came, by the host that it came from and the origin ...
    pub(super) lists: BTreeMap<(HostId, HostId), List>,
    /// ... and the number of the one that was passed on, by the next host and the origin.
    pub(crate) passed_on: BTreeMap<(HostId, HostId), u64>,
    // As a receiver's host.
    pub(super) first: BTreeMap<HostId, u64>,
    pub(super) acks: BTreeMap<HostId, Vec<u64>>,
    pub(crate) ack_at: Option<Instant>,
    /// Pieces that came before their turn, by receiver and sender, by place.
    pub(crate) early: BTreeMap<(TaskId, TaskId), BTreeMap<u64, Delivery>>,
    /// Senders that have ended: what came of them by one way may still come by another.
    over: VecDeque<TaskId>,
    /// Pieces passed on, and sent again, so far.
    pub(crate) passed: u64,
    pub(crate) repeated: u64,
}

impl Relays {
    /// Whether pieces to `host` are on their way, or ends of tasks wait for them.
    pub(crate) fn any_for(&self, host: HostId) -> bool {
        self.open.any_for(host)
    }

    /// The end of a task is to be told to `host`: false when it must wait, and will be told.
    pub(crate) fn may_end(&mut self, host: HostId, ended: &TaskEnded) -> bool {
        let open = self.is_open(host, ended.task);
        if open {
            self.ended.insert((host, ended.task), ended.clone());
        }
        !open
    }

    /// Whether pieces of `task` are on their way to `host`: its end is told there behind them.
    pub(crate) fn is_open(&self, host: HostId, task: TaskId) -> bool {
        self.open.has(host, task)
    }

    /// What is left, for those who look for leaks.
    pub(crate) fn remains(&self) -> [(&'static str, u64); 4] {
        let count = |n: usize| n as u64;
        [
            ("pieces on chains", count(self.held.len())),
            ("pieces passing", count(self.passing.values().map(BTreeMap::len).sum())),
            ("pieces before their turn", count(self.early.values().map(BTreeMap::len).sum())),
            ("ends to tell", count(self.ended.len())),
        ]
    }

    /// `task` and `peer` have nothing more to do with each other: what was early is dropped.
    pub(crate) fn part(&mut self, task: TaskId, peer: TaskId, dropped: &mut Vec<Block>) {
        let early = self.early.remove(&(task, peer)).unwrap_or_default();
        dropped.extend(early.into_values().map(|delivery| delivery.block));
    }

    /// `peer`, of whose pieces each may come any number of times, has ended.
    pub(crate) fn end(&mut self, peer: TaskId) {
        if self.first.contains_key(&peer.host()) {
            self.over.truncate(OVER_MAX - 1);
            self.over.push_front(peer);
        }
    }

    /// Whether it has, as far as is remembered. To be asked only for those that have no pair.
    pub(super) fn is_over(&self, peer: TaskId) -> bool {
        self.over.contains(&peer)
    }

    /// `task` has nothing more to do with anybody.
    pub(crate) fn part_all(&mut self, task: TaskId, dropped: &mut Vec<Block>) {
        let of = (task, TaskId::MIN)..=(task, TaskId::MAX);
        let peers: Vec<TaskId> = self.early.range(of).map(|((_, peer), _)| *peer).collect();
        for peer in peers {
            self.part(task, peer, dropped);
        }
    }

    /// A piece of `task`'s is on its way to `host`, whose arrival its end waits for.
    pub(crate) fn departs(&mut self, host: HostId, task: TaskId) {
        self.open.add(host, task, 1);
    }

    /// A block that passed this host is at the next one.
    pub(crate) fn sent(&mut self, next: HostId, block: Block) {
        let Some(passing) = self.passing.get_mut(&next) else { return };
        if let Some(piece) = passing.remove(&block.index) {
            self.passing_bytes -= u64::from(piece.len);
        }
        if passing.is_empty() {
            self.passing.remove(&next);
        }
    }

    /// Lists that are remembered.
    #[cfg(test)]
    pub(crate) fn lists(&self) -> usize {
        self.lists.len()
    }

    /// A piece of `src`'s, number 1, is on its way to `host`; or `host` was only asked whether it
    /// takes what comes by others.
    #[cfg(test)]
    pub(crate) fn stage(&mut self, host: HostId, src: TaskId, asked_only: bool) {
        if asked_only {
            self.ready.insert(host, false);
            return;
        }
        let (src, dst, total) = (src, src, 0);
        let header = Header { src, dst, tag: 0, context: 0, seq: 0, format: 0, total, offset: 0 };
        let payload = Block { index: 0, generation: 0 };
        let legs = Arc::new(alloc::vec![Leg { host, receivers: Vec::new() }]);
        let open = [host].into();
        self.held.insert(1, Held { payload, len: 0, header, shift: 0, legs, open });
        self.open.add(host, src, 1);
    }

    /// `host` and those behind it in its chain, as far as they have not answered.
    pub(super) fn from_on(held: &Held, host: HostId) -> Vec<HostId> {
        let chain = held.legs.chunks(CHAIN_MAX).find(|c| c.iter().any(|leg| leg.host == host));
        let chain = chain.into_iter().flatten().map(|leg| leg.host);
        chain.skip_while(|h| *h != host).filter(|h| held.open.contains(h)).collect()
    }
}

/// What stands in front of a piece that goes on from piece `base` in short, if it can.
pub(super) fn continued(
    header: &Header,
    placed: &Placed,
    shift: u32,
    base: u64,
) -> Option<Vec<u8>> {
    let back = u16::try_from(placed.number - base).ok()?;
    let short = placed.receivers.len() <= LIST_MAX;
    let Placed { number, .. } = *placed;
    short.then(|| Continued { number, src: header.src, back, shift }.front())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(slot: u16) -> HostId {
        HostId::new(slot, 1).expect("a slot")
    }

    fn task(slot: u16, number: u32) -> TaskId {
        host(slot).task(number).expect("a number")
    }

    #[test]
    fn the_last_senders_that_ended_are_remembered_of_hosts_whose_pieces_may_come_twice() {
        let mut relays = Relays::default();
        relays.first.insert(host(1), 1);
        let most = OVER_MAX as u32;
        for n in 1..=most {
            relays.end(task(1, n));
        }
        relays.end(task(2, 1));
        assert!(relays.is_over(task(1, 1)) && relays.is_over(task(1, most)));
        assert!(!relays.is_over(task(2, 1)), "its pieces come once");
        relays.end(task(1, most + 1));
        assert!(relays.is_over(task(1, most + 1)) && relays.is_over(task(1, 2)));
        assert!(!relays.is_over(task(1, 1)), "too many came after it");
        assert_eq!(relays.over.len(), OVER_MAX);
    }

    #[test]
    fn the_end_of_a_sender_waits_for_its_last_piece_and_for_nobody_elses() {
        let mut relays = Relays::default();
        let ended = |task| TaskEnded { task, ending: None };
        assert!(relays.may_end(host(1), &ended(task(3, 1))));
        relays.departs(host(1), task(3, 1));
        assert!(relays.any_for(host(1)) && !relays.any_for(host(2)));
        assert!(relays.may_end(host(2), &ended(task(3, 1))), "another host");
        assert!(relays.may_end(host(1), &ended(task(3, 2))), "another sender");
        assert!(!relays.may_end(host(1), &ended(task(3, 1))));
        assert_eq!(relays.remains()[3], ("ends to tell", 1));
    }

    #[test]
    fn blocks_on_their_way_are_counted_until_they_are_there() {
        let mut relays = Relays::default();
        let block = |index| Block { index, generation: 0 };
        for (next, index, len) in [(1, 1, 100), (1, 2, 20), (2, 1, 3)] {
            let piece = Passing { origin: host(9), number: index.into(), len };
            relays.passing.entry(host(next)).or_default().insert(index, piece);
            relays.passing_bytes += u64::from(len);
        }
        for (next, index, left) in [(1, 1, 23), (1, 1, 23), (3, 1, 23), (1, 2, 3), (2, 1, 0)] {
            relays.sent(host(next), block(index));
            assert_eq!(relays.passing_bytes, left, "{index} to {next}");
        }
        assert!(relays.passing.is_empty());
    }

    #[test]
    fn a_long_list_and_one_of_long_ago_come_with_each_piece() {
        let (src, dst) = (task(1, 1), task(2, 1));
        let header =
            Header { src, dst, tag: 0, context: 0, seq: 0, format: 0, total: 9, offset: 0 };
        let placed = |number, receivers| {
            let receivers = alloc::vec![(dst, 0, 0); receivers];
            Placed { number, goes_on: true, receivers }
        };
        let far = u64::from(u16::MAX);
        for (number, receivers, is_short) in [
            (5, 1, true),
            (5, LIST_MAX, true),
            (5, LIST_MAX + 1, false),
            (4 + far, 1, true),
            (5 + far, 1, false),
        ] {
            let front = continued(&header, &placed(number, receivers), 7, 4);
            assert_eq!(front.is_some(), is_short, "{number} for {receivers}");
            if let Some(front) = front {
                let continued = Continued::parse(&front).expect("it is one").expect("it is whole");
                let back = (number - 4) as u16;
                assert_eq!(continued, Continued { number, src, back, shift: 7 });
            }
        }
    }
}
