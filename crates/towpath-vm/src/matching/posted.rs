//! Receives that were posted before their message came.

use alloc::collections::{BTreeMap, VecDeque};

use towpath_wire::TaskId;
use towpath_wire::talk::{CONTEXT_OWN, Tag};

use super::store::{Key, Wanted};

/// What a posted receive takes: of one sender or anyone, where the bits of the tag that the mask
/// names are these, and those of the context. What other libraries call a tag of 64 bits with bits
/// that are ignored: `mask` has those that are not.
///
/// ```
/// use towpath_vm::matching::{Key, Pattern};
/// use towpath_wire::HostId;
///
/// let ann = HostId::new(1, 0).unwrap().task(1).unwrap();
/// let even = Pattern::masked(None, 6, !0xff00_0000_0000_0000).context(1);
/// assert!(even.matches(&Key { source: ann, context: 1, tag: 6 }));
/// assert!(even.matches(&Key { source: ann, context: 1, tag: 0x1100_0000_0000_0006 }));
/// assert!(!even.matches(&Key { source: ann, context: 1, tag: 7 }));
/// assert!(!even.matches(&Key { source: ann, context: 0, tag: 6 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    source: Option<TaskId>,
    /// Of the tag, then of the context. Where the mask has no bit, the bits have none.
    bits: (u64, u32),
    mask: (u64, u32),
}

impl From<Wanted> for Pattern {
    fn from(wanted: Wanted) -> Self {
        let Wanted { source, tag, context } = wanted;
        let mask = if tag.is_some() { u64::MAX } else { 0 };
        let bits = tag.map_or(0, Tag::cast_unsigned);
        Self { source, bits: (bits, context), mask: (mask, u32::MAX) }
    }
}

impl Pattern {
    /// Messages of `source` in context 0 whose tag has the bits `bits` where `mask` is set.
    pub const fn masked(source: Option<TaskId>, bits: u64, mask: u64) -> Self {
        Self { source, bits: (bits & mask, 0), mask: (mask, u32::MAX) }
    }

    /// The same in this context instead of 0.
    #[must_use]
    pub const fn context(self, context: u32) -> Self {
        self.contexts(context, u32::MAX)
    }

    /// The same in all contexts that have the bits `bits` where `mask` is set. The highest bit is
    /// always asked to be 0: contexts from [`CONTEXT_OWN`] on are the library's.
    #[must_use]
    pub const fn contexts(self, bits: u32, mask: u32) -> Self {
        let mask = mask | CONTEXT_OWN;
        let bits = bits & mask & !CONTEXT_OWN;
        Self { bits: (self.bits.0, bits), mask: (self.mask.0, mask), ..self }
    }

    /// The sender that it names.
    pub const fn source(&self) -> Option<TaskId> {
        self.source
    }

    /// True when a message of `key` is what is asked for.
    pub fn matches(&self, key: &Key) -> bool {
        (key.tag.cast_unsigned() ^ self.bits.0) & self.mask.0 == 0
            && (key.context ^ self.bits.1) & self.mask.1 == 0
            && self.source.is_none_or(|source| source == key.source)
    }

    /// The same as a [`Wanted`], where one can say it.
    pub fn wanted(&self) -> Option<Wanted> {
        let (tag, context) = self.bits;
        let tag = match self.mask {
            (u64::MAX, u32::MAX) => Some(tag.cast_signed()),
            (0, u32::MAX) => None,
            _ => return None,
        };
        Some(Wanted { source: self.source, tag, context })
    }

    /// The only key that it matches, where there is one.
    fn key(&self) -> Option<Name> {
        let (tag, context) = self.bits;
        let is_whole = self.mask == (u64::MAX, u32::MAX);
        self.source.filter(|_| is_whole).map(|source| (source, context, tag.cast_signed()))
    }
}

/// Sender, context and tag.
type Name = (TaskId, u32, Tag);

/// Names a posted receive, in the order in which they were posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(u64);

/// No more receives may be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{limit} receives are posted, the most there may be")]
pub struct PostedFull {
    /// How many may.
    pub limit: usize,
}

/// Receives that wait for their message. Those that name sender, context and tag whole are found by
/// name; the others are gone through in order. Invariants: `len` = all of `named` and `others` ≤
/// `limit`; each queue of `named` has something, in order of numbers, as `others` is.
#[derive(Debug)]
pub struct Posted<B> {
    limit: usize,
    next: u64,
    len: usize,
    named: BTreeMap<Name, VecDeque<(u64, B)>>,
    others: VecDeque<(u64, Pattern, B)>,
}

impl<B> Posted<B> {
    /// With none; at most `limit` may be posted at once.
    pub const fn new(limit: usize) -> Self {
        Self { limit, next: 0, len: 0, named: BTreeMap::new(), others: VecDeque::new() }
    }

    /// How many are posted.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True when none is.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Posts a receive; `handle` is the caller's. What waits already is to be looked for before
    /// ([`Store::probe_pattern`](super::Store::probe_pattern)).
    pub fn post(&mut self, pattern: Pattern, handle: B) -> Result<Number, PostedFull> {
        if self.len >= self.limit {
            return Err(PostedFull { limit: self.limit });
        }
        let number = self.next;
        self.next += 1;
        self.len += 1;
        match pattern.key() {
            Some(key) => self.named.entry(key).or_default().push_back((number, handle)),
            None => self.others.push_back((number, pattern, handle)),
        }
        Ok(Number(number))
    }

    /// A message came: takes out the receive that was posted first of all that match it.
    pub fn claim(&mut self, key: &Key) -> Option<B> {
        let name = (key.source, key.context, key.tag);
        let named = self.named.get(&name).and_then(VecDeque::front).map(|(number, _)| *number);
        let other = self.others.iter().position(|(_, pattern, _)| pattern.matches(key));
        let claimed = match (named, other) {
            (Some(number), Some(at)) if self.others[at].0 < number => self.take_other(at),
            (Some(_), _) => self.take_named(name, 0),
            (None, Some(at)) => self.take_other(at),
            (None, None) => None,
        };
        self.len -= usize::from(claimed.is_some());
        claimed
    }

    /// Takes a receive out for which no message has come; `None`: one has.
    pub fn cancel(&mut self, number: Number) -> Option<B> {
        let Number(number) = number;
        let at = self.others.iter().position(|(n, ..)| *n == number);
        let cancelled = if let Some(at) = at {
            self.take_other(at)
        } else {
            let mut all = self.named.iter();
            let found = all.find_map(|(name, queue)| {
                Some((*name, queue.iter().position(|(n, _)| *n == number)?))
            });
            found.and_then(|(name, at)| self.take_named(name, at))
        };
        self.len -= usize::from(cancelled.is_some());
        cancelled
    }

    fn take_other(&mut self, at: usize) -> Option<B> {
        self.others.remove(at).map(|(.., handle)| handle)
    }

    fn take_named(&mut self, name: Name, at: usize) -> Option<B> {
        let queue = self.named.get_mut(&name)?;
        let (_, handle) = queue.remove(at)?;
        if queue.is_empty() {
            self.named.remove(&name);
        }
        Some(handle)
    }
}
