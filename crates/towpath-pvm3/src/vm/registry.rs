//! Groups and mailboxes of the virtual machine in this process that tests use.

use std::collections::BTreeMap;

use super::contract::{Mail, MailRules, MailWanted, Mailbox, Members};
use crate::code::Code;

#[derive(Debug, Default)]
struct Group {
    members: Members,
    frozen: bool,
    /// Who has left or ended since it is frozen: `members` stays as it is.
    gone: Vec<i32>,
    /// Those who wait at a barrier, or to freeze, and for how many.
    barrier: (Vec<i32>, usize),
    freezing: (Vec<i32>, usize),
    /// How many barriers and freezings are over.
    passed: u64,
}

#[derive(Debug)]
struct Entry {
    owner: i32,
    rules: MailRules,
    content: Vec<u8>,
}

/// Groups and mailboxes.
#[derive(Debug, Default)]
pub(super) struct Registry {
    groups: BTreeMap<String, Group>,
    boxes: BTreeMap<String, BTreeMap<i32, Entry>>,
}

impl Registry {
    pub(super) fn join(&mut self, group: &str, tid: i32) -> Result<i32, Code> {
        let group = self.groups.entry(group.to_owned()).or_default();
        if group.frozen {
            return Err(Code::NotInGroup);
        }
        if group.members.contains(&tid) {
            return Err(Code::DupGroup);
        }
        let free = group.members.iter().position(|&member| member == 0);
        let instance = free.unwrap_or(group.members.len());
        if instance == group.members.len() {
            group.members.push(0);
        }
        group.members[instance] = tid;
        Ok(instance as i32)
    }

    pub(super) fn leave(&mut self, name: &str, tid: i32) -> Result<(), Code> {
        let group = self.groups.get_mut(name).ok_or(Code::NoGroup)?;
        let member = group.members.iter_mut().find(|member| **member == tid);
        let member = member.filter(|_| !group.gone.contains(&tid)).ok_or(Code::NotInGroup)?;
        if group.frozen {
            group.gone.push(tid);
        } else {
            *member = 0;
        }
        if group.members.iter().all(|member| *member == 0 || group.gone.contains(member)) {
            self.groups.remove(name);
        }
        Ok(())
    }

    pub(super) fn members(&self, name: &str) -> Result<Members, Code> {
        self.groups.get(name).map(|group| group.members.clone()).ok_or(Code::NoGroup)
    }

    /// A task has come to the barrier (or to freeze the group). Gives a number; the wait is over
    /// when [`passed`](Self::passed) is beyond it.
    pub(super) fn arrive(
        &mut self,
        name: &str,
        tid: i32,
        count: u32,
        freeze: bool,
    ) -> Result<u64, Code> {
        let group = self.groups.get_mut(name).ok_or(Code::NoGroup)?;
        if !group.members.contains(&tid) {
            return Err(Code::NotInGroup);
        }
        let size = group.members.iter().filter(|&&member| member != 0).count();
        let count = if count == 0 { size } else { count as usize };
        let waiting = if freeze { &mut group.freezing } else { &mut group.barrier };
        if !waiting.0.is_empty() && waiting.1 != count {
            return Err(Code::Mismatch);
        }
        waiting.0.push(tid);
        waiting.1 = count;
        let number = group.passed;
        if waiting.0.len() == count {
            waiting.0.clear();
            group.frozen |= freeze;
            group.passed += 1;
        }
        Ok(number)
    }

    pub(super) fn passed(&self, name: &str) -> Option<u64> {
        self.groups.get(name).map(|group| group.passed)
    }

    pub(super) fn put(
        &mut self,
        name: &str,
        owner: i32,
        mut index: i32,
        rules: MailRules,
        content: Vec<u8>,
    ) -> Result<i32, Code> {
        let entries = self.boxes.entry(name.to_owned()).or_default();
        if rules.many {
            while entries.contains_key(&index) {
                index += 1;
            }
        } else if let Some(entry) = entries.get(&index)
            && !entry.rules.overwritable
            && entry.owner != owner
        {
            return Err(Code::Denied);
        }
        entries.insert(index, Entry { owner, rules, content });
        Ok(index)
    }

    pub(super) fn get(&mut self, name: &str, asker: i32, wanted: MailWanted) -> Result<Mail, Code> {
        let entries = self.boxes.get_mut(name).ok_or(Code::NotFound)?;
        let (&at, entry) = entries.range(wanted.index..).next().ok_or(Code::NotFound)?;
        if at != wanted.index && !wanted.later {
            return Err(Code::NotFound);
        }
        let content = entry.content.clone();
        if wanted.delete {
            self.delete(name, asker, at)?;
        }
        Ok(Mail { index: at, content })
    }

    pub(super) fn delete(&mut self, name: &str, asker: i32, index: i32) -> Result<(), Code> {
        let entries = self.boxes.get_mut(name).ok_or(Code::NotFound)?;
        let entry = entries.get(&index).ok_or(Code::NotFound)?;
        if !entry.rules.overwritable && entry.owner != asker {
            return Err(Code::Denied);
        }
        entries.remove(&index);
        if entries.is_empty() {
            self.boxes.remove(name);
        }
        Ok(())
    }

    pub(super) fn mailboxes(&self, pattern: &str) -> Vec<Mailbox> {
        let row = |(index, entry): (&i32, &Entry)| (*index, entry.owner, entry.rules);
        // Of patterns only what the library asks for: beginnings.
        let begin = pattern.trim_end_matches('*');
        let fits = |name: &str| name.starts_with(begin);
        self.boxes
            .iter()
            .filter(|(name, _)| fits(name))
            .map(|(name, entries)| (name.clone(), entries.iter().map(row).collect()))
            .collect()
    }

    /// A task has ended.
    pub(super) fn ended(&mut self, tid: i32) {
        let names: Vec<String> = self.groups.keys().cloned().collect();
        for name in names {
            // It need not have been a member.
            let _ = self.leave(&name, tid);
        }
        for entries in self.boxes.values_mut() {
            entries.retain(|_, entry| entry.owner != tid || entry.rules.persistent);
            for entry in entries.values_mut().filter(|entry| entry.owner == tid) {
                entry.owner = 0;
            }
        }
        self.boxes.retain(|_, entries| !entries.is_empty());
    }
}
