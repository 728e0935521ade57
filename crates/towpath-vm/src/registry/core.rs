//! Everything asked of the registry goes through here, and so do the ends of tasks.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use towpath_wire::TaskId;
use towpath_wire::talk::{CONTEXT_OWN, CONTEXTS_KEPT};

use super::body::{Body, Kept};
use super::groups::Groups;
use super::mail::Mail;
use crate::talk::{Fault, RegistryAnswer, RegistryOp};

/// Contexts of frozen groups count from here to `CONTEXT_LAST`; the library's other contexts
/// are above.
pub const CONTEXT_FIRST: u32 = CONTEXT_OWN + CONTEXTS_KEPT;
const CONTEXT_LAST: u32 = CONTEXT_OWN | ((1 << 30) - 1);

/// A task and its number for a question.
pub(super) type Asker = (TaskId, u64);

/// What the registry answers.
pub(super) type Answered = Result<RegistryAnswer<Body>, Fault>;

/// An answer: the same to all of the askers, so that it is there once however many they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// To whom, and to which of its questions.
    pub askers: Vec<(TaskId, u64)>,
    /// What.
    pub answer: Result<RegistryAnswer<Body>, Fault>,
}

/// Groups and mailboxes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registry {
    groups: Groups,
    mail: Mail,
    context: u32,
    #[serde(skip)]
    replies: VecDeque<Reply>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            groups: Groups::default(),
            mail: Mail::default(),
            context: CONTEXT_FIRST,
            replies: VecDeque::new(),
        }
    }
}

impl Registry {
    /// One that knows nothing of what those before it gave to tasks that go on: contexts of frozen
    /// groups begin elsewhere for each of the next 1000 lives.
    #[must_use]
    pub fn of_life(life: u64) -> Self {
        let lives = u64::from((CONTEXT_LAST - CONTEXT_FIRST) / CONTEXTS_OF_LIFE);
        let context = CONTEXT_FIRST + (life % lives) as u32 * CONTEXTS_OF_LIFE;
        Self { context, ..Self::default() }
    }

    /// Does what `asker` asks with its question `number`. The answer comes out of
    /// [`Registry::poll`], at once or when what it waits for has happened.
    pub fn apply(&mut self, asker: TaskId, number: u64, op: RegistryOp<Body>) {
        let Self { groups, mail, replies, context } = self;
        let answer = match op {
            RegistryOp::Join(name) => groups.join(&name, asker, replies, context),
            RegistryOp::Leave(name) => groups.leave(&name, asker, replies),
            RegistryOp::Members(name) => groups.members(&name),
            RegistryOp::Groups => groups.list(),
            RegistryOp::Barrier { group, count } => {
                return groups.barrier(&group, count, (asker, number), replies);
            }
            RegistryOp::Freeze { group, count } => {
                return groups.freeze(&group, count, (asker, number), replies, context);
            }
            RegistryOp::Put { name, index, rules, format, content } => {
                let put = mail.put(asker, &name, index, rules, (format, content));
                if put.is_ok() {
                    mail.serve(&name, replies);
                }
                put
            }
            RegistryOp::Get { name, index, from, delete, wait } => {
                match mail.get(asker, &name, index, from, delete) {
                    Err(Fault::NotFound) if wait => {
                        match mail.wait(&name, (asker, number), index, from, delete) {
                            Ok(()) => return,
                            Err(fault) => Err(fault),
                        }
                    }
                    other => other,
                }
            }
            RegistryOp::Delete { name, index } => mail.delete(asker, &name, index),
            RegistryOp::Mailboxes { pattern } => mail.list(&pattern),
        };
        self.replies.push_back(Reply { askers: vec![(asker, number)], answer });
    }

    /// A task has ended: it leaves its groups, its mail goes unless it is to stay, and it waits
    /// for nothing any more.
    pub fn task_over(&mut self, task: TaskId) {
        self.groups.task_over(task, &mut self.replies);
        self.mail.task_over(task);
        self.replies.retain_mut(|reply| {
            reply.askers.retain(|(asker, _)| *asker != task);
            !reply.askers.is_empty()
        });
    }

    /// What a task waits for will not reach it any more.
    pub fn forget_waits(&mut self, task: TaskId) {
        self.groups.forget_waits(task);
        self.mail.forget_waits(task);
    }

    /// What hosts keep of mailbox entries.
    pub(crate) fn kept(&self) -> BTreeSet<Kept> {
        self.mail.kept().collect()
    }

    /// What a host keeps and nobody needs any more, once the answers that name it are out.
    pub fn released(&mut self) -> Vec<Kept> {
        self.mail.released()
    }

    /// The next answer.
    pub fn poll(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// Groups and mailbox entries there are.
    pub fn len(&self) -> (usize, usize) {
        (self.groups.len(), self.mail.len())
    }

    /// True when there is neither a group nor an entry.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }
}

/// Contexts that a life of a registry has to itself, until it has used so many.
const CONTEXTS_OF_LIFE: u32 = 1 << 20;

/// The next context of a frozen group.
pub(super) const fn next_context(context: &mut u32) -> u32 {
    let this = *context;
    *context = if this == CONTEXT_LAST { CONTEXT_FIRST } else { this + 1 };
    this
}
