//! Streams to tasks of other hosts.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use towpath_io::direct::{Rendezvous, Stream, Streams};
use towpath_io::shared::{Event, Interest, Waiter};
use towpath_vm::talk::ToTask;
use towpath_wire::talk::Header;
use towpath_wire::{Instant as Time, TaskId};

use crate::alarm::Alarm;

/// What is left of a piece or message, to go by the daemons.
pub(crate) struct Rest {
    /// `offset` is where the rest begins.
    pub(crate) header: Header,
    /// Bytes of the message, from byte `from` on.
    bytes: Arc<[u8]>,
    from: u64,
}

impl Rest {
    pub(crate) fn left(&self) -> &[u8] {
        &self.bytes[(self.header.offset - self.from) as usize..]
    }
}

/// News of a task's end that waits for the end of its stream.
pub(crate) struct Parked {
    pub(crate) peer: TaskId,
    pub(crate) until: Instant,
    /// How long its stream may bring nothing.
    pub(crate) patience: Duration,
    /// How far its stream was.
    pub(crate) progress: u64,
    pub(crate) news: ToTask,
}

/// All streams of a task.
pub(crate) struct Routes {
    pub(crate) rendezvous: Option<Rendezvous>,
    pub(crate) streams: Streams,
    /// Peers that this task connected to: it says when a stream is over.
    pub(crate) dialled: HashSet<TaskId>,
    /// What other routes left, which goes by the daemons as there is credit.
    pub(crate) again: HashMap<TaskId, VecDeque<Rest>>,
    pub(crate) parked: Vec<Parked>,
    /// For a program that waits for the task's descriptor ([`Task::arm`]).
    alarm: Alarm,
    zero: Instant,
    /// Messages sent.
    pub(crate) sent: u64,
    /// Streams that ended because of what came on them.
    pub(crate) bad: u64,
}

impl Default for Routes {
    fn default() -> Self {
        Self {
            rendezvous: None,
            streams: Streams::new(),
            dialled: HashSet::new(),
            again: HashMap::new(),
            parked: Vec::new(),
            alarm: Alarm::default(),
            zero: Instant::now(),
            sent: 0,
            bad: 0,
        }
    }
}

impl Routes {
    /// Nothing of this needs to be looked at.
    pub(crate) fn is_idle(&self) -> bool {
        self.rendezvous.is_none()
            && self.streams.is_empty()
            && self.again.is_empty()
            && self.parked.is_empty()
    }

