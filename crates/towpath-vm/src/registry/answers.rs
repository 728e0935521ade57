//! Answers of the registry that may have to be given again: whoever asked a leader that was gone
//! before it answered asks the next one the same, and must not have it done twice.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use towpath_wire::TaskId;

use super::body::Body;
use crate::talk::{Fault, RegistryAnswer};

/// Bytes of all answers that are kept, about. Of one that finds no room it is known only that it
/// was given.
pub const ANSWERS_MAX: usize = 16 << 20;
/// Answers of one task that are kept at most: those behind a question that waits for long.
const ANSWERS_OF_TASK_MAX: usize = 1024;
/// What an answer costs beside what it holds.
const OVERHEAD: usize = 128;

type Answer = Result<RegistryAnswer<Body>, Fault>;

/// Which question of a task it is: the same however often it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serial {
    /// Counts what the tasks of a host ask, from 1; 0: it will not be asked again.
    pub this: u64,
    /// The first of the task's that it has no answer to.
    pub open: u64,
}

/// Invariant: `bytes` is what all that is kept costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answers {
    given: BTreeMap<TaskId, BTreeMap<u64, Option<Answer>>>,
    /// Serials of questions without an answer yet, by the tasks' numbers for them.
    asked: BTreeMap<(TaskId, u64), u64>,
    bytes: usize,
}

fn cost(answer: Option<&Answer>) -> usize {
    let held = match answer {
        Some(Ok(RegistryAnswer::Mail { content: Body::Here(bytes), .. })) => bytes.len(),
        Some(Ok(RegistryAnswer::Members { members, .. })) => 16 * members.len(),
        Some(Ok(RegistryAnswer::Groups(groups))) => {
            groups.iter().map(|(name, _)| name.len() + 32).sum()
        }
        Some(Ok(RegistryAnswer::Mailboxes(boxes))) => {
            boxes.iter().map(|b| b.name.len() + 32 + 32 * b.entries.len()).sum()
        }
        _ => 0,
    };
    held + OVERHEAD
}

impl Answers {
    /// A task asks; what it was answered, if that was so already. The error is for one whose
    /// answer was not kept.
    pub(crate) fn ask(&mut self, task: TaskId, number: u64, serial: Serial) -> Option<Answer> {
        if serial.this == 0 {
            return None;
        }
        if let Some(given) = self.given.get_mut(&task) {
            let open = given.split_off(&serial.open);
            let settled = core::mem::replace(given, open);
            self.bytes -= settled.values().map(|a| cost(a.as_ref())).sum::<usize>();
            if let Some(answer) = given.get(&serial.this) {
                return Some(answer.clone().unwrap_or(Err(Fault::Frozen(None))));
            }
        }
        self.asked.insert((task, number), serial.this);
        None
    }

    /// A task is answered.
    pub(crate) fn give(&mut self, task: TaskId, number: u64, answer: &Answer) {
        let Some(serial) = self.asked.remove(&(task, number)) else { return };
        let of_task = self.given.entry(task).or_default();
        // Beyond that, and where not even that it was given finds room, it may be done again.
        if of_task.len() >= ANSWERS_OF_TASK_MAX || self.bytes + OVERHEAD > ANSWERS_MAX {
            return;
        }
        let fits = self.bytes + cost(Some(answer)) <= ANSWERS_MAX;
        let kept = fits.then(|| answer.clone());
        self.bytes += cost(kept.as_ref());
        if let Some(before) = of_task.insert(serial, kept) {
            self.bytes -= cost(before.as_ref());
        }
    }

    /// How many there are, those that are not given yet among them.
    pub(crate) fn len(&self) -> usize {
        self.given.values().map(BTreeMap::len).sum::<usize>() + self.asked.len()
    }

