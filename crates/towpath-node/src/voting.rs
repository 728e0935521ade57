//! One of those that keep the log together: what it is asked, and whom it takes in.
//!
//! ```text
//!  the leader's proposals ──▶ Voter ──▶ Replica ──▶ messages to the other voters
//!                               ▲          │ decided
//!                               └── ControlState of its own: everything, as of the last entry
//! ```
//! A replica is a host in one of its lives: a daemon that ends comes back as another host, so a
//! majority of voters has to live through. What a replica writes goes to a disk where its owner has
//! one, for who has to begin again where most of them did not ([`crate::Saved`]). Entries are
//! commands. Only the host that leads proposes any, so a proposal is known again by its term and
//! index, and sessions are not needed.

mod leading;
mod rest;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use towpath_proto::Rng;
use towpath_vm::Snapshot;
use towpath_vm::consensus::{
    self, Body, Config, Decided, Identity, Members, Proposal, Replica, ReplicaId, ReplicatedLog,
    RoleName, Stored, Write,
};
use towpath_vm::control::{Command, Commits, ControlState, Effect, Outcome, Ticket};
use towpath_vm::registry::Kept;
use towpath_wire::{HostId, Instant};
use zeroize::Zeroizing;

use crate::contents::Contents;
use crate::ledger::{Ledger, Writes};
use crate::over::Over;
use crate::parting::Parting;
use crate::restore::KeptTo;
use crate::saying::{Said, Saying};
use crate::ticking::Ticking;
use crate::voters::{LogName, host_of, hosts_of, replica_of};

/// Bytes of entries after which the state takes their place.
const COMPACT_AFTER: usize = 1 << 20;
/// Most that may vote, as an owner may choose.
pub const VOTERS: [u8; 3] = [1, 3, 5];

/// What a host has to do with keeping the log.
pub(crate) struct Voting {
    /// Of the virtual machine: whoever may come to lead holds it.
    pub(crate) vm_key: Option<Zeroizing<[u8; 32]>>,
    /// This host was started with that key, and holds it whether it keeps the log or not.
    pub(crate) founded: bool,
    /// Whether it comes back, about to end; where nothing was said, a founder does.
    pub(crate) comes_back: Option<bool>,
    /// `None`: the leader asks nobody, and nobody else comes to lead.
    pub(crate) voter: Option<Box<Voter>>,
    /// The owner writes down what this host, which asks nobody, decides.
    pub(crate) ledger: Option<Box<Ledger>>,
    pub(crate) rng: Rng,
    /// The last write that the owner was given, of any voter that this host was.
    pub(crate) written: u64,
    /// The entry as of which the owner has the table on its disk.
    pub(crate) kept: u64,
    /// Hosts that have not said what they know since this host leads.
    pub(crate) untold: BTreeSet<HostId>,
    pub(crate) ticks: u32,
    /// Hosts that the leader asked about, when, and that were not heard since; when they are looked
    /// at next, if there are any.
    pub(crate) asked_about: BTreeMap<HostId, Instant>,
    pub(crate) look_at: Option<Instant>,
    /// One that keeps the log, and is being deleted; until when nothing else is to be changed about
    /// who votes: it may end at any moment.
    pub(crate) leaving: Option<(HostId, Instant)>,
    /// Who votes is being changed: the next step follows as soon as one is decided.
    pub(crate) stepping: bool,
    /// What was said where most of those that vote have started again.
    pub(crate) over: Over,
    /// Who leads, as far as the replica knew when it was last looked at.
    pub(crate) follows: Option<HostId>,
    /// Hosts whose engine has ended, by the word of whoever started it, and that are not lost yet.
    pub(crate) ended: BTreeSet<HostId>,
    /// Hosts that are about to end.
    pub(crate) parting: Parting,
    /// Several hosts have kept the log since this one is there.
    pub(crate) was_shared: bool,
    /// What the control state names of mailbox entries.
    pub(crate) contents: Contents,
}

impl fmt::Debug for Voting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vm_key, voter, kept, untold, parting, .. } = self;
        let holds = vm_key.is_some();
        write!(
            f,
            "Voting {{ holds the key: {holds}, kept: {kept}, untold: {untold:?}, {parting:?}, \
             {voter:?} }}"
        )
    }
}

