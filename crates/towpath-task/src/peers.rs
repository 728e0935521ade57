//! The members of a team, as one of them reaches them: who has ended, what they tell of the team,
//! and sends that end when they tell that it is broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use towpath_io::shared::SHORT_MAX;
use towpath_vm::collective::{Message as Say, NOTICE, Standing};
use towpath_vm::matching::Wanted;
use towpath_wire::TaskId;
use towpath_wire::talk::{MULTICAST_MAX, Tag};

use crate::error::{Full, SendError};
use crate::loan::Sealed;
use crate::message::{Envelope, Message};
use crate::parts::directs::Route;
use crate::rings::Ring;
use crate::task::Task;
use crate::team_error::TeamError;

#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) members: Vec<TaskId>,
    /// Whether each has ended.
    pub(crate) over: Vec<Arc<AtomicBool>>,
    pub(crate) context: u32,
    pub(crate) standing: Standing,
}

/// What members tell of the team in `context`.
const fn notices(context: u32) -> Wanted {
    Wanted { source: None, tag: Some(NOTICE), context }
}

impl Peers {
    /// From a stranger: none. Nobody but members knows the context, unless by guessing.
    pub(crate) fn rank_of(&self, task: TaskId) -> Option<u32> {
        self.members.iter().position(|member| *member == task).map(|rank| rank as u32)
    }

    pub(crate) fn has_ended(&self, rank: u32) -> bool {
        self.over[rank as usize].load(Ordering::Relaxed)
    }

    /// Whether a member has told something that [`Peers::listen`] has not taken.
    pub(crate) fn has_notice(&self, task: &Task) -> bool {
        task.endpoint.probe(&notices(self.context)).is_some()
    }

    /// Takes what members have told of the team.
    pub(crate) fn listen(&mut self, task: &mut Task) {
        while let Some(waiting) = task.endpoint.take(&notices(self.context)) {
            let message = Message::new(waiting);
            if let Some(from) = self.rank_of(message.src()) {
                self.standing.heard(from, message.bytes());
            }
        }
    }

    /// Sends for operation `number`. Whoever does not take it because the team is broken tells so:
    /// then the operation fails.
    pub(crate) fn send(
        &mut self,
        task: &mut Task,
        number: u32,
        to: &[u32],
        say: &Say,
    ) -> Result<(), TeamError> {
        let to: Vec<TaskId> = to.iter().map(|rank| self.members[*rank as usize]).collect();
        loop {
            match self.try_send(task, number.cast_signed().into(), &to, say) {
                // Its end is told to the machine by the watch.
                Ok(()) | Err(SendError::NoTask(_)) => return Ok(()),
                Err(SendError::Full(_)) if self.has_notice(task) => self.listen(task),
                Err(e) => return Err(e.into()),
            }
            if let Some(error) = self.standing.error_of(number) {
                return Err(error.into());
            }
        }
    }

    /// One try, which fails with [`SendError::Full`], too, where it would wait and a member tells
    /// something; then nothing is sent.
    fn try_send(
        &self,
        task: &mut Task,
        tag: Tag,
        to: &[TaskId],
        Say { format, parts }: &Say,
    ) -> Result<(), SendError> {
        let sealed = match &parts[..] {
            [part] => part.holder::<Sealed>(),
            _ => None,
        };
        let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        let envelope = Envelope { tag, context: self.context, format: *format };
        task.sending.team = Some(self.context);
        let sent = match (to, sealed) {
            ([to], Some(sealed)) => task.send_sealed(*to, envelope, sealed),
            (_, Some(sealed)) => task.multicast_sealed(to, envelope, sealed),
            ([to], None) => task.send_parts(*to, envelope, &parts),
            (to, None) if task.takes_at_once(to, &parts) => {
                // One that has ended is no reason for the others to get nothing.
                to.iter().try_for_each(|to| match task.send_parts(*to, envelope, &parts) {
                    Err(SendError::NoTask(_)) => Ok(()),
                    sent => sent,
                })
            }
            (_, None) => task.multicast(to, envelope, &parts),
        };
        task.sending.team = None;
        sent
    }

    /// Tells all who have not ended, and not told so themselves, that the team is broken: first
    /// those that take it at once. Who can not be told, since this task is full or has lost its
    /// daemon, is not.
    pub(crate) fn tell(&mut self, task: &mut Task, own: u32, say: &Say) {
        let all = 0..self.members.len() as u32;
        let (soon, late): (Vec<u32>, Vec<u32>) = all
            .filter(|rank| *rank != own && !self.needs_nothing(*rank))
            .partition(|rank| task.takes_short(self.members[*rank as usize]));
        let soon: Vec<TaskId> = soon.iter().map(|rank| self.members[*rank as usize]).collect();
        for to in soon.chunks(MULTICAST_MAX) {
            let _ = self.try_send(task, NOTICE, to, say);
        }
        for rank in late {
            let to = [self.members[rank as usize]];
            while !self.needs_nothing(rank)
                && let Err(SendError::Full(_)) = self.try_send(task, NOTICE, &to, say)
                && self.has_notice(task)
            {
                self.listen(task);
            }
        }
    }

    fn needs_nothing(&self, rank: u32) -> bool {
        self.has_ended(rank) || self.standing.is_out(rank)
    }
}

impl Task {
    /// Whether a short message to `to` goes out without a wait.
    fn takes_short(&mut self, to: TaskId) -> bool {
        if self.is_behind(to) {
            return false;
        }
        if self.route(to) == Route::Ring {
            return self.rings.get(to).is_some_and(Ring::takes_now);
        }
        self.endpoint.room(to, SHORT) == Some(SHORT)
    }

    /// Whether a short message goes into a ring to each of `to` without a wait.
    fn takes_at_once(&mut self, to: &[TaskId], parts: &[&[u8]]) -> bool {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        len <= SHORT_MAX
            && !self.started.has_queued()
            && to.iter().all(|to| {
                self.route(*to) == Route::Ring && self.rings.get(*to).is_some_and(Ring::takes_now)
            })
    }

    /// A send for a team would wait, and a member tells something of the team: this ends the send
    /// as a task that is full does.
    pub(crate) fn called_off(&self) -> Option<Full> {
        let told = self.endpoint.probe(&notices(self.sending.team?));
        told.map(|_| Full { bytes: self.endpoint.held(), limit: self.held_max })
    }
}

/// Bytes that no notice is longer than.
const SHORT: usize = 64;
