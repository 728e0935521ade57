//! What comes in: frames from the daemon, put where they belong.

use std::ops::Range;

use towpath_io::shared::Woken;
use towpath_vm::endpoint::{Body, Parcel};
use towpath_vm::matching::Key;
use towpath_vm::talk::{ToDaemon, ToTask, WatchEvent, decode};
use towpath_wire::TaskId;
use towpath_wire::talk::{FrameKind, HEADER_LEN, Header};

use crate::error::{Full, Lost};
use crate::link::Got;
use crate::message::Envelope;
use crate::parts::news::Event;
use crate::rings::QUOTA;
use crate::task::{SOCKET, Task};

/// Looks at rings, and takes of what is known to be there, before the kernel is asked what
/// descriptors have, too.
pub(crate) const LOOKS: u32 = 64;
/// Reads of the socket at most before the caller looks at what came.
const READS: usize = 16;

impl Task {
    /// Takes in what is there, without waiting; true when there was something. While rings bring
    /// something, descriptors are looked at only now and then. Control frames that this gives
    /// rise to are queued ([`Task::flush`] writes them): the caller may be in the middle of a
    /// frame.
    pub(crate) fn take_in(&mut self) -> Result<bool, Lost> {
        self.take_all(true)
    }

    /// [`Task::take_in`] for a caller that sleeps when there is nothing: the sleep asks the kernel
    /// what descriptors have, so this does not.
    pub(crate) fn take_known(&mut self) -> Result<bool, Lost> {
        self.take_all(false)
    }

    fn take_all(&mut self, look: bool) -> Result<bool, Lost> {
        let any = self.take_routes(look)?;
        Ok(self.advance() || any)
    }

    fn take_routes(&mut self, look: bool) -> Result<bool, Lost> {
        let mut any = self.take_rings(QUOTA);
        let over = self.ends.words.news();
        if over > 0 {
            self.news.count += over;
            any = true;
        }
        self.waits.looks += 1;
        let is_due = self.waits.looks >= LOOKS;
        if any && !is_due && !self.link.has_more {
            return Ok(true);
        }
        // Where something always comes, nobody sleeps.
        if look || is_due {
            self.look();
        }
        Ok(self.read_descriptors()? || any)
    }

    /// Puts what rings have among what waits, at most `quota` records of each; true when there was
    /// something.
    pub(crate) fn take_rings(&mut self, quota: usize) -> bool {
        // Beyond its limit they stay as they are, and senders wait for room in them.
        if self.rings.is_empty() || self.full().is_some() {
            return false;
        }
        let any = self.rings.take(self.welcome.you, &mut self.endpoint, quota);
        self.give_up_corrupt();
        any
    }

    /// Tells the daemon of rings in which something made no sense: their peers are to send what
    /// was not taken by the daemons.
    fn give_up_corrupt(&mut self) {
        while let Some(peer) = self.rings.corrupt.pop() {
            self.directs.refused(peer);
            self.queue(&ToDaemon::RingFailed { peer });
        }
    }

    /// Asks the kernel what descriptors have, without waiting; false: nothing.
    pub(crate) fn look(&mut self) -> bool {
        self.waits.looks = 0;
        let Some(waiter) = &mut self.waits.waiter else { return false };
        let has = waiter.look().is_ok_and(|woken| woken != Woken::TimedOut);
        if has {
            self.seen();
        }
        has
    }

    /// Takes note of what the kernel said last.
    pub(crate) fn seen(&mut self) {
        self.waits.looks = 0;
        let Some(waiter) = &self.waits.waiter else { return };
        self.link.has_more |= waiter.events().iter().any(|event| event.key == SOCKET);
        self.routes.woken(waiter.events());
    }

    /// Takes in what descriptors have, as far as is known.
    pub(crate) fn read_descriptors(&mut self) -> Result<bool, Lost> {
        let any = if self.waits.waiter.is_none() || std::mem::take(&mut self.link.has_more) {
            self.read_socket()?
        } else {
            false
        };
        if self.routes.is_idle() {
            return Ok(any);
        }
        Ok(self.take_streams()? || any)
    }

    /// Takes in what the socket has. What it still has afterwards the next look says again.
    fn read_socket(&mut self) -> Result<bool, Lost> {
        let mut any = false;
        for _ in 0..READS {
            // Beyond its limit the socket stays unread, and senders run out of credit.
            if self.full().is_some() {
                break;
            }
            let got = self.link.read().map_err(|l| self.lose(l))?;
            any |= got != Got::Nothing;
            while let Some((kind, body)) = self.link.next_frame().map_err(|l| self.lose(l))? {
                self.frame(kind, body).map_err(|l| self.lose(l))?;
            }
            if got != Got::Full {
                break;
            }
        }
        Ok(any)
    }

