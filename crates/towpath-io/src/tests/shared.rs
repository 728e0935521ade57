//! The exchange in shared memory: what is sent arrives once, whole and in order; what is given
//! back can be used again; who sleeps is woken.

use std::collections::VecDeque;
use std::thread;

use super::neighbours::{End, Place, copy, ends, head, pair_fds, payload, take};
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, memfd_create};
use towpath_io::shared::{
    EPOCHS, Head, Home, Kind, OpenError, Origin, PushError, SHORT_MAX, SLOTS, Segment, Spin,
    TICKETS, TINY_MAX, View, Woken,
};

#[test]
fn messages_of_every_length_arrive() {
    let (mut a, mut b) = ends(8 << 20);
    for (seq, len) in [0, 1, 39, 40, 41, 64, 100, SHORT_MAX].into_iter().enumerate() {
        let (head, data) = (head(seq as u32, len), payload(seq as u32, len));
        a.out.push(&head, &data).expect("room");
        assert_eq!(take(&mut b.inbound), Some((head, data)));
    }
    for (seq, len) in [1, 4096, 65536, 65537, 200_000, 4 << 20].into_iter().enumerate() {
        let (head, data) = (head(seq as u32, len), payload(seq as u32, len));
        a.out.push_copy(&head, &data).expect("room");
        assert_eq!(take(&mut b.inbound), Some((head, data)));
    }
    assert_eq!(take(&mut b.inbound), None);
    a.out.reclaim().expect("intact");
    assert_eq!((a.out.outstanding(), a.home.arena().used()), (0, 0));
}

#[test]
fn a_head_comes_as_it_was() {
    let (mut a, mut b) = ends(1 << 20);
    for offset in [0, 9] {
        let head = Head {
            tag: i64::MIN + 1,
            context: u32::MAX,
            seq: 5,
            format: 0xdead_beef,
            total: u64::MAX,
            offset,
        };
        a.out.push(&head, b"piece").expect("room");
        let block = a.home.arena().alloc(5).expect("a block").freeze();
        a.out.push_block(&head, block).expect("room");
        assert_eq!(take(&mut b.inbound), Some((head, b"piece".to_vec())));
        assert_eq!(take(&mut b.inbound).expect("a message").0, head);
    }
}

#[test]
fn what_is_too_long_for_the_ring_is_refused() {
    let (mut a, _b) = ends(1 << 20);
    let len = SHORT_MAX + 1;
    let refused = a.out.push(&head(0, len), &payload(0, len)).expect_err("too long");
    assert_eq!(refused, PushError::TooLong { len });
    assert_eq!(
        refused.to_string(),
        "4097 bytes are too long for the ring, which takes at most 4096"
    );
}

#[test]
fn a_ring_is_full_after_as_many_records_as_it_says() {
    let (mut a, mut b) = ends(1 << 20);
    for seq in 0..SLOTS as u32 {
        a.out.push(&head(seq, 1), &[1]).expect("room");
    }
    assert_eq!(a.out.push(&head(0, 1), &[1]), Err(PushError::Full));
    assert_eq!(a.out.has_room(), Ok(false));
    // Taking nearly a quarter says nothing yet; finding nothing more always does.
    (0..SLOTS).for_each(|_| assert!(take(&mut b.inbound).is_some()));
    assert!(!b.inbound.ready());
    assert_eq!(a.out.has_room(), Ok(true));
    assert_eq!(a.out.push(&head(0, 1), &[1]), Ok(()));
}

