//! Programs that wait on their own, for the descriptor of a task.

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::actors::{ANY, with_ring};
use crate::task::Task;

/// Whether the task's descriptor is readable now.
fn is_readable(task: &Task) -> bool {
    let descriptor = task.descriptor();
    let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
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
