//! Hosts that are taken out of the virtual machine: asked for by the owner or a task, one after the
//! other where they keep the log.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use towpath_proto::Memory;
use towpath_vm::control::{Command, ControlState, DELETED_MAX, Leave};
use towpath_vm::talk::{Answer, Fault};
use towpath_vm::{Host, HostState};
use towpath_wire::{HostId, Instant, TaskId};

use super::Node;
use crate::commit::Waiting;
use crate::event::DeleteError;

/// How long one that keeps the log is waited for until it can be deleted: another one is out by
/// then, or will not be soon.
pub(crate) const TURN_WITHIN: Duration = Duration::from_secs(3);
/// Most that wait for their turn, the owner's and tasks' together.
pub(crate) const TURNS_MAX: usize = 64;

/// Hosts whose turn to be deleted has yet to come.
#[derive(Debug)]
pub(crate) struct Turn {
    asked_by: AskedBy,
    /// Each with its place among those that were asked for.
    left: VecDeque<(usize, HostId)>,
    until: Instant,
}

/// Who hears what came of it.
#[derive(Debug)]
enum AskedBy {
    /// By its number for that.
    Owner(u64),
    /// By its question, with what there is to say of each host so far.
    Task(TaskId, u64, Vec<Result<(), Fault>>),
}

impl Node {
    /// Takes a host, up or lost, out of the virtual machine (leader only). Its key is revoked, so
    /// that it can come back only with a token; if it runs, it is told to end. One that keeps the
    /// log waits up to 3 s for another that does to be out. What comes of it is told by that
    /// number: [`NodeEvent::TableChanged`](crate::NodeEvent::TableChanged).
    pub fn delete_host(
        &mut self,
        now: Instant,
        number: u64,
        host: HostId,
        memory: &mut dyn Memory,
    ) -> Result<(), DeleteError> {
        match self.may_delete(now, host) {
            Ok(()) => self.strike_out(now, host, Some(Waiting::Table(number))),
            Err(DeleteError::Voter(_)) if self.lead.turns.len() < TURNS_MAX => {
                self.await_turn(now, AskedBy::Owner(number), [(0, host)].into());
            }
            Err(why) => return Err(why),
        }
        self.pump(now, memory);
        Ok(())
    }

    /// Deletes hosts because a task asked for it, which is answered once all are.
    pub(crate) fn delete_hosts(
        &mut self,
        now: Instant,
        asker: TaskId,
        number: u64,
        hosts: Vec<HostId>,
    ) {
        let (mut going, mut seen) = (Vec::new(), BTreeSet::new());
        let (mut outcomes, mut left) = (Vec::with_capacity(hosts.len()), VecDeque::new());
        for (place, host) in hosts.into_iter().enumerate() {
            let may = match self.may_delete(now, host) {
                Ok(()) | Err(DeleteError::Voter(_)) if !seen.insert(host) => Err(Fault::NoHost),
                Ok(()) => {
                    self.leaves(now, host);
                    going.push(host);
                    Ok(())
                }
                Err(why) => {
                    if matches!(why, DeleteError::Voter(_)) && self.lead.turns.len() < TURNS_MAX {
                        left.push_back((place, host));
                    }
                    Err(self.fault_of(why))
                }
            };
            outcomes.push(may);
        }
        let last = if left.is_empty() { going.pop() } else { None };
        for host in going {
            self.strike_out(now, host, None);
        }
        match last {
            Some(host) => {
                let waiting = Waiting::Task(asker, number, Answer::Each(outcomes));
                self.strike_out(now, host, Some(waiting));
            }
            None if left.is_empty() => self.reply(now, asker, number, Ok(Answer::Each(outcomes))),
            None => self.await_turn(now, AskedBy::Task(asker, number, outcomes), left),
        }
    }

    fn await_turn(&mut self, now: Instant, asked_by: AskedBy, left: VecDeque<(usize, HostId)>) {
        self.lead.turns.push_back(Turn { asked_by, left, until: now + TURN_WITHIN });
    }

    /// Deletes those whose turn has come; who has to wait longer keeps nobody else waiting.
    pub(crate) fn settle_turns(&mut self, now: Instant) {
        for mut turn in mem::take(&mut self.lead.turns) {
            while let Some((place, host)) = turn.left.pop_front() {
                let may = self.may_delete(now, host);
                if matches!(may, Err(DeleteError::Voter(_))) && now < turn.until {
                    turn.left.push_front((place, host));
                    self.lead.turns.push_back(turn);
                    break;
                }
                self.take_turn(now, &mut turn, (place, host), may);
            }
        }
    }

