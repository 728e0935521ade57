//! A line cut into words: quotes keep spaces, a backslash keeps what follows.

use anyhow::bail;

/// The words of a line.
pub(super) fn split(line: &str) -> anyhow::Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, '"' | '\'') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        bail!("a {open} has no partner");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_quotes_and_backslashes() {
        for (line, words) in [
            ("", &[][..]),
            ("  a  b ", &["a", "b"]),
            (r#"add 'h so=ms' "" "x\"y" z\ w"#, &["add", "h so=ms", "", "x\"y", "z w"]),
            ("a # b", &["a"]),
            ("a#b '#'", &["a#b", "#"]),
            (r"'a\b'c", &[r"a\bc"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        assert!(split("a 'b").is_err());
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(words in proptest::collection::vec("[^\\\\\"\0\n]{0,8}", 0..6)) {
            let line: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
            prop_assert_eq!(split(&line.join(" ")).unwrap(), words);
        }
    }
}
