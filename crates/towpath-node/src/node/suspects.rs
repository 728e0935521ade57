//! Silent hosts are asked about and judged.

use core::time::Duration;

use towpath_proto::Association;
use towpath_proto::association::End;
use towpath_vm::HostState;
use towpath_vm::control::Command;
use towpath_wire::{HostId, Instant};

use super::Node;
use super::standing::RETRY_LEADER;
use crate::config::reason;
use crate::suspects::{Others, Suspect};
/// How long a host may take to connect again, in times of `silent_after`.
const RETURN: u32 = 2;
/// How long the leader waits at most while it is in contact with nobody at all, where it has lost
/// contact with several, in times of `silent_after`.
const ALONE: u32 = 40;

impl Node {
    /// Time after which the conversation with a host that answers nothing is over.
    pub(crate) fn lost_after(&self) -> Duration {
        self.config.proto.liveness.lost_after
    }

    /// Time after which a host that answers nothing is silent: whoever is there answers sooner.
    pub(crate) fn silent_after(&self) -> Duration {
        self.config.proto.liveness.silent_after
    }

    /// How long a host with which a conversation is over may take to begin another.
    pub(crate) fn return_within(&self) -> Duration {
        self.silent_after() * RETURN
    }

    /// The leader's contact with a host is over, for this reason if it ended by itself.
    pub(crate) fn suspect(&mut self, now: Instant, host: HostId, end: Option<&End>) {
        if self.voting.ended.contains(&host) {
            // Nobody has to be asked about it.
            return self.lose(now, host);
        }
        if let Some(End::Silent { for_, excused, .. }) = end
            && *excused <= self.lost_after() / 4
            && self.is_in_contact(now, host, *for_ + *excused)
        {
            if self.voting.voter.is_some() {
                return self.await_return(now, host, Duration::ZERO);
            }
            self.lose(now, host);
            return;
        }
        self.await_return(now, host, self.return_within());
    }

    /// Gives a host that is out of contact `time` to be back.
    pub(crate) fn await_return(&mut self, now: Instant, host: HostId, time: Duration) {
        let latest = now + self.silent_after() * ALONE;
        let suspects = &mut self.lead.suspects;
        let wait = if suspects.has(host) { RETRY_LEADER } else { Duration::ZERO };
        let wait = wait.max(self.peers.copies.wait(now, host));
        let suspect = Suspect { until: now + time, latest, asked: None };
        suspects.by_host.entry(host).or_insert(suspect);
        suspects.arm();
        self.peers.try_at(now, host, now + wait);
        // Those that live answer before it is time to judge.
        self.ask_hosts(now);
    }

    /// Whether the leader was in contact with the others while `host` was silent for so long: most
    /// of those that it asked anything have answered in a later part of that time.
    fn is_in_contact(&self, now: Instant, host: HostId, silent: Duration) -> bool {
        #[cfg(plant)]
        if self.plant() == towpath_proto::config::Plant::WrongSideLost {
            return true;
        }
        // Those who were heard again at the end of it prove that it was the leader who was away.
        if self.lead.suspects.back.is_some_and(|back| now.since(back) < silent) {
            return false;
        }
        let margin = self.silent_after() / 8;
        let since = now - silent.saturating_sub(margin);
        let others = self.others(now, host, since);
        others.heard > others.silent
    }

    fn others(&self, now: Instant, host: HostId, since: Instant) -> Others {
        let mut others = Others::default();
        let table = self.log.iter().flat_map(|l| l.table().up());
        for other in table.map(|h| h.id).filter(|h| *h != host && Some(*h) != self.me) {
            others.all += 1;
            let up = self.peers.up(other).and_then(|id| self.endpoint.association(id));
            let asked = up.and_then(Association::silent_since);
            let silent = asked.is_some_and(|asked| now.since(asked) >= self.silent_after() / 4);
            match up {
                // Who was silent itself meanwhile proves that it may be us who were away.
                Some(up) if !silent => {
                    let was_silent = up.returned_at().is_some_and(|at| at >= since);
                    others.heard += usize::from(up.heard_at() >= since && !was_silent);
                }
                _ => others.silent += 1,
            }
        }
        others
    }

