//! A task that another spawns: for `tests/it/spawn.rs`.

use towpath::Task;

use crate::support::ANY;

/// Tells its parent of itself, then goes as its role says.
pub(crate) fn child(role: &str) {
    let mut task = Task::enrol().unwrap();
    let parent = task.parent().expect("a task spawned it");
    assert_eq!(task.context(), 7);
    match role {
        "family" => {
            let all: Vec<u8> =
                task.siblings().iter().flat_map(|t| t.to_raw().to_le_bytes()).collect();
            task.send(parent, 1, &all).unwrap();
        }
        "exit 3" => {
            task.send(parent, 1, b"").unwrap();
            std::process::exit(3);
        }
        role => panic!("{role}"),
    }
    let _ = task.recv(&ANY);
}
