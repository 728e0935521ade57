//! Hosts that keep the log with the leader: how they hear from each other, who takes the lead when
//! it is gone, and whom the others believe.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::{Memory, Rng};
use towpath_vm::consensus::{self, ReplicaId, Write};
use towpath_vm::control::{Command, ControlState, Leave};
use towpath_vm::message::{Consensus, Entries, Keep, Resumed};
use towpath_vm::{Change, Entry, HostState, Message};
use towpath_wire::{HostId, Instant};
use zeroize::Zeroizing;

use super::Node;
use super::restore::RETURN_FOR;
use crate::event::{NodeEvent, VoterSeen, VotersSeen};
use crate::ledger::Ledger;
use crate::over::Over;
use crate::saying::Said;
use crate::voters::{LogName, Reach, Step};
use crate::voting::{Voter, Voting};

/// Who was heard within so long can be counted on: three beats.
const HEARD: Duration = Duration::from_millis(1050);
/// Bytes that wait for a host beyond which it is told nothing of the log: it is as good as silent.
/// Far more than tasks may have waiting there, so that they do not keep votes back.
pub(super) const WAITING_MAX: u64 = 64 << 20;
/// How often a host that has not said what it knows is told who leads, in ticks.
const TELL_EVERY: u32 = 20;

/// Whom a node reaches at one moment.
pub(super) struct Reached<'a> {
    pub(super) node: &'a Node,
    pub(super) now: Instant,
}

impl Reach for Reached<'_> {
    fn is_up(&self, host: HostId) -> bool {
        self.node.peers.up(host).is_some() && !self.node.lead.suspects.has(host)
    }

    fn is_heard(&self, host: HostId) -> bool {
        self.node.is_heard(self.now, host)
    }
}

impl Node {
    /// Whether this host leads, and can have something decided.
    pub fn leads(&self) -> bool {
        self.me.is_some()
            && self.me == self.leader()
            && !self.standing.frozen
            && self.voting.voter.as_ref().is_none_or(|voter| voter.leads())
    }

    /// How this host keeps the log, in words.
    pub fn voting(&self) -> alloc::string::String {
        self.voting.voter.as_ref().map_or_else(|| "none".into(), |voter| voter.describe())
    }

    /// Hosts that keep the log: those that vote, and those that are only sent it. Nobody where one
    /// host leads for good.
    pub fn voters(&self) -> (Vec<HostId>, Vec<HostId>) {
        let members = self.voting.voter.as_ref().map(|voter| voter.members()).unwrap_or_default();
        (members.0.into_iter().collect(), members.1.into_iter().collect())
    }

    /// Hosts that may come to lead, as far as is known here: who keeps the log knows who votes,
    /// the others who is named to.
    pub fn may_lead(&self) -> Vec<HostId> {
        let (voters, _) = self.voters();
        let named = || self.log.as_ref().map(|log| log.snapshot().voters.clone());
        if voters.is_empty() { named().unwrap_or_default() } else { voters }
    }

    /// Those that keep the log, as this host sees them while it leads.
    pub fn voters_seen(&self, now: Instant) -> VotersSeen {
        let Some(log) = self.log.as_ref().filter(|_| self.leads()) else {
            return VotersSeen::default();
        };
        let Some(voter) = &self.voting.voter else {
            let own = |host| VoterSeen { host, votes: true, heard: true, behind: 0 };
            let (term, entries) = log.snapshot().place();
            let voters = self.me.into_iter().map(own).collect();
            return VotersSeen { term, entries, voters, apart: self.apart() };
        };
        let (term, entries, behind) = voter.progress();
        let (voters, _) = voter.members();
        let seen = |(host, behind): (HostId, u64)| {
            let heard = self.me == Some(host) || self.is_heard(now, host);
            VoterSeen { host, votes: voters.contains(&host), heard, behind }
        };
        let voters = behind.into_iter().map(seen).collect();
        VotersSeen { term, entries, voters, apart: self.apart() }
    }

    /// The owner has on its disk what [`Node::saved`] gave as of this entry.
    pub fn kept(&mut self, index: u64) {
        self.voting.kept = self.voting.kept.max(index);
    }

