//! Rings that fail, and peers that write into them what they should not.

use std::time::Duration;

use towpath_io::shared::{Head, Inbound, Kind, Outbound, PeerCard, SLOTS};
use towpath_vm::matching::Wanted;
use towpath_vm::talk::{ToDaemon, ToTask};
use towpath_wire::TaskId;

use super::actors::{ANY, enrol, header, sent};
use super::stage::{Heard, LONG, Side, Stage};
use crate::intake::LOOKS;
use crate::message::Envelope;
use crate::parts::directs::Route;
use crate::task::Task;

/// The other end of a ring, played by the test.
pub(super) struct Peer {
    pub(super) side: Side,
    pub(super) out: Outbound,
    input: Inbound,
    _card: PeerCard,
    /// The number of its next message.
    pub(super) next: u32,
}

fn head(seq: u32, context: u32, len: usize) -> Head {
    Head { tag: 1, context, seq, format: 0, total: len as u64, offset: 0 }
}

/// A task, the daemon's side of it, and a played neighbour with an open ring.
fn with_played_peer() -> (Task, Side, Peer) {
    let (task, side, [peer]) = with_played_peers();
    (task, side, peer)
}

/// A task, the daemon's side of it, and played neighbours with open rings.
pub(super) fn with_played_peers<const N: usize>() -> (Task, Side, [Peer; N]) {
    let mut stage = Stage::new();
    let (mut task, mut task_side) = enrol(&mut stage, 1);
    let peers = std::array::from_fn(|_| {
        let (other, side) = enrol(&mut stage, 1);
        // Its place is taken by the test.
        std::mem::forget(other);
        let fds = task_side.offer_ring(&side);
        let (mut out, input, card) = side.home().pair(fds).unwrap();
        out.push(&head(0, u32::MAX, 0), &[]).unwrap();
        while !task.poll().unwrap() && task.route(side.id) != Route::Ring {}
        Peer { side, out, input, _card: card, next: 0 }
    });
    (task, task_side, peers)
}

impl Peer {
    /// Sends an empty message with this tag; false: there is no room.
    pub(super) fn sends(&mut self, tag: i64) -> bool {
        let sent = self.out.push(&Head { tag, ..head(self.next, 0, 0) }, &[]).is_ok();
        self.next += u32::from(sent);
        sent
    }

    /// Sends as many as there is room for.
    fn flood(&mut self, tag: i64) {
        while self.sends(tag) {}
    }
}

/// How many messages `task` receives until one of `peer` comes; `meanwhile` is done before each.
fn received_until(task: &mut Task, peer: TaskId, mut meanwhile: impl FnMut()) -> usize {
    let receives = (1..).map(|count| {
        meanwhile();
        (count, task.try_recv(&Wanted::any().tag(1)).unwrap().expect("something comes always"))
    });
    receives.take(10_000).find(|(_, got)| got.src() == peer).expect("its turn comes").0
}

#[test]
fn who_always_has_something_keeps_nobody_else_waiting() {
    let (mut task, _side, mut peers) = with_played_peers::<3>();
    for _ in 0..2 {
        // Whichever ring it is; one message at a time, between two that flood.
        for at in 0..3 {
            let other = peers[at].side.id;
            peers[at].sends(1);
            let rest = |peers: &mut [Peer]| {
                for (_, peer) in peers.iter_mut().enumerate().filter(|(i, _)| *i != at) {
                    peer.flood(1);
                }
            };
            let count = received_until(&mut task, other, || rest(&mut peers));
            assert!(count <= SLOTS, "received after {count} others");
            // What the next round begins with.
            while task.try_recv(&ANY).unwrap().is_some() {}
        }
    }
}

#[test]
fn what_stands_behind_something_that_nobody_asks_for_comes_too() {
    let (mut task, _side, [mut one, mut other]) = with_played_peers();
    let behind = SLOTS / 2;
    (0..behind).for_each(|_| assert!(other.sends(2)));
    assert!(other.sends(1));
    let count = received_until(&mut task, other.side.id, || one.flood(1));
    // Some of them at every look elsewhere.
    assert!(count <= behind * LOOKS as usize, "received after {count} others");
}

