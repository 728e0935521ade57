//! Mailboxes: named places for entries that tasks leave for others, with PVM's rules.
//!
//! - A mailbox has one entry, or as many as come, if each of them came with
//!   [`MailRules::many`].
//! - An entry may be deleted, and one asked for by its place overwritten, by its owner, or by
//!   anybody if it came with [`MailRules::overwritable`]. Put without a place, it overwrites the
//!   only one there is if both came so.
//! - An entry goes when its owner ends, unless it is [`MailRules::persistent`]: then it has no
//!   owner any more.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use towpath_wire::TaskId;

use super::body::{Body, Kept};
use super::core::{Answered, Reply};
use crate::talk::{Fault, MailRules, Mailbox, RegistryAnswer};

/// Most entries in all.
pub const ENTRIES_MAX: usize = 65_536;
/// Most bytes in all entries.
pub const MAIL_BYTES_MAX: usize = 64 << 20;
/// Most entries that one task owns: a quarter of all, so that the others do not lack what one has.
pub const ENTRIES_OF_TASK_MAX: usize = ENTRIES_MAX / 4;
/// Most bytes in the entries that one task owns.
pub const BYTES_OF_TASK_MAX: usize = MAIL_BYTES_MAX / 4;
/// Most entries that outlive, or have outlived, their owners: half of all. They stay until somebody
/// deletes them, however many tasks come and go.
pub const PERSISTENT_MAX: usize = ENTRIES_MAX / 2;
/// Most bytes in such entries.
pub const PERSISTENT_BYTES_MAX: usize = MAIL_BYTES_MAX / 2;
/// Most entries that one task waits for.
pub const WAITS_OF_TASK_MAX: usize = 1024;
/// Largest place in a mailbox, and one.
const PLACES_MAX: u32 = 1 << 20;
/// Longest list told, in bytes.
const LIST_BYTES_MAX: usize = 512 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    owner: Option<TaskId>,
    rules: MailRules,
    format: u32,
    content: Body,
}

impl Entry {
    fn yields_to(&self, task: TaskId) -> bool {
        self.rules.overwritable || self.owner == Some(task)
    }
}

/// A task that waits for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Wait {
    asker: (TaskId, u64),
    index: Option<u32>,
    from: u32,
    delete: bool,
}

/// A mailbox. Invariant: `taken` covers the places of `entries` and no others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    entries: BTreeMap<u32, Entry>,
    taken: Runs,
    waits: VecDeque<Wait>,
}

/// Numbers as runs without a gap, by their first, with the one behind their last: so that a free
/// one is found without a walk over those that are not. Invariant: between two runs there is a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Runs(BTreeMap<u32, u32>);

impl Runs {
    /// The run that has a number.
    fn run(&self, number: u32) -> Option<(u32, u32)> {
        let (first, end) = self.0.range(..=number).next_back()?;
        (number < *end).then_some((*first, *end))
    }

    /// The first number from `from` on that is in none.
    fn free_from(&self, from: u32) -> u32 {
        self.run(from).map_or(from, |(_, end)| end)
    }

    fn add(&mut self, number: u32) {
        if self.run(number).is_some() {
            return;
        }
        let end = self.0.remove(&(number + 1)).unwrap_or(number + 1);
        let before = number.checked_sub(1).and_then(|before| self.run(before));
        self.0.insert(before.map_or(number, |(first, _)| first), end);
    }

    fn remove(&mut self, number: u32) {
        let Some((first, end)) = self.run(number) else { return };
        self.0.remove(&first);
        if first < number {
            self.0.insert(first, number);
        }
        if number + 1 < end {
            self.0.insert(number + 1, end);
        }
    }
}

/// How many entries there are of a kind, and how long they are together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Sum {
    count: usize,
    bytes: usize,
}

impl Sum {
    const fn add(&mut self, len: usize) {
        self.count += 1;
        self.bytes += len;
    }

    const fn remove(&mut self, len: usize) {
        self.count -= 1;
        self.bytes -= len;
    }

