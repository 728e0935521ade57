//! Rings that fail, and peers that write into them what they should not.

use std::time::Duration;

use towpath_io::shared::{Head, Inbound, Kind, Outbound, PeerCard};
use towpath_vm::talk::{ToDaemon, ToTask};

use super::actors::{ANY, enrol, sent};
use super::stage::{Heard, LONG, Side, Stage};
use crate::direct::Route;
use crate::message::Envelope;
use crate::task::Task;

/// The other end of a ring, played by the test.
struct Peer {
    side: Side,
    out: Outbound,
    input: Inbound,
    _card: PeerCard,
}

fn head(seq: u32, context: u32, len: usize) -> Head {
    Head { tag: 1, context, seq, format: 0, total: len as u64, offset: 0 }
}

/// A task, the daemon's side of it, and a played neighbour with an open ring.
fn with_played_peer() -> (Task, Side, Peer) {
    let mut stage = Stage::new();
    let (mut task, mut task_side) = enrol(&mut stage, 1);
    let (other, side) = enrol(&mut stage, 1);
    // Its place is taken by the test.
    std::mem::forget(other);
    let fds = task_side.offer_ring(&side);
    let (mut out, input, card) = side.home().pair(fds).unwrap();
    out.push(&head(0, u32::MAX, 0), &[]).unwrap();
    while !task.poll().unwrap() && task.route(side.id) != Route::Ring {}
    (task, task_side, Peer { side, out, input, _card: card })
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
    let (mut task, mut side, mut peer) = with_played_peer();
    let to = peer.side.id;
    task.send(to, 1, b"by the ring").unwrap();
    let piece = Head { total: 16, offset: 8, ..head(0, 0, 0) };
    peer.out.push(&piece, &[0; 8]).unwrap();
    assert!(task.recv_timeout(&ANY, Duration::from_millis(1)).unwrap().is_none());
    assert_eq!(task.route(to), Route::Daemon);
    task.send(to, 2, b"by the daemon").unwrap();
    let failed = Heard::Control(ToDaemon::RingFailed { peer: to });
    assert_eq!(side.hear(), failed);
    assert_eq!(sent(&mut side, to), [(1, 2, b"by the daemon".to_vec())]);
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
