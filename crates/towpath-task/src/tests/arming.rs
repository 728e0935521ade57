//! Programs that wait on their own, for the descriptor of a task.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use towpath_vm::Ending;
use towpath_vm::talk::{ToTask, WatchEvent};

use super::actors::{ANY, enrol, with_ring};
use super::stage::Stage;
use crate::parts::news::Event;
use crate::task::Task;

/// Whether the task's descriptor is readable now.
fn is_readable(task: &Task) -> bool {
    becomes_readable(task, 0)
}

/// Whether it is, within so many seconds.
fn becomes_readable(task: &Task, seconds: i64) -> bool {
    let descriptor = task.descriptor();
    let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: seconds, tv_nsec: 0 })).unwrap() == 1
}

#[test]
fn the_descriptor_is_readable_when_something_came_and_only_then() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    for tag in 0..3 {
        while !b.arm().unwrap() {}
        assert!(!is_readable(&b), "nothing has come before message {tag}");
        a.send(b.id(), tag, b"wake up").unwrap();
        assert!(is_readable(&b), "message {tag} has come");
        assert_eq!(b.recv(&ANY).unwrap().tag(), tag);
    }
}

#[test]
fn a_task_that_came_back_from_its_descriptor_is_not_woken_for_every_message() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    while !b.arm().unwrap() {}
    let sleeps = |b: &Task| b.home.as_ref().unwrap().card().showing().sleeping;
    assert!(sleeps(&b));
    a.send(b.id(), 1, b"1").unwrap();
    assert_eq!(b.recv(&ANY).unwrap().tag(), 1);
    assert!(!sleeps(&b), "it runs");
    // Something is there: the program does not wait.
    a.send(b.id(), 2, b"2").unwrap();
    assert!(!b.arm().unwrap());
    assert!(!sleeps(&b), "it runs");
}

#[test]
fn a_program_that_waits_on_its_own_hears_of_an_end_that_was_kept_back() {
    let (mut task, _side) = enrol(&mut Stage::new(), 1);
    let peer = towpath_wire::HostId::new(2, 1).unwrap().task(1).unwrap();
    for watch in 1..=2 {
        let event = WatchEvent::TaskEnded { task: peer, ending: Some(Ending::HostLost) };
        let patience = Duration::from_millis(100);
        task.routes.hold_back(peer, patience, ToTask::Notice { watch, event });
        // False only where the time is over before it begins to wait.
        if task.arm().unwrap() {
            assert!(becomes_readable(&task, 60), "watch {watch}");
            while !task.poll().unwrap() {}
        }
        assert!(matches!(task.next_event(), Some(Event::Notice { watch: w, .. }) if w == watch));
        // The timer has run out, and is silent again.
        while !task.arm().unwrap() {}
        assert!(!is_readable(&task), "watch {watch}");
    }
}

#[test]
fn a_task_that_has_settled_is_woken_by_what_comes_and_looks_at_it_first() {
    let (mut a, _a_side, mut b, mut b_side) = with_ring();
    while !b.settle().unwrap() {}
    assert!(b.is_armed() && !is_readable(&b) && b.wakes_at().is_none());
    assert!(b.waits.attention, "the next receive is to say that it runs again");
    a.send(b.id(), 1, b"by the ring").unwrap();
    assert!(is_readable(&b));
    let before = b.came();
    assert!(!b.settle().unwrap(), "something came");
    assert!(!b.is_armed() && b.came() >= before);
    assert_eq!(b.recv(&ANY).unwrap().tag(), 1);
    while !b.settle().unwrap() {}
    let task = a.id();
    b_side.say(&ToTask::Output { task, stream: towpath_vm::Stream::Out, bytes: vec![1] });
    assert!(becomes_readable(&b, 60));
    assert!(!b.settle().unwrap());
    assert!(matches!(b.next_event(), Some(Event::Output { .. })));
    // Something that was kept back is due at its time.
    let event = WatchEvent::TaskEnded { task, ending: None };
    let now = std::time::Instant::now();
    let patience = Duration::from_mins(10);
    b.routes.hold_back(task, patience, ToTask::Notice { watch: 1, event });
    let at = b.wakes_at().expect("it wakes then");
    assert!(now + patience <= at && at <= std::time::Instant::now() + patience);
    // A daemon that is gone is found out.
    drop(b_side);
    let lost = loop {
        match b.settle() {
            Ok(_) => std::thread::yield_now(),
            Err(lost) => break lost,
        }
    };
    assert!(matches!(lost, crate::error::RecvError::Lost(_)), "{lost:?}");
}
