//! Fields of kinds: what an entry of the host table says beside what every build knows of a host.
//!
//! A host says them in its hello; the leader puts them into the command that takes it in, and the
//! entry has them as they came: whoever decodes an entry and encodes it again, in snapshots, in
//! entries, in what a founder keeps, passes on also what it does not know. [The rule of
//! kinds](towpath_wire::parameter) says what may be passed over; a critical kind that is not known
//! refuses the whole, by name ([`Fields::check`]).
//!
//! ```text
//! field      0 kind | 1 length n | 2..2+n value                          (towpath_wire::parameter)
//! addresses  128: one after the other  0 family (4 or 6) | 1..3 port | 3..7 or 3..19 IP address
//! drains     129: empty; there while the host is given nothing new
//! ```
//! Addresses are skippable: the one that every entry has leads to the host, too.

use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};
use towpath_wire::bytes::{ParseError, Reader};
use towpath_wire::parameter::{self, Parameters};

/// Bytes of the fields of one host at most.
pub const FIELDS_BYTES_MAX: usize = 256;
/// Fields of one host at most.
pub const FIELDS_MAX: usize = 16;
/// Bytes of all fields in a host table at most: with them it fits into one message to a newcomer
/// however many hosts there are.
pub const FIELDS_ALL_MAX: usize = 192 << 10;
/// Kind of the field with all addresses at which a host receives, where there are several.
pub const ADDRESSES: u8 = parameter::SKIPPABLE;
/// Kind of the field that says whether a host is given nothing new. The log sets it, not the host.
pub const DRAINS: u8 = parameter::SKIPPABLE + 1;

/// Fields, as they came. Invariants: whole fields, at most [`FIELDS_MAX`] in at most
/// [`FIELDS_BYTES_MAX`] bytes.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Fields(Vec<u8>);

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl TryFrom<Vec<u8>> for Fields {
    type Error = ParseError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, ParseError> {
        within("bytes of host fields", bytes.len(), FIELDS_BYTES_MAX)?;
        let mut count = 0;
        for field in Parameters::new(&bytes) {
            field?;
            count += 1;
        }
        within("host fields", count, FIELDS_MAX)?;
        Ok(Self(bytes))
    }
}

impl From<Fields> for Vec<u8> {
    fn from(fields: Fields) -> Self {
        fields.0
    }
}

fn within(field: &'static str, value: usize, limit: usize) -> Result<(), ParseError> {
    let (value, limit) = (value as u64, limit as u64);
    if value <= limit { Ok(()) } else { Err(ParseError::Limit { field, value, limit }) }
}

impl Fields {
    /// That a host receives at all of these, which are few; nothing where there is none.
    pub fn of_addresses(addrs: &[SocketAddr]) -> Self {
        let mut fields = Self::default();
        if !addrs.is_empty() {
            let value: Vec<u8> = addrs.iter().flat_map(address).collect();
            fields.set(ADDRESSES, &value).expect("addresses that count are few");
        }
        fields
    }

    /// Bytes of all.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Kinds and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &[u8])> {
        Parameters::new(&self.0).map_while(|field| field.ok().map(|(kind, r)| (kind, r.rest())))
    }

    /// The value of a kind: of several the last.
    pub fn get(&self, kind: u8) -> Option<&[u8]> {
        self.iter().filter(|(k, _)| *k == kind).last().map(|(_, value)| value)
    }

    /// Gives a kind this value, whatever it had; the others stay as they are.
    pub fn set(&mut self, kind: u8, value: &[u8]) -> Result<(), ParseError> {
        within("bytes of a host field", value.len(), u8::MAX.into())?;
        let mut bytes = Vec::new();
        for (k, value) in self.iter().filter(|(k, _)| *k != kind).chain([(kind, value)]) {
            bytes.extend([k, value.len() as u8]);
            bytes.extend(value);
        }
        *self = Self::try_from(bytes)?;
        Ok(())
    }

    /// Without a kind.
    #[must_use]
    pub fn without(self, kind: u8) -> Self {
        let kept = self.iter().filter(|(k, _)| *k != kind);
        let kept = kept.flat_map(|(k, value)| [&[k, value.len() as u8], value].concat());
        Self(kept.collect())
    }

    /// Whether all that must be known is.
    pub fn check(&self) -> Result<(), ParseError> {
        self.iter().try_for_each(|(kind, _)| match kind {
            ADDRESSES | DRAINS => Ok(()),
            kind => parameter::unknown("a field of a host", kind),
        })
    }

    /// Where the host receives, if it says so: up to an address of a family that is not known.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let mut r = Reader::new(self.get(ADDRESSES).unwrap_or_default());
        core::iter::from_fn(|| read_address(&mut r)).collect()
    }
}

