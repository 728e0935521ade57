//! How a host stands to its leader.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::config::Liveness;
use towpath_proto::{AssociationId, ConnectFailure, HostKey, Refusal};
use towpath_vm::control::ControlState;
use towpath_vm::message::{Halt, Report, Resumed};
use towpath_vm::{Change, HostState, Message, Snapshot};
use towpath_wire::{HostId, Instant, TaskId};

use super::Node;
use crate::config::{reason, refusal};
use crate::event::NodeEvent;
use crate::joining::Joining;
use crate::standing::{Standing, is_later_life};
/// How often a host that lost its leader tries to reach it.
pub(crate) const RETRY_LEADER: Duration = Duration::from_secs(1);

impl Node {
    /// Why the leader does not take this host back, while it does not.
    pub fn refused(&self) -> Option<&str> {
        self.standing.refused.as_deref()
    }

    /// How long a silent host of this virtual machine is waited for, in milliseconds.
    pub fn lost_after_ms(&self) -> u32 {
        self.lost_after().as_millis() as u32
    }

    /// The same for all hosts of the virtual machine: after how long a silent host is silent.
    pub(crate) fn set_lost_after(&mut self, lost_after_ms: u32) {
        let bounds = Liveness::after(Duration::from_millis(lost_after_ms.into()));
        self.config.proto.liveness = bounds;
        self.endpoint.set_liveness(bounds);
    }

    // A member.

    /// The contact with our leader is over.
    pub(crate) fn leader_out_of_contact(&mut self, now: Instant, leader: HostId) {
        let again = core::mem::replace(&mut self.standing.frozen, true);
        self.standing.reported = None;
        if !again {
            self.watch.silent.insert(leader);
            self.events.push_back(NodeEvent::LeaderLost(leader));
            self.tell_host_watches(&Err((leader, true)));
        }
        if self.joining.is_none() {
            let wait = if again { RETRY_LEADER } else { Duration::ZERO };
            self.peers.try_at(now, leader, now + wait);
        }
    }

    /// The leader could not be reached, or did not take us in.
    pub(crate) fn leader_failed(
        &mut self,
        now: Instant,
        leader: HostId,
        failure: &ConnectFailure,
    ) -> Duration {
        match failure {
            ConnectFailure::NoAnswer if self.next_address(leader) => return Duration::ZERO,
            ConnectFailure::Refused(r) if r.code == refusal::FENCED => {
                // Its log has us as lost.
                self.rejoin(now);
            }
            ConnectFailure::NoAnswer => self.ask_others_who_leads(now),
            // It leads no longer: it starts again.
            ConnectFailure::Refused(r) if r.code == refusal::RETURNING => {
                self.ask_others_who_leads(now);
            }
            ConnectFailure::Refused(r) if r.code != refusal::RECOVERING => {
                self.note_refusal(r.text.clone());
            }
            ConnectFailure::Version(range) => {
                self.note_refusal(alloc::format!("it speaks wire versions {range}"));
            }
            _ => {}
        }
        RETRY_LEADER
    }

    /// The leader does not answer: another one may lead by now.
    fn ask_others_who_leads(&mut self, now: Instant) {
        let log = self.log.as_ref().filter(|log| log.snapshot().is_shared());
        let voters = log.map(|log| log.snapshot().voters.clone()).unwrap_or_default();
        let report = self.own_report();
        for voter in voters {
            if Some(voter) == self.me || Some(voter) == self.leader() || !self.is_up(voter) {
                continue;
            }
            self.ensure_connection(now, voter);
            if self.peers.up(voter).is_some() {
                self.tell(now, voter, Message::Report(report.clone()));
            }
        }
    }

    /// Tells the owner, once, why the leader does not take us in.
    pub(crate) fn note_refusal(&mut self, why: String) {
        let Some(leader) = self.leader() else { return };
        if self.standing.refused.as_ref() != Some(&why) {
            self.standing.refused = Some(why.clone());
            self.events.push_back(NodeEvent::LeaderRefuses { leader, why });
        }
    }

