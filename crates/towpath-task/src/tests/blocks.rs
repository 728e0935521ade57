//! When the memory for messages on their way is used up, or one peer holds too many pieces of it.

use towpath_io::shared::{SLOTS, TICKETS};
use towpath_vm::matching::Wanted;
use towpath_wire::TaskId;

use super::actors::{ANY, crowd, sent, with_ring};
use super::stage::{Heard, Side};
use crate::message::{Envelope, Message};
use crate::task::Task;

const BLOCK: usize = 1 << 20;

/// A way to send bytes to a task.
type Sending = fn(&mut Task, TaskId, &[u8]);

fn counter(task: &Task, name: &str) -> u64 {
    task.counters().iter().find(|(n, _)| *n == name).expect("it is counted").1
}

/// Fills the arena of the first of these tasks with messages that the second holds.
fn filled(tasks: &mut [Task]) -> Vec<Message> {
    let to = tasks[1].id();
    tasks[0].rings.reclaim();
    let mut held = Vec::new();
    while let Ok(block) = tasks[0].home.as_ref().unwrap().arena().alloc(BLOCK) {
        drop(block);
        tasks[0].send(to, 1, &vec![held.len() as u8; BLOCK]).unwrap();
        held.push(tasks[1].recv(&ANY).unwrap());
    }
    assert!(held.len() > 2, "{} messages", held.len());
    held
}

/// Whether the daemon got a message in pieces.
fn by_daemon(side: &mut Side) -> bool {
    std::iter::from_fn(|| side.heard()).any(|heard| matches!(heard, Heard::Data(..)))
}

#[test]
fn what_one_peer_gave_back_is_there_for_the_next_in_every_kind_of_send() {
    let (mut tasks, mut sides) = crowd(3);
    let (to, long) = (tasks[2].id(), vec![7; BLOCK]);
    let sends: [Sending; 4] = [
        |task, to, bytes| task.send(to, 2, bytes).unwrap(),
        |task, to, bytes| drop(task.start_send_bytes(to, 2, bytes).unwrap()),
        |task, to, bytes| {
            let mut loan = task.loan(bytes.len()).unwrap();
            loan.copy_from_slice(bytes);
            task.send_loan(to, Envelope::tag(2), loan).unwrap();
        },
        |task, to, bytes| {
            let (half, rest) = bytes.split_at(9);
            task.send_parts(to, Envelope::tag(2), &[half, rest]).unwrap();
        },
    ];
    for send in sends {
        drop(filled(&mut tasks));
        let before = (counter(&tasks[0], "sent_by_ring"), counter(&tasks[0], "sent_by_daemon"));
        send(&mut tasks[0], to, &long);
        let after = (counter(&tasks[0], "sent_by_ring"), counter(&tasks[0], "sent_by_daemon"));
        assert_eq!(after, (before.0 + 1, before.1), "by the ring");
        assert!(!by_daemon(&mut sides[0]));
        assert!(tasks[2].recv(&ANY).unwrap().bytes() == long);
    }
}

#[test]
fn what_finds_no_memory_goes_by_the_daemons_after_a_moment() {
    let (mut tasks, mut sides) = crowd(3);
    let to = tasks[2].id();
    let held = filled(&mut tasks);
    // As much as there is credit for.
    tasks[0].send(to, 2, &[9; 10_000]).unwrap();
    let whole = vec![8; BLOCK];
    let rest = tasks[0].start_send_bytes(to, 3, &whole).unwrap();
    assert!(tasks[0].is_over(&rest).unwrap(), "the daemons have it");
    let mut loan = tasks[0].loan(BLOCK).unwrap();
    loan.fill(3);
    assert_eq!(tasks[0].home.as_ref().unwrap().arena().used() / BLOCK, held.len());
    drop((held, loan));
    let by_daemons = sent_or_begun(&mut sides[0], to);
    assert!(!by_daemons.is_empty(), "{by_daemons:?}");
}

/// Tags of what the daemon got, whole or not.
fn sent_or_begun(side: &mut Side, to: TaskId) -> Vec<i64> {
    let heard = std::iter::from_fn(|| side.heard());
    let tags = heard.filter_map(|heard| match heard {
        Heard::Data(header, _) if header.dst == to => Some(header.tag),
        _ => None,
    });
    tags.collect()
}

