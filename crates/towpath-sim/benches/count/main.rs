//! What a packet and a message cost, as a fixed amount of work without a clock: for counting
//! instructions and allocations under a tool. `cargo xtask count` does so, here and in another
//! checkout.
//!
//! `cargo bench -p towpath-sim --bench count -- WHAT N`; what there is: `main` lists it. The
//! difference between N and 2 N is the cost of N; the beginning drops out.

mod messages;
mod packets;

use messages::{BEGINNING, Hosts};
use packets::{Pair, Payload};

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let (what, n) = (args.next(), args.next());
    let n: u64 = n.and_then(|n| n.parse().ok()).unwrap_or(1000);
    let long = (1 << 20) - 64;
    match what.as_deref().unwrap_or("packets") {
        // Datagrams of long messages with the stand-in's seal, taken in by their receiver.
        "packets" => Pair::new(Payload::Bytes, long).run(n),
        // Datagrams with a message of 1400 bytes each that nobody stores.
        "short-packets" => Pair::new(Payload::Virtual, 1400).run(n),
        // Messages of 16 bytes, eight at once, between tasks of two hosts by their daemons.
        "messages" => Hosts::new().stream(BEGINNING + n, 8),
        // The same, and each waits for the one before.
        "echoes" => Hosts::new().stream(BEGINNING + n, 1),
        // Messages of 32 KiB, each after the one before has arrived.
        "long-messages" => Hosts::new().long(BEGINNING / 20 + n),
        what => panic!("{what}: there is packets, short-packets, messages, echoes, long-messages"),
    }
}
