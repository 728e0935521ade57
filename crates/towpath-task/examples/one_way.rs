//! What a short message costs between two tasks of one host. The daemon is played; it says nothing
//! after the beginning.
//!
//! ```text
//! cargo build --release -p towpath-task --example one_way
//! valgrind --tool=callgrind target/release/examples/one_way 20
//! valgrind --tool=callgrind target/release/examples/one_way any 20
//! target/release/examples/one_way echo 1000000
//! ```
//! The first form sends 16 bytes to and fro by shared memory in one thread, each message there
//! before it is asked for: the library's own path, in instructions. Those of a message are the
//! difference of two runs by the difference of their messages (20 and 120: beyond some 120, the
//! library looks at the processor it runs on, by a way that valgrind does not know).
//!
//! The second form is the same, but receives from anybody.
//!
//! The third form is a round trip between two threads on processors 0 and 1, beside that of a
//! word which both look at; both in nanoseconds, least and median of batches.

#![allow(dead_code)] // not all that a test says is said here

#[path = "../src/tests/stage.rs"]
mod stage;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};
use stage::{Side, Stage};
use towpath_task::{Route, Task, Wanted};
use towpath_wire::TaskId;

/// Round trips between two looks at the clock.
const BATCH: u64 = 1000;

fn enrol(stage: &mut Stage) -> (Task, Side) {
    let socket = stage.socket();
    let enrolling = std::thread::spawn(move || Task::enrol_at(&socket, None).expect("enrols"));
    let side = stage.accept(1, true);
    (enrolling.join().expect("enrols"), side)
}

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    let echo = args.next_if(|arg| arg == "echo").is_some();
    let any = args.next_if(|arg| arg == "any").is_some();
    let count = args.next().map_or(100_000, |n| n.parse().expect("a number"));
    let mut stage = Stage::new();
    let ((mut a, mut a_side), (mut b, mut b_side)) = (enrol(&mut stage), enrol(&mut stage));
    stage::ring(&mut a_side, &mut b_side);
    while a.route(b.id()) != Route::Ring || b.route(a.id()) != Route::Ring {
        a.poll().expect("polls");
        b.poll().expect("polls");
    }
    if echo {
        floor(count);
        trips(a, b, count);
    } else {
        one_thread(a, b, count, any);
    }
}

fn one_thread(mut a: Task, mut b: Task, messages: u64, any: bool) {
    let from = |peer: TaskId| Wanted { source: (!any).then_some(peer), ..Wanted::any().tag(1) };
    let mut wanted = from(a.id());
    let mut room = [0; 16];
    let (mut sender, mut receiver) = (&mut a, &mut b);
    let begin = Instant::now();
    for _ in 0..messages {
        sender.send(receiver.id(), 1, &[7; 16]).expect("sends");
        receiver.recv_into(&wanted, &mut room).expect("receives");
        (sender, receiver) = (receiver, sender);
        wanted = from(sender.id());
    }
    let ns = begin.elapsed().as_nanos() as f64 / messages as f64;
    println!("{messages} messages, {ns:.1} ns each");
}

fn pin(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).expect("such a processor");
}

/// Runs batches of `trip`; says how long a trip takes.
fn timed(what: &str, count: u64, mut trip: impl FnMut()) {
    pin(0);
    let mut ns: Vec<u128> = Vec::new();
    for _ in 0..count / BATCH {
        let begin = Instant::now();
        (0..BATCH).for_each(|_| trip());
        ns.push(begin.elapsed().as_nanos() / u128::from(BATCH));
    }
    ns.sort_unstable();
    let (least, median) = (ns.first(), ns.get(ns.len() / 2));
    println!("{what}: least {least:?} ns, median {median:?} ns");
}

/// Words on lines of their own.
#[repr(align(128))]
struct Word(AtomicU64);

fn floor(count: u64) {
    static THERE: Word = Word(AtomicU64::new(0));
    static BACK: Word = Word(AtomicU64::new(0));
    let wait = |word: &AtomicU64, n| {
        while word.load(Ordering::Acquire) != n {
            std::hint::spin_loop();
        }
    };
    let count = count / BATCH * BATCH;
    let far = std::thread::spawn(move || {
        pin(1);
        for n in 1..=count {
            wait(&THERE.0, n);
            BACK.0.store(n, Ordering::Release);
        }
    });
    let mut n = 0;
    timed("shared word", count, || {
        n += 1;
        THERE.0.store(n, Ordering::Release);
        wait(&BACK.0, n);
    });
    far.join().expect("ends");
}

fn trips(mut a: Task, mut b: Task, count: u64) {
    let (near, far) = (a.id(), b.id());
    let count = count / BATCH * BATCH;
    let serving = std::thread::spawn(move || {
        pin(1);
        let (wanted, mut room) = (Wanted::any().from(near).tag(1), [0; 16]);
        for _ in 0..count {
            b.recv_into(&wanted, &mut room).expect("receives");
            b.send(near, 1, &room).expect("sends");
        }
        b
    });
    let (wanted, mut room) = (Wanted::any().from(far).tag(1), [0; 16]);
    timed("tasks, 16 B", count, || {
        a.send(far, 1, &[7; 16]).expect("sends");
        a.recv_into(&wanted, &mut room).expect("receives");
    });
    drop(serving.join().expect("ends"));
    println!("{:?}", a.counters());
}
