//! Messages in: taking them in, matching, handlers.
//!
//! What comes is matched in the order in which it came. As long as the program has neither a match
//! function nor handlers, nor looked at what waits (`pvm_probe`, `pvm_nrecv`), messages stay with
//! the virtual machine and are asked for by source and tag; else they are taken in and wait here:
//! one at each look, all where there are handlers or the program waits by its own function.
//! Invariant: what waits here came before what waits there.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::handlers::Handler;
use super::session::{Library, Session};
use super::trace::outside;
use super::waiting::{Seen, Wait};
use crate::code::{Code, Outcome};
use crate::message::{Element, Info, Message, Received, WAITS};
use crate::strided::Strided;
use crate::vm::{Event, Incoming, Vm};

/// A program's match function: number of a waiting message, source and tag asked for. It gives
/// 1 for the message to take, more for one that may do (the most wins), 0 for another, or a code.
pub(crate) type MatchFunction = unsafe extern "C" fn(i32, i32, i32) -> i32;

/// Which message is wanted; −1 stands for any source, tag and context.
#[derive(Clone, Copy)]
pub(super) struct Sought {
    /// The task that wants it.
    pub(super) me: i32,
    pub(super) source: i32,
    pub(super) tag: i32,
    pub(super) context: i32,
    /// A match function of the program's own, that chooses.
    pub(super) matches: Option<MatchFunction>,
}

impl Sought {
    fn fits(&self, info: &Info) -> bool {
        (self.source == -1 || self.source == info.source)
            && (self.tag == -1 || self.tag == info.tag)
            && (self.context == -1 || self.context == info.context)
    }
}

/// Whether the virtual machine had the message itself.
enum Directly {
    /// Its buffer.
    Taken(i32),
    /// It is none of those that had come by then.
    Not { seen: Seen },
}

/// What there is to do next about what came.
enum Came {
    Nothing,
    /// A message that has a handler: whom, for which messages, its buffer, its context.
    Handle(Handler, [i32; 3], i32, i32),
}

impl Library {
    /// `pvm_recv`, `pvm_nrecv`, `pvm_trecv`: −1 stands for any. The number of the buffer, 0 when
    /// there is no message (in time).
    pub(crate) fn receive(&self, source: i32, tag: i32, wait: Wait) -> Outcome {
        let sought = self.enrolled(|session, _| {
            session.buffers.free(session.buffers.receive())?;
            session.sought(source, tag)
        })?;
        let id = match wait {
            Wait::No => self.take_if_there(sought)?,
            wait => self.take_message(sought, wait)?,
        };
        self.with(|session| session.buffers.set_receive(id))?;
        Ok(id)
    }

    /// A message that is no longer waiting and not yet the receive buffer; 0: none came in time.
    /// Nothing of the task's state is lent while this waits: handlers and other threads find the
    /// context and the buffers as they left them.
    fn take_message(&self, sought: Sought, wait: Wait) -> Outcome {
        let mut last = false;
        loop {
            let seen = match self.take_directly(sought)? {
                Directly::Taken(id) => return Ok(id),
                Directly::Not { seen } => seen,
            };
            self.take_in(sought)?;
            if let Some(id) = self.find(sought)? {
                if self.with(|session| session.buffers.take_waiting(id))? {
                    return Ok(id);
                }
                // Another thread was faster, or the match function itself took it.
                continue;
            }
            if last {
                return Ok(0);
            }
            last = self.wait(wait, seen)?;
        }
    }

    /// A message that is no longer waiting and not yet the receive buffer, as far as one look
    /// shows it; 0: it shows none.
    fn take_if_there(&self, sought: Sought) -> Outcome {
        loop {
            let Some(id) = self.look(sought)? else { return Ok(0) };
            // Else another thread was faster, or the match function itself took it.
            if self.with(|session| session.buffers.take_waiting(id))? {
                return Ok(id);
            }
        }
    }

    /// One look, as PVM takes it: at what was taken in; where that has nothing that fits, at the
    /// one message that came next. Programs rely on it that ask for two tags in turn: they see what
    /// one task sent in the order in which it was sent, however fast it comes.
    fn look(&self, sought: Sought) -> Result<Option<i32>, Code> {
        if let Some(id) = self.find(sought)? {
            return Ok(Some(id));
        }
        if let Came::Handle(handler, about, id, context) =
            self.inside_as(sought.me, |session, vm| session.take_messages(vm, 1))?
        {
            self.trace_handler(about, id);
            self.call_handler(handler, id, context)?;
        }
        self.find(sought)
    }

    /// `pvm_probe`: the number of a message that waits, 0 for none. It goes on waiting.
    pub(crate) fn probe(&self, source: i32, tag: i32) -> Outcome {
        let sought = self.enrolled(|session, _| session.sought(source, tag))?;
        let found = self.look(sought)?.unwrap_or(0);
        if found != 0 {
            self.with(|session| session.buffers.get_mut(found).map(Message::rewind))?;
        }
        Ok(found)
    }

