//! Direct routes: asked for, given, closed.

use towpath_vm::Message;
use towpath_vm::members::Member;
use towpath_vm::message::{StreamAsk, StreamAt};
use towpath_vm::talk::{StreamOffer, ToTask};
use towpath_wire::{HostId, Instant, TaskId};

use super::Node;
use crate::direct::{RINGS_MAX, ROUTES_MAX, Ring, ordered};
use crate::event::NodeEvent;

impl Node {
    fn no_direct(&mut self, task: TaskId, peer: TaskId) {
        self.say(task, ToTask::NoDirect { peer });
    }

    /// Whether `task` of this host can have no direct route to `peer` because of those it has.
    pub(crate) fn is_full(&self, task: TaskId, peer: TaskId) -> bool {
        let full = |m: &Member| m.direct.len() >= ROUTES_MAX && !m.direct.contains(&peer);
        self.local.members.get(task).is_some_and(full)
    }

    /// Whether this host can have no more rings.
    pub(crate) fn is_full_of_rings(&self) -> bool {
        self.local.rings.len() >= RINGS_MAX
    }

    /// `task` wants a direct route to `peer`.
    pub(crate) fn direct(&mut self, now: Instant, task: TaskId, peer: TaskId) {
        let failed = self.local.rings.get(&ordered(task, peer)) == Some(&Ring::Failed);
        if task == peer || failed || self.is_full(task, peer) {
            return self.no_direct(task, peer);
        }
        if self.me != Some(peer.host()) {
            let parted = self.local.members.are_parted(task, peer);
            if self.config.paced || parted || !self.is_up(peer.host()) {
                return self.no_direct(task, peer);
            }
            return self.ask_stream(now, task, peer);
        }
        if self.local.rings.contains_key(&ordered(task, peer)) {
            return; // it is being made: both will be told
        }
        let full = self.is_full_of_rings() || self.is_full(peer, task);
        if full || self.local.members.enrolled(peer).is_none() {
            return self.no_direct(task, peer);
        }
        self.local.rings.insert(ordered(task, peer), Ring::Stands);
        for (a, b) in [(task, peer), (peer, task)] {
            self.pair(a, b);
            if let Some(member) = self.local.members.get_mut(a) {
                member.direct.insert(b);
            }
        }
        self.events.push_back(NodeEvent::Direct { a: task, b: peer });
    }

    /// `task` gives its direct route to `peer` up.
    pub(crate) fn close_direct(&mut self, now: Instant, task: TaskId, peer: TaskId) {
        self.drop_direct(task, peer);
        if self.me == Some(peer.host()) {
            if self.local.rings.remove(&ordered(task, peer)).is_some() {
                self.drop_direct(peer, task);
                self.no_direct(peer, task);
            }
        } else if self.is_up(peer.host()) {
            let at = StreamAt { from: peer, to: task, port: None };
            self.tell(now, peer.host(), Message::StreamAt(at));
        }
    }

    fn drop_direct(&mut self, task: TaskId, peer: TaskId) {
        if let Some(member) = self.local.members.get_mut(task) {
            member.direct.remove(&peer);
        }
    }

    /// `task` could not use the ring from `peer`.
    pub(crate) fn ring_failed(&mut self, task: TaskId, peer: TaskId) {
        let Some(ring) = self.local.rings.get_mut(&ordered(task, peer)) else { return };
        if core::mem::replace(ring, Ring::Failed) == Ring::Stands {
            self.drop_direct(task, peer);
            self.drop_direct(peer, task);
            self.say(peer, ToTask::RingFailed { peer: task });
        }
    }

    /// A task's end: its direct routes go with it.
    pub(crate) fn forget_routes(&mut self, task: TaskId, member: &Member) {
        // Not only those of its pairs: a pair ends with either task's data, a ring with a task.
        self.local.rings.retain(|(a, b), _| *a != task && *b != task);
        for peer in member.pairs.keys() {
            self.local.offers.remove(&(task, *peer));
        }
    }

    fn ask_stream(&mut self, now: Instant, from: TaskId, to: TaskId) {
        let member = self.local.members.get_mut(from);
        if member.is_none_or(|m| !m.direct.insert(to)) {
            return; // asked for already
        }
        self.pair(from, to);
        let key = self.endpoint.random();
        let offer = StreamOffer { peer: to, address: None, key };
        self.local.offers.insert((from, to), offer);
        let ask = StreamAsk { from, to, key };
        self.tell(now, to.host(), Message::StreamAsk(ask));
    }

    /// A task of another host wants to connect to one of ours.
    pub(crate) fn handle_stream_ask(&mut self, now: Instant, host: HostId, ask: &StreamAsk) {
        let StreamAsk { from, to, key } = *ask;
        if from.host() != host {
            self.malformed += 1;
            return;
        }
        // When both ask at once, the smaller one connects.
        let crossed = self.local.offers.contains_key(&(to, from)) && to < from;
        let room = !self.config.paced
            && !self.is_full(to, from)
            && self.local.members.enrolled(to).is_some()
            && self.takes(to, from);
        if crossed || !room {
            let at = StreamAt { from, to, port: None };
            if !crossed {
                self.tell(now, host, Message::StreamAt(at));
            }
            return;
        }
        self.local.offers.remove(&(to, from));
        self.pair(to, from);
        if let Some(member) = self.local.members.get_mut(to) {
            member.direct.insert(from);
        }
        let offer = StreamOffer { peer: from, address: None, key };
        self.say(to, ToTask::Stream(offer));
    }

    /// `task` listens for `peer`.
    pub(crate) fn listening(&mut self, now: Instant, task: TaskId, peer: TaskId, port: u16) {
        let at = StreamAt { from: peer, to: task, port: Some(port) };
        if self.is_up(peer.host()) {
            self.tell(now, peer.host(), Message::StreamAt(at));
        }
    }

    /// Where a task of another host listens for one of ours; or that the stream is over.
    pub(crate) fn handle_stream_at(&mut self, host: HostId, at: StreamAt) {
        let StreamAt { from, to, port } = at;
        if to.host() != host || self.me != Some(from.host()) {
            self.malformed += 1;
            return;
        }
        let offer = self.local.offers.remove(&(from, to));
        let entry = self.log.as_ref().and_then(|l| l.table().get(host));
        let address = entry.map(|h| self.addr_of(h));
        if let (Some(offer), Some(port), Some(mut address)) = (offer, port, address) {
            address.set_port(port);
            self.say(from, ToTask::Stream(StreamOffer { address: Some(address), ..offer }));
        } else {
            self.drop_direct(from, to);
            self.no_direct(from, to);
        }
    }
}
