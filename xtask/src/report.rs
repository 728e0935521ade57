//! What a check says: violations with their place, and errors that end with a `hint:` line.

use std::fmt;

use anyhow::{Result, anyhow};

/// A rule broken at a place. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl Violation {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Turns an error into one that names the thing and says what to do.
pub(crate) trait WithHint<T> {
    fn hint(self, what: impl FnOnce() -> String, hint: &str) -> Result<T>;
}

impl<T, E: fmt::Display> WithHint<T> for Result<T, E> {
    fn hint(self, what: impl FnOnce() -> String, hint: &str) -> Result<T> {
        self.map_err(|source| {
            let source = source.to_string();
            anyhow!("{}: {}\nhint: {hint}", what(), source.trim_end())
        })
    }
}

/// The text for a failed command; a hint is added where the error brought none.
pub(crate) fn failure(error: &anyhow::Error) -> String {
    let text = format!("error: {error:#}");
    if text.contains("\nhint: ") {
        text
    } else {
        text + "\nhint: `cargo xtask --help` lists the commands"
    }
}
