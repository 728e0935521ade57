//! What must hold in every order of events.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::sync::Notify;
use loom::thread;

use super::arena::{Arena, filled};
use super::card::{OwnCard, epoch_of, must_be_woken};
use super::layout::{ArenaShape, HALF_LEN, SHORT_MAX, SLOTS, TINY_MAX};
use super::memory::Memory;
use super::record::{Body, Head};
use super::returns::{Reclaimer, Returner};
use super::ring::{Consumer, Producer, is_wanting};

/// Switches between threads that are not forced, in one run.
const SWITCHES: usize = 3;

/// Runs a model in every order of events; how many runs those were.
pub(super) fn check(model: fn()) -> usize {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(SWITCHES);
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        model();
    });
    runs.load(Ordering::Relaxed)
}

/// All models by name.
pub(super) const ALL: &[(&str, fn())] = &[
    ("tiny messages come once in order and whole", tiny_messages_come_once_in_order_and_whole),
    ("short messages come once in order and whole", short_messages_come_once_in_order_and_whole),
    ("no message waits for a sleeper", no_message_waits_for_a_sleeper),
    ("no room is given without waking who wants it", no_room_is_given_without_waking_who_wants_it),
    ("tickets come back once each", tickets_come_back_once_each),
    ("a block is not written while it is read", a_block_is_not_written_while_it_is_read),
    ("a block is filled as far as it says", a_block_is_filled_as_far_as_it_says),
    ("a sender dead at any point has sent whole messages", a_dead_sender_has_sent_whole_messages),
    (
        "no block is given back without waking who wants it",
        no_block_is_given_back_without_waking_who_wants_it,
    ),
    ("two that come last wake who sleeps", two_that_come_last_wake_who_sleeps),
    ("a barrier leaves nobody asleep", a_barrier_leaves_nobody_asleep),
];

fn head(seq: u32, len: usize) -> Head {
    Head { tag: 5, context: 6, seq, format: 7, total: len as u64, offset: 0 }
}

fn half() -> Arc<Memory> {
    Arc::new(Memory::new(HALF_LEN))
}

/// The halves of a sender and of a receiver, and the ends.
fn ring() -> (Producer, Consumer, [Arc<Memory>; 2]) {
    let [near, far] = [half(), half()];
    let producer = Producer::new(Arc::clone(&near), Arc::clone(&far));
    let shape = ArenaShape::holding(1);
    (producer, Consumer::new(Arc::clone(&far), Arc::clone(&near), shape), [near, far])
}

fn data(seq: u32, len: usize) -> Vec<u8> {
    vec![seq as u8 + 1; len]
}

/// Takes messages until `count` have come, each as it was sent.
fn receive(consumer: &mut Consumer, count: u32, len: usize) {
    for seq in 0..count {
        while consumer.peek().expect("intact").is_none() {
            if consumer.has_untold() {
                consumer.tell();
            }
            thread::yield_now();
        }
        let record = *consumer.next().expect("peeked");
        assert_eq!(record.head(), head(seq, len), "in order, once, whole");
        let mut payload = vec![0; len];
        if consumer.take_short(&mut payload) {
            consumer.tell();
        }
        assert_eq!(payload, data(seq, len));
    }
}

fn send(producer: &mut Producer, count: u32, len: usize) {
    for seq in 0..count {
        while !producer.push(&head(seq, len), &data(seq, len)).expect("intact") {
            thread::yield_now();
        }
    }
}

/// More records than the ring holds, so that places are used again.
fn flow(len: usize) {
    let (mut producer, mut consumer, _) = ring();
    let count = SLOTS as u32 + 1;
    let sender = thread::spawn(move || send(&mut producer, count, len));
    receive(&mut consumer, count, len);
    sender.join().expect("sends");
}

fn tiny_messages_come_once_in_order_and_whole() {
    flow(TINY_MAX);
}

fn short_messages_come_once_in_order_and_whole() {
    flow(SHORT_MAX);
}