#[test]
fn a_peer_holds_only_so_many_blocks() {
    let (mut a, mut b) = ends(8 << 20);
    let block = a.home.arena().alloc(1).expect("a block").freeze();
    let mut views: VecDeque<View> = VecDeque::new();
    for seq in 0..TICKETS as u32 {
        a.out.push_block(&head(seq, 1), block.clone()).expect("room");
        assert_eq!(b.inbound.peek().expect("intact").map(|a| a.kind), Some(Kind::Block));
        views.push_back(b.inbound.take_block());
    }
    let unsent = a.out.push_block(&head(0, 1), block.clone()).expect_err("full");
    assert_eq!(unsent.why, PushError::Full);
    drop(unsent);
    assert_eq!(a.out.push_copy(&head(0, 1), &[0]), Err(PushError::Full));
    views.pop_front();
    assert_eq!(a.out.has_tickets(), Ok(true));
    a.out.push_block(&head(0, 1), block).expect("room");
    assert_eq!(a.home.arena().used(), 4096, "one block, however many hold it");
}

#[test]
fn an_arena_has_a_limit_and_says_so() {
    let (mut a, b) = ends(1 << 20);
    a.home.arena().set_limit(64 << 10);
    assert_eq!(a.home.arena().block_max(), 64 << 10);
    a.out.push_copy(&head(0, 40_000), &payload(0, 40_000)).expect("room");
    let full = a.home.arena().alloc(1).expect_err("full");
    assert_eq!(
        full.to_string(),
        "no arena block for 1 bytes: 65536 of at most 65536 bytes are in use"
    );
    assert_eq!(a.out.push_copy(&head(1, 1), &[0]), Err(PushError::Arena(full)));
    assert_eq!(a.home.arena().refused(), 2);
    drop(b);
}

#[test]
fn one_block_goes_to_many_and_comes_back_from_the_last() {
    let middle = Place::new(1 << 20);
    let home = middle.home();
    let leaves: Vec<_> = (0..3).map(|_| Place::new(1 << 20)).collect();
    let mut pairs = Vec::new();
    for leaf in &leaves {
        let ([near, far], _) = pair_fds(&middle, leaf);
        pairs.push((home.pair(near).expect("a pair").0, End::new(leaf, far)));
    }
    let mut block = home.arena().alloc(10_000).expect("a block");
    block.bytes_mut().copy_from_slice(&payload(1, 10_000));
    let block = block.freeze();
    for (out, _) in &mut pairs {
        out.push_block(&head(0, 10_000), block.clone()).expect("room");
    }
    drop(block);
    for (out, end) in &mut pairs {
        assert_eq!(home.arena().used(), 16_384);
        assert_eq!(take(&mut end.inbound).expect("a message").1, payload(1, 10_000));
        assert_eq!(out.reclaim(), Ok(1));
    }
    assert_eq!(home.arena().used(), 0);
}

#[test]
fn a_view_outlives_its_pair_and_its_sender() {
    let (mut a, mut b) = ends(1 << 20);
    a.out.push_copy(&head(0, 9), b"last word").expect("room");
    b.inbound.peek().expect("intact").expect("a message");
    let view = b.inbound.take_block();
    drop((a, b));
    assert_eq!(view.bytes(), Some(&b"last word"[..]));
}

/// Nobody spins, so each message wakes a sleeper; one that is lost ends the test at its deadline.
#[test]
fn every_sleeper_is_woken() {
    let (mut a, mut b) = ends(1 << 20);
    let rounds = 3000;
    let echo = thread::spawn(move || {
        for _ in 0..rounds {
            let (head, data) = b.receive();
            b.out.push(&head, &data).expect("room");
            b.out.wake();
        }
    });
    for seq in 0..rounds {
        let sent = (head(seq, 8), payload(seq, 8));
        a.out.push(&sent.0, &sent.1).expect("room");
        a.out.wake();
        assert_eq!(a.receive(), sent);
    }
    echo.join().expect("echoes");
}

