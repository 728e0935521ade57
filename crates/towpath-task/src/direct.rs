//! The direct route to tasks of the same host: when it is asked for, and sending by it.

use std::collections::HashMap;
use std::time::Duration;

use towpath_io::shared::{Head, Outbound, PushError, SHORT_MAX};
use towpath_vm::account::RouteState;
use towpath_vm::talk::ToDaemon;
use towpath_wire::talk::Tag;
use towpath_wire::{Instant as Time, TaskId};

use crate::accounts::Accounts;
use crate::error::SendError;
use crate::message::Envelope;
use crate::receive::Deadline;
use crate::rings::{Ring, pair_fds};
use crate::task::Task;

/// Messages to a peer after which the direct route is asked for; a longer message asks at once.
const MESSAGES_FIRST: u32 = 4;
const LONG: usize = 16 << 10;
/// How long a long message waits for the peer's end of a new ring, and for blocks that peers
/// hold, before it goes by the daemons.
const PATIENCE: Duration = Duration::from_millis(1);
/// How long a stream that was not to be had is not asked for; twice as long each time, up to
/// [`PUT_OFF_MAX`].
const PUT_OFF: Duration = Duration::from_secs(2);
const PUT_OFF_MAX: Duration = Duration::from_secs(64);

/// How far the direct route to a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// So many messages went by the daemons.
    Not(u32),
    Asked,
    /// Offered; the ring says whether the peer has its end.
    There,
    /// There is none now; it may be asked for again then.
    PutOff(Time),
    Refused,
}

/// Which way messages to a task go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To this task itself.
    Own,
    /// Through the daemons.
    Daemon,
    /// Through shared memory.
    Ring,
    /// Over a TCP connection to a task of another host.
    Stream,
}

/// What is known of direct routes.
#[derive(Default)]
pub(crate) struct Directs {
    stages: HashMap<TaskId, Stage>,
    /// For how long those were put off last that were.
    put_off: HashMap<TaskId, Duration>,
    pub(crate) refused_by_us: bool,
    /// Sends must look before they take the ring: this task takes none, or something waits to be
    /// sent.
    pub(crate) detour: bool,
    pub(crate) accounts: Accounts,
}

impl Directs {
    pub(crate) fn forget(&mut self, peer: TaskId) {
        self.stages.remove(&peer);
        self.put_off.remove(&peer);
    }

    pub(crate) fn asked(&mut self, peer: TaskId) {
        self.stages.insert(peer, Stage::Asked);
    }

    pub(crate) fn is_asked(&self, peer: TaskId) -> bool {
        self.stages.get(&peer) == Some(&Stage::Asked)
    }

    /// There is none to be had at the moment.
    pub(crate) fn put_off(&mut self, peer: TaskId, now: Time) {
        let wait = self.put_off.get(&peer).map_or(PUT_OFF, |last| (2 * *last).min(PUT_OFF_MAX));
        self.put_off.insert(peer, wait);
        self.stages.insert(peer, Stage::PutOff(now + wait));
    }

    pub(crate) fn stands(&mut self, peer: TaskId) {
        self.put_off.remove(&peer);
        self.stages.insert(peer, Stage::There);
    }

    pub(crate) fn refused(&mut self, peer: TaskId) {
        self.stages.insert(peer, Stage::Refused);
    }
}

/// What a task did so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) ring: u64,
    pub(crate) daemon: u64,
    pub(crate) own: u64,
    pub(crate) multicast: u64,
    pub(crate) sleeps: u64,
}

/// What became of a message that was to go through a ring.
pub(crate) enum Pushed {
    Yes,
    /// The peer must take something first.
    NoRoom,
    /// Blocks must come back first.
    NoBlocks,
    /// Not this way.
    Never,
}

impl Task {
    /// Whether this task asks for direct routes, and takes those that it is offered. As long as
    /// it does not, everything goes through the daemons. On by default.
    pub fn allow_direct(&mut self, on: bool) {
        self.directs.refused_by_us = !on;
        self.directs.detour = !on || self.started.has_queued();
    }

    /// Which way the next message to `to` goes.
    pub fn route(&mut self, to: TaskId) -> Route {
        if to == self.id() {
            return Route::Own;
        }
        if self.directs.refused_by_us {
            Route::Daemon
        } else if self.rings.get(to).is_some_and(|ring| ring.open) {
            Route::Ring
        } else if self.routes.is_open(to) {
            Route::Stream
        } else {
            Route::Daemon
        }
    }

    /// Whether [`Task::route`] is [`Route::Ring`].
    #[inline]
    pub(crate) fn has_ring(&mut self, to: TaskId) -> bool {
        !self.directs.refused_by_us && self.rings.get(to).is_some_and(|ring| ring.open)
    }

