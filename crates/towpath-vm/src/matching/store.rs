//! The store itself: messages in slots, linked into their queues.

use alloc::vec::Vec;

use towpath_wire::TaskId;
use towpath_wire::talk::Tag;

use super::posted::Pattern;
use super::queues::{ALL, KINDS, NONE, Queues};

/// What a message is matched by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Who sent it.
    pub source: TaskId,
    /// What the sender called it.
    pub tag: Tag,
    /// The context that it was sent in.
    pub context: u32,
}

/// What a receive asks for.
///
/// ```
/// use towpath_vm::matching::{Key, Wanted};
/// use towpath_wire::HostId;
///
/// let ann = HostId::new(1, 0).unwrap().task(1).unwrap();
/// let wanted = Wanted::any().tag(7).from(ann);
/// assert!(wanted.matches(&Key { source: ann, tag: 7, context: 0 }));
/// assert!(!wanted.matches(&Key { source: ann, tag: 8, context: 0 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// The sender, or anyone.
    pub source: Option<TaskId>,
    /// The tag, or any.
    pub tag: Option<Tag>,
    /// The context; there is no "any".
    pub context: u32,
}

impl Wanted {
    /// Anything in context 0: what the next three narrow down.
    pub const fn any() -> Self {
        Self { source: None, tag: None, context: 0 }
    }

    /// Only with this tag.
    #[must_use]
    pub fn tag(self, tag: impl Into<Tag>) -> Self {
        Self { tag: Some(tag.into()), ..self }
    }

    /// Only of this sender.
    #[must_use]
    pub const fn from(self, source: TaskId) -> Self {
        Self { source: Some(source), ..self }
    }

    /// In this context instead of 0.
    #[must_use]
    pub const fn context(self, context: u32) -> Self {
        Self { context, ..self }
    }

    /// True when a message of `key` is what is asked for. A receive that waits tests a message
    /// by this as it arrives, and needs the store only for what it does not want.
    pub fn matches(&self, key: &Key) -> bool {
        self.context == key.context
            && self.source.is_none_or(|source| source == key.source)
            && self.tag.is_none_or(|tag| tag == key.tag)
    }
}

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Messages, at most 2³² − 2.
    pub messages: u32,
    /// Bytes, as their owner counts them at [`Store::insert`].
    pub bytes: u64,
}

impl Limits {
    /// As much as the store can count: for an owner who bounds it in another way.
    pub const NONE: Self = Self { messages: u32::MAX - 1, bytes: u64::MAX };
}

/// Why a message could not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreFull {
    /// As many as may wait do wait.
    #[error("{waiting} messages wait to be received, and no more than {limit} may")]
    Messages {
        /// How many wait.
        waiting: u32,
        /// How many may.
        limit: u32,
    },
    /// The bytes of all together would be too many.
    #[error(
        "{waiting} bytes of messages wait to be received: with {bytes} more they pass the limit \
         of {limit} bytes"
    )]
    Bytes {
        /// Bytes that wait.
        waiting: u64,
        /// Bytes of the message that has no room.
        bytes: u64,
        /// Bytes that may wait.
        limit: u64,
    },
}

/// A message that could not be kept, given back.
#[derive(Debug, PartialEq, Eq)]
pub struct Full<P> {
    /// What was to be kept.
    pub payload: P,
    /// Why it was not.
    pub error: StoreFull,
}

/// A message that waits.
#[derive(Debug, PartialEq, Eq)]
pub struct Waiting<P> {
    /// What it is matched by.
    pub key: Key,
    /// Its bytes, as they were counted.
    pub bytes: u64,
    /// Its owner's handle on it.
    pub payload: P,
}

/// Names one waiting message of one store, also after it is gone: never another one, unless 2³²
/// messages have been in the same slot in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    slot: u32,
    generation: u32,
}

/// What has happened to a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages kept so far.
    pub inserted: u64,
    /// Messages refused because the store was full.
    pub refused: u64,
    /// Most messages that waited at once.
    pub messages_peak: u32,
    /// Most bytes that waited at once.
    pub bytes_peak: u64,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

