//! A newcomer asks those that may lead to be let in.

use alloc::boxed::Box;
use core::time::Duration;

use towpath_proto::{Connect, ConnectFailure};
use towpath_vm::{Fields, Host, HostState};
use towpath_wire::{HostId, Instant};

use super::Node;
use super::copies::{ASK_AGAIN, SURE_AFTER};
use super::standing::RETRY_LEADER;
use crate::config::{JoinTarget, refusal};
use crate::event::{JoinFailure, NodeEvent};
use crate::joining::{Joining, Next, Reason, asks_on};

/// How soon a newcomer calls again that has yielded to a call: once what it says to that is there,
/// and long before the next one.
const RETRY_YIELDED: Duration = Duration::from_millis(10);

impl Node {
    /// This host, as `id`, in the table that it founds.
    pub(crate) fn own_entry(&self, id: HostId) -> Host {
        Host {
            id,
            name: self.config.name.clone(),
            addr: self.config.links.addr(),
            key: self.endpoint.public_key().0,
            arch: self.config.arch.clone(),
            speed: self.config.speed,
            cpus: self.config.cpus,
            slots: self.config.slots,
            state: HostState::Up,
            fields: Fields::default(),
        }
    }

    pub(crate) fn start_joining(&mut self, now: Instant, target: JoinTarget) {
        let JoinTarget { addr, key, others, invitation } = target;
        let (admission, psk, reason) = (invitation.admission(), invitation.psk, Reason::Told);
        let (again, others) = (Joining::again(now, addr, key), others.into());
        self.joining = Some(Joining { others, admission, psk, reason, ..again });
        self.retry_joining(now);
    }

    pub(crate) fn retry_joining(&mut self, now: Instant) {
        let Some(j) = &self.joining else { return };
        if j.retry_at.is_none_or(|at| at > now) {
            return;
        }
        let hello = self.hello(j.purpose()).encode(&self.config.build);
        let connect = Connect {
            link: self.config.links.to(j.addr),
            remote: j.addr,
            key: j.key,
            admission: j.admission,
            psk: j.psk.clone(),
            hello: &hello,
        };
        let id = self.endpoint.connect(now, &connect).ok();
        if let Some(j) = &mut self.joining {
            j.id = id;
            j.retry_at = if id.is_none() { Some(now + RETRY_LEADER) } else { None };
        }
    }

    pub(crate) fn joining_failed(&mut self, now: Instant, failure: ConnectFailure) {
        let own = self.endpoint.public_key();
        let Some(j) = &mut self.joining else { return };
        j.id = None;
        if failure == ConnectFailure::Yielded {
            // It called this host, as who it was: that is refused by now. Both call again after
            // the same time else, and one of them yields again.
            j.retry_at = Some(now + RETRY_YIELDED);
            return;
        }
        let failure = j.follow(now, own, failure);
        let is_copied = matches!(&failure, ConnectFailure::Refused(r) if r.code == refusal::COPIED);
        if is_copied && now.since(j.since) < SURE_AFTER {
            // What it heard of the other one may have been late.
            j.retry_at = Some(now + ASK_AGAIN);
            return;
        }
        let code = if let ConnectFailure::Refused(r) = &failure { Some(r.code) } else { None };
        let ends = j.reason == Reason::Kept && code.is_some_and(|code| !asks_on(code));
        if let Some((admission, psk)) = j.token.take_if(|_| ends) {
            // What it kept is of no use any more.
            (j.admission, j.psk, j.reason, j.back) = (admission, psk, Reason::Told, None);
            (j.since, j.asked, j.retry_at) = (now, 0, Some(now));
            return self.retry_joining(now);
        }
        if self.begins_again(now) {
            return;
        }
        let Some(j) = &mut self.joining else { return };
        if j.reason != Reason::Told && !ends || code == Some(refusal::RECOVERING) {
            // Whoever has a place in the log keeps it until the log says otherwise.
            j.retry_at = Some(now + RETRY_LEADER);
            j.turn();
            if let ConnectFailure::Refused(r) = failure {
                self.rejoin_refused(now, r);
            }
            return;
        }
        let next = if ends { Next::Refused } else { j.next(now, &failure) };
        match next {
            Next::Another => {
                j.retry_at = Some(now);
                self.retry_joining(now);
            }
            Next::Again => j.retry_at = Some(now + RETRY_LEADER),
            Next::Refused => self.join_failed(failure, 1),
            Next::Nobody => {
                let (why, hosts) = (j.why(failure), j.others.len() + 1);
                self.join_failed(why, hosts);
            }
        }
    }

    /// Gives joining up; so many hosts have been asked, none of which knows better.
    fn join_failed(&mut self, failure: ConnectFailure, hosts: usize) {
        self.joining = None;
        let failure = match failure {
            ConnectFailure::NoAnswer | ConnectFailure::Yielded => {
                JoinFailure::NoAnswer(self.config.proto.handshakes.timeout)
            }
            ConnectFailure::WrongKey => JoinFailure::WrongKey,
            ConnectFailure::Version(range) => JoinFailure::Version(range),
            ConnectFailure::Refused(refusal) => JoinFailure::Refused(refusal),
        };
        self.events.push_back(NodeEvent::JoinFailed(match hosts {
            1 => failure,
            hosts => JoinFailure::NoneOf { hosts, failure: Box::new(failure) },
        }));
    }
}
