//! Sends that do not wait for their receiver.

use towpath_io::direct::Push;
use towpath_io::shared::Head;
use towpath_vm::account::Account;
use towpath_wire::TaskId;
use towpath_wire::talk::{Header, PIECE_MAX};

use super::table::{Operation, Outcome, Slot, StartedError, What};
use crate::deadline::Deadline;
use crate::direct::Pushed;
use crate::error::SendError;
use crate::message::Envelope;
use crate::plain::Plain;
use crate::task::Task;

/// A send that was started. Dropped, it goes on.
#[derive(Debug)]
#[must_use = "dropped, it goes on, and nobody knows whether it went well"]
pub struct PendingSend {
    operation: Operation,
}

impl AsRef<Operation> for PendingSend {
    fn as_ref(&self) -> &Operation {
        &self.operation
    }
}

impl Task {
    /// Sends bytes if that needs no wait for the receiver; false: nothing was sent. Where there is
    /// no direct route, the daemons take the whole message, one for each receiver at a time.
    ///
    /// ```no_run
    /// # let mut task = towpath_task::Task::enrol()?;
    /// # let slow = task.id();
    /// if !task.try_send(slow, 7, b"the newest")? {
    ///     // It has not taken what was sent before: there is no use in more.
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_send(
        &mut self,
        to: TaskId,
        envelope: impl Into<Envelope>,
        bytes: &[u8],
    ) -> Result<bool, SendError> {
        let envelope = envelope.into();
        let Envelope { tag, context, format } = envelope;
        if self.by_open_ring(to, tag, [context, format], bytes) {
            return Ok(true);
        }
        self.check()?;
        if self.started.has_queue(to) {
            return Ok(false);
        }
        let mut header = self.header(to, envelope, &[bytes]);
        let sent = self.attempt(&mut header, bytes)?;
        if !sent && header.offset > 0 {
            // Some of it is out: the rest follows.
            drop(self.queue_send(to, envelope, Some(header), bytes));
        }
        self.flush_sends()?;
        Ok(sent || header.offset > 0)
    }

    /// The same with values.
    pub fn try_send_slice<T: Plain>(
        &mut self,
        to: TaskId,
        envelope: impl Into<Envelope>,
        values: &[T],
    ) -> Result<bool, SendError> {
        let envelope = Envelope { format: T::CODE.format(), ..envelope.into() };
        self.try_send(to, envelope, &T::bytes(values))
    }

    /// Starts to send values, which may be reused when this returns: what cannot leave at once is
    /// copied, at most [`QUEUED_MAX`](super::QUEUED_MAX) bytes in all.
    pub fn start_send<T: Plain>(
        &mut self,
        to: TaskId,
        envelope: impl Into<Envelope>,
        values: &[T],
    ) -> Result<PendingSend, StartedError> {
        let envelope = Envelope { format: T::CODE.format(), ..envelope.into() };
        self.start_send_bytes(to, envelope, &T::bytes(values))
    }

    /// The same with bytes.
    pub fn start_send_bytes(
        &mut self,
        to: TaskId,
        envelope: impl Into<Envelope>,
        bytes: &[u8],
    ) -> Result<PendingSend, StartedError> {
        self.check()?;
        self.sweep_started();
        self.started.sends_room()?;
        let envelope = envelope.into();
        if self.started.has_queue(to) {
            self.started.queue_room(bytes.len())?;
            return Ok(PendingSend { operation: self.queue_send(to, envelope, None, bytes) });
        }
        let mut header = self.header(to, envelope, &[bytes]);
        // Before anything of it is out.
        self.started.queue_room(bytes.len())?;
        let operation = if self.attempt(&mut header, bytes)? {
            let send = What::Send { to, envelope, header: None, bytes: Vec::new() };
            self.started.insert(send, Some(Outcome::Sent(Ok(()))))
        } else {
            let begun = (header.offset > 0).then_some(header);
            self.queue_send(to, envelope, begun, bytes)
        };
        self.flush_sends()?;
        Ok(PendingSend { operation })
    }