/// The sender waits for room, for tickets and for blocks; the receiver for messages.
#[test]
fn a_fast_sender_and_a_receiver_that_sleeps_both_come_to_the_end() {
    let (mut a, mut b) = ends(1 << 20);
    let count = 4000_u32;
    let len = |seq: u32| match seq % 7 {
        0 => 30_000,
        1 => SHORT_MAX,
        small => small as usize * 10,
    };
    let sender = thread::spawn(move || {
        for seq in 0..count {
            let (head, data) = (head(seq, len(seq)), payload(seq, len(seq)));
            a.sleep(|out, _| {
                out.want(true);
                let sent = if data.len() > SHORT_MAX {
                    out.push_copy(&head, &data)
                } else {
                    out.push(&head, &data)
                };
                assert!(
                    matches!(sent, Ok(()) | Err(PushError::Full | PushError::Arena(_))),
                    "{sent:?}"
                );
                sent.is_ok()
            });
            a.out.want(false);
            a.out.wake();
        }
        a
    });
    for seq in 0..count {
        assert_eq!(b.receive(), (head(seq, len(seq)), payload(seq, len(seq))));
    }
    b.inbound.ready();
    let mut a = sender.join().expect("sends");
    a.out.reclaim().expect("intact");
    assert_eq!((a.out.outstanding(), a.home.arena().used()), (0, 0));
}

#[test]
fn a_wait_ends_for_each_of_its_reasons() {
    let (mut a, mut b) = ends(1 << 20);
    let now = std::time::Instant::now();
    let waited = a.waiter.wait(a.home.card(), Spin::NONE, Some(now), || false);
    assert_eq!(waited.expect("waits"), Woken::TimedOut);
    a.waiter.bell().ring().expect("rings");
    let waited = a.waiter.wait(a.home.card(), Spin::NONE, None, || false);
    assert_eq!(waited.expect("waits"), Woken::Bell);
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    let interest = towpath_io::shared::Interest { readable: true, writable: false };
    a.waiter.watch(&reader, 7, interest).expect("watches");
    rustix::io::write(&writer, b"x").expect("writes");
    let waited = a.waiter.wait(a.home.card(), Spin::NONE, None, || false);
    assert_eq!(waited.expect("waits"), Woken::Descriptors);
    let events: Vec<_> = a.waiter.events().iter().map(|e| (e.key, e.readable)).collect();
    assert_eq!(events, [(7, true)]);
    b.out.push(&head(0, 0), &[]).expect("room");
    assert!(!b.out.wake(), "the peer is awake");
    let waited = a.waiter.wait(a.home.card(), Spin::NONE, None, || a.inbound.ready());
    assert_eq!(waited.expect("waits"), Woken::Ready);
}

#[test]
fn what_is_no_segment_is_not_opened() {
    let unsealed = memfd_create("test", MemfdFlags::CLOEXEC).expect("a memory file");
    let open = |fd| Home::open(fd).expect_err("refused");
    assert!(matches!(open(unsealed), OpenError::Unsealed { .. }));
    let half = Segment::half().expect("a half");
    assert!(matches!(open(half.owner), OpenError::Length { .. }));
    let task = Segment::task(1).expect("a segment");
    assert!(matches!(open(copy(&task.peers)), OpenError::System { .. }), "read-only");
    let at = std::fs::File::from(copy(&task.owner));
    std::os::unix::fs::FileExt::write_all_at(&at, &[3], 7).expect("writes");
    let other_version = open(task.owner);
    assert_eq!(
        other_version.to_string(),
        "shared memory (own task segment) bears the stamp 0x036b736174707774, \
         expected 0x026b736174707774"
    );
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push(usize),
    Block(usize),
    Copy(usize),
    Take,
    Drop(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => prop_oneof![0..50_usize, 0..=SHORT_MAX].prop_map(Step::Push),
        2 => (0..20_000_usize).prop_map(Step::Block),
        1 => (1..200_000_usize).prop_map(Step::Copy),
        6 => Just(Step::Take),
        2 => any::<prop::sample::Index>().prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 0..400)
}

/// One end's doings against what must come out.
#[derive(Default)]
struct Model {
    sent: VecDeque<(Head, Vec<u8>)>,
    views: Vec<(View, Vec<u8>)>,
    seq: u32,
}

