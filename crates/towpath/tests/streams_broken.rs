//! The direct route between hosts on a network that breaks. A file of its own: it breaks all TCP
//! connections of its process.

#[path = "it/support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::net::Shutdown;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use support::{Vm, work};

/// Ends all TCP connections of this process, as a broken network would.
fn break_streams() -> usize {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let mut broken = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let Ok(fd) = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()) else { continue };
        let tcp = rustix::net::sockopt::tcp_nodelay(&fd).is_ok();
        if tcp && rustix::net::getpeername(&fd).is_ok() {
            broken += usize::from(rustix::net::shutdown(&fd, Shutdown::Both).is_ok());
        }
    }
    broken
}

#[test]
fn streams_that_break_again_and_again_lose_and_double_nothing() {
    let vm = Vm::up(2);
    let (mut a, mut b) = (vm.task(1), vm.task(2));
    let (first, second) = (a.id(), b.id());
    let done = AtomicBool::new(false);
    let broken = thread::scope(|s| {
        let breaker = s.spawn(|| {
            let mut broken = 0;
            while !done.load(Ordering::Relaxed) {
                broken += break_streams();
                thread::yield_now();
            }
            broken
        });
        let one = s.spawn(|| work(&mut a, second, 300));
        work(&mut b, first, 300);
        one.join().unwrap();
        done.store(true, Ordering::Relaxed);
        breaker.join().unwrap()
    });
    assert!(broken > 0, "no stream was broken");
}
