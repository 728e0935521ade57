//! The words of a farm: the command, then where its items come from.

use std::ffi::OsString;

use anyhow::bail;

/// What stands after one `:::`, `:::+`, `::::` or `::::+`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Given<'a> {
    pub(super) words: &'a [OsString],
    /// The words name files.
    pub(super) files: bool,
    /// They go together with those before.
    pub(super) linked: bool,
}

/// A command and its items, if they stand behind it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words<'a> {
    pub(super) command: &'a [OsString],
    pub(super) given: Vec<Given<'a>>,
}

/// `files` and `linked` of what begins a list.
fn mark(word: &OsString) -> Option<(bool, bool)> {
    match word.to_str()? {
        ":::" => Some((false, false)),
        ":::+" => Some((false, true)),
        "::::" => Some((true, false)),
        "::::+" => Some((true, true)),
        _ => None,
    }
}

impl<'a> Words<'a> {
    pub(super) fn of(words: &'a [OsString]) -> anyhow::Result<Self> {
        let end = |from: usize| {
            let next = words[from..].iter().position(|word| mark(word).is_some());
            next.map_or(words.len(), |at| from + at)
        };
        let mut at = end(0);
        let mut found = Self { command: &words[..at], given: vec![] };
        while let Some((files, linked)) = words.get(at).and_then(mark) {
            if linked && found.given.is_empty() {
                let sign = words[at].display();
                bail!("`{sign}` goes with the source before it, and there is none\nhint: `:::`");
            }
            let next = end(at + 1);
            let listed = &words[at + 1..next];
            if files && listed.is_empty() {
                bail!("no file after `{}`\nhint: :::: FILE…", words[at].display());
            }
            found.given.push(Given { words: listed, files, linked });
            at = next;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn lists_end_where_the_next_begins() {
        let all = words("x {1} ::: a b :::+ 1 2 :::: f g ::: ");
        let found = Words::of(&all[..all.len() - 1]).unwrap();
        assert_eq!(found.command, words("x {1}"));
        let shapes: Vec<_> =
            found.given.iter().map(|g| (g.words.len(), g.files, g.linked)).collect();
        let expected = [(2, false, false), (2, false, true), (2, true, false), (0, false, false)];
        assert_eq!(shapes, expected);
        let none = words("x y");
        assert!(Words::of(&none).unwrap().given.is_empty());
    }

    #[test]
    fn lists_that_make_no_sense_are_refused() {
        for wrong in ["x :::+ a", "x ::::+ f", "x ::::", "x ::: a ::::"] {
            let said = Words::of(&words(wrong)).unwrap_err().to_string();
            assert!(said.contains("hint:"), "{wrong}: {said}");
        }
    }
}
