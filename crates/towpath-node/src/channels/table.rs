//! Which channels tasks of this host have, whose the channels of connections are, and how much of
//! each task's room is in use. It says what is to be done and does nothing itself.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound;
use core::time::Duration;

use towpath_proto::AssociationId;
use towpath_vm::channel::{
    CHANNELS_MAX, ChannelSpec, ENROL_WAIT, HERE_MAX, OPENS_PER_SECOND, THERE_MAX,
};
use towpath_vm::message::ChannelAsk;
use towpath_wire::frame::ChannelOpen;
use towpath_wire::{ChannelId, HostId, Instant, LinkId, TaskId};

use crate::delays::Delays;

/// A task's channel, by its number there.
pub(crate) type EndId = (TaskId, u32);
/// A channel of a connection.
pub(crate) type Wire = (AssociationId, ChannelId);

/// Where the other end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// On this host.
    Here(EndId),
    /// At the other end of a connection.
    There(Wire),
    /// The connection is not there yet, or the task has not enrolled.
    Wanted,
}

/// One end of a channel. Invariants: `in_use` is what [`ChannelSpec::cost`] says of the messages
/// that were sent and are not settled, `freed` of those that are and whose sender was not told;
/// together they are at most its window. `given` has the lengths of those that its task was handed
/// and did not receive.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) peer: TaskId,
    pub(crate) spec: ChannelSpec,
    pub(crate) line: Line,
    /// Its task may send.
    pub(crate) open: bool,
    pub(crate) in_use: u64,
    freed: u64,
    given: VecDeque<u32>,
    /// On one host: messages sent and given up, and the bytes of the first.
    pub(crate) sent: (u64, u64),
    pub(crate) abandoned: u64,
    pub(crate) received: (u64, u64),
}

impl End {
    pub(crate) fn new(peer: TaskId, spec: ChannelSpec, line: Line, open: bool) -> Self {
        Self {
            peer,
            spec,
            line,
            open,
            in_use: 0,
            freed: 0,
            given: VecDeque::new(),
            sent: (0, 0),
            abandoned: 0,
            received: (0, 0),
        }
    }

    /// A message of so many bytes takes its room; false: there is not as much.
    pub(crate) fn take_room(&mut self, len: u32) -> bool {
        let cost = self.spec.cost(len);
        let fits = self.in_use + self.freed + cost <= u64::from(self.spec.window);
        self.in_use += if fits { cost } else { 0 };
        fits
    }

    /// A message is settled. The room to tell the sender of: a quarter of all at once, or what
    /// there is when nothing is under way.
    pub(crate) fn settle(&mut self, len: u32) -> Option<u64> {
        let cost = self.spec.cost(len).min(self.in_use);
        self.in_use -= cost;
        self.freed += cost;
        let tells = self.in_use == 0 || self.freed >= u64::from(self.spec.window / 4);
        tells.then(|| core::mem::take(&mut self.freed))
    }

    /// A message goes to the task.
    pub(crate) fn give(&mut self, len: u32) {
        self.received = (self.received.0 + 1, self.received.1 + u64::from(len));
        self.given.push_back(len);
    }

    /// The lengths of the messages that it was handed and did not receive.
    pub(crate) fn unreceived(&self) -> impl Iterator<Item = u32> + '_ {
        self.given.iter().copied()
    }

    /// Nobody is at the other end yet, and it leads to `peer`.
    pub(crate) fn wants(&self, peer: TaskId) -> bool {
        self.line == Line::Wanted && !self.open && self.peer == peer
    }

    /// The task received the oldest so many messages: their lengths; `None`: more than it was
    /// handed.
    pub(crate) fn take(&mut self, messages: u32) -> Option<Vec<u32>> {
        let messages = usize::try_from(messages).ok().filter(|n| *n <= self.given.len())?;
        Some(self.given.drain(..messages).collect())
    }
}

/// What a connection's channel carries. It stays until both sides have ended it and everything of
/// ours is settled.
#[derive(Debug, Default)]
pub(crate) struct Carrier {
    /// The task's channel; `None`: its task is done with it.
    pub(crate) end: Option<EndId>,
    /// Messages that the transport has.
    under_way: u32,
    ended_by_us: bool,
    ended_by_peer: bool,
    /// It is, or is to be, reserved on this link.
    pub(crate) reserved: Option<LinkId>,
    /// The peer was not told yet whose it is.
    pub(crate) unsaid: bool,
    /// How long messages take.
    pub(crate) delays: Delays,
}

