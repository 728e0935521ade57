//! Bytes that are passed on without being copied.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::ops::{Deref, Range};

/// What holds bytes for others.
pub trait Holder: AsRef<[u8]> + Any + Send + Sync {}

impl<T: AsRef<[u8]> + Any + Send + Sync> Holder for T {}

#[derive(Clone)]
enum Owner {
    Static(&'static [u8]),
    Vec(Arc<Vec<u8>>),
    Shared(Arc<dyn Holder>),
}

/// A range of bytes that others may hold too. A clone costs a count, not a copy.
#[derive(Clone)]
pub struct Payload {
    owner: Owner,
    range: Range<usize>,
}

impl Payload {
    /// No bytes; allocates nothing.
    pub const EMPTY: Self = Self { owner: Owner::Static(&[]), range: 0..0 };

    /// All bytes of `owner`, which stays where it is until the last clone is gone: a message in
    /// a mapping of its sender's, say. What it shows must not change.
    pub fn shared(owner: Arc<dyn Holder>) -> Self {
        let range = 0..(*owner).as_ref().len();
        Self { owner: Owner::Shared(owner), range }
    }

    /// Who holds these bytes and no others, if that is a `T` that was [shared](Self::shared).
    pub fn holder<T: Holder>(&self) -> Option<&T> {
        let Owner::Shared(owner) = &self.owner else { return None };
        let holder = (&**owner as &dyn Any).downcast_ref::<T>()?;
        (self.range == (0..holder.as_ref().len())).then_some(holder)
    }

    fn whole(&self) -> &[u8] {
        match &self.owner {
            Owner::Static(bytes) => bytes,
            Owner::Vec(bytes) => bytes,
            Owner::Shared(owner) => (**owner).as_ref(),
        }
    }

    /// Some of these bytes. Panics when `range` reaches beyond them.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {}", self.len());
        let range = self.range.start + range.start..self.range.start + range.end;
        Self { owner: self.owner.clone(), range }
    }

    /// The bytes for oneself: moved when nobody else holds them, copied otherwise.
    pub fn into_vec(self) -> Vec<u8> {
        match self.owner {
            Owner::Vec(bytes) if self.range == (0..bytes.len()) => {
                Arc::try_unwrap(bytes).unwrap_or_else(|bytes| (*bytes).clone())
            }
            _ => self.to_vec(),
        }
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.whole().get(self.range.clone()).unwrap_or_default()
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        if bytes.is_empty() {
            Self::EMPTY
        } else {
            Self { owner: Owner::Vec(Arc::new(bytes)), range }
        }
    }
}

impl From<&'static [u8]> for Payload {
    fn from(bytes: &'static [u8]) -> Self {
        Self { owner: Owner::Static(bytes), range: 0..bytes.len() }
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn whole_vec() -> Payload {
        vec![1].into()
    }

    #[test]
    fn slices_show_their_range_and_the_last_owner_moves() {
        let whole = Payload::from(vec![1, 2, 3, 4, 5]);
        let at = whole.as_ptr();
        let middle = whole.slice(1..4).slice(1..3);
        assert_eq!(&*middle, &[3, 4]);
        assert_eq!(middle.as_ptr(), at.wrapping_add(2));
        assert_eq!(middle.into_vec(), [3, 4]);
        let copy = whole.clone();
        let (copy, last) = (copy.into_vec(), whole.into_vec());
        assert_ne!(copy.as_ptr(), at);
        assert_eq!(last.as_ptr(), at);
        let shared = Payload::shared(Arc::new([7u8, 8]));
        assert_eq!(&*shared.slice(1..2), &[8]);
        assert_eq!(shared.holder::<[u8; 2]>(), Some(&[7, 8]));
        assert_eq!(shared.slice(0..1).holder::<[u8; 2]>(), None, "it holds more");
        assert_eq!(shared.holder::<[u8; 3]>(), None);
        assert_eq!(whole_vec().holder::<Vec<u8>>(), None, "nobody else has it");
    }
}
