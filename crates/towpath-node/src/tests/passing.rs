//! Pieces that come by way of other hosts, by hand: which are taken, kept, passed on and answered.

use alloc::vec::Vec;

use towpath_proto::{AssociationId, HeapMemory, Memory};
use towpath_vm::Message;
use towpath_vm::data::{Continued, Placed};
use towpath_vm::message::{Numbers, Relay};
use towpath_wire::talk::{Header, PIECE_CHARGE};
use towpath_wire::{ChannelId, HostId, TaskId};

use super::contact::four;
use super::{NOW, enrol, events};
use crate::relay::PASSING_MAX;
use crate::{Node, NodeEvent};

/// A receiver on this host; a sender on the second one, whose pieces come by the third; and the
/// fourth, which is next.
struct Way {
    node: Node,
    memory: HeapMemory,
    mine: TaskId,
    src: TaskId,
    next: TaskId,
    from: HostId,
}

const LEN: usize = 9;

impl Way {
    fn new() -> Self {
        let (mut node, [origin, from, next], mut memory) = four();
        let mine = enrol(&mut node, &mut memory);
        for (n, host) in [origin, from, next].into_iter().enumerate() {
            node.peers.set_up(host, AssociationId(n as u32));
        }
        node.handle_relay(NOW, origin, Relay { first: 10 });
        events(&mut node);
        let [src, next] = [origin, next].map(|host| host.task(1).expect("a task"));
        Self { node, memory, mine, src, next, from }
    }

    fn header(&self, total: u64, offset: u64) -> Header {
        let (src, dst) = (self.src, self.src);
        Header { src, dst, tag: 0, context: 0, seq: 0, format: 0, total, offset }
    }

    fn comes(&mut self, from: HostId, parts: &[&[u8]]) {
        let block = self.memory.put_parts(parts).expect("there is room");
        let via = (AssociationId(0), ChannelId(6));
        self.node.handle_data(NOW, from, via, block, &mut self.memory);
    }

    /// A piece of this number for this host's task, at this place, and for others.
    fn piece(&mut self, number: u64, place: u32, others: &[TaskId]) {
        let total = LEN as u64 * 2;
        self.piece_of(number, self.header(total, 0), place, others);
    }

    fn piece_of(&mut self, number: u64, header: Header, place: u32, others: &[TaskId]) {
        let mut receivers: Vec<_> = others.iter().map(|task| (*task, 0, 0)).collect();
        receivers.insert(0, (self.mine, 0, place));
        let placed = Placed { number, goes_on: false, receivers };
        let from = self.from;
        self.comes(from, &[&placed.front(), &header.emit(), &[5; LEN]]);
    }

    /// One that goes on from the piece `back` before it.
    fn goes_on(&mut self, number: u64, back: u16, shift: u32, len: usize) {
        let continued = Continued { number, src: self.src, back, shift };
        let from = self.from;
        self.comes(from, &[&continued.front(), &alloc::vec![6; len]]);
    }

    /// What was handed on: where in its message it is, and its length.
    fn given(&mut self) -> Vec<(u64, u32)> {
        let given = |event| match event {
            NodeEvent::Deliver(delivery) => Some((delivery.header.offset, delivery.len)),
            _ => None,
        };
        let news = events(&mut self.node).into_iter();
        news.filter_map(given).collect()
    }

    /// What the sender's host was told that arrived, and that did not.
    fn answers(&self) -> (Vec<u64>, Vec<u64>) {
        let (mut there, mut not) = (Vec::new(), Vec::new());
        for message in self.node.queued(self.src.host()) {
            let (all, Numbers { ranges }) = match message {
                Message::Relayed(numbers) => (&mut there, numbers),
                Message::Unrelayed(numbers) => (&mut not, numbers),
                _ => continue,
            };
            all.extend(ranges.iter().flat_map(|(first, last)| *first..=*last));
        }
        (there, not)
    }

    fn passed(&self) -> u64 {
        self.node.data.relays.passed
    }

    fn settle(&mut self) {
        let at = NOW + core::time::Duration::from_millis(2);
        self.node.settle_acks(at);
    }
}

