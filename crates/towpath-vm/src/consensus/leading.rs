//! What a leader does: it sends entries, counts who has them, and gives way.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::config::CAUGHT_UP;
use super::entry::{Body, Entry, LEARNERS_MAX, Members, ReplicaId, VOTERS_MAX};
use super::message::{ENTRIES_MAX, Payload, Piece};
use super::progress::{Progress, Sending, Transfer};
use super::quorum::{held_by_most, most};
use super::reads::Reads;
use super::receiving::checksum_of;
use super::replica::{Place, ProposeError, Replica, Role};

/// What only a leader has.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) followers: BTreeMap<ReplicaId, Progress>,
    pub(crate) reads: Reads,
    /// To whom the lead is handed over, and ticks since that was asked for.
    giving_way: Option<(ReplicaId, u32)>,
    since_beat: u32,
    since_count: u32,
    /// Bytes of entries that are not committed.
    uncommitted: usize,
    /// The first entry of its own.
    first: u64,
}

impl Lead {
    pub(crate) fn new(first: u64) -> Self {
        Self {
            followers: BTreeMap::new(),
            reads: Reads::default(),
            giving_way: None,
            since_beat: 0,
            since_count: 0,
            uncommitted: 0,
            first,
        }
    }

    /// In how many ticks one may bring something.
    pub(crate) fn ticks_ahead(&self, beat: u32, election: u32) -> u32 {
        let next = beat.saturating_sub(self.since_beat);
        let count = election.saturating_sub(self.since_count);
        if self.giving_way.is_some() { 1 } else { next.min(count) }
    }
}

/// A change of who takes part: one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A newcomer is sent the log.
    Learn(ReplicaId),
    /// A learner becomes a voter.
    Promote(ReplicaId),
    /// A voter or a learner takes part no longer.
    Remove(ReplicaId),
}

/// Why a change of who takes part was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// As with any entry.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// The last change is not committed yet.
    #[error("the change of members at entry {0} is not committed yet")]
    Pending(u64),
    /// It is that already, or is not what is to be changed.
    #[error("replica {0} cannot be changed so: it is no newcomer, no learner or no member")]
    Unfit(ReplicaId),
    /// It lacks too much.
    #[error("replica {id} lacks {lacks} entries, limit {CAUGHT_UP}")]
    Behind {
        /// Who.
        id: ReplicaId,
        /// How much.
        lacks: u64,
    },
    /// There are as many as there may be.
    #[error("there are {limit} {what} already")]
    Many {
        /// What.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// It is the last voter.
    #[error("replica {0} is the last voter")]
    Last(ReplicaId),
}

impl Replica {
    pub(crate) fn begin_to_lead(&mut self) {
        self.sync_followers();
        self.push(Body::Empty);
    }

    /// Makes an entry of its own.
    fn push(&mut self, body: Body) -> Place {
        let (term, index) = (self.term, self.log.last_index() + 1);
        let entry = Entry { term, index, body };
        if let Role::Leader(lead) = &mut self.role {
            lead.uncommitted += entry.size();
        }
        let changes = matches!(entry.body, Body::Members(_));
        self.disk.entry(entry.clone());
        self.log.push(entry);
        if changes {
            self.sync_followers();
        }
        Place { term, index }
    }

    pub(crate) fn propose_body(&mut self, body: Body) -> Result<Place, ProposeError> {
        let not = ProposeError::NotLeader(self.leader());
        let limit = self.config.uncommitted_bytes;
        let Role::Leader(lead) = &self.role else { return Err(not) };
        if let Some((to, _)) = lead.giving_way {
            return Err(ProposeError::HandingOver(to));
        }
        if lead.uncommitted >= limit {
            return Err(ProposeError::Full { bytes: lead.uncommitted, limit });
        }
        Ok(self.push(body))
    }

