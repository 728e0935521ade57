//! Tasks on hosts that have a tasker.
//!
//! Where any task is a tasker, the program that daemons are told to start is `towpath`, which on
//! a host with a tasker asks that to start the program, and stands for the task as long as it runs.

use towpath_task::TaskInfo;

use super::contract::SpawnRequest;
use super::start::PROGRAM;
use super::towpath::Member;

/// Mailbox of the taskers.
const TASKERS: &str = "###_PVM_TASKER_###";
const STARTER: &str = "towpath pvm --by-tasker ";
/// What stands before the program.
const PROGRAM_NEXT: &str = " -- ";

impl Member {
    /// The program of tasks, and its arguments, as daemons are told.
    pub(super) fn with_taskers(
        &mut self,
        program: Vec<u8>,
        request: &SpawnRequest,
    ) -> (Vec<u8>, Vec<Vec<u8>>) {
        let args = request.args.clone();
        // Where nothing is known of mailboxes, as on a host that has lost the leader, daemons
        // start tasks.
        let boxes = self.layer().mailboxes(TASKERS).unwrap_or_default();
        let taskers = boxes.iter().flat_map(|one| &one.entries).filter_map(|entry| entry.1);
        let taskers: Vec<String> = taskers.map(|task| task.to_raw().to_string()).collect();
        if taskers.is_empty() {
            return (program, args);
        }
        let flags = format!("--flags={}", request.flags);
        let words = ["pvm", "--by-tasker", &taskers.join(","), &flags, "--"];
        let words = words.into_iter().map(|word| word.as_bytes().to_vec());
        (PROGRAM.into(), words.chain([program]).chain(args).collect())
    }
}

/// The program of a task's command.
pub(super) fn shown(command: &str) -> &str {
    let own = command.strip_prefix(STARTER).and_then(|rest| rest.split_once(PROGRAM_NEXT));
    own.map_or(command, |(_, rest)| rest).split(' ').next().unwrap_or_default()
}

/// Processes that stand for tasks.
pub(super) fn starters(tasks: &[TaskInfo]) -> Vec<u32> {
    let stands = tasks.iter().filter(|task| task.command.starts_with(STARTER));
    stands.map(|task| task.pid).collect()
}

/// A task that only asks a tasker is none of the program's.
pub(super) fn only_asks(task: &TaskInfo, starters: &[u32]) -> bool {
    starters.contains(&task.pid) && !task.command.starts_with(STARTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_shown_and_not_its_starter() {
        assert_eq!(shown("towpath pvm --by-tasker 7,8 --flags=0 -- /bin/a b c"), "/bin/a");
        assert_eq!(shown("/bin/a b c"), "/bin/a");
        assert_eq!(shown(""), "");
    }

    #[test]
    fn a_process_that_only_asks_a_tasker_is_no_task_of_the_programs() {
        let task = |pid, command: &str| TaskInfo {
            id: towpath_task::HostId::new(1, 1).unwrap().task(pid).unwrap(),
            requester: towpath_task::HostId::new(1, 1).unwrap(),
            pid,
            age_us: 0,
            command: command.into(),
            parent: None,
            enrolled: true,
            started: true,
            channels: 0,
            reserved_bps: 0,
        };
        let stands = task(7, "towpath pvm --by-tasker 3 --flags=0 -- /bin/a");
        let asks = task(7, "towpath");
        let other = task(8, "/bin/b");
        let starters = starters(&[stands.clone(), other.clone()]);
        assert_eq!(starters, [7]);
        let only = [&stands, &asks, &other].map(|task| only_asks(task, &starters));
        assert_eq!(only, [false, true, false]);
    }
}
