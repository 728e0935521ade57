//! Exceptions to the sizes. A value may fall, never rise: each is compared with what the tree has
//! now, and with the value committed last.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde::Deserialize;

use super::sizes::Excess;
use super::tree::Tree;
use crate::process;
use crate::report::{Violation, WithHint};

const FILE: &str = "xtask/ratchet.toml";

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ratchet {
    #[serde(default)]
    exception: Vec<Exception>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    path: String,
    rule: String,
    #[serde(default)]
    item: String,
    value: usize,
    /// Why the size is right, for the reader.
    why: String,
}

/// What an exception is about: path, rule, item.
type Key = (String, String, String);

impl Exception {
    fn key(&self) -> Key {
        (self.path.clone(), self.rule.clone(), self.item.clone())
    }

    fn place(&self) -> String {
        let item = if self.item.is_empty() { "" } else { " of " };
        format!("{}{item}{} in {}", self.rule, self.item, self.path)
    }
}

pub(super) fn check(tree: &Tree, excesses: Vec<Excess>) -> Result<Vec<Violation>> {
    let text = tree.text(FILE).map_or("", |file| file.text.as_str());
    let now = read(text)?;
    let committed = committed(&tree.root);
    let mut violations = compare(excesses, &now.exception);
    violations.extend(against_committed(&now.exception, &committed.exception));
    for violation in violations.iter_mut().filter(|violation| violation.path == FILE) {
        violation.line = line_of(text, violation.line);
    }
    Ok(violations)
}

fn read(text: &str) -> Result<Ratchet> {
    let hint = "each [[exception]] has path, rule, item (or none), value and why";
    toml::from_str(text).hint(|| format!("cannot read {FILE}"), hint)
}

/// The exceptions of the last commit; none where there is no git, no commit or no such file.
fn committed(root: &Path) -> Ratchet {
    if !root.join(".git").exists() {
        return Ratchet::default();
    }
    let mut show = Command::new("git");
    show.args(["show", &format!("HEAD:{FILE}")]).current_dir(root);
    match process::capture(&mut show) {
        Ok(outcome) if outcome.success => read(&outcome.stdout).unwrap_or_default(),
        _ => Ratchet::default(),
    }
}

/// Sizes against exceptions. Violations in the ratchet file carry the entry's index as line.
fn compare(excesses: Vec<Excess>, exceptions: &[Exception]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut largest: BTreeMap<Key, usize> = BTreeMap::new();
    for excess in excesses {
        let Excess { path, line, rule, item, value } = &excess;
        let (limit, what) = (rule.limit(), excess.what());
        let key = rule.name().map(|name| (path.clone(), name.to_owned(), item.clone()));
        let exception = exceptions.iter().find(|exception| key.as_ref() == Some(&exception.key()));
        if let Some(key) = key {
            let entry = largest.entry(key).or_default();
            *entry = (*entry).max(*value);
        }
        let text = match exception {
            None => format!("too many {what} (limit {limit}, value {value})"),
            Some(exception) if *value > exception.value => {
                format!("more {what} than its exception (limit {}, value {value})", exception.value)
            }
            Some(_) => continue,
        };
        violations.push(Violation::new(path, *line, text));
    }
    for (index, exception) in exceptions.iter().enumerate() {
        let place = exception.place();
        let what = match largest.get(&exception.key()) {
            None => format!("stale exception: {place} is within its limit; remove the entry"),
            Some(value) if *value < exception.value => {
                format!("stale exception: {place} is {value}; lower {} to {value}", exception.value)
            }
            Some(_) if exception.why.trim().is_empty() => {
                format!("the exception {place} says no reason in `why`")
            }
            Some(_) => continue,
        };
        violations.push(Violation::new(FILE, index, what));
    }
    violations
}

fn against_committed(now: &[Exception], committed: &[Exception]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, exception) in now.iter().enumerate() {
        let before = committed.iter().find(|before| before.key() == exception.key());
        if let Some(before) = before.filter(|before| exception.value > before.value) {
            let place = exception.place();
            let what = format!(
                "raised exception: {place} (limit {}, value {})",
                before.value, exception.value
            );
            violations.push(Violation::new(FILE, index, what));
        }
    }
    violations
}

/// The line of the entry with this index.
fn line_of(text: &str, index: usize) -> usize {
    let is_entry = |(_, line): &(usize, &str)| line.trim() == "[[exception]]";
    text.lines().enumerate().filter(is_entry).nth(index).map_or(1, |(line, _)| line + 1)
}

#[cfg(test)]
mod tests {
    use super::super::sizes::Rule;
    use super::*;

    fn excess(value: usize) -> Vec<Excess> {
        let (path, item) = ("a.rs".into(), "f".into());
        vec![Excess { path, line: 3, rule: Rule::FunctionLines, item, value }]
    }

    fn exception(value: usize) -> Vec<Exception> {
        let [path, rule, item] = ["a.rs", "function-lines", "f"].map(str::to_owned);
        vec![Exception { path, rule, item, value, why: "a table".into() }]
    }

    fn said(violations: &[Violation]) -> String {
        violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_exception_that_fits_is_silent() {
        assert_eq!(said(&compare(excess(80), &exception(80))), "");
    }

    #[test]
    fn a_value_may_not_rise() {
        let said = said(&compare(excess(81), &exception(80)));
        assert!(said.contains("a.rs:3: more lines of function `f`"), "{said}");
        assert!(said.contains("(limit 80, value 81)"), "{said}");
    }

    #[test]
    fn a_fallen_value_must_be_written_down() {
        assert!(said(&compare(excess(75), &exception(80))).contains("lower 80 to 75"));
        assert!(said(&compare(Vec::new(), &exception(80))).contains("remove the entry"));
    }

    #[test]
    fn raising_the_entry_with_the_code_is_seen_against_the_commit() {
        let said = said(&against_committed(&exception(90), &exception(80)));
        assert!(said.contains("raised exception") && said.contains("(limit 80, value 90)"));
        assert!(against_committed(&exception(80), &exception(90)).is_empty());
        assert!(against_committed(&exception(80), &[]).is_empty());
    }

    #[test]
    fn the_hard_limit_has_no_exception() {
        let mut hard = excess(1001);
        hard[0].rule = Rule::FileLinesHard;
        assert!(said(&compare(hard, &exception(2000))).contains("code lines in all"));
    }

    #[test]
    fn entries_are_found_by_index() {
        assert_eq!(line_of("# x\n[[exception]]\na = 1\n\n[[exception]]\n", 1), 5);
        assert!(read("[[exception]]\npath = \"a\"\nvalue = 1\n").is_err());
    }
}
