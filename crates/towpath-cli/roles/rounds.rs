//! A team that works until it is told to end: for `tests/it/faults`.

use std::path::Path;
use std::time::Duration;

use towpath::Task;
use towpath::task::Wanted;

const TOKEN: i64 = 1;
/// Longer than a datagram: a message in several packets.
const LEN: usize = 4000;

/// A token goes round all tasks, each of which adds one, until a file of this name is there. The
/// first task says how many rounds there were.
pub(crate) fn rounds() {
    let end = std::env::args().nth(2).unwrap();
    let mut task = Task::enrol().unwrap();
    let size = Task::size().unwrap();
    let group = format!("rounds of {}", Task::job().unwrap_or_default());
    let rank = task.join_group(&group).unwrap();
    let members = task.freeze_group(&group, size).unwrap().members;
    let next = members[(rank as usize + 1) % members.len()].unwrap();
    let wanted = Wanted { source: None, tag: Some(TOKEN), context: 0 };
    // How many have had it, and whether this is its last round.
    let mut token = vec![0; LEN];
    for round in 1.. {
        if rank == 0 {
            token[8] = u8::from(Path::new(&end).exists());
            task.send(next, TOKEN, &token).unwrap();
        }
        token.copy_from_slice(task.recv(&wanted).unwrap().bytes());
        let count = u64::from_le_bytes(token[..8].try_into().unwrap()) + 1;
        token[..8].copy_from_slice(&count.to_le_bytes());
        if rank != 0 {
            task.send(next, TOKEN, &token).unwrap();
        } else {
            assert_eq!(count, u64::from(size) * round, "nobody is left out, nobody has it twice");
            println!("round {round}");
            // A pace that leaves the processors to others.
            std::thread::sleep(Duration::from_millis(20));
        }
        if token[8] == 1 {
            return;
        }
    }
}