    /// With an entry of `len` more, in the place of one of `freed`, if there is one.
    fn fits(self, len: usize, freed: Option<usize>, max: Self, what: Names) -> Result<(), Fault> {
        let limit =
            |what: &str, limit: usize| Err(Fault::Limit { what: what.into(), limit: limit as u64 });
        if self.count + 1 - usize::from(freed.is_some()) > max.count {
            return limit(what.0, max.count);
        }
        if self.bytes - freed.unwrap_or(0) + len > max.bytes {
            return limit(what.1, max.bytes);
        }
        Ok(())
    }
}

/// What a limit of entries is called, and one of their bytes.
type Names = (&'static str, &'static str);

const ALL: (Sum, Names) =
    (Sum { count: ENTRIES_MAX, bytes: MAIL_BYTES_MAX }, ("mailbox entries", "bytes in mailboxes"));
const OF_TASK: (Sum, Names) = (
    Sum { count: ENTRIES_OF_TASK_MAX, bytes: BYTES_OF_TASK_MAX },
    ("mailbox entries of one task", "bytes in mailboxes of one task"),
);
const PERSISTENT: (Sum, Names) = (
    Sum { count: PERSISTENT_MAX, bytes: PERSISTENT_BYTES_MAX },
    ("mailbox entries that outlive their owners", "bytes in mailboxes that outlive their owners"),
);

/// What a task has to do with mailboxes. Invariants: `owned` sums its entries; of `names` none has
/// zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Ties {
    /// Those where it owns entries or waits, and how many times.
    names: BTreeMap<String, usize>,
    owned: Sum,
    waiting: usize,
}

impl Ties {
    fn tie(&mut self, name: &str) {
        *self.names.entry(name.into()).or_default() += 1;
    }

    fn untie(&mut self, name: &str, times: usize) {
        if let Some(count) = self.names.get_mut(name) {
            *count -= times;
            if *count == 0 {
                self.names.remove(name);
            }
        }
    }
}

/// All mailboxes. Invariants: none is empty; `all` sums the entries, `persistent` those that
/// outlive their owners; `of` has the tasks that own an entry or wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mail {
    by_name: BTreeMap<String, Place>,
    of: BTreeMap<TaskId, Ties>,
    all: Sum,
    persistent: Sum,
    waiting: usize,
    /// Kept elsewhere, and needed no more.
    #[serde(skip)]
    released: Vec<Kept>,
}

impl Mail {
    pub(super) const fn len(&self) -> usize {
        self.all.count
    }

    /// Where an entry is to go, by PVM's rules: one of many to the first free place, another to
    /// its place, in the stead of one of the same owner or one that anybody may write over.
    fn place(
        &self,
        task: TaskId,
        name: &str,
        index: Option<u32>,
        rules: MailRules,
    ) -> Result<u32, Fault> {
        let from = index.unwrap_or(0);
        let Some(place) = self.by_name.get(name) else { return Ok(from) };
        if rules.many {
            return Ok(place.taken.free_from(from));
        }
        match place.entries.get(&from) {
            Some(entry) if !entry.yields_to(task) => Err(Fault::Denied),
            _ => Ok(from),
        }
    }

    pub(super) fn put(
        &mut self,
        task: TaskId,
        name: &str,
        index: Option<u32>,
        rules: MailRules,
        (format, content): (u32, Body),
    ) -> Answered {
        let len = content.len();
        let admitted = self.place(task, name, index, rules).and_then(|index| {
            self.check_room(task, name, index, rules, len)?;
            Ok(index)
        });
        let index = match admitted {
            Ok(index) => index,
            Err(fault) => {
                self.release(&content);
                return Err(fault);
            }
        };
        self.remove(name, index);
        let entry = Entry { owner: Some(task), rules, format, content };
        let place = self.by_name.entry(name.into()).or_default();
        place.entries.insert(index, entry);
        place.taken.add(index);
        self.all.add(len);
        if rules.persistent {
            self.persistent.add(len);
        }
        let ties = self.of.entry(task).or_default();
        ties.owned.add(len);
        ties.tie(name);
        Ok(RegistryAnswer::Index(index))
    }

