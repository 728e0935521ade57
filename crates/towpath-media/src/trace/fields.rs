//! Lines and fields of text files, with errors that name the line.

use alloc::borrow::ToOwned;
use alloc::string::String;

use super::TraceError;

/// One line that holds something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// Counted from 1.
    pub(super) number: usize,
    pub(super) text: &'a str,
}

/// Lines that hold something, in order; `#` and `%` start a comment, as in the public traces.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = Result<Line<'_>, TraceError>> + Clone {
    // A mark that some editors put before the first byte.
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    bytes.split(|&b| b == b'\n').enumerate().filter_map(|(index, raw)| {
        let number = index + 1;
        let raw = raw.trim_ascii();
        if raw.is_empty() || raw[0] == b'#' || raw[0] == b'%' {
            return None;
        }
        if !raw.is_ascii() {
            let text = String::from_utf8_lossy(raw).chars().take(TEXT_MAX).collect();
            return Some(Err(TraceError::Line { line: number, what: "not ASCII text", text }));
        }
        let text = core::str::from_utf8(raw).expect("ASCII is UTF-8");
        Some(Ok(Line { number, text }))
    })
}

/// What is wrong with a number of too many digits.
const TOO_LARGE: &str = "a number beyond the limit of 2^64 - 1";

/// Characters of a line that an error repeats.
const TEXT_MAX: usize = 60;

impl<'a> Line<'a> {
    pub(super) fn wrong(self, what: &'static str) -> TraceError {
        TraceError::Line { line: self.number, what, text: self.beginning() }
    }

    pub(super) fn beginning(self) -> String {
        self.text[..self.text.len().min(TEXT_MAX)].to_owned()
    }

    /// Fields between commas, semicolons, blanks and tabs, without quotation marks around them: no
    /// field that is looked at has a comma in it.
    pub(super) fn fields(self) -> impl Iterator<Item = &'a str> {
        let commas = self.text.contains([',', ';']);
        self.text
            .split(move |c: char| if commas { c == ',' || c == ';' } else { c.is_whitespace() })
            .map(|field| unquoted(field.trim()))
            .filter(move |field| commas || !field.is_empty())
    }

    pub(super) fn number(self, field: &str, what: &'static str) -> Result<u64, TraceError> {
        // Spreadsheets write whole numbers with a point, too.
        let (whole, part) = field.split_once('.').unwrap_or((field, ""));
        if part.bytes().any(|b| b != b'0') {
            return Err(self.wrong(what));
        }
        let digits = !whole.is_empty() && whole.bytes().all(|b| b.is_ascii_digit());
        whole.parse().map_err(|_| self.wrong(if digits { TOO_LARGE } else { what }))
    }
}

fn unquoted(field: &str) -> &str {
    let inner = field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(field)
}
