//! A process that exits as soon as all it sent is on its way: for `tests/it/last_words.rs`.

use std::net::SocketAddr;

use towpath_io::Clock;
use towpath_io::direct::Rendezvous;
use towpath_wire::Instant;

use crate::side::{Side, V4, next, offers, task};

const LAST_WORDS: u64 = 3 << 20;

/// Sends to this port of its own machine, and exits.
pub(crate) fn send_and_exit(port: &str) {
    let [ours, _] = offers(true);
    let mut rendezvous = Rendezvous::new().unwrap();
    let address = SocketAddr::new(V4, port.parse().unwrap());
    rendezvous.dial(ours, address, Clock::start().now()).unwrap();
    let mut stream = next(&mut rendezvous, Instant::ZERO).unwrap();
    let mut side = Side::new(task(1), task(2), &[LAST_WORDS]);
    while side.next_piece().is_some() {
        stream.woken();
        side.send(&mut stream);
        // What the other sends is here, never taken, and more of it is in the kernel.
        let _ = stream.head();
    }
    // The rule for leaving: until the peer's kernel has everything.
    while !stream.drained() {
        stream.woken();
        stream.flush();
    }
    std::process::exit(0);
}
