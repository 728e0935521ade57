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
//! | `{1}`, `{2}`, `{-1}` | the first, second, last column of an item that has several |
//! | `{1.}`, `{2/}`, … | the same of one column |
//!
//! A command without any gets the item as its last argument. An item of several columns is as many
//! arguments where `{}` stands alone, else they stand in one argument with blanks between them.
//! `{%}`, `{##}` and `{= … =}` of GNU parallel are refused, and numbers of columns that there are
//! not; anything else in braces stands for itself. The command is not given to a shell: a column
//! is always part of one argument.

use super::input::{Item, Items};

/// Why a command is no command, or none for these items.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
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
    /// A placeholder of GNU parallel that is not known here.
    #[error(
        "`{mark}` of the command: {why}\n\
         hint: with --plain-braces it stands for itself"
    )]
    Unknown {
        /// The placeholder.
        mark: String,
        /// What it would be.
        why: &'static str,
    },
    /// A column that an item does not have.
    #[error(
        "`{mark}` of the command: item {number} has {}\n\
         hint: give as many after `:::`, with --colsep or -N; with --plain-braces `{mark}` stands \
         for itself",
        counted(*columns)
    )]
    NoColumn {
        /// The placeholder.
        mark: String,
        /// Number of the item, from 1.
        number: u64,
        /// How many columns it has.
        columns: usize,
    },
}

fn counted(columns: usize) -> String {
    format!("{columns} column{}", if columns == 1 { "" } else { "s" })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    All,
    /// From 1.
    Column(u32),
    /// From the end, which is 1.
    FromEnd(u32),
}

/// What is taken of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Whole,
    NoExtension,
    Base,
    BaseNoExtension,
    Dir,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Value { which: Which, cut: Cut },
    Seq,
}

const CUTS: [(&[u8], Cut); 5] = [
    (b"", Cut::Whole),
    (b".", Cut::NoExtension),
    (b"/", Cut::Base),
    (b"/.", Cut::BaseNoExtension),
    (b"//", Cut::Dir),
];
/// What GNU parallel knows, and we do not.
const UNKNOWN: [(&[u8], &str); 3] = [
    (b"{%}", "the number of a job slot, which hosts do not tell"),
    (b"{##}", "how many items there are, which is not known here"),
    (b"{=", "an expression in Perl, which is not understood here"),
];

/// Program and arguments with placeholders. Invariants: at least one word; at least one
/// placeholder somewhere, unless items are the command's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    words: Vec<Vec<Part>>,
}

impl Template {
    /// Parses a program and its arguments.
    ///
    /// ```
    /// use towpath::farm::{Item, Template};
    /// let template = Template::new(&[b"cp".to_vec(), b"{}".to_vec(), b"{.}.bak".to_vec()])?;
    /// assert_eq!(template.expand(Item::of(b"a.txt"), 1), [&b"cp"[..], b"a.txt", b"a.bak"]);
    /// # Ok::<(), towpath::farm::TemplateError>(())
    /// ```
    pub fn new(words: &[Vec<u8>]) -> Result<Self, TemplateError> {
        check(words)?;
        Ok(Self::of(words.iter().map(|word| parse(word, true)).collect::<Result<_, _>>()?))
    }

    /// The same with the placeholders of one column only: `{1}` and its like stand for themselves.
    pub fn plain(words: &[Vec<u8>]) -> Result<Self, TemplateError> {
        check(words)?;
        Ok(Self::of(words.iter().map(|word| parse(word, false)).collect::<Result<_, _>>()?))
    }

    /// A command whose items are its input: only `{#}` is a placeholder.
    pub fn of_input(words: &[Vec<u8>]) -> Result<Self, TemplateError> {
        check(words)?;
        let words = words.iter().map(|word| parse(word, true)).collect::<Result<Vec<_>, _>>()?;
        if words.iter().flatten().any(|part| matches!(part, Part::Value { .. })) {
            return Err(TemplateError::Unknown {
                mark: "{}".into(),
                why: "with --pipe an item is the command's input, not an argument",
            });
        }
        Ok(Self { words })
    }

    fn of(mut words: Vec<Vec<Part>>) -> Self {
        if !words.iter().flatten().any(|p| !matches!(p, Part::Text(_))) {
            words.push(vec![Part::Value { which: Which::All, cut: Cut::Whole }]);
        }
        Self { words }
    }