impl Voting {
    pub(crate) fn new(rng: Rng) -> Self {
        let (vm_key, voter, untold) = (None, None, BTreeSet::new());
        Self {
            vm_key,
            founded: false,
            comes_back: None,
            voter,
            ledger: None,
            rng,
            written: 0,
            kept: 0,
            untold,
            ticks: 0,
            asked_about: BTreeMap::new(),
            look_at: None,
            leaving: None,
            stepping: false,
            over: Over::default(),
            follows: None,
            ended: BTreeSet::new(),
            parting: Parting::default(),
            was_shared: false,
            contents: Contents::default(),
        }
    }

    /// This host keeps the log no longer.
    pub(crate) fn forget_key(&mut self) {
        if !self.founded {
            self.vm_key = None;
        }
    }

    /// The log that several keep, or a disk, if they do.
    pub(crate) fn log(&mut self, now: Instant) -> Option<&mut dyn Commits> {
        let Self { voter, ledger, .. } = self;
        if let Some(voter) = voter {
            voter.catch_up(now);
        }
        let voter = voter.as_deref_mut().map(|voter| voter as &mut dyn Commits);
        voter.or_else(|| ledger.as_deref_mut().map(|ledger| ledger as &mut dyn Commits))
    }
}

/// One of those that keep the log. Invariants: `state` has the effect of every entry that the
/// replica gave out; `under_way` has what this host proposed in the term that it leads in, and
/// nothing once it leads no longer.
#[derive(Debug)]
pub(crate) struct Voter {
    replica: Replica,
    state: ControlState,
    /// How many are to vote at most.
    pub(crate) wanted: u8,
    /// By index: the term, and who waits.
    under_way: BTreeMap<u64, (u64, Ticket)>,
    last_ticket: u64,
    outcomes: VecDeque<Outcome>,
    /// The last term that it asked to lead in.
    asked: u64,
    /// The term that it leads in, as the state has it.
    leads_in: Option<u64>,
    /// The state as of the entry by which it has come to lead, until that is looked at.
    taken: Option<ControlState>,
    saying: Saying,
    /// So many bytes of entries are looked at before the state takes their place.
    compact_after: usize,
    /// It has taken part.
    was_in: bool,
    /// `None`: its owner has no disk for it.
    writes: Option<Writes>,
    /// It was sent a state that it cannot read: it keeps nothing that it could vote with.
    is_damaged: bool,
    /// How often it passed the lead on.
    passed: u32,
    ticks: u32,
    /// Bytes that the state does not need any more, which this host may keep.
    released: Vec<Kept>,
    ticking: Ticking,
    rng: Rng,
}

impl Voter {
    fn new(now: Instant, log: LogName, wanted: u8, stored: Stored, mut rng: Rng) -> Self {
        let LogName { generation, replica } = log;
        let me = Identity { generation, id: ReplicaId(replica), boot: 1, life: rng.u64() };
        // Replaced by the first snapshot, or by what it is founded with.
        let nothing = Snapshot {
            term: 0,
            index: 0,
            leader: HostId::new(1, 0).expect("slot 1 is a slot"),
            lost_after_ms: 0,
            voters: Vec::new(),
            table: <_>::default(),
        };
        let mut voter = Self {
            replica: Replica::new(Config::default(), me, stored),
            state: ControlState::from_snapshot(nothing),
            wanted,
            under_way: BTreeMap::new(),
            last_ticket: 0,
            outcomes: VecDeque::new(),
            asked: 0,
            leads_in: None,
            taken: None,
            saying: Saying::default(),
            compact_after: COMPACT_AFTER,
            was_in: false,
            writes: None,
            is_damaged: false,
            passed: 0,
            ticks: 0,
            released: Vec::new(),
            ticking: Ticking::new(now),
            rng,
        };
        voter.turn();
        voter
    }

    /// The first one: it votes alone, and leads.
    pub(crate) fn found(
        now: Instant,
        me: HostId,
        wanted: u8,
        state: &ControlState,
        mut rng: Rng,
    ) -> Self {
        let me = replica_of(me, 0);
        let stored = Stored::found(Members::of([me]), state.encode());
        let log = LogName { generation: rng.u64(), replica: me.0 };
        let mut voter = Self::new(now, log, wanted, stored, rng);
        // The state that it is founded with says already who leads.
        voter.asked = u64::MAX;
        for _ in 0..=2 * Config::default().election_ticks {
            if voter.replica.role() == RoleName::Leader {
                break;
            }
            let draw = voter.rng.u64();
            voter.replica.tick(draw);
            voter.turn();
        }
        voter.asked = voter.replica.term();
        voter.leads_in = Some(voter.replica.term());
        voter
    }

