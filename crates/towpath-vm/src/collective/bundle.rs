//! Several members' parts in one message.
//!
//! ```text
//! parts, one behind the other | table: n × (rank u32 | 0: the part stands above, 1: it comes
//! directly from that rank | length u64) | n u64
//! ```
//! The table stands last so that the parts begin where the message does.

use alloc::vec::Vec;

use towpath_wire::bytes::{ParseError, Reader};

use super::error::CollectiveError;
use super::payload::Payload;

const ROW: usize = 16;
const COUNT: usize = 8;

/// Where a part is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Here.
    Here(Payload),
    /// It is this long, and comes by itself.
    Direct(u64),
}

/// One member's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) rank: u32,
    pub(super) part: Part,
}

impl Item {
    /// The part of `rank`: here, unless it is long.
    pub(super) fn new(rank: u32, data: &Payload, direct_from: u64) -> Self {
        let bytes = data.len() as u64;
        let part = if bytes < direct_from { Part::Here(data.clone()) } else { Part::Direct(bytes) };
        Self { rank, part }
    }

    pub(super) fn bytes(&self) -> u64 {
        match &self.part {
            Part::Here(data) => data.len() as u64,
            Part::Direct(bytes) => *bytes,
        }
    }
}

/// The parts of a message that holds `items`.
pub(super) fn emit(items: &[Item]) -> Vec<Payload> {
    let (mut parts, mut table) = (Vec::new(), Vec::with_capacity(items.len() * ROW + COUNT));
    for item in items {
        let direct = matches!(item.part, Part::Direct(_));
        table.extend(item.rank.to_le_bytes());
        table.extend(u32::from(direct).to_le_bytes());
        table.extend(item.bytes().to_le_bytes());
        if let Part::Here(data) = &item.part
            && !data.is_empty()
        {
            parts.push(data.clone());
        }
    }
    table.extend((items.len() as u64).to_le_bytes());
    parts.push(table.into());
    parts
}

/// Takes a message of `from` apart. It must hold the parts of `ranks`, in this order, each of at
/// most `limit` bytes.
pub(super) fn parse(
    message: &Payload,
    from: u32,
    ranks: impl Iterator<Item = u32>,
    limit: u64,
) -> Result<Vec<Item>, CollectiveError> {
    let malformed = CollectiveError::Malformed { rank: from };
    let items = rows(message).map_err(|_| malformed)?.ok_or(malformed)?;
    if !items.iter().map(|item| item.rank).eq(ranks) {
        return Err(malformed);
    }
    match items.iter().find(|item| item.bytes() > limit) {
        Some(item) => {
            Err(CollectiveError::TooLarge { rank: item.rank, bytes: item.bytes(), limit })
        }
        None => Ok(items),
    }
}