    /// Whether a task may put an entry of `len` bytes there.
    fn check_room(
        &self,
        task: TaskId,
        name: &str,
        index: u32,
        rules: MailRules,
        len: usize,
    ) -> Result<(), Fault> {
        if index >= PLACES_MAX {
            let limit = u64::from(PLACES_MAX);
            return Err(Fault::Limit { what: "places in a mailbox".into(), limit });
        }
        let old = self.by_name.get(name).and_then(|p| p.entries.get(&index));
        let freed = |counts: bool| old.filter(|_| counts).map(|old| old.content.len());
        self.all.fits(len, freed(true), ALL.0, ALL.1)?;
        let own = self.of.get(&task).map_or(Sum::default(), |ties| ties.owned);
        let was_own = old.is_some_and(|old| old.owner == Some(task));
        own.fits(len, freed(was_own), OF_TASK.0, OF_TASK.1)?;
        if rules.persistent {
            let stayed = old.is_some_and(|old| old.rules.persistent);
            self.persistent.fits(len, freed(stayed), PERSISTENT.0, PERSISTENT.1)?;
        }
        Ok(())
    }

    fn release(&mut self, content: &Body) {
        self.released.extend(content.kept());
    }

    /// What is kept elsewhere.
    pub(super) fn kept(&self) -> impl Iterator<Item = Kept> {
        let entries = self.by_name.values().flat_map(|place| place.entries.values());
        entries.filter_map(|entry| entry.content.kept())
    }

    /// What is kept elsewhere and needed no more.
    pub(super) fn released(&mut self) -> Vec<Kept> {
        core::mem::take(&mut self.released)
    }

    /// Takes an entry out; its mailbox goes with the last one, unless somebody waits there.
    fn remove(&mut self, name: &str, index: u32) -> Option<Entry> {
        let place = self.by_name.get_mut(name)?;
        let entry = place.entries.remove(&index)?;
        place.taken.remove(index);
        self.release(&entry.content);
        let len = entry.content.len();
        self.all.remove(len);
        if entry.rules.persistent {
            self.persistent.remove(len);
        }
        if let Some(ties) = entry.owner.and_then(|owner| self.of.get_mut(&owner)) {
            ties.owned.remove(len);
            ties.untie(name, 1);
        }
        self.settle(name, entry.owner);
        Some(entry)
    }

    /// Forgets a mailbox with nothing in it, and a task that has to do with none.
    fn settle(&mut self, name: &str, task: Option<TaskId>) {
        let place = self.by_name.get(name);
        if place.is_some_and(|p| p.entries.is_empty() && p.waits.is_empty()) {
            self.by_name.remove(name);
        }
        if let Some(task) = task
            && self.of.get(&task).is_some_and(|of| of.names.is_empty())
        {
            self.of.remove(&task);
        }
    }

    /// The place asked for, or the first from `from` on, where there is an entry.
    fn find(&self, name: &str, index: Option<u32>, from: u32) -> Option<u32> {
        let entries = &self.by_name.get(name)?.entries;
        match index {
            Some(index) => entries.contains_key(&index).then_some(index),
            None => entries.range(from..).next().map(|(index, _)| *index),
        }
    }

    pub(super) fn get(
        &mut self,
        task: TaskId,
        name: &str,
        index: Option<u32>,
        from: u32,
        delete: bool,
    ) -> Answered {
        let index = self.find(name, index, from).ok_or(Fault::NotFound)?;
        let entry = self.by_name.get(name).and_then(|p| p.entries.get(&index));
        let entry = entry.ok_or(Fault::NotFound)?;
        if delete && !entry.yields_to(task) {
            return Err(Fault::Denied);
        }
        let mail = RegistryAnswer::Mail {
            index,
            owner: entry.owner,
            rules: entry.rules,
            format: entry.format,
            content: entry.content.clone(),
        };
        if delete {
            self.remove(name, index);
        }
        Ok(mail)
    }

