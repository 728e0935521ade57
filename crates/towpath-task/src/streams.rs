//! Streams to tasks of other hosts: setting up, sending, taking in, and what happens when one
//! ends.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use towpath_io::direct::{End, Offer, Outcome, Push, Rendezvous, Stream, Streams};
use towpath_io::shared::{Event, Interest, Waiter};
use towpath_vm::Ending;
use towpath_vm::account::{Account, RouteState};
use towpath_vm::endpoint::charge;
use towpath_vm::talk::{StreamOffer, ToDaemon, ToTask, WatchEvent, encode};
use towpath_wire::talk::{Header, PIECE_MAX};
use towpath_wire::{Instant as Time, TaskId};

use crate::alarm::Alarm;
use crate::error::{Lost, RecvError, SendError};
use crate::receive::Deadline;
use crate::task::Task;

/// Key of the set-up's descriptor among what is waited for; streams have their peer's number.
const RENDEZVOUS: u64 = 2;
/// Pieces taken from one stream before the others have their turn.
const QUOTA: usize = 64;
/// That a task has ended is believed when its stream has ended too, or when nothing came by that
/// for so long: the time after which a silent host is given up.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The same for a task whose host is lost: that it is silent is known already.
const LOST_WORDS: Duration = Duration::from_millis(150);
/// How long a task that leaves waits for its peers' kernels, before what they have not
/// acknowledged goes by the daemons.
const DRAIN: Duration = Duration::from_millis(50);
/// Between two looks whether they have.
const DRAIN_LOOK: Duration = Duration::from_millis(1);

/// How long a task that leaves waits for receivers that take nothing of what is left for them.
pub(crate) const LEAVE_PATIENCE: Duration = Duration::from_secs(10);

/// What is left of a piece or message, to go by the daemons.
struct Rest {
    /// `offset` is where the rest begins.
    header: Header,
    /// Bytes of the message, from byte `from` on.
    bytes: Arc<[u8]>,
    from: u64,
}

impl Rest {
    fn left(&self) -> &[u8] {
        &self.bytes[(self.header.offset - self.from) as usize..]
    }
}

/// News of a task's end that waits for the end of its stream.
struct Parked {
    peer: TaskId,
    until: Instant,
    /// How long its stream may bring nothing.
    patience: Duration,
    /// How far its stream was.
    progress: u64,
    news: ToTask,
}

