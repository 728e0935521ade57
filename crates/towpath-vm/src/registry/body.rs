//! What the control state has of a mailbox entry's content: short bytes themselves, and of longer
//! ones only who keeps them. So no command and no state grows with what tasks put into mailboxes.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use towpath_wire::HostId;

/// Longest content that stands in a command itself, in bytes.
pub const HERE_MAX: usize = 4096;

/// The content of a mailbox entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// It, of at most [`HERE_MAX`] bytes.
    Here(Vec<u8>),
    /// A host keeps it, until [`crate::control::Effect::Released`] says that nobody needs it.
    Kept(Kept),
}

impl Body {
    /// How many bytes the content has.
    pub const fn len(&self) -> usize {
        match self {
            Self::Here(bytes) => bytes.len(),
            Self::Kept(kept) => kept.len as usize,
        }
    }

    /// True when it has none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a host keeps of it.
    pub(crate) const fn kept(&self) -> Option<Kept> {
        match self {
            Self::Here(_) => None,
            Self::Kept(kept) => Some(*kept),
        }
    }
}

/// Bytes that a host keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kept {
    /// Which host, in which of its lives.
    pub holder: HostId,
    /// Its number for them: it gives each once.
    pub number: u64,
    /// How many.
    pub len: u32,
    /// Their CRC-32C: whoever reads them elsewhere, or later, sees that they are these.
    pub crc: u32,
}