    /// `pvm_recvf`: the match function that was, `None` for PVM's own.
    pub(crate) fn set_match(&self, matches: Option<MatchFunction>) -> Option<MatchFunction> {
        self.with(|session| std::mem::replace(&mut session.matches, matches))
    }

    /// PVM's own match function.
    pub(crate) fn match_plainly(&self, id: i32, source: i32, tag: i32) -> i32 {
        self.with(|session| match session.buffers.get(id) {
            Ok(message) => {
                let (me, context) = (session.tid().unwrap_or(-1), session.context);
                let sought = Sought { me, source, tag, context, matches: None };
                i32::from(sought.fits(&message.info))
            }
            Err(_) => Code::NoSuchBuf.number(),
        })
    }

    /// `pvm_precv`: one array. Gives source, tag and length of the message, which may be longer
    /// than there is room, or shorter.
    pub(crate) fn receive_array(
        &self,
        source: i32,
        tag: i32,
        into: &mut [u8],
    ) -> Result<(i32, i32, i32), Code> {
        let sought = self.enrolled(|session, _| session.sought(source, tag))?;
        self.take_and_free(sought, |message| {
            let (info, len) = (message.info, message.len());
            let room = len.min(into.len());
            message.unpack(Element::Byte, Strided::bytes_mut(&mut into[..room]))?;
            Ok((info.source, info.tag, len as i32))
        })
    }

    /// Waits for a message that only `read` sees.
    pub(super) fn take_and_free<R>(
        &self,
        sought: Sought,
        read: impl FnOnce(&mut Message) -> Result<R, Code>,
    ) -> Result<R, Code> {
        let id = self.take_message(sought, Wait::Forever)?;
        self.with(|session| {
            let message = session.buffers.get_mut(id)?;
            message.begin_unpacking();
            let outcome = read(message);
            session.buffers.free(id)?;
            outcome
        })
    }

    /// Asks the virtual machine for the message itself, where that is the same.
    fn take_directly(&self, sought: Sought) -> Result<Directly, Code> {
        self.inside_as(sought.me, |session, vm| {
            // Before the look: what comes between the two is not slept over.
            let seen = session.seen(vm)?;
            if !session.is_plain(sought) || session.has_news(vm) {
                return Ok(Directly::Not { seen });
            }
            if let Some(id) = session.first_fitting(sought) {
                session.buffers.take_waiting(id)?;
                return Ok(Directly::Taken(id));
            }
            let any = |value: i32| (value != -1).then_some(value);
            let Sought { source, tag, context, .. } = sought;
            let incoming = vm.take_matching(any(source), any(tag), context)?;
            let Some(incoming) = incoming else { return Ok(Directly::Not { seen }) };
            let message = session.message(incoming);
            Ok(Directly::Taken(session.buffers.insert(message)))
        })
    }

    /// Takes in what came if it cannot stay with the virtual machine.
    fn take_in(&self, sought: Sought) -> Result<(), Code> {
        let stays =
            self.inside(|session, vm| Ok(session.is_plain(sought) && !session.has_news(vm)))?;
        if stays { Ok(()) } else { self.take_all_in() }
    }

    /// Takes in what came, and calls handlers.
    pub(super) fn take_all_in(&self) -> Result<(), Code> {
        loop {
            match self.inside(|session, vm| session.take_messages(vm, usize::MAX))? {
                Came::Nothing => return Ok(()),
                Came::Handle(handler, sought, id, context) => {
                    self.trace_handler(sought, id);
                    self.call_handler(handler, id, context)?;
                }
            }
        }
    }

    /// After a call: what came meets its handlers, though the program does not receive. Not inside
    /// of a handler, nor where the call did not enter the virtual machine.
    pub(crate) fn handle(&self) {
        if !self.has_handlers.load(Relaxed) {
            return;
        }
        let due = self.with(|session| {
            session.vm.is_some()
                && std::mem::take(&mut session.entered)
                && !std::mem::replace(&mut session.handling, true)
        });
        if due {
            // A connection that is lost is found by the next call.
            let _ = self
                .inside(|_, vm| vm.wait(Some(Duration::ZERO)))
                .and_then(|()| self.take_all_in());
            self.with(|session| (session.entered, session.handling) = (false, false));
        }
    }