    /// Whether every item has the columns that the command names. Where `last_may_lack`, what the
    /// last item lacks is empty.
    pub fn check(&self, items: &Items, last_may_lack: bool) -> Result<(), TemplateError> {
        let whichs = self.words.iter().flatten().filter_map(|part| match part {
            Part::Value { which: Which::Column(n), .. } => Some((*n, "")),
            Part::Value { which: Which::FromEnd(n), .. } => Some((*n, "-")),
            _ => None,
        });
        let Some((wanted, sign)) = whichs.max() else { return Ok(()) };
        let count = items.len() - u32::from(last_may_lack && items.len() > 1);
        for index in 0..count {
            let columns = items.at(index).columns().count();
            if columns < wanted as usize {
                let (mark, number) = (format!("{{{sign}{wanted}}}"), u64::from(index) + 1);
                return Err(TemplateError::NoColumn { mark, number, columns });
            }
        }
        Ok(())
    }

    /// Program and arguments for an item; `seq` is its number from 1.
    pub fn expand(&self, item: Item<'_>, seq: u64) -> Vec<Vec<u8>> {
        let mut words = Vec::with_capacity(self.words.len());
        for word in &self.words {
            match word.as_slice() {
                [Part::Value { which: Which::All, cut }] => {
                    words.extend(item.columns().map(|column| cut.of(column).to_vec()));
                }
                parts => words.push(fill(parts, item, seq)),
            }
        }
        words
    }

    /// Whether the program itself depends on the item.
    pub fn program_varies(&self) -> bool {
        self.words[0].iter().any(|p| !matches!(p, Part::Text(_)))
    }

    /// What to say to somebody who seems to expect a shell.
    pub(super) fn shell_hint(&self) -> Option<&'static str> {
        self.looks_like_shell().then_some(
            "no shell is involved, and that is the name of no program; for a shell, run \
             `sh -c '…' sh {}`",
        )
    }

    /// Whether the program looks like a whole command line: somebody expects a shell.
    pub fn looks_like_shell(&self) -> bool {
        let blank = |p: &Part| matches!(p, Part::Text(t) if t.iter().any(u8::is_ascii_whitespace));
        self.words[0].iter().any(blank)
    }

    /// The command for an item as one would type it, on one line: quoted for bash where needed.
    pub fn command_line(&self, item: Item<'_>, seq: u64) -> Vec<u8> {
        let mut line = vec![];
        for word in self.expand(item, seq) {
            if !line.is_empty() {
                line.push(b' ');
            }
            quote(&word, &mut line);
        }
        line
    }
}

fn check(words: &[Vec<u8>]) -> Result<(), TemplateError> {
    if words.first().is_none_or(Vec::is_empty) {
        return Err(TemplateError::NoProgram);
    }
    match words.iter().position(|w| w.contains(&0)) {
        Some(number) => Err(TemplateError::Nul { number }),
        None => Ok(()),
    }
}

/// Parses a word; `numbers`: with the placeholders that name columns.
fn parse(word: &[u8], numbers: bool) -> Result<Vec<Part>, TemplateError> {
    let mut parts = vec![];
    let mut text = vec![];
    let mut rest = word;
    while let Some((first, tail)) = rest.split_first() {
        let unknown = UNKNOWN.iter().find(|(mark, _)| numbers && rest.starts_with(mark));
        if let Some((mark, why)) = unknown {
            let mark = String::from_utf8_lossy(mark).into_owned();
            return Err(TemplateError::Unknown { mark, why });
        }
        if let Some((part, len)) = placeholder(rest, numbers) {
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(part);
            rest = &rest[len..];
        } else {
            text.push(*first);
            rest = tail;
        }
    }
    if !text.is_empty() || parts.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}

/// The placeholder that a text begins with, and its length.
fn placeholder(text: &[u8], numbers: bool) -> Option<(Part, usize)> {
    let inner = text.strip_prefix(b"{")?;
    let end = inner.iter().position(|b| *b == b'}')?;
    let (inner, len) = (&inner[..end], end + 2);
    if inner == b"#" {
        return Some((Part::Seq, len));
    }
    let unsigned = inner.strip_prefix(b"-").unwrap_or(inner);
    let digits = unsigned.iter().take_while(|b| b.is_ascii_digit()).count();
    let cut = CUTS.iter().find(|(mark, _)| *mark == &unsigned[digits..])?.1;
    let number = str::from_utf8(&unsigned[..digits]).ok()?.parse().ok().filter(|n| *n > 0);
    let which = match number {
        None if inner.len() == unsigned.len() && digits == 0 => Which::All,
        Some(number) if numbers && inner.len() == unsigned.len() => Which::Column(number),
        Some(number) if numbers => Which::FromEnd(number),
        _ => return None,
    };
    Some((Part::Value { which, cut }, len))
}

