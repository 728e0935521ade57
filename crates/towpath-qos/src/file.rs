//! Files that people write in TOML: a limit on their size, faults with their line, lists of
//! exactly as many elements as they stand for.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::de::{self, DeserializeOwned, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// Largest file, unless it is said otherwise: 4 MiB.
pub const BYTES_MAX: usize = 4 << 20;

/// Not TOML, a key that there is not, a value of the wrong type, or too long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct FileError {
    /// From 1.
    pub line: usize,
    /// On one line.
    pub message: String,
}

/// Reads a file of at most `bytes_max`.
pub fn read<T: DeserializeOwned>(text: &str, bytes_max: usize) -> Result<T, FileError> {
    if text.len() > bytes_max {
        let message = format!("file in bytes is {}, must be 0 to {bytes_max}", text.len());
        return Err(FileError { line: 1, message });
    }
    toml::from_str(text).map_err(|e| {
        let (span, message) = (e.span().unwrap_or(0..0), one_line(e.message()));
        // What no integer of the format holds: the parser names its own types, or nothing.
        let beyond = ["integer number overflowed", "as i128", "as u128"];
        let beyond = beyond.iter().any(|said| message.contains(said));
        let found = if beyond { long_number(text, span.clone()) } else { None };
        let (at, message) = found.unwrap_or((span.start, message));
        FileError { line: line_of(text, at), message }
    })
}

/// The first number of 19 digits or more in a part of a text, and what is wrong with it.
fn long_number(text: &str, part: core::ops::Range<usize>) -> Option<(usize, String)> {
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '_' | '-' | '+');
    let digits = |word: &str| word.chars().filter(char::is_ascii_digit).count();
    let words = text.get(part.clone())?.split(|c| !is_number(c));
    let word = words.into_iter().find(|word| digits(word) >= 19)?;
    let at = word.as_ptr() as usize - text.as_ptr() as usize;
    let key = text[..at].trim_end().strip_suffix('=').map_or("an integer", |before| {
        let is_key = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        before.trim_end().rsplit(|c| !is_key(c)).next().unwrap_or_default()
    });
    let plain: String = word.chars().filter(|c| *c != '_').take(60).collect();
    let cut = if digits(word) > 60 { "…" } else { "" };
    Some((at, format!("{key} is {plain}{cut}, must be 0 to {}", u64::MAX)))
}

/// The line, from 1, in which a byte of a text is.
pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1
}

/// What a parser says over several lines, on one.
pub fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

/// A list of two, neither more nor fewer. TOML's own reader passes over what an array holds
/// beyond what is asked for: `#[serde(deserialize_with = "towpath_qos::file::pair")]`.
pub fn pair<'de, D, T>(from: D) -> Result<[T; 2], D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_seq(PairVisitor(PhantomData))
}

/// A list of pairs of numbers, each of exactly two.
pub(crate) fn pairs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(u64, u64)>, D::Error> {
    let all: Vec<Pair> = Vec::deserialize(from)?;
    Ok(all.into_iter().map(|Pair([first, second])| (first, second)).collect())
}

#[derive(Deserialize, Serialize)]
#[serde(transparent)]
struct Pair(#[serde(deserialize_with = "pair")] [u64; 2]);

struct PairVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PairVisitor<T> {
    type Value = [T; 2];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of two")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<[T; 2], A::Error> {
        let short = |n| de::Error::invalid_length(n, &"two");
        let first = list.next_element()?.ok_or_else(|| short(0))?;
        let second = list.next_element()?.ok_or_else(|| short(1))?;
        let mut count = 2;
        while list.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        if count > 2 { Err(short(count)) } else { Ok([first, second]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Form {
        #[serde(deserialize_with = "pair")]
        ends: [u64; 2],
        #[serde(default, deserialize_with = "pairs")]
        points: Vec<(u64, u64)>,
    }

    fn fault(text: &str) -> String {
        read::<Form>(text, 100).expect_err("faulty").message
    }

    #[test]
    fn two_are_two() {
        let form: Form = read("ends = [1, 2]\npoints = [[3, 4], [5, 6]]", 100).expect("two each");
        assert_eq!((form.ends, form.points), ([1, 2], alloc::vec![(3, 4), (5, 6)]));
        assert_eq!(fault("ends = [1, 2, 3, 4]"), "invalid length 4, expected two");
        assert_eq!(fault("ends = [1]"), "invalid length 1, expected two");
        assert_eq!(fault("ends = [1, 2]\npoints = [[3, 4, 5]]"), "invalid length 3, expected two");
    }

    #[derive(Debug, Deserialize)]
    struct Of {
        #[allow(dead_code, reason = "only read")]
        tspec: crate::spec::TSpecForm,
    }

    /// Beyond 64 and 128 bits, at a key, in a list, and in a table that is read as a whole.
    #[test]
    fn an_integer_that_is_too_long_is_told_with_its_key() {
        let most = "must be 0 to 18446744073709551615";
        let long = "1".repeat(30);
        let said = |of: &str, value: &str| format!("{of} is {value}, {most}");
        let least = "9".repeat(70);
        for value in [&long, &least[..50]] {
            let text = format!("\nends = [\n1, {value}]");
            let error = read::<Form>(&text, 200).expect_err("long");
            assert_eq!((error.line, error.message), (3, said("an integer", value)));
        }
        let text = |rate: &str| {
            format!("tspec = {{ kind = \"sigma_rho\", sigma_bytes = 9,\nrho_bps = {rate} }}")
        };
        for (value, shown) in [(long.clone(), long.clone()), (least.clone(), "9".repeat(60) + "…")]
        {
            let error = read::<Of>(&text(&value), 300).expect_err("long");
            assert_eq!((error.line, error.message), (2, said("rho_bps", &shown)));
        }
    }

    #[test]
    fn a_fault_is_on_one_line_and_names_its_own() {
        let error = read::<Form>("\n\nends = [1, 2]\nwhat = 3\n", 100).expect_err("unknown");
        assert_eq!(error.line, 4);
        assert!(!error.message.contains('\n'), "{error}");
        let long = read::<Form>(&"#".repeat(101), 100).expect_err("long");
        assert_eq!(long.message, "file in bytes is 101, must be 0 to 100");
    }
}
