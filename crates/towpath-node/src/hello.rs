//! What hosts say of themselves in the handshake.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use towpath_vm::host::NAME_MAX;
use towpath_wire::HostId;

/// What the connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// To become a host of the virtual machine.
    Join,
    /// To become one again after having been lost.
    Rejoin,
    /// To talk, as this host.
    Member(HostId),
}

/// What a host says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) purpose: Purpose,
    pub(crate) name: String,
    pub(crate) arch: String,
    pub(crate) speed: u32,
    pub(crate) cpus: u16,
    pub(crate) slots: u16,
}

impl Hello {
    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("a vector takes any body")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut hello: Self = postcard::from_bytes(bytes).ok()?;
        for text in [&mut hello.name, &mut hello.arch] {
            let mut end = text.len().min(NAME_MAX);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.retain(|c| !c.is_control());
        }
        Some(hello)
    }
}