/// The receiver sleeps when it sees nothing; loom reports a sleeper that nobody wakes.
fn no_message_waits_for_a_sleeper() {
    let (mut producer, mut consumer, _) = ring();
    let segment = Arc::new(Memory::new(ArenaShape::holding(1).segment_len()));
    let (card, bell) = (OwnCard::new(Arc::clone(&segment)), Arc::new(Notify::new()));
    let rung = Arc::clone(&bell);
    let sender = thread::spawn(move || {
        for seq in 0..2 {
            assert!(producer.push(&head(seq, 8), &data(seq, 8)).expect("intact"));
            if must_be_woken(&segment) {
                rung.notify();
            }
        }
    });
    for seq in 0..2 {
        while !consumer.ready() {
            card.sleep();
            if !consumer.ready() {
                bell.wait();
            }
            card.run_on(0);
        }
        assert_eq!(consumer.peek().expect("intact").expect("ready").head().seq, seq);
        consumer.take_short(&mut [0; 8]);
    }
    sender.join().expect("sends");
}

/// The sender sleeps when the ring is full; the receiver takes and tells.
fn no_room_is_given_without_waking_who_wants_it() {
    let (mut producer, mut consumer, _) = ring();
    let segment = Arc::new(Memory::new(ArenaShape::holding(1).segment_len()));
    let (card, bell) = (OwnCard::new(Arc::clone(&segment)), Arc::new(Notify::new()));
    let rung = Arc::clone(&bell);
    let count = SLOTS as u32 + 1;
    let receiver = thread::spawn(move || {
        for _ in 0..count {
            while consumer.peek().expect("intact").is_none() {
                thread::yield_now();
            }
            consumer.take_short(&mut [0; 8]);
            if consumer.tell() && must_be_woken(&segment) {
                rung.notify();
            }
        }
    });
    for seq in 0..count {
        while !producer.push(&head(seq, 8), &data(seq, 8)).expect("intact") {
            producer.want(true);
            card.sleep();
            if !producer.has_room(8).expect("intact") {
                bell.wait();
            }
            card.run_on(0);
        }
    }
    receiver.join().expect("takes");
}

/// Two views dropped by two threads; the owner sees each ticket once.
fn tickets_come_back_once_each() {
    let far = half();
    let returner = Arc::new(Returner::new(Arc::clone(&far)));
    let other = Arc::clone(&returner);
    let giver = thread::spawn(move || other.give(0));
    returner.give(1);
    let mut reclaimer = Reclaimer::new(far);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        match reclaimer.next() {
            Some(ticket) => seen.push(ticket),
            None => thread::yield_now(),
        }
    }
    giver.join().expect("gives");
    seen.sort_unstable();
    assert_eq!((seen, reclaimer.next()), (vec![0, 1], None));
}

/// The owner writes a block again once it came back: the reader has read what was there before.
fn a_block_is_not_written_while_it_is_read() {
    let (mut producer, mut consumer, [_, far]) = ring();
    let mut reclaimer = Reclaimer::new(Arc::clone(&far));
    let shape = ArenaShape::holding(1);
    let segment = Arc::new(Memory::new(shape.segment_len()));
    let arena = Arena::new(Arc::clone(&segment), shape);
    let receiver = thread::spawn(move || {
        while consumer.peek().expect("intact").is_none() {
            thread::yield_now();
        }
        let record = *consumer.next().expect("peeked");
        let Body::Block { page, len, ticket, .. } = record.body() else { panic!("a block") };
        let mut payload = [0; 8];
        segment.read(shape.page(page), &mut payload[..len]);
        assert_eq!(payload, [1; 8]);
        Returner::new(far).give(ticket);
    });
    let mut block = arena.alloc(8).expect("a block").filling();
    block.append(&[1; 8]);
    let body = Body::Block { page: block.page(), len: 8, ticket: 0, filling: false };
    assert!(producer.push_body(&head(0, 8), body).expect("intact"));
    while reclaimer.next().is_none() {
        thread::yield_now();
    }
    drop(block);
    arena.alloc(8).expect("a block").filling().append(&[2; 8]);
    receiver.join().expect("reads");
}

/// What is said to be filled is there.
fn a_block_is_filled_as_far_as_it_says() {
    let shape = ArenaShape::holding(1);
    let segment = Arc::new(Memory::new(shape.segment_len()));
    let arena = Arena::new(Arc::clone(&segment), shape);
    let mut block = arena.alloc(16).expect("a block").filling();
    let page = block.page();
    let sender = thread::spawn(move || {
        block.append(&[1; 8]);
        block.append(&[2; 8]);
        block
    });
    let there = filled(&segment, page, 16);
    let mut payload = [0; 16];
    segment.read(shape.page(page), &mut payload[..there]);
    let expected: Vec<u8> = [1; 8].into_iter().chain([2; 8]).take(there).collect();
    assert_eq!(payload[..there], expected);
    drop(sender.join().expect("fills"));
}

