//! `unsafe` only where the house allows it, and there with a `SAFETY:` comment.

use super::source::Kind;
use super::tree::{RustFile, Tree};
use crate::report::Violation;
use crate::rules;

/// How many lines above an unsafe block its comment may end.
const REACH: usize = 6;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &tree.rust {
        let too = rules::MAY_BE_UNSAFE_TOO.iter().any(|folder| file.path.starts_with(folder));
        let allowed = too || rules::rule_of_path(&file.path).is_some_and(|rule| rule.may_be_unsafe);
        check_file(file, allowed, &mut violations);
    }
    violations
}

fn check_file(file: &RustFile, allowed: bool, violations: &mut Vec<Violation>) {
    let tokens = &file.source.tokens;
    for (index, token) in tokens.iter().enumerate() {
        if !token.is(Kind::Ident, "unsafe") {
            continue;
        }
        let line = token.first;
        if !allowed {
            let what = "`unsafe` outside io, pvm3, capi and py";
            violations.push(Violation::new(&file.path, line, what));
            continue;
        }
        // A block or an impl makes a promise; `unsafe fn` and `unsafe extern` ask for one.
        let promises = tokens
            .get(index + 1)
            .is_some_and(|next| next.is(Kind::Open, "{") || next.is(Kind::Ident, "impl"));
        if promises && !has_reason(&file.source.lines, line) {
            let what = format!("no `SAFETY:` comment above (limit {REACH} lines)");
            violations.push(Violation::new(&file.path, line, what));
        }
    }
}

fn has_reason(lines: &[String], line: usize) -> bool {
    let is_comment = |line: usize| lines[line - 1].trim_start().starts_with("//");
    let has_word = |line: usize| {
        let text = &lines[line - 1];
        text.find("//").is_some_and(|start| text[start..].contains("SAFETY:"))
    };
    let nearest = line.saturating_sub(REACH).max(1);
    if (nearest..=line).any(has_word) {
        return true;
    }
    // A long comment may start further up than it ends.
    let Some(mut above) = (nearest..line).find(|line| is_comment(*line)) else { return false };
    while above > 1 && is_comment(above - 1) {
        above -= 1;
        if has_word(above) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|violation| violation.line).collect()
    }

    const IO: &str = "crates/towpath-io/src/x.rs";

    #[test]
    fn unsafe_is_refused_outside_its_crates_even_in_tests() {
        let text = "// SAFETY: no.\nfn f() { unsafe { g() } }\n";
        assert_eq!(found("crates/towpath-vm/src/x.rs", text), [2]);
        assert_eq!(found("crates/towpath-task/tests/x.rs", text), [2]);
        assert!(found(IO, text).is_empty());
    }

    #[test]
    fn a_comment_too_far_above_does_not_count() {
        let text =
            format!("fn f() {{\n// SAFETY: far.\n{}unsafe {{ g() }}\n}}\n", "g();\n".repeat(6));
        assert_eq!(found(IO, &text), [9]);
    }

    #[test]
    fn a_long_comment_counts_where_it_ends() {
        let text =
            format!("// SAFETY: long.\n{}unsafe impl Send for A {{}}\n", "// on\n".repeat(9));
        assert!(found(IO, &text).is_empty());
    }

    #[test]
    fn the_word_in_a_string_is_no_reason_and_declarations_need_none() {
        assert_eq!(found(IO, "fn f() { g(\"SAFETY:\"); unsafe { h() } }\n"), [1]);
        let text = "unsafe extern \"C\" { fn f(); }\n#[unsafe(no_mangle)]\nunsafe fn g() {}\n";
        assert!(found(IO, text).is_empty());
    }
}