    pub(crate) fn next_vote(&self) -> Option<Instant> {
        let voter = self.voting.voter.as_ref()?;
        let waits = self.lead.sharing.waits();
        (!voter.is_alone() || self.wants_voters() || waits).then_some(voter.next_tick())
    }

    /// Whether there are others that might keep the log.
    fn wants_voters(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.table().up().nth(1).is_some())
    }

    /// Others keep the log with this founder, once there are any.
    pub(crate) fn share_log(&mut self, now: Instant) {
        let rng = self.draws();
        if self.config.voters > 1
            && let (Some(me), Some(state)) = (self.me, &self.log)
        {
            let voter = Voter::found(now, me, self.config.voters, state, rng);
            self.voting.voter = Some(Box::new(self.on_disk(voter)));
        } else if self.config.keeps_table {
            self.voting.ledger = Some(Box::new(Ledger::new()));
        }
    }

    /// A voter whose owner has a disk, if this host's has.
    pub(super) fn on_disk(&self, voter: Voter) -> Voter {
        if self.config.keeps_table { voter.written(self.voting.written) } else { voter }
    }

    /// What the owner is to write down next of what this host decides, or keeps of what all do, if
    /// there is anything. Nothing follows from it before [`Node::wrote`].
    pub fn to_write(&mut self) -> Option<Write> {
        let Voting { voter, ledger, .. } = &mut self.voting;
        let write = match (voter, ledger) {
            (Some(voter), _) => voter.write(),
            (None, ledger) => ledger.as_mut()?.write(self.log.as_ref()?),
        }?;
        self.voting.written = write.number;
        Some(write)
    }

    /// Whether anything waits for what the owner is to write down.
    pub fn waits_for_disk(&self) -> bool {
        let Voting { voter, ledger, .. } = &self.voting;
        let decided = ledger.as_ref().map(|ledger| ledger.progress());
        voter.as_ref().is_some_and(|voter| voter.waits_for_disk())
            || decided.is_some_and(|(asked, effective)| effective < asked)
    }

    /// Whether the owner is to keep what a founder keeps: this host may come to lead.
    pub const fn keeps(&self) -> bool {
        self.config.keeps_table && self.voting.vm_key.is_some()
    }

    /// Whether this host keeps the log: it has what is to be written of it, or will have.
    pub const fn keeps_log(&self) -> bool {
        // One that asks its members first goes on with what it has on its disk.
        self.voting.voter.is_some()
            || self.voting.ledger.is_some()
            || self.config.keeps_table && self.lead.recovery.is_some()
    }

    /// Whether others keep the log with this host, and vote.
    pub fn is_one_of_several(&self) -> bool {
        self.voting.voter.as_ref().is_some_and(|voter| voter.members().0.len() > 1)
    }

    /// Which life of the log that several keep this host keeps, and who it is in it.
    pub fn log_name(&self) -> Option<(u64, ReplicaId)> {
        let name = self.voting.voter.as_ref()?.name();
        Some((name.generation, ReplicaId(name.replica)))
    }

    /// The virtual machine's key, which whoever may lead holds.
    pub fn vm_key(&self) -> Option<&[u8; 32]> {
        self.voting.vm_key.as_deref()
    }

    /// Whether this host keeps what it does for good: it was started with the key.
    pub const fn is_founder(&self) -> bool {
        self.voting.founded
    }

    /// Of what this host decides without asking anybody: how much was asked for, and how much of
    /// that has taken effect. `None` where nothing is written down.
    pub fn decided(&self) -> Option<(u64, u64)> {
        self.voting.ledger.as_ref().map(|ledger| ledger.progress())
    }

    /// Whether there is more to keep than can be written down: nothing is any more.
    pub fn is_too_long_to_write(&self) -> bool {
        self.voting.ledger.as_ref().is_some_and(|ledger| ledger.is_too_long())
    }

    /// The owner has written all that it was given up to this write; `None`: it cannot write, and
    /// what is decided is lost with this host.
    pub fn wrote(&mut self, now: Instant, up_to: Option<u64>, memory: &mut dyn Memory) {
        let Voting { voter, ledger, .. } = &mut self.voting;
        let is_due = match (voter, ledger, up_to) {
            (Some(voter), ..) => voter.wrote(now, up_to),
            (None, None, _) => false,
            (None, Some(ledger), Some(number)) => {
                ledger.wrote(number);
                ledger.is_due()
            }
            (None, Some(ledger), None) => {
                ledger.is_not_kept();
                ledger.is_due()
            }
        };
        if is_due {
            self.pump(now, memory);
        }
    }

    /// This host keeps the log no longer, and what is beside it.
    pub(crate) fn keeps_log_no_more(&mut self) {
        self.voting.voter = None;
        self.voting.contents.retain(&BTreeSet::new());
        self.voting.forget_key();
    }

    pub(super) fn draws(&mut self) -> Rng {
        Rng::new(self.voting.rng.u64(), self.voting.rng.u64())
    }

    /// Carries on with the log, as far as this host keeps it. True if anything was said.
    pub(crate) fn settle_voting(&mut self, now: Instant) -> bool {
        self.voting.was_shared |= self.is_shared();
        let leads = self.leads();
        let Some(voter) = &mut self.voting.voter else {
            self.settle_turns(now);
            return false;
        };
        let ticks = voter.tick(now);
        let (taken, is_out) = (voter.taken(), voter.is_out());
        // Who leads needs it until the answers that name it are given ([`Node::settle_proposals`]).
        let released = voter.released();
        released.iter().filter(|_| !leads).for_each(|kept| self.voting.contents.forget(kept));
        let voter = &self.voting.voter;
        let leaving = self.voting.leaving;
        let has = |host| voter.as_ref().is_some_and(|v| v.has(host));
        self.voting.leaving = leaving.filter(|(host, until)| has(*host) && now < *until);
        if let Some(state) = taken {
            self.take_lead(now, state);
        }
        self.give_up_lead();
        self.settle_turns(now);
        self.settle_parting(now);
        if ticks || !self.leads() {
            self.share(now);
        }
        if (ticks || self.voting.stepping) && self.leads() {
            self.settle_voters(now);
        }
        if ticks && self.leads() {
            self.tell_who_leads(now);
        }
        let said = self.say_votes(now);
        if is_out {
            // Whoever waited for it hears that it is not known what became of that.
            self.settle_proposals(now);
            self.keeps_log_no_more();
        }
        if ticks {
            self.reach_voters(now);
        }
        self.rest();
        said
    }

    /// Ticks that bring nothing wake nobody, unless this host has something to do with them.
    fn rest(&mut self) {
        let Voting { voter, untold, leaving, stepping, parting, .. } = &mut self.voting;
        let Some(voter) = voter else { return };
        let waits = leaving.is_some() || parting.waits();
        let busy = *stepping || waits || !untold.is_empty() || self.lead.sharing.waits();
        voter.rest(busy || self.lead.suspects.any() || !self.lead.turns.is_empty());
        // Only who leads is watched by those that follow it.
        let follows = voter.follows();
        if core::mem::replace(&mut self.voting.follows, follows) != follows {
            self.peers.all_dirty();
        }
    }

    /// Tells the other voters what there is to tell. What cannot be said now is not kept: it is
    /// said again, or is no longer true.
    fn say_votes(&mut self, now: Instant) -> bool {
        let is_silent = self.is_silent(now);
        let Some(voter) = &mut self.voting.voter else { return false };
        let mut messages = voter.outgoing();
        if is_silent {
            messages.clear();
        }
        let any = !messages.is_empty();
        for Said { to: host, bytes, once } in messages {
            let message = Message::Consensus(Consensus { bytes });
            let up = self.peers.up(host);
            if let Some(up) = up.filter(|_| once) {
                self.endpoint.note(up, message.encode());
            } else if up.is_some() && self.peers.waiting(host) < WAITING_MAX {
                self.tell(now, host, message);
            } else if self.is_up(host) && !self.lead.suspects.has(host) {
                self.ensure_connection(now, host);
            }
        }
        any
    }

    /// Those that keep the log have a connection to each other before they need it.
    fn reach_voters(&mut self, now: Instant) {
        let (Some(me), Some(voter)) = (self.me, &self.voting.voter) else { return };
        let (voters, learners) = voter.members();
        for host in voters.into_iter().chain(learners).filter(|host| *host != me) {
            if self.is_up(host) && !self.lead.suspects.has(host) {
                self.ensure_connection(now, host);
            }
        }
    }

    /// Another one that keeps the log says something, in a note or not.
    pub(crate) fn handle_consensus(
        &mut self,
        now: Instant,
        from: HostId,
        said: &Consensus,
        noted: bool,
    ) {
        let is_silent = self.is_silent(now);
        let Some(log) = self.log.as_ref().filter(|_| !is_silent) else { return };
        let Some(voter) = &mut self.voting.voter else { return };
        let known =
            log.leader() == from || log.snapshot().voters.contains(&from) || voter.has(from);
        match consensus::Message::decode(&said.bytes) {
            Ok(Some(message)) if known && Voter::is_from(&message, from) => {
                voter.step(now, message, noted);
            }
            Ok(Some(_)) if known => self.malformed += 1,
            Err(_) => self.malformed += 1,
            // Who takes part may not be known here yet, or not any more.
            Ok(_) => {}
        }
    }

    /// The leader asks this host to keep the log with it.
    pub(crate) fn handle_keep(&mut self, now: Instant, from: HostId, keep: &Keep) {
        let Keep { generation, replica, vm_key, voters } = *keep;
        let name = LogName { generation, replica };
        if self.leader() != Some(from) || self.me == Some(from) || !name.is_of(self.me) {
            self.malformed += u64::from(self.was_never_shared());
            return;
        }
        if self.voting.voter.as_ref().is_some_and(|voter| voter.name() == name) {
            return;
        }
        self.voting.vm_key = Some(Zeroizing::new(vm_key));
        let rng = self.draws();
        let voter = self.on_disk(Voter::newcomer(now, name, voters, rng));
        self.voting.over = Over::default();
        self.voting.voter = Some(Box::new(voter));
    }

    fn ask_to_keep(&mut self, now: Instant, host: HostId, name: LogName) {
        let (Some(vm_key), Some(voter)) = (&self.voting.vm_key, &self.voting.voter) else { return };
        let LogName { generation, replica } = name;
        let keep = Keep { generation, replica, vm_key: **vm_key, voters: voter.wanted };
        self.tell(now, host, Message::Keep(keep));
    }

    /// Whether a host was heard just now: those that keep the log answer every beat.
    pub(crate) fn is_heard(&self, now: Instant, host: HostId) -> bool {
        let up = self.peers.up(host).and_then(|id| self.endpoint.association(id));
        up.is_some_and(|up| now.since(up.heard_at()) < HEARD)
    }

    /// Whether most of those that vote can be heard without this host: what it would be lost by can
    /// be decided. One that is needed for that is not lost.
    pub(crate) fn can_do_without(&self, now: Instant, host: HostId) -> bool {
        let Some(voter) = &self.voting.voter else { return true };
        #[cfg(plant)]
        if self.plant() == towpath_proto::config::Plant::LostAlone {
            return true;
        }
        let (voters, _) = voter.members();
        let heard = |v: &&HostId| Some(**v) == self.me || self.is_heard(now, **v);
        2 * voters.iter().filter(|v| **v != host).filter(heard).count() > voters.len()
    }

    /// The leader sees to it that as many vote as are to.
    fn settle_voters(&mut self, now: Instant) {
        let (Some(log), Some(voter)) = (&self.log, &self.voting.voter) else { return };
        if !voter.is_settled() {
            return;
        }
        self.voting.stepping = false;
        let (reached, parting) = (Reached { node: self, now }, &self.voting.parting);
        let Some(step) = voter.next_step(log.snapshot(), &reached, parting) else { return };
        let another = |(host, _)| step != Step::Remove(host);
        if self.voting.leaving.is_some_and(another) {
            return;
        }
        match &step {
            Step::Name(hosts) => {
                let hosts = hosts.iter().copied().collect();
                return self.propose(now, Command::Voters(hosts));
            }
            // Who leads alone, and ends now, has to know that others may have come to lead.
            Step::Promote(_) if self.keeps() && self.voting.kept < log.snapshot().index => {
                return;
            }
            // Who votes has what long mailbox entries hold.
            Step::Promote(host)
                if !self.lead.sharing.has_caught_up(now, *host, &self.voting.contents) =>
            {
                return;
            }
            // It is known as one that has tokens' secrets before it has them.
            Step::Learn(host) if !log.is_keeper(*host) => {
                return self.propose(now, Command::Keeps(*host));
            }
            Step::Learn(host) => {
                let name = voter.name_for(*host);
                self.ask_to_keep(now, *host, name);
            }
            _ => {}
        }
        if let Some(voter) = &mut self.voting.voter {
            // Half of it would be worse than none: of four that vote, two may not be gone.
            self.voting.stepping = voter.change(&step);
        }
    }

    /// This host is elected, and the log says so: what it holds is what there is.
    pub(crate) fn take_lead(&mut self, now: Instant, state: ControlState) {
        let before = self.leader();
        self.lead.forget_judgements();
        self.joining = None;
        let left = core::mem::take(&mut self.standing).left;
        self.take_over(now, state);
        self.lead.unique.leads(now);
        self.begin_sharing(now);
        let (Some(me), Some(log)) = (self.me, &self.log) else { return };
        let (term, index) = log.snapshot().place();
        let others = log.table().up().map(|h| h.id).filter(|h| *h != me);
        let others: Vec<HostId> = others.collect();
        let over = log.registered_of(me).into_iter();
        let over: Vec<_> = over.filter(|task| self.local.members.get(*task).is_none()).collect();
        self.voting.untold = others.iter().copied().collect();
        self.events.push_back(NodeEvent::LeaderBack(me));
        self.look_at_silent(now);
        for task in over {
            self.propose(now, Command::TaskOver(task));
        }
        self.ask_again(now);
        for host in others {
            if self.peers.up(host).is_some() {
                let entries = [Entry { term, index, change: Change::Leads(me) }].into();
                self.tell(now, host, Message::Entries(Entries { entries }));
                self.keep_again(now, host);
            } else if self.voting.ended.contains(&host) {
                self.lose(now, host);
            } else if left == Some(host) {
                let leave = Leave { host, deleted: false };
                self.propose(now, Command::Leave(leave));
            } else if before == Some(host) {
                // This host was in contact with it, and found that out itself.
                self.await_return(now, host, self.return_within());
            } else {
                self.await_return(now, host, RETURN_FOR.max(self.lost_after() * 2));
            }
        }
    }

    /// A host that keeps the log, and may not have heard that it is to, is asked again.
    pub(crate) fn keep_again(&mut self, now: Instant, host: HostId) {
        let name = self.voting.voter.as_ref().filter(|v| v.leads()).and_then(|v| v.name_of(host));
        if let Some(name) = name {
            self.ask_to_keep(now, host, name);
        }
    }

    /// Hosts that have not said what they know are told again who leads.
    fn tell_who_leads(&mut self, now: Instant) {
        self.voting.ticks = (self.voting.ticks + 1) % TELL_EVERY;
        if self.voting.ticks != 0 {
            return;
        }
        let untold: Vec<HostId> = self.voting.untold.iter().copied().collect();
        for host in untold {
            self.say_who_leads(now, host);
        }
    }

    /// Tells a host, to which a connection stands, who leads.
    pub(crate) fn say_who_leads(&mut self, now: Instant, host: HostId) {
        let up = |h: &towpath_vm::Host| h.state == HostState::Up;
        let Some(log) = &self.log else { return };
        if !log.table().get(host).is_some_and(up) {
            self.voting.untold.remove(&host);
        } else if self.peers.up(host).is_some() {
            let snapshot = Some(log.snapshot().clone());
            self.tell(now, host, Message::Resumed(Resumed { snapshot }));
        }
    }

    /// This host led, and others may have elected another one meanwhile: it decides nothing.
    fn give_up_lead(&mut self) {
        let Some(me) = self.me.filter(|me| self.leader() == Some(*me)) else { return };
        if self.voting.voter.is_none()
            || self.leads()
            || core::mem::replace(&mut self.standing.frozen, true)
        {
            return;
        }
        self.lead.forget_judgements();
        self.events.push_back(NodeEvent::LeadLost { me });
    }
}
