//! A task whose memory for messages that nobody has received is full.

use std::time::Duration;

use towpath_vm::matching::Wanted;
use towpath_vm::talk::{CREDIT_FIRST, ToDaemon, ToTask};
use towpath_wire::TaskId;
use towpath_wire::talk::{HEADER_LEN, PIECE_CHARGE};

use super::actors::{ANY, enrol, header, sent, with_ring};
use super::stage::{Heard, Side, Stage};
use crate::deadline::Deadline;
use crate::error::{RecvError, SendError};
use crate::message::Envelope;
use crate::send::LENT_MAX;
use crate::task::Task;

/// Payload that uses up a pair's first credit in one piece.
const FIRST: usize = (CREDIT_FIRST - PIECE_CHARGE) as usize;
const NOTHING: Wanted = Wanted { source: None, tag: Some(-77), context: 0 };

/// A task with no room for messages beyond the one that has come, and a task of another host.
fn full_task(stage: &mut Stage) -> (Task, Side, TaskId) {
    let (mut task, mut side) = enrol(stage, 1);
    let (peer, sender) = (towpath_wire::HostId::new(2, 1).unwrap(), side.id.host());
    let (peer, sender) = (peer.task(1).unwrap(), sender.task(99).unwrap());
    side.piece(&header(sender, task.id(), 50, 0, 100), &[5; 100]);
    while !task.poll().unwrap() {}
    task.held_max = 100;
    (task, side, peer)
}

/// Receives what fills the task, and gives credit.
fn relieve(task: &mut Task, side: &mut Side, peer: TaskId) {
    assert_eq!(task.recv(&ANY).unwrap().tag(), 50);
    side.say(&ToTask::Credit { peer, limit: 1 << 30 });
}

#[test]
fn a_send_that_does_not_begin_leaves_no_gap_in_the_order() {
    let (mut task, mut side, peer) = full_task(&mut Stage::new());
    task.send(peer, 1, &[1; FIRST]).unwrap();
    let full = task.send(peer, 2, b"no credit");
    assert!(matches!(full, Err(SendError::Full(_))), "{full:?}");
    relieve(&mut task, &mut side, peer);
    task.send(peer, 3, b"goes on").unwrap();
    let sent: Vec<_> = sent(&mut side, peer).into_iter().map(|(n, tag, _)| (n, tag)).collect();
    assert_eq!(sent, [(0, 1), (1, 3)]);
}

#[test]
fn a_send_that_has_begun_ends_before_anything_else_is_sent() {
    let (mut task, mut side, peer) = full_task(&mut Stage::new());
    let long: Vec<u8> = (0..200_000_u32).map(|i| i as u8).collect();
    task.send(peer, 1, &long).unwrap();
    let full = task.send(peer, 2, b"not yet");
    assert!(matches!(full, Err(SendError::Full(_))), "{full:?}");
    relieve(&mut task, &mut side, peer);
    task.send(peer, 3, b"goes on").unwrap();
    let sent = sent(&mut side, peer);
    assert_eq!((sent[0].0, sent[0].1, sent[0].2 == long), (0, 1, true));
    assert_eq!(sent[1..], [(1, 3, b"goes on".to_vec())]);
}

#[test]
fn a_multicast_reaches_all_or_none() {
    for both in [&b"both"[..], b""] {
        reaches_all_or_none(both);
    }
}

fn reaches_all_or_none(both: &[u8]) {
    let (mut task, mut side, p) = full_task(&mut Stage::new());
    let q = p.host().task(2).unwrap();
    task.send(p, 1, &[1; FIRST]).unwrap();
    let none = task.multicast(&[p], Envelope::tag(2), &[b"none"]);
    assert!(matches!(none, Err(SendError::Full(_))), "{none:?}");
    // One of them has credit: the other gets it later.
    task.multicast(&[p, q], Envelope::tag(3), &[both]).unwrap();
    relieve(&mut task, &mut side, p);
    task.send(p, 4, b"goes on").unwrap();
    let mut casts = 0;
    let mut to_p = Vec::new();
    while let Some(heard) = side.heard() {
        match heard {
            Heard::Multicast(body) => {
                casts += 1;
                assert_eq!(body[..2], 1_u16.to_le_bytes(), "a cast to one");
                assert_eq!(body[2..10], q.to_raw().to_le_bytes());
            }
            Heard::Data(header, bytes) => to_p.push((header.seq, header.tag, bytes)),
            Heard::Control(_) | Heard::OnChannel(..) => {}
        }
    }
    assert_eq!(casts, 1);
    let expected = [(0, 1, vec![1; FIRST]), (1, 3, both.to_vec()), (2, 4, b"goes on".to_vec())];
    assert_eq!(to_p, expected);
}