    /// The leader's log has this host as lost: it becomes another one, and its tasks end then.
    pub(crate) fn rejoin(&mut self, now: Instant) {
        let Some(log) = &self.log else { return };
        let others = log.snapshot().others_that_may_lead();
        let first = log.table().get(log.leader()).into_iter().chain(others);
        let leader = { first }.find(|h| Some(h.id) != self.me).cloned();
        let Some(leader) = leader else { return };
        let addr = self.addr_of(&leader);
        if let Some(joining) = &mut self.joining {
            // One of several is asked already, and then the next.
            if joining.others.is_empty() {
                joining.addr = addr;
            }
            return;
        }
        // What waited for it, or was under way, is not sent any more, whatever it answers.
        self.drop_contact(now, leader.id, reason::FENCED);
        self.standing.frozen = true;
        let others = self.log.iter().flat_map(|log| log.snapshot().others_that_may_lead());
        let others = others.filter(|h| Some(h.id) != self.me && h.id != leader.id);
        let others = others.map(|h| (self.addr_of(h), HostKey(h.key))).collect();
        self.joining = Some(Joining { others, ..Joining::again(now, addr, HostKey(leader.key)) });
        self.retry_joining(now);
    }

    /// A host that has to join again is not let in.
    pub(crate) fn rejoin_refused(&mut self, now: Instant, refusal: Refusal) {
        if refusal.code == refusal::STANDS {
            // It was all a mistake: we are who we were.
            self.joining = None;
            if let Some(leader) = self.leader() {
                self.peers.try_at(now, leader, now + RETRY_LEADER);
            }
        } else if refusal.code != refusal::RECOVERING {
            self.note_refusal(refusal.text);
        }
    }

    /// Says what we know to the leader, to which a new connection stands. `theirs`: what the
    /// leader has, if it said so.
    pub(crate) fn tell_standing(&mut self, now: Instant, theirs: Option<(u64, u64)>) {
        let Some(log) = &self.log else { return };
        let (leader, snapshot) = (log.leader(), log.snapshot());
        let (term, index) = snapshot.place();
        let snapshot = theirs.filter(|t| *t < (term, index)).map(|_| snapshot.clone());
        let up = self.peers.up(leader);
        if self.standing.reported == up && snapshot.is_none() {
            return;
        }
        self.standing.reported = up;
        let report = Report { snapshot, ..self.own_report() };
        self.tell(now, leader, Message::Report(report));
    }

    /// The leader answers: we are who we were. Or somebody says who leads by now.
    pub(crate) fn handle_resumed(&mut self, now: Instant, from: HostId, resumed: Resumed) {
        let Some(before) = self.leader().filter(|_| self.me != Some(from)) else {
            self.malformed += 1;
            return;
        };
        if before != from {
            return self.hear_who_leads(now, from, resumed);
        }
        self.standing.reported = None;
        if let Some(snapshot) = resumed.snapshot {
            if let Some(why) = self.is_behind(&snapshot) {
                // What it decides from there is none of ours: we wait for one that knows us.
                self.standing.frozen = true;
                self.note_refusal(why.into());
                return;
            }
            let is_same = self.adopt(now, from, snapshot);
            let leader = self.leader().filter(|leader| *leader != before && !is_same);
            if let Some(leader) = leader {
                // It led, and says that another one does.
                return self.follow(now, leader);
            }
        }
        let Some(log) = &self.log else { return };
        let leader = log.leader();
        let own = self.me.and_then(|me| log.table().get(me));
        if own.is_none_or(|h| h.state == HostState::Lost) {
            self.rejoin(now);
            return;
        }
        self.standing.refused = None;
        let host = log.table().get(leader).cloned();
        if core::mem::take(&mut self.standing.frozen) {
            self.joining = None;
            self.is_heard_again(leader);
            self.events.push_back(NodeEvent::LeaderBack(leader));
            // One that led may be well, and nobody here has asked it since.
            self.look_at_silent(now);
            if let Some(host) = host.filter(|h| h.id == from) {
                // One in a new life was told of as such.
                self.tell_host_watches(&Ok(host));
            }
            self.ask_again(now);
        }
        // A founder that was asking its members heard nothing else from us.
        self.watch.told = None;
        self.tell_promises_again(now);
        self.greet(now, leader);
        self.tell_unreachable_again(now);
    }

