//! Who is who: 64-bit identifiers of hosts and tasks, and the short numbers on the wire.
//!
//! ```text
//!  63                            32 31 30 29         18 17                0
//! +--------------------------------+-----+-------------+-------------------+
//! |          incarnation           | 0 0 |  host slot  |       task        |
//! +--------------------------------+-----+-------------+-------------------+
//! ```
//! The low 32 bits are what PVM calls a tid; bits 30 and 31 are PVM's flag bits and stay zero
//! in an identifier. A host is task 0 of its slot. Slots are assigned by the control log and
//! reused last; the incarnation fences a slot's earlier holder.

use core::fmt;

use serde::{Deserialize, Serialize};

const TASK_BITS: u32 = 18;
const SLOT_BITS: u32 = 12;

/// Largest task number within a host (2¹⁸ − 1).
pub const TASK_MAX: u32 = (1 << TASK_BITS) - 1;
/// Largest host slot (2¹² − 1). Slot 0 is never assigned.
pub const SLOT_MAX: u16 = (1 << SLOT_BITS) - 1;

/// One host in one of its lives. Invariant: the task bits are zero, slot ≥ 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct HostId(u64);

/// One task on one host. Invariant: task number ≥ 1, slot ≥ 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct TaskId(u64);

/// A 64-bit value that is not an identifier of the kind asked for.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:#018x} is not a valid {1} identifier")]
pub struct BadId(u64, &'static str);

const fn slot_of(raw: u64) -> u16 {
    (raw >> TASK_BITS) as u16 & SLOT_MAX
}

const fn fields_ok(raw: u64) -> bool {
    raw & (3 << 30) == 0 && slot_of(raw) != 0
}

impl HostId {
    /// Host in `slot` (1 ..= [`SLOT_MAX`]) in life `incarnation`; `None` outside that range.
    pub const fn new(slot: u16, incarnation: u32) -> Option<Self> {
        if slot == 0 || slot > SLOT_MAX {
            return None;
        }
        Some(Self((incarnation as u64) << 32 | (slot as u64) << TASK_BITS))
    }

    /// Slot number, 1 ..= [`SLOT_MAX`].
    pub const fn slot(self) -> u16 {
        slot_of(self.0)
    }

    /// Which life of the slot this is.
    pub const fn incarnation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The task with number `task` (1 ..= [`TASK_MAX`]) on this host.
    pub const fn task(self, task: u32) -> Option<TaskId> {
        if task == 0 || task > TASK_MAX { None } else { Some(TaskId(self.0 | task as u64)) }
    }

    /// The raw 64 bits.
    pub const fn to_raw(self) -> u64 {
        self.0
    }
}

impl TaskId {
    /// Before all tasks, for ranges; no task has it.
    pub const MIN: Self = Self(0);
    /// Behind all tasks, for ranges; no task has it.
    pub const MAX: Self = Self(u64::MAX);

    /// The host that runs it.
    pub const fn host(self) -> HostId {
        HostId(self.0 & !(TASK_MAX as u64))
    }

    /// Task number within its host, 1 ..= [`TASK_MAX`].
    pub const fn number(self) -> u32 {
        self.0 as u32 & TASK_MAX
    }

    /// What PVM programs see: the low 32 bits.
    pub const fn pvm_tid(self) -> u32 {
        self.0 as u32
    }

    /// The raw 64 bits.
    pub const fn to_raw(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for HostId {
    type Error = BadId;
    fn try_from(raw: u64) -> Result<Self, BadId> {
        if fields_ok(raw) && raw & u64::from(TASK_MAX) == 0 {
            Ok(Self(raw))
        } else {
            Err(BadId(raw, "host"))
        }
    }
}

impl TryFrom<u64> for TaskId {
    type Error = BadId;
    fn try_from(raw: u64) -> Result<Self, BadId> {
        if fields_ok(raw) && raw & u64::from(TASK_MAX) != 0 {
            Ok(Self(raw))
        } else {
            Err(BadId(raw, "task"))
        }
    }
}

impl From<HostId> for u64 {
    fn from(id: HostId) -> Self {
        id.0
    }
}

impl From<TaskId> for u64 {
    fn from(id: TaskId) -> Self {
        id.0
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{}", self.slot())?;
        if self.incarnation() != 0 {
            write!(f, ".{}", self.incarnation())?;
        }
        Ok(())
    }
}

impl fmt::Debug for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:t{}", self.host(), self.number())
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($int:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize,
            Deserialize,
        )]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

number!(
    /// A channel within one association. The handshake's initiator opens even numbers, its
    /// responder odd ones, so that both may open at once.
    ChannelId(u32), "c"
);
number!(
    /// A path within one association; the upper half of every nonce.
    PathId(u16), "p"
);
number!(
    /// A network attachment of this host, numbered by its driver. Never on the wire.
    LinkId(u16), "l"
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    proptest! {
        #[test]
        fn fields_come_back(slot in 1..=SLOT_MAX, inc: u32, task in 1..=TASK_MAX) {
            let host = HostId::new(slot, inc).unwrap();
            let id = host.task(task).unwrap();
            prop_assert_eq!(host.slot(), slot);
            prop_assert_eq!(host.incarnation(), inc);
            prop_assert_eq!(id.number(), task);
            prop_assert_eq!(id.host(), host);
            prop_assert_eq!(TaskId::try_from(id.to_raw()), Ok(id));
            prop_assert_eq!(HostId::try_from(host.to_raw()), Ok(host));
            prop_assert_eq!(id.pvm_tid() >> 30, 0);
            prop_assert_eq!(u64::from(id.pvm_tid()), id.to_raw() & u64::from(u32::MAX));
            prop_assert_eq!(u64::from(host), host.to_raw());
            prop_assert_eq!(u64::from(id), id.to_raw());
        }

        #[test]
        fn any_raw_value_is_accepted_whole_or_refused(raw: u64) {
            if let Ok(id) = TaskId::try_from(raw) {
                prop_assert_eq!(id.host().task(id.number()), Some(id));
            }
            if let Ok(id) = HostId::try_from(raw) {
                prop_assert_eq!(HostId::new(id.slot(), id.incarnation()), Some(id));
            }
        }
    }

    #[test]
    fn ranges_are_checked_at_both_edges() {
        assert_eq!(HostId::new(0, 1), None);
        assert_eq!(HostId::new(SLOT_MAX + 1, 1), None);
        let host = HostId::new(SLOT_MAX, u32::MAX).unwrap();
        assert_eq!(host.task(0), None);
        assert_eq!(host.task(TASK_MAX + 1), None);
        assert_eq!(host.task(TASK_MAX).unwrap().to_string(), "h4095.4294967295:t262143");
    }
}