impl Carrier {
    /// The peer sends nothing more.
    pub(crate) const fn ended_by_peer(&self) -> bool {
        self.ended_by_peer
    }
}

/// Opens in the last second, as a bucket: when it was last looked at, and what was left.
#[derive(Debug)]
struct Opens {
    at: Instant,
    left: u32,
}

/// A channel that another task wants, until that task's own is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// The other end.
    pub(crate) line: Line,
    pub(crate) from: TaskId,
    pub(crate) spec: ChannelSpec,
}

/// One that waits until then.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    until: Instant,
    wish: Wish,
}

/// All of them. Invariants: the line of each of `all` that is [`Line::Here`] names an end whose
/// line names it, [`Line::There`] an entry of `carriers` that names it.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    all: BTreeMap<EndId, End>,
    pub(crate) carriers: BTreeMap<Wire, Carrier>,
    opens: BTreeMap<TaskId, Opens>,
    /// Channels that a peer opened and did not say whose they are.
    pub(crate) nameless: BTreeMap<Wire, ChannelOpen>,
    /// What a peer said of channels that it has not opened; `None`: that they are nobody's.
    named: BTreeMap<Wire, Option<ChannelAsk>>,
    /// How many of these each association has; none has none.
    named_on: BTreeMap<AssociationId, usize>,
    /// For tasks that have not enrolled yet: of each the oldest first, and none that has nothing.
    awaiting: BTreeMap<TaskId, Vec<Awaited>>,
    /// No later than the first of them gives up.
    awaited_until: Option<Instant>,
    /// For hosts without a connection.
    unconnected: BTreeMap<HostId, Vec<EndId>>,
    /// Room of the ends whose line is [`Line::Here`], in bytes.
    here: u64,
    /// Room of those whose line is [`Line::There`].
    there: u64,
    /// Numbers given to offered channels so far.
    offered: u32,
}

impl Ends {
    pub(crate) fn get_mut(&mut self, id: EndId) -> Option<&mut End> {
        self.all.get_mut(&id)
    }

    pub(crate) fn get(&self, id: EndId) -> Option<&End> {
        self.all.get(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len() + self.carriers.len() + self.nameless.len() + self.named.len()
    }

    pub(crate) fn insert(&mut self, id: EndId, end: End) {
        let line = end.line;
        self.all.insert(id, end);
        self.leads(id, line);
    }

    /// A peer opened a channel; whose it is, it has yet to say.
    pub(crate) fn opened(&mut self, wire: Wire, open: ChannelOpen) {
        self.nameless.insert(wire, open);
        self.carriers.entry(wire).or_default();
    }

    fn carry(&mut self, wire: Wire, id: EndId) {
        self.carriers.entry(wire).or_default().end = Some(id);
    }

    /// The other end of a channel is known now.
    pub(crate) fn lead(&mut self, id: EndId, line: Line) {
        if let Some(end) = self.all.get_mut(&id) {
            end.line = line;
            self.leads(id, line);
        }
    }

    fn leads(&mut self, id: EndId, line: Line) {
        let window = self.all.get(&id).map_or(0, |end| u64::from(end.spec.window));
        match line {
            Line::There(wire) => {
                self.there += window;
                self.carry(wire, id);
            }
            Line::Here(_) => self.here += window,
            Line::Wanted => {}
        }
    }

    /// Why there cannot be another channel between a task of this host and one of another.
    pub(crate) fn check_there(&self, spec: &ChannelSpec) -> Result<(), (&'static str, u64)> {
        if self.there + u64::from(spec.window) <= THERE_MAX {
            return Ok(());
        }
        Err(("room of all channels to other hosts, in bytes", THERE_MAX))
    }

    /// Why there cannot be another channel between tasks of this host.
    pub(crate) fn check_here(&self, spec: &ChannelSpec) -> Result<(), (&'static str, u64)> {
        if self.here + 2 * u64::from(spec.window) <= HERE_MAX {
            return Ok(());
        }
        Err(("room of all channels within one host, in bytes", HERE_MAX))
    }

    /// A task is done with a channel; the caller sees to its line.
    pub(crate) fn remove(&mut self, id: EndId) -> Option<End> {
        let end = self.all.remove(&id)?;
        match end.line {
            Line::There(wire) => {
                self.there -= u64::from(end.spec.window);
                if let Some(carrier) = self.carriers.get_mut(&wire) {
                    carrier.end = None;
                }
            }
            Line::Here(_) => self.here -= u64::from(end.spec.window),
            Line::Wanted => {}
        }
        Some(end)
    }

    /// How long messages of a channel take; `None`: it is not on a connection.
    pub(crate) fn delays(&self, id: EndId) -> Option<&Delays> {
        match self.all.get(&id)?.line {
            Line::There(wire) => Some(&self.carriers.get(&wire)?.delays),
            Line::Here(_) | Line::Wanted => None,
        }
    }

    /// The numbers of a task's channels.
    pub(crate) fn of(&self, task: TaskId) -> Vec<u32> {
        self.all.range((task, 0)..=(task, u32::MAX)).map(|((_, number), _)| *number).collect()
    }

    /// The first one behind `last`, or of all.
    pub(crate) fn after(&self, last: Option<EndId>) -> Option<EndId> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.all.range((from, Bound::Unbounded)).next().map(|(id, _)| *id)
    }