    /// One that the leader has asked to keep the log: it has nothing yet.
    pub(crate) fn newcomer(now: Instant, log: LogName, wanted: u8, rng: Rng) -> Self {
        Self::new(now, log, wanted, Stored::empty(), rng)
    }

    /// The same, whose owner brings what it writes to a disk, by numbers that follow `after`.
    pub(crate) fn written(mut self, after: u64) -> Self {
        self.writes = Some(Writes::new(after));
        if self.replica.last_index() > 0 {
            // What it was founded with.
            self.replica.keep_all();
            self.turn();
        }
        self
    }

    /// What the owner is to write next, and its number there.
    pub(crate) fn write(&mut self) -> Option<Write> {
        if self.writes.as_ref()?.lacks {
            self.replica.keep_all();
            self.turn();
        }
        let writes = self.writes.as_mut()?;
        writes.lacks = false;
        let write = writes.waiting.pop_front()?;
        Some(Write { number: writes.after + write.number, ..write })
    }

    /// The owner has written all up to this write; `None`: it cannot write, and is not waited for.
    /// True if anything may follow from that.
    pub(crate) fn wrote(&mut self, now: Instant, up_to: Option<u64>) -> bool {
        self.catch_up(now);
        let Some(writes) = &mut self.writes else { return false };
        let number = if let Some(number) = up_to {
            number.saturating_sub(writes.after)
        } else {
            writes.lacks |= !writes.waiting.is_empty();
            writes.waiting.clear();
            u64::MAX
        };
        let waited = self.replica.waits_for_disk();
        self.replica.durable(number);
        if waited {
            self.turn();
        }
        waited
    }

    /// Whether something waits for the owner's disk.
    pub(crate) const fn waits_for_disk(&self) -> bool {
        self.replica.waits_for_disk()
    }

    /// Which life of the log this is, and who this is in it.
    pub(crate) const fn name(&self) -> LogName {
        let Identity { generation, id, .. } = self.replica.identity();
        LogName { generation, replica: id.0 }
    }

    /// The same for another host, if it takes part.
    pub(crate) fn name_of(&self, host: HostId) -> Option<LogName> {
        let id = self.member(host)?;
        Some(LogName { replica: id.0, ..self.name() })
    }

    /// The same for a host that is to take part: another one than it ever was.
    pub(crate) fn name_for(&self, host: HostId) -> LogName {
        LogName { replica: replica_of(host, self.replica.last_index()).0, ..self.name() }
    }

    fn member(&self, host: HostId) -> Option<ReplicaId> {
        let Members { voters, learners } = self.replica.members();
        voters.union(learners).copied().find(|id| host_of(*id) == Some(host))
    }

    /// Whether this host leads: the log has elected it, and the state says so.
    pub(crate) fn leads(&self) -> bool {
        self.replica.role() == RoleName::Leader && self.leads_in == Some(self.replica.term())
    }

    /// In words, for people who look for faults.
    pub(crate) fn describe(&self) -> alloc::string::String {
        let Identity { id, .. } = self.replica.identity();
        let (role, term) = (self.replica.role(), self.replica.term());
        let (commit, last) = (self.replica.commit(), self.replica.last_index());
        let members = self.replica.members();
        alloc::format!(
            "{id:?} {role:?} of term {term}, leads in {:?}, committed {commit} of {last}, \
             {members:?}, refused {:?}, halt {:?}, in {}",
            self.leads_in,
            self.replica.refused(),
            self.replica.halt(),
            self.was_in,
        )
    }

    /// Everything, as of the last entry.
    pub(crate) const fn state(&self) -> &ControlState {
        &self.state
    }

