//! The command with its placeholders, as GNU parallel has them.
//!
//! | placeholder | for item `src/io/lib.rs`, the 7th |
//! |---|---|
//! | `{}` | `src/io/lib.rs` |
//! | `{.}` | `src/io/lib` |
//! | `{/}` | `lib.rs` |
//! | `{//}` | `src/io` |
//! | `{/.}` | `lib` |
//! | `{#}` | `7` |
//!
//! A command without any gets the item as its last argument. Anything else in braces stands for
//! itself. The command is not given to a shell: an item is always part of one argument.

/// Why a command is no command.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TemplateError {
    /// There is no program.
    #[error("no command given\nhint: towpath farm gzip -k {{}} ::: *.txt")]
    NoProgram,
    /// An argument holds a NUL byte.
    #[error("argument {number} of the command holds a NUL byte, which no argument can")]
    Nul {
        /// Its number; 0 is the program.
        number: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Item,
    NoExtension,
    Base,
    BaseNoExtension,
    Dir,
    Seq,
}

const PLACEHOLDERS: [(&[u8], Part); 6] = [
    (b"{}", Part::Item),
    (b"{.}", Part::NoExtension),
    (b"{/}", Part::Base),
    (b"{/.}", Part::BaseNoExtension),
    (b"{//}", Part::Dir),
    (b"{#}", Part::Seq),
];

/// Program and arguments with placeholders. Invariants: at least one word; at least one
/// placeholder somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    words: Vec<Vec<Part>>,
}

impl Template {
    /// Parses a program and its arguments.
    ///
    /// ```
    /// use towpath::farm::Template;
    /// let template = Template::new(&[b"cp".to_vec(), b"{}".to_vec(), b"{.}.bak".to_vec()])?;
    /// assert_eq!(template.expand(b"a.txt", 1), [&b"cp"[..], b"a.txt", b"a.bak"]);
    /// # Ok::<(), towpath::farm::TemplateError>(())
    /// ```
    pub fn new(words: &[Vec<u8>]) -> Result<Self, TemplateError> {
        if words.first().is_none_or(Vec::is_empty) {
            return Err(TemplateError::NoProgram);
        }
        if let Some(number) = words.iter().position(|w| w.contains(&0)) {
            return Err(TemplateError::Nul { number });
        }
        let mut words: Vec<Vec<Part>> = words.iter().map(|w| parse(w)).collect();
        if !words.iter().flatten().any(|p| !matches!(p, Part::Text(_))) {
            words.push(vec![Part::Item]);
        }
        Ok(Self { words })
    }

    /// Program and arguments for an item; `seq` is its number from 1.
    pub fn expand(&self, item: &[u8], seq: u64) -> Vec<Vec<u8>> {
        self.words.iter().map(|word| fill(word, item, seq)).collect()
    }

    /// Whether the program itself depends on the item.
    pub fn program_varies(&self) -> bool {
        self.words[0].iter().any(|p| !matches!(p, Part::Text(_)))
    }

    /// Whether the program looks like a whole command line: somebody expects a shell.
    pub fn looks_like_shell(&self) -> bool {
        let blank = |p: &Part| matches!(p, Part::Text(t) if t.iter().any(u8::is_ascii_whitespace));
        self.words[0].iter().any(blank)
    }

    /// The command for an item as one would type it, on one line: quoted for bash where needed.
    pub fn command_line(&self, item: &[u8], seq: u64) -> Vec<u8> {
        let mut line = vec![];
        for word in &self.words {
            if !line.is_empty() {
                line.push(b' ');
            }
            quote(&fill(word, item, seq), &mut line);
        }
        line
    }
}

fn parse(word: &[u8]) -> Vec<Part> {
    let mut parts = vec![];
    let mut text = vec![];
    let mut rest = word;
    while let Some((first, tail)) = rest.split_first() {
        if let Some((mark, part)) = PLACEHOLDERS.iter().find(|(mark, _)| rest.starts_with(mark)) {
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(part.clone());
            rest = &rest[mark.len()..];
        } else {
            text.push(*first);
            rest = tail;
        }
    }
    if !text.is_empty() || parts.is_empty() {
        parts.push(Part::Text(text));
    }
    parts
}

fn fill(word: &[Part], item: &[u8], seq: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(item.len() + 16);
    for part in word {
        match part {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Item => out.extend_from_slice(item),
            Part::NoExtension => out.extend_from_slice(without_extension(item)),
            Part::Base => out.extend_from_slice(basename(item)),
            Part::BaseNoExtension => out.extend_from_slice(without_extension(basename(item))),
            Part::Dir => out.extend_from_slice(dirname(item)),
            Part::Seq => out.extend_from_slice(seq.to_string().as_bytes()),
        }
    }
    out
}

fn basename(item: &[u8]) -> &[u8] {
    item.iter().rposition(|b| *b == b'/').map_or(item, |slash| &item[slash + 1..])
}

fn dirname(item: &[u8]) -> &[u8] {
    match item.iter().rposition(|b| *b == b'/') {
        None => b".",
        Some(0) => b"/",
        Some(slash) => &item[..slash],
    }
}

