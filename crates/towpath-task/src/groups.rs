//! Groups and mailboxes of the virtual machine.

use towpath_vm::talk::{Answer, MailRules, Mailbox, Question, RegistryAnswer, RegistryOp};
use towpath_wire::TaskId;

use crate::error::AskError;
use crate::task::Task;

/// Who is in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// By instance number; there may be holes.
    pub members: Vec<Option<TaskId>>,
    /// How often the group has changed since it was made.
    pub version: u64,
    /// A context that belongs to this list of members alone, where the group is frozen; else 0.
    pub context: u32,
}

/// An entry of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// Its place.
    pub index: u32,
    /// Who put it; `None` once that has ended.
    pub owner: Option<TaskId>,
    /// Its rules.
    pub rules: MailRules,
    /// As put.
    pub format: u32,
    /// As put.
    pub content: Vec<u8>,
}

impl Task {
    fn registry(&mut self, op: RegistryOp) -> Result<RegistryAnswer, AskError> {
        match self.ask(Question::Registry(op))? {
            Answer::Registry(answer) => Ok(answer),
            _ => Err(AskError::Unexpected),
        }
    }

    fn registry_done(&mut self, op: RegistryOp) -> Result<(), AskError> {
        match self.registry(op)? {
            RegistryAnswer::Done => Ok(()),
            _ => Err(AskError::Unexpected),
        }
    }

    /// Joins a group, made by its first member; the instance number, the lowest free one.
    pub fn join_group(&mut self, group: &str) -> Result<u32, AskError> {
        match self.registry(RegistryOp::Join(group.into()))? {
            RegistryAnswer::Instance(n) => Ok(n),
            _ => Err(AskError::Unexpected),
        }
    }

    /// Leaves a group.
    pub fn leave_group(&mut self, group: &str) -> Result<(), AskError> {
        self.registry_done(RegistryOp::Leave(group.into()))
    }

    fn registry_members(&mut self, op: RegistryOp) -> Result<Members, AskError> {
        match self.registry(op)? {
            RegistryAnswer::Members { members, version, context } => {
                Ok(Members { members, version, context })
            }
            _ => Err(AskError::Unexpected),
        }
    }

    /// Who is in a group.
    pub fn group_members(&mut self, group: &str) -> Result<Members, AskError> {
        self.registry_members(RegistryOp::Members(group.into()))
    }

    /// Names of all groups with their sizes.
    pub fn groups(&mut self) -> Result<Vec<(String, u32)>, AskError> {
        match self.registry(RegistryOp::Groups)? {
            RegistryAnswer::Groups(groups) => Ok(groups),
            _ => Err(AskError::Unexpected),
        }
    }

    /// Waits until `count` members wait here; 0: as many as the group has.
    pub fn group_barrier(&mut self, group: &str, count: u32) -> Result<(), AskError> {
        self.registry_done(RegistryOp::Barrier { group: group.into(), count })
    }

    /// Waits until the group has `count` members and freezes it; its members.
    pub fn freeze_group(&mut self, group: &str, count: u32) -> Result<Members, AskError> {
        self.registry_members(RegistryOp::Freeze { group: group.into(), count })
    }

    /// Puts an entry into a mailbox, at `index` or the lowest free place; its place.
    pub fn mail_put(
        &mut self,
        name: &str,
        index: Option<u32>,
        rules: MailRules,
        format: u32,
        content: Vec<u8>,
    ) -> Result<u32, AskError> {
        let name = name.into();
        match self.registry(RegistryOp::Put { name, index, rules, format, content })? {
            RegistryAnswer::Index(index) => Ok(index),
            _ => Err(AskError::Unexpected),
        }
    }

    /// Asks for a mailbox entry with [`RegistryOp::Get`].
    pub fn mail_get(&mut self, get: RegistryOp) -> Result<Mail, AskError> {
        match self.registry(get)? {
            RegistryAnswer::Mail { index, owner, rules, format, content } => {
                Ok(Mail { index, owner, rules, format, content })
            }
            _ => Err(AskError::Unexpected),
        }
    }

    /// Deletes a mailbox entry.
    pub fn mail_delete(&mut self, name: &str, index: u32) -> Result<(), AskError> {
        self.registry_done(RegistryOp::Delete { name: name.into(), index })
    }

    /// Mailboxes whose names match (`*` stands for any text), with their entries.
    pub fn mailboxes(&mut self, pattern: &str) -> Result<Vec<Mailbox>, AskError> {
        match self.registry(RegistryOp::Mailboxes { pattern: pattern.into() })? {
            RegistryAnswer::Mailboxes(all) => Ok(all),
            _ => Err(AskError::Unexpected),
        }
    }
}
