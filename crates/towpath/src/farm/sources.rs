//! Items from several sources, from the columns of lines, and several items in one command, as GNU
//! parallel makes them.

use super::input::{InputError, Item, Items};

/// One place that items come from: what stands after a `:::`, or a file.
#[derive(Clone, Debug)]
pub struct Source {
    /// What it gives.
    pub items: Items,
    /// Each goes with the one in the same place of the source before it (`:::+`), instead of with
    /// every one.
    pub linked: bool,
}

/// Every combination of what the sources give, the last one changing fastest. Of linked sources
/// as many go together as the shortest of them gives.
///
/// ```
/// use towpath::farm::{Items, Source, combined};
/// let source = |words: &[&str], linked| {
///     let mut items = Items::default();
///     words.iter().try_for_each(|word| items.push(word.as_bytes()))?;
///     Ok::<_, towpath::farm::InputError>(Source { items, linked })
/// };
/// let items = combined(vec![source(&["a", "b"], false)?, source(&["1", "2"], false)?])?;
/// let texts: Vec<_> = items.iter().map(|item| item.text().into_owned()).collect();
/// assert_eq!(texts, [b"a 1", b"a 2", b"b 1", b"b 2"]);
/// # Ok::<(), towpath::farm::InputError>(())
/// ```
pub fn combined(mut sources: Vec<Source>) -> Result<Items, InputError> {
    if sources.len() <= 1 {
        return Ok(sources.pop().map(|source| source.items).unwrap_or_default());
    }
    let mut groups: Vec<Items> = vec![];
    let mut rest = sources.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut linked = vec![first.items];
        while let Some(next) = rest.next_if(|source| source.linked) {
            linked.push(next.items);
        }
        groups.push(side_by_side(linked)?);
    }
    let mut items = Items::default();
    if groups.iter().any(Items::is_empty) {
        return Ok(items);
    }
    let mut at = vec![0; groups.len()];
    loop {
        let columns = groups.iter().zip(&at).flat_map(|(group, at)| group.at(*at).columns());
        items.push_columns(columns)?;
        // As an odometer counts: the last one that is not at its end goes on, those after it
        // begin anew.
        let Some(turn) = (0..at.len()).rposition(|g| at[g] + 1 < groups[g].len()) else {
            return Ok(items);
        };
        at[turn] += 1;
        at[turn + 1..].fill(0);
    }
}

fn side_by_side(mut lists: Vec<Items>) -> Result<Items, InputError> {
    if lists.len() == 1 {
        return Ok(lists.pop().unwrap_or_default());
    }
    let shortest = lists.iter().map(Items::len).min().unwrap_or(0);
    let mut items = Items::default();
    for index in 0..shortest {
        items.push_columns(lists.iter().flat_map(|list| list.at(index).columns()))?;
    }
    Ok(items)
}

/// So many items at a time as one; the last one may have fewer.
pub fn grouped(items: &Items, size: u32) -> Result<Items, InputError> {
    let mut groups = Items::default();
    let mut next = 0;
    while next < items.len() {
        let end = next.saturating_add(size.max(1)).min(items.len());
        groups.push_columns((next..end).flat_map(|index| items.at(index).columns()))?;
        next = end;
    }
    Ok(groups)
}

/// What parts the columns of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Separation {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Blanks and tabs, as many as there are (`\s+`).
    Blanks,
}

/// What is no separator that is known here.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SeparationError {
    /// Nothing.
    #[error("it is empty")]
    Empty,
    /// A regular expression.
    #[error(
        "`{0}` belongs to regular expressions, which are not understood here: give what stands \
         between the columns, `\\{0}` for the character itself, `\\t`, or `\\s+` for any blanks"
    )]
    Expression(char),
}

impl std::str::FromStr for Separation {
    type Err = SeparationError;

    /// What GNU parallel takes for a regular expression, where it means no more than bytes.
    fn from_str(text: &str) -> Result<Self, SeparationError> {
        if ["\\s+", "[ \\t]+", " +"].contains(&text) {
            return Ok(Self::Blanks);
        }
        let mut bytes = vec![];
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let c = match c {
                '\\' => match chars.next() {
                    Some('t') => '\t',
                    Some('n') => '\n',
                    Some(c) if c.is_ascii_punctuation() => c,
                    other => return Err(SeparationError::Expression(other.unwrap_or('\\'))),
                },
                c if ".*+?[](){}|^$".contains(c) => return Err(SeparationError::Expression(c)),
                c => c,
            };
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        if bytes.is_empty() { Err(SeparationError::Empty) } else { Ok(Self::Bytes(bytes)) }
    }
}

