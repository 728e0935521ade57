//! Who may send how much: what tasks ask for, what receivers' hosts grant ([`towpath_vm::credit`]),
//! and which hosts want to be asked before anything is sent.

use alloc::vec::Vec;

#[cfg(plant)]
use towpath_proto::config::Plant;
use towpath_vm::Message;
use towpath_vm::log::RESTART_GAP;
use towpath_vm::members::{Grant, Member, State};
use towpath_vm::message::{Blocked, TaskCredit, Watch};
use towpath_vm::talk::ToTask;
use towpath_wire::{HostId, Instant, TaskId};

use super::Node;

/// Pairs of a task of this host and one of another host that there are with any one host. Whoever
/// would be one more counts as gone.
pub(crate) const PAIRS_MAX: usize = 1 << 18;

/// Hosts that are waited for, of which the log has yet to tell.
const TO_COME_MAX: usize = 64;

impl Node {
    /// Whether a task of this host takes messages.
    pub(crate) fn receives(&self, task: TaskId) -> bool {
        self.local.members.get(task).is_some_and(|m| !matches!(m.state, State::Left(_)))
    }

    /// Whether a task of this host takes messages of `src`.
    pub(crate) fn takes(&self, task: TaskId, src: TaskId) -> bool {
        let takes = |m: &Member| {
            let room = || m.pairs.contains_key(&src) || self.may_pair(src.host());
            !matches!(m.state, State::Left(_)) && !m.is_parted(src) && room()
        };
        self.local.members.get(task).is_some_and(takes)
    }

    /// Whether there may be another pair with a task of `host`.
    pub(crate) fn may_pair(&self, host: HostId) -> bool {
        self.local.ties.pairs_with(host) < PAIRS_MAX
    }

    /// Whether a task is not there, or its host is not: nobody is asked because of it.
    pub(crate) fn is_nowhere(&self, task: TaskId) -> bool {
        let host = task.host();
        if self.me == Some(host) { !self.receives(task) } else { !self.may_be_up(host) }
    }

    /// Whether tasks of a host may be had to do with: it is up, or will be as soon as an entry of
    /// the log is here. A task can hear of one on a new host before this host hears of that one.
    pub(crate) fn may_be_up(&self, host: HostId) -> bool {
        self.is_up(host) || self.is_to_come(host)
    }

    /// Whether a host is numbered by an entry of the log that is not here yet. Tasks can name as
    /// many as they like that will never come: few are waited for at once.
    pub(crate) fn is_to_come(&self, host: HostId) -> bool {
        let Some(log) = self.log.as_ref().filter(|_| !self.leads()) else { return false };
        let (index, life) = (log.snapshot().index, u64::from(host.incarnation()));
        let soon = index < life && life <= index + 16 * RESTART_GAP;
        let by_host = &self.peers.by_host;
        soon && (by_host.contains_key(&host) || by_host.len() < log.table().len() + TO_COME_MAX)
    }

    /// A task of this host waits until it may send `need` to `peer`.
    pub(crate) fn ask_credit(&mut self, now: Instant, task: TaskId, peer: TaskId, need: u64) {
        if self.local.members.are_parted(task, peer) || !self.may_be_up(peer.host()) {
            return self.stray(task, peer);
        }
        let Some(pair) = self.pair(task, peer) else { return };
        if !pair.granted {
            // From now on it sends nothing that it was not granted.
            pair.limit = pair.sent;
        }
        let blocked = Blocked { sender: task, receiver: peer, sent: pair.sent, need };
        self.tell(now, peer.host(), Message::Blocked(blocked));
    }

    /// A task of `from` wants to send a task of this host more than it may.
    pub(crate) fn handle_blocked(&mut self, now: Instant, from: HostId, blocked: Blocked) {
        let Blocked { sender, receiver, sent, need } = blocked;
        if sender.host() != from {
            self.malformed += 1;
            return;
        }
        if !self.receives(receiver) {
            return self.tell_not_here(now, from, receiver);
        }
        if !self.takes(receiver, sender) {
            return self.tell_parted(now, receiver, sender);
        }
        self.pair(receiver, sender);
        self.local.members.blocked(receiver, sender, (sent, need));
    }

    /// `receiver` lets `sender`, of this host, send more.
    pub(crate) fn handle_task_credit(&mut self, from: HostId, credit: TaskCredit) {
        let TaskCredit { receiver, sender, limit } = credit;
        #[cfg(plant)]
        let limit = match self.plant() {
            Plant::CreditTwice => limit * 2,
            _ => limit,
        };
        let pair = self.local.members.get_mut(sender).and_then(|m| m.pairs.get_mut(&receiver));
        match pair {
            Some(pair) if receiver.host() == from && limit > pair.limit => {
                (pair.limit, pair.granted) = (limit, true);
                self.say(sender, ToTask::Credit { peer: receiver, limit });
            }
            _ => {}
        }
    }

    /// Tells senders what was granted to them; true when there was something.
    pub(crate) fn handle_grants(&mut self, now: Instant) -> bool {
        let any = self.local.members.has_grants();
        while let Some(grant) = self.local.members.poll_grant() {
            match grant {
                #[cfg(plant)]
                Grant::Limit { sender, .. }
                    if self.plant() == Plant::CreditLost && sender.number() % 3 == 1 => {}
                Grant::Limit { receiver, sender, limit } => {
                    let credit = TaskCredit { receiver, sender, limit };
                    self.tell(now, sender.host(), Message::TaskCredit(credit));
                }
                Grant::AskFirst(on) => {
                    for host in self.peers.hosts() {
                        if self.peers.up(host).is_some() {
                            self.tell(now, host, Message::AskFirst(Watch { on }));
                        }
                    }
                    if let Some(me) = self.me {
                        self.tell_tasks_to_ask(me, on);
                    }
                }
            }
        }
        any
    }

    /// A connection to `host` stands: what it must know before it sends our tasks anything.
    pub(crate) fn greet(&mut self, now: Instant, host: HostId) {
        if self.local.members.asks_first() {
            self.tell(now, host, Message::AskFirst(Watch { on: true }));
        }
    }

    /// `host` wants to be asked before its tasks are sent anything, or not any more.
    pub(crate) fn handle_ask_first(&mut self, host: HostId, on: bool) {
        let known = &mut self.data.ask_first;
        if if on { known.insert(host) } else { known.remove(&host) } {
            self.tell_tasks_to_ask(host, on);
        }
    }

    fn tell_tasks_to_ask(&mut self, host: HostId, on: bool) {
        for task in self.local.members.ids() {
            if self.local.members.enrolled(task).is_some() {
                self.say(task, ToTask::AskFirst { host, on });
            }
        }
    }

    /// Hosts that want to be asked first, as a task hears of them that enrols.
    pub(crate) fn asked_first(&self) -> Vec<HostId> {
        let own = self.me.filter(|_| self.local.members.asks_first());
        self.data.ask_first.iter().copied().chain(own).collect()
    }
}
