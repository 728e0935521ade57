//! Elections: when one is due, who is asked, who is given a vote.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::entry::ReplicaId;
use super::leading::Lead;
use super::message::Payload;
use super::quorum::{Tally, tally};
use super::replica::{Replica, Role};

impl Replica {
    pub(crate) fn tick_waiting(&mut self, draw: u64) {
        let least = self.config.election_ticks;
        let timeout = *self.timeout.get_or_insert(least + (draw % u64::from(least)) as u32);
        self.elapsed = self.elapsed.saturating_add(1);
        if self.elapsed >= timeout {
            self.campaign();
        }
    }

    /// Asks whether it would be elected, if it may be at all: a voter whose disk takes something.
    pub fn campaign(&mut self) {
        self.elapsed = 0;
        self.timeout = None;
        let stalls = self.disk.waited >= self.config.election_ticks;
        if matches!(self.role, Role::Leader(_)) || !self.is_voter() || stalls {
            return;
        }
        self.role = Role::PreCandidate(BTreeMap::from([(self.me.id, true)]));
        let (last_index, last_term) = (self.log.last_index(), self.log.last_term());
        let voted = self.disk.voted();
        for id in self.other_voters() {
            self.send(voted, id, self.term + 1, Payload::PreVote { last_index, last_term });
        }
        self.count_pre_votes();
    }

    pub(crate) fn is_voter(&self) -> bool {
        self.log.members().voters.contains(&self.me.id)
    }

    pub(crate) fn other_voters(&self) -> Vec<ReplicaId> {
        self.log.members().voters.iter().copied().filter(|id| *id != self.me.id).collect()
    }

    fn count_pre_votes(&mut self) {
        let Role::PreCandidate(votes) = &self.role else { return };
        match tally(&self.log.members().voters, votes) {
            Tally::Won => self.stand(false),
            Tally::Lost => self.follow(None),
            Tally::Open => {}
        }
    }

    /// Stands for election. Its own vote counts once it is on the disk.
    pub(crate) fn stand(&mut self, handed_over: bool) {
        self.follow(None);
        self.enter(self.term + 1, Some(self.me.id));
        self.role = Role::Candidate(BTreeMap::new());
        let (last_index, last_term) = (self.log.last_index(), self.log.last_term());
        let after = self.disk.last();
        for id in self.other_voters() {
            let vote = Payload::Vote { last_index, last_term, handed_over };
            self.send(after, id, self.term, vote);
        }
        self.own_vote();
    }

    /// Its own vote is on the disk, if it is.
    pub(crate) fn own_vote(&mut self) {
        let voted = self.disk.is_durable(self.disk.voted());
        #[cfg(plant)]
        let voted = voted || self.config.plant == super::config::Plant::SkippedSync;
        if voted && matches!(self.role, Role::Candidate(_)) {
            self.voted(self.me.id, true);
        }
    }

    /// Whether the last entry of somebody (its term and index) is not older than ours.
    fn is_up_to_date(&self, last: (u64, u64)) -> bool {
        last >= (self.log.last_term(), self.log.last_index())
    }

    pub(crate) fn asked_before(&mut self, from: ReplicaId, term: u64, last: (u64, u64)) {
        if self.is_led() {
            self.refused.led += 1;
            return;
        }
        let granted = term > self.term && self.is_up_to_date(last);
        let voted = self.disk.voted();
        let term = if granted { term } else { self.term };
        self.send(voted, from, term, Payload::PreVoteAnswer { granted });
    }

    pub(crate) fn asked(&mut self, from: ReplicaId, last: (u64, u64)) {
        let free = self.vote == Some(from) || (self.vote.is_none() && self.leader().is_none());
        #[cfg(plant)]
        let free = free || self.config.plant == super::config::Plant::VotedTwice;
        let granted = free && self.is_up_to_date(last);
        if granted {
            if self.vote != Some(from) {
                self.vote = Some(from);
                self.disk.vote(self.term, self.vote);
            }
            self.elapsed = 0;
        }
        // All that it has counted in comparing must be on the disk, too.
        let after = self.disk.last();
        self.send(after, from, self.term, Payload::VoteAnswer { granted });
    }

    pub(crate) fn pre_voted(&mut self, from: ReplicaId, term: u64, granted: bool) {
        if granted && term != self.term + 1 {
            return;
        }
        if let Role::PreCandidate(votes) = &mut self.role {
            votes.insert(from, granted);
            self.count_pre_votes();
        }
    }

    pub(crate) fn voted(&mut self, from: ReplicaId, granted: bool) {
        let Role::Candidate(votes) = &mut self.role else { return };
        votes.insert(from, granted);
        match tally(&self.log.members().voters, votes) {
            Tally::Won => {
                let lead = Lead::new(self.log.last_index() + 1);
                self.follow(None);
                self.role = Role::Leader(lead);
                self.begin_to_lead();
            }
            Tally::Lost => self.follow(None),
            Tally::Open => {}
        }
    }

    /// The leader gives way to this one: it does not ask first, since the leader is there.
    pub(crate) fn handed_over(&mut self) {
        if self.is_voter() && matches!(self.role, Role::Follower { .. }) {
            self.stand(true);
        }
    }
}
