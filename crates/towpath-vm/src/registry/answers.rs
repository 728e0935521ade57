//! Answers of the registry that may have to be given again: whoever asked a leader that was gone
//! before it answered asks the next one the same, and must not have it done twice.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use towpath_wire::TaskId;

use super::body::{Body, Kept};
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

/// Bytes that a host keeps, and answers name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Named {
    answers: usize,
    /// Nothing else names them any more.
    only_here: bool,
}

/// Invariants: `bytes` is what all that is kept costs; `named` has what its answers name, once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answers {
    given: BTreeMap<TaskId, BTreeMap<u64, Option<Answer>>>,
    /// Serials of questions without an answer yet, by the tasks' numbers for them.
    asked: BTreeMap<(TaskId, u64), u64>,
    bytes: usize,
    /// Follows from `given` and from mailboxes ([`Answers::name_again`]).
    #[serde(skip)]
    named: BTreeMap<Kept, Named>,
    /// Named by nothing any more.
    #[serde(skip)]
    released: Vec<Kept>,
}

/// The bytes that an answer names.
const fn kept_of(answer: Option<&Answer>) -> Option<Kept> {
    match answer {
        Some(Ok(RegistryAnswer::Mail { content, .. })) => content.kept(),
        _ => None,
    }
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
            let answer = given.get(&serial.this).cloned();
            for settled in settled.values() {
                self.let_go(settled.as_ref());
            }
            if let Some(answer) = answer {
                return Some(answer.unwrap_or(Err(Fault::Frozen(None))));
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
        let named = kept_of(Some(answer)).filter(|kept| !self.named.contains_key(kept));
        let there = named.map_or(0, |kept| kept.len as usize);
        let fits = self.bytes + cost(Some(answer)) + there <= ANSWERS_MAX;
        let kept = fits.then(|| answer.clone());
        let before = of_task.insert(serial, kept.clone());
        self.hold(kept.as_ref());
        if let Some(before) = before {
            self.let_go(before.as_ref());
        }
    }

    fn hold(&mut self, answer: Option<&Answer>) {
        self.bytes += cost(answer);
        if let Some(kept) = kept_of(answer) {
            let named = self.named.entry(kept).or_default();
            named.answers += 1;
            self.bytes += if named.answers == 1 { kept.len as usize } else { 0 };
        }
    }

    fn let_go(&mut self, answer: Option<&Answer>) {
        self.bytes -= cost(answer);
        let Some(kept) = kept_of(answer) else { return };
        let Some(named) = self.named.get_mut(&kept) else { return };
        named.answers -= 1;
        if named.answers == 0 {
            self.bytes -= kept.len as usize;
            self.released.extend(named.only_here.then_some(kept));
            self.named.remove(&kept);
        }
    }

    /// No mailbox names these bytes any more. Those that are returned nothing here names either;
    /// the others come by [`Answers::released`] some day.
    pub(crate) fn released_by_mail(&mut self, kept: Vec<Kept>) -> Vec<Kept> {
        let is_over = |kept: &Kept| match self.named.get_mut(kept) {
            Some(named) => {
                named.only_here = true;
                false
            }
            None => true,
        };
        kept.into_iter().filter(is_over).collect()
    }

    /// What nothing names any more.
    pub(crate) fn released(&mut self) -> Vec<Kept> {
        core::mem::take(&mut self.released)
    }

    /// The bytes that answers name.
    pub(crate) fn kept(&self) -> impl Iterator<Item = Kept> {
        self.named.keys().copied()
    }

    /// Finds out anew what is named, of answers that came as bytes; mailboxes name `elsewhere`.
    pub(crate) fn name_again(&mut self, elsewhere: &BTreeSet<Kept>) {
        (self.bytes, self.named) = (0, BTreeMap::new());
        let given = core::mem::take(&mut self.given);
        for answer in given.values().flat_map(BTreeMap::values) {
            self.hold(answer.as_ref());
        }
        self.given = given;
        for (kept, named) in &mut self.named {
            named.only_here = !elsewhere.contains(kept);
        }
    }

    /// How many there are, those that are not given yet among them.
    pub(crate) fn len(&self) -> usize {
        self.given.values().map(BTreeMap::len).sum::<usize>() + self.asked.len()
    }

    /// A task is over.
    pub(crate) fn forget(&mut self, task: TaskId) {
        let given = self.given.remove(&task).unwrap_or_default();
        for answer in given.values() {
            self.let_go(answer.as_ref());
        }
        let asked: Vec<_> =
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

    fn long(number: u64, len: usize) -> (Kept, Answer) {
        let holder = HostId::new(1, 1).expect("a host");
        let kept = Kept { holder, number, len: len as u32, crc: 0 };
        let (rules, content) = (crate::talk::MailRules::default(), Body::Kept(kept));
        (kept, Ok(RegistryAnswer::Mail { index: 0, owner: None, rules, format: 0, content }))
    }

    #[test]
    fn bytes_that_are_kept_are_needed_until_the_last_answer_that_names_them_is_settled() {
        let mut all = Answers::default();
        let (kept, answer) = long(1, 500_000);
        for n in 1..=2 {
            all.ask(task(n), 1, of(1, 1));
            all.give(task(n), 1, &answer);
        }
        assert_eq!(all.bytes, 2 * OVERHEAD + 500_000, "they are there once");
        assert_eq!(all.kept().collect::<Vec<_>>(), [kept]);
        // A copy that came as bytes knows the same.
        assert_eq!(all.released_by_mail(vec![kept]), []);
        let mut copy: Answers =
            postcard::from_bytes(&postcard::to_allocvec(&all).unwrap()).unwrap();
        copy.name_again(&BTreeSet::new());
        assert_eq!(copy, all);
        copy.name_again(&BTreeSet::from([kept]));
        assert_ne!(copy, all, "a mailbox names them, too");
        assert_eq!(all.ask(task(1), 1, of(1, 1)), Some(answer));
        all.ask(task(1), 2, of(2, 2));
        assert_eq!(all.released(), []);
        all.forget(task(2));
        assert_eq!((all.released(), all.released()), (vec![kept], vec![]));
        all.forget(task(1));
        assert_eq!(all, Answers::default());
        // What a mailbox still names is not over, and what nobody names is at once.
        let (kept, answer) = long(2, 5000);
        all.ask(task(1), 1, of(1, 1));
        all.give(task(1), 1, &answer);
        all.forget(task(1));
        assert_eq!((all.released(), all.bytes), (vec![], 0));
        assert_eq!(all.released_by_mail(vec![kept]), [kept]);
    }

    #[test]
    fn bytes_that_are_kept_take_room_among_the_answers() {
        let mut all = Answers::default();
        let len = ANSWERS_MAX / 2 - OVERHEAD;
        for n in 1..=3 {
            all.ask(task(n), 1, of(1, 1));
            all.give(task(n), 1, &long(u64::from(n), len).1);
        }
        assert_eq!(all.ask(task(2), 1, of(1, 1)), Some(long(2, len).1));
        assert_eq!(all.kept().count(), 2, "there is no room for a third one");
        all.ask(task(4), 1, of(1, 1));
        all.give(task(4), 1, &Ok(RegistryAnswer::Done));
        assert_eq!(all.ask(task(4), 1, of(1, 1)), None, "nor that it was given");
        (1..=4).for_each(|n| all.forget(task(n)));
        assert_eq!(all, Answers::default());
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