    /// Changes who takes part. It holds from its entry on, before that is committed.
    pub fn change(&mut self, change: Change) -> Result<Place, ChangeError> {
        let not = ProposeError::NotLeader(self.leader());
        let Role::Leader(lead) = &self.role else { return Err(not.into()) };
        if self.log.term_at(self.commit) != Some(self.term) {
            return Err(ProposeError::New(self.term).into());
        }
        let since = self.log.members_since();
        if since > self.commit {
            return Err(ChangeError::Pending(since));
        }
        let mut members = self.log.members().clone();
        match change {
            Change::Learn(id) => learn(&mut members, id)?,
            Change::Promote(id) => {
                let matched = lead.followers.get(&id).map_or(0, |p| p.matched);
                promote(&mut members, id, self.log.last_index() - matched)?;
            }
            Change::Remove(id) => remove(&mut members, id)?,
        }
        Ok(self.propose_body(Body::Members(members))?)
    }

    /// Gives the lead to another voter once that has all entries; nothing is taken meanwhile.
    pub fn hand_over(&mut self, to: ReplicaId) -> Result<(), ChangeError> {
        let not = ProposeError::NotLeader(self.leader());
        let fit = to != self.me.id && self.log.members().voters.contains(&to);
        let Role::Leader(lead) = &mut self.role else { return Err(not.into()) };
        if !fit {
            return Err(ChangeError::Unfit(to));
        }
        lead.giving_way = Some((to, 0));
        self.give_way();
        Ok(())
    }

    fn give_way(&mut self) {
        let last = self.log.last_index();
        let Role::Leader(Lead { giving_way: Some((to, _)), followers, .. }) = &self.role else {
            return;
        };
        let to = *to;
        if followers.get(&to).is_some_and(|p| p.matched == last) {
            self.send(0, to, self.term, Payload::HandOver);
        }
    }

    /// Each follower and how far its log is the leader's; nothing where this replica does not lead.
    pub fn followers(&self) -> impl Iterator<Item = (ReplicaId, u64)> {
        let lead = if let Role::Leader(lead) = &self.role { Some(lead) } else { None };
        lead.into_iter().flat_map(|l| l.followers.iter().map(|(id, p)| (*id, p.matched)))
    }

    /// Everybody who takes part is sent entries. Who was removed is, too, until that is committed.
    fn sync_followers(&mut self) {
        let (members, next) = (self.log.members().all(), self.log.last_index() + 1);
        let settled = self.log.members_since() <= self.commit;
        let me = self.me.id;
        let Role::Leader(lead) = &mut self.role else { return };
        if settled {
            lead.followers.retain(|id, _| members.contains(id));
        }
        for id in members.into_iter().filter(|id| *id != me) {
            lead.followers.entry(id).or_insert_with(|| Progress::new(next, true));
        }
    }

    pub(crate) fn tick_leading(&mut self) {
        let voters = &self.log.members().voters;
        let (me, election) = (self.me.id, self.config.election_ticks);
        let stalls = self.disk.waited >= self.config.disk_ticks;
        let Role::Leader(lead) = &mut self.role else { return };
        lead.since_beat += 1;
        lead.since_count += 1;
        if let Some((_, ticks)) = &mut lead.giving_way {
            *ticks += 1;
            if *ticks >= election {
                lead.giving_way = None;
            }
        }
        let mut gives_up = stalls;
        if lead.since_count >= election {
            lead.since_count = 0;
            let active = |id| id == me || lead.followers.get(&id).is_some_and(|p| p.active);
            gives_up |= !most(voters, active);
            for progress in lead.followers.values_mut() {
                progress.active = false;
            }
        }
        if gives_up {
            return self.follow(None);
        }
        if lead.since_beat >= self.config.beat_ticks {
            self.beat();
        }
    }

    fn beat(&mut self) {
        let (commit, term) = (self.commit, self.term);
        let Role::Leader(lead) = &mut self.role else { return };
        lead.since_beat = 0;
        let round = lead.reads.round;
        let beats = |(id, p): (&ReplicaId, &Progress)| (*id, commit.min(p.matched));
        let beats: Vec<_> = lead.followers.iter().map(beats).collect();
        for (id, commit) in beats {
            self.send(0, id, term, Payload::Beat { commit, round });
        }
    }

    fn progress(&mut self, id: ReplicaId) -> Option<&mut Progress> {
        let Role::Leader(lead) = &mut self.role else { return None };
        let progress = lead.followers.get_mut(&id)?;
        progress.active = true;
        Some(progress)
    }