#[test]
fn what_comes_by_a_daemon_does_not_keep_a_ring_waiting() {
    let (mut task, mut side, [mut one, other]) = with_played_peers();
    let (to, from) = (task.id(), other.side.id);
    let mut next = 0;
    let mut by_daemon = |count| {
        for _ in 0..count {
            side.piece(&header(from, to, 1, next, 0), &[]);
            next += 1;
        }
    };
    by_daemon(100);
    task.poll().unwrap();
    assert!(one.sends(1));
    let count = received_until(&mut task, one.side.id, || by_daemon(2));
    assert!(count <= 4 * LOOKS as usize, "received after {count} others");
}

#[test]
fn only_the_first_record_of_a_ring_is_its_mark() {
    let (mut task, _side, mut peer) = with_played_peer();
    peer.out.push(&head(0, u32::MAX, 0), &[]).unwrap();
    peer.out.push(&head(1, 0, 2), b"hi").unwrap();
    let got = task.recv_timeout(&ANY, LONG).unwrap().expect("the numbers go on");
    assert_eq!(got.bytes(), b"hi");
}

#[test]
fn the_daemon_hears_of_a_ring_that_makes_no_sense() {
    // Pieces of eight bytes: the second half of a message, and the first.
    for (total, offset) in [(16, 8), (16, 0)] {
        let (mut task, mut side, mut peer) = with_played_peer();
        let to = peer.side.id;
        task.send(to, 1, b"by the ring").unwrap();
        let piece = Head { total, offset, ..head(0, 0, 0) };
        peer.out.push(&piece, &[0; 8]).unwrap();
        assert!(task.recv_timeout(&ANY, Duration::from_millis(1)).unwrap().is_none());
        assert_eq!(task.route(to), Route::Daemon, "{offset} of {total}");
        assert!(task.counters().contains(&("rings_corrupt", 1)));
        task.send(to, 2, b"by the daemon").unwrap();
        let failed = Heard::Control(ToDaemon::RingFailed { peer: to });
        assert_eq!(side.hear(), failed);
        assert_eq!(sent(&mut side, to), [(1, 2, b"by the daemon".to_vec())]);
    }
}

#[test]
fn what_a_failed_ring_holds_goes_by_the_daemon_and_blocks_stay_with_their_readers() {
    let (mut task, mut side, mut peer) = with_played_peer();
    let to = peer.side.id;
    let long = vec![7; 10_000];
    task.send(to, 0, &long).unwrap();
    task.send(to, 1, b"not taken").unwrap();
    // The mark, and the long one, which its receiver keeps.
    assert_eq!(peer.input.peek().unwrap().unwrap().head.context, u32::MAX);
    peer.input.take_short(&mut []);
    assert_eq!(peer.input.peek().unwrap().unwrap().kind, Kind::Block);
    let view = peer.input.take_block();
    side.say(&ToTask::RingFailed { peer: to });
    while task.route(to) == Route::Ring {
        task.poll().unwrap();
    }
    task.send(to, 2, b"after").unwrap();
    let sent = sent(&mut side, to);
    // Its receiver drops what it has already.
    let first = sent.len() - 2;
    assert_eq!(sent[first..], [(1, 1, b"not taken".to_vec()), (2, 2, b"after".to_vec())]);
    // What the receiver holds is not written again.
    let mut loans = Vec::new();
    for _ in 0..100 {
        let mut loan = task.loan(10_000).unwrap();
        loan.fill(9);
        loans.push(loan);
    }
    assert!(view.bytes().unwrap() == long, "a message that was received stays as it is");
    drop((view, loans));
    // Given back, and found again.
    task.rings.reclaim();
    assert_eq!(task.home.as_ref().unwrap().arena().used(), 0);
    task.send_with(task.id(), Envelope::tag(9), b"goes on").unwrap();
}