fn fill(word: &[Part], item: Item<'_>, seq: u64) -> Vec<u8> {
    let mut out = vec![];
    for part in word {
        match part {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Seq => out.extend_from_slice(seq.to_string().as_bytes()),
            Part::Value { which, cut } => {
                let mut columns = item.columns();
                let one = match which {
                    Which::All => {
                        let columns: Vec<_> = columns.map(|column| cut.of(column)).collect();
                        out.extend_from_slice(&columns.join(&b' '));
                        continue;
                    }
                    Which::Column(number) => columns.nth(*number as usize - 1),
                    Which::FromEnd(number) => columns.nth_back(*number as usize - 1),
                };
                out.extend_from_slice(cut.of(one.unwrap_or_default()));
            }
        }
    }
    out
}

impl Cut {
    fn of(self, column: &[u8]) -> &[u8] {
        match self {
            Self::Whole => column,
            Self::NoExtension => without_extension(column),
            Self::Base => basename(column),
            Self::BaseNoExtension => without_extension(basename(column)),
            Self::Dir => dirname(column),
        }
    }
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
        let expanded = template(words).expand(Item::of(item.as_bytes()), 7);
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

    fn several(columns: &[&str]) -> Items {
        let mut items = Items::default();
        items.push_columns(columns.iter().map(|c| c.as_bytes())).unwrap();
        items
    }

    #[test]
    fn columns_have_numbers() {
        let items = several(&["d/a.txt", "2"]);
        let expand = |words: &[&str]| -> Vec<String> {
            let expanded = template(words).expand(items.at(0), 7);
            expanded.into_iter().map(|w| String::from_utf8(w).unwrap()).collect()
        };
        assert_eq!(expand(&["x", "{2}-{1/.}", "{-1}", "{-2/}"]), ["x", "2-a", "2", "a.txt"]);
        assert_eq!(expand(&["x", "{}", "<{}>"]), ["x", "d/a.txt", "2", "<d/a.txt 2>"]);
        assert_eq!(expand(&["x", "{.}"]), ["x", "d/a", "2"]);
        assert_eq!(expand(&["x"]), ["x", "d/a.txt", "2"]);
        assert_eq!(expand(&["x", "{0}{01x}", "{2}"]), ["x", "{0}{01x}", "2"]);
    }

    #[test]
    fn a_column_that_is_not_there_is_refused() {
        let (one, two) = (several(&["a"]), several(&["a", "b"]));
        assert_eq!(template(&["x", "{1}"]).check(&one, false), Ok(()));
        let says = |words: &[&str], items: &Items| {
            template(words).check(items, false).unwrap_err().to_string()
        };
        assert!(
            says(&["grep", "a{5}"], &one).starts_with("`{5}` of the command: item 1 has 1 col")
        );
        assert!(
            says(&["x", "{1}{-3/}"], &two).starts_with("`{-3}` of the command: item 1 has 2 c")
        );
        let mut ragged = several(&["a", "b"]);
        ragged.push(b"c").unwrap();
        assert!(says(&["x", "{2}"], &ragged).contains("item 2 has 1 column\n"));
        assert_eq!(template(&["x", "{2}"]).check(&ragged, true), Ok(()));
        let plain = Template::plain(&[b"grep".to_vec(), b"a{5}".to_vec()]).unwrap();
        assert_eq!(plain.check(&one, false), Ok(()));
        assert_eq!(plain.expand(one.at(0), 1), [&b"grep"[..], b"a{5}", b"a"]);
    }

    #[test]
    fn what_only_gnu_parallel_knows_is_refused() {
        for mark in ["{%}", "{##}", "{= $_ =}"] {
            let words = [b"echo".to_vec(), mark.into()];
            let said = Template::new(&words).unwrap_err().to_string();
            assert!(
                said.starts_with(&format!("`{}", &mark[..2])) && said.contains("hint:"),
                "{said}"
            );
            Template::plain(&words).unwrap();
        }
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
        let line =
            template(&["sh", "-c", "it's $1", "sh", "{}"]).command_line(Item::of(b"a\tb"), 1);
        assert_eq!(String::from_utf8(line).unwrap(), r"sh -c 'it'\''s $1' sh $'a\tb'");
    }

    proptest! {
        #[test]
        fn a_column_is_one_whole_argument(item in proptest::collection::vec(1u8.., 0..40)) {
            let t = template(&["p", "<{}>"]);
            let expected = [b"<".as_slice(), &item, b">"].concat();
            prop_assert_eq!(t.expand(Item::of(&item), 1), [b"p".to_vec(), expected]);
        }

        #[test]
        fn a_command_line_is_one_field_of_one_line(
            item in proptest::collection::vec(1u8.., 0..40),
        ) {
            let line = template(&["p", "{.}", "{//}"]).command_line(Item::of(&item), 1);
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
