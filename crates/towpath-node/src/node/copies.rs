//! Who asks to be let in under the key of a host that is there: a daemon that was started again, or
//! one that runs from a copy of that host's directory.

use core::time::Duration;

use towpath_proto::{Association, AssociationId, HostKey, Refusal};
use towpath_wire::{HostId, Instant};

use super::Node;
use crate::config::refusal;
use crate::copies::Doubt;
use crate::event::{JoinFailure, NodeEvent};
use crate::hello::{Hello, Purpose};
use crate::peers::Contact;

/// How often those are looked at that wait.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What comes sooner may have been on its way for as long: of one that has ended meanwhile.
const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// One that is told that another daemon has its key asks again for so long, so often.
pub(super) const SURE_AFTER: Duration = Duration::from_secs(2);
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(500);

impl Node {
    /// Whether another daemon with this key is in contact, as far as is known here.
    pub(crate) fn has_another(&self, key: &HostKey, life: u64) -> Option<(HostId, AssociationId)> {
        let log = self.log.as_ref().filter(|_| life != 0)?;
        let host = log.table().by_key(&key.0)?.id;
        let up = self.peers.up(host)?;
        let theirs = self.peers.conns.get(&up)?.life;
        (theirs != 0 && theirs != life).then_some((host, up))
    }

    /// Whether who says this of itself is this host in another daemon.
    pub(crate) fn is_own_copy(&self, hello: &Hello) -> bool {
        hello.life != 0 && self.config.life != 0 && hello.life != self.config.life
    }

    /// Has somebody wait who asks under the key of a host that may be there: that one is asked
    /// first. True if so.
    pub(crate) fn doubts(&mut self, now: Instant, mut doubt: Doubt, hello: &Hello) -> bool {
        if matches!(hello.purpose, Purpose::Ended(_)) {
            return false;
        }
        let Some((host, up)) = self.has_another(&doubt.key, hello.life) else { return false };
        let copies = &mut self.peers.copies;
        let heard = self.endpoint.association(up).map(Association::heard_at);
        if heard.is_some_and(|at| copies.is_unanswered(host, up, at)) {
            return false;
        }
        // The time to answer is that of the first that asked.
        if let Some(before) = copies.doubts.get(&host) {
            doubt.since = before.since;
        }
        if let Some(before) = self.peers.copies.doubts.insert(host, doubt) {
            // It asked before, or a third one does.
            self.refuse(now, &before, refusal::RECOVERING, "it asks again: try again");
        }
        true
    }

    /// How long somebody waits at most: whoever is there answers by then.
    fn doubts_for(&self) -> Duration {
        self.silent_after() / 4
    }

    pub(crate) fn doubts_due(&self) -> Option<Instant> {
        self.peers.copies.doubts.values().map(|doubt| doubt.look_at).min()
    }

    /// Lets those in that waited, or not.
    pub(crate) fn settle_doubts(&mut self, now: Instant) {
        let wait = self.doubts_for();
        let hosts: alloc::vec::Vec<HostId> = self.peers.copies.doubts.keys().copied().collect();
        for host in hosts {
            let up = self.peers.up(host);
            let heard = up.and_then(|up| self.endpoint.association(up)).map(Association::heard_at);
            let Some(doubt) = self.peers.copies.doubts.get_mut(&host) else { continue };
            if now < doubt.look_at {
                continue;
            }
            doubt.look_at = now + LOOK_EVERY;
            let over = now.since(doubt.since) >= wait;
            let answers = heard.is_some_and(|at| at > doubt.since + ON_ITS_WAY);
            if let Some(up) = up.filter(|_| !answers && !over) {
                self.endpoint.ask(now, up, Some(ON_ITS_WAY));
                continue;
            }
            let Some(doubt) = self.peers.copies.doubts.remove(&host) else { continue };
            if !answers {
                if let (Some(up), Some(heard)) = (up, heard) {
                    self.peers.copies.does_not_answer(host, up, heard);
                }
                let Doubt { id, key, admission, hello, .. } = doubt;
                self.judge_incoming(now, id, key, admission, &hello);
                continue;
            }
            let at = up.and_then(|up| self.remote_of(up));
            let at = at.map_or_else(alloc::string::String::new, |at| alloc::format!(" at {at}"));
            let text = alloc::format!("a daemon with this host's key runs{at}, and answers");
            self.refuse(now, &doubt, refusal::COPIED, &text);
            if self.peers.copies.is_news(now, host) {
                self.events.push_back(NodeEvent::Twice { host, remote: doubt.remote });
            }
        }
    }

    fn refuse(&mut self, now: Instant, doubt: &Doubt, code: u16, text: &str) {
        self.answer_incoming(now, doubt.id, &doubt.admission, Err((code, text.into())));
    }

    /// A member says that this host runs elsewhere, before this one leads again. It is asked once
    /// more for a while: what it heard may have been late. True where it is.
    pub(crate) fn runs_elsewhere(&mut self, now: Instant, host: HostId, refusal: &Refusal) -> bool {
        let Some(recovery) = &mut self.lead.recovery else { return false };
        let since = *recovery.copied.get_or_insert(now);
        if now.since(since) < SURE_AFTER {
            recovery.until = recovery.until.max(now + SURE_AFTER);
            let contact = Contact::Waiting { since: now };
            self.peers.entry(host).contact = contact;
            self.peers.retries.insert((now + ASK_AGAIN, host));
            return true;
        }
        self.lead.recovery = None;
        self.standing.frozen = true;
        let failure = JoinFailure::Refused(refusal.clone());
        self.events.push_back(NodeEvent::JoinFailed(failure));
        true
    }
}
