//! Two tasks where memory is tight: for `tests/memory.rs`.

use std::time::{Duration, Instant};

use towpath::Task;
use towpath::task::{SendError, Subject, Wanted};

pub(crate) const MIB: usize = 1 << 20;
/// What the machine of each test has.
pub(crate) const LIMIT: usize = 192 * MIB;
const LONG: Duration = Duration::from_mins(1);

/// Four times as much as there is goes from one task to the other, both in blocks of shared memory
/// and beside it.
pub(crate) fn exchange() {
    let mut task = Task::enrol().unwrap();
    let group = Task::job().unwrap();
    let team = task.team(&group, 2).unwrap();
    let (rank, peer) = (team.rank(), team.members()[1 - team.rank() as usize]);
    for n in 0..4 * LIMIT / (4 * MIB) {
        let bytes = vec![n as u8; 4 * MIB];
        if rank == 0 {
            task.send(peer, 1, &bytes).unwrap();
        } else {
            let wanted = Wanted { source: Some(peer), tag: Some(1), context: 0 };
            let got = task.recv_timeout(&wanted, LONG).unwrap().expect("it arrives");
            assert!(got.bytes() == bytes, "message {n}");
        }
    }
}

/// One takes all the memory that there is; the other hears of its end, and says so.
pub(crate) fn eat() {
    let mut task = Task::enrol().unwrap();
    let group = Task::job().unwrap();
    let team = task.team(&group, 2).unwrap();
    if team.rank() == 0 {
        let mut taken = Vec::new();
        loop {
            taken.push(std::hint::black_box(vec![taken.len() as u8 | 1; MIB]));
        }
    }
    let eater = team.members()[0];
    task.watch(Subject::Task(eater)).unwrap();
    let end = Instant::now() + LONG;
    while task.next_event().is_none() {
        assert!(Instant::now() < end && task.wait(Some(LONG)).unwrap(), "the end is told");
    }
    assert!(matches!(task.send(eater, 1, b"?"), Err(SendError::NoTask(_))));
    println!("the end was told");
}
