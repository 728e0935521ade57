//! Lists of host names in Slurm's compressed form: `n[01-04,7]-ib,login`.
//!
//! ```text
//! list  = name ("," name)*
//! name  = text | text "[" range ("," range)* "]" …      any number of brackets, anywhere
//! range = number | number "-" number                     leading zeros give the width
//! ```
//! Names come out in the order of the list; of several brackets the last one runs fastest.

use towpath_vm::host::NAME_MAX;

/// Most names that a list may stand for: as many as a virtual machine has room for.
pub const NAMES_MAX: usize = 4095;
/// Longest list read, in bytes.
pub const LIST_BYTES_MAX: usize = 64 * 1024;

/// Why a list cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum HostlistError {
    /// It is too long.
    #[error("host list of {len} bytes, limit {LIST_BYTES_MAX}")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// It stands for too many names.
    #[error("host list of more than {NAMES_MAX} names, the limit")]
    TooMany,
    /// A name is too long.
    #[error("host name `{start}…` of {len} bytes, limit {NAME_MAX}")]
    LongName {
        /// How it begins.
        start: String,
        /// Its length.
        len: usize,
    },
    /// A bracket has no partner.
    #[error("`{0}`: a bracket has no partner")]
    Bracket(String),
    /// A range is not one.
    #[error("`{name}`: `{range}` is no range such as 3, 01-16")]
    Range {
        /// The part of the list.
        name: String,
        /// The text between the commas.
        range: String,
    },
    /// A name holds what no host name has.
    #[error("`{0}` is no host name: letters, digits, `.`, `-`, `_` and `:`, not `-` first")]
    Name(String),
}

/// True for what can be a host's name or address, and never an option of a command.
pub fn is_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "._-:%".contains(c);
    !name.is_empty() && name.len() <= NAME_MAX && !name.starts_with('-') && name.chars().all(fine)
}

/// The names that a list stands for.
pub fn expand(list: &str) -> Result<Vec<String>, HostlistError> {
    if list.len() > LIST_BYTES_MAX {
        return Err(HostlistError::TooLong { len: list.len() });
    }
    let mut names = Vec::new();
    for part in parts(list)? {
        expand_part(part, &mut names)?;
    }
    Ok(names)
}

/// Cuts at the commas outside brackets. Empty parts are left out.
fn parts(list: &str) -> Result<Vec<&str>, HostlistError> {
    let (mut parts, mut from, mut inside) = (Vec::new(), 0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' if !inside => inside = true,
            ']' if inside => inside = false,
            '[' | ']' => return Err(HostlistError::Bracket(excerpt(&list[from..]))),
            ',' if !inside => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(HostlistError::Bracket(excerpt(&list[from..])));
    }
    parts.push(&list[from..]);
    Ok(parts.into_iter().map(str::trim).filter(|p| !p.is_empty()).collect())
}

/// The start of a text, for a message.
fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

fn expand_part(part: &str, names: &mut Vec<String>) -> Result<(), HostlistError> {
    let before = names.len();
    let mut partial = vec![String::new()];
    let mut rest = part;
    while let Some((text, after)) = rest.split_once('[') {
        let (ranges, after) =
            after.split_once(']').ok_or_else(|| HostlistError::Bracket(excerpt(part)))?;
        let numbers = numbers(part, ranges)?;
        if before + partial.len().saturating_mul(numbers.len()) > NAMES_MAX {
            return Err(HostlistError::TooMany);
        }
        let grow = |start: &String| -> Vec<String> {
            numbers.iter().map(|n| format!("{start}{text}{n}")).collect()
        };
        partial = partial.iter().flat_map(grow).collect();
        if let Some(long) = partial.iter().find(|n| n.len() > NAME_MAX) {
            return Err(HostlistError::LongName { start: excerpt(long), len: long.len() });
        }
        rest = after;
    }
    for name in partial {
        let name = name + rest;
        if name.len() > NAME_MAX {
            return Err(HostlistError::LongName { start: excerpt(&name), len: name.len() });
        }
        if !is_name(&name) {
            return Err(HostlistError::Name(excerpt(&name)));
        }
        names.push(name);
    }
    if names.len() > NAMES_MAX { Err(HostlistError::TooMany) } else { Ok(()) }
}

