//! What a leader asks its log for, and what follows once that is committed.

use alloc::vec::Vec;

use towpath_proto::AssociationId;
use towpath_vm::control::{Command, Effect, Outcome};
use towpath_vm::message::Welcome;
use towpath_vm::talk::Fault;
use towpath_vm::{Change, Entry, Message};
use towpath_wire::{HostId, Instant};

use super::Node;
use crate::commit::Waiting;
use crate::config::reason;
use crate::event::{DeleteError, NodeEvent};
use crate::invitations::InviteError;
use crate::lead::Lead;

impl Node {
    /// Asks for a command that nobody waits for (leader only).
    pub(crate) fn propose(&mut self, now: Instant, command: Command) {
        self.propose_for(now, command, None);
    }

    /// Asks for a command (leader only).
    pub(crate) fn propose_for(
        &mut self,
        now: Instant,
        command: Command,
        waiting: impl Into<Option<Waiting>>,
    ) {
        let waiting = waiting.into();
        if let Some(Err(limit)) = waiting.as_ref().map(|w| self.lead.proposals.room(w)) {
            self.lead.proposals.refused += 1;
            return self.dropped(now, waiting.as_ref(), limit);
        }
        let Lead { proposals, alone, .. } = &mut self.lead;
        let log = self.voting.log(now).unwrap_or(&mut **alone);
        if let Some(waiting) = waiting {
            let ticket = log.propose(command);
            proposals.wait(ticket, waiting);
        } else {
            proposals.state(log, command);
        }
        self.settle_proposals(now);
    }

    /// Carries out what was committed meanwhile. True if anything was.
    pub(crate) fn settle_proposals(&mut self, now: Instant) -> bool {
        if core::mem::replace(&mut self.lead.proposals.busy, true) {
            return false;
        }
        let mut any = false;
        while let Some(outcome) = self.voting.log(now).unwrap_or(&mut *self.lead.alone).poll() {
            any = true;
            match outcome {
                Outcome::Committed(index, ticket, command) => {
                    let waiting = self.lead.proposals.decided(ticket);
                    #[cfg(plant)]
                    let twice = self.plant() == towpath_proto::config::Plant::CommandTwice;
                    let Some(state) = &mut self.log else { continue };
                    #[cfg(plant)]
                    let again = (twice && index % 4 == 3).then(|| command.clone());
                    #[allow(unused_mut)] // only the planted bug changes it
                    let mut effects = state.apply(index, command);
                    #[cfg(plant)]
                    if let Some(command) = again {
                        state.forget_applied();
                        effects.extend(state.apply(index, command));
                    }
                    self.carry_out(now, waiting, effects);
                }
                Outcome::Dropped(ticket) => {
                    let waiting = self.lead.proposals.decided(ticket);
                    let why = self.frozen();
                    self.dropped(now, waiting.as_ref(), why);
                }
            }
        }
        self.lead.proposals.busy = false;
        any
    }

    fn carry_out(&mut self, now: Instant, waiting: Option<Waiting>, effects: Vec<Effect>) {
        let (mut newcomer, mut owner, mut answer) = (None, None, None);
        let (mut network, mut table, mut halts) = (None, None, false);
        let mut confirms = None;
        match waiting {
            Some(Waiting::Newcomer(id)) => newcomer = Some(id),
            Some(Waiting::Owner(nonce)) => owner = Some(nonce),
            Some(Waiting::Task(task, number, a)) => answer = Some((task, number, a)),
            Some(Waiting::Network(number)) => network = Some(number),
            Some(Waiting::Table(number)) => table = Some(number),
            Some(Waiting::Confirm(_, number)) => confirms = Some(number),
            Some(Waiting::Asker(..) | Waiting::Promise(..) | Waiting::Holds(_)) | None => {}
        }
        for effect in effects {
            match effect {
                Effect::Changed(entry) => self.carry_out_change(now, entry, newcomer),
                Effect::Joined(host) => {
                    if let Some(newcomer) = newcomer.take() {
                        self.welcome_host(now, host, newcomer);
                    }
                }
                Effect::Full => {
                    if let Some(newcomer) = newcomer.take() {
                        self.closing.push((newcomer, reason::FULL));
                    }
                }
                // It asks again, and hears why.
                Effect::Uninvited(_) => {
                    if let Some(newcomer) = newcomer.take() {
                        self.closing.push((newcomer, reason::TOKEN));
                    }
                }
                Effect::Issued(done) => {
                    let outcome = done.then_some(()).ok_or(InviteError::TooMany);
                    self.token_decided(owner.take(), outcome);
                }
                Effect::Revoked(done) => {
                    let outcome = done.then_some(()).ok_or(InviteError::Unknown);
                    self.token_decided(owner.take(), outcome);
                }
                Effect::Confirmed(host) => {
                    if let Some(number) = confirms.take() {
                        self.tell_confirmed(now, host, number);
                    }
                }
                Effect::AllRevoked(host, tokens) => {
                    self.events.push_back(NodeEvent::TokensRevoked { host, tokens });
                }
                Effect::Network(outcome) => {
                    if let Some(number) = network.take() {
                        self.network_decided(now, number, outcome);
                    }
                }
                Effect::Promised(host, number, outcome) => {
                    self.tell_promised(now, host, number, outcome);
                }
                Effect::Reply(reply) => self.registry_reply(now, reply),
                Effect::Halt => halts = true,
                Effect::Released(kept) => self.forget_content(&kept),
            }
        }
        self.table_changed(table, Ok(()));
        if let Some((task, number, answer)) = answer {
            self.reply(now, task, number, Ok(answer));
        }
        if halts {
            self.begin_halt(now);
        }
    }

