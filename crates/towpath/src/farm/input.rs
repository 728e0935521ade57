//! The items: read and checked as a whole before anything runs.

use std::borrow::Cow;
use std::io::{self, BufRead, Read};

/// Most items of one farm.
pub const ITEMS_MAX: u32 = 10_000_000;
/// Longest item in bytes: Linux takes arguments of up to 128 KiB (`MAX_ARG_STRLEN`) with the NUL
/// that ends them.
pub const ITEM_BYTES_MAX: usize = 128 * 1024 - 1;
/// Most bytes of all items together.
pub const ITEMS_BYTES_MAX: usize = 1 << 30;

/// Why the items cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The list cannot be opened or read.
    #[error("cannot read the items from {name}: {os}\nhint: {}", hint(os))]
    Read {
        /// File, or `standard input`.
        name: String,
        /// What the operating system says.
        os: io::Error,
    },
    /// There are too many.
    #[error(
        "more than {ITEMS_MAX} items, or {ITEMS_BYTES_MAX} bytes of them\n\
         hint: split the list and farm the parts one after the other"
    )]
    TooMany,
    /// One is too long to be an argument.
    #[error(
        "item {number} ({start:?}…) is longer than {ITEM_BYTES_MAX} bytes, the most that an \
         argument can hold\nhint: is it separated by NUL (-0) or by lines?"
    )]
    TooLong {
        /// Its number from 1.
        number: u64,
        /// How it begins.
        start: String,
    },
    /// One holds a NUL byte.
    #[error(
        "item {number} ({start:?}…) holds a NUL byte, which no argument can\n\
         hint: give -0 if the items are separated by NUL"
    )]
    Nul {
        /// Its number from 1.
        number: u64,
        /// How it begins.
        start: String,
    },
}

fn hint(os: &io::Error) -> &'static str {
    match os.kind() {
        io::ErrorKind::NotFound => "give the name of an existing file with -a",
        io::ErrorKind::PermissionDenied => "make the file readable for this user",
        io::ErrorKind::IsADirectory => "a directory holds no list; try `find DIR -type f -print0`",
        _ => "nothing was run; the list is read as a whole first",
    }
}

/// What ends an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// A line feed.
    Line,
    /// A NUL byte.
    Nul,
}

impl Separator {
    const fn byte(self) -> u8 {
        match self {
            Self::Line => b'\n',
            Self::Nul => 0,
        }
    }
}

/// An item: one column, or several where it comes from several sources, from the columns of a
/// line, or from several items together. No column holds a NUL byte, which therefore parts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a>(&'a [u8]);

impl<'a> Item<'a> {
    /// One of a single column.
    pub const fn of(column: &'a [u8]) -> Self {
        Self(column)
    }

    /// Its columns, at least one.
    pub fn columns(self) -> impl DoubleEndedIterator<Item = &'a [u8]> + Clone {
        self.0.split(|b| *b == 0)
    }

    /// All of it for people: its columns with blanks between them.
    pub fn text(self) -> Cow<'a, [u8]> {
        if !self.0.contains(&0) {
            return Cow::Borrowed(self.0);
        }
        Cow::Owned(self.columns().collect::<Vec<_>>().join(&b' '))
    }
}

/// All items, in one piece of memory. Invariants: `ends` ascends and its last is `bytes.len()`;
/// at most [`ITEMS_MAX`] items, each column at most [`ITEM_BYTES_MAX`] bytes without NUL.
#[derive(Clone, Debug, Default)]
pub struct Items {
    /// Columns of an item are parted by NUL.
    bytes: Vec<u8>,
    /// Where each item ends; [`ITEMS_BYTES_MAX`] fits.
    ends: Vec<u32>,
}

impl Items {
    /// Reads them from `source` to its end. The last one may lack its separator; empty lines are
    /// empty items.
    pub fn read(
        source: &mut dyn BufRead,
        name: &str,
        separator: Separator,
    ) -> Result<Self, InputError> {
        let mut items = Self::default();
        let mut item = vec![];
        loop {
            item.clear();
            let n = Read::take(&mut *source, ITEM_BYTES_MAX as u64 + 1)
                .read_until(separator.byte(), &mut item)
                .map_err(|os| InputError::Read { name: name.to_string(), os })?;
            if n == 0 {
                return Ok(items);
            }
            if item.last() == Some(&separator.byte()) {
                item.pop();
            }
            items.push(&item)?;
        }
    }

