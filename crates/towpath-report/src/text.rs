//! Text from elsewhere (names, command lines, errors) on its way to a terminal, which would do what
//! control characters say.
//!
//! They are shown as JSON writes them, `\u001b`, so that JSON stays JSON, and the same.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write;

/// Characters that control a terminal, or the direction in which text runs.
fn is_steering(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whole output: without what controls the terminal, but for the ends of lines and tabs.
pub fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_steering(c) && !matches!(c, '\n' | '\t'))
}

/// A name or a command line, which is to be one field of a line.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_steering)
}

fn escaped(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if is_bad(c) => out.push_str("\\n"),
            '\t' if is_bad(c) => out.push_str("\\t"),
            '\r' if is_bad(c) => out.push_str("\\r"),
            c if is_bad(c) => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Why something failed, cause behind cause, and behind all of them what any of them advises: each
/// `hint: ` on a line of its own.
pub fn causes<'a>(chain: impl IntoIterator<Item = &'a (dyn Error + 'static)>) -> String {
    let (mut why, mut advice) = (String::new(), String::new());
    for cause in chain {
        let text = cause.to_string();
        let (head, hints) = text.split_once("\nhint: ").unwrap_or((&text, ""));
        if !why.is_empty() {
            why.push_str(": ");
        }
        why.push_str(head);
        if !hints.is_empty() {
            advice.push_str("\nhint: ");
            advice.push_str(hints);
        }
    }
    why + &advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug)]
    struct Cause(&'static str, Option<Box<Cause>>);

    impl std::fmt::Display for Cause {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Cause {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &(dyn Error + 'static))
        }
    }

    #[test]
    fn advice_stands_behind_the_causes() {
        let told = |cause: &Cause| {
            let (mut chain, mut next) = (Vec::new(), Some(cause as &(dyn Error + 'static)));
            while let Some(cause) = next {
                chain.push(cause);
                next = cause.source();
            }
            causes(chain)
        };
        let cause = |words, of| Box::new(Cause(words, of));
        let refused = cause("cannot make d0\nhint: it takes root", Some(cause("refused", None)));
        assert_eq!(told(&refused), "cannot make d0: refused\nhint: it takes root");
        let two = Cause("a\nhint: x\nhint: y", Some(cause("b\nhint: z", None)));
        assert_eq!(told(&two), "a: b\nhint: x\nhint: y\nhint: z");
        assert_eq!(told(&Cause("alone", None)), "alone");
    }

    #[test]
    fn what_steers_a_terminal_is_shown() {
        let text = "a\x1b[2J\r\n\tb\u{9b}1m\u{7f}\u{202e}é";
        assert_eq!(harmless(text), "a\\u001b[2J\\r\n\tb\\u009b1m\\u007f\\u202eé");
        assert_eq!(visible(text), "a\\u001b[2J\\r\\n\\tb\\u009b1m\\u007f\\u202eé");
        assert!(matches!(harmless("plain\n"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn json_stays_the_same_json(text: String) {
            let json = serde_json::to_string(&text).unwrap();
            let back: String = serde_json::from_str(&harmless(&json)).unwrap();
            prop_assert_eq!(back, text);
        }

        #[test]
        fn nothing_that_steers_is_left(text: String) {
            prop_assert!(!visible(&text).chars().any(char::is_control));
        }
    }
}
