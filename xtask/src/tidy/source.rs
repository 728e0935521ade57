//! One Rust file as tokens with lines. The compiler's own lexer rules (by `proc-macro2`) decide
//! what is code, so strings, raw strings, lifetimes and comments need no care of ours.

use std::mem;
use std::str::FromStr;

use proc_macro2::{Delimiter, LineColumn, Spacing, Span, TokenStream, TokenTree};

use super::shape::Shape;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ident,
    /// A character, or `::` as one token.
    Punct,
    Literal,
    Open,
    Close,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) text: String,
    /// First and last line, from 1.
    pub(super) first: usize,
    pub(super) last: usize,
}

impl Token {
    pub(super) fn is(&self, kind: Kind, text: &str) -> bool {
        self.kind == kind && self.text == text
    }
}

/// `a::b::c` as written, or as a `use a::{b::c, d}` means it.
#[derive(Debug)]
pub(super) struct PathUse {
    pub(super) line: usize,
    pub(super) segments: Vec<String>,
}

impl PathUse {
    pub(super) fn starts_with(&self, segments: &[&str]) -> bool {
        self.segments.len() >= segments.len()
            && self.segments.iter().zip(segments).all(|(have, want)| have == want)
    }

    pub(super) fn ends_with(&self, segments: &[&str]) -> bool {
        self.segments.len() >= segments.len()
            && self
                .segments
                .iter()
                .rev()
                .zip(segments.iter().rev())
                .all(|(have, want)| have == want)
    }
}

pub(super) struct Source {
    pub(super) lines: Vec<String>,
    pub(super) tokens: Vec<Token>,
    pub(super) shape: Shape,
    pub(super) syntax: syn::File,
    /// Index 0 is line 1: does the line carry code, that is, more than comments and blanks?
    code: Vec<bool>,
}

impl Source {
    /// Reads a file; an error comes with its line.
    pub(super) fn read(text: &str) -> Result<Self, (usize, String)> {
        let failed = |span: Span, error: String| (span.start().line.max(1), error);
        let text = without_shebang(text);
        let stream = TokenStream::from_str(&text)
            .map_err(|error| failed(error.span(), error.to_string()))?;
        let syntax: syn::File =
            syn::parse2(stream.clone()).map_err(|error| failed(error.span(), error.to_string()))?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut tokens = Vec::new();
        flatten(stream, &lines, &mut tokens);
        let mut code = vec![false; lines.len()];
        for token in &tokens {
            code[token.first - 1..token.last].fill(true);
        }
        let shape = Shape::of(&syntax, &lines, &code);
        Ok(Self { lines, tokens, shape, syntax, code })
    }

    /// Code lines of the file, without those in `#[cfg(test)] mod` where asked.
    pub(super) fn code_lines(&self, with_tests: bool) -> usize {
        let counts = |line: usize| with_tests || !self.shape.in_test_module(line);
        (1..=self.code.len()).filter(|line| self.code[line - 1] && counts(*line)).count()
    }

    /// Every path in the code, in order.
    pub(super) fn paths(&self) -> Vec<PathUse> {
        paths(&self.tokens)
    }

    /// Lines where the given tokens follow each other.
    pub(super) fn lines_with(&self, sequence: &[&str]) -> Vec<usize> {
        let matches = |window: &&[Token]| window.iter().zip(sequence).all(|(t, s)| t.text == *s);
        self.tokens.windows(sequence.len()).filter(matches).map(|window| window[0].first).collect()
    }
}

fn without_shebang(text: &str) -> String {
    if text.starts_with("#!") && !text.starts_with("#![") {
        format!("//{text}")
    } else {
        text.to_owned()
    }
}

fn flatten(stream: TokenStream, lines: &[String], out: &mut Vec<Token>) {
    let mut joint = false;
    for tree in stream {
        let span = tree.span();
        if is_comment_at(lines, span.start()) {
            continue;
        }
        let after_joint = mem::replace(&mut joint, false);
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                push(out, Kind::Open, open, group.span_open());
                flatten(group.stream(), lines, out);
                push(out, Kind::Close, close, group.span_close());
            }
            TokenTree::Punct(punct) => {
                joint = punct.spacing() == Spacing::Joint;
                match out.last_mut() {
                    Some(last) if after_joint && punct.as_char() == ':' && last.text == ":" => {
                        last.text = "::".into();
                    }
                    _ => push(out, Kind::Punct, &punct.as_char().to_string(), span),
                }
            }
            TokenTree::Ident(ident) => push(out, Kind::Ident, &ident.to_string(), span),
            TokenTree::Literal(literal) => push(out, Kind::Literal, &literal.to_string(), span),
        }
    }
}