const fn charge(len: usize) -> u32 {
    len as u32 + PIECE_CHARGE as u32
}

#[test]
fn pieces_of_this_association_are_handed_on_in_their_turn_and_answered() {
    let mut way = Way::new();
    let first = charge(LEN);
    way.piece(11, first, &[]);
    assert_eq!((way.given(), way.answers().0), ([].into(), [].into()), "it is early");
    way.piece(10, 0, &[]);
    assert_eq!(way.given().first(), Some(&(0, LEN as u32)), "the first of this association");
    way.piece(9, first * 2, &[]);
    way.settle();
    assert_eq!(way.answers(), ([10, 11].into(), [].into()), "one of an earlier one is dropped");
    assert_eq!(way.node.malformed(), 0);
}

#[test]
fn the_end_of_a_message_is_answered_at_once_and_the_rest_together() {
    let mut way = Way::new();
    way.piece(10, 0, &[]);
    assert_eq!(way.answers().0, [], "more comes");
    let last = way.header(LEN as u64 * 2, LEN as u64);
    way.piece_of(11, last, charge(LEN), &[]);
    assert_eq!(way.answers().0, [10, 11]);
    let mut way = Way::new();
    for number in 10..25 {
        way.piece(number, 0, &[]);
    }
    assert_eq!(way.answers().0, []);
    way.piece(25, 0, &[]);
    assert_eq!(way.answers().0, (10..26).collect::<Vec<_>>(), "sixteen");
    let mut way = Way::new();
    way.piece(10, 0, &[]);
    way.node.settle_acks(NOW + core::time::Duration::from_nanos(1_999_999));
    assert_eq!(way.answers().0, []);
    way.settle();
    assert_eq!(way.answers().0, [10]);
}

#[test]
fn a_piece_for_nobody_here_or_of_our_own_is_what_no_daemon_says() {
    for case in 0..4 {
        let mut way = Way::new();
        let header = way.header(LEN as u64 * 2, 0);
        let (me, next) = (way.mine, way.next);
        let (receivers, src, goes_on) = match case {
            0 => ([(next, 0, 0)], way.src, false),
            1 => ([(me, 0, 0)], me, false),
            2 => ([(me, 0, 0)], way.src, true),
            _ => ([(me, 0, 0)], way.src, false),
        };
        let placed = Placed { number: 10, goes_on, receivers: receivers.into() };
        let payload: &[u8] = if goes_on { &[] } else { &[5; LEN] };
        let from = way.from;
        let header = Header { src, ..header };
        way.comes(from, &[&placed.front(), &header.emit(), payload]);
        assert_eq!(way.node.malformed(), u64::from(case < 3), "{case}");
        assert_eq!(way.given().len(), usize::from(case == 3), "{case}");
    }
}

#[test]
fn a_piece_without_a_number_comes_from_its_senders_host_and_for_tasks_here() {
    for (by_itself, with_others) in [(true, false), (false, false), (true, true)] {
        let mut way = Way::new();
        let header = way.header(LEN as u64, 0);
        let from = if by_itself { way.src.host() } else { way.from };
        let other = enrol(&mut way.node, &mut way.memory);
        events(&mut way.node);
        let mut receivers = alloc::vec![(way.mine, 0, 0), (other, 0, 0)];
        receivers.extend(Some((way.next, 0, 0)).filter(|_| with_others));
        let placed = Placed { number: 0, goes_on: false, receivers };
        way.comes(from, &[&placed.front(), &header.emit(), &[5; LEN]]);
        let taken = by_itself && !with_others;
        assert_eq!(way.given().len(), 2 * usize::from(taken), "{by_itself} {with_others}");
        assert_eq!((way.passed(), way.answers()), (0, ([].into(), [].into())));
        assert_eq!(way.node.data.relays.lists(), 0, "nothing goes on from it");
    }
}

