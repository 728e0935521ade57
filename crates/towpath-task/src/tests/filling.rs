//! Long messages of a neighbour that are read while it still fills them.

use std::time::Duration;

use towpath_io::shared::Head;
use towpath_vm::matching::Wanted;
use towpath_vm::talk::ToTask;
use towpath_wire::TaskId;

use super::actors::ANY;
use super::rings::{Peer, with_played_peers};
use super::stage::LONG;
use crate::error::RecvError;
use crate::task::Task;

/// Long enough that a receiver on another processor sees it grow.
const LEN: usize = 4 << 20;
/// What a test looks at must be seen so often; on one processor it may never be.
const SEEN: usize = 2;
const ROUNDS: u8 = 60;

/// Numbers that differ at every place where a copy could go wrong.
fn pattern(round: u8) -> Vec<u8> {
    (0..LEN).map(|at| (at >> 12) as u8 ^ (at as u8).wrapping_mul(31) ^ round).collect()
}

/// Of the next message of `peer`.
fn head(peer: &Peer) -> Head {
    Head { tag: 1, context: 0, seq: peer.next, format: 0, total: LEN as u64, offset: 0 }
}

/// Takes in until something of a ring is; whether that is still being filled.
fn begun(task: &mut Task) -> bool {
    let before = task.rings.taken;
    while task.rings.taken == before {
        task.poll().unwrap();
    }
    task.rings.may_fill()
}

/// Sends long messages of `peer` one by one, each while `receive` runs: it gets the task, whether
/// the message was seen while it was filled, the sender, and the bytes, and receives it.
fn rounds(
    task: &mut Task,
    peer: &mut Peer,
    mut receive: impl FnMut(&mut Task, bool, TaskId, &[u8]),
) {
    let (mut seen, from) = (0, peer.side.id);
    for round in 0..ROUNDS {
        let bytes = pattern(round);
        let head = head(peer);
        peer.next += 1;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                peer.out.push_copy(&head, &bytes).unwrap();
                peer.out.wake();
            });
            let filling = begun(task);
            receive(task, filling, from, &bytes);
            seen += usize::from(filling);
        });
        if seen == SEEN {
            return;
        }
    }
}

#[test]
fn a_receive_copies_what_there_is_and_ends_with_the_last_byte() {
    let (mut task, _side, [mut peer, _other]) = with_played_peers();
    let mut out = vec![0; LEN + 1];
    for any in [false, true] {
        rounds(&mut task, &mut peer, |task, _, from, bytes| {
            let wanted = if any { ANY.tag(1) } else { Wanted::any().from(from).tag(1) };
            out.fill(0);
            let before = task.rings.taken;
            let got = task.recv_into_timeout(&wanted, &mut out, LONG).unwrap().unwrap();
            assert_eq!((got.src, got.tag, got.len), (from, 1, LEN));
            assert!(out[..LEN] == *bytes && out[LEN] == 0, "all of it, and no more");
            assert!((before..=before + 1).contains(&task.rings.taken));
        });
    }
}

#[test]
fn a_message_that_does_not_fit_or_is_not_waited_for_stays_whole() {
    let (mut task, _side, [mut peer, _other]) = with_played_peers();
    let (mut small, mut out) = (vec![0; LEN - 1], vec![0; LEN]);
    rounds(&mut task, &mut peer, |task, _, from, bytes| {
        let wanted = Wanted::any().from(from);
        // Copied in part, and given up.
        let other = task.recv_into_timeout(&wanted.tag(2), &mut out, Duration::ZERO);
        assert_eq!(other, Ok(None), "it has another tag");
        let early = task.recv_into_timeout(&wanted.tag(1), &mut out, Duration::ZERO).unwrap();
        if early.is_some() {
            assert!(out == *bytes);
            return;
        }
        let long = task.recv_into_timeout(&wanted.tag(1), &mut small, LONG);
        assert_eq!(long, Err(RecvError::TooLong { len: LEN, room: LEN - 1 }));
        let got = task.recv_timeout(&wanted.tag(1), LONG).unwrap().expect("it is still there");
        assert!(got.bytes() == bytes, "from its first byte on");
    });
}

#[test]
fn what_comes_behind_a_message_that_is_filled_waits_for_it() {
    let (mut task, _side, [mut peer, _other]) = with_played_peers();
    let (mut tiny, mut count) = ([0; 8], 0);
    rounds(&mut task, &mut peer, |task, _, from, bytes| {
        let wanted = Wanted::any().from(from);
        // No tiny one overtakes it, and none is made of it.
        assert_eq!(task.recv_into_timeout(&wanted.tag(3), &mut tiny, Duration::ZERO), Ok(None));
        let got = task.recv_timeout(&ANY, LONG).unwrap().expect("it is whole in the end");
        assert!(got.bytes() == bytes);
        count += 1;
    });
    assert!(count > 0);
}

#[test]
fn what_a_receive_has_copied_in_part_when_its_sender_ends_is_there_whole() {
    for round in 0..ROUNDS {
        let (mut task, _side, [mut peer, _other]) = with_played_peers();
        let (bytes, from, mut out) = (pattern(round), peer.side.id, vec![0; LEN]);
        let wanted = Wanted::any().from(from).tag(1);
        let head = head(&peer);
        let (mut in_part, mut received) = (false, false);
        std::thread::scope(|scope| {
            scope.spawn(|| peer.out.push_copy(&head, &bytes).unwrap());
            in_part = begun(&mut task);
            received = task.rings.copy_some(&wanted, &mut out, |_| true).is_some();
        });
        task.heard(ToTask::Gone { peer: from }).unwrap();
        if received {
            continue;
        }
        let got = task.try_recv(&wanted).unwrap().expect("it was sent before its sender ended");
        assert!(got.bytes() == bytes, "from its first byte on");
        if in_part {
            return;
        }
    }
}