    /// Everything that it was sent or has proposed, decided or not.
    pub(crate) fn everything(&self) -> ControlState {
        let mut state = self.state.clone();
        for index in self.replica.handed() + 1..=self.replica.last_index() {
            if let Some(Body::Command(command)) = self.replica.entry(index).map(|entry| &entry.body)
                && let Ok(command) = Command::decode(&command.bytes)
            {
                state.apply(index, command);
            }
        }
        state
    }

    /// How far that goes.
    pub(crate) fn kept_to(&self) -> KeptTo {
        let last = self.replica.last_index();
        let of = self.replica.term_at(last).unwrap_or_default();
        let (term, life) = (self.state.snapshot().term, self.name().generation);
        KeptTo { term, life, last: (of, last), lives: true }
    }

    /// Whether nobody else takes part.
    pub(crate) fn is_alone(&self) -> bool {
        let Members { voters, learners } = self.replica.members();
        voters.union(learners).nth(1).is_none()
    }

    /// Whether a host takes part, as far as is known here.
    pub(crate) fn has(&self, host: HostId) -> bool {
        self.member(host).is_some()
    }

    /// Whether this host is only sent a log that nobody will ever write again: none of those that
    /// vote is one of these.
    pub(crate) fn is_sent_nothing(&self, up: impl Fn(HostId) -> bool) -> bool {
        let (voters, learners) = self.members();
        let own = host_of(self.replica.identity().id);
        own.is_some_and(|own| learners.contains(&own)) && !voters.into_iter().any(up)
    }

    /// Whether this host took part, and does no longer, or cannot.
    pub(crate) fn is_out(&self) -> bool {
        self.is_damaged || self.was_in && !self.is_in() && self.replica.is_settled()
    }

    fn is_in(&self) -> bool {
        self.replica.members().has(self.replica.identity().id)
    }

    /// Who votes, and who is sent the log beside them.
    pub(crate) fn members(&self) -> (BTreeSet<HostId>, BTreeSet<HostId>) {
        let members = self.replica.members();
        (hosts_of(&members.voters), hosts_of(&members.learners))
    }

    /// Whether a message is of a host that says it.
    pub(crate) fn is_from(message: &consensus::Message, host: HostId) -> bool {
        host_of(message.from) == Some(host)
    }

    /// Another one says something; `noted`: in a note, and so it is answered.
    pub(crate) fn step(&mut self, now: Instant, message: consensus::Message, noted: bool) {
        self.catch_up(now);
        self.saying.hears(message.from, noted);
        self.replica.step(message);
        self.turn();
        self.saying.has_answered();
    }

    /// What the state does not need any more of what hosts keep.
    pub(crate) fn released(&mut self) -> Vec<Kept> {
        core::mem::take(&mut self.released)
    }

    /// What is to be said, and to whom.
    pub(crate) fn outgoing(&mut self) -> Vec<Said> {
        self.saying.take()
    }

    /// The state as of the entry by which this host has come to lead: once.
    pub(crate) const fn taken(&mut self) -> Option<ControlState> {
        self.taken.take()
    }

    /// How far those that keep the log have it: the term, the entries that are decided, and by host
    /// how many it lacks of all.
    pub(crate) fn progress(&self) -> (u64, u64, BTreeMap<HostId, u64>) {
        let (last, me) = (self.replica.last_index(), self.replica.identity().id);
        let others = self.replica.followers().map(|(id, matched)| (id, last - matched.min(last)));
        let all = others.filter(|(id, _)| *id != me).chain([(me, 0)]);
        let behind = all.filter_map(|(id, behind)| Some((host_of(id)?, behind))).collect();
        (self.replica.term(), self.replica.commit(), behind)
    }

    /// Whether the last change of who takes part is decided.
    pub(crate) fn is_settled(&self) -> bool {
        self.replica.is_settled()
    }

    /// Carries on with what the replica wants done, and what it has decided.
    fn turn(&mut self) {
        loop {
            let taken = self.replica.take();
            for message in taken.messages {
                self.saying.say(&message, self.replica.is_level(message.to));
            }
            let written = taken.write.is_some_and(|write| {
                let number = write.number;
                let waits = self.writes.as_mut().is_some_and(|writes| writes.put(write));
                if !waits {
                    self.replica.durable(number);
                }
                !waits
            });
            let decided = self.take_decided();
            if self.asks_to_lead() || written || decided {
                continue;
            }
            break;
        }
        if self.replica.role() != RoleName::Leader {
            self.leads_in = None;
            self.drop_all();
        }
        self.was_in |= self.is_in();
        self.compact();
        let leader = self.replica.leader().map_or(0, |id| id.0);
        self.ticking.sees((self.replica.term(), leader, self.replica.last_index()));
    }

