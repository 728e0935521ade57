//! Groups: who is in them under which number, who waits for whom.
//!
//! A member that ends or leaves breaks what cannot happen without it: a barrier for more members
//! than are left, and a group that was to fill. Those who wait for it are answered
//! [`Fault::Broken`]; they may ask again.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use towpath_wire::TaskId;

use super::body::Body;
use super::core::{Answered, Asker, Reply, next_context};
use crate::talk::{Fault, RegistryAnswer};

/// Most groups.
pub const GROUPS_MAX: usize = 65_536;
/// Most groups that one task is in or waits for: what one does, others must not lack.
pub const GROUPS_OF_TASK_MAX: usize = 4096;
/// Most members of a group, and places in its list.
pub const MEMBERS_MAX: usize = 65_536;
/// Longest list of groups told, in bytes of names.
const LIST_BYTES_MAX: usize = 512 << 10;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    /// By instance number.
    members: Vec<Option<TaskId>>,
    instances: BTreeMap<TaskId, u32>,
    holes: BTreeSet<u32>,
    version: u64,
    /// Its own context, once it is frozen. Then `members` stays as it is; `instances` has those
    /// that have neither left nor ended.
    context: u32,
    barrier_count: u32,
    barrier: BTreeMap<TaskId, u64>,
    /// Those who wait for the group to have so many members.
    filling: BTreeMap<Asker, u32>,
}

/// All groups. Invariant: `of` has each group of each task: those it is in, and those it waits in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Groups {
    by_name: BTreeMap<String, Group>,
    of: BTreeMap<TaskId, BTreeSet<String>>,
}

/// Answers all who wait, if there is anybody.
fn tell(waiting: impl Iterator<Item = Asker>, answer: Answered, replies: &mut VecDeque<Reply>) {
    let askers: Vec<Asker> = waiting.collect();
    if !askers.is_empty() {
        replies.push_back(Reply { askers, answer });
    }
}

impl Group {
    fn living(&self) -> usize {
        self.instances.len()
    }

    fn list(&self) -> RegistryAnswer<Body> {
        RegistryAnswer::Members {
            members: self.members.clone(),
            version: self.version,
            context: self.context,
        }
    }

    fn is_idle(&self) -> bool {
        self.instances.is_empty() && self.filling.is_empty()
    }

    /// Lets the barrier go if it is full.
    fn settle_barrier(&mut self, replies: &mut VecDeque<Reply>) {
        let count =
            if self.barrier_count == 0 { self.living() } else { self.barrier_count as usize };
        if !self.barrier.is_empty() && self.barrier.len() >= count {
            let waiting = core::mem::take(&mut self.barrier);
            tell(waiting.into_iter(), Ok(RegistryAnswer::Done), replies);
        }
    }

    /// Freezes the group if it is as full as somebody waits for.
    fn settle_filling(&mut self, replies: &mut VecDeque<Reply>, context: &mut u32) {
        let living = self.living();
        if !self.filling.values().any(|count| *count as usize <= living) {
            return;
        }
        self.context = next_context(context);
        let filling = core::mem::take(&mut self.filling).into_iter();
        let (full, short): (Vec<_>, Vec<_>) =
            filling.partition(|(_, count)| *count as usize <= living);
        for (waiting, answer) in [(full, Ok(self.list())), (short, Err(Fault::GroupFrozen))] {
            tell(waiting.into_iter().map(|(asker, _)| asker), answer, replies);
        }
    }

    /// A member is gone: what cannot happen any more breaks.
    fn settle_gone(&mut self, replies: &mut VecDeque<Reply>) {
        let living = self.living();
        if self.barrier_count as usize > living {
            let waiting = core::mem::take(&mut self.barrier);
            tell(waiting.into_iter(), Err(Fault::Broken), replies);
        }
        let waiting = core::mem::take(&mut self.filling);
        tell(waiting.into_keys(), Err(Fault::Broken), replies);
        self.settle_barrier(replies);
    }

    fn remove(&mut self, task: TaskId) -> bool {
        let Some(instance) = self.instances.remove(&task) else { return false };
        self.barrier.remove(&task);
        if self.context == 0 {
            self.members[instance as usize] = None;
            self.holes.insert(instance);
            while self.members.last() == Some(&None) {
                self.members.pop();
                self.holes.remove(&(self.members.len() as u32));
            }
            self.version += 1;
        }
        true
    }
}

impl Groups {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether a task may have to do with a group: of all, and of one task, there are only so many.
    fn check_room(&self, name: &str, task: TaskId) -> Result<(), Fault> {
        let limit =
            |what: &str, limit: usize| Err(Fault::Limit { what: what.into(), limit: limit as u64 });
        if !self.by_name.contains_key(name) && self.by_name.len() >= GROUPS_MAX {
            return limit("groups", GROUPS_MAX);
        }
        let own = self.of.get(&task);
        if own.is_some_and(|own| own.len() >= GROUPS_OF_TASK_MAX && !own.contains(name)) {
            return limit("groups of one task", GROUPS_OF_TASK_MAX);
        }
        Ok(())
    }