impl Model {
    fn send(&mut self, end: &mut End, step: Step) {
        let (Step::Push(len) | Step::Block(len) | Step::Copy(len)) = step else { return };
        let (head, data) = (head(self.seq, len), payload(self.seq, len));
        let sent = match step {
            Step::Push(_) => end.out.push(&head, &data),
            Step::Copy(_) => end.out.push_copy(&head, &data),
            _ => end.home.arena().alloc(len).map_err(PushError::from).and_then(|mut block| {
                block.bytes_mut().copy_from_slice(&data);
                end.out.push_block(&head, block.freeze()).map_err(|unsent| unsent.why)
            }),
        };
        match sent {
            Ok(()) => {
                self.seq += 1;
                self.sent.push_back((head, data));
            }
            Err(PushError::Full) => assert!(!self.sent.is_empty() || !self.views.is_empty()),
            Err(PushError::Arena(_)) => assert!(end.home.arena().used() > 0),
            Err(other) => panic!("{other}"),
        }
    }

    fn take(&mut self, end: &mut End) {
        let arrival = end.inbound.peek().expect("intact");
        assert_eq!(arrival.map(|a| a.head), self.sent.front().map(|(head, _)| *head));
        let Some((arrival, (_, data))) = arrival.zip(self.sent.pop_front()) else { return };
        if arrival.kind == Kind::Short {
            let mut got = vec![0; arrival.len];
            end.inbound.take_short(&mut got);
            assert_eq!(got, data);
        } else {
            self.views.push((end.inbound.take_block(), data));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In order, once and as sent; views stay as they are while other messages go on; in the end
    /// every block is back.
    #[test]
    fn any_sequence_of_sends_takes_and_drops(steps in steps()) {
        let (mut a, mut b) = ends(1 << 20);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Take => model.take(&mut b),
                Step::Drop(which) if !model.views.is_empty() => {
                    let (view, data) = model.views.swap_remove(which.index(model.views.len()));
                    prop_assert_eq!(view.bytes(), Some(&data[..]));
                }
                Step::Drop(_) => {}
                send => model.send(&mut a, send),
            }
        }
        while !model.sent.is_empty() {
            model.take(&mut b);
        }
        for (view, data) in model.views.drain(..) {
            prop_assert_eq!(view.bytes(), Some(&data[..]));
        }
        prop_assert!(!b.inbound.ready());
        a.out.reclaim().expect("intact");
        prop_assert_eq!((a.out.outstanding(), a.home.arena().used()), (0, 0));
        prop_assert_eq!(a.out.has_room(), Ok(true));
    }
}

#[test]
fn short_messages_go_in_one_step_where_there_is_room() {
    let (mut a, mut b) = ends(1 << 20);
    let mut room = [0; TINY_MAX];
    assert_eq!(b.inbound.take_tiny(&mut room, |_| true), None, "nothing came");
    for (seq, len) in [0, 1, TINY_MAX].into_iter().enumerate() {
        let (head, data) = (head(seq as u32, len), payload(seq as u32, len));
        assert!(a.out.push_tiny(&head, &data));
        assert_eq!(b.inbound.take_tiny(&mut room, |_| false), None, "it is not wanted");
        if len > 0 {
            assert_eq!(b.inbound.take_tiny(&mut room[..len - 1], |_| true), None, "no room");
        }
        let mut seen = None;
        let taken = b.inbound.take_tiny(&mut room, |head| seen.replace(*head).is_none());
        assert_eq!((taken, seen), (Some(head), Some(head)));
        assert_eq!(room[..len], data);
    }
    // Others come by the longer way, and so does what does not fit any more.
    a.out.push(&head(3, 200), &payload(3, 200)).unwrap();
    assert_eq!(b.inbound.take_tiny(&mut room, |_| true), None, "it is not short enough");
    assert_eq!(take(&mut b.inbound), Some((head(3, 200), payload(3, 200))));
    let mut pushed = 0;
    while a.out.push_tiny(&head(4, 1), &[7]) {
        pushed += 1;
    }
    assert!(pushed <= SLOTS, "{pushed}");
    assert!(matches!(a.out.push(&head(4, 1), &[7]), Err(PushError::Full)));
    for _ in 0..pushed {
        assert!(b.inbound.take_tiny(&mut room, |_| true).is_some());
    }
    assert!(a.out.push(&head(4, 1), &[7]).is_ok(), "there is room again");
}

