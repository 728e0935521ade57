//! Receives that were posted before their message came.

use alloc::collections::{BTreeMap, VecDeque};

use towpath_wire::TaskId;
use towpath_wire::talk::CONTEXT_OWN;

use super::store::{Key, Wanted};

/// What a posted receive takes: of one sender or anyone, where the bits of context and tag that the
/// mask names are these. Context and tag are read as one number of 64 bits, the context above the
/// tag: what other libraries call a tag of 64 bits with a mask.
///
/// ```
/// use towpath_vm::matching::{Key, Pattern};
/// use towpath_wire::HostId;
///
/// let ann = HostId::new(1, 0).unwrap().task(1).unwrap();
/// let even = Pattern::masked(None, 0x0000_0001_0000_0000, !0xfffe);
/// assert!(even.matches(&Key { source: ann, context: 1, tag: 6 }));
/// assert!(!even.matches(&Key { source: ann, context: 1, tag: 7 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    source: Option<TaskId>,
    bits: u64,
    mask: u64,
}

/// The bit that contexts of the library have; programs cannot ask for "any" there.
const OWN: u64 = (CONTEXT_OWN as u64) << 32;
const CONTEXT: u64 = (u32::MAX as u64) << 32;

impl Key {
    /// Context and tag as one number, the context above the tag.
    pub const fn bits(&self) -> u64 {
        (self.context as u64) << 32 | self.tag.cast_unsigned() as u64
    }
}

impl From<Wanted> for Pattern {
    fn from(wanted: Wanted) -> Self {
        let Wanted { source, tag, context } = wanted;
        let mask = if tag.is_some() { u64::MAX } else { CONTEXT };
        let tag = tag.map_or(0, |tag| u64::from(tag.cast_unsigned()));
        Self { source, bits: u64::from(context) << 32 | tag, mask }
    }
}

impl Pattern {
    /// Messages of `source` whose context and tag have the bits `bits` where `mask` is set. The
    /// highest bit is always asked to be 0: contexts from [`CONTEXT_OWN`] on are the library's.
    pub const fn masked(source: Option<TaskId>, bits: u64, mask: u64) -> Self {
        let mask = mask | OWN;
        Self { source, bits: bits & mask & !OWN, mask }
    }

    /// The sender that it names.
    pub const fn source(&self) -> Option<TaskId> {
        self.source
    }

    /// True when a message of `key` is what is asked for.
    pub fn matches(&self, key: &Key) -> bool {
        (key.bits() ^ self.bits) & self.mask == 0
            && self.source.is_none_or(|source| source == key.source)
    }

    /// The same as a [`Wanted`], where one can say it.
    pub fn wanted(&self) -> Option<Wanted> {
        let (context, tag) = ((self.bits >> 32) as u32, self.bits as u32);
        let tag = match self.mask {
            u64::MAX => Some(tag.cast_signed()),
            CONTEXT => None,
            _ => return None,
        };
        Some(Wanted { source: self.source, tag, context })
    }

    /// The only key that it matches, where there is one.
    fn key(&self) -> Option<(TaskId, u64)> {
        self.source.filter(|_| self.mask == u64::MAX).map(|source| (source, self.bits))
    }
}

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
    named: BTreeMap<(TaskId, u64), VecDeque<(u64, B)>>,
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
        let name = (key.source, key.bits());
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

    fn take_named(&mut self, name: (TaskId, u64), at: usize) -> Option<B> {
        let queue = self.named.get_mut(&name)?;
        let (_, handle) = queue.remove(at)?;
        if queue.is_empty() {
            self.named.remove(&name);
        }
        Some(handle)
    }
}