    pub(crate) fn appended(&mut self, from: ReplicaId, matched: u64) {
        if matched > self.log.last_index() {
            return;
        }
        if self.progress(from).is_some_and(|p| p.appended(matched)) {
            self.advance();
            self.give_way();
        }
    }

    pub(crate) fn append_refused(
        &mut self,
        from: ReplicaId,
        prev_index: u64,
        (hint_index, hint_term): (u64, u64),
    ) {
        let hint = self.log.last_of_term(hint_index, hint_term).min(hint_index);
        if let Some(progress) = self.progress(from) {
            progress.refused(prev_index, hint);
        }
    }

    pub(crate) fn beat_answered(&mut self, from: ReplicaId, round: u64) {
        let last = self.log.last_index();
        if let Some(progress) = self.progress(from) {
            progress.beat(last);
            progress.round = progress.round.max(round);
            self.count_reads();
        }
    }

    pub(crate) fn piece_answered(&mut self, from: ReplicaId, index: u64, offset: u64) {
        if let Some(progress) = self.progress(from)
            && let Sending::Snapshot(transfer) = &mut progress.sending
            && transfer.snapshot.index == index
        {
            transfer.acked(offset);
        }
    }

    /// Reads whose round a majority has answered may be answered.
    fn count_reads(&mut self) {
        let me = self.me.id;
        let voters = &self.log.members().voters;
        let Role::Leader(lead) = &mut self.role else { return };
        let own = lead.reads.round;
        let round_of =
            |id| if id == me { own } else { lead.followers.get(&id).map_or(0, |p| p.round) };
        if let Some(round) = held_by_most(voters, round_of) {
            self.out.reads.extend(lead.reads.answered(round));
        }
    }

    /// Commits what a majority has on its disks, if it is of this term: entries of earlier terms
    /// are committed by what follows on them, never by counting (Ongaro and Ousterhout 2014,
    /// section 5.4.2).
    pub(crate) fn advance(&mut self) {
        let Role::Leader(lead) = &self.role else { return };
        let me = self.me.id;
        let own = self.disk.stable();
        #[cfg(plant)]
        let own = match self.config.plant {
            super::config::Plant::SkippedSync => self.log.last_index(),
            _ => own,
        };
        let held =
            |id| if id == me { own } else { lead.followers.get(&id).map_or(0, |p| p.matched) };
        let Some(index) = held_by_most(&self.log.members().voters, held) else { return };
        let counts = self.log.term_at(index) == Some(self.term);
        #[cfg(plant)]
        let counts = counts || self.config.plant == super::config::Plant::OldTermCommitted;
        if index > self.commit && counts {
            self.committed(index);
        }
    }

    fn committed(&mut self, index: u64) {
        let from = self.commit + 1;
        let freed = |first: u64| -> usize {
            let news = self.log.from(from.max(first)).take_while(|e| e.index <= index);
            news.map(Entry::size).sum()
        };
        if let Role::Leader(Lead { first, .. }) = self.role {
            let freed = freed(first);
            let Role::Leader(lead) = &mut self.role else { return };
            lead.uncommitted -= freed;
        }
        let changed = (from..=index).contains(&self.log.members_since());
        self.commit_to(index);
        if changed {
            // Who was removed hears of it before it hears nothing any more.
            self.flush_appends();
            self.sync_followers();
            if !self.is_voter() {
                self.follow(None);
            }
        }
    }

    /// Sends what is due.
    pub(crate) fn flush(&mut self) {
        // What is alone in voting has committed what is on its disk.
        self.advance();
        let Role::Leader(lead) = &mut self.role else { return };
        if lead.reads.begin() {
            self.beat();
            self.count_reads();
        }
        self.flush_appends();
    }

    fn flush_appends(&mut self) {
        let Role::Leader(lead) = &self.role else { return };
        for id in lead.followers.keys().copied().collect::<Vec<_>>() {
            while self.send_next(id) {}
        }
    }

