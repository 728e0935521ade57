//! The members of a team, as one of them reaches them: who has ended, what they tell of the team,
//! and sends that end when they tell that it is broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use towpath_io::shared::SHORT_MAX;
use towpath_vm::collective::{Message as Say, NOTICE, Standing};
use towpath_vm::matching::Wanted;
use towpath_wire::TaskId;
use towpath_wire::talk::{MULTICAST_MAX, Tag};

use crate::deadline::Deadline;
use crate::error::{Full, RecvError, SendError};
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
    /// Members have told something that the team's operations have not been held against.
    pub(crate) news: bool,
    pub(crate) sent: Sent,
}

/// What a member has sent in a team's operations, whether they ended well or not. Neither what it
/// tells of a failure nor barriers that do without messages are in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// One that goes to several counts for each of them.
    pub messages: u64,
    /// Payload bytes of these messages.
    pub bytes: u64,
}

impl Sent {
    fn add(&mut self, receivers: usize, say: &Say) {
        let bytes: usize = say.parts.iter().map(|part| part.len()).sum();
        self.messages += receivers as u64;
        self.bytes += (receivers * bytes) as u64;
    }
}

/// What members tell of the team in `context`.
const fn notices(context: u32) -> Wanted {
    Wanted { source: None, tag: Some(NOTICE), context }
}

impl Peers {
    pub(crate) fn new(members: Vec<TaskId>, over: Vec<Arc<AtomicBool>>, context: u32) -> Self {
        let (standing, sent) = (Standing::default(), Sent::default());
        Self { members, over, context, standing, news: false, sent }
    }

    /// From a stranger: none. Nobody but members knows the context, unless by guessing.
    pub(crate) fn rank_of(&self, task: TaskId) -> Option<u32> {
        self.members.iter().position(|member| *member == task).map(|rank| rank as u32)
    }

    pub(crate) fn has_ended(&self, rank: u32) -> bool {
        self.over[rank as usize].load(Ordering::Relaxed)
    }

    /// Whether a member has told something that [`Peers::listen`] has not taken.
    fn has_notice(&self, task: &Task) -> bool {
        task.endpoint.probe(&notices(self.context)).is_some()
    }

    /// Whether a member has told something that the team does not know of.
    pub(crate) fn has_news(&self, task: &Task) -> bool {
        self.news || self.has_notice(task)
    }