    /// One that does not lead, as far as this host knows, says who does. Those that may come to
    /// lead are believed, where what they know is later; then it is the leader that is asked.
    fn hear_who_leads(&mut self, now: Instant, from: HostId, resumed: Resumed) {
        let Some(log) = &self.log else { return };
        let snapshot = log.snapshot();
        let Some(theirs) = resumed.snapshot else { return };
        if !snapshot.voters.contains(&from) {
            let place = theirs.place();
            if theirs.leader == from {
                return self.doubt(now, from, place);
            }
            self.malformed += u64::from(self.was_never_shared());
            return;
        }
        if theirs.place() <= snapshot.place() || self.is_behind(&theirs).is_some() {
            return;
        }
        let before = snapshot.leader;
        self.adopt(now, from, theirs);
        let leader = self.leader().filter(|leader| *leader != before);
        if let Some(leader) = leader.filter(|leader| self.me != Some(*leader)) {
            self.follow(now, leader);
        }
    }

    /// A host says that it leads, and this one does not know that it may: those that may are asked.
    pub(crate) fn doubt(&mut self, now: Instant, from: HostId, theirs: (u64, u64)) {
        let Some(log) = &self.log else { return };
        let voters = log.snapshot().voters.iter().copied();
        let voters: Vec<HostId> =
            voters.filter(|v| Some(*v) != self.me && self.is_up(*v)).collect();
        let is_shared = log.snapshot().is_shared() && self.me != Some(from);
        if !is_shared || theirs <= log.snapshot().place() {
            self.malformed += u64::from(!is_shared && self.was_never_shared());
            return;
        }
        if self.standing.doubted.is_some_and(|at| now.since(at) < RETRY_LEADER) {
            return;
        }
        self.standing.doubted = Some(now);
        let report = self.own_report();
        for voter in voters {
            self.tell(now, voter, Message::Report(report.clone()));
        }
    }

    /// Another host leads.
    pub(crate) fn follow(&mut self, now: Instant, leader: HostId) {
        self.join_addr = None;
        self.joining = None;
        self.standing = Standing { frozen: true, ..Standing::default() };
        if self.peers.up(leader).is_some() {
            self.tell_standing(now, None);
        } else {
            self.peers.try_at(now, leader, now);
        }
    }