#[derive(Debug)]
struct Slot<P> {
    /// Counts the messages that the slot has held.
    generation: u32,
    /// Which queues the message is in, and between whom.
    queues: [u32; KINDS],
    links: [Link; KINDS],
    waiting: Option<Waiting<P>>,
}

/// Messages that wait to be received. Invariants: `len` ≤ the limit of messages, `bytes` ≤ the
/// limit of bytes; each message is in one queue of each kind, each queue in order of arrival.
#[derive(Debug)]
pub struct Store<P> {
    limits: Limits,
    queues: Queues,
    slots: Vec<Slot<P>>,
    free: Vec<u32>,
    bytes: u64,
    counters: Counters,
}

impl<P> Store<P> {
    /// An empty store. `seed` is a random number that keeps a sender from choosing tags that
    /// hash alike; what the store answers does not depend on it.
    pub fn new(limits: Limits, seed: u64) -> Self {
        let limits = Limits { messages: limits.messages.min(NONE - 1), ..limits };
        Self {
            limits,
            queues: Queues::new(seed),
            slots: Vec::new(),
            free: Vec::new(),
            bytes: 0,
            counters: Counters::default(),
        }
    }

    /// Number of waiting messages.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True when none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all waiting messages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether a message of `bytes` bytes has room now.
    pub fn room(&self, bytes: u64) -> Result<(), StoreFull> {
        let (waiting, limit) = (self.len() as u32, self.limits.messages);
        if waiting >= limit {
            return Err(StoreFull::Messages { waiting, limit });
        }
        let (waiting, limit) = (self.bytes, self.limits.bytes);
        if bytes > limit - waiting {
            return Err(StoreFull::Bytes { waiting, bytes, limit });
        }
        Ok(())
    }

    /// Keeps a message as the last to have arrived.
    pub fn insert(&mut self, key: Key, bytes: u64, payload: P) -> Result<Ticket, Full<P>> {
        if let Err(error) = self.room(bytes) {
            self.counters.refused += 1;
            return Err(Full { payload, error });
        }
        let waiting = Some(Waiting { key, bytes, payload });
        let Self { queues, slots, .. } = self;
        let member_of = queues.of(&key, |sibling| slots[sibling as usize].queues);
        let none = [Link { before: NONE, after: NONE }; KINDS];
        let number = if let Some(number) = self.free.pop() {
            let slot = &mut self.slots[number as usize];
            (slot.queues, slot.links, slot.waiting) = (member_of, none, waiting);
            number
        } else {
            self.slots.push(Slot { generation: 0, queues: member_of, links: none, waiting });
            (self.slots.len() - 1) as u32
        };
        for (kind, queue) in member_of.into_iter().enumerate() {
            let queue = self.queues.queue(queue);
            let before = queue.tail;
            queue.tail = number;
            if before == NONE {
                queue.head = number;
            } else {
                self.slots[before as usize].links[kind].after = number;
            }
            self.slots[number as usize].links[kind].before = before;
        }
        self.count(bytes);
        Ok(Ticket { slot: number, generation: self.slots[number as usize].generation })
    }

    fn count(&mut self, bytes: u64) {
        self.bytes += bytes;
        let messages = self.len() as u32;
        let counters = &mut self.counters;
        counters.inserted += 1;
        counters.messages_peak = counters.messages_peak.max(messages);
        counters.bytes_peak = counters.bytes_peak.max(self.bytes);
    }

    fn remove(&mut self, number: u32) -> Option<Waiting<P>> {
        let slot = self.slots.get_mut(number as usize)?;
        let waiting = slot.waiting.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        let (member_of, links) = (slot.queues, slot.links);
        for (kind, queue) in member_of.into_iter().enumerate() {
            let Link { before, after } = links[kind];
            if before == NONE {
                self.queues.queue(queue).head = after;
            } else {
                self.slots[before as usize].links[kind].after = after;
            }
            if after == NONE {
                self.queues.queue(queue).tail = before;
            } else {
                self.slots[after as usize].links[kind].before = before;
            }
            if before == NONE && after == NONE {
                self.queues.close(queue);
            }
        }
        self.free.push(number);
        self.bytes -= waiting.bytes;
        Some(waiting)
    }