    /// Waits until a started send has left.
    pub fn finish_send(&mut self, pending: PendingSend) -> Result<(), StartedError> {
        self.wait_started(&pending, None)?;
        let slot = self.started.remove(pending.operation.slot).ok_or(StartedError::Foreign)?;
        drop(pending);
        match slot.over {
            Some((_, Outcome::Sent(sent))) => Ok(sent?),
            _ => unreachable!("a wait without end ends when the send is over"),
        }
    }

    /// Takes a started send back; false: some of it has left, and it goes on.
    #[allow(clippy::needless_pass_by_value, reason = "nobody can ask for it afterwards")]
    pub fn cancel_send(&mut self, pending: PendingSend) -> Result<bool, StartedError> {
        let at = pending.operation.slot;
        let Slot { what: What::Send { to, header: None, .. }, over: None, .. } =
            self.started.of(&pending.operation)?
        else {
            return Ok(false);
        };
        let to = *to;
        self.started.unqueue(to, at);
        self.started.remove(at);
        self.mind();
        Ok(true)
    }

    fn queue_send(
        &mut self,
        to: TaskId,
        envelope: Envelope,
        header: Option<Header>,
        bytes: &[u8],
    ) -> Operation {
        let send = What::Send { to, envelope, header, bytes: bytes.to_vec() };
        let operation = self.started.insert(send, None);
        self.started.queue(operation.slot);
        self.mind();
        operation
    }

    /// Calls that are quick look whether something is started, or do not.
    fn mind(&mut self) {
        let queued = self.started.has_queued();
        self.directs.detour = queued || self.directs.refused_by_us;
        self.waits.attention |= queued;
    }

    /// Hands to the daemon what is for it.
    fn flush_sends(&mut self) -> Result<(), SendError> {
        self.send_again();
        Ok(self.flush()?)
    }

    /// Sends a message, from `header.offset` on, as far as that goes without a wait; true: all of
    /// it is out, or with the daemons' part of this task.
    fn attempt(&mut self, header: &mut Header, bytes: &[u8]) -> Result<bool, SendError> {
        let to = header.dst;
        if to == self.id() {
            let Header { tag, context, format, .. } = *header;
            self.counts.own += 1;
            self.put_local(to, Envelope { tag, context, format }, bytes.to_vec());
            return Ok(true);
        }
        if self.endpoint.has_ended(to) {
            return Err(SendError::NoTask(to));
        }
        if header.offset == 0 {
            if self.is_behind(to) {
                return Ok(false);
            }
            if let Some(sent) = self.attempt_ring(header, bytes) {
                return Ok(sent);
            }
        }
        if let Some(sent) = self.attempt_stream(header, bytes) {
            return Ok(sent);
        }
        self.leave_to_daemons(header, bytes);
        Ok(true)
    }

    /// By the ring; `None`: not this way.
    fn attempt_ring(&mut self, header: &Header, bytes: &[u8]) -> Option<bool> {
        let Header { dst: to, tag, context, seq, format, total, .. } = *header;
        if !self.has_ring(to) {
            self.ask_direct(to, bytes.len());
            return None;
        }
        let head = Head { tag, context, seq, format, total, offset: 0 };
        let mut pushed = self.push(to, &head, &[bytes]);
        if matches!(pushed, Pushed::NoBlocks) && self.rings.reclaim() > 0 {
            pushed = self.push(to, &head, &[bytes]);
        }
        match pushed {
            Pushed::Yes => {
                self.endpoint.take_number(to);
                self.counts.ring += 1;
                Some(true)
            }
            Pushed::NoRoom => {
                // So that the peer rings when it has taken something.
                if let Some(ring) = self.rings.get(to) {
                    ring.out.want(true);
                }
                self.started.no_room.push(to);
                Some(false)
            }
            Pushed::NoBlocks | Pushed::Never => None,
        }
    }