fn address(addr: &SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(19);
    bytes.push(if addr.is_ipv4() { 4 } else { 6 });
    bytes.extend(addr.port().to_le_bytes());
    match addr.ip() {
        IpAddr::V4(ip) => bytes.extend(ip.octets()),
        IpAddr::V6(ip) => bytes.extend(ip.octets()),
    }
    bytes
}

fn read_address(r: &mut Reader<'_>) -> Option<SocketAddr> {
    let (family, port) = (r.u8().ok()?, r.u16().ok()?);
    let ip = match family {
        4 => IpAddr::from(Ipv4Addr::from(r.array::<4>().ok()?)),
        6 => IpAddr::from(Ipv6Addr::from(r.array::<16>().ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Host, HostState};
    use crate::message::{Entries, MessageError, Report, Resumed, Welcome};
    use crate::{Change, ControlLog, Entry, Message};
    use proptest::prelude::*;
    use std::format;
    use std::vec;
    use towpath_wire::HostId;

    fn addr(n: u8) -> SocketAddr {
        ([192, 0, 2, n], 7).into()
    }

    fn host(slot: u16, fields: Fields) -> Host {
        Host {
            id: HostId::new(slot, slot.into()).unwrap(),
            name: format!("h{slot}"),
            addr: addr(1),
            key: [slot as u8; 32],
            arch: "any".into(),
            speed: 1000,
            cpus: 2,
            slots: 2,
            state: HostState::Up,
            fields,
        }
    }

    /// Every message that has entries of the host table, each with `fields`.
    fn messages(fields: &Fields) -> [Message; 4] {
        let mut log = ControlLog::found(host(1, fields.clone()), 2000);
        let entry = log.append(Change::Added(host(2, fields.clone())));
        let snapshot = log.snapshot().clone();
        let (term, index, registered) = (1, 2, vec![]);
        [
            Message::Welcome(Welcome {
                you: host(2, fields.clone()).id,
                snapshot: snapshot.clone(),
            }),
            Message::Entries(Entries { entries: vec![entry] }),
            Message::Report(Report { term, index, registered, snapshot: Some(snapshot.clone()) }),
            Message::Resumed(Resumed { snapshot: Some(snapshot) }),
        ]
    }

    fn fields(all: &[(u8, Vec<u8>)]) -> Fields {
        let bytes = all.iter().flat_map(|(kind, value)| {
            [*kind, value.len() as u8].into_iter().chain(value.iter().copied())
        });
        Fields::try_from(bytes.collect::<Vec<u8>>()).unwrap()
    }

    proptest! {
        #[test]
        fn fields_of_kinds_that_are_not_known_are_passed_on_as_they_came(
            all in proptest::collection::vec(
                (128..=255u8, proptest::collection::vec(any::<u8>(), 0..14)), 0..=FIELDS_MAX),
        ) {
            let fields = fields(&all);
            for message in messages(&fields) {
                let bytes = message.encode();
                let heard = Message::decode(&bytes).unwrap();
                prop_assert_eq!(heard.encode(), bytes, "decoded and encoded again");
            }
            let read: Vec<_> = fields.iter().map(|(kind, value)| (kind, value.to_vec())).collect();
            prop_assert_eq!(read, all);
        }

        #[test]
        fn any_bytes_are_fields_within_their_limits_or_refused(bytes: Vec<u8>) {
            if let Ok(fields) = Fields::try_from(bytes.clone()) {
                prop_assert!(bytes.len() <= FIELDS_BYTES_MAX);
                prop_assert!(fields.iter().count() <= FIELDS_MAX);
                let _ = (fields.check(), fields.addresses());
                prop_assert_eq!(Vec::from(fields), bytes);
            }
        }

        #[test]
        fn setting_a_field_leaves_the_others(
            all in proptest::collection::vec((0..=255u8, vec![any::<u8>(); 3]), 0..FIELDS_MAX),
            kind: u8,
        ) {
            let before = fields(&all);
            let mut after = before.clone();
            after.set(kind, b"new").unwrap();
            prop_assert_eq!(after.get(kind), Some(&b"new"[..]));
            for other in (0..=255).filter(|k| *k != kind) {
                prop_assert_eq!(after.get(other), before.get(other));
            }
        }
    }

    #[test]
    fn a_critical_field_that_is_not_known_is_refused_by_name_wherever_it_stands() {
        let unknown = ParseError::Unknown { field: "a field of a host", value: 5 };
        for message in messages(&fields(&[(200, vec![1]), (5, vec![])])) {
            let bytes = message.encode();
            let kind = u16::from_le_bytes([bytes[0], bytes[1]]);
            assert_eq!(Message::decode(&bytes), Err(MessageError::Refused(kind, unknown)));
        }
        let error = MessageError::Refused(2, unknown);
        let text =
            "message kind 2: a field of a host has value 5, which this version does not know";
        assert_eq!(format!("{error}"), text);
    }

    #[test]
    fn more_than_may_be_is_refused() {
        let limit = |field, value, limit| ParseError::Limit { field, value, limit };
        let most = [200, 126].into_iter().chain([7; 126]).collect::<Vec<u8>>().repeat(2);
        let mut full = Fields::try_from(most.clone()).unwrap();
        let more = [&most[..], &[200, 0]].concat();
        assert_eq!(Fields::try_from(more), Err(limit("bytes of host fields", 258, 256)));
        assert_eq!(full.set(201, &[]), Err(limit("bytes of host fields", 258, 256)));
        assert_eq!(full.set(201, &[0; 256]), Err(limit("bytes of a host field", 256, 255)));
        assert_eq!((full.len(), full.set(200, &[1; 254]), full.len()), (256, Ok(()), 256));
        assert_eq!(Fields::try_from([200, 0].repeat(17)), Err(limit("host fields", 17, 16)));
        let mut many = Fields::try_from([200, 0].repeat(16)).unwrap();
        assert_eq!(many.set(201, &[]), Err(limit("host fields", 17, 16)));
        assert_eq!(many.set(200, &[]), Ok(()), "of one kind there is one then");
        assert_eq!((many.len(), many.set(201, &[])), (2, Ok(())));
        assert!(Fields::try_from(vec![200, 3, 1]).is_err(), "a cut one");
        // In an entry it does not decode.
        let entry = Entry { term: 1, index: 1, change: Change::Added(host(1, Fields::default())) };
        let mut bytes = Message::Entries(Entries { entries: vec![entry] }).encode();
        assert_eq!(bytes.pop(), Some(0), "none");
        bytes.extend([34]);
        bytes.extend([200, 0].repeat(17));
        assert_eq!(Message::decode(&bytes), Err(MessageError::Malformed(2)));
    }

    #[test]
    fn addresses_come_back_and_what_follows_one_of_another_family_is_not_read() {
        let addrs = [addr(1), "[2001:db8::7]:65535".parse().unwrap()];
        let fields = Fields::of_addresses(&addrs);
        assert_eq!((fields.addresses(), fields.len()), (addrs.to_vec(), 2 + 7 + 19));
        assert_eq!(fields.check(), Ok(()));
        assert!(Fields::of_addresses(&[]).is_empty());
        let mut later = fields.clone();
        let value = [fields.get(ADDRESSES).unwrap(), &[9, 0, 0, 4, 7, 0, 1, 2, 3, 4]].concat();
        later.set(ADDRESSES, &value).unwrap();
        assert_eq!(later.addresses(), addrs);
        let longest = [addrs[1]; 8];
        assert_eq!(Fields::of_addresses(&longest).addresses(), longest);
    }
}