/// A block given back while its owner waits for one.
fn no_block_is_given_back_without_waking_who_wants_it() {
    let [near, far] = [half(), half()];
    let segment = Arc::new(Memory::new(ArenaShape::holding(1).segment_len()));
    let (card, bell) = (OwnCard::new(Arc::clone(&segment)), Arc::new(Notify::new()));
    let (rung, given) = (Arc::clone(&bell), Arc::clone(&far));
    let wanting = Arc::clone(&near);
    let receiver = thread::spawn(move || {
        Returner::new(given).give(0);
        if is_wanting(&wanting) && must_be_woken(&segment) {
            rung.notify();
        }
    });
    let producer = Producer::new(near, Arc::clone(&far));
    let mut reclaimer = Reclaimer::new(far);
    while reclaimer.next().is_none() {
        producer.want(true);
        card.sleep();
        if let Some(ticket) = reclaimer.next() {
            assert_eq!(ticket, 0);
            break;
        }
        bell.wait();
        card.run_on(0);
    }
    receiver.join().expect("gives");
}

/// At each access to its pages in turn, its payloads' included.
fn a_dead_sender_has_sent_whole_messages() {
    let mut most = 0;
    for accesses in 0..200 {
        let (mut producer, mut consumer, [near, _]) = ring();
        near.kill_after(accesses);
        let sends = AssertUnwindSafe(|| {
            (0..2).for_each(|seq| assert!(producer.push(&head(seq, 48), &data(seq, 48)).is_ok()));
        });
        let died = catch_unwind(sends).is_err();
        near.kill_after(usize::MAX);
        let mut count = 0;
        while let Some(record) = consumer.peek().expect("intact").copied() {
            assert_eq!(record.head(), head(count, 48));
            let mut payload = [0; 48];
            consumer.take_short(&mut payload);
            assert_eq!(payload[..], data(count, 48));
            count += 1;
        }
        assert!(count >= most, "a longer life sends no less");
        most = count;
        if !died {
            break;
        }
        assert!(accesses < 199, "two messages take fewer accesses");
    }
    assert_eq!(most, 1, "one message fills the byte ring of the model");
}

/// A member of a team that meets by words, as towpath-task's `meeting` has it.
struct Member {
    own: usize,
    segments: Vec<Arc<Memory>>,
    bells: Vec<Arc<Notify>>,
}

impl Member {
    fn team(count: usize) -> Vec<Self> {
        let len = ArenaShape::holding(1).segment_len();
        let segments: Vec<_> = (0..count).map(|_| Arc::new(Memory::new(len))).collect();
        let bells: Vec<_> = (0..count).map(|_| Arc::new(Notify::new())).collect();
        let member = |own| Self { own, segments: segments.clone(), bells: bells.clone() };
        (0..count).map(member).collect()
    }

    fn card(&self) -> OwnCard {
        OwnCard::new(Arc::clone(&self.segments[self.own]))
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        let own = self.own;
        (0..self.segments.len()).filter(move |i| *i != own)
    }

    fn all_there(&self) -> bool {
        self.others().all(|i| epoch_of(&self.segments[i], 0) >= 1)
    }

    fn arrive(&self) {
        self.card().set_epoch(0, 1);
        if self.all_there() {
            for i in self.others().filter(|i| must_be_woken(&self.segments[*i])) {
                self.bells[i].notify();
            }
        }
    }

    fn wait(&self) {
        while !self.all_there() {
            self.card().sleep();
            if !self.all_there() {
                self.bells[self.own].wait();
            }
            self.card().run_on(0);
        }
    }
}

/// Neither may take the other for the last; loom reports a sleeper that nobody wakes.
fn two_that_come_last_wake_who_sleeps() {
    let mut team = Member::team(3).into_iter();
    let sleeper = team.next().expect("three");
    let last = team.map(|member| thread::spawn(move || member.arrive())).collect::<Vec<_>>();
    sleeper.arrive();
    sleeper.wait();
    last.into_iter().for_each(|member| member.join().expect("arrives"));
}

fn a_barrier_leaves_nobody_asleep() {
    let mut team = Member::team(3).into_iter();
    let (first, meet) = (team.next().expect("three"), |member: &Member| {
        member.arrive();
        member.wait();
    });
    let rest = team.map(|member| thread::spawn(move || meet(&member))).collect::<Vec<_>>();
    meet(&first);
    rest.into_iter().for_each(|member| member.join().expect("meets"));
}