/// The numbers of `01-04,7`, as written.
fn numbers(part: &str, ranges: &str) -> Result<Vec<String>, HostlistError> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let bad = || HostlistError::Range { name: excerpt(part), range: excerpt(range) };
        let digits = |text: &str| -> Option<u64> {
            let all = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            if all { text.parse().ok() } else { None }
        };
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (digits(low).ok_or_else(bad)?, digits(high).ok_or_else(bad)?);
        let count = last.checked_sub(first).ok_or_else(bad)?;
        if count >= NAMES_MAX as u64 || numbers.len() as u64 + count >= NAMES_MAX as u64 {
            return Err(HostlistError::TooMany);
        }
        let width = low.len();
        if width > NAME_MAX {
            return Err(HostlistError::LongName { start: excerpt(low), len: width });
        }
        numbers.extend((first..=last).map(|n| format!("{n:0width$}")));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(list: &str) -> Vec<String> {
        expand(list).unwrap()
    }

    #[test]
    fn ranges_widths_several_brackets_and_what_stands_behind_them() {
        assert_eq!(names("n[01-03,7],login"), ["n01", "n02", "n03", "n7", "login"]);
        assert_eq!(names("n[9-11]"), ["n9", "n10", "n11"]);
        assert_eq!(names("r[1-2]n[1-2]-ib"), ["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"]);
        assert_eq!(names("n[098-101]"), ["n098", "n099", "n100", "n101"]);
        assert_eq!(names(" a , b,,"), ["a", "b"]);
        assert_eq!(names(""), [""; 0]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let range =
            |range: &str| HostlistError::Range { name: format!("n[{range}]"), range: range.into() };
        assert_eq!(expand("n[3-1]"), Err(range("3-1")));
        assert_eq!(expand("n[x]"), Err(range("x")));
        assert_eq!(expand("n[]"), Err(range("")));
        assert_eq!(expand("a,n[1"), Err(HostlistError::Bracket("n[1".into())));
        assert_eq!(expand("n]"), Err(HostlistError::Bracket("n]".into())));
        assert_eq!(expand("-oProxyCommand=x"), Err(HostlistError::Name("-oProxyCommand=x".into())));
        assert_eq!(expand("n[1-4096]"), Err(HostlistError::TooMany));
        assert_eq!(expand("n[1-64]m[1-64]"), Err(HostlistError::TooMany));
        assert_eq!(expand("n[0-18446744073709551615]"), Err(HostlistError::TooMany));
        assert!(matches!(expand(&"x".repeat(70_000)), Err(HostlistError::TooLong { .. })));
        assert!(matches!(expand(&"x".repeat(300)), Err(HostlistError::LongName { len: 300, .. })));
    }

    /// Writes names of one prefix the way Slurm does, by runs.
    fn compress(prefix: &str, width: usize, numbers: &[u16]) -> String {
        let mut ranges: Vec<String> = Vec::new();
        for run in numbers.chunk_by(|a, b| a + 1 == *b) {
            let (first, last) = (run[0], run[run.len() - 1]);
            ranges.push(if first == last {
                format!("{first:0width$}")
            } else {
                format!("{first:0width$}-{last:0width$}")
            });
        }
        format!("{prefix}[{}]", ranges.join(","))
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(
            prefix in "[a-z][a-z0-9-]{0,8}",
            width in 1..5usize,
            numbers in proptest::collection::btree_set(0..9999u16, 1..60),
        ) {
            let numbers: Vec<u16> = numbers.into_iter().collect();
            let wanted: Vec<String> =
                numbers.iter().map(|n| format!("{prefix}{n:0width$}")).collect();
            prop_assert_eq!(names(&compress(&prefix, width, &numbers)), wanted);
        }

        #[test]
        fn any_text_gives_names_or_an_error(text in "[a-c0-9,\\[\\]-]{0,40}") {
            if let Ok(names) = expand(&text) {
                prop_assert!(names.len() <= NAMES_MAX);
                prop_assert!(names.iter().all(|n| is_name(n)));
            }
        }
    }
}
