//! Joining, leaving, losing hosts: everything that changes or reads the control log.

use alloc::string::String;
use core::net::SocketAddr;

use towpath_proto::association::End;
use towpath_proto::endpoint::Answer;
use towpath_proto::{AssociationId, HostKey, Memory, Psk};
use towpath_vm::control::{Command, ControlState, Drain, Join, Leave};
use towpath_vm::invitations::Shown;
use towpath_vm::message::Welcome;
use towpath_vm::talk::NOTHING_DECIDED;
use towpath_vm::{Change, Entry, Host, HostState, LogError, Message, Tasks};
use towpath_wire::greeting::{Greeting, PROTOCOL};
use towpath_wire::{Admission, HostId, Instant};

use super::Node;
use super::standing::RETRY_LEADER;
use crate::commit::Waiting;
use crate::config::{reason, refusal};
use crate::copies::{CERTAIN, Doubt};
use crate::event::{DeleteError, NodeEvent};
use crate::hello::{Hello, Purpose, Unread};
use crate::joining::{NOT_LEADER, Reason, Referral};
use crate::standing::{Standing, is_later_life};

impl Node {
    /// Somebody asks to be let in.
    pub(crate) fn handle_incoming(
        &mut self,
        now: Instant,
        id: AssociationId,
        (key, remote): (HostKey, SocketAddr),
        admission: Admission,
        hello: &[u8],
    ) {
        if let Ok(said) = Hello::decode(hello, &self.config.build)
            && said.life != 0
        {
            let (since, look_at, hello) = (now, now, hello.to_vec());
            let doubt = Doubt { id, key, admission, remote, hello, since, look_at };
            if self.doubts(now, doubt, &said) {
                return;
            }
        }
        self.judge_incoming(now, id, key, admission, hello);
    }

    /// Lets somebody in, or not.
    pub(crate) fn judge_incoming(
        &mut self,
        now: Instant,
        id: AssociationId,
        key: HostKey,
        admission: Admission,
        hello: &[u8],
    ) {
        let verdict = match Hello::decode(hello, &self.config.build) {
            Err(unread) => Err(self.cannot_read(&unread)),
            Ok(hello) if key == self.endpoint.public_key() && self.is_own_copy(&hello) => {
                Err((refusal::COPIED, "a daemon with this host's key runs here".into()))
            }
            Ok(_) if key == self.endpoint.public_key() => {
                Err((refusal::SELF, "a host cannot connect to itself".into()))
            }
            Ok(Hello { purpose: Purpose::Ended(host), life, .. }) => {
                if self.has_another(&key, life).is_none() {
                    self.hear_of_end(now, &key, host);
                }
                Err((refusal::NOTED, "noted".into()))
            }
            Ok(hello)
                if let Some(kept) = self.says_it_returns(now, &key, &admission, hello.purpose) =>
            {
                Err((refusal::RETURNING, kept.emit()))
            }
            Ok(hello) => {
                self.judge(now, &key, &admission, hello.purpose).map_err(|(code, text)| {
                    let refers = self.may_refer(&key, &admission, hello.purpose);
                    self.refusal(refers, code, text)
                })
            }
        };
        self.answer_incoming(now, id, &admission, verdict);
    }

    /// Says to somebody that it is let in, as which host if it is one, or why not.
    pub(crate) fn answer_incoming(
        &mut self,
        now: Instant,
        id: AssociationId,
        admission: &Admission,
        verdict: Result<Option<HostId>, (u16, String)>,
    ) {
        let psk = match admission {
            Admission::Token { expiry_unix_s, nonce } => self.psk_of(*expiry_unix_s, nonce),
            Admission::Member => Psk::MEMBER,
        };
        match verdict {
            Ok(host) => {
                if let Admission::Token { nonce, .. } = admission {
                    self.lead.asking.begins(id, *nonce);
                }
                let hello = self.hello(self.purpose().unwrap_or(Purpose::Join));
                let hello = hello.encode(&self.config.build);
                self.endpoint.answer(now, id, &Answer::Accept { psk, hello: &hello });
                if let Some(host) = host {
                    self.await_contact(now, host);
                }
            }
            Err((code, text)) => {
                self.endpoint.answer(now, id, &Answer::Refuse { psk, code, text: &text });
            }
        }
    }