#[test]
fn what_goes_on_from_a_piece_is_what_that_one_said_further_on() {
    let mut way = Way::new();
    let total = 3 * LEN as u64;
    let first = way.header(total, 0);
    way.piece_of(10, first, 0, &[]);
    way.goes_on(11, 1, charge(LEN), LEN);
    way.goes_on(12, 2, charge(2 * LEN), LEN);
    let all: Vec<_> = [0, 1, 2].map(|n| (n * LEN as u64, LEN as u32)).into();
    assert_eq!((way.given(), way.answers()), (all, ([10, 11, 12].into(), [].into())));
    let mut way = Way::new();
    way.piece_of(10, first, 0, &[]);
    way.given();
    // Nothing that it goes on from, no shift that there is, or more than there is to be.
    for (number, back, shift, len) in [
        (13, 2, charge(LEN), LEN),
        (14, 4, PIECE_CHARGE as u32 - 1, LEN),
        (15, 5, charge(LEN), 2 * LEN + 1),
        (16, 6, charge(3 * LEN) + 1, LEN),
        (17, 7, u32::MAX, LEN),
    ] {
        way.goes_on(number, back, shift, len);
        assert_eq!(way.answers().1.last(), Some(&number), "{number}");
    }
    let other = way.src.host().task(2).expect("a task");
    let from = way.from;
    let continued = Continued { number: 18, src: other, back: 8, shift: charge(LEN) };
    way.comes(from, &[&continued.front(), &[6; LEN]]);
    assert_eq!(way.answers().1, [13, 14, 15, 16, 17, 18]);
    way.goes_on(19, 9, charge(LEN), 2 * LEN);
    assert_eq!((way.given(), way.answers().1.len()), ([(LEN as u64, 18)].into(), 6));
    assert_eq!(way.node.malformed(), 0);
}

#[test]
fn lists_are_remembered_of_senders_that_are_known_and_not_too_long() {
    let remembers = |way: &Way| way.node.data.relays.lists() == 1;
    let mut way = Way::new();
    way.piece(10, 0, &[]);
    assert!(remembers(&way));
    let mut way = Way::new();
    let origin = way.src.host();
    way.node.peers.remove(origin);
    way.piece(10, 0, &[]);
    assert!(!remembers(&way) && way.given().is_empty(), "nobody knows its host");
    for (others, is_short) in [(63, true), (64, false)] {
        let mut way = Way::new();
        let host = way.next.host();
        let tasks: Vec<TaskId> = (1..=others).map(|n| host.task(n).expect("a task")).collect();
        way.piece(10, 0, &tasks);
        assert_eq!((remembers(&way), way.passed()), (is_short, 1), "{others}");
    }
    let mut way = Way::new();
    let placed = Placed { number: 10, goes_on: true, receivers: [(way.mine, 0, 0)].into() };
    let (from, header) = (way.from, way.header(LEN as u64, 0));
    way.comes(from, &[&placed.front(), &header.emit(), &[5; LEN]]);
    assert!(!remembers(&way), "it has its own list, and goes on from nothing");
}

#[test]
fn what_others_are_to_have_goes_on_to_the_next_that_is_there() {
    let mut way = Way::new();
    let next = way.next;
    way.piece(10, 0, &[next]);
    let relays = &way.node.data.relays;
    assert_eq!((relays.passed, relays.passed_on.get(&(next.host(), way.src.host()))), {
        (1, Some(&10))
    });
    let long = relays.passing_bytes;
    way.goes_on(11, 1, charge(LEN), LEN);
    let relays = &way.node.data.relays;
    let short = relays.passing_bytes - long;
    assert_eq!((relays.passed, short), (2, (Continued::LEN + LEN) as u64), "in short");
    // The next one has another list by now: it is told all again.
    let key = (next.host(), way.src.host());
    way.node.data.relays.passed_on.insert(key, 9);
    way.goes_on(12, 2, charge(LEN), 1);
    assert!(way.node.data.relays.passing_bytes - long - short > short);
    // Nobody is behind this host who is there.
    super::append(&mut way.node, towpath_vm::Change::Lost(next.host()));
    way.piece(13, 0, &[next]);
    assert_eq!((way.passed(), way.answers().1), (3, [].into()));
}

