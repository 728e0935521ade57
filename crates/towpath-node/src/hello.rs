//! What hosts say of themselves in the handshake.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use towpath_vm::Fields;
use towpath_vm::host::NAME_MAX;
use towpath_wire::HostId;
use towpath_wire::bytes::ParseError;
use towpath_wire::greeting::{Greeting, PROTOCOL};

/// What the connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// To become a host of the virtual machine.
    Join,
    /// To become one again after having been lost.
    Rejoin,
    /// To talk, as this host.
    Member(HostId),
    /// To say that the engine of this host has ended without a word: who started it says that, with
    /// the host's key. Nobody is let in for it.
    Ended(HostId),
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
    /// What its entry of the host table is to say beside that.
    pub(crate) fields: Fields,
    /// Which daemon says it ([`crate::NodeConfig::life`]): behind all else, where it is said.
    #[serde(skip)]
    pub(crate) life: u64,
}

/// Why a hello says nothing to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It does not decode.
    Malformed,
    /// It says what must be known, and is not.
    Refused(ParseError),
    /// It is of another build: which.
    Build(String),
}

impl Hello {
    /// Its bytes, behind a greeting that any build can read.
    pub(crate) fn encode(&self, build: &str) -> Vec<u8> {
        let (greeting, len) = Greeting { protocol: PROTOCOL, build }.emit();
        let mut bytes =
            postcard::to_extend(self, greeting[..len].to_vec()).expect("a vector takes any body");
        if self.life != 0 {
            bytes.extend_from_slice(&self.life.to_le_bytes());
        }
        bytes
    }

    /// What a host of the same build says.
    pub(crate) fn decode(bytes: &[u8], build: &str) -> Result<Self, Unread> {
        let own = Greeting { protocol: PROTOCOL, build };
        let (theirs, len) = match Greeting::parse(bytes) {
            Ok(Some(found)) => found,
            Ok(None) => return Err(Unread::Malformed),
            Err(_) => return Err(Unread::Build("one that does not say which it is".into())),
        };
        if theirs != own {
            return Err(Unread::Build(theirs.to_string()));
        }
        let (mut hello, rest): (Self, _) =
            postcard::take_from_bytes(&bytes[len..]).map_err(|_| Unread::Malformed)?;
        hello.life = rest.first_chunk().map_or(0, |life| u64::from_le_bytes(*life));
        for text in [&mut hello.name, &mut hello.arch] {
            let mut end = text.len().min(NAME_MAX);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.retain(|c| !c.is_control());
        }
        hello.fields.check().map_err(Unread::Refused)?;
        Ok(hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            purpose: Purpose::Join,
            name: "h".into(),
            arch: "any".into(),
            speed: 1000,
            cpus: 2,
            slots: 2,
            fields: Fields::of_addresses(&[
                ([192, 0, 2, 1], 7).into(),
                ([198, 51, 100, 1], 7).into(),
            ]),
            life: 0,
        }
    }

    #[test]
    fn one_that_leads_says_how_far_what_it_has_goes() {
        let id = HostId::new(3, 3).unwrap();
        assert_eq!(Purpose::Lead { id, term: 4, index: 7 }.kept(), Some((4, 7)));
        for other in [Purpose::Join, Purpose::Rejoin, Purpose::Member(id), Purpose::Ended(id)] {
            assert_eq!(other.kept(), None);
        }
    }

    #[test]
    fn a_hello_is_read_by_hosts_of_its_build_and_the_others_learn_which_that_is() {
        let bytes = hello().encode("1.0 (a)");
        assert_eq!(Hello::decode(&bytes, "1.0 (a)"), Ok(hello()));
        let other = Hello::decode(&bytes, "1.0 (b)");
        assert_eq!(other, Err(Unread::Build("towpath 1.0 (a), protocol 1".into())));
        assert_eq!(Hello::decode(&bytes[..bytes.len() - 1], "1.0 (a)"), Err(Unread::Malformed));
        assert_eq!(Hello::decode(&bytes[..9], "1.0 (a)"), Err(Unread::Malformed));
        let drawn = Hello { life: 0x0102_0304_0506_0708, ..hello() };
        assert_eq!(drawn.encode("1.0 (a)").len(), bytes.len() + 8);
        assert_eq!(Hello::decode(&drawn.encode("1.0 (a)"), "1.0 (a)"), Ok(drawn));
        // What may be passed over is kept; what may not refuses the hello.
        let mut later = hello();
        later.fields.set(200, b"later").expect("there is room");
        assert_eq!(Hello::decode(&later.encode("1.0 (a)"), "1.0 (a)"), Ok(later.clone()));
        later.fields.set(5, b"").expect("there is room");
        let unknown = ParseError::Unknown { field: "a field of a host", value: 5 };
        let refused = Hello::decode(&later.encode("1.0 (a)"), "1.0 (a)");
        assert_eq!(refused, Err(Unread::Refused(unknown)));
        // Builds that knew of no greeting began with the purpose.
        let old = postcard::to_allocvec(&hello()).expect("a vector takes any body");
        assert!(matches!(Hello::decode(&old, "1.0 (a)"), Err(Unread::Build(_))));
    }

    #[test]
    fn the_longest_hello_fits_into_a_handshake() {
        let mut fields = Fields::default();
        fields.set(200, &[7; 254]).expect("there is room");
        let text = "n".repeat(NAME_MAX);
        let hello = Hello {
            purpose: Purpose::Member(HostId::new(4095, u32::MAX).expect("a host")),
            name: text.clone(),
            arch: text,
            speed: u32::MAX,
            cpus: u16::MAX,
            slots: u16::MAX,
            fields,
            life: u64::MAX,
        };
        let len = hello.encode(&"b".repeat(64)).len();
        assert!(len <= towpath_proto::endpoint::HELLO_MAX, "{len} bytes");
    }
}