    /// Takes the message that arrived first of all that match.
    pub fn take(&mut self, wanted: &Wanted) -> Option<Waiting<P>> {
        let first = self.queues.first(wanted);
        self.remove(first)
    }

    /// Shows the message that [`Self::take`] would take.
    pub fn probe(&self, wanted: &Wanted) -> Option<(Ticket, &Waiting<P>)> {
        self.show(self.queues.first(wanted))
    }

    fn show(&self, number: u32) -> Option<(Ticket, &Waiting<P>)> {
        let slot = self.slots.get(number as usize)?;
        let ticket = Ticket { slot: number, generation: slot.generation };
        Some((ticket, slot.waiting.as_ref()?))
    }

    fn slot_of(&self, ticket: Ticket) -> Option<u32> {
        let slot = self.slots.get(ticket.slot as usize)?;
        (slot.generation == ticket.generation).then_some(ticket.slot)
    }

    /// The message that arrived first of all that match a pattern: without a search where the
    /// pattern is one that [`Self::probe`] answers.
    pub fn probe_pattern(&self, pattern: &Pattern) -> Option<(Ticket, &Waiting<P>)> {
        if self.is_empty() {
            return None;
        }
        match pattern.wanted() {
            Some(wanted) => self.probe(&wanted),
            None => self.iter().find(|(_, waiting)| pattern.matches(&waiting.key)),
        }
    }

    /// Takes one message out of turn.
    pub fn take_ticket(&mut self, ticket: Ticket) -> Option<Waiting<P>> {
        let slot = self.slot_of(ticket)?;
        self.remove(slot)
    }

    /// The message of `ticket`, if it still waits.
    pub fn waiting(&self, ticket: Ticket) -> Option<&Waiting<P>> {
        let slot = self.slot_of(ticket)?;
        self.slots[slot as usize].waiting.as_ref()
    }

    /// The handle on the message of `ticket`, if it still waits.
    pub fn payload_mut(&mut self, ticket: Ticket) -> Option<&mut P> {
        let slot = self.slot_of(ticket)?;
        self.slots[slot as usize].waiting.as_mut().map(|waiting| &mut waiting.payload)
    }

    /// All messages, in the order in which they arrived.
    pub fn iter(&self) -> impl Iterator<Item = (Ticket, &Waiting<P>)> {
        self.chain(self.queues.first_of_all(), ALL)
    }

    /// The messages of `context`, in the order in which they arrived.
    pub fn iter_context(&self, context: u32) -> impl Iterator<Item = (Ticket, &Waiting<P>)> {
        self.chain(self.queues.first(&Wanted::any().context(context)), ALL - 1)
    }

    fn chain(&self, first: u32, kind: usize) -> impl Iterator<Item = (Ticket, &Waiting<P>)> {
        let mut next = first;
        core::iter::from_fn(move || {
            let shown = self.show(next)?;
            next = self.slots[next as usize].links[kind].after;
            Some(shown)
        })
    }

    /// Gives all messages of `source` to `removed`, contexts ascending, each one's in the
    /// order of arrival. Looks at every queue, so that it costs as much as the store is large.
    pub fn remove_source(&mut self, source: TaskId, mut removed: impl FnMut(Waiting<P>)) {
        for context in self.queues.contexts() {
            let wanted = Wanted { source: Some(source), tag: None, context };
            while let Some(waiting) = self.take(&wanted) {
                removed(waiting);
            }
        }
    }

    /// Gives all messages of `context` to `removed`, in the order of arrival.
    pub fn remove_context(&mut self, context: u32, mut removed: impl FnMut(Waiting<P>)) {
        while let Some(waiting) = self.take(&Wanted::any().context(context)) {
            removed(waiting);
        }
    }

    /// Number of queues that hold a message.
    #[cfg(test)]
    pub(super) fn open_queues(&self) -> usize {
        self.queues.open_queues()
    }
}