/// Without the last dot of the last path component and what follows it, if something does.
fn without_extension(item: &[u8]) -> &[u8] {
    let base_at = item.len() - basename(item).len();
    match item.iter().rposition(|b| *b == b'.') {
        Some(dot) if dot >= base_at && dot + 1 < item.len() => &item[..dot],
        _ => item,
    }
}

/// Appends a word as bash reads it back, without line feeds or tabs.
fn quote(word: &[u8], out: &mut Vec<u8>) {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || *b >= 0x80 || b"_@%+=:,./-".contains(b);
    if !word.is_empty() && word.iter().all(plain) {
        out.extend_from_slice(word);
    } else if word.iter().any(u8::is_ascii_control) {
        out.extend_from_slice(b"$'");
        for b in word {
            match b {
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\\' | b'\'' => out.extend_from_slice(&[b'\\', *b]),
                _ if b.is_ascii_control() => {
                    out.extend_from_slice(format!("\\x{b:02x}").as_bytes());
                }
                _ => out.push(*b),
            }
        }
        out.push(b'\'');
    } else {
        out.push(b'\'');
        for b in word {
            match b {
                b'\'' => out.extend_from_slice(b"'\\''"),
                _ => out.push(*b),
            }
        }
        out.push(b'\'');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn template(words: &[&str]) -> Template {
        let words: Vec<Vec<u8>> = words.iter().map(|w| w.as_bytes().to_vec()).collect();
        Template::new(&words).unwrap()
    }

    fn expand(words: &[&str], item: &str) -> Vec<String> {
        let expanded = template(words).expand(item.as_bytes(), 7);
        expanded.into_iter().map(|w| String::from_utf8(w).unwrap()).collect()
    }

    #[test]
    fn placeholders_are_those_of_gnu_parallel() {
        let words = ["x", "{}", "{.}", "{/}", "{//}", "{/.}", "{#}"];
        let lib = ["x", "src/io/lib.rs", "src/io/lib", "lib.rs", "src/io", "lib", "7"];
        assert_eq!(expand(&words, "src/io/lib.rs"), lib);
        assert_eq!(expand(&words, "plain"), ["x", "plain", "plain", "plain", ".", "plain", "7"]);
        assert_eq!(expand(&words, "/a.b/c"), ["x", "/a.b/c", "/a.b/c", "c", "/a.b", "c", "7"]);
        assert_eq!(expand(&words, "/x"), ["x", "/x", "/x", "x", "/", "x", "7"]);
    }

    #[test]
    fn without_placeholder_the_item_is_the_last_argument() {
        assert_eq!(expand(&["gzip", "-k"], "a b"), ["gzip", "-k", "a b"]);
        assert_eq!(expand(&["echo", "{#}"], "a"), ["echo", "7"]);
        assert_eq!(expand(&["awk", "{print}", "{x}{}"], "a"), ["awk", "{print}", "{x}a"]);
    }

    #[test]
    fn an_empty_argument_stays() {
        assert_eq!(expand(&["printf", ""], ""), ["printf", "", ""]);
    }

    #[test]
    fn no_program_and_nul_are_errors() {
        assert_eq!(Template::new(&[]), Err(TemplateError::NoProgram));
        assert_eq!(Template::new(&[vec![]]), Err(TemplateError::NoProgram));
        let nul = Template::new(&[b"a".to_vec(), b"b\0".to_vec()]);
        assert_eq!(nul, Err(TemplateError::Nul { number: 1 }));
    }

    #[test]
    fn a_program_from_the_item_is_noticed() {
        assert!(template(&["./{}"]).program_varies());
        assert!(!template(&["sh", "{}"]).program_varies());
        assert!(template(&["gzip -k {}"]).looks_like_shell());
        assert!(!template(&["sh", "-c", "a b"]).looks_like_shell());
    }

    #[test]
    fn a_command_line_is_what_one_would_type() {
        let line = template(&["sh", "-c", "it's $1", "sh", "{}"]).command_line(b"a\tb", 1);
        assert_eq!(String::from_utf8(line).unwrap(), r"sh -c 'it'\''s $1' sh $'a\tb'");
    }

    proptest! {
        #[test]
        fn an_item_is_one_whole_argument(item in proptest::collection::vec(1u8.., 0..40)) {
            let t = template(&["p", "<{}>"]);
            let expected = [b"<".as_slice(), &item, b">"].concat();
            prop_assert_eq!(t.expand(&item, 1), [b"p".to_vec(), expected]);
        }

        #[test]
        fn a_command_line_is_one_field_of_one_line(item: Vec<u8>) {
            let line = template(&["p", "{.}", "{//}"]).command_line(&item, 1);
            prop_assert!(!line.iter().any(|b| b"\n\t\r".contains(b)));
        }

        #[test]
        fn directory_and_base_make_the_item(item in "[a-z./]{1,12}") {
            let item = item.as_bytes();
            if let Some(slash) = item.iter().rposition(|b| *b == b'/') {
                prop_assert_eq!(basename(item), &item[slash + 1..]);
                prop_assert_eq!(dirname(item), if slash == 0 { b"/" } else { &item[..slash] });
            }
            prop_assert!(item.starts_with(without_extension(item)));
        }
    }
}