    /// By the stream; `None`: the rest goes by the daemons.
    fn attempt_stream(&mut self, header: &mut Header, bytes: &[u8]) -> Option<bool> {
        let to = header.dst;
        while !self.directs.refused_by_us || header.offset > 0 {
            let stream = self.routes.open(to)?;
            let (from, left) = (header.offset as usize, (header.total - header.offset) as usize);
            let len = left.min(PIECE_MAX);
            match stream.push(header, &[&bytes[from..from + len]]) {
                Push::Taken => {
                    stream.flush();
                    self.begin(to, header.seq);
                    header.offset += len as u64;
                    if header.offset == header.total {
                        self.routes.sent += 1;
                        self.count(to, Account::BY_STREAM, bytes.len());
                        return Some(true);
                    }
                }
                Push::Full => return Some(false),
                Push::Closed => return None,
            }
        }
        None
    }

    /// The daemons get the rest as there is credit.
    fn leave_to_daemons(&mut self, header: &Header, bytes: &[u8]) {
        let Header { dst: to, seq, offset, .. } = *header;
        if offset > 0 {
            // Its receiver must not see the rest before the beginning.
            self.end_stream(to);
        }
        self.begin(to, seq);
        self.counts.daemon += 1;
        self.count(to, Account::BY_DAEMONS, bytes.len());
        self.routes.keep(*header, bytes[offset as usize..].into(), offset);
    }

    /// Sends what is queued, as far as that goes; true: some of it is over.
    pub(super) fn push_queued(&mut self) -> bool {
        let mut any = false;
        for to in std::mem::take(&mut self.started.no_room) {
            if let Some(ring) = self.rings.get(to) {
                ring.out.want(false);
            }
        }
        for to in self.started.receivers() {
            while let Some(at) = self.started.first(to) {
                let Some(outcome) = self.push_one(at) else { break };
                self.started.unqueue(to, at);
                self.started.end(at, Outcome::Sent(outcome));
                any = true;
            }
        }
        if any {
            self.mind();
        }
        any
    }

    /// Tries to send a queued one; `None`: not all of it has left.
    fn push_one(&mut self, at: u32) -> Option<Result<(), SendError>> {
        let What::Send { to, envelope, header, bytes } = &mut self.started.slot(at)?.what else {
            return None;
        };
        let (to, envelope, begun, bytes) = (*to, *envelope, *header, std::mem::take(bytes));
        let mut now = begun.unwrap_or_else(|| self.header(to, envelope, &[&bytes]));
        let sent = self.attempt(&mut now, &bytes);
        if let Some(Slot { what: What::Send { header, bytes: room, .. }, .. }) =
            self.started.slot(at)
        {
            *header = (now.offset > 0).then_some(now);
            *room = bytes;
        }
        match sent {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(e) => Some(Err(e)),
        }
    }

    /// Waits until nothing to any of these is queued.
    #[cold]
    pub(crate) fn wait_for_queued(&mut self, to: &[TaskId]) -> Result<(), SendError> {
        if to.iter().any(|to| self.started.has_queue(*to)) {
            self.wait_for(Deadline::NEVER, &mut |task| {
                to.iter().all(|to| !task.started.has_queue(*to)).then_some(())
            })?;
        }
        Ok(())
    }

    /// This task leaves: what is queued goes by the daemons.
    pub(crate) fn leave_queued_to_daemons(&mut self) {
        for to in self.started.receivers() {
            while let Some(at) = self.started.first(to) {
                if let Some(Slot { what: What::Send { envelope, header, bytes, .. }, .. }) =
                    self.started.slot(at)
                {
                    let (envelope, begun, bytes) = (*envelope, *header, bytes.clone());
                    let header = begun.unwrap_or_else(|| self.header(to, envelope, &[&bytes]));
                    if !self.endpoint.has_ended(to) {
                        self.leave_to_daemons(&header, &bytes);
                    }
                }
                self.started.unqueue(to, at);
                self.started.end(at, Outcome::Sent(Ok(())));
            }
        }
        self.mind();
    }
}