    /// Takes what members have told of the team.
    pub(crate) fn listen(&mut self, task: &mut Task) {
        while let Some(waiting) = task.endpoint.take(&notices(self.context)) {
            let message = Message::new(waiting);
            if let Some(from) = self.rank_of(message.src()) {
                self.standing.heard(from, message.bytes());
                self.news = true;
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
        let tasks: Vec<TaskId> = to.iter().map(|rank| self.members[*rank as usize]).collect();
        loop {
            match self.try_send(task, number.cast_signed().into(), &tasks, say) {
                // Its end is told to the machine by the watch.
                Ok(()) => {
                    self.sent.add(to.len(), say);
                    return Ok(self.see_through(task, to)?);
                }
                Err(SendError::NoTask(_)) => return Ok(()),
                Err(SendError::Full(_)) if self.has_notice(task) => self.listen(task),
                Err(e) => return Err(e.into()),
            }
            if let Some(error) = self.standing.error_of(number) {
                return Err(error.into());
            }
        }
    }

    /// Waits until nothing is left here of what was sent to those of `to` that need it. A send
    /// that is called off in its midst leaves its rest to the task's next calls; and whoever is
    /// over with an operation, or fails, may make none.
    fn see_through(&mut self, task: &mut Task, to: &[u32]) -> Result<(), SendError> {
        while !task.routes.is_idle() {
            let has_left = |peers: &Self, task: &mut Task| {
                let needs = |rank: &&u32| !peers.needs_nothing(**rank);
                to.iter().filter(needs).any(|rank| task.has_left(peers.members[*rank as usize]))
            };
            if !has_left(self, task) {
                break;
            }
            task.sending.team = Some(self.context);
            let peers = &*self;
            let waited =
                task.wait_for(Deadline::NEVER, &mut |task| (!has_left(peers, task)).then_some(()));
            task.sending.team = None;
            match waited {
                Ok(_) => task.flush()?,
                Err(RecvError::Full(_)) if self.has_notice(task) => self.listen(task),
                // As with any send of a task that takes nothing in.
                Err(RecvError::Full(_)) => break,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// One try, which fails with [`SendError::Full`], too, where it would wait and a member tells
    /// something; then nothing is sent. What has begun is sent; the rest of it perhaps later.
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
    /// daemon, is not. What was sent to them before goes, too.
    pub(crate) fn tell(&mut self, task: &mut Task, own: u32, say: &Say) {
        let all = (0..self.members.len() as u32).filter(|rank| *rank != own);
        let (soon, mut late): (Vec<u32>, Vec<u32>) = all
            .filter(|rank| !self.needs_nothing(*rank))
            .partition(|rank| task.takes_short(self.members[*rank as usize]));
        for ranks in soon.chunks(MULTICAST_MAX) {
            let to: Vec<TaskId> = ranks.iter().map(|rank| self.members[*rank as usize]).collect();
            if self.try_send(task, NOTICE, &to, say).is_err() {
                late.extend(ranks);
            }
        }
        for rank in &late {
            let to = [self.members[*rank as usize]];
            while !self.needs_nothing(*rank)
                && let Err(SendError::Full(_)) = self.try_send(task, NOTICE, &to, say)
                && self.has_notice(task)
            {
                self.listen(task);
            }
        }
        let all = [soon, late].concat();
        let _ = self.see_through(task, &all);
    }

    fn needs_nothing(&self, rank: u32) -> bool {
        self.has_ended(rank) || self.standing.is_out(rank)
    }
}

impl Task {
    /// Whether something that was sent to `peer` goes out only when this task makes calls.
    fn has_left(&mut self, peer: TaskId) -> bool {
        self.is_behind(peer) || !self.has_written(peer)
    }

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

#[cfg(test)]
mod tests {
    use towpath_vm::talk::CREDIT_FIRST;
    use towpath_wire::HostId;
    use towpath_wire::talk::PIECE_CHARGE;

    use super::*;
    use crate::tests::actors::{ANY, header, with_ring};

    #[test]
    fn short_messages_go_out_at_once_where_a_ring_has_room_or_credit_is_left() {
        let (mut a, _a_side, mut b, _b_side) = with_ring();
        let (to, far) = (b.id(), HostId::new(2, 1).unwrap().task(1).unwrap());
        let (most, more) = ([1; SHORT_MAX], [1; SHORT_MAX + 1]);
        assert!(a.takes_short(to) && a.takes_short(far));
        assert!(a.takes_at_once(&[to], &[&most[..9], &most[9..]]));
        assert!(!a.takes_at_once(&[to], &[&more]), "it needs a block");
        assert!(!a.takes_at_once(&[to, far], &[]), "one has no ring");
        // All the credit that there is at first.
        a.send(far, 1, &[1; (CREDIT_FIRST - PIECE_CHARGE) as usize]).unwrap();
        assert!(!a.takes_short(far) && a.takes_short(to));
        while a.try_send(to, 1, b"").unwrap() {}
        assert!(!a.takes_short(to) && !a.takes_at_once(&[to], &[]), "it is full");
        while b.try_recv(&ANY).unwrap().is_some() {}
        b.poll().unwrap();
        assert!(a.takes_short(to) && a.takes_at_once(&[to], &[]));
        // What has to go before it.
        while a.try_send(to, 1, b"").unwrap() {}
        drop(a.start_send_bytes(to, 1, b"").unwrap());
        while b.try_recv(&ANY).unwrap().is_some() {}
        b.poll().unwrap();
        assert!(!a.takes_at_once(&[to], &[]), "something is queued");
        a.poll().unwrap();
        assert!(a.takes_at_once(&[to], &[]));
        let rest = header(a.id(), to, 1, 0, 1);
        a.routes.keep(rest, (*b"x").into(), 0);
        assert!(!a.takes_short(to), "the daemons have something to take first");
    }
}