    pub(super) fn wait(
        &mut self,
        name: &str,
        asker: (TaskId, u64),
        index: Option<u32>,
        from: u32,
        delete: bool,
    ) -> Result<(), Fault> {
        if self.waiting >= ENTRIES_MAX {
            return Err(Fault::Limit { what: "waits for mail".into(), limit: ENTRIES_MAX as u64 });
        }
        let ties = self.of.entry(asker.0).or_default();
        if ties.waiting >= WAITS_OF_TASK_MAX {
            let limit = WAITS_OF_TASK_MAX as u64;
            return Err(Fault::Limit { what: "waits for mail of one task".into(), limit });
        }
        ties.waiting += 1;
        ties.tie(name);
        self.waiting += 1;
        let wait = Wait { asker, index, from, delete };
        self.by_name.entry(name.into()).or_default().waits.push_back(wait);
        Ok(())
    }

    /// Something came: those who wait in a mailbox look again, in the order of their coming.
    pub(super) fn serve(&mut self, name: &str, replies: &mut VecDeque<Reply>) {
        let Some(place) = self.by_name.get_mut(name) else { return };
        // The entry that the last reply holds: who wants the same and leaves it shares the reply.
        let mut last = None;
        for wait in core::mem::take(&mut place.waits) {
            let task = wait.asker.0;
            let found = self.find(name, wait.index, wait.from);
            if let (Some(index), Some(reply)) = (found, replies.back_mut())
                && !wait.delete
                && last == Some(index)
            {
                reply.askers.push(wait.asker);
            } else {
                let answer = self.get(task, name, wait.index, wait.from, wait.delete);
                if answer == Err(Fault::NotFound) {
                    self.by_name.entry(name.into()).or_default().waits.push_back(wait);
                    continue;
                }
                replies.push_back(Reply { askers: alloc::vec![wait.asker], answer });
                last = if wait.delete { None } else { found };
            }
            self.served(task, name, 1);
            self.settle(name, Some(task));
        }
        self.settle(name, None);
    }

    /// A task waits in a mailbox for so many less.
    fn served(&mut self, task: TaskId, name: &str, waits: usize) {
        self.waiting -= waits;
        if let Some(ties) = self.of.get_mut(&task) {
            ties.waiting -= waits;
            ties.untie(name, waits);
        }
    }

    pub(super) fn delete(&mut self, task: TaskId, name: &str, index: u32) -> Answered {
        let entry = self.by_name.get(name).and_then(|p| p.entries.get(&index));
        if !entry.ok_or(Fault::NotFound)?.yields_to(task) {
            return Err(Fault::Denied);
        }
        self.remove(name, index);
        Ok(RegistryAnswer::Done)
    }

    pub(super) fn list(&self, pattern: &str) -> Answered {
        let mut boxes = Vec::new();
        let mut bytes = 0;
        for (name, place) in &self.by_name {
            if place.entries.is_empty() || !matches(pattern, name) {
                continue;
            }
            bytes += name.len() + 4 + place.entries.len() * 20;
            if bytes > LIST_BYTES_MAX {
                let limit = LIST_BYTES_MAX as u64;
                return Err(Fault::Limit { what: "bytes of mailboxes listed".into(), limit });
            }
            let entries = place.entries.iter().map(|(i, e)| (*i, e.owner, e.rules)).collect();
            boxes.push(Mailbox { name: name.clone(), entries });
        }
        Ok(RegistryAnswer::Mailboxes(boxes))
    }