    /// What a host is told whose hello says nothing to us.
    fn cannot_read(&self, unread: &Unread) -> (u16, String) {
        match unread {
            Unread::Malformed => (refusal::MALFORMED, "the hello does not decode".into()),
            Unread::Refused(why) => (refusal::KIND, alloc::format!("the hello: {why}")),
            Unread::Build(theirs) => {
                let own = Greeting { protocol: PROTOCOL, build: &self.config.build };
                (refusal::BUILD, alloc::format!("it runs {own}, this host {theirs}"))
            }
        }
    }

    /// Whether a host is told by whom, and under which key, it can be let in. One with a token
    /// believes only who holds the VM key; one that was a member asked under the key of one that
    /// may lead, as far as it knows.
    fn may_refer(&self, key: &HostKey, admission: &Admission, purpose: Purpose) -> bool {
        if self.standing.frozen {
            return false;
        }
        let known = || self.log.as_ref().and_then(|log| log.table().by_key(&key.0));
        match admission {
            Admission::Token { .. } => self.voting.vm_key.is_some(),
            Admission::Member => purpose == Purpose::Rejoin && known().is_some(),
        }
    }

    /// What a refused host is told; where to ask instead, if that is known.
    fn refusal(&self, refers: bool, code: u16, text: &str) -> (u16, String) {
        let leader = self.log.as_ref().and_then(|log| log.table().get(log.leader()));
        let other = leader.filter(|h| code == refusal::NOT_LEADER && self.me != Some(h.id));
        if code == refusal::NOT_LEADER && self.has_lost_most() {
            return (code, alloc::format!("{text}, and {NOTHING_DECIDED}"));
        }
        let Some(leader) = other else { return (code, text.into()) };
        let (addr, key) = (self.addr_of(leader), HostKey(leader.key));
        let Host { name, .. } = leader;
        if refers {
            return (refusal::REFERRED, Referral { addr, key, name: name.clone() }.emit());
        }
        (code, alloc::format!("{text}: {name} at {}", leader.addr))
    }

    /// Whether to let somebody in; a member's host id if it is one already.
    pub(crate) fn judge(
        &self,
        now: Instant,
        key: &HostKey,
        admission: &Admission,
        purpose: Purpose,
    ) -> Result<Option<HostId>, (u16, &'static str)> {
        let Some(log) = &self.log else {
            return Err((refusal::NOT_MEMBER, "this host has not joined itself yet"));
        };
        let known = log.table().by_key(&key.0);
        let leads = self.leads() && self.voting.vm_key.is_some();
        if self.lead.recovery.is_some()
            && !(matches!(purpose, Purpose::Member(_)) && known.is_some())
        {
            return Err((refusal::RECOVERING, "the founder has just started again: try again"));
        }
        if leads && self.is_to_hear_of_its_end(key, purpose) {
            return Ok(None);
        }
        match (purpose, admission) {
            (Purpose::Join | Purpose::Rejoin, _) if !leads => {
                Err((refusal::NOT_LEADER, NOT_LEADER))
            }
            // Whoever is in the table needs no fresh token to come back.
            (Purpose::Join, Admission::Token { .. }) if known.is_some() => Ok(None),
            (Purpose::Join, admission) => {
                self.judge_token(now, admission)?;
                if log.table().free_slot().is_none() {
                    return Err((refusal::FULL, "all 4095 host slots are taken"));
                }
                Ok(None)
            }
            (Purpose::Rejoin, _) if known.is_some_and(|h| h.state == HostState::Up) => {
                Err((refusal::STANDS, "this host is a member: it need not join again"))
            }
            (Purpose::Rejoin, _) if known.is_some() => Ok(None),
            (Purpose::Rejoin, _) => {
                Err((refusal::NOT_MEMBER, "this host is not in the host table any more"))
            }
            (Purpose::Member(id), Admission::Member) => self.judge_member(id, known).map(Some),
            (Purpose::Lead { id, .. }, Admission::Member) => match known {
                Some(h) if h.id == log.leader() && self.me != Some(h.id) => Ok(Some(h.id)),
                // It has come to lead: whether it is believed, is another question.
                Some(h) if h.id == id && h.state == HostState::Up => Ok(Some(id)),
                _ => Err((refusal::NOT_MEMBER, "not the leader of this host")),
            },
            (Purpose::Member(_) | Purpose::Lead { .. }, Admission::Token { .. }) => {
                Err((refusal::MALFORMED, "a member needs no token"))
            }
            (Purpose::Ended(_), _) => Err((refusal::NOTED, "noted")),
        }
    }