#[test]
fn a_wait_ends_in_time_although_something_comes_at_every_look() {
    const FLOOD: u32 = 1000;
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let (sender, id) = (side.id.host().task(99).unwrap(), task.id());
    let mut looks = 0;
    let over = Deadline::after(Some(Duration::ZERO));
    let found = task.wait_for(over, &mut |_| {
        if looks < FLOOD {
            side.piece(&header(sender, id, 1, looks, 0), &[]);
        }
        looks += 1;
        None::<()>
    });
    assert!(found.unwrap().is_none());
    assert!(looks < 20, "{looks} looks before the clock was looked at");
}

#[test]
fn the_memory_limit_holds_for_what_rings_bring() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    for _ in 0..120 {
        a.send(b.id(), 1, &[3; 100]).unwrap();
    }
    b.held_max = 2000;
    let full = b.recv(&NOTHING);
    assert!(matches!(full, Err(RecvError::Full(_))), "{full:?}");
    for _ in 0..10 {
        b.poll().unwrap();
    }
    // One look into a ring brings at most 64 records.
    assert!(b.endpoint.held() <= 2000 + 64 * 100, "{} bytes", b.endpoint.held());
    for _ in 0..120 {
        assert_eq!(b.recv(&ANY).unwrap().bytes(), [3; 100]);
    }
}

#[test]
fn what_is_lent_to_the_daemon_stays_as_it_is_until_it_is_taken_and_is_bounded() {
    let (mut task, mut side, peer) = full_task(&mut Stage::new());
    task.endpoint.next_number(peer);
    task.endpoint.credit(peer, 1 << 30);
    let long: Vec<u8> = (0..600_000_u32).map(|i| (i / 7) as u8).collect();
    let used = |task: &Task| task.home.as_ref().unwrap().arena().used();
    // It would have to wait for blocks: the rest goes later, and all of it goes.
    task.send(peer, 1, &long).unwrap();
    assert_eq!(used(&task), LENT_MAX << 16);
    let mut first = Vec::new();
    while let Some(heard) = side.heard() {
        if let Heard::Data(header, bytes) = heard {
            assert_eq!(header.offset, first.len() as u64);
            first.extend_from_slice(&bytes);
        }
    }
    assert_eq!(side.lent as usize, LENT_MAX);
    assert!(long.starts_with(&first) && first.len() == LENT_MAX << 16);
    side.taken(3);
    relieve(&mut task, &mut side, peer);
    while task.sending.lent.len() == LENT_MAX {
        task.poll().unwrap();
    }
    assert_eq!(used(&task), (LENT_MAX - 3) << 16);
    task.send(peer, 2, b"goes on").unwrap();
    let mut rest = Vec::new();
    while let Some(heard) = side.heard() {
        if let Heard::Data(header, bytes) = heard {
            rest.push((header.tag, header.offset, bytes));
        }
    }
    assert_eq!(rest.pop().unwrap(), (2, 0, b"goes on".to_vec()));
    for (tag, offset, bytes) in rest {
        assert_eq!((tag, offset), (1, first.len() as u64));
        first.extend_from_slice(&bytes);
    }
    assert!(first == long);
    side.taken(side.lent);
    while used(&task) > 0 {
        task.poll().unwrap();
    }
    // More than was lent is nothing.
    side.taken(0);
    side.say(&ToTask::Taken { count: 9 });
    task.poll().unwrap();
}

#[test]
fn a_daemon_that_refuses_says_why() {
    let mut stage = Stage::new();
    let socket = stage.socket();
    let enrolling = std::thread::spawn(move || Task::enrol_at(&socket, None).map(|_| ()));
    stage.refuse("not today");
    let refused = enrolling.join().unwrap();
    assert!(matches!(&refused, Err(crate::error::EnrolError::Refused(why)) if why == "not today"));
}