/// All streams of a task.
pub(crate) struct Routes {
    rendezvous: Option<Rendezvous>,
    streams: Streams,
    /// Peers that this task connected to: it says when a stream is over.
    dialled: HashSet<TaskId>,
    /// What other routes left, which goes by the daemons as there is credit.
    again: HashMap<TaskId, VecDeque<Rest>>,
    parked: Vec<Parked>,
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
    fn room_for(&mut self, peer: TaskId) -> bool {
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
    fn may_bring(&mut self, peer: TaskId) -> Option<u64> {
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
    fn left(&self) -> u64 {
        self.again.values().flatten().map(|rest| rest.left().len() as u64 + 1).sum()
    }

    fn rendezvous(&mut self, waiter: &Waiter) -> Option<&mut Rendezvous> {
        if self.rendezvous.is_none() {
            let rendezvous = Rendezvous::new().ok()?;
            let read = Interest { readable: true, writable: false };
            waiter.watch(rendezvous.descriptor(), RENDEZVOUS, read).ok()?;
            self.rendezvous = Some(rendezvous);
        }
        self.rendezvous.as_mut()
    }

    fn forget(&mut self, peer: TaskId) {
        self.dialled.remove(&peer);
        if let Some(rendezvous) = &mut self.rendezvous {
            rendezvous.forget(peer);
        }
    }
}

impl Task {
    /// The daemon offers a stream to `peer`: this task is to listen, or to connect.
    pub(crate) fn stream_offered(&mut self, offer: &StreamOffer) {
        let StreamOffer { peer, address, key } = *offer;
        let me = self.welcome.you;
        let refused = self.directs.refused_by_us;
        let wanted = !refused && !self.routes.is_open(peer);
        let has_room = wanted && self.routes.room_for(peer);
        self.endpoint.meet(peer);
        self.account(peer);
        let now = self.routes.now();
        let rendezvous =
            self.waits.waiter.as_ref().and_then(|waiter| self.routes.rendezvous(waiter));
        let offer = Offer { me, peer, key, sealed: true };
        let begun = match (rendezvous.filter(|_| has_room), address) {
            (None, _) => Err(()),
            (Some(rendezvous), Some(to)) => rendezvous.dial(offer, to, now).map_err(drop),
            (Some(rendezvous), None) => match rendezvous.listen(offer, now) {
                Ok(port) => {
                    self.queue(&ToDaemon::Listening { peer, port });
                    Ok(())
                }
                Err(_) => Err(()),
            },
        };
        if begun.is_ok() {
            self.directs.asked(peer);
            self.route_is(peer, RouteState::SettingUp);
            if address.is_some() {
                self.routes.dialled.insert(peer);
            }
        } else {
            let why = match (refused, wanted && !has_room) {
                (true, _) => RouteState::NotWanted,
                (false, true) => RouteState::NoRoom,
                (false, false) => RouteState::NoMeans,
            };
            self.no_stream(peer, why);
        }
    }

    fn no_stream(&mut self, peer: TaskId, why: RouteState) {
        self.routes.dialled.remove(&peer);
        self.directs.put_off(peer, self.routes.now());
        self.route_is(peer, why);
        self.queue(&ToDaemon::CloseDirect { peer });
    }

    /// The daemon says that there is no stream to `peer`, or that the other side gave it up.
    pub(crate) fn stream_over(&mut self, peer: TaskId) {
        // One that stands ends by itself, after its last bytes.
        if self.routes.streams.get(peer).is_none() {
            self.routes.forget(peer);
            // Of one that has stood this says no more than its end did.
            if self.directs.is_asked(peer) {
                self.directs.put_off(peer, self.routes.now());
                self.route_is(peer, RouteState::Refused);
            }
        }
    }

    /// Takes in what streams bring; true when there was something.
    pub(crate) fn take_streams(&mut self) -> Result<bool, Lost> {
        let mut any = self.set_up();
        let mut over = Vec::new();
        let full = self.full().is_some();
        for stream in self.routes.streams.iter_mut() {
            let (mut bad, before) = (false, stream.progress());
            for _ in 0..QUOTA {
                // Beyond the limit they stay unread, and senders wait.
                if full {
                    break;
                }
                let Some(piece) = stream.head() else { break };
                match self.endpoint.stream_piece(&piece.header, piece.payload) {
                    Ok(true) => stream.take(),
                    Ok(false) => break,
                    Err(_) => {
                        bad = true;
                        break;
                    }
                }
                any = true;
            }
            stream.flush();
            // Also what brings no piece may be waited for: room, or the kernel's.
            any |= stream.progress() != before;
            if bad || stream.ended().is_some() {
                over.push(stream.peer());
            }
        }
        for peer in over {
            self.end_stream(peer);
            any = true;
        }
        any |= self.unpark()?;
        self.send_again();
        Ok(any)
    }

    /// Goes on with streams that are being set up.
    fn set_up(&mut self) -> bool {
        let now = self.routes.now();
        let mut any = false;
        while let Some(outcome) = self.routes.rendezvous.as_mut().and_then(|r| r.advance(now)) {
            any = true;
            match outcome {
                Outcome::Open(stream) => self.stream_stands(stream),
                Outcome::Failed { peer, .. } => self.no_stream(peer, RouteState::NotReached),
            }
        }
        any
    }

    fn stream_stands(&mut self, stream: Box<Stream>) {
        let peer = stream.peer();
        let Some(waiter) = &self.waits.waiter else { return };
        if self.endpoint.has_ended(peer) || stream.register(waiter.as_fd(), peer.to_raw()).is_err()
        {
            return self.no_stream(peer, RouteState::NoMeans);
        }
        if let Some(socket) = stream.share() {
            self.link.hand(socket);
            self.queue(&ToDaemon::Hold);
        }
        self.directs.stands(peer);
        self.route_is(peer, RouteState::Stands);
        let now = self.routes.now();
        if let Some(mut old) = self.routes.streams.insert(stream, now) {
            self.keep_untaken(peer, &mut old);
        }
    }

    /// A stream has ended: what its peer is not known to have taken goes by the daemons.
    pub(crate) fn end_stream(&mut self, peer: TaskId) {
        let Some(mut stream) = self.routes.streams.remove(peer) else { return };
        self.keep_untaken(peer, &mut stream);
        if matches!(stream.ended(), Some(End::Bad(_))) {
            self.routes.bad += 1;
            self.directs.refused(peer);
            self.route_is(peer, RouteState::Bad);
        } else {
            let silent = End::Reset(std::io::ErrorKind::TimedOut);
            if stream.ended() == Some(&silent)
                && let Some(rendezvous) = &mut self.routes.rendezvous
            {
                rendezvous.shorten();
            }
            self.route_is(peer, RouteState::Ended);
            // When there is enough to send, it may be worth another.
            self.directs.forget(peer);
        }
        if self.routes.dialled.remove(&peer) {
            self.queue(&ToDaemon::CloseDirect { peer });
        }
    }

    fn keep_untaken(&mut self, peer: TaskId, stream: &mut Stream) {
        if self.endpoint.has_ended(peer) {
            return;
        }
        let routes = &mut self.routes;
        stream.untaken(&mut |header, bytes| routes.keep(*header, bytes.into(), header.offset));
    }

    /// News of the end of `peer` that come by the daemons wait for what it sent by a stream.
    pub(crate) fn park(&mut self, peer: TaskId, news: ToTask) -> Option<ToTask> {
        let Some(progress) = self.routes.may_bring(peer) else { return Some(news) };
        let ending = match &news {
            ToTask::Notice { event: WatchEvent::TaskEnded { ending, .. }, .. } => ending.as_ref(),
            _ => None,
        };
        let of_host = |p: &Parked| p.peer.host() == peer.host() && p.patience == LOST_WORDS;
        let is_lost = ending == Some(&Ending::HostLost) || self.routes.parked.iter().any(of_host);
        let patience = if is_lost { LOST_WORDS } else { LAST_WORDS };
        let until = Instant::now() + patience;
        self.routes.parked.push(Parked { peer, until, patience, progress, news });
        None
    }

    fn unpark(&mut self) -> Result<bool, Lost> {
        let mut any = false;
        let mut at = 0;
        while at < self.routes.parked.len() {
            let Parked { peer, until, patience, progress, .. } = self.routes.parked[at];
            let now = Instant::now();
            if let Some(here) = self.routes.may_bring(peer) {
                // What is not read because memory is full may be there still.
                let goes_on = here != progress || self.full().is_some();
                if goes_on {
                    let parked = &mut self.routes.parked[at];
                    (parked.until, parked.progress) = (now + patience, here);
                }
                if goes_on || now < until {
                    at += 1;
                    continue;
                }
            }
            self.end_stream(peer);
            let parked = self.routes.parked.remove(at);
            self.heard(parked.news)?;
            any = true;
        }
        Ok(any)
    }

    /// Nothing is to be sent to a task that has ended.
    pub(crate) fn forget_streams(&mut self, peer: TaskId) {
        self.routes.again.remove(&peer);
        self.routes.forget(peer);
    }

    /// Queues pieces of broken streams for the daemons, as far as there is credit. Not in the
    /// middle of a message to the same task.
    pub(crate) fn send_again(&mut self) {
        let Self { routes, endpoint, link, sending, .. } = self;
        routes.again.retain(|&peer, rests| {
            while !sending.half.contains(&peer)
                && let Some(rest) = rests.front_mut()
            {
                let left = rest.left().len();
                let Some(len) = endpoint.room(peer, left) else {
                    if endpoint.blocked(peer) {
                        let say = ToDaemon::Blocked { peer, need: charge(left) };
                        link.queue(&encode(&say, Vec::new()));
                    }
                    return true;
                };
                endpoint.wrote(peer, len);
                link.queue_data(&rest.header, &rest.left()[..len]);
                rest.header.offset += len as u64;
                if rest.left().is_empty() {
                    rests.pop_front();
                }
            }
            !rests.is_empty()
        });
    }

    /// Whether something that another route left for `peer` still has to go by the daemons.
    pub(crate) fn is_behind(&self, peer: TaskId) -> bool {
        self.routes.again.contains_key(&peer)
    }

    /// Sends a message by the stream to its receiver, if there is one. False: it, or the rest of
    /// it from `header.offset` on, must go by the daemons.
    pub(crate) fn by_stream(
        &mut self,
        header: &mut Header,
        parts: &[&[u8]],
    ) -> Result<bool, SendError> {
        let sent = self.push_stream(header, parts)?;
        if sent && !self.has_written(header.dst) {
            // The kernel goes on by itself only with what it has.
            self.wait_for_stream(header.dst, Stream::is_written)?;
        }
        Ok(sent)
    }

    /// Whether the kernel has all that was sent by the stream to `peer`, or there is none.
    pub(crate) fn has_written(&mut self, peer: TaskId) -> bool {
        let stream = self.routes.streams.get(peer);
        stream.is_none_or(|stream| stream.is_written() || !stream.is_open())
    }

    /// As [`Task::by_stream`], but the kernel need not have all of it.
    pub(crate) fn push_stream(
        &mut self,
        header: &mut Header,
        parts: &[&[u8]],
    ) -> Result<bool, SendError> {
        let dst = header.dst;
        if self.directs.refused_by_us || !self.routes.is_open(dst) {
            return Ok(false);
        }
        loop {
            let Some(stream) = self.routes.streams.get(dst) else { return Ok(false) };
            let left = usize::try_from(header.total - header.offset).unwrap_or(usize::MAX);
            let len = left.min(PIECE_MAX);
            let mut room = [&[][..]; crate::send::PARTS_MAX];
            let cut = crate::send::cut(parts, header.offset as usize, len, &mut room);
            match stream.push(header, cut) {
                Push::Taken => {
                    stream.flush();
                    self.begin(dst, header.seq);
                    header.offset += len as u64;
                    if header.offset == header.total {
                        self.routes.sent += 1;
                        self.count(dst, Account::BY_STREAM, header.total as usize);
                        return Ok(true);
                    }
                }
                Push::Full => self.wait_for_stream(dst, Stream::has_room)?,
                Push::Closed if header.offset == 0 => return Ok(false),
                // What went out goes before the rest, also if it goes another way.
                Push::Closed => self.wait_for_stream(dst, |_| false)?,
            }
            if self.endpoint.has_ended(dst) {
                return Err(SendError::NoTask(dst));
            }
        }
    }

    /// Waits until a stream is over, closed or as `ready` wants it.
    fn wait_for_stream(
        &mut self,
        peer: TaskId,
        ready: fn(&Stream) -> bool,
    ) -> Result<(), RecvError> {
        let was_open = self.routes.is_open(peer);
        let waited = self.wait_for(Deadline::NEVER, &mut |task| {
            let stream = task.routes.streams.get(peer);
            let on = stream.is_none_or(|s| ready(s) || (was_open && !s.is_open()));
            on.then_some(())
        });
        waited.map(drop)
    }

    /// Waits until what went out by streams needs this process no more; what may, goes again by
    /// the daemons. Gives up when receivers take nothing of that for `patience`. This task
    /// receives no more: what comes meanwhile is taken in without a limit.
    pub(crate) fn settle_streams(&mut self, patience: Duration) -> Result<(), SendError> {
        self.held_max = u64::MAX;
        self.leave_queued_to_daemons();
        self.drain_streams()?;
        let late: Vec<TaskId> = self
            .routes
            .streams
            .iter_mut()
            .filter(|stream| !stream.drained())
            .map(|stream| stream.peer())
            .collect();
        for peer in late {
            self.end_stream(peer);
        }
        loop {
            self.send_again();
            let left = self.routes.left();
            if left == 0 {
                return Ok(self.flush()?);
            }
            let on = self.wait_for(Deadline::after(Some(patience)), &mut |task| {
                (task.routes.left() < left).then_some(())
            })?;
            if on.is_none() {
                let pieces = self.routes.again.values().map(VecDeque::len).sum();
                self.routes.again.clear();
                return Err(SendError::Undelivered { pieces, seconds: patience.as_secs() });
            }
        }
    }

    /// Waits a little until the kernels of peers have what went out by streams.
    fn drain_streams(&mut self) -> Result<(), SendError> {
        let over = Instant::now() + DRAIN;
        loop {
            let mut drained = true;
            for stream in self.routes.streams.iter_mut() {
                stream.woken();
                stream.flush();
                drained &= stream.drained();
            }
            if drained || Instant::now() >= over {
                return Ok(());
            }
            // No descriptor tells of acknowledgements.
            let look = Deadline::after(Some(DRAIN_LOOK));
            self.wait_for(look, &mut |_| None::<()>)?;
        }
    }
}
