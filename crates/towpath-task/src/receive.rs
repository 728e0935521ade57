//! Receiving: by source and tag, with and without waiting.

use crate::deadline::Deadline;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use towpath_io::shared::{Kind, Spin, TINY_MAX, Woken};
use towpath_vm::matching::Wanted;
use towpath_wire::talk::Header;

use crate::error::{Lost, RecvError};
use crate::intake::LOOKS;
use crate::message::{Arrived, Choice, Message, Received, about, bytes};
use crate::parts::yields::AWAY;
use crate::rings::{QUOTA, Ring};
use crate::task::Task;

/// Neighbours looked at to decide whether to spin for a message from anybody.
const CARDS: usize = 16;

/// Looks that bring something between two looks at the clock and the memory limit: each may read
/// the socket sixteen times.
const BUSY: u32 = 4;

/// Rings glanced at for a message from anybody.
const GLANCES: usize = 4;

/// Records of each ring that are put among what waits at every [`LOOKS`]th receive.
const PASSED_OVER: usize = 4;

/// What every receive of bytes takes.
#[inline]
#[allow(clippy::unnecessary_wraps, reason = "a check that finds nothing wrong is one, too")]
const fn anything(_: &Received) -> Result<(), RecvError> {
    Ok(())
}

/// What is known of a message by the header of its pieces.
const fn sent_with(header: &Header) -> Received {
    let Header { src, tag, context, format, total, .. } = *header;
    Received { src, tag, context, format, len: total as usize }
}

impl Task {
    /// Receives the earliest message that fits; waits for it.
    pub fn recv(&mut self, wanted: &Wanted) -> Result<Message, RecvError> {
        let got = self.recv_until(wanted, Deadline::NEVER)?;
        Ok(got.expect("a wait without end ends with a message"))
    }

    /// Receives the earliest message that fits, if there is one.
    pub fn try_recv(&mut self, wanted: &Wanted) -> Result<Option<Message>, RecvError> {
        self.recv_until(wanted, Deadline::after(Some(Duration::ZERO)))
    }

    /// Receives the earliest message that fits; waits for it no longer than `timeout`.
    pub fn recv_timeout(
        &mut self,
        wanted: &Wanted,
        timeout: Duration,
    ) -> Result<Option<Message>, RecvError> {
        self.recv_until(wanted, Deadline::after(Some(timeout)))
    }

    /// Receives the earliest message that fits, if this task knows of it already or a glance at
    /// shared memory shows it: there is no system call. Where there is none, [`Task::wait`] takes
    /// in what has come otherwise.
    pub fn recv_at_hand(&mut self, wanted: &Wanted) -> Result<Option<Message>, RecvError> {
        self.waits.awaited = wanted.source;
        if self.waits.attention && self.attends()? {
            self.take_rings(QUOTA);
            self.advance();
            return Ok(self.endpoint.take(wanted).map(Message::new));
        }
        Ok(self.soon(true, &mut |task| task.take(wanted))?)
    }