#[test]
fn a_multicast_that_has_begun_ends_before_anything_else_is_sent() {
    let (mut task, mut side, p) = full_task(&mut Stage::new());
    let long: Vec<u8> = (0..200_000_u32).map(|i| (i / 3) as u8).collect();
    task.multicast(&[p], Envelope::tag(1), &[&long[..70_001], &long[70_001..]]).unwrap();
    let full = task.send(p, 2, b"not yet");
    assert!(matches!(full, Err(SendError::Full(_))), "{full:?}");
    relieve(&mut task, &mut side, p);
    task.send(p, 3, b"goes on").unwrap();
    let (mut whole, mut last) = (Vec::new(), None);
    while let Some(heard) = side.heard() {
        match heard {
            // One receiver: its number and place, the header, then the piece.
            Heard::Multicast(body) => whole.extend_from_slice(&body[2 + 12 + HEADER_LEN..]),
            Heard::Data(header, bytes) if header.tag == 1 => {
                assert_eq!(header.offset, whole.len() as u64);
                whole.extend_from_slice(&bytes);
            }
            Heard::Data(header, bytes) => last = Some((header.seq, header.tag, bytes)),
            Heard::Control(_) | Heard::OnChannel(..) => {}
        }
    }
    assert!(whole == long, "{} bytes of {}", whole.len(), long.len());
    assert_eq!(last, Some((1, 3, b"goes on".to_vec())));
}

#[test]
fn short_messages_do_not_wait_for_what_is_lent() {
    let (mut task, mut side, peer) = full_task(&mut Stage::new());
    task.endpoint.next_number(peer);
    task.endpoint.credit(peer, 1 << 30);
    let other = peer.host().task(2).unwrap();
    task.send(peer, 1, &vec![1; LENT_MAX << 16]).unwrap();
    assert_eq!(task.sending.lent.len(), LENT_MAX);
    task.send(other, 2, b"short").unwrap();
    let to_other = std::iter::from_fn(|| side.heard())
        .find(|heard| matches!(heard, Heard::Data(header, _) if header.dst == other));
    assert!(matches!(to_other, Some(Heard::Data(_, bytes)) if bytes == b"short"));
}

#[test]
fn parts_that_are_lent_to_the_daemon_stand_one_behind_the_other() {
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let peer = towpath_wire::HostId::new(2, 1).unwrap().task(1).unwrap();
    task.endpoint.next_number(peer);
    task.endpoint.credit(peer, 1 << 30);
    let long: Vec<u8> = (0..150_000_u32).map(|i| (i / 5) as u8).collect();
    let parts = [&long[..10], &long[10..50_010], &long[50_010..50_010], &long[50_010..]];
    task.send_parts(peer, Envelope::tag(1), &parts).unwrap();
    let sent = sent(&mut side, peer);
    assert!(side.lent > 0 && sent[0].2 == long);
}

#[test]
fn a_multicast_leaves_out_who_has_ended_and_comes_to_its_sender_too() {
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let host = towpath_wire::HostId::new(2, 1).unwrap();
    let [gone, other] = [1, 2].map(|n| host.task(n).unwrap());
    task.endpoint.meet(gone);
    side.say(&ToTask::Gone { peer: gone });
    while !task.endpoint.has_ended(gone) {
        task.poll().unwrap();
    }
    let own = task.id();
    task.multicast(&[gone, own, other, other, own], Envelope::tag(1), &[b"o", b"ne"]).unwrap();
    assert_eq!(task.try_recv(&ANY).unwrap().expect("its own").bytes(), b"one");
    assert!(task.try_recv(&ANY).unwrap().is_none(), "once");
    let casts: Vec<_> = std::iter::from_fn(|| side.heard())
        .filter_map(|heard| if let Heard::Multicast(body) = heard { Some(body) } else { None })
        .collect();
    assert_eq!(casts.len(), 1);
    assert_eq!(casts[0][..2], 1_u16.to_le_bytes(), "one receiver");
    assert_eq!(casts[0][2..10], other.to_raw().to_le_bytes());
    assert!(casts[0].ends_with(b"one"));
    // Where nobody is left there is nothing to say.
    task.multicast(&[gone], Envelope::tag(2), &[b"none"]).unwrap();
    assert!(side.heard().is_none());
}

#[test]
fn who_only_multicasts_asks_for_direct_routes_too() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let host = task.host();
    let near = [host.task(71).unwrap(), host.task(72).unwrap()];
    let many: Vec<TaskId> = (100..120).map(|n| host.task(n).unwrap()).collect();
    for _ in 0..5 {
        task.multicast(&many, Envelope::tag(1), &[b"few words"]).unwrap();
        task.multicast(&near, Envelope::tag(1), &[b"few words"]).unwrap();
    }
    let mut asked = Vec::new();
    while asked.len() < near.len() {
        if let Heard::Control(ToDaemon::Direct { peer }) = side.hear() {
            asked.push(peer);
        }
    }
    assert_eq!(asked, near, "and not for those that are many");
}