    pub(super) fn join(
        &mut self,
        name: &str,
        task: TaskId,
        replies: &mut VecDeque<Reply>,
        context: &mut u32,
    ) -> Answered {
        self.check_room(name, task)?;
        let group = self.by_name.entry(name.into()).or_default();
        if group.instances.contains_key(&task) {
            return Err(Fault::InGroup);
        }
        if group.context != 0 {
            return Err(Fault::GroupFrozen);
        }
        if group.living() >= MEMBERS_MAX {
            return Err(Fault::Limit { what: "members".into(), limit: MEMBERS_MAX as u64 });
        }
        let instance = group.holes.pop_first().unwrap_or(group.members.len() as u32);
        if instance as usize == group.members.len() {
            group.members.push(None);
        }
        group.members[instance as usize] = Some(task);
        group.instances.insert(task, instance);
        group.version += 1;
        self.of.entry(task).or_default().insert(name.into());
        group.settle_filling(replies, context);
        Ok(RegistryAnswer::Instance(instance))
    }

    pub(super) fn leave(
        &mut self,
        name: &str,
        task: TaskId,
        replies: &mut VecDeque<Reply>,
    ) -> Answered {
        let group = self.by_name.get_mut(name).ok_or(Fault::NoGroup)?;
        if !group.instances.contains_key(&task) {
            return Err(Fault::NotInGroup);
        }
        group.remove(task);
        group.settle_gone(replies);
        self.settle_idle(name);
        self.settle_of(task, name);
        Ok(RegistryAnswer::Done)
    }

    pub(super) fn members(&self, name: &str) -> Answered {
        self.by_name.get(name).map(Group::list).ok_or(Fault::NoGroup)
    }

    pub(super) fn list(&self) -> Answered {
        if self.by_name.keys().map(|n| n.len() + 12).sum::<usize>() > LIST_BYTES_MAX {
            let limit = LIST_BYTES_MAX as u64;
            return Err(Fault::Limit { what: "bytes of groups listed".into(), limit });
        }
        let size = |(name, group): (&String, &Group)| (name.clone(), group.living() as u32);
        Ok(RegistryAnswer::Groups(self.by_name.iter().map(size).collect()))
    }

    pub(super) fn barrier(
        &mut self,
        name: &str,
        count: u32,
        (task, number): Asker,
        replies: &mut VecDeque<Reply>,
    ) {
        let fault = match self.by_name.get(name) {
            None => Some(Fault::NoGroup),
            Some(g) if !g.instances.contains_key(&task) => Some(Fault::NotInGroup),
            Some(g) if g.barrier.contains_key(&task) => Some(Fault::Bad("it waits already".into())),
            Some(g) if !g.barrier.is_empty() && g.barrier_count != count => {
                let text = format!("a barrier for {count}, others wait for {}", g.barrier_count);
                Some(Fault::Bad(text))
            }
            // Those who ended before it was frozen will never come.
            Some(g) if g.context != 0 && count as usize > g.living() => Some(Fault::Broken),
            Some(_) => None,
        };
        if let Some(fault) = fault {
            tell([(task, number)].into_iter(), Err(fault), replies);
        } else if let Some(group) = self.by_name.get_mut(name) {
            group.barrier_count = count;
            group.barrier.insert(task, number);
            group.settle_barrier(replies);
        }
    }

    pub(super) fn freeze(
        &mut self,
        name: &str,
        count: u32,
        (task, number): Asker,
        replies: &mut VecDeque<Reply>,
        context: &mut u32,
    ) {
        let known = self.by_name.get(name);
        let fault = match known {
            None if count == 0 => Some(Fault::NoGroup),
            Some(g) if g.context != 0 && count as usize > g.members.len() => {
                Some(Fault::GroupFrozen)
            }
            Some(g) if g.context != 0 => None,
            _ => self.check_room(name, task).err(),
        };
        if let Some(fault) = fault {
            return tell([(task, number)].into_iter(), Err(fault), replies);
        }
        let group = self.by_name.entry(name.into()).or_default();
        if group.context != 0 {
            return tell([(task, number)].into_iter(), Ok(group.list()), replies);
        }
        group.filling.insert((task, number), count);
        self.of.entry(task).or_default().insert(name.into());
        group.settle_filling(replies, context);
    }

    /// A group that nobody is in or waits for is no more.
    fn settle_idle(&mut self, name: &str) {
        if self.by_name.get(name).is_some_and(Group::is_idle) {
            self.by_name.remove(name);
        }
    }

    /// A task that has nothing to do with a group any more.
    fn settle_of(&mut self, task: TaskId, name: &str) {
        let tied = self.by_name.get(name).is_some_and(|g| {
            g.instances.contains_key(&task)
                || g.filling.range((task, 0)..=(task, u64::MAX)).next().is_some()
        });
        if !tied && let Some(of) = self.of.get_mut(&task) {
            of.remove(name);
            if of.is_empty() {
                self.of.remove(&task);
            }
        }
    }

    pub(super) fn task_over(&mut self, task: TaskId, replies: &mut VecDeque<Reply>) {
        for name in self.of.remove(&task).unwrap_or_default() {
            let Some(group) = self.by_name.get_mut(&name) else { continue };
            group.filling.retain(|(t, _), _| *t != task);
            if group.remove(task) {
                group.settle_gone(replies);
            }
            self.settle_idle(&name);
        }
    }

    pub(super) fn forget_waits(&mut self, task: TaskId) {
        for name in self.of.get(&task).cloned().unwrap_or_default() {
            if let Some(group) = self.by_name.get_mut(&name) {
                group.barrier.remove(&task);
                group.filling.retain(|(t, _), _| *t != task);
            }
            self.settle_idle(&name);
            self.settle_of(task, &name);
        }
    }
}