    /// How many channels a task has, and what is reserved for what it sends on them, in bits a
    /// second.
    pub(crate) fn summary(&self, task: TaskId) -> (u32, u64) {
        let (mut count, mut bps) = (0, 0);
        for (_, end) in self.all.range((task, 0)..=(task, u32::MAX)) {
            count += 1;
            let Line::There(wire) = end.line else { continue };
            let reserved = self.carriers.get(&wire).is_some_and(|c| c.reserved.is_some());
            if let Some(reserve) = end.spec.reserve.filter(|_| reserved && end.open) {
                bps += reserve.bits_per_second();
            }
        }
        (count, bps)
    }

    pub(crate) fn count(&self, task: TaskId) -> usize {
        self.all.range((task, 0)..=(task, u32::MAX)).count()
    }

    /// Why a task may not have another channel.
    pub(crate) fn check_count(&self, task: TaskId) -> Result<(), (&'static str, u64)> {
        let has = self.count(task) + self.awaiting.get(&task).map_or(0, Vec::len);
        if has < CHANNELS_MAX {
            return Ok(());
        }
        Err(("channels of a task", CHANNELS_MAX as u64))
    }

    /// A task opens one: why it may not, now.
    pub(crate) fn check_open(
        &mut self,
        now: Instant,
        task: TaskId,
    ) -> Result<(), (&'static str, u64)> {
        self.check_count(task)?;
        let opens = self.opens.entry(task).or_insert(Opens { at: now, left: OPENS_PER_SECOND });
        let each = Duration::from_secs(1) / OPENS_PER_SECOND;
        let more = now.since(opens.at).as_nanos() / each.as_nanos();
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            opens.left = opens.left.saturating_add(more).min(OPENS_PER_SECOND);
            opens.at = if opens.left == OPENS_PER_SECOND { now } else { opens.at + each * more };
        }
        let left = opens.left.checked_sub(1);
        opens.left =
            left.ok_or(("channels that a task opens in a second", OPENS_PER_SECOND.into()))?;
        Ok(())
    }

    /// A number for a channel that is offered to `task`.
    pub(crate) fn number_for(&mut self, task: TaskId) -> u32 {
        loop {
            let number = self.offered.wrapping_mul(2) | 1;
            self.offered = self.offered.wrapping_add(1);
            if !self.all.contains_key(&(task, number)) {
                return number;
            }
        }
    }

    /// A channel waits for `task` to enrol, for [`ENROL_WAIT`] at most.
    pub(crate) fn await_enrolment(&mut self, now: Instant, task: TaskId, wish: Wish) {
        let until = now + ENROL_WAIT;
        self.awaited_until.get_or_insert(until);
        self.awaiting.entry(task).or_default().push(Awaited { until, wish });
    }

    /// When the first of them has waited long enough, or before.
    pub(crate) const fn awaited_until(&self) -> Option<Instant> {
        self.awaited_until
    }

    /// Those that have.
    pub(crate) fn waited_in_vain(&mut self, now: Instant) -> Vec<Wish> {
        let mut vain = Vec::new();
        if self.awaited_until.is_none_or(|until| until > now) {
            return vain;
        }
        self.awaiting.retain(|_, all| {
            vain.extend(all.extract_if(.., |of| of.until <= now).map(|of| of.wish));
            !all.is_empty()
        });
        self.awaited_until =
            self.awaiting.values().filter_map(|all| Some(all.first()?.until)).min();
        vain
    }

    /// What waits for a task that takes part now, or never will.
    pub(crate) fn awaited(&mut self, task: TaskId) -> Vec<Wish> {
        self.awaiting.remove(&task).unwrap_or_default().into_iter().map(|of| of.wish).collect()
    }

    pub(crate) fn await_connection(&mut self, host: HostId, id: EndId) {
        self.unconnected.entry(host).or_default().push(id);
    }

    /// What waits for a connection that stands now, or never will.
    pub(crate) fn unconnected(&mut self, host: HostId) -> Vec<EndId> {
        self.unconnected.remove(&host).unwrap_or_default()
    }

    /// A channel that nobody was at the other end of is closed: nothing waits for it any more.
    pub(crate) fn forget_wanted(&mut self, id: EndId, peer: TaskId) {
        if let Some(wishes) = self.awaiting.get_mut(&peer) {
            wishes.retain(|of| of.wish.line != Line::Here(id));
            if wishes.is_empty() {
                self.awaiting.remove(&peer);
            }
        }
        if let Some(waiting) = self.unconnected.get_mut(&peer.host()) {
            waiting.retain(|of| *of != id);
        }
    }

    /// Channels of an association that its peer has named and not opened.
    pub(crate) fn named_on(&self, id: AssociationId) -> usize {
        self.named_on.get(&id).copied().unwrap_or(0)
    }

    /// A peer says whose a channel is.
    pub(crate) fn name(&mut self, wire: Wire, ask: Option<ChannelAsk>) {
        if self.named.insert(wire, ask).is_none() {
            *self.named_on.entry(wire.0).or_default() += 1;
        }
    }

    /// What it said of one that it has opened, too.
    pub(crate) fn matched(&mut self, wire: Wire) -> Option<(ChannelOpen, Option<ChannelAsk>)> {
        if !self.nameless.contains_key(&wire) {
            return None;
        }
        let ask = self.named.remove(&wire)?;
        if let Some(named) = self.named_on.get_mut(&wire.0) {
            *named -= 1;
            if *named == 0 {
                self.named_on.remove(&wire.0);
            }
        }
        Some((self.nameless.remove(&wire)?, ask))
    }

    /// The transport has a message.
    pub(crate) fn departs(&mut self, wire: Wire, number: u64, now: Instant) {
        if let Some(carrier) = self.carriers.get_mut(&wire) {
            carrier.under_way += 1;
            carrier.delays.departs(number, now);
        }
    }

    /// A message is settled.
    pub(crate) fn settled(&mut self, wire: Wire) -> Option<EndId> {
        let carrier = self.carriers.get_mut(&wire)?;
        carrier.under_way -= 1;
        let end = carrier.end;
        self.tidy(wire);
        end
    }

    /// A channel is no longer reserved: on which link it was.
    pub(crate) fn unreserve(&mut self, wire: Wire) -> Option<LinkId> {
        self.carriers.get_mut(&wire)?.reserved.take()
    }

    /// The peer is told whose a channel is; true when it was not told before.
    pub(crate) fn is_said(&mut self, wire: Wire) -> bool {
        self.carriers.get_mut(&wire).is_some_and(|c| core::mem::take(&mut c.unsaid))
    }

    /// The channels of a connection that are reserved.
    pub(crate) fn reserved_on(&self, id: AssociationId) -> Vec<Wire> {
        let all = (id, ChannelId(0))..=(id, ChannelId(u32::MAX));
        let reserved = self.carriers.range(all).filter(|(_, c)| c.reserved.is_some());
        reserved.map(|(wire, _)| *wire).collect()
    }

    /// We send nothing more on it.
    pub(crate) fn end_ours(&mut self, wire: Wire) {
        if let Some(carrier) = self.carriers.get_mut(&wire) {
            carrier.ended_by_us = true;
        }
        self.tidy(wire);
    }

    /// The peer sends nothing more on it.
    pub(crate) fn end_theirs(&mut self, wire: Wire) {
        if let Some(carrier) = self.carriers.get_mut(&wire) {
            carrier.ended_by_peer = true;
        }
        self.tidy(wire);
    }

    fn tidy(&mut self, wire: Wire) {
        let over = |c: &Carrier| c.ended_by_us && c.ended_by_peer && c.under_way == 0;
        if self.carriers.get(&wire).is_some_and(over) {
            self.carriers.remove(&wire);
        }
    }

    /// An association is over, and so are its channels: whose they were.
    pub(crate) fn cut(&mut self, id: AssociationId) -> Vec<EndId> {
        let all = (id, ChannelId(0))..=(id, ChannelId(u32::MAX));
        let wires: Vec<Wire> = self.carriers.range(all).map(|(wire, _)| *wire).collect();
        self.nameless.retain(|(of, _), _| *of != id);
        self.named.retain(|(of, _), _| *of != id);
        self.named_on.remove(&id);
        let of_wire = |of: &Awaited| matches!(of.wish.line, Line::There((of, _)) if of == id);
        self.awaiting.retain(|_, wishes| {
            wishes.retain(|of| !of_wire(of));
            !wishes.is_empty()
        });
        wires.iter().filter_map(|wire| self.carriers.remove(wire)?.end).collect()
    }

    /// A task takes part no longer: what is kept of how it opened channels.
    pub(crate) fn forget_task(&mut self, task: TaskId) {
        self.opens.remove(&task);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn task(n: u32) -> TaskId {
        HostId::new(1, 1).unwrap().task(n).unwrap()
    }

    fn end(line: Line) -> End {
        End::new(task(9), ChannelSpec { window: 4096, ..ChannelSpec::default() }, line, true)
    }

    #[test]
    fn room_is_what_was_sent_and_is_not_settled_and_told() {
        let mut end = end(Line::Wanted);
        assert!(end.take_room(1000) && end.take_room(1000) && end.take_room(1000));
        assert!(!end.take_room(841), "3 · 1064 + 905 > 4096");
        assert!(end.take_room(840));
        assert_eq!(end.settle(840), None, "904 of 4096");
        assert!(!end.take_room(0), "the sender does not know of it yet");
        assert_eq!(end.settle(1000), Some(1968), "more than a quarter");
        assert_eq!(end.settle(1000), Some(1064));
        assert_eq!((end.settle(1000), end.in_use), (Some(1064), 0), "the last is told anyway");
    }

    #[test]
    fn no_more_is_received_than_was_given() {
        let mut end = end(Line::Wanted);
        for len in [3, 4, 5] {
            end.give(len);
        }
        assert_eq!(end.take(2), Some(vec![3, 4]));
        assert_eq!(end.take(2), None);
        assert_eq!((end.take(1), end.received), (Some(vec![5]), (3, 12)));
    }

    #[test]
    fn a_thousand_a_second_are_opened_and_no_more() {
        let (mut ends, mut now) = (Ends::default(), Instant::from_nanos(5));
        let opened = |ends: &mut Ends, now| {
            (0..3000).take_while(|_| ends.check_open(now, task(1)).is_ok()).count()
        };
        assert_eq!(opened(&mut ends, now), 1000);
        now += Duration::from_micros(2500);
        assert_eq!(opened(&mut ends, now), 2);
        now += Duration::from_micros(500);
        assert_eq!(opened(&mut ends, now), 1, "what is left of a time is not lost");
        now += Duration::from_mins(1);
        assert_eq!(opened(&mut ends, now), 1000);
        let said = ends.check_open(now, task(1));
        assert_eq!(said, Err(("channels that a task opens in a second", 1000)));
        for n in 0..1024 {
            assert_eq!(ends.check_count(task(1)), Ok(()));
            ends.insert((task(1), 2 * n), end(Line::Wanted));
        }
        assert_eq!(ends.check_open(now, task(1)), Err(("channels of a task", 1024)));
        assert_eq!((ends.check_open(now, task(2)), ends.of(task(2)).len()), (Ok(()), 0));
    }

    #[test]
    fn a_carrier_stays_until_both_sides_are_done_and_all_is_settled() {
        let id = AssociationId(1);
        let (wire, of) = ((id, ChannelId(8)), (task(1), 2));
        let mut ends = Ends::default();
        ends.insert(of, end(Line::There(wire)));
        ends.departs(wire, 0, Instant::ZERO);
        assert_eq!(ends.remove(of).map(|end| end.line), Some(Line::There(wire)));
        ends.end_ours(wire);
        ends.end_theirs(wire);
        assert!(ends.carriers.contains_key(&wire), "a block of ours is still there");
        assert_eq!(ends.settled(wire), None);
        assert_eq!(ends.len(), 0);
    }

    #[test]
    fn a_connection_takes_its_own_channels_with_it() {
        let wire = |id, n| (AssociationId(id), ChannelId(n));
        let mut ends = Ends::default();
        for (n, wire) in [(2, wire(1, 0)), (4, wire(1, 7)), (6, wire(2, 0))] {
            ends.insert((task(1), n), end(Line::There(wire)));
        }
        let wish =
            Wish { line: Line::There(wire(1, 9)), from: task(9), spec: ChannelSpec::default() };
        let now = Instant::ZERO;
        ends.await_enrolment(now, task(3), wish);
        ends.await_enrolment(now, task(3), Wish { line: Line::There(wire(2, 9)), ..wish });
        assert_eq!(ends.cut(AssociationId(1)), [(task(1), 2), (task(1), 4)]);
        assert_eq!(ends.carriers.len(), 1);
        assert_eq!(ends.awaited_until(), Some(now + ENROL_WAIT));
        assert!(ends.waited_in_vain(now + ENROL_WAIT - Duration::from_nanos(1)).is_empty());
        assert_eq!(ends.waited_in_vain(now + ENROL_WAIT).len(), 1);
        assert_eq!((ends.awaited_until(), ends.awaited(task(3)).len()), (None, 0));
    }

    fn opened() -> ChannelOpen {
        ChannelOpen {
            channel: ChannelId(3),
            direction: towpath_wire::frame::Direction::Both,
            reliability: towpath_wire::frame::Reliability::ReliableOrdered,
            priority: 100,
            label: 6,
            limit: 1,
            tspec: None,
            reservation: None,
            one_to_many: false,
            duplex: false,
        }
    }

    #[test]
    fn names_are_counted_until_what_they_name_is_opened_or_its_connection_is_over() {
        let wire = |id, n| (AssociationId(id), ChannelId(n));
        let mut ends = Ends::default();
        for n in [1, 2, 3, 3] {
            ends.name(wire(1, n), None);
        }
        ends.name(wire(2, 1), None);
        let counts = |ends: &Ends| [1, 2, 3].map(|id| ends.named_on(AssociationId(id)));
        assert_eq!(counts(&ends), [3, 1, 0], "the same one twice is one");
        assert_eq!(ends.matched(wire(1, 1)), None, "it is not opened yet");
        ends.opened(wire(1, 1), opened());
        ends.opened(wire(1, 9), opened());
        assert_eq!(ends.matched(wire(1, 9)), None, "nobody has named it yet");
        assert_eq!(ends.matched(wire(1, 1)), Some((opened(), None)));
        assert_eq!((counts(&ends), ends.matched(wire(1, 1))), ([2, 1, 0], None));
        ends.cut(AssociationId(1));
        assert_eq!((counts(&ends), ends.nameless.len(), ends.len()), ([0, 1, 0], 0, 1));
    }

    #[test]
    fn what_is_closed_while_it_waits_leaves_the_others_waiting() {
        let (one, two) = ((task(1), 2), (task(1), 4));
        let there = HostId::new(2, 1).unwrap();
        let mut ends = Ends::default();
        for id in [one, two] {
            ends.await_connection(there, id);
            let wish = Wish { line: Line::Here(id), from: id.0, spec: ChannelSpec::default() };
            ends.await_enrolment(Instant::ZERO, task(5), wish);
        }
        for n in 0..1022 {
            ends.insert((task(5), 2 * n), end(Line::Wanted));
        }
        assert_eq!(ends.check_count(task(5)), Err(("channels of a task", 1024)), "two wait");
        ends.forget_wanted(one, task(5));
        assert_eq!(ends.check_count(task(5)), Ok(()));
        let waits: Vec<Line> = ends.awaited(task(5)).iter().map(|wish| wish.line).collect();
        assert_eq!(waits, [Line::Here(two)]);
        ends.forget_wanted(one, there.task(1).unwrap());
        assert_eq!((ends.unconnected(there), ends.unconnected(there)), (vec![two], vec![]));
    }

    #[test]
    fn room_of_all_is_what_the_ends_have_that_lead_somewhere() {
        let id = AssociationId(1);
        let (wire, spec) = ((id, ChannelId(8)), ChannelSpec::default());
        let most = |window: u64| ChannelSpec { window: window as u32, ..spec };
        let mut ends = Ends::default();
        ends.insert((task(1), 2), end(Line::Wanted));
        assert_eq!((ends.there, ends.here), (0, 0));
        ends.lead((task(1), 2), Line::There(wire));
        ends.insert((task(1), 4), end(Line::Here((task(2), 1))));
        assert_eq!((ends.there, ends.here), (4096, 4096));
        assert_eq!(ends.delays((task(1), 4)).is_none(), ends.delays((task(1), 2)).is_some());
        ends.there = THERE_MAX - 4096;
        ends.here = HERE_MAX - 8192;
        assert_eq!((ends.check_there(&most(4096)), ends.check_here(&most(4096))), (Ok(()), Ok(())));
        let there = Err(("room of all channels to other hosts, in bytes", THERE_MAX));
        let here = Err(("room of all channels within one host, in bytes", HERE_MAX));
        assert_eq!((ends.check_there(&most(4097)), ends.check_here(&most(4097))), (there, here));
        ends.remove((task(1), 2));
        ends.remove((task(1), 4));
        assert_eq!((ends.there, ends.here), (THERE_MAX - 8192, HERE_MAX - 12288));
        let carrier = ends.carriers.get(&wire).expect("the connection's channel stays");
        assert_eq!((carrier.end, carrier.ended_by_peer()), (None, false));
    }

    #[test]
    fn what_is_reserved_is_known_by_its_connection_and_given_back_once() {
        let wire = |id, n| (AssociationId(id), ChannelId(n));
        let mut ends = Ends::default();
        for (n, at) in [(2, wire(1, 0)), (4, wire(1, u32::MAX)), (6, wire(2, 0)), (8, wire(1, 5))] {
            ends.insert((task(1), n), end(Line::There(at)));
            if let Some(carrier) = ends.carriers.get_mut(&at) {
                carrier.reserved = (n != 8).then_some(LinkId(n as u16));
                carrier.unsaid = n == 8;
            }
        }
        assert_eq!(ends.reserved_on(AssociationId(1)), [wire(1, 0), wire(1, u32::MAX)]);
        assert_eq!(ends.unreserve(wire(1, 0)), Some(LinkId(2)));
        assert_eq!((ends.unreserve(wire(1, 0)), ends.unreserve(wire(9, 9))), (None, None));
        assert_eq!(ends.reserved_on(AssociationId(1)), [wire(1, u32::MAX)]);
        let said = [wire(1, 5), wire(1, 5), wire(1, 0), wire(9, 9)].map(|at| ends.is_said(at));
        assert_eq!(said, [true, false, false, false]);
        assert_eq!(ends.after(None), Some((task(1), 2)));
        assert_eq!(ends.after(Some((task(1), 2))), Some((task(1), 4)));
        assert_eq!(ends.after(Some((task(1), 8))), None);
        assert_eq!((ends.summary(task(1)), ends.summary(task(2))), ((4, 0), (0, 0)));
    }

    #[test]
    fn offered_channels_have_odd_numbers_that_are_free() {
        let mut ends = Ends::default();
        ends.insert((task(1), 3), end(Line::Wanted));
        assert_eq!([1, 1, 2].map(|n| ends.number_for(task(n))), [1, 5, 7]);
        ends.offered = u32::MAX;
        assert_eq!([1, 1].map(|n| ends.number_for(task(n))), [u32::MAX, 1]);
    }
}