    fn take_turn(
        &mut self,
        now: Instant,
        turn: &mut Turn,
        (place, host): (usize, HostId),
        may: Result<(), DeleteError>,
    ) {
        match &mut turn.asked_by {
            AskedBy::Owner(number) => match may {
                Ok(()) => self.strike_out(now, host, Some(Waiting::Table(*number))),
                why => self.table_changed(Some(*number), why),
            },
            AskedBy::Task(asker, number, outcomes) => {
                let goes = may.is_ok();
                outcomes[place] = may.map_err(|why| self.fault_of(why));
                let is_last = turn.left.is_empty();
                let answer = is_last.then(|| Answer::Each(mem::take(outcomes)));
                if goes {
                    let waiting = answer.map(|answer| Waiting::Task(*asker, *number, answer));
                    self.strike_out(now, host, waiting);
                } else if let Some(answer) = answer {
                    self.reply(now, *asker, *number, Ok(answer));
                }
            }
        }
    }

    /// What a task is told of a host that is not deleted.
    fn fault_of(&self, why: DeleteError) -> Fault {
        match why {
            DeleteError::Unknown(_) => Fault::NoHost,
            DeleteError::NotLeader
            | DeleteError::NothingDecided
            | DeleteError::Undecided
            | DeleteError::Full(_) => self.frozen(),
            DeleteError::Leader(_) | DeleteError::Voter(_) => Fault::Denied,
        }
    }

    pub(crate) fn strike_out(&mut self, now: Instant, host: HostId, waiting: Option<Waiting>) {
        let is_owners = matches!(waiting, Some(Waiting::Table(_)));
        let up = |h: &Host| h.state == HostState::Up;
        if is_owners && self.log.as_ref().and_then(|log| log.table().get(host)).is_some_and(up) {
            self.lead.unheard.insert(host);
            // No more than are remembered.
            if self.lead.unheard.len() > DELETED_MAX {
                self.lead.unheard.pop_first();
            }
        }
        self.leaves(now, host);
        let leave = Command::Leave(Leave { host, deleted: true });
        match waiting {
            Some(waiting) => self.propose_for(now, leave, waiting),
            None => self.propose(now, leave),
        }
    }

    /// The log, where this host leads.
    pub(super) fn log_to_change(&self) -> Result<&ControlState, DeleteError> {
        let log = self.log.as_ref().filter(|_| self.leads());
        let lost_most = self.has_lost_most();
        log.ok_or(if lost_most { DeleteError::NothingDecided } else { DeleteError::NotLeader })
    }

    /// Whether a host can be deleted, as things are.
    fn may_delete(&self, now: Instant, host: HostId) -> Result<(), DeleteError> {
        let log = self.log_to_change()?;
        if host == log.leader() {
            return Err(DeleteError::Leader(host));
        }
        log.table().get(host).ok_or(DeleteError::Unknown(host))?;
        let goes = |v: &HostId| *v != host && !self.is_up(*v);
        let (voters, _) = self.voters();
        let another = self.voting.leaving.is_some_and(|(leaving, _)| leaving != host);
        // A change of who votes that is not decided might need this one's vote.
        let unsettled = self.voting.voter.as_ref().is_some_and(|voter| !voter.is_settled());
        if voters.contains(&host) && (another || unsettled || voters.iter().any(goes)) {
            return Err(DeleteError::Voter(host));
        }
        // One that is silent may be dead: the others could decide nothing without it.
        let rest = || voters.iter().filter(|v| **v != host);
        let heard = rest().filter(|v| Some(**v) == self.me || self.is_heard(now, **v)).count();
        if voters.contains(&host) && 2 * heard <= rest().count() {
            return Err(DeleteError::Voter(host));
        }
        Ok(())
    }

    /// A host is being deleted; of those that keep the log no other one may be before it is out.
    fn leaves(&mut self, now: Instant, host: HostId) {
        if self.voting.voter.as_ref().is_some_and(|voter| voter.has(host)) {
            self.voting.leaving = Some((host, now + TURN_WITHIN));
        }
    }
}