    /// Adds one of a single column.
    pub fn push(&mut self, item: &[u8]) -> Result<(), InputError> {
        self.push_columns(std::iter::once(item))
    }

    /// Adds one of these columns, at least one.
    pub fn push_columns<'a>(
        &mut self,
        columns: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), InputError> {
        let number = self.ends.len() as u64 + 1;
        let begin = self.bytes.len();
        for (at, column) in columns.enumerate() {
            let start = || String::from_utf8_lossy(&column[..column.len().min(40)]).into_owned();
            if column.len() > ITEM_BYTES_MAX {
                return Err(InputError::TooLong { number, start: start() });
            }
            if column.contains(&0) {
                return Err(InputError::Nul { number, start: start() });
            }
            if at > 0 {
                self.bytes.push(0);
            }
            self.bytes.extend_from_slice(column);
        }
        let end = self.bytes.len();
        if self.len() == ITEMS_MAX || end > ITEMS_BYTES_MAX {
            self.bytes.truncate(begin);
            return Err(InputError::TooMany);
        }
        self.ends.push(end as u32);
        Ok(())
    }

    /// How many.
    pub const fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    /// True when there is none.
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The item with an index from 0. Panics beyond the end.
    pub fn at(&self, index: u32) -> Item<'_> {
        let index = index as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Item(&self.bytes[start as usize..self.ends[index] as usize])
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = Item<'_>> {
        (0..self.len()).map(|index| self.at(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8], separator: Separator) -> Result<Vec<Vec<u8>>, InputError> {
        let items = Items::read(&mut &*bytes, "test", separator)?;
        Ok((0..items.len()).map(|i| items.at(i).text().into_owned()).collect())
    }

    #[test]
    fn lines_with_and_without_a_last_line_feed() {
        assert_eq!(read(b"a\n\nb c\n", Separator::Line).unwrap(), [&b"a"[..], b"", b"b c"]);
        assert_eq!(read(b"a\nb", Separator::Line).unwrap(), [b"a", b"b"]);
        assert!(read(b"", Separator::Line).unwrap().is_empty());
    }

    #[test]
    fn nul_separated_items_hold_line_feeds() {
        assert_eq!(read(b"a\nb\0c\0", Separator::Nul).unwrap(), [&b"a\nb"[..], b"c"]);
    }

    #[test]
    fn the_longest_item_is_taken_and_one_byte_more_is_not() {
        let mut list = vec![b'x'; ITEM_BYTES_MAX];
        list.push(b'\n');
        assert_eq!(read(&list, Separator::Line).unwrap().len(), 1);
        list.insert(0, b'x');
        let err = read(&[b"ok\n", &list[..]].concat(), Separator::Line).unwrap_err();
        assert!(matches!(err, InputError::TooLong { number: 2, .. }), "{err}");
    }

    #[test]
    fn a_nul_among_lines_is_named_with_a_hint() {
        let err = read(b"a\nb\0c\n", Separator::Line).unwrap_err().to_string();
        assert!(err.starts_with("item 2") && err.contains("hint: give -0"), "{err}");
    }

    #[test]
    fn an_unreadable_list_is_an_error_with_its_name() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::IsADirectory.into())
            }
        }
        let mut broken = io::BufReader::new(Broken);
        let err = Items::read(&mut broken, "list", Separator::Line).unwrap_err().to_string();
        assert!(err.starts_with("cannot read the items from list") && err.contains("hint:"));
    }

    proptest! {
        #[test]
        fn what_was_joined_comes_back(list in proptest::collection::vec("[^\0]{0,9}", 0..20)) {
            let joined: Vec<u8> =
                list.iter().flat_map(|i| [i.as_bytes(), b"\0"].concat()).collect();
            let expected: Vec<Vec<u8>> = list.iter().map(|i| i.as_bytes().to_vec()).collect();
            prop_assert_eq!(read(&joined, Separator::Nul).unwrap(), expected);
        }
    }
}
