//! Tasks on the stage, and what they said to it.

use towpath_vm::matching::Wanted;
use towpath_wire::TaskId;
use towpath_wire::talk::Header;

use super::stage::{self, Heard, Side, Stage};
use crate::task::Task;

pub(crate) const ANY: Wanted = Wanted::any();

/// A task on host `slot`, with shared memory, and the daemon's side of it.
pub(crate) fn enrol(stage: &mut Stage, slot: u16) -> (Task, Side) {
    let socket = stage.socket();
    let enrolling = std::thread::spawn(move || Task::enrol_at(&socket, None).unwrap());
    let side = stage.accept(slot, true);
    (enrolling.join().unwrap(), side)
}

/// Two tasks of one host.
pub(crate) fn neighbours() -> (Task, Side, Task, Side) {
    let mut stage = Stage::new();
    let (a, a_side) = enrol(&mut stage, 1);
    let (b, b_side) = enrol(&mut stage, 1);
    (a, a_side, b, b_side)
}

/// Two tasks, each with the daemon's side of it.
pub(crate) type Pair = (Task, Side, Task, Side);

/// Two tasks of one host with an open ring.
pub(crate) fn with_ring() -> Pair {
    let (mut a, mut a_side, mut b, mut b_side) = neighbours();
    stage::ring(&mut a_side, &mut b_side);
    for _ in 0..2 {
        a.poll().unwrap();
        b.poll().unwrap();
    }
    assert_eq!(a.route(b.id()), crate::Route::Ring);
    assert_eq!(b.route(a.id()), crate::Route::Ring);
    (a, a_side, b, b_side)
}

/// Tasks of one host, each with a ring to every other one.
pub(crate) fn crowd(count: usize) -> (Vec<Task>, Vec<Side>) {
    let mut stage = Stage::new();
    let (mut tasks, mut sides): (Vec<Task>, Vec<Side>) =
        (0..count).map(|_| enrol(&mut stage, 1)).unzip();
    for number in 1..count {
        let (before, rest) = sides.split_at_mut(number);
        for side in before {
            stage::ring(&mut rest[0], side);
        }
    }
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    for _ in 0..2 {
        for task in &mut tasks {
            task.poll().unwrap();
        }
    }
    for task in &mut tasks {
        let own = task.id();
        let mut others = ids.iter().copied().filter(|id| *id != own);
        assert!(others.all(|other| task.route(other) == crate::Route::Ring));
    }
    (tasks, sides)
}

/// Has every task do something, each in a thread of its own; what came of it.
pub(crate) fn all<T: Send>(
    tasks: &mut [Task],
    work: impl Fn(usize, &mut Task) -> T + Sync,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = tasks
            .iter_mut()
            .enumerate()
            .map(|(n, task)| scope.spawn(move || work(n, task)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The header of a message of one piece.
pub(crate) fn header(src: TaskId, dst: TaskId, tag: i64, seq: u32, len: usize) -> Header {
    Header { src, dst, tag, context: 0, seq, format: 0, total: len as u64, offset: 0 }
}

/// The messages that a task has sent to `dst` through its daemon, whole, as numbers, tags and
/// bytes.
pub(crate) fn sent(side: &mut Side, dst: TaskId) -> Vec<(u32, i64, Vec<u8>)> {
    let mut messages: Vec<(u32, i64, Vec<u8>)> = Vec::new();
    let mut whole = true;
    while let Some(heard) = side.heard() {
        let Heard::Data(header, bytes) = heard else { continue };
        if header.dst != dst {
            continue;
        }
        if header.offset == 0 {
            assert!(whole, "a message begins before the last one has ended");
            messages.push((header.seq, header.tag, Vec::new()));
        }
        let (seq, _, message) = messages.last_mut().unwrap();
        assert_eq!((*seq, message.len() as u64), (header.seq, header.offset), "pieces in order");
        message.extend_from_slice(&bytes);
        whole = message.len() as u64 == header.total;
    }
    assert!(whole, "the last message is whole");
    messages
}