    fn carry_out_change(&mut self, now: Instant, entry: Entry, newcomer: Option<AssociationId>) {
        if let Change::Added(host) = &entry.change {
            // It may have gone while its command was not committed yet.
            if let Some(newcomer) = newcomer
                && self.remote_of(newcomer).is_some()
            {
                let alone = self.is_alone_but_for(now, host.id);
                self.peers.set_up(host.id, newcomer);
                self.peers.greets(newcomer);
                if alone {
                    self.is_not_alone_any_more(now);
                }
            }
        }
        let change = entry.change.clone();
        self.announce(now, entry);
        self.changed(now, &change);
    }

    fn welcome_host(&mut self, now: Instant, new: HostId, id: AssociationId) {
        if self.peers.up(new) != Some(id) {
            self.await_return(now, new, self.return_within());
            return;
        }
        let Some(log) = &self.log else { return };
        let snapshot = log.snapshot().clone();
        self.tell(now, new, Message::Welcome(Welcome { you: new, snapshot }));
        self.greet(now, new);
    }

    /// The owner hears what came of a change of the host table.
    pub(super) fn table_changed(&mut self, number: Option<u64>, outcome: Result<(), DeleteError>) {
        self.events.extend(number.map(|number| NodeEvent::TableChanged { number, outcome }));
    }

    /// What was asked for will never be: whoever waits for it is told.
    pub(super) fn dropped(&mut self, now: Instant, waiting: Option<&Waiting>, why: Fault) {
        match waiting {
            Some(Waiting::Newcomer(id)) => self.closing.push((*id, reason::UNDECIDED)),
            Some(Waiting::Owner(nonce)) => {
                self.token_decided(Some(*nonce), Err(InviteError::Undecided));
            }
            Some(Waiting::Table(number)) => {
                let why = match why {
                    Fault::Limit { limit, .. } => DeleteError::Full(limit),
                    _ => DeleteError::Undecided,
                };
                self.table_changed(Some(*number), Err(why));
            }
            Some(Waiting::Network(number)) => {
                let why = alloc::string::ToString::to_string(&why);
                self.network_decided(now, *number, Err(why));
            }
            // Whoever leads next is told anew; what meets a limit is not asked for again.
            Some(Waiting::Promise(..)) if matches!(why, Fault::Frozen(_)) => {}
            Some(Waiting::Promise(host, number)) => {
                self.tell_promised(now, *host, *number, Err(why));
            }
            Some(Waiting::Task(task, number, _)) => self.reply(now, *task, *number, Err(why)),
            Some(Waiting::Asker(task, (number, serial), kept)) => {
                if matches!(why, Fault::Frozen(_)) {
                    self.lead.refused.add(*task, *serial);
                }
                if let Some(kept) = kept {
                    self.content_dropped(now, kept);
                }
                self.reply(now, *task, *number, Err(why));
            }
            Some(Waiting::Holds(host)) => self.holds_dropped(now, *host),
            // It asks again.
            Some(Waiting::Confirm(..)) | None => {}
        }
    }
}