    /// The handler sees the message as its receive buffer, no send buffer, and the message's
    /// context; afterwards all is as it was.
    fn call_handler(&self, handler: Handler, id: i32, context: i32) -> Result<(), Code> {
        let (send, receive, was) = self.with(|session| {
            let send = session.buffers.set_send(0)?;
            let receive = session.buffers.set_receive(id)?;
            Ok((send, receive, std::mem::replace(&mut session.context, context)))
        })?;
        // SAFETY: the program gave a function of this type to be called with a buffer's number.
        outside(|| unsafe { handler(id) });
        self.with(|session| {
            session.context = was;
            let made = session.buffers.set_send(send).unwrap_or(0);
            let _ = session.buffers.free(made);
            let left = session.buffers.set_receive(receive).unwrap_or(0);
            let _ = session.buffers.free(left);
        });
        Ok(())
    }

    /// The waiting message that a match function chooses.
    fn find(&self, sought: Sought) -> Result<Option<i32>, Code> {
        let Some(matches) = sought.matches else {
            return Ok(self.with(|session| session.first_fitting(sought)));
        };
        let (mut best, mut best_id) = (0, None);
        let mut id = self.with(|session| session.buffers.next_waiting(0));
        while id != 0 {
            // SAFETY: the program gave a function of this type for this.
            match unsafe { matches(id, sought.source, sought.tag) } {
                1 => return Ok(Some(id)),
                rank if rank < 0 => return Err(Code::from_number(rank).unwrap_or(Code::BadParam)),
                rank if rank > best => (best, best_id) = (rank, Some(id)),
                _ => {}
            }
            id = self.with(|session| session.buffers.next_waiting(id));
        }
        Ok(best_id)
    }
}

impl Session {
    /// A message that came, as a buffer holds it.
    fn message(&self, incoming: Incoming) -> Message {
        let Incoming { source, envelope, mut body } = incoming;
        let mut wait = 0;
        if envelope.format & WAITS != 0
            && let Some((id, rest)) = body.bytes().split_first_chunk()
        {
            wait = i32::from_le_bytes(*id);
            body = Received::Shared(rest.into());
        }
        let info = Info {
            context: envelope.context,
            tag: envelope.tag,
            wait,
            source,
            destination: self.identity.as_ref().map_or(-1, |identity| identity.tid),
            ..Info::default()
        };
        Message::received(envelope.format & !WAITS, body, info)
    }

    /// A message for a call of this moment.
    pub(super) fn sought(&self, source: i32, tag: i32) -> Result<Sought, Code> {
        let (me, context, matches) = (self.tid()?, self.context, self.matches);
        Ok(Sought { me, source, tag, context, matches })
    }

    /// Messages may be asked for by source and tag where they are.
    fn is_plain(&self, sought: Sought) -> bool {
        sought.matches.is_none()
            && self.handlers.is_empty()
            && self.roles.is_empty()
            && sought.context != -1
    }

    /// Something came besides messages.
    pub(super) fn has_news(&self, vm: &dyn Vm) -> bool {
        vm.has_event() || self.notices.has_told()
    }

    fn first_fitting(&self, sought: Sought) -> Option<i32> {
        let mut id = self.buffers.next_waiting(0);
        while id != 0 {
            if self.buffers.get(id).is_ok_and(|message| sought.fits(&message.info)) {
                return Some(id);
            }
            id = self.buffers.next_waiting(id);
        }
        None
    }

    /// Takes messages over until one has a handler, `most` at most of other tasks: what a task
    /// sends itself is there at once, as with PVM. Then events: a task's end comes after what it
    /// sent.
    fn take_messages(&mut self, vm: &mut dyn Vm, most: usize) -> Result<Came, Code> {
        let (mut taken, me) = (0, self.tid().unwrap_or(-1));
        while taken < most
            && let Some(incoming) = vm.take()?
        {
            let mut message = self.message(incoming);
            if Self::is_system_message(&message.info) {
                let Some(shown) = self.take_system(vm, &message) else { continue };
                message = shown;
            }
            taken += usize::from(message.info.source != me);
            if let came @ Came::Handle(..) = self.sort(message) {
                return Ok(came);
            }
        }
        self.take_events(vm);
        while taken < most
            && let Some(message) = self.notices.next_told()
        {
            taken += 1;
            if let came @ Came::Handle(..) = self.sort(message) {
                return Ok(came);
            }
        }
        Ok(Came::Nothing)
    }

    /// A message has a handler, or waits.
    fn sort(&mut self, message: Message) -> Came {
        let Info { source, tag, context, .. } = message.info;
        if let Some((handler, sought)) = self.handlers.find(source, tag, context) {
            return Came::Handle(handler, sought, self.buffers.insert(message), context);
        }
        self.buffers.wait(message);
        Came::Nothing
    }

    /// Takes events over; what is to be told of them waits behind the messages that came.
    pub(super) fn take_events(&mut self, vm: &mut dyn Vm) {
        while let Some(event) = vm.event() {
            match event {
                Event::Watched { watch, tid, status } => self.watched(vm, watch, tid, status),
                Event::Output { tid, bytes } => self.print(tid, &bytes),
            }
        }
    }
}