fn push(out: &mut Vec<Token>, kind: Kind, text: &str, span: Span) {
    let (first, last) = (span.start().line, span.end().line);
    out.push(Token { kind, text: text.into(), first, last });
}

/// Documentation comments come out of the lexer as attributes that start at the comment.
fn is_comment_at(lines: &[String], place: LineColumn) -> bool {
    let Some(line) = lines.get(place.line - 1) else { return false };
    let rest: String = line.chars().skip(place.column).take(2).collect();
    rest == "//" || rest == "/*"
}

fn paths(tokens: &[Token]) -> Vec<PathUse> {
    let mut found = Vec::new();
    // For each open delimiter, the path in front of it: `std` inside `std::{...}`.
    let mut prefixes: Vec<Vec<String>> = vec![Vec::new()];
    let mut pending = Vec::new();
    let mut next = 0;
    while let Some(token) = tokens.get(next) {
        next += 1;
        match token.kind {
            Kind::Open => prefixes.push(mem::take(&mut pending)),
            Kind::Close => {
                prefixes.pop();
            }
            Kind::Ident => {
                let mut segments = prefixes.last().cloned().unwrap_or_default();
                if token.text != "self" || segments.is_empty() {
                    segments.push(token.text.clone());
                }
                next = extend(tokens, next, &mut segments, &mut pending);
                found.push(PathUse { line: token.first, segments });
            }
            Kind::Punct | Kind::Literal => {}
        }
    }
    found
}

/// Takes `::name` while it goes on; at `::{` leaves the path as `pending` prefix of the group.
fn extend(
    tokens: &[Token],
    mut next: usize,
    segments: &mut Vec<String>,
    pending: &mut Vec<String>,
) -> usize {
    while let (Some(colons), Some(after)) = (tokens.get(next), tokens.get(next + 1)) {
        if !colons.is(Kind::Punct, "::") {
            break;
        }
        if after.is(Kind::Open, "{") {
            pending.clone_from(segments);
            return next + 1;
        }
        if after.kind != Kind::Ident {
            break;
        }
        segments.push(after.text.clone());
        next += 2;
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Source {
        Source::read(text).expect("valid Rust")
    }

    fn joined(text: &str) -> Vec<String> {
        read(text).paths().iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn strings_comments_and_lifetimes_are_not_code() {
        let text = "/// thread::sleep\nfn f<'a>(s: &'a str) -> char {\n    // dbg!(s)\n    \
                    let _ = r#\"todo!() \" \"#; /* { */\n    '\"'\n}\n";
        let source = read(text);
        assert!(source.lines_with(&["dbg", "!"]).is_empty());
        assert!(source.lines_with(&["todo", "!"]).is_empty());
        assert!(!joined(text).contains(&"thread::sleep".to_owned()));
        assert_eq!(source.code_lines(true), 4);
    }

    #[test]
    fn a_multi_line_string_counts_every_line() {
        assert_eq!(read("const S: &str = \"a\n\n// b\";\n\n// c\n").code_lines(true), 3);
    }

    #[test]
    fn grouped_and_nested_uses_are_expanded() {
        let paths = joined("use std::{net::{self, UdpSocket}, time::Instant as T, io};");
        for wanted in ["std::net", "std::net::UdpSocket", "std::time::Instant", "std::io"] {
            assert!(paths.contains(&wanted.to_owned()), "{wanted} in {paths:?}");
        }
    }

    #[test]
    fn paths_inside_macros_and_after_a_group_are_seen() {
        let paths = joined("fn f() { assert!(::std::time::now() > a::B { c: 1 }.c); rand::x(); }");
        assert!(paths.contains(&"std::time::now".to_owned()));
        assert!(paths.contains(&"rand::x".to_owned()));
        assert!(paths.contains(&"c".to_owned()));
    }

    #[test]
    fn an_error_has_its_line() {
        let Err((line, _)) = Source::read("fn a() {}\nfn {}\n") else { panic!("not Rust") };
        assert_eq!(line, 2);
    }

    #[test]
    fn test_modules_are_left_out_of_the_length() {
        let source = read("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n");
        assert_eq!(source.code_lines(false), 1);
        assert_eq!(source.code_lines(true), 5);
    }
}