    /// What this task did so far, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let Counts { ring, daemon, own, multicast, sleeps } = self.counts;
        vec![
            ("sent_by_ring", ring),
            ("sent_by_stream", self.routes.sent),
            ("sent_by_daemon", daemon),
            ("sent_to_self", own),
            ("multicasts", multicast),
            ("received_by_ring", self.rings.taken),
            ("rings_corrupt", self.rings.corrupted),
            ("streams_bad", self.routes.bad),
            ("sleeps", sleeps),
            ("unreceived_bytes", self.endpoint.held()),
        ]
    }

    /// The daemon offers a ring to `peer`.
    pub(crate) fn ring_offered(&mut self, peer: TaskId) {
        let fds = pair_fds(|| self.link.descriptor());
        let wanted = !self.rings.is_full() && self.rings.get(peer).is_none();
        let line = self.account(peer);
        let opened = match (&self.home, fds.filter(|_| wanted)) {
            (Some(home), Some(fds)) => self.rings.open(home, peer, line, fds).is_ok(),
            _ => false,
        };
        if opened {
            self.directs.stages.insert(peer, Stage::There);
            self.route_is(peer, RouteState::Stands);
        } else {
            self.directs.refused(peer);
            self.route_is(peer, RouteState::NoMeans);
            self.queue(&ToDaemon::RingFailed { peer });
        }
    }

    /// There is no ring to `peer`, or not any more: what it has sent there is taken, and what it
    /// has not taken goes by the daemons.
    pub(crate) fn ring_over(&mut self, peer: TaskId) {
        let own = self.welcome.you;
        self.rings.drain(peer, own, &mut self.endpoint);
        for (head, bytes) in self.rings.retire(peer) {
            self.routes.keep(head.between(own, peer), bytes.into(), head.offset);
        }
        self.directs.refused(peer);
        self.route_is(peer, RouteState::Refused);
    }

    /// Asks for a ring to `peer`, of this host, unless that was done.
    pub(crate) fn ask_ring(&mut self, peer: TaskId) {
        if self.home.is_none() || self.directs.refused_by_us {
            return self.directs.refused(peer);
        }
        let stage = self.directs.stages.entry(peer).or_insert(Stage::Not(0));
        if matches!(stage, Stage::Not(_)) {
            *stage = Stage::Asked;
            self.queue(&ToDaemon::Direct { peer });
        }
    }

    /// Asks for the direct route to `to` when a message of `len` bytes makes it worth while; a
    /// long message waits for the answer.
    pub(crate) fn consider_direct(&mut self, to: TaskId, len: usize) -> Result<(), SendError> {
        if self.ask_direct(to, len) {
            self.flush()?;
        }
        // A stream may take as long as its peer computes: meanwhile the daemons have it.
        if len <= LONG || to.host() != self.host() {
            return Ok(());
        }
        if self.directs.is_asked(to) {
            self.wait_for(Deadline::NEVER, &mut |task| (!task.directs.is_asked(to)).then_some(()))?;
        }
        let waits = |task: &mut Self| task.rings.get(to).is_some_and(|ring| !ring.open);
        if waits(self) {
            let patience = Deadline::after(Some(PATIENCE));
            self.wait_for(patience, &mut |task| (!waits(task)).then_some(()))?;
        }
        Ok(())
    }

    /// Asks for the direct route to `to` when a message of `len` bytes makes it worth while; the
    /// question is queued.
    pub(crate) fn ask_direct(&mut self, to: TaskId, len: usize) -> bool {
        if self.home.is_none() || self.directs.refused_by_us || self.routes.is_open(to) {
            return false;
        }
        let stage = self.directs.stages.entry(to).or_insert(Stage::Not(0));
        let asks = match stage {
            Stage::Not(messages) => {
                *messages += 1;
                *messages > MESSAGES_FIRST || len > LONG
            }
            Stage::PutOff(until) => *until <= self.routes.now(),
            Stage::Asked | Stage::There | Stage::Refused => false,
        };
        if asks {
            *stage = Stage::Asked;
            self.account(to);
            self.queue(&ToDaemon::Direct { peer: to });
        }
        asks
    }

    /// Sends a tiny message through the ring to `to`, as most go; false: it did not go, and
    /// [`Task::send_parts`] finds out why.
    pub(crate) fn by_open_ring(
        &mut self,
        to: TaskId,
        tag: Tag,
        [context, format]: [u32; 2],
        bytes: &[u8],
    ) -> bool {
        if !self.works() || self.directs.detour {
            return false;
        }
        let (Some(home), Some(ring)) = (&self.home, self.rings.get(to)) else { return false };
        let (seq, total) = (self.endpoint.next_number(to), bytes.len() as u64);
        let head = Head { tag, context, seq, format, total, offset: 0 };
        if !ring.open || !ring.out.push_tiny(&head, bytes) {
            return false;
        }
        ring.pushed(home, bytes.len());
        self.endpoint.take_number(to);
        self.counts.ring += 1;
        true
    }

    /// Sends through the ring to `to`, if there is one; false: it must go by the daemons.
    pub(crate) fn by_ring(
        &mut self,
        to: TaskId,
        envelope: Envelope,
        parts: &[&[u8]],
    ) -> Result<bool, SendError> {
        let len = parts.iter().map(|p| p.len()).sum();
        if !self.has_ring(to) {
            if self.endpoint.has_ended(to) {
                return Err(SendError::NoTask(to));
            }
            self.consider_direct(to, len)?;
            if !self.has_ring(to) {
                return Ok(false);
            }
        }
        let Envelope { tag, context, format } = envelope;
        let seq = self.endpoint.next_number(to);
        let head = Head { tag, context, seq, format, total: len as u64, offset: 0 };
        loop {
            match self.push(to, &head, parts) {
                Pushed::Yes => {
                    self.endpoint.take_number(to);
                    self.counts.ring += 1;
                    return Ok(true);
                }
                Pushed::Never => return Ok(false),
                Pushed::NoRoom => self.wait_for_room(to)?,
                Pushed::NoBlocks => {
                    if !self.wait_for_blocks()? {
                        return Ok(false);
                    }
                }
            }
            if self.endpoint.has_ended(to) {
                return Err(SendError::NoTask(to));
            }
        }
    }

    pub(crate) fn push(&mut self, to: TaskId, head: &Head, parts: &[&[u8]]) -> Pushed {
        let len = head.total as usize;
        let Some(home) = &self.home else { return Pushed::Never };
        let arena = home.arena();
        let Some(ring) = self.rings.get(to) else { return Pushed::Never };
        let out = &mut ring.out;
        let pushed = match parts {
            [whole] if len <= SHORT_MAX => out.push(head, whole),
            _ if len > arena.block_max() => return Pushed::Never,
            [whole] => out.push_copy(head, whole),
            parts if len <= SHORT_MAX => push_parts(out, head, parts),
            parts => arena.alloc(len).map_err(PushError::from).and_then(|mut block| {
                gather(parts, block.bytes_mut());
                out.push_block(head, block.freeze_to(len)).map_err(|unsent| unsent.why)
            }),
        };
        match pushed {
            Ok(()) => {
                ring.pushed(home, len);
                Pushed::Yes
            }
            Err(PushError::Full) => match (out.has_room(), out.has_tickets()) {
                (Ok(true), Ok(false)) => Pushed::NoBlocks,
                // Where what it lacked has come meanwhile, a wait for room ends at once.
                (Ok(_), Ok(_)) => Pushed::NoRoom,
                _ => Pushed::Never,
            },
            Err(PushError::Arena(_)) => Pushed::NoBlocks,
            Err(_) => Pushed::Never,
        }
    }

    /// Waits until the ring to `to` has room, or is gone.
    pub(crate) fn wait_for_room(&mut self, to: TaskId) -> Result<(), SendError> {
        self.sending.wants_room = Some(to);
        let waited = self.want(|task| {
            task.wait_for(Deadline::NEVER, &mut |task| {
                let room = task.rings.get(to).is_none_or(Ring::has_room);
                room.then_some(())
            })
        });
        self.sending.wants_room = None;
        waited.map(drop)
    }

    /// Waits for blocks to come back, a little; false: none did.
    pub(crate) fn wait_for_blocks(&mut self) -> Result<bool, SendError> {
        if self.rings.reclaim() > 0 {
            return Ok(true);
        }
        let came = self.want(|task| {
            let patience = Deadline::after(Some(PATIENCE));
            task.wait_for(patience, &mut |task| (task.rings.reclaim() > 0).then_some(()))
        })?;
        Ok(came.is_some())
    }

    /// Has peers ring when they take records or give blocks back, during `wait`.
    fn want<T>(
        &mut self,
        wait: impl FnOnce(&mut Self) -> Result<T, crate::error::RecvError>,
    ) -> Result<T, SendError> {
        self.rings.iter_mut().for_each(|ring| ring.out.want(true));
        let waited = wait(self);
        self.rings.iter_mut().for_each(|ring| ring.out.want(false));
        Ok(waited?)
    }
}

/// Sends a short message of several parts. On its own, so that messages of one part do not pay for
/// its room.
#[inline(never)]
fn push_parts(out: &mut Outbound, head: &Head, parts: &[&[u8]]) -> Result<(), PushError> {
    let mut room = [0; SHORT_MAX];
    gather(parts, &mut room);
    out.push(head, &room[..head.total as usize])
}

/// Puts parts one behind the other.
pub(crate) fn gather(parts: &[&[u8]], room: &mut [u8]) {
    let mut at = 0;
    for part in parts {
        room[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}