impl Separation {
    fn split<'a>(&self, text: &'a [u8]) -> Vec<&'a [u8]> {
        let mut columns = vec![];
        let mut rest = text;
        while let Some((at, len)) = self.find(rest) {
            columns.push(&rest[..at]);
            rest = &rest[at + len..];
        }
        columns.push(rest);
        columns
    }

    /// Where the next one begins, and how long it is.
    fn find(&self, text: &[u8]) -> Option<(usize, usize)> {
        match self {
            Self::Bytes(bytes) => {
                let at = text.windows(bytes.len()).position(|window| window == bytes)?;
                Some((at, bytes.len()))
            }
            Self::Blanks => {
                let blank = |b: &u8| b" \t".contains(b);
                let at = text.iter().position(blank)?;
                Some((at, text[at..].iter().take_while(|b| blank(b)).count()))
            }
        }
    }
}

/// Each column of an item by itself.
pub fn separated(items: &Items, by: &Separation) -> Result<Items, InputError> {
    let mut columns = Items::default();
    for item in items.iter().map(Item::columns) {
        columns.push_columns(item.flat_map(|column| by.split(column)))?;
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(words: &[&str]) -> Items {
        let mut items = Items::default();
        for word in words {
            items.push(word.as_bytes()).unwrap();
        }
        items
    }

    fn texts(items: &Items) -> Vec<String> {
        items.iter().map(|item| String::from_utf8(item.text().into_owned()).unwrap()).collect()
    }

    fn all(sources: &[(&[&str], bool)]) -> Vec<String> {
        let source =
            |(words, linked): &(&[&str], bool)| Source { items: list(words), linked: *linked };
        texts(&combined(sources.iter().map(source).collect()).unwrap())
    }

    #[test]
    fn sources_give_every_combination_and_the_last_one_changes_fastest() {
        assert_eq!(all(&[(&["a", "b"], false)]), ["a", "b"]);
        let both = all(&[(&["a", "b"], false), (&["1", "2", "3"], false)]);
        assert_eq!(both, ["a 1", "a 2", "a 3", "b 1", "b 2", "b 3"]);
        assert_eq!(all(&[(&["a"], false), (&[], false)]), [""; 0]);
    }

    #[test]
    fn linked_sources_go_together_as_far_as_the_shorter_one() {
        assert_eq!(all(&[(&["a", "b"], false), (&["1", "2", "3"], true)]), ["a 1", "b 2"]);
        let mixed = all(&[(&["a", "b"], false), (&["x", "y"], false), (&["1", "2"], true)]);
        assert_eq!(mixed, ["a x 1", "a y 2", "b x 1", "b y 2"]);
    }

    #[test]
    fn items_go_together_and_the_last_group_is_what_is_left() {
        assert_eq!(
            texts(&grouped(&list(&["1", "2", "3", "4", "5"]), 2).unwrap()),
            ["1 2", "3 4", "5"]
        );
    }

    #[test]
    fn columns_are_parted_by_what_was_given() {
        let split = |by: &str, line: &str| {
            let columns = separated(&list(&[line]), &by.parse().unwrap()).unwrap();
            let columns: Vec<_> = columns.at(0).columns().map(<[u8]>::to_vec).collect();
            columns.into_iter().map(|c| String::from_utf8(c).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(split(",", "a,,b c,"), ["a", "", "b c", ""]);
        assert_eq!(split("\\t", "a\tb"), ["a", "b"]);
        assert_eq!(split("\\|", "a|b"), ["a", "b"]);
        assert_eq!(split("::", "a::b:c"), ["a", "b:c"]);
        assert_eq!(split("\\s+", "a \t b"), ["a", "b"]);
        for wrong in ["", "[,;]", "a|b", ".", ",*", "\\d", "\\"] {
            assert!(wrong.parse::<Separation>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn there_are_as_many_combinations_as_the_product(
            sizes in proptest::collection::vec(0usize..5, 2..5),
        ) {
            let words: Vec<Vec<String>> =
                sizes.iter().map(|n| (0..*n).map(|i| i.to_string()).collect()).collect();
            let sources = words.iter().map(|words| {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                Source { items: list(&words), linked: false }
            });
            let items = combined(sources.collect()).unwrap();
            prop_assert_eq!(items.len() as usize, sizes.iter().product::<usize>());
            let mut seen = texts(&items);
            prop_assert!(seen.is_sorted());
            seen.dedup();
            prop_assert_eq!(seen.len(), items.len() as usize);
        }
    }
}