    /// Whether to let in somebody who says that it is `id`, where the table has its key as `known`.
    fn judge_member(
        &self,
        id: HostId,
        known: Option<&Host>,
    ) -> Result<HostId, (u16, &'static str)> {
        match known {
            Some(h) if h.id == id && h.state == HostState::Up => Ok(id),
            // Our table is behind: what it has as lost is not the host that asks. Whoever asks its
            // members for later ones hears that one, too.
            Some(h) if is_later_life(id, h.id) && self.lead.recovery.is_some() => Ok(h.id),
            Some(h) if is_later_life(id, h.id) => {
                Err((refusal::NOT_MEMBER, "known only in an earlier life"))
            }
            Some(_) => Err((refusal::FENCED, "declared lost: rejoin first")),
            None => Err((refusal::NOT_MEMBER, "not in the host table")),
        }
    }

    /// The leader takes a newcomer in. False when the connection is not for joining.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        id: AssociationId,
        key: HostKey,
        hello: &[u8],
    ) -> bool {
        let Ok(hello) = Hello::decode(hello, &self.config.build) else { return false };
        if !matches!(hello.purpose, Purpose::Join | Purpose::Rejoin) {
            return false;
        }
        let known = self.log.as_ref().is_some_and(|log| log.table().by_key(&key.0).is_some());
        let nonce = self.lead.asking.take(id).filter(|_| !known);
        if !known && nonce.is_none() {
            self.closing.push((id, reason::TOKEN));
            return true;
        }
        let at_unix_s = self.unix_s(now);
        let token = nonce.map(|nonce| Shown { nonce, at_unix_s });
        let Some(addr) = self.remote_of(id) else { return true };
        let Hello { name, arch, speed, cpus, slots, fields, .. } = hello;
        let join = Join { key: key.0, name, addr, arch, speed, cpus, slots, fields, token };
        self.propose_for(now, Command::Join(join), Waiting::Newcomer(id));
        true
    }

    /// Has a host given nothing new from here on, or again (leader only). What runs there goes on.
    /// What comes of it is told by that number.
    pub fn drain_host(
        &mut self,
        now: Instant,
        number: u64,
        host: HostId,
        on: bool,
        memory: &mut dyn Memory,
    ) -> Result<(), DeleteError> {
        let log = self.log_to_change()?;
        log.table().get(host).ok_or(DeleteError::Unknown(host))?;
        let drain = Command::Drain(Drain { host, on });
        self.propose_for(now, drain, Waiting::Table(number));
        self.pump(now, memory);
        Ok(())
    }

    /// The leader says who we are.
    pub(crate) fn handle_welcome(&mut self, now: Instant, id: AssociationId, welcome: Welcome) {
        let Some(j) = self.joining.take_if(|j| j.id == Some(id)) else {
            self.malformed += 1;
            return;
        };
        self.join_addr = Some(j.addr);
        let Welcome { you, snapshot } = welcome;
        let leader = snapshot.leader;
        // Whoever we were before, nobody waits for it any more.
        for host in self.peers.hosts() {
            self.contact_lost(now, host, reason::REPLACED);
        }
        if let Some(old) = self.me {
            self.give_up_work(now, old);
        }
        self.end_tasks("this host was lost and has joined again");
        if let Some(tasks) = &mut self.tasks {
            tasks.end_all(now);
            tasks.rename(you);
        }
        self.jobs.certainty.rest();
        self.lead.broken.forget_all();
        // What was heard of others before it was lost is no news any more.
        let silent = core::mem::take(&mut self.watch.silent).into_iter();
        let up = |h: &HostId| snapshot.table.get(*h).is_some_and(|h| h.state == HostState::Up);
        self.events.extend(silent.filter(up).map(NodeEvent::HostHeard));
        let slots = self.config.slots;
        self.tasks.get_or_insert_with(|| Tasks::new(you, slots));
        self.me = Some(you);
        // Whoever kept the log was another one.
        self.keeps_log_no_more();
        self.set_lost_after(snapshot.lost_after_ms);
        self.log = Some(ControlState::from_snapshot(snapshot));
        self.standing = Standing::default();
        self.peers.set_up(leader, id);
        self.events.push_back(NodeEvent::Joined { me: you, again: j.reason == Reason::Lost });
        let hosts: alloc::vec::Vec<Host> = self.hosts().cloned().collect();
        self.events.extend(hosts.into_iter().map(NodeEvent::HostAdded));
    }

    pub(crate) fn handle_entry(&mut self, now: Instant, from: HostId, entry: &Entry) {
        let Some(log) = &mut self.log else { return };
        let leads = entry.change == Change::Leads(from);
        if from != log.leader() && !leads || self.me == Some(from) {
            self.malformed += u64::from(self.was_never_shared());
            return;
        }
        let have = log.snapshot().index;
        if leads && !log.snapshot().voters.contains(&from) {
            // It may be one that this host has not heard of: who knows it is asked.
            return self.doubt(now, from, (entry.term, entry.index));
        }
        match log.follow(entry) {
            Ok(()) if entry.index > have => self.changed(now, &entry.change),
            Ok(()) => {}
            Err(LogError::Gap { .. } | LogError::Term { .. }) if leads => {
                let report = self.own_report();
                self.tell(now, from, Message::Report(report));
            }
            // What ends us needs nothing that came before it.
            Err(LogError::Gap { .. })
                if self.me.is_some_and(|me| entry.change == Change::Left(me)) =>
            {
                self.changed(now, &entry.change);
            }
            Err(LogError::Gap { .. }) => self.tell_standing(now, None),
            // It has led in another term meanwhile, or has started again.
            Err(LogError::Term { have, got }) if got > have => {
                let report = self.own_report();
                self.tell(now, from, Message::Report(report));
            }
            Err(LogError::Term { .. }) => self.malformed += 1,
        }
    }

    /// A change has taken effect.
    pub(crate) fn changed(&mut self, now: Instant, change: &Change) {
        if let Change::Lost(id) | Change::Left(id) = change {
            self.lead.broken.forget(*id);
            self.watch.silent.remove(id);
            let ended = self.voting.ended.remove(id).then_some(*id);
            self.local.members.forget_parted(*id);
            self.lead.suspects.clear(*id);
            self.look_for_orphans(now, ended);
        }
        match change {
            Change::Added(host) => {
                self.events.push_back(NodeEvent::HostAdded(host.clone()));
                self.tell_host_watches(&Ok(host.clone()));
            }
            Change::Voters(_) => {}
            Change::Drains(host, on) => {
                self.events.push_back(NodeEvent::HostDrains(*host, *on));
            }
            Change::Leads(host) => self.follow(now, *host),
            Change::Lost(id) => {
                self.events.push_back(NodeEvent::HostLost(*id));
                self.drop_contact(now, *id, reason::FENCED);
                self.tell_host_watches(&Err((*id, true)));
            }
            Change::Left(id) if self.me == Some(*id) => {
                self.events.push_back(NodeEvent::Deleted);
            }
            Change::Left(id) => {
                self.events.push_back(NodeEvent::HostLeft(*id));
                self.tell_host_watches(&Err((*id, false)));
                if self.leads() && self.peers.up(*id).is_some() {
                    self.tell_of_its_end(now, *id);
                    self.give_up_work(now, *id);
                } else {
                    self.drop_contact(now, *id, reason::FENCED);
                }
            }
        }
        if let Change::Left(id) | Change::Lost(id) = change {
            self.peers.copies.forget(*id);
            self.lead.unique.asked.remove(id);
        }
        if let Change::Added(host) = change {
            // The old life of a host that came back is over. Others may still be to come, and who
            // said to be this one before the log did may be another.
            let table = self.log.as_ref().map(ControlState::table);
            let stale = |h: &HostId| {
                if *h == host.id {
                    return self.peers.is_under_another(*h, HostKey(host.key));
                }
                table.is_some_and(|t| t.get(*h).is_none()) && !self.is_to_come(*h)
            };
            let stale: alloc::vec::Vec<HostId> =
                self.peers.hosts().into_iter().filter(stale).collect();
            for old in stale {
                self.drop_contact(now, old, reason::FENCED);
            }
        }
    }

    /// An association ended.
    pub(crate) fn handle_over(&mut self, now: Instant, id: AssociationId, end: &End) {
        if let Some(j) = &mut self.joining
            && j.id == Some(id)
        {
            j.id = None;
            j.retry_at = Some(now + RETRY_LEADER);
        }
        let Some(host) = self.forget_conn(id) else { return };
        if matches!(end, End::ByPeer { .. }) {
            // One that was deleted says so as its last word.
            self.lead.unheard.remove(&host);
        }
        self.events.push_back(NodeEvent::ContactOver { host, end: end.clone() });
        match end {
            End::ByPeer { reason: reason::LEFT, .. } => {
                self.contact_lost(now, host, reason::LEFT);
            }
            end @ End::ByPeer { reason: reason::ENDED, .. } => {
                self.note_ended(host);
                self.contact_over(now, host, reason::FENCED, Some(end));
            }
            // The leader ends before it knows that its entry has arrived.
            End::ByPeer { reason: reason::SHUTDOWN, .. }
                if self.leader() == Some(host) && self.me != Some(host) =>
            {
                self.drop_contact(now, host, reason::FENCED);
                self.events.push_back(NodeEvent::Deleted);
            }
            end => {
                if matches!(end, End::ByPeer { reason: reason::REPLACED, .. })
                    && self.peers.copies.replaced(now, host) == CERTAIN
                {
                    self.events.push_back(NodeEvent::Copied { host });
                }
                self.contact_over(now, host, reason::FENCED, Some(end));
            }
        }
    }

    /// Gives up the connection to a host and everything that depended on it, without judging
    /// whether the host is gone.
    pub(crate) fn drop_contact(&mut self, now: Instant, host: HostId, why: u16) {
        if let Some(id) = self.peers.remove(host) {
            self.closing.push((id, why));
            self.cut_channels(id);
            self.channels_over(host, id);
        }
        self.connection_unmade(host);
        self.handle_watch(host, false);
        self.give_up_work(now, host);
    }

    /// The connection to a host is gone, and what depended on it. Whether the host is, too, the
    /// leader finds out; the others wait for its word.
    pub(crate) fn contact_lost(&mut self, now: Instant, host: HostId, why: u16) {
        self.contact_over(now, host, why, None);
    }

    /// The same, where the connection ended by itself.
    pub(crate) fn contact_over(&mut self, now: Instant, host: HostId, why: u16, end: Option<&End>) {
        self.drop_contact(now, host, why);
        let Some(log) = &self.log else { return };
        if self.me == Some(log.leader()) {
            if !self.is_up(host) || !self.leads() {
                return;
            }
            if why == reason::LEFT {
                self.lead.suspects.clear(host);
                self.propose(now, Command::Leave(Leave { host, deleted: false }));
            } else {
                self.suspect(now, host, end);
            }
        } else if host == log.leader() && self.me.is_some() {
            if why == reason::LEFT {
                self.standing.left = Some(host);
            }
            self.leader_out_of_contact(now, host);
        } else if why == reason::FENCED {
            self.tell_unreachable(now, host);
        }
    }
}
