//! Channels of this task's own: each has its order, its room and its place among what hosts send,
//! and waits for no other.

pub use crate::parts::channels::Channel;
use crate::parts::channels::{Held, State};
use std::io::IoSlice;
use std::time::Duration;

use towpath_vm::channel::{ChannelSpec, ChannelStatus, Class};
use towpath_vm::talk::{Answer, Question, ToDaemon};
use towpath_wire::TaskId;
use towpath_wire::talk::{ChannelFront, FRAME_HEAD_LEN, FrameHead, FrameKind};

use crate::deadline::Deadline;
use crate::error::{AskError, ChannelError, Lost, OpenError};
use crate::task::Task;

impl Task {
    /// Opens a channel to `to` and waits until it stands there: one round trip. The other task
    /// finds it by [`Task::accept_channel`], once it has enrolled; both may send.
    ///
    /// A channel ends when one of the two closes it or ends, or when the connection between their
    /// hosts does. It does not come back by itself: open another.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use towpath_task::{ChannelSpec, Class, Task};
    /// let mut task = Task::enrol()?;
    /// let to = task.parent().ok_or("nobody spawned this task")?;
    /// // Positions, each of use for 20 ms: none waits for an older one.
    /// let deadline = Some(Duration::from_millis(20));
    /// let spec = ChannelSpec { class: Class::Timely, deadline, ..ChannelSpec::default() };
    /// let channel = task.open_channel(to, &spec)?;
    /// task.send_on(channel, b"51.5 N 0.1 W")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_channel(&mut self, to: TaskId, spec: &ChannelSpec) -> Result<Channel, OpenError> {
        let opened = self.open_channel_by(to, spec, Deadline::NEVER)?;
        Ok(opened.expect("a wait without end ends with an answer"))
    }

    /// The same, but waits no longer than `timeout`; `None`: it did not stand in that time, and is
    /// wanted no more.
    pub fn open_channel_within(
        &mut self,
        to: TaskId,
        spec: &ChannelSpec,
        timeout: Duration,
    ) -> Result<Option<Channel>, OpenError> {
        self.open_channel_by(to, spec, Deadline::after(Some(timeout)))
    }

    fn open_channel_by(
        &mut self,
        to: TaskId,
        spec: &ChannelSpec,
        deadline: Deadline,
    ) -> Result<Option<Channel>, OpenError> {
        self.check()?;
        let number = self.channels.next;
        self.channels.next = number.wrapping_add(2);
        self.channels.all.insert(number, Held::new(to, *spec, State::Opening));
        self.say(&ToDaemon::OpenChannel { number, to, spec: *spec })?;
        let stands =
            self.wait_for(deadline, &mut |task| match &task.channels.all.get(&number)?.state {
                State::Opening => None,
                State::Refused(fault) => Some(Err(fault.clone())),
                State::Open | State::Over(_) => Some(Ok(())),
            });
        if let Ok(Some(Ok(()))) = stands {
            return Ok(Some(Channel { number, peer: to }));
        }
        self.channels.all.remove(&number);
        if let Ok(Some(Err(fault))) = stands {
            return Err(OpenError::Refused(fault));
        }
        // Nobody will take the answer.
        self.queue(&ToDaemon::CloseChannel { number });
        stands.map_err(AskError::from)?;
        self.flush()?;
        Ok(None)
    }

    /// The channel that another task opened to this one, the earliest that was not accepted yet,
    /// and what it is; waits for one no longer than `timeout` (`None`: as long as it takes).
    /// Messages may have come on it already.
    pub fn accept_channel(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<Option<(Channel, ChannelSpec)>, ChannelError> {
        let found = self.wait_for(Deadline::after(timeout), &mut |task| {
            let number = task.channels.offers.pop_front()?;
            let held = task.channels.all.get(&number)?;
            Some((Channel { number, peer: held.peer }, held.spec))
        })?;
        Ok(found)
    }

    /// Sends a message; waits while the channel has no room for it. On a timely channel it is of
    /// use for as long as the channel's specification says.
    pub fn send_on(&mut self, channel: Channel, bytes: &[u8]) -> Result<(), ChannelError> {
        self.send_until(channel, bytes, None, Deadline::NEVER).map(|_| ())
    }

    /// Sends a message if the channel has room for it now; false: it has none.
    pub fn try_send_on(&mut self, channel: Channel, bytes: &[u8]) -> Result<bool, ChannelError> {
        self.send_until(channel, bytes, None, Deadline::after(Some(Duration::ZERO)))
    }

    /// Sends a message that is of use for so long from now, on a timely channel. One for which no
    /// room is found in that time is not sent: [`ChannelError::TooLate`].
    pub fn send_on_within(
        &mut self,
        channel: Channel,
        bytes: &[u8],
        left: Duration,
    ) -> Result<(), ChannelError> {
        if self.channels.get(channel)?.spec.class != Class::Timely {
            return Err(ChannelError::NotTimely);
        }
        let until = std::time::Instant::now().checked_add(left);
        let late = Err(ChannelError::TooLate);
        if left.is_zero() {
            return late;
        }
        let sent = self.send_until(channel, bytes, until, Deadline::after(Some(left)))?;
        if sent { Ok(()) } else { late }
    }

    fn send_until(
        &mut self,
        channel: Channel,
        bytes: &[u8],
        of_use_until: Option<std::time::Instant>,
        deadline: Deadline,
    ) -> Result<bool, ChannelError> {
        self.check()?;
        let number = channel.number;
        let spec = self.channels.get(channel)?.spec;
        let (len, limit) = (bytes.len(), spec.longest() as usize);
        if len > limit {
            return Err(ChannelError::TooLong { len, limit });
        }
        let cost = spec.cost(len as u32);
        let found = self.wait_for(deadline, &mut |task| {
            let Some(held) = task.channels.all.get_mut(&number) else {
                return Some(Err(ChannelError::NotOpen));
            };
            if let State::Over(why) = held.state {
                return Some(Err(ChannelError::Closed(why)));
            }
            let left = held.room.checked_sub(cost)?;
            held.room = left;
            Some(Ok(()))
        })?;
        let Some(room) = found else { return Ok(false) };
        room?;
        let now = std::time::Instant::now();
        let left = of_use_until.map(|until| until.saturating_duration_since(now));
        let front = ChannelFront { number, left }.emit();
        let len = ChannelFront::LEN + bytes.len();
        let head = FrameHead { kind: FrameKind::Channel, len }.emit();
        let slices = [IoSlice::new(&head), IoSlice::new(&front), IoSlice::new(bytes)];
        // What was said before goes before.
        self.flush()?;
        self.write_whole(&slices, FRAME_HEAD_LEN + len)?;
        Ok(true)
    }

    /// The next message of a channel: in order on an ordered one, else as they come. Waits for it
    /// no longer than `timeout` (`None`: as long as it takes). What came before a channel was
    /// closed is received before [`ChannelError::Closed`] says so.
    pub fn recv_on(
        &mut self,
        channel: Channel,
        timeout: Option<Duration>,
    ) -> Result<Option<Vec<u8>>, ChannelError> {
        self.recv_on_up_to(channel, usize::MAX, timeout)
    }

    /// The same, into `out`: its length. A message that is longer than `out` stays where it is, and
    /// [`ChannelError::NoRoom`] says how long it is.
    pub fn recv_on_into(
        &mut self,
        channel: Channel,
        out: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<Option<usize>, ChannelError> {
        let Some(bytes) = self.recv_on_up_to(channel, out.len(), timeout)? else { return Ok(None) };
        out[..bytes.len()].copy_from_slice(&bytes);
        Ok(Some(bytes.len()))
    }

    fn recv_on_up_to(
        &mut self,
        channel: Channel,
        room: usize,
        timeout: Option<Duration>,
    ) -> Result<Option<Vec<u8>>, ChannelError> {
        let number = channel.number;
        let found = self.wait_for(Deadline::after(timeout), &mut |task| {
            task.channels.take(number, room).transpose()
        })?;
        let Some((bytes, tell)) = found.transpose()? else { return Ok(None) };
        if tell {
            self.flush()?;
        }
        Ok(Some(bytes))
    }

    /// How a channel stands.
    pub fn channel_status(&mut self, channel: Channel) -> Result<ChannelStatus, AskError> {
        match self.ask(Question::Channel(channel.number))? {
            Answer::Channel(status) => Ok(*status),
            _ => Err(AskError::Unexpected),
        }
    }

    /// This task's channels, those that are over and were not closed included.
    pub fn channels(&self) -> impl Iterator<Item = (Channel, ChannelSpec)> + '_ {
        let all = self.channels.all.iter();
        all.map(|(&number, held)| (Channel { number, peer: held.peer }, held.spec))
    }

    /// The channel of this number, if this task has it.
    pub fn channel(&self, number: u32) -> Option<Channel> {
        let held = self.channels.all.get(&number)?;
        Some(Channel { number, peer: held.peer })
    }

    /// Closes a channel. What was sent on it is delivered; what came on it and was not received is
    /// dropped.
    pub fn close_channel(&mut self, channel: Channel) -> Result<(), ChannelError> {
        let Some(held) = self.channels.all.remove(&channel.number) else {
            return Err(ChannelError::NotOpen);
        };
        self.channels.untold.retain(|number| *number != channel.number);
        self.channels.offers.retain(|number| *number != channel.number);
        if !matches!(held.state, State::Over(_)) {
            self.say(&ToDaemon::CloseChannel { number: channel.number })?;
        }
        Ok(())
    }

    /// Queues what the daemon is to hear of messages received.
    pub(crate) fn queue_untold(&mut self) {
        while let Some(say) = self.channels.next_untold() {
            self.queue(&say);
        }
    }

    /// A message on a channel came.
    pub(crate) fn take_on_channel(&mut self, body: std::ops::Range<usize>) -> Result<(), Lost> {
        let split = ChannelFront::split(self.link.body(body));
        let broken = |e| Lost::Daemon(format!("it sent a channel frame: {e}"));
        let (front, bytes) = split.map_err(broken)?;
        self.channels.arrived(front.number, bytes);
        self.news.count += 1;
        Ok(())
    }
}