    /// What becomes of all that is under way is not known here.
    pub(crate) fn drop_all(&mut self) {
        let dropped = core::mem::take(&mut self.under_way).into_values();
        self.outcomes.extend(dropped.map(|(_, ticket)| Outcome::Dropped(ticket)));
    }

    /// The same voter in a further life of the log: it gives none of its tickets out twice.
    pub(crate) const fn after(mut self, before: &Self) -> Self {
        self.last_ticket = before.last_ticket;
        self
    }

    /// An elected one has the log say that it leads, once in its term.
    fn asks_to_lead(&mut self) -> bool {
        let term = self.replica.term();
        if self.replica.role() != RoleName::Leader || self.asked >= term {
            return false;
        }
        let Some(me) = host_of(self.replica.identity().id) else { return false };
        self.asked = term;
        let bytes = Command::Lead(me).encode();
        let command = consensus::Command { session: 0, number: 0, settled: 0, bytes };
        self.replica.propose(Proposal::Command(command)).is_ok()
    }

    fn take_decided(&mut self) -> bool {
        let mut any = false;
        while let Some(decided) = self.replica.decided() {
            any = true;
            match decided {
                Decided::Snapshot(snapshot) => {
                    // Of a peer of the same build, and checked: else it is not gone on with.
                    match ControlState::decode(&snapshot.state) {
                        Ok(state) => {
                            let named = state.kept();
                            let before = self.state.kept().into_iter();
                            self.released.extend(before.filter(|kept| !named.contains(kept)));
                            self.state = state;
                        }
                        Err(_) => self.is_damaged = true,
                    }
                }
                Decided::Entry(entry) => self.apply(entry),
            }
        }
        any
    }

    fn apply(&mut self, entry: consensus::Entry) {
        let consensus::Entry { term, index, body } = entry;
        let mine = self.under_way.remove(&index);
        let command = match body {
            Body::Command(command) => Command::decode(&command.bytes).ok(),
            _ => None,
        };
        if let Some(command) = command.clone() {
            let effects = self.state.apply(index, command).into_iter();
            self.released.extend(effects.filter_map(|effect| match effect {
                Effect::Released(kept) => Some(kept),
                _ => None,
            }));
        }
        let me = host_of(self.replica.identity().id);
        let elected = self.asked == term && self.replica.term() == term;
        if elected && command.is_some() && command == me.map(Command::Lead) {
            if me == Some(self.state.leader()) {
                self.leads_in = Some(term);
                self.taken = Some(self.state.clone());
            } else {
                self.pass_lead_on();
            }
        }
        match (mine, command) {
            (Some((asked, ticket)), Some(command)) if asked == term => {
                self.outcomes.push_back(Outcome::Committed(index, ticket, command));
            }
            (Some((_, ticket)), _) => self.outcomes.push_back(Outcome::Dropped(ticket)),
            (None, _) => {}
        }
    }

    /// Has the state take the place of its entries, no more often than as much was said since as
    /// the state has bytes: it is not even looked at before.
    fn compact(&mut self) {
        if self.replica.log_bytes() < self.compact_after {
            return;
        }
        let state = self.state.encode();
        self.compact_after = COMPACT_AFTER.max(state.len());
        if self.replica.log_bytes() >= state.len() && state.len() <= consensus::config::STATE_MAX {
            self.replica.compact(state);
        }
    }
}

impl Commits for Voter {
    fn propose(&mut self, command: Command) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let bytes = command.encode();
        let command = consensus::Command { session: 0, number: 0, settled: 0, bytes };
        match self.replica.propose(Proposal::Command(command)) {
            Ok(place) => _ = self.under_way.insert(place.index, (place.term, ticket)),
            Err(_) => self.outcomes.push_back(Outcome::Dropped(ticket)),
        }
        ticket
    }

    fn poll(&mut self) -> Option<Outcome> {
        if self.outcomes.is_empty() {
            self.turn();
        }
        self.outcomes.pop_front()
    }
}