#[test]
fn a_peer_that_holds_too_many_blocks_gets_the_next_by_the_daemons_until_it_gives_some_back() {
    let (mut a, mut a_side, mut b, _b_side) = with_ring();
    let to = b.id();
    let mut loan = a.loan(5000).unwrap();
    loan.fill(4);
    let sealed = loan.seal(5000);
    let mut held = Vec::new();
    for _ in 0..TICKETS {
        a.send_sealed(to, Envelope::tag(1), &sealed).unwrap();
        held.push(b.recv(&ANY).unwrap());
    }
    assert_eq!(counter(&a, "sent_by_daemon"), 0);
    a.send_sealed(to, Envelope::tag(2), &sealed).unwrap();
    a.send(to, 3, &[6; 5000]).unwrap();
    assert_eq!(counter(&a, "sent_by_daemon"), 2, "no tickets");
    let by_daemons = sent(&mut a_side, to);
    let (first, next) = (TICKETS as u32, TICKETS as u32 + 1);
    let expected = [(first, 2, vec![4; 5000]), (next, 3, vec![6; 5000])];
    assert!(by_daemons == expected);
    drop(held);
    a.send_sealed(to, Envelope::tag(4), &sealed).unwrap();
    a.send(to, 5, &[6; 5000]).unwrap();
    assert_eq!(counter(&a, "sent_by_daemon"), 2, "they came back");
}

#[test]
fn a_send_into_a_full_ring_waits_until_the_receiver_takes_something() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let to = b.id();
    let mut loan = a.loan(5000).unwrap();
    loan.fill(4);
    let sealed = loan.seal(5000);
    for parts in [true, false] {
        let mut count = 0_u64;
        while a.rings.get(to).unwrap().has_room() {
            a.send(to, 1, b"fills it").unwrap();
            count += 1;
        }
        assert!(count >= SLOTS as u64 - 1);
        let before = counter(&a, "sent_by_ring");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if parts {
                    a.send_parts(to, Envelope::tag(2), &[b"two ", b"parts"]).unwrap();
                } else {
                    a.send_sealed(to, Envelope::tag(2), &sealed).unwrap();
                }
            });
            for _ in 0..count {
                assert_eq!(b.recv(&ANY).unwrap().bytes(), b"fills it");
            }
            let last = b.recv(&Wanted::any().tag(2)).unwrap();
            assert!(last.bytes() == b"two parts" || last.bytes() == [4; 5000]);
        });
        assert_eq!(counter(&a, "sent_by_ring"), before + 1, "in its order, by the ring");
        assert_eq!(counter(&a, "sent_by_daemon"), 0);
    }
}

#[test]
fn a_message_as_long_as_a_block_may_be_goes_by_the_ring_and_a_longer_one_does_not() {
    let (mut a, mut a_side, mut b, _b_side) = with_ring();
    let block = a.home.as_ref().unwrap().arena().block_max();
    a.send(b.id(), 1, &vec![1; block]).unwrap();
    assert_eq!((counter(&a, "sent_by_ring"), counter(&a, "sent_by_daemon")), (1, 0));
    assert!(b.recv(&ANY).unwrap().bytes() == vec![1; block]);
    a_side.say(&towpath_vm::talk::ToTask::Credit { peer: b.id(), limit: u64::MAX });
    let longer = a.start_send_bytes(b.id(), 2, &vec![2; block + 1]).unwrap();
    assert!(a.is_over(&longer).unwrap());
    assert_eq!((counter(&a, "sent_by_ring"), counter(&a, "sent_by_daemon")), (1, 1));
    let used = |a: &Task| a.home.as_ref().unwrap().arena().used();
    a.rings.reclaim();
    let before = used(&a);
    let longest = a.loan(block).unwrap();
    assert_eq!((longest.len(), used(&a)), (block, before + block), "it stands there");
    let longer = a.loan(block + 1).unwrap();
    assert_eq!((longer.len(), used(&a)), (block + 1, before + block));
    drop((longest, longer));
    // What may stay long with the program: blocks that are read in place, and those alone.
    a.rings.reclaim();
    assert!(a.spare_loan(towpath_io::shared::SHORT_MAX).is_none());
    assert!(a.spare_loan(towpath_io::shared::SHORT_MAX + 1).is_some());
}