    /// Whether the leader is in contact with nobody, though there are others.
    pub(crate) fn is_alone(&self, now: Instant) -> bool {
        self.me.is_some_and(|me| self.is_alone_but_for(now, me))
    }

    /// The same, whoever this one is.
    pub(crate) fn is_alone_but_for(&self, now: Instant, host: HostId) -> bool {
        let others = self.others(now, host, Instant::ZERO);
        self.leads() && others.all > 0 && others.silent == others.all
    }

    /// The leader is in contact with somebody again, and was with nobody: it was itself that was
    /// away, and the others come back in their turn.
    pub(crate) fn is_not_alone_any_more(&mut self, now: Instant) {
        let time = self.return_within();
        self.lead.suspects.back = Some(now);
        self.lead.suspects.put_off(now + time);
    }

    /// Declares those lost whose time to return is over.
    pub(crate) fn settle_suspects(&mut self, now: Instant) {
        if self.lead.suspects.at.is_none_or(|at| at > now) {
            return;
        }
        let (time, hosts) = (self.return_within(), self.lead.suspects.by_host.clone());
        for (host, suspect) in hosts {
            let entry = self.log.as_ref().and_then(|l| l.table().get(host));
            if entry.is_none_or(|h| h.state == HostState::Lost) || self.peers.up(host).is_some() {
                self.lead.suspects.clear(host);
                continue;
            }
            let others = self.others(now, host, Instant::ZERO);
            let alone = others.all > 0 && others.silent == others.all;
            let ended = self.voting.ended.contains(&host);
            let due = ended || suspect.latest <= now || suspect.until <= now && !alone;
            if due && (ended || self.is_silent_to_most(host)) {
                self.lose(now, host);
            } else if due {
                self.ask_who_reaches(now, host);
            } else if suspect.until <= now
                && let Some(suspect) = self.lead.suspects.by_host.get_mut(&host)
            {
                // Whoever comes back first is no reason to hurry the others.
                suspect.until = now + time;
            }
        }
        self.lead.suspects.arm();
    }

    /// The leader declares a host lost.
    pub(crate) fn lose(&mut self, now: Instant, host: HostId) {
        if !self.can_do_without(now, host) {
            self.await_return(now, host, self.return_within());
            if let Some(suspect) = self.lead.suspects.by_host.get_mut(&host) {
                suspect.asked = None;
                suspect.until = suspect.until.max(now + RETRY_LEADER);
                suspect.latest = suspect.latest.max(suspect.until);
            }
            return self.lead.suspects.arm();
        }
        if let Some(wait) = self.may_run_unique(now, host) {
            if self.voting.voter.is_none() {
                self.lead.suspects.clear(host);
            }
            self.await_return(now, host, wait);
            if let Some(suspect) = self.lead.suspects.by_host.get_mut(&host) {
                suspect.asked = None;
                suspect.until = suspect.until.max(now + wait);
                suspect.latest = suspect.latest.max(suspect.until);
            }
            return self.lead.suspects.arm();
        }
        let again = now + self.return_within();
        if self.voting.voter.is_none() {
            self.lead.suspects.clear(host);
            self.drop_contact(now, host, reason::FENCED);
        } else if let Some(suspect) = self.lead.suspects.by_host.get_mut(&host) {
            // Nothing of it ends before the log says so; it may be asked for again.
            suspect.asked = None;
            suspect.until = again;
            suspect.latest = suspect.latest.max(suspect.until);
        }
        let up = |log: &towpath_vm::control::ControlState| {
            log.table().get(host).is_some_and(|h| h.state == HostState::Up)
        };
        if self.log.as_ref().is_some_and(up) {
            self.propose(now, Command::Lost(host));
        }
    }
}