    /// Receives the message that came first, of any source, tag and context, if there is one. What
    /// came behind it stays where it is.
    ///
    /// ```no_run
    /// # use towpath_task::Task;
    /// # let mut task = Task::enrol()?;
    /// while let Some(message) = task.recv_first()? {
    ///     println!("{} bytes from {}", message.bytes().len(), message.src());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_first(&mut self) -> Result<Option<Message>, RecvError> {
        self.check_origin()?;
        if self.waits.armed {
            self.disarm();
        }
        if self.endpoint.store().is_empty() {
            self.poll_unless_lost()?;
        }
        let first = self.endpoint.store().iter().next().map(|(ticket, _)| ticket);
        Ok(first.and_then(|ticket| self.endpoint.take_ticket(ticket)).map(Message::new))
    }

    /// Receives the earliest message that fits into `out`; waits for it. One that is longer than
    /// `out` stays where it is, and the error says how long it is.
    pub fn recv_into(&mut self, wanted: &Wanted, out: &mut [u8]) -> Result<Received, RecvError> {
        let got = self.fill_until(wanted, out, Deadline::NEVER, &anything)?;
        Ok(got.expect("a wait without end ends with a message"))
    }

    /// The same, but waits no longer than `timeout`. What `out` holds when nothing came in time
    /// is not said.
    pub fn recv_into_timeout(
        &mut self,
        wanted: &Wanted,
        out: &mut [u8],
        timeout: Duration,
    ) -> Result<Option<Received>, RecvError> {
        self.fill_until(wanted, out, Deadline::after(Some(timeout)), &anything)
    }

    /// Receives into `out` what `check` finds nothing wrong with.
    #[inline]
    pub(crate) fn fill_until(
        &mut self,
        wanted: &Wanted,
        out: &mut [u8],
        deadline: Deadline,
        check: &impl Fn(&Received) -> Result<(), RecvError>,
    ) -> Result<Option<Received>, RecvError> {
        self.waits.awaited = wanted.source;
        let glances = !deadline.is_over();
        if self.waits.attention && self.attends()? {
            let found = self.wait_for(deadline, &mut |task| task.stored_into(wanted, out, check));
            return found?.transpose();
        }
        if let Some(found) = self.soon(glances, &mut |task| task.take_into(wanted, out, check))? {
            self.rings.stop_copy(wanted);
            return found.map(Some);
        }
        let found = self.wait_for(deadline, &mut |task| task.take_into(wanted, out, check));
        // A message that was copied in part stays whole where it is.
        self.rings.stop_copy(wanted);
        found?.transpose()
    }

    /// Takes a message that waits into `out`.
    #[inline]
    fn stored_into(
        &mut self,
        wanted: &Wanted,
        out: &mut [u8],
        check: &impl Fn(&Received) -> Result<(), RecvError>,
    ) -> Option<Result<Received, RecvError>> {
        let room = out.len();
        let (ticket, waiting) = self.endpoint.probe(wanted)?;
        let about = about(waiting);
        let len = about.len;
        if let Err(e) = check(&about) {
            return Some(Err(e));
        }
        if len > room {
            return Some(Err(RecvError::TooLong { len, room }));
        }
        let taken = self.endpoint.take_ticket(ticket).expect("it was just seen");
        out[..len].copy_from_slice(bytes(&taken.payload.body));
        self.endpoint.reuse(taken.payload.body);
        Some(Ok(about))
    }

    #[inline]
    fn take_into(
        &mut self,
        wanted: &Wanted,
        out: &mut [u8],
        check: &impl Fn(&Received) -> Result<(), RecvError>,
    ) -> Option<Result<Received, RecvError>> {
        let room = out.len();
        if let Some(found) = self.stored_into(wanted, out, check) {
            return Some(found);
        }
        if let Some(received) =
            self.rings.take_tiny(wanted, &mut self.endpoint, out, |about| check(about).is_ok())
        {
            return Some(Ok(received));
        }
        if self.rings.may_fill()
            && let Some(header) =
                self.rings.copy_some(wanted, out, |header| check(&sent_with(header)).is_ok())
        {
            let about = sent_with(&header);
            self.endpoint.pass(about.src);
            self.rings.taken += 1;
            return Some(Ok(about));
        }
        let ring = self.rings.find(wanted, &mut self.endpoint)?;
        let arrival = ring.arrival();
        let about = ring.about(&arrival);
        let len = about.len;
        if let Err(e) = check(&about) {
            return Some(Err(e));
        }
        if len > room {
            return Some(Err(RecvError::TooLong { len, room }));
        }
        ring.take_into(&arrival, &mut out[..len]);
        self.endpoint.pass(about.src);
        self.rings.taken += 1;
        Some(Ok(about))
    }

    /// Takes the earliest message that fits if `check` finds nothing wrong with it; else it stays.
    fn take_checked(
        &mut self,
        wanted: &Wanted,
        check: &impl Fn(&Received) -> Result<(), RecvError>,
    ) -> Option<Result<Message, RecvError>> {
        let seen = if let Some((_, waiting)) = self.endpoint.probe(wanted) {
            about(waiting)
        } else {
            let ring = self.rings.find(wanted, &mut self.endpoint)?;
            ring.about(&ring.arrival())
        };
        if let Err(e) = check(&seen) {
            return Some(Err(e));
        }
        self.take(wanted).map(Ok)
    }

    /// Receives the earliest message that fits if `check` finds nothing wrong with it.
    pub(crate) fn message_until(
        &mut self,
        wanted: &Wanted,
        deadline: Deadline,
        check: &impl Fn(&Received) -> Result<(), RecvError>,
    ) -> Result<Option<Message>, RecvError> {
        self.waits.awaited = wanted.source;
        let glances = !deadline.is_over();
        if self.waits.attention && self.attends()? {
            let found = &mut |task: &mut Self| {
                let (_, waiting) = task.endpoint.probe(wanted)?;
                let checked = check(&about(waiting));
                Some(checked.map(|()| task.endpoint.take(wanted).map(Message::new)))
            };
            return Ok(self.wait_for(deadline, found)?.transpose()?.flatten());
        }
        if let Some(found) = self.soon(glances, &mut |task| task.take_checked(wanted, check))? {
            return found.map(Some);
        }
        self.wait_for(deadline, &mut |task| task.take_checked(wanted, check))?.transpose()
    }

    /// Takes the earliest message that fits: of those that wait, else straight from a ring.
    #[inline]
    fn take(&mut self, wanted: &Wanted) -> Option<Message> {
        if let Some(waiting) = self.endpoint.take(wanted) {
            return Some(Message::new(waiting));
        }
        let ring = self.rings.find(wanted, &mut self.endpoint)?;
        let arrival = ring.arrival();
        let about = ring.about(&arrival);
        let message = if about.len <= TINY_MAX && arrival.kind == Kind::Short {
            Message::tiny(about, |bytes| ring.take_into(&arrival, bytes))
        } else {
            Message::received(about, ring.take_body(&arrival))
        };
        self.endpoint.pass(about.src);
        self.rings.taken += 1;
        Some(message)
    }

    /// The earliest message that fits, if there is one; it stays.
    pub fn probe(&mut self, wanted: &Wanted) -> Result<Option<Received>, RecvError> {
        let seen = |task: &Self| task.endpoint.probe(wanted).map(|(_, w)| about(w));
        if let Some(found) = seen(self) {
            return Ok(Some(found));
        }
        self.poll()?;
        Ok(seen(self))
    }

    /// Receives the message that `choose` chooses among all that wait, of every context, in the
    /// order in which they came: the first that it says [`Choice::Take`] to, else the first with
    /// the highest [`Choice::Rank`]. While there is none, waits, and asks again about all of
    /// them when something came.
    pub fn recv_by(
        &mut self,
        timeout: Option<Duration>,
        choose: &mut dyn FnMut(&Arrived<'_>) -> Choice,
    ) -> Result<Option<Message>, RecvError> {
        let deadline = Deadline::after(timeout);
        loop {
            self.poll_unless_lost()?;
            let (seen, mut best) = (self.came(), None);
            for (ticket, waiting) in self.endpoint.store().iter() {
                let bytes = bytes(&waiting.payload.body);
                match choose(&Arrived { about: about(waiting), bytes }) {
                    Choice::Take => {
                        best = Some((ticket, u32::MAX));
                        break;
                    }
                    Choice::Rank(rank) if best.is_none_or(|(_, highest)| rank > highest) => {
                        best = Some((ticket, rank));
                    }
                    Choice::Rank(_) | Choice::Skip => {}
                }
            }
            if let Some((ticket, _)) = best {
                return Ok(self.endpoint.take_ticket(ticket).map(Message::new));
            }
            let came = self.wait_for(deadline, &mut |task| (task.came() != seen).then_some(()))?;
            if came.is_none() {
                return Ok(None);
            }
        }
    }

    fn recv_until(
        &mut self,
        wanted: &Wanted,
        deadline: Deadline,
    ) -> Result<Option<Message>, RecvError> {
        self.waits.awaited = wanted.source;
        // Who does not wait does not spin either.
        let glances = !deadline.is_over();
        if self.waits.attention && self.attends()? {
            return self
                .wait_for(deadline, &mut |task| task.endpoint.take(wanted).map(Message::new));
        }
        if let Some(message) = self.soon(glances, &mut |task| task.take(wanted))? {
            return Ok(Some(message));
        }
        self.wait_for(deadline, &mut |task| task.take(wanted))
    }

    /// What a receive finds at once, or after a glance at the rings: what comes from a neighbour
    /// that runs costs no system call. Now and then, descriptors have their turn.
    #[inline]
    fn soon<T>(
        &mut self,
        glances: bool,
        found: &mut impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<Option<T>, Lost> {
        self.check_origin()?;
        self.waits.looks += 1;
        if self.waits.looks >= LOOKS {
            self.look_elsewhere();
        }
        let mut glances = glances;
        loop {
            let found = found(self);
            if found.is_some() || !std::mem::take(&mut glances) || !self.glance() {
                return Ok(found);
            }
        }
    }

    /// Takes in what descriptors have, and some of what receives have passed over in rings: behind
    /// what nobody asks for, or while others always had something. An error is remembered.
    #[cold]
    fn look_elsewhere(&mut self) {
        if let Some(home) = &self.home {
            home.run();
        }
        self.look();
        let _ = self.read_descriptors().and_then(|_| self.flush());
        if self.rings.len() > 1 || !self.endpoint.store().is_empty() {
            self.take_rings(PASSED_OVER);
        }
    }

    /// Looks for a moment at the rings of those who are awaited, if they run on other processors.
    #[inline]
    fn glance(&mut self) -> bool {
        let (Some(home), Some(waiter)) = (&self.home, &mut self.waits.waiter) else { return false };
        let own = home.card();
        if let Some(peer) = self.waits.awaited {
            let ring = self.rings.get(peer);
            return ring
                .is_some_and(|ring| ring.card.is_beside(own) && waiter.glance(|| ring.ready()));
        }
        let rings = &mut self.rings;
        let beside = rings.iter_mut().take(GLANCES).any(|ring| ring.card.is_beside(own));
        beside && waiter.glance(|| rings.iter_mut().take(GLANCES).any(Ring::ready))
    }

    /// Takes in what is there; true when something new came: a message or an event.
    pub fn poll(&mut self) -> Result<bool, RecvError> {
        self.check()?;
        let before = self.came();
        self.poll_unless_lost()?;
        Ok(self.came() != before)
    }

    /// Takes in what is there. That the daemon is gone is said only when nothing came before.
    fn poll_unless_lost(&mut self) -> Result<(), RecvError> {
        self.check_origin()?;
        let before = self.came();
        match self.take_in().and_then(|_| self.flush()) {
            Err(_) if self.came() != before => Ok(()),
            other => Ok(other?),
        }
    }

    /// Waits until something new comes, a message or an event; false: `timeout` was over first.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, RecvError> {
        let before = self.came();
        self.waits.awaited = None;
        let came = self.wait_for(Deadline::after(timeout), &mut |task| {
            (task.came() != before).then_some(())
        })?;
        Ok(came.is_some())
    }

    /// To be called before [`Task::descriptor`] is waited for: takes in what is there. True: go
    /// ahead and wait; false: something came, look at it first.
    pub fn arm(&mut self) -> Result<bool, RecvError> {
        self.check()?;
        if let Some(home) = &self.home {
            home.card().sleep();
            (self.waits.armed, self.waits.attention) = (true, true);
            // What the bell announced so far is found below. Left unread, it would keep the
            // descriptor readable.
            self.look();
        }
        let before = self.came();
        self.poll_unless_lost()?;
        let came = self.came() != before;
        if came {
            self.disarm();
        } else if let Some(waiter) = &self.waits.waiter {
            self.routes.alarm(waiter, true);
        }
        Ok(!came)
    }

    /// As [`Task::wait`], up to where it would sleep. True: nothing came; now
    /// [`Task::descriptor`] may be waited for, until [`Task::wakes_at`]. False: something came,
    /// look at it first.
    pub fn settle(&mut self) -> Result<bool, RecvError> {
        self.check_origin()?;
        if self.waits.armed {
            self.disarm();
        }
        let before = self.came();
        loop {
            self.check()?;
            // An error is remembered, and comes back from the check.
            let any = self.take_in().and_then(|any| self.flush().map(|()| any)).unwrap_or(true);
            if self.came() != before {
                return Ok(false);
            }
            if let Some(full) = self.full() {
                return Err(full.into());
            }
            if !any {
                break;
            }
        }
        let idle = self.look_for_a_moment(false);
        self.waits.armed = idle && self.home.is_some();
        self.waits.attention |= self.waits.armed;
        Ok(idle)
    }

    /// Whether whoever waits for [`Task::descriptor`] is woken by whatever comes: not once this
    /// task has looked for messages since [`Task::arm`].
    pub const fn is_armed(&self) -> bool {
        self.waits.armed || self.home.is_none()
    }

    /// When to look again, whatever the descriptor says.
    pub fn wakes_at(&self) -> Option<Instant> {
        self.routes.deadline()
    }

    /// This task runs again: peers need not ring its bell.
    pub(crate) fn disarm(&mut self) {
        self.waits.armed = false;
        if let Some(home) = &self.home {
            home.run();
        }
        if let Some(waiter) = &self.waits.waiter {
            self.routes.alarm(waiter, false);
        }
        // Bells that have rung are not to end the next wait.
        if self.routes.is_idle() {
            self.look();
        }
    }

    /// Readable when [`Task::poll`] has something to do, for a program that waits for other
    /// things as well; see [`Task::arm`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.waits.waiter.as_ref().map_or_else(|| self.link.as_fd(), AsFd::as_fd)
    }

    /// Takes in what comes until `found` finds something; `None`: the time was over first.
    pub(crate) fn wait_for<T>(
        &mut self,
        deadline: Deadline,
        found: &mut dyn FnMut(&mut Self) -> Option<T>,
    ) -> Result<Option<T>, RecvError> {
        self.check_origin()?;
        if self.waits.armed {
            self.disarm();
        }
        let (mut busy, mut late) = (0_u32, 0_u32);
        loop {
            // What came before the daemon went is given out still.
            if let Some(found) = found(self) {
                return Ok(Some(found));
            }
            self.check()?;
            // An error is remembered, and comes back from the check.
            let any = self.take_known().and_then(|any| self.flush().map(|()| any)).unwrap_or(true);
            busy = if any { busy + 1 } else { 0 };
            if any && !busy.is_multiple_of(BUSY) {
                continue;
            }
            // What was written meanwhile may be what is waited for.
            if let Some(found) = found(self) {
                return Ok(Some(found));
            }
            if let Some(full) = self.full().or_else(|| self.called_off()) {
                return Err(full.into());
            }
            match (any, deadline.is_over()) {
                (true, false) => {}
                (false, false) => self.sleep(deadline)?,
                (false, true) if late < BUSY && self.look() => late += 1,
                (_, true) => return Ok(None),
            }
        }
    }

    /// Looks at the rings for as long as it pays; `may_yield`: others may have the processor
    /// meanwhile. True: nothing came, and whatever comes rings the bell.
    fn look_for_a_moment(&mut self, may_yield: bool) -> bool {
        let (Some(home), Some(waiter)) = (&self.home, &mut self.waits.waiter) else { return true };
        let rings = &mut self.rings;
        let awaited = self.waits.awaited.and_then(|peer| rings.get(peer)).map(|ring| &ring.card);
        let spin = match awaited {
            Some(card) => Spin::advised(home.card(), [card]),
            None => Spin::advised(home.card(), rings.iter_mut().take(CARDS).map(|r| &r.card)),
        };
        let (wants_room, words) = (self.sending.wants_room, &self.ends.words);
        let no_room = &self.started.no_room;
        let mut there = || {
            rings.iter_mut().any(Ring::ready)
                || words.has_news()
                || wants_room.is_some_and(|peer| rings.get(peer).is_none_or(Ring::has_room))
                || no_room.iter().any(|peer| rings.get(*peer).is_none_or(Ring::has_room))
        };
        if may_yield && spin.is_wanted_here() && self.waits.yields.let_others_run(&mut there) {
            return false;
        }
        waiter.settle(home.card(), spin, there)
    }

    /// Sleeps until something may have come or `deadline` is over.
    fn sleep(&mut self, deadline: Deadline) -> Result<(), Lost> {
        let until = [deadline.0, self.routes.deadline()].into_iter().flatten().min();
        if !self.look_for_a_moment(Deadline(until).is_beyond(AWAY)) {
            return Ok(());
        }
        let (Some(home), Some(waiter)) = (&self.home, &mut self.waits.waiter) else {
            let waited = self.link.wait(PollFlags::IN, deadline.left().as_ref());
            return waited.map_err(|lost| self.lose(lost));
        };
        let woken = waiter.sleep(home.card(), until);
        self.counts.sleeps += u64::from(!matches!(woken, Ok(Woken::Ready)));
        match woken {
            Ok(Woken::Descriptors) => self.seen(),
            Ok(_) => {}
            Err(e) => return Err(self.lose(Lost::Daemon(e.to_string()))),
        }
        Ok(())
    }
}