    pub(super) fn task_over(&mut self, task: TaskId) {
        self.forget_waits(task);
        for name in self.of.remove(&task).unwrap_or_default().names.into_keys() {
            let Some(place) = self.by_name.get_mut(&name) else { continue };
            let mut gone = Vec::new();
            for (index, entry) in &mut place.entries {
                if entry.owner == Some(task) {
                    entry.owner = None;
                    if !entry.rules.persistent {
                        gone.push(*index);
                    }
                }
            }
            for index in gone {
                self.remove(&name, index);
            }
        }
    }

    pub(super) fn forget_waits(&mut self, task: TaskId) {
        let names = self.of.get(&task).map(|ties| ties.names.clone()).unwrap_or_default();
        for name in names.into_keys() {
            if let Some(place) = self.by_name.get_mut(&name) {
                let before = place.waits.len();
                place.waits.retain(|w| w.asker.0 != task);
                let gone = before - place.waits.len();
                self.served(task, &name, gone);
            }
            self.settle(&name, Some(task));
        }
    }
}

/// Whether a name fits a pattern, in which each `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut rest = rest;
    while let Some((part, more)) = rest.split_once('*') {
        let Some(at) = name.find(part) else { return false };
        (name, rest) = (&name[at + part.len()..], more);
    }
    name.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::{Fault, Runs, Sum, Ties, matches};

    proptest! {
        #[test]
        fn the_first_free_place_is_the_one_that_a_walk_would_find(
            steps: Vec<(bool, u8)>, from: u8,
        ) {
            let (mut runs, mut all) = (Runs::default(), BTreeSet::new());
            for (adds, number) in steps {
                let number = u32::from(number % 24);
                if adds {
                    runs.add(number);
                    all.insert(number);
                } else {
                    runs.remove(number);
                    all.remove(&number);
                }
                let from = u32::from(from % 24);
                let free = (from..99).find(|n| !all.contains(n));
                prop_assert_eq!(Some(runs.free_from(from)), free);
                let gaps = runs.0.iter().zip(runs.0.keys().skip(1));
                prop_assert!(gaps.clone().all(|((_, end), next)| end < next), "{:?}", runs);
                prop_assert!(runs.0.iter().all(|(first, end)| first < end), "{:?}", runs);
            }
        }
    }

    #[test]
    fn an_entry_fits_to_the_last_byte_with_what_it_takes_the_place_of() {
        let max = Sum { count: 3, bytes: 100 };
        let fits = |count, bytes, len, freed| {
            let outcome = Sum { count, bytes }.fits(len, freed, max, ("entries", "bytes"));
            outcome.err().map(|fault| match fault {
                Fault::Limit { what, limit } => (what, limit),
                other => panic!("{other:?}"),
            })
        };
        let (entries, bytes) = (Some(("entries".into(), 3)), Some(("bytes".into(), 100)));
        assert_eq!(fits(2, 60, 40, None), None);
        assert_eq!(fits(2, 60, 41, None), bytes);
        assert_eq!(fits(3, 60, 1, None), entries);
        assert_eq!(fits(3, 60, 50, Some(10)), None, "it takes the place of one of ten");
        assert_eq!(fits(3, 60, 51, Some(10)), bytes);
        let mut sum = Sum::default();
        sum.add(7);
        sum.add(5);
        sum.remove(7);
        assert_eq!(sum, Sum { count: 1, bytes: 5 });
    }

    #[test]
    fn a_task_has_to_do_with_a_mailbox_as_often_as_it_was_tied_to_it() {
        let mut ties = Ties::default();
        for name in ["a", "b", "a", "a"] {
            ties.tie(name);
        }
        ties.untie("a", 2);
        ties.untie("b", 1);
        ties.untie("c", 1);
        let left: Vec<_> = ties.names.iter().map(|(name, times)| (name.as_str(), *times)).collect();
        assert_eq!(left, [("a", 1)]);
        ties.untie("a", 1);
        assert_eq!(ties, Ties::default());
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*", "abc", true),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*c", "abcbc", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXcYb", false),
            ("ab*ba", "aba", false),
            ("*ab*ab", "ab", false),
            ("*b*bc", "abc", false),
            ("*bc*bc", "abcbc", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