#[test]
fn what_a_peer_has_not_taken_is_known_whole_and_in_order() {
    let (mut a, mut b) = ends(8 << 20);
    let lens = [3, 100, 70_000, 0, 5000];
    for (seq, len) in (0..).zip(lens) {
        let data = payload(seq, len);
        if len <= SHORT_MAX {
            a.out.push(&head(seq, len), &data).unwrap();
        } else {
            a.out.push_copy(&head(seq, len), &data).unwrap();
        }
    }
    let all = |from: usize| -> Vec<_> {
        let of = |(seq, len): (u32, usize)| (head(seq, len), payload(seq, len));
        (0..).zip(lens).map(of).skip(from).collect()
    };
    assert_eq!(a.out.untaken().unwrap(), all(0));
    for n in 0..lens.len() {
        assert!(take(&mut b.inbound).is_some());
        // What was taken is told with some of what is taken later.
        let untaken = a.out.untaken().unwrap();
        assert!(untaken.len() >= lens.len() - 1 - n && all(0).ends_with(&untaken), "after {n}");
    }
}

#[test]
fn cards_show_who_sleeps_and_what_epochs_say() {
    let (mut a, b) = ends(1 << 20);
    for which in 0..EPOCHS {
        assert_eq!(b.card.epoch(which), 0);
        a.home.card().set_epoch(which, 100 + which as u64);
    }
    for which in 0..EPOCHS {
        assert_eq!(b.card.epoch(which), 100 + which as u64);
    }
    a.home.card().run_on(3);
    b.home.card().run_on(3);
    assert!(!b.card.is_beside(b.home.card()), "on the same processor");
    b.home.card().run_on(4);
    assert!(b.card.is_beside(b.home.card()));
    assert_eq!((b.card.showing().sleeping, b.card.wake()), (false, false));
    a.home.card().sleep();
    assert!(b.card.showing().sleeping && !b.card.is_beside(b.home.card()));
    assert!(b.card.wake(), "it sleeps");
    let woken = a.waiter.look().unwrap();
    assert_eq!((woken, a.waiter.events().len()), (Woken::Bell, 0));
}

#[test]
fn a_forked_child_is_not_the_process_that_was_marked() {
    let origin = Origin::mark().unwrap();
    assert!(origin.is_here());
    // SAFETY: the child only looks at a word and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::from(origin.is_here());
        // SAFETY: ends the child at once, with nothing of this process's run.
        unsafe { libc::_exit(code) };
    }
    let mut status = -1;
    // SAFETY: waits for the child that was just made, and writes its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child is another one");
    assert!(origin.is_here());
}

#[test]
fn what_is_lent_shows_its_bytes_before_and_after_it_is_sent() {
    let (mut a, mut b) = ends(1 << 20);
    let data = payload(1, 10_000);
    let mut block = a.home.arena().alloc(data.len()).unwrap();
    block.bytes_mut().copy_from_slice(&data);
    assert!(block.bytes() == data);
    let frozen = block.freeze_to(9000);
    assert!(frozen.bytes() == &data[..9000]);
    a.out.push_block(&head(0, 9000), frozen).unwrap();
    let arrival = b.inbound.peek().unwrap().expect("it is there");
    assert_eq!((arrival.kind, arrival.len), (Kind::Block, 9000));
    let view = b.inbound.take_block();
    assert_eq!((view.len(), view.filled(), view.is_whole()), (9000, 9000, true));
    assert!(view.bytes() == Some(&data[..9000]));
}
