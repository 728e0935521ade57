//! Task numbers as PVM writes them: `t40001` is task 1 of the host in slot 1.

use std::fmt;

use towpath::TaskId;
use towpath_vm::Host;
use towpath_wire::HostId;

/// Bits of the task within its host.
const LOCAL_BITS: u32 = 18;
const LOCAL: u32 = (1 << LOCAL_BITS) - 1;
/// Slots are twelve bits.
const SLOT: u32 = 0xfff;

/// A number as PVM has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tid(pub(super) u32);

impl fmt::LowerHex for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

impl From<TaskId> for Tid {
    fn from(task: TaskId) -> Self {
        Self(task.pvm_tid())
    }
}

impl From<HostId> for Tid {
    fn from(host: HostId) -> Self {
        Self(u32::from(host.slot()) << LOCAL_BITS)
    }
}

impl Tid {
    /// From `t40001`, `40001` or `0x40001`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('t').or_else(|| text.strip_prefix("0x")).unwrap_or(text);
        u32::from_str_radix(digits, 16).ok().map(Self)
    }

    /// The host of this number.
    pub(super) fn host(self, hosts: &[Host]) -> Option<&Host> {
        let slot = self.0 >> LOCAL_BITS & SLOT;
        hosts.iter().find(|host| u32::from(host.id.slot()) == slot)
    }

    /// The task of this number, where it names one.
    pub(super) fn task(self, hosts: &[Host]) -> Option<TaskId> {
        let is_task = self.0 >> 30 == 0 && self.0 & LOCAL != 0;
        self.host(hosts).filter(|_| is_task)?.id.task(self.0 & LOCAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_every_spelling() {
        for text in ["t40001", "40001", "0x40001"] {
            assert_eq!(Tid::parse(text), Some(Tid(0x4_0001)), "{text}");
        }
        for text in ["", "t", "x40001", "t40001g", "tt1"] {
            assert_eq!(Tid::parse(text), None, "{text}");
        }
        let host = HostId::new(3, 9).unwrap();
        assert_eq!(format!("{:x}", Tid::from(host)), "c0000");
        assert_eq!(format!("{:x}", Tid::from(host.task(2).unwrap())), "c0002");
    }
}
