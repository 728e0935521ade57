//! What the library's own path of a short message costs, in instructions: two tasks of one process
//! send 16 bytes to and fro by shared memory, each message there before it is asked for. The
//! daemon is played; it says nothing after the beginning.
//!
//! ```text
//! cargo build --release -p towpath-task --example one_way
//! valgrind --tool=callgrind target/release/examples/one_way 100000
//! ```
//! Instructions per message are the difference of two runs, by the difference of their messages.

#![allow(dead_code)] // not all that a test says is said here

#[path = "../src/tests/stage.rs"]
mod stage;

use stage::{Side, Stage};
use towpath_task::{Route, Task, Wanted};

fn enrol(stage: &mut Stage) -> (Task, Side) {
    let socket = stage.socket();
    let enrolling = std::thread::spawn(move || Task::enrol_at(&socket, None).expect("enrols"));
    let side = stage.accept(1, true);
    (enrolling.join().expect("enrols"), side)
}

fn main() {
    let messages = std::env::args().nth(1).map_or(100_000, |n| n.parse().expect("a number"));
    let mut stage = Stage::new();
    let ((mut a, mut a_side), (mut b, mut b_side)) = (enrol(&mut stage), enrol(&mut stage));
    stage::ring(&mut a_side, &mut b_side);
    while a.route(b.id()) != Route::Ring || b.route(a.id()) != Route::Ring {
        a.poll().expect("polls");
        b.poll().expect("polls");
    }
    let from_a = Wanted::from(a.id(), 1, 0);
    let mut room = [0; 16];
    let (mut sender, mut receiver, mut wanted) = (&mut a, &mut b, from_a);
    for _ in 0..messages {
        sender.send(receiver.id(), 1, &[7; 16]).expect("sends");
        receiver.recv_into(&wanted, &mut room).expect("receives");
        (sender, receiver) = (receiver, sender);
        wanted.source = Some(sender.id());
    }
    println!("{messages} messages");
}