    /// Sends one message with entries or a piece, if one is due. True if so.
    fn send_next(&mut self, id: ReplicaId) -> bool {
        let (last, commit) = (self.log.last_index(), self.commit);
        let Role::Leader(lead) = &mut self.role else { return false };
        let Some(progress) = lead.followers.get_mut(&id) else { return false };
        let limit = self.config.under_way_bytes;
        let due = match &progress.sending {
            Sending::Probing { waits } => !waits && (progress.poked || progress.next <= last),
            Sending::Streaming(under_way) => {
                let news = progress.next <= last && under_way.has_room(limit);
                let committed = commit.min(progress.next - 1);
                news || progress.poked || progress.told_commit < committed
            }
            Sending::Snapshot(_) => return self.send_piece(id),
        };
        if !due {
            return false;
        }
        let prev_index = progress.next - 1;
        let Some(prev_term) = self.log.term_at(prev_index) else {
            let snapshot = Arc::clone(self.log.snapshot());
            let checksum = checksum_of(&snapshot.members, &snapshot.state);
            progress.sending = Sending::Snapshot(Transfer::new(snapshot, checksum));
            return true;
        };
        progress.poked = false;
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let has_room = match &progress.sending {
            Sending::Streaming(under_way) => under_way.has_room(limit),
            _ => true,
        };
        let most = if has_room { ENTRIES_MAX } else { 0 };
        for entry in self.log.from(progress.next).take(most) {
            if bytes > 0 && bytes + entry.size() > self.config.append_bytes {
                break;
            }
            bytes += entry.size();
            entries.push(entry.clone());
        }
        match &mut progress.sending {
            Sending::Streaming(under_way) if !entries.is_empty() => {
                progress.next += entries.len() as u64;
                under_way.push(progress.next - 1, bytes);
            }
            Sending::Probing { waits } => *waits = true,
            _ => {}
        }
        progress.told_commit = commit.min(prev_index + entries.len() as u64);
        let append = Payload::Append { prev_index, prev_term, commit, entries };
        self.send(0, id, self.term, append);
        true
    }

    fn send_piece(&mut self, id: ReplicaId) -> bool {
        let size = self.config.piece_bytes;
        let Role::Leader(lead) = &mut self.role else { return false };
        let Some(Progress { sending: Sending::Snapshot(transfer), .. }) =
            lead.followers.get_mut(&id)
        else {
            return false;
        };
        let Some(offset) = transfer.next(size) else { return false };
        let snapshot = &transfer.snapshot;
        let rest = &snapshot.state[offset as usize..];
        let piece = Piece {
            index: snapshot.index,
            term: snapshot.term,
            len: snapshot.state.len() as u64,
            offset,
            checksum: transfer.checksum,
            members: snapshot.members.clone(),
            bytes: rest[..rest.len().min(size)].into(),
        };
        transfer.sent(piece.bytes.len());
        self.send(0, id, self.term, Payload::Piece(piece));
        true
    }
}

fn learn(members: &mut Members, id: ReplicaId) -> Result<(), ChangeError> {
    if members.has(id) || id == ReplicaId(0) {
        return Err(ChangeError::Unfit(id));
    }
    if members.learners.len() >= LEARNERS_MAX {
        return Err(ChangeError::Many { what: "learners", limit: LEARNERS_MAX });
    }
    members.learners.insert(id);
    Ok(())
}

fn promote(members: &mut Members, id: ReplicaId, lacks: u64) -> Result<(), ChangeError> {
    if !members.learners.contains(&id) {
        return Err(ChangeError::Unfit(id));
    }
    if lacks > CAUGHT_UP {
        return Err(ChangeError::Behind { id, lacks });
    }
    if members.voters.len() >= VOTERS_MAX {
        return Err(ChangeError::Many { what: "voters", limit: VOTERS_MAX });
    }
    members.learners.remove(&id);
    members.voters.insert(id);
    Ok(())
}

fn remove(members: &mut Members, id: ReplicaId) -> Result<(), ChangeError> {
    if members.voters.len() == 1 && members.voters.contains(&id) {
        return Err(ChangeError::Last(id));
    }
    if !members.voters.remove(&id) && !members.learners.remove(&id) {
        return Err(ChangeError::Unfit(id));
    }
    Ok(())
}