    fn frame(&mut self, kind: FrameKind, range: Range<usize>) -> Result<(), Lost> {
        let broken = |why: &str| Lost::Daemon(why.to_string());
        let body = self.link.body(range.clone());
        match kind {
            FrameKind::Control => {
                let say = decode(body).map_err(|e| broken(&e.to_string()))?;
                self.heard(say)
            }
            FrameKind::Data => {
                let parsed = body.split_first_chunk::<HEADER_LEN>();
                let parsed =
                    parsed.and_then(|(head, rest)| Some((Header::parse(head).ok()?, rest)));
                let (header, payload) =
                    parsed.ok_or_else(|| broken("it sent a data frame without a header"))?;
                let taken = self.endpoint.piece(&header, payload);
                taken.map_err(|bad| broken(&bad.to_string()))
            }
            FrameKind::Channel => self.take_on_channel(range),
            FrameKind::Multicast | FrameKind::Lent => {
                Err(broken("it sent a frame that only tasks send"))
            }
        }
    }

    /// That no more can be taken in, if so.
    pub(crate) const fn full(&self) -> Option<Full> {
        let (bytes, limit) = (self.endpoint.held(), self.held_max);
        if bytes < limit { None } else { Some(Full { bytes, limit }) }
    }

    /// How much came in so far: messages, events, answers.
    pub const fn came(&self) -> u64 {
        self.endpoint.arrived() + self.news.count
    }

    // tidy: dispatch
    pub(crate) fn heard(&mut self, say: ToTask) -> Result<(), Lost> {
        match say {
            ToTask::Welcome(_) | ToTask::Refused(_) => {
                return Err(Lost::Daemon("it answered an enrolment twice".into()));
            }
            ToTask::Credit { peer, limit } => self.endpoint.credit(peer, limit),
            ToTask::AskFirst { host, on } => self.endpoint.ask_first(host, on),
            ToTask::Ring { peer } => self.ring_offered(peer),
            ToTask::NoDirect { peer } if peer.host() != self.host() => self.stream_over(peer),
            ToTask::RingFailed { peer } | ToTask::NoDirect { peer } => self.ring_over(peer),
            ToTask::Stream(offer) => self.stream_offered(&offer),
            ToTask::Gone { peer } => {
                if self.park(peer, ToTask::Gone { peer }).is_some() {
                    self.last_of(peer);
                    self.forget_streams(peer);
                    self.endpoint.gone(peer);
                    self.directs.forget(peer);
                    self.close_account(peer);
                }
            }
            ToTask::Part { number, tasks } => {
                if let Some(asked) = self.questions.open.get_mut(&number) {
                    asked.tasks.extend(tasks);
                }
            }
            ToTask::Answer { number, answer } => {
                if let Some(asked) = self.questions.open.get_mut(&number) {
                    asked.answer = Some(answer);
                    self.news.count += 1;
                }
            }
            ToTask::Notice { watch, event: WatchEvent::TaskEnded { task, ending } } => {
                let event = WatchEvent::TaskEnded { task, ending };
                let news = self.park(task, ToTask::Notice { watch, event });
                if let Some(ToTask::Notice { watch, event }) = news {
                    self.last_of(task);
                    // Also where the two had exchanged nothing: nobody else says that it is gone.
                    self.endpoint.gone(task);
                    self.noticed(watch, event);
                }
            }
            ToTask::Notice { watch, event } => self.noticed(watch, event),
            ToTask::Output { task, stream, bytes } => {
                self.happened(Event::Output { task, stream, bytes });
            }
            ToTask::Taken { count } => {
                let lent = &mut self.sending.lent;
                drop(lent.drain(..lent.len().min(count as usize)));
            }
            say @ (ToTask::ChannelOpen { .. }
            | ToTask::ChannelOffered { .. }
            | ToTask::ChannelSent { .. }
            | ToTask::ChannelClosed { .. }) => {
                self.channels.heard(say);
                self.news.count += 1;
            }
            ToTask::End(why) => {
                self.happened(Event::End(why.clone()));
                return Err(Lost::Daemon(why));
            }
        }
        Ok(())
    }

    /// A task has ended: what it left in its ring comes before anything that is said of its end.
    fn last_of(&mut self, peer: TaskId) {
        self.rings.drain(peer, self.welcome.you, &mut self.endpoint);
        self.rings.forget(peer);
    }

    /// A watch says something: one of this library's own, or the program's.
    fn noticed(&mut self, watch: u64, event: WatchEvent) {
        if self.ends.notice(watch, &event) {
            // Something may be over for a team that its caller does not wait for.
            self.news.count += 1;
        } else {
            self.happened(Event::Notice { watch, event });
        }
    }

    fn happened(&mut self, event: Event) {
        self.news.count += 1;
        self.news.events.push_back(event);
    }

    /// Puts a message of this task's own among those that wait.
    pub(crate) fn put_local(&mut self, src: TaskId, envelope: Envelope, bytes: Vec<u8>) {
        let Envelope { tag, context, format } = envelope;
        let len = bytes.len() as u64;
        let parcel = Parcel { format, body: Body::Own(bytes) };
        self.endpoint.post(Key { source: src, tag, context }, len, parcel);
    }
}
