//! Once everything has found its room, a message between tasks of two hosts takes nothing from the
//! heap on its whole way through both nodes, counted at the allocator.

#[path = "../benches/count/messages.rs"]
mod messages;

use std::alloc::System;

use cap::Cap;
use messages::{BEGINNING, Hosts};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Bytes that `work` took from the heap, whether it gave them back or not.
fn taken(work: impl FnOnce()) -> usize {
    let before = ALLOCATOR.total_allocated();
    work();
    ALLOCATOR.total_allocated() - before
}

#[test]
fn a_message_takes_nothing_from_the_heap() {
    let mut hosts = Hosts::new();
    let enrolled = ALLOCATOR.total_allocated();
    hosts.stream(BEGINNING, 64);
    hosts.long(BEGINNING / 20);
    hosts.stream(BEGINNING, 8);
    assert!(taken(|| drop(vec![0_u8; 100])) == 100 && enrolled > 0, "it counts");
    let short = taken(|| hosts.stream(4096, 8));
    let single = taken(|| hosts.stream(1024, 1));
    let long = taken(|| hosts.long(256));
    assert_eq!((short, single, long), (0, 0, 0), "eight at once, one after the other, 32 KiB");
}