    /// Whether another host may come to lead.
    pub(crate) fn is_shared(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.snapshot().is_shared())
    }

    /// Whether one host alone has led all the time, as far as this host has seen. Where several
    /// kept the log one alone may be left for a while: what the others said may come later, and
    /// what was asked of them is asked again.
    pub(crate) fn was_never_shared(&self) -> bool {
        !self.is_shared() && !self.voting.was_shared
    }

    pub(crate) fn own_report(&self) -> Report {
        let (term, index) = self.log.as_ref().map_or((0, 0), |log| log.snapshot().place());
        let registered = self.local.members.registered().collect();
        Report { term, index, registered, snapshot: None }
    }

    /// Why a leader with this state cannot be followed, if it cannot: it is behind ours.
    fn is_behind(&self, theirs: &Snapshot) -> Option<&'static str> {
        let own = self.log.as_ref().map(|l| l.snapshot().place());
        if own.is_some_and(|own| theirs.place() < own) {
            return Some("it has an older table");
        }
        let entry = theirs.table.by_key(&self.endpoint.public_key().0);
        let earlier = entry.zip(self.me).is_some_and(|(h, me)| is_later_life(me, h.id));
        earlier.then_some("it knows this host only in an earlier life")
    }

    /// Takes over the leader's state: what differs from ours has changed meanwhile. True where who
    /// leads is the sender in its next life.
    fn adopt(&mut self, now: Instant, from: HostId, snapshot: Snapshot) -> bool {
        let Some(log) = &self.log else { return false };
        if snapshot.place() <= log.snapshot().place() {
            return false;
        }
        let key = |snapshot: &Snapshot, host| snapshot.table.get(host).map(|h| h.key);
        let next = snapshot.leader;
        let again = from != next && key(log.snapshot(), from) == key(&snapshot, next);
        let led = self.me == Some(log.leader());
        if again {
            // The same host in its next life: what was under way with the old one has been given
            // up with the connection to it.
            self.peers.rename(from, next);
        }
        if led {
            self.lead.forget_judgements();
        }
        self.take_over(now, ControlState::from_snapshot(snapshot));
        let up = |host| self.is_up(host);
        if self.voting.voter.as_ref().is_some_and(|voter| voter.is_sent_nothing(up)) {
            // Those that wrote it have begun again in another life of it.
            // What it has of long mailbox entries may be all that there is: whoever leads says what
            // is needed of that.
            self.voting.voter = None;
            self.voting.forget_key();
        }
        again
    }

    /// Has this state instead of its own: what differs has changed meanwhile.
    pub(crate) fn take_over(&mut self, now: Instant, state: ControlState) {
        let after = state.snapshot().clone();
        let Some(before) = self.log.replace(state) else { return };
        self.set_lost_after(after.lost_after_ms);
        let me = self.me;
        for old in before.table().iter().filter(|h| Some(h.id) != me) {
            match after.table.get(old.id) {
                Some(new) if new.state == old.state && new.drains() != old.drains() => {
                    self.changed(now, &Change::Drains(new.id, new.drains()));
                }
                Some(new) if new.state == old.state => {}
                Some(_) => self.changed(now, &Change::Lost(old.id)),
                None if after.table.by_key(&old.key).is_some() => {
                    if old.state == HostState::Up {
                        self.changed(now, &Change::Lost(old.id));
                    }
                }
                None => self.changed(now, &Change::Left(old.id)),
            }
        }
        for new in after.table.iter().filter(|h| Some(h.id) != me) {
            if before.table().get(new.id).is_none() {
                self.changed(now, &Change::Added(new.clone()));
            }
        }
    }

    // The leader.

    /// A host says what it knows.
    pub(crate) fn handle_report(&mut self, now: Instant, from: HostId, report: Report) {
        if self.lead.recovery.is_some() {
            self.handle_report_in_recovery(now, from, report);
            return;
        }
        let Some(log) = self.log.as_ref().filter(|_| self.leads()) else {
            return self.say_who_else(now, from, &report);
        };
        let other = (report.term, report.index) != log.snapshot().place();
        let snapshot = other.then(|| log.snapshot().clone());
        // What it asked just before that is not decided yet.
        let asked = self.lead.proposals.askers().filter(|task| task.host() == from);
        let held = self.lead.sharing.askers().filter(|task| task.host() == from);
        let known = log.registered_of(from).into_iter().chain(asked).chain(held);
        let known: BTreeSet<TaskId> = known.collect();
        for task in known {
            if !report.registered.contains(&task) {
                self.registry_task_over(now, from, task);
            }
        }
        self.voting.untold.remove(&from);
        self.lead.suspects.clear(from);
        self.lead.broken.forget_of(from);
        self.tell(now, from, Message::Resumed(Resumed { snapshot }));
        self.keep_again(now, from);
    }

    /// A host says what it knows to one that does not lead: it hears who does, if that is news.
    fn say_who_else(&mut self, now: Instant, from: HostId, report: &Report) {
        let Some(log) = &self.log else {
            self.malformed += 1;
            return;
        };
        if !self.standing.frozen && log.snapshot().place() > (report.term, report.index) {
            let snapshot = Some(log.snapshot().clone());
            self.tell(now, from, Message::Resumed(Resumed { snapshot }));
        }
    }

    // Both.

    /// A connection to `host` stands (again).
    pub(crate) fn contact_is_back(
        &mut self,
        now: Instant,
        host: HostId,
        id: AssociationId,
        theirs: Option<(u64, u64)>,
    ) {
        self.lead.suspects.clear(host);
        if self.leader() != Some(host) || !self.standing.frozen {
            self.is_heard_again(host);
        }
        if self.leader() == Some(host) && self.me.is_some() && self.me != Some(host) {
            self.join_addr = self.remote_of(id).or(self.join_addr);
            self.standing.reported = None;
            self.tell_standing(now, theirs);
        }
        if self.is_shared() && self.standing.frozen && self.leader() != Some(host) {
            let report = self.own_report();
            self.tell(now, host, Message::Report(report));
        }
        if self.voting.voter.is_some() && self.leads() {
            self.say_who_leads(now, host);
            self.keep_again(now, host);
        } else if self.leads() {
            // It may know this host as who it was before it started again, until it is answered.
            self.peers.greets(id);
        }
        self.tell_reached(now, host);
        if self.lead.halt_at.is_some() {
            // What waited for it is gone with the connection before.
            self.tell(now, host, Message::Halt(Halt {}));
        }
    }
}