    /// When to look although no descriptor has anything.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let set_up = self.rendezvous.as_ref().and_then(Rendezvous::deadline);
        let set_up = set_up.map(|at| self.zero + at.since(Time::ZERO));
        self.parked.iter().map(|p| p.until).chain(set_up).min()
    }

    /// Has `waiter` report something when there is to look, or no more.
    pub(crate) fn alarm(&mut self, waiter: &Waiter, on: bool) {
        let at = self.deadline().filter(|_| on);
        self.alarm.set(waiter, at);
    }

    /// Keeps news of a peer's end back, as if its stream might still bring something.
    #[cfg(test)]
    pub(crate) fn hold_back(&mut self, peer: TaskId, patience: Duration, news: ToTask) {
        let until = Instant::now() + patience;
        self.parked.push(Parked { peer, until, patience, progress: 0, news });
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.zero.elapsed()
    }

    /// So much time passes, for what [`Routes::now`] is asked for.
    #[cfg(test)]
    pub(crate) fn pass(&mut self, time: Duration) {
        self.zero -= time;
    }

    /// Whether there may be a stream to `peer`; one that is idle may be closed for it.
    pub(crate) fn room_for(&mut self, peer: TaskId) -> bool {
        let coming = self.rendezvous.as_ref().map_or(0, |r| r.under_way(peer));
        let now = self.now();
        self.streams.make_room(coming, now)
    }

    #[cfg(test)]
    pub(crate) fn dialled(&self) -> usize {
        self.dialled.len()
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.streams.len()
    }

    /// The open stream to `peer`.
    pub(crate) fn open(&mut self, peer: TaskId) -> Option<&mut Stream> {
        self.streams.get(peer).filter(|stream| stream.is_open())
    }

    pub(crate) fn is_open(&mut self, peer: TaskId) -> bool {
        self.streams.get(peer).is_some_and(|stream| stream.is_open())
    }

    /// What the descriptors have.
    pub(crate) fn woken(&mut self, events: &[Event]) {
        for event in events {
            if let Ok(peer) = TaskId::try_from(event.key)
                && let Some(stream) = self.streams.get(peer)
            {
                if event.ended {
                    stream.ending();
                } else {
                    stream.woken();
                }
            }
        }
    }

    /// Something of `peer` may still come by a stream: how far that is.
    pub(crate) fn may_bring(&mut self, peer: TaskId) -> Option<u64> {
        let proving = self.rendezvous.as_ref().is_some_and(|r| r.is_proving(peer));
        let stream = self.streams.get(peer).map(|stream| stream.progress());
        stream.or_else(|| proving.then_some(0))
    }

    /// Leaves the rest of a message, from `header.offset` on, to the daemons; `bytes` are those of
    /// the message from byte `from` on.
    pub(crate) fn keep(&mut self, header: Header, bytes: Arc<[u8]>, from: u64) {
        self.again.entry(header.dst).or_default().push_back(Rest { header, bytes, from });
    }

    /// How much is left for the daemons: bytes, and one for each piece.
    pub(crate) fn left(&self) -> u64 {
        self.again.values().flatten().map(|rest| rest.left().len() as u64 + 1).sum()
    }

    pub(crate) fn rendezvous(&mut self, waiter: &Waiter) -> Option<&mut Rendezvous> {
        if self.rendezvous.is_none() {
            let rendezvous = Rendezvous::new().ok()?;
            let read = Interest { readable: true, writable: false };
            waiter.watch(rendezvous.descriptor(), RENDEZVOUS, read).ok()?;
            self.rendezvous = Some(rendezvous);
        }
        self.rendezvous.as_mut()
    }

    pub(crate) fn forget(&mut self, peer: TaskId) {
        self.dialled.remove(&peer);
        if let Some(rendezvous) = &mut self.rendezvous {
            rendezvous.forget(peer);
        }
    }
}

/// Key of the set-up's descriptor among what is waited for; streams have their peer's number.
pub(crate) const RENDEZVOUS: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_counted_and_looked_at_in_time() {
        let peer = |n| towpath_wire::HostId::new(2, 1).unwrap().task(n).unwrap();
        let mut routes = Routes::default();
        assert!(routes.is_idle() && routes.deadline().is_none() && routes.left() == 0);
        let header = |dst, offset| Header {
            src: peer(9),
            dst,
            tag: 0,
            context: 0,
            seq: 0,
            format: 0,
            total: 10,
            offset,
        };
        // Bytes from the fourth on are there; from the sixth on they are to be sent.
        routes.keep(header(peer(1), 6), (*b"456789").into(), 4);
        assert_eq!(routes.again[&peer(1)][0].left(), b"6789");
        routes.keep(header(peer(1), 0), (*b"").into(), 0);
        routes.keep(header(peer(2), 0), (*b"0123456789").into(), 0);
        assert_eq!((routes.left(), routes.is_idle()), (4 + 1 + 1 + 10 + 1, false));
        let news = || ToTask::Gone { peer: peer(1) };
        let now = Instant::now();
        routes.hold_back(peer(1), Duration::from_mins(1), news());
        routes.hold_back(peer(2), Duration::from_secs(30), news());
        let until = routes.deadline().expect("something is held back");
        let soon = now + Duration::from_secs(30)..now + Duration::from_mins(1);
        assert!(soon.contains(&until), "the first of them");
        routes.dialled.extend([peer(1), peer(2)]);
        routes.forget(peer(1));
        assert_eq!(routes.dialled.iter().collect::<Vec<_>>(), [&peer(2)]);
        assert_eq!((routes.may_bring(peer(1)), routes.is_open(peer(1))), (None, false));
        let before = routes.now();
        routes.pass(Duration::from_secs(5));
        assert!(routes.now().since(before) >= Duration::from_secs(5));
    }
}