fn rows(message: &Payload) -> Result<Option<Vec<Item>>, ParseError> {
    let Some(table_end) = message.len().checked_sub(COUNT) else { return Ok(None) };
    let count = Reader::new(&message[table_end..]).u64()?;
    if count > (table_end / ROW) as u64 {
        return Ok(None);
    }
    let table = table_end - count as usize * ROW;
    let mut r = Reader::new(&message[table..table_end]);
    let (mut items, mut at) = (Vec::with_capacity(count as usize), 0);
    for _ in 0..count {
        let (rank, direct, bytes) = (r.u32()?, r.u32()?, r.u64()?);
        let part = if direct == 0 {
            if bytes > (table - at) as u64 {
                return Ok(None);
            }
            let next = at + bytes as usize;
            let data = message.slice(at..next);
            at = next;
            Part::Here(data)
        } else {
            Part::Direct(bytes)
        };
        items.push(Item { rank, part });
    }
    Ok((at == table).then_some(items))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_may_be_as_long_as_there_is_room_for() {
        let part = |len: u64| {
            let item = Item { rank: 0, part: Part::Direct(len) };
            let bytes = joined(&emit(core::slice::from_ref(&item)));
            parse(&bytes, 3, 0..1, 10).map(|items| items == [item])
        };
        let long = CollectiveError::TooLarge { rank: 0, bytes: 11, limit: 10 };
        assert_eq!([part(9), part(10), part(11)], [Ok(true), Ok(true), Err(long)]);
    }

    fn joined(parts: &[Payload]) -> Payload {
        parts.iter().flat_map(|part| part.to_vec()).collect::<Vec<_>>().into()
    }

    proptest! {
        #[test]
        fn items_come_back(
            parts in proptest::collection::vec(
                (any::<u32>(), proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9))),
                0..6,
            ),
        ) {
            let part = |data: Option<Vec<u8>>| match data {
                Some(data) => Part::Here(data.into()),
                None => Part::Direct(7),
            };
            let items: Vec<_> =
                parts.into_iter().map(|(rank, data)| Item { rank, part: part(data) }).collect();
            let message = joined(&emit(&items));
            let ranks = || items.iter().map(|item| item.rank);
            prop_assert_eq!(parse(&message, 0, ranks(), 9), Ok(items.clone()));
            if let Some(longest) = items.iter().map(Item::bytes).max().filter(|bytes| *bytes > 0) {
                let error = parse(&message, 0, ranks(), longest - 1);
                let too_large = matches!(error, Err(CollectiveError::TooLarge { .. }));
                prop_assert!(too_large);
            }
        }

        #[test]
        fn any_bytes_are_items_or_refused(bytes: Vec<u8>, count in 0..4u64, table: [u64; 4]) {
            let mut message = bytes;
            message.extend(table.iter().flat_map(|word| word.to_le_bytes()));
            message.extend(count.to_le_bytes());
            let message = Payload::from(message);
            if let Ok(Some(items)) = rows(&message) {
                prop_assert_eq!(joined(&emit(&items)).len(), message.len());
            }
        }
    }

    #[test]
    fn parts_are_as_long_as_the_table_says_or_the_message_is_refused() {
        let message = |body: &[u8], rows: &[(u32, u32, u64)], count: u64| {
            let mut bytes = body.to_vec();
            for (rank, direct, len) in rows {
                bytes.extend(rank.to_le_bytes());
                bytes.extend(direct.to_le_bytes());
                bytes.extend(len.to_le_bytes());
            }
            bytes.extend(count.to_le_bytes());
            Payload::from(bytes)
        };
        let parsed = |m: &Payload, ranks: &[u32]| parse(m, 9, ranks.iter().copied(), 100);
        let here = |rank, bytes: &[u8]| Item { rank, part: Part::Here(bytes.to_vec().into()) };
        let good = message(b"abcde", &[(4, 0, 3), (5, 1, 70), (6, 0, 2)], 3);
        let direct = Item { rank: 5, part: Part::Direct(70) };
        assert_eq!(parsed(&good, &[4, 5, 6]), Ok([here(4, b"abc"), direct, here(6, b"de")].into()));
        let malformed = Err(CollectiveError::Malformed { rank: 9 });
        for bad in [
            message(b"abc", &[(4, 0, 4)], 1),
            message(b"abc", &[(4, 0, 2)], 1),
            message(b"abc", &[(4, 0, u64::MAX)], 1),
            message(b"abc", &[(4, 1, 3)], 1),
            message(b"abc", &[(4, 0, 3)], 2),
            message(b"abc", &[(4, 0, 3)], 0),
            message(b"abc", &[(4, 0, 3)], u64::MAX),
            message(b"abc", &[(5, 0, 3)], 1),
            message(b"abcd", &[(4, 0, 3), (4, 0, 1)], 2),
            message(b"", &[], 0).slice(0..7),
        ] {
            assert_eq!(parsed(&bad, &[4]), malformed, "{bad:?}");
        }
        assert_eq!(parsed(&message(b"", &[], 0), &[]), Ok(Vec::new()));
        let too_large = Err(CollectiveError::TooLarge { rank: 4, bytes: 101, limit: 100 });
        assert_eq!(parsed(&message(b"", &[(4, 1, 101)], 1), &[4]), too_large);
        assert_eq!(parsed(&message(&[0; 101], &[(4, 0, 101)], 1), &[4]), too_large);
    }
}