#[test]
fn what_a_ring_brings_early_waits_for_what_comes_by_the_daemon() {
    let (mut task, mut side, mut peer) = with_played_peer();
    let (to, from) = (task.id(), peer.side.id);
    peer.out.push(&head(1, 0, 6), b"second").unwrap();
    peer.out.push(&head(2, 0, 5), b"third").unwrap();
    for _ in 0..3 {
        assert!(!task.poll().unwrap(), "it is not its turn");
        assert!(task.try_recv(&ANY).unwrap().is_none());
    }
    side.piece(&header(from, to, 1, 0, 5), b"first");
    let got = [(); 3].map(|()| task.recv_timeout(&ANY, LONG).unwrap().expect("all are due"));
    assert_eq!(got.map(crate::Message::into_bytes), [&b"first"[..], b"second", b"third"]);
    assert_eq!(task.rings.taken, 3, "the mark and two messages");
}

#[test]
fn an_empty_message_that_a_failed_ring_holds_is_no_mark() {
    let (mut task, mut side, peer) = with_played_peer();
    let to = peer.side.id;
    task.send(to, 1, b"").unwrap();
    task.send(to, 2, b"not taken").unwrap();
    side.say(&ToTask::RingFailed { peer: to });
    while task.route(to) == Route::Ring {
        task.poll().unwrap();
    }
    task.send(to, 3, b"").unwrap();
    let expected = [(0, 1, vec![]), (1, 2, b"not taken".to_vec()), (2, 3, vec![])];
    assert_eq!(sent(&mut side, to), expected, "and the mark is nobody's message");
}

#[test]
fn tiny_messages_are_received_from_where_they_are_and_others_stay() {
    let (mut task, _side, mut peer) = with_played_peer();
    let from = Wanted::any().from(peer.side.id);
    let mut out = [0; 16];
    // What a receive that names its source does first.
    task.try_recv(&ANY).unwrap();
    for (seq, tag, context, bytes) in [(0, 1, 0, &b"one"[..]), (1, 2, 5, b"two"), (2, 3, 0, b"")] {
        let before = task.rings.taken;
        let head = Head { tag, ..head(seq, context, bytes.len()) };
        peer.out.push(&head, bytes).unwrap();
        let others = [from.tag(tag + 1).context(context), from.tag(tag).context(context + 1)];
        for other in others {
            assert_eq!(task.recv_into_timeout(&other, &mut out, Duration::ZERO), Ok(None));
        }
        let got = task.recv_into(&from.tag(tag).context(context), &mut out).unwrap();
        assert_eq!((got.src, got.tag, got.context), (peer.side.id, tag, context));
        assert_eq!(&out[..got.len], bytes);
        assert_eq!(task.rings.taken, before + 1);
    }
    // At once, as nothing stands before it.
    let tags = [7, 8, 9];
    for (seq, tag) in (3..).zip(tags) {
        peer.out.push(&Head { tag, ..head(seq, 0, 1) }, &[tag as u8]).unwrap();
        let before = task.rings.taken;
        let got = task.recv_into(&from.tag(tag), &mut out).unwrap();
        assert_eq!((got.len, out[0], task.rings.taken), (1, tag as u8, before + 1));
    }
}

#[test]
fn what_ended_with_its_task_is_forgotten_and_other_rings_are_not() {
    let (mut task, mut side, [one, other]) = with_played_peers();
    let (gone, stays) = (one.side.id, other.side.id);
    for peer in [gone, stays] {
        side.say(&ToTask::RingFailed { peer });
    }
    while task.route(gone) == Route::Ring || task.route(stays) == Route::Ring {
        task.poll().unwrap();
    }
    // Their blocks may come back still, until they have ended.
    let kept = |task: &Task| task.rings.retired_peers();
    assert_eq!(kept(&task), [gone, stays]);
    side.say(&ToTask::Gone { peer: gone });
    while !task.endpoint.has_ended(gone) {
        task.poll().unwrap();
    }
    assert_eq!(kept(&task), [stays]);
}
