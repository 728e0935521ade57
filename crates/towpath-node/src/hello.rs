//! What hosts say of themselves in the handshake.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

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
    /// To talk as the leader, whoever it was when its members heard of it last, with the state as
    /// of this entry: one that has started again hears from them of later ones.
    Lead {
        /// Who it is, or was before it started again.
        id: HostId,
        /// Term of that entry.
        term: u64,
        /// Its index.
        index: u64,
    },
}

impl Purpose {
    /// The place of the leader's last entry.
    pub(crate) const fn kept(self) -> Option<(u64, u64)> {
        match self {
            Self::Lead { term, index, .. } => Some((term, index)),
            _ => None,
        }
    }
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
    /// Where it receives, if it has several addresses. These follow the rest: a host of an older
    /// version does not say any, and does not look at them.
    #[serde(skip)]
    pub(crate) addrs: Vec<SocketAddr>,
}

impl Hello {
    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(&(self, &self.addrs)).expect("a vector takes any body")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut hello, rest): (Self, _) = postcard::take_from_bytes(bytes).ok()?;
        hello.addrs = postcard::from_bytes(rest).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_no_matter_to_a_host_that_knows_of_none() {
        let addrs = alloc::vec![([192, 0, 2, 1], 7).into(), ([198, 51, 100, 1], 7).into()];
        let bare = Hello {
            purpose: Purpose::Join,
            name: "h".into(),
            arch: "any".into(),
            speed: 1000,
            cpus: 2,
            slots: 2,
            addrs: Vec::new(),
        };
        let hello = Hello { addrs, ..bare.clone() };
        let bytes = hello.encode();
        assert_eq!(Hello::decode(&bytes), Some(hello));
        // What an older version reads of this, and what it says.
        assert_eq!(postcard::from_bytes(&bytes), Ok(bare.clone()));
        let old = postcard::to_allocvec(&bare).expect("a vector takes any body");
        assert_eq!(Hello::decode(&old), Some(bare));
        // Addresses that do not decode are none.
        assert_eq!(Hello::decode(&bytes[..bytes.len() - 1]).expect("the rest").addrs, []);
    }
}