#[test]
fn what_finds_no_room_on_its_way_is_taken_here_and_told_not_to_have_got_further() {
    for (bytes, fits) in [(PASSING_MAX - 1, true), (PASSING_MAX, false)] {
        let mut way = Way::new();
        way.node.data.relays.passing_bytes = bytes;
        let next = way.next;
        way.piece(10, 0, &[next]);
        assert_eq!(way.given().len(), 1);
        let answers = if fits { ([].into(), [].into()) } else { ([10].into(), [10].into()) };
        assert_eq!((way.passed(), way.answers()), (u64::from(fits), answers), "{bytes}");
    }
}

#[test]
fn early_pieces_are_kept_where_they_do_not_overlap_and_within_what_was_granted() {
    let mut way = Way::new();
    let one = charge(LEN);
    let kept = |way: &Way| {
        let early = way.node.data.relays.early.values().flat_map(|early| early.keys());
        early.copied().collect::<Vec<u64>>()
    };
    for (number, place) in [(10, one), (11, 2 * one - 1), (12, 1), (13, 2 * one), (14, one)] {
        way.piece(number, place, &[]);
    }
    assert_eq!(kept(&way), [u64::from(one), 2 * u64::from(one)], "side by side");
    for (number, place) in [(15, 1 << 30), (16, u32::MAX)] {
        way.piece(number, place, &[]);
    }
    assert_eq!(kept(&way).len(), 2, "beyond what was granted, and before the first");
}

#[test]
fn an_early_piece_is_kept_without_a_long_front() {
    for (len, others, is_alone) in [(LEN, 1, false), (LEN, 40, true), (700, 40, false)] {
        let mut way = Way::new();
        let host = way.next.host();
        let tasks: Vec<TaskId> = (1..=others).map(|n| host.task(n).expect("a task")).collect();
        let mut receivers: Vec<_> = tasks.iter().map(|task| (*task, 0, 0)).collect();
        receivers.push((way.mine, 0, charge(len)));
        let placed = Placed { number: 10, goes_on: false, receivers };
        let (from, header) = (way.from, way.header(2 * len as u64, 0));
        way.comes(from, &[&placed.front(), &header.emit(), &alloc::vec![5; len]]);
        let early = way.node.data.relays.early.values().flat_map(|early| early.values());
        let at: Vec<bool> = early.map(|delivery| delivery.at == 0).collect();
        assert_eq!(at, [is_alone], "{len} for {others}");
    }
}

#[test]
fn whoever_sends_more_than_was_granted_is_cut_off_only_where_it_does_so_itself() {
    let past = towpath_vm::talk::CREDIT_FIRST as usize + 1;
    for by_itself in [true, false] {
        let mut way = Way::new();
        let from = if by_itself { way.src.host() } else { way.from };
        let header = way.header(1 << 20, 0);
        let placed = Placed { number: 10, goes_on: false, receivers: [(way.mine, 0, 0)].into() };
        way.comes(from, &[&placed.front(), &header.emit(), &alloc::vec![5; past]]);
        assert_eq!(way.node.peers.faulty.contains(&from), by_itself);
    }
}

#[test]
fn with_a_connection_goes_what_depended_on_it_and_nothing_else() {
    let stage = || {
        let mut way = Way::new();
        let next = way.next;
        way.piece(10, 0, &[next]);
        assert_eq!((way.node.data.relays.lists(), way.node.data.relays.passed_on.len()), (1, 1));
        way
    };
    let (origin, from, next) = {
        let way = stage();
        (way.src.host(), way.from, way.next.host())
    };
    let stranger = HostId::new(9, 9).expect("a host");
    for (host, lists, passed_on, is_refused) in
        [(stranger, 1, 1, false), (from, 0, 1, false), (next, 1, 0, true), (origin, 0, 0, false)]
    {
        let mut way = stage();
        way.node.relays_over(NOW, host);
        let relays = &way.node.data.relays;
        assert_eq!((relays.lists(), relays.passed_on.len()), (lists, passed_on), "{host}");
        assert_eq!(relays.passing_bytes > 0, host != next, "{host}");
        assert_eq!(way.answers().1, Vec::from_iter(is_refused.then_some(10)), "{host}");
    }
}