    /// A task is over.
    pub(crate) fn forget(&mut self, task: TaskId) {
        let given = self.given.remove(&task).unwrap_or_default();
        self.bytes -= given.values().map(|a| cost(a.as_ref())).sum::<usize>();
        let asked: alloc::vec::Vec<_> =
            self.asked.range((task, 0)..=(task, u64::MAX)).map(|(key, _)| *key).collect();
        for key in asked {
            self.asked.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use towpath_wire::HostId;

    use super::*;

    fn task(n: u32) -> TaskId {
        HostId::new(1, 1).and_then(|host| host.task(n)).expect("a task")
    }

    fn of(this: u64, open: u64) -> Serial {
        Serial { this, open }
    }

    #[test]
    fn an_answer_costs_what_it_holds() {
        let bytes = |answer: Answer| {
            let mut all = Answers::default();
            all.ask(task(1), 1, of(1, 1));
            all.give(task(1), 1, &answer);
            let bytes = all.bytes;
            all.forget(task(1));
            assert_eq!(all.bytes, 0);
            bytes - OVERHEAD
        };
        assert_eq!(bytes(Ok(RegistryAnswer::Done)), 0);
        assert_eq!(bytes(Err(Fault::NoTask)), 0);
        let rules = crate::talk::MailRules::default();
        let mail =
            |content| RegistryAnswer::Mail { index: 0, owner: None, rules, format: 0, content };
        let content = Body::Here(vec![0; 1000]);
        assert_eq!(bytes(Ok(mail(content))), 1000);
        let members = vec![None; 5];
        assert_eq!(bytes(Ok(RegistryAnswer::Members { members, version: 1, context: 1 })), 5 * 16);
        let groups = vec![("one".into(), 1), ("three".into(), 2)];
        assert_eq!(bytes(Ok(RegistryAnswer::Groups(groups))), 3 + 5 + 2 * 32);
        let boxed = |name: &str, entries| crate::talk::Mailbox {
            name: name.into(),
            entries: vec![(0, None, rules); entries],
        };
        let boxes = vec![boxed("one", 0), boxed("three", 4)];
        assert_eq!(bytes(Ok(RegistryAnswer::Mailboxes(boxes))), 3 + 5 + 2 * 32 + 4 * 32);
    }

    #[test]
    fn a_question_that_was_answered_is_answered_alike_until_the_task_has_heard() {
        let mut all = Answers::default();
        let done = Ok(RegistryAnswer::Instance(7));
        assert_eq!(all.ask(task(1), 5, of(1, 1)), None);
        assert_eq!(all.ask(task(1), 5, of(1, 1)), None, "it is not answered yet");
        all.give(task(1), 5, &done);
        assert_eq!(all.ask(task(1), 5, of(1, 1)), Some(done.clone()));
        assert_eq!(all.ask(task(2), 5, of(1, 1)), None, "that is another one's");
        // It asks something else under the same number: it has its answer to the first.
        assert_eq!(all.ask(task(1), 5, of(2, 2)), None);
        assert_eq!(all.ask(task(1), 5, of(1, 1)), None, "nobody asks that any more");
        all.forget(task(1));
        all.forget(task(2));
        assert_eq!(all, Answers::default());
        all.ask(task(1), 5, of(0, 0));
        all.give(task(1), 5, &done);
        assert_eq!(all, Answers::default(), "that will not be asked again");
    }

    #[test]
    fn a_task_whose_first_question_waits_has_so_many_answers_kept_and_no_more() {
        let mut all = Answers::default();
        let done = Ok(RegistryAnswer::Done);
        for n in 1..=ANSWERS_OF_TASK_MAX as u64 + 10 {
            all.ask(task(1), n, of(n, 1));
            all.give(task(1), n, &done);
        }
        assert_eq!(all.len(), ANSWERS_OF_TASK_MAX);
        assert_eq!(all.bytes, ANSWERS_OF_TASK_MAX * OVERHEAD);
        // The same serial under two numbers is one answer.
        let mut all = Answers::default();
        all.ask(task(1), 1, of(1, 1));
        all.ask(task(1), 2, of(1, 1));
        (1..=2).for_each(|n| all.give(task(1), n, &done));
        assert_eq!((all.len(), all.bytes), (1, OVERHEAD));
    }

    #[test]
    fn what_finds_no_room_is_known_to_have_been_answered() {
        let mut all = Answers::default();
        let members = vec![None; ANSWERS_MAX / 16 / 2];
        let long = Ok(RegistryAnswer::Members { members, version: 1, context: 0 });
        for n in 1..=2 {
            all.ask(task(n), 1, of(1, 1));
            all.give(task(n), 1, &long);
        }
        assert_eq!(all.ask(task(1), 1, of(1, 1)), Some(long));
        assert_eq!(all.ask(task(2), 1, of(1, 1)), Some(Err(Fault::Frozen(None))));
        assert!(all.bytes <= ANSWERS_MAX, "{}", all.bytes);
        (1..=2).for_each(|n| all.forget(task(n)));
        assert_eq!(all.bytes, 0);
    }
}
